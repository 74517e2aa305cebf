//! Agents at their nodes: calls them with segments and events, and carries out their actions.

use std::cell::RefCell;

use lasthop::agent::{
    Action, Agent, Context, Destination, LinkChange, NodeView, QueueState, Rewrite, Subscriptions,
    Verdict,
};
use lasthop::link::Link;
use lasthop::schemes::catalogue::{AnyAgent, SchemeChoice};
use lasthop::segment::{Direction, Flags, FlowId, Handle, NodeId, Notice, Options, Segment};
use lasthop::tcp::sender::Limit;
use lasthop::units::{Rate, Time};

use crate::engine::scheduler::Source;
use crate::events::probe::{Fate, Probe};
use crate::events::{Kind, ReportToAgent};
use crate::network::cells::{CellHost, queue_of};
use crate::network::paths::{NodeLinks, Notification, Paths, Watch};
use crate::network::{Net, Pending};

/// An agent at a node, with its timers.
struct AgentHost {
    agent: AnyAgent,
    /// Its scheme with the settings of the flows that use it.
    scheme: SchemeChoice,
    node: NodeId,
    /// True if it has a cache whose size may limit the throughput.
    has_cache: bool,
    /// The link events that it subscribes to.
    subscriptions: Subscriptions,
    /// Links of its first connection: what it can read of its node outside of segments.
    links: NodeLinks,
    timers: Vec<(u32, Time, Time)>,
    source: Source,
    /// Time of the scheduler entry of its timers, at or before the earliest of them; `NEVER` if
    /// there is none.
    entry: Time,
}

impl AgentHost {
    /// The timer that is due first: its number, when it is due and when it was set.
    fn first_timer(&self) -> Option<(u32, Time, Time)> {
        self.timers.iter().min_by_key(|t| (t.1, t.2, t.0)).copied()
    }

    /// Sets the timer `id` to expire at `at`.
    fn wake(&mut self, id: u32, at: Time, now: Time) {
        let timer = (id, at.max(now), now);
        match self.timers.iter_mut().find(|t| t.0 == id) {
            Some(set) => *set = timer,
            None => self.timers.push(timer),
        }
    }
}

/// A link whose state changes an agent subscribes to.
#[derive(Clone, Copy, Debug)]
struct LinkStateWatch {
    agent: u32,
    link: u32,
    /// Direction of the link, seen from the agent's node.
    direction: Direction,
    /// The state reported last: rate, and whether the link is down.
    reported: (Option<Rate>, bool),
    source: Source,
}

/// The agents of a run.
#[derive(Default)]
pub struct Agents {
    hosts: Vec<AgentHost>,
    watches: Vec<LinkStateWatch>,
    actions: Vec<Action>,
}

