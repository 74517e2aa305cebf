//! TCP Westwood+: Westwood with one bandwidth sample per round trip, which makes it robust against
//! ACK compression.
//!
//! Source: Grieco and Mascolo, ACM CCR 34(2), 2004; Linux' `tcp_westwood` and ns-3's
//! `TcpWestwoodPlus` are this scheme. Deployed at: the sender. Wire: nothing.
//!
//! A sample is the number of bytes delivered in a round trip (at least 50 ms) divided by its
//! length. The samples pass a low-pass filter with constant coefficients: 0.9 of the old value and
//! 0.05 of each of the last two samples. On a loss ssthresh becomes bandwidth × RTTmin, and cwnd is
//! reduced to ssthresh if it is larger; a timeout sets ssthresh in the same way. Growth is Reno's.
//! The filter starts with the first sample.
//!
//! `variant = "linux"` has two filters in series, each with the weights 7/8 and 1/8. In recovery it
//! halves the window as Reno does, and at the end of recovery sets cwnd and ssthresh to the
//! estimate, even if that is larger. RTTmin is reset after a timeout. (ns-3 also sets cwnd to a
//! larger estimate, without the halving.)
//!
//! yun2009 used a public ns-2 module (section 5.1). The public modules derive from ns-2's NewReno,
//! and so does the scheme in its figures here. Over Reno's recovery, which figures 6 and 7 show for
//! comparison, most of the gain at small round-trip times disappears.
//!
//! Assumes that the rate of the last ten or twenty round trips is available to the flow. Bad at:
//! following a falling rate, a loss in early slow start (the estimate lags behind), fairness to
//! Reno.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::units::{Duration, Share, Time};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Window, WindowRule, grow, limit_to, window_rule,
};

/// Variants of Westwood+.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// That of the paper.
    #[default]
    Paper,
    /// That of Linux.
    Linux,
}

/// Settings of Westwood+.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WestwoodPlus {
    /// The paper's rules ("paper") or those of Linux ("linux").
    pub variant: Variant,
    /// Share of the old value that the paper's filter keeps with each sample (0.9 there and in
    /// ns-3); Linux uses other filters.
    pub gain: Share,
    /// A sample spans a round trip, but at least this time (50 ms in Linux).
    pub min_interval: Duration,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for WestwoodPlus {
    fn default() -> Self {
        WestwoodPlus {
            variant: Variant::Paper,
            gain: Share(0.9),
            min_interval: Duration::millis(50),
            recovery: None,
        }
    }
}

