//! The rules of Linux one by one, as in `tcp_bbr.c` of google/bbr, branch v3.

use super::tests::{sample, see, steady};
use super::*;
use crate::bbr::model::path::Path;
use crate::testing::harness::{MSS, ack, loss, timeout, window};
use lasthop_tcp::profile::CubicForm;

/// A rule of Linux in Cruise over 100 kB/s and 100 ms: the BDP is ten segments.
fn linux() -> (Bbr3Window, Window) {
    let (mut r, w) = steady();
    r.rules = Rules::Linux;
    r.bounds.follow(Rules::Linux, MSS);
    (r, w)
}

fn lost(tx_in_flight: u64, lost: u64) -> Lost {
    Lost {
        now: Time(1),
        seq: 0,
        bytes: 1000,
        tx_in_flight,
        lost,
        delivered: 100_000,
        app_limited: false,
    }
}

#[test]
fn the_profile_chooses_the_rules_unless_the_setting_does() {
    let followed = |rules, profile| {
        let (mut r, mut w) =
            (Bbr3Window::new(&Bbr3 { rules, ..Bbr3::default() }), window(10.0, f64::INFINITY));
        let start = Start {
            accurate_ecn: false,
            now: Time::ZERO,
            flow: 0,
            draw: 0,
            mss: 1000,
            rtt: Some(Duration::millis(100)),
            sack: true,
            receive_window: 1 << 20,
            profile,
            cubic: CubicForm::Rfc9438,
        };
        r.on_established(&mut w, &start);
        r.rules
    };
    assert_eq!(
        (followed(None, ProfileName::Linux), followed(None, ProfileName::Rfc)),
        (Rules::Linux, Rules::Draft)
    );
    assert_eq!(followed(None, ProfileName::Ns235), Rules::Draft);
    assert_eq!(followed(Some(Rules::Draft), ProfileName::Linux), Rules::Draft);
    assert_eq!(followed(Some(Rules::Linux), ProfileName::Rfc), Rules::Linux);
}

/// Two segments at 100 kB/s (the arithmetic is tested in `tcp/offload.rs`).
#[test]
fn bursts_are_two_segments_at_least() {
    let (r, _) = linux();
    assert_eq!((r.burst(), steady().0.burst()), (Some(2000), None));
}

/// 5/256 of 51 segments is less than one segment, of 52 more; of 102 and 103 likewise two.
#[test]
fn too_much_is_more_than_five_256ths_in_whole_segments() {
    let (r, _) = linux();
    assert!(r.bounds.too_high(1000, 51_000) && !r.bounds.too_high(1000, 52_000));
    assert!(r.bounds.too_high(2000, 102_000) && !r.bounds.too_high(2000, 103_000));
    assert!(!r.bounds.too_high(0, 10_000) && !r.bounds.too_high(1000, 0));
}

/// Of 99 segments before it two may be lost. As the second loss it reaches that: 1 · 256/251 more;
/// as the third nothing is left.
#[test]
fn losses_before_the_threshold_take_nothing_off() {
    let (r, _) = linux();
    assert_eq!(
        [1, 2, 3, 10].map(|n| r.bounds.inflight_at(&lost(100_000, 1000 * n))),
        [101_000.0, 100_000.0, 99_000.0, 99_000.0]
    );
}

/// Nine segments were in flight when the delivered one was sent, and one of them is lost.
#[test]
fn a_delivered_segment_ends_a_probe_too() {
    let (mut r, mut w) = linux();
    (r.mode, r.probe_samples, r.bounds.inflight_hi) = (Mode::Up, true, 12_000.0);
    r.prior_in_flight = 11_000;
    see(&mut r, &mut w, 1, 1000, 9000);
    assert_eq!((r.mode, r.bounds.inflight_hi, r.prev_probe_too_high), (Mode::Down, 9000.0, true));
    see(&mut r, &mut w, 2, 1000, 8000);
    assert_eq!(r.bounds.inflight_hi, 9000.0, "one answer for a probe");
}

