//! BBR version 3 over the minimal path of `bbr/model.rs`, and its rules one by one.

use super::*;
use crate::bbr::model::path::Path;
use crate::testing::harness::{MSS, ack, loss, start, timeout, window};
use proptest::prelude::*;

/// 250 kB/s and 100 ms: 25 segments.
fn path(flow: u32) -> Path<Bbr3Window> {
    Path::new(Bbr3Window::new(&Bbr3::default()), flow, 250_000.0, 100)
}

/// The states during the next `secs` seconds, each with the time (s) of its start.
fn modes(p: &mut Path<Bbr3Window>, secs: f64) -> Vec<(Mode, f64)> {
    p.changes(secs, |rule| rule.mode)
}

#[test]
fn startup_drain_and_the_four_phases_of_probing_follow_each_other() {
    let mut p = path(0);
    let seen = modes(&mut p, 4.9);
    let names: Vec<Mode> = seen.iter().map(|s| s.0).collect();
    // The first Down ends with the ACK that begins it, because Drain has left no queue.
    assert_eq!(
        names[..7],
        [
            Mode::Startup,
            Mode::Drain,
            Mode::Cruise,
            Mode::Refill,
            Mode::Up,
            Mode::Down,
            Mode::Cruise
        ],
        "{seen:?}"
    );
    assert!((p.rule.bw / 250_000.0 - 1.0).abs() < 0.02, "{}", p.rule.bw);
    // The interval of Reno is 25 rounds of 104 ms; the limit of two to three seconds is reached
    // before.
    let took: Vec<f64> = seen.windows(2).map(|s| s[1].1 - s[0].1).collect();
    assert!((2.0..3.1).contains(&took[2]), "{seen:?}");
    assert!((0.1..0.15).contains(&took[3]), "Refill, one round: {seen:?}");
    assert!((0.3..0.6).contains(&took[4]), "Up, three rounds without growth: {seen:?}");
    assert!((0.5..1.2).contains(&took[5]), "Down, at 10 % below the rate: {seen:?}");
}

#[test]
fn every_five_seconds_half_a_pipe_shows_the_round_trip_time() {
    let mut p = path(0);
    let seen = modes(&mut p, 12.0);
    let at = seen.iter().position(|s| s.0 == Mode::ProbeRtt).unwrap();
    assert!((5.0..5.2).contains(&seen[at].1), "{:?}", seen[at]);
    assert!((0.2..0.6).contains(&(seen[at + 1].1 - seen[at].1)), "{seen:?}");
    assert_eq!(seen[at + 1].0, Mode::Cruise);
    let again = seen[at + 1..].iter().find(|s| s.0 == Mode::ProbeRtt).unwrap();
    assert!((5.0..5.2).contains(&(again.1 - seen[at + 1].1)), "{seen:?}");
    let mut p = path(0);
    assert!(p.until(6.0, |p| p.rule.mode == Mode::ProbeRtt && p.in_flight() <= 13.0 * MSS));
    assert!((12.0..=13.5).contains(&(p.w.cwnd / MSS)), "half of 25: {:?}", p.w);
}

#[test]
fn waits_differ_between_flows_and_not_between_runs() {
    let wait = |flow| {
        let mut p = path(flow);
        p.until(3.0, |p| p.rule.mode == Mode::Cruise);
        p.rule.probe_wait
    };
    assert_eq!(wait(1), wait(1));
    assert_ne!(wait(1), wait(2));
    assert!((0..20).map(wait).all(|w| (Duration::secs(2)..Duration::secs(3)).contains(&w)));
}

/// 1 % loss is below the threshold. 10 % is above: the rate falls to what is delivered, and probes
/// end early. The BDP is 250 segments; of 25 a single one would be 4 %.
#[test]
fn two_per_cent_is_where_loss_begins_to_matter() {
    let run = |lose_every| {
        let mut p = Path::new(Bbr3Window::new(&Bbr3::default()), 0, 2_500_000.0, 100);
        p.until(3.0, |_| false);
        p.lose_every = lose_every;
        let from = p.rule.delivered;
        p.until(20.0, |_| false);
        (
            (p.rule.delivered - from) as f64 / (20.0 * 2_500_000.0),
            p.rule.bounds.inflight_hi.is_finite(),
        )
    };
    let (few, many) = (run(100), run(10));
    assert!(few.0 > 0.85, "{few:?}");
    assert!(many.0 < 0.8 && many.1, "{many:?}");
}

