//! Builds a chain from a checked scenario.

use std::collections::BTreeMap;

use lasthop::agent::Subscriptions;
use lasthop::air::config::{DrawIndex, LossConfig, RandomStart, RateConfig, TraceStart};
use lasthop::framing::AnyFraming;
use lasthop::link::Link;
use lasthop::link::config::LinkConfig;
use lasthop::link::drive::Drive;
use lasthop::random::Stream;
use lasthop::role::Role;
use lasthop::scenario::network::{Flow, Network};
use lasthop::schemes::catalogue::{Scheme, SchemeChoice, all};
use lasthop::segment::{Direction, NodeId};
use lasthop::units::{Duration, Time};
use thiserror::Error;

use super::hop::{Hop, RelayNode, Station};
use super::oracle::Oracle;
use super::packet::Packet;
use crate::device::MTU;
use crate::own_ends::{leg_settings, settings};
use crate::split::{Relays, Side, Split};
use crate::stand::Stand;

/// Why a scenario cannot carry real packets.
#[derive(Debug, Error)]
pub enum ChainError {
    /// The flows have no common pair of ends, one of them a station.
    #[error("real packets need two ends, one of them with the role `station`; {0}")]
    Ends(String),
    /// The scenario has a part that exists only in simulation.
    #[error("real packets cannot take {0}; it exists only in simulation")]
    Simulated(String),
    /// The scheme has neither agent nor relay between the ends.
    #[error(
        "scheme `{scheme}` has no agent or relay that real packets could meet; schemes that have \
         one: {known}"
    )]
    NoAgent {
        /// Name of the scheme.
        scheme: String,
        /// The schemes that have an agent or a relay.
        known: String,
    },
    /// The path has no node for the agent.
    #[error("scheme `{0}` needs a node with the role `{1}` between server and mobile")]
    NoNode(String, Role),
    /// An agent is between the server and the relay.
    #[error("scheme `{0}` needs its agent between its relay and the mobile, or at the relay")]
    AgentBeforeRelay(String),
    /// A model cannot be set up.
    #[error("{0}")]
    Model(String),
}

/// What a chain consists of at time zero.
pub(super) struct Parts {
    pub hops: Vec<Hop>,
    pub stations: Vec<Station>,
    /// Position of the mobile.
    pub last: usize,
    pub relay: Option<RelayNode>,
    pub oracle: Option<Oracle>,
}

impl Parts {
    /// Builds them; see `Chain::new`.
    pub(super) fn new(
        network: &Network,
        scheme: Option<&SchemeChoice>,
        seed: u64,
    ) -> Result<Parts, ChainError> {
        check(network)?;
        let (server, mobile) = ends(network)?;
        let down = network.path(server, mobile);
        let up = network.path(mobile, server);
        let nodes: Vec<NodeId> = std::iter::once(server)
            .chain(down.iter().filter_map(|&l| network.links.get(l).map(|link| link.to)))
            .collect();
        let last = nodes.len() - 1;
        let agents = agents(network, scheme, &nodes)?;
        let paths = [(down, Direction::Downlink), (up, Direction::Uplink)];
        let hops = hops(network, scheme, seed, &nodes, &agents, &paths)?;
        let stations = stations(agents, &hops);
        let relay = relay(network, scheme, &nodes, seed)?;
        if let (Some(relay), Some(choice)) = (&relay, scheme)
            && stations.iter().any(|station| station.node < relay.node)
        {
            return Err(ChainError::AgentBeforeRelay(choice.label.clone()));
        }
        let has_oracle =
            |flow: &&Flow| scheme.is_some_and(|choice| choice.sender(&flow.profile).needs.oracle);
        let oracle = network.flows.first().filter(has_oracle);
        let oracle = oracle.map(|flow| Oracle::new(flow, direction_of(flow, server), hops.len()));
        Ok(Parts { hops, stations, last, relay, oracle })
    }
}

/// The links of the two ways, as real packets meet them.
fn hops(
    network: &Network,
    scheme: Option<&SchemeChoice>,
    seed: u64,
    nodes: &[NodeId],
    agents: &BTreeMap<usize, Stand<Packet>>,
    paths: &[(Vec<usize>, Direction)],
) -> Result<Vec<Hop>, ChainError> {
    let subscriptions =
        |node: usize| agents.get(&node).map_or(Subscriptions::NONE, Stand::subscriptions);
    let position = |node: NodeId| nodes.iter().position(|&n| n == node);
    let mut hops = Vec::new();
    for (l, direction) in paths.iter().flat_map(|(path, way)| path.iter().map(|&l| (l, *way))) {
        let Some(config) = network.links.get(l) else { continue };
        let (Some(from), Some(to)) = (position(config.from), position(config.to)) else {
            return Err(ChainError::Simulated(
                "a way back over other nodes than the way there".into(),
            ));
        };
        let receiver = subscriptions(to);
        let mut model = link(network, l, seed)?;
        let framing = framing(network, scheme, l);
        if framing.is_some() {
            model.cut_frames();
        }
        let drive = Drive::new(model, subscriptions(from), receiver).map_err(ChainError::Model)?;
        hops.push(Hop {
            name: name(network, l),
            drive,
            from,
            to,
            direction,
            overhead: config.overhead,
            mtu: config.mtu,
            above_mtu: 0,
            filters: config.queue.discipline.filters(),
            framing,
            receiver,
        });
    }
    Ok(hops)
}

