//! The rules of ns-2 that differ from the RFCs, one by one: each test switches a field of the
//! profile and shows its effect. The rule numbers are those of the list of ns-2's behaviours in
//! docs/scenario.md (rule 1: ssthresh is an integer, and so on).

use crate::support::*;
use lasthop::scenario::network::{App, Flow};
use lasthop::tcp::profile::{
    ClockKind, DelayedAck, DelayedAckRule, HalvingBase, IdleRestart, InitialSsthresh,
    LimitedTransmitRule, NewRenoTimer, Profile, ProfileName,
};
use lasthop::traffic::{Cbr, Web};
use lasthop::units::{Duration, Rate, Size};
use lasthop_sim::events::Kind;

/// A transfer of 150 segments under ns-2.35 in which these are lost (`segment:transmission`), with
/// a change of the profile.
fn run(scheme: &str, drops: &[&str], change: impl Fn(&mut Profile)) -> Watched {
    run_flow(ns2(scheme, 150), drops, change)
}

fn run_flow(mut flow: Flow, drops: &[&str], change: impl Fn(&mut Profile)) -> Watched {
    change(&mut flow.profile);
    let mut network = last_hop(vec![flow], Duration::secs(100));
    network.links[DOWN].loss = lose(drops, &[]);
    let run = watch(&network, 1);
    assert!(run.result.flows[0].completed_s.is_some());
    run
}

/// Values of cwnd or ssthresh, in segments, at each change.
fn segments(run: &Watched, kind: Kind) -> Vec<f64> {
    run.log.values(kind).into_iter().map(|v| v / 1000.0).collect()
}

fn counts(run: &Watched) -> (u64, u64) {
    (run.result.flows[0].fast_retransmits.total, run.result.flows[0].timeouts.total)
}

/// Number of segments sent at this instant.
fn burst(run: &Watched, t: u64) -> usize {
    run.log.of(Kind::DataSent).filter(|e| e.t == t).count()
}

#[test]
fn rule_1_ssthresh_is_an_integer() {
    let ns2 = run("reno", &["14:1"], |_| {});
    assert_eq!(segments(&ns2, Kind::Ssthresh), [7.0]);
    assert!(segments(&ns2, Kind::Cwnd).windows(2).any(|w| w == [15.0, 7.5]));
    let exact = run("reno", &["14:1"], |p| p.integer_ssthresh = false);
    assert_eq!(segments(&exact, Kind::Ssthresh), [7.5]);
}

/// cwnd is 15 when segment 14 is lost.
#[test]
fn rule_1_in_old_versions_cwnd_is_truncated_to_whole_segments() {
    let after_loss = |change: fn(&mut Profile)| {
        let run = run("reno", &["14:1"], change);
        assert_eq!(segments(&run, Kind::Ssthresh), [7.0]);
        let cwnd = segments(&run, Kind::Cwnd);
        cwnd[cwnd.iter().position(|&w| w == 15.0).unwrap() + 1]
    };
    assert_eq!(after_loss(|_| {}), 7.5);
    assert_eq!(after_loss(|p| p.integer_window = true), 7.0);
    assert_eq!(
        after_loss(|p| *p = Profile { min_rto: p.min_rto, ..Profile::named(ProfileName::Ns226) }),
        7.0
    );
    assert_eq!(after_loss(|p| *p = Profile::named(ProfileName::Ns230)), 7.5);
}

/// Segment 146 is lost with a window of 20 and five segments in flight.
#[test]
fn rule_2_cwnd_is_halved_instead_of_the_flight_size() {
    let of = |halving| segments(&run("reno", &["146:1"], |p| p.halving = halving), Kind::Ssthresh);
    assert_eq!(of(HalvingBase::Window), [10.0]);
    assert_eq!(of(HalvingBase::FlightSize), [2.0]);
}

/// The receive window is 20 segments.
#[test]
fn rule_2_cwnd_grows_beyond_the_receive_window() {
    let largest = |grow| {
        let run = run("reno", &[], |p| p.grow_when_window_limited = grow);
        segments(&run, Kind::Cwnd).into_iter().fold(0.0, f64::max)
    };
    assert!(largest(true) > 24.0);
    assert!(largest(false) < 21.1, "at most one segment above the receive window");
}

#[test]
fn rule_3_the_ack_that_ends_recovery_opens_the_window() {
    let cwnd_at_the_end = |open| {
        let run = run("reno", &["14:1"], |p| p.exit_ack_opens_window = open);
        // Segment 14 was lost in a window of 15: the first ACK above 13 ends the recovery.
        let end = run.log.of(Kind::AckReceived).find(|e| e.segment().ack > 13_000).unwrap().t;
        run.log.of(Kind::Cwnd).find(|e| e.t == end).map(|e| e.value)
    };
    assert_eq!(cwnd_at_the_end(true), Some(7500.0 + 1e6 / 7500.0));
    assert_eq!(cwnd_at_the_end(false), None);
}

