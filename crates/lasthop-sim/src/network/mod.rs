//! The network between the hosts: links, cells, routes, the frames in transit, and the clock.
//!
//! A host hands a segment to `Net::forward`; `Net::arrive` returns it at the next node. What
//! agents subscribe to is queued until the present event has been handled (`Pending`).

pub(crate) mod by_agent;
pub mod cells;
pub(crate) mod errors;
pub(crate) mod fast_path;
mod forward;
pub mod paths;
pub(crate) mod receiver_timers;
mod schedule;

use std::collections::VecDeque;
use std::sync::Arc;

use lasthop::agent::LinkEvent;
use lasthop::link::Link;
use lasthop::link::cell::Report;
use lasthop::queue::Outcome;
use lasthop::segment::{Flags, Handle, NodeId, Options, Segment};
use lasthop::units::Time;

use crate::engine::pool::Pool;
use crate::engine::scheduler::{Key, NO_EVENT, Scheduler, Source};
use crate::events::Kind;
use crate::events::probe::{Fate, Probe, Seen};
use by_agent::AgentPaths;
use cells::CellHost;
use errors::Errors;
use fast_path::FastPaths;
use paths::{Notification, Paths};
use receiver_timers::ReceiverTimers;

/// Timers of the network, by link or cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// The transmission of a frame on an evented link ends.
    Departure(u32),
    /// A frame is lost on the air.
    Loss(u32),
    /// A frame arrives at the far end of a link.
    Arrival(u32),
    /// The next event of a cell.
    Cell(u32),
    /// A frame arrives that a cell has carried.
    CellArrival(u32),
}

/// Work to be done at the present instant, after the event that caused it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    /// Deliver a segment that an agent sent to its own node's stack.
    Deliver(Handle),
    /// Pass a link event of a segment to an agent.
    LinkEvent(Notification),
    /// Call an end of an external stack.
    Endpoint(u32),
}

/// The routes from each node towards each destination: a link, and the links chained to it, which a
/// frame crosses without an event at the nodes between.
pub(crate) type Routes = Arc<[Box<[u32]>]>;

/// Links, routes, the clock, and the probe of the run.
#[allow(
    clippy::field_scoped_visibility_modifiers,
    clippy::partial_pub_fields,
    reason = "hosts and probes read the network; what only it changes is private"
)]
pub struct Net<P> {
    /// Current simulated time.
    pub(crate) now: Time,
    /// Trigger time of the event being handled; see [`crate::engine::scheduler`].
    pub(crate) triggered_at: Time,
    /// The event being handled. `now` is later than its time while a receiver is computed in
    /// advance.
    pub(crate) event: Key,
    /// The event queue.
    pub(crate) scheduler: Scheduler,
    /// One-way links.
    pub(crate) links: Vec<Link>,
    /// Shared media.
    pub(crate) cells: Vec<CellHost>,
    /// By handle: the link on which a segment entered its cell.
    hops: Vec<u32>,
    reports: Vec<Report>,
    /// The cell whose events are handled; `NO_CELL` if there is none.
    firing: u32,
    /// The paths of the connections.
    pub(crate) paths: Paths,
    /// By connection: its bit errors. Empty if no connection has any.
    errors: Vec<Option<Errors>>,
    /// True if a packet may arrive with bit errors, of its connection or of a link.
    bit_errors: bool,
    /// What watches the run.
    pub(crate) probes: P,
    /// The segments in transit.
    pub(crate) pool: Pool,
    /// Work to be done at the present instant, after the present event.
    pub(crate) pending: VecDeque<Pending>,
    /// By node and destination.
    routes: Routes,
    nodes: usize,
    /// By link: its frames arrive at receivers that are computed in advance.
    in_advance: Vec<bool>,
    /// By link: no receiver behind it that is computed in advance has a timer that is due earlier.
    pub(crate) receivers_due: Vec<Time>,
    /// By link: these timers.
    receiver_timers: Vec<ReceiverTimers>,
    /// The links among them that frames have entered by the present event.
    pub(crate) entered: Vec<u32>,
    /// Receivers are computed in advance up to this time.
    pub(crate) until: Time,
    /// The fast paths.
    pub(crate) fast: FastPaths,
    /// The ways by way of an agent.
    pub(crate) agent_paths: AgentPaths,
    next_id: u64,
    outcomes: Vec<Outcome>,
}