/// A rate of 130 kB/s in the middle of the round; at its end it is 100 kB/s again.
#[test]
fn growth_is_looked_for_with_each_ack() {
    let grown = |(mut r, mut w): (Bbr3Window, Window)| {
        (r.mode, r.bounds.inflight_hi) = (Mode::Up, 1e6);
        r.full.restart(100_000.0);
        r.rounds.restart(r.delivered + 1000);
        let mut fast = sample(&r, 0, 10_000);
        fast.rate = 130_000.0;
        r.on_any_ack(
            &mut w,
            &Ack { now: Time(1), flight: 9000, prior_flight: 10_000, rate: Some(fast), ..ack() },
        );
        (0..3).for_each(|_| r.full.check(110_000.0));
        r.full.now
    };
    assert!(grown(linux()) && grown(steady()));
    let after = |(mut r, mut w): (Bbr3Window, Window)| {
        r.mode = Mode::Up;
        r.full.restart(100_000.0);
        (0..2).for_each(|_| r.full.check(100_000.0));
        r.rounds.restart(r.delivered + 1000);
        let mut fast = sample(&r, 0, 10_000);
        fast.rate = 130_000.0;
        r.on_any_ack(
            &mut w,
            &Ack { now: Time(1), flight: 9000, prior_flight: 10_000, rate: Some(fast), ..ack() },
        );
        r.full.check(100_000.0);
        r.full.now
    };
    assert!(
        !after(linux()) && after(steady()),
        "two rounds without growth, an ACK with it, a round without"
    );
}

/// The BDP is ten segments, and so far only a quarter of a round has passed.
#[test]
fn drain_ends_by_what_is_in_flight_alone() {
    let (mut r, mut w) = linux();
    (r.mode, r.drain_round, r.rounds.count) = (Mode::Drain, 0, 9);
    r.in_flight = 11_000;
    see(&mut r, &mut w, 1, 0, 11_000);
    assert_eq!(r.mode, Mode::Drain);
    r.in_flight = 10_000;
    see(&mut r, &mut w, 2, 0, 10_000);
    assert_ne!(r.mode, Mode::Drain);
}

/// ACKs with losses, the event that begins the episode, what finds the losses, and whether the last
/// ACK ends the episode.
#[derive(Clone, Copy, Debug)]
struct Startup {
    acks: u32,
    timed_out: bool,
    by_timer: bool,
    ends: bool,
}

/// Six ACKs with losses in one round of recovery, and more than 5/256.
#[test]
fn startup_ends_when_six_acks_have_reported_losses() {
    let run = |Startup { acks, timed_out, by_timer, ends }| {
        let (mut r, mut w) = linux();
        (r.mode, r.full) = (Mode::Startup, FullPipe::default());
        r.on_loss(
            &mut w,
            &Loss { snd_max: 1_000_000, ..if timed_out { timeout(10) } else { loss(10) } },
        );
        for n in 0..=acks {
            let now = Time(1 + u64::from(n));
            if n < acks {
                let at = if by_timer { Time(now.0 - 1) } else { now };
                r.on_lost(&mut w, &Lost { now: at, ..lost(50_000, 1000) });
            }
            let mut s = sample(&r, 3000, 50_000);
            s.rate = 1e5 * 2.0f64.powi(n as i32);
            s.prior_delivered = if n == acks { r.delivered } else { 0 };
            let snd_una = if n == acks && ends { 1_000_000 } else { 0 };
            let (flight, rate) = (50_000, Some(s));
            r.on_any_ack(&mut w, &Ack { now, flight, rate, snd_una, ..ack() });
        }
        (r.mode != Mode::Startup, r.full.ever)
    };
    let usual = Startup { acks: 6, timed_out: false, by_timer: false, ends: false };
    assert_eq!(run(usual), (true, true));
    for other in [
        Startup { acks: 5, ..usual },
        Startup { timed_out: true, ..usual },
        Startup { by_timer: true, ..usual },
        Startup { ends: true, ..usual },
    ] {
        assert_eq!(run(other), (false, false), "{other:?}");
    }
}

/// The window of twenty before the timeout comes back as recovery begins, and is what that saves.
#[test]
fn a_recovery_after_a_timeout_begins_with_the_window_before_it() {
    let (mut r, mut w) = linux();
    r.on_loss(&mut w, &Loss { snd_max: 150_000, ..timeout(10) });
    w.cwnd = 3.0 * MSS;
    r.on_loss(&mut w, &Loss { now: Time(2), snd_max: 160_000, ..loss(10) });
    assert_eq!((w.cwnd, r.prior_cwnd, r.linux.timed_out), (20.0 * MSS, 20.0 * MSS, false));
}

/// Without the route's permission no mark counts.
#[test]
fn a_congestion_mark_is_ignored() {
    let marked = |(mut r, mut w): (Bbr3Window, Window)| {
        r.on_loss(&mut w, &Loss { kind: LossKind::Ecn, ..loss(10) });
        r.bounds.loss_in_round
    };
    assert_eq!((marked(linux()), marked(steady())), (false, true));
}