/// A rule in Cruise over 100 kB/s and 100 ms: the BDP is ten segments.
pub(super) fn steady() -> (Bbr3Window, Window) {
    let (mut r, mut w) = (Bbr3Window::new(&Bbr3::default()), window(20.0, f64::INFINITY));
    r.on_established(&mut w, &start());
    (r.mode, r.full.ever, r.delivered, r.in_flight) = (Mode::Cruise, true, 100_000, 10_000);
    (r.max_bw, r.bw, r.probe_wait) = ([100_000.0; 2], 100_000.0, Duration::secs(2));
    (r, w)
}

pub(super) fn sample(r: &Bbr3Window, lost: u64, tx_in_flight: u64) -> RateSample {
    RateSample {
        rate: 100_000.0,
        delivered: 10_000,
        interval: Duration::millis(100),
        prior_delivered: r.delivered - 9000,
        total_delivered: r.delivered + 1000,
        app_limited: false,
        tx_in_flight,
        rtt: Some(Duration::millis(100)),
        lost,
        newly_lost: 0,
    }
}

pub(super) fn see(r: &mut Bbr3Window, w: &mut Window, ms: u64, lost: u64, tx_in_flight: u64) {
    let rate = Some(sample(r, lost, tx_in_flight));
    let flight = r.in_flight;
    let prior_flight = r.prior_in_flight;
    r.on_any_ack(w, &Ack { now: Time(ms * 1_000_000), flight, prior_flight, rate, ..ack() });
}

/// Gains of the phases (draft, summary of control behaviour), and the margin of 1 %.
#[test]
fn the_gains() {
    let (mut r, _) = steady();
    let mut gains = |mode| {
        r.mode = mode;
        (r.pacing_gain(), r.cwnd_gain())
    };
    assert_eq!(gains(Mode::Startup), (2.77, 2.0));
    assert_eq!(gains(Mode::Drain), (0.35, 2.0));
    assert_eq!(
        (gains(Mode::Down), gains(Mode::Cruise), gains(Mode::Refill)),
        ((0.9, 2.0), (1.0, 2.0), (1.0, 2.0))
    );
    assert_eq!((gains(Mode::Up), gains(Mode::ProbeRtt)), ((1.25, 2.25), (1.0, 0.5)));
    let (mut r, mut w) = steady();
    see(&mut r, &mut w, 1, 0, 10_000);
    assert_eq!(r.pacing(), Some(Rate(792_000)));
    assert_eq!(
        w.cwnd,
        21.0 * MSS,
        "two pipes, and the segment by which an ACK is ahead of the rate"
    );
}

/// Ten segments in flight when it was sent, one lost: 10 %. The bound becomes 70 % of the BDP, of
/// which 15 % are left to other flows.
#[test]
fn a_probe_that_loses_too_much_sets_the_long_term_bound_and_ends() {
    let (mut r, mut w) = steady();
    (r.mode, r.probe_samples) = (Mode::Up, true);
    let lost = Lost {
        now: Time(1),
        seq: 0,
        bytes: 1000,
        tx_in_flight: 3000,
        lost: 1000,
        delivered: 100_000,
        app_limited: false,
    };
    r.on_lost(&mut w, &lost);
    assert_eq!((r.mode, r.bounds.inflight_hi), (Mode::Down, 7000.0));
    r.on_lost(&mut w, &Lost { tx_in_flight: 9000, ..lost });
    assert_eq!(r.bounds.inflight_hi, 7000.0, "one answer for a probe");
    // 7000 less 15 % is 5950.
    r.mode = Mode::Cruise;
    see(&mut r, &mut w, 1, 0, 5000);
    assert_eq!(w.cwnd, 5950.0);
}

