//! TCP end to end, one situation per test.
//!
//! A segment of 1040 bytes takes 0.832 ms on the wired and 8.32 ms on the radio link, an ACK 0.032
//! and 0.32 ms; the round-trip time of a single segment is 109.504 ms.

use std::sync::atomic::AtomicBool;

use crate::support::*;
use lasthop::air::config::{OutageConfig, OutageRule};
use lasthop::scenario::network::{App, Network};
use lasthop::segment::Flags;
use lasthop::tcp::profile::{
    DelayedAck, IdleRestart, InitialSsthresh, LimitedTransmitRule, NewRenoTimer, ProfileName,
};
use lasthop::tcp::sender::State;
use lasthop::traffic::Web;
use lasthop::units::{Duration, Size};
use lasthop_sim::Options;
use lasthop_sim::events::Kind;
use lasthop_sim::simulation::Simulation;

fn secs(s: u64) -> Duration {
    Duration::secs(s)
}

/// Window probes: pure ACKs of the sender with an old sequence number, after the handshake.
fn probes(log: &Log) -> Vec<&Seen> {
    let una = |t: u64| {
        log.of(Kind::AckReceived)
            .filter(|e| e.node == 0 && e.t <= t)
            .map(|e| e.segment().ack)
            .max()
            .unwrap_or(0)
    };
    let bare = log.of(Kind::AckSent).filter(|e| e.node == 0 && e.segment().forward);
    bare.skip(1).filter(|e| e.segment().seq == una(e.t).wrapping_sub(1)).collect()
}

/// The radio link is down for 20 s, so the relay's buffer fills up and its window closes.
fn closed_window() -> Network {
    let mut flow = rfc("i-tcp:buffer=4000B", 100);
    flow.profile.initial_window = Size::Segments(2.0);
    let mut network = last_hop(vec![flow], secs(300));
    network.links[DOWN].outages = vec![outage(500, 20_000, OutageRule::Held)];
    network
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let run = watch(&closed_window(), 1);
    let probes = probes(&run.log);
    assert!(probes.len() >= 3, "{}", probes.len());
    assert!(probes.iter().all(|p| p.secs() > 0.5 && p.secs() < 21.0));
    // The intervals double.
    let times: Vec<f64> = probes.iter().map(|p| p.secs()).collect();
    let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.windows(2).all(|g| close(g[1], 2.0 * g[0])), "{gaps:?}");
    // While the window is closed nothing else is sent, and there is no timeout.
    assert!(
        run.log
            .of(Kind::DataSent)
            .filter(|e| e.node == 0)
            .all(|e| e.secs() < 1.0 || e.secs() > 20.0)
    );
    assert_eq!(
        (run.result.flows[0].timeouts.total, run.result.flows[0].delivered_bytes),
        (0, 100_000)
    );
}

#[test]
fn a_lost_window_update_is_replaced_by_a_probe() {
    let plain = watch(&closed_window(), 1);
    // The first two ACKs of the relay after the outage open the window; both are lost.
    let acks: Vec<&Seen> = plain
        .log
        .of(Kind::Enqueued)
        .filter(|e| e.link == Some(1) && !e.segment().forward)
        .collect();
    let update = acks.iter().position(|e| e.secs() > 20.5).unwrap();
    let mut network = closed_window();
    network.links[1].loss = lose(&[], &[update as u64 + 1, update as u64 + 2]);
    let run = watch(&network, 1);
    assert_eq!(run.log.count(Kind::LostOnAir), 2);
    assert!(probes(&run.log).last().unwrap().secs() > 21.0, "a probe after the loss");
    assert!(run.result.flows[0].completed_s > plain.result.flows[0].completed_s);
}

