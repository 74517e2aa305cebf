//! Agents on the paths of connections, and what they subscribe to.

use lasthop::agent::Subscriptions;
use lasthop::link::Link;
use lasthop::scenario::network::Flow;
use lasthop::segment::{Direction, NodeId};

use super::{Builder, RunError};
use crate::events::Observer;
use crate::hosts::Timer;
use crate::network::paths::{NodeLinks, Watch, goes_down, last_hop, nodes_on_path};

#[allow(clippy::multiple_inherent_impl, reason = "one file for each part of a run")]
impl<R: Observer> Builder<'_, R> {
    /// Installs the agents for a connection, one per node and scheme label. Returns false if the
    /// path has no node for an agent.
    pub(super) fn install_agents(&mut self, flow: &Flow, connection: u32) -> bool {
        let nodes = self.agent_nodes(flow, connection);
        for &node in &nodes {
            let role = self.network.nodes[usize::from(node)].role;
            let downlink = goes_down(self.network, flow, node);
            let links = self.node_links(flow, node, downlink);
            let index = match self.hosts.agents.find(node, &flow.scheme.label) {
                Some(a) => a,
                None => {
                    let Some(agent) = flow.scheme.scheme.agent_at(role) else { return true };
                    let source = self.add_source(Timer::Agent(self.hosts.agents.len() as u32));
                    self.hosts.agents.add(agent, flow.scheme.clone(), node, links, source)
                }
            };
            let sees = !self.hosts.agents.is_passive(index);
            let subscriptions = self.hosts.agents.subscriptions(index);
            let agent = index as u32;
            let watch = Watch { agent, sees, subscriptions, node, role, downlink, links };
            self.net.paths.add_agent(connection, watch);
        }
        !nodes.is_empty()
    }

    /// The nodes on the path of a connection at which the flow's scheme has an agent.
    fn agent_nodes(&self, flow: &Flow, connection: u32) -> Vec<NodeId> {
        let roles = flow.scheme.scheme.agent_roles();
        let (from, to) = self.hosts.connections[connection as usize].ends();
        let mut nodes = nodes_on_path(self.network, from, to);
        nodes.retain(|&n| roles.contains(&self.network.nodes[usize::from(n)].role));
        let down = |n: NodeId| goes_down(self.network, flow, n);
        // The wired half of a split flow ends at such a node; none of its segments goes on to the
        // radio link.
        let wired_end = |n: NodeId| match down(n) {
            true => to == n && n != flow.to,
            false => from == n && n != flow.from,
        };
        nodes.retain(|&n| !wired_end(n));
        if flow.scheme.scheme.one_agent() && nodes.len() > 1 {
            let nearest = if down(nodes[0]) { nodes.len() - 1 } else { 0 };
            nodes = vec![nodes[nearest]];
        }
        nodes
    }

    /// The links of a flow at a node.
    fn node_links(&self, flow: &Flow, node: NodeId, downlink: bool) -> NodeLinks {
        let (station, fixed) = if downlink { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let hop = |to: NodeId| self.network.next_hop[usize::from(node)][usize::from(to)];
        NodeLinks { down: hop(station), up: hop(fixed) }
    }

    /// Makes the last hop fragment the data of a flow whose scheme defines a framing.
    pub(super) fn install_framing(&mut self, flow: &Flow, connection: u32) -> Result<(), RunError> {
        let Some(framing) = flow.scheme.scheme.framing() else { return Ok(()) };
        let hops = last_hop(self.network, flow);
        if hops.is_empty() {
            let (scheme, flow) = (&flow.scheme.label, &flow.name);
            return Err(RunError::Scenario(format!(
                "scheme `{scheme}` cuts frames on the last hop, but the path of its flow `{flow}` \
                 has none"
            )));
        }
        hops.into_iter().for_each(|l| self.net.links[l].cut_frames());
        self.net.paths.set_framing(connection, framing);
        Ok(())
    }

    /// All agents on all paths.
    pub(super) fn watches(&self) -> impl Iterator<Item = &Watch> {
        self.net.paths.all().iter().flat_map(|p| &p.agents)
    }

    /// Makes links generate the events that agents subscribe to.
    pub(super) fn watch_links(&mut self) {
        let watches: Vec<Watch> = self.watches().copied().collect();
        for Watch { subscriptions, node, links, .. } in watches {
            if subscriptions.any(Subscriptions::DAMAGED) {
                let arriving = self.net.links.iter_mut().filter(|l| l.to == node);
                arriving.for_each(Link::report_damaged_frames);
            }
            let starts = Subscriptions::DEQUEUED.with(Subscriptions::ATTEMPT_STARTED);
            for l in [links.down, links.up].into_iter().flatten() {
                let link = &mut self.net.links[l as usize];
                if subscriptions.any(Subscriptions::STEPS) {
                    link.count_attempts();
                }
                if let Some(place) =
                    link.place().filter(|_| subscriptions.any(starts.with(Subscriptions::RETRIED)))
                {
                    let first = if subscriptions.any(starts) { 1 } else { 2 };
                    self.net.cells[place.cell as usize].cell.announce(first);
                }
            }
        }
    }

    /// Watches the links whose rate changes and outages agents subscribe to.
    pub(super) fn watch_link_states(&mut self) {
        let mut wanted: Vec<(u32, u32, Direction)> = Vec::new();
        for watch in self.watches().filter(|w| w.subscriptions.any(Subscriptions::CHANGES)) {
            let links =
                [(watch.links.down, Direction::Downlink), (watch.links.up, Direction::Uplink)];
            wanted.extend(
                links
                    .into_iter()
                    .filter_map(|(link, direction)| Some((watch.agent, link?, direction))),
            );
        }
        for (i, &watched) in wanted.iter().enumerate() {
            if !wanted[..i].contains(&watched) {
                let timer = Timer::LinkState(self.hosts.agents.watches() as u32);
                let source = self.add_source(timer);
                self.hosts.agents.watch_link_state(watched, source, &self.net);
            }
        }
    }
}
