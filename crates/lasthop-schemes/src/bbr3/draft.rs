//! The example test cases of draft-ietf-ccwg-bbr-06, appendix A, in its order.

use super::*;
use crate::bbr::model::path::{App, Path, Policer};
use crate::testing::harness::{MSS, loss, timeout};

const SLOW: f64 = 250_000.0;
const FAST: f64 = 2_500_000.0;

/// A path of `rate` bytes per second and 100 ms: the BDP is 25 segments at `SLOW`, 250 at `FAST`.
fn path(rate: f64) -> Path<Bbr3Window> {
    Path::new(Bbr3Window::new(&Bbr3::default()), 0, rate, 100)
}

/// The same path, 60 s after the last ProbeRTT.
fn steady_path(rate: f64) -> Path<Bbr3Window> {
    Path::new(
        Bbr3Window::new(&Bbr3 { probe_rtt_interval: Duration::secs(60), ..Bbr3::default() }),
        0,
        rate,
        100,
    )
}

fn reach(p: &mut Path<Bbr3Window>, mode: Mode) {
    assert!(p.until(20.0, |p| p.rule.mode == mode), "{mode:?} not reached: {:?}", p.rule.mode);
}

fn leave(p: &mut Path<Bbr3Window>, secs: f64) -> Mode {
    let mode = p.rule.mode;
    assert!(p.until(secs, |p| p.rule.mode != mode), "still in {mode:?}");
    p.rule.mode
}

/// The values of `shown` at the start of each round, up to the end of the state.
fn by_rounds<T>(p: &mut Path<Bbr3Window>, shown: impl Fn(&Bbr3Window) -> T) -> Vec<T> {
    let (mode, mut seen, mut round) = (p.rule.mode, Vec::new(), 0);
    p.until(20.0, |p| {
        if p.rule.rounds.count > round {
            round = p.rule.rounds.count;
            seen.push(shown(&p.rule));
        }
        p.rule.mode != mode
    });
    seen
}

/// A segment sent now that is lost after a tenth of the volume in flight.
fn tenth_lost(p: &Path<Bbr3Window>) -> Lost {
    let (delivered, flight) = (p.rule.delivered, p.in_flight() as u64);
    Lost {
        now: p.now,
        seq: 0,
        bytes: 1000,
        tx_in_flight: flight,
        lost: flight / 10,
        delivered,
        app_limited: false,
    }
}

#[test]
fn a1_startup_ends_on_a_bandwidth_plateau() {
    let mut p = path(SLOW);
    let bw = by_rounds(&mut p, |r| r.max_bw());
    let (last, growing) = bw.split_at(bw.len() - 4);
    assert!(growing[3] < 1.25 * growing[0] && growing[0] >= 1.25 * last[last.len() - 1], "{bw:?}");
    assert!((p.rule.max_bw() / SLOW - 1.0).abs() < 0.02, "{}", p.rule.max_bw());
    assert!(p.rule.full.now && p.rule.full.ever && p.rule.mode == Mode::Drain);
}

#[test]
fn a2_startup_ends_on_loss_when_application_limited() {
    let mut p = path(FAST);
    (p.recovers, p.app) = (true, App::at(Time::ZERO, 0.4 * FAST));
    p.until(2.0, |_| false);
    assert_eq!(p.rule.mode, Mode::Startup);
    p.lose_every = 10;
    leave(&mut p, 2.0);
    // The queue is empty: Drain ends with the ACK that begins it.
    assert!(p.rule.full.ever && !p.rule.full.now && p.rule.drain_round == p.rule.rounds.count);
    assert!(p.rule.bounds.inflight_hi.is_finite());
}

#[test]
fn a3_drain_ends_when_no_more_than_the_pipe_is_in_flight() {
    let mut p =
        Path::new(Bbr3Window::new(&Bbr3 { drain_gain: 0.5, ..Bbr3::default() }), 0, SLOW, 100);
    reach(&mut p, Mode::Drain);
    assert_eq!(p.rule.pacing_gain(), 0.5);
    assert!(p.rule.in_flight as f64 > p.rule.inflight(p.rule.bw));
    leave(&mut p, 2.0);
    assert!(p.rule.probing_bw() && p.rule.in_flight as f64 <= p.rule.inflight(p.rule.bw));
    assert!(p.rule.rounds.count <= p.rule.drain_round + DRAIN_ROUNDS);
}

