//! The cycle of ProbeBW: Down, Cruise, Refill, Up, and the bounds that a probe sets
//! (draft-ietf-ccwg-bbr-06, section 5.3.3).

use super::{Bbr3Window, Feedback, Mode, RENO_ROUNDS};
use crate::bbr::model::{larger, smaller};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::window::Ack;

impl Bbr3Window {
    pub(super) fn start_down(&mut self, now: Time) {
        self.bounds.forget_round();
        self.rounds_since_probe = self.draws.bits(2 * self.drawn) & 1;
        self.probe_wait =
            Duration::secs(2) + Duration::from_secs_f64(self.draws.uniform(2 * self.drawn + 1));
        self.drawn += 1;
        (self.cycle_at, self.feedback, self.mode) = (now, Feedback::Stopping, Mode::Down);
        self.rounds.restart(self.delivered);
    }

    pub(super) fn start_refill(&mut self) {
        self.bounds.forget_short_term();
        self.bounds.begin_upward();
        self.prev_probe_precautionary = false;
        (self.feedback, self.mode) = (Feedback::Other, Mode::Refill);
        self.rounds.restart(self.delivered);
    }

    fn start_up(&mut self, rate: f64, cwnd: f64) {
        (self.mode, self.probe_samples) = (Mode::Up, true);
        self.rounds.restart(self.delivered);
        self.full.restart(rate);
        self.bounds.steepen(cwnd, self.mss);
    }

    pub(super) fn update_cycle(&mut self, ack: &Ack, cwnd: f64) {
        if self.adapt_long_term(ack, cwnd) {
            return self.start_refill();
        }
        let (now, rate) = (ack.now, ack.rate.as_ref().map_or(0.0, |s| s.rate));
        match self.mode {
            Mode::Down | Mode::Cruise if self.time_to_probe(now, cwnd) => self.start_refill(),
            Mode::Down if self.time_to_cruise(now) => self.start_cruise(),
            Mode::Refill if self.rounds.started => self.start_up(rate, cwnd),
            Mode::Up if self.prev_probe_too_high && self.reaches_long_term_bound(now) => {
                self.prev_probe_precautionary = true;
                self.finish_up(now);
            }
            // The bound limits the rate, so the bandwidth of the path is not measured.
            Mode::Up if self.cwnd_limited() && cwnd >= self.bounds.inflight_hi => {
                self.full.restart(rate)
            }
            Mode::Up if self.full.now => self.finish_up(now),
            _ => {}
        }
    }

    /// True if no further segment fits below the long-term bound; the ACK has already made room for
    /// some.
    fn reaches_long_term_bound(&self, now: Time) -> bool {
        if self.is_linux() {
            return self.in_net_at_departure(self.prior_in_flight, now) >= self.bounds.inflight_hi;
        }
        self.prior_in_flight as f64 + self.mss > self.bounds.inflight_hi
    }

    /// Ends a probe without too much loss so far.
    fn finish_up(&mut self, now: Time) {
        self.prev_probe_too_high = false;
        self.start_down(now);
    }

    /// The interval between losses of Reno, at most two to three seconds.
    pub(super) fn time_to_probe(&self, now: Time, cwnd: f64) -> bool {
        let reno = smaller(self.target(cwnd), RENO_ROUNDS * self.mss);
        now > self.cycle_at + self.probe_wait || self.rounds_since_probe as f64 * self.mss >= reno
    }

    fn start_cruise(&mut self) {
        self.mode = Mode::Cruise;
        if self.is_linux() && self.bounds.inflight_lo.is_finite() {
            self.bounds.inflight_lo = smaller(self.bounds.inflight_lo, self.bounds.inflight_hi);
        }
    }

    fn time_to_cruise(&self, now: Time) -> bool {
        let in_flight = if self.is_linux() {
            self.in_net_at_departure(self.prior_in_flight, now)
        } else {
            self.in_flight as f64
        };
        in_flight <= self.bounds.with_headroom(self.mss, self.least())
            && in_flight <= self.inflight(self.max_bw())
    }

    /// Raises the long-term bound while the loss is below the threshold. True if the probe before
    /// was stopped at the bound and its loss was below the threshold: then the next probe follows
    /// at once.
    fn adapt_long_term(&mut self, ack: &Ack, cwnd: f64) -> bool {
        if self.rounds.started && self.feedback == Feedback::Stopping {
            (self.probe_samples, self.feedback) = (false, Feedback::Other);
            if self.probing_bw() && ack.rate.is_some_and(|s| !s.app_limited) {
                // The maximum covers two cycles.
                if !self.is_linux() || self.max_bw[1] > 0.0 {
                    self.max_bw = [self.max_bw[1], 0.0];
                }
            }
            if self.probing_bw() && self.prev_probe_precautionary && !self.prev_probe_too_high {
                return true;
            }
        }
        let Some(s) = &ack.rate else { return false };
        if self.is_linux() && self.bounds.too_high(s.lost, s.tx_in_flight) && self.probe_samples {
            self.end_probe(ack.now, s.tx_in_flight as f64, s.app_limited, cwnd);
            return false;
        }
        // Only lost segments lower the bound: one delivered meanwhile may have been sent with less
        // in flight.
        if self.bounds.inflight_hi.is_finite() && !self.bounds.too_high(s.lost, s.tx_in_flight) {
            self.bounds.inflight_hi = larger(self.bounds.inflight_hi, s.tx_in_flight as f64);
            if self.mode == Mode::Up && self.cwnd_limited() && cwnd >= self.bounds.inflight_hi {
                self.bounds.grow(ack.delivered as f64, self.mss);
                if self.rounds.started {
                    self.bounds.steepen(cwnd, self.mss);
                }
            }
        }
        false
    }

    /// Ends a probe that had too much in flight.
    pub(super) fn end_probe(&mut self, now: Time, tx_in_flight: f64, app_limited: bool, cwnd: f64) {
        (self.prev_probe_too_high, self.probe_samples) = (true, false);
        if !app_limited {
            self.bounds.cut(tx_in_flight, self.target(cwnd));
        }
        if self.mode == Mode::Up {
            self.left = Some(Mode::Up);
            self.start_down(now);
        }
    }
}
