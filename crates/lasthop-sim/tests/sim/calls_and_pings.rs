//! Calls, media and pings: late packets, late frames, round-trip times, on idle and loaded links.

use std::sync::atomic::AtomicBool;

use lasthop::air::config::OutageRule;
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::traffic::{Call, Media, Ping};
use lasthop::units::{Duration, Rate};
use lasthop_sim::RunResult;
use lasthop_sim::verifier::Verifier;

use crate::support::{flow, last_hop, ms, outage};

/// Runs with the verifier, which checks that all packets are conserved.
fn run(network: &Network) -> RunResult {
    let mut verifier = Verifier::new(network);
    let result = lasthop_sim::run(network, 1, &mut verifier, &AtomicBool::new(false)).unwrap();
    verifier.finish_with(&result).unwrap_or_else(|e| panic!("{e:?}"));
    let unobserved = lasthop_sim::run(network, 1, (), &AtomicBool::new(false)).unwrap();
    assert_eq!(
        serde_json::to_string(&result).unwrap(),
        serde_json::to_string(&unobserved).unwrap()
    );
    result
}

fn ping() -> Flow {
    let app = App::Ping(Ping { every: ms(100) });
    Flow { segment: 60, ..flow("reno", ProfileName::Linux, app) }
}

fn call(deadline: Duration) -> Flow {
    let app = App::Call(Call { every: ms(20), deadline });
    Flow { segment: 160, ..flow("reno", ProfileName::Linux, app) }
}

/// 100 ms of propagation, and 100 bytes at 10 and 1 Mbit/s, both ways.
#[test]
fn a_ping_measures_the_round_trip_time() {
    let network = last_hop(vec![ping()], Duration::secs(10));
    let result = run(&network);
    let flow = &result.flows[0];
    // The last answer is in transit at the end.
    assert_eq!((flow.sent_segments, &*flow.app, flow.scheme.is_none()), (100, "ping", true));
    let expected = 0.100 + 2.0 * (0.00008 + 0.0008);
    assert!((flow.rtt_s.mean.unwrap() - expected).abs() < 1e-6, "{:?}", flow.rtt_s);
    // The narrowest link alone counts in the time on the empty path.
    assert!((flow.empty_path_s.unwrap() - 0.1016).abs() < 1e-9, "{:?}", flow.empty_path_s);
}

#[test]
fn the_round_trip_time_grows_with_the_queue() {
    let bulk = flow("cubic", ProfileName::Linux, App::Bulk);
    let network = last_hop(vec![bulk, ping()], Duration::secs(20));
    let flow = &run(&network).flows[1];
    assert!(flow.rtt_s.p95.unwrap() > 3.0 * flow.empty_path_s.unwrap(), "{:?}", flow.rtt_s);
}

/// The one-way delay is 50 ms and 2 ms of serialization.
#[test]
fn packets_of_a_call_are_late_or_lost() {
    let of = |deadline, loss: bool| {
        let mut network = last_hop(vec![call(deadline)], Duration::secs(10));
        if loss {
            network.links[2].outages = vec![outage(5000, 1000, OutageRule::LostAtSending)];
        }
        run(&network).flows[0].call.clone().unwrap()
    };
    let good = of(ms(150), false);
    assert_eq!((good.sent, good.late, good.lost), (493, 0, 0));
    assert!((good.mos.unwrap() - 4.34).abs() < 0.01, "{good:?}");
    let late = of(ms(50), false);
    assert_eq!((late.sent, late.late, late.lost), (498, 498, 0));
    let lost = of(ms(150), true);
    assert_eq!((lost.late, lost.lost), (0, 50));
    assert!(lost.mos.unwrap() < 3.3, "{lost:?}");
}

/// Frames of 3000 bytes on average are 3.125 packets, so every eighth has four. A packet takes 8 ms
/// on the narrow link; the first one of a frame takes 50 ms and 0.8 ms in addition.
#[test]
fn frames_of_media_are_late_or_lost() {
    let of = |deadline, loss: bool| {
        let app = App::Media(Media { rate: Rate(600_000), every: ms(40), deadline });
        let media = Flow { segment: 960, ..flow("reno", ProfileName::Linux, app) };
        let mut network = last_hop(vec![media], Duration::secs(10));
        if loss {
            network.links[2].outages = vec![outage(5000, 1000, OutageRule::LostAtSending)];
        }
        run(&network).flows[0].frames.clone().unwrap()
    };
    let good = of(ms(150), false);
    assert_eq!((good.sent, good.late, good.lost), (247, 0, 0));
    let late = of(ms(80), false);
    assert_eq!((late.sent, late.late, late.lost), (248, 31, 0));
    let lost = of(ms(150), true);
    assert_eq!((lost.late, lost.lost), (0, 25));
    assert!((lost.late_or_lost_share.unwrap() - 25.0 / 247.0).abs() < 1e-9);
}