/// The bandwidth falls to 30 %: after a fall by 10 % a gain of 0.5 drains the queue before the
/// third round.
#[test]
fn a4_drain_ends_after_three_rounds() {
    let mut p = path(SLOW);
    reach(&mut p, Mode::Drain);
    p.change_rate(0.3 * SLOW);
    leave(&mut p, 20.0);
    assert!(p.rule.probing_bw() && p.rule.in_flight as f64 > p.rule.inflight(p.rule.bw));
    assert_eq!(p.rule.rounds.count, p.rule.drain_round + DRAIN_ROUNDS + 1);
}

#[test]
fn a5_a_probe_ends_on_a_bandwidth_plateau() {
    let mut p = path(SLOW);
    reach(&mut p, Mode::Up);
    let began = p.rule.rounds.count;
    assert!(!p.rule.full.now);
    assert_eq!(leave(&mut p, 2.0), Mode::Down);
    assert!(p.rule.full.now && p.rule.rounds.count >= began + 3);
}

/// An application limit does not limit the path: the long-term bound does not change.
#[test]
fn a6_a_probe_ends_on_loss_when_application_limited() {
    let mut p = path(FAST);
    reach(&mut p, Mode::Up);
    p.app = App::at(p.now, 0.4 * FAST);
    p.until(1.0, |_| false);
    assert_eq!(p.rule.mode, Mode::Up);
    p.lose_every = 10;
    assert_eq!(leave(&mut p, 0.5), Mode::Down);
    assert!(p.rule.prev_probe_too_high && p.rule.bounds.inflight_hi.is_infinite());
}

/// ProbeRTT is the exception: it interrupts every state.
#[test]
fn a7_no_loss_and_an_application_limit_end_neither_startup_nor_a_probe() {
    let mut p = path(SLOW);
    p.app = App::at(Time::ZERO, 0.4 * SLOW);
    assert!(!p.until(30.0, |p| !matches!(p.rule.mode, Mode::Startup | Mode::ProbeRtt)));
    let mut p = path(SLOW);
    reach(&mut p, Mode::Up);
    p.app = App::at(p.now, 0.4 * SLOW);
    let since = p.rule.probe_rtt_min_at;
    assert_eq!(leave(&mut p, 6.0), Mode::ProbeRtt);
    assert!(p.now > since + Duration::secs(5));
}

#[test]
fn a8_down_ends_when_there_is_headroom() {
    let mut p = path(SLOW);
    reach(&mut p, Mode::Up);
    assert_eq!(leave(&mut p, 2.0), Mode::Down);
    p.rule.bounds.inflight_hi = p.in_flight();
    assert_eq!(p.rule.pacing_gain(), 0.9);
    assert_eq!(leave(&mut p, 2.0), Mode::Cruise);
    let in_flight = p.rule.in_flight as f64;
    assert!(
        in_flight <= p.rule.bounds.with_headroom(MSS, 4.0 * MSS)
            && in_flight <= p.rule.inflight(p.rule.max_bw())
    );
}

#[test]
fn a9_down_ends_in_time_for_the_next_probe() {
    let mut p = steady_path(FAST);
    reach(&mut p, Mode::Up);
    assert_eq!(leave(&mut p, 2.0), Mode::Down);
    p.change_rate(0.9 * FAST);
    let (began, wait) = (p.rule.cycle_at, p.rule.probe_wait);
    assert_eq!(leave(&mut p, 4.0), Mode::Refill);
    assert!(p.now > began + wait && p.now < began + wait + Duration::millis(50));
}

#[test]
fn a10_probe_rtt_comes_and_goes() {
    let mut p = path(SLOW);
    reach(&mut p, Mode::Cruise);
    reach(&mut p, Mode::ProbeRtt);
    let came = p.now;
    assert_eq!(p.rule.cwnd_gain(), 0.5);
    assert_eq!(leave(&mut p, 2.0), Mode::Cruise);
    assert!(p.now > came + Duration::millis(200), "{:?}", p.now - came);
    let delivered = p.rule.delivered;
    p.until(2.0, |_| false);
    assert!((p.rule.delivered - delivered) as f64 > 0.9 * 2.0 * SLOW);
}

