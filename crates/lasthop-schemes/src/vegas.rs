//! TCP Vegas: keeps a few segments in the queues of the path, measured from round-trip times, and
//! thereby avoids losses.
//!
//! Source: Brakmo and Peterson, IEEE JSAC 13(8), 1995; where the paper leaves details open, as in
//! ns-2's `TCP/Vegas`; `variant = "linux"` is as in Linux' `tcp_vegas`. Deployed at: the sender.
//! Wire: nothing.
//!
//! Once per round trip the sender compares its rate with the rate that the same window would have
//! on an empty path; the difference times the smallest round-trip time is the number of segments in
//! queues, N = W (RTT - BaseRTT) / RTT. If N is below alpha, the window grows by one segment; if N
//! is above beta, it shrinks by one. Slow start doubles the window every second round trip, so that
//! the comparison is valid in the round trips between, and ends when N exceeds gamma. A loss
//! reduces the window by a quarter, a timeout by half. Vegas detects losses early with its
//! fine-grained timer (recovery "reno+fine-timer").
//!
//! Linux differs: it uses the smallest round-trip time of the round instead of the mean, N relative
//! to BaseRTT and in whole segments, slow start in every round trip, Reno's reduction, NewReno's
//! recovery if the profile has none, alpha 2 and beta 4. A round begins with the ACK that ends a
//! recovery.
//!
//! Assumes that BaseRTT is the delay of the path without queues, and that delay varies only by
//! queueing. Bad at: delay variation of radio links (N is then meaningless), routes and handovers
//! that lengthen the path, sharing a queue with senders that fill it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use crate::shared::rounds::{Round, Rounds, backlog};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Window, WindowRule, grow, limit_to, window_rule,
};

/// Variants of Vegas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// That of the paper and of ns-2.
    #[default]
    Paper,
    /// That of Linux.
    Linux,
}

/// Settings of Vegas.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Vegas {
    /// The paper's rules ("paper") or those of Linux ("linux").
    pub variant: Variant,
    /// Grow if fewer segments than this are queued. Unset: 1 (the paper's, ns-2), in Linux 2.
    #[schemars(extend("unit" = "segments"))]
    pub alpha: Option<f64>,
    /// Shrink if more segments than this are queued. Unset: 3 (the paper's, ns-2), in Linux 4.
    #[schemars(extend("unit" = "segments"))]
    pub beta: Option<f64>,
    /// Leave slow start if more segments than this are queued (1 in the paper, ns-2 and Linux).
    #[schemars(extend("unit" = "segments"))]
    pub gamma: f64,
    /// Loss recovery under the rule; unset: the profile's, or "reno+fine-timer" if the profile has
    /// none (in Linux "newreno").
    pub recovery: Option<RecoverySetting>,
}

impl Default for Vegas {
    fn default() -> Self {
        Vegas { variant: Variant::Paper, alpha: None, beta: None, gamma: 1.0, recovery: None }
    }
}

impl Vegas {
    fn bounds(&self) -> (f64, f64) {
        let (alpha, beta) = if self.variant == Variant::Linux { (2.0, 4.0) } else { (1.0, 3.0) };
        (self.alpha.unwrap_or(alpha), self.beta.unwrap_or(beta))
    }
}

