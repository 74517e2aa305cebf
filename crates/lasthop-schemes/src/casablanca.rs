//! TCP Casablanca: routers drop marked segments first, so that the mix of lost segments indicates
//! the cause of the loss.
//!
//! Source: Biaz and Vaidya, "De-randomizing congestion losses to improve TCP performance over
//! wired-wireless networks", IEEE/ACM ToN 13(3), 2005. Deployed at: the sender, the receiver, and
//! every router, whose full queue drops a segment of low priority if it holds one (queue discipline
//! `two-priority`). Wire: a priority in the IP header of every segment, and a bit on ACKs (ELN).
//!
//! The sender marks a fixed share of the new segments, evenly spaced, as low priority. The radio
//! loses segments of both priorities alike; congestion drops those of low priority. The receiver
//! knows the pattern, and therefore the priority of each missing segment. Of the last W missing
//! segments, f is the share of low priority. The losses are classified as wireless if f is below
//! (1 + p) / 2, where p is the share of low priority among all segments: the midpoint between the
//! values that the radio and congestion would give. In that case the duplicate ACKs of the receiver
//! carry ELN. The sender, a NewReno, halves its window only on duplicate ACKs without ELN; timeouts
//! are NewReno's.
//!
//! p = 50 %, W = 5 and the midpoint as threshold are choices: the available sources give none.
//! Retransmissions have high priority.
//!
//! Assumes that every router implements the two priorities, and that radio losses are independent
//! of each other. Bad at: routers without priorities (a drop then looks like a wireless loss, and
//! the sender does not back off), bursts and heavy congestion, which distort the mix, and
//! reordering, which looks like loss.

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
    Ack, Loss, LossClass, Window, WindowRule, grow, halve_unless, window_rule,
};

/// Settings of Casablanca.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Casablanca {
    /// Share of the segments sent with low priority.
    pub low_priority: Share,
    /// Number of missed segments that the receiver evaluates, 1 to 64.
    #[schemars(extend("unit" = "segments"))]
    pub memory: u32,
    /// Loss recovery under the rule; unset: the profile's, or "newreno" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Casablanca {
    fn default() -> Self {
        Casablanca { low_priority: Share(0.5), memory: 5, recovery: None }
    }
}

impl SchemeConfig for Casablanca {
    const ENTRY: Entry = Entry {
        name: "casablanca",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "routers drop marked segments first; the receiver tells from the mix of losses \
                  whether they were the radio's",
        paper: "Biaz and Vaidya, IEEE/ACM ToN 13(3), 2005",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "every router drops low priority first (queue discipline two-priority)",
            "radio losses come one by one",
        ],
        unsafe_: Some(
            "where routers do not drop its marked segments first: it takes losses by congestion \
             for the radio's",
        ),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(self.low_priority.0 > 0.0 && self.low_priority.0 < 1.0) {
            return Err(format!(
                "low_priority must be above 0 % and below 100 %, found {}",
                self.low_priority.0
            ));
        }
        if !(1..=64).contains(&self.memory) {
            return Err(format!("memory must be 1 to 64 segments, found {}", self.memory));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(CasablancaWindow { part: self.low_priority.0 }))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
    }

    fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        Some(Box::new(Diagnosis {
            part: self.low_priority.0,
            memory: self.memory,
            missed: 0,
            low: 0,
            mss: 1,
        }))
    }
}

/// The pattern that both ends know: the share `part` of the segments, evenly spread, has low
/// priority.
fn is_low(index: u64, part: f64) -> bool {
    let before = |n: u64| libm::floor(n as f64 * part);
    before(index + 1) > before(index)
}

/// Casablanca's window rule.
#[derive(Clone, Copy, Debug)]
pub struct CasablancaWindow {
    part: f64,
}

#[window_rule]
impl WindowRule for CasablancaWindow {
    fn classifies(&self) -> bool {
        true
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn marks(&mut self, index: u64) -> Flags {
        if is_low(index, self.part) { Flags::LOW_PRIORITY } else { Flags::NONE }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        halve_unless(loss.eln, window, loss)
    }
}

/// The receiver's diagnosis of the segments that it misses.
#[derive(Clone, Debug)]
struct Diagnosis {
    part: f64,
    memory: u32,
    /// Number of remembered segments, and which of them had low priority, the latest in the lowest
    /// bit.
    missed: u32,
    low: u64,
    /// The largest segment seen: the index of a segment is its offset in this unit.
    mss: u64,
}

impl Diagnosis {
    fn miss(&mut self, low: bool) {
        self.low = self.low << 1 | u64::from(low);
        self.missed = (self.missed + 1).min(self.memory);
    }

