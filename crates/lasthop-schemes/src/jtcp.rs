//! JTCP: jitter-based TCP, which reduces the window after a loss only if the segments of the last
//! window were queued on the path.
//!
//! Source: Wu and Chen, "JTCP: jitter-based TCP for heterogeneous wireless networks", IEEE JSAC
//! 22(4), 2004. Deployed at: the sender, and the receiver, which must timestamp its ACKs. Wire: the
//! timestamps option (12 bytes in every segment).
//!
//! Over the last w segments, w being the window, the jitter ratio is Jr = (dR - dS) / dR, where dR
//! is the time in which they arrived and dS the time in which they were sent; it is the share of
//! the segments that were queued. If more than k of w segments were queued, Jr > k/w, there is
//! congestion.
//!
//! * Duplicate ACKs: with congestion, and without a reduction in the last round trip, fast
//!   retransmit and fast recovery as in Reno; otherwise "immediate recovery": the segment is
//!   retransmitted and the window does not change.
//! * Timeout: with congestion as in Reno; otherwise cwnd and ssthresh are both set to half of cwnd.
//!
//! The times come from the timestamps option, so only ACKs of new data count: a duplicate ACK
//! echoes an old timestamp (RFC 7323, section 4.3). The lost segment is always retransmitted at the
//! third duplicate ACK; yun2009's remark that fast retransmit waits for several round trips of
//! duplicates is read as the rule of one reduction per round trip. k = 1 is from memory of the
//! paper.
//!
//! Assumes that only queues increase the spacing of segments. Bad at: jitter of link-layer
//! retransmissions and rate changes (they look like queues), windows limited by the receiver over a
//! queue of constant length, delayed ACKs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::ring::Ring;
use lasthop_core::units::Time;
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Needs, Stamps, Window, WindowRule, grow, limit_to, window_rule,
};

/// Settings of JTCP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Jtcp {
    /// Queued segments of a window that are not congestion: k, in the threshold k/w.
    #[schemars(extend("unit" = "segments"))]
    pub k: f64,
    /// Minimum time, in round trips, between two reductions on duplicate ACKs.
    #[schemars(extend("unit" = "round trips"))]
    pub between_reductions: f64,
    /// Loss recovery under the rule; unset: the profile's, or "reno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Jtcp {
    fn default() -> Self {
        Jtcp { k: 1.0, between_reductions: 1.0, recovery: None }
    }
}

impl SchemeConfig for Jtcp {
    const ENTRY: Entry = Entry {
        name: "jtcp",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "Reno that keeps its window after a loss unless the last window of segments had \
                  queued on its way",
        paper: "Wu and Chen, IEEE JSAC 22(4), 2004",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "only queues stretch a window of segments on its way",
            "the receiver stamps its ACKs",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        for (name, value) in [("k", self.k), ("between_reductions", self.between_reductions)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(format!("{name} must be at least 0, found {value}"));
            }
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(JtcpWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Reno)))
    }

    fn needs(&self) -> Needs {
        Needs { timestamps: true, ..Needs::default() }
    }
}

/// An ACK of new data: its number, and when the acknowledged segment was sent and had arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    ack: u64,
    stamps: Stamps,
}

/// JTCP's window rule.
#[derive(Clone, Debug)]
pub struct JtcpWindow {
    k: f64,
    between_reductions: f64,
    /// The arrivals of the last window, the newest at the end.
    arrivals: Ring<Arrival>,
    last_reduction: Option<Time>,
}

impl JtcpWindow {
    /// A rule with these settings.
    pub fn new(settings: &Jtcp) -> Self {
        JtcpWindow {
            k: settings.k,
            between_reductions: settings.between_reductions,
            arrivals: Ring::default(),
            last_reduction: None,
        }
    }

    /// The jitter ratio over the last `window` bytes acknowledged; 0 without two arrivals to
    /// compare.
    fn jitter_ratio(&self, window: f64) -> f64 {
        let Some(last) = self.arrivals.back() else { return 0.0 };
        let from = last.ack.saturating_sub(window as u64);
        let first = (0..self.arrivals.len())
            .filter_map(|i| self.arrivals.get(i))
            .find(|a| a.ack >= from)
            .unwrap_or(last);
        let (sent, received) = last.stamps.since(first.stamps);
        if received > 0.0 { (received - sent) / received } else { 0.0 }
    }

