//! Addresses of the mobile's peers as the network outside knows them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::place::Addresses;

/// The network outside.
#[derive(Clone, Copy, Debug)]
pub struct Outside {
    /// The addresses that stand for the loopback addresses.
    pub server: Addresses,
}

impl Outside {
    /// Where a packet of the mobile for `destination` goes outside.
    pub fn address(&self, destination: SocketAddr) -> SocketAddr {
        let ip = match destination.ip() {
            IpAddr::V4(v4) if v4 == self.server.v4 => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(v6) if v6 == self.server.v6 => Ipv6Addr::LOCALHOST.into(),
            other => other,
        };
        SocketAddr::new(ip, destination.port())
    }
}