impl<P: Probe> Net<P> {
    /// A network at time zero.
    pub(crate) fn new(links: Vec<Link>, cells: Vec<CellHost>, nodes: usize, probes: P) -> Self {
        let bit_errors = links.iter().any(Link::may_corrupt);
        Net {
            now: Time::ZERO,
            triggered_at: Time::ZERO,
            event: NO_EVENT,
            scheduler: Scheduler::default(),
            in_advance: vec![false; links.len()],
            receivers_due: vec![Time::NEVER; links.len()],
            receiver_timers: Vec::new(),
            entered: Vec::new(),
            until: Time::ZERO,
            fast: FastPaths::new(links.len()),
            agent_paths: AgentPaths::default(),
            links,
            cells,
            hops: Vec::new(),
            reports: Vec::new(),
            firing: cells::NO_CELL,
            paths: Paths::new(nodes),
            errors: Vec::new(),
            bit_errors,
            probes,
            pool: Pool::default(),
            pending: VecDeque::new(),
            routes: Arc::default(),
            nodes,
            next_id: 1,
            outcomes: Vec::new(),
        }
    }

    /// Takes the memory of links, pool and fast paths of a network that is no longer used.
    pub(crate) fn reuse_memory(&mut self, old: &mut Self) {
        for (link, old) in self.links.iter_mut().zip(&mut old.links) {
            link.reuse_memory(old);
        }
        self.pool.reuse_memory(&mut old.pool);
        self.fast.reuse_memory(&mut old.fast);
    }

    /// Frees the segments in transit and the event queue, at the end of a run.
    pub(crate) fn free_transit(&mut self) {
        self.pool = Pool::default();
        self.scheduler = Scheduler::default();
        self.receiver_timers = Vec::new();
        self.fast = FastPaths::new(self.links.len());
        self.agent_paths = AgentPaths::default();
    }

    /// Sets the bit errors of the connections.
    pub(crate) fn set_errors(&mut self, errors: Vec<Option<Errors>>) {
        self.errors = errors;
        self.bit_errors = true;
    }

    /// True if bit errors are configured for a connection or a link.
    pub(crate) fn has_bit_errors(&self) -> bool {
        self.bit_errors
    }

    /// Sets the routes.
    pub(crate) fn set_routes(&mut self, routes: Routes) {
        self.routes = routes;
    }

    /// Returns the number of a new packet.
    #[inline]
    pub(crate) fn new_id(&mut self) -> u64 {
        self.new_ids(1)
    }

    /// Takes as many numbers of new packets and returns the last one.
    #[inline]
    pub(crate) fn new_ids(&mut self, packets: u64) -> u64 {
        self.next_id += packets;
        self.next_id
    }

    /// Number of the next packet.
    #[inline]
    pub(crate) fn next_packet(&self) -> u64 {
        self.next_id + 1
    }

    /// True if the frames of a link arrive at receivers that are computed in advance.
    pub(crate) fn is_computed_in_advance(&self, link: usize) -> bool {
        self.in_advance[link]
    }

    /// The frames of a link arrive at receivers that are computed in advance.
    pub(crate) fn compute_in_advance(&mut self, link: usize) {
        self.in_advance[link] = true;
    }

    /// The packet numbers, below `acks_from`, of the ACKs for a segment that are in transit.
    #[inline(never)]
    pub(crate) fn acks_in_transit(&self, segment: &Segment, acks_from: u64) -> Vec<u64> {
        let (connection, end) = (segment.flow, segment.end());
        let other = Flags::DATAGRAM.with(Flags::NOTICE);
        let covers = |s: &&Segment| {
            let syn = s.flags.has(Flags::SYN) && !s.flags.has(Flags::ACK);
            !s.forward && s.flow == connection && s.ack >= end && !syn && !s.flags.any(other)
        };
        let stored = self.pool.segments().chain(self.agent_paths.segments());
        let stored = stored.filter(covers).map(|s| s.id);
        let plain = self.fast.acks().filter(|a| a.connection == connection && a.number >= end);
        stored.chain(plain.map(|a| a.id)).filter(|id| *id < acks_from).collect()
    }