impl SchemeConfig for Vegas {
    const ENTRY: Entry = Entry {
        name: "vegas",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "keeps one to three segments in the path's queue, measured from round-trip times",
        paper: "Brakmo and Peterson, IEEE JSAC 13(8), 1995",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "the smallest round-trip time is that of the empty path",
            "delay varies by queueing only",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        let (alpha, beta) = self.bounds();
        if !(alpha > 0.0 && beta >= alpha && beta.is_finite()) {
            return Err(format!(
                "alpha must be above 0 and beta at least alpha, found alpha {alpha}, beta {beta} \
                 segments"
            ));
        }
        if !(self.gamma > 0.0 && self.gamma.is_finite()) {
            return Err(format!("gamma must be above 0, found {} segments", self.gamma));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(VegasWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        let paper = match self.variant {
            Variant::Paper => Recovery { fine_timer: true, ..Recovery::of(RecoveryKind::Reno) },
            Variant::Linux => Recovery::of(RecoveryKind::Newreno),
        };
        Some(RecoverySlot::chosen(self.recovery, paper))
    }
}

/// Vegas' window rule.
#[derive(Clone, Debug)]
pub struct VegasWindow {
    linux: bool,
    alpha: f64,
    beta: f64,
    gamma: f64,
    rounds: Rounds,
    /// True in the rounds of the paper's slow start in which the window does not grow.
    holding: bool,
}

impl VegasWindow {
    /// A rule with these settings.
    pub fn new(settings: &Vegas) -> Self {
        let (alpha, beta) = settings.bounds();
        VegasWindow {
            linux: settings.variant == Variant::Linux,
            alpha,
            beta,
            gamma: settings.gamma,
            rounds: Rounds::default(),
            holding: false,
        }
    }

    fn end_of_round(&mut self, window: &mut Window, ack: &Ack, round: &Round) {
        let mss = f64::from(ack.mss);
        let waiting = backlog(round.bytes as f64, round.mean, round.base) / mss;
        if !window.slow_start() {
            return self.avoid_congestion(window, ack, waiting);
        }
        if !self.holding {
            self.holding = true;
        } else if waiting > self.gamma {
            window.cwnd = (window.cwnd * 7.0 / 8.0).max(2.0 * mss);
            window.ssthresh = 2.0 * mss;
        } else {
            self.holding = false;
        }
    }

    fn end_of_round_in_linux(&mut self, window: &mut Window, ack: &Ack, round: &Round) {
        let mss = f64::from(ack.mss);
        if round.samples < 3 {
            // The samples may show delayed ACKs only: as Reno.
            if !window.slow_start() && may_grow(window, ack) {
                grow(window, ack);
            }
            return;
        }
        let cwnd = window.cwnd / mss;
        let stretch = round.min.0 as f64 / round.base.0.max(1) as f64;
        let waiting = libm::floor(cwnd * (stretch - 1.0));
        if !window.slow_start() {
            self.avoid_congestion(window, ack, waiting);
        } else if waiting > self.gamma {
            let target = libm::floor(cwnd / stretch) + 1.0;
            window.cwnd = window.cwnd.min(target * mss).max(2.0 * mss);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
        window.ssthresh = window.ssthresh.max(window.cwnd * 3.0 / 4.0);
    }

    fn avoid_congestion(&mut self, window: &mut Window, ack: &Ack, waiting: f64) {
        let mss = f64::from(ack.mss);
        if waiting > self.beta {
            window.cwnd = (window.cwnd - mss).max(2.0 * mss);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if waiting < self.alpha && may_grow(window, ack) {
            window.cwnd += mss;
        }
    }
}

/// The sender keeps up with its window: at most two segments of it were unused (ns-2).
fn may_grow(window: &Window, ack: &Ack) -> bool {
    window.cwnd <= (ack.flight + ack.bytes) as f64 + 2.0 * f64::from(ack.mss)
}

#[window_rule]
impl WindowRule for VegasWindow {
    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        let round = self.rounds.on_ack(ack);
        if self.linux {
            self.rounds.resume(ack);
        }
        let Some(round) = round else { return };
        if self.linux {
            self.end_of_round_in_linux(window, ack, &round);
        } else {
            self.end_of_round(window, ack, &round);
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        // Until the data in flight at a loss is acknowledged, there is no measurement: as Reno.
        if self.rounds.paused() || (window.slow_start() && !self.holding) {
            grow(window, ack);
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        self.rounds.pause(loss.snd_max);
        self.holding = false;
        let before = window.cwnd;
        match loss.kind {
            _ if self.linux => limit_to(window, loss, loss.base() / 2.0),
            LossKind::DuplicateAcks | LossKind::Ecn => {
                limit_to(window, loss, loss.base() * 3.0 / 4.0)
            }
            LossKind::Timeout => {
                limit_to(window, loss, loss.base() / 2.0);
                window.cwnd = loss.loss_window.max(before.min(2.0 * f64::from(loss.mss)));
            }
        }
        LossClass::Unclassified
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, drive, loss, segments, steps, timeout, window};
    use lasthop_core::units::Duration;
    use proptest::prelude::*;

    fn paper() -> VegasWindow {
        VegasWindow::new(&Vegas::default())
    }

    fn linux() -> VegasWindow {
        VegasWindow::new(&Vegas { variant: Variant::Linux, ..Vegas::default() })
    }

    /// A rule in the middle of a connection whose shortest round trip was 100 ms, and the number of
    /// bytes it has sent.
    fn settled(mut rule: VegasWindow) -> (VegasWindow, u64) {
        rule.on_any_ack(
            &mut window(4.0, 2.0),
            &Ack { snd_una: 1000, snd_max: 100_000, rtt: Some(Duration::millis(100)), ..ack() },
        );
        rule.holding = false;
        (rule, 100_000)
    }

    /// A round of `n` segments with round-trip time `rtt` ms; the sender then has `n` in flight
    /// again.
    fn round(rule: &mut VegasWindow, w: &mut Window, max: &mut u64, n: u64, rtt: u64) {
        for i in 1..=n {
            let (una, sent) = (*max - (n - i) * 1000 + 1000, *max + i * 1000);
            let a = Ack {
                snd_una: una,
                snd_max: sent,
                flight: sent - una,
                rtt: Some(Duration::millis(rtt)),
                ..ack()
            };
            rule.on_any_ack(w, &a);
            rule.on_ack(w, &a);
        }
        *max += n * 1000;
    }

    /// Growth of the window by a round of 10 segments with this round-trip time in congestion
    /// avoidance.
    fn after(rule: VegasWindow, rtt: u64) -> f64 {
        let (mut rule, mut max) = settled(rule);
        let mut w = window(10.0, 2.0);
        round(&mut rule, &mut w, &mut max, 10, rtt);
        w.cwnd / 1000.0 - 10.0
    }

    /// With 10 segments and 100 ms N is 0.91 at 110 ms, 1.67 at 120, 2.96 at 142, 3.06 at 144.
    #[test]
    fn the_window_follows_alpha_and_beta() {
        assert_eq!(after(paper(), 110), 1.0);
        assert_eq!(after(paper(), 120), 0.0);
        assert_eq!(after(paper(), 142), 0.0);
        assert_eq!(after(paper(), 144), -1.0);
    }

    /// Linux: cwnd (RTT / BaseRTT - 1), truncated. 10 segments: 1 at 119 ms, 2 at 125 ms.
    #[test]
    fn linux_divides_by_the_base_and_counts_whole_segments() {
        assert_eq!(after(linux(), 119), 1.0);
        assert_eq!(after(linux(), 125), 0.0);
        assert_eq!(after(linux(), 140), 0.0);
        assert_eq!(after(linux(), 155), -1.0);
    }

    #[test]
    fn slow_start_doubles_every_other_round() {
        let mut rule = paper();
        let mut w = window(2.0, 1000.0);
        let (mut max, mut seen) = (2000, vec![]);
        for _ in 0..6 {
            let n = (w.cwnd / 1000.0) as u64;
            round(&mut rule, &mut w, &mut max, n, 100);
            seen.push(w.cwnd / 1000.0);
        }
        assert!(seen.windows(2).all(|p| p[1] <= 2.0 * p[0]), "{seen:?}");
        assert!((6.0..=16.0).contains(&seen[5]), "three of six rounds double: {seen:?}");
    }

    /// 16 segments that take 110 ms instead of 100: N = 1.45 > gamma. The window is reduced by an
    /// eighth.
    #[test]
    fn slow_start_ends_at_gamma() {
        let (mut rule, mut max) = settled(paper());
        rule.holding = true;
        let mut w = window(16.0, 1000.0);
        round(&mut rule, &mut w, &mut max, 16, 110);
        assert_eq!(segments(&w), (14.0, 2.0));
    }

    /// Linux sets the window to the BDP, 16 / 1.25 = 12.8, and one more because of truncation.
    #[test]
    fn linux_ends_slow_start_at_the_rate_it_has() {
        let (mut rule, max) = settled(linux());
        let mut w = window(16.0, 1000.0);
        for i in 1..4 {
            let a = Ack {
                snd_una: max - 3000 + i * 1000,
                snd_max: max + 16_000,
                flight: 16_000,
                rtt: Some(Duration::millis(125)),
                ..ack()
            };
            rule.on_any_ack(&mut w, &a);
        }
        rule.on_any_ack(
            &mut w,
            &Ack {
                snd_una: max + 1000,
                snd_max: max + 17_000,
                rtt: Some(Duration::millis(125)),
                ..ack()
            },
        );
        assert_eq!(segments(&w), (13.0, 13.0));
    }

    #[test]
    fn a_loss_costs_a_quarter_and_a_timeout_half() {
        let mut w = window(20.0, 2.0);
        paper().on_loss(&mut w, &loss(20));
        assert_eq!(segments(&w), (15.0, 15.0));
        paper().on_loss(&mut w, &timeout(15));
        assert_eq!(segments(&w), (2.0, 7.5));
        let mut w = window(20.0, 2.0);
        linux().on_loss(&mut w, &loss(20));
        assert_eq!(segments(&w), (10.0, 10.0));
        linux().on_loss(&mut w, &timeout(10));
        assert_eq!(segments(&w), (1.0, 5.0));
    }

    /// 20 segments in flight at a loss: `tcp_vegas_state` begins the next round with the ACK of the
    /// last of them, at snd_nxt 30 here, and decides at the first ACK above that.
    #[test]
    fn linux_begins_a_round_with_the_ack_that_ends_a_recovery() {
        for (rule, decides) in [(linux(), 31), (paper(), 32)] {
            let (mut rule, _) = settled(rule);
            let mut w = window(10.0, 2.0);
            rule.on_loss(&mut w, &Loss { snd_max: 20_000, ..loss(20) });
            w = window(10.0, 2.0);
            let grown = (20..40).find(|&una| {
                let rtt = (una > 20).then_some(Duration::millis(100));
                let at = Ack { snd_una: una * 1000, snd_max: una * 1000 + 10_000, rtt, ..ack() };
                rule.on_any_ack(&mut w, &Ack { flight: 10_000, recovering: una == 20, ..at });
                w.cwnd > 10_000.0
            });
            assert_eq!(grown, Some(decides));
        }
    }

    #[test]
    fn settings_are_checked() {
        assert!(
            Vegas { alpha: Some(4.0), ..Vegas::default() }
                .check()
                .unwrap_err()
                .contains("beta at least alpha")
        );
        assert!(Vegas { gamma: f64::NAN, ..Vegas::default() }.check().is_err());
        assert!(
            Vegas { variant: Variant::Linux, beta: Some(3.0), ..Vegas::default() }.check().is_ok()
        );
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps(), linux in any::<bool>()) {
            let variant = if linux { Variant::Linux } else { Variant::Paper };
            let settings = Vegas { variant, ..Vegas::default() };
            drive(VegasWindow::new(&settings), settings.needs(), &steps);
        }
    }
}