    /// True if more than k segments of the window had queued.
    fn congested(&self, window: &Window, loss: &Loss) -> bool {
        let (mss, bytes) = (f64::from(loss.mss), window.cwnd.min(loss.window));
        self.jitter_ratio(bytes) > self.k * mss / bytes.max(mss)
    }

    fn reduced_lately(&self, loss: &Loss) -> bool {
        let (Some(last), Some(srtt)) = (self.last_reduction, loss.srtt) else { return false };
        (loss.now - last).as_secs() <= self.between_reductions * srtt.as_secs()
    }
}

#[window_rule]
impl WindowRule for JtcpWindow {
    fn classifies(&self) -> bool {
        true
    }

    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        let Some(stamps) = ack.stamps.filter(|_| ack.bytes > 0) else { return };
        self.arrivals.push(Arrival { ack: ack.snd_una, stamps });
        let from = ack.snd_una.saturating_sub(window.cwnd as u64);
        while self.arrivals.front().is_some_and(|a| a.ack < from) {
            self.arrivals.pop();
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        let congested = self.congested(window, loss);
        let said = match (loss.kind, congested) {
            (LossKind::Ecn, _) => LossClass::Unclassified,
            (_, true) => LossClass::Congestion,
            (_, false) => LossClass::Wireless,
        };
        match (loss.kind, said) {
            (LossKind::DuplicateAcks, LossClass::Wireless) => return said,
            (LossKind::DuplicateAcks, _) if self.reduced_lately(loss) => return said,
            (LossKind::Timeout, LossClass::Wireless) => {
                window.ssthresh = loss.ssthresh(window.cwnd / 2.0);
                window.cwnd = window.cwnd.min(window.ssthresh);
            }
            _ => limit_to(window, loss, loss.base() / 2.0),
        }
        self.last_reduction = Some(loss.now);
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, drive, loss, segments, steps, timeout, window};
    use lasthop_core::units::Duration;
    use proptest::prelude::*;

    /// A rule after ACKs for segments 1, 2, 3 … with these times of sending and arrival in ms; cwnd
    /// is ten segments.
    fn seen(settings: &Jtcp, times: &[(u32, u32)]) -> JtcpWindow {
        let mut rule = JtcpWindow::new(settings);
        let mut w = window(10.0, 5.0);
        for (i, &(sent, received)) in (1..).zip(times) {
            let stamps = Some(Stamps { sent: sent * 1000, received: received * 1000 });
            rule.on_any_ack(&mut w, &Ack { snd_una: i * 1000, stamps, ..ack() });
        }
        rule
    }

    /// Eleven segments sent every 8 ms, arriving every `spacing` ms.
    fn course(spacing: u32) -> Vec<(u32, u32)> {
        (0..11).map(|i| (8 * i, 500 + spacing * i)).collect()
    }

    /// Ten gaps: sent in 80 ms, arrived in 100 ms, so 20 ms of 100 is two segments of ten queued.
    /// The clocks are 500 ms apart.
    #[test]
    fn the_jitter_ratio_is_the_share_that_queued() {
        let settings = Jtcp::default();
        assert!((seen(&settings, &course(10)).jitter_ratio(10_000.0) - 0.2).abs() < 1e-12);
        assert_eq!(seen(&settings, &course(8)).jitter_ratio(10_000.0), 0.0);
        // Only the last window counts: of the last five gaps.
        let mut late = course(8);
        late.iter_mut().take(5).for_each(|t| t.1 -= 4 * (40 - t.0) / 8);
        assert_eq!(seen(&settings, &late).jitter_ratio(5000.0), 0.0);
        assert!(seen(&settings, &late).jitter_ratio(10_000.0) > 0.19);
        assert_eq!(JtcpWindow::new(&settings).jitter_ratio(10_000.0), 0.0);
    }

    fn answer(rule: &mut JtcpWindow, loss: &Loss) -> (LossClass, (f64, f64)) {
        let mut w = window(10.0, 5.0);
        (rule.on_loss(&mut w, loss), segments(&w))
    }

