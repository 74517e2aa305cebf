//! The relays of split connections: one for each connection, over its two ends at the node.
//!
//! A relay controls one direction of the data; the other one is copied. What it asks of the inbound
//! end concerns that end's receiver, and of the outbound end its sender.

use std::collections::{BTreeSet, HashMap, VecDeque};

use lasthop::leg::{Capabilities, LegEvent, Relay, Side as Leg, SplitConnection};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::Notice;
use lasthop::units::{Duration, Time};
use lasthop_endpoint::{ConnectionId, Endpoint, Host};

use super::{Side, Split, mirrored};

/// Connections whose counters are kept for the report.
const REPORTED: usize = 100;

/// Notices that are kept for connections whose relay has not begun; the oldest are forgotten.
const EARLY: usize = 64;

/// The relays of a node.
pub struct Relays {
    choice: SchemeChoice,
    /// The side on which the data arrive.
    inbound: Side,
    /// By the connection of the inbound end.
    active: HashMap<ConnectionId, Active>,
    timers: BTreeSet<(Time, ConnectionId)>,
    /// Notices about connections that are being opened.
    early: VecDeque<(ConnectionId, Notice)>,
    ended: Vec<Vec<(&'static str, u64)>>,
}

/// The relay of one connection.
struct Active {
    relay: Box<dyn Relay>,
    wake: Time,
    /// What the relay has been told of the inbound end: bytes, and that there are no more.
    received: u64,
    is_closed: bool,
}

impl Relays {
    /// Relays of a scheme for data that arrive on the side `inbound`.
    pub fn new(choice: SchemeChoice, inbound: Side) -> Relays {
        let (active, timers, early, ended) = Default::default();
        Relays { choice, inbound, active, timers, early, ended }
    }

    /// Counters of the relay of each connection, by name; of the first hundred that have ended, and
    /// of those that have not.
    pub fn counters(&self) -> Vec<Vec<(&'static str, u64)>> {
        let active = self.active.values().map(|active| active.relay.counters());
        self.ended.iter().cloned().chain(active).collect()
    }

    /// When the first relay wants to be called.
    pub(super) fn next(&self) -> Time {
        self.timers.first().map_or(Time::NEVER, |timer| timer.0)
    }

    /// Takes the next timer that has expired.
    pub(super) fn due(&mut self, now: Time) -> Option<ConnectionId> {
        let timer = self.timers.first().copied().filter(|timer| timer.0 <= now)?;
        self.timers.remove(&timer);
        if let Some(active) = self.active.get_mut(&timer.1) {
            active.wake = Time::NEVER;
        }
        Some(timer.1)
    }

    /// The connection of the inbound end, given that of either one.
    fn key(&self, side: Side, id: ConnectionId) -> ConnectionId {
        if side == self.inbound { id } else { mirrored(id) }
    }

    fn remove(&mut self, key: ConnectionId) {
        let Some(active) = self.active.remove(&key) else { return };
        self.timers.remove(&(active.wake, key));
        if self.ended.len() < REPORTED {
            self.ended.push(active.relay.counters());
        }
    }
}

#[allow(clippy::multiple_inherent_impl, reason = "what concerns relays is a file apart")]
impl Split {
    /// Both ends of a connection exist: its relay begins.
    pub(super) fn begin_relay(&mut self, now: Time, side: Side, id: ConnectionId) {
        let Some(relays) = &mut self.relays else { return };
        let key = relays.key(side, id);
        let Some(relay) = relays.choice.scheme.relay() else { return };
        let active = Active { relay, wake: Time::NEVER, received: 0, is_closed: false };
        relays.remove(key);
        relays.active.insert(key, active);
        let (of_this, others) = std::mem::take(&mut relays.early)
            .into_iter()
            .partition::<VecDeque<_>, _>(|early| early.0 == key);
        relays.early = others;
        self.relay_event(now, key, LegEvent::Open);
        for (_, notice) in of_this {
            self.relay_event(now, key, LegEvent::Notice(notice));
        }
    }

