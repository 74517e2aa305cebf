//! Agents at their nodes: calls them with segments and events, and carries out their actions.

use std::cell::RefCell;

use lasthop::agent::{
    Action, Agent, Context, Destination, LinkChange, LinkEvent, NodeView, QueueState,
    Subscriptions, Verdict,
};
use lasthop::link::Link;
use lasthop::role::Role;
use lasthop::schemes::catalogue::{AnyAgent, SchemeChoice};
use lasthop::segment::{Direction, Flags, FlowId, Handle, NodeId, Notice, Options, Segment};
use lasthop::tcp::sender::Limit;
use lasthop::units::{Rate, Time};

use crate::engine::scheduler::Source;
use crate::events::{Kind, Observer};
use crate::network::cells::{CellHost, queue_of};
use crate::network::{ConnectionInfo, Net};
use crate::probes::ground_truth::Fate;

/// An agent at a node, with its timers.
pub struct AgentHost {
    /// The agent algorithm.
    pub agent: AnyAgent,
    /// Its scheme with the settings of the flows that use it.
    pub scheme: SchemeChoice,
    /// Label of its scheme.
    pub label: String,
    /// Node it runs at.
    pub node: NodeId,
    /// True if it has a cache whose size may limit the throughput.
    pub has_cache: bool,
    /// The link events that it subscribes to.
    pub subscriptions: Subscriptions,
    /// Links of its first connection: what it can read of its node outside of segments.
    links: NodeLinks,
    timers: Vec<(u32, Time, Time)>,
    source: Source,
}

/// The links by which a node reaches the station and the fixed host of a connection. A node at an
/// end of the path has only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLinks {
    /// Index of the link towards the station.
    pub down: Option<u32>,
    /// Index of the link towards the fixed host.
    pub up: Option<u32>,
}

impl NodeLinks {
    fn toward(self, direction: Direction) -> Option<u32> {
        match direction {
            Direction::Downlink => self.down,
            Direction::Uplink => self.up,
        }
    }
}

/// An agent on the path of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Index of the agent.
    pub agent: u32,
    /// True if it is shown the connection's segments; false for a passive agent.
    pub sees: bool,
    /// Its node.
    pub node: NodeId,
    /// Role of that node.
    pub role: Role,
    /// True if the connection's data travel downlink at its node.
    pub downlink: bool,
    /// The connection's links at that node.
    pub links: NodeLinks,
}

impl Watch {
    /// The direction of a segment of the connection at this node.
    fn direction(&self, segment: &Segment) -> Direction {
        if self.downlink == segment.forward { Direction::Downlink } else { Direction::Uplink }
    }
}

/// Work to be done at the present instant, after the event that caused it.
#[derive(Clone, Copy, Debug)]
pub enum Pending {
    /// Deliver a segment that an agent sent to its own node's stack.
    Deliver(Handle),
    /// Pass a link event of a segment to an agent.
    LinkEvent(Watch, LinkEvent, Segment),
}

/// A link whose state changes an agent subscribes to.
#[derive(Clone, Copy, Debug)]
pub struct LinkStateWatch {
    /// Index of the agent.
    pub agent: u32,
    /// Index of the link.
    pub link: u32,
    /// Direction of the link, seen from the agent's node.
    pub direction: Direction,
    /// The state reported last: rate, and whether the link is down.
    reported: (Option<Rate>, bool),
    source: Source,
}

impl AgentHost {
    /// An agent at `node`, without timers.
    pub fn new(
        agent: AnyAgent,
        scheme: SchemeChoice,
        node: NodeId,
        links: NodeLinks,
        source: Source,
    ) -> Self {
        let subscriptions = agent.subscribes();
        let has_cache = scheme.scheme.bounds().iter().any(|b| b.limit == Limit::AgentCache);
        AgentHost {
            agent,
            has_cache,
            label: scheme.label.clone(),
            scheme,
            node,
            subscriptions,
            links,
            timers: Vec::new(),
            source,
        }
    }
}