impl SchemeConfig for WestwoodPlus {
    const ENTRY: Entry = Entry {
        name: "westwood+",
        family: Family::EndToEnd,
        group: Some(Group::BandwidthEstimation),
        summary: "Westwood that measures its bandwidth over whole round trips",
        paper: "Grieco and Mascolo, ACM CCR 34(2), 2004",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &["the rate of the last round trips is what the flow may have"],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(0.0..1.0).contains(&self.gain.0) {
            return Err(format!("gain must be below 100 %, found {}", self.gain.0));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(WestwoodPlusWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }
}

/// Westwood+'s window rule.
#[derive(Clone, Debug)]
pub struct WestwoodPlusWindow {
    settings: WestwoodPlus,
    /// Bandwidth in bytes per second; and the last sample, or the value of Linux' first filter.
    bandwidth: Option<f64>,
    before: f64,
    /// Bytes delivered since then.
    bytes: u64,
    since: Option<Time>,
    rtt: Option<Duration>,
    rtt_min: Option<Duration>,
    /// Linux: recovery has ended, the next ACK sets the window to the estimate.
    recovered: bool,
}

impl WestwoodPlusWindow {
    /// A rule with these settings.
    pub fn new(settings: &WestwoodPlus) -> Self {
        WestwoodPlusWindow {
            settings: settings.clone(),
            bandwidth: None,
            before: 0.0,
            bytes: 0,
            since: None,
            rtt: None,
            rtt_min: None,
            recovered: false,
        }
    }

    /// Estimated BDP in bytes, if there is one.
    fn estimate(&self) -> Option<f64> {
        Some(self.bandwidth? * self.rtt_min?.as_secs())
    }

    fn open_to_estimate(&self, window: &mut Window, least: f64) {
        if let Some(bytes) = self.estimate() {
            let bytes = bytes.max(least);
            *window = Window { cwnd: bytes, ssthresh: bytes };
        }
    }

    /// A sample in bytes per second.
    fn sample(&mut self, rate: f64) {
        let Some(old) = self.bandwidth else {
            (self.bandwidth, self.before) = (Some(rate), rate);
            return;
        };
        let new = match self.settings.variant {
            Variant::Paper => {
                let gain = self.settings.gain.0;
                let mean = (rate + self.before) / 2.0;
                self.before = rate;
                gain * old + (1.0 - gain) * mean
            }
            Variant::Linux => {
                self.before = (7.0 * self.before + rate) / 8.0;
                (7.0 * old + self.before) / 8.0
            }
        };
        self.bandwidth = Some(new);
    }
}

#[window_rule]
impl WindowRule for WestwoodPlusWindow {
    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        if self.recovered && !ack.recovering {
            self.recovered = false;
            self.open_to_estimate(window, 2.0 * f64::from(ack.mss));
        }
        if let Some(rtt) = ack.rtt {
            self.rtt = Some(rtt);
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |m| m.min(rtt)));
        }
        match (self.since, self.rtt) {
            (None, _) => {
                // The data of this ACK was delivered before the first interval.
                self.since = Some(ack.now);
                return;
            }
            (Some(since), Some(rtt)) => {
                let interval = ack.now.since(since);
                if interval >= rtt.max(self.settings.min_interval) && interval > Duration::ZERO {
                    self.sample((self.bytes + ack.delivered) as f64 / interval.as_secs());
                    (self.since, self.bytes) = (Some(ack.now), 0);
                    return;
                }
            }
            _ => {}
        }
        self.bytes += ack.delivered;
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        let linux = self.settings.variant == Variant::Linux;
        let timeout = loss.kind == LossKind::Timeout;
        self.recovered = false;
        match self.estimate() {
            Some(bytes) if timeout || !linux => limit_to(window, loss, bytes),
            _ => limit_to(window, loss, loss.base() / 2.0),
        }
        if timeout && linux {
            self.rtt_min = None;
        }
        LossClass::Unclassified
    }

    fn on_recovered(&mut self, _window: &mut Window, _now: Time) {
        self.recovered = self.settings.variant == Variant::Linux;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, drive, loss, segments, steps, timeout, window};
    use proptest::prelude::*;

    fn rule(variant: Variant) -> WestwoodPlusWindow {
        WestwoodPlusWindow::new(&WestwoodPlus { variant, ..WestwoodPlus::default() })
    }

    fn see(rule: &mut WestwoodPlusWindow, ms: u64, delivered: u64, rtt: u64) {
        let a = Ack {
            now: Time::ZERO + Duration::millis(ms),
            delivered,
            rtt: Some(Duration::millis(rtt)),
            ..ack()
        };
        rule.on_any_ack(&mut window(2.0, 2.0), &a);
    }

    /// Round trips of 100 ms; in the first 10 kB arrive (100 kB/s), then 20 and 30 kB, aggregated.
    #[test]
    fn one_sample_per_round_trip() {
        let mut r = rule(Variant::Paper);
        for (ms, delivered) in [(0, 4000), (1, 5000), (50, 4000), (100, 1000)] {
            see(&mut r, ms, delivered, 100);
        }
        assert_eq!(r.bandwidth, Some(100_000.0));
        see(&mut r, 199, 19_000, 100);
        see(&mut r, 200, 1000, 100);
        assert!((r.bandwidth.unwrap() - (0.9 * 100_000.0 + 0.05 * 300_000.0)).abs() < 1e-6);
        see(&mut r, 300, 30_000, 100);
        assert!((r.bandwidth.unwrap() - (0.9 * 105_000.0 + 0.05 * 500_000.0)).abs() < 1e-6);
    }

    /// 7/8 of 100 and 1/8 of 200 are 112.5; 7/8 of 100 and 1/8 of that 101.5625.
    #[test]
    fn linux_filters_twice() {
        let mut r = rule(Variant::Linux);
        for (ms, delivered) in [(0, 1000), (100, 10_000), (200, 20_000)] {
            see(&mut r, ms, delivered, 100);
        }
        assert_eq!((r.bandwidth, r.before), (Some(101_562.5), 112_500.0));
    }

    #[test]
    fn short_round_trips_are_lumped() {
        let mut r = rule(Variant::Paper);
        for i in 0..=4 {
            see(&mut r, 10 * i, 1000, 10);
        }
        assert_eq!(r.bandwidth, None);
        see(&mut r, 50, 1000, 10);
        assert_eq!(r.bandwidth, Some(100_000.0));
    }

    /// 100 kB/s × 80 ms = 8 segments.
    #[test]
    fn a_loss_leaves_what_the_path_holds() {
        for (cwnd, after) in [(20.0, 8.0), (5.0, 5.0)] {
            let mut r = rule(Variant::Paper);
            see(&mut r, 0, 1000, 80);
            see(&mut r, 100, 10_000, 90);
            let mut w = window(cwnd, 2.0);
            assert_eq!(r.on_loss(&mut w, &loss(cwnd as u64)), LossClass::Unclassified);
            assert_eq!(segments(&w), (after, 8.0));
            r.on_loss(&mut w, &timeout(5));
            assert_eq!(segments(&w), (1.0, 8.0));
        }
    }

    /// The same in Linux: half at the loss, the estimate at the end of recovery.
    #[test]
    fn linux_takes_the_estimate_when_recovery_ends() {
        for cwnd in [20.0, 5.0] {
            let mut r = rule(Variant::Linux);
            see(&mut r, 0, 1000, 80);
            see(&mut r, 100, 10_000, 90);
            let mut w = window(cwnd, 2.0);
            r.on_loss(&mut w, &loss(cwnd as u64));
            assert_eq!(segments(&w), (cwnd / 2.0, cwnd / 2.0));
            r.on_recovered(&mut w, Time::ZERO);
            r.on_any_ack(&mut w, &Ack { now: Time::ZERO + Duration::millis(101), ..ack() });
            assert_eq!(segments(&w), (8.0, 8.0));
            r.on_loss(&mut w, &timeout(8));
            assert_eq!((segments(&w), r.rtt_min), ((1.0, 8.0), None));
        }
    }

    #[test]
    fn without_an_estimate_a_loss_halves() {
        let mut w = window(20.0, 100.0);
        rule(Variant::Paper).on_loss(&mut w, &loss(20));
        assert_eq!(segments(&w), (10.0, 10.0));
    }

    #[test]
    fn settings_are_checked() {
        assert!(
            WestwoodPlus { gain: Share(1.0), ..WestwoodPlus::default() }
                .check()
                .unwrap_err()
                .contains("below 100 %")
        );
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps(), linux in any::<bool>()) {
            let variant = if linux { Variant::Linux } else { Variant::Paper };
            drive(rule(variant), WestwoodPlus::default().needs(), &steps);
        }
    }
}
