//! The network between the end points: links, routes, agents, and the clock.

pub mod cells;
pub(crate) mod errors;

use std::collections::VecDeque;

use lasthop::agent::{Action, LinkEvent, Subscriptions};
use lasthop::framing::{AnyFraming, Step};
use lasthop::link::arq::Ended;
use lasthop::link::cell::Report;
use lasthop::link::{Link, Offered, Plan};
use lasthop::queue::{Frame, Outcome, drop_reason};
use lasthop::segment::{Flags, Handle, NodeId, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Output, SendReason};
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

use crate::engine::pool::Pool;
use crate::engine::scheduler::{LANES, Lane, NO_LANE, NO_LINK, OF_CELL, Scheduler, Source};
use crate::events::{Event, Kind, Observer};
use crate::hosts::agent::{AgentHost, LinkStateWatch, Pending, Watch};
use crate::hosts::endpoint::WriteTimes;
use crate::probes::bursts::Burst;
use crate::probes::ground_truth::{Fate, GroundTruth};
use crate::probes::ledger::TrafficLedger;
use crate::probes::limits::FlowLimits;
use cells::CellHost;
use errors::Errors;

/// What the network knows about a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Index of the flow it belongs to.
    pub flow: u32,
    /// Node of its data sender.
    pub from: NodeId,
    /// Node of its data receiver.
    pub to: NodeId,
    /// The agents on its path.
    pub agents: Vec<Watch>,
    /// How the last hop fragments its data segments, if it does.
    pub framing: Option<AnyFraming>,
    /// Ground truth about its losses and retransmissions.
    pub ground_truth: GroundTruth,
    /// Bursts of its sender.
    pub(crate) burst: Burst,
}

/// Links, routes, agents, the clock and the observer.
pub struct Net<R> {
    /// Current simulated time.
    pub now: Time,
    /// Trigger time of the event being handled; see [`crate::engine::scheduler`].
    pub triggered_at: Time,
    /// The event queue.
    pub scheduler: Scheduler,
    /// One-way links.
    pub links: Vec<Link>,
    /// Shared media.
    pub cells: Vec<CellHost>,
    /// By handle: the link on which a segment entered its cell.
    pub(crate) hops: Vec<u32>,
    pub(crate) reports: Vec<Report>,
    /// Agents.
    pub agents: Vec<AgentHost>,
    /// By node: the link events that its agents subscribe to.
    pub subscriptions: Vec<Subscriptions>,
    /// Links whose state changes agents subscribe to.
    pub link_watches: Vec<LinkStateWatch>,
    /// By connection: path, agents and ground truth.
    pub connection_info: Vec<ConnectionInfo>,
    /// By connection: its bit errors. Empty if no connection has any.
    pub(crate) errors: Vec<Option<Errors>>,
    /// By flow: what limits its throughput.
    pub limits: Vec<FlowLimits>,
    /// Accounting of traffic.
    pub(crate) ledger: TrafficLedger,
    /// The observer of the run.
    pub reader: R,
    /// The segments in transit.
    pub pool: Pool,
    /// Work to be done at the present instant, after the present event.
    pub pending: VecDeque<Pending>,
    /// The route from a node towards a destination: a link, and the links chained to it, which a
    /// frame crosses without an event at the nodes between.
    routes: Vec<Box<[u32]>>,
    nodes: usize,
    next_id: u64,
    pub(crate) actions: Vec<Action>,
    pub(crate) outcomes: Vec<Outcome>,
}

