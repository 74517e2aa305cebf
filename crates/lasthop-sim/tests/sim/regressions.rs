//! Regression tests: former bugs, each reduced to a minimal network.

use crate::support::*;
use lasthop::air::config::{LossConfig, OutageRule};
use lasthop::scenario::network::{App, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Share};
use lasthop_sim::events::Kind;

fn secs(s: u64) -> Duration {
    Duration::secs(s)
}

/// The last data segment is lost on the wired half, its FIN is not. The bug: the relay closed the
/// other half too early, and the FIN took the sequence number of the next byte.
#[test]
fn a_relay_does_not_close_before_all_data_have_arrived() {
    let mut network = last_hop(vec![rfc("i-tcp", 20)], secs(1000));
    network.links[0].loss = lose(&["20:1"], &[]);
    let run = watch(&network, 1);
    assert_eq!(run.result.flows[0].delivered_bytes, 20_000);
}

/// The segment arrives; its ACK crosses the radio link and is lost on the wired one. Whether the
/// timer fires before or after that loss, every method of computing the run must classify the
/// timeout alike.
#[test]
fn ack_loss_does_not_depend_on_how_the_run_is_computed() {
    let mut flow = rfc("newreno", 1);
    flow.profile.initial_rto = Duration::millis(300);
    flow.profile.min_rto = Duration::millis(105);
    flow.profile.full_handshake = false;
    let mut network: Network = last_hop(vec![flow], secs(5));
    // The ACK of the SYN arrives. That of the segment is on the radio link when the timer fires,
    // and is lost on the wired link.
    network.links[1].loss = lose(&[], &[2]);
    network.links[DOWN].rate = mbps(10.0);
    network.links[UP].delay = lasthop::air::config::DelayConfig::constant(Duration::millis(60));
    network.links[UP].delay.steps = vec![lasthop::air::config::DelayStep {
        at: Duration::millis(150),
        delay: Duration::millis(500),
    }];
    network.links[UP].delay.in_order = true;
    let watched = watch(&network, 1);
    assert_eq!(watched.result.flows[0].timeouts.total, 1);
    assert_eq!(json(&network, 1), to_json(&watched.result), "chained links");
    assert_eq!(watched.result.flows[0].timeouts.ack_loss, 1);
}

/// The relay's inbound connection may advertise at most its buffer, starting with the SYN-ACK. A
/// larger first window would cause later drops of data in transit.
#[test]
fn a_relay_advertises_its_buffer_from_the_syn_ack_on() {
    let run = watch(&last_hop(vec![rfc("i-tcp:buffer=5000B", 200)], secs(100)), 1);
    let first = run.log.of(Kind::AckSent).find(|e| e.node == 1 && !e.segment().forward).unwrap();
    assert_eq!(first.segment().window, 5000);
}

/// The timer of ns-2 also runs on an idle connection, here the second half of a split one while no
/// data arrive on the first. When it fires nothing is lost: the sender must not wait for the answer
/// to a retransmission (F-RTO), back off, or count a timeout.
#[test]
fn the_timer_of_an_idle_connection_does_not_stop_its_sender() {
    for sender in ["newreno", "f-rto", "sack", "rack", "cubic", "bbr", "bbr3"] {
        let scheme = format!("i-tcp:sender={sender}");
        let mut network = last_hop(
            vec![flow(&scheme, ProfileName::Ns226, App::Transfer { size: 40_000 })],
            secs(100),
        );
        network.links[0].outages = vec![outage(60, 3000, OutageRule::LostAtArrival)];
        let run = watch(&network, 1);
        assert_eq!(run.result.flows[0].delivered_bytes, 40_000, "{sender}");
        assert!(
            run.log.of(Kind::Cwnd).any(|e| e.node == 1 && e.secs() > 1.0),
            "{sender}: the second half must have been idle"
        );
        assert!(run.log.of(Kind::Timeout).all(|e| e.node == 0), "{sender}");
    }
}

/// With a receive window of one segment a tail loss probe detects a loss. Half the window is less
/// than a segment, and nothing is in flight that could open the window again.
#[test]
fn a_reduction_leaves_at_least_one_segment() {
    let mut small = flow(
        "i-tcp:buffer=1802B:ack_on_delivery=true:sender=rack",
        ProfileName::Ns226,
        App::Transfer { size: 40_000 },
    );
    small.segment = 1460;
    let mut network = last_hop(vec![small], secs(1000));
    for l in [0, 1] {
        network.links[l].loss = LossConfig::uniform(Share(0.1));
    }
    for seed in 0..200 {
        assert_eq!(watch(&network, seed).result.flows[0].delivered_bytes, 40_000, "{seed}");
    }
}

/// Times in the JSON are the decimal numbers nearest to whole nanoseconds. The bug: 60 s were
/// written as 60.00000000000001.
#[test]
fn times_in_the_json_are_decimals() {
    let mut flow = rfc("newreno", 100);
    flow.start = Duration::millis(7);
    let network = last_hop(vec![flow], secs(60));
    let text = json(&network, 1);
    assert!(text.contains("\"duration_s\":60.0,\"measured_s\":60.0,"), "{text}");
    let result = watch(&network, 1).result;
    let flow = &result.flows[0];
    let times = [
        flow.completed_s,
        flow.first_byte_s,
        flow.rtt_s.p50,
        flow.one_way_delay_s.p95,
        Some(result.links[DOWN].busy_s),
    ];
    for time in times {
        let time = time.unwrap();
        // The middle of a histogram bucket may be half a nanosecond off.
        assert_eq!((time * 2e9).round() / 2e9, time);
    }
}