#[test]
fn rule_4_one_fast_retransmit_per_window() {
    assert_eq!(counts(&run("reno", &["14:1", "18:1"], |_| {})), (1, 1));
    assert_eq!(counts(&run("reno", &["14:1", "18:1"], |p| p.guard_after_rto = false)), (2, 0));
}

/// In ns-2 before 2.29 only a timeout guards Reno against a second fast retransmit. NewReno is not
/// affected.
#[test]
fn rule_4_in_old_versions_reno_may_halve_twice_in_one_window() {
    let old = |p: &mut Profile| p.reno_halves_again = true;
    assert_eq!(counts(&run("reno", &["14:1", "18:1"], old)), (2, 0));
    let drops = ["30:1", "31:1", "33:1", "35:1", "37:1"];
    let after_timeout = |change: fn(&mut Profile)| {
        let run = run("reno", &drops, change);
        let timeout = run.log.of(Kind::Timeout).next().unwrap().t;
        run.log.of(Kind::FastRetransmit).filter(|e| e.t > timeout).count()
    };
    assert_eq!(
        after_timeout(|p| (p.reno_halves_again, p.loss_window) = (true, Size::Segments(12.0))),
        0
    );
    let drops = ["60:1", "62:1", "64:1", "66:1", "68:1"];
    let newreno = |change: fn(&mut Profile)| {
        run("newreno", &drops, change)
            .log
            .of(Kind::DataSent)
            .map(|e| (e.t, e.number()))
            .collect::<Vec<_>>()
    };
    assert_eq!(newreno(|_| {}), newreno(old));
}

/// Before 2.30 the guard held from the start: a lost first data segment is retransmitted by the
/// timer.
#[test]
fn rule_4_in_old_versions_the_first_segment_waits_for_the_timer() {
    for scheme in ["reno", "newreno", "tahoe", "sack"] {
        let of = |guarded| {
            counts(&run(scheme, &["1:1"], |p| {
                (p.guard_first_segment, p.limited_transmit, p.initial_window) =
                    (guarded, true, Size::Segments(4.0));
            }))
        };
        assert_eq!((of(false), of(true)), ((1, 0), (0, 1)), "{scheme}");
    }
}

/// Segments 60 and 70 are lost in a full window. Duplicate ACKs inflate cwnd up to the receive
/// window; the partial ACK then advances it by ten segments.
#[test]
fn rule_5_newreno_sends_two_segments_for_an_ack_in_recovery() {
    let after_partial = |change: fn(&mut Profile)| {
        let run = run("newreno", &["60:1", "70:1"], change);
        let partial = run.log.of(Kind::AckReceived).find(|e| e.segment().ack == 69_000).unwrap().t;
        burst(&run, partial)
    };
    // One of them is the retransmission of segment 70.
    assert_eq!(after_partial(|_| {}), 1 + 2);
    assert!(after_partial(|p| p.recovery_burst = 0) > 1 + 4);
}

#[test]
fn rule_5_a_partial_ack_deflates_the_window() {
    let after_partial = |deflate| {
        let run = run("newreno", &["60:1", "70:1"], |p| {
            (p.recovery_burst, p.partial_window_deflation) = (0, deflate)
        });
        let partial = run.log.of(Kind::AckReceived).find(|e| e.segment().ack == 69_000).unwrap().t;
        burst(&run, partial)
    };
    // Without RFC 6582's rule the inflation is removed completely, and only segment 70 fits.
    assert_eq!(after_partial(false), 1);
    assert!(after_partial(true) > 4);
}

#[test]
fn rule_5_cwnd_is_not_set_at_the_end_of_recovery() {
    let at_the_end = |sets| {
        let run = run("newreno", &["145:1"], |p| {
            (p.exit_sets_cwnd, p.exit_ack_opens_window) = (sets, false)
        });
        *segments(&run, Kind::Cwnd).last().unwrap()
    };
    assert_eq!((at_the_end(false), at_the_end(true)), (10.0, 2.0));
}

/// Eight losses: seven partial ACKs, 0.11 s apart.
#[test]
fn rule_5_only_the_first_partial_ack_restarts_the_timer() {
    let drops: Vec<String> = (60..68).map(|n| format!("{n}:1")).collect();
    let drops: Vec<&str> = drops.iter().map(String::as_str).collect();
    let timeouts = |timer| {
        counts(&run("newreno", &drops, |p| (p.newreno_timer, p.min_rto) = (timer, ms(500)))).1
    };
    assert_eq!((timeouts(NewRenoTimer::Impatient), timeouts(NewRenoTimer::SlowButSteady)), (1, 0));
}

