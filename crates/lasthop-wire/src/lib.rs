//! Real bytes: what simulated segments look like on a wire, and what packets from a wire say.
//!
//! * [`options`]: TCP options over raw bytes, unknown and experimental kinds included.
//! * [`mod@render`]: a [`Segment`](lasthop::segment::Segment) as an IPv4 packet with valid
//!   checksums.
//! * [`mod@parse`] and [`mod@patch`]: headers of IPv4 and IPv6 packets, read and edited in place.
//! * [`snack`]: selective negative acknowledgments as a TCP option.
//! * [`link`]: where the IP packet begins in a frame of a capture.
//! * [`capture`]: pcapng written, pcapng and legacy pcap read.
//!
//! No function here panics, whatever the bytes.

pub mod capture;
pub mod link;
pub mod options;
pub mod parse;
pub mod patch;
pub mod render;
pub mod snack;

pub use capture::reader::{CaptureReader, ReadError};
pub use capture::remark::Remark;
pub use capture::writer::{CaptureWriter, WriteError};
pub use capture::{Interface, Packet};
pub use link::LinkType;
pub use parse::{NotTcp, TcpPacket, parse};
pub use patch::{Patch, patch};
pub use render::{Addressing, Endpoints, Numbering, Side, assemble, render, render_with};
