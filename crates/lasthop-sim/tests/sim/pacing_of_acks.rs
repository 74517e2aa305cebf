//! ACKs that accumulate while the radio stalls: their effect on the base station's queue, and the
//! effect of pacing them.

use crate::support::*;
use lasthop::air::config::{DelayConfig, OutageRule, Span};
use lasthop::scenario::network::{App, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Size};
use lasthop_sim::RunResult;
use lasthop_sim::events::Kind;

/// A window of 24 segments over 1 Mbit/s; from 5 s on the ACKs of 500 ms accumulate at the station.
fn stalled(scheme: &str, count: usize) -> Network {
    let flows = (1..=count).map(|i| {
        let mut f = flow(scheme, ProfileName::Ns226, App::Bulk);
        f.name = format!("flow {i}");
        f.receive_window = Size::Segments(24.0);
        f
    });
    let mut net = last_hop(flows.collect(), Duration::secs(10));
    let stalls = vec![Span { from: Duration::secs(5), length: ms(500) }];
    net.links[UP].delay = DelayConfig { stalls, ..DelayConfig::constant(ms(40)) };
    net.links[DOWN].queue = packets(100);
    net.measure_from = ms(4900);
    net
}

fn burst(r: &RunResult) -> u64 {
    r.flows.iter().filter_map(|f| f.burst_segments).max().unwrap()
}

fn peak(r: &RunResult) -> u64 {
    r.links[DOWN].queue_peak_frames.unwrap()
}

#[test]
fn pacing_removes_the_burst_after_a_stall() {
    let [reno, paced, control] = ["reno", "ack-pacing:sender=reno", "rate-control:sender=reno"]
        .map(|s| watch(&stalled(s, 1), 1).result);
    assert!(burst(&reno) > 15, "{}", burst(&reno));
    for r in [&paced, &control] {
        assert!(burst(r) < 6 && peak(r) <= peak(&reno), "{} {}", burst(r), peak(r));
        assert_eq!(r.flows[0].timeouts.total, reno.flows[0].timeouts.total);
        assert!(r.flows[0].goodput_bps > 0.95 * reno.flows[0].goodput_bps);
    }
    assert_eq!(reno.flows[0].timeouts.total, 0);
}

/// Bursts of several connections add up in the queue. Each connection is paced at its share of the
/// rate.
#[test]
fn bursts_of_several_connections_do_not_add_up() {
    let [reno, paced] = ["reno", "ack-pacing:sender=reno"].map(|s| watch(&stalled(s, 3), 1).result);
    assert!(2 * burst(&paced) < burst(&reno), "{} {}", burst(&paced), burst(&reno));
    assert!(paced.flows.iter().all(|f| f.timeouts.total == 0));
}

/// Without a stall ACK pacing has no effect.
#[test]
fn without_a_stall_nothing_is_held() {
    let mut net = stalled("ack-pacing:sender=reno", 2);
    net.links[UP].delay = DelayConfig::constant(ms(40));
    let run = watch(&net, 1);
    assert_eq!(run.result.agents[0].counters["acks_held"], 0);
    let mut plain = net.clone();
    plain.flows.iter_mut().for_each(|f| f.scheme = scheme("reno"));
    let sent = |log: &Log| {
        log.of(Kind::DataSent).map(|e| (e.t, e.segment.map(|s| s.seq))).collect::<Vec<_>>()
    };
    assert_eq!(sent(&run.log), sent(&watch(&plain, 1).log));
}

/// With rate control a sender never has more than the bandwidth-delay product in flight, and the
/// queue remains short.
#[test]
fn rate_control_limits_the_queue() {
    let calm = |scheme| {
        let mut net = stalled(scheme, 1);
        net.links[UP].delay = DelayConfig::constant(ms(40));
        net.flows[0].receive_window = Size::Segments(64.0);
        watch(&net, 1).result
    };
    let (reno, control) = (calm("reno"), calm("rate-control:sender=reno"));
    assert!(peak(&reno) > 30 && peak(&control) <= 4, "{} {}", peak(&reno), peak(&control));
    assert!(control.flows[0].goodput_bps > 0.97 * reno.flows[0].goodput_bps);
}

/// A held ACK that is forwarded retains its packet number: a timeout that it shows to be spurious
/// is counted as spurious.
#[test]
fn a_held_ack_retains_its_packet_number() {
    let mut net = stalled("ack-pacing:sender=reno", 1);
    net.links[UP].outages = vec![outage(5000, 2000, OutageRule::Held)];
    let r = watch(&net, 1).result;
    let timeouts = r.flows[0].timeouts;
    assert!(
        timeouts.total > 0 && timeouts.ack_loss == 0 && timeouts.spurious == timeouts.total,
        "{timeouts:?}"
    );
}
