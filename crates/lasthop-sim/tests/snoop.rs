//! Snoop in the simulator: what the queue drops is not cached, and data that the station sends.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use lasthop::air::config::{DrawIndex, LossConfig};
use lasthop::queue::codel::Codel;
use lasthop::queue::red::Red;
use lasthop::queue::{Discipline, QueueConfig};
use lasthop::scenario::network::{App, Network};
use lasthop::units::{Duration, QueueLimit, Share, Size};
use lasthop_sim::events::{Event, Kind, Observer};
use proptest::prelude::*;
use support::random::{cases, managed_queue};
use support::{DOWN, UP, last_hop, ms};

/// What became of the copies of each segment at the base station.
#[derive(Default)]
struct Copies {
    /// Per flow and segment: copies from the sender that came to its queue, and those that this did
    /// not send.
    came: BTreeMap<(u32, u64), [u32; 2]>,
    /// The agent's own copies.
    own: BTreeSet<u64>,
    /// Segments that the agent sent although the queue had sent none of the sender's copies.
    wrong: Vec<u64>,
    refused: u64,
}

impl Observer for &mut Copies {
    fn on_event(&mut self, e: &Event<'_>) {
        let Some(s) = e.segment.filter(|s| s.len > 0) else { return };
        let copies = self.came.entry((s.flow, s.seq)).or_default();
        let here = e.link == Some(DOWN as u32) && !self.own.contains(&s.id);
        match e.kind {
            Kind::AgentInjected => {
                self.own.insert(s.id);
                if copies[0] <= copies[1] {
                    self.wrong.push(s.seq);
                }
            }
            Kind::Enqueued if here => copies[0] += 1,
            Kind::DroppedAtQueue if here => {
                copies[1] += 1;
                self.refused += 1;
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
        let mut f = support::flow(scheme, lasthop::tcp::profile::ProfileName::Rfc, App::Bulk);
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

/// A full DropTail queue, RED that drops early, CoDel that drops at the head: none of the drops is
/// made good by the agent.
#[test]
fn what_the_own_queue_refuses_is_never_cached() {
    let limit = Some(QueueLimit::Packets(15));
    let red =
        Discipline::Red(Red { max_p: Share(0.3), w_q: Share(0.05), ecn: false, ..Red::default() });
    let codel = Discipline::Codel(Codel { target: ms(20), interval: ms(100), ecn: false });
    let queues = [
        support::packets(10),
        QueueConfig { limit, discipline: red },
        QueueConfig { limit, discipline: codel },
    ];
    for (i, queue) in queues.into_iter().enumerate() {
        let seen = copies(&crowded(queue, "snoop:sender=newreno"), 1);
        assert!(
            seen.refused > 20 && seen.own.len() > 20,
            "queue {i}: {} refused, {} repaired",
            seen.refused,
            seen.own.len()
        );
        assert!(seen.wrong.is_empty(), "queue {i}: {:?}", seen.wrong);
    }
}

proptest! {
    #![proptest_config(cases(30))]

    #[test]
    fn nor_by_any_other_queue(queue in managed_queue(), seed in 0..100u64) {
        let seen = copies(&crowded(queue, "snoop:sender=newreno:first_dupack_passes=false"), seed);
        prop_assert!(seen.wrong.is_empty(), "{:?}", seen.wrong);
    }
}

/// Data that the station sends: its own agent repairs what the radio loses, and the server's ACKs
/// pass through it.
#[test]
fn the_station_repairs_its_own_data() {
    let goodput = |scheme: &str| {
        let mut flow = support::flow(scheme, lasthop::tcp::profile::ProfileName::Ns235, App::Bulk);
        (flow.from, flow.to, flow.receive_window) = (2, 0, Size::Segments(60.0));
        let mut net = last_hop(vec![flow], Duration::secs(60));
        net.links[UP].loss = lost(0.01);
        let result = support::watch(&net, 1).result;
        (
            result.flows[0].goodput_bps,
            result.agents.iter().map(|a| a.node.clone()).collect::<Vec<_>>(),
        )
    };
    let (plain, no_agents) = goodput("newreno");
    let (base_station, one) = goodput("snoop:sender=newreno");
    let (station, two) = goodput("snoop:sender=newreno:uplink=true");
    assert_eq!((no_agents.len(), one.len(), two.len()), (0, 1, 2));
    assert_eq!(plain, base_station, "the base station's agent has nothing to do with them");
    assert!(station > 1.1 * plain, "{station} with, {plain} without");
}