    /// With a window of ten, one queued segment (1/10) is not congestion, two are.
    #[test]
    fn more_than_k_segments_of_a_window_are_congestion() {
        let one = [
            (0, 500),
            (8, 508),
            (16, 516),
            (24, 524),
            (32, 532),
            (40, 540),
            (48, 548),
            (56, 556),
            (64, 564),
            (72, 572),
            (72, 580),
        ];
        assert_eq!(
            answer(&mut seen(&Jtcp::default(), &one), &loss(10)),
            (LossClass::Wireless, (10.0, 5.0))
        );
        assert_eq!(
            answer(&mut seen(&Jtcp::default(), &course(10)), &loss(10)),
            (LossClass::Congestion, (5.0, 5.0))
        );
        let strict = Jtcp { k: 0.5, ..Jtcp::default() };
        assert_eq!(answer(&mut seen(&strict, &one), &loss(10)).0, LossClass::Congestion);
        let lax = Jtcp { k: 2.5, ..Jtcp::default() };
        assert_eq!(answer(&mut seen(&lax, &course(10)), &loss(10)).0, LossClass::Wireless);
    }

    #[test]
    fn a_timeout_is_renos_or_half_of_it() {
        assert_eq!(
            answer(&mut seen(&Jtcp::default(), &course(10)), &timeout(8)),
            (LossClass::Congestion, (1.0, 4.0))
        );
        assert_eq!(
            answer(&mut seen(&Jtcp::default(), &course(8)), &timeout(8)),
            (LossClass::Wireless, (5.0, 5.0))
        );
    }

    #[test]
    fn one_reduction_for_a_round_trip() {
        let mut rule = seen(&Jtcp::default(), &course(10));
        let at = |ms: u64| Loss {
            now: Time::ZERO + Duration::millis(ms),
            srtt: Some(Duration::millis(100)),
            ..loss(10)
        };
        assert_eq!(answer(&mut rule, &at(1000)), (LossClass::Congestion, (5.0, 5.0)));
        assert_eq!(
            answer(&mut rule, &at(1100)),
            (LossClass::Congestion, (10.0, 5.0)),
            "it is held for congestion, but answered already"
        );
        assert_eq!(answer(&mut rule, &at(1101)), (LossClass::Congestion, (5.0, 5.0)));
        let mut eager = seen(&Jtcp { between_reductions: 0.0, ..Jtcp::default() }, &course(10));
        answer(&mut eager, &at(1000));
        assert_eq!(answer(&mut eager, &at(1001)).1, (5.0, 5.0));
    }

    /// A duplicate echoes the timestamp of the last acknowledged segment: it does not measure the
    /// delay of the segment that caused it.
    #[test]
    fn duplicates_are_not_measured() {
        let mut rule = seen(&Jtcp::default(), &course(8));
        let late = Stamps { sent: 80_000, received: 900_000 };
        rule.on_any_ack(
            &mut window(10.0, 5.0),
            &Ack { bytes: 0, snd_una: 11_000, stamps: Some(late), ..ack() },
        );
        assert_eq!(rule.jitter_ratio(10_000.0), 0.0);
    }

    /// An ACK covers two segments: the window is ten segments, or five ACKs. Clocks may wrap in
    /// between.
    #[test]
    fn delayed_acks_and_wrapping_clocks() {
        let mut rule = JtcpWindow::new(&Jtcp::default());
        for i in 1..=8u32 {
            let stamps = Some(Stamps {
                sent: 4_294_950_000u32.wrapping_add(16_000 * i),
                received: 4_294_900_000u32.wrapping_add(20_000 * i),
            });
            rule.on_any_ack(
                &mut window(10.0, 5.0),
                &Ack { bytes: 2000, snd_una: 2000 * u64::from(i), stamps, ..ack() },
            );
        }
        assert_eq!(rule.arrivals.len(), 6);
        assert!((rule.jitter_ratio(10_000.0) - 0.2).abs() < 1e-12);
    }

    #[test]
    fn settings_are_checked() {
        assert!(Jtcp { k: -1.0, ..Jtcp::default() }.check().unwrap_err().contains("k must be"));
        assert!(Jtcp { between_reductions: f64::NAN, ..Jtcp::default() }.check().is_err());
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            let settings = Jtcp::default();
            drive(JtcpWindow::new(&settings), settings.needs(), &steps);
        }
    }
}
