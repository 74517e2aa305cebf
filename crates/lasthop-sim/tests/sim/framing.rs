//! Links that fragment frames, and LHP over them.

use crate::support::cells::{down, wlan};
use crate::support::*;
use lasthop::air::config::LossConfig;
use lasthop::link::arq::{ArqConfig, ArqKind};
use lasthop::link::cell::mac::{Mac, MacName};
use lasthop::scenario::network::{Network, Role};
use lasthop::segment::{Flags, NoticeKind};
use lasthop::units::{Duration, Share};
use lasthop_sim::events::Kind;

/// 40 and 1000 bytes, each with 60 bytes of overhead, at 1 Mbit/s.
const HEADERS: Duration = Duration(800_000);
const PAYLOAD: Duration = Duration(8_480_000);

fn lhp(settings: &str, segments: u64) -> Network {
    let mut network = last_hop(vec![rfc(&format!("lhp{settings}"), segments)], Duration::secs(60));
    network.links[DOWN].overhead = 60;
    network
}

/// Time from the arrival of a copy of segment `n` (from 1) at the radio link's queue to its arrival
/// at the station.
fn crossing(run: &Watched, n: u64, copy: usize) -> Option<Duration> {
    let at = |kind| {
        run.log
            .of(kind)
            .filter(|e| e.link == Some(DOWN as u32) && e.number() == n)
            .map(|e| e.t)
            .collect::<Vec<_>>()
    };
    Some(Duration(at(Kind::Arrived).get(copy)? - at(Kind::Enqueued).get(copy)?))
}

/// Segments named by the ELN ACKs that reached the sender.
fn eln_acks(run: &Watched) -> Vec<u64> {
    let acks = run.log.of(Kind::AckReceived).map(|e| e.segment());
    acks.filter(|s| s.flags.has(Flags::ELN)).map(|s| s.ack / 1000 + 1).collect()
}

#[test]
fn each_fragment_has_the_link_overhead() {
    let run = watch(&lhp("", 1), 1);
    assert_eq!(crossing(&run, 1, 0), Some(HEADERS + PAYLOAD + ms(40)));
    let link = &run.result.links[DOWN];
    assert_eq!(
        (link.delivered_frames, link.attempts, link.lost_on_air),
        (link.offered_frames, Some(link.offered_frames + 1), 0)
    );
    // Fragments of 40 and 4 × 250 bytes; ACKs are not fragmented.
    let run = watch(&lhp(":fragments=5", 1), 1);
    assert_eq!(crossing(&run, 1, 0), Some(HEADERS + PAYLOAD + Duration(3 * 480_000) + ms(40)));
    assert_eq!(run.result.links[UP].attempts, None);
}

/// The payload is lost: the station has the headers and reports the loss; the segment is
/// retransmitted without a reduction.
#[test]
fn a_loss_after_the_headers_is_reported_and_causes_no_reduction() {
    for (script, incomplete) in [(vec!["5:2"], 1), (vec!["5:1"], 1), (vec!["5:1", "5:2"], 0)] {
        let mut network = lhp("", 40);
        network.links[DOWN].loss = lose(&script, &[]);
        let run = watch(&network, 1);
        let flow = &run.result.flows[0];
        assert_eq!(run.log.count(Kind::LostOnAir), 1, "{script:?}");
        assert_eq!((flow.retransmissions.total, flow.timeouts.total), (1, 0), "{script:?}");
        assert_eq!(
            flow.fast_retransmits.total,
            1 - incomplete,
            "{script:?}: without its headers the loss is not reported"
        );
        assert_eq!(flow.cwnd_reductions, 1 - incomplete, "{script:?}");
        assert_eq!(eln_acks(&run), vec![5; incomplete as usize], "{script:?}");
        let notices: Vec<_> =
            run.log.of(Kind::NoticeSent).map(|e| (e.node, e.segment().notice().unwrap())).collect();
        assert!(
            notices
                .iter()
                .all(|(node, n)| *node == 2 && n.kind == NoticeKind::Eln && n.value == 4000)
        );
        assert_eq!(notices.len() as u64, incomplete);
        if incomplete == 1 {
            // The loss is known at the end of the last slot: the ACK leaves at that instant.
            let lost = run.log.of(Kind::LostOnAir).next().unwrap().t;
            let answer =
                run.log.of(Kind::AckSent).find(|e| e.segment().flags.has(Flags::ELN)).unwrap();
            assert_eq!((answer.t, answer.node), (lost + ms(40).0, 2));
        }
    }
}

/// With two attempts a frame of two fragments has four slots; a failed header fragment is repeated
/// before the payload.
#[test]
fn the_budget_grows_with_the_attempts_of_the_link() {
    for (script, slots, arrives) in [
        (vec!["5:1", "5:3"], 4, true),
        (vec!["5:2", "5:3"], 4, true),
        (vec!["5:1", "5:2", "5:3"], 4, false),
    ] {
        let mut network = lhp("", 6);
        network.links[DOWN].loss = lose(&script, &[]);
        network.links[DOWN].arq = Some(ArqConfig {
            kind: ArqKind::SelectiveRepeat,
            attempts: 2,
            delay: ms(5),
            in_order: true,
            fragments: 1,
        });
        let run = watch(&network, 1);
        assert_eq!(run.result.flows[0].retransmissions.total, u64::from(!arrives), "{script:?}");
        let failed: Vec<f64> = run.log.values(Kind::AttemptFailed);
        assert_eq!(failed.len(), script.len());
        assert!(failed.iter().all(|&n| n <= f64::from(slots)));
        if script == ["5:1", "5:3"] {
            // A failed fragment is followed by the delay of the link, a successful one is not.
            let from = run
                .log
                .of(Kind::Arrived)
                .find(|e| e.number() == 4 && e.link == Some(DOWN as u32))
                .unwrap()
                .t;
            let to = run
                .log
                .of(Kind::Arrived)
                .find(|e| e.number() == 5 && e.link == Some(DOWN as u32))
                .unwrap()
                .t;
            assert_eq!(Duration(to - from), HEADERS * 2 + PAYLOAD * 2 + ms(10));
        }
    }
}