impl<R: Observer> Net<R> {
    /// A network at time zero.
    pub(crate) fn new(
        links: Vec<Link>,
        cells: Vec<CellHost>,
        routes: Vec<Box<[u32]>>,
        nodes: usize,
        ledger: TrafficLedger,
        reader: R,
    ) -> Self {
        Net {
            now: Time::ZERO,
            triggered_at: Time::ZERO,
            scheduler: Scheduler::new(0, &[]),
            links,
            cells,
            hops: Vec::new(),
            reports: Vec::new(),
            agents: Vec::new(),
            subscriptions: vec![Subscriptions::default(); nodes],
            link_watches: Vec::new(),
            connection_info: Vec::new(),
            errors: Vec::new(),
            limits: Vec::new(),
            ledger,
            reader,
            pool: Pool::default(),
            pending: VecDeque::new(),
            routes,
            nodes,
            next_id: 1,
            actions: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Source number of a link's departures.
    pub fn departure_source(link: usize) -> Source {
        link as Source
    }

    /// Source number of a link's losses.
    pub fn loss_source(&self, link: usize) -> Source {
        (self.links.len() + link) as Source
    }

    /// Source number of a link's arrivals.
    #[inline]
    pub fn arrival_source(&self, link: usize) -> Source {
        (2 * self.links.len() + link) as Source
    }

    /// Passes an event of a segment to the observer, if it is active.
    #[inline]
    pub fn emit(
        &mut self,
        kind: Kind,
        node: NodeId,
        link: Option<u32>,
        segment: &Segment,
        reason: &'static str,
        value: f64,
    ) {
        if R::ACTIVE {
            let flow = flow_of(&self.connection_info, segment);
            self.reader.on_event(&Event {
                t: self.now,
                node,
                link,
                flow,
                kind,
                segment: Some(segment),
                options: &Options::NONE,
                reason,
                value,
            });
        }
    }

    /// Passes an event of a frame, with its options, to the observer, if it is active. The handle
    /// may have just been freed.
    #[inline]
    pub fn emit_frame(
        &mut self,
        kind: Kind,
        node: NodeId,
        link: Option<u32>,
        handle: Handle,
        reason: &'static str,
    ) {
        if R::ACTIVE {
            let segment = self.pool.get(handle);
            let options = if segment.flags.any(Flags::OPTIONS) {
                self.pool.options(handle)
            } else {
                Options::NONE
            };
            let flow = flow_of(&self.connection_info, segment);
            let event = Event {
                t: self.now,
                node,
                link,
                flow,
                kind,
                segment: Some(segment),
                options: &options,
                reason,
                value: 0.0,
            };
            self.reader.on_event(&event);
        }
    }

    /// Sends a segment from a node's own stack.
    #[inline(always)]
    pub fn transmit(&mut self, node: NodeId, segment: Segment) {
        self.ledger.now.offered += u64::from(segment.size);
        let agent = self.agent_at(node, &segment);
        let handle = self.pool.put(segment);
        self.propagate(node, agent, handle);
    }

    /// Sends a segment with options from a node's own stack.
    #[inline(never)]
    pub fn transmit_with(&mut self, node: NodeId, segment: Segment, options: &Options) {
        self.ledger.now.offered += u64::from(segment.size);
        let agent = self.agent_at(node, &segment);
        let handle = self.pool.put_with(segment, options);
        self.propagate(node, agent, handle);
    }

    #[inline(always)]
    fn propagate(&mut self, node: NodeId, agent: Option<usize>, handle: Handle) {
        match agent {
            None => self.forward(node, handle),
            Some(a) => {
                self.through_agent(a, handle);
            }
        }
    }

    /// Sends a segment on the link towards its destination and on the links chained to it.
    #[inline(never)]
    pub fn forward(&mut self, node: NodeId, handle: Handle) {
        let segment = self.pool.get(handle);
        let route = &self.routes[usize::from(node) * self.nodes + usize::from(segment.to)];
        let (mut at, mut triggered_at, mut left) = (self.now, self.triggered_at, route.len());
        for &l in route {
            let link = &mut self.links[l as usize];
            if R::ACTIVE {
                let value = cells::queue_of(link, &self.cells, at, triggered_at).0 as f64;
                let flow = flow_of(&self.connection_info, segment);
                let (node, link) = (link.from, Some(l));
                let (kind, segment) = (Kind::Enqueued, Some(segment));
                self.reader.on_event(&Event {
                    t: at,
                    node,
                    link,
                    flow,
                    kind,
                    segment,
                    options: &Options::NONE,
                    reason: "",
                    value,
                });
            }
            let mut plan = Plan::default();
            if let Some(arrival) = link.transmit_idle(at, segment.size) {
                plan = Plan { start: at, arrival, ..plan };
            } else {
                match link.offer(at, triggered_at, segment.size) {
                    Offered::Admitted => plan = link.plan(at, at, segment),
                    Offered::Served => {
                        let subscriptions = self.subscriptions[usize::from(link.to)];
                        plan = link.plan_service(
                            at,
                            segment,
                            framing_of(&self.connection_info, link, segment),
                            subscriptions,
                        );
                    }
                    Offered::Refused => {
                        return self.dropped(l as usize, handle, drop_reason::FULL, at);
                    }
                    Offered::Evented => return self.enqueue(l as usize, handle),
                }
            }
            if plan.lost {
                // Passing a copy leaves `plan` in registers; taking its address would force it into
                // memory.
                link.queue_damaged_frame(&{ plan }, segment);
            }
            left -= 1;
            if left > 0 && !plan.lost {
                link.passed(plan.arrival);
                (at, triggered_at) = (plan.arrival, plan.start);
                continue;
            }
            if link.propagate(&plan, handle) {
                self.schedule_link(l as usize);
            }
            return;
        }
        // No route: cannot happen, since routes are checked when the scenario is read.
        self.pool.free(handle);
    }

    /// Sets the route from a node towards a destination.
    pub fn set_route(&mut self, node: NodeId, to: NodeId, route: Box<[u32]>) {
        self.routes[usize::from(node) * self.nodes + usize::from(to)] = route;
    }

    /// Queues a segment at an evented link.
    #[inline(never)]
    fn enqueue(&mut self, l: usize, handle: Handle) {
        let link = &mut self.links[l];
        let frame = link.frame(handle, self.pool.get(handle), self.now);
        if let Some(place) = link.place() {
            return self.enter_cell(l, place, frame);
        }
        let starts = link.enqueue(self.now, self.triggered_at, frame, &mut self.outcomes);
        self.conclude(l);
        if starts.is_some() {
            self.start(l, starts);
        }
    }

    /// The transmission of a frame on an evented link ends.
    #[inline(never)]
    pub fn depart(&mut self, l: usize) {
        if let Some(ended) = self.links[l].end_attempt(self.now) {
            self.attempt_ended(l, ended);
        }
        let starts = self.links[l].depart(self.now, &mut self.outcomes);
        self.conclude(l);
        self.start(l, starts);
    }

    /// Starts the transmission of the next frame on an evented link.
    fn start(&mut self, l: usize, frame: Option<Frame>) {
        if let Some(frame) = frame {
            let segment = *self.pool.get(frame.handle);
            let link = &self.links[l];
            if R::ACTIVE && link.is_managed() && link.slot() == 1 {
                let (node, waited) = (link.from, (self.now - frame.at).as_secs());
                self.emit(Kind::Dequeued, node, Some(l as u32), &segment, "", waited);
            }
            if self.links[l].has_attempts() {
                self.start_attempt(l, frame, &segment);
            } else {
                let link = &mut self.links[l];
                let plan = link.plan(self.now, frame.at, &segment);
                if plan.lost {
                    link.queue_damaged_frame(&plan, &segment);
                }
                link.propagate(&plan, frame.handle);
            }
        }
        self.schedule_link(l);
    }

    /// Starts an attempt on a link that counts attempts.
    fn start_attempt(&mut self, l: usize, frame: Frame, segment: &Segment) {
        let (slot, attempt) = (self.links[l].slot(), self.links[l].attempt());
        let node = self.links[l].from;
        if slot == 1 {
            self.raise(node, LinkEvent::Dequeued, segment);
        }
        if let Some(attempt) = attempt {
            self.raise(node, LinkEvent::AttemptStarted { attempt }, segment);
        }
        let framing = framing_of(&self.connection_info, &self.links[l], segment);
        self.links[l].send_attempt(self.now, frame, segment, framing);
    }

    /// An attempt ends, at the end of its air time.
    #[inline(never)]
    fn attempt_ended(&mut self, l: usize, ended: Ended) {
        let Ended { handle, attempt, lost, step, damaged_frames } = ended;
        let node = self.links[l].from;
        let segment = *self.pool.get(handle);
        if lost && self.links[l].retransmits() {
            self.emit(
                Kind::AttemptFailed,
                node,
                Some(l as u32),
                &segment,
                "air",
                f64::from(attempt),
            );
        }
        if lost {
            self.raise(node, LinkEvent::AttemptFailed { attempt }, &segment);
        }
        match step {
            Step::More => {}
            Step::Whole => self.raise(node, LinkEvent::Delivered { attempts: attempt }, &segment),
            Step::Over { .. } => {
                self.lost_on_air(l, handle);
                let to = self.links[l].to;
                if let Some((at, event)) =
                    damaged_frames.filter(|r| self.subscribes(to, &segment, r.1.subscription()))
                {
                    self.links[l].push_damaged_frame(at, self.now, &segment, event);
                }
            }
        }
    }

    /// A frame is finally lost, at the end of its air time.
    pub fn lost_on_air(&mut self, l: usize, handle: Handle) {
        let (node, segment) = (self.links[l].from, *self.pool.get(handle));
        self.pool.free(handle);
        self.emit_frame(Kind::LostOnAir, node, Some(l as u32), handle, "air");
        self.record_loss(&segment, Fate::LostOnAir);
        self.raise(node, LinkEvent::Discarded, &segment);
    }

    /// The damaged frame that a link has given up reaches its far end. Returns false if another
    /// frame is lost before that.
    pub fn damaged_frame_arrives(&mut self, l: usize) -> bool {
        let Some((segment, event)) = self.links[l].pop_damaged_frame() else { return false };
        self.raise(self.links[l].to, event, &segment);
        self.schedule_link(l);
        true
    }

    /// Applies the decisions of a queue.
    fn conclude(&mut self, l: usize) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            self.carry_out_outcome(l, outcome);
        }
        self.outcomes = outcomes;
    }

