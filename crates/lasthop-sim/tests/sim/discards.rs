//! Segments that ends discard, in whole runs: counters, events and accounts.

use crate::support::*;
use lasthop::air::config::{DelayConfig, DelayDistribution};
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::{App, Network};
use lasthop::tcp::profile::{PawsRule, ProfileName, TsoDefer};
use lasthop::units::{Duration, QueueLimit, Size};
use lasthop_sim::events::Kind;
use lasthop_sim::result::Discards;

const DOWN: usize = 2;
const UP: usize = 3;

/// A transfer over a radio link, 10 Mbit/s, whose frames overtake each other in one direction.
fn overtaking(direction: usize, paws: PawsRule, segments: u64) -> Network {
    let app = App::Transfer { size: segments * 1000 };
    let mut net = last_hop(vec![flow("reno", ProfileName::Linux, app)], Duration::secs(60));
    let profile = &mut net.flows[0].profile;
    // Bursts and the times of receivers would choose another realisation, with fewer holes.
    (profile.paws, profile.tso_defer) = (paws, TsoDefer::Off);
    profile.processing_time = Duration::ZERO;
    net.flows[0].receive_window = Size::Bytes(4 << 20);
    net.links[0].rate = mbps(100.0);
    for l in [DOWN, UP] {
        net.links[l].rate = mbps(10.0);
        net.links[l].queue = QueueConfig::drop_tail(QueueLimit::Packets(100));
    }
    let (min, mean) = (ms(20), ms(3));
    net.links[direction].delay = DelayConfig {
        distribution: Some(DelayDistribution::Exponential { min, mean }),
        ..DelayConfig::constant(ms(20))
    };
    net
}

/// A retransmission that fills a hole makes originals old that it has overtaken.
#[test]
fn overtaken_segments_are_discarded_and_counted() {
    let run = watch(&overtaking(DOWN, PawsRule::Linux, 3000), 1);
    let (flow, traffic) = (&run.result.flows[0], &run.result.traffic_bits);
    assert!(flow.completed_s.is_some());
    let events: Vec<_> = run.log.of(Kind::Discarded).collect();
    assert!(events.len() > 2, "{}", events.len());
    assert!(events.iter().all(|e| e.reason == "old_timestamp"));
    let old_timestamp = events.len() as u64;
    assert_eq!(flow.discarded, Discards { old_timestamp, ..Discards::default() });
    assert!(traffic.discarded >= 8 * 1000 * old_timestamp);
    assert_eq!(traffic.balance(), 0);
    assert!(flow.retransmissions.total > flow.retransmissions.spurious);
}

#[test]
fn without_paws_nothing_is_discarded() {
    let run = watch(&overtaking(DOWN, PawsRule::Off, 3000), 1);
    assert_eq!(run.log.count(Kind::Discarded), 0);
    assert_eq!(run.result.flows[0].discarded, Discards::default());
    assert_eq!(run.result.traffic_bits.discarded, 0);
    assert!(!json(&overtaking(DOWN, PawsRule::Off, 3000), 1).contains("discarded"));
}

/// An ACK that a later one has overtaken by more than a tick is old at the sender.
#[test]
fn overtaken_acks_are_discarded_by_the_sender() {
    let run = watch(&overtaking(UP, PawsRule::Linux, 2000), 1);
    let flow = &run.result.flows[0];
    assert!(flow.completed_s.is_some());
    assert!(flow.discarded.acks > 10 && flow.discarded.by_receiver() == 0, "{:?}", flow.discarded);
    assert_eq!(run.result.traffic_bits.balance(), 0);
    let off = watch(&overtaking(UP, PawsRule::Off, 2000), 1);
    assert_eq!(off.result.flows[0].discarded, Discards::default());
}
