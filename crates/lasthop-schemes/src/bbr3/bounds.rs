//! Bounds of BBR version 3 that losses set: short-term bounds on rate and volume, and a long-term
//! bound on the volume (draft-ietf-ccwg-bbr, "Updating the Model Upon Packet Loss"). Volumes in
//! bytes, rates in bytes per second, names as in the draft.

use crate::bbr::model::larger;
use crate::bbr3::rules::Rules;
use lasthop_tcp::rate::RateSample;
use lasthop_tcp::window::Lost;

/// Loss threshold and reductions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Share lost in a round trip above which too much was in flight.
    pub loss_threshold: f64,
    /// Smallest factor by which a round with loss reduces the short-term bounds.
    pub beta: f64,
    /// Share of the long-term bound that is left to other flows.
    pub headroom: f64,
}

/// The bounds before a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    bw_lo: f64,
    inflight_lo: f64,
    inflight_hi: f64,
}

/// The bounds.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub limits: Limits,
    pub rules: Rules,
    pub mss: f64,
    /// True if more than one loss per round trip is detected.
    pub sack: bool,
    /// Short-term bound on the rate.
    pub bw_lo: f64,
    /// Short-term bound on the volume in flight.
    pub inflight_lo: f64,
    /// Long-term bound on the volume in flight.
    pub inflight_hi: f64,
    /// Largest rate and volume delivered in a round.
    pub bw_latest: f64,
    pub inflight_latest: u64,
    /// True if a segment was lost in this round.
    pub loss_in_round: bool,
    pub round_delivered: u64,
    /// True if this ACK ends a round.
    pub round_ended: bool,
    /// Ranges of segments lost in this round.
    pub ranges: u32,
    pub last_lost_end: u64,
    pub before: Memory,
    /// Rounds of growth of the long-term bound, bytes acknowledged since it grew, and bytes that
    /// make it grow.
    pub up_rounds: i32,
    pub up_acked: f64,
    pub up_per_segment: f64,
}

impl Bounds {
    /// No bounds.
    pub fn new(limits: Limits) -> Self {
        let none =
            Memory { bw_lo: f64::INFINITY, inflight_lo: f64::INFINITY, inflight_hi: f64::INFINITY };
        Bounds {
            limits,
            rules: Rules::Draft,
            mss: 1.0,
            sack: true,
            bw_lo: none.bw_lo,
            inflight_lo: none.inflight_lo,
            inflight_hi: none.inflight_hi,
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_in_round: false,
            round_delivered: 0,
            round_ended: false,
            ranges: 0,
            last_lost_end: 0,
            before: none,
            up_rounds: 0,
            up_acked: 0.0,
            up_per_segment: f64::INFINITY,
        }
    }

    /// Selects the rules of the draft or of Linux, which counts in segments and has shares in
    /// 256ths.
    pub fn follow(&mut self, rules: Rules, mss: f64) {
        (self.rules, self.mss) = (rules, mss);
        if rules == Rules::Linux {
            let whole = |share: f64| libm::floor(256.0 * share) / 256.0;
            let Limits { loss_threshold, beta, headroom } = self.limits;
            self.limits = Limits {
                loss_threshold: whole(loss_threshold),
                beta: 1.0 - whole(1.0 - beta),
                headroom: whole(headroom),
            };
        }
    }

    /// True if the share lost of the volume in flight is above the threshold.
    pub fn too_high(&self, lost: u64, tx_in_flight: u64) -> bool {
        if self.rules == Rules::Linux && self.sack {
            return lost > 0
                && tx_in_flight > 0
                && lost as f64
                    > self.mss
                        * libm::floor(tx_in_flight as f64 / self.mss * self.limits.loss_threshold);
        }
        lost > 0 && (lost as f64 > tx_in_flight as f64 * self.limits.loss_threshold || !self.sack)
    }

    /// To be called at the beginning of an ACK.
    pub fn on_ack(&mut self, sample: Option<&RateSample>) {
        self.round_ended = false;
        let Some(s) = sample else { return };
        self.bw_latest = larger(self.bw_latest, s.rate);
        self.inflight_latest = self.inflight_latest.max(s.delivered);
        if s.prior_delivered >= self.round_delivered {
            (self.round_delivered, self.round_ended) = (s.total_delivered, true);
        }
    }

    /// To be called at the end of an ACK.
    pub fn end_ack(&mut self, sample: Option<&RateSample>) {
        if let Some(s) = sample.filter(|_| self.round_ended) {
            (self.bw_latest, self.inflight_latest) = (s.rate, s.delivered);
        }
    }

    /// Linux counts whole segments, rounded down.
    fn whole(&self, bytes: f64) -> f64 {
        if self.rules == Rules::Linux { self.mss * libm::floor(bytes / self.mss) } else { bytes }
    }

