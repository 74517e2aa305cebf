//! Sends the IP packets that agents make, hold or repeat.

#![allow(unsafe_code, reason = "raw sockets, which the standard library does not have")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use lasthop::segment::Direction;

use super::rules::MARK;

/// Room of a socket, bytes: a packet that the kernel would have segmented leaves as 45.
const SOCKET_BUFFER: i32 = 4 << 20;

/// Raw sockets: for each direction, IPv4 and IPv6.
#[derive(Debug)]
pub(super) struct Sender {
    down: [OwnedFd; 2],
    up: [OwnedFd; 2],
    refused: u64,
}

impl Sender {
    /// Opens the sockets. Packets leave by the routing table.
    pub(super) fn new() -> io::Result<Sender> {
        let pair = || Ok::<_, io::Error>([socket(libc::AF_INET)?, socket(libc::AF_INET6)?]);
        Ok(Sender { down: pair()?, up: pair()?, refused: 0 })
    }

    /// From now on, packets in a direction leave over the interface with this number only.
    pub(super) fn bind(&self, direction: Direction, interface: u32) -> io::Result<()> {
        let [v4, v6] = match direction {
            Direction::Downlink => &self.down,
            Direction::Uplink => &self.up,
        };
        let number = interface.to_be_bytes();
        set(v4, (libc::IPPROTO_IP, libc::IP_UNICAST_IF), &number)?;
        set(v6, (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF), &number)
    }

    /// Packets that the kernel did not take.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Sends a packet with complete headers to its destination.
    pub(super) fn send(&mut self, direction: Direction, to: IpAddr, packet: &[u8]) {
        let [v4, v6] = match direction {
            Direction::Downlink => &self.down,
            Direction::Uplink => &self.up,
        };
        let socket = if to.is_ipv4() { v4 } else { v6 };
        // The packet has the port; a raw socket takes none.
        let sent = send_to(socket, SocketAddr::new(to, 0), packet);
        self.refused += u64::from(sent.is_err());
    }
}

fn socket(family: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the result is checked, and owned by nobody else.
    let fd = unsafe { libc::socket(family, kind, libc::IPPROTO_RAW) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set(&socket, (libc::SOL_SOCKET, libc::SO_MARK), &MARK.to_ne_bytes())?;
    set(&socket, (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE), &SOCKET_BUFFER.to_ne_bytes())?;
    Ok(socket)
}

fn set(
    socket: &OwnedFd,
    (level, option): (libc::c_int, libc::c_int),
    value: &[u8; 4],
) -> io::Result<()> {
    let (fd, length) = (socket.as_raw_fd(), value.len() as libc::socklen_t);
    // SAFETY: the value outlives the call, and the length is its own.
    match unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn send_to(socket: &OwnedFd, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    let (bytes, length) = (packet.as_ptr().cast(), packet.len());
    let sent = match to {
        SocketAddr::V4(to) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: 0,
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.ip().octets()) },
                sin_zero: [0; 8],
            };
            let size = size_of_val(&address) as libc::socklen_t;
            // SAFETY: packet and address outlive the call, and the lengths are their own.
            unsafe { libc::sendto(fd, bytes, length, flags, (&raw const address).cast(), size) }
        }
        SocketAddr::V6(to) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: to.ip().octets() },
                sin6_scope_id: 0,
            };
            let size = size_of_val(&address) as libc::socklen_t;
            // SAFETY: as above.
            unsafe { libc::sendto(fd, bytes, length, flags, (&raw const address).cast(), size) }
        }
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
