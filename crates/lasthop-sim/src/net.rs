//! The network between the end points: links, routes, agents, and the clock.

use std::cell::RefCell;

use lasthop::agent::{Action, Agent, Context, QueueState, Surroundings, Verdict};
use lasthop::link::{Link, Offered, Plan};
use lasthop::queue::{Frame, Outcome, cause};
use lasthop::schemes::catalogue::AnyAgent;
use lasthop::segment::{Direction, Flags, Handle, NodeId, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Cause, Output};
use lasthop::tcp::window::Said;
use lasthop::units::{Rate, Time};

use crate::connection::Births;
use crate::events::{Event, Kind, Reader};
use crate::pool::Pool;
use crate::scheduler::{LANES, Lane, NO_LANE, Scheduler, Source};
use crate::truth::{Fate, Truth};

/// An agent at its node, with its timers.
pub struct AgentHost {
    /// The agent.
    pub agent: AnyAgent,
    /// Label of its scheme.
    pub label: String,
    /// Node it runs at.
    pub node: NodeId,
    down: usize,
    up: usize,
    timers: Vec<(u32, Time, Time)>,
    source: Source,
}

impl AgentHost {
    /// An agent at `node`, between the links `down` (towards the station) and `up`.
    pub fn new(agent: AnyAgent, label: String, node: NodeId, down: usize, up: usize, source: Source) -> Self {
        AgentHost { agent, label, node, down, up, timers: Vec::new(), source }
    }
}

/// What the network knows of a connection.
#[derive(Clone, Debug)]
pub struct Known {
    /// Index of the flow it belongs to.
    pub flow: u32,
    /// The agent that sees it, and whether its data travel downlink there.
    pub agent: Option<(usize, bool)>,
    /// The truth about it.
    pub truth: Truth,
}

/// Links, routes, agents, clock and readers.
pub struct Net<R> {
    /// Now.
    pub now: Time,
    /// Time of cause of the event being handled.
    pub cause: Time,
    /// The event queue.
    pub scheduler: Scheduler,
    /// One-way links.
    pub links: Vec<Link>,
    /// Agents.
    pub agents: Vec<AgentHost>,
    /// Connections.
    pub known: Vec<Known>,
    /// Readers.
    pub reader: R,
    /// Every segment on its way.
    pub pool: Pool,
    /// Segments that agents made for their own node's stack.
    pub local: Vec<Handle>,
    /// The way from a node towards a destination: a link, and those chained to it, which a frame passes without an event
    /// at the nodes between.
    ways: Vec<Box<[u32]>>,
    nodes: usize,
    next_id: u64,
    actions: Vec<Action>,
    outcomes: Vec<Outcome>,
}

