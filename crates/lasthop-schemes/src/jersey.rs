//! TCP Jersey: sets the window to an estimate of the available bandwidth, and only after routers
//! have signalled congestion.
//!
//! Source: Xu, Tian and Ansari, "TCP-Jersey for wireless IP communications", IEEE JSAC 22(4), 2004.
//! Deployed at: the sender, and every router, whose queue marks each packet while its average
//! length is above a threshold (queue discipline `cw-marking`). Wire: ECN (RFC 3168); the receiver
//! is an ordinary one.
//!
//! Estimate (ABE): with each ACK R = (Tw R + L) / (dt + Tw), where L is the number of bytes newly
//! acknowledged, dt the time since the last ACK and Tw = K times the round-trip time. The optimal
//! window is the smallest round-trip time times R, at least two segments.
//!
//! * A warning (echoed mark): rate control, once per window of data. ssthresh is set to the optimal
//!   window, and in congestion avoidance cwnd too. Without a warning the window grows as in Reno.
//! * Duplicate ACKs with a warning: rate control and fast recovery. Without a warning the loss is
//!   classified as wireless: the segment is retransmitted and the window does not change.
//! * Timeout: ssthresh is set to the optimal window, cwnd to one segment. The scheme has no remedy
//!   for timeouts caused by the radio.
//!
//! Decided here: rate control never raises cwnd, and a loss with a warning bounds cwnd in slow
//! start too. The smallest round-trip time is that of the paper; a public ns-3 implementation takes
//! the latest one instead. The scheme runs over NewReno, also in yun2009's figures; the paper does
//! not describe its module.
//!
//! Assumes that every router on the path warns before it drops. Bad at: routers that do not warn
//! (the sender then never backs off on losses detected by duplicate ACKs, and harms others), the
//! choice of their threshold, bursts of ACKs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Needs, Window, WindowRule, grow, limit_to, window_rule,
};

/// Settings of Jersey.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Jersey {
    /// Time constant of the bandwidth estimate: K (the paper: 1).
    #[schemars(extend("unit" = "round trips"))]
    pub k: f64,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Jersey {
    fn default() -> Self {
        Jersey { k: 1.0, recovery: None }
    }
}

