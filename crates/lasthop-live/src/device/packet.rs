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
use std::time::Duration;

use lasthop::units::Time;
use lasthop_wire::offload::{HEADER_LEN, PLAIN, Splitter};

use super::{Device, Kind, MTU, Sent};
use crate::place::netlink::Netlink;
use crate::wait;

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

/// Waits for room for a packet in the socket's send buffer, and the length of each. A signal ends
/// one.
const ATTEMPTS: usize = 4;
const PATIENCE: Duration = Duration::from_millis(100);

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
        // The kernel has not processed the packets that fill the socket's buffer. Waiting for it
        // makes later packets late, which counts; otherwise they would be lost.
        for _ in 0..ATTEMPTS {
            match self.file.write_vectored(&parts) {
                Ok(_) => return Sent::Sent,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)) => {
                    return Sent::Gone;
                }
                Err(_) => return Sent::Dropped,
            }
            if wait::writable(self.file.as_fd(), PATIENCE).is_err() {
                break;
            }
        }
        Sent::Dropped
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

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use std::thread;

    use super::*;

    /// A socket whose peer takes packets later than they are written, as a kernel does whose other
    /// processor is busy.
    #[test]
    fn packets_wait_for_a_kernel_that_is_slower() {
        const PACKETS: usize = 2000;
        let (ours, kernel) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let reader = thread::spawn(move || {
            let mut packet = [0; 200];
            (0..PACKETS)
                .map(|i| {
                    thread::sleep(Duration::from_millis(if i % 500 == 0 { 5 } else { 0 }));
                    let length = kernel.recv(&mut packet).unwrap();
                    let number: [u8; 2] =
                        packet.get(length - 2..length).unwrap().try_into().unwrap();
                    usize::from(u16::from_be_bytes(number))
                })
                .collect::<Vec<_>>()
        });
        let file = File::from(OwnedFd::from(ours));
        let mut device = PacketSocket { file, splitter: Splitter::new(ETHERNET) };
        for i in 0..PACKETS as u16 {
            let packet = [&[0x45; 98][..], &i.to_be_bytes()].concat();
            assert_eq!(device.write(Time::ZERO, &packet), Sent::Sent, "packet {i}");
        }
        assert_eq!(reader.join().unwrap(), (0..PACKETS).collect::<Vec<_>>());
    }
}
