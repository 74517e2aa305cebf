//! TCP Westwood: Reno that sets its window after a loss to the rate of the ACKs times the smallest
//! round-trip time.
//!
//! Source: Mascolo, Casetti, Gerla, Sanadidi and Wang, ACM MobiCom 2001; open points as in its
//! authors' ns-2 module. Deployed at: the sender. Wire: nothing.
//!
//! Each ACK gives a bandwidth sample: the bytes that it acknowledges divided by the time since the
//! previous ACK. A duplicate ACK counts as one segment, and the next cumulative ACK only for the
//! bytes not yet counted. The samples pass a low-pass filter whose coefficients depend on their
//! spacing (Tustin's approximation with time constant tau); silence counts as zero samples every
//! tau/2. On a loss ssthresh becomes bandwidth × RTTmin, and cwnd is reduced to ssthresh if it is
//! larger; a timeout sets ssthresh in the same way. Growth is Reno's. The estimate starts with the
//! first sample (the paper leaves it open).
//!
//! Assumes that ACKs return with the spacing at which data left the bottleneck. Bad at: ACK
//! compression (the estimate is too high), lost ACKs (too low), small round-trip times, fairness to
//! Reno: after a queue overflow it reduces its window too little.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{Ack, Loss, LossClass, Window, WindowRule, grow, limit_to, window_rule};

/// Settings of Westwood.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Westwood {
    /// Time constant tau of the filter, 1 over its cut-off frequency (0.5 s in the paper, 1 s in
    /// the ns-2 module).
    pub time_constant: Duration,
    /// Maximum number of segments that one ACK acknowledges (2 in the ns-2 module: a delayed ACK);
    /// 0: no limit.
    #[schemars(extend("unit" = "segments"))]
    pub max_segments_per_ack: f64,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Westwood {
    fn default() -> Self {
        Westwood { time_constant: Duration::millis(500), max_segments_per_ack: 2.0, recovery: None }
    }
}

