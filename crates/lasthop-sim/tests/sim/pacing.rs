//! Pacing and delivery-rate samples end to end, with a window rule defined here.

use std::sync::{Arc, Mutex};

use crate::support::*;
use lasthop::air::config::Span;
use lasthop::scenario::network::{App, Network};
use lasthop::schemes::catalogue::{RecoverySlot, SchemeChoice};
use lasthop::tcp::profile::{DelayedAck, ProfileName};
use lasthop::tcp::rate::RateSample;
use lasthop::tcp::recovery::{Recovery, RecoveryKind};
use lasthop::tcp::window::{
    Ack, Loss, LossClass, Lost, Needs, Start, Window, WindowRule, window_rule,
};
use lasthop::traffic::Web;
use lasthop::units::{Duration, Rate, Size};
use lasthop_sim::events::Kind;

/// A window of twelve segments, paced at a fixed rate; records the samples that it is given.
struct Fixed {
    rate: Option<Rate>,
    samples: Arc<Mutex<Vec<RateSample>>>,
    lost: Arc<Mutex<Vec<Lost>>>,
}

#[window_rule]
impl WindowRule for Fixed {
    fn on_established(&mut self, window: &mut Window, start: &Start) {
        window.cwnd = 12.0 * f64::from(start.mss);
        // 40 bytes take 0.032 and 0.32 ms on the links (0.64 ms at half the rate), the answer takes
        // the same, and the delay is 100 ms.
        assert!(
            [100_704, 101_024].map(|t| Some(Duration::micros(t))).contains(&start.rtt),
            "{start:?}"
        );
    }
    fn on_ack(&mut self, _: &mut Window, _: &Ack) {}
    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        assert!(ack.flight <= window.cwnd as u64 + u64::from(ack.mss));
        self.samples.lock().unwrap().extend(ack.rate);
    }
    fn on_lost(&mut self, _: &mut Window, lost: &Lost) {
        self.lost.lock().unwrap().push(*lost);
    }
    fn on_loss(&mut self, _: &mut Window, _: &Loss) -> LossClass {
        LossClass::Unclassified
    }
    fn pacing(&self) -> Option<Rate> {
        self.rate
    }
    fn steers_recovery(&self) -> bool {
        true
    }
}

struct Run {
    watched: Watched,
    samples: Vec<RateSample>,
    lost: Vec<Lost>,
}

fn run(rate: Option<u64>, app: App, change: impl Fn(&mut Network)) -> Run {
    run_over(Recovery::of(RecoveryKind::Newreno), rate, app, change)
}

fn run_over(recovery: Recovery, rate: Option<u64>, app: App, change: impl Fn(&mut Network)) -> Run {
    let (samples, lost) =
        (Arc::<Mutex<Vec<RateSample>>>::default(), Arc::<Mutex<Vec<Lost>>>::default());
    let (s, l) = (samples.clone(), lost.clone());
    let needs = Needs { rate_samples: true, sack: recovery.uses_sack(), ..Needs::default() };
    let mut flow = flow("reno", ProfileName::Rfc, app);
    flow.profile.delayed_ack = DelayedAck::Switch(false);
    flow.scheme = SchemeChoice::of_rule("fixed", needs, RecoverySlot::Fixed(recovery), move || {
        Box::new(Fixed { rate: rate.map(Rate), samples: s.clone(), lost: l.clone() })
    });
    let mut network = last_hop(vec![flow], Duration::secs(5));
    change(&mut network);
    let watched = watch(&network, 1);
    let (samples, lost) = (samples.lock().unwrap().clone(), lost.lock().unwrap().clone());
    Run { watched, samples, lost }
}

/// Sending times of data segments, milliseconds.
fn sent(run: &Run) -> Vec<f64> {
    run.watched.log.of(Kind::DataSent).filter(|e| e.number() > 0).map(|e| e.secs() * 1e3).collect()
}

