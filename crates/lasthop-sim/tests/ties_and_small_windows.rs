//! Simultaneous events on evented links, and halving under a nearly closed receive window.

mod support;

use lasthop::air::config::{DelayConfig, TraceStart};
use lasthop::scenario::network::App;
use lasthop::tcp::profile::ProfileName;
use lasthop::units::Duration;
use lasthop_sim::Options;
use support::*;

/// An ACK comes over a trace without delay, so that its arrival and what caused it are one instant;
/// the burst that it releases meets an opportunity of the next trace at that very instant. The
/// evented link still holds the first frame when the second is offered, the computed one does not,
/// and so they count and refuse differently.
#[test]
fn a_burst_at_an_opportunity_is_one_burst_however_it_is_computed() {
    let mut network = last_hop(vec![rfc("reno", 50)], Duration::secs(10));
    // A link without a limit counts nothing, so that these have one.
    network.links.iter_mut().for_each(|l| l.queue = packets(1000));
    for l in [0, 1] {
        network.links[l] = traced(network.links[l].clone(), trace(&[1]), TraceStart::default());
        network.links[l].delay = DelayConfig::constant(Duration::ZERO);
        network.links[l].queue = packets(2);
    }
    let (computed, evented) =
        (watch(&network, 1), watch_with(&network, 1, Options { evented: true }));
    assert_eq!(to_json(&computed.result), to_json(&evented.result));
    assert!(computed.log.0 == evented.log.0);
}

/// ns-2 halves the window in use. Where flow control has nearly closed that one, it is not
/// congestion that is halved, and cwnd falls below half a segment, with a window of 0 to 0.
#[test]
fn a_nearly_closed_receive_window_does_not_make_cwnd_tiny() {
    let mut network = last_hop(
        vec![flow(
            "i-tcp:buffer=855B:sender=reno",
            ProfileName::Ns230,
            App::Transfer { size: 863 },
        )],
        Duration::secs(30),
    );
    network.flows[0].start = ms(1240);
    network.links[1].rate = schedule(&[(0, 500_000), (1300, 0), (5000, 1_000_000)]);
    watch(&network, 1);
}
