//! An end of a live link whose TCP is the core's own, although the program there uses the kernel's.
//!
//! The device of the kernel is wrapped. The connections end here ([`Split`]): towards the link, an
//! endpoint stands for the program, and runs the scheme. Packets of other protocols pass.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::Notice;
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::units::Time;
use lasthop_endpoint::{ConnectionId, Settings};

use super::{Device, Kind, Sent};
use crate::split::{Side, Split};

/// Packets that are read from the kernel before the link has its turn.
const BATCH: usize = 8;

/// A device whose TCP connections are the core's own.
pub struct OwnEnd<D> {
    device: D,
    split: Split,
    /// The side of the link; the kernel is on the other one.
    link: Side,
    /// Packets for the link.
    outgoing: VecDeque<Vec<u8>>,
    last: Vec<u8>,
    /// Packets that the kernel did not take.
    not_taken: u64,
}

impl<D: Device> OwnEnd<D> {
    /// An end at which the link is on the side `link`, and whose connections over it have these
    /// settings.
    pub fn new(device: D, link: Side, settings: Settings) -> OwnEnd<D> {
        let split = match link {
            Side::Mobile => Split::new(towards_kernel(), settings),
            Side::Server => Split::new(settings, towards_kernel()),
        };
        let (outgoing, last) = Default::default();
        OwnEnd { device, split, link, outgoing, last, not_taken: 0 }
    }

    /// Sends what the connections have to send.
    fn send(&mut self, now: Time) {
        while let Some(packet) = self.split.outgoing(self.link.other()) {
            if self.device.write(now, &packet) != Sent::Sent {
                self.not_taken += 1;
            }
        }
        while let Some(packet) = self.split.outgoing(self.link) {
            self.outgoing.push_back(packet);
        }
    }

    /// Connections that both sides have accepted.
    pub fn connections(&self) -> u64 {
        self.split.connections()
    }
}

/// Between the program's kernel and this process nothing is lost or delayed.
fn towards_kernel() -> Settings {
    let scheme = SchemeChoice::parse("cubic").unwrap_or_default();
    Settings::new(scheme, Profile::named(ProfileName::Linux).without_send_buffer())
}

impl<D: Device> Device for OwnEnd<D> {
    fn read(&mut self, now: Time) -> io::Result<Option<&[u8]>> {
        for _ in 0..BATCH {
            if !self.outgoing.is_empty() {
                break;
            }
            let Some(packet) = self.device.read(now)?.map(<[u8]>::to_vec) else { break };
            if !self.split.packet(now, self.link.other(), &packet) {
                self.outgoing.push_back(packet);
            }
            self.send(now);
        }
        Ok(self.made(now))
    }

    fn is_own(&self) -> bool {
        true
    }

    fn made(&mut self, now: Time) -> Option<&[u8]> {
        if self.split.next() <= now {
            self.split.timer(now);
            self.send(now);
        }
        self.last = self.outgoing.pop_front()?;
        Some(&self.last)
    }

    fn write(&mut self, now: Time, packet: &[u8]) -> Sent {
        if !self.split.packet(now, self.link, packet) {
            return self.device.write(now, packet);
        }
        self.send(now);
        Sent::Sent
    }

    fn notice(&mut self, now: Time, id: ConnectionId, notice: &Notice) -> bool {
        self.split.notice(now, self.link, id, notice);
        self.send(now);
        true
    }

    fn next(&self) -> Time {
        match self.outgoing.is_empty() {
            true => self.split.next().min(self.device.next()),
            false => Time::ZERO,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.device.fd()
    }

    fn drops(&mut self) -> u64 {
        self.device.drops()
    }

    fn not_taken(&mut self) -> u64 {
        std::mem::take(&mut self.not_taken)
    }

    fn kind(&self) -> Kind {
        self.device.kind()
    }
}