/// What an agent is called with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    /// A link event that it subscribes to.
    LinkEvent(&'a Notification),
    /// A notice about a flow on this path.
    Notice(&'a Notice, NodeLinks),
    /// The entry of its timers comes up.
    Timer,
}

/// The counters of an agent, for the result.
pub(crate) struct AgentCounters<'a> {
    pub node: NodeId,
    pub scheme: &'a str,
    pub counters: Vec<(&'static str, u64)>,
    pub state_bytes: usize,
}

impl Agents {
    /// Adds an agent at `node`, without timers. Returns its index.
    pub(crate) fn add(
        &mut self,
        agent: AnyAgent,
        scheme: SchemeChoice,
        node: NodeId,
        links: NodeLinks,
        source: Source,
    ) -> usize {
        self.hosts.push(AgentHost {
            has_cache: scheme.scheme.bounds().iter().any(|b| b.limit == Limit::AgentCache),
            subscriptions: agent.subscribes(),
            agent,
            scheme,
            node,
            links,
            timers: Vec::new(),
            source,
            entry: Time::NEVER,
        });
        self.hosts.len() - 1
    }

    /// The agent of a scheme at a node.
    pub(crate) fn find(&self, node: NodeId, label: &str) -> Option<usize> {
        self.hosts.iter().position(|a| a.node == node && a.scheme.label == label)
    }

    /// Number of agents.
    pub(crate) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Indices of the agents at a node.
    pub(crate) fn at_node(&self, node: NodeId) -> Vec<usize> {
        (0..self.hosts.len()).filter(|&a| self.hosts[a].node == node).collect()
    }

    /// Returns true if an agent is shown no segments.
    pub(crate) fn is_passive(&self, a: usize) -> bool {
        self.hosts[a].agent.is_passive()
    }

    /// Returns true if an agent may inject ACKs.
    pub(crate) fn sends_acks(&self, a: usize) -> bool {
        self.hosts[a].agent.sends_acks()
    }

    /// The link events that an agent subscribes to.
    pub(crate) fn subscriptions(&self, a: usize) -> Subscriptions {
        self.hosts[a].subscriptions
    }

    /// The counters of all agents.
    pub(crate) fn counters(&self) -> impl Iterator<Item = AgentCounters<'_>> {
        self.hosts.iter().map(|host| AgentCounters {
            node: host.node,
            scheme: &host.scheme.label,
            counters: host.agent.counters(),
            state_bytes: host.agent.state_bytes(),
        })
    }

    /// The agent at `node` that is shown this segment.
    #[inline]
    pub(crate) fn at<P>(&self, net: &Net<P>, node: NodeId, segment: &Segment) -> Option<Watch> {
        if self.hosts.is_empty() || segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            return None;
        }
        net.paths.watch(node, segment.flow).filter(|w| w.sees).copied()
    }

    /// Calls an agent and carries out what it asks for.
    pub(crate) fn handle<P: Probe>(&mut self, a: usize, input: Input<'_>, net: &mut Net<P>) {
        match input {
            Input::LinkEvent(Notification { watch, event, segment }) => {
                let direction = watch.direction(segment);
                if P::READS {
                    self.report_node_view(a, watch.links, net);
                    net.probes.link_reported(&ReportToAgent {
                        t: net.now,
                        node: watch.node,
                        direction,
                        event: *event,
                        segment,
                    });
                }
                self.call(a, watch.links, &Options::NONE, net, |agent, ctx| {
                    agent.on_link_event(ctx, direction, *event, segment)
                });
                self.carry_out(a, net);
            }
            Input::Notice(notice, links) => {
                self.call(a, links, &Options::NONE, net, |agent, ctx| agent.on_notice(ctx, notice));
                self.carry_out(a, net);
            }
            Input::Timer => self.timer(a, net),
        }
    }

    /// Shows a segment of its node's stack to its agent and sends it, or what the agent wants.
    #[inline(never)]
    pub(super) fn on_sending<P: Probe>(&mut self, watch: &Watch, handle: Handle, net: &mut Net<P>) {
        let segment = *net.pool.get(handle);
        if self.passes(watch, &segment, handle, net) && segment.to != watch.node {
            net.forward(watch.node, handle);
        }
        self.carry_out(watch.agent as usize, net);
    }

    /// Shows a segment to its agent and applies the verdict. Returns false if the segment does not
    /// go on; otherwise it has to be sent before the agent's actions are carried out, unless it is
    /// addressed to the agent's own node.
    #[inline(always)]
    pub(super) fn passes<P: Probe>(
        &mut self,
        watch: &Watch,
        segment: &Segment,
        handle: Handle,
        net: &mut Net<P>,
    ) -> bool {
        let (a, node) = (watch.agent as usize, watch.node);
        if P::READS {
            self.report_node_view(a, watch.links, net);
        }
        net.emit_frame(Kind::AgentIn, node, None, handle, "");
        let mut copy = None;
        let options = net.pool.valid_options(handle, &mut copy);
        let verdict = self.show(watch, segment, options, net);
        if let Verdict::Rewrite(edit) = &verdict {
            rewrite(net.pool.get_mut(handle), edit);
        }
        let passes = apply(&verdict, node, segment, net);
        if passes {
            net.emit_frame(Kind::AgentForwarded, node, None, handle, "");
        } else {
            net.pool.free(handle);
        }
        passes
    }

    /// Shows a segment to its agent. Returns the verdict.
    #[inline(always)]
    pub(super) fn show<P: Probe>(
        &mut self,
        watch: &Watch,
        segment: &Segment,
        options: &Options,
        net: &mut Net<P>,
    ) -> Verdict {
        let a = watch.agent as usize;
        let verdict = self.call(a, watch.links, options, net, |agent, ctx| {
            agent.on_segment(ctx, watch.direction(segment), segment)
        });
        if self.hosts[a].has_cache {
            let binds = self.hosts[a].agent.cache_binds(segment.flow);
            let flow = net.paths.all()[segment.flow as usize].flow;
            net.probes.cache_binds(net.now, flow, binds);
        }
        verdict
    }

    /// Reports the view of its node that an agent is about to get.
    fn report_node_view<P: Probe>(&self, a: usize, node_links: NodeLinks, net: &mut Net<P>) {
        let Net { links, cells, paths, probes, now, triggered_at, .. } = net;
        let view = SimNodeView {
            links: RefCell::new(links),
            cells,
            paths,
            agent: a as u32,
            node_links,
            now: *now,
            triggered_at: *triggered_at,
        };
        probes.node_view(&view, self.hosts[a].subscriptions);
    }

    /// Calls an agent with its context; its actions are collected in `self.actions`.
    #[inline(always)]
    fn call<P: Probe, T>(
        &mut self,
        a: usize,
        node_links: NodeLinks,
        options: &Options,
        net: &mut Net<P>,
        call: impl FnOnce(&mut AnyAgent, &mut Context<'_>) -> T,
    ) -> T {
        let Net { links, cells, paths, now, triggered_at, .. } = net;
        let node_view = SimNodeView {
            links: RefCell::new(links),
            cells,
            paths,
            agent: a as u32,
            node_links,
            now: *now,
            triggered_at: *triggered_at,
        };
        let actions = &mut self.actions;
        let mut ctx = Context { now: *now, options, node_view: &node_view, actions };
        call(&mut self.hosts[a].agent, &mut ctx)
    }

    /// Carries out what an agent has asked for.
    #[inline]
    pub(super) fn carry_out<P: Probe>(&mut self, a: usize, net: &mut Net<P>) {
        if !self.actions.is_empty() {
            self.carry_out_actions(a, net);
        }
    }

    #[inline(never)]
    fn carry_out_actions<P: Probe>(&mut self, a: usize, net: &mut Net<P>) {
        if let [Action::Wake(id, at)] = *self.actions {
            self.actions.clear();
            self.hosts[a].wake(id, at, net.now);
            return self.schedule(a, net);
        }
        let mut actions = std::mem::take(&mut self.actions);
        let (node, mut timers_changed) = (self.hosts[a].node, false);
        for action in actions.drain(..) {
            timers_changed |= matches!(action, Action::Wake(..) | Action::Cancel(_));
            match action {
                Action::Inject(_, mut segment) => {
                    segment.id = net.new_id();
                    send(net, node, Kind::AgentInjected, segment, "");
                }
                Action::Forward(_, segment) => send(net, node, Kind::AgentForwarded, segment, ""),
                Action::Notify(notice, to) => notify(net, node, &notice, to),
                Action::Wake(id, at) => self.hosts[a].wake(id, at, net.now),
                Action::Cancel(id) => self.hosts[a].timers.retain(|t| t.0 != id),
                // A simulated payload is only a length, so there is no data to retain.
                Action::Retain(_) | Action::Release(_) => {}
            }
        }
        self.actions = actions;
        if timers_changed {
            self.schedule(a, net);
        }
    }

    /// Lazy timers: an entry before the first of them remains and is moved when it comes up.
    fn schedule<P: Probe>(&mut self, a: usize, net: &mut Net<P>) {
        let host = &mut self.hosts[a];
        if let Some((_, at, armed)) = host.first_timer().filter(|t| t.1 < host.entry) {
            net.scheduler.set(host.source, at.0, armed.0);
            host.entry = at;
        }
    }

    /// The entry of an agent's timers has come up: runs the earliest one if it is due.
    #[inline(never)]
    fn timer<P: Probe>(&mut self, a: usize, net: &mut Net<P>) {
        let host = &mut self.hosts[a];
        host.entry = Time::NEVER;
        let is_due =
            |t: &(u32, Time, Time)| (t.1.0, t.2.0) <= (net.event.time, net.event.triggered_at);
        if let Some((id, ..)) = host.first_timer().filter(is_due) {
            host.timers.retain(|t| t.0 != id);
            let links = host.links;
            self.call(a, links, &Options::NONE, net, |agent, ctx| agent.on_timer(ctx, id));
            self.carry_out(a, net);
        }
        self.schedule(a, net);
        if self.hosts[a].entry == Time::NEVER {
            net.scheduler.clear(self.hosts[a].source);
        }
    }

    /// Subscribes an agent to the state changes of a link.
    pub(crate) fn watch_link_state<P>(
        &mut self,
        (agent, link, direction): (u32, u32, Direction),
        source: Source,
        net: &Net<P>,
    ) {
        let reported = state_of(net, link);
        self.watches.push(LinkStateWatch { agent, link, direction, reported, source });
    }

    /// Number of watched links.
    pub(crate) fn watches(&self) -> usize {
        self.watches.len()
    }

    /// Schedules the next state change of a watched link.
    pub(crate) fn schedule_watch<P: Probe>(&self, i: usize, net: &mut Net<P>) {
        let LinkStateWatch { link, source, .. } = self.watches[i];
        match net.links[link as usize].next_change(net.now) {
            Some(at) => net.scheduler.set(source, at.0, net.now.0),
            None => net.scheduler.clear(source),
        }
    }

    /// Reports a change of rate, or the start or end of an outage, of a watched link to its agent.
    #[inline(never)]
    pub(crate) fn link_state_changed<P: Probe>(&mut self, i: usize, net: &mut Net<P>) {
        let LinkStateWatch { agent, link, direction, reported, .. } = self.watches[i];
        let state = state_of(net, link);
        self.watches[i].reported = state;
        let down = (state.1 != reported.1).then_some(if state.1 {
            LinkChange::Down
        } else {
            LinkChange::Up
        });
        let rate = state.0.filter(|r| r.0 > 0 && state.0 != reported.0).map(LinkChange::Rate);
        for change in down.into_iter().chain(rate) {
            for c in 0..net.paths.all().len() {
                let follows =
                    |w: &&Watch| w.agent == agent && w.links.toward(direction) == Some(link);
                if let Some(&watch) = net.paths.all()[c].agents.iter().find(follows) {
                    self.call(agent as usize, watch.links, &Options::NONE, net, |agent, ctx| {
                        agent.on_link_change(ctx, c as u32, direction, change)
                    });
                    self.carry_out(agent as usize, net);
                }
            }
        }
        self.schedule_watch(i, net);
    }

    /// Replaces an agent by a new one without state, for a handover. Returns the state of each of
    /// its flows; nothing if it is on no path.
    pub(crate) fn replace<P: Probe>(&mut self, a: usize, net: &mut Net<P>) -> Vec<(u32, Vec<u8>)> {
        let role = |w: &Watch| (w.agent as usize == a).then_some(w.role);
        let Some(role) = net.paths.all().iter().flat_map(|p| &p.agents).find_map(role) else {
            return Vec::new();
        };
        let paths = net.paths.all();
        let flows =
            (0..paths.len()).filter(|&c| paths[c].agents.iter().any(|w| w.agent as usize == a));
        let host = &mut self.hosts[a];
        let states = flows.filter_map(|c| Some((c as u32, host.agent.export(c as u32)?))).collect();
        if let Some(agent) = host.scheme.scheme.agent_at(role) {
            host.agent = agent;
        }
        host.timers.clear();
        self.schedule(a, net);
        states
    }

    /// Gives an agent the state of a flow, after a handover.
    pub(crate) fn import(&mut self, a: usize, connection: u32, state: &[u8]) {
        self.hosts[a].agent.import(connection, state);
    }
}

