//! Builds a simulation at time zero from a checked scenario.

use lasthop::agent::{Agent, Subscriptions};
use lasthop::air::config::{RandomStart, RateConfig, TraceStart};
use lasthop::link::Link;
use lasthop::random::Stream;
use lasthop::scenario::network::{Flow, Network, Role};
use lasthop::schemes::catalogue::SenderPart;
use lasthop::segment::{Direction, Flags, NodeId, Payload, Segment};
use lasthop::tcp::profile::{ClockKind, Profile};
use lasthop::tcp::receiver::{Receiver, ReceiverConfig};
use lasthop::tcp::sender::{Limit, Sender, SenderConfig};
use lasthop::traffic::AppState;
use lasthop::units::{Duration, Size, Time};
use thiserror::Error;

use crate::engine::scheduler::Source;
use crate::events::Observer;
use crate::hosts::agent::{AgentHost, NodeLinks, Watch};
use crate::hosts::endpoint::{Connection, FlowStats, WriteTimes};
use crate::hosts::relay::{CAPABILITIES, RelayHost};
use crate::network::cells::CellHost;
use crate::network::errors::Errors;
use crate::network::{ConnectionInfo, Net};
use crate::probes::ledger::TrafficLedger;
use crate::probes::limits::{FlowLimits, Offer};
use crate::simulation::{EventSource, FlowState, Simulation};

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum RunError {
    /// The scenario cannot be simulated; the text says why.
    #[error("{0}")]
    Scenario(String),
    /// The run was cancelled before its end.
    #[error("cancelled")]
    Cancelled,
}

/// Options of a run that do not belong to the scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Simulate every departure from a link as a separate event. Slower; the result is the same.
    pub evented: bool,
}

/// Size of a full segment, payload bytes, for the links: the largest of all flows. Frames of other
/// sizes are rare.
fn full_segment(network: &Network) -> u32 {
    network.flows.iter().map(|f| f.segment).max().unwrap_or(1000)
}

impl<R: Observer> Simulation<R> {
    /// A simulation at time zero.
    ///
    /// # Errors
    ///
    /// [`RunError::Scenario`] if a scheme lacks a node, link or capability that it needs, or a loss
    /// or delay model cannot be set up.
    pub fn new(
        network: &Network,
        seed: u64,
        reader: R,
        options: Options,
    ) -> Result<Self, RunError> {
        let end = Time::ZERO + network.duration;
        let measure_from = Time::ZERO + network.measure_from;
        let mut links = links(network, seed, measure_from, end, options)?;
        let mut sources: Vec<EventSource> =
            (0..links.len() as u32).map(EventSource::Departure).collect();
        sources.extend((0..links.len() as u32).map(EventSource::Loss));
        sources.extend((0..links.len() as u32).map(EventSource::Arrival));
        sources.extend((0..network.cells.len() as u32).map(EventSource::Cell));
        sources.extend((0..network.cells.len() as u32).map(EventSource::CellArrival));
        let cells = CellHost::all(network, seed, full_segment(network), 3 * links.len() as Source)?;
        for link in &mut links {
            if let Some(place) = link.place() {
                link.set_rate(cells[place.cell as usize].cell.rate_of_pair());
            }
        }
        let routes =
            network.next_hop.iter().flatten().map(|l| l.iter().copied().collect()).collect();
        let net = Net::new(
            links,
            cells,
            routes,
            network.nodes.len(),
            TrafficLedger::new(measure_from, end),
            reader,
        );
        let mut sim = Simulation {
            net,
            connections: Vec::new(),
            flows: Vec::new(),
            relays: Vec::new(),
            oracles: Vec::new(),
            sources,
            measure_from,
            end,
            sessions: Vec::new(),
            handovers: Vec::new(),
            before_measuring: Vec::new(),
            events: 0,
        };
        for (f, flow) in network.flows.iter().enumerate() {
            sim.add_flow(network, f, flow, seed)?;
        }
        sim.measure_bursts(network);
        sim.add_sessions(network);
        sim.add_errors(network, seed)?;
        sim.add_oracles(network);
        sim.watch_links();
        sim.add_handovers(network);
        sim.watch_link_states();
        let unwatched = !R::ACTIVE && !options.evented && network.handovers.is_empty();
        if unwatched {
            sim.precompute_retransmissions();
        }
        let busy = sim.chain_links(network, unwatched);
        let paced: Vec<_> =
            sim.connections.iter().filter(|c| c.sender.is_paced()).map(|c| c.timers).collect();
        sim.net.assign_lanes(sim.sources.len(), busy, &paced);
        for flow in &sim.flows {
            sim.net.scheduler.set(flow.source, flow.start.0, 0);
        }
        for oracle in &sim.oracles {
            sim.net.scheduler.set(oracle.source, oracle.start.0, 0);
        }
        sim.schedule_handovers();
        (0..sim.net.link_watches.len()).for_each(|i| sim.net.schedule_link_watch(i));
        Ok(sim)
    }

