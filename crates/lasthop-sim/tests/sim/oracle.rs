//! The oracle's notices, and the scheme that uses them.
//!
//! On the radio link of `last_hop` (1 Mbit/s) a segment of 1040 bytes carries 1000 bytes: 961 538
//! bit/s of payload.

use std::sync::{Arc, Mutex};

use crate::support::*;
use lasthop::air::config::{DelayConfig, DrawIndex, LossConfig, OutageRule, TraceStart};
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::schemes::catalogue::{RecoverySlot, SchemeChoice};
use lasthop::segment::{Notice, NoticeKind};
use lasthop::tcp::profile::ProfileName;
use lasthop::tcp::recovery::{Recovery, RecoveryKind};
use lasthop::tcp::window::{Ack, Needs, Window, WindowRule, grow, window_rule};
use lasthop::traffic::Cbr;
use lasthop::units::{Duration, Rate, Share, Size, Time};
use lasthop_sim::events::Kind;

/// Reno that records its notices.
struct NoticeRecorder(Arc<Mutex<Vec<Notice>>>);

#[window_rule]
impl WindowRule for NoticeRecorder {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }
    fn on_notice(&mut self, _: &mut Window, now: Time, notice: &Notice) {
        assert_eq!((now, notice.flow), (notice.stamp, 0));
        self.0.lock().unwrap().push(*notice);
    }
}

/// The oracle's notices to the first flow.
struct SentNotices(Vec<Notice>);

impl SentNotices {
    /// Time in seconds and value of each notice of a kind.
    fn of(&self, kind: NoticeKind) -> Vec<(f64, u64)> {
        self.0
            .iter()
            .filter(|n| n.kind == kind)
            .map(|n| (n.stamp.0 as f64 * 1e-9, n.value))
            .collect()
    }

    /// The latest value at `t` seconds.
    fn at(&self, kind: NoticeKind, t: f64) -> u64 {
        self.of(kind).iter().rev().find(|n| n.0 <= t).unwrap().1
    }
}

fn sent_notices(network: &mut Network) -> SentNotices {
    let notices = Arc::new(Mutex::new(Vec::new()));
    let record = notices.clone();
    let needs = Needs { oracle: true, ..Needs::default() };
    let recovery = RecoverySlot::Fixed(Recovery::of(RecoveryKind::Newreno));
    network.flows[0].scheme =
        SchemeChoice::of_rule("notice-recorder", needs, recovery, move || {
            Box::new(NoticeRecorder(record.clone()))
        });
    watch(network, 1);
    let sent = SentNotices(notices.lock().unwrap().clone());
    assert!(!sent.0.is_empty());
    sent
}

fn bulk(name: &str) -> Flow {
    Flow { name: name.into(), ..rfc_bulk() }
}

fn rfc_bulk() -> Flow {
    let mut f = rfc("reno", 0);
    f.app = App::Bulk;
    f
}

#[test]
fn alone_a_flow_has_the_whole_narrowest_link() {
    let sent = sent_notices(&mut last_hop(vec![bulk("flow 1")], Duration::secs(5)));
    // Round-trip time of a single segment: 100 ms of delay, 0.832 + 8.32 ms for the segment and
    // 0.032 + 0.32 ms for its ACK.
    assert!(sent.of(NoticeKind::BaseRtt).iter().all(|n| n.1 == 109_504_000));
    for kind in [NoticeKind::FairShare, NoticeKind::Residual] {
        let notices = sent.of(kind);
        assert!(notices.iter().all(|n| n.1 == 961_538), "{notices:?}");
        // One per round trip, from the start.
        assert_eq!(notices.len(), 46);
        assert!(notices.iter().enumerate().all(|(i, n)| close(n.0, i as f64 * 0.109504)));
    }
}

/// The other flow sends from 5 s to 10 s and fills the link.
#[test]
fn a_second_flow_reduces_fair_share_and_residual() {
    let mut other = bulk("flow 2");
    (other.start, other.stop) = (Duration::secs(5), Some(Duration::secs(10)));
    other.receive_window = Size::Segments(11.0);
    let mut first = bulk("flow 1");
    first.receive_window = Size::Segments(2.0);
    let sent = sent_notices(&mut last_hop(vec![first, other], Duration::secs(15)));
    for (t, share) in [(4.9, 961_538), (6.0, 480_769), (9.9, 480_769), (11.0, 961_538)] {
        assert_eq!(sent.at(NoticeKind::FairShare, t), share, "{t} s");
    }
    assert_eq!(
        (sent.at(NoticeKind::Residual, 4.9), sent.at(NoticeKind::Residual, 11.0)),
        (961_538, 961_538)
    );
    // Eleven segments in a round trip of about 117 ms, queueing included: 750 kbit/s.
    let rest: Vec<u64> = sent
        .of(NoticeKind::Residual)
        .iter()
        .filter(|n| (7.0..9.5).contains(&n.0))
        .map(|n| n.1)
        .collect();
    let mean = rest.iter().sum::<u64>() as f64 / rest.len() as f64;
    assert!((150e3..260e3).contains(&mean), "{mean}");
}