#[test]
fn a11_probe_rtt_is_skipped_after_an_idle_time() {
    let mut p = path(SLOW);
    reach(&mut p, Mode::Cruise);
    p.app = App::at(p.now, 0.0);
    p.until(6.0, |_| false);
    assert!(p.in_flight() == 0.0 && p.now > p.rule.probe_rtt_min_at + Duration::secs(5));
    p.app = App::default();
    let before = p.rule.delivered;
    assert!(p.until(1.0, |p| p.in_flight() > 0.0) && p.rule.idle_restart);
    assert!(!p.until(1.0, |p| p.rule.mode == Mode::ProbeRtt) && !p.rule.idle_restart);
    assert!(p.rule.delivered > before);
}

#[test]
fn a12_startup_finds_the_bandwidth_behind_aggregation() {
    let mut p = path(SLOW);
    p.batch = Duration::millis(50);
    reach(&mut p, Mode::Drain);
    let bdp = SLOW * 0.1;
    assert!(
        p.rule.excess.get() > 0.0 && p.w.cwnd > 2.0 * bdp,
        "{} {}",
        p.rule.excess.get(),
        p.w.cwnd
    );
    // In 100 ms at most the ACKs of 150 ms arrive.
    assert!((0.98..1.5).contains(&(p.rule.max_bw() / SLOW)), "{}", p.rule.max_bw());
}

#[test]
fn a13_cruise_keeps_the_bandwidth_behind_aggregation() {
    let mut p = path(SLOW);
    reach(&mut p, Mode::Cruise);
    p.batch = Duration::millis(50);
    p.until(1.0, |_| false);
    let excess = p.rule.excess.get();
    // Half of 100 ms at 250 kB/s arrives at once.
    assert!((10.0 * MSS..15.0 * MSS).contains(&excess), "{excess}");
    assert!(p.w.cwnd >= p.rule.bdp(p.rule.bw, 2.0) + excess - MSS, "{}", p.w.cwnd);
    let (delivered, now) = (p.rule.delivered, p.now);
    p.until(2.0, |_| false);
    assert!((p.rule.delivered - delivered) as f64 > 0.97 * SLOW * (p.now - now).as_secs());
}

/// 4 Mbit/s and 1 ms: a BDP of half a segment.
#[test]
fn a14_a_pipe_of_less_than_a_segment() {
    let mut p = Path::new(Bbr3Window::new(&Bbr3::default()), 0, 500_000.0, 1);
    assert!(p.until(20.0, |p| p.rule.probing_bw()));
    let (delivered, now) = (p.rule.delivered, p.now);
    assert!(!p.until(20.0, |p| p.w.cwnd < 4.0 * MSS));
    assert!((p.rule.bw / 500_000.0 - 1.0).abs() < 0.02, "{}", p.rule.bw);
    assert!(p.rule.pacing().unwrap().0 as f64 <= 8.0 * 1.25 * p.rule.bw);
    assert!((p.rule.delivered - delivered) as f64 > 0.97 * 500_000.0 * (p.now - now).as_secs());
}

/// With and without a long-term bound, whose steps double with each round.
#[test]
fn a15_ten_times_the_bandwidth() {
    for bound in [f64::INFINITY, 26.0 * MSS] {
        let mut p = steady_path(SLOW);
        reach(&mut p, Mode::Cruise);
        p.change_rate(FAST);
        reach(&mut p, Mode::Refill);
        p.rule.bounds.inflight_hi = bound;
        reach(&mut p, Mode::Up);
        let rounds = by_rounds(&mut p, |r| (r.bounds.inflight_hi / MSS, r.max_bw()));
        if bound.is_finite() {
            let steps: Vec<f64> =
                rounds.windows(2).map(|w| w[1].0 - w[0].0).skip(1).take(4).collect();
            assert!(steps.windows(2).all(|s| (1.5..=3.0).contains(&(s[1] / s[0]))), "{steps:?}");
        }
        // Ten is 1.25 to the power of 10.3, and the result of a step is measured one round later.
        let took = rounds.iter().position(|r| r.1 > 0.95 * FAST);
        assert!(took.is_some_and(|t| t <= 20), "{took:?} of {}", rounds.len());
    }
}

#[test]
fn a16_a_tenth_of_the_bandwidth() {
    let mut p = steady_path(FAST);
    p.queue = 50.0 * MSS;
    reach(&mut p, Mode::Cruise);
    p.change_rate(SLOW);
    let began = p.now;
    assert!(p.until(2.0, |p| p.rule.bounds.bw_lo < 0.5 * FAST), "{}", p.rule.bounds.bw_lo);
    assert!(p.rule.max_bw() > 0.9 * FAST);
    assert!(p.until(20.0, |p| p.rule.max_bw() < 1.1 * SLOW), "{}", p.rule.max_bw());
    assert!(p.now - began < Duration::secs(12), "{:?}", p.now - began);
}

