//! Faults that once were, each in its smallest form.

mod support;

use lasthop::air::config::{LossConfig, OutageRule};
use lasthop::scenario::network::{App, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Share};
use lasthop_sim::events::Kind;
use support::*;

fn secs(s: u64) -> Duration {
    Duration::secs(s)
}

/// The last data segment is lost on the wired half and its FIN is not: the relay closes the other
/// half too early, and the FIN takes the place of the byte that comes next.
#[test]
fn a_relay_does_not_close_before_all_data_have_come() {
    let mut network = last_hop(vec![rfc("i-tcp", 20)], secs(1000));
    network.links[0].loss = lose(&["20:1"], &[]);
    let run = watch(&network, 1);
    assert_eq!(run.result.flows[0].delivered_bytes, 20_000);
}

/// The segment arrives, its ACK leaves the radio link and is lost on the wired one. Whether the
/// timer fires before or after that, every way to compute the run must call it the same.
#[test]
fn ack_loss_does_not_depend_on_how_the_run_is_computed() {
    let mut flow = rfc("newreno", 1);
    flow.profile.initial_rto = Duration::millis(300);
    flow.profile.min_rto = Duration::millis(105);
    flow.profile.full_handshake = false;
    let mut network: Network = last_hop(vec![flow], secs(5));
    // The ACK of the SYN passes; that of the segment is on the radio link when the timer fires, and
    // lost on the wired one.
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

/// The relay's buffer is what its inbound leg may advertise, from the answer to the SYN on. If the
/// first window is larger, data on their way are refused later.
#[test]
fn a_relay_advertises_its_buffer_from_the_first() {
    let run = watch(&last_hop(vec![rfc("i-tcp:buffer=5000B", 200)], secs(100)), 1);
    let first = run.log.of(Kind::AckSent).find(|e| e.node == 1 && !e.segment().forward).unwrap();
    assert_eq!(first.segment().window, 5000);
}

/// The timer of ns-2 runs on an idle connection too, here the second leg of a relay while nothing
/// comes in on the first. When it fires, nothing is lost: the sender must not wait for the answer
/// to a retransmission (F-RTO), back off, or count a timeout.
#[test]
fn the_timer_of_an_idle_connection_stops_no_sender() {
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
            "{sender}: the second leg was idle"
        );
        assert!(run.log.of(Kind::Timeout).all(|e| e.node == 0), "{sender}");
    }
}

/// A receive window of one segment, behind which a tail probe finds a loss: half of it is less than
/// a segment, and nothing is in flight that could open the window again.
#[test]
fn a_reduction_leaves_a_segment() {
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

/// Times in the JSON are the numbers nearest to whole nanoseconds: 60 s were 60.00000000000001.
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
        // The middle of a bucket may lie half a nanosecond off.
        assert_eq!((time * 2e9).round() / 2e9, time);
    }
}
