//! Where packets come from and go to.

pub mod memory;
pub mod own_end;
pub mod packet;
pub mod sender;
pub mod tun;

use std::io;
use std::os::fd::BorrowedFd;

use lasthop::segment::Notice;
use lasthop::units::Time;
use lasthop_endpoint::ConnectionId;

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
///
/// # Examples
///
/// A device that returns each packet to the end that sent it:
///
/// ```
/// use std::collections::VecDeque;
/// use std::io;
/// use std::os::fd::BorrowedFd;
///
/// use lasthop::units::Time;
/// use lasthop_live::device::{Device, Sent};
///
/// #[derive(Default)]
/// struct Echo {
///     waiting: VecDeque<Vec<u8>>,
///     last: Vec<u8>,
/// }
///
/// impl Device for Echo {
///     fn read(&mut self, _: Time) -> io::Result<Option<&[u8]>> {
///         let Some(packet) = self.waiting.pop_front() else { return Ok(None) };
///         self.last = packet;
///         Ok(Some(&self.last))
///     }
///
///     fn write(&mut self, _: Time, packet: &[u8]) -> Sent {
///         self.waiting.push_back(packet.to_vec());
///         Sent::Sent
///     }
///
///     fn fd(&self) -> Option<BorrowedFd<'_>> {
///         None
///     }
///
///     /// Without a file descriptor, the pump waits until this time.
///     fn next(&self) -> Time {
///         if self.waiting.is_empty() { Time::NEVER } else { Time::ZERO }
///     }
/// }
///
/// let mut device = Echo::default();
/// assert_eq!(device.write(Time::ZERO, b"a packet"), Sent::Sent);
/// assert_eq!(device.next(), Time::ZERO);
/// assert_eq!(device.read(Time::ZERO).unwrap(), Some(&b"a packet"[..]));
/// assert!(device.read(Time::ZERO).unwrap().is_none());
/// ```
pub trait Device {
    /// Reads one packet; `None` if there is none now.
    ///
    /// # Errors
    ///
    /// If the device has gone.
    fn read(&mut self, now: Time) -> io::Result<Option<&[u8]>>;

    /// Writes a packet.
    fn write(&mut self, now: Time, packet: &[u8]) -> Sent;

    /// A notice about a connection of this end has arrived; false if nobody takes it. A kernel
    /// takes none: one in the form of an ACK would acknowledge data that were lost.
    fn notice(&mut self, _now: Time, _id: ConnectionId, _notice: &Notice) -> bool {
        false
    }

    /// It answers packets and has timers, at the times at which they are due, however late the pump
    /// is.
    fn is_own(&self) -> bool {
        false
    }

    /// The next packet that such a device has made, its timers that expire until `now` included.
    fn made(&mut self, _now: Time) -> Option<&[u8]> {
        None
    }

    /// To wait for packets; `None` for a device in memory.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// When it has a packet without being written to; `NEVER` for a kernel's device.
    fn next(&self) -> Time {
        Time::NEVER
    }

    /// Packets that were dropped before they could be read, since the last call.
    fn drops(&mut self) -> u64 {
        0
    }

    /// Packets of the device's own making that the kernel did not take, since the last call.
    fn not_taken(&mut self) -> u64 {
        0
    }

    /// Its kind, if it is a kernel's device.
    fn kind(&self) -> Kind {
        Kind::Automatic
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn read(&mut self, now: Time) -> io::Result<Option<&[u8]>> {
        (**self).read(now)
    }

    fn write(&mut self, now: Time, packet: &[u8]) -> Sent {
        (**self).write(now, packet)
    }

    fn notice(&mut self, now: Time, id: ConnectionId, notice: &Notice) -> bool {
        (**self).notice(now, id, notice)
    }

    fn is_own(&self) -> bool {
        (**self).is_own()
    }

    fn made(&mut self, now: Time) -> Option<&[u8]> {
        (**self).made(now)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).fd()
    }

    fn next(&self) -> Time {
        (**self).next()
    }

    fn drops(&mut self) -> u64 {
        (**self).drops()
    }

    fn not_taken(&mut self) -> u64 {
        (**self).not_taken()
    }

    fn kind(&self) -> Kind {
        (**self).kind()
    }
}

/// Kinds of devices for the packets of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A TUN device, or a packet socket where there is none.
    #[default]
    Automatic,
    /// [`tun::Tun`].
    Tun,
    /// [`packet::PacketSocket`].
    Packet,
}