/// Applies the verdict on a segment, except for what it changes. Returns true if the segment goes
/// on.
#[inline(always)]
pub(super) fn apply<P: Probe>(
    verdict: &Verdict,
    node: NodeId,
    segment: &Segment,
    net: &mut Net<P>,
) -> bool {
    match verdict {
        Verdict::Forward | Verdict::Rewrite(_) => true,
        Verdict::Keep => {
            net.probes.held_by_agent(segment);
            false
        }
        Verdict::Drop(reason) => {
            net.emit(Kind::AgentDropped, node, None, segment, reason, 0.0);
            net.probes.lost(net.now, net.now, segment, Fate::DroppedByAgent);
            false
        }
    }
}

/// Changes a segment as a verdict says.
pub(super) fn rewrite(segment: &mut Segment, edit: &Rewrite) {
    segment.ack = edit.ack.unwrap_or(segment.ack);
    segment.window = edit.window.unwrap_or(segment.window);
    if edit.eln {
        segment.flags = segment.flags.with(Flags::ELN);
    }
}

/// Sends a packet of an agent, or delivers it to the agent's own node at this instant.
fn send<P: Probe>(
    net: &mut Net<P>,
    node: NodeId,
    kind: Kind,
    segment: Segment,
    reason: &'static str,
) {
    net.probes.injected(net.now, node, kind, &segment, reason);
    let (to, handle) = (segment.to, net.pool.put(segment));
    if to == node { net.add_pending(Pending::Deliver(handle)) } else { net.forward(node, handle) }
}

