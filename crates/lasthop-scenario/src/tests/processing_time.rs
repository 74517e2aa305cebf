//! The time that a receiver takes to answer a segment.

use super::*;
use lasthop_channel::air::config::DelayDistribution;
use lasthop_core::units::Duration;

/// The ACKs of a receiver leave after a time that is drawn, over a link of constant delay. Nothing
/// else changes, and a network that has been drawn stays as it is.
#[test]
fn the_time_of_a_receiver_is_drawn_on_the_link_of_its_acks() {
    let text = |delay: &str, flow: &str| {
        format!(
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"2 Mbps\"\ndelay = {delay}\n[[flow]]\n\
             from = \"a\"\nto = \"b\"\n{flow}\n[tcp]\nprocessing_time = \"20 us\"\n"
        )
    };
    let network = loaded(&text("\"10 ms\"", "")).network;
    assert!(!network.is_random(), "a spread of microseconds is no interval");
    assert!(network.draws_processing_times());
    let drawn = network.with_processing_times();
    let ends = (Duration::millis(10), Duration::micros(10_020));
    let (from, to) = (network.flows[0].from, network.flows[0].to);
    let (there, back) = (network.path(from, to)[0], network.path(to, from)[0]);
    assert_eq!(network.links[there].delay, drawn.links[there].delay);
    assert!(drawn.links[back].delay.in_order);
    assert_eq!(
        drawn.links[back].delay.distribution,
        Some(DelayDistribution::Uniform { from: ends.0, to: ends.1 })
    );
    assert_eq!(drawn.with_processing_times().links[back].delay, drawn.links[back].delay);
    let varies = "{ distribution = { kind = \"exponential\", min = \"10 ms\", mean = \"1 ms\" } }";
    let datagrams = "app = { kind = \"cbr\", rate = \"1 Mbps\" }";
    for (delay, flow) in [(varies, ""), ("\"10 ms\"", datagrams)] {
        let network = loaded(&text(delay, flow)).network;
        let drawn = network.with_processing_times();
        assert_eq!(drawn.links[back].delay, network.links[back].delay, "{delay} {flow}");
        assert!(!network.draws_processing_times(), "{delay} {flow}");
    }
}
