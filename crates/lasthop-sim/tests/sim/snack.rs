//! SNACK, Selective-TCP and SNACK-Snoop on simulated links, and in captures.

use std::sync::atomic::AtomicBool;

use crate::support::*;
use lasthop::air::config::{AddedDelay, DrawIndex, LossConfig, OutageRule};
use lasthop::scenario::network::{App, Network};
use lasthop::segment::Flags;
use lasthop::units::{Duration, Share, Size, Time};
use lasthop_sim::capture::Capture;
use lasthop_sim::events::Kind;
use lasthop_wire::options::TcpOption;
use lasthop_wire::snack::read_snack;
use lasthop_wire::{CaptureReader, parse};

fn radio(scheme: &str, lost: &[&str]) -> Network {
    let mut network = last_hop(vec![rfc(scheme, 200)], Duration::secs(100));
    network.flows[0].receive_window = Size::Segments(20.0);
    network.links[DOWN].loss = lose(lost, &[]);
    network
}

fn snacks(run: &Watched, kind: Kind, node: u16) -> Vec<f64> {
    run.log
        .of(kind)
        .filter(|e| e.node == node && e.segment().flags.has(Flags::SNACK))
        .map(|e| e.secs())
        .collect()
}

const SPREAD: [&str; 4] = ["60:1", "62:1", "64:1", "66:1"];

/// Four losses in a window: NewReno needs a round trip for each, with SNACK all four are
/// retransmitted at once. Either sender reduces cwnd once.
#[test]
fn many_losses_are_repaired_in_a_round_trip() {
    let (snack, plain) = (watch(&radio("snack", &SPREAD), 1), watch(&radio("newreno", &SPREAD), 1));
    assert_eq!(snack.repairs(), [4, 0, 0, 1]);
    assert!(!snacks(&snack, Kind::AckReceived, 0).is_empty());
    let repaired = |run: &Watched| run.log.sending(66, 2) - run.log.sending(60, 2);
    assert!(
        repaired(&snack) < 0.1 && repaired(&plain) > 0.2,
        "{} and {}",
        repaired(&snack),
        repaired(&plain)
    );
}

/// The first SNACKs are lost on the wire; later ones request the same segments.
#[test]
fn a_lost_snack_is_followed_by_another() {
    let mut network = radio("snack", &SPREAD);
    let first = snacks(&watch(&network, 1), Kind::AckSent, 2)[0];
    network.links[UP].outages =
        vec![outage((first * 1e3) as u64 - 1, 20, OutageRule::LostAtSending)];
    let run = watch(&network, 1);
    assert!(snacks(&run, Kind::AckReceived, 0).len() < snacks(&run, Kind::AckSent, 2).len());
    let flow = &run.result.flows[0];
    assert_eq!((flow.retransmissions.total, flow.timeouts.total, flow.cwnd_reductions), (4, 0, 1));
}

/// The base station retransmits the segments that the station requests. A sender without SACK does
/// not notice.
#[test]
fn the_base_station_retransmits() {
    for sender in ["newreno", "reno", "tahoe"] {
        let run = watch(&radio(&format!("snack-snoop:sender={sender}"), &SPREAD), 1);
        let flow = &run.result.flows[0];
        assert_eq!(
            (flow.retransmissions.total, flow.timeouts.total, flow.cwnd_reductions),
            (0, 0, 0),
            "{sender}"
        );
        let counter = |name: &str| run.result.agents[0].counters[name].as_u64().unwrap();
        assert_eq!(
            (counter("local_retransmissions"), counter("timer_retransmissions")),
            (4, 0),
            "{sender}"
        );
        assert_eq!(flow.delivered_bytes, 200_000);
    }
}

/// Segments dropped by the base station's queue are left to the sender.
#[test]
fn congestion_losses_are_left_to_the_sender() {
    let mut network = radio("snack-snoop:sender=newreno", &[]);
    network.links[DOWN].queue = packets(8);
    let run = watch(&network, 1);
    assert!(run.log.count(Kind::DroppedAtQueue) > 0);
    assert!(run.result.flows[0].cwnd_reductions > 0);
    assert_eq!(run.result.flows[0].delivered_bytes, 200_000);
}

/// At a loss rate of 5 % its goodput is more than twice that of its sender alone.
#[test]
fn snack_snoop_helps_at_random_losses() {
    let goodput = |scheme: &str| {
        let mut network = last_hop(vec![rfc(scheme, 1)], Duration::secs(100));
        network.flows[0].app = App::Bulk;
        network.links[DOWN].loss =
            LossConfig::Uniform { rate: Share(0.05), index: DrawIndex::Frame, slot: ms(1) };
        watch(&network, 1).result.flows[0].goodput_bps
    };
    let (with, without) = (goodput("snack-snoop:sender=newreno"), goodput("newreno"));
    assert!(with > 2.0 * without, "{with} with, {without} without");
}

