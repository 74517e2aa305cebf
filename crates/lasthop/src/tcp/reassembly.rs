//! What has arrived out of order, and the SACK blocks that say so.

use crate::segment::{Block, SackBlocks};

/// A range of bytes above the next one expected, and when it last grew; 0: too long ago to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    latest: u64,
}

/// The bytes beyond the first gap: disjoint ranges in order.
#[derive(Clone, Debug)]
pub struct Reassembly {
    ranges: Vec<Range>,
    arrivals: u64,
    /// As many ranges are remembered for reports.
    memory: usize,
}

impl Default for Reassembly {
    fn default() -> Self {
        Reassembly::remembering(usize::MAX)
    }
}

/// What an arriving segment brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The next byte expected, afterwards.
    pub next: u64,
    /// What of it had arrived before (RFC 2883): the first such range.
    pub duplicate: Option<Block>,
}

impl Reassembly {
    /// Reports none but the `memory` ranges that grew last, even when some of these are gone (ns-2).
    pub fn remembering(memory: usize) -> Reassembly {
        Reassembly { ranges: Vec::new(), arrivals: 0, memory }
    }

    /// Nothing is missing below what has arrived.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Takes [start, end) when `next` is the next byte expected.
    pub fn take(&mut self, start: u64, end: u64, next: u64) -> Taken {
        if end <= next {
            return Taken { next, duplicate: Some(Block { start, end }) };
        }
        let duplicate = self.known(start, end, next);
        if start > next {
            self.insert(start, end);
            return Taken { next, duplicate };
        }
        let mut next = end;
        let mut gone = 0;
        while let Some(r) = self.ranges.get(gone).filter(|r| r.start <= next) {
            next = next.max(r.end);
            gone += 1;
        }
        self.ranges.drain(..gone);
        Taken { next, duplicate }
    }

    /// The first part of [start, end) that has arrived.
    fn known(&self, start: u64, end: u64, next: u64) -> Option<Block> {
        if start < next {
            return Some(Block { start, end: next });
        }
        let r = self.ranges.iter().find(|r| r.start < end && start < r.end)?;
        Some(Block { start: start.max(r.start), end: end.min(r.end) })
    }

    fn insert(&mut self, start: u64, end: u64) {
        self.arrivals += 1;
        let latest = self.arrivals;
        let from = self.ranges.partition_point(|r| r.end < start);
        let to = self.ranges.partition_point(|r| r.start <= end);
        if from == to {
            self.ranges.insert(from, Range { start, end, latest });
        } else {
            let merged = Range { start: start.min(self.ranges[from].start), end: end.max(self.ranges[to - 1].end), latest };
            self.ranges[from] = merged;
            self.ranges.drain(from + 1..to);
        }
        if self.ranges.len() > self.memory {
            self.forget();
        }
    }

    /// Forgets when the range grew that did so longest ago of those remembered, if they are too many.
    fn forget(&mut self) {
        let known = self.ranges.iter().filter(|r| r.latest > 0).count();
        if known > self.memory
            && let Some(oldest) = self.ranges.iter_mut().filter(|r| r.latest > 0).min_by_key(|r| r.latest)
        {
            oldest.latest = 0;
        }
    }

    /// True if every byte of [start, end), above the next one expected, has arrived.
    pub fn has(&self, start: u64, end: u64) -> bool {
        self.ranges.iter().any(|r| r.start <= start && end <= r.end)
    }

    /// The byte after the highest one that has arrived, if anything is beyond a gap.
    pub fn highest(&self) -> Option<u64> {
        self.ranges.last().map(|r| r.end)
    }

    /// What is missing between `next` and the highest byte that has arrived, in order.
    pub fn holes(&self, next: u64) -> impl Iterator<Item = Block> {
        let starts = std::iter::once(next).chain(self.ranges.iter().map(|r| r.end));
        starts.zip(&self.ranges).map(|(start, r)| Block { start, end: r.start })
    }

