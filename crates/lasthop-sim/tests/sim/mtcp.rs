//! MTCP: its selective-repeat protocol (SRP) on the half of the connection towards the mobile.

use crate::support::*;
use lasthop::air::config::LossConfig;
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::units::{Duration, Share, Size, Time};
use lasthop_sim::events::Kind;

/// A transfer over the last hop in which the radio link loses these data segments.
fn transfer(scheme: &str, profile: ProfileName, segments: u64, lost: &[&str]) -> Network {
    let mut network = last_hop(
        vec![Flow { profile: Profile::named(profile), ..rfc(scheme, segments) }],
        Duration::secs(200),
    );
    network.links[DOWN].loss = lose(lost, &[]);
    network
}

/// Sending times of this segment (from 1) on the second half of the connection.
fn sendings(run: &Watched, number: u64) -> Vec<Time> {
    run.log
        .of(Kind::DataSent)
        .filter(|e| e.node == 1 && e.number() == number)
        .map(|e| Time(e.t))
        .collect()
}

/// Values of cwnd of the second half, repeated values removed.
fn windows(run: &Watched) -> Vec<f64> {
    let mut all: Vec<f64> =
        run.log.of(Kind::Cwnd).filter(|e| e.node == 1).map(|e| e.value).collect();
    all.dedup();
    all
}

const PROFILES: [ProfileName; 3] = [ProfileName::Rfc, ProfileName::Linux, ProfileName::Ns235];

/// Round-trip time of the radio link, without queueing and serialization.
const TRIP: Duration = Duration::millis(80);

#[test]
fn each_lost_segment_is_retransmitted_alone_without_a_reduction() {
    for profile in PROFILES {
        let run = watch(&transfer("mtcp", profile, 300, &["50:1", "52:1", "120:1", "200:1"]), 1);
        let flow = &run.result.flows[0];
        assert_eq!(
            (
                flow.delivered_bytes,
                flow.retransmissions.total,
                flow.timeouts.total,
                flow.cwnd_reductions
            ),
            (300_000, 0, 0, 0),
            "{profile:?}"
        );
        assert_eq!(run.result.agents[0].counters["outbound_retransmissions"], 4, "{profile:?}");
        assert_eq!(windows(&run).last(), Some(&32_000.0), "{profile:?}");
        assert!(run.log.of(Kind::Timeout).all(|e| e.node != 1), "{profile:?}");
    }
}

/// With a window of one segment no later segment indicates a loss: the timer does, two round trips
/// after each transmission.
#[test]
fn the_timer_is_two_round_trips_and_does_not_back_off() {
    for profile in PROFILES {
        let run = watch(
            &transfer("mtcp:window=1 segments", profile, 9, &["5:1", "5:2", "5:3", "5:4"]),
            1,
        );
        let copies = sendings(&run, 5);
        assert_eq!(copies.len(), 5, "{profile:?}: {copies:?}");
        for pair in copies.windows(2) {
            let wait = pair[1] - pair[0];
            assert!(wait >= TRIP * 2 && wait <= TRIP * 2 + ms(60), "{profile:?}: {wait:?}");
        }
        assert_eq!(run.result.flows[0].delivered_bytes, 9000);
    }
}

#[test]
fn the_timer_follows_its_setting() {
    let wait = |scheme: &str| {
        let copies = sendings(&watch(&transfer(scheme, ProfileName::Rfc, 9, &["5:1"]), 1), 5);
        copies[1] - copies[0]
    };
    assert!(wait("mtcp:window=1 segments:timer=5") >= TRIP * 5);
    assert!(wait("mtcp:window=1 segments") < TRIP * 3);
}

/// No more than the window is in flight on the second half.
#[test]
fn the_window_bounds_the_bytes_in_flight() {
    for window in [1u64, 5, 32] {
        let run = watch(
            &transfer(&format!("mtcp:window={window} segments"), ProfileName::Rfc, 200, &[]),
            1,
        );
        let (mut sent, mut acked, mut largest) = (0, 0, 0);
        for e in run.log.0.iter().filter(|e| e.node == 1) {
            match e.kind {
                Kind::DataSent => sent = sent.max(e.segment().seq + u64::from(e.segment().len)),
                Kind::AckReceived => acked = acked.max(e.segment().ack),
                _ => {}
            }
            largest = largest.max(sent.saturating_sub(acked));
        }
        assert_eq!(largest, window * 1000, "{window}");
    }
}

fn goodput(scheme: &str, profile: ProfileName, loss: f64) -> f64 {
    let mut network = last_hop(
        vec![Flow { receive_window: Size::Bytes(64_000), ..bulk(scheme, profile) }],
        Duration::secs(60),
    );
    network.links[DOWN].loss = LossConfig::uniform(Share(loss));
    watch(&network, 1).result.flows[0].goodput_bps
}

fn bulk(scheme: &str, profile: ProfileName) -> Flow {
    flow(scheme, profile, App::Bulk)
}

/// With a tenth of the frames lost, SRP uses nearly all of the remaining capacity; TCP on that half
/// treats the losses as congestion.
#[test]
fn radio_losses_cost_srp_only_their_share_of_the_link() {
    for profile in PROFILES {
        let (srp, tcp) = (
            goodput("mtcp", profile, 0.1),
            goodput("mtcp:second=tcp:sender=newreno", profile, 0.1),
        );
        assert!(srp > 0.75e6, "{profile:?}: {srp}");
        assert!(srp > 2.0 * tcp, "{profile:?}: {srp} {tcp}");
    }
}

/// The window's own queue makes the round-trip time longer than two empty round trips. The timer
/// adapts, and nothing is retransmitted spuriously.
#[test]
fn queueing_causes_no_spurious_retransmissions() {
    for profile in PROFILES {
        let run = watch(&transfer("mtcp", profile, 500, &[]), 1);
        assert_eq!(run.result.agents[0].counters["outbound_retransmissions"], 0, "{profile:?}");
    }
}