impl SchemeConfig for Jersey {
    const ENTRY: Entry = Entry {
        name: "jersey",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "sets its window to the estimated bandwidth when routers warn of congestion; a \
                  loss without warning is the radio's",
        paper: "Xu, Tian and Ansari, IEEE JSAC 22(4), 2004",
        changes: Footprint { sender: true, wire: true, ..Footprint::NONE },
        assumptions: &["every router marks all packets before its queue overflows (queue \
                        discipline cw-marking)"],
        unsafe_: Some(
            "where queues overflow without marking: it takes such a loss for the radio's and does \
             not back off",
        ),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(self.k > 0.0 && self.k.is_finite()) {
            return Err(format!("k must be above 0 round trips, found {}", self.k));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(JerseyWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }

    fn needs(&self) -> Needs {
        Needs { ecn: true, ..Needs::default() }
    }
}

/// Jersey's window rule.
#[derive(Clone, Debug)]
pub struct JerseyWindow {
    k: f64,
    /// Estimated bandwidth, bytes per second.
    rate: f64,
    last_ack: Option<Time>,
    shortest_rtt: Option<Duration>,
    /// True if the last ACK carried a warning.
    warned: bool,
}

impl JerseyWindow {
    /// A rule with these settings.
    pub fn new(settings: &Jersey) -> Self {
        JerseyWindow { k: settings.k, rate: 0.0, last_ack: None, shortest_rtt: None, warned: false }
    }

    fn estimate(&mut self, ack: &Ack) {
        let (last, rtt) = (self.last_ack.replace(ack.now), ack.srtt.or(self.shortest_rtt));
        if let (Some(last), Some(rtt)) = (last, rtt) {
            let (passed, span) = ((ack.now - last).as_secs(), self.k * rtt.as_secs());
            if passed + span > 0.0 {
                self.rate = (span * self.rate + ack.delivered as f64) / (passed + span);
            }
        }
    }

    /// The optimal window, bytes.
    fn optimal(&self, mss: u32) -> f64 {
        let rtt = self.shortest_rtt.map_or(0.0, Duration::as_secs);
        (self.rate * rtt).max(2.0 * f64::from(mss))
    }
}

#[window_rule]
impl WindowRule for JerseyWindow {
    fn classifies(&self) -> bool {
        true
    }

    fn on_any_ack(&mut self, _window: &mut Window, ack: &Ack) {
        self.warned = ack.ece;
        self.shortest_rtt = self.shortest_rtt.into_iter().chain(ack.rtt).min();
        self.estimate(ack);
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        let optimal = self.optimal(loss.mss);
        match loss.kind {
            LossKind::DuplicateAcks if !(self.warned || loss.ece) => LossClass::Wireless,
            LossKind::DuplicateAcks => {
                limit_to(window, loss, optimal);
                LossClass::Congestion
            }
            LossKind::Ecn if window.slow_start() => {
                window.ssthresh = loss.ssthresh(optimal);
                LossClass::Unclassified
            }
            LossKind::Ecn | LossKind::Timeout => {
                limit_to(window, loss, optimal);
                LossClass::Unclassified
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{MSS, ack, drive, loss, segments, steps, timeout, window};
    use proptest::prelude::*;

    /// ACKs of one segment each, `spacing` ms apart, with round-trip time 100 ms (the first 80 ms).
    fn fed(settings: &Jersey, acks: u64, spacing: u64) -> JerseyWindow {
        let mut rule = JerseyWindow::new(settings);
        let mut w = window(10.0, 5.0);
        for i in 0..=acks {
            let rtt = Duration::millis(if i == 0 { 80 } else { 100 });
            let now = Time::ZERO + Duration::millis(1000 + i * spacing);
            rule.on_any_ack(
                &mut w,
                &Ack { now, rtt: Some(rtt), srtt: Some(Duration::millis(100)), ..ack() },
            );
        }
        rule
    }

    /// By hand, Tw = 100 ms: the first ACK only starts the clock. 10 ms later R = (0 + 1000) / 0.11
    /// = 9090.9 bytes/s, then R = (909.09 + 1000) / 0.11 = 17355.4.
    #[test]
    fn the_estimate_slides_over_a_round_trip() {
        assert_eq!(fed(&Jersey::default(), 0, 10).rate, 0.0);
        assert!((fed(&Jersey::default(), 1, 10).rate - 9090.909).abs() < 1e-3);
        assert!((fed(&Jersey::default(), 2, 10).rate - 17_355.372).abs() < 1e-3);
        // The estimate converges to a segment in 10 ms; with K = 2 it takes longer.
        assert!((fed(&Jersey::default(), 200, 10).rate - 100_000.0).abs() < 1.0);
        let slow = Jersey { k: 2.0, ..Jersey::default() };
        assert!((fed(&slow, 1, 10).rate - 1000.0 / 0.21).abs() < 1e-9);
    }

    /// 100 segments a second, RTTmin 80 ms: eight segments.
    #[test]
    fn the_optimal_window_is_the_rate_times_the_shortest_round_trip() {
        assert!((fed(&Jersey::default(), 200, 10).optimal(1000) - 8.0 * MSS).abs() < 1.0);
        assert_eq!(JerseyWindow::new(&Jersey::default()).optimal(1000), 2.0 * MSS);
    }

    fn answer(warned: bool, cwnd: f64, ssthresh: f64, loss: &Loss) -> (LossClass, (f64, f64)) {
        let mut rule = JerseyWindow {
            rate: 100_000.0,
            shortest_rtt: Some(Duration::millis(80)),
            warned,
            ..JerseyWindow::new(&Jersey::default())
        };
        let mut w = window(cwnd, ssthresh);
        (rule.on_loss(&mut w, loss), segments(&w))
    }

    #[test]
    fn a_loss_without_a_warning_leaves_the_window() {
        assert_eq!(answer(false, 20.0, 15.0, &loss(20)), (LossClass::Wireless, (20.0, 15.0)));
        assert_eq!(answer(true, 20.0, 15.0, &loss(20)), (LossClass::Congestion, (8.0, 8.0)));
        assert_eq!(
            answer(false, 20.0, 15.0, &Loss { ece: true, ..loss(20) }),
            (LossClass::Congestion, (8.0, 8.0)),
            "the warning came with it"
        );
        assert_eq!(
            answer(true, 6.0, 15.0, &loss(20)),
            (LossClass::Congestion, (6.0, 8.0)),
            "cwnd is not raised"
        );
    }

    #[test]
    fn a_warning_sets_the_window_or_in_slow_start_the_threshold() {
        let warning = Loss { kind: LossKind::Ecn, ..loss(20) };
        assert_eq!(answer(true, 20.0, 15.0, &warning), (LossClass::Unclassified, (8.0, 8.0)));
        assert_eq!(answer(true, 20.0, 30.0, &warning), (LossClass::Unclassified, (20.0, 8.0)));
    }

    #[test]
    fn a_timeout_starts_again_towards_the_optimal_window() {
        assert_eq!(answer(false, 20.0, 15.0, &timeout(20)), (LossClass::Unclassified, (1.0, 8.0)));
    }

    #[test]
    fn settings_are_checked() {
        assert!(Jersey { k: 0.0, ..Jersey::default() }.check().unwrap_err().contains("above 0"));
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            let settings = Jersey::default();
            drive(JerseyWindow::new(&settings), settings.needs(), &steps);
        }
    }
}