    /// End of a round: if a segment was lost in it, the short-term bounds are reduced towards what
    /// is delivered.
    pub fn adapt_lower_bounds(&mut self, max_bw: f64, cwnd: f64) {
        let or = |bound: f64, other: f64| if bound.is_finite() { bound } else { other };
        let beta = self.limits.beta;
        self.bw_lo = self.bw_latest.max(beta * or(self.bw_lo, max_bw));
        let reduced = self.whole(beta * or(self.inflight_lo, cwnd));
        self.inflight_lo = (self.inflight_latest as f64).max(reduced);
    }

    /// Removes the short-term bounds.
    pub fn forget_short_term(&mut self) {
        (self.bw_lo, self.inflight_lo) = (f64::INFINITY, f64::INFINITY);
    }

    /// Starts a round of loss counting.
    pub fn begin_round(&mut self) {
        (self.loss_in_round, self.ranges) = (false, 0);
    }

    /// A new phase begins: counters of the last one are reset.
    pub fn forget_round(&mut self) {
        (self.loss_in_round, self.bw_latest, self.inflight_latest) = (false, 0.0, 0);
    }

    /// A loss or a mark: its round ends with a segment sent after it.
    pub fn note_loss(&mut self, delivered: u64) {
        if !std::mem::replace(&mut self.loss_in_round, true) {
            self.round_delivered = delivered;
        }
    }

    /// Saves the bounds for an undo.
    pub fn remember(&mut self) {
        self.before = Memory {
            bw_lo: self.bw_lo,
            inflight_lo: self.inflight_lo,
            inflight_hi: self.inflight_hi,
        };
    }

    /// Counts ranges: consecutive lost segments are one range.
    pub fn count(&mut self, lost: &Lost) {
        self.ranges += u32::from(lost.seq != self.last_lost_end);
        self.last_lost_end = lost.seq + lost.bytes;
    }

    /// Volume in flight at which the loss passed the threshold: within this segment, or before it
    /// if the losses before are above the threshold already (InflightAtLoss; Linux counts the
    /// latter as none).
    pub fn inflight_at(&self, lost: &Lost) -> f64 {
        let (bytes, threshold) = (lost.bytes as f64, self.limits.loss_threshold);
        let (in_flight, before) =
            ((lost.tx_in_flight as f64 - bytes).max(0.0), lost.lost as f64 - bytes);
        if self.rules == Rules::Linux {
            let budget = self.mss * libm::ceil(in_flight / self.mss * threshold);
            return in_flight
                + self.mss
                    * libm::floor((budget - before).max(0.0) / self.mss / (1.0 - threshold));
        }
        in_flight + (threshold * in_flight - before) / (1.0 - threshold)
    }

    /// Largest volume delivered in the round so far.
    pub fn inflight_latest(&self) -> f64 {
        self.inflight_latest as f64
    }

    /// Startup ended by loss: sets the long-term bound.
    pub fn end_startup(&mut self, bdp: f64) {
        self.inflight_hi = bdp.max(self.inflight_latest as f64);
    }

    /// A probe had too much in flight: `tx_in_flight`. The bound is at least beta times the target.
    pub fn cut(&mut self, tx_in_flight: f64, target: f64) {
        self.inflight_hi = tx_in_flight.max(self.whole(self.limits.beta * target));
    }

    /// The long-term bound less the headroom for other flows.
    pub fn with_headroom(&self, mss: f64, least: f64) -> f64 {
        if !self.inflight_hi.is_finite() {
            return f64::INFINITY;
        }
        let headroom = mss.max(self.whole(self.limits.headroom * self.inflight_hi));
        (self.inflight_hi - headroom).max(least)
    }

    /// Starts probing upwards.
    pub fn begin_upward(&mut self) {
        (self.up_rounds, self.up_acked) = (0, 0.0);
    }

    /// The long-term bound grows by 1, 2, 4 … segments in the rounds of a probe.
    pub fn steepen(&mut self, cwnd: f64, mss: f64) {
        let share = cwnd / libm::ldexp(1.0, self.up_rounds);
        self.up_per_segment =
            if self.rules == Rules::Linux { mss * libm::floor(share / mss) } else { share }
                .max(mss);
        self.up_rounds = (self.up_rounds + 1).min(30);
    }

    /// Grows the bound in a probe without too much loss that uses all that the bound allows.
    pub fn grow(&mut self, acked: f64, mss: f64) {
        self.up_acked += acked;
        let segments = libm::floor(self.up_acked / self.up_per_segment);
        if segments > 0.0 {
            self.up_acked -= segments * self.up_per_segment;
            self.inflight_hi += segments * mss;
        }
    }