    /// Applies a mark or drop of a frame queued at the link `l`.
    pub(crate) fn carry_out_outcome(&mut self, l: usize, outcome: Outcome) {
        match outcome {
            Outcome::Marked { handle, reason } => {
                let segment = self.pool.get_mut(handle);
                segment.flags = segment.flags.with(Flags::CE);
                let (node, segment) = (self.links[l].from, *segment);
                self.emit(Kind::Marked, node, Some(l as u32), &segment, reason, 0.0);
            }
            Outcome::Dropped { handle, reason } => self.dropped(l, handle, reason, self.now),
        }
    }

    #[cold]
    fn dropped(&mut self, l: usize, handle: Handle, reason: &'static str, at: Time) {
        let (node, segment) = (self.links[l].from, *self.pool.get(handle));
        self.emit_frame(Kind::DroppedAtQueue, node, Some(l as u32), handle, reason);
        self.record_loss_at(&segment, Fate::Refused, at);
        self.raise(node, LinkEvent::Refused, &segment);
        self.pool.free(handle);
    }

    /// Creates the scheduler. Cells get lanes, then the links in `busy` if all of them fit, then
    /// the departures of evented links while lanes are left, then `timers` if all of them fit.
    pub fn assign_lanes(&mut self, sources: usize, mut busy: Vec<usize>, timers: &[Source]) {
        // Frames in a cell arrive by the events of the cell.
        busy.retain(|&l| self.links[l].place().is_none());
        let cells = (0..)
            .zip(&self.cells)
            .flat_map(|(c, cell)| [(cell.source, OF_CELL | c), (cell.arrivals, NO_LINK)]);
        let mut lanes: Vec<(Source, u32)> = cells.take(LANES).collect();
        if lanes.len() + busy.len() <= LANES {
            for l in busy {
                self.links[l].tag = lanes.len() as Lane + 1;
                lanes.push((self.arrival_source(l), l as u32));
            }
        }
        let evented = self
            .links
            .iter()
            .enumerate()
            .filter(|(_, link)| link.is_evented() && link.place().is_none());
        let departures = evented.map(|(l, _)| Self::departure_source(l));
        let left = LANES.saturating_sub(lanes.len());
        lanes.extend(departures.take(left).map(|source| (source, NO_LINK)));
        // Lanes for only some of the timers would slow down each event and relieve the heap little.
        if lanes.len() + timers.len() <= LANES {
            lanes.extend(timers.iter().map(|&source| (source, NO_LINK)));
        }
        self.scheduler = Scheduler::new(sources, &lanes);
    }

