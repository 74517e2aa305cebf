//! Which bytes have crossed the links from a node.

use std::collections::BTreeMap;

/// The data of a connection that have crossed the links from a node.
#[derive(Default)]
pub(super) struct Crossed {
    /// First byte and the byte after the last one, disjoint.
    pub ranges: BTreeMap<u64, u64>,
    /// The highest number with which an agent at the node has acknowledged them.
    pub acknowledged: u64,
}

impl Crossed {
    pub(super) fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((&s, &e)) = self.ranges.range(..=end).next_back().filter(|r| *r.1 >= start) {
            self.ranges.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        self.ranges.insert(start, end);
    }

    /// The first byte from `offset` on that has not crossed.
    pub(super) fn missing_from(&self, offset: u64) -> u64 {
        let before = self.ranges.range(..=offset).next_back();
        before.map_or(offset, |(_, &end)| end.max(offset))
    }
}
