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
use lasthop_wire::tuple_hash::TupleHash;

use super::side::{Side, mirrored};

/// Connections whose counters are kept for the report.
const REPORTED: usize = 100;

/// The relays of a node.
#[allow(
    clippy::field_scoped_visibility_modifiers,
    reason = "the relays of connections are a file apart"
)]
pub struct Relays {
    pub(super) choice: SchemeChoice,
    /// The side on which the data arrive.
    pub(super) inbound: Side,
    /// By the connection of the inbound end.
    pub(super) active: HashMap<ConnectionId, Active, TupleHash>,
    timers: BTreeSet<(Time, ConnectionId)>,
    /// Notices about connections that are being opened.
    pub(super) early: VecDeque<(ConnectionId, Notice)>,
    ended: Vec<Vec<(&'static str, u64)>>,
    /// Of all that have ended.
    totals: Vec<(&'static str, u64)>,
}

/// The relay of one connection.
pub(super) struct Active {
    pub relay: Box<dyn Relay>,
    pub wake: Time,
    /// What the relay has been learned of the inbound end: bytes, and that there are no more.
    pub received: u64,
    pub is_closed: bool,
}

impl Relays {
    /// Relays of a scheme for data that arrive on the side `inbound`.
    pub fn new(choice: SchemeChoice, inbound: Side) -> Relays {
        let (active, timers, early, ended) = Default::default();
        Relays { choice, inbound, active, timers, early, ended, totals: Vec::new() }
    }

    /// Counters of the relay of each connection, by name; of the first hundred that have ended, and
    /// of those that have not.
    pub fn counters(&self) -> Vec<Vec<(&'static str, u64)>> {
        let active = self.active.values().map(|active| active.relay.counters());
        self.ended.iter().cloned().chain(active).collect()
    }

    /// The counters of all relays together: sums, and the largest of what is a size at a time.
    pub fn totals(&self) -> Vec<(&'static str, u64)> {
        let mut totals = self.totals.clone();
        self.active.values().for_each(|active| add(&mut totals, &active.relay.counters()));
        totals
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
    pub(super) fn key(&self, side: Side, id: ConnectionId) -> ConnectionId {
        if side == self.inbound { id } else { mirrored(id) }
    }

    pub(super) fn remove(&mut self, key: ConnectionId) {
        let Some(active) = self.active.remove(&key) else { return };
        self.timers.remove(&(active.wake, key));
        let counters = active.relay.counters();
        add(&mut self.totals, &counters);
        if self.ended.len() < REPORTED {
            self.ended.push(counters);
        }
    }

    /// Passes an event to the relay of a connection, which may act on its inbound and its outbound
    /// end.
    pub(super) fn event(
        &mut self,
        now: Time,
        key: ConnectionId,
        event: LegEvent,
        [inbound, outbound]: [&mut Host; 2],
        block: &mut [u8],
    ) {
        let Some(active) = self.active.get_mut(&key) else { return };
        let mut legs = TwoEnds { now, inbound, outbound, key, block, wake: None };
        active.relay.on_event(now, event, &mut legs);
        if let Some(at) = legs.wake {
            self.timers.remove(&(active.wake, key));
            active.wake = at.max(now);
            self.timers.insert((active.wake, key));
        }
    }
}

/// Adds the counters of a relay to those of others.
fn add(totals: &mut Vec<(&'static str, u64)>, counters: &[(&'static str, u64)]) {
    for &(name, value) in counters {
        let is_size = name.ends_with("peak_bytes") || name == "window_bytes";
        match totals.iter_mut().find(|total| total.0 == name) {
            Some(total) if is_size => total.1 = total.1.max(value),
            Some(total) => total.1 += value,
            None => totals.push((name, value)),
        }
    }
}

/// The two ends as a relay sees them.
struct TwoEnds<'a> {
    now: Time,
    inbound: &'a mut Host,
    outbound: &'a mut Host,
    /// The connection of the inbound end.
    key: ConnectionId,
    block: &'a mut [u8],
    /// What the relay has asked for.
    wake: Option<Time>,
}

impl TwoEnds<'_> {
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

impl SplitConnection for TwoEnds<'_> {
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
            Leg::Inbound => self.with_inbound(|endpoint, now| endpoint.abort(now)),
            Leg::Outbound => self.with_outbound(|endpoint, now| endpoint.abort(now)),
        }
    }
}
