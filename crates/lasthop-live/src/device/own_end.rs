//! An end of a live link whose TCP is the core's own, although the program there uses the kernel's.
//!
//! The device of the kernel is wrapped. Its packets end at an endpoint that stands for the peer: it
//! has the peer's address and port, so that the program sees nothing else. Towards the link,
//! another endpoint stands for the program, and runs the scheme. Between both the data are copied.
//! Packets of other protocols pass.
//!
//! A connection is accepted when the other side has accepted it: a closed port refuses it, and a
//! peer that does not answer lets it time out.

use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;
use std::io;
use std::os::fd::BorrowedFd;

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::Flags;
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::units::Time;
use lasthop_endpoint::{ConnectionId, End, Endpoint, Host, Listening, Settings, TcpState};
use lasthop_wire::{icmp_error, parse};

use super::{Device, Kind, Sent};

/// Packets that are read from the kernel before the link has its turn.
const BATCH: usize = 8;
/// Connections that wait for the other side to accept; further SYNs are dropped.
const OPENING: usize = 4096;
/// Bytes that are copied at a time.
const BLOCK: usize = 64 << 10;

/// A side of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Towards the kernel of the program.
    Kernel,
    /// Towards the link.
    Link,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Kernel => Side::Link,
            Side::Link => Side::Kernel,
        }
    }
}

/// A device whose TCP connections are the core's own.
pub struct OwnEnd<D> {
    device: D,
    kernel: Host,
    link: Host,
    /// The SYNs that wait for the other side to accept, by the connection that they ask for.
    opening: HashMap<(bool, ConnectionId), Vec<u8>>,
    /// Packets for the link.
    outgoing: VecDeque<Vec<u8>>,
    last: Vec<u8>,
    block: Vec<u8>,
    connections: u64,
    /// Packets that the kernel did not take.
    not_taken: u64,
}

/// The addresses as the other side sees them.
fn mirrored(id: ConnectionId) -> ConnectionId {
    ConnectionId { local: id.remote, remote: id.local }
}

impl<D: Device> OwnEnd<D> {
    /// An end whose connections over the link have these settings.
    pub fn new(device: D, settings: Settings) -> OwnEnd<D> {
        let host = |settings| Host::new(settings, Listening::Everywhere, RandomState::new());
        OwnEnd {
            device,
            kernel: host(towards_kernel()),
            link: host(settings),
            opening: HashMap::new(),
            outgoing: VecDeque::new(),
            last: Vec::new(),
            block: vec![0; BLOCK],
            connections: 0,
            not_taken: 0,
        }
    }

    fn host(&mut self, side: Side) -> &mut Host {
        match side {
            Side::Kernel => &mut self.kernel,
            Side::Link => &mut self.link,
        }
    }

    /// A packet has come on one side; false if it is none of TCP, and passes.
    fn arrive(&mut self, now: Time, side: Side, packet: &[u8]) -> bool {
        let Ok(tcp) = parse(packet) else {
            let is_error = icmp_error(packet).is_some();
            if is_error {
                self.host(side).packet(now, packet);
            }
            return is_error;
        };
        let id = ConnectionId { local: tcp.addressing.destination, remote: tcp.addressing.source };
        let flags = tcp.flags();
        let asks = flags.has(Flags::SYN) && !flags.any(Flags::ACK.with(Flags::RST));
        let known = self.host(side).get(id).is_some_and(|c| c.state() != TcpState::TimeWait);
        if asks && !known {
            self.open(now, side, id, packet);
        } else {
            self.host(side).packet(now, packet);
        }
        true
    }

    /// A SYN asks for a connection, which is opened on the other side first.
    fn open(&mut self, now: Time, side: Side, id: ConnectionId, syn: &[u8]) {
        let key = (side == Side::Link, id);
        if self.opening.contains_key(&key) || self.opening.len() >= OPENING {
            return;
        }
        let beyond = mirrored(id);
        // The rest of an earlier connection with these addresses.
        if self.host(side.other()).get(beyond).is_some_and(|c| c.state() == TcpState::TimeWait) {
            self.host(side.other()).with(beyond, Endpoint::abort);
            self.host(side.other()).release(now, beyond);
        }
        // If the rest of an earlier connection is in the way, the peer tries again.
        if self.host(side.other()).connect(now, beyond.local, beyond.remote).is_some() {
            self.opening.insert(key, syn.to_vec());
        }
    }

    /// Copies what connections can take, until nothing changes any more, and sends.
    fn settle(&mut self, now: Time) {
        loop {
            let kernel = self.kernel.changed().map(|id| (Side::Kernel, id));
            let Some((side, id)) =
                kernel.or_else(|| self.link.changed().map(|id| (Side::Link, id)))
            else {
                break;
            };
            self.on_change(now, side, id);
        }
        while self.kernel.accept().is_some() || self.link.accept().is_some() {}
        while let Some(packet) = self.kernel.outgoing() {
            if self.device.write(now, &packet) != Sent::Sent {
                self.not_taken += 1;
            }
        }
        while let Some(packet) = self.link.outgoing() {
            self.outgoing.push_back(packet);
        }
    }

