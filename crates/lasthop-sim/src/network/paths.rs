//! Paths: the way of packets through the nodes of a scenario, and what the network stores of each
//! connection.

use lasthop::agent::{LinkEvent, Subscriptions};
use lasthop::framing::AnyFraming;
use lasthop::link::Link;
use lasthop::role::Role;
use lasthop::scenario::network::{Flow, Network};
use lasthop::segment::{Direction, Flags, NodeId, Segment};

/// What the network stores of a connection.
#[derive(Clone, Debug)]
pub struct Path {
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
}

/// An agent on the path of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Index of the agent.
    pub agent: u32,
    /// True if it is shown the connection's segments; false for a passive agent.
    pub sees: bool,
    /// The link events that it subscribes to.
    pub subscriptions: Subscriptions,
    /// Its node.
    pub node: NodeId,
    /// Role of that node.
    pub role: Role,
    /// True if the connection's data go downlink at its node.
    pub downlink: bool,
    /// The connection's links at that node.
    pub links: NodeLinks,
}

impl Watch {
    /// The direction of a segment of the connection at this node.
    pub(crate) fn direction(&self, segment: &Segment) -> Direction {
        if self.downlink == segment.forward { Direction::Downlink } else { Direction::Uplink }
    }
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
    pub(crate) fn toward(self, direction: Direction) -> Option<u32> {
        match direction {
            Direction::Downlink => self.down,
            Direction::Uplink => self.up,
        }
    }
}

/// A link event of a segment, for the agent that subscribes to it.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// The agent.
    pub watch: Watch,
    /// What the link did.
    pub event: LinkEvent,
    /// With this segment.
    pub segment: Segment,
}

/// The paths of all connections, and which link events the nodes subscribe to.
#[derive(Debug, Default)]
pub struct Paths {
    connections: Vec<Path>,
    /// By flow: the nodes of its sender and its receiver.
    flows: Vec<(NodeId, NodeId)>,
    /// Some queue may read the source of a frame.
    has_sources: bool,
    /// By node: the link events that its agents subscribe to.
    subscriptions: Vec<Subscriptions>,
}

impl Paths {
    /// No connection yet, in a network with this number of nodes.
    pub(crate) fn new(nodes: usize) -> Paths {
        Paths { subscriptions: vec![Subscriptions::default(); nodes], ..Paths::default() }
    }

    /// The paths, by connection.
    pub fn all(&self) -> &[Path] {
        &self.connections
    }

    /// Adds the path of the next connection.
    pub(crate) fn add(&mut self, path: Path) {
        self.connections.push(path);
    }

    /// Adds the ends of the next flow: its sender and its receiver.
    pub(crate) fn add_flow(&mut self, from: NodeId, to: NodeId) {
        self.flows.push((from, to));
    }

    /// Says whether some queue may read the source of a frame.
    pub(crate) fn set_has_sources(&mut self, has: bool) {
        self.has_sources = has;
    }

    /// The node that a packet comes from: the end of its connection, or of its flow of datagrams,
    /// that it is not sent to. An agent's packets come from that end, too. 0 if no queue reads it.
    #[inline(always)]
    pub fn source(&self, segment: &Segment) -> NodeId {
        if self.has_sources { self.source_of(segment) } else { 0 }
    }

    #[cold]
    fn source_of(&self, segment: &Segment) -> NodeId {
        let flow = segment.flow as usize;
        let ends = if segment.flags.has(Flags::DATAGRAM) {
            self.flows.get(flow).copied()
        } else {
            self.connections.get(flow).map(|c| (c.from, c.to))
        };
        ends.map_or(0, |(from, to)| if segment.to == to { from } else { to })
    }

    /// Adds an agent to the path of a connection.
    pub(crate) fn add_agent(&mut self, connection: u32, watch: Watch) {
        self.connections[connection as usize].agents.push(watch);
        let of_node = &mut self.subscriptions[usize::from(watch.node)];
        *of_node = of_node.with(watch.subscriptions);
    }

    pub(crate) fn set_framing(&mut self, connection: u32, framing: AnyFraming) {
        self.connections[connection as usize].framing = Some(framing);
    }

    /// The link events that the agents at a node subscribe to.
    #[inline]
    pub fn subscriptions(&self, node: NodeId) -> Subscriptions {
        self.subscriptions[usize::from(node)]
    }

    /// The agent at `node` on the path of this connection, passive or not.
    #[inline]
    pub fn watch(&self, node: NodeId, connection: u32) -> Option<&Watch> {
        self.connections.get(connection as usize)?.agents.iter().find(|w| w.node == node)
    }

    /// The notification of a link event of a segment at `node`, if an agent there subscribes to it.
    pub(crate) fn notification(
        &self,
        node: NodeId,
        event: LinkEvent,
        segment: &Segment,
    ) -> Option<Notification> {
        if segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            return None;
        }
        let watch = *self.watch(node, segment.flow)?;
        let wanted = watch.subscriptions.any(event.subscription());
        wanted.then_some(Notification { watch, event, segment: *segment })
    }

    /// Returns true if the agent at `node` subscribes to any of these events of this segment.
    pub(crate) fn subscribes(
        &self,
        node: NodeId,
        segment: &Segment,
        events: Subscriptions,
    ) -> bool {
        self.watch(node, segment.flow).is_some_and(|w| w.subscriptions.any(events))
    }

    /// How a link fragments this segment, if it does.
    pub(crate) fn framing_of(&self, link: &Link, segment: &Segment) -> Option<&AnyFraming> {
        if !link.cuts_frames()
            || segment.len == 0
            || !segment.forward
            || segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE))
        {
            return None;
        }
        self.connections.get(segment.flow as usize)?.framing.as_ref()
    }
}

/// The links on the path from one node to another.
pub fn path(network: &Network, from: NodeId, to: NodeId) -> Vec<usize> {
    let mut links = Vec::new();
    let mut node = from;
    while node != to && links.len() <= network.nodes.len() {
        let Some(l) = network.next_hop[usize::from(node)][usize::from(to)] else { break };
        links.push(l as usize);
        node = network.links[l as usize].to;
    }
    links
}

/// The last-hop links on the path of a flow's data: the radio links; if none is marked as radio,
/// the links that begin or end at a station.
pub fn last_hop(network: &Network, flow: &Flow) -> Vec<usize> {
    let is_station = |n: NodeId| network.nodes[usize::from(n)].role == Role::Station;
    let mut hops = path(network, flow.from, flow.to);
    if hops.iter().any(|&l| network.links[l].radio) {
        hops.retain(|&l| network.links[l].radio);
    } else {
        hops.retain(|&l| is_station(network.links[l].from) || is_station(network.links[l].to));
    }
    hops
}

/// The nodes on the path of a flow's data from `from` to `to`, both included.
pub fn nodes_on_path(network: &Network, from: NodeId, to: NodeId) -> Vec<NodeId> {
    let next = path(network, from, to).into_iter().map(|l| network.links[l].to);
    std::iter::once(from).chain(next).collect()
}

/// Returns true if a flow's data at `node` go downlink, towards a mobile station. Without a
/// station on the path the receiver counts as one.
pub fn goes_down(network: &Network, flow: &Flow, node: NodeId) -> bool {
    let is_station = |n: NodeId| network.nodes[usize::from(n)].role == Role::Station;
    let all = |from| path(network, from, flow.to).into_iter().map(|l| network.links[l].to);
    let ahead = all(node).any(is_station) || (node == flow.to && is_station(node));
    ahead || !(is_station(flow.from) || all(flow.from).any(is_station))
}
