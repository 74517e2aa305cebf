//! Ideal bandwidth estimation: Westwood, TIBET and Jersey with perfect estimates.
//!
//! Source: the bound in yun2009, section 5.2, figure 12. Deployed at: nowhere; an oracle notifies
//! the sender, once per round trip, of the available rate and of the round-trip time without
//! queues. Only a simulator has one. Wire: nothing.
//!
//! After three duplicate ACKs ssthresh is the available rate times the base round-trip time, at
//! least two segments, and cwnd is reduced to that if it is above. A timeout sets the same ssthresh
//! and one segment. Everything else is NewReno's.
//!
//! The source does not define the available rate if others send too. Two interpretations: an equal
//! share of the bottleneck after datagrams (`fair-share`), or what all others have left in the last
//! round trip (`residual`). With the first, window and share agree; with the second a flow that
//! starts late finds nothing left.
//!
//! What it shows: knowledge of the rate does not make a sender fair to others. It keeps its
//! threshold after any number of losses, whereas Reno halves at each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::segment::{Notice, NoticeKind};
use lasthop_core::units::Time;
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, Needs, Window, WindowRule, grow, limit_to, window_rule,
};

/// Definition of the available rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Estimate {
    /// An equal share of the bottleneck among the flows that are active.
    #[default]
    FairShare,
    /// What the other flows have left in the last round trip.
    Residual,
}

/// Settings of ideal bandwidth estimation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IdealBwe {
    /// Definition of the available rate: "fair-share" of the bottleneck, or "residual", what the
    /// others have left of it.
    pub estimate: Estimate,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl SchemeConfig for IdealBwe {
    const ENTRY: Entry = Entry {
        name: "ideal-bwe",
        family: Family::EndToEnd,
        group: Some(Group::BandwidthEstimation),
        summary: "a bound: after a loss the window is what an oracle says the path could carry",
        paper: "Yun, EURASIP JWCN 2009, section 5.2",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "an oracle knows the available rate and the round-trip time of the empty path",
        ],
        simulation_only: true,
        ..Entry::DEFAULT
    };

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(IdealBweWindow {
            estimate: self.estimate,
            rate: None,
            round_trip: None,
        }))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }

    fn needs(&self) -> Needs {
        Needs { oracle: true, ..Needs::default() }
    }
}

/// The window rule of ideal bandwidth estimation.
#[derive(Clone, Copy, Debug)]
pub struct IdealBweWindow {
    estimate: Estimate,
    /// Available payload rate, bit/s.
    rate: Option<u64>,
    /// Round-trip time of the empty path, ns.
    round_trip: Option<u64>,
}

#[window_rule]
impl WindowRule for IdealBweWindow {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn on_notice(&mut self, _window: &mut Window, _now: Time, notice: &Notice) {
        match (notice.kind, self.estimate) {
            (NoticeKind::FairShare, Estimate::FairShare)
            | (NoticeKind::Residual, Estimate::Residual) => self.rate = Some(notice.value),
            (NoticeKind::BaseRtt, _) => self.round_trip = Some(notice.value),
            _ => {}
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        let bytes = match (self.rate, self.round_trip) {
            (Some(rate), Some(ns)) => rate as f64 / 8.0 * ns as f64 * 1e-9,
            _ => loss.base() / 2.0,
        };
        limit_to(window, loss, bytes);
        LossClass::Unclassified
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{drive, loss, segments, steps, timeout, window};
    use proptest::prelude::*;

    /// A rule after the oracle's notice: 800 kbit/s as its share, 400 kbit/s as the rest, and a
    /// round trip of 120 ms.
    fn told(estimate: Estimate) -> AnyWindow {
        let mut rule = IdealBwe { estimate, recovery: None }.window().unwrap();
        for (kind, value) in [
            (NoticeKind::FairShare, 800_000),
            (NoticeKind::Residual, 400_000),
            (NoticeKind::BaseRtt, 120_000_000),
            (NoticeKind::Link, 0),
        ] {
            rule.on_notice(
                &mut window(1.0, 1.0),
                Time::ZERO,
                &Notice { kind, flow: 0, value, stamp: Time::ZERO },
            );
        }
        rule
    }

    /// 800 kbit/s for 120 ms are 12 segments of 1000 bytes, 400 kbit/s six.
    #[test]
    fn the_window_is_the_available_rate_times_the_base_round_trip() {
        for (estimate, pipe) in [(Estimate::FairShare, 12.0), (Estimate::Residual, 6.0)] {
            let answer = |cwnd: f64, loss: &Loss| {
                let mut w = window(cwnd, 100.0);
                told(estimate).on_loss(&mut w, loss);
                segments(&w)
            };
            assert_eq!(answer(20.0, &loss(20)), (pipe, pipe));
            assert_eq!(answer(5.0, &loss(5)), (5.0, pipe), "cwnd is not raised");
            assert_eq!(answer(20.0, &timeout(20)), (1.0, pipe));
        }
    }

    /// After two losses in a row Reno has a quarter of its window; this rule has the same as after
    /// the first.
    #[test]
    fn a_second_loss_changes_nothing() {
        let (mut rule, mut w) = (told(Estimate::FairShare), window(20.0, 100.0));
        rule.on_loss(&mut w, &loss(20));
        rule.on_loss(&mut w, &loss(12));
        assert_eq!(segments(&w), (12.0, 12.0));
    }

    #[test]
    fn nothing_left_is_two_segments_and_without_an_oracle_it_halves() {
        let mut rule = told(Estimate::Residual);
        let nothing = Notice { kind: NoticeKind::Residual, flow: 0, value: 0, stamp: Time::ZERO };
        let mut w = window(20.0, 100.0);
        rule.on_notice(&mut w, Time::ZERO, &nothing);
        rule.on_loss(&mut w, &loss(20));
        assert_eq!(segments(&w), (2.0, 2.0));
        let mut w = window(20.0, 100.0);
        IdealBwe::default().window().unwrap().on_loss(&mut w, &loss(20));
        assert_eq!(segments(&w), (10.0, 10.0));
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            drive(told(Estimate::FairShare), IdealBwe::default().needs(), &steps);
        }
    }
}
