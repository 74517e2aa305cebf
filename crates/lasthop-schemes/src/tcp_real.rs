//! TCP-Real: the receiver measures the arrival rate of each wave of segments and reports the size
//! of the next wave to the sender.
//!
//! Source: Tsaoussidis and Zhang, "TCP-Real: receiver-oriented congestion control", Computer
//! Networks 40(4), 2002. paul2005 mentions in one line that it measures the available bandwidth at
//! the receiver. This is a reconstruction: rules and numbers below are from memory of the paper, or
//! choices. Deployed at: the sender and the receiver. Wire: an experimental option on every ACK
//! with the size of the wave and whether it was reduced.
//!
//! A wave has as many segments as the last reported size. Its rate is the number of bytes after its
//! first segment divided by the time in which they arrived. A rate more than `tolerance` below that
//! of the previous wave indicates congestion: the next wave is reduced in proportion, at most by
//! half. Otherwise the next wave is one segment larger; until the first congestion or gap it is
//! twice as large. The sender's window is the size of the wave. Three duplicate ACKs cause a
//! retransmission without a reduction, because the receiver decides on reductions. A timeout
//! restarts from one segment; ssthresh becomes the wave, or half of it if the last report of the
//! receiver was congestion.
//!
//! Assumes that congestion lowers the arrival rate. Bad at: waves of one segment, which have no
//! rate; a flow that is alone at its queue, whose rate does not fall when the queue overflows;
//! delayed ACKs, which carry older sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Share, Time};
use lasthop_tcp::receiver::{ReceiverRule, Reply};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Report, Window, WindowRule, reduce_to, window_rule,
};

/// Settings of TCP-Real.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpReal {
    /// Decrease of a wave's rate, relative to the wave before, that is not congestion.
    pub tolerance: Share,
    /// Smallest factor by which congestion reduces a wave.
    pub least: Share,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for TcpReal {
    fn default() -> Self {
        TcpReal { tolerance: Share(0.1), least: Share(0.5), recovery: None }
    }
}

impl SchemeConfig for TcpReal {
    const ENTRY: Entry = Entry {
        name: "tcp-real",
        family: Family::EndToEnd,
        group: Some(Group::BandwidthEstimation),
        summary: "the receiver sizes the sender's waves by the rate at which they arrive; losses \
                  alone reduce nothing (a reconstruction)",
        paper: "Tsaoussidis and Zhang, Computer Networks 40(4), 2002",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &["congestion makes the rate of arrivals fall"],
        unsafe_: Some(
            "where queues overflow: it does not back off when a full queue drops packets unless \
             the receiving rate falls",
        ),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(self.tolerance.0 >= 0.0 && self.tolerance.0 < 1.0) {
            return Err(format!(
                "tolerance must be at least 0 % and below 100 %, found {}",
                self.tolerance.0
            ));
        }
        if !(self.least.0 > 0.0 && self.least.0 < 1.0) {
            return Err(format!("least must be above 0 % and below 100 %, found {}", self.least.0));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(TcpRealWindow { congested: false }))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }

    fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        Some(Box::new(Waves::new(self)))
    }
}

/// The largest wave that a report can contain, in segments.
const MOST: u32 = 1 << 20;

/// The sender: its window is the reported wave.
#[derive(Clone, Copy, Debug)]
pub struct TcpRealWindow {
    congested: bool,
}

#[window_rule]
impl WindowRule for TcpRealWindow {
    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    fn on_report(&mut self, window: &mut Window, report: &Report) {
        self.congested = report.value & 1 == 1;
        window.cwnd = f64::from((report.value >> 1).clamp(1, MOST)) * f64::from(report.mss);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        match loss.kind {
            LossKind::Timeout => {
                reduce_to(
                    window,
                    loss,
                    if self.congested { window.cwnd / 2.0 } else { window.cwnd },
                );
                LossClass::Unclassified
            }
            LossKind::Ecn => {
                reduce_to(window, loss, loss.base() / 2.0);
                LossClass::Unclassified
            }
            LossKind::DuplicateAcks if self.congested => LossClass::Congestion,
            LossKind::DuplicateAcks => LossClass::Wireless,
        }
    }

    fn steers_recovery(&self) -> bool {
        true
    }

    fn classifies(&self) -> bool {
        true
    }
}

/// The receiver.
#[derive(Clone, Debug)]
struct Waves {
    tolerance: f64,
    least: f64,
    /// Segments of the present wave: its size, how many have arrived, bytes after the first, and
    /// the arrival of that.
    size: u32,
    came: u32,
    bytes: u64,
    first: Time,
    /// Rate of the last wave in bytes per second.
    rate: Option<f64>,
    /// True while there was no congestion and no gap.
    starting: bool,
    congested: bool,
}

impl Waves {
    fn new(settings: &TcpReal) -> Self {
        let (tolerance, least) = (settings.tolerance.0, settings.least.0);
        Waves {
            tolerance,
            least,
            size: 2,
            came: 0,
            bytes: 0,
            first: Time::ZERO,
            rate: None,
            starting: true,
            congested: false,
        }
    }