/// The only segment is lost; the round-trip time of the SYN was 100.704 ms.
#[test]
fn rule_8_the_timer_counts_in_ticks() {
    let rto = |clock| {
        let run = run_flow(ns2("reno", 1), &["1:1"], |p| (p.clock, p.min_rto) = (clock, ms(10)));
        ((run.log.sending(1, 2) - run.log.sending(1, 1)) * 1e9).round() as u64
    };
    // srtt + 4 × srtt / 2
    assert_eq!(rto(ClockKind::Rfc), 3 * 100_704_000);
    // 10 or 11 ticks, depending on the phase of the clock
    let ticks = rto(ClockKind::Ns2Ticks);
    assert!(ticks == 300_000_000 || ticks == 330_000_000, "{ticks}");
}

/// Segment 14 and its fast retransmit are lost: the timer is restarted at the fast retransmit.
#[test]
fn rule_9_the_timer_restarts_at_a_fast_retransmit() {
    let run = run("reno", &["14:1", "14:2"], |_| {});
    assert!(close(run.log.sending(14, 2), 0.55536), "{}", run.log.sending(14, 2));
    assert!(close(run.log.sending(14, 3), 1.55536), "{}", run.log.sending(14, 3));
}

/// Segments 148 and 149 are lost, 150 is not, and there are too few duplicate ACKs.
#[test]
fn rule_10_after_a_timeout_cwnd_is_one_and_all_segments_are_retransmitted() {
    let at_timeout = |segments| {
        let run = run("reno", &["148:1", "149:1"], |p| p.loss_window = Size::Segments(segments));
        assert_eq!(counts(&run), (0, 1));
        let t = run.log.of(Kind::Timeout).next().unwrap().t;
        run.log.of(Kind::DataSent).filter(|e| e.t == t).map(Seen::number).collect::<Vec<_>>()
    };
    assert_eq!(at_timeout(1.0), [148]);
    assert_eq!(at_timeout(2.0), [148, 149]);
    assert_eq!(
        at_timeout(3.0),
        [148, 149, 150],
        "150 has arrived and is retransmitted all the same"
    );
}

/// After the timeout segments are retransmitted that had arrived; their duplicate ACKs do not
/// indicate losses.
#[test]
fn rule_11_no_fast_retransmit_before_recovery_from_the_timeout_ends() {
    let drops = ["30:1", "31:1", "33:1", "35:1", "37:1"];
    let after_timeout = |change: fn(&mut Profile)| {
        let run = run("reno", &drops, change);
        let timeout = run.log.of(Kind::Timeout).next().unwrap().t;
        run.log.of(Kind::FastRetransmit).filter(|e| e.t > timeout).count()
    };
    assert_eq!(after_timeout(|_| {}), 0);
    assert!(
        after_timeout(|p| (p.guard_after_rto, p.loss_window) = (false, Size::Segments(12.0))) > 0
    );
    assert_eq!(
        after_timeout(|p| p.loss_window = Size::Segments(12.0)),
        0,
        "only the guard makes the difference"
    );
}

/// ns-2 before 2.27: duplicate ACKs inflate the window even where the guard prevents a fast
/// retransmit.
#[test]
fn rule_11_in_old_versions_guarded_duplicate_acks_inflate_cwnd() {
    let sent_until_timeout = |inflate| {
        let run = run("reno", &["60:1", "75:1"], |p| p.inflate_when_blocked = inflate);
        let timeout = run.log.of(Kind::Timeout).next().unwrap().t;
        run.log.of(Kind::DataSent).filter(|e| e.t < timeout).count()
    };
    assert!(sent_until_timeout(true) > sent_until_timeout(false));
}

#[test]
fn rule_12_the_timer_of_an_idle_connection_runs_on() {
    // Pages with long pauses between them.
    let at_the_end_of_pauses = |idle| {
        let mut flow = ns2("reno", 0);
        flow.app = App::Web(Web {
            mean_size: Size::Bytes(100_000),
            shape: 8.0,
            mean_pause: Duration::secs(20),
        });
        flow.profile.idle_restart = idle;
        let run = watch(&last_hop(vec![flow], Duration::secs(100)), 1);
        assert_eq!(
            (run.result.flows[0].timeouts.total, run.result.flows[0].cwnd_reductions),
            (0, 0),
            "not counted as a loss"
        );
        let cwnd: Vec<&Seen> = run.log.of(Kind::Cwnd).collect();
        let pauses = cwnd.windows(2).filter(|w| w[1].t - w[0].t > 2_000_000_000);
        pauses.map(|w| w[0].value / 1000.0).collect::<Vec<_>>()
    };
    let (timer, off) =
        (at_the_end_of_pauses(IdleRestart::Timer), at_the_end_of_pauses(IdleRestart::Off));
    assert!(timer.len() >= 2 && timer.iter().all(|&c| c == 1.0), "{timer:?}");
    assert!(off.len() >= 2 && off.iter().all(|&c| c > 10.0), "{off:?}");
}