    fn wireless(&self) -> bool {
        let remembered = u64::MAX.checked_shr(64 - self.missed).unwrap_or(0);
        let low = (self.low & remembered).count_ones();
        f64::from(low) < (1.0 + self.part) / 2.0 * f64::from(self.missed)
    }
}

impl ReceiverRule for Diagnosis {
    fn on_data(&mut self, _now: Time, segment: &Segment, expected: u64, highest: u64) -> Reply {
        self.mss = self.mss.max(u64::from(segment.len));
        let (first, end) = (highest.div_ceil(self.mss), segment.seq / self.mss);
        for index in first.max(end.saturating_sub(u64::from(self.memory)))..end {
            self.miss(is_low(index, self.part));
        }
        if segment.seq > expected && self.wireless() { Flags::ELN.into() } else { Reply::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{drive, loss, segments, steps, timeout, window};
    use proptest::prelude::*;

    #[test]
    fn the_pattern_is_even() {
        let pattern = |part: f64| (0..8).map(|i| u8::from(is_low(i, part))).collect::<Vec<_>>();
        assert_eq!(pattern(0.5), [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(pattern(0.25), [0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!((0..1000).filter(|&i| is_low(i, 0.3)).count(), 300);
        let settings = Casablanca::default();
        let Some(AnyWindow::Casablanca(mut rule)) = settings.window() else { panic!() };
        assert_eq!((rule.marks(0), rule.marks(1)), (Flags::NONE, Flags::LOW_PRIORITY));
    }

    /// The flags of the ACKs for these segments (numbers from 0); with the default pattern odd ones
    /// have low priority.
    fn answers(settings: &Casablanca, arrivals: &[u64]) -> Vec<bool> {
        let mut rule = settings.receiver().unwrap();
        let (mut got, mut highest) = (std::collections::BTreeSet::new(), 0);
        arrivals
            .iter()
            .map(|&n| {
                let expected = (0..).find(|i| !got.contains(i)).unwrap_or(0) * 1000;
                let segment = Segment { seq: n * 1000, len: 1000, ..Segment::default() };
                let flags = rule.on_data(Time::ZERO, &segment, expected, highest).flags;
                got.insert(n);
                highest = highest.max(segment.end());
                flags.has(Flags::ELN)
            })
            .collect()
    }

    /// A missing segment of high priority was lost on the radio; one of low priority, by
    /// congestion.
    #[test]
    fn the_priority_of_what_is_missing_tells() {
        let settings = Casablanca::default();
        assert_eq!(
            answers(&settings, &[0, 1, 3, 4, 5, 2, 6]),
            [false, false, true, true, true, false, false]
        );
        assert_eq!(answers(&settings, &[0, 2, 3, 4, 1]), [false; 5]);
    }

    /// Of the last five: four of low priority, 4/5 >= 3/4, mean congestion, three do not.
    #[test]
    fn the_mix_of_the_last_five_tells() {
        let settings = Casablanca::default();
        let last = |arrivals: &[u64]| *answers(&settings, arrivals).last().unwrap();
        // Missed: 1, 3, 5, 7 (low) and 8 (high).
        assert!(!last(&[0, 2, 4, 6, 9]));
        // Missed: 1, 3, 5 (low), 6 and 8 (high).
        assert!(last(&[0, 2, 4, 7, 9]));
        // A sixth replaces the first: 3, 5, 7, 8 and 11 are mostly low again.
        assert!(!last(&[0, 2, 4, 6, 9, 10, 12]));
        // With memory 1 only the last one counts.
        let short = Casablanca { memory: 1, ..Casablanca::default() };
        assert_eq!(answers(&short, &[0, 2, 4, 7, 9]), [false, false, false, true, true]);
    }

    #[test]
    fn a_long_gap_is_looked_at_only_as_far_as_memory_goes() {
        assert_eq!(answers(&Casablanca::default(), &[0, 1_000_000_000_000]), [false, true]);
    }

    #[test]
    fn the_sender_keeps_its_window_on_eln() {
        let answer = |loss: &Loss| {
            let mut w = window(10.0, 5.0);
            (CasablancaWindow { part: 0.5 }.on_loss(&mut w, loss), segments(&w))
        };
        assert_eq!(answer(&Loss { eln: true, ..loss(8) }), (LossClass::Wireless, (10.0, 5.0)));
        assert_eq!(answer(&loss(8)), (LossClass::Congestion, (4.0, 4.0)));
        assert_eq!(answer(&timeout(8)), (LossClass::Unclassified, (1.0, 4.0)));
    }

    #[test]
    fn settings_are_checked() {
        assert!(
            Casablanca { low_priority: Share(1.0), ..Casablanca::default() }
                .check()
                .unwrap_err()
                .contains("below 100 %")
        );
        assert!(
            Casablanca { memory: 0, ..Casablanca::default() }
                .check()
                .unwrap_err()
                .contains("1 to 64")
        );
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            drive(CasablancaWindow { part: 0.5 }, Casablanca::default().needs(), &steps);
        }

        /// Any arrivals, in any order, get an answer.
        #[test]
        fn any_arrivals_are_diagnosed(
            arrivals in prop::collection::vec(0..60u64, 1..100),
            memory in 1..=64u32,
        ) {
            answers(&Casablanca { memory, ..Casablanca::default() }, &arrivals);
        }
    }
}