impl<R: Reader> Net<R> {
    /// A network at time zero.
    pub fn new(links: Vec<Link>, ways: Vec<Box<[u32]>>, nodes: usize, reader: R) -> Self {
        Net {
            now: Time::ZERO,
            cause: Time::ZERO,
            scheduler: Scheduler::new(0, &[]),
            links,
            agents: Vec::new(),
            known: Vec::new(),
            reader,
            pool: Pool::default(),
            local: Vec::new(),
            ways,
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

    /// Reports an event, if anybody listens.
    #[inline]
    pub fn emit(&mut self, kind: Kind, node: NodeId, link: Option<u32>, segment: &Segment, cause: &'static str, value: f64) {
        if R::ACTIVE {
            let flow = flow_of(&self.known, segment);
            self.reader.on_event(&Event { t: self.now, node, link, flow, kind, segment: Some(segment), cause, value });
        }
    }

    /// A segment from a node's own stack.
    #[inline(always)]
    pub fn transmit(&mut self, node: NodeId, segment: Segment) {
        let agent = self.agent_at(node, &segment);
        let handle = self.pool.put(segment);
        self.launch(node, agent, handle);
    }

    /// A segment with options from a node's own stack.
    #[inline(never)]
    pub fn transmit_with(&mut self, node: NodeId, segment: Segment, options: &Options) {
        let agent = self.agent_at(node, &segment);
        let handle = self.pool.put_with(segment, options);
        self.launch(node, agent, handle);
    }

    #[inline(always)]
    fn launch(&mut self, node: NodeId, agent: Option<usize>, handle: Handle) {
        match agent {
            None => self.forward(node, handle),
            Some(a) => {
                self.through_agent(a, handle);
            }
        }
    }

    /// Puts a segment on the link towards its destination, and on those chained to it.
    #[inline(never)]
    pub fn forward(&mut self, node: NodeId, handle: Handle) {
        let segment = self.pool.get(handle);
        let way = &self.ways[usize::from(node) * self.nodes + usize::from(segment.to)];
        let (mut at, mut cause, mut left) = (self.now, self.cause, way.len());
        for &l in way {
            let link = &mut self.links[l as usize];
            if R::ACTIVE {
                let value = link.queue(at, cause).0 as f64;
                let flow = flow_of(&self.known, segment);
                let (node, link) = (link.from, Some(l));
                self.reader.on_event(&Event { t: at, node, link, flow, kind: Kind::Enqueued, segment: Some(segment), cause: "", value });
            }
            let mut plan = Plan::default();
            if let Some(arrival) = link.glide(at, segment.size) {
                plan = Plan { start: at, arrival, ..plan };
            } else {
                match link.offer(at, cause, segment.size) {
                    Offered::Admitted => plan = link.plan(at, at, segment),
                    Offered::Refused => return self.dropped(l as usize, handle, cause::FULL),
                    Offered::Evented => return self.enqueue(l as usize, handle),
                }
            }
            left -= 1;
            if left > 0 && !plan.lost {
                link.passed(plan.arrival);
                (at, cause) = (plan.arrival, plan.start);
                continue;
            }
            if link.launch(&plan, handle) {
                self.schedule_link(l as usize);
            }
            return;
        }
        // No way: checked when the scenario was read, every flow has its routes.
        self.pool.free(handle);
    }

    /// Replaces the way from a node towards a destination.
    pub fn set_way(&mut self, node: NodeId, to: NodeId, way: Box<[u32]>) {
        self.ways[usize::from(node) * self.nodes + usize::from(to)] = way;
    }

    /// Puts a segment into the queue of an evented link.
    #[inline(never)]
    fn enqueue(&mut self, l: usize, handle: Handle) {
        let link = &mut self.links[l];
        let frame = link.frame(handle, self.pool.get(handle), self.now);
        let starts = link.enqueue(self.now, self.cause, frame, &mut self.outcomes);
        self.conclude(l);
        if starts.is_some() {
            self.start(l, starts);
        }
    }

    /// The frame being sent on an evented link has left.
    pub fn depart(&mut self, l: usize) {
        let starts = self.links[l].depart(self.now, &mut self.outcomes);
        self.conclude(l);
        self.start(l, starts);
    }

    /// Sends the next frame of an evented link.
    fn start(&mut self, l: usize, frame: Option<Frame>) {
        if let Some(frame) = frame {
            let segment = *self.pool.get(frame.handle);
            let link = &mut self.links[l];
            if R::ACTIVE && link.is_managed() {
                let (node, waited) = (link.from, (self.now - frame.at).as_secs());
                self.emit(Kind::Dequeued, node, Some(l as u32), &segment, "", waited);
            }
            let link = &mut self.links[l];
            let plan = link.plan(self.now, frame.at, &segment);
            link.launch(&plan, frame.handle);
        }
        self.schedule_link(l);
    }

    /// Carries out what a queue has decided.
    fn conclude(&mut self, l: usize) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Marked { handle, cause } => {
                    let segment = self.pool.get_mut(handle);
                    segment.flags = segment.flags.with(Flags::CE);
                    let (node, segment) = (self.links[l].from, *segment);
                    self.emit(Kind::Marked, node, Some(l as u32), &segment, cause, 0.0);
                }
                Outcome::Dropped { handle, cause } => self.dropped(l, handle, cause),
            }
        }
        self.outcomes = outcomes;
    }

    #[cold]
    fn dropped(&mut self, l: usize, handle: Handle, cause: &'static str) {
        let (node, segment) = (self.links[l].from, *self.pool.get(handle));
        self.emit(Kind::DroppedAtQueue, node, Some(l as u32), &segment, cause, 0.0);
        self.gone(&segment, Fate::Refused);
        self.pool.free(handle);
    }

    /// Makes the scheduler for so many sources. The links in `busy` get lanes, if they are few.
    pub fn give_lanes(&mut self, sources: usize, mut busy: Vec<usize>) {
        if busy.len() > LANES {
            busy.clear();
        }
        for (lane, &l) in busy.iter().enumerate() {
            self.links[l].tag = lane as Lane + 1;
        }
        self.scheduler = Scheduler::new(sources, &busy.iter().map(|&l| (self.arrival_source(l), l as u32)).collect::<Vec<_>>());
    }

    /// Keeps the arrivals at the end of a link in step with it.
    #[inline(always)]
    pub fn schedule_arrival(&mut self, l: usize, lane: Lane, (at, cause): (Time, Time)) {
        if lane != NO_LANE {
            self.scheduler.set_lane(lane, at.0, cause.0);
        } else {
            self.schedule(self.arrival_source(l), (at, cause));
        }
    }

    /// Keeps all events of a link in step with it.
    #[inline(never)]
    pub fn schedule_link(&mut self, l: usize) {
        let link = &self.links[l];
        let (lane, arrival, loss, departure) = (link.tag, link.next_arrival(), link.next_loss(), link.departure());
        self.schedule_arrival(l, lane, arrival);
        self.schedule(self.loss_source(l), loss);
        self.schedule(Self::departure_source(l), departure);
    }

    #[inline(never)]
    fn schedule(&mut self, source: Source, (at, cause): (Time, Time)) {
        if at == Time::NEVER {
            self.scheduler.clear(source);
        } else {
            self.scheduler.set(source, at.0, cause.0);
        }
    }

    /// A copy of a segment is gone.
    #[inline]
    pub fn gone(&mut self, segment: &Segment, fate: Fate) {
        if segment.forward && segment.len > 0 && !segment.flags.has(Flags::DATAGRAM) {
            self.known[segment.flow as usize].truth.lost(segment.seq, segment.attempt, fate);
        }
    }

    /// The agent at this node that sees this segment.
    #[inline]
    pub fn agent_at(&self, node: NodeId, segment: &Segment) -> Option<usize> {
        if segment.flags.has(Flags::DATAGRAM) {
            return None;
        }
        if self.agents.is_empty() {
            return None;
        }
        let (a, _) = self.known[segment.flow as usize].agent?;
        (self.agents[a].node == node).then_some(a)
    }

    /// Shows a segment to an agent and carries out what it says. A segment for this very node comes back.
    pub fn through_agent(&mut self, a: usize, handle: Handle) -> Option<Handle> {
        let segment = *self.pool.get(handle);
        let downlink = self.known[segment.flow as usize].agent.is_some_and(|(_, d)| d == segment.forward);
        let direction = if downlink { Direction::Downlink } else { Direction::Uplink };
        let node = self.agents[a].node;
        if R::ACTIVE {
            let host = &self.agents[a];
            let at_node = AtNode { links: RefCell::new(&mut self.links), down: host.down, up: host.up, now: self.now, cause: self.cause };
            self.reader.on_surroundings(&at_node);
        }
        self.emit(Kind::AgentIn, node, None, &segment, "", 0.0);
        let options = if segment.flags.has(Flags::SACK) { self.pool.options(handle) } else { Options::NONE };
        let verdict = self.ask(a, &options, |agent, ctx| agent.on_segment(ctx, direction, &segment));
        let passed = match verdict {
            Verdict::Forward => true,
            Verdict::Rewrite(edit) => {
                let segment = self.pool.get_mut(handle);
                segment.ack = edit.ack.unwrap_or(segment.ack);
                segment.window = edit.window.unwrap_or(segment.window);
                true
            }
            Verdict::Keep => false,
            Verdict::Drop(reason) => {
                self.emit(Kind::AgentDropped, node, None, &segment, reason, 0.0);
                self.gone(&segment, Fate::DroppedByAgent);
                false
            }
        };
        let mut local = None;
        if !passed {
            self.pool.free(handle);
        } else {
            let segment = *self.pool.get(handle);
            self.emit(Kind::AgentForwarded, node, None, &segment, "", 0.0);
            if segment.to == node {
                local = Some(handle);
            } else {
                self.forward(node, handle);
            }
        }
        self.carry_out(a);
        local
    }

    /// Calls an agent with its context; what it asks for waits in `actions`.
    fn ask<T>(&mut self, a: usize, options: &Options, call: impl FnOnce(&mut AnyAgent, &mut Context<'_>) -> T) -> T {
        let host = &mut self.agents[a];
        let surroundings = AtNode { links: RefCell::new(&mut self.links), down: host.down, up: host.up, now: self.now, cause: self.cause };
        let mut ctx = Context { now: self.now, options, surroundings: &surroundings, actions: &mut self.actions };
        call(&mut host.agent, &mut ctx)
    }

    fn carry_out(&mut self, a: usize) {
        let mut actions = std::mem::take(&mut self.actions);
        let node = self.agents[a].node;
        for action in actions.drain(..) {
            match action {
                Action::Inject(_, mut segment) => {
                    segment.id = self.new_id();
                    if segment.forward && segment.len > 0 {
                        self.known[segment.flow as usize].truth.copied(segment.seq, segment.attempt);
                    }
                    self.emit(Kind::AgentInjected, node, None, &segment, "", 0.0);
                    let handle = self.pool.put(segment);
                    if segment.to == node { self.local.push(handle) } else { self.forward(node, handle) }
                }
                Action::Wake(id, at) => {
                    let now = self.now;
                    let timers = &mut self.agents[a].timers;
                    timers.retain(|t| t.0 != id);
                    timers.push((id, at.max(now), now));
                }
                Action::Cancel(id) => self.agents[a].timers.retain(|t| t.0 != id),
                // A simulated payload is nothing but a length: there is nothing to keep.
                Action::Retain(_) | Action::Release(_) => {}
            }
        }
        self.actions = actions;
        self.schedule_agent(a);
    }

    fn schedule_agent(&mut self, a: usize) {
        let host = &self.agents[a];
        match host.timers.iter().min_by_key(|t| (t.1, t.2, t.0)) {
            Some(&(_, at, armed)) => self.scheduler.set(host.source, at.0, armed.0),
            None => self.scheduler.clear(host.source),
        }
    }

    /// The earliest timer of an agent is due.
    pub fn agent_timer(&mut self, a: usize) {
        let now = self.now;
        let timers = &mut self.agents[a].timers;
        let due = (0..timers.len()).filter(|&i| timers[i].1 <= now).min_by_key(|&i| (timers[i].1, timers[i].2, timers[i].0));
        if let Some(i) = due {
            let (id, ..) = timers.remove(i);
            self.ask(a, &Options::NONE, |agent, ctx| agent.on_timer(ctx, id));
            self.carry_out(a);
        } else {
            self.schedule_agent(a);
        }
    }

    /// A number for a new packet.
    #[inline]
    pub fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// The flow that a segment belongs to.
fn flow_of(known: &[Known], segment: &Segment) -> u32 {
    if segment.flags.has(Flags::DATAGRAM) { segment.flow } else { known[segment.flow as usize].flow }
}

struct AtNode<'a> {
    links: RefCell<&'a mut [Link]>,
    down: usize,
    up: usize,
    now: Time,
    cause: Time,
}