/// Sends a notice, if its addressee exists.
fn notify<P: Probe>(net: &mut Net<P>, node: NodeId, notice: &Notice, to: Destination) {
    let Some(path) = net.paths.all().get(notice.flow as usize) else { return };
    let (to, addressee) = match to {
        Destination::Sender => (path.from, Flags::NONE),
        Destination::Receiver => (path.to, Flags::NONE),
        Destination::Agent(role) => {
            let Some(watch) = path.agents.iter().find(|w| w.role == role) else { return };
            (watch.node, Flags::TO_AGENT)
        }
    };
    let mut segment = Segment::of_notice(notice, to);
    segment.flags = segment.flags.with(addressee);
    segment.id = net.new_id();
    send(net, node, Kind::NoticeSent, segment, notice.kind.name());
}

/// The rate of a link, and whether it is down.
fn state_of<P>(net: &Net<P>, link: u32) -> (Option<Rate>, bool) {
    let link = &net.links[link as usize];
    (link.rate(net.now), link.is_down(net.now))
}

struct SimNodeView<'a> {
    links: RefCell<&'a mut [Link]>,
    cells: &'a [CellHost],
    paths: &'a Paths,
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
    fn is_full(&self, direction: Direction) -> bool {
        let Some(l) = self.link(direction) else { return false };
        let link = &mut self.links.borrow_mut()[l];
        link.place().map_or_else(
            || link.is_full(self.now, self.triggered_at),
            |place| self.cells[place.cell as usize].cell.queue(place.from as usize).2,
        )
    }
    fn rate(&self, direction: Direction) -> Option<Rate> {
        self.links.borrow()[self.link(direction)?].rate(self.now)
    }
    fn rate_of(&self, flow: FlowId, direction: Direction) -> Option<Rate> {
        let watch =
            self.paths.all().get(flow as usize)?.agents.iter().find(|w| w.agent == self.agent)?;
        self.links.borrow()[watch.links.toward(direction)? as usize].rate(self.now)
    }
}
