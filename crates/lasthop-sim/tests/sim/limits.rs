//! What limited a flow: one network for each kind of limit.

use crate::support::*;
use lasthop::air::config::{LossConfig, OutageRule};
use lasthop::scenario::network::{App, Flow, Network, Role};
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::traffic::OnOff;
use lasthop::units::{Duration, Rate, Share, Size};
use lasthop_sim::limits::LimitShares;

/// A bulk flow under profile linux over the last hop of 1 Mbit/s and 100 ms.
fn bulk(scheme: &str) -> Network {
    last_hop(vec![flow(scheme, ProfileName::Linux, App::Bulk)], Duration::secs(60))
}

#[track_caller]
fn shares(network: &Network) -> LimitShares {
    let shares = watch(network, 1).result.flows[0].limited_by.unwrap();
    let sum: f64 = all(&shares).iter().sum();
    assert!((sum - 1.0).abs() < 1e-12, "{sum}: {shares:?}");
    shares
}

fn all(s: &LimitShares) -> [f64; 9] {
    [
        s.cwnd,
        s.pacing,
        s.receive_window,
        s.send_buffer,
        s.application,
        s.relay_buffer,
        s.agent_cache,
        s.handshake,
        s.outage,
    ]
}

#[test]
fn a_lossy_link_limits_by_the_congestion_window() {
    let mut network = bulk("cubic");
    network.links[DOWN].loss = LossConfig::uniform(Share(0.02));
    let s = shares(&network);
    assert!(s.cwnd > 0.99 && s.handshake > 0.001, "{s:?}");
}

#[test]
fn a_small_receive_window_limits() {
    let mut network = bulk("cubic");
    network.flows[0].receive_window = Size::Segments(4.0);
    let s = shares(&network);
    assert!(s.receive_window > 0.95, "{s:?}");
}

#[test]
fn an_application_that_writes_little_limits() {
    let on_off = App::OnOff(OnOff {
        mean_on: Duration::secs(1),
        mean_off: Duration::secs(9),
        rate: Some(Rate(100_000)),
    });
    let network = last_hop(vec![flow("cubic", ProfileName::Linux, on_off)], Duration::secs(60));
    let s = shares(&network);
    assert!(s.application > 0.9, "{s:?}");
}

#[test]
fn bbr_is_limited_by_its_pacing() {
    let s = shares(&bulk("bbr"));
    assert!(s.pacing > 0.8, "{s:?}");
}

/// The relay's buffer is a sixth of the bandwidth-delay product of the radio link: all of it is in
/// flight to the station.
#[test]
fn a_relay_with_a_small_buffer_limits() {
    let mut network = bulk("i-tcp:buffer=8000B");
    network.links[DOWN].rate = mbps(5.0);
    let watched = watch(&network, 1);
    let s = watched.result.flows[0].limited_by.unwrap();
    assert!(s.relay_buffer > 0.9, "{s:?}");
    let relay = watched.result.agents[0].limited_by.unwrap();
    assert!(relay.application > 0.9, "{relay:?}");
    let bounds = serde_json::to_value(&watched.result.flows[0].bounds).unwrap();
    assert_eq!(
        bounds[0],
        serde_json::json!({
            "limited_by": "relay_buffer",
            "setting": "i-tcp:buffer",
            "value": "8000 B"
        })
    );
}

/// A large buffer fills too, since the wired half is faster. The limit is cwnd of the half over the
/// radio link.
#[test]
fn a_full_relay_buffer_behind_a_closed_cwnd_is_not_the_limit() {
    let mut network = bulk("i-tcp:buffer=60000B");
    network.links[DOWN].loss = LossConfig::uniform(Share(0.02));
    let s = shares(&network);
    assert!(s.relay_buffer < 0.02 && s.cwnd > 0.9, "{s:?}");
}

/// M-TCP closes the server's window while the radio link is down: the limit is the outage, not the
/// buffer.
#[test]
fn a_window_that_is_closed_in_an_outage_counts_as_the_outage() {
    let mut network = bulk("m-tcp");
    network.links[DOWN].outages = vec![outage(20_000, 20_000, OutageRule::LostAtSending)];
    network.links[UP].outages = network.links[DOWN].outages.clone();
    let s = shares(&network);
    assert!((0.3..0.4).contains(&s.outage) && s.relay_buffer < 0.05, "{s:?}");
}

#[test]
fn a_cache_that_is_too_small_counts_from_the_first_loss_it_could_not_repair() {
    let cached = |packets: u32, loss: f64| {
        let mut network = bulk(&format!("snoop:cache_packets={packets}"));
        network.links[DOWN].rate = mbps(5.0);
        network.links[DOWN].loss = LossConfig::uniform(Share(loss));
        shares(&network)
    };
    let small = cached(4, 0.01);
    assert!(small.agent_cache > 0.5, "{small:?}");
    assert_eq!(cached(1000, 0.01).agent_cache, 0.0);
    assert_eq!(cached(4, 0.0).agent_cache, 0.0, "no loss that the cache could have repaired");
}

/// Only the measured time counts, from the flow's start to its end.
#[test]
fn only_active_measured_time_counts() {
    let mut network = bulk("cubic");
    network.measure_from = Duration::secs(10);
    network.flows[0].stop = Some(Duration::secs(20));
    let s = shares(&network);
    assert_eq!((s.handshake, s.application), (0.0, 0.0), "{s:?}");
    network.flows[0].start = Duration::secs(70);
    assert_eq!(
        watch(&Network { duration: Duration::secs(60), ..network }, 1).result.flows[0].limited_by,
        None
    );
    let finite = last_hop(
        vec![Flow { profile: Profile::named(ProfileName::Linux), ..rfc("cubic", 200) }],
        Duration::secs(60),
    );
    let s = shares(&finite);
    assert!(s.application < 0.3, "time after the completion does not count: {s:?}");
}

/// The handshake never completes.
#[test]
fn a_connection_that_never_opens_is_limited_by_its_handshake() {
    let mut network = bulk("cubic");
    network.links[UP].loss = LossConfig::uniform(Share(1.0));
    assert_eq!(shares(&network).handshake, 1.0);
}

/// GEO satellite, 600 ms and 50 Mbit/s: 64,000 bytes of buffer at the relay limit the flow to a
/// fiftieth of the capacity, and the result names this limit.
#[test]
fn a_buffer_of_64_kb_limits_a_flow_over_a_satellite() {
    let mut network = bulk("i-tcp");
    for l in 0..4 {
        network.links[l].rate = mbps(if l < 2 { 1000.0 } else { 50.0 });
        network.links[l].delay = lasthop::air::config::DelayConfig::constant(ms(150));
    }
    assert_eq!(network.nodes[1].role, Role::BaseStation);
    network.flows[0].receive_window = Size::Bytes(4 << 20);
    let s = shares(&network);
    assert!(s.relay_buffer > 0.9, "{s:?}");
}