/// 250 kbit/s of datagrams, 260 with their headers, leave (1000 - 260) / 1.04 kbit/s, which no
/// other flow shares.
#[test]
fn the_rate_of_datagrams_is_subtracted() {
    let mut datagrams = bulk("flow 2");
    datagrams.app = App::Cbr(Cbr { rate: Rate(250_000) });
    let sent = sent_notices(&mut last_hop(vec![bulk("flow 1"), datagrams], Duration::secs(10)));
    for kind in [NoticeKind::FairShare, NoticeKind::Residual] {
        let seen: Vec<f64> =
            sent.of(kind).iter().filter(|n| n.0 > 1.0).map(|n| n.1 as f64).collect();
        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
        assert!((mean - 711_538.0).abs() < 5000.0, "{mean}");
    }
}

#[test]
fn the_notices_follow_rates_outages_and_traces() {
    let mut network = last_hop(vec![bulk("flow 1")], Duration::secs(12));
    network.links[DOWN].rate = schedule(&[(0, 1_000_000), (4000, 2_080_000)]);
    network.links[DOWN].outages = vec![outage(8000, 1000, OutageRule::Held)];
    let sent = sent_notices(&mut network);
    assert_eq!(
        [3.9, 4.2, 8.2, 9.2].map(|t| sent.at(NoticeKind::FairShare, t)),
        [961_538, 2_000_000, 0, 2_000_000]
    );
    // The segment takes 4 ms instead of 8.32.
    assert_eq!([3.9, 4.2].map(|t| sent.at(NoticeKind::BaseRtt, t)), [109_504_000, 105_184_000]);
    // An opportunity of 1504 bytes every 10 ms.
    let mut network = last_hop(vec![bulk("flow 1")], Duration::secs(5));
    let times: Vec<u32> = (1..=100).map(|i| 10 * i).collect();
    network.links[DOWN] =
        traced(network.links[DOWN].clone(), trace(&times), TraceStart::At(Duration::ZERO));
    let share = sent_notices(&mut network).at(NoticeKind::FairShare, 4.0) as f64;
    assert!((share - 1504.0 * 8.0 / 0.01 / 1.04).abs() < 0.12 * share, "{share}");
}

fn lossy(scheme: &str, loss: f64) -> Network {
    let mut network =
        last_hop(vec![flow(scheme, ProfileName::Rfc, App::Bulk)], Duration::secs(100));
    network.flows[0].receive_window = Size::Segments(1000.0);
    for l in [DOWN, UP] {
        (network.links[l].rate, network.links[l].delay) =
            (mbps(2.0), DelayConfig::constant(ms(50)));
    }
    network.links[DOWN].loss = LossConfig::Uniform {
        rate: Share(loss),
        index: DrawIndex::Frame,
        slot: Duration::micros(500),
    };
    network
}

/// 1.923 Mbit/s times 125.184 ms are 30.09 segments: ssthresh after every loss.
#[test]
fn ideal_estimation_sets_ssthresh_to_the_bandwidth_delay_product() {
    let run = watch(&lossy("ideal-bwe", 0.01), 1);
    let thresholds = run.log.values(Kind::Ssthresh);
    assert!(
        thresholds.len() == 1 && (30_000.0..30_200.0).contains(&thresholds[0]),
        "{thresholds:?}"
    );
    assert!(run.result.classifier.is_none(), "it does not classify losses");
    let goodput = |scheme: &str| {
        (1..=3)
            .map(|seed| watch(&lossy(scheme, 0.01), seed).result.flows[0].goodput_bps)
            .sum::<f64>()
            / 3e3
    };
    let (reno, ideal, residual) =
        (goodput("newreno"), goodput("ideal-bwe"), goodput("ideal-bwe:estimate=residual"));
    assert!(
        ideal > 2.0 * reno && (residual - ideal).abs() < 1.0,
        "newreno {reno:.0}, fair share {ideal:.0}, residual {residual:.0} kbit/s"
    );
}

/// Notices are ordinary events: a run with them is as repeatable as one without, on evented,
/// computed and chained links.
#[test]
fn runs_with_oracles_can_be_repeated() {
    let mut network = lossy("ideal-bwe", 0.02);
    let mut second = network.flows[0].clone();
    (second.name, second.scheme, second.start) =
        ("flow 2".into(), scheme("ideal-bwe:estimate=residual"), Duration::secs(3));
    network.flows.push(second);
    network.duration = Duration::secs(20);
    let watched = to_json(&watch(&network, 7).result);
    assert_eq!(watched, json(&network, 7));
    let evented =
        watch_with(&network, 7, lasthop_sim::Options { evented: true, ..Default::default() })
            .result;
    assert_eq!(watched, to_json(&evented));
}