#[test]
fn segments_leave_at_the_paced_rate() {
    // 1000 bytes at 500 kbit/s: one every 16 ms.
    let slow = run(Some(500_000), App::Transfer { size: 60_000 }, |_| {});
    let gaps: Vec<f64> = sent(&slow).windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.len() == 59 && gaps.iter().all(|g| close(*g, 16.0)), "{gaps:?}");
    // The bandwidth-delay product of 1 Mbit/s and 100 ms is 12.5 segments, so the window of 12
    // hardly limits a flow at 800 kbit/s, but it limits one at 4 Mbit/s.
    let fast = run(Some(4_000_000), App::Transfer { size: 60_000 }, |_| {});
    assert_eq!(
        sent(&fast)[..12].iter().map(|t| (t - sent(&fast)[0]).round()).collect::<Vec<_>>(),
        [0., 0., 4., 4., 8., 8., 12., 12., 16., 16., 20., 20.]
    );
    let free = run(None, App::Transfer { size: 60_000 }, |_| {});
    assert_eq!(
        sent(&free)[..12].iter().filter(|t| **t == sent(&free)[0]).count(),
        12,
        "unpaced: all at once"
    );
    for r in [&slow, &fast, &free] {
        assert_eq!(r.watched.result.flows[0].delivered_bytes, 60_000);
    }
}

#[test]
fn rate_samples_show_the_lower_of_path_and_sending_rate() {
    // Of 1040 bytes on the radio link at 1 Mbit/s 1000 are payload: 120192 bytes per second. A
    // round trip takes 109.504 ms.
    let window = run(None, App::Bulk, |_| {});
    let last = window.samples.last().unwrap();
    assert!((last.rate / (12_000.0 / 0.109504) - 1.0).abs() < 0.01, "the window limits: {last:?}");
    let paced = run(Some(400_000), App::Bulk, |_| {});
    let last = paced.samples.last().unwrap();
    assert!((last.rate / 50_000.0 - 1.0).abs() < 0.01, "pacing limits: {last:?}");
    assert_eq!(last.rtt, Some(Duration::micros(109_504)), "without a queue");
    let path = run(Some(900_000), App::Bulk, |n| n.links[DOWN].rate = mbps(0.5));
    let last = path.samples.last().unwrap();
    assert!((last.rate / (0.5e6 / 8.0 / 1.04) - 1.0).abs() < 0.01, "the path limits: {last:?}");
    assert!(window.samples.iter().chain(&paced.samples).all(|s| !s.app_limited && s.lost == 0));
}

#[test]
fn samples_of_an_application_that_pauses_are_app_limited() {
    let web = run(
        None,
        App::Web(Web { mean_size: Size::Bytes(5000), shape: 8.0, mean_pause: ms(200) }),
        |_| {},
    );
    assert!(
        web.samples.iter().skip(12).all(|s| s.app_limited),
        "five segments never fill a window of twelve"
    );
}

/// `tcp_rate_check_app_limited` is called when a program begins to write, not while it waits for
/// room: the send buffer limits the flow, and its samples count.
#[test]
fn samples_of_a_program_that_waits_for_room_are_not_app_limited() {
    let run = run(None, App::Bulk, |n| {
        let profile = &mut n.flows[0].profile;
        (profile.wmem_default, profile.wmem_max) = (Size::Bytes(8000), Size::Bytes(8000));
    });
    let limits = run.watched.result.flows[0].limited_by.unwrap();
    assert!(limits.send_buffer > 0.1, "{limits:?}");
    assert!(run.samples.len() > 100 && run.samples.iter().all(|s| !s.app_limited));
}

const RECOVERIES: [Recovery; 4] = [
    Recovery::of(RecoveryKind::Newreno),
    Recovery::of(RecoveryKind::Sack),
    Recovery::of(RecoveryKind::SackNs2),
    Recovery { prr: true, ..Recovery::of(RecoveryKind::Rack) },
];

