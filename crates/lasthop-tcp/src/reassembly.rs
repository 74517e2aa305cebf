//! What has arrived out of order, and the SACK blocks that say so.

use std::collections::VecDeque;

use lasthop_core::segment::{Block, SackBlocks};

/// A range of bytes above the next one expected, and at which arrival it last grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    latest: u64,
}

/// The bytes beyond the first gap: disjoint ranges in order.
#[derive(Clone, Debug)]
pub struct Reassembly {
    ranges: VecDeque<Range>,
    /// (`latest`, `start`) of the ranges to be reported, the one that grew last at the end. An
    /// entry is outdated if its range has grown since or become part of another one; it is removed
    /// when it is met.
    recent: Vec<(u64, u64)>,
    /// The ranges that grew last, the last one first: as many as a report has room for, or fewer if
    /// some of them were joined or removed since.
    shown: SackBlocks,
    arrivals: u64,
    /// In all ranges.
    bytes: u64,
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
    /// Reports none but the `memory` ranges that grew last, even when some of these are gone
    /// (ns-2).
    pub fn remembering(memory: usize) -> Reassembly {
        let (ranges, recent, shown) = (VecDeque::new(), Vec::new(), SackBlocks::NONE);
        Reassembly { ranges, recent, shown, arrivals: 0, bytes: 0, memory }
    }

    /// Nothing is missing below what has arrived.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Ranges beyond the first gap.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes beyond the first gap that have arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes [start, end) when `next` is the next byte expected.
    #[inline(always)]
    pub fn take(&mut self, start: u64, end: u64, next: u64) -> Taken {
        // Nearly always the last range grows at its end.
        if end > next && self.highest() == Some(start) {
            self.append(end);
            return Taken { next, duplicate: None };
        }
        self.take_other(start, end, next)
    }

    #[inline(never)]
    fn take_other(&mut self, start: u64, end: u64, next: u64) -> Taken {
        if end <= next {
            return Taken { next, duplicate: Some(Block { start, end }) };
        }
        let duplicate = self.known(start, end, next);
        if start > next {
            self.insert(start, end);
            return Taken { next, duplicate };
        }
        let (mut next, before) = (end, self.ranges.len());
        while let Some(r) = self.ranges.front().filter(|r| r.start <= next) {
            next = next.max(r.end);
            self.bytes -= r.end - r.start;
            self.ranges.pop_front();
        }
        if self.ranges.is_empty() {
            self.recent.clear();
            self.shown = SackBlocks::NONE;
        } else if self.ranges.len() < before {
            self.shown.retain(|b| b.start > next);
            self.remove_outdated();
        }
        Taken { next, duplicate }
    }

    /// The first part of [start, end) that has arrived.
    fn known(&self, start: u64, end: u64, next: u64) -> Option<Block> {
        if start < next {
            return Some(Block { start, end: next });
        }
        if self.highest().is_none_or(|highest| highest <= start) {
            return None;
        }
        let r = self
            .ranges
            .get(self.ranges.partition_point(|r| r.end <= start))
            .filter(|r| r.start < end)?;
        Some(Block { start: start.max(r.start), end: end.min(r.end) })
    }

    /// The last range grows to `end`.
    #[inline(always)]
    fn append(&mut self, end: u64) {
        let Some(last) = self.ranges.back_mut() else { return };
        self.arrivals += 1;
        self.bytes += end - last.end;
        last.end = end;
        let (start, before) = (last.start, std::mem::replace(&mut last.latest, self.arrivals));
        self.show(start, end);
        match self.recent.last_mut() {
            // Entries that are outdated or too old have been removed already.
            Some(entry) if entry.0 == before => *entry = (self.arrivals, start),
            _ => self.remember(start, before),
        }
    }

    fn insert(&mut self, start: u64, end: u64) {
        self.arrivals += 1;
        let range = Range { start, end, latest: self.arrivals };
        let (start, before) = if self.highest().is_some_and(|highest| highest > start) {
            self.merge(range)
        } else {
            self.ranges.push_back(range);
            self.bytes += end - start;
            self.show(start, end);
            (start, 0)
        };
        self.remember(start, before);
    }