#[test]
fn a17_a_token_bucket_policer() {
    let mut p = path(FAST);
    p.policer = Policer::new(SLOW, 50.0 * MSS);
    p.recovers = true;
    reach(&mut p, Mode::Cruise);
    assert!(
        p.until(10.0, |p| p.rule.bounds.bw_lo.is_finite() && p.rule.bounds.inflight_lo.is_finite())
    );
    p.until(20.0, |_| false);
    let (delivered, lost, now) = (p.rule.delivered as f64, p.lost as f64, p.now);
    p.until(20.0, |_| false);
    let (delivered, lost) = (p.rule.delivered as f64 - delivered, MSS * (p.lost as f64 - lost));
    assert!(delivered > 0.8 * SLOW * (p.now - now).as_secs(), "{delivered}");
    assert!(lost < 0.05 * (delivered + lost), "{lost} of {delivered}");
}

/// A loss in a probe, reported by `loss`, that recovery then finds to be spurious.
fn spurious(loss: Loss) {
    let mut p = path(FAST);
    reach(&mut p, Mode::Cruise);
    p.rule.bounds.inflight_hi = 400.0 * MSS;
    reach(&mut p, Mode::Up);
    let (before, cwnd) = (p.rule.bounds.clone(), p.w.cwnd);
    let lost = tenth_lost(&p);
    p.rule.on_lost(&mut p.w, &lost);
    p.rule.on_loss(&mut p.w, &Loss { now: p.now, snd_max: u64::MAX, ..loss });
    assert!(p.rule.mode == Mode::Down && p.rule.bounds.inflight_hi < before.inflight_hi);
    p.until(0.05, |_| false);
    p.rule.on_undo(&mut p.w, &Window { cwnd, ssthresh: f64::INFINITY }, p.now);
    let b = &p.rule.bounds;
    assert!(
        b.bw_lo >= before.bw_lo
            && b.inflight_lo >= before.inflight_lo
            && b.inflight_hi >= before.inflight_hi
    );
    assert!(p.w.cwnd >= cwnd && p.rule.mode == Mode::Refill);
    assert!(p.until(0.3, |p| p.rule.mode == Mode::Up));
}

#[test]
fn a18_a_spurious_fast_recovery() {
    spurious(loss(250));
}

#[test]
fn a19_a_spurious_timeout() {
    spurious(timeout(250));
}

#[test]
fn a20_probe_rtt_in_startup_leads_back_to_it() {
    let mut p = path(SLOW);
    p.app = App::at(Time::ZERO, 0.4 * SLOW);
    reach(&mut p, Mode::ProbeRtt);
    assert_eq!(leave(&mut p, 2.0), Mode::Startup);
    p.app = App::default();
    reach(&mut p, Mode::Drain);
    assert!((p.rule.max_bw() / SLOW - 1.0).abs() < 0.02, "{}", p.rule.max_bw());
}

#[test]
fn a21_loss_in_a_probe_lowers_the_long_term_bound() {
    let mut p = path(FAST);
    reach(&mut p, Mode::Cruise);
    p.rule.bounds.inflight_hi = 400.0 * MSS;
    reach(&mut p, Mode::Up);
    p.lose_every = 10;
    let (target, began) = (p.rule.target(p.w.cwnd), p.rule.rounds.count);
    assert_eq!(leave(&mut p, 2.0), Mode::Down);
    assert!(p.rule.rounds.count < began + 3 && !p.rule.full.now);
    let bound = p.rule.bounds.inflight_hi;
    assert!(bound >= 0.7 * target && bound < 400.0 * MSS, "{bound}");
    assert!(p.rule.prev_probe_too_high);
}

#[test]
fn a22_an_application_limit_in_refill() {
    let mut p = path(SLOW);
    reach(&mut p, Mode::Refill);
    let before = p.rule.max_bw();
    p.app = App::at(p.now, 0.2 * SLOW);
    assert_eq!(leave(&mut p, 1.0), Mode::Up);
    assert_eq!(p.rule.max_bw(), before);
    p.app = App::default();
    assert_eq!(leave(&mut p, 2.0), Mode::Down);
    assert!((p.rule.max_bw() / SLOW - 1.0).abs() < 0.02, "{}", p.rule.max_bw());
}
