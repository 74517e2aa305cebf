//! TCP Santa Cruz: keeps a few segments queued at the bottleneck, estimated from delays on the
//! forward path only.
//!
//! Source: Parsa and Garcia-Luna-Aceves, "Improving TCP congestion control over internets with
//! heterogeneous transmission media", ICNP 1999. Deployed at: the sender, and the receiver, which
//! must put timestamps on its ACKs. Wire: the timestamps option (12 bytes in every segment).
//!
//! The relative delay of two segments is the difference of their one-way delays: D = (R2 - R1) -
//! (S2 - S1), R and S being the times of arrival and of sending by the clocks of the two ends. Its
//! sum since the beginning, divided by the service time of the bottleneck for a segment (the mean
//! spacing of the arrivals of a window), is N, the number of segments queued there. Congestion
//! avoidance, once for each window: N < n - delta, one segment more; N > n + delta, one less;
//! otherwise the window does not change. Slow start ends when N reaches n.
//!
//! A loss is classified as congestion only after the queue has grown in two windows without
//! shrinking in between: then the sender responds as Reno. Otherwise the segment is retransmitted
//! without a reduction. Timeouts are Reno's.
//!
//! The paper's option names the copy of a segment that an ACK acknowledges; here the timestamps
//! option does. The sources do not give these values, which are chosen here: n = 4 (between the 3
//! and 5 that are reported), delta = 0.5 and the change of N that counts as one, 0.5; a window in
//! which N hardly changes does not change the classification either. The delays are summed as times
//! and then counted in segments, because a sum of N per window would drift if the spacing varies.
//! The sum is at least zero; a negative one would mean that counting began with a queue.
//!
//! Assumes that all segments take one route. Bad at: queues that others keep full (N rises and does
//! not fall: losses are classified as congestion), clock skew, ACKs that the receiver delays,
//! changes of rate (they change the number of segments of a delay).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, Needs, Stamps, Window, WindowRule, grow, halve_unless, window_rule,
};

/// Settings of Santa Cruz.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SantaCruz {
    /// Target number of segments queued at the bottleneck: n.
    #[schemars(extend("unit" = "segments"))]
    pub target: f64,
    /// Deviation from the target within which the window does not change: delta.
    #[schemars(extend("unit" = "segments"))]
    pub delta: f64,
    /// Change of the queue within a window that counts as growing or shrinking.
    #[schemars(extend("unit" = "segments"))]
    pub trend: f64,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for SantaCruz {
    fn default() -> Self {
        SantaCruz { target: 4.0, delta: 0.5, trend: 0.5, recovery: None }
    }
}

impl SchemeConfig for SantaCruz {
    const ENTRY: Entry = Entry {
        name: "santa-cruz",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "keeps a few segments queued, counted from forward delays, and its window at a \
                  loss unless that queue grew",
        paper: "Parsa and Garcia-Luna-Aceves, ICNP 1999",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "a queue grows for two windows before it overflows",
            "the receiver stamps its ACKs",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        for (name, value) in [("target", self.target), ("delta", self.delta), ("trend", self.trend)]
        {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(format!("{name} must be at least 0 segments, found {value}"));
            }
        }
        if self.delta > self.target {
            return Err(format!(
                "delta must not be above target, found {} and {}",
                self.delta, self.target
            ));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(SantaCruzWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }

    fn needs(&self) -> Needs {
        Needs { timestamps: true, ..Needs::default() }
    }
}

/// Trend of the queue over the last windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trend {
    /// It has shrunk, or not grown yet.
    Calm,
    /// It has grown in one window.
    Growing,
    /// It has grown in two: a loss is congestion.
    Congested,
}

/// The window being measured: it ends with an ACK of `until`.
#[derive(Clone, Copy, Debug)]
struct Interval {
    stamps: Stamps,
    from: u64,
    until: u64,
}