#[test]
fn an_ack_is_delayed_until_a_second_segment_or_its_timer() {
    let mut flow = rfc("newreno", 3);
    flow.profile.delayed_ack = DelayedAck::AtMost(ms(70));
    flow.profile.full_handshake = false;
    let run = watch(&last_hop(vec![flow], secs(10)), 1);
    let received: Vec<f64> =
        run.log.of(Kind::DataReceived).filter(|e| e.number() > 0).map(Seen::secs).collect();
    let acks: Vec<(u64, f64)> =
        run.log.of(Kind::AckSent).skip(1).map(|e| (e.segment().ack, e.secs())).collect();
    assert_eq!(acks.len(), 2);
    assert_eq!(acks[0], (2000, received[1]), "with the second segment, at once");
    assert!(acks[1].0 == 3000 && close(acks[1].1, received[2] + 0.070), "the third alone");
}

/// Number of segments sent at the instant of each click but the first, for pages with pauses of
/// seconds between them.
fn bursts_after_idle(idle: IdleRestart) -> Vec<usize> {
    let mut flow = flow(
        "newreno",
        ProfileName::Rfc,
        App::Web(Web { mean_size: Size::Bytes(100_000), shape: 8.0, mean_pause: secs(20) }),
    );
    (flow.profile.idle_restart, flow.profile.restart_window) = (idle, Size::Segments(3.0));
    flow.profile.min_rto = ms(200);
    let run = watch(&last_hop(vec![flow], secs(200)), 3);
    let sent = run.log.sent();
    let after_pause = |i: usize| sent[i].1 - sent[i - 1].1 > 5.0;
    (2..sent.len())
        .filter(|&i| after_pause(i))
        .map(|i| sent[i..].iter().filter(|s| s.1 == sent[i].1).count())
        .collect()
}

#[test]
fn after_an_idle_time_the_window_restarts() {
    let (restart, off) = (bursts_after_idle(IdleRestart::Rto), bursts_after_idle(IdleRestart::Off));
    assert!(restart.len() >= 3 && restart.iter().all(|&b| b == 3), "{restart:?}");
    assert!(off.len() >= 3 && off.iter().all(|&b| b > 20), "{off:?}");
}

/// RFC 5681, section 3.1: the window is one segment after a lost SYN. RFC 6298, rule 5.7: the RTO
/// is then 3 s.
#[test]
fn a_lost_syn_costs_the_initial_window_and_three_seconds() {
    let mut network = last_hop(vec![rfc("newreno", 20)], secs(60));
    network.links[DOWN].loss = lose(&["0:1", "1:1"], &[]);
    let run = watch(&network, 1);
    let sent = run.log.sent();
    assert_eq!(
        (sent[0], sent[1]),
        ((0, 0.0), (0, 1.0)),
        "the SYN is retransmitted after the initial RTO of 1 s"
    );
    assert!(
        sent[2].0 == 1 && sent[3].0 == 1 && close(sent[3].1 - sent[2].1, 3.0),
        "{:?}",
        &sent[..4]
    );
    assert_eq!(run.result.flows[0].delivered_bytes, 20_000);
}

/// Linux `tcp_init_transfer`: the first loss of a SYN costs nothing but time, the second one the
/// initial window.
#[test]
fn on_linux_a_second_lost_syn_costs_the_initial_window() {
    let first_flight = |losses: &[&str]| {
        let flow = flow("reno", ProfileName::Linux, App::Transfer { size: 20_000 });
        let mut network = last_hop(vec![flow], secs(60));
        network.links[DOWN].loss = lose(losses, &[]);
        let sent = watch(&network, 1).log.sent();
        let start = sent.iter().find(|s| s.0 == 1).map(|s| s.1);
        sent.iter().filter(|s| s.0 > 0 && Some(s.1) == start).count()
    };
    assert_eq!(first_flight(&[]), 10);
    assert_eq!(first_flight(&["0:1"]), 10);
    assert_eq!(first_flight(&["0:1", "0:2"]), 1);
}

fn state_at_the_end(network: &Network) -> State {
    let mut simulation = Simulation::new(network, 1, (), Options::default()).unwrap();
    simulation.run(&AtomicBool::new(false));
    simulation.connections()[0].sender().state()
}