#[test]
fn each_lost_segment_is_reported_once_with_the_bytes_in_flight() {
    for recovery in RECOVERIES {
        let r = run_over(recovery, Some(900_000), App::Transfer { size: 100_000 }, |n| {
            n.links[DOWN].loss = lose(&["30:1", "33:1", "60:1"], &[])
        });
        let lost: Vec<_> = r.lost.iter().map(|l| (l.seq / 1000 + 1, l.bytes)).collect();
        assert_eq!(lost, [(30, 1000), (33, 1000), (60, 1000)], "{recovery}");
        assert!(
            r.lost.iter().all(|l| (10_000..=12_000).contains(&l.tx_in_flight) && !l.app_limited),
            "{recovery}: {:?}",
            r.lost
        );
        let flow = &r.watched.result.flows[0];
        assert_eq!(
            (flow.retransmissions.total, flow.timeouts.total, flow.delivered_bytes),
            (3, 0, 100_000),
            "{recovery}"
        );
        // A rule that steers recovery continues to send: its window remains twelve segments.
        let gaps: Vec<f64> = sent(&r).windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.iter().all(|g| *g < 60.0), "{recovery}: {gaps:?}");
        let counted: u64 = r.samples.iter().map(|s| s.newly_lost).sum();
        assert!(
            counted <= 3000 && r.samples.last().unwrap().total_delivered <= 100_001,
            "{recovery}"
        );
    }
}

/// The tail is lost: all outstanding segments count as lost, and the segment retransmitted by the
/// timer does not wait for the pacer.
#[test]
fn a_timeout_reports_every_outstanding_segment() {
    for recovery in &RECOVERIES[..3] {
        let r = run_over(*recovery, Some(100_000), App::Transfer { size: 10_000 }, |n| {
            n.links[DOWN].loss = lose(&["9:1", "10:1"], &[])
        });
        let lost: Vec<_> = r.lost.iter().map(|l| (l.seq / 1000 + 1, l.bytes)).collect();
        let fin = (recovery.kind != RecoveryKind::Sack).then_some((11, 1));
        let expected: Vec<_> = [(9, 1000), (10, 1000)].into_iter().chain(fin).collect();
        assert_eq!(lost, expected, "{recovery}: the FIN too, unless it is SACKed");
        assert_eq!(
            (r.watched.result.flows[0].timeouts.total, r.watched.result.flows[0].delivered_bytes),
            (1, 10_000),
            "{recovery}"
        );
        let timeout = r.watched.log.of(Kind::Timeout).next().unwrap();
        assert!(
            r.watched.log.of(Kind::DataSent).any(|e| e.t == timeout.t && e.number() == 9),
            "{recovery}"
        );
    }
}

#[test]
fn pacing_works_with_every_loss_recovery() {
    for recovery in RECOVERIES {
        let r = run_over(recovery, Some(500_000), App::Transfer { size: 60_000 }, |_| {});
        let gaps: Vec<f64> = sent(&r).windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.len() == 59 && gaps.iter().all(|g| close(*g, 16.0)), "{recovery}: {gaps:?}");
    }
}

/// A spurious timeout: the ACKs arrive while the retransmissions wait for the pacer. The waiting
/// segments are then removed, and the timer with them.
#[test]
fn a_segment_may_be_acknowledged_while_it_waits_for_the_pacer() {
    let f_rto = Recovery { prr: true, f_rto: true, ..Recovery::of(RecoveryKind::Rack) };
    for recovery in RECOVERIES.into_iter().chain([f_rto]) {
        let r = run_over(recovery, Some(100_000), App::Transfer { size: 10_000 }, |n| {
            n.links[UP].delay.stalls = vec![Span { from: ms(300), length: ms(1500) }];
        });
        let flow = &r.watched.result.flows[0];
        assert!(
            flow.retransmissions.total > 0 && flow.delivered_bytes == 10_000,
            "{recovery}: {flow:?}"
        );
        assert!(flow.completed_s.is_some_and(|t| t < 4.0), "{recovery}: {flow:?}");
    }
}
