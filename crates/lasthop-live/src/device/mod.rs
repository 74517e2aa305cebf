//! Where packets come from and go to.

pub mod memory;
pub mod sender;
pub mod tun;

use std::io;
use std::os::fd::BorrowedFd;

use lasthop::units::Time;

/// Largest IP packet that a device carries, bytes.
pub const MTU: usize = 1500;

/// What became of a packet that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The device took it.
    Sent,
    /// The device was full or refused it: the host itself dropped the packet.
    Dropped,
    /// The device has gone.
    Gone,
}

/// A device for IP packets of at most [`MTU`] bytes. No call blocks. `now` is the pump's clock.
pub trait Device {
    /// Reads one packet; `None` if there is none now.
    ///
    /// # Errors
    ///
    /// If the device has gone.
    fn read(&mut self, now: Time) -> io::Result<Option<&[u8]>>;

    /// Writes a packet.
    fn write(&mut self, now: Time, packet: &[u8]) -> Sent;

    /// To wait for packets; `None` for a device in memory.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// When it has a packet without being written to; `NEVER` for a kernel's device.
    fn next(&self) -> Time {
        Time::NEVER
    }
}
