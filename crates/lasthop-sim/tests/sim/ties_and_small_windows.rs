//! Simultaneous events on evented links, and halving under a nearly closed receive window.

use crate::support::*;
use lasthop::air::config::{DelayConfig, TraceStart};
use lasthop::scenario::network::App;
use lasthop::tcp::profile::ProfileName;
use lasthop::units::Duration;
use lasthop_sim::Options;

/// An ACK arrives over a trace without delay, at the same instant as the event that caused it; the
/// burst that it releases coincides with an opportunity of the next trace. An evented link still
/// holds the first frame when the second is offered, a computed link does not. Both must count
/// queued frames and drop alike.
#[test]
fn a_burst_at_an_opportunity_is_the_same_on_computed_and_evented_links() {
    let mut network = last_hop(vec![rfc("reno", 50)], Duration::secs(10));
    // Links without a limit do not count queued frames, so all links have one.
    network.links.iter_mut().for_each(|l| l.queue = packets(1000));
    for l in [0, 1] {
        network.links[l] = traced(network.links[l].clone(), trace(&[1]), TraceStart::default());
        network.links[l].delay = DelayConfig::constant(Duration::ZERO);
        network.links[l].queue = packets(2);
    }
    let (computed, evented) = (
        watch(&network, 1),
        watch_with(&network, 1, Options { evented: true, ..Default::default() }),
    );
    assert_eq!(to_json(&computed.result), to_json(&evented.result));
    assert!(computed.log.0 == evented.log.0);
}

/// ns-2 halves the window in use. If flow control has nearly closed it, halving would reduce cwnd
/// below half a segment without congestion, and a window of 0 to 0.
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
