//! Captures: pcapng (draft-ietf-opsawg-pcapng) written and read, legacy pcap
//! (draft-ietf-opsawg-pcap) read.
//!
//! Time is nanoseconds since 1970 in captures from a network and since the start of the run in
//! simulated ones.

pub mod reader;
pub mod remark;
pub mod writer;

use lasthop::units::Time;

use crate::link::LinkType;

/// An interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name; empty if the capture gives none.
    pub name: String,
    /// What it is, for people.
    pub description: String,
    /// What its frames begin with.
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
    /// When it was captured.
    pub time: Time,
    /// Its bytes as far as they were captured, link header included.
    pub data: Vec<u8>,
    /// Its length on the wire, bytes.
    pub original_len: u32,
    /// The first comment on it.
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