    /// Chains each link that receives all its frames in order from a single other link, without an
    /// agent, relay or handover in between. Returns the links at whose far end frames still arrive
    /// as events.
    fn chain_links(&mut self, network: &Network, allowed: bool) -> Vec<usize> {
        let mut routes: Vec<(NodeId, NodeId)> =
            self.connections.iter().flat_map(|c| [(c.from, c.to), (c.to, c.from)]).collect();
        routes.extend(self.flows.iter().filter_map(|f| f.datagram.map(|d| (f.node, d.to))));
        for connection_info in &self.net.connection_info {
            let ends = [connection_info.from, connection_info.to]
                .into_iter()
                .chain(connection_info.agents.iter().map(|w| w.node));
            let sending = connection_info.agents.iter().filter(|w| self.may_send(w));
            routes.extend(sending.flat_map(|w| {
                ends.clone().map(|end| (w.node, end)).filter(|route| route.0 != route.1)
            }));
        }
        let mut feeders: Vec<Vec<Option<usize>>> = vec![Vec::new(); network.links.len()];
        for &(from, to) in &routes {
            let links = path(network, from, to);
            for (i, &l) in links.iter().enumerate() {
                let feeder = i.checked_sub(1).map(|i| links[i]);
                if !feeders[l].contains(&feeder) {
                    feeders[l].push(feeder);
                }
            }
        }
        // The outcome of a frame on a chained link is computed before it happens, too early to
        // report it as a link event.
        let subscribes =
            |w: &Watch| self.net.agents[w.agent as usize].subscriptions.any(Subscriptions::SENDING);
        let watched = |node: NodeId| {
            self.net
                .connection_info
                .iter()
                .flat_map(|k| &k.agents)
                .any(|w| w.node == node && (w.sees || subscribes(w)))
        };
        let computed = |l: usize| !self.net.links[l].is_evented();
        let is_chained = |(l, feeders): (usize, &Vec<Option<usize>>)| match feeders[..] {
            [Some(feeder)] => {
                allowed
                    && computed(l)
                    && computed(feeder)
                    && !watched(self.net.links[l].from)
                    && self.net.links[feeder].in_order()
            }
            _ => false,
        };
        let chained: Vec<bool> = feeders.iter().enumerate().map(is_chained).collect();
        let mut arrives = vec![false; network.links.len()];
        for &(from, to) in &routes {
            let links = path(network, from, to);
            // A frame passes the chained links of a route without an event.
            for route in links.chunk_by(|_, &next| chained[next]) {
                self.net.set_route(
                    network.links[route[0]].from,
                    to,
                    route.iter().map(|&l| l as u32).collect(),
                );
                arrives[route[route.len() - 1]] = true;
            }
        }
        (0..arrives.len()).filter(|&l| arrives[l]).collect()
    }

    /// Returns false for an agent that sends only in response to incomplete frames, at a node where
    /// no link delivers fragments.
    fn may_send(&self, watch: &Watch) -> bool {
        let subscriptions = self.net.agents[watch.agent as usize].subscriptions;
        watch.sees
            || subscriptions != Subscriptions::INCOMPLETE
            || self.net.links.iter().any(|l| l.to == watch.node && l.cuts_frames())
    }

    pub(crate) fn add_source(&mut self, source: EventSource) -> Source {
        self.sources.push(source);
        (self.sources.len() - 1) as Source
    }

