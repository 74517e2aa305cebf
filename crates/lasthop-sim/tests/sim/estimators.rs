//! Schemes that estimate the bandwidth or the backlog of the path: Vegas, Veno, Westwood,
//! Westwood+, TIBET.

use std::sync::{Arc, Mutex};

use crate::support::*;
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::schemes::catalogue::{RecoverySlot, SchemeChoice};
use lasthop::tcp::profile::{DelayedAck, ProfileName};
use lasthop::tcp::window::{Ack, Needs, Window, WindowRule, grow, window_rule};
use lasthop::units::{Duration, Size};

/// Reno that records the data of each ACK.
struct AckRecorder(Arc<Mutex<Vec<Ack>>>);

#[window_rule]
impl WindowRule for AckRecorder {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }
    fn on_any_ack(&mut self, _: &mut Window, ack: &Ack) {
        self.0.lock().unwrap().push(*ack);
    }
}

/// The ACKs of a transfer of 60 segments that loses segment 15 once.
fn acks_seen(recovery: &str, profile: ProfileName, timestamps: bool) -> Vec<Ack> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let recovery = RecoverySlot::Fixed(recovery.parse().unwrap());
    let mut flow = flow("reno", profile, App::Transfer { size: 60_000 });
    flow.profile.delayed_ack = DelayedAck::Switch(false);
    flow.profile.initial_window = Size::Segments(10.0);
    let mut network = last_hop(vec![flow], Duration::secs(60));
    network.flows[0].scheme =
        SchemeChoice::of_rule("ack-recorder", Needs::default(), recovery, move || {
            Box::new(AckRecorder(record.clone()))
        });
    network.flows[0].profile.timestamps = timestamps;
    network.links[DOWN].loss = lose(&["15:1"], &[]);
    watch(&network, 1);
    let acks = seen.lock().unwrap().clone();
    assert!(acks.len() >= 60);
    acks
}

const RECOVERIES: [&str; 6] = ["reno", "newreno", "sack", "sack-ns2", "fack", "rack+prr"];

/// Even without timestamps, and under a clock that times one segment at a time, each ACK of new
/// data gives a round-trip time, except that of the retransmitted segment.
#[test]
fn each_ack_gives_a_round_trip_time_to_rules_that_need_it() {
    for (recovery, profile) in
        RECOVERIES.into_iter().flat_map(|r| [(r, ProfileName::Rfc), (r, ProfileName::Ns235)])
    {
        let acks = acks_seen(recovery, profile, false);
        let new = || acks.iter().filter(|a| a.bytes > 0);
        let without: Vec<u64> = new().filter(|a| a.rtt.is_none()).map(|a| a.bytes).collect();
        // That ACK closes the gap, so it covers more than the one segment.
        assert!(without.len() == 1 && without[0] > 1000, "{recovery}: {without:?}");
        // 100 ms of delay and the serialization of a segment and its ACK; the first ten segments
        // queue behind each other.
        let first: Vec<f64> = new().filter_map(|a| a.rtt).take(10).map(|r| r.as_secs()).collect();
        assert!(first.windows(2).all(|w| w[1] > w[0] + 0.007), "{recovery}: {first:?}");
        assert!((0.1090..0.1105).contains(&first[0]), "{recovery}: {first:?}");
        let stamped = acks_seen(recovery, profile, true);
        assert!(stamped.iter().all(|a| a.bytes == 0 || a.rtt.is_some()), "{recovery}");
    }
}

/// Delivered bytes add up to the acknowledged bytes, whatever the order of the ACKs.
#[test]
fn deliveries_add_up() {
    for recovery in RECOVERIES {
        let acks = acks_seen(recovery, ProfileName::Rfc, false);
        // The FIN counts as one byte.
        assert_eq!(acks.iter().map(|a| a.bytes).sum::<u64>(), 60_001, "{recovery}");
        assert_eq!(acks.iter().map(|a| a.delivered).sum::<u64>(), 60_001, "{recovery}");
    }
}

const SCHEMES: [&str; 7] = [
    "vegas",
    "vegas:variant=linux",
    "veno",
    "westwood",
    "westwood+",
    "westwood+:variant=linux",
    "tibet",
];

