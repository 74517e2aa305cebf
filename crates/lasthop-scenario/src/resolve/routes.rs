//! Static routes: fewest hops, ties by the order of the links.

use std::collections::{BTreeSet, VecDeque};

use lasthop_channel::link::cell::config::Place;
use lasthop_core::segment::NodeId;

/// What packets can cross: the one-way links, then the ordered pairs of members of each cell, which
/// are counted but not stored.
pub struct Arcs {
    nodes: usize,
    links: Vec<(NodeId, NodeId)>,
    cells: Vec<Members>,
}

/// The members of a cell, and the index of its first pair.
struct Members {
    nodes: Vec<NodeId>,
    first: usize,
}

impl Members {
    /// The index of a pair of members.
    fn pair(&self, from: usize, to: usize) -> u32 {
        (self.first + from * (self.nodes.len() - 1) + to - usize::from(to > from)) as u32
    }

    /// The members of a pair of this cell.
    fn of_pair(&self, arc: u32) -> Option<(usize, usize)> {
        let others = self.nodes.len() - 1;
        let pair = (arc as usize).checked_sub(self.first)?;
        let (from, to) = (pair / others, pair % others);
        (from < self.nodes.len()).then_some((from, to + usize::from(to >= from)))
    }
}

/// `[node][destination]` = index of the arc to take; `None` if there is no route.
type Table = Vec<Vec<Option<u32>>>;

impl Arcs {
    /// The arcs of a network with `nodes` nodes; `cells` are the members of each cell.
    pub fn new(nodes: usize, links: Vec<(NodeId, NodeId)>, cells: Vec<Vec<NodeId>>) -> Arcs {
        let mut first = links.len();
        let members = |nodes: Vec<NodeId>| {
            let cell = Members { first, nodes };
            first += cell.nodes.len() * (cell.nodes.len() - 1);
            cell
        };
        let cells = cells.into_iter().map(members).collect();
        Arcs { nodes, links, cells }
    }

    /// The place in a cell of an arc that is a pair of members.
    pub fn place(&self, arc: u32) -> Option<Place> {
        // Cells come in the order of their first pairs.
        let cell = self.cells.iter().rposition(|c| c.first <= arc as usize)?;
        let (from, to) = self.cells[cell].of_pair(arc)?;
        Some(Place { cell: cell as u32, from: from as u32, to: to as u32 })
    }

    /// The node where an arc ends.
    fn end(&self, arc: u32) -> NodeId {
        match self.place(arc) {
            Some(place) => self.cells[place.cell as usize].nodes[place.to as usize],
            None => self.links[arc as usize].1,
        }
    }

    /// The next hop of every route.
    pub fn next_hops(&self) -> Table {
        let mut into: Vec<Vec<NodeId>> = vec![Vec::new(); self.nodes];
        for (from, to) in &self.links {
            into[usize::from(*to)].push(*from);
        }
        let mut cells_of: Vec<Vec<usize>> = vec![Vec::new(); self.nodes];
        for (i, cell) in self.cells.iter().enumerate() {
            cell.nodes.iter().for_each(|node| cells_of[usize::from(*node)].push(i));
        }
        let mut table = vec![vec![None; self.nodes]; self.nodes];
        for destination in 0..self.nodes {
            let hops = self.hops(destination, &into, &cells_of);
            self.first_arcs(destination, &hops, &mut table);
        }
        table
    }

    /// The number of hops from each node to a destination; `usize::MAX` if there is no route.
    fn hops(
        &self,
        destination: usize,
        into: &[Vec<NodeId>],
        cells_of: &[Vec<usize>],
    ) -> Vec<usize> {
        let mut hops = vec![usize::MAX; self.nodes];
        // The other members of a cell are one hop from the first of its members that is reached.
        let mut reached = vec![false; self.cells.len()];
        hops[destination] = 0;
        let mut queue = VecDeque::from([destination]);
        while let Some(node) = queue.pop_front() {
            let next = hops[node] + 1;
            let mut reach = |from: &NodeId| {
                let from = usize::from(*from);
                if hops[from] == usize::MAX {
                    hops[from] = next;
                    queue.push_back(from);
                }
            };
            into[node].iter().for_each(&mut reach);
            for &cell in &cells_of[node] {
                if !std::mem::replace(&mut reached[cell], true) {
                    self.cells[cell].nodes.iter().for_each(&mut reach);
                }
            }
        }
        hops
    }

    /// Fills in the arcs towards a destination: of those that lead one hop nearer, the first.
    fn first_arcs(&self, destination: usize, hops: &[usize], table: &mut Table) {
        for (i, (from, to)) in (0..).zip(&self.links) {
            let (from, to) = (usize::from(*from), usize::from(*to));
            let entry = &mut table[from][destination];
            if entry.is_none()
                && hops[from] != usize::MAX
                && hops[from] == hops[to].saturating_add(1)
            {
                *entry = Some(i);
            }
        }
        for cell in &self.cells {
            // Hops within a cell differ by one at most.
            let hops_of = |node: &NodeId| hops[usize::from(*node)];
            let Some((to, nearest)) =
                cell.nodes.iter().map(hops_of).enumerate().min_by_key(|(_, hops)| *hops)
            else {
                continue;
            };
            for (from, node) in cell.nodes.iter().enumerate() {
                let entry = &mut table[usize::from(*node)][destination];
                if entry.is_none() && nearest != usize::MAX && hops_of(node) > nearest {
                    *entry = Some(cell.pair(from, to));
                }
            }
        }
    }

    /// The nodes on a route, its start left out, and the arcs; empty if there is no route.
    fn path(&self, table: &Table, from: NodeId, to: NodeId) -> Vec<(u32, NodeId)> {
        let mut path = Vec::new();
        let mut at = from;
        while at != to {
            let Some(arc) = table[usize::from(at)][usize::from(to)] else { return Vec::new() };
            at = self.end(arc);
            path.push((arc, at));
        }
        path
    }

    /// The pairs of members that flows between these nodes use, in order: in a large cell few
    /// members exchange packets.
    pub fn used_pairs(&self, table: &Table, ends: &BTreeSet<(NodeId, NodeId)>) -> Vec<u32> {
        let mut used = BTreeSet::new();
        for &(from, to) in ends {
            // Agents and relays on the path exchange packets with each other and with the ends.
            let (there, back) = (self.path(table, from, to), self.path(table, to, from));
            let nodes: BTreeSet<NodeId> = [from, to]
                .into_iter()
                .chain(there.iter().chain(&back).map(|(_, node)| *node))
                .collect();
            for (a, b) in nodes.iter().flat_map(|a| nodes.iter().map(move |b| (*a, *b))) {
                used.extend(self.path(table, a, b).into_iter().map(|(arc, _)| arc));
            }
        }
        used.into_iter().filter(|arc| *arc as usize >= self.links.len()).collect()
    }

    /// Renumbers a table: of the pairs of members, only `used` are left, behind the links.
    pub fn renumber(&self, table: &mut Table, used: &[u32]) {
        for row in table {
            // All pairs of a row begin at its node: few of them are used, and most are equal.
            let mut last = (None, None);
            for hop in
                row.iter_mut().filter(|hop| hop.is_some_and(|arc| arc as usize >= self.links.len()))
            {
                if *hop != last.0 {
                    let place = hop.and_then(|arc| used.binary_search(&arc).ok());
                    last = (*hop, place.map(|place| (self.links.len() + place) as u32));
                }
                *hop = last.1;
            }
        }
    }
}
