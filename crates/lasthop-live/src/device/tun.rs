//! A TUN device: the kernel's IP packets as reads and writes. It vanishes with its descriptor.

#![allow(
    unsafe_code,
    reason = "an ioctl of the kernel's TUN driver, and reads and writes of its fd"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::{Device, Sent};

/// The kernel's device for making TUN devices.
pub const PATH: &str = "/dev/net/tun";

/// A TUN device.
#[derive(Debug)]
pub struct Tun(File);

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
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is open and the request outlives the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &request) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(Tun(file)) }
    }
}

impl Device for Tun {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0.read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn write(&mut self, packet: &[u8]) -> Sent {
        match self.0.write(packet) {
            Ok(_) => Sent::Sent,
            Err(e) if e.raw_os_error() == Some(libc::EBADFD) => Sent::Gone,
            Err(_) => Sent::Dropped,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}
