//! TCP TIBET: Reno that sets its window after a loss to its mean sending rate times the smallest
//! round-trip time.
//!
//! Source: Capone, Fratta and Martignon, IEEE Trans. Mobile Computing 3(2), 2004 (Time Intervals
//! based Bandwidth Estimation Technique). Deployed at: the sender. Wire: nothing.
//!
//! The length of each data segment sent and the time since the previous one enter two averages with
//! the same gain; the quotient of the averages is an unbiased rate, whereas the mean of the
//! quotients would be too high. A second filter with time constant T0 (that of core-stateless fair
//! queueing) smooths the rate. On a loss or timeout ssthresh becomes rate × RTTmin, and cwnd is
//! reduced to ssthresh if it is larger. RTTmin is then multiplied by a factor below one, so that a
//! single small sample of a coarse clock does not persist; it is never increased. yun2009 notes the
//! consequence: with each loss RTTmin moves towards zero, and the window after a loss with it.
//! `rtt_floor` limits the decay to a share of the smallest sample. The constants are uncertain:
//! yun2009 gives none, and the source was not available. With `rtt_factor` 95 % the rule is below
//! Reno under random loss (yun2009's cell at 1 %: 392 against 496 kbit/s), for which it was
//! designed; with 99.9 % it reaches 568. yun2009's figures are drawn with 99.9 % over Reno's
//! recovery, and with 95 % for comparison.
//!
//! Assumes that the present sending rate is the rate that the flow should have. Bad at: many losses
//! (see above), finding spare capacity: the estimate is the flow's present rate.

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

/// Settings of TIBET.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tibet {
    /// Weight of the past in the averages of length and interval, per segment.
    pub gain: Share,
    /// Time constant T0 of the second filter.
    pub time_constant: Duration,
    /// RTTmin is multiplied by this at each loss and timeout.
    pub rtt_factor: Share,
    /// RTTmin is at least this share of the smallest sample; 0 %: no bound, as yun2009 describes
    /// it.
    pub rtt_floor: Share,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Tibet {
    fn default() -> Self {
        Tibet {
            gain: Share(0.99),
            time_constant: Duration::secs(1),
            rtt_factor: Share(0.95),
            rtt_floor: Share(0.0),
            recovery: None,
        }
    }
}

impl SchemeConfig for Tibet {
    const ENTRY: Entry = Entry {
        name: "tibet",
        family: Family::EndToEnd,
        group: Some(Group::BandwidthEstimation),
        summary: "sets its window after a loss to its own mean sending rate times the smallest \
                  round-trip time",
        paper: "Capone, Fratta and Martignon, IEEE TMC 3(2), 2004",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &["the rate before a loss is what the flow may have", "losses are few"],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(0.0..1.0).contains(&self.gain.0) {
            return Err(format!("gain must be below 100 %, found {}", self.gain.0));
        }
        if self.time_constant == Duration::ZERO {
            return Err("time_constant must be above 0 s".into());
        }
        if !(self.rtt_factor.0 > 0.0
            && self.rtt_factor.0 <= 1.0
            && (0.0..=1.0).contains(&self.rtt_floor.0))
        {
            return Err("rtt_factor must be above 0 % and at most 100 %, rtt_floor between 0 % \
                        and 100 %"
                .into());
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(TibetWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }
}

/// Seconds of the first segments that say nothing of the rate: the initial window leaves at once,
/// and the gaps within it, which are those of the host, would be a rate that the second filter
/// takes seconds to forget.
const BURST: f64 = 1e-3;

/// TIBET's window rule.
#[derive(Clone, Debug)]
pub struct TibetWindow {
    settings: Tibet,
    last_sent: Option<Time>,
    /// Averages of length in bytes and interval in seconds. Both start at zero with equal gains, so
    /// their quotient is a weighted mean from the first segment on.
    length: f64,
    interval: f64,
    /// Bytes per second.
    bandwidth: Option<f64>,
    rtt_min: Option<Duration>,
    smallest: Option<Duration>,
}

impl TibetWindow {
    /// A rule with these settings.
    pub fn new(settings: &Tibet) -> Self {
        let settings = settings.clone();
        TibetWindow {
            settings,
            last_sent: None,
            length: 0.0,
            interval: 0.0,
            bandwidth: None,
            rtt_min: None,
            smallest: None,
        }
    }

    fn shrink_rtt_min(&mut self) {
        let Some((rtt, smallest)) = self.rtt_min.zip(self.smallest) else { return };
        let floor = smallest.as_secs() * self.settings.rtt_floor.0;
        self.rtt_min =
            Some(Duration::from_secs_f64((rtt.as_secs() * self.settings.rtt_factor.0).max(floor)));
    }
}

#[window_rule]
impl WindowRule for TibetWindow {
    fn on_sent(&mut self, _window: &mut Window, now: Time, bytes: u32, _flight: u64) {
        let Some(last) = self.last_sent.replace(now) else { return };
        let (gain, gap) = (self.settings.gain.0, now.since(last).as_secs());
        self.length = gain * self.length + (1.0 - gain) * f64::from(bytes);
        self.interval = gain * self.interval + (1.0 - gain) * gap;
        let least = if self.bandwidth.is_none() { (1.0 - gain) * BURST } else { 0.0 };
        if self.interval <= least {
            return;
        }
        let rate = self.length / self.interval;
        let old = libm::exp(-gap / self.settings.time_constant.as_secs());
        self.bandwidth = Some(self.bandwidth.map_or(rate, |b| (1.0 - old) * rate + old * b));
    }

    fn on_any_ack(&mut self, _window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |m| m.min(rtt)));
            self.smallest = Some(self.smallest.map_or(rtt, |m| m.min(rtt)));
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        match self.bandwidth.zip(self.rtt_min) {
            Some((bandwidth, rtt_min)) => limit_to(window, loss, bandwidth * rtt_min.as_secs()),
            None => limit_to(window, loss, loss.base() / 2.0),
        }
        if loss.kind != LossKind::Ecn {
            self.shrink_rtt_min();
        }
        LossClass::Unclassified
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, drive, loss, segments, steps, timeout, window};
    use proptest::prelude::*;

