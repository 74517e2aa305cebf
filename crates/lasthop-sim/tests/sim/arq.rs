//! Retransmission by the link layer of a point-to-point link.

use std::sync::atomic::AtomicBool;

use crate::support::random::{Case, Conditions, cases, network_with_arq};
use crate::support::verified::verified;
use crate::support::*;
use lasthop::air::config::LossConfig;
use lasthop::link::arq::{ArqConfig, ArqKind};
use lasthop::scenario::network::Network;
use lasthop::tcp::scoreboard::Marks;
use lasthop::traffic::Cbr;
use lasthop::units::{Duration, Share};
use lasthop_sim::events::Kind;
use proptest::prelude::*;

fn arq(kind: ArqKind, attempts: u32, delay: u64) -> Option<ArqConfig> {
    Some(ArqConfig { kind, attempts, delay: ms(delay), in_order: true, fragments: 1 })
}

/// A radio link that loses these attempts ("segment:attempt").
fn radio(segments: u64, lost: &[&str], arq: Option<ArqConfig>) -> Network {
    let mut network = last_hop(vec![rfc("newreno", segments)], Duration::secs(60));
    network.links[DOWN].loss = lose(lost, &[]);
    network.links[DOWN].arq = arq;
    network
}

/// Number and arrival time, in seconds, of each segment at the station.
fn arrivals(run: &Watched) -> Vec<(u64, f64)> {
    run.log
        .of(Kind::DataReceived)
        .filter(|e| e.number() > 0)
        .map(|e| (e.number(), e.secs()))
        .collect()
}

fn arrival(run: &Watched, number: u64) -> f64 {
    arrivals(run).iter().find(|a| a.0 == number).unwrap().1
}

/// Air time, in seconds, of a segment of 1040 bytes at 1 Mbit/s.
const AIR: f64 = 0.00832;

#[test]
fn stop_and_wait_blocks_the_link_until_the_frame_arrives() {
    let plain = watch(&radio(20, &[], None), 1);
    let run = watch(&radio(20, &["5:1", "5:2"], arq(ArqKind::StopAndWait, 3, 30)), 1);
    let late = arrival(&run, 5) - arrival(&plain, 5);
    assert!(close(late, 2.0 * (AIR + 0.03)), "{late}");
    // No frame overtakes another, and none is lost.
    assert!(arrivals(&run).is_sorted_by(|a, b| a.0 < b.0 && b.1 - a.1 > AIR - 1e-9));
    assert_eq!(run.result.flows[0].retransmissions.total, 0);
    let failed: Vec<_> = run.log.of(Kind::AttemptFailed).map(|e| (e.number(), e.value)).collect();
    assert_eq!(failed, [(5, 1.0), (5, 2.0)]);
    let link = &run.result.links[DOWN];
    assert_eq!(
        (link.lost_on_air, link.attempts, link.arq_discards),
        (0, Some(link.offered_frames + 2), Some(0))
    );
    assert!(close(link.busy_s, plain.result.links[DOWN].busy_s + 2.0 * AIR), "{}", link.busy_s);
}

#[test]
fn a_frame_is_discarded_after_its_last_attempt() {
    for kind in [ArqKind::StopAndWait, ArqKind::SelectiveRepeat] {
        let run = watch(&radio(20, &["5:1", "5:2", "5:3"], arq(kind, 3, 10)), 1);
        assert_eq!(run.log.of(Kind::LostOnAir).map(|e| e.number()).collect::<Vec<_>>(), [5]);
        assert_eq!(run.log.count(Kind::AttemptFailed), 3);
        let lost = run.log.of(Kind::LostOnAir).next().unwrap();
        let failed = run.log.of(Kind::AttemptFailed).last().unwrap();
        assert_eq!(lost.t, failed.t);
        let flow = &run.result.flows[0];
        assert_eq!(
            (flow.retransmissions.total, flow.retransmissions.spurious, flow.delivered_bytes),
            (1, 0, 20_000)
        );
        assert_eq!(run.result.links[DOWN].arq_discards, Some(1));
    }
}

#[test]
fn selective_repeat_continues_and_reorders_at_the_far_end() {
    let plain = watch(&radio(40, &[], None), 1);
    let lost = ["20:1", "20:2"];
    let run = watch(&radio(40, &lost, arq(ArqKind::SelectiveRepeat, 3, 60)), 1);
    assert!(arrivals(&run).is_sorted_by(|a, b| a.0 < b.0), "in order");
    assert_eq!(
        run.log.of(Kind::AckReceived).filter(|e| e.segment().ack == 19_000).count(),
        1,
        "no duplicate ACK"
    );
    // The frames behind it are delivered with it, at the same instant.
    let (at, next) = (arrival(&run, 20), arrival(&run, 21));
    assert!(at - arrival(&plain, 20) > 0.12 && close(at, next), "{at} {next}");
    // Without in-order delivery they arrive as without the loss, at most one frame later for each
    // attempt.
    let free = ArqConfig { in_order: false, ..arq(ArqKind::SelectiveRepeat, 3, 60).unwrap() };
    let run = watch(&radio(40, &lost, Some(free)), 1);
    assert!(close(arrival(&run, 21), arrival(&plain, 21)));
    assert!(arrival(&run, 20) > arrival(&run, 21));
    assert!(
        run.log.of(Kind::AckReceived).filter(|e| e.segment().ack == 19_000).count() > 1,
        "duplicate ACKs"
    );
}