/// No further segment fits below a bound of 10.5 once ten are in flight.
#[test]
fn after_a_probe_that_lost_too_much_the_next_one_stops_at_the_bound() {
    let (mut r, mut w) = steady();
    (r.mode, r.prev_probe_too_high, r.bounds.inflight_hi) = (Mode::Up, true, 10_500.0);
    r.prior_in_flight = 9000;
    see(&mut r, &mut w, 1, 0, 9000);
    assert_eq!(r.mode, Mode::Up);
    r.prior_in_flight = 10_000;
    see(&mut r, &mut w, 1, 0, 10_000);
    assert_ne!(r.mode, Mode::Up);
    assert!(r.prev_probe_precautionary && !r.prev_probe_too_high);
    // A round of ACKs with the loss below the threshold: the next probe follows at once.
    let mut safe = sample(&r, 0, 10_000);
    safe.prior_delivered = r.delivered;
    let last = Ack { now: Time(2), flight: 9000, rate: Some(safe), ..ack() };
    let mut lossy = r.clone();
    lossy.probe_samples = true;
    lossy.on_lost(
        &mut w,
        &Lost {
            now: Time(1),
            seq: 0,
            bytes: 1000,
            tx_in_flight: 10_000,
            lost: 1000,
            delivered: r.delivered,
            app_limited: false,
        },
    );
    r.on_any_ack(&mut w, &last);
    lossy.on_any_ack(&mut w, &last);
    assert_eq!((r.mode, r.prev_probe_precautionary), (Mode::Refill, false));
    assert!(lossy.mode != Mode::Refill && lossy.prev_probe_too_high);
}

/// It may have been sent with less in flight than the lost one.
#[test]
fn a_delivered_segment_does_not_lower_the_long_term_bound() {
    let (mut r, mut w) = steady();
    (r.mode, r.probe_samples, r.bounds.inflight_hi) = (Mode::Up, true, 12_000.0);
    see(&mut r, &mut w, 1, 1000, 3000);
    assert_eq!((r.mode, r.bounds.inflight_hi), (Mode::Up, 12_000.0));
}

/// In Cruise a round with loss reduces rate and volume to what is delivered, by 30 % at most; the
/// next probe removes these bounds.
#[test]
fn a_loss_in_cruise_lowers_the_short_term_bounds_until_the_next_probe() {
    let (mut r, mut w) = steady();
    r.max_bw = [200_000.0; 2];
    let lost = Lost {
        now: Time(1),
        seq: 0,
        bytes: 1000,
        tx_in_flight: 10_000,
        lost: 1000,
        delivered: r.delivered,
        app_limited: false,
    };
    r.on_lost(&mut w, &lost);
    // The round of the loss ends with a segment sent after it.
    let mut s = sample(&r, 0, 10_000);
    s.prior_delivered = r.delivered;
    r.on_any_ack(&mut w, &Ack { now: Time(2), flight: 9000, rate: Some(s), ..ack() });
    assert_eq!((r.bounds.bw_lo, r.bounds.inflight_lo, r.bw), (140_000.0, 14_000.0, 140_000.0));
    assert_eq!(w.cwnd, 14.0 * MSS);
    r.cycle_at = Time::ZERO;
    see(&mut r, &mut w, 2001, 0, 10_000);
    assert_eq!((r.mode, r.bw), (Mode::Refill, 200_000.0));
    assert!(r.bounds.bw_lo.is_infinite() && r.bounds.inflight_lo.is_infinite());
}

/// A BDP of ten segments: Reno would lose a segment every ten rounds.
#[test]
fn a_short_pipe_is_probed_as_often_as_reno_would_lose() {
    let (mut r, _) = steady();
    r.rounds_since_probe = 9;
    assert!(!cycle::time_to_probe(&r, Time(1), 20_000.0));
    r.rounds_since_probe = 10;
    assert!(cycle::time_to_probe(&r, Time(1), 20_000.0));
    r.bw = 10_000_000.0;
    assert!(!cycle::time_to_probe(&r, Time(1), 1e9));
    r.rounds_since_probe = 63;
    assert!(cycle::time_to_probe(&r, Time(1), 1e9), "at the latest");
}

