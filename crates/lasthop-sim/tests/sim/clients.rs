//! Clients: request and response, and adaptive video, alone and in random networks.

use std::sync::atomic::AtomicBool;

use lasthop::air::config::OutageRule;
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::traffic::{Adaptation, Sizes, Video};
use lasthop::units::{Duration, Rate};
use lasthop_sim::RunResult;
use lasthop_sim::events::Kind;
use lasthop_sim::result::FlowResult;
use lasthop_sim::verifier::Verifier;
use proptest::prelude::*;

use crate::support::random::{Case, Conditions, any_network, cases};
use crate::support::{flow, last_hop, ms, outage, watch};

/// Runs with the verifier, which checks that packets and bytes are conserved.
fn run(network: &Network, seed: u64) -> RunResult {
    let mut verifier = Verifier::new(network);
    let result = lasthop_sim::run(network, seed, &mut verifier, &AtomicBool::new(false)).unwrap();
    verifier.finish_with(&result).unwrap_or_else(|e| panic!("{}", e.join("\n")));
    let unobserved = lasthop_sim::run(network, seed, (), &AtomicBool::new(false)).unwrap();
    assert_eq!(
        serde_json::to_string(&result).unwrap(),
        serde_json::to_string(&unobserved).unwrap()
    );
    result
}

fn requests(think: u64) -> Flow {
    let sizes = Sizes::Constant(1448);
    flow("reno", ProfileName::Linux, App::Requests { request: 400, sizes, mean_think: ms(think) })
}

fn video(adaptation: Adaptation) -> Flow {
    let video = Video {
        ladder: [100_000, 300_000, 800_000].map(Rate).to_vec(),
        chunk: Duration::secs(2),
        buffer: Duration::secs(20),
        startup: Duration::secs(2),
        adaptation,
    };
    flow("cubic", ProfileName::Linux, App::Video { request: 400, video })
}

/// 440 bytes upwards and 1488 downwards at 1 and 10 Mbit/s, and 100 ms of propagation.
#[test]
fn a_response_takes_a_round_trip() {
    let result = run(&last_hop(vec![requests(0)], Duration::secs(10)), 1);
    let found = result.flows[0].requests.as_ref().unwrap();
    let expected = 0.1 + (440.0 + 1488.0) * 8.0 * 1.1e-6;
    let p50 = found.response_s.p50.unwrap();
    assert!((p50 / expected - 1.0).abs() < 0.02, "{p50} {expected}");
    // The first response waits for the handshake.
    let p99 = found.response_s.p99.unwrap();
    assert!(p99 > expected + 0.09 && p99 < expected + 0.12, "{p99}");
    assert_eq!((found.repeated, found.sent), (0, found.answered + 1));
    assert!((found.answered as f64 - 10.0 / expected).abs() < 3.0, "{found:?}");
    assert_eq!(result.flows[0].delivered_bytes, 1448 * found.answered);
    assert_eq!(found.answered_per_s, found.answered as f64 / 10.0);
}

#[test]
fn a_lost_request_is_repeated() {
    let mut network = last_hop(vec![requests(100)], Duration::secs(20));
    // The uplink loses everything for two seconds.
    network.links[3].outages = vec![outage(5000, 2000, OutageRule::LostAtSending)];
    let seen = watch(&network, 1);
    let repeated: Vec<_> =
        seen.log.of(Kind::RequestSent).filter(|e| e.reason == "repeated").collect();
    assert!((1..=2).contains(&repeated.len()), "{}", repeated.len());
    let sent = seen.log.of(Kind::RequestSent).count();
    let received = seen.log.of(Kind::RequestReceived).count();
    assert!(received >= sent - 3 && received < sent);
    let found = run(&network, 1).flows[0].requests.clone().unwrap();
    assert!(found.answered > 50 && found.response_s.p99.unwrap() > 1.0, "{found:?}");
}

#[test]
fn a_video_adapts_to_the_link() {
    for adaptation in
        [Adaptation::Rate, Adaptation::Buffer { reservoir: ms(4000), cushion: ms(8000) }]
    {
        let result = run(&last_hop(vec![video(adaptation)], Duration::secs(120)), 1);
        let found = result.flows[0].video.unwrap();
        assert_eq!((found.stalls, found.stalled_s), (0, 0.0), "{found:?}");
        // 800 kbit/s on a link of 1 Mbit/s, after a start at 100 kbit/s.
        assert!(found.bitrate_bps.unwrap() > 600e3, "{found:?}");
        assert!(found.switches <= 6 && found.startup_s.unwrap() < 0.7, "{found:?}");
        assert!((found.startup_s.unwrap() + found.played_s - 120.0).abs() < 1e-6, "{found:?}");
    }
}