#[test]
fn a_discarded_frame_no_longer_delays_others() {
    let run = watch(&radio(40, &["20:1", "20:2"], arq(ArqKind::SelectiveRepeat, 2, 50)), 1);
    let discarded = run.log.of(Kind::LostOnAir).next().unwrap().secs();
    // The far end learns of the discard when the frame would have arrived: 40 ms later.
    let held: Vec<_> = arrivals(&run).into_iter().filter(|a| (21..24).contains(&a.0)).collect();
    assert!(held.iter().all(|a| close(a.1, discarded + 0.04)), "{held:?} {discarded}");
}

/// A frame that is being retransmitted delays all others (head-of-line blocking), unless the link
/// continues with them.
#[test]
fn stop_and_wait_causes_head_of_line_blocking() {
    let mut network = radio(20, &["10:1"], arq(ArqKind::StopAndWait, 2, 500));
    let mut other = rfc("newreno", 20);
    other.name = "flow 2".into();
    network.flows.push(other);
    let gap = |run: &Watched| {
        let times: Vec<f64> =
            run.log.of(Kind::DataReceived).filter(|e| e.flow == 1).map(|e| e.secs()).collect();
        times.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max)
    };
    network.links[DOWN].loss = lose(&["10:1"], &[]);
    assert!(gap(&watch(&network, 1)) > 0.5);
    network.links[DOWN].arq =
        arq(ArqKind::SelectiveRepeat, 2, 500).map(|a| ArqConfig { in_order: false, ..a });
    assert!(gap(&watch(&network, 1)) < 0.3);
}

/// Attempts are independent: n attempts leave a loss rate of p^n.
#[test]
fn attempts_fail_independently_of_each_other() {
    for (attempts, left) in [(1, 0.2), (2, 0.04), (3, 0.008)] {
        let (mut offered, mut lost, mut sent) = (0, 0, 0);
        for seed in 1..=5 {
            let mut network = radio(4000, &[], arq(ArqKind::StopAndWait, attempts, 0));
            network.links[DOWN].loss = LossConfig::uniform(Share(0.2));
            network.flows[0].app =
                lasthop::scenario::network::App::Cbr(Cbr { rate: lasthop::units::Rate(400_000) });
            let link = watch(&network, seed).result.links.remove(DOWN);
            (offered, lost, sent) = (
                offered + link.offered_frames,
                lost + link.arq_discards.unwrap(),
                sent + link.attempts.unwrap(),
            );
        }
        let (share, expected) = (lost as f64 / offered as f64, left);
        let error = 4.0 * (expected * (1.0 - expected) / offered as f64).sqrt();
        assert!(
            (share - expected).abs() < error,
            "{attempts} attempts: {share}, expected {expected}"
        );
        let mean = sent as f64 / offered as f64;
        let expected = (1.0 - left) / 0.8;
        assert!(
            (mean - expected).abs() < 0.02,
            "{attempts} attempts: {mean} per frame, expected {expected}"
        );
    }
}

/// With one attempt there is no retransmission: the run equals that on a plain link.
#[test]
fn one_attempt_is_a_plain_link() {
    for seed in 1..=5 {
        let mut network = last_hop(vec![rfc("newreno", 400)], Duration::secs(60));
        network.links[DOWN].loss = LossConfig::uniform(Share(0.03));
        network.links[DOWN].queue = packets(8);
        let plain = json(&network, seed);
        network.links[DOWN].arq = arq(ArqKind::SelectiveRepeat, 1, 100);
        let once = json(&network, seed);
        let link = &watch(&network, seed).result.links[DOWN];
        let more = format!(
            "\"attempts\":{},\"arq_discards\":{},",
            link.attempts.unwrap(),
            link.arq_discards.unwrap()
        );
        assert_eq!(plain, once.replace(&more, ""));
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    /// The verifier finds no violations, the pool is consistent at the end, and a run without
    /// observers is the same.
    #[test]
    fn runs_with_arq_have_no_violations(
        Case(network) in network_with_arq(Conditions::Any),
        seed in 0u64..1000,
    ) {
        let run = verified(&network, seed)?;
        for connection in &run.connections {
            let sender = connection.sender();
            let (mut seq, mut pipe) = (sender.snd_una(), 0);
            while let Some(sent) = sender.sent(seq) {
                // RFC 6675, SetPipe.
                let in_flight = !sent.marks.any(Marks::LOST);
                let copies = u64::from(in_flight) + u64::from(sent.marks.any(Marks::RESENT));
                let bytes = copies * (sent.end() - sent.seq);
                pipe += if sent.marks.any(Marks::SACKED) { 0 } else { bytes };
                seq = sent.end();
            }
            prop_assert!(
                !sender.uses_sack() || sender.pipe() == pipe,
                "pipe: running count {}, recount {pipe}",
                sender.pipe()
            );
        }
        run.check()?;
        run.check_pool(0)?;
        run.check_unobserved(&network, seed)?;
    }
}

proptest! {
    #![proptest_config(cases(600))]

    /// No transfer stalls when link layer and sender repair the same losses.
    #[test]
    fn every_transfer_with_arq_completes(
        Case(network) in network_with_arq(Conditions::Passable),
        seed in 0u64..1000,
    ) {
        let result = lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        for (flow, config) in result.flows.iter().zip(&network.flows) {
            prop_assert!(
                flow.completed_s.is_some(),
                "{} delivered {} bytes of {:?}",
                config.scheme.label,
                flow.delivered_bytes,
                config.app
            );
        }
    }
}