fn radio(flow: Flow, loss: f64, queue: u64, secs: u64) -> Network {
    let flow = Flow { receive_window: Size::Segments(1000.0), ..flow };
    lossy_radio(flow, loss, queue, Duration::secs(secs))
}

/// Mean goodput in kbit/s of a bulk flow under the RFCs, over five seeds of 100 s.
fn goodput(scheme: &str, loss: f64) -> f64 {
    let network = radio(flow(scheme, ProfileName::Rfc, App::Bulk), loss, 1000, 100);
    (1..=5).map(|seed| watch(&network, seed).result.flows[0].goodput_bps).sum::<f64>() / 5e3
}

/// A transfer with delayed ACKs and losses completes under every profile and loss recovery, without
/// violations.
#[test]
fn every_estimator_completes_under_every_recovery() {
    for scheme in SCHEMES {
        for profile in
            [ProfileName::Rfc, ProfileName::Linux, ProfileName::Ns226, ProfileName::Ns235]
        {
            for recovery in ["", "tahoe", "reno", "newreno", "sack", "sack-ns2", "fack", "rack+prr"]
            {
                let scheme = if recovery.is_empty() {
                    scheme.to_string()
                } else {
                    format!("{scheme}:recovery={recovery}")
                };
                let mut flow = flow(&scheme, profile, App::Transfer { size: 200_000 });
                flow.profile.delayed_ack = DelayedAck::Switch(true);
                let run = watch(&radio(flow, 0.03, 20, 300), 1).result;
                assert_eq!(run.flows[0].delivered_bytes, 200_000, "{scheme} under {profile:?}");
            }
        }
    }
}

/// Their purpose: radio losses of 1 % cost them less than Reno (with NewReno's recovery, which they
/// use too).
#[test]
fn estimators_exceed_reno_at_one_percent_of_loss() {
    let reno = goodput("newreno", 0.01);
    let mut seen = String::new();
    for (scheme, gain) in [("westwood", 1.3), ("westwood+", 1.3), ("veno", 1.15)] {
        let kbps = goodput(scheme, 0.01);
        seen += &format!("{scheme} {kbps:.0} ");
        assert!(kbps > gain * reno, "newreno {reno:.0}, {seen}kbit/s");
    }
}

/// yun2009: TIBET's shortest round-trip time decays with each loss, and its window with it. A floor
/// prevents that.
#[test]
fn tibet_decays_with_losses_unless_its_rtt_has_a_floor() {
    let (reno, decayed, with_floor) =
        (goodput("newreno", 0.01), goodput("tibet", 0.01), goodput("tibet:rtt_floor=1", 0.01));
    assert!(
        decayed < 0.95 * reno && with_floor > 1.2 * reno,
        "newreno {reno:.0}, tibet {decayed:.0}, with floor {with_floor:.0} kbit/s"
    );
}

/// On a path without loss Vegas fills the bandwidth-delay product, queues one to three segments and
/// loses nothing; Reno fills the queue until it overflows.
#[test]
fn vegas_limits_the_queue() {
    let run = |scheme| {
        let run = watch(&radio(flow(scheme, ProfileName::Rfc, App::Bulk), 0.0, 40, 60), 1);
        let (link, flow) = (&run.result.links[DOWN], &run.result.flows[0]);
        (link.dropped_at_queue, link.queue_delay_s.mean.unwrap(), flow.goodput_bps)
    };
    let (reno_drops, reno_wait, _) = run("reno");
    for scheme in ["vegas", "vegas:variant=linux"] {
        let (drops, wait, goodput) = run(scheme);
        // A segment takes 4.16 ms; Linux aims at two to four segments in the queue.
        assert!(drops == 0 && wait < 5.0 * 0.00416, "{scheme}: {drops} drops, {wait} s");
        assert!(goodput > 0.9 * 2e6 * 1000.0 / 1040.0, "{scheme}: {goodput} bit/s");
    }
    assert!(reno_drops > 0 && reno_wait > 0.05);
}
