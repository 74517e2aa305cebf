//! Wire formats: simulated segments rendered as IP packets, and captured packets parsed.
//!
//! * [`options`]: TCP options in raw bytes, including unknown and experimental kinds.
//! * [`mod@render`]: a [`Segment`](lasthop::segment::Segment) as an IPv4 packet with valid
//!   checksums.
//! * [`mod@parse`] and [`mod@patch`]: read and edit the headers of IPv4 and IPv6 packets in place.
//! * [`snack`]: selective negative acknowledgments as a TCP option.
//! * [`link`]: link-layer header types.
//! * [`encapsulation`]: the innermost IP packet in a captured frame.
//! * [`offload`]: packets that a kernel leaves to the device to split.
//! * [`datagram`]: UDP datagrams and ICMP errors.
//! * [`icmp`]: ICMP errors about TCP segments.
//! * [`path_mtu`]: packets that are larger than the MTU of a link.
//! * [`tuple_hash`]: a keyed hash for tables of connections.
//! * [`capture`]: write pcapng; read pcapng and legacy pcap.
//!
//! No function in this crate panics, whatever bytes it is given.

#![deny(clippy::indexing_slicing)]
#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

mod addressing;
pub mod capture;
pub mod datagram;
pub mod encapsulation;
pub mod icmp;
pub mod link;
pub mod offload;
pub mod options;
pub mod parse;
pub mod patch;
pub mod path_mtu;
pub mod render;
pub mod snack;
pub mod tuple_hash;

pub use addressing::{Addressing, HIGH_DROP_PRECEDENCE, LOW_DROP_PRECEDENCE};
pub use capture::exact::ExactFields;
pub use capture::reader::{CaptureReader, ReadError};
pub use capture::remark::Remark;
pub use capture::report::LinkReport;
pub use capture::writer::{CaptureWriter, WriteError};
pub use capture::{Interface, Packet};
pub use encapsulation::{Encapsulation, innermost};
pub use icmp::{IcmpError, Problem, icmp_error};
pub use link::LinkType;
pub use parse::{NotTcp, TcpPacket, has_valid_checksum, parse};
pub use patch::{Patch, mark_congestion_experienced, patch};
pub use render::{Endpoints, Numbering, Side, assemble, render, render_with};
