//! The cycle of ProbeBW: Down, Cruise, Refill, Up, and the bounds that a probe sets
//! (draft-ietf-ccwg-bbr-06, section 5.3.3).

use super::{Bbr3Window, Feedback, Mode, RENO_ROUNDS, linux};
use crate::bbr::model::{larger, smaller};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::window::Ack;

pub(super) fn start_down(bbr: &mut Bbr3Window, now: Time) {
    bbr.bounds.forget_round();
    bbr.rounds_since_probe = bbr.draws.bits(2 * bbr.drawn) & 1;
    bbr.probe_wait =
        Duration::secs(2) + Duration::from_secs_f64(bbr.draws.uniform(2 * bbr.drawn + 1));
    bbr.drawn += 1;
    (bbr.cycle_at, bbr.feedback, bbr.mode) = (now, Feedback::Stopping, Mode::Down);
    bbr.rounds.restart(bbr.delivered);
}

pub(super) fn start_refill(bbr: &mut Bbr3Window) {
    bbr.bounds.forget_short_term();
    bbr.bounds.begin_upward();
    bbr.prev_probe_precautionary = false;
    (bbr.feedback, bbr.mode) = (Feedback::Other, Mode::Refill);
    bbr.rounds.restart(bbr.delivered);
}

fn start_up(bbr: &mut Bbr3Window, rate: f64, cwnd: f64) {
    (bbr.mode, bbr.probe_samples) = (Mode::Up, true);
    bbr.rounds.restart(bbr.delivered);
    bbr.full.restart(rate);
    bbr.bounds.steepen(cwnd, bbr.mss);
}

pub(super) fn update(bbr: &mut Bbr3Window, ack: &Ack, cwnd: f64) {
    if adapt_long_term(bbr, ack, cwnd) {
        return start_refill(bbr);
    }
    let (now, rate) = (ack.now, ack.rate.as_ref().map_or(0.0, |s| s.rate));
    match bbr.mode {
        Mode::Down | Mode::Cruise if time_to_probe(bbr, now, cwnd) => start_refill(bbr),
        Mode::Down if time_to_cruise(bbr, now) => start_cruise(bbr),
        Mode::Refill if bbr.rounds.started => start_up(bbr, rate, cwnd),
        Mode::Up if bbr.prev_probe_too_high && reaches_long_term_bound(bbr, now) => {
            bbr.prev_probe_precautionary = true;
            finish_up(bbr, now);
        }
        // The bound limits the rate, so the bandwidth of the path is not measured.
        Mode::Up if bbr.cwnd_limited() && cwnd >= bbr.bounds.inflight_hi => bbr.full.restart(rate),
        Mode::Up if bbr.full.now => finish_up(bbr, now),
        _ => {}
    }
}

/// True if no further segment fits below the long-term bound; the ACK has already made room for
/// some.
fn reaches_long_term_bound(bbr: &Bbr3Window, now: Time) -> bool {
    if bbr.is_linux() {
        return linux::in_net_at_departure(bbr, bbr.prior_in_flight, now) >= bbr.bounds.inflight_hi;
    }
    bbr.prior_in_flight as f64 + bbr.mss > bbr.bounds.inflight_hi
}

/// Ends a probe without too much loss so far.
fn finish_up(bbr: &mut Bbr3Window, now: Time) {
    bbr.prev_probe_too_high = false;
    start_down(bbr, now);
}

/// The interval between losses of Reno, at most two to three seconds.
pub(super) fn time_to_probe(bbr: &Bbr3Window, now: Time, cwnd: f64) -> bool {
    let reno = smaller(bbr.target(cwnd), RENO_ROUNDS * bbr.mss);
    now > bbr.cycle_at + bbr.probe_wait || bbr.rounds_since_probe as f64 * bbr.mss >= reno
}

fn start_cruise(bbr: &mut Bbr3Window) {
    bbr.mode = Mode::Cruise;
    if bbr.is_linux() && bbr.bounds.inflight_lo.is_finite() {
        bbr.bounds.inflight_lo = smaller(bbr.bounds.inflight_lo, bbr.bounds.inflight_hi);
    }
}

fn time_to_cruise(bbr: &Bbr3Window, now: Time) -> bool {
    let in_flight = if bbr.is_linux() {
        linux::in_net_at_departure(bbr, bbr.prior_in_flight, now)
    } else {
        bbr.in_flight as f64
    };
    in_flight <= bbr.bounds.with_headroom(bbr.mss, bbr.least())
        && in_flight <= bbr.inflight(bbr.max_bw())
}

/// Raises the long-term bound while the loss is below the threshold. True if the probe before
/// was stopped at the bound and its loss was below the threshold: then the next probe follows
/// at once.
fn adapt_long_term(bbr: &mut Bbr3Window, ack: &Ack, cwnd: f64) -> bool {
    if bbr.rounds.started && bbr.feedback == Feedback::Stopping {
        (bbr.probe_samples, bbr.feedback) = (false, Feedback::Other);
        if bbr.probing_bw() && ack.rate.is_some_and(|s| !s.app_limited) {
            // The maximum covers two cycles.
            if !bbr.is_linux() || bbr.max_bw[1] > 0.0 {
                bbr.max_bw = [bbr.max_bw[1], 0.0];
            }
        }
        if bbr.probing_bw() && bbr.prev_probe_precautionary && !bbr.prev_probe_too_high {
            return true;
        }
    }
    let Some(s) = &ack.rate else { return false };
    if bbr.is_linux() && bbr.bounds.too_high(s.lost, s.tx_in_flight) && bbr.probe_samples {
        end_probe(bbr, ack.now, s.tx_in_flight as f64, s.app_limited, cwnd);
        return false;
    }
    // Only lost segments lower the bound: one delivered meanwhile may have been sent with less
    // in flight.
    if bbr.bounds.inflight_hi.is_finite() && !bbr.bounds.too_high(s.lost, s.tx_in_flight) {
        bbr.bounds.inflight_hi = larger(bbr.bounds.inflight_hi, s.tx_in_flight as f64);
        if bbr.mode == Mode::Up && bbr.cwnd_limited() && cwnd >= bbr.bounds.inflight_hi {
            bbr.bounds.grow(ack.delivered as f64, bbr.mss);
            if bbr.rounds.started {
                bbr.bounds.steepen(cwnd, bbr.mss);
            }
        }
    }
    false
}

/// Ends a probe that had too much in flight.
pub(super) fn end_probe(
    bbr: &mut Bbr3Window,
    now: Time,
    tx_in_flight: f64,
    app_limited: bool,
    cwnd: f64,
) {
    (bbr.prev_probe_too_high, bbr.probe_samples) = (true, false);
    if !app_limited {
        bbr.bounds.cut(tx_in_flight, bbr.target(cwnd));
    }
    if bbr.mode == Mode::Up {
        bbr.left = Some(Mode::Up);
        start_down(bbr, now);
    }
}