/// Of 11 segments 0.703 are 7.7, 15 % of them 1.6.
#[test]
fn reductions_are_in_whole_segments() {
    let (mut r, _) = linux();
    (r.bounds.inflight_lo, r.bounds.inflight_hi) = (11_000.0, 11_000.0);
    r.bounds.adapt_lower_bounds(100_000.0, 20_000.0);
    assert_eq!(r.bounds.inflight_lo, 7000.0);
    assert_eq!(r.bounds.with_headroom(MSS, 4000.0), 10_000.0);
    r.bounds.cut(1000.0, 11_000.0);
    assert_eq!(r.bounds.inflight_hi, 7000.0);
}

/// The ACK delivers one segment. After the timeout the short-term bound is the window of twenty
/// before it.
#[test]
fn recovery_gives_no_window_back_and_a_timeout_does() {
    let after = |loss: Loss| {
        let (mut r, mut w) = linux();
        r.excess = WindowedMax::default();
        r.on_loss(&mut w, &Loss { snd_max: 150_000, ..loss });
        w.cwnd = 8.0 * MSS;
        r.on_any_ack(&mut w, &Ack { now: Time(1), flight: 9000, snd_una: 150_000, ..ack() });
        w.cwnd
    };
    assert_eq!((after(loss(10)), after(timeout(10))), (9.0 * MSS, 20.0 * MSS));
}

/// cwnd is one segment after the timeout; the bound starts from the twenty before it.
#[test]
fn a_timeout_bounds_by_the_window_before_it() {
    let (mut r, mut w) = linux();
    r.in_flight = 0;
    r.on_loss(&mut w, &Loss { snd_max: 150_000, ..timeout(10) });
    assert_eq!((w.cwnd, r.bounds.inflight_lo), (MSS, 20.0 * MSS));
    let (mut r, mut w) = linux();
    r.mode = Mode::Up;
    r.on_loss(&mut w, &Loss { snd_max: 150_000, ..timeout(10) });
    assert!(r.bounds.inflight_lo.is_infinite(), "not while it probes");
}

/// The episode begins without a segment marked lost: a tail loss probe has repaired it. Ten were
/// delivered in the round.
#[test]
fn a_loss_repaired_by_a_tail_loss_probe_counts_as_one_segment() {
    let (mut r, mut w) = linux();
    see(&mut r, &mut w, 1, 0, 10_000);
    (r.mode, r.probe_samples) = (Mode::Up, true);
    r.on_loss(&mut w, &Loss { snd_max: 150_000, ..loss(10) });
    assert_eq!((r.mode, r.bounds.inflight_hi), (Mode::Down, 11_000.0));
}

#[test]
fn cruise_bounds_the_short_term_by_the_long_term() {
    let (mut r, mut w) = linux();
    (r.mode, r.bounds.inflight_lo, r.bounds.inflight_hi) = (Mode::Down, 20_000.0, 12_000.0);
    (r.in_flight, r.prior_in_flight) = (5000, 6000);
    see(&mut r, &mut w, 1, 0, 6000);
    assert_eq!((r.mode, r.bounds.inflight_lo), (Mode::Cruise, 12_000.0));
}

/// 100 ms at 100 kB/s are 10 kB.
#[test]
fn aggregation_adds_at_most_what_100_ms_take() {
    let (mut r, _) = linux();
    r.linux.extra_acked.add(30_000.0, true, 5);
    assert_eq!(r.set_cwnd(90_000.0, 1000.0), 30_000.0);
}

/// A window lasts five rounds, and the maximum covers the one before it too.
#[test]
fn aggregation_is_forgotten_after_five_to_ten_rounds() {
    let lasts = |window, waited| {
        let mut extra = rules::ExtraAcked::default();
        (0..waited).for_each(|_| extra.add(0.0, true, window));
        extra.add(3000.0, false, window);
        (0..20).find(|_| {
            extra.add(0.0, true, window);
            extra.get() == 0.0
        })
    };
    assert_eq!([lasts(5, 0), lasts(5, 4), lasts(1, 0)], [Some(9), Some(5), Some(1)]);
}

/// The lost segment ends the probe, which forgets the losses of its round; the ACK that reports it
/// marks the round in which Down begins.
#[test]
fn the_ack_that_ends_a_probe_by_loss_marks_the_next_round() {
    let (mut r, mut w) = linux();
    (r.mode, r.probe_samples) = (Mode::Up, true);
    r.on_lost(&mut w, &lost(9000, 1000));
    assert_eq!((r.mode, r.bounds.loss_in_round), (Mode::Down, false));
    let rate = Some(RateSample { newly_lost: 1000, ..sample(&r, 0, 9000) });
    r.on_any_ack(&mut w, &Ack { now: Time(1), flight: 9000, rate, ..ack() });
    assert!(r.bounds.loss_in_round);
}