/// In a cell fragments are attempts on the air, and each loss after the headers is reported to the
/// sender.
#[test]
fn in_a_cell_the_station_reports_losses_after_the_headers() {
    let mut network = wlan(
        Mac { attempts: 1, ..Mac::named(MacName::Dot11b) },
        1,
        ms(5),
        vec![rfc("lhp", 200)],
        Duration::secs(60),
    );
    network.cells[0].stations[1].down = lose(&["5:2", "20:1", "40:1", "40:2"], &[]);
    let run = watch(&network, 1);
    let down = &run.result.links[down(1)];
    let data = run
        .log
        .of(Kind::Enqueued)
        .filter(|e| e.link == Some(self::down(1) as u32) && e.segment().len > 0)
        .count() as u64;
    assert_eq!(
        down.attempts,
        Some(down.offered_frames + data),
        "two fragments or two slots for each that carries data"
    );
    let scripted: Vec<u64> =
        run.log.of(Kind::LostOnAir).filter(|e| e.reason == "air").map(|e| e.number()).collect();
    assert_eq!(scripted, [5, 20, 40]);
    // Fragments lost in collisions may be reported too.
    let notified = eln_acks(&run);
    assert!(notified.starts_with(&[5, 20]) && !notified.contains(&40), "{notified:?}");
    // The reporting ACKs may be lost.
    let incomplete: u64 =
        run.result.agents.iter().filter_map(|a| a.counters["incomplete_frames"].as_u64()).sum();
    assert!(
        (2..=incomplete).contains(&(notified.len() as u64)),
        "{} of {incomplete}",
        notified.len()
    );
    assert_eq!(run.result.flows[0].delivered_bytes, 200_000);
}

/// Uplink: the base station receives the headers and sends them on over the wired link; the server
/// answers with the ACK.
#[test]
fn uplink_the_headers_are_forwarded_to_the_receiver() {
    let mut network = lhp("", 40);
    (network.flows[0].from, network.flows[0].to) = (2, 0);
    network.links[UP].loss = lose(&["5:2"], &[]);
    let run = watch(&network, 1);
    let lost = run.log.of(Kind::LostOnAir).next().unwrap().t;
    let notice = run.log.of(Kind::NoticeReceived).next().unwrap();
    // 40 ms over the air, then 40 bytes at 10 Mbit/s and 10 ms.
    assert_eq!((notice.node, notice.t), (0, lost + (ms(50) + Duration(32_000)).0));
    assert_eq!((eln_acks(&run), run.result.flows[0].cwnd_reductions), (vec![5], 0));
}

/// Smart ACKs work over the same link.
#[test]
fn with_smart_acks() {
    let mut network = lhp(":ack=smart", 40);
    network.links[DOWN].loss = lose(&["5:2"], &[]);
    let run = watch(&network, 1);
    assert_eq!(
        (
            eln_acks(&run),
            run.result.flows[0].cwnd_reductions,
            run.result.flows[0].retransmissions.total
        ),
        (vec![5], 0, 1)
    );
    assert!(run.log.of(Kind::AckSent).all(|e| !e.segment().flags.has(Flags::SACK)));
}

/// Frames of other flows are not fragmented.
#[test]
fn each_flow_has_a_separate_framing() {
    let mut other = rfc("newreno", 1);
    other.start = Duration::secs(30);
    let mut network = lhp("", 1);
    network.flows.push(other);
    let run = watch(&network, 1);
    let crossings: Vec<_> = [0, 1].map(|copy| crossing(&run, 1, copy).unwrap()).to_vec();
    assert_eq!(crossings, [HEADERS + PAYLOAD + ms(40), PAYLOAD + Duration(320_000) + ms(40)]);
}

/// On a lossy channel its goodput exceeds that of the same sender without framing, and its loss
/// classification is correct.
#[test]
fn framing_helps_on_a_lossy_channel() {
    let run = |scheme: &str| {
        let mut network = last_hop(vec![rfc(scheme, 600)], Duration::secs(100));
        network.links[DOWN].loss = LossConfig::Uniform {
            rate: Share(0.05),
            index: lasthop::air::config::DrawIndex::Frame,
            slot: ms(1),
        };
        watch(&network, 1).result
    };
    let (with, without) = (run("lhp"), run("reno:recovery=packet-list"));
    assert!(
        with.flows[0].goodput_bps > 1.3 * without.flows[0].goodput_bps,
        "{} {}",
        with.flows[0].goodput_bps,
        without.flows[0].goodput_bps
    );
    let matrix = &with.classifier.as_ref().unwrap().flows[0].matrix;
    // All reported losses are radio losses.
    assert!(
        matrix.wireless.wireless > 20 && matrix.congestion.wireless + matrix.not_lost.wireless == 0,
        "{matrix:?}"
    );
}

#[test]
fn a_path_without_a_last_hop_is_an_error() {
    let mut network = lhp("", 1);
    network.nodes[2].role = Role::Router;
    network.links.iter_mut().for_each(|l| l.radio = false);
    let error = lasthop_sim::run(&network, 1, (), &std::sync::atomic::AtomicBool::new(false))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("lhp"), "{error}");
}
