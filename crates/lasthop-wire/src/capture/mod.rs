//! Captures: reads and writes pcapng (draft-ietf-opsawg-pcapng), reads legacy pcap
//! (draft-ietf-opsawg-pcap).
//!
//! Times are nanoseconds since 1970-01-01 (UTC) in captures of a real network, and nanoseconds
//! since the start of the run in captures of a simulation.

pub mod exact;
pub mod reader;
pub mod remark;
pub mod report;
pub mod writer;

use lasthop::units::Time;

use crate::link::LinkType;

/// An interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name; empty if the capture gives none.
    pub name: String,
    /// Human-readable description; empty if the capture gives none.
    pub description: String,
    /// Link-layer header type of its frames.
    pub link_type: LinkType,
}

impl Interface {
    /// An interface whose packets begin with their IP header.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Interface {
        Interface { name: name.into(), description: description.into(), link_type: LinkType::RAW }
    }
}

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Index of its interface in [`CaptureReader::interfaces`](reader::CaptureReader::interfaces).
    pub interface: usize,
    /// Capture time.
    pub time: Time,
    /// Captured bytes, including the link header; fewer than `original_len` if truncated.
    pub data: Vec<u8>,
    /// Length on the wire, bytes.
    pub original_len: u32,
    /// The first comment of the packet (pcapng `opt_comment`), if any.
    pub comment: Option<String>,
}

/// Block types and option codes of pcapng.
mod code {
    pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub const BYTE_ORDER: u32 = 0x1a2b_3c4d;
    pub const INTERFACE: u32 = 1;
    pub const OLD_PACKET: u32 = 2;
    pub const SIMPLE_PACKET: u32 = 3;
    pub const ENHANCED_PACKET: u32 = 6;

    pub const END: u16 = 0;
    pub const COMMENT: u16 = 1;
    pub const USER_APPLICATION: u16 = 4;
    pub const IF_NAME: u16 = 2;
    pub const IF_DESCRIPTION: u16 = 3;
    pub const IF_TSRESOL: u16 = 9;
    pub const IF_TSOFFSET: u16 = 14;
}
