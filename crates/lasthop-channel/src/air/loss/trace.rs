//! The probability of a loss over time, from a file.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Frame, FrameLoss, LossModel, is_open};
use crate::air::config::{RandomStart, TraceStart};
use crate::air::draws::{DrawIndex, Draws, default_slot};
use crate::air::playback::Playback;
use crate::air::series::Series;
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Time};

/// Each frame is lost with the probability that a file has for the time at which it starts. The
/// word `model` may be left out: `{ trace = "FILE" }`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The file: on each line a time in milliseconds and a probability from 0 to 1, or 1 and 0 for
    /// lost and not lost. Relative to the scenario file.
    pub trace: PathBuf,
    /// Offset in the trace at which the run begins: a time, or "random" (drawn per seed, the same
    /// as for a trace of the rate).
    #[serde(default)]
    pub start: TraceStart,
    /// What addresses the draws.
    #[serde(default)]
    pub index: DrawIndex,
    /// Length of a slot, for `index = "slot"`.
    #[serde(default = "default_slot")]
    pub slot: Duration,
    /// The rows of the file; a host reads them before it builds a link.
    #[serde(skip)]
    pub rows: Option<Arc<Series>>,
}

impl LossModel for Trace {
    type Process = Box<TraceProcess>;

    /// Without rows, no frame is lost.
    fn process(&self, seed: u64, name: &str) -> Result<Box<TraceProcess>, String> {
        let open = |rows: &Series| {
            let (least, most) = rows.range();
            is_open(least) || is_open(most)
        };
        let random_start = matches!(self.start, TraceStart::Named(RandomStart::Random));
        Ok(Box::new(TraceProcess {
            stream: Stream::new(seed, &["loss ", name].concat()),
            draws: Draws::new(self.index, self.slot)?,
            is_random: random_start || self.rows.as_deref().is_some_and(open),
            probability: self.rows.clone().map(|rows| Playback::new(rows, &self.start, seed)),
        }))
    }

    fn slot(&self) -> Option<Duration> {
        Some(self.slot)
    }

    fn check_for_flow(&self) -> Result<(), String> {
        Err("a loss trace belongs to a link or to a station of a cell".into())
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        let mut time = 0;
        let rows = (0..s.whole(1, 6)).map(|_| {
            time += s.whole(1, 2_000) * 1_000_000;
            // In every second case a frame is certainly not lost, or as often as allowed.
            let value = if s.flag() { s.between(0.0, s.worst()) } else { 0.0 };
            (time, value)
        });
        let rows: Vec<_> = rows.collect();
        let start = TraceStart::At(s.millis(0, 3_000));
        Some(Trace {
            trace: "sample.loss".into(),
            start: if s.flag() { start } else { TraceStart::Named(RandomStart::Random) },
            index: s.draw_index(),
            slot: s.millis(1, 20),
            rows: Series::of(rows).map(Arc::new),
        })
    }
}

/// Loses frames with a probability that changes over time. A draw has the index of `index`, as for
/// uniform losses.
#[derive(Clone, Debug)]
pub struct TraceProcess {
    stream: Stream,
    draws: Draws,
    probability: Option<Playback>,
    is_random: bool,
}

impl TraceProcess {
    fn probability_at(&self, start: Time) -> f64 {
        self.probability.as_ref().map_or(0.0, |trace| trace.value_at(start))
    }
}

impl FrameLoss for TraceProcess {
    fn lost(&mut self, frame: &Frame) -> bool {
        let index = self.draws.next(frame.start, frame.ordinal);
        self.stream.uniform(index) < self.probability_at(frame.start)
    }

    fn is_random(&self) -> bool {
        self.is_random
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SLOT, assert_slots_have_fates, fates, is_random, share};
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(rows: &[(u64, f64)], index: DrawIndex) -> Trace {
        let rows = rows.iter().map(|&(ms, p)| (ms * MS, p)).collect();
        Trace {
            trace: "my.loss".into(),
            start: TraceStart::default(),
            index,
            slot: SLOT,
            rows: Series::of(rows).map(Arc::new),
        }
    }

    #[test]
    fn frames_are_lost_with_the_probability_of_their_time() {
        for index in [DrawIndex::Frame, DrawIndex::Slot] {
            let config = of(&[(0, 0.0), (10_000, 0.2), (20_000, 0.05)], index);
            assert!(is_random(config.clone()));
            let lost = fates(config, 1, 60_000, MS / 2);
            let part = |i: usize| share(&lost[20_000 * i..20_000 * (i + 1)]);
            assert_eq!(part(0), 0.0);
            // Standard deviations 0.0028 and 0.0015.
            assert!((part(1) - 0.2).abs() < 0.009 && (part(2) - 0.05).abs() < 0.005);
        }
    }

    #[test]
    fn lost_and_not_lost_need_no_seed() {
        let flags = of(&[(0, 0.0), (5, 1.0), (6, 0.0)], DrawIndex::Slot);
        assert!(!is_random(flags.clone()));
        let lost: Vec<_> = fates(flags, 1, 14, MS).iter().map(|&l| u8::from(l)).collect();
        assert_eq!(lost, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn draws_do_not_depend_on_other_frames() {
        assert_slots_have_fates(of(&[(0, 1.0), (40, 0.0)], DrawIndex::Slot), 2000);
        let start = TraceStart::Named(RandomStart::Random);
        assert!(is_random(Trace { start, ..of(&[(0, 0.0)], DrawIndex::Slot) }));
        let unread = Trace { rows: None, ..of(&[(0, 1.0)], DrawIndex::Slot) };
        assert_eq!(share(&fates(unread.clone(), 1, 100, MS)), 0.0);
        assert!(unread.check_for_flow().is_err());
    }
}