impl<R: Observer> Net<R> {
    /// The agent at `node` that is shown this segment.
    #[inline]
    pub fn agent_at(&self, node: NodeId, segment: &Segment) -> Option<usize> {
        if self.agents.is_empty() || segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            return None;
        }
        self.watch(node, segment.flow).filter(|w| w.sees).map(|w| w.agent as usize)
    }

    /// The agent at `node` on the path of this connection, passive or not.
    #[inline]
    pub fn watch(&self, node: NodeId, connection: u32) -> Option<Watch> {
        self.connection_info
            .get(connection as usize)?
            .agents
            .iter()
            .find(|w| w.node == node)
            .copied()
    }

    /// Queues a link event of a segment for the agent at `node`, if that subscribes to it.
    #[inline]
    pub fn raise(&mut self, node: NodeId, event: LinkEvent, segment: &Segment) {
        if self.subscriptions[usize::from(node)].any(event.subscription()) {
            self.raise_at(node, event, segment);
        }
    }

    #[inline(never)]
    fn raise_at(&mut self, node: NodeId, event: LinkEvent, segment: &Segment) {
        if segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            return;
        }
        if let Some(watch) = self.watch(node, segment.flow)
            && self.agents[watch.agent as usize].subscriptions.any(event.subscription())
        {
            self.pending.push_back(Pending::LinkEvent(watch, event, *segment));
        }
    }

    /// Returns true if the agent at `node` subscribes to any of these events of this segment.
    pub fn subscribes(&self, node: NodeId, segment: &Segment, events: Subscriptions) -> bool {
        self.watch(node, segment.flow)
            .is_some_and(|w| self.agents[w.agent as usize].subscriptions.any(events))
    }

    /// Passes a link event to an agent.
    pub fn deliver_link_event(&mut self, watch: &Watch, event: LinkEvent, segment: &Segment) {
        let (a, direction) = (watch.agent as usize, watch.direction(segment));
        self.call_agent(a, watch.links, &Options::NONE, |agent, ctx| {
            agent.on_link_event(ctx, direction, event, segment)
        });
        self.carry_out(a);
    }

    /// Subscribes an agent to the state changes of a link.
    pub fn watch_link_state(
        &mut self,
        agent: u32,
        link: u32,
        direction: Direction,
        source: Source,
    ) {
        let reported = self.state_of(link);
        self.link_watches.push(LinkStateWatch { agent, link, direction, reported, source });
    }

    fn state_of(&self, link: u32) -> (Option<Rate>, bool) {
        let link = &self.links[link as usize];
        (link.rate(self.now), link.is_down(self.now))
    }

    /// Schedules the next state change of a watched link.
    pub fn schedule_link_watch(&mut self, i: usize) {
        let LinkStateWatch { link, source, .. } = self.link_watches[i];
        match self.links[link as usize].next_change(self.now) {
            Some(at) => self.scheduler.set(source, at.0, self.now.0),
            None => self.scheduler.clear(source),
        }
    }

    /// Reports a change of rate, or the start or end of an outage, of a watched link to its agent.
    #[inline(never)]
    pub fn link_state_changed(&mut self, i: usize) {
        let LinkStateWatch { agent, link, direction, reported, .. } = self.link_watches[i];
        let state = self.state_of(link);
        self.link_watches[i].reported = state;
        let down = (state.1 != reported.1).then_some(if state.1 {
            LinkChange::Down
        } else {
            LinkChange::Up
        });
        let rate = state.0.filter(|r| r.0 > 0 && state.0 != reported.0).map(LinkChange::Rate);
        for change in down.into_iter().chain(rate) {
            for c in 0..self.connection_info.len() {
                let follows =
                    |w: &&Watch| w.agent == agent && w.links.toward(direction) == Some(link);
                if let Some(&watch) = self.connection_info[c].agents.iter().find(follows) {
                    self.call_agent(agent as usize, watch.links, &Options::NONE, |agent, ctx| {
                        agent.on_link_change(ctx, c as u32, direction, change)
                    });
                    self.carry_out(agent as usize);
                }
            }
        }
        self.schedule_link_watch(i);
    }

    /// Passes a notice to the agent at `node`.
    pub fn notice_to_agent(&mut self, node: NodeId, notice: &Notice) {
        let Some(watch) = self.watch(node, notice.flow) else { return };
        let a = watch.agent as usize;
        self.call_agent(a, watch.links, &Options::NONE, |agent, ctx| agent.on_notice(ctx, notice));
        self.carry_out(a);
    }

    /// Replaces an agent by a new one without state, for a handover. Returns the state of each of
    /// its flows.
    pub fn replace_agent(&mut self, a: usize, role: Role) -> Vec<(u32, Vec<u8>)> {
        let flows = (0..self.connection_info.len())
            .filter(|&c| self.connection_info[c].agents.iter().any(|w| w.agent as usize == a));
        let host = &mut self.agents[a];
        let states = flows.filter_map(|c| Some((c as u32, host.agent.export(c as u32)?))).collect();
        if let Some(agent) = host.scheme.scheme.agent_at(role) {
            host.agent = agent;
        }
        host.timers.clear();
        self.schedule_agent(a);
        states
    }

    /// Shows a segment to an agent and applies its verdict. Returns the segment if it is addressed
    /// to the agent's own node.
    pub fn through_agent(&mut self, a: usize, handle: Handle) -> Option<Handle> {
        let segment = *self.pool.get(handle);
        let node = self.agents[a].node;
        // Not expected: the caller found the agent with the same segment.
        let Some(watch) = self.watch(node, segment.flow) else { return Some(handle) };
        if R::ACTIVE {
            let (now, triggered_at) = (self.now, self.triggered_at);
            let at_node = SimNodeView {
                links: RefCell::new(&mut self.links),
                cells: &self.cells,
                connection_info: &self.connection_info,
                agent: a as u32,
                node_links: watch.links,
                now,
                triggered_at,
            };
            self.reader.on_node_view(&at_node);
        }
        self.emit_frame(Kind::AgentIn, node, None, handle, "");
        let options = if segment.flags.any(Flags::OPTIONS) {
            self.pool.options(handle)
        } else {
            Options::NONE
        };
        let verdict = self.call_agent(a, watch.links, &options, |agent, ctx| {
            agent.on_segment(ctx, watch.direction(&segment), &segment)
        });
        if self.agents[a].has_cache {
            let (binds, flow) = (
                self.agents[a].agent.cache_binds(segment.flow),
                self.connection_info[segment.flow as usize].flow,
            );
            self.limits[flow as usize].cache(self.now, binds);
        }
        let passed = match verdict {
            Verdict::Forward => true,
            Verdict::Rewrite(edit) => {
                let segment = self.pool.get_mut(handle);
                segment.ack = edit.ack.unwrap_or(segment.ack);
                segment.window = edit.window.unwrap_or(segment.window);
                if edit.eln {
                    segment.flags = segment.flags.with(Flags::ELN);
                }
                true
            }
            Verdict::Keep => {
                self.ledger.now.at_agents += u64::from(segment.size);
                false
            }
            Verdict::Drop(reason) => {
                self.emit(Kind::AgentDropped, node, None, &segment, reason, 0.0);
                self.record_loss(&segment, Fate::DroppedByAgent);
                false
            }
        };
        let mut local = None;
        if !passed {
            self.pool.free(handle);
        } else {
            let segment = *self.pool.get(handle);
            self.emit_frame(Kind::AgentForwarded, node, None, handle, "");
            if segment.to == node {
                local = Some(handle);
            } else {
                self.forward(node, handle);
            }
        }
        self.carry_out(a);
        local
    }

    /// Calls an agent with its context; its actions are collected in `self.actions`.
    fn call_agent<T>(
        &mut self,
        a: usize,
        node_links: NodeLinks,
        options: &Options,
        call: impl FnOnce(&mut AnyAgent, &mut Context<'_>) -> T,
    ) -> T {
        let host = &mut self.agents[a];
        let (now, triggered_at) = (self.now, self.triggered_at);
        let node_view = SimNodeView {
            links: RefCell::new(&mut self.links),
            cells: &self.cells,
            connection_info: &self.connection_info,
            agent: a as u32,
            node_links,
            now,
            triggered_at,
        };
        let mut ctx =
            Context { now: self.now, options, node_view: &node_view, actions: &mut self.actions };
        call(&mut host.agent, &mut ctx)
    }

    fn carry_out(&mut self, a: usize) {
        let mut actions = std::mem::take(&mut self.actions);
        let (node, mut timers_changed) = (self.agents[a].node, false);
        for action in actions.drain(..) {
            timers_changed |= matches!(action, Action::Wake(..) | Action::Cancel(_));
            match action {
                Action::Inject(_, mut segment) => {
                    segment.id = self.new_id();
                    if segment.forward && segment.len > 0 {
                        self.connection_info[segment.flow as usize].ground_truth.copied(
                            self.now,
                            segment.seq,
                            segment.attempt,
                        );
                    }
                    self.emit(Kind::AgentInjected, node, None, &segment, "", 0.0);
                    self.ledger.now.injected += u64::from(segment.size);
                    let handle = self.pool.put(segment);
                    self.send_from(node, segment.to, handle);
                }
                Action::Forward(_, segment) => {
                    self.emit(Kind::AgentForwarded, node, None, &segment, "", 0.0);
                    self.ledger.now.injected += u64::from(segment.size);
                    let handle = self.pool.put(segment);
                    self.send_from(node, segment.to, handle);
                }
                Action::Notify(notice, to) => self.notify(node, &notice, to),
                Action::Wake(id, at) => {
                    let timers = &mut self.agents[a].timers;
                    let timer = (id, at.max(self.now), self.now);
                    match timers.iter_mut().find(|t| t.0 == id) {
                        Some(set) => *set = timer,
                        None => timers.push(timer),
                    }
                }
                Action::Cancel(id) => self.agents[a].timers.retain(|t| t.0 != id),
                // A simulated payload is only a length, so there is no data to retain.
                Action::Retain(_) | Action::Release(_) => {}
            }
        }
        self.actions = actions;
        if timers_changed {
            self.schedule_agent(a);
        }
    }

    /// Sends a packet of an agent, or delivers it to the agent's own node at this instant.
    fn send_from(&mut self, node: NodeId, to: NodeId, handle: Handle) {
        if to == node {
            self.pending.push_back(Pending::Deliver(handle))
        } else {
            self.forward(node, handle)
        }
    }

    /// Sends a notice, if its addressee exists.
    fn notify(&mut self, node: NodeId, notice: &Notice, to: Destination) {
        let Some(connection_info) = self.connection_info.get(notice.flow as usize) else { return };
        let (to, addressee) = match to {
            Destination::Sender => (connection_info.from, Flags::NONE),
            Destination::Receiver => (connection_info.to, Flags::NONE),
            Destination::Agent(role) => {
                let Some(watch) = connection_info.agents.iter().find(|w| w.role == role) else {
                    return;
                };
                (watch.node, Flags::TO_AGENT)
            }
        };
        let mut segment = Segment::of_notice(notice, to);
        segment.flags = segment.flags.with(addressee);
        segment.id = self.new_id();
        self.emit(Kind::NoticeSent, node, None, &segment, notice.kind.name(), 0.0);
        self.ledger.now.injected += u64::from(segment.size);
        let handle = self.pool.put(segment);
        self.send_from(node, to, handle);
    }

    fn schedule_agent(&mut self, a: usize) {
        let host = &self.agents[a];
        match host.timers.iter().min_by_key(|t| (t.1, t.2, t.0)) {
            Some(&(_, at, armed)) => self.scheduler.set(host.source, at.0, armed.0),
            None => self.scheduler.clear(host.source),
        }
    }

    /// Runs the earliest timer of an agent if it is due.
    #[inline(never)]
    pub fn agent_timer(&mut self, a: usize) {
        let now = self.now;
        let timers = &mut self.agents[a].timers;
        let due = (0..timers.len())
            .filter(|&i| timers[i].1 <= now)
            .min_by_key(|&i| (timers[i].1, timers[i].2, timers[i].0));
        if let Some(i) = due {
            let (id, ..) = timers.remove(i);
            let node_links = self.agents[a].links;
            self.call_agent(a, node_links, &Options::NONE, |agent, ctx| agent.on_timer(ctx, id));
            self.carry_out(a);
        }
        self.schedule_agent(a);
    }
}

struct SimNodeView<'a> {
    links: RefCell<&'a mut [Link]>,
    cells: &'a [CellHost],
    connection_info: &'a [ConnectionInfo],
    agent: u32,
    node_links: NodeLinks,
    now: Time,
    triggered_at: Time,
}

impl SimNodeView<'_> {
    fn link(&self, direction: Direction) -> Option<usize> {
        self.node_links.toward(direction).map(|l| l as usize)
    }
}

impl NodeView for SimNodeView<'_> {
    fn queue(&self, direction: Direction) -> QueueState {
        let Some(l) = self.link(direction) else { return QueueState::default() };
        let (packets, bytes, full) =
            queue_of(&mut self.links.borrow_mut()[l], self.cells, self.now, self.triggered_at);
        QueueState { packets, bytes, full }
    }
    fn rate(&self, direction: Direction) -> Option<Rate> {
        self.links.borrow()[self.link(direction)?].rate(self.now)
    }
    fn rate_of(&self, flow: FlowId, direction: Direction) -> Option<Rate> {
        let watch = self
            .connection_info
            .get(flow as usize)?
            .agents
            .iter()
            .find(|w| w.agent == self.agent)?;
        self.links.borrow()[watch.links.toward(direction)? as usize].rate(self.now)
    }
}
