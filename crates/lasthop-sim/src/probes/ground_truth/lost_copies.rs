//! The segments of a connection of which copies were lost.

use std::collections::VecDeque;

use crate::events::probe::Fate;

/// Lost copies of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LostCopies {
    /// Its first number.
    pub seq: u64,
    /// Lost copies minus the copies that an agent sent.
    pub copies: i32,
    /// The fate of the one that was lost last.
    pub last: Fate,
}

/// Segments with lost copies, in the order of their numbers. In this order most of them are lost:
/// nearly always one is added at the end, and the first ones are removed.
#[derive(Clone, Debug, Default)]
pub(super) struct LostSegments {
    segments: VecDeque<LostCopies>,
}

impl LostSegments {
    /// There are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The place of the segment at `seq`, or where it would be.
    #[inline]
    fn place(&self, seq: u64) -> Result<usize, usize> {
        match self.segments.back() {
            Some(last) if last.seq >= seq => self.segments.binary_search_by_key(&seq, |s| s.seq),
            _ => Err(self.segments.len()),
        }
    }

    /// The lost copies of the segment at `seq`, if there are any.
    pub fn get(&self, seq: u64) -> Option<&LostCopies> {
        self.segments.get(self.place(seq).ok()?)
    }

    /// The lost copies of the segment at `seq`; if there are none yet, an entry for them with the
    /// fate `last`.
    pub fn entry(&mut self, seq: u64, last: Fate) -> &mut LostCopies {
        let place = self.place(seq).unwrap_or_else(|place| {
            self.segments.insert(place, LostCopies { seq, copies: 0, last });
            place
        });
        &mut self.segments[place]
    }

    /// The segments in order: the first number, the lost copies, and the fate of the last one.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u64, i32, Fate)> {
        self.segments.iter().map(|s| (s.seq, s.copies, s.last))
    }

    /// Removes the segments below `ack`.
    #[inline]
    pub fn forget_below(&mut self, ack: u64) {
        while self.segments.front().is_some_and(|s| s.seq < ack) {
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_like_a_sorted_map(
            steps in prop::collection::vec((0u64..30, 0u8..4), 1..100),
        ) {
            let (mut lost, mut model) = (LostSegments::default(), BTreeMap::new());
            for (seq, what) in steps {
                if what == 0 {
                    lost.forget_below(seq);
                    model.retain(|s, _| *s >= seq);
                } else {
                    lost.entry(seq, Fate::Refused).copies += 1;
                    *model.entry(seq).or_insert(0) += 1;
                }
                prop_assert_eq!(lost.is_empty(), model.is_empty());
                for seq in 0..30 {
                    prop_assert_eq!(lost.get(seq).map(|s| s.copies), model.get(&seq).copied());
                }
            }
        }
    }
}