/// The agents at their nodes, with the hops that leave them and what they report first.
fn stations(agents: BTreeMap<usize, Stand<Packet>>, hops: &[Hop]) -> Vec<Station> {
    let hop = |node: usize, direction| {
        // The mobile has no link further on.
        let found = hops.iter().position(|h| h.from == node && h.direction == direction);
        found.unwrap_or(usize::MAX)
    };
    let state = |h: usize| {
        let link = hops.get(h).map(|h| h.drive.link());
        link.map(|l| (l.rate(Time::ZERO), l.is_down(Time::ZERO))).unwrap_or_default()
    };
    let station = |(node, stand): (usize, Stand<Packet>)| {
        let (down, up) = (hop(node, Direction::Downlink), hop(node, Direction::Uplink));
        let reports = stand.subscriptions().any(Subscriptions::CHANGES);
        let reported = reports.then(|| [state(down), state(up)]);
        Station { node, stand, down, up, reported }
    };
    agents.into_iter().map(station).collect()
}

/// The direction of a flow's data.
fn direction_of(flow: &Flow, server: NodeId) -> Direction {
    if flow.from == server { Direction::Downlink } else { Direction::Uplink }
}

/// Lets independent losses depend on the number of the frame instead of the time slot in which it
/// is sent: the times of real packets differ from run to run, but the n-th frame of a link is then
/// lost in each run with the same seed.
pub fn draw_by_frame(network: &mut Network) {
    for link in &mut network.links {
        if let LossConfig::Uniform { index, .. } = &mut link.loss {
            *index = DrawIndex::Frame;
        }
    }
}

/// Refuses what only a simulation has.
fn check(network: &Network) -> Result<(), ChainError> {
    let errors = |f: &Flow| f.loss != LossConfig::None || f.ack_loss != LossConfig::None;
    let most = MTU as u32;
    let simulated = [
        (
            network.links.iter().any(|l| l.mtu.is_some_and(|mtu| mtu > most)),
            "an MTU of more than 1500 B",
        ),
        (!network.cells.is_empty(), "a cell"),
        (!network.handovers.is_empty(), "a handover"),
        (network.flows.iter().any(errors), "bit errors of single connections"),
        (
            network.flows.iter().any(|f| f.reader.is_some()),
            "the `reader` of a flow (here a real program reads)",
        ),
    ];
    match simulated.into_iter().find(|s| s.0) {
        Some((_, part)) => Err(ChainError::Simulated(part.into())),
        None => Ok(()),
    }
}

/// The server's and the mobile's node.
fn ends(network: &Network) -> Result<(NodeId, NodeId), ChainError> {
    let role = |n: NodeId| network.nodes.get(usize::from(n)).map(|node| node.role);
    let mut found = None;
    for flow in &network.flows {
        let pair = match (role(flow.from), role(flow.to)) {
            (Some(Role::Station), Some(Role::Station)) => None,
            (_, Some(Role::Station)) => Some((flow.from, flow.to)),
            (Some(Role::Station), _) => Some((flow.to, flow.from)),
            _ => None,
        };
        let Some(pair) = pair else {
            return Err(ChainError::Ends(format!("flow `{}` has none", flow.name)));
        };
        if *found.get_or_insert(pair) != pair {
            return Err(ChainError::Ends(format!("flow `{}` has other ends", flow.name)));
        }
    }
    found.ok_or_else(|| ChainError::Ends("the scenario has no flow".into()))
}