/// Santa Cruz' window rule.
#[derive(Clone, Debug)]
pub struct SantaCruzWindow {
    target: f64,
    delta: f64,
    least_change: f64,
    interval: Option<Interval>,
    /// Sum of the relative delays, µs, never below zero.
    delay: f64,
    /// Segments queued at the bottleneck: N.
    waiting: f64,
    trend: Trend,
    /// True if a window was measured since it last changed cwnd.
    due: bool,
}

impl SantaCruzWindow {
    /// A rule with these settings.
    pub fn new(settings: &SantaCruz) -> Self {
        SantaCruzWindow {
            target: settings.target,
            delta: settings.delta,
            least_change: settings.trend,
            interval: None,
            delay: 0.0,
            waiting: 0.0,
            trend: Trend::Calm,
            due: false,
        }
    }

    /// Processes a window of segments whose delay is longer by `delay` µs at its end than at its
    /// beginning; one arrived every `spacing` µs.
    fn on_window(&mut self, delay: f64, spacing: f64) {
        self.delay = (self.delay + delay).max(0.0);
        let before = std::mem::replace(&mut self.waiting, self.delay / spacing);
        let change = self.waiting - before;
        self.trend = match self.trend {
            _ if change < -self.least_change => Trend::Calm,
            Trend::Calm if change > self.least_change => Trend::Growing,
            Trend::Growing if change > self.least_change => Trend::Congested,
            unchanged => unchanged,
        };
        self.due = true;
    }
}

#[window_rule]
impl WindowRule for SantaCruzWindow {
    fn classifies(&self) -> bool {
        true
    }

