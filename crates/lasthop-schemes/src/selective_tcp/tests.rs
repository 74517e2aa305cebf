//! The rules of the slides, and each interpretation of them.

use std::collections::BTreeSet;

use super::*;
use crate::testing::harness::{segments, start, window};

/// A packet's time on the last hop in ns: 1040 bytes at 1 Mbit/s.
const T: u64 = 8_320_000;

/// What the ACK of a segment requests from the sender.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Ack,
    Nothing,
    Snack(Vec<(u64, u64)>),
    Rate(u32),
}

/// Arrivals `(segment from 0, time since the one before in packet times)` at a receiver that has
/// received twenty segments in order, one each T.
fn answers(config: &SelectiveTcp, arrivals: &[(u64, f64)]) -> Vec<Answer> {
    let mut rule = SelectiveTcpReceiver::new(config);
    let mut came = BTreeSet::new();
    let (mut now, mut expected) = (0, 0);
    let usual = (0..20).map(|n| (n, 1.0));
    let all: Vec<Answer> = usual
        .chain(arrivals.iter().copied())
        .map(|(n, gap)| {
            now += (gap * T as f64) as u64;
            while came.contains(&expected) {
                expected += 1;
            }
            let highest = came.last().map_or(0, |m| m + 1);
            let segment = Segment { seq: n * 1000, len: 1000, forward: true, ..Segment::default() };
            let reply = rule.on_data(Time(now), &segment, expected * 1000, highest * 1000);
            came.insert(n);
            match (reply, rule.ask()) {
                (_, Some(snack)) => {
                    Answer::Snack(snack.holes().map(|b| (b.start / 1000, b.end / 1000)).collect())
                }
                (r, _) if r.silent => Answer::Nothing,
                (r, _) if r.flags.has(Flags::REPORT) => Answer::Rate(r.report),
                _ => Answer::Ack,
            }
        })
        .collect();
    all[20..].to_vec()
}

/// The settings with the slides' wording.
fn literal() -> SelectiveTcp {
    SelectiveTcp {
        detector: DetectorKind::Slide,
        classify: Classify::Every,
        tmin_memory: Duration::ZERO,
        bandwidth_span: Duration::ZERO,
        snack: Snack::Everything,
        ..SelectiveTcp::default()
    }
}

use Answer::{Ack as Plain, Nothing, Rate, Snack as Asks};

/// Segment 20 was lost on the air, so 21 arrives after two packet times.
#[test]
fn a_loss_of_the_radio_is_asked_for_and_no_duplicate_ack_is_sent() {
    let arrivals = [(21, 2.0), (22, 1.0), (23, 1.0), (20, 1.0), (24, 1.0)];
    assert_eq!(
        answers(&SelectiveTcp::default(), &arrivals),
        [Asks(vec![(20, 21)]), Nothing, Nothing, Plain, Plain]
    );
}

/// A queue dropped it: 21 arrives at once. The rate is that of the last 100 ms.
#[test]
fn congestion_is_answered_with_the_rate() {
    let got = answers(&SelectiveTcp::default(), &[(21, 1.0), (22, 1.0), (20, 1.0)]);
    assert_eq!(got, [Rate(961), Rate(961), Plain]);
    let third = SelectiveTcp { k: 3, ..SelectiveTcp::default() };
    assert_eq!(
        answers(&third, &[(21, 1.0), (22, 1.0), (23, 1.0), (24, 1.0)]),
        [Plain, Plain, Rate(961), Plain]
    );
}

/// The slides' rate is measured since the last packet in sequence: one packet over the gap, then
/// two over two …; over a gap of five packet times a fifth.
#[test]
fn the_rate_since_the_last_packet_in_sequence() {
    let got = answers(&literal(), &[(21, 1.0), (22, 1.0), (24, 5.0)]);
    assert_eq!(got, [Rate(961), Rate(961), Rate(412)]);
    assert_eq!(answers(&literal(), &[(25, 5.0)]), [Rate(192)]);
}

/// Classified by its own spacing, each packet after a gap except the first is congestion.
#[test]
fn every_packet_behind_a_gap_counts_as_congestion_in_the_slides() {
    let got = answers(&literal(), &[(21, 2.0), (22, 1.0), (23, 1.0)]);
    assert_eq!(got, [Asks(vec![(20, 21)]), Rate(641), Rate(721)]);
}

/// Seven lost in a row: eight packet times.
#[test]
fn a_burst_is_the_radios_but_not_to_the_slides() {
    assert_eq!(answers(&SelectiveTcp::default(), &[(27, 8.0)]), [Asks(vec![(20, 27)])]);
    assert!(matches!(answers(&literal(), &[(27, 8.0)])[0], Rate(_)));
}

/// At most one in 50 ms; repeated while the gap exists and packets arrive.
#[test]
fn snacks_are_repeated_after_their_delay() {
    let arrivals: Vec<(u64, f64)> =
        std::iter::once((21, 2.0)).chain((22..30).map(|n| (n, 1.0))).collect();
    let got = answers(&SelectiveTcp::default(), &arrivals);
    let asked: Vec<usize> = (0..got.len()).filter(|&i| got[i] == Asks(vec![(20, 21)])).collect();
    // 7 x 8.32 ms is the first multiple above 50 ms.
    assert_eq!(asked, [0, 7]);
    assert!(got.iter().enumerate().all(|(i, a)| asked.contains(&i) || *a == Nothing));
}