    fn on_change(&mut self, now: Time, side: Side, id: ConnectionId) {
        let beyond = mirrored(id);
        // A connection that was opened because the other side has asked for it.
        let key = (side.other() == Side::Link, beyond);
        if self.opening.contains_key(&key) {
            let state = self.host(side).get(id).map(Endpoint::state);
            match state {
                Some(TcpState::SynSent | TcpState::SynReceived) => return,
                Some(TcpState::Closed) | None => {
                    let Some(syn) = self.opening.remove(&key) else { return };
                    self.host(side).release(now, id);
                    self.host(side.other()).refuse(&syn);
                    return;
                }
                Some(_) => {
                    let Some(syn) = self.opening.remove(&key) else { return };
                    self.connections += 1;
                    self.host(side.other()).packet(now, &syn);
                }
            }
        }
        self.copy(now, side, id);
        self.copy(now, side.other(), beyond);
        self.end(now, side, id);
        self.end(now, side.other(), beyond);
        self.drop_unaccepted(now, side, id);
        self.drop_unaccepted(now, side.other(), beyond);
    }

    /// Moves what has arrived on one side to the other, and passes the end of the data on.
    fn copy(&mut self, now: Time, from: Side, id: ConnectionId) {
        let (to, beyond) = (from.other(), mirrored(id));
        let mut block = std::mem::take(&mut self.block);
        loop {
            let readable = self.host(from).get(id).map_or(0, Endpoint::readable);
            let writable = self.host(to).get(beyond).map_or(0, Endpoint::writable);
            let count = readable.min(writable).min(block.len());
            let Some(part) = block.get_mut(..count).filter(|part| !part.is_empty()) else { break };
            self.host(from).with(id, |c| c.read(now, part));
            self.host(to).with(beyond, |c| c.write(now, part));
        }
        self.block = block;
        if self.host(from).get(id).is_some_and(Endpoint::is_at_end)
            && self.host(to).get(beyond).is_some_and(|c| !c.is_closing())
        {
            self.host(to).with(beyond, |c| c.close(now));
        }
    }

    /// Passes a reset on, and forgets what has ended.
    fn end(&mut self, now: Time, side: Side, id: ConnectionId) {
        let Some(endpoint) = self.host(side).get(id) else { return };
        let (end, unread) = (endpoint.end(), endpoint.readable());
        match end {
            None => {}
            Some(End::Closed) if unread > 0 => {}
            Some(End::Closed) => self.host(side).release(now, id),
            Some(_) => {
                let (other, beyond) = (side.other(), mirrored(id));
                self.host(other).with(beyond, Endpoint::abort);
                self.host(other).release(now, beyond);
                self.host(side).release(now, id);
            }
        }
    }

    /// Resets a connection that was opened for one which does not exist: the program that asked for
    /// it has gone meanwhile, or too many wait to be accepted. What ends otherwise has closed or
    /// reset the other side before it is forgotten.
    fn drop_unaccepted(&mut self, now: Time, side: Side, id: ConnectionId) {
        let (other, beyond) = (side.other(), mirrored(id));
        let is_asked_for = self.opening.contains_key(&(other == Side::Link, beyond))
            || self.opening.contains_key(&(side == Side::Link, id));
        let is_open = self.host(side).get(id).is_some_and(|c| !c.is_closing());
        if is_open && !is_asked_for && self.host(other).get(beyond).is_none() {
            self.host(side).with(id, Endpoint::abort);
            self.host(side).release(now, id);
        }
    }

    /// Connections that both sides have accepted.
    pub fn connections(&self) -> u64 {
        self.connections
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
            if !self.arrive(now, Side::Kernel, &packet) {
                self.outgoing.push_back(packet);
            }
            self.settle(now);
        }
        if self.kernel.next().min(self.link.next()) <= now {
            self.kernel.timer(now);
            self.link.timer(now);
            self.settle(now);
        }
        let Some(packet) = self.outgoing.pop_front() else { return Ok(None) };
        self.last = packet;
        Ok(Some(&self.last))
    }

    fn write(&mut self, now: Time, packet: &[u8]) -> Sent {
        if !self.arrive(now, Side::Link, packet) {
            return self.device.write(now, packet);
        }
        self.settle(now);
        Sent::Sent
    }

    fn next(&self) -> Time {
        match self.outgoing.is_empty() {
            true => self.kernel.next().min(self.link.next()).min(self.device.next()),
            false => Time::ZERO,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.device.fd()
    }

    fn drops(&mut self) -> u64 {
        self.device.drops() + std::mem::take(&mut self.not_taken)
    }

    fn kind(&self) -> Kind {
        self.device.kind()
    }
}