#[test]
fn an_outage_stalls_a_video() {
    let mut flow = video(Adaptation::Rate);
    if let App::Video { video, .. } = &mut flow.app {
        video.ladder.pop();
    }
    let mut network = last_hop(vec![flow], Duration::secs(120));
    for l in [2, 3] {
        network.links[l].outages = vec![outage(30_000, 30_000, OutageRule::Held)];
    }
    let found = run(&network, 1).flows[0].video.unwrap();
    // The buffer holds 18 to 20 s of 300 kbit/s, and the next chunk takes about a second.
    assert_eq!(found.stalls, 1, "{found:?}");
    assert!((10.0..14.0).contains(&found.stalled_s), "{found:?}");
    let time = found.startup_s.unwrap() + found.played_s + found.stalled_s;
    assert!((time - 120.0).abs() < 1e-6, "{found:?}");
    assert_eq!(found.rebuffer_ratio, Some(found.stalled_s / (found.stalled_s + found.played_s)));
    // Measured after the stall alone.
    network.measure_from = Duration::secs(80);
    let later = run(&network, 1).flows[0].video.unwrap();
    assert_eq!((later.stalls, later.stalled_s, later.played_s), (0, 0.0, 40.0));
}

/// A relay terminates the connection; requests pass it.
#[test]
fn requests_pass_a_relay() {
    let mut flow = requests(50);
    flow.scheme = crate::support::scheme("i-tcp");
    let found = run(&last_hop(vec![flow], Duration::secs(10)), 1).flows[0].requests.clone();
    assert!(found.unwrap().answered > 40);
}

fn any_client() -> impl Strategy<Value = App> {
    let requests = (1u32..1400, 1u64..40_000, 0u64..2000).prop_map(|(request, size, think)| {
        let sizes = Sizes::Exponential { mean: size as f64 };
        App::Requests { request, sizes, mean_think: ms(think) }
    });
    let video = (200u64..2000, 2u64..8, 0u64..3, any::<bool>()).prop_map(
        |(chunk, n, startup, by_buffer)| {
            let chunk = ms(chunk);
            let adaptation = if by_buffer {
                Adaptation::Buffer { reservoir: chunk, cushion: chunk * (n - 1) }
            } else {
                Adaptation::Rate
            };
            let (startup, buffer) = (chunk * startup, chunk * (n + 1));
            let ladder = vec![Rate(40_000), Rate(150_000)];
            App::Video { request: 300, video: Video { ladder, chunk, buffer, startup, adaptation } }
        },
    );
    prop_oneof![requests, video]
}

proptest! {
    #![proptest_config(cases(48))]

    /// On any network where a segment that is sent often enough arrives, each request gets its
    /// response, all bytes of the responses are delivered, and a video is played to its end.
    #[test]
    fn no_client_is_stuck(
        Case(mut network) in any_network(Conditions::Passable),
        apps in prop::collection::vec(any_client(), 3),
        stop in 500u64..8000,
        seed in 0u64..1000,
    ) {
        for (flow, app) in network.flows.iter_mut().zip(apps) {
            (flow.app, flow.stop) = (app, Some(flow.start + ms(stop)));
        }
        // As in `completion`: nearly all runs are over within minutes.
        let full_duration = std::mem::replace(&mut network.duration, Duration::secs(500));
        let cancel = AtomicBool::new(false);
        let simulate = |n: &Network| lasthop_sim::run(n, seed, (), &cancel).unwrap();
        let mut result = simulate(&network);
        let is_open = |f: &FlowResult| {
            let requests = f.requests.as_ref().unwrap();
            requests.answered < requests.sent
        };
        if result.flows.iter().any(is_open) {
            network.duration = full_duration;
            result = simulate(&network);
        }
        for (flow, config) in result.flows.iter().zip(&network.flows) {
            let requests = flow.requests.as_ref().unwrap();
            prop_assert_eq!(requests.answered, requests.sent, "{:?}", flow);
            prop_assert!(requests.sent > 0);
            if let App::Video { video, .. } = &config.app {
                let found = flow.video.unwrap();
                prop_assert_eq!(found.chunks, requests.answered);
                let played = video.chunk.as_secs() * found.chunks as f64;
                prop_assert!((found.played_s - played).abs() < 1e-6, "{:?}", flow);
                let bits = found.bitrate_bps.unwrap() * found.played_s;
                // Sizes are whole bytes.
                let delivered = 8.0 * flow.delivered_bytes as f64;
                prop_assert!((bits - delivered).abs() <= 8.0 * found.chunks as f64, "{:?}", flow);
            }
        }
    }
}