    /// The wave is complete: computes the size of the next one.
    fn next(&mut self, now: Time) {
        let time = (now - self.first).as_secs();
        let rate = (self.came > 1 && time > 0.0).then(|| self.bytes as f64 / time);
        let share = match (rate, self.rate) {
            (Some(rate), Some(before)) if before > 0.0 => rate / before,
            _ => 1.0,
        };
        self.congested = share < 1.0 - self.tolerance;
        self.size = if self.congested {
            self.starting = false;
            (f64::from(self.size) * share.max(self.least)) as u32
        } else if self.starting {
            self.size * 2
        } else {
            self.size + 1
        };
        self.size = self.size.clamp(1, MOST);
        self.rate = rate.or(self.rate);
        self.came = 0;
    }
}

impl ReceiverRule for Waves {
    fn on_data(&mut self, now: Time, segment: &Segment, expected: u64, highest: u64) -> Reply {
        self.starting &= segment.seq <= highest;
        if segment.end() > expected {
            if self.came == 0 {
                (self.first, self.bytes) = (now, 0);
            } else {
                self.bytes += u64::from(segment.len);
            }
            self.came += 1;
            if self.came >= self.size {
                self.next(now);
            }
        }
        Reply {
            flags: Flags::REPORT,
            report: self.size << 1 | u32::from(self.congested),
            ..Reply::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{loss, segments, timeout, window};
    use proptest::prelude::*;

    /// Sizes of the waves, with a star where the receiver reports congestion. `spacings`: time
    /// between segments, ms.
    fn sizes(spacings: &[(u64, u32)]) -> Vec<String> {
        let mut waves = Waves::new(&TcpReal::default());
        let (mut now, mut seq, mut all) = (0, 0, vec![String::from("2")]);
        for &(ms, count) in spacings {
            for _ in 0..count {
                now += ms * 1_000_000;
                let reply = waves.on_data(
                    Time(now),
                    &Segment { seq, len: 1000, ..Segment::default() },
                    seq,
                    seq,
                );
                seq += 1000;
                let text = format!(
                    "{}{}",
                    reply.report >> 1,
                    if reply.report & 1 == 1 { "*" } else { "" }
                );
                if all.last() != Some(&text) {
                    all.push(text);
                }
            }
        }
        all
    }

    #[test]
    fn waves_double_and_shrink_with_the_rate() {
        // 2 + 4 + 8 segments each 10 ms; then 16 at half the rate: half as large; then one more for
        // each wave.
        assert_eq!(sizes(&[(10, 14), (20, 16), (20, 17)]), ["2", "4", "8", "16", "8*", "9", "10"]);
        // A rate that falls by less than a tenth has no effect; one that falls by a fifth reduces
        // the wave by a fifth.
        assert_eq!(sizes(&[(100, 6), (105, 8), (130, 16)]), ["2", "4", "8", "16", "12*"]);
    }

    #[test]
    fn a_gap_ends_the_start() {
        let mut waves = Waves::new(&TcpReal::default());
        let mut size = |n: u64, expected: u64, highest: u64| {
            let segment = Segment { seq: n * 1000, len: 1000, ..Segment::default() };
            waves.on_data(Time(n * 10_000_000), &segment, expected * 1000, highest * 1000).report
                >> 1
        };
        assert_eq!(
            [
                size(0, 0, 0),
                size(1, 1, 1),
                size(3, 2, 2),
                size(4, 2, 4),
                size(5, 2, 5),
                size(6, 2, 6)
            ],
            [2, 4, 4, 4, 4, 5]
        );
    }

    #[test]
    fn the_sender_does_as_it_is_told() {
        let mut rule = TcpRealWindow { congested: false };
        let mut w = window(10.0, 20.0);
        let report = |value| Report { now: Time::ZERO, value, srtt: None, flight: 0, mss: 1000 };
        rule.on_report(&mut w, &report(14 << 1));
        assert_eq!(
            (rule.on_loss(&mut w, &loss(14)), segments(&w)),
            (LossClass::Wireless, (14.0, 20.0))
        );
        assert_eq!(
            (rule.on_loss(&mut w, &timeout(14)), segments(&w)),
            (LossClass::Unclassified, (1.0, 14.0))
        );
        rule.on_report(&mut w, &report(8 << 1 | 1));
        assert_eq!(
            (rule.on_loss(&mut w, &loss(8)), segments(&w)),
            (LossClass::Congestion, (8.0, 14.0))
        );
        assert_eq!(
            (rule.on_loss(&mut w, &timeout(8)), segments(&w)),
            (LossClass::Unclassified, (1.0, 4.0))
        );
    }

    proptest! {
        #[test]
        fn any_report_leaves_a_window_and_any_arrivals_a_wave(
            value: u32,
            arrivals in prop::collection::vec((0u64..1 << 40, 0u64..1 << 20, 0u32..3000), 0..200),
        ) {
            let (mut rule, mut w) = (TcpRealWindow { congested: false }, window(2.0, 4.0));
            let report = Report { now: Time::ZERO, value, srtt: None, flight: 0, mss: 1000 };
            rule.on_report(&mut w, &report);
            prop_assert!(w.cwnd >= 1000.0);
            let (mut waves, mut now) = (Waves::new(&TcpReal::default()), 0);
            for (after, seq, len) in arrivals {
                now += after;
                let segment = Segment { seq, len, ..Segment::default() };
                let reply = waves.on_data(Time(now), &segment, 1 << 19, 1 << 19);
                prop_assert!(reply.report >> 1 >= 1);
            }
        }
    }
}