    /// Ends the relay of a connection that neither side has any more.
    pub(super) fn end_relay(&mut self, side: Side, id: ConnectionId) {
        let Some(relays) = &mut self.relays else { return };
        let (host, other) = match side {
            Side::Server => (&self.server, &self.mobile),
            Side::Mobile => (&self.mobile, &self.server),
        };
        if host.get(id).is_none() && other.get(mirrored(id)).is_none() {
            relays.remove(relays.key(side, id));
        }
    }

    /// Something may have arrived on a side. False if there is no relay in this direction.
    pub(super) fn relay_arrived(&mut self, now: Time, from: Side, id: ConnectionId) -> bool {
        let Some(relays) = &mut self.relays else { return false };
        if relays.inbound != from {
            return false;
        }
        let Some(active) = relays.active.get_mut(&id) else { return false };
        let host = if from == Side::Server { &self.server } else { &self.mobile };
        let Some(endpoint) = host.get(id) else { return true };
        let (received, is_closed) = (endpoint.received(), endpoint.peer_has_closed());
        if (received, is_closed) != (active.received, active.is_closed) {
            (active.received, active.is_closed) = (received, is_closed);
            let event = if is_closed { LegEvent::HalfClosed } else { LegEvent::Readable };
            self.relay_event(now, id, event);
        }
        true
    }

    /// An ACK has arrived on a side.
    pub(super) fn relay_acknowledged(&mut self, now: Time, side: Side, id: ConnectionId) {
        let Some(key) = self.outbound(side, id) else { return };
        let host = if side == Side::Server { &self.server } else { &self.mobile };
        let Some(offset) = host.get(id).map(Endpoint::acknowledged_offset) else { return };
        self.relay_event(now, key, LegEvent::Acknowledged(offset));
    }

    /// A notice has arrived on a side.
    pub(super) fn relay_notice(
        &mut self,
        now: Time,
        side: Side,
        id: ConnectionId,
        notice: &Notice,
    ) {
        let Some(key) = self.outbound(side, id) else { return };
        match &mut self.relays {
            Some(relays) if !relays.active.contains_key(&key) => {
                relays.early.push_back((key, *notice));
                if relays.early.len() > EARLY {
                    relays.early.pop_front();
                }
            }
            _ => self.relay_event(now, key, LegEvent::Notice(*notice)),
        }
    }

    /// The end on a side was reset, or has given up.
    pub(super) fn relay_reset(&mut self, now: Time, side: Side, id: ConnectionId) {
        let Some(relays) = &self.relays else { return };
        let leg = if side == relays.inbound { Leg::Inbound } else { Leg::Outbound };
        let key = relays.key(side, id);
        self.relay_event(now, key, LegEvent::Reset(leg));
    }

    /// The time that a relay has asked for has come.
    pub(super) fn relay_timer(&mut self, now: Time, key: ConnectionId) {
        self.relay_event(now, key, LegEvent::Timer);
    }

    /// The connection of the inbound end, if this is the outbound one.
    fn outbound(&self, side: Side, id: ConnectionId) -> Option<ConnectionId> {
        self.relays.as_ref().filter(|relays| relays.inbound != side).map(|_| mirrored(id))
    }

    fn relay_event(&mut self, now: Time, key: ConnectionId, event: LegEvent) {
        let Some(relays) = &mut self.relays else { return };
        let Some(active) = relays.active.get_mut(&key) else { return };
        let (inbound, outbound) = match relays.inbound {
            Side::Server => (&mut self.server, &mut self.mobile),
            Side::Mobile => (&mut self.mobile, &mut self.server),
        };
        let block = &mut self.block;
        let mut legs = Legs { now, inbound, outbound, key, block, wake: None };
        active.relay.on_event(now, event, &mut legs);
        if let Some(at) = legs.wake {
            relays.timers.remove(&(active.wake, key));
            active.wake = at.max(now);
            relays.timers.insert((active.wake, key));
        }
    }
}

/// The two ends as a relay sees them.
struct Legs<'a> {
    now: Time,
    inbound: &'a mut Host,
    outbound: &'a mut Host,
    /// The connection of the inbound end.
    key: ConnectionId,
    block: &'a mut [u8],
    /// What the relay has asked for.
    wake: Option<Time>,
}

