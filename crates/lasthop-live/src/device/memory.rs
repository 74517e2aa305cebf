//! A device in memory, for tests.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use lasthop::units::Time;

use super::{Device, Sent};

/// Packets to be read, and packets that were written.
#[derive(Debug, Default)]
pub struct Memory {
    /// What the next reads return.
    pub incoming: VecDeque<Vec<u8>>,
    /// What the last read has returned.
    pub last: Vec<u8>,
    /// What was written.
    pub written: Vec<Vec<u8>>,
    /// Number of packets that it takes before it is full.
    pub room: Option<usize>,
    /// Packets that were dropped before they could be read.
    pub missed: u64,
}

impl Device for Memory {
    fn read(&mut self, _: Time) -> io::Result<Option<&[u8]>> {
        let Some(packet) = self.incoming.pop_front() else { return Ok(None) };
        self.last = packet;
        Ok(Some(&self.last))
    }

    fn write(&mut self, _: Time, packet: &[u8]) -> Sent {
        if self.room.is_some_and(|room| self.written.len() >= room) {
            return Sent::Dropped;
        }
        self.written.push(packet.to_vec());
        Sent::Sent
    }

    fn drops(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
