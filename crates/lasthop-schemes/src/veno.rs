//! TCP Veno: Reno whose response to a loss depends on the number of segments queued on the path, by
//! Vegas' measure.
//!
//! Source: Fu and Liew, IEEE JSAC 21(2), 2003. Deployed at: the sender (in Linux, ns-3). Wire:
//! nothing.
//!
//! Once per round trip the sender estimates the backlog N = W (RTT - BaseRTT) / RTT, with the
//! smallest round-trip time of the round. While N is below beta the path is not full: a loss is
//! classified as one of the radio and costs a fifth of the window instead of half, and the window
//! grows as Reno's; above beta it grows with every other ACK only. Timeouts are Reno's. A round
//! with fewer than three samples gives no estimate, and Veno is Reno then (as in Linux).
//!
//! yun2009 says that in the congestive state every loss is classified as one of the radio: by
//! Veno's own rule it is classified as congestion. BaseRTT is the smallest of the connection, as in
//! Linux and ns-3; the paper resets it after each loss (`reset_on_loss`). Its figures here run over
//! Reno's recovery: it says that Veno is Reno otherwise, and names NewReno for Snoop alone (section
//! 5.1); NewReno is the default.
//!
//! Assumes that a random loss finds the queue short. Bad at: radio losses while the queue is full,
//! jitter of link-layer retransmissions (it looks like backlog), shallow queues that overflow below
//! beta.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use crate::shared::rounds::{Rounds, backlog};
use lasthop_core::units::Share;
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Window, WindowRule, grow, limit_to, window_rule,
};

/// Settings of Veno.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Veno {
    /// Number of queued segments from which the path counts as full (3 in the paper and in Linux).
    #[schemars(extend("unit" = "segments"))]
    pub beta: f64,
    /// Factor of the window after a loss classified as one of the radio (4/5 in the paper and in
    /// Linux).
    pub random_loss_keeps: Share,
    /// Reset the smallest round-trip time after each loss and timeout, as the paper does; Linux and
    /// ns-3 do not.
    pub reset_on_loss: bool,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Veno {
    fn default() -> Self {
        Veno { beta: 3.0, random_loss_keeps: Share(0.8), reset_on_loss: false, recovery: None }
    }
}

