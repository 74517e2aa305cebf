//! A virtual Ethernet pair as a device, where the kernel's TUN driver is not to be had: one end in
//! the namespace of an end of the link, a packet socket on the other, in a namespace of which only
//! the socket knows. All of it vanishes with the socket.
//!
//! Like a TUN device, the socket takes packets of up to 64 KiB that the kernel has not segmented.

#![allow(unsafe_code, reason = "a packet socket, which the standard library does not have")]

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};

use lasthop::units::Time;
use lasthop_wire::offload::{HEADER_LEN, PLAIN, Splitter};

use super::{Device, Kind, MTU, Sent};
use crate::place::netlink::Netlink;

/// Length of an Ethernet header, bytes.
const ETHERNET: usize = 14;
/// Hardware addresses (locally administered) of the end's device and of the socket's.
const END: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OURS: [u8; 6] = [2, 0, 0, 0, 0, 2];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Name of the socket's device.
const NAME: &str = "lasthop-socket";
/// Packets that lasthop has not read yet, bytes: windows of many connections.
const BUFFER: libc::c_int = 64 << 20;

/// A packet socket on one end of a virtual Ethernet pair.
#[derive(Debug)]
pub struct PacketSocket {
    file: File,
    splitter: Splitter,
}

impl PacketSocket {
    /// Makes a pair in the network namespace of the calling thread, with the other end, called
    /// `name`, in the namespace `end`.
    ///
    /// # Errors
    ///
    /// If a namespace gives no right to make devices or sockets.
    pub fn new(name: &str, end: RawFd) -> io::Result<PacketSocket> {
        let mut net = Netlink::new()?;
        net.add_pair((NAME, OURS), (name, END, end))?;
        // This end has no addresses; nothing is to be sent from it.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{NAME}/disable_ipv6"), "1");
        net.up(NAME, Some(MTU as u32))?;
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; the result is checked, and owned by nobody else.
        let file = unsafe {
            match libc::socket(libc::AF_PACKET, kind, 0) {
                fd if fd < 0 => return Err(io::Error::last_os_error()),
                fd => File::from_raw_fd(fd),
            }
        };
        set(&file, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        set(&file, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // Without them, the same happens more slowly, or with a smaller buffer.
        let _ = set(&file, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
        let _ = set(&file, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)
            .or_else(|_| set(&file, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER));
        // SAFETY: zeros are a valid address, which outlives the call.
        let bound = unsafe {
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = crate::place::netlink::index(NAME)? as i32;
            let length = size_of_val(&address) as libc::socklen_t;
            libc::bind(file.as_raw_fd(), (&raw const address).cast(), length)
        };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(PacketSocket { file, splitter: Splitter::new(ETHERNET) })
    }
}

/// Sets an option of a socket to a number.
fn set(file: &File, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value outlives the call.
    let done = unsafe {
        libc::setsockopt(file.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Device for PacketSocket {
    fn read(&mut self, _: Time) -> io::Result<Option<&[u8]>> {
        while !self.splitter.has_packet() {
            let buffer = self.splitter.buffer();
            let length = match self.file.read(buffer) {
                Ok(length) => length,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            };
            let at = HEADER_LEN + ETHERNET;
            if buffer.get(at - 2..at).is_some_and(|kind| kind == IPV4 || kind == IPV6) {
                self.splitter.accept(length);
            }
        }
        Ok(self.splitter.next())
    }

    fn write(&mut self, _: Time, packet: &[u8]) -> Sent {
        let kind = match packet.first().map(|first| first >> 4) {
            Some(4) => IPV4,
            Some(6) => IPV6,
            _ => return Sent::Dropped,
        };
        let parts = [&PLAIN[..], &END, &OURS, &kind, packet].map(IoSlice::new);
        match self.file.write_vectored(&parts) {
            Ok(_) => Sent::Sent,
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)) => Sent::Gone,
            Err(_) => Sent::Dropped,
        }
    }

    fn kind(&self) -> Kind {
        Kind::Packet
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn drops(&mut self) -> u64 {
        // SAFETY: zeros are a valid value, and length and value outlive the call.
        unsafe {
            let mut statistics: libc::tpacket_stats = std::mem::zeroed();
            let mut length = size_of_val(&statistics) as libc::socklen_t;
            let (fd, option) = (self.file.as_raw_fd(), libc::PACKET_STATISTICS);
            let value = (&raw mut statistics).cast();
            match libc::getsockopt(fd, libc::SOL_PACKET, option, value, &mut length) {
                0 => statistics.tp_drops.into(),
                _ => 0,
            }
        }
    }
}