    /// Sends segments of 1000 bytes, in pairs, a pair every 20 ms: 100 kB/s.
    fn settled(settings: &Tibet) -> TibetWindow {
        let mut rule = TibetWindow::new(settings);
        let mut w = window(2.0, 2.0);
        for i in 0..2000u64 {
            rule.on_sent(&mut w, Time::ZERO + Duration::millis(20 * (i / 2)), 1000, 0);
        }
        for rtt in [120, 100, 130] {
            rule.on_any_ack(&mut w, &Ack { rtt: Some(Duration::millis(rtt)), ..ack() });
        }
        rule
    }

    /// Ten segments leave one after the other in 0 or 5 us each, then one every 10 ms for 50 ms.
    #[test]
    fn the_gaps_within_the_first_burst_are_no_rate() {
        let estimate = |gap: u64| {
            let mut rule = TibetWindow::new(&Tibet::default());
            let mut w = window(10.0, 100.0);
            let burst = (0..10).map(|i| Duration::micros(gap * i));
            let later = (1..=5).map(|i| Duration::millis(10 * i));
            for at in burst.chain(later) {
                rule.on_sent(&mut w, Time::ZERO + at, 1000, 0);
            }
            rule.bandwidth.unwrap()
        };
        let (at_once, host) = (estimate(0), estimate(5));
        assert!((host / at_once - 1.0).abs() < 0.01, "{at_once} {host}");
    }

    /// With gain 1/2: length 500, 750 and interval 0.05, 0.125 s after gaps of 100 and 200 ms;
    /// rates 10 000 and 6000 B/s. The second filter keeps exp(-0.2) of the old value.
    #[test]
    fn lengths_and_intervals_are_averaged_apart() {
        let mut rule = TibetWindow::new(&Tibet { gain: Share(0.5), ..Tibet::default() });
        let mut w = window(2.0, 2.0);
        let mut send = |ms, bytes| {
            rule.on_sent(&mut w, Time::ZERO + Duration::millis(ms), bytes, 0);
            rule.bandwidth
        };
        assert_eq!(send(0, 500), None);
        assert_eq!(send(100, 1000), Some(10_000.0));
        let old = 0.818_730_753;
        assert!((send(300, 1000).unwrap() - ((1.0 - old) * 6000.0 + old * 10_000.0)).abs() < 1e-3);
    }

    /// The mean of the pairs' own rates would be infinite.
    #[test]
    fn bursts_do_not_bias_the_rate() {
        let rate = settled(&Tibet::default()).bandwidth.unwrap();
        assert!((rate - 100_000.0).abs() < 1500.0, "{rate}");
    }

    /// 100 kB/s × 100 ms = 10 segments; at the next losses RTTmin is 95 and 90.25 ms.
    #[test]
    fn each_loss_shrinks_the_smallest_round_trip() {
        let mut rule = settled(&Tibet::default());
        rule.bandwidth = Some(100_000.0);
        for expected in [10.0, 9.5, 9.025] {
            let mut w = window(20.0, 2.0);
            rule.on_loss(&mut w, &loss(20));
            assert!(
                (w.cwnd / 1000.0 - expected).abs() < 1e-3 && w.cwnd == w.ssthresh,
                "{w:?}, not {expected}"
            );
        }
        let mut w = window(20.0, 2.0);
        rule.on_loss(&mut w, &timeout(20));
        assert_eq!(w.cwnd, 1000.0);
        for _ in 0..200 {
            rule.on_loss(&mut w, &loss(20));
        }
        assert!(rule.rtt_min.unwrap() < Duration::millis(1), "as yun2009 says");
        assert_eq!(segments(&w).1, 2.0);
    }

    #[test]
    fn a_floor_ends_the_decay() {
        let mut rule = settled(&Tibet { rtt_floor: Share(0.5), ..Tibet::default() });
        for _ in 0..200 {
            rule.on_loss(&mut window(20.0, 2.0), &loss(20));
        }
        assert_eq!(rule.rtt_min, Some(Duration::millis(50)));
        rule.on_any_ack(&mut window(20.0, 2.0), &Ack { rtt: Some(Duration::millis(90)), ..ack() });
        assert_eq!(rule.rtt_min, Some(Duration::millis(50)), "a sample never raises it");
    }

    #[test]
    fn settings_are_checked() {
        assert!(Tibet { gain: Share(1.0), ..Tibet::default() }.check().is_err());
        assert!(
            Tibet { rtt_factor: Share(0.0), ..Tibet::default() }
                .check()
                .unwrap_err()
                .contains("rtt_factor")
        );
        assert!(Tibet { time_constant: Duration::ZERO, ..Tibet::default() }.check().is_err());
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            drive(TibetWindow::new(&Tibet::default()), Tibet::default().needs(), &steps);
        }
    }
}
