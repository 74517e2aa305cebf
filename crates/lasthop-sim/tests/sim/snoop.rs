//! Snoop in the simulator: segments that the queue drops are not cached; data sent by the station.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::random::{cases, managed_queue};
use crate::support::{DOWN, UP, last_hop, ms};
use lasthop::air::config::{DrawIndex, LossConfig};
use lasthop::queue::codel::Codel;
use lasthop::queue::red::Red;
use lasthop::queue::{Discipline, QueueConfig};
use lasthop::scenario::network::{App, Network};
use lasthop::units::{Duration, QueueLimit, Share, Size};
use lasthop_sim::events::{Event, Kind, Observer};
use proptest::prelude::*;

/// Records the copies of each segment at the base station.
#[derive(Default)]
struct Copies {
    /// By flow and segment: copies from the sender that were offered to the queue, and those it
    /// dropped.
    offered: BTreeMap<(u32, u64), [u32; 2]>,
    /// Packet numbers of the copies that the agent sent.
    injected: BTreeSet<u64>,
    /// Segments that the agent sent although the queue had dropped all of the sender's copies.
    wrong: Vec<u64>,
    dropped: u64,
}

impl Observer for &mut Copies {
    fn on_event(&mut self, e: &Event<'_>) {
        let Some(s) = e.segment.filter(|s| s.len > 0) else { return };
        let copies = self.offered.entry((s.flow, s.seq)).or_default();
        let here = e.link == Some(DOWN as u32) && !self.injected.contains(&s.id);
        match e.kind {
            Kind::AgentInjected => {
                self.injected.insert(s.id);
                if copies[0] <= copies[1] {
                    self.wrong.push(s.seq);
                }
            }
            Kind::Enqueued if here => copies[0] += 1,
            Kind::DroppedAtQueue if here => {
                copies[1] += 1;
                self.dropped += 1;
            }
            _ => {}
        }
    }
}

fn lost(share: f64) -> LossConfig {
    LossConfig::Uniform { rate: Share(share), index: DrawIndex::Frame, slot: ms(1) }
}

fn crowded(queue: QueueConfig, scheme: &str) -> Network {
    let flow = |start: u64| {
        let mut f =
            crate::support::flow(scheme, lasthop::tcp::profile::ProfileName::Rfc, App::Bulk);
        (f.start, f.receive_window, f.profile.ecn) = (ms(start), Size::Segments(60.0), false);
        f.name = format!("flow from {start}");
        f
    };
    let mut net = last_hop(vec![flow(0), flow(700)], Duration::secs(20));
    net.links[DOWN].queue = queue;
    net.links[DOWN].loss = lost(0.02);
    net
}

fn copies(net: &Network, seed: u64) -> Copies {
    let mut copies = Copies::default();
    lasthop_sim::run(net, seed, &mut copies, &std::sync::atomic::AtomicBool::new(false)).unwrap();
    copies
}

/// Neither drops of a full DropTail queue, nor early drops of RED, nor drops of CoDel at the head
/// of the queue are repaired by the agent.
#[test]
fn segments_dropped_by_the_queue_are_never_cached() {
    let limit = Some(QueueLimit::Packets(15));
    let red =
        Discipline::Red(Red { max_p: Share(0.3), w_q: Share(0.05), ecn: false, ..Red::default() });
    let codel = Discipline::Codel(Codel { target: ms(20), interval: ms(100), ecn: false });
    let queues = [
        crate::support::packets(10),
        QueueConfig { limit, discipline: red },
        QueueConfig { limit, discipline: codel },
    ];
    for (i, queue) in queues.into_iter().enumerate() {
        let seen = copies(&crowded(queue, "snoop:sender=newreno"), 1);
        assert!(
            seen.dropped > 20 && seen.injected.len() > 20,
            "queue {i}: {} dropped, {} retransmitted",
            seen.dropped,
            seen.injected.len()
        );
        assert!(seen.wrong.is_empty(), "queue {i}: {:?}", seen.wrong);
    }
}

proptest! {
    #![proptest_config(cases(30))]

    #[test]
    fn segments_dropped_by_a_random_queue_are_never_cached(
        queue in managed_queue(),
        seed in 0..100u64,
    ) {
        let scheme = "snoop:sender=newreno:first_dupack_passes=false";
        let seen = copies(&crowded(queue, scheme), seed);
        prop_assert!(seen.wrong.is_empty(), "{:?}", seen.wrong);
    }
}

/// Data sent by the station: an agent at the station repairs radio losses, and the server's ACKs
/// pass through it.
#[test]
fn the_station_repairs_its_own_data() {
    let goodput = |scheme: &str| {
        let mut flow =
            crate::support::flow(scheme, lasthop::tcp::profile::ProfileName::Ns235, App::Bulk);
        (flow.from, flow.to, flow.receive_window) = (2, 0, Size::Segments(60.0));
        let mut net = last_hop(vec![flow], Duration::secs(60));
        net.links[UP].loss = lost(0.01);
        let result = crate::support::watch(&net, 1).result;
        (
            result.flows[0].goodput_bps,
            result.agents.iter().map(|a| a.node.clone()).collect::<Vec<_>>(),
        )
    };
    let (plain, no_agents) = goodput("newreno");
    let (base_station, one) = goodput("snoop:sender=newreno");
    let (station, two) = goodput("snoop:sender=newreno:uplink=true");
    assert_eq!((no_agents.len(), one.len(), two.len()), (0, 1, 2));
    assert_eq!(plain, base_station, "the base station's agent does not affect uplink data");
    assert!(station > 1.1 * plain, "{station} with, {plain} without");
}