impl SchemeConfig for Westwood {
    const ENTRY: Entry = Entry {
        name: "westwood",
        family: Family::EndToEnd,
        group: Some(Group::BandwidthEstimation),
        summary: "sets its window after a loss to the rate of the ACKs, filtered, times the \
                  smallest round-trip time",
        paper: "Mascolo et al., ACM MobiCom 2001",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "ACKs come back as data left the bottleneck",
            "the rate before a loss is what the flow may have",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.time_constant == Duration::ZERO {
            return Err("time_constant must be above 0 s".into());
        }
        if !(self.max_segments_per_ack == 0.0 || self.max_segments_per_ack >= 1.0) {
            return Err(format!(
                "max_segments_per_ack must be at least 1, or 0 for no limit, found {}",
                self.max_segments_per_ack
            ));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(WestwoodWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }
}

/// A first-order low-pass filter of a rate with unevenly spaced samples.
#[derive(Clone, Debug)]
struct Tustin {
    /// Time constant in seconds.
    tau: f64,
    /// Bytes per second, and the previous sample.
    rate: Option<f64>,
    sample: f64,
    last: Option<Time>,
    /// Bytes of ACKs that arrived at the same time as the one before.
    bytes: f64,
}

impl Tustin {
    fn new(tau: Duration) -> Self {
        Tustin { tau: tau.as_secs(), rate: None, sample: 0.0, last: None, bytes: 0.0 }
    }

    /// An ACK acknowledges `bytes` bytes.
    fn on_ack(&mut self, now: Time, bytes: f64) {
        let Some(last) = self.last else {
            self.last = Some(now);
            return;
        };
        self.bytes += bytes;
        let gap = now.since(last).as_secs();
        if gap <= 0.0 {
            return;
        }
        let sample = self.bytes / gap;
        if self.rate.is_none() {
            (self.rate, self.sample) = (Some(sample), sample);
        } else {
            let left = self.be_silent(gap);
            self.feed(sample, left);
        }
        (self.last, self.bytes) = (Some(now), 0.0);
    }

    /// Adds zero samples for each whole tau/2 of a gap; returns the rest of it. With that spacing
    /// the filter keeps (2 tau - tau/2) / (2 tau + tau/2) = 3/5 of its value and adds a fifth of
    /// each of the two samples.
    fn be_silent(&mut self, gap: f64) -> f64 {
        let step = self.tau / 2.0;
        let silent = libm::floor(gap / step);
        if silent >= 1.0 {
            self.feed(0.0, step);
            self.rate = self.rate.map(|r| r * libm::pow(0.6, silent - 1.0));
        }
        (gap - silent * step).max(0.0)
    }

    fn feed(&mut self, sample: f64, interval: f64) {
        let two_tau = 2.0 * self.tau;
        self.rate = self.rate.map(|r| {
            ((two_tau - interval) * r + interval * (sample + self.sample)) / (two_tau + interval)
        });
        self.sample = sample;
    }
}

/// Westwood's window rule.
#[derive(Clone, Debug)]
pub struct WestwoodWindow {
    bandwidth: Tustin,
    rtt_min: Option<Duration>,
    max_segments_per_ack: f64,
}

impl WestwoodWindow {
    /// A rule with these settings.
    pub fn new(settings: &Westwood) -> Self {
        WestwoodWindow {
            bandwidth: Tustin::new(settings.time_constant),
            rtt_min: None,
            max_segments_per_ack: settings.max_segments_per_ack,
        }
    }

    /// Estimated BDP in bytes, if there is one.
    fn estimate(&self) -> Option<f64> {
        Some(self.bandwidth.rate? * self.rtt_min?.as_secs())
    }
}

#[window_rule]
impl WindowRule for WestwoodWindow {
    fn on_any_ack(&mut self, _window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |m| m.min(rtt)));
        }
        let most = if self.max_segments_per_ack == 0.0 {
            f64::INFINITY
        } else {
            self.max_segments_per_ack * f64::from(ack.mss)
        };
        self.bandwidth.on_ack(ack.now, (ack.delivered as f64).min(most));
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        match self.estimate() {
            Some(bytes) => limit_to(window, loss, bytes),
            None => limit_to(window, loss, loss.base() / 2.0),
        }
        LossClass::Unclassified
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, drive, loss, segments, steps, timeout, window};
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::millis(ms)
    }

    /// tau 0.5 s, an ACK of 1000 bytes every 100 ms but the last after 200: coefficients 0.9/1.1
    /// and 0.1/1.1, then 0.8/1.2 and 0.2/1.2; samples 10 000 B/s, the last 5000.
    #[test]
    fn the_filter_weighs_samples_by_their_spacing() {
        let mut f = Tustin::new(Duration::millis(500));
        f.on_ack(at(0), 1000.0);
        assert_eq!(f.rate, None);
        f.on_ack(at(100), 1000.0);
        assert_eq!(f.rate, Some(10_000.0));
        f.on_ack(at(200), 2000.0);
        let second = (0.9 * 10_000.0 + 0.1 * (20_000.0 + 10_000.0)) / 1.1;
        assert!((f.rate.unwrap() - second).abs() < 1e-6 && (second - 10_909.1).abs() < 0.05);
        f.on_ack(at(400), 1000.0);
        let third = (0.8 * second + 0.2 * (5_000.0 + 20_000.0)) / 1.2;
        assert!((f.rate.unwrap() - third).abs() < 1e-6 && (third - 11_439.4).abs() < 0.05);
    }

    /// A silence of 0.6 s has two steps of 0.25 s: 3/5 of the rate and 1/5 of the last sample, then
    /// 3/5; then the ACK counts over the remaining 0.1 s.
    #[test]
    fn silence_counts_as_zero() {
        let mut f = Tustin::new(Duration::millis(500));
        f.on_ack(at(0), 1000.0);
        f.on_ack(at(100), 1000.0);
        f.on_ack(at(700), 3000.0);
        let silent = (0.6 * 10_000.0 + 0.2 * 10_000.0) * 0.6;
        let expected = (0.9 * silent + 0.1 * 5_000.0) / 1.1;
        assert!((f.rate.unwrap() - expected).abs() < 1e-6, "{:?}, not {expected}", f.rate);
        // A year of silence takes constant time.
        f.on_ack(at(31_536_000_000), 1000.0);
        assert!(f.rate.unwrap() >= 0.0 && f.rate.unwrap() < 1.0);
    }

    #[test]
    fn acks_of_one_instant_are_one_sample() {
        let mut f = Tustin::new(Duration::millis(500));
        for (ms, bytes) in [(0, 1000.0), (0, 1000.0), (100, 1000.0), (100, 500.0)] {
            f.on_ack(at(ms), bytes);
        }
        assert_eq!(f.rate, Some(20_000.0));
        f.on_ack(at(200), 1000.0);
        assert!((f.rate.unwrap() - (0.9 * 20_000.0 + 0.1 * 35_000.0) / 1.1).abs() < 1e-6);
    }

    /// A rule after ACKs of a segment every 10 ms, 100 kB/s, with round-trip times of 120 ms and
    /// more.
    fn settled() -> WestwoodWindow {
        let mut rule = WestwoodWindow::new(&Westwood::default());
        for i in 0..100 {
            let a = Ack { now: at(10 * i), rtt: Some(Duration::millis(120 + i)), ..ack() };
            rule.on_any_ack(&mut window(2.0, 2.0), &a);
        }
        rule
    }

    /// 100 kB/s × 120 ms = 12 segments.
    #[test]
    fn a_loss_leaves_what_the_path_holds() {
        for (cwnd, after) in [(20.0, 12.0), (9.0, 9.0)] {
            let mut w = window(cwnd, 2.0);
            assert_eq!(settled().on_loss(&mut w, &loss(cwnd as u64)), LossClass::Unclassified);
            assert!(
                (w.cwnd / 1000.0 - after).abs() < 1e-6 && (w.ssthresh / 1000.0 - 12.0).abs() < 1e-6,
                "{w:?}"
            );
        }
        let mut w = window(20.0, 2.0);
        settled().on_loss(&mut w, &timeout(20));
        assert!(w.cwnd == 1000.0 && (w.ssthresh / 1000.0 - 12.0).abs() < 1e-6, "{w:?}");
    }

    #[test]
    fn without_an_estimate_a_loss_halves() {
        let mut w = window(20.0, 100.0);
        WestwoodWindow::new(&Westwood::default()).on_loss(&mut w, &loss(20));
        assert_eq!(segments(&w), (10.0, 10.0));
    }

    #[test]
    fn an_ack_stands_for_two_segments_at_most() {
        let rate = |settings: Westwood| {
            let mut rule = WestwoodWindow::new(&settings);
            for (ms, delivered) in [(0, 1000), (100, 5000)] {
                rule.on_any_ack(&mut window(2.0, 2.0), &Ack { now: at(ms), delivered, ..ack() });
            }
            rule.bandwidth.rate
        };
        assert_eq!(rate(Westwood::default()), Some(20_000.0));
        assert_eq!(
            rate(Westwood { max_segments_per_ack: 0.0, ..Westwood::default() }),
            Some(50_000.0)
        );
    }

    #[test]
    fn settings_are_checked() {
        assert!(Westwood { time_constant: Duration::ZERO, ..Westwood::default() }.check().is_err());
        assert!(
            Westwood { max_segments_per_ack: 0.5, ..Westwood::default() }
                .check()
                .unwrap_err()
                .contains("at least 1")
        );
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            drive(WestwoodWindow::new(&Westwood::default()), Westwood::default().needs(), &steps);
        }

        /// The filter is between zero and the largest of its samples.
        #[test]
        fn the_estimate_is_never_negative(
            acks in prop::collection::vec((0..2_000_000u64, 0..3000u32), 2..200),
        ) {
            let mut f = Tustin::new(Duration::millis(500));
            let mut now = Time::ZERO;
            for (us, bytes) in acks {
                now += Duration::micros(us);
                f.on_ack(now, f64::from(bytes));
                prop_assert!(f.rate.is_none_or(|r| r >= 0.0 && r.is_finite()));
            }
        }
    }
}