    fn on_any_ack(&mut self, _window: &mut Window, ack: &Ack) {
        // A duplicate echoes an old timestamp (RFC 7323, section 4.3).
        let Some(stamps) = ack.stamps.filter(|_| ack.bytes > 0) else { return };
        if let Some(Interval { stamps: first, from, until }) = self.interval {
            if ack.snd_una < until {
                return;
            }
            let (sent, received) = stamps.since(first);
            if received > 0.0 {
                self.on_window(
                    received - sent,
                    received * f64::from(ack.mss) / (ack.snd_una - from) as f64,
                );
            }
        }
        self.interval =
            Some(Interval { stamps, from: ack.snd_una, until: ack.snd_max.max(ack.snd_una + 1) });
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let mss = f64::from(ack.mss);
        let due = std::mem::take(&mut self.due);
        if window.slow_start() {
            if !due || self.waiting < self.target {
                return grow(window, ack);
            }
            window.ssthresh = window.cwnd.max(2.0 * mss);
        } else if due && self.waiting < self.target - self.delta {
            window.cwnd += mss;
        } else if due && self.waiting > self.target + self.delta && window.cwnd > 2.0 * mss {
            window.cwnd = (window.cwnd - mss).max(2.0 * mss);
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        self.due = false;
        halve_unless(self.trend != Trend::Congested, window, loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, drive, loss, segments, steps, timeout, window};
    use proptest::prelude::*;

    /// Feeds ACKs for segments from `first` on with these times of sending and arrival in ms, ten
    /// segments being in flight.
    fn feed(rule: &mut SantaCruzWindow, w: &mut Window, first: u64, times: &[(u32, u32)]) {
        for (i, &(sent, received)) in (first..).zip(times) {
            let stamps = Some(Stamps { sent: sent * 1000, received: received * 1000 });
            let a = Ack { snd_una: i * 1000, snd_max: (i + 10) * 1000, stamps, ..ack() };
            rule.on_any_ack(w, &a);
            rule.on_ack(w, &a);
        }
    }

    /// Windows of ten segments arriving every 8 ms, sent so that each window leaves `more` more of
    /// them queued.
    fn windows(rule: &mut SantaCruzWindow, w: &mut Window, more: &[i32]) {
        let (mut n, mut sent, mut received) = (1, 0, 500);
        feed(rule, w, n, &[(sent, received)]);
        for more in more {
            // 80 ms of arrivals, 8 ms less of sending for each additional queued segment.
            let times: Vec<(u32, u32)> = (1..=10)
                .map(|i| ((sent as i32 + i * (80 - 8 * more) / 10) as u32, received + 8 * i as u32))
                .collect();
            feed(rule, w, n + 1, &times);
            (sent, received) = times[9];
            n += 10;
        }
    }

    fn after(more: &[i32]) -> (SantaCruzWindow, (f64, f64)) {
        let (mut rule, mut w) = (SantaCruzWindow::new(&SantaCruz::default()), window(10.0, 5.0));
        windows(&mut rule, &mut w, more);
        (rule, segments(&w))
    }

    /// Ten segments arrive in 80 ms and were sent in 64 ms: 16 ms more delay, 8 ms each, are two
    /// more queued segments.
    #[test]
    fn relative_delays_count_the_segments_that_wait() {
        for (more, waiting) in
            [(vec![2], 2.0), (vec![2, 1, 0], 3.0), (vec![3, -1], 2.0), (vec![1, -3], 0.0)]
        {
            assert!(
                (after(&more).0.waiting - waiting).abs() < 1e-9,
                "{more:?}: {}",
                after(&more).0.waiting
            );
        }
    }

    /// Below 3.5 cwnd grows by a segment per window, above 4.5 it shrinks by one, in between it
    /// does not change.
    #[test]
    fn the_window_steers_for_four_segments() {
        assert_eq!(after(&[1]).1, (11.0, 5.0));
        assert_eq!(after(&[1, 2]).1, (12.0, 5.0));
        assert_eq!(after(&[1, 2, 1]).1, (12.0, 5.0), "four wait");
        assert_eq!(after(&[1, 2, 1, 1]).1, (11.0, 5.0), "five wait");
        assert_eq!(after(&[1, 2, 1, 1, -3]).1, (12.0, 5.0));
    }

    /// In slow start each ACK counts, until at the end of a window four segments are queued.
    #[test]
    fn slow_start_ends_at_the_target() {
        let (mut rule, mut w) =
            (SantaCruzWindow::new(&SantaCruz::default()), window(10.0, f64::INFINITY));
        windows(&mut rule, &mut w, &[3]);
        assert_eq!(segments(&w), (21.0, f64::INFINITY));
        let (mut rule, mut w) =
            (SantaCruzWindow::new(&SantaCruz::default()), window(10.0, f64::INFINITY));
        windows(&mut rule, &mut w, &[4]);
        assert_eq!(segments(&w), (20.0, 20.0));
    }

    fn verdict(more: &[i32]) -> (LossClass, (f64, f64)) {
        let (mut rule, mut w) = (after(more).0, window(10.0, 5.0));
        (rule.on_loss(&mut w, &loss(8)), segments(&w))
    }

    #[test]
    fn a_loss_is_congestion_after_two_windows_of_growth() {
        let (kept, halved) =
            ((LossClass::Wireless, (10.0, 5.0)), (LossClass::Congestion, (4.0, 4.0)));
        assert_eq!(verdict(&[]), kept);
        assert_eq!(verdict(&[1]), kept);
        assert_eq!(verdict(&[1, 1]), halved);
        assert_eq!(verdict(&[1, 1, 0]), halved, "a queue that stays full is full");
        assert_eq!(verdict(&[1, 0, 1]), halved);
        assert_eq!(verdict(&[1, -1, 1]), kept);
        assert_eq!(verdict(&[1, 1, -1]), kept);
    }

    #[test]
    fn a_timeout_is_renos_and_no_verdict() {
        let (mut rule, mut w) = (after(&[]).0, window(10.0, 5.0));
        assert_eq!(
            (rule.on_loss(&mut w, &timeout(8)), segments(&w)),
            (LossClass::Unclassified, (1.0, 4.0))
        );
    }

    #[test]
    fn settings_are_checked() {
        assert!(
            SantaCruz { target: f64::NAN, ..SantaCruz::default() }
                .check()
                .unwrap_err()
                .contains("target must be")
        );
        assert!(
            SantaCruz { delta: 5.0, ..SantaCruz::default() }
                .check()
                .unwrap_err()
                .contains("not be above target")
        );
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            let settings = SantaCruz::default();
            drive(SantaCruzWindow::new(&settings), settings.needs(), &steps);
        }
    }
}