    /// Schedules the next arrival at the far end of a link.
    #[inline(always)]
    pub fn schedule_arrival(&mut self, l: usize, lane: Lane, (at, triggered_at): (Time, Time)) {
        if lane != NO_LANE {
            self.scheduler.set_lane(lane, at.0, triggered_at.0);
        } else {
            self.schedule(self.arrival_source(l), (at, triggered_at));
        }
    }

    /// Schedules the next arrival, loss and departure of a link.
    #[inline(never)]
    pub fn schedule_link(&mut self, l: usize) {
        let link = &self.links[l];
        let (lane, arrival, loss, departure) =
            (link.tag, link.next_arrival(), link.next_loss(), link.departure());
        self.schedule_arrival(l, lane, arrival);
        self.schedule(self.loss_source(l), loss);
        self.schedule(Self::departure_source(l), departure);
    }

    #[inline(never)]
    pub(crate) fn schedule(&mut self, source: Source, (at, triggered_at): (Time, Time)) {
        if at == Time::NEVER {
            self.scheduler.clear(source);
        } else {
            self.scheduler.set(source, at.0, triggered_at.0);
        }
    }

    /// Records the loss of a copy of a segment now.
    pub fn record_loss(&mut self, segment: &Segment, fate: Fate) {
        self.record_loss_at(segment, fate, self.now);
    }

