//! SNACK and SNACK-Snoop on simulated links.

mod support;

use lasthop::air::config::{DrawIndex, LossConfig, OutageRule};
use lasthop::scenario::network::{App, Network};
use lasthop::segment::Flags;
use lasthop::units::{Duration, Share, Size};
use lasthop_sim::events::Kind;
use support::*;

fn radio(scheme: &str, lost: &[&str]) -> Network {
    let mut network = last_hop(vec![rfc(scheme, 200)], Duration::secs(100));
    network.flows[0].receive_window = Size::Segments(20.0);
    network.links[DOWN].loss = lose(lost, &[]);
    network
}

fn snacks(run: &Watched, kind: Kind, node: u16) -> Vec<f64> {
    run.log.of(kind).filter(|e| e.node == node && e.segment().flags.has(Flags::SNACK)).map(|e| e.secs()).collect()
}

const SPREAD: [&str; 4] = ["60:1", "62:1", "64:1", "66:1"];

/// Four losses in a window: NewReno needs a round trip for each, with SNACK all go out at once. One reduction in either case.
#[test]
fn many_losses_are_repaired_in_a_round_trip() {
    let (asked, plain) = (watch(&radio("snack", &SPREAD), 1), watch(&radio("newreno", &SPREAD), 1));
    let flow = &asked.result.flows[0];
    assert_eq!((flow.retransmissions.total, flow.retransmissions.spurious, flow.timeouts.total, flow.cwnd_reductions), (4, 0, 0, 1));
    assert!(!snacks(&asked, Kind::AckReceived, 0).is_empty());
    let repaired = |run: &Watched| run.log.sending(66, 2) - run.log.sending(60, 2);
    assert!(repaired(&asked) < 0.1 && repaired(&plain) > 0.2, "{} and {}", repaired(&asked), repaired(&plain));
}

/// The first SNACKs are lost on the wire: those that follow ask again.
#[test]
fn a_lost_snack_is_followed_by_another() {
    let mut network = radio("snack", &SPREAD);
    let first = snacks(&watch(&network, 1), Kind::AckSent, 2)[0];
    network.links[UP].outages = vec![outage((first * 1e3) as u64 - 1, 20, OutageRule::LostAtSending)];
    let run = watch(&network, 1);
    assert!(snacks(&run, Kind::AckReceived, 0).len() < snacks(&run, Kind::AckSent, 2).len());
    let flow = &run.result.flows[0];
    assert_eq!((flow.retransmissions.total, flow.timeouts.total, flow.cwnd_reductions), (4, 0, 1));
}

/// The base station repairs what the station asks for: a sender without SACK learns nothing of it.
#[test]
fn the_base_station_answers() {
    for sender in ["newreno", "reno", "tahoe"] {
        let run = watch(&radio(&format!("snack-snoop:sender={sender}"), &SPREAD), 1);
        let flow = &run.result.flows[0];
        assert_eq!((flow.retransmissions.total, flow.timeouts.total, flow.cwnd_reductions), (0, 0, 0), "{sender}");
        let counter = |name: &str| run.result.agents[0].counters[name].as_u64().unwrap();
        assert_eq!((counter("local_retransmissions"), counter("timer_retransmissions")), (4, 0), "{sender}");
        assert_eq!(flow.delivered_bytes, 200_000);
    }
}

/// What the base station's queue drops is the sender's affair.
#[test]
fn congestion_goes_on_to_the_sender() {
    let mut network = radio("snack-snoop:sender=newreno", &[]);
    network.links[DOWN].queue = packets(8);
    let run = watch(&network, 1);
    assert!(run.log.count(Kind::DroppedAtQueue) > 0);
    assert!(run.result.flows[0].cwnd_reductions > 0);
    assert_eq!(run.result.flows[0].delivered_bytes, 200_000);
}

/// At 5 % of losses it gets far more through than its sender alone.
#[test]
fn it_helps_at_random_losses() {
    let goodput = |scheme: &str| {
        let mut network = last_hop(vec![rfc(scheme, 1)], Duration::secs(100));
        network.flows[0].app = App::Bulk;
        network.links[DOWN].loss = LossConfig::Uniform { rate: Share(0.05), index: DrawIndex::Frame, slot: ms(1) };
        watch(&network, 1).result.flows[0].goodput_bps
    };
    let (with, without) = (goodput("snack-snoop:sender=newreno"), goodput("newreno"));
    assert!(with > 2.0 * without, "{with} with, {without} without");
}