    /// Number of segments in transit.
    pub fn in_transit(&self) -> usize {
        let segments = self.agent_paths.segments().count();
        self.pool.len() + self.fast.acks().count() + segments
    }

    /// Sets or removes the entry of a source in the event queue.
    #[inline(never)]
    pub(crate) fn schedule(&mut self, source: Source, (at, triggered_at): (Time, Time)) {
        if at == Time::NEVER {
            self.scheduler.clear(source);
        } else {
            self.scheduler.set(source, at.0, triggered_at.0);
        }
    }

    /// Reports an event of a segment, if somebody reads it.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        kind: Kind,
        node: NodeId,
        link: Option<u32>,
        segment: &Segment,
        reason: &'static str,
        value: f64,
    ) {
        if P::READS {
            let (t, options) = (self.now, &Options::NONE);
            self.probes.seen(&Seen { t, kind, node, link, segment, options, reason, value });
        }
    }

    /// Reports an event of a frame with its options, if somebody reads it. The handle may have just
    /// been freed.
    #[inline]
    pub(crate) fn emit_frame(
        &mut self,
        kind: Kind,
        node: NodeId,
        link: Option<u32>,
        handle: Handle,
        reason: &'static str,
    ) {
        if P::READS {
            let segment = self.pool.get(handle);
            let mut copy = None;
            let options = self.pool.valid_options(handle, &mut copy);
            let (t, value) = (self.now, 0.0);
            self.probes.seen(&Seen { t, kind, node, link, segment, options, reason, value });
        }
    }

    /// Queues a link event of a segment for the agent at `node`, if that subscribes to it.
    #[inline]
    fn raise(&mut self, node: NodeId, event: LinkEvent, segment: &Segment) {
        if self.paths.subscriptions(node).any(event.subscription()) {
            self.raise_at(node, event, segment);
        }
    }

    #[inline(never)]
    fn raise_at(&mut self, node: NodeId, event: LinkEvent, segment: &Segment) {
        let notification = self.paths.notification(node, event, segment);
        if let Some(event) = notification {
            self.add_pending(Pending::LinkEvent(event));
        }
    }

    /// Adds what has to be done after the present event.
    pub(crate) fn add_pending(&mut self, pending: Pending) {
        self.pending.push_back(pending);
        self.scheduler.end_horizon();
    }

    /// A frame arrives at the far end of the link `l`. Returns false if bit errors of its
    /// connection or of a link hit it and this is its destination; it is then discarded.
    #[inline(always)]
    pub(crate) fn arrived(&mut self, l: usize, node: NodeId, handle: Handle) -> bool {
        if self.bit_errors
            && let Some(fate) = self.fate_by_bit_errors(l, node, handle)
        {
            self.drop_corrupted(l, node, handle, fate);
            return false;
        }
        self.emit_frame(Kind::Arrived, node, Some(l as u32), handle, "");
        true
    }

    /// Why a packet that has arrived at a node is discarded: bit errors of its connection, or of a
    /// link on its path. Only its destination verifies the checksum.
    #[cold]
    #[inline(never)]
    fn fate_by_bit_errors(&mut self, l: usize, node: NodeId, handle: Handle) -> Option<Fate> {
        if self.links[l].corrupts_next(self.now).is_some() {
            let segment = self.pool.get_mut(handle);
            segment.flags = segment.flags.with(Flags::CORRUPTED);
        }
        let segment = self.pool.get(handle);
        if segment.to != node {
            return None;
        }
        let errors = self.errors.get_mut(segment.flow as usize).and_then(Option::as_mut);
        let is_tcp = !segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE));
        if errors.filter(|_| is_tcp).is_some_and(|e| e.corrupts(self.now, segment)) {
            return Some(Fate::LostOnAir);
        }
        segment.flags.has(Flags::CORRUPTED).then_some(Fate::Corrupted)
    }

    /// Discards a packet with bit errors.
    fn drop_corrupted(&mut self, l: usize, node: NodeId, handle: Handle, fate: Fate) {
        let segment = *self.pool.get(handle);
        self.pool.free(handle);
        self.emit_frame(Kind::Corrupted, node, Some(l as u32), handle, "");
        self.probes.lost(self.now, self.now, &segment, fate);
    }
}