impl AtNode<'_> {
    fn link(&self, direction: Direction) -> usize {
        match direction {
            Direction::Downlink => self.down,
            Direction::Uplink => self.up,
        }
    }
}

impl Surroundings for AtNode<'_> {
    fn queue(&self, direction: Direction) -> QueueState {
        let (packets, bytes, full) = self.links.borrow_mut()[self.link(direction)].queue(self.now, self.cause);
        QueueState { packets, bytes, full }
    }
    fn rate(&self, direction: Direction) -> Option<Rate> {
        self.links.borrow()[self.link(direction)].rate(self.now)
    }
}

/// The way from an end point's stack into the network.
pub struct Port<'a, R> {
    /// The network.
    pub net: &'a mut Net<R>,
    /// Node of the stack.
    pub node: NodeId,
    /// The other end, for the truth about retransmissions (senders only).
    pub receiver: Option<&'a Receiver>,
    /// Where first sendings are noted (senders of endless flows only).
    pub births: Option<&'a mut Births>,
    /// The connection, for senders.
    pub connection: Option<u32>,
}

impl<R: Reader> Output for Port<'_, R> {
    #[inline(always)]
    fn send(&mut self, segment: Segment, cause: Cause) {
        let segment = self.numbered(segment, cause);
        self.net.transmit(self.node, segment);
    }

    fn send_with(&mut self, segment: Segment, options: &Options, cause: Cause) {
        let segment = self.numbered(segment, cause);
        self.net.transmit_with(self.node, segment, options);
    }

    fn classified(&mut self, seq: u64, times: u16, said: Said) {
        if let Some(c) = self.connection {
            self.net.known[c as usize].truth.classified(seq, times, said);
        }
    }
}

