//! Static routes: fewest hops, ties by the order of the links; and what a network can say about its paths.

use std::collections::VecDeque;

use crate::air::rate::RateProcess;
use crate::scenario::network::{App, Flow, Network, Role};
use crate::segment::NodeId;
use crate::units::{Duration, Time};

/// `next_hop[node][destination]` = index of the arc to take, for one-way `arcs` between `nodes` nodes.
pub fn next_hops(nodes: usize, arcs: &[(NodeId, NodeId)]) -> Vec<Vec<Option<u32>>> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (i, (_, to)) in arcs.iter().enumerate() {
        into[usize::from(*to)].push(i);
    }
    let mut table = vec![vec![None; nodes]; nodes];
    for destination in 0..nodes {
        let mut hops = vec![usize::MAX; nodes];
        hops[destination] = 0;
        let mut queue = VecDeque::from([destination]);
        while let Some(node) = queue.pop_front() {
            for &arc in &into[node] {
                let from = usize::from(arcs[arc].0);
                if hops[from] == usize::MAX {
                    hops[from] = hops[node] + 1;
                    queue.push_back(from);
                }
            }
        }
        for (i, (from, to)) in arcs.iter().enumerate() {
            let (from, to) = (usize::from(*from), usize::from(*to));
            let entry: &mut Option<u32> = &mut table[from][destination];
            if entry.is_none() && hops[from] != usize::MAX && hops[from] == hops[to].saturating_add(1) {
                *entry = Some(i as u32);
            }
        }
    }
    table
}

impl Network {
    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).and_then(|i| i.try_into().ok())
    }

    /// Indices of the links from one node to another; `None` if no route leads there.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<Vec<usize>> {
        let mut path = Vec::new();
        let mut at = from;
        while at != to {
            let link = self.next_hop[usize::from(at)][usize::from(to)]? as usize;
            path.push(link);
            at = self.links[link].to;
        }
        Some(path)
    }

    /// The same, empty if no route leads there. In a network that was loaded every flow has a route in both directions.
    pub fn path(&self, from: NodeId, to: NodeId) -> Vec<usize> {
        self.route(from, to).unwrap_or_default()
    }

    /// The first node with that role on the path of a flow's data, ends included.
    pub fn with_role(&self, flow: &Flow, role: Role) -> Option<NodeId> {
        let after = self.path(flow.from, flow.to).into_iter().map(|l| self.links[l].to);
        std::iter::once(flow.from).chain(after).find(|n| self.nodes[usize::from(*n)].role == role)
    }

    /// The base station on the path of a flow.
    pub fn base_station_for(&self, flow: &Flow) -> Option<NodeId> {
        self.with_role(flow, Role::BaseStation)
    }

    /// About how many frames cross links in the run, from above: what the rates allow, not more than the flows can use.
    pub fn estimated_frames(&self) -> f64 {
        let end = Time(self.duration.0);
        let capacity: Vec<f64> = self
            .links
            .iter()
            .map(|l| {
                let phase = Duration::ZERO;
                RateProcess::new(&l.rate, l.trace.clone(), &l.outages, phase).capacity_bits(Time::ZERO, end)
            })
            .collect();
        let paths: Vec<[Vec<usize>; 2]> = self.flows.iter().map(|f| [self.path(f.from, f.to), self.path(f.to, f.from)]).collect();
        let bits = |flow: &Flow, link: usize, payload: u32| f64::from(8 * (payload + flow.headers + self.links[link].overhead));
        // Data frames that the flow can bring through, and twice as many sent ones where it repeats a finite amount.
        let data: Vec<f64> = self
            .flows
            .iter()
            .zip(&paths)
            .map(|(f, [there, _])| {
                let through = there.iter().map(|&l| capacity[l] / bits(f, l, f.segment)).fold(f64::INFINITY, f64::min);
                match f.app {
                    App::Transfer { size } => through.min(2.0 * (size as f64 / f64::from(f.segment)).ceil()),
                    ref app => app.datagrams().map_or(through, |rate| rate * self.duration.as_secs() / f64::from(8 * f.segment)),
                }
            })
            .collect();
        let mut wanted = vec![0.0; self.links.len()];
        let mut smallest = vec![f64::INFINITY; self.links.len()];
        for ((f, [there, back]), frames) in self.flows.iter().zip(&paths).zip(&data) {
            let acked = f.app.datagrams().is_none();
            for (links, payload) in [(there, f.segment), (back, 0)] {
                for &l in links.iter().filter(|_| acked || payload > 0) {
                    wanted[l] += frames;
                    smallest[l] = smallest[l].min(bits(f, l, payload));
                }
            }
        }
        (0..self.links.len()).filter(|&l| wanted[l] > 0.0).map(|l| wanted[l].min(capacity[l] / smallest[l])).sum()
    }
}