    /// The range that begins at `start` grew by the present arrival, and before that by arrival
    /// `before`.
    #[inline(never)]
    fn remember(&mut self, start: u64, before: u64) {
        let latest = self.arrivals;
        match self.recent.last_mut() {
            Some(entry) if entry.0 == before => *entry = (latest, start),
            _ => self.recent.push((latest, start)),
        }
        if self.ranges.len() > self.memory {
            let oldest = self.newest(self.memory, |_| ());
            self.recent.drain(..oldest);
        } else {
            self.remove_outdated();
        }
    }

    /// Removes outdated entries if most of them are. Each range has one that is not, so that all
    /// before the first of these are.
    #[inline]
    fn remove_outdated(&mut self) {
        if self.recent.len() > 2 * self.ranges.len() + 16 {
            let first = self.newest(self.ranges.len(), |_| ());
            self.recent.drain(..first);
        }
    }

    /// The range [start, end) has just grown, or is new.
    #[inline]
    fn show(&mut self, start: u64, end: u64) {
        match self.shown.first_mut() {
            Some(first) if first.start == start => first.end = end,
            _ => self.show_first(start, end),
        }
    }

    /// The same for one that was not the last to grow; it may have joined others.
    #[inline(never)]
    fn show_first(&mut self, start: u64, end: u64) {
        let before = std::mem::replace(&mut self.shown, SackBlocks::NONE);
        self.shown.push(start, end);
        for b in before.as_slice().iter().filter(|b| b.start < start || b.start >= end) {
            self.shown.push(b.start, b.end);
        }
    }

    /// Adds a range that begins below the end of the last one. Returns where the range that it is
    /// now part of begins, and when that, or the last one of those it joins, had grown before (0:
    /// never).
    fn merge(&mut self, mut range: Range) -> (u64, u64) {
        let from = self.ranges.partition_point(|r| r.end < range.start);
        let to = self.ranges.partition_point(|r| r.start <= range.end);
        if from == to {
            self.ranges.insert(from, range);
            self.bytes += range.end - range.start;
            self.show_first(range.start, range.end);
            return (range.start, 0);
        }
        let (first, last) = (self.ranges[from], self.ranges[to - 1]);
        (range.start, range.end) = (range.start.min(first.start), range.end.max(last.end));
        self.bytes -= self.ranges.range(from..to).map(|r| r.end - r.start).sum::<u64>();
        self.bytes += range.end - range.start;
        self.ranges[from] = range;
        self.ranges.drain(from + 1..to);
        self.show_first(range.start, range.end);
        (range.start, last.latest)
    }

    /// Shows the `most` ranges that grew last, the last one first, and returns the place of the
    /// last entry shown. Outdated entries behind that are removed.
    fn newest(&mut self, most: usize, mut show: impl FnMut(&Range)) -> usize {
        let (mut at, mut shown) = (self.recent.len(), 0);
        while at > 0 && shown < most {
            at -= 1;
            if let Some(range) = self.range_of(self.recent[at]) {
                show(range);
                shown += 1;
            }
        }
        if self.recent.len() - at > shown {
            let mut kept = at;
            for i in at..self.recent.len() {
                let entry = self.recent[i];
                if self.range_of(entry).is_some() {
                    self.recent[kept] = entry;
                    kept += 1;
                }
            }
            self.recent.truncate(kept);
        }
        at
    }

    /// The range of an entry of `recent`, unless that is outdated.
    fn range_of(&self, (latest, start): (u64, u64)) -> Option<&Range> {
        let place = self.ranges.partition_point(|r| r.start < start);
        self.ranges.get(place).filter(|r| r.latest == latest)
    }

    /// True if every byte of [start, end), above the next one expected, has arrived.
    #[inline]
    pub fn has(&self, start: u64, end: u64) -> bool {
        match self.ranges.back() {
            None => false,
            Some(last) if start >= last.start || end > last.end => end <= last.end,
            _ => self.has_below_last(start, end),
        }
    }

    #[inline(never)]
    fn has_below_last(&self, start: u64, end: u64) -> bool {
        self.ranges
            .get(self.ranges.partition_point(|r| r.end < end))
            .is_some_and(|r| r.start <= start)
    }

    /// True if no byte of [start, end), not below the next one expected, has arrived.
    pub fn lacks(&self, start: u64, end: u64) -> bool {
        self.known(start, end, start).is_none()
    }