/// The threshold is 12 duplicate ACKs.
#[test]
fn rule_13_limited_transmit_continues_up_to_the_threshold() {
    let sent = |rule| {
        let mut flow = ns2("reno", 150);
        flow.receive_window = Size::Segments(60.0);
        let run = run_flow(flow, &["60:1"], |p| {
            (p.limited_transmit, p.limited_transmit_rule, p.dupack_threshold) = (true, rule, 12);
            p.initial_ssthresh = InitialSsthresh::Size(Size::Segments(16.0));
        });
        let acks: Vec<u64> = run
            .log
            .of(Kind::AckReceived)
            .filter(|e| e.segment().ack == 59_000)
            .map(|e| e.t)
            .collect();
        run.log
            .of(Kind::DataSent)
            .filter(|e| e.reason == "new" && e.t > acks[0] && e.t <= acks[11])
            .count()
    };
    assert_eq!(sent(LimitedTransmitRule::BelowThreshold), 11);
    assert_eq!(sent(LimitedTransmitRule::Rfc3042), 2);
}

/// The ACK of the only segment is lost, so that the segment is retransmitted.
#[test]
fn rule_16_the_ack_of_a_duplicate_of_the_highest_segment_may_be_delayed() {
    let waited = |rule| {
        let mut flow = ns2("reno", 1);
        (flow.profile.delayed_ack, flow.profile.delayed_ack_rule) =
            (DelayedAck::AtMost(ms(100)), rule);
        let mut network = last_hop(vec![flow], Duration::secs(100));
        network.links[UP].loss = lose(&[], &[2]);
        let run = watch(&network, 1);
        let arrival = run.log.of(Kind::DataReceived).filter(|e| e.number() == 1).nth(1).unwrap().t;
        run.log.of(Kind::AckSent).find(|e| e.t >= arrival).unwrap().t - arrival
    };
    assert_eq!(waited(DelayedAckRule::HighestInOrder), 100_000_000);
    assert_eq!(waited(DelayedAckRule::Rfc5681), 0);
}

/// Two sources send at the same instants: the first one is always served first and gets the only
/// place in the queue.
#[test]
fn rule_18_events_of_one_instant_are_served_in_their_order() {
    let source = |name: &str| Flow {
        name: name.into(),
        to: 1,
        ..flow("reno", ProfileName::Ns235, App::Cbr(Cbr { rate: Rate(8_000_000) }))
    };
    let mut network = last_hop(vec![source("flow 1"), source("flow 2")], ms(100));
    network.links[0].rate = mbps(10.0);
    network.links[0].queue = packets(0);
    let run = watch(&network, 1);
    let order: Vec<u32> = run.log.of(Kind::Enqueued).map(|e| e.flow).collect();
    assert!(order.len() >= 200 && order.chunks(2).all(|c| c == [0, 1]));
    assert!(
        run.log.of(Kind::DroppedAtQueue).count() >= 99
            && run.log.of(Kind::DroppedAtQueue).all(|e| e.flow == 1)
    );
}

#[test]
fn rule_19_a_lost_syn_sets_ssthresh_to_two() {
    let ssthresh = |cuts| {
        segments(&run("reno", &["0:1"], |p| p.syn_loss_cuts_ssthresh = cuts), Kind::Ssthresh)
    };
    assert_eq!(ssthresh(true), [2.0]);
    assert!(ssthresh(false).is_empty());
    let time = |cuts| {
        run("reno", &["0:1"], |p| p.syn_loss_cuts_ssthresh = cuts).result.flows[0].completed_s
    };
    assert!(time(true) > time(false), "cwnd grows as in congestion avoidance");
}

/// cwnd 15, then 7.5, then ssthresh 3.
#[test]
fn rule_20_a_timeout_in_recovery_halves_ssthresh_once_more() {
    let of = |halving| {
        segments(&run("reno", &["14:1", "14:2"], |p| p.halving = halving), Kind::Ssthresh)
    };
    assert_eq!(of(HalvingBase::Window), [7.0, 3.0]);
    let flight = of(HalvingBase::FlightSize);
    assert!(flight[0] == 7.0 && flight[1] >= 7.0, "the flight size has not decreased: {flight:?}");
}