/// More than 2 % in six ranges, for a round of recovery.
#[test]
fn much_loss_ends_startup() {
    let run = |ranges: u32, lost: u64| {
        let (mut r, mut w) = steady();
        (r.mode, r.full) = (Mode::Startup, FullPipe::default());
        (r.episode, r.rounds.count, r.bounds.ranges) = (Some((1_000_000, 0)), 1, ranges);
        let mut s = sample(&r, lost, 50_000);
        s.rate = 1e9;
        r.on_any_ack(&mut w, &Ack { now: Time(1), flight: 50_000, rate: Some(s), ..ack() });
        (r.mode, r.bounds.inflight_hi)
    };
    assert_eq!(run(6, 1001), (Mode::Drain, 10_000.0));
    assert_eq!(run(5, 1001).0, Mode::Startup);
    assert_eq!(run(6, 1000).0, Mode::Startup);
}

#[test]
fn a_timeout_keeps_the_model_and_an_undo_brings_back_the_probe() {
    let (mut r, mut w) = steady();
    (r.mode, r.probe_samples, r.in_flight) = (Mode::Up, true, 0);
    r.on_lost(
        &mut w,
        &Lost {
            now: Time(1),
            seq: 0,
            bytes: 1000,
            tx_in_flight: 9000,
            lost: 1000,
            delivered: 100_000,
            app_limited: false,
        },
    );
    r.on_loss(&mut w, &Loss { snd_max: 200_000, ..timeout(10) });
    assert_eq!((w.cwnd, r.bw, r.mode), (MSS, 100_000.0, Mode::Down));
    assert!(r.bounds.inflight_hi.is_finite());
    r.on_undo(&mut w, &window(20.0, f64::INFINITY), Time(2));
    assert_eq!((w.cwnd, r.mode), (20.0 * MSS, Mode::Refill));
    assert!(r.bounds.inflight_hi.is_infinite());
}

#[test]
fn recovery_gives_the_window_back() {
    let (mut r, mut w) = steady();
    r.on_loss(&mut w, &Loss { snd_max: 150_000, ..loss(10) });
    w.cwnd = 8.0 * MSS;
    r.on_any_ack(&mut w, &Ack { now: Time(1), flight: 9000, snd_una: 149_000, ..ack() });
    assert_eq!(w.cwnd, 9.0 * MSS);
    r.on_any_ack(&mut w, &Ack { now: Time(1), flight: 9000, snd_una: 150_000, ..ack() });
    assert_eq!(w.cwnd, 21.0 * MSS, "and what this ACK delivers");
}

#[test]
fn settings_are_checked() {
    let base = Bbr3::default;
    assert!(base().check().is_ok());
    assert!(
        Bbr3 { loss_threshold: Share(1.0), ..base() }
            .check()
            .unwrap_err()
            .starts_with("loss_threshold must")
    );
    assert!(
        Bbr3 { min_tso_segs: 0, ..base() }.check().unwrap_err().starts_with("min_tso_segs must")
    );
    assert!(Bbr3 { drain_gain: 1.0, ..base() }.check().unwrap_err().starts_with("drain_gain must"));
    assert!(
        Bbr3 { probe_rtt_interval: Duration::millis(1), ..base() }
            .check()
            .unwrap_err()
            .starts_with("probe_rtt_interval must")
    );
}

proptest! {
    /// On any path: cwnd is at least four segments, always finite, and the sender does not stop.
    #[test]
    fn any_path_is_used(
        rate in 1_000.0..5_000_000.0f64,
        delay in 1u64..600,
        lose in 0u64..200,
        flow in 0u32..10,
    ) {
        let mut p = Path::new(Bbr3Window::new(&Bbr3::default()), flow, rate, delay);
        p.lose_every = if lose < 60 { 0 } else { lose };
        let mut steps = 0;
        p.until(30.0, |p| {
            assert!(p.w.cwnd >= 4.0 * MSS && p.w.cwnd.is_finite());
            assert!(p.rule.pacing().unwrap().0 >= 1);
            steps += 1;
            steps > 20_000
        });
        let could = rate * (p.now.as_secs() - 3.0 - 8.0 * delay as f64 / 1000.0);
        prop_assert!(p.rule.delivered as f64 > 0.6 * could, "{} of {could}", p.rule.delivered);
    }
}