impl<R: Reader> Port<'_, R> {
    /// Gives a segment its number and tells those who listen.
    #[inline(always)]
    fn numbered(&mut self, mut segment: Segment, cause: Cause) -> Segment {
        let net = &mut *self.net;
        segment.id = net.new_id();
        if segment.forward {
            if cause == Cause::New
                && let Some(births) = &mut self.births
            {
                births.push(segment.end(), net.now);
            }
            let spurious = cause != Cause::New && segment.len > 0 && self.truth(&segment, cause);
            let net = &mut *self.net;
            if R::ACTIVE {
                let data = segment.len > 0 || segment.flags.has(Flags::SYN) || segment.flags.has(Flags::FIN);
                net.emit(if data { Kind::DataSent } else { Kind::AckSent }, self.node, None, &segment, name_of(cause), 0.0);
                if spurious {
                    net.emit(Kind::Spurious, self.node, None, &segment, name_of(cause), 1.0);
                }
            }
        } else {
            net.emit(Kind::AckSent, self.node, None, &segment, "", 0.0);
        }
        segment
    }

    #[inline(never)]
    fn truth(&mut self, segment: &Segment, cause: Cause) -> bool {
        let Some(receiver) = self.receiver else { return false };
        let end = segment.seq + u64::from(segment.len);
        self.net.known[segment.flow as usize].truth.resent(segment.seq, end, segment.attempt, cause, receiver, segment.id)
    }
}

fn name_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Control => "control",
        Cause::New => "new",
        Cause::FastRetransmit => "fast retransmit",
        Cause::Timeout => "timeout",
        Cause::Probe => "tail loss probe",
        Cause::Recovery => "recovery",
    }
}
