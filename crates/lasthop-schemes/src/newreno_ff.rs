//! TCP NewReno-FF: NewReno that classifies a loss by the variation of the round-trip times before
//! it.
//!
//! Source: Barman and Matta, "Effectiveness of loss labeling in improving TCP performance in
//! wired/wireless networks", ICNP 2002; the flip-flop filter is that of Kim and Noble, "Mobile
//! network estimation", MobiCom 2001. Deployed at: the sender. Wire: nothing.
//!
//! Two exponential averages follow the round-trip time, an agile and a stable one. A control chart
//! chooses between them: after a sample within three sigma of the present estimate the agile one is
//! used, after a sample outside of it, an outlier, the stable one. Sigma is the mean difference of
//! neighbouring samples divided by 1.128. If more than N of the last M samples before a loss were
//! outliers, delays vary as they do when queues fill: the loss is classified as congestion, and the
//! sender responds as NewReno does. Otherwise it is classified as one of the radio and repaired
//! without a reduction. Timeouts are NewReno's.
//!
//! The sources do not give these values, which are chosen here: N = 1 and M = 5; the mean
//! difference is averaged with the stable weight and includes the new sample before the chart is
//! evaluated; before any sample every loss is congestion.
//!
//! Assumes that round-trip times vary in congestion and are constant otherwise (`invert` assumes
//! the opposite, for radios whose link layer repairs losses). Bad at: a queue that is always full
//! or fills slowly, where round-trip times vary little and every drop is classified as the radio's,
//! so that the sender hardly ever backs off; radios with delay noise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, Window, WindowRule, grow, halve_unless, window_rule,
};

/// Settings of NewReno-FF.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewrenoFf {
    /// Weight of the past in the agile average (Kim and Noble: 0.1).
    pub agile: f64,
    /// Weight of the past in the stable average (Kim and Noble: 0.9).
    pub stable: f64,
    /// Round-trip times before a loss that are evaluated: M, 1 to 64.
    #[schemars(extend("unit" = "samples"))]
    pub samples: u32,
    /// More outliers than this number mean congestion: N.
    #[schemars(extend("unit" = "samples"))]
    pub outliers: u32,
    /// Outliers mean the radio instead of congestion.
    pub invert: bool,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for NewrenoFf {
    fn default() -> Self {
        NewrenoFf {
            agile: 0.1,
            stable: 0.9,
            samples: 5,
            outliers: 1,
            invert: false,
            recovery: None,
        }
    }
}

