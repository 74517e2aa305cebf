//! A TUN device: the kernel's IP packets as reads and writes. It vanishes with its descriptor.
//!
//! The kernel leaves segmentation and checksums to the device: a read may give 64 KiB, which are
//! split here. The stack above then handles one packet instead of 45.

#![allow(
    unsafe_code,
    reason = "an ioctl of the kernel's TUN driver, and reads and writes of its fd"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use lasthop::units::Time;
use lasthop_wire::offload::{PLAIN, Splitter};

use super::{Device, Kind, Sent};

/// The kernel's device for making TUN devices.
pub const PATH: &str = "/dev/net/tun";

/// What the kernel may leave to the device (`TUN_F_CSUM`, `_TSO4`, `_TSO6`, `_TSO_ECN` of
/// linux/if_tun.h).
const OFFLOADS: libc::c_uint = 0x01 | 0x02 | 0x04 | 0x08;

/// A TUN device.
#[derive(Debug)]
pub struct Tun {
    file: File,
    splitter: Splitter,
}

impl Tun {
    /// Makes a device with this name (at most 15 bytes) in the network namespace of the calling
    /// thread.
    ///
    /// # Errors
    ///
    /// If `/dev/net/tun` cannot be opened, or the namespace gives no right to make devices.
    pub fn new(name: &str) -> io::Result<Tun> {
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(PATH)?;
        // SAFETY: `ifreq` is plain data, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the descriptor is open and the request outlives the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &request) };
        // SAFETY: the descriptor is open; the argument is a number.
        let offloads =
            || unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, OFFLOADS) };
        if done < 0 || offloads() < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Tun { file, splitter: Splitter::new(0) })
    }
}

impl Device for Tun {
    fn read(&mut self, _: Time) -> io::Result<Option<&[u8]>> {
        if !self.splitter.has_packet() {
            match self.file.read(self.splitter.buffer()) {
                Ok(length) => self.splitter.accept(length),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        Ok(self.splitter.next())
    }

    fn write(&mut self, _: Time, packet: &[u8]) -> Sent {
        match self.file.write_vectored(&[IoSlice::new(&PLAIN), IoSlice::new(packet)]) {
            Ok(_) => Sent::Sent,
            Err(e) if e.raw_os_error() == Some(libc::EBADFD) => Sent::Gone,
            Err(_) => Sent::Dropped,
        }
    }

    fn kind(&self) -> Kind {
        Kind::Tun
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