impl SchemeConfig for Veno {
    const ENTRY: Entry = Entry {
        name: "veno",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "Reno that gives up a fifth of its window only if round-trip times show no queue \
                  at the loss",
        paper: "Fu and Liew, IEEE JSAC 21(2), 2003",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "a loss of the radio finds the queue short",
            "the smallest round-trip time is that of the empty path",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(self.beta > 0.0 && self.beta.is_finite()) {
            return Err(format!("beta must be above 0, found {} segments", self.beta));
        }
        if !(0.5..=1.0).contains(&self.random_loss_keeps.0) {
            return Err(format!(
                "random_loss_keeps must lie between 50 % (Reno's) and 100 %, found {}",
                self.random_loss_keeps.0
            ));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(VenoWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }
}

/// Veno's window rule.
#[derive(Clone, Debug)]
pub struct VenoWindow {
    beta: f64,
    random_loss_keeps: f64,
    reset_on_loss: bool,
    rounds: Rounds,
    /// Segments that waited in the last round, if it had samples enough.
    waiting: Option<f64>,
    skipped: bool,
}

impl VenoWindow {
    /// A rule with these settings.
    pub fn new(settings: &Veno) -> Self {
        VenoWindow {
            beta: settings.beta,
            random_loss_keeps: settings.random_loss_keeps.0,
            reset_on_loss: settings.reset_on_loss,
            rounds: Rounds::default(),
            waiting: None,
            skipped: false,
        }
    }
}

#[window_rule]
impl WindowRule for VenoWindow {
    fn classifies(&self) -> bool {
        true
    }

    fn on_any_ack(&mut self, _window: &mut Window, ack: &Ack) {
        if let Some(round) = self.rounds.on_ack(ack) {
            let waiting = backlog(round.bytes as f64, round.min, round.base) / f64::from(ack.mss);
            self.waiting = (round.samples >= 3).then_some(waiting);
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let full = self.waiting.is_some_and(|n| n >= self.beta);
        self.skipped = full && !window.slow_start() && !self.skipped;
        if !self.skipped {
            grow(window, ack);
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        let random = self.waiting.is_some_and(|n| n < self.beta);
        self.rounds.pause(loss.snd_max);
        if self.reset_on_loss && loss.kind != LossKind::Ecn {
            self.rounds.forget_base();
        }
        match loss.kind {
            LossKind::DuplicateAcks if random => {
                limit_to(window, loss, loss.base() * self.random_loss_keeps);
                LossClass::Wireless
            }
            LossKind::DuplicateAcks => {
                limit_to(window, loss, loss.base() / 2.0);
                LossClass::Congestion
            }
            LossKind::Timeout | LossKind::Ecn => {
                limit_to(window, loss, loss.base() / 2.0);
                LossClass::Unclassified
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, drive, loss, segments, steps, timeout, window};
    use lasthop_core::units::Duration;
    use proptest::prelude::*;

    /// A rule whose last round sent 10 segments and took `rtt` ms, with BaseRTT 100 ms and
    /// `samples` RTT samples.
    fn measured(settings: &Veno, rtt: u64, samples: u64) -> VenoWindow {
        let mut rule = VenoWindow::new(settings);
        let mut w = window(10.0, 2.0);
        rule.on_any_ack(
            &mut w,
            &Ack { snd_una: 1000, snd_max: 11_000, rtt: Some(Duration::millis(100)), ..ack() },
        );
        for i in 1..samples {
            rule.on_any_ack(
                &mut w,
                &Ack {
                    snd_una: 1000 + i * 1000,
                    snd_max: 21_000,
                    rtt: Some(Duration::millis(rtt + i)),
                    ..ack()
                },
            );
        }
        rule.on_any_ack(
            &mut w,
            &Ack { snd_una: 12_000, snd_max: 21_000, rtt: Some(Duration::millis(rtt)), ..ack() },
        );
        rule
    }

    /// Ten segments: 2.86 wait at 140 ms, 3.1 at 145 ms.
    #[test]
    fn a_loss_without_backlog_costs_a_fifth() {
        let settings = Veno::default();
        for (rtt, samples, keeps, said) in [
            (140, 5, 8.0, LossClass::Wireless),
            (145, 5, 5.0, LossClass::Congestion),
            (140, 3, 8.0, LossClass::Wireless),
            (140, 2, 5.0, LossClass::Congestion),
        ] {
            let mut rule = measured(&settings, rtt, samples);
            let mut w = window(10.0, 2.0);
            assert_eq!(rule.on_loss(&mut w, &loss(10)), said, "{rtt} ms, {samples} samples");
            assert_eq!(segments(&w), (keeps, keeps));
        }
    }

    #[test]
    fn a_timeout_is_renos_and_no_verdict() {
        let mut rule = measured(&Veno::default(), 100, 5);
        let mut w = window(10.0, 2.0);
        assert_eq!(rule.on_loss(&mut w, &timeout(10)), LossClass::Unclassified);
        assert_eq!(segments(&w), (1.0, 5.0));
    }

    #[test]
    fn a_full_path_halves_the_growth() {
        let grown = |rtt: u64, ssthresh: f64| {
            let mut rule = measured(&Veno::default(), rtt, 5);
            let mut w = window(10.0, ssthresh);
            (0..4).for_each(|_| rule.on_ack(&mut w, &ack()));
            w.cwnd / 1000.0
        };
        let one = 10.0 + 1.0 / 10.0;
        assert!((grown(145, 2.0) - (one + 1.0 / one)).abs() < 1e-9, "two of four ACKs count");
        assert!(grown(140, 2.0) > 10.39);
        assert_eq!(grown(145, 100.0), 14.0, "slow start is Reno's");
    }

    /// The shortest round trip is 100 ms. If a loss resets it, rounds of 140 ms look like an empty
    /// path.
    #[test]
    fn the_shortest_round_trip_is_kept_unless_told() {
        for (reset_on_loss, expected) in
            [(false, Some(10.0 * 60.0 / 160.0)), (true, Some(10.0 * 20.0 / 160.0))]
        {
            let mut rule = measured(&Veno { reset_on_loss, ..Veno::default() }, 140, 5);
            let mut w = window(10.0, 2.0);
            rule.on_loss(&mut w, &Loss { snd_max: 21_000, ..loss(10) });
            for (una, max, rtt) in [
                (22_000, 31_000, 140),
                (26_000, 33_000, 160),
                (27_000, 35_000, 160),
                (32_000, 41_000, 160),
            ] {
                rule.on_any_ack(
                    &mut w,
                    &Ack { snd_una: una, snd_max: max, rtt: Some(Duration::millis(rtt)), ..ack() },
                );
            }
            assert_eq!(rule.waiting, expected);
        }
    }

    #[test]
    fn settings_are_checked() {
        assert!(Veno { beta: 0.0, ..Veno::default() }.check().is_err());
        assert!(
            Veno { random_loss_keeps: Share(1.2), ..Veno::default() }
                .check()
                .unwrap_err()
                .contains("between 50 %")
        );
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps(), reset_on_loss in any::<bool>()) {
            let settings = Veno { reset_on_loss, ..Veno::default() };
            drive(VenoWindow::new(&settings), settings.needs(), &steps);
        }
    }
}