#[test]
fn a_finished_transfer_is_closed_with_a_fin() {
    let network = last_hop(vec![rfc("newreno", 5)], secs(60));
    let run = watch(&network, 1);
    let fins: Vec<&Seen> =
        run.log.of(Kind::DataSent).filter(|e| e.segment().flags.has(Flags::FIN)).collect();
    assert_eq!((fins.len(), fins[0].segment().seq, fins[0].segment().len), (1, 5000, 0));
    let answer = run.log.of(Kind::AckReceived).find(|e| e.segment().ack == 5001).unwrap();
    assert!(answer.segment().flags.has(Flags::FIN), "the receiver closes too");
    assert_eq!(state_at_the_end(&network), State::Done);
}

/// The FIN (link 2) or the ACK that answers it (link 3) is lost.
#[test]
fn the_fin_handshake_survives_the_loss_of_either_half() {
    let network = last_hop(vec![rfc("newreno", 5)], secs(60));
    let plain = watch(&network, 1);
    for (l, forward) in [(DOWN, true), (UP, false)] {
        let is_fin = |e: &&Seen| {
            e.link == Some(l as u32)
                && e.segment().flags.has(Flags::FIN)
                && e.segment().forward == forward
        };
        // Its 40 bytes take 0.32 ms to send and 40 ms to propagate.
        let start = plain.log.of(Kind::Arrived).find(is_fin).unwrap().t - 40_320_000;
        let mut network = network.clone();
        network.links[l].outages = vec![OutageConfig {
            from: Duration(start),
            length: Duration(1000),
            frames: OutageRule::LostAtSending,
        }];
        let run = watch(&network, 1);
        let lost: Vec<&Seen> = run.log.of(Kind::LostOnAir).collect();
        assert!(lost.len() == 1 && lost[0].segment().flags.has(Flags::FIN), "{lost:?}");
        let fins = run.log.of(Kind::DataSent).filter(|e| e.segment().flags.has(Flags::FIN)).count();
        assert_eq!((fins, state_at_the_end(&network)), (2, State::Done), "link {l}");
    }
}

#[test]
fn the_last_segment_may_be_shorter() {
    let mut flow = rfc("newreno", 0);
    flow.app = App::Transfer { size: 2500 };
    let run = watch(&last_hop(vec![flow], secs(10)), 1);
    let lens: Vec<u32> =
        run.log.of(Kind::DataSent).map(|e| e.segment().len).filter(|&l| l > 0).collect();
    assert_eq!((lens, run.result.flows[0].delivered_bytes), (vec![1000, 1000, 500], 2500));
    let sizes: Vec<u32> = run.log.of(Kind::DataSent).map(|e| e.segment().size).collect();
    assert_eq!(sizes, [40, 1040, 1040, 540, 40]);
}