/// The last ProbeRTT was five seconds ago, and this ACK has the smallest round-trip time again.
#[test]
fn an_equal_round_trip_time_renews_the_smallest() {
    let renewed = |(mut r, mut w): (Bbr3Window, Window)| {
        see(&mut r, &mut w, 5001, 0, 9000);
        (r.mode, r.min_rtt_at)
    };
    assert_eq!(renewed(linux()), (Mode::ProbeRtt, Time(5_001_000_000)));
    assert_eq!(renewed(steady()), (Mode::ProbeRtt, Time::ZERO));
}

/// cwnd was 30 segments before the last loss and is 20 now.
#[test]
fn probe_rtt_keeps_a_larger_window_of_before() {
    let saved = |(mut r, mut w): (Bbr3Window, Window)| {
        r.prior_cwnd = 30_000.0;
        see(&mut r, &mut w, 5001, 0, 9000);
        (r.mode, r.prior_cwnd)
    };
    assert_eq!(saved(linux()), (Mode::ProbeRtt, 30_000.0));
    assert_eq!(saved(steady()), (Mode::ProbeRtt, 20_000.0));
}

/// The window is 20 segments as recovery begins and 8 at the timeout.
#[test]
fn a_timeout_within_a_recovery_saves_nothing() {
    let saved = |(mut r, mut w): (Bbr3Window, Window)| {
        r.on_loss(&mut w, &Loss { snd_max: 150_000, ..loss(10) });
        (r.bounds.inflight_hi, w.cwnd) = (12_000.0, 30_000.0);
        r.on_loss(&mut w, &Loss { snd_max: 150_000, ..timeout(10) });
        r.prior_cwnd
    };
    assert_eq!((saved(linux()), saved(steady())), (20_000.0, 30_000.0));
}

/// 9 in flight before the ACK, two more leave with the burst: eleven, less what is delivered until
/// then.
#[test]
fn up_ends_when_the_next_burst_would_reach_the_bound() {
    let (mut r, _) = linux();
    r.mode = Mode::Up;
    let now = Time(1_000_000);
    assert_eq!(linux::in_net_at_departure(&r, 9000, now), 11_000.0);
    r.linux.departure.set(now + Duration::millis(10));
    assert_eq!(linux::in_net_at_departure(&r, 9000, now), 10_000.0);
    r.mode = Mode::Down;
    assert_eq!(linux::in_net_at_departure(&r, 9000, now), 8000.0);
}

/// The BDP is two segments, and three bursts of two are six: the next probe starts after six
/// rounds.
#[test]
fn a_pipe_of_less_than_three_bursts_is_probed_less_often() {
    let rounds = |mut r: Bbr3Window| {
        r.bw = 20_000.0;
        (0..20).find(|n| {
            r.rounds_since_probe = *n;
            cycle::time_to_probe(&r, Time(1), 20_000.0)
        })
    };
    assert_eq!((rounds(linux().0), rounds(steady().0)), (Some(6), Some(2)));
}

/// The first lost segment ends the probe and sets the long-term bound, to nine segments, before the
/// state is saved.
/// What follows in the episode is undone.
#[test]
fn a_spurious_loss_gives_back_what_was_when_its_recovery_began() {
    let (mut r, mut w) = linux();
    (r.mode, r.probe_samples) = (Mode::Up, true);
    r.on_lost(&mut w, &lost(9000, 1000));
    r.on_loss(&mut w, &Loss { snd_max: 200_000, ..timeout(10) });
    (w.cwnd, r.bounds.inflight_hi, r.bounds.bw_lo) = (25_000.0, 5000.0, 50_000.0);
    r.on_undo(&mut w, &window(20.0, f64::INFINITY), Time(2));
    assert_eq!((w.cwnd, r.mode), (20.0 * MSS, Mode::Down), "not the 25 of now");
    assert_eq!((r.bounds.inflight_hi, r.bounds.bw_lo), (9000.0, f64::INFINITY));
}

/// The sender fills a lossless path of 25 segments; 10 % loss sets the long-term bound.
#[test]
fn a_path_is_filled() {
    let rule = || Bbr3Window::new(&Bbr3 { rules: Some(Rules::Linux), ..Bbr3::default() });
    let mut p = Path::new(rule(), 0, 250_000.0, 100);
    p.until(20.0, |_| false);
    assert!(
        p.rule.delivered as f64 > 0.9 * 20.0 * 250_000.0 && p.rule.bounds.inflight_hi.is_infinite(),
        "{}",
        p.rule.delivered
    );
    p.lose_every = 10;
    p.until(20.0, |_| false);
    assert!(p.rule.bounds.inflight_hi.is_finite());
}