/// A reordered packet reveals a gap without the time for a loss: the receiver classifies it as
/// congestion and sends no SNACK; when the packet arrives, the gap is removed. After a SNACK it has
/// no effect either: the gap is removed and not requested again.
#[test]
fn what_was_reordered_is_not_asked_for() {
    let asked = |arrivals: &[(u64, f64)]| answers(&SelectiveTcp::default(), arrivals);
    assert_eq!(
        asked(&[(21, 1.0), (20, 0.5), (22, 1.0), (23, 1.0)]),
        [Rate(961), Plain, Plain, Plain]
    );
    let late: Vec<(u64, f64)> =
        [(21, 2.0), (22, 1.0), (20, 0.5)].into_iter().chain((23..40).map(|n| (n, 1.0))).collect();
    let got = asked(&late);
    assert_eq!(got[..2], [Asks(vec![(20, 21)]), Nothing]);
    assert!(got[2..].iter().all(|a| *a == Plain), "{got:?}");
}

/// A duplicate segment, because a SNACK was duplicated or its repair was not needed, is
/// acknowledged without a request.
#[test]
fn duplicates_ask_for_nothing() {
    let arrivals = [(21, 2.0), (20, 1.0), (20, 1.0), (21, 1.0), (5, 9.0), (22, 1.0)];
    let got = answers(&SelectiveTcp::default(), &arrivals);
    assert_eq!(got, [Asks(vec![(20, 21)]), Plain, Plain, Plain, Plain, Plain]);
}

/// Two gaps, the first by congestion, the second by the radio: the SNACK names the second only; an
/// arrival removes a gap.
#[test]
fn a_snack_names_what_the_radio_lost() {
    let arrivals = [(21, 1.0), (24, 3.0), (20, 1.0), (22, 1.0), (25, 2.0)];
    let got = answers(&SelectiveTcp::default(), &arrivals);
    assert_eq!(got, [Rate(961), Asks(vec![(22, 24)]), Plain, Plain, Nothing]);
    let all = SelectiveTcp { snack: Snack::Everything, ..SelectiveTcp::default() };
    assert_eq!(answers(&all, &arrivals)[1], Asks(vec![(20, 21), (22, 24)]));
}

/// The last part of a hole that is filled in its middle is still a hole.
#[test]
fn holes_are_cut() {
    let got = answers(
        &SelectiveTcp { snack_delay: Duration::ZERO, ..SelectiveTcp::default() },
        &[(25, 6.0), (22, 1.0), (26, 1.0)],
    );
    assert_eq!(got[0], Asks(vec![(20, 25)]));
    assert_eq!(got[2], Asks(vec![(20, 22), (23, 25)]));
}

#[test]
fn a_passive_receiver_says_what_it_thinks_and_sends_plain_acks() {
    let config = SelectiveTcp { passive: true, ..SelectiveTcp::default() };
    assert_eq!(answers(&config, &[(21, 2.0), (22, 1.0), (24, 1.0)]), [Plain, Plain, Plain]);
    let mut rule = SelectiveTcpReceiver::new(&config);
    let mut said = |n: u64, at: u64, expected: u64, highest: u64| {
        let segment = Segment { seq: n * 1000, len: 1000, ..Segment::default() };
        rule.on_data(Time(at), &segment, expected * 1000, highest * 1000).said
    };
    assert_eq!(
        [said(0, T, 0, 0), said(1, 2 * T, 1, 1), said(3, 4 * T, 2, 2), said(4, 5 * T, 2, 4)],
        {
            [
                LossClass::Unclassified,
                LossClass::Unclassified,
                LossClass::Wireless,
                LossClass::Unclassified,
            ]
        }
    );
}

/// 960 kbit/s and 20.7 ms are 2.5 segments of 1000 bytes; the printed code computes 46 000.
#[test]
fn the_window_is_rate_times_round_trip_or_their_quotient() {
    let report = Report { now: Time::ZERO, value: 960, srtt: None, flight: 0, mss: 1000 };
    let start = Start { rtt: Some(Duration::micros(20_700)), sack: false, ..start() };
    let set = |config: SelectiveTcp, value| {
        let Some(AnyWindow::SelectiveTcp(mut rule)) = config.window() else { panic!() };
        let mut w = window(15.0, 10.0);
        rule.on_report(&mut w, &report);
        assert_eq!(segments(&w), (15.0, 10.0), "no round-trip time yet");
        rule.on_established(&mut w, &start);
        rule.on_report(&mut w, &Report { value, ..report });
        segments(&w)
    };
    assert_eq!(set(SelectiveTcp::default(), 960), (2.484, 10.0));
    assert_eq!(set(SelectiveTcp::default(), 100), (2.0, 10.0));
    assert_eq!(set(SelectiveTcp { min_window: 1.0, ..SelectiveTcp::default() }, 100), (1.0, 10.0));
    let (cwnd, _) = set(SelectiveTcp { cwnd_rule: CwndRule::Div, ..SelectiveTcp::default() }, 960);
    assert!((cwnd - 46_376.8).abs() < 0.1, "{cwnd}");
}

/// Aggregated packets after an outage: if Tmin has no limit, every later loss of the radio is
/// classified as congestion.
#[test]
fn tmin_after_an_outage() {
    let arrivals: Vec<(u64, f64)> = [(20, 400.0), (21, 0.1)]
        .into_iter()
        .chain((22..1300).map(|n| (n, 1.0)))
        .chain([(1301, 2.0)])
        .collect();
    assert_eq!(
        answers(&SelectiveTcp::default(), &arrivals).last(),
        Some(&Asks(vec![(1300, 1301)]))
    );
    let forever = SelectiveTcp { tmin_memory: Duration::ZERO, ..SelectiveTcp::default() };
    assert!(matches!(answers(&forever, &arrivals).last(), Some(Rate(_))));
}