/// Eight losses in a window take eight round trips of 0.11 s. The impatient timer runs from the
/// first partial ACK and fires; the slow-but-steady one is restarted by each.
#[test]
fn newreno_is_impatient_or_slow_but_steady() {
    let run = |timer| {
        let mut flow = rfc("newreno", 100);
        (flow.profile.newreno_timer, flow.profile.min_rto) = (timer, ms(400));
        let mut network = last_hop(vec![flow], secs(60));
        let drops: Vec<String> = (20..28).map(|n| format!("{n}:1")).collect();
        network.links[DOWN].loss = lose(&drops.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        let flow = watch(&network, 1).result.flows.remove(0);
        (flow.timeouts.total, flow.fast_retransmits.total, flow.retransmissions.total)
    };
    assert_eq!(run(NewRenoTimer::SlowButSteady), (0, 1, 8));
    let (timeouts, fast, all) = run(NewRenoTimer::Impatient);
    assert_eq!((timeouts, fast), (1, 1));
    assert!(all > 8, "after the timeout segments that had arrived are retransmitted: {all}");
}

/// Number of new segments sent on duplicate ACKs before the fast retransmit.
fn limited(rule: LimitedTransmitRule, threshold: u32) -> usize {
    let mut flow = rfc("reno", 200);
    (flow.profile.limited_transmit_rule, flow.profile.dupack_threshold) = (rule, threshold);
    flow.profile.initial_ssthresh = InitialSsthresh::Size(Size::Segments(10.0));
    let mut network = last_hop(vec![flow], secs(60));
    network.links[DOWN].loss = lose(&["11:1"], &[]);
    let run = watch(&network, 1);
    let fast = run.log.of(Kind::FastRetransmit).next().unwrap().t;
    let dup = |e: &&Seen| e.segment().ack == 10_000;
    let second = run.log.of(Kind::AckReceived).filter(dup).nth(1).unwrap().t;
    run.log.of(Kind::DataSent).filter(|e| e.reason == "new" && e.t >= second && e.t < fast).count()
}

/// RFC 3042: on the first two duplicate ACKs only, however high the threshold is.
#[test]
fn limited_transmit_sends_at_most_two() {
    assert_eq!(limited(LimitedTransmitRule::Rfc3042, 8), 2);
    assert_eq!(limited(LimitedTransmitRule::Rfc3042, 3), 2);
    assert_eq!(limited(LimitedTransmitRule::BelowThreshold, 8), 7);
}

/// The last ACK has the sequence number after the FIN; it must not be taken for a window probe.
#[test]
fn nothing_is_sent_after_the_fin_handshake() {
    let run = watch(&last_hop(vec![rfc("newreno", 5)], secs(100)), 1);
    let done = run.result.flows[0].completed_s.unwrap();
    let late: Vec<_> = run.log.0.iter().filter(|e| e.secs() > done + 1.0).collect();
    assert!(
        late.is_empty(),
        "{} events a second after the end, the last at {} s",
        late.len(),
        late.last().unwrap().secs()
    );
}

/// A buffer of less than a segment: silly window avoidance forbids the sender to send, until the
/// override timeout (RFC 1122, section 4.2.3.4).
#[test]
fn a_relay_with_a_buffer_below_a_segment_delivers_everything() {
    for scheme in ["i-tcp:buffer=600B", "i-tcp:buffer=100B", "i-tcp:buffer=999B"] {
        let run = watch(&last_hop(vec![rfc(scheme, 5)], secs(10_000)), 1);
        assert_eq!(run.result.flows[0].delivered_bytes, 5000, "{scheme}");
    }
}

/// RFC 5681, section 3.2, step 2: segments sent by limited transmit MUST NOT be counted. Ten
/// segments are in flight, and two more are sent with the first two duplicate ACKs.
#[test]
fn limited_transmit_does_not_count_in_the_halving() {
    let mut flow = rfc("newreno", 100);
    flow.profile.initial_window = Size::Segments(10.0);
    flow.receive_window = Size::Segments(1000.0);
    let mut network = last_hop(vec![flow], secs(10));
    network.links[DOWN].loss = lose(&["1:1"], &[]);
    let run = watch(&network, 1);
    assert_eq!(run.log.values(Kind::Ssthresh)[0], 5000.0);
}

/// With many such segments, counting them would even raise cwnd.
#[test]
fn limited_transmit_does_not_make_a_loss_raise_the_window() {
    let mut flow = rfc("newreno", 100);
    flow.profile.initial_window = Size::Segments(10.0);
    flow.profile.dupack_threshold = 9;
    flow.profile.limited_transmit_rule = LimitedTransmitRule::BelowThreshold;
    let mut network = last_hop(vec![flow], secs(10));
    network.links[DOWN].loss = lose(&["1:1"], &[]);
    let run = watch(&network, 1);
    assert_eq!(run.log.values(Kind::Ssthresh)[0], 5000.0);
}

/// The window counts from the acknowledgment number of the same segment (RFC 9293, section 3.8.6);
/// its right edge never moves back.
#[test]
fn a_relay_that_acknowledges_late_does_not_shrink_its_window() {
    let run =
        watch(&last_hop(vec![rfc("i-tcp:buffer=20000B:ack_on_delivery=true", 200)], secs(100)), 1);
    let acks = run.log.of(Kind::AckSent).filter(|e| e.node == 1 && !e.segment().forward);
    let edges: Vec<u64> =
        acks.skip(1).map(|e| e.segment().ack + u64::from(e.segment().window)).collect();
    assert!(edges.is_sorted(), "{:?}", edges.windows(2).find(|w| w[0] > w[1]));
}