    fn add_flow(
        &mut self,
        network: &Network,
        f: usize,
        flow: &Flow,
        seed: u64,
    ) -> Result<(), RunError> {
        let source = self.add_source(EventSource::App(f as u32));
        let stop = flow.stop.map_or(self.end, |s| Time::ZERO + s).min(self.end);
        self.net.limits.push(FlowLimits::new(self.measure_from.max(Time::ZERO + flow.start), stop));
        let mut state = FlowState {
            first: None,
            last: None,
            relay: None,
            app: AppState::new(&flow.app, flow.stop, flow.segment, seed, &flow.name),
            stats: FlowStats::default(),
            write_times: WriteTimes::default(),
            written: 0,
            start: Time::ZERO + flow.start,
            session: None,
            source,
            datagram: None,
            node: flow.from,
        };
        if flow.app.datagrams().is_some() {
            state.datagram = Some(datagram(flow, f));
        } else if let Some(relay) = flow.scheme.scheme.relay() {
            let roles = flow.scheme.scheme.relay_roles();
            let role = roles.iter().find(|r| role_on_path(network, flow, Some(**r)).is_ok());
            let node = role_on_path(network, flow, role.or(roles.first()).copied())?;
            let needs = relay.needs();
            let missing = [
                (needs.window && !CAPABILITIES.window, "set the congestion window"),
                (needs.receive_window && !CAPABILITIES.receive_window, "set the receive window"),
                (
                    needs.acknowledge && !CAPABILITIES.acknowledge,
                    "acknowledge only part of the received data",
                ),
                (needs.hold && !CAPABILITIES.hold, "freeze its sender"),
            ];
            if let Some((_, capability)) = missing.iter().find(|m| m.0) {
                return Err(RunError::Scenario(format!(
                    "scheme `{}` needs connections that can {capability}",
                    flow.scheme.label
                )));
            }
            let written_when_sent = state.app.endless();
            let mut first = flow.clone();
            if let Some(bytes) = relay.receive_window() {
                first.receive_window =
                    Size::Bytes(bytes.min(flow.receive_window.bytes(flow.segment)));
            }
            let inbound = self.connect(
                &first,
                end_to_end_sender(flow),
                f,
                seed,
                flow.from,
                node,
                true,
                written_when_sent,
            );
            let receiver = &mut self.connections[inbound as usize].receiver;
            let mut offer = if relay.receive_window().is_some_and(|w| w <= receiver.buffer()) {
                Offer::Buffer
            } else {
                Offer::Own
            };
            if let Some(bytes) = relay.first_window() {
                receiver.begin_with(bytes);
                offer = Offer::Steered;
            }
            self.net.limits[f].offer(Time::ZERO, offer);
            let outbound = self.connect(
                flow,
                flow.scheme.outbound(&flow.profile),
                f,
                seed,
                node,
                flow.to,
                false,
                false,
            );
            if let Some(rule) = flow.scheme.scheme.outbound_window() {
                self.connections[outbound as usize].sender.replace_rule(rule);
            }
            self.connections[outbound as usize].second_half = true;
            (state.first, state.last) = (Some(inbound), Some(outbound));
            state.relay = Some(self.relays.len() as u32);
            let source = self.add_source(EventSource::Relay(self.relays.len() as u32));
            let buffer = relay.receive_window().unwrap_or(u64::MAX);
            self.relays.push(RelayHost {
                relay,
                label: flow.scheme.label.clone(),
                node,
                inbound,
                outbound,
                buffer,
                source,
            });
            let found = self.install_agents(network, flow, inbound)
                | self.install_agents(network, flow, outbound);
            if !found && !flow.scheme.scheme.agent_roles().is_empty() {
                return Err(no_role(flow, flow.scheme.scheme.agent_roles()[0]));
            }
        } else {
            let written_when_sent = state.app.endless();
            let c = self.connect(
                flow,
                end_to_end_sender(flow),
                f,
                seed,
                flow.from,
                flow.to,
                false,
                written_when_sent,
            );
            (state.first, state.last) = (Some(c), Some(c));
            if !self.install_agents(network, flow, c)
                && let Some(&role) = flow.scheme.scheme.agent_roles().first()
            {
                return Err(no_role(flow, role));
            }
            self.install_framing(network, flow, c)?;
        }
        self.flows.push(state);
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn connect(
        &mut self,
        flow: &Flow,
        (part, profile): (SenderPart, Profile),
        f: usize,
        seed: u64,
        from: NodeId,
        to: NodeId,
        manual_read: bool,
        written_when_sent: bool,
    ) -> u32 {
        let index = self.connections.len() as u32;
        let profile = &profile;
        let buffer = flow.receive_window.bytes(flow.segment);
        let clock_phase = match profile.clock {
            ClockKind::Rfc => Duration::ZERO,
            ClockKind::Ns2Ticks => {
                let share = Stream::new(seed, "clock phase").uniform(u64::from(index));
                Duration((share * profile.clock_granularity.0 as f64) as u64)
            }
        };
        let config = SenderConfig {
            flow: index,
            to,
            mss: flow.segment,
            headers: flow.headers,
            receive_window: buffer,
            recovery: part.recovery,
            needs: part.needs,
            clock_phase,
        };
        let sender = Sender::new(config, profile, part.window());
        let receiver = Receiver::new(
            ReceiverConfig {
                flow: index,
                to: from,
                headers: flow.headers,
                mss: flow.segment,
                buffer,
                manual_read,
            },
            profile,
            part.receiver(),
        );
        let timers = self.add_source(EventSource::Sender(index));
        self.add_source(EventSource::Receiver(index));
        self.connections.push(Connection {
            sender,
            receiver,
            from,
            to,
            flow: f as u32,
            mss: flow.segment,
            second_half: false,
            limit: Limit::Application,
            min_rtt: None,
            written_when_sent,
            timers,
            sender_entry: Time::NEVER,
            receiver_entry: Time::NEVER,
        });
        self.net.connection_info.push(ConnectionInfo {
            flow: f as u32,
            from,
            to,
            agents: Vec::new(),
            framing: None,
            ground_truth: Default::default(),
            burst: Default::default(),
        });
        index
    }

    /// Sets up the bit errors of connections. The two halves of a split connection draw from
    /// separate random streams.
    fn add_errors(&mut self, network: &Network, seed: u64) -> Result<(), RunError> {
        let mut all = Vec::new();
        for c in &self.connections {
            let flow = &network.flows[c.flow as usize];
            let half = if c.from == flow.from { "" } else { " second half" };
            all.push(
                Errors::new(flow, seed, &format!("errors {}{half}", flow.name))
                    .map_err(RunError::Scenario)?,
            );
        }
        if all.iter().any(Option::is_some) {
            self.net.errors = all;
        }
        Ok(())
    }

    /// Installs the agents for a connection, one per node and scheme label. Returns false if the
    /// path has no node for an agent.
    fn install_agents(&mut self, network: &Network, flow: &Flow, connection: u32) -> bool {
        let roles = flow.scheme.scheme.agent_roles();
        let ends = &self.connections[connection as usize];
        let mut nodes = vec![ends.from];
        nodes.extend(path(network, ends.from, ends.to).iter().map(|&l| network.links[l].to));
        nodes.retain(|&n| roles.contains(&network.nodes[usize::from(n)].role));
        // The wired half of a split flow ends at such a node; none of its segments goes on to the
        // radio link.
        let wired_end = |n: NodeId| match goes_down(network, flow, n) {
            true => ends.to == n && n != flow.to,
            false => ends.from == n && n != flow.from,
        };
        nodes.retain(|&n| !wired_end(n));
        if flow.scheme.scheme.one_agent() && nodes.len() > 1 {
            let nearest = if goes_down(network, flow, nodes[0]) { nodes.len() - 1 } else { 0 };
            nodes = vec![nodes[nearest]];
        }
        for &node in &nodes {
            let role = network.nodes[usize::from(node)].role;
            let downlink = goes_down(network, flow, node);
            let (station, fixed) =
                if downlink { (flow.to, flow.from) } else { (flow.from, flow.to) };
            let hop = |to: NodeId| network.next_hop[usize::from(node)][usize::from(to)];
            let links = NodeLinks { down: hop(station), up: hop(fixed) };
            let found =
                self.net.agents.iter().position(|a| a.node == node && a.label == flow.scheme.label);
            let index = match found {
                Some(a) => a,
                None => {
                    let Some(agent) = flow.scheme.scheme.agent_at(role) else { return true };
                    let source = self.add_source(EventSource::Agent(self.net.agents.len() as u32));
                    self.net.agents.push(AgentHost::new(
                        agent,
                        flow.scheme.clone(),
                        node,
                        links,
                        source,
                    ));
                    self.net.agents.len() - 1
                }
            };
            let sees = !self.net.agents[index].agent.is_passive();
            let watch = Watch { agent: index as u32, sees, node, role, downlink, links };
            self.net.connection_info[connection as usize].agents.push(watch);
        }
        !nodes.is_empty()
    }

    /// Watches the links whose rate changes and outages agents subscribe to.
    fn watch_link_states(&mut self) {
        let mut wanted: Vec<(u32, u32, Direction)> = Vec::new();
        for watch in self.net.connection_info.iter().flat_map(|k| &k.agents) {
            if self.net.agents[watch.agent as usize].subscriptions.any(Subscriptions::CHANGES) {
                let links =
                    [(watch.links.down, Direction::Downlink), (watch.links.up, Direction::Uplink)];
                wanted.extend(
                    links
                        .into_iter()
                        .filter_map(|(link, direction)| Some((watch.agent, link?, direction))),
                );
            }
        }
        for (i, &(agent, link, direction)) in wanted.iter().enumerate() {
            if !wanted[..i].contains(&(agent, link, direction)) {
                let source =
                    self.add_source(EventSource::LinkState(self.net.link_watches.len() as u32));
                self.net.watch_link_state(agent, link, direction, source);
            }
        }
    }

    /// Makes the last hop fragment the data of a flow whose scheme defines a framing.
    fn install_framing(
        &mut self,
        network: &Network,
        flow: &Flow,
        connection: u32,
    ) -> Result<(), RunError> {
        let Some(framing) = flow.scheme.scheme.framing() else { return Ok(()) };
        let hops = last_hop(network, flow);
        if hops.is_empty() {
            let (scheme, flow) = (&flow.scheme.label, &flow.name);
            return Err(RunError::Scenario(format!(
                "scheme `{scheme}` cuts frames on the last hop, but the path of its flow `{flow}` \
                 has none"
            )));
        }
        hops.into_iter().for_each(|l| self.net.links[l].cut_frames());
        self.net.connection_info[connection as usize].framing = Some(framing);
        Ok(())
    }

    /// Makes links generate the events that agents subscribe to.
    fn watch_links(&mut self) {
        for watch in self.net.connection_info.iter().flat_map(|k| &k.agents) {
            let subscriptions = self.net.agents[watch.agent as usize].subscriptions;
            let of_node = &mut self.net.subscriptions[usize::from(watch.node)];
            *of_node = of_node.with(subscriptions);
            if subscriptions.any(Subscriptions::DAMAGED) {
                self.net
                    .links
                    .iter_mut()
                    .filter(|l| l.to == watch.node)
                    .for_each(Link::report_damaged_frames);
            }
            let starts = Subscriptions::DEQUEUED.with(Subscriptions::ATTEMPT_STARTED);
            for l in [watch.links.down, watch.links.up].into_iter().flatten() {
                let link = &mut self.net.links[l as usize];
                if subscriptions.any(Subscriptions::STEPS) {
                    link.count_attempts();
                }
                if let Some(place) =
                    link.place().filter(|_| subscriptions.any(starts.with(Subscriptions::RETRIED)))
                {
                    self.net.cells[place.cell as usize]
                        .cell
                        .announce(if subscriptions.any(starts) { 1 } else { 2 });
                }
            }
        }
    }

    /// Lets links compute all attempts of a frame in advance where no agent subscribes to attempts.
    fn precompute_retransmissions(&mut self) {
        let Net { links, subscriptions, .. } = &mut self.net;
        let attempts = Subscriptions::STEPS.with(Subscriptions::RETRIED);
        links
            .iter_mut()
            .filter(|l| !subscriptions[usize::from(l.from)].any(attempts))
            .for_each(Link::precompute_retransmissions);
    }
}

/// The sender and the profile of a flow: of the whole path, or of the first half of a split
/// connection.
fn end_to_end_sender(flow: &Flow) -> (SenderPart, Profile) {
    let part = flow.scheme.sender(&flow.profile);
    let profile = part.profile(&flow.profile);
    (part, profile)
}

/// Returns true if a flow's data at `node` travel downlink, towards a mobile station. Without a
/// station on the path the receiver counts as one.
fn goes_down(network: &Network, flow: &Flow, node: NodeId) -> bool {
    let is_station = |n: NodeId| network.nodes[usize::from(n)].role == Role::Station;
    let all = |from| path(network, from, flow.to).into_iter().map(|l| network.links[l].to);
    let ahead = all(node).any(is_station) || (node == flow.to && is_station(node));
    ahead || !(is_station(flow.from) || all(flow.from).any(is_station))
}

fn links(
    network: &Network,
    seed: u64,
    measure_from: Time,
    end: Time,
    options: Options,
) -> Result<Vec<Link>, RunError> {
    let mss = full_segment(network);
    let share = Stream::new(seed, "trace phase").uniform(0);
    network
        .links
        .iter()
        .map(|config| {
            let phase = match (&config.rate, &config.trace) {
                (
                    RateConfig::Trace { start: TraceStart::Named(RandomStart::Random), .. },
                    Some(trace),
                ) => Duration((share * trace.period().0 as f64) as u64),
                (RateConfig::Trace { start: TraceStart::At(at), .. }, _) => *at,
                _ => Duration::ZERO,
            };
            let name = format!(
                "{}>{}",
                network.nodes[usize::from(config.from)].name,
                network.nodes[usize::from(config.to)].name
            );
            let mut link = Link::new(config, &name, seed, phase, mss, measure_from, end)
                .map_err(RunError::Scenario)?;
            if options.evented {
                link.make_evented();
            }
            Ok(link)
        })
        .collect()
}

/// The last-hop links on the path of a flow's data: the radio links; if none is marked as radio,
/// the links that begin or end at a station.
pub(crate) fn last_hop(network: &Network, flow: &Flow) -> Vec<usize> {
    let is_station = |n: NodeId| network.nodes[usize::from(n)].role == Role::Station;
    let mut hops = path(network, flow.from, flow.to);
    if hops.iter().any(|&l| network.links[l].radio) {
        hops.retain(|&l| network.links[l].radio);
    } else {
        hops.retain(|&l| is_station(network.links[l].from) || is_station(network.links[l].to));
    }
    hops
}

/// The links on the path from one node to another.
pub(crate) fn path(network: &Network, from: NodeId, to: NodeId) -> Vec<usize> {
    let mut links = Vec::new();
    let mut node = from;
    while node != to && links.len() <= network.nodes.len() {
        let Some(l) = network.next_hop[usize::from(node)][usize::from(to)] else { break };
        links.push(l as usize);
        node = network.links[l as usize].to;
    }
    links
}

fn role_on_path(network: &Network, flow: &Flow, role: Option<Role>) -> Result<NodeId, RunError> {
    let role = role.unwrap_or(Role::BaseStation);
    let mut nodes = vec![flow.from];
    nodes.extend(path(network, flow.from, flow.to).iter().map(|&l| network.links[l].to));
    nodes
        .into_iter()
        .find(|&n| network.nodes[usize::from(n)].role == role)
        .ok_or_else(|| no_role(flow, role))
}

fn no_role(flow: &Flow, role: Role) -> RunError {
    RunError::Scenario(format!(
        "scheme `{}` needs a node with the role `{role}` on the path of its flow `{}`",
        flow.scheme.label, flow.name
    ))
}

fn datagram(flow: &Flow, f: usize) -> Segment {
    Segment {
        seq: 0,
        ack: 0,
        id: 0,
        flow: f as u32,
        len: flow.segment,
        size: flow.segment + flow.headers,
        window: 0,
        ts_value: 0,
        ts_echo: 0,
        payload: Payload::NONE,
        to: flow.to,
        flags: Flags::DATAGRAM,
        attempt: 1,
        forward: true,
    }
}
