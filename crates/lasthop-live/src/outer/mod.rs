//! The network of the caller behind a link, for links whose user names no server.
//!
//! Nothing of the caller's network is changed, and no rights in it are needed: lasthop opens
//! ordinary sockets there, which vanish with it. The server's end of the link accepts each TCP
//! connection of the mobile, whatever its destination, and the data is copied between it and a
//! connection to that destination ([`tcp`]). So the link sees the TCP of this machine's kernel at
//! both ends. Datagrams are sent and received by a socket for each pair of ends ([`udp`]). Other
//! protocols are answered with "network unreachable". The address of the server stands for the
//! loopback address of the caller, where its servers are.

pub mod outside;
pub mod tcp;
pub mod udp;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::{Command, Stdio};

use crate::place::namespace::Namespace;
use crate::place::{Addresses, DEVICE};

/// The listeners of a [`Relay`](tcp::Relay), to which the connections of the mobile are led.
/// `namespace` is that of the server's end, where all addresses have to be local.
///
/// # Errors
///
/// If nftables are not to be had.
pub fn listeners(namespace: &Namespace, server: Addresses) -> io::Result<Vec<TcpListener>> {
    namespace.inside(|| {
        let v4 = tcp::listener(Ipv4Addr::UNSPECIFIED.into())?;
        let rules = rules("ip", server.v4.into(), v4.local_addr()?.port());
        nft(&rules)?;
        // A kernel without IPv6 has IPv4 only.
        let v6 = tcp::listener(Ipv6Addr::UNSPECIFIED.into()).and_then(|v6| {
            nft(&self::rules("ip6", server.v6.into(), v6.local_addr()?.port()))?;
            Ok(v6)
        });
        Ok([Some(v4), v6.ok()].into_iter().flatten().collect())
    })
}

/// Tries whether the tables of [`listeners`] can be had, in the namespace of the calling thread.
///
/// # Errors
///
/// The reason why not.
pub fn try_tables() -> io::Result<()> {
    nft(&rules("ip", Ipv4Addr::LOCALHOST.into(), 1))
}

/// Rules for what the mobile sends: TCP to anybody goes to the listener at `port`. What is for
/// nobody here is refused.
fn rules(family: &str, server: IpAddr, port: u16) -> String {
    let (also, refusal) = match server {
        IpAddr::V4(_) => ("224.0.0.0/4", "icmp type net-unreachable"),
        IpAddr::V6(_) => ("{ fe80::/10, ff00::/8 }", "icmpv6 type no-route"),
    };
    format!(
        "table {family} lasthop {{\n\
         chain outer {{\n\
         type filter hook prerouting priority mangle; policy accept;\n\
         iifname != \"{DEVICE}\" accept\n\
         meta l4proto tcp tproxy to :{port} accept\n\
         {family} daddr {server} accept\n\
         {family} daddr {also} accept\n\
         reject with {refusal}\n\
         }}\n\
         }}\n"
    )
}

/// Adds rules by nft(8), in the network namespace of the calling thread.
fn nft(rules: &str) -> io::Result<()> {
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).spawn()
    };
    // Users other than root often have no path to it.
    let mut child = start("nft")
        .or_else(|_| start("/usr/sbin/nft"))
        .map_err(|e| io::Error::new(e.kind(), format!("cannot run nft (package nftables): {e}")))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(rules.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("nft: {}", text.lines().next().unwrap_or_default())))
}

/// What was carried over the network outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// TCP connections of the mobile.
    pub connections: u64,
    /// Of them, those that the destination or the network has refused.
    pub refused: u64,
    /// Of them, those that lasthop has reset, because it had no room for them.
    pub beyond_limit: u64,
    /// Connections for which it has room at a time.
    pub limit: u64,
    /// Datagrams sent and received.
    pub datagrams: u64,
    /// Datagrams that were larger than a packet of the link, or found no free socket.
    pub dropped: u64,
}