/// Selective-TCP answers radio losses with SNACKs alone: all segments of a window are retransmitted
/// within a round trip, and nothing is reduced.
#[test]
fn selective_tcp_repairs_many_losses_in_a_round_trip() {
    let run = watch(&radio("selective-tcp", &SPREAD), 1);
    assert_eq!(run.repairs(), [4, 0, 0, 0]);
    assert!(run.log.sending(66, 2) - run.log.sending(60, 2) < 0.1);
}

/// Without duplicate ACKs, only the next SNACK, 50 ms later, can replace a lost one.
#[test]
fn selective_tcp_repeats_a_lost_snack() {
    let mut network = radio("selective-tcp", &SPREAD);
    let first = snacks(&watch(&network, 1), Kind::AckSent, 2)[0];
    network.links[UP].outages =
        vec![outage((first * 1e3) as u64 - 1, 20, OutageRule::LostAtSending)];
    let run = watch(&network, 1);
    let (sent, received) = (snacks(&run, Kind::AckSent, 2), snacks(&run, Kind::AckReceived, 0));
    assert!(
        received.len() < sent.len() && (0.05..0.06).contains(&(sent[1] - sent[0])),
        "{sent:?} {received:?}"
    );
    assert_eq!(run.repairs(), [4, 0, 0, 0]);
}

/// The first SNACK arrives after later ones, when all segments are repaired: it triggers nothing.
#[test]
fn selective_tcp_ignores_a_snack_that_was_overtaken() {
    let mut network = radio("selective-tcp", &SPREAD);
    let first = snacks(&watch(&network, 1), Kind::AckSent, 2)[0];
    network.links[UP].delay.added =
        vec![AddedDelay { from: ms((first * 1e3) as u64 - 1), length: ms(3), extra: ms(400) }];
    let run = watch(&network, 1);
    let received = |kind| {
        run.log
            .of(kind)
            .filter(|e| e.node == 0)
            .map(|e| (e.segment().flags.has(Flags::SNACK), e.segment().ack))
            .collect::<Vec<_>>()
    };
    let acks = received(Kind::AckReceived);
    assert!(
        (1..acks.len()).any(|i| acks[i].0 && acks[i].1 < acks[i - 1].1),
        "a SNACK is overtaken"
    );
    assert_eq!(run.repairs(), [4, 0, 0, 0]);
}

/// After an outage packets arrive back to back, so that the smallest interval between two is a
/// tenth of the usual one; later radio losses are then classified as congestion. With a memory of
/// 10 s the classifier recovers, without expiry it does not.
#[test]
fn selective_tcp_recovers_from_an_outage() {
    let requested = |settings: &str| {
        let mut network =
            last_hop(vec![rfc(&format!("selective-tcp{settings}"), 3000)], Duration::secs(60));
        network.flows[0].receive_window = Size::Segments(20.0);
        network.links[DOWN].loss = lose(&["200:1", "700:1", "2600:1"], &[]);
        network.links[DOWN].rate =
            schedule(&[(0, 1_000_000), (3000, 0), (3200, 10_000_000), (3220, 1_000_000)]);
        let run = watch(&network, 1);
        assert_eq!(run.result.flows[0].delivered_bytes, 3_000_000);
        let lost: Vec<f64> = run.log.of(Kind::LostOnAir).map(|e| e.secs()).collect();
        let snacks = snacks(&run, Kind::AckSent, 2);
        lost.iter()
            .map(|l| snacks.iter().any(|a| (0.0..0.2).contains(&(a - l))))
            .collect::<Vec<_>>()
    };
    assert_eq!(requested(""), [true, false, true]);
    assert_eq!(requested(":tmin_memory=0s"), [true, false, false]);
}

/// Captures contain SNACKs as TCP option 21.
#[test]
fn captures_carry_snacks() {
    for scheme in ["snack", "selective-tcp", "snack-snoop:sender=newreno"] {
        let network = radio(scheme, &SPREAD);
        let capture = Capture::new(Vec::new(), &network).unwrap();
        let mut observers = (capture, Log::default());
        lasthop_sim::run(&network, 1, &mut observers, &AtomicBool::new(false)).unwrap();
        let bytes = observers.0.finish().unwrap();
        let mut reader = CaptureReader::new(&bytes[..]).unwrap();
        let mut found = Vec::new();
        while let Some(packet) = reader.next_packet().unwrap() {
            let tcp = parse(&packet.data).unwrap();
            let Some(option) =
                tcp.options().flatten().find(|o| matches!(o, TcpOption::Snack { .. }))
            else {
                continue;
            };
            if reader.interfaces()[packet.interface].name == "n2-n1" {
                found.push((
                    packet.time,
                    read_snack(option, 0, 1000)
                        .unwrap()
                        .holes()
                        .next()
                        .map(|h| (h.end - h.start) / 1000),
                ));
            }
        }
        let seen = observers
            .1
            .of(Kind::Arrived)
            .filter(|e| e.link == Some(UP as u32) && e.segment().flags.has(Flags::SNACK));
        assert_eq!(found, seen.map(|e| (Time(e.t), Some(1))).collect::<Vec<_>>(), "{scheme}");
        assert!(!found.is_empty(), "{scheme}");
    }
}
