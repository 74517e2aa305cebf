//! An end of the core's own as a device: what it sends can be read, and packets that are written
//! are those of its peer, a kernel's TCP. So a live link can be tried with a sender whose every
//! decision is known from simulation.
//!
//! It opens one connection, sends a number of bytes and closes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use lasthop::scenario::network::Flow;
use lasthop::tcp::sender::SenderCounters;
use lasthop::units::{Duration, Time};
use lasthop_endpoint::isn::Secrets;
use lasthop_endpoint::{Endpoint, Settings};
use lasthop_wire::render::filler;

use super::{Device, Sent};

/// Its initial sequence number, fixed so that runs can be compared.
pub const ISN: u32 = u32::MAX - 3000;

/// A connection of the core's own sender.
pub struct OwnSender {
    settings: Arc<Settings>,
    addresses: (SocketAddr, SocketAddr),
    bytes: u64,
    /// From the first packet on.
    endpoint: Option<Endpoint>,
    opened: Time,
    completed: Option<Duration>,
    last: Vec<u8>,
}

/// What a sender has done.
#[derive(Clone, Copy, Debug)]
pub struct SenderReport {
    /// Time from the SYN until all bytes were acknowledged; `None` if they were not.
    pub completed: Option<Duration>,
    /// Counters.
    pub counters: SenderCounters,
}

impl OwnSender {
    /// The sender of a flow, with its scheme and profile, for a transfer of `bytes` from one
    /// address to another. Its clock is that of the simulation with this `seed`.
    pub fn new(
        flow: &Flow,
        seed: u64,
        bytes: u64,
        from: impl Into<SocketAddr>,
        to: impl Into<SocketAddr>,
    ) -> OwnSender {
        // All is written at once, as in the simulation.
        let send_buffer = usize::try_from(bytes).unwrap_or(usize::MAX);
        let settings = Settings { send_buffer, ..Settings::of_flow(flow, seed) };
        OwnSender {
            settings: settings.into(),
            addresses: (from.into(), to.into()),
            bytes,
            endpoint: None,
            opened: Time::ZERO,
            completed: None,
            last: Vec::new(),
        }
    }

    /// What it has done.
    pub fn report(&self) -> SenderReport {
        let counters = self.endpoint.as_ref().map(Endpoint::sender_counters);
        SenderReport { completed: self.completed, counters: counters.unwrap_or_default() }
    }

    fn open(&self, now: Time) -> Endpoint {
        let secrets = Secrets { isn: ISN, timestamp_offset: 0 };
        let (from, to) = self.addresses;
        let mut endpoint = Endpoint::connect(now, self.settings.clone(), from, to, secrets);
        endpoint.write(now, &filler(0, self.settings.send_buffer));
        endpoint.close(now);
        endpoint
    }
}

impl Device for OwnSender {
    fn read(&mut self, now: Time) -> io::Result<Option<&[u8]>> {
        if self.endpoint.is_none() {
            (self.endpoint, self.opened) = (Some(self.open(now)), now);
        }
        Ok(self.made(now))
    }

    fn is_own(&self) -> bool {
        true
    }

    fn made(&mut self, now: Time) -> Option<&[u8]> {
        let endpoint = self.endpoint.as_mut()?;
        if !endpoint.has_outgoing() && endpoint.next() <= now {
            endpoint.timer(now);
        }
        self.last = endpoint.outgoing()?;
        Some(&self.last)
    }

    fn write(&mut self, now: Time, packet: &[u8]) -> Sent {
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.packet(now, packet);
            if endpoint.acknowledged() >= self.bytes && self.completed.is_none() {
                self.completed = Some(now.since(self.opened));
            }
        }
        Sent::Sent
    }

    fn next(&self) -> Time {
        match &self.endpoint {
            Some(endpoint) if !endpoint.has_outgoing() => endpoint.next(),
            _ => Time::ZERO,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
