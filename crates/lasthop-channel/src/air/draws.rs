//! Addresses of the random draws of frames.

use std::hint::select_unpredictable;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_core::units::{Duration, Time};

/// What addresses a random draw (common random numbers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DrawIndex {
    /// The time slot in which the frame starts (and its ordinal within the slot): two schemes that
    /// send at the same time see the same channel realisation.
    #[default]
    Slot,
    /// The ordinal of the frame on the air in its direction.
    Frame,
    /// The time slot alone: all frames that start in it have the same fate (block fading).
    Block,
}

/// Default length of a slot that addresses draws.
pub fn default_slot() -> Duration {
    Duration::micros(500)
}

/// Computes the index of each frame's draw.
#[derive(Clone, Debug)]
pub enum Draws {
    /// The ordinal of the frame on the air.
    Frame,
    /// The slot in which the frame starts, which begins at `begin`, and its ordinal within the
    /// slot.
    Slot { length: u64, slot: u64, begin: u64, ordinal: u64 },
    /// The slot in which the frame starts.
    Block { length: u64 },
}

impl Draws {
    pub fn new(index: DrawIndex, slot: Duration) -> Result<Draws, String> {
        match index {
            DrawIndex::Frame => Ok(Draws::Frame),
            DrawIndex::Slot | DrawIndex::Block if slot == Duration::ZERO => {
                Err("slot must be longer than 0 s".into())
            }
            DrawIndex::Block => Ok(Draws::Block { length: slot.0 }),
            // No frame yet: no run reaches that time.
            DrawIndex::Slot => {
                Ok(Draws::Slot { length: slot.0, slot: u64::MAX, begin: 1 << 63, ordinal: 0 })
            }
        }
    }

    /// The index of a frame by its ordinal on the air.
    #[inline]
    pub fn of_frame(frame: u64) -> u64 {
        frame & INDEX
    }

    /// The index (below 2^63) of the frame that starts now. Call it once for each frame, in order
    /// of start.
    #[inline]
    pub fn next(&mut self, start: Time, frame: u64) -> u64 {
        match self {
            Draws::Frame => Draws::of_frame(frame),
            Draws::Block { length } => start.0 / *length,
            Draws::Slot { length, slot, begin, ordinal } => {
                // In a new slot `ordinal` wraps from its largest value to 0.
                let since = start.0.wrapping_sub(*begin);
                if since / 2 >= *length {
                    (*slot, *ordinal) = (start.0 / *length, u64::MAX);
                    *begin = *slot * *length;
                } else {
                    // Selected instead of branched: nothing predicts how many frames a slot has.
                    let next = since >= *length;
                    *slot += u64::from(next);
                    *begin += if next { *length } else { 0 };
                    *ordinal = select_unpredictable(next, u64::MAX, *ordinal);
                }
                *ordinal = ordinal.wrapping_add(1);
                slot.wrapping_add(ordinal.wrapping_mul(SECOND)) & INDEX
            }
        }
    }
}

/// Draws of two variates use twice the index.
const INDEX: u64 = u64::MAX >> 1;

/// Odd, and near 2^64 divided by the golden ratio: the frames of one slot get indices that are as
/// far as possible from each other, so that none equals the index of another slot in a run of
/// realistic length.
const SECOND: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The slot of each frame, and its place among the frames of that slot.
        #[test]
        fn slots_are_those_of_a_division(
            length in 1u64..2_000,
            gaps in prop::collection::vec(prop_oneof![0u64..50, 0u64..5_000], 1..200),
        ) {
            let mut draws = Draws::new(DrawIndex::Slot, Duration(length)).unwrap();
            let (mut start, mut last, mut ordinal) = (0, u64::MAX, 0);
            for gap in gaps {
                start += gap;
                let slot = start / length;
                ordinal = if slot == last { ordinal + 1 } else { 0 };
                last = slot;
                let index = slot.wrapping_add(SECOND.wrapping_mul(ordinal)) & INDEX;
                prop_assert_eq!(draws.next(Time(start), 0), index);
            }
        }
    }

    #[test]
    fn frames_of_one_slot_do_not_share_a_draw() {
        let mut draws = Draws::new(DrawIndex::Slot, Duration::micros(500)).unwrap();
        let mut seen: Vec<u64> = (0..10_000_u64).map(|i| draws.next(Time(i * 30_000), i)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10_000);
    }

    #[test]
    fn frames_of_one_block_share_a_draw() {
        let mut draws = Draws::new(DrawIndex::Block, Duration::millis(5)).unwrap();
        assert_eq!(draws.next(Time(5_000_000), 3), draws.next(Time(9_999_999), 4));
        assert_ne!(draws.next(Time(9_999_999), 5), draws.next(Time(10_000_000), 6));
        assert!(Draws::new(DrawIndex::Block, Duration::ZERO).is_err());
    }

    #[test]
    fn the_index_depends_on_the_slot_and_not_on_the_frames_before() {
        let mut a = Draws::new(DrawIndex::Slot, Duration::micros(500)).unwrap();
        let mut b = a.clone();
        a.next(Time(0), 0);
        a.next(Time(700_000), 1);
        assert_eq!(a.next(Time(1_200_000), 2), b.next(Time(1_499_999), 0));
        assert_eq!(a.next(Time(1_300_000), 3), b.next(Time(1_499_999), 1));
    }
}