impl SchemeConfig for NewrenoFf {
    const ENTRY: Entry = Entry {
        name: "newreno-ff",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "NewReno that keeps its window after a loss unless round-trip times were \
                  restless before it",
        paper: "Barman and Matta, ICNP 2002",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &["round-trip times vary in congestion and are quiet otherwise"],
        unsafe_: Some(
            "where a queue overflows without restless round trips before: it keeps its window",
        ),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        for (name, weight) in [("agile", self.agile), ("stable", self.stable)] {
            if !(0.0..1.0).contains(&weight) {
                return Err(format!("{name} must be at least 0 and below 1, found {weight}"));
            }
        }
        if !(1..=64).contains(&self.samples) {
            return Err(format!("samples must be 1 to 64, found {}", self.samples));
        }
        if self.outliers >= self.samples {
            return Err(format!(
                "outliers must be fewer than the {} samples, found {}",
                self.samples, self.outliers
            ));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(NewrenoFfWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }
}

/// The flip-flop filter: an agile and a stable average, and the control chart that chooses between
/// them.
#[derive(Clone, Debug)]
struct FlipFlop {
    weights: [f64; 2],
    /// Agile and stable average.
    averages: [f64; 2],
    /// Mean difference of neighbouring samples.
    range: Option<f64>,
    /// The last sample and the present estimate, once there are any.
    last: Option<(f64, f64)>,
}

/// Mean of the range of two samples of a normal distribution, in standard deviations (d2 of control
/// charts).
const D2: f64 = 1.128;

impl FlipFlop {
    fn new(agile: f64, stable: f64) -> Self {
        FlipFlop { weights: [agile, stable], averages: [0.0; 2], range: None, last: None }
    }

    /// Processes a sample. True if it is an outlier.
    fn sample(&mut self, x: f64) -> bool {
        let Some((last, estimate)) = self.last else {
            self.averages = [x; 2];
            self.last = Some((x, x));
            return false;
        };
        let difference = (x - last).abs();
        let range = self.range.map_or(difference, |r| mix(self.weights[1], r, difference));
        for (average, weight) in self.averages.iter_mut().zip(self.weights) {
            *average = mix(weight, *average, x);
        }
        let outside = (x - estimate).abs() > 3.0 * range / D2;
        self.range = Some(range);
        self.last = Some((x, self.averages[usize::from(outside)]));
        outside
    }
}

fn mix(weight: f64, past: f64, new: f64) -> f64 {
    weight * past + (1.0 - weight) * new
}

/// NewReno-FF's window rule.
#[derive(Clone, Debug)]
pub struct NewrenoFfWindow {
    filter: FlipFlop,
    /// Outliers among the last samples, the newest in the lowest bit.
    outside: u64,
    looked_at: u64,
    outliers: u32,
    invert: bool,
}

impl NewrenoFfWindow {
    /// A rule with these settings.
    pub fn new(settings: &NewrenoFf) -> Self {
        NewrenoFfWindow {
            filter: FlipFlop::new(settings.agile, settings.stable),
            outside: 0,
            looked_at: u64::MAX >> (64 - settings.samples.clamp(1, 64)),
            outliers: settings.outliers,
            invert: settings.invert,
        }
    }
}

#[window_rule]
impl WindowRule for NewrenoFfWindow {
    fn classifies(&self) -> bool {
        true
    }

    fn on_any_ack(&mut self, _window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.outside = self.outside << 1 | u64::from(self.filter.sample(rtt.as_secs()));
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        let restless = (self.outside & self.looked_at).count_ones() > self.outliers;
        let wireless = self.filter.last.is_some() && restless == self.invert;
        halve_unless(wireless, window, loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, drive, loss, segments, steps, timeout, window};
    use lasthop_core::units::Duration;
    use proptest::prelude::*;

    /// By hand, with the weights 0.1 and 0.9 (ms):
    /// 104: difference 4 = range, limit 10.64, off by 4: agile 103.6, stable 100.4.
    /// 98: range 4.2, limit 11.17, off by 5.6: agile 98.56, stable 100.16.
    /// 130: range 6.98, limit 18.56, off by 31.44: outlier; agile 126.856, stable 103.144.
    /// 130: range 6.282, limit 16.71, off by 26.856: outlier; stable 105.8296.
    #[test]
    fn the_filter_flips_to_the_stable_average_on_outliers() {
        let mut filter = FlipFlop::new(0.1, 0.9);
        let steps = [
            (100.0, false, 100.0),
            (104.0, false, 103.6),
            (98.0, false, 98.56),
            (130.0, true, 103.144),
            (130.0, true, 105.8296),
        ];
        for (x, outside, estimate) in steps {
            assert_eq!(filter.sample(x), outside, "{x}");
            assert!((filter.last.unwrap().1 - estimate).abs() < 1e-9, "{x}: {:?}", filter.last);
        }
    }

    fn rule(settings: &NewrenoFf, rtts: &[u64]) -> NewrenoFfWindow {
        let mut rule = NewrenoFfWindow::new(settings);
        let mut w = window(10.0, 5.0);
        for &rtt in rtts {
            rule.on_any_ack(&mut w, &Ack { rtt: Some(Duration::millis(rtt)), ..ack() });
        }
        rule
    }

    fn answer(mut rule: NewrenoFfWindow, loss: &Loss) -> (LossClass, (f64, f64)) {
        let mut w = window(10.0, 5.0);
        (rule.on_loss(&mut w, loss), segments(&w))
    }

    const KEPT: (LossClass, (f64, f64)) = (LossClass::Wireless, (10.0, 5.0));
    const HALVED: (LossClass, (f64, f64)) = (LossClass::Congestion, (4.0, 4.0));

    /// One outlier of the last five is tolerated, two are not; then both are forgotten.
    #[test]
    fn two_outliers_of_five_mean_congestion() {
        let settings = NewrenoFf::default();
        let after = |rtts: &[u64]| answer(rule(&settings, rtts), &loss(8));
        assert_eq!(after(&[100, 104, 98]), KEPT);
        assert_eq!(after(&[100, 104, 98, 130]), KEPT);
        assert_eq!(after(&[100, 104, 98, 130, 130]), HALVED);
        // 104 again: range 8.25, 105.83 off by 1.8: within, and three more like it; the two
        // outliers are four and five back.
        assert_eq!(after(&[100, 104, 98, 130, 130, 104, 104, 104]), HALVED);
        assert_eq!(after(&[100, 104, 98, 130, 130, 104, 104, 104, 104]), KEPT);
        let more = NewrenoFf { outliers: 2, ..settings };
        assert_eq!(answer(rule(&more, &[100, 104, 98, 130, 130]), &loss(8)), KEPT);
    }

    #[test]
    fn outliers_mean_the_radio_if_inverted_and_without_samples_all_is_congestion() {
        let inverted = NewrenoFf { invert: true, ..NewrenoFf::default() };
        assert_eq!(answer(rule(&inverted, &[100, 104, 98, 130, 130]), &loss(8)), KEPT);
        assert_eq!(answer(rule(&inverted, &[100, 104, 98]), &loss(8)), HALVED);
        for settings in [NewrenoFf::default(), inverted] {
            assert_eq!(answer(rule(&settings, &[]), &loss(8)), HALVED);
        }
    }

    #[test]
    fn a_timeout_is_newrenos_and_no_verdict() {
        assert_eq!(
            answer(rule(&NewrenoFf::default(), &[100, 100]), &timeout(8)),
            (LossClass::Unclassified, (1.0, 4.0))
        );
    }

    #[test]
    fn settings_are_checked() {
        let bad = |settings: NewrenoFf| settings.check().unwrap_err();
        assert!(bad(NewrenoFf { agile: 1.0, ..NewrenoFf::default() }).contains("agile must be"));
        assert!(bad(NewrenoFf { samples: 65, ..NewrenoFf::default() }).contains("1 to 64"));
        assert!(
            bad(NewrenoFf { outliers: 5, ..NewrenoFf::default() }).contains("fewer than the 5")
        );
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps(), invert in any::<bool>()) {
            let settings = NewrenoFf { invert, ..NewrenoFf::default() };
            drive(NewrenoFfWindow::new(&settings), settings.needs(), &steps);
        }
    }
}