    /// Restores the bounds after a spurious loss.
    pub fn undo(&mut self) {
        self.loss_in_round = false;
        self.bw_lo = self.bw_lo.max(self.before.bw_lo);
        self.inflight_lo = self.inflight_lo.max(self.before.inflight_lo);
        self.inflight_hi = self.inflight_hi.max(self.before.inflight_hi);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::units::{Duration, Time};

    fn bounds() -> Bounds {
        Bounds::new(Limits { loss_threshold: 0.02, beta: 0.7, headroom: 0.15 })
    }

    fn sample(rate: f64, delivered: u64, prior: u64, total: u64) -> RateSample {
        RateSample {
            rate,
            delivered,
            interval: Duration::millis(100),
            prior_delivered: prior,
            total_delivered: total,
            app_limited: false,
            tx_in_flight: 50_000,
            rtt: None,
            lost: 0,
            newly_lost: 0,
        }
    }

    /// 2 % loss is accepted, more is not; without SACK any loss is too much.
    #[test]
    fn two_per_cent_may_be_lost() {
        let mut b = bounds();
        assert!(!b.too_high(1000, 50_000) && b.too_high(1001, 50_000) && !b.too_high(0, 0));
        b.sack = false;
        assert!(b.too_high(1, 50_000) && !b.too_high(0, 50_000));
    }

    /// 100 kB/s and 10 kB are delivered, 200 kB/s and 50 kB were allowed: the bounds fall by 30 %
    /// per round, down to what is delivered.
    #[test]
    fn a_round_with_loss_brings_the_short_term_bounds_down_to_what_is_delivered() {
        let mut b = bounds();
        b.on_ack(Some(&sample(100_000.0, 10_000, 0, 10_000)));
        assert!(b.round_ended);
        let mut seen = Vec::new();
        for _ in 0..3 {
            b.adapt_lower_bounds(200_000.0, 50_000.0);
            seen.push((b.bw_lo.round(), b.inflight_lo.round()));
        }
        assert_eq!(seen, [(140_000.0, 35_000.0), (100_000.0, 24_500.0), (100_000.0, 17_150.0)]);
        b.forget_short_term();
        assert!(b.bw_lo.is_infinite() && b.inflight_lo.is_infinite());
    }

    #[test]
    fn the_best_of_a_round_counts_and_a_new_round_starts_over() {
        let mut b = bounds();
        b.note_loss(10_000);
        for s in [
            sample(100_000.0, 9000, 5000, 14_000),
            sample(90_000.0, 12_000, 9000, 15_000),
            sample(50_000.0, 6000, 10_000, 16_000),
        ] {
            b.on_ack(Some(&s));
            if b.round_ended {
                b.adapt_lower_bounds(100_000.0, 12_000.0);
                assert_eq!((b.bw_lo, b.inflight_lo), (100_000.0, 12_000.0));
            }
            b.end_ack(Some(&s));
        }
        assert_eq!((b.bw_latest, b.inflight_latest), (50_000.0, 6000));
    }

    /// 100 segments were in flight when this one was sent, and it is the third that is lost: (0.02
    /// · 99 − 2) / 0.98 < 0, so the loss had passed the threshold just before it. As the second it
    /// passes at its end, (0.02 · 99 − 1) / 0.98 = 1; as the tenth 8 segments before it.
    #[test]
    fn the_volume_at_which_the_loss_passed_the_threshold() {
        let lost = |n: u64| Lost {
            now: Time::ZERO,
            seq: 0,
            bytes: 1000,
            tx_in_flight: 100_000,
            lost: 1000 * n,
            delivered: 0,
            app_limited: false,
        };
        let at = |n| (bounds().inflight_at(&lost(n)) * 10.0).round() / 10.0;
        assert_eq!([2, 3, 10].map(at), [100_000.0, 98_979.6, 91_836.7]);
    }

    #[test]
    fn the_long_term_bound_is_cut_and_grows_again_ever_faster() {
        let mut b = bounds();
        assert!(b.with_headroom(1000.0, 4000.0).is_infinite());
        b.cut(40_000.0, 50_000.0);
        assert_eq!(b.inflight_hi, 40_000.0);
        b.cut(30_000.0, 50_000.0);
        assert_eq!((b.inflight_hi, b.with_headroom(1000.0, 4000.0)), (35_000.0, 29_750.0));
        // A window of 32 segments: 32 acknowledged segments for the first step, then 16 for each,
        // then 8.
        b.begin_upward();
        let mut grown = Vec::new();
        for _ in 0..3 {
            b.steepen(32_000.0, 1000.0);
            let before = b.inflight_hi;
            (0..32).for_each(|_| b.grow(1000.0, 1000.0));
            grown.push(b.inflight_hi - before);
        }
        assert_eq!(grown, [1000.0, 2000.0, 4000.0]);
    }

    #[test]
    fn lost_segments_that_follow_upon_each_other_are_one_range() {
        let mut b = bounds();
        for seq in [5000, 6000, 7000, 9000, 12_000] {
            b.count(&Lost {
                now: Time::ZERO,
                seq,
                bytes: 1000,
                tx_in_flight: 0,
                lost: 0,
                delivered: 0,
                app_limited: false,
            });
        }
        assert_eq!(b.ranges, 3);
    }

    #[test]
    fn a_loss_that_was_none_gives_everything_back() {
        let mut b = bounds();
        b.cut(40_000.0, 0.0);
        b.remember();
        b.note_loss(1000);
        b.cut(20_000.0, 0.0);
        b.adapt_lower_bounds(100_000.0, 20_000.0);
        b.undo();
        assert!(
            b.bw_lo.is_infinite()
                && b.inflight_lo.is_infinite()
                && b.inflight_hi == 40_000.0
                && !b.loss_in_round
        );
    }
}