    /// Adds up to `room` blocks, the range that grew last first (RFC 2018, section 4).
    pub fn report(&self, blocks: &mut SackBlocks, room: usize) {
        let mut before = u64::MAX;
        for _ in 0..room.min(self.ranges.len()) {
            let Some(r) = self.ranges.iter().filter(|r| 0 < r.latest && r.latest < before).max_by_key(|r| r.latest) else { return };
            blocks.push(r.start, r.end);
            before = r.latest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn blocks(r: &Reassembly, room: usize) -> Vec<(u64, u64)> {
        let mut b = SackBlocks::NONE;
        r.report(&mut b, room);
        b.as_slice().iter().map(|b| (b.start, b.end)).collect()
    }

    /// RFC 2018, section 5, case 3: every second of eight segments of 500 bytes from 5000 on is lost.
    #[test]
    fn blocks_of_rfc_2018() {
        let mut r = Reassembly::default();
        let mut seen = Vec::new();
        for start in [5500, 6500, 7500, 8500] {
            r.take(start, start + 500, 5500 - 500);
            seen.push(blocks(&r, 3));
        }
        assert_eq!(seen[0], [(5500, 6000)]);
        assert_eq!(seen[1], [(6500, 7000), (5500, 6000)]);
        assert_eq!(seen[2], [(7500, 8000), (6500, 7000), (5500, 6000)]);
        assert_eq!(seen[3], [(8500, 9000), (7500, 8000), (6500, 7000)]);
        // The fourth packet (6000) comes after all: it joins two ranges, and that is the first block.
        r.take(6000, 6500, 5000);
        assert_eq!(blocks(&r, 4), [(5500, 7000), (8500, 9000), (7500, 8000)]);
    }

    /// Four ranges, then the two latest become one: the oldest is still missing from the report, until it grows.
    #[test]
    fn with_a_short_memory_old_ranges_come_back_only_when_they_grow() {
        let mut r = Reassembly::remembering(3);
        for start in [20, 40, 60, 80] {
            r.take(start, start + 10, 10);
        }
        assert_eq!(blocks(&r, 3), [(80, 90), (60, 70), (40, 50)]);
        r.take(70, 80, 10);
        assert_eq!(blocks(&r, 3), [(60, 90), (40, 50)]);
        r.take(30, 35, 10);
        assert_eq!(blocks(&r, 3), [(20, 35), (60, 90), (40, 50)]);
    }

    #[test]
    fn duplicates_are_reported_with_their_part() {
        let mut r = Reassembly::default();
        assert_eq!(r.take(0, 1000, 2000).duplicate, Some(Block { start: 0, end: 1000 }));
        assert_eq!(r.take(3000, 4000, 2000), Taken { next: 2000, duplicate: None });
        assert_eq!(r.take(3000, 4000, 2000).duplicate, Some(Block { start: 3000, end: 4000 }));
        assert_eq!(r.take(1500, 3500, 2000), Taken { next: 4000, duplicate: Some(Block { start: 1500, end: 2000 }) });
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(segments in prop::collection::vec((0u64..60, 1u64..12), 1..60)) {
            let (mut r, mut next, mut model) = (Reassembly::default(), 0, BTreeSet::new());
            for (start, len) in segments {
                let known = (start..start + len).find(|b| model.contains(b));
                let taken = r.take(start, start + len, next);
                prop_assert_eq!(taken.duplicate.map(|b| b.start), known);
                model.extend(start..start + len);
                next = (0..).find(|b| !model.contains(b)).unwrap();
                prop_assert_eq!(taken.next, next);
                let reported: u64 = blocks(&r, 4).iter().map(|b| b.1 - b.0).sum();
                let held = model.iter().filter(|b| **b > next).count() as u64;
                prop_assert!(reported <= held && (held == 0) == r.is_empty());
                prop_assert_eq!(r.highest(), model.last().map(|b| b + 1).filter(|e| *e > next));
                for (s, e) in blocks(&r, 4) {
                    prop_assert!((s..e).all(|b| model.contains(&b)) && !model.contains(&(s - 1)) && !model.contains(&e));
                }
            }
        }
    }
}