impl Legs<'_> {
    fn outbound(&self) -> Option<&Endpoint> {
        self.outbound.get(mirrored(self.key))
    }

    fn with_inbound(&mut self, act: impl FnOnce(&mut Endpoint, Time)) {
        let now = self.now;
        self.inbound.with(self.key, |endpoint| act(endpoint, now));
    }

    fn with_outbound(&mut self, act: impl FnOnce(&mut Endpoint, Time)) {
        let now = self.now;
        self.outbound.with(mirrored(self.key), |endpoint| act(endpoint, now));
    }
}

impl SplitConnection for Legs<'_> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { window: true, receive_window: true, acknowledge: true, hold: true }
    }

    fn readable(&self) -> u64 {
        self.inbound.get(self.key).map_or(0, |endpoint| endpoint.readable() as u64)
    }

    fn unacknowledged(&self) -> u64 {
        self.outbound().map_or(0, Endpoint::unacknowledged)
    }

    fn in_flight(&self) -> u64 {
        self.outbound().map_or(0, Endpoint::in_flight)
    }

    fn segment(&self) -> (u32, u32) {
        self.outbound().map_or((1, 1), |endpoint| (endpoint.segment(), endpoint.full_size()))
    }

    fn round_trip(&self, side: Leg) -> Option<Duration> {
        match side {
            Leg::Inbound => self.inbound.get(self.key)?.min_rtt(),
            Leg::Outbound => self.outbound()?.min_rtt(),
        }
    }

    fn transfer(&mut self, bytes: u64) -> u64 {
        let (now, key) = (self.now, self.key);
        let mut moved = 0;
        loop {
            let writable = self.outbound().map_or(0, Endpoint::writable) as u64;
            let left = (bytes - moved).min(self.readable()).min(writable);
            let count = left.min(self.block.len() as u64) as usize;
            let Some(part) = self.block.get_mut(..count).filter(|part| !part.is_empty()) else {
                return moved;
            };
            self.inbound.with(key, |endpoint| endpoint.read(now, part));
            self.outbound.with(mirrored(key), |endpoint| endpoint.write(now, part));
            moved += count as u64;
        }
    }

    fn set_receive_window(&mut self, bytes: u64) {
        self.with_inbound(|endpoint, now| endpoint.set_receive_window(now, bytes));
    }

    fn acknowledge_up_to(&mut self, offset: u64) {
        self.with_inbound(|endpoint, now| endpoint.acknowledge_up_to(now, offset));
    }

    fn close_window(&mut self, offset: u64) {
        self.with_inbound(|endpoint, now| endpoint.close_window(now, offset));
    }

    fn open_window(&mut self, offset: u64) {
        self.with_inbound(|endpoint, now| endpoint.open_window(now, offset));
    }

    fn wake(&mut self, at: Time) {
        self.wake = Some(at);
    }

    fn set_window(&mut self, bytes: u64) {
        self.with_outbound(|endpoint, now| endpoint.set_window(now, bytes));
    }

    fn hold(&mut self) {
        self.with_outbound(|endpoint, _| endpoint.hold());
    }

    fn resume(&mut self, lost: u64) {
        self.with_outbound(|endpoint, now| endpoint.resume(now, lost));
    }

    fn half_close(&mut self) {
        self.with_outbound(|endpoint, now| endpoint.close(now));
    }

    fn reset(&mut self, side: Leg) {
        match side {
            Leg::Inbound => self.with_inbound(|endpoint, _| endpoint.abort()),
            Leg::Outbound => self.with_outbound(|endpoint, _| endpoint.abort()),
        }
    }
}