/// The agents of a scheme, by position.
fn agents(
    network: &Network,
    choice: Option<&SchemeChoice>,
    nodes: &[NodeId],
) -> Result<BTreeMap<usize, Stand<Packet>>, ChainError> {
    let mut agents = BTreeMap::new();
    let Some(choice) = choice else { return Ok(agents) };
    let scheme = &choice.scheme;
    let is_between = |s: &Scheme| s.agent().is_some() || s.relay().is_some();
    let has_oracle = network.flows.iter().any(|f| choice.sender(&f.profile).needs.oracle);
    if !is_between(scheme) && !has_oracle {
        let mut live = all();
        live.retain(is_between);
        let known = live.iter().map(|s| s.name().to_string()).collect::<Vec<_>>().join(", ");
        return Err(ChainError::NoAgent { scheme: scheme.name().to_string(), known });
    }
    let role = |n: NodeId| network.nodes.get(usize::from(n)).map(|node| node.role);
    // An agent of the mobile is at its end of the link.
    let between = nodes.iter().enumerate().skip(1);
    for (position, &node) in between.rev() {
        let Some(role) = role(node).filter(|r| scheme.agent_roles().contains(r)) else { continue };
        if scheme.one_agent() && !agents.is_empty() {
            break;
        }
        agents.extend(scheme.agent_at(role).map(|agent| (position, Stand::new(agent))));
    }
    if agents.is_empty() && scheme.agent().is_some() {
        let role = scheme.agent_roles().first().copied().unwrap_or(Role::BaseStation);
        return Err(ChainError::NoNode(scheme.name().to_string(), role));
    }
    Ok(agents)
}

/// How a link cuts the data of the first flow: on the radio link, or the mobile's.
fn framing(network: &Network, choice: Option<&SchemeChoice>, l: usize) -> Option<AnyFraming> {
    let framing = choice?.scheme.framing()?;
    let flow = network.flows.first()?;
    let role = |n: NodeId| network.nodes.get(usize::from(n)).map(|node| node.role);
    let is_stations =
        |l: &LinkConfig| [l.from, l.to].into_iter().any(|n| role(n) == Some(Role::Station));
    let path = network.path(flow.from, flow.to);
    let has_radio = path.iter().filter_map(|&l| network.links.get(l)).any(|link| link.radio);
    let link = network.links.get(l)?;
    let is_last_hop = if has_radio { link.radio } else { is_stations(link) };
    (path.contains(&l) && is_last_hop).then_some(framing)
}

/// The relay of a scheme, at the first node with one of its roles, in the order of the roles. It
/// relays the data of the first flow.
fn relay(
    network: &Network,
    choice: Option<&SchemeChoice>,
    nodes: &[NodeId],
    seed: u64,
) -> Result<Option<RelayNode>, ChainError> {
    let Some(choice) = choice else { return Ok(None) };
    let Some((relay, flow)) = choice.scheme.relay().zip(network.flows.first()) else {
        return Ok(None);
    };
    let role = |n: NodeId| network.nodes.get(usize::from(n)).map(|node| node.role);
    let between = nodes.get(1..nodes.len() - 1).unwrap_or_default();
    let at = |wanted: &Role| between.iter().position(|&n| role(n).as_ref() == Some(wanted));
    let roles = choice.scheme.relay_roles();
    let Some(node) = roles.iter().find_map(at) else {
        let role = roles.first().copied().unwrap_or(Role::BaseStation);
        return Err(ChainError::NoNode(choice.label.clone(), role));
    };
    let (inbound, outbound) = leg_settings(&settings(flow, seed), seed, relay.as_ref());
    let split = match role(flow.from) {
        Some(Role::Station) => {
            Split::new(outbound, inbound).with_relays(Relays::new(choice.clone(), Side::Mobile))
        }
        _ => Split::new(inbound, outbound).with_relays(Relays::new(choice.clone(), Side::Server)),
    };
    Ok(Some(RelayNode { node: node + 1, split }))
}

/// "bs>phone"; random draws depend on it.
fn name(network: &Network, l: usize) -> String {
    let node = |n: NodeId| network.nodes.get(usize::from(n)).map_or("", |node| node.name.as_str());
    network.links.get(l).map_or(String::new(), |c| format!("{}>{}", node(c.from), node(c.to)))
}

/// A link as the simulator builds it.
fn link(network: &Network, l: usize, seed: u64) -> Result<Link, ChainError> {
    let Some(config) = network.links.get(l) else {
        return Err(ChainError::Model("a route over a link that does not exist".into()));
    };
    let phase = match (&config.rate, &config.trace) {
        (RateConfig::Trace { start: TraceStart::Named(RandomStart::Random), .. }, Some(trace)) => {
            let share = Stream::new(seed, "trace phase").uniform(0);
            Duration((share * trace.period().0 as f64) as u64)
        }
        (RateConfig::Trace { start: TraceStart::At(at), .. }, _) => *at,
        _ => Duration::ZERO,
    };
    let mss = network.flows.iter().map(|f| f.segment).max().unwrap_or(1448);
    let end = Time::ZERO + network.duration;
    Link::new(config, &name(network, l), seed, phase, mss, Time::ZERO, end)
        .map_err(ChainError::Model)
}
