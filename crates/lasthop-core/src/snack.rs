//! Selective negative acknowledgments: requests for missing segments (SCPS-TP, CCSDS 714.0, option
//! kind 21).

use crate::sack::Block;

/// The holes that an ACK requests: the first one, and a bitmap of the blocks after it.
///
/// Holes are counted in blocks of `unit` bytes (the MSS), as on the wire, and rounded up to whole
/// blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snack {
    /// Stream offset of the first hole.
    pub start: u64,
    /// Size of the first hole, blocks.
    pub blocks: u32,
    /// Size of a block, bytes.
    pub unit: u32,
    /// Bitmap of the 64 blocks after the first hole, lowest bit first: 1 means missing.
    pub more: u64,
}

impl Snack {
    /// No holes.
    pub const NONE: Snack = Snack { start: 0, blocks: 0, unit: 0, more: 0 };

    /// A request for these holes, which must be in order; `None` if there are none. Holes more than
    /// 64 blocks after the first one are omitted.
    pub fn of(mut holes: impl Iterator<Item = Block>, unit: u32) -> Option<Snack> {
        let first = holes.next().filter(|h| h.start < h.end && unit > 0)?;
        let size = u64::from(unit);
        let blocks = u32::try_from((first.end - first.start).div_ceil(size)).unwrap_or(u32::MAX);
        let base = first.start.saturating_add(size * u64::from(blocks));
        let place = |hole: &Block| {
            (hole.start.saturating_sub(base) / size, hole.end.saturating_sub(base).div_ceil(size))
        };
        let more = holes
            .map(|h| place(&h))
            .take_while(|p| p.0 < 64)
            .fold(0, |all, (from, to)| all | ones(from..to.min(64)));
        Some(Snack { start: first.start, blocks, unit, more })
    }

    /// The holes as byte ranges, in order.
    pub fn holes(&self) -> impl Iterator<Item = Block> {
        let Snack { start, blocks, unit, mut more } = *self;
        let (unit, mut at) = (u64::from(unit), 0);
        let base = start.saturating_add(unit * u64::from(blocks));
        let behind = std::iter::from_fn(move || {
            let skipped = u64::from(more.trailing_zeros());
            let missing =
                u64::from((more >> (skipped & 63)).trailing_ones()).min(64 - skipped.min(64));
            if more == 0 {
                return None;
            }
            let from = at + skipped;
            at = from + missing;
            more = more.checked_shr((skipped + missing) as u32).unwrap_or(0);
            Some(Block {
                start: base.saturating_add(from * unit),
                end: base.saturating_add(at * unit),
            })
        });
        (blocks > 0 && unit > 0)
            .then_some(Block { start, end: base })
            .into_iter()
            .chain(behind.filter(move |_| unit > 0))
    }

    /// Length of the bitmap on the wire, bytes. It ends with the received block after the last
    /// hole.
    pub fn map_bytes(&self) -> u32 {
        if self.more == 0 { 0 } else { (65 - self.more.leading_zeros()).div_ceil(8) }
    }

    /// Length that the option adds to a packet, bytes: kind, length, two 16-bit numbers and the
    /// bitmap, padded to 32-bit words.
    pub fn bytes(&self) -> u32 {
        (6 + self.map_bytes()).next_multiple_of(4)
    }
}

/// A mask with the bits of this range set.
fn ones(bits: std::ops::Range<u64>) -> u64 {
    let below = |n: u64| 1u64.checked_shl(n as u32).map_or(u64::MAX, |b| b - 1);
    below(bits.end) & !below(bits.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(holes: &[(u64, u64)]) -> impl Iterator<Item = Block> {
        holes.iter().map(|&(start, end)| Block { start, end })
    }

    #[test]
    fn holes_are_counted_in_blocks() {
        let snack = Snack::of(
            blocks(&[(5000, 7000), (8000, 9000), (10_500, 10_700), (80_000, 90_000)]),
            1000,
        )
        .unwrap();
        assert_eq!((snack.start, snack.blocks, snack.more), (5000, 2, 0b1010));
        let holes: Vec<(u64, u64)> = snack.holes().map(|h| (h.start, h.end)).collect();
        assert_eq!(holes, [(5000, 7000), (8000, 9000), (10_000, 11_000)]);
        assert_eq!((snack.map_bytes(), snack.bytes()), (1, 8));
        assert_eq!(Snack::of(blocks(&[]), 1000), None);
        assert_eq!(Snack::of(blocks(&[(5, 9)]), 0), None);
        assert_eq!(Snack::NONE.holes().count(), 0);
        let long = Snack::of(blocks(&[(0, 1), (1000, 200_000)]), 1000).unwrap();
        assert_eq!((long.more, long.map_bytes(), long.bytes()), (u64::MAX, 9, 16));
    }

    proptest! {
        /// The request equals the missing blocks within the range of the bitmap.
        #[test]
        fn requests_equal_the_missing_blocks(
            start in 0u64..5000,
            missing in prop::collection::vec(any::<bool>(), 0..90),
        ) {
            let hole = |i: usize| (start + 10 * i as u64, start + 10 * i as u64 + 10);
            let missing = missing.iter().enumerate().filter(|m| *m.1);
            let holes: Vec<(u64, u64)> = missing.map(|(i, _)| hole(i)).collect();
            let snack = Snack::of(blocks(&holes), 10);
            prop_assert_eq!(snack.is_none(), holes.is_empty());
            let snack = snack.unwrap_or_default();
            let requested = snack.holes().flat_map(|h| (h.start..h.end).step_by(10));
            let expected = holes.iter().map(|h| h.0).filter(|s| *s < snack.start + 10 + 640);
            prop_assert_eq!(requested.collect::<Vec<u64>>(), expected.collect::<Vec<u64>>());
        }

        #[test]
        fn arbitrary_values_are_accepted(start: u64, blocks: u32, unit: u32, more: u64) {
            let snack = Snack { start, blocks, unit, more };
            prop_assert!(snack.holes().count() <= 33);
            prop_assert!(snack.bytes() <= 16);
        }
    }
}