    /// Records the loss of a copy of a segment at `at`, which may be in the future.
    fn record_loss_at(&mut self, segment: &Segment, fate: Fate, at: Time) {
        self.ledger.record_loss(segment, fate, self.now, at);
        if segment.forward && segment.len > 0 && !segment.flags.has(Flags::DATAGRAM) {
            self.connection_info[segment.flow as usize].ground_truth.lost(
                self.now,
                at,
                segment.seq,
                segment.attempt,
                fate,
            );
        }
    }

    /// Returns the number of a new packet.
    #[inline]
    pub fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// How a link fragments this segment, if it does.
pub(crate) fn framing_of<'a>(
    connection_info: &'a [ConnectionInfo],
    link: &Link,
    segment: &Segment,
) -> Option<&'a AnyFraming> {
    if !link.cuts_frames()
        || segment.len == 0
        || !segment.forward
        || segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE))
    {
        return None;
    }
    connection_info.get(segment.flow as usize)?.framing.as_ref()
}

/// Index of the flow of a segment.
fn flow_of(connection_info: &[ConnectionInfo], segment: &Segment) -> u32 {
    if segment.flags.has(Flags::DATAGRAM) {
        segment.flow
    } else {
        connection_info[segment.flow as usize].flow
    }
}

/// The port through which an end point's stack sends into the network.
pub struct Port<'a, R> {
    /// Links, routes, agents and the clock.
    pub net: &'a mut Net<R>,
    /// Node of the stack.
    pub node: NodeId,
    /// The receiver, to determine spurious retransmissions (senders only).
    pub receiver: Option<&'a Receiver>,
    /// Where write times are recorded at the first transmission (senders of endless flows only).
    pub write_times: Option<&'a mut WriteTimes>,
    /// Index of the connection, for losses that its scheme classifies.
    pub connection: Option<u32>,
}

impl<R: Observer> Output for Port<'_, R> {
    #[inline(always)]
    fn send(&mut self, segment: Segment, reason: SendReason) {
        let segment = self.assign_id(segment, reason);
        self.net.transmit(self.node, segment);
    }

    fn send_with(&mut self, segment: Segment, options: &Options, reason: SendReason) {
        let segment = self.assign_id(segment, reason);
        self.net.transmit_with(self.node, segment, options);
    }

    fn classified(&mut self, seq: u64, times: u16, class: LossClass) {
        if let Some(c) = self.connection {
            let now = self.net.now;
            self.net.connection_info[c as usize].ground_truth.classified(now, seq, times, class);
        }
    }
}

impl<R: Observer> Port<'_, R> {
    /// Assigns a packet number and emits the events of sending.
    #[inline(always)]
    fn assign_id(&mut self, mut segment: Segment, reason: SendReason) -> Segment {
        let net = &mut *self.net;
        segment.id = net.new_id();
        if segment.forward {
            if segment.len > 0 {
                net.connection_info[segment.flow as usize].burst.sent(net.now, segment.len);
            }
            if reason == SendReason::New
                && let Some(write_times) = &mut self.write_times
            {
                write_times.push(segment.end(), net.now);
            }
            let spurious = reason != SendReason::New
                && segment.len > 0
                && self.record_retransmission(&{ segment }, reason);
            let net = &mut *self.net;
            if R::ACTIVE {
                let data = segment.len > 0
                    || segment.flags.has(Flags::SYN)
                    || segment.flags.has(Flags::FIN);
                net.emit(
                    if data { Kind::DataSent } else { Kind::AckSent },
                    self.node,
                    None,
                    &segment,
                    reason_name(reason),
                    0.0,
                );
                if spurious {
                    net.emit(Kind::Spurious, self.node, None, &segment, reason_name(reason), 1.0);
                }
            }
        } else {
            net.emit(Kind::AckSent, self.node, None, &segment, "", 0.0);
        }
        segment
    }

    #[inline(never)]
    fn record_retransmission(&mut self, segment: &Segment, reason: SendReason) -> bool {
        let Some(receiver) = self.receiver else { return false };
        self.net.connection_info[segment.flow as usize].ground_truth.retransmitted(
            self.net.now,
            segment,
            reason,
            receiver,
        )
    }
}

fn reason_name(reason: SendReason) -> &'static str {
    match reason {
        SendReason::Control => "control",
        SendReason::New => "new",
        SendReason::FastRetransmit => "fast retransmit",
        SendReason::Timeout => "timeout",
        SendReason::Probe => "tail loss probe",
        SendReason::Recovery => "recovery",
        SendReason::Notified => "eln",
    }
}
