//! Who sends a packet to whom, and the fields of its IP header.

use std::net::SocketAddr;

/// DSCP fields of two drop precedences of one class (RFC 2597, section 6: AF11, AF13), in the place
/// that they have in the traffic class.
pub const LOW_DROP_PRECEDENCE: u8 = 10 << 2;
/// The one that is dropped first.
pub const HIGH_DROP_PRECEDENCE: u8 = 14 << 2;

/// The fields of an IP header except lengths and checksums, plus the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressing {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Type of service or traffic class: DSCP and, in the two low bits, ECN.
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
}

impl Addressing {
    /// Source and destination swapped.
    pub fn reversed(self) -> Addressing {
        Addressing { source: self.destination, destination: self.source, ..self }
    }
}
