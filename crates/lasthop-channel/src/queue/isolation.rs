//! What CAKE shares a link between: flows, hosts, or hosts and the flows of each; see `cake.rs`.
//!
//! Source: Høiland-Jørgensen, Täht and Morton, "Piece of CAKE: a comprehensive queue management
//! solution for home gateways", LANMAN 2018; tc-cake(8), whose keywords these are; Linux
//! (`sch_cake.c`: `cake_hash`, `cake_dequeue`).
//!
//! A flow's quantum is divided by the number of busy flows of its host: of the source
//! (`dual-srchost`), of the destination (`dual-dsthost`), or of the one that has more of them
//! (`triple-isolate`). So `triple-isolate` shares an uplink between the hosts behind it only as
//! far as their flows go to different servers: all flows to one server have equal shares, as the
//! flows from one host have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discipline::Frame;
use lasthop_core::segment::{Flags, NodeId};

/// What the link is shared between equally; the keywords are those of tc-cake(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Nothing: all frames have one queue.
    Flowblind,
    /// Sources, each of which has one queue.
    Srchost,
    /// Destinations, each of which has one queue.
    Dsthost,
    /// Pairs of source and destination, each of which has one queue.
    Hosts,
    /// Flows.
    Flows,
    /// Sources, and the flows of each: for an uplink.
    DualSrchost,
    /// Destinations, and the flows of each: for a downlink.
    DualDsthost,
    /// Both: a flow counts to its source or its destination, whichever has more busy flows.
    #[default]
    TripleIsolate,
}

impl Isolation {
    /// All values.
    pub const ALL: [Isolation; 8] = [
        Isolation::Flowblind,
        Isolation::Srchost,
        Isolation::Dsthost,
        Isolation::Hosts,
        Isolation::Flows,
        Isolation::DualSrchost,
        Isolation::DualDsthost,
        Isolation::TripleIsolate,
    ];

    /// What the frames of a queue have in common. Both directions of a flow, or of a pair of hosts,
    /// have the same key, because the kernel sorts the addresses before it hashes them.
    pub(super) fn key(self, frame: &Frame) -> u64 {
        let (from, to) = (u64::from(frame.from), u64::from(frame.to));
        match self {
            Isolation::Flowblind => 0,
            Isolation::Srchost => from,
            Isolation::Dsthost => to,
            Isolation::Hosts => from.min(to) | from.max(to) << 16,
            _ => u64::from(frame.flow) | u64::from(frame.flags.has(Flags::DATAGRAM)) << 32,
        }
    }
}

/// Source and destination of a queue's flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hosts {
    /// Source.
    pub from: NodeId,
    /// Destination.
    pub to: NodeId,
}

impl Hosts {
    /// Those of a frame.
    pub fn of(frame: &Frame) -> Hosts {
        Hosts { from: frame.from, to: frame.to }
    }
}

/// The numbers of busy flows of each host, as a source and as a destination.
#[derive(Clone, Debug, Default)]
pub(super) struct BusyFlows {
    sources: Vec<u32>,
    destinations: Vec<u32>,
}

impl BusyFlows {
    /// A flow of these hosts becomes busy.
    pub fn add(&mut self, hosts: Hosts) {
        *count(&mut self.sources, hosts.from) += 1;
        *count(&mut self.destinations, hosts.to) += 1;
    }

    /// A busy flow of these hosts becomes idle.
    pub fn remove(&mut self, hosts: Hosts) {
        *count(&mut self.sources, hosts.from) -= 1;
        *count(&mut self.destinations, hosts.to) -= 1;
    }

    /// Number that the quantum of a flow of these hosts is divided by (`host_load`), at least 1.
    pub fn host_load(&self, isolation: Isolation, hosts: Hosts) -> u32 {
        let of = |counts: &[u32], host: NodeId| counts.get(usize::from(host)).copied().unwrap_or(0);
        let load = match isolation {
            Isolation::DualSrchost => of(&self.sources, hosts.from),
            Isolation::DualDsthost => of(&self.destinations, hosts.to),
            Isolation::TripleIsolate => {
                of(&self.sources, hosts.from).max(of(&self.destinations, hosts.to))
            }
            _ => 1,
        };
        load.max(1)
    }

    /// Number of busy flows, which both counts give.
    #[cfg(test)]
    pub fn total(&self) -> u32 {
        let [sources, destinations] =
            [&self.sources, &self.destinations].map(|counts| counts.iter().sum());
        assert_eq!(sources, destinations, "a flow has one source and one destination");
        sources
    }
}

/// The count of a host.
fn count(counts: &mut Vec<u32>, host: NodeId) -> &mut u32 {
    let host = usize::from(host);
    if counts.len() <= host {
        counts.resize(host + 1, 0);
    }
    &mut counts[host]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts 1 and 2 send to 3, host 1 also to 4.
    #[test]
    fn host_loads_are_those_of_the_busier_end() {
        let mut busy = BusyFlows::default();
        let hosts = |from, to| Hosts { from, to };
        for (from, to, n) in [(1, 3, 1), (2, 3, 3), (1, 4, 2)] {
            (0..n).for_each(|_| busy.add(hosts(from, to)));
        }
        let load = |from, to| Isolation::ALL.map(|mode| busy.host_load(mode, hosts(from, to)));
        assert_eq!(load(1, 3), [1, 1, 1, 1, 1, 3, 4, 4]);
        assert_eq!(load(1, 4), [1, 1, 1, 1, 1, 3, 2, 3]);
        assert_eq!(load(2, 3), [1, 1, 1, 1, 1, 3, 4, 4]);
        // A host without busy flows counts as one with one.
        assert_eq!(load(7, 8), [1; 8]);
        busy.remove(hosts(2, 3));
        assert_eq!(busy.host_load(Isolation::TripleIsolate, hosts(2, 3)), 3);
        assert_eq!(busy.total(), 5);
    }

    #[test]
    fn frames_share_a_queue_by_flow_or_by_host() {
        let frame = |flow, from, to| Frame { flow, from, to, ..Frame::default() };
        let same = |a: Frame, b: Frame| Isolation::ALL.map(|mode| mode.key(&a) == mode.key(&b));
        let [f, t] = [false, true];
        assert_eq!(same(frame(1, 5, 6), frame(1, 5, 6)), [t; 8]);
        assert_eq!(same(frame(1, 5, 6), frame(2, 5, 6)), [t, t, t, t, f, f, f, f]);
        assert_eq!(same(frame(1, 5, 6), frame(2, 5, 7)), [t, t, f, f, f, f, f, f]);
        assert_eq!(same(frame(1, 5, 6), frame(2, 7, 6)), [t, f, t, f, f, f, f, f]);
        // The ACKs of a flow.
        assert_eq!(same(frame(1, 5, 6), frame(1, 6, 5)), [t, f, f, t, t, t, t, t]);
        let datagram = Frame { flags: Flags::DATAGRAM, ..frame(1, 5, 6) };
        assert_eq!(same(frame(1, 5, 6), datagram), [t, t, t, t, f, f, f, f]);
    }
}
