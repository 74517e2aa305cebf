//! Who sends a packet to whom, and the fields of its IP header.

use std::net::SocketAddr;

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