    /// The byte after the highest one that has arrived, if anything is beyond a gap.
    pub fn highest(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.end)
    }

    /// What is missing between `next` and the highest byte that has arrived, in order.
    pub fn holes(&self, next: u64) -> impl Iterator<Item = Block> {
        let starts = std::iter::once(next).chain(self.ranges.iter().map(|r| r.end));
        starts.zip(&self.ranges).map(|(start, r)| Block { start, end: r.start })
    }

    /// Adds up to `room` blocks, the range that grew last first (RFC 2018, section 4).
    pub fn report(&mut self, blocks: &mut SackBlocks, room: usize) {
        let room = room.min(self.ranges.len());
        if self.memory < usize::MAX {
            self.newest(room, |r| blocks.push(r.start, r.end));
            return;
        }
        if self.shown.as_slice().len() < room {
            let mut shown = SackBlocks::NONE;
            self.newest(self.ranges.len().min(SackBlocks::MOST), |r| shown.push(r.start, r.end));
            self.shown = shown;
        }
        self.shown.as_slice().iter().take(room).for_each(|b| blocks.push(b.start, b.end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn blocks(r: &mut Reassembly, room: usize) -> Vec<(u64, u64)> {
        let mut b = SackBlocks::NONE;
        r.report(&mut b, room);
        b.as_slice().iter().map(|b| (b.start, b.end)).collect()
    }

    /// RFC 2018, section 5, case 3: every second of eight segments of 500 bytes from 5000 on is
    /// lost.
    #[test]
    fn blocks_of_rfc_2018() {
        let mut r = Reassembly::default();
        let mut seen = Vec::new();
        for start in [5500, 6500, 7500, 8500] {
            r.take(start, start + 500, 5500 - 500);
            seen.push(blocks(&mut r, 3));
        }
        assert_eq!(seen[0], [(5500, 6000)]);
        assert_eq!(seen[1], [(6500, 7000), (5500, 6000)]);
        assert_eq!(seen[2], [(7500, 8000), (6500, 7000), (5500, 6000)]);
        assert_eq!(seen[3], [(8500, 9000), (7500, 8000), (6500, 7000)]);
        // The fourth packet (6000) comes after all: it joins two ranges, and that is the first
        // block.
        r.take(6000, 6500, 5000);
        assert_eq!(blocks(&mut r, 4), [(5500, 7000), (8500, 9000), (7500, 8000)]);
    }

    /// Four ranges, then the two latest become one: the oldest is still missing from the report,
    /// until it grows.
    #[test]
    fn with_a_short_memory_old_ranges_come_back_only_when_they_grow() {
        let mut r = Reassembly::remembering(3);
        for start in [20, 40, 60, 80] {
            r.take(start, start + 10, 10);
        }
        assert_eq!(blocks(&mut r, 3), [(80, 90), (60, 70), (40, 50)]);
        r.take(70, 80, 10);
        assert_eq!(blocks(&mut r, 3), [(60, 90), (40, 50)]);
        r.take(30, 35, 10);
        assert_eq!(blocks(&mut r, 3), [(20, 35), (60, 90), (40, 50)]);
    }

    #[test]
    fn duplicates_are_reported_with_their_part() {
        let mut r = Reassembly::default();
        assert_eq!(r.take(0, 1000, 2000).duplicate, Some(Block { start: 0, end: 1000 }));
        assert_eq!(r.take(3000, 4000, 2000), Taken { next: 2000, duplicate: None });
        assert_eq!(r.take(3000, 4000, 2000).duplicate, Some(Block { start: 3000, end: 4000 }));
        assert_eq!(
            r.take(1500, 3500, 2000),
            Taken { next: 4000, duplicate: Some(Block { start: 1500, end: 2000 }) }
        );
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(
            segments in prop::collection::vec((0u64..60, 1u64..12), 1..60),
        ) {
            let (mut r, mut next, mut model) = (Reassembly::default(), 0, BTreeSet::new());
            for (start, len) in segments {
                let known = (start..start + len).find(|b| model.contains(b));
                let taken = r.take(start, start + len, next);
                prop_assert_eq!(taken.duplicate.map(|b| b.start), known);
                model.extend(start..start + len);
                next = (0..).find(|b| !model.contains(b)).unwrap();
                prop_assert_eq!(taken.next, next);
                let reported: u64 = blocks(&mut r, 4).iter().map(|b| b.1 - b.0).sum();
                let held = model.iter().filter(|b| **b > next).count() as u64;
                prop_assert!(reported <= held && (held == 0) == r.is_empty());
                prop_assert_eq!(r.bytes(), held);
                prop_assert_eq!(r.highest(), model.last().map(|b| b + 1).filter(|e| *e > next));
                for (s, e) in blocks(&mut r, 4) {
                    prop_assert!((s..e).all(|b| model.contains(&b)));
                    prop_assert!(!model.contains(&(s - 1)) && !model.contains(&e));
                }
            }
        }

        /// The same as lists that are searched from end to end, with any memory.
        #[test]
        fn agrees_with_plain_lists(
            memory in prop_oneof![1usize..5, Just(usize::MAX)],
            steps in prop::collection::vec((0u64..400, 1u64..8, 0usize..5), 1..300),
        ) {
            let (mut r, mut plain) = (Reassembly::remembering(memory), Plain::new(memory));
            let mut next = 0;
            for (start, len, room) in steps {
                // Mostly near the end, as segments come; sometimes anywhere.
                let start = if start < 200 {
                    r.highest().unwrap_or(next) + start / 40
                } else {
                    next + start - 200
                };
                let end = start + len;
                let taken = r.take(start, end, next);
                prop_assert_eq!(taken, plain.take(start, end, next));
                next = taken.next;
                prop_assert_eq!(blocks(&mut r, room), plain.report(room));
                prop_assert!(r.holes(next).eq(plain.holes(next)));
                prop_assert_eq!(r.highest(), plain.ranges.last().map(|r| r.end));
                let before = start.saturating_sub(3);
                let ranges =
                    [(start, end), (before, end), (start, end + 3), (next, next + 1), (end, end)];
                for (s, e) in ranges {
                    prop_assert_eq!(r.has(s, e), plain.has(s, e), "{}..{}", s, e);
                }
                prop_assert!(r.recent.len() <= 2 * r.ranges.len() + 16, "no outdated entries");
            }
        }
    }

    /// Ranges in a list, each with the arrival at which it grew last; 0: too long ago to be
    /// reported.
    struct Plain {
        ranges: Vec<Range>,
        arrivals: u64,
        memory: usize,
    }

    impl Plain {
        fn new(memory: usize) -> Plain {
            Plain { ranges: Vec::new(), arrivals: 0, memory }
        }

        fn take(&mut self, start: u64, end: u64, next: u64) -> Taken {
            if end <= next {
                return Taken { next, duplicate: Some(Block { start, end }) };
            }
            let overlap = self.ranges.iter().find(|r| r.start < end && start < r.end);
            let overlap = overlap.map(|r| Block { start: start.max(r.start), end: end.min(r.end) });
            let duplicate = if start < next { Some(Block { start, end: next }) } else { overlap };
            self.arrivals += 1;
            let mut all = Range { start, end, latest: self.arrivals };
            self.ranges.retain(|r| {
                let joins = r.start <= end && start <= r.end;
                if joins {
                    (all.start, all.end) = (all.start.min(r.start), all.end.max(r.end));
                }
                !joins
            });
            if all.start <= next {
                return Taken { next: all.end, duplicate };
            }
            self.ranges.push(all);
            self.ranges.sort_by_key(|r| r.start);
            if self.ranges.iter().filter(|r| r.latest > 0).count() > self.memory {
                self.ranges
                    .iter_mut()
                    .filter(|r| r.latest > 0)
                    .min_by_key(|r| r.latest)
                    .unwrap()
                    .latest = 0;
            }
            Taken { next, duplicate }
        }

        fn report(&self, room: usize) -> Vec<(u64, u64)> {
            let mut known: Vec<&Range> = self.ranges.iter().filter(|r| r.latest > 0).collect();
            known.sort_by_key(|r| std::cmp::Reverse(r.latest));
            known.iter().take(room).map(|r| (r.start, r.end)).collect()
        }

        fn holes(&self, next: u64) -> impl Iterator<Item = Block> {
            let starts = std::iter::once(next).chain(self.ranges.iter().map(|r| r.end));
            starts.zip(&self.ranges).map(|(start, r)| Block { start, end: r.start })
        }

        fn has(&self, start: u64, end: u64) -> bool {
            self.ranges.iter().any(|r| r.start <= start && end <= r.end)
        }
    }
}
