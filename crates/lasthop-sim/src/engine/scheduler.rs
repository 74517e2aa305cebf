//! The event queue: one entry per *source* of events (the head of a link, a timer), not per packet.
//!
//! Simultaneous events are ordered by (time, trigger time, source). The trigger time is the start
//! of serialization for an arrival or departure, and the last arming for a timer. This is the order
//! in which ns-2 would have scheduled the events.

/// Index of a source.
pub type Source = u32;

/// The next event of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
// The size is a power of two, so that indexing is a shift.
#[repr(align(32))]
pub struct Key {
    /// Time of the event, nanoseconds.
    pub time: u64,
    /// Trigger time, nanoseconds.
    pub triggered_at: u64,
    /// Source; departures have the smallest numbers.
    pub source: Source,
    /// The link, if the source is the arrivals of a link with a lane; with `OF_CELL` the cell, if
    /// the source is a cell; otherwise `NO_LINK`.
    pub link: u32,
}

impl Key {
    /// Returns true if this event precedes `other`.
    #[inline]
    fn before(&self, other: &Key) -> bool {
        // Equal times are rare, so that this branch is predicted.
        if self.time == other.time { self.precedes(other) } else { self.time < other.time }
    }

    /// The same for an event at the same time.
    #[cold]
    fn precedes(&self, other: &Key) -> bool {
        (self.triggered_at, self.source) < (other.triggered_at, other.source)
    }
}

const NEVER: u64 = u64::MAX;
const ABSENT: u32 = u32::MAX;
/// No event.
pub const NO_EVENT: Key =
    Key { time: NEVER, triggered_at: NEVER, source: Source::MAX, link: NO_LINK };

/// Number of lanes. For this few sources a linear scan is faster than a heap.
pub const LANES: usize = 12;

/// The source is not a link with a lane.
pub const NO_LINK: u32 = u32::MAX;

/// In `Key::link`: the lower bits are the index of a cell.
pub const OF_CELL: u32 = 1 << 31;

/// Number of a lane, from 1.
pub type Lane = u32;

/// The link has no lane: its arrivals are in the heap.
pub const NO_LANE: Lane = 0;

/// In `position`: the source has the lane given by the lower bits.
const IN_LANE: u32 = 1 << 31;

/// An indexed binary heap of keys. The most frequent sources (arrivals of a few links, or a cell)
/// have lanes beside it.
#[derive(Debug)]
pub struct Scheduler {
    /// The next event of the heap, then that of each lane.
    next: Vec<Key>,
    heap: Vec<Key>,
    /// By source: its position in the heap, or `ABSENT`, or its lane with `IN_LANE`.
    position: Vec<u32>,
    /// No event is earlier, except those of the lane for which it was set.
    horizon: u64,
}

impl Scheduler {
    /// A scheduler for `sources` sources, none of them scheduled. Those in `busy` (source, and link
    /// if the source is the arrivals of one) get the lanes 1, 2 and so on.
    pub fn new(sources: usize, busy: &[(Source, u32)]) -> Self {
        let lanes =
            busy.iter().map(|&(source, link)| Key { time: NEVER, triggered_at: 0, source, link });
        let next = std::iter::once(NO_EVENT).chain(lanes).collect();
        let mut position = vec![ABSENT; sources];
        for (lane, &(source, _)) in (1..).zip(busy) {
            position[source as usize] = IN_LANE | lane;
        }
        Scheduler { next, heap: Vec::with_capacity(sources), position, horizon: 0 }
    }

    /// The earliest event.
    #[inline]
    pub fn peek(&self) -> Option<Key> {
        let (mut best, mut time, mut tie) = (0, self.next[0].time, false);
        for (i, key) in self.next.iter().enumerate().skip(1) {
            tie |= key.time == time;
            best = if key.time < time { i } else { best };
            time = time.min(key.time);
        }
        if tie {
            best = self.break_tie();
        }
        if time == NEVER { None } else { Some(self.next[best]) }
    }

    /// Computes the horizon of a lane, which is not after `end`: no event of another source is
    /// earlier. 0 for a source in the heap.
    #[inline]
    pub fn set_horizon(&mut self, lane: Lane, end: u64) {
        if lane == NO_LANE {
            self.horizon = 0;
            return;
        }
        let others = self.next.iter().enumerate().filter(|&(i, _)| i != lane as usize);
        self.horizon = others.map(|(_, key)| key.time).min().map_or(end, |time| time.min(end));
    }

    /// The horizon, not later than what has been scheduled since it was computed.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    #[inline(never)]
    fn break_tie(&self) -> usize {
        (0..self.next.len()).min_by_key(|&i| self.next[i]).unwrap_or(0)
    }

    /// Sets the next event of a lane; `Time::NEVER` if it has none.
    #[inline]
    pub fn set_lane(&mut self, lane: Lane, time: u64, triggered_at: u64) {
        let key = &mut self.next[lane as usize];
        (key.time, key.triggered_at) = (time, triggered_at);
        self.horizon = self.horizon.min(time);
    }

    /// Schedules a source or changes its time.
    pub fn set(&mut self, source: Source, time: u64, triggered_at: u64) {
        let key = Key { time, triggered_at, source, link: NO_LINK };
        let p = self.position[source as usize];
        self.horizon = self.horizon.min(time);
        if p == ABSENT {
            self.heap.push(key);
            self.sift_up(self.heap.len() - 1, key);
        } else if p & IN_LANE != 0 {
            return self.set_lane(p & !IN_LANE, time, triggered_at);
        } else {
            let p = p as usize;
            if key.before(&self.heap[p]) { self.sift_up(p, key) } else { self.sift_down(p, key) }
        }
        self.update_first();
    }

    /// Removes a source.
    pub fn clear(&mut self, source: Source) {
        let p = self.position[source as usize];
        if p == ABSENT {
            return;
        }
        if p & IN_LANE != 0 {
            return self.set_lane(p & !IN_LANE, NEVER, 0);
        }
        self.position[source as usize] = ABSENT;
        if let Some(last) = self.heap.pop()
            && last.source != source
        {
            let p = p as usize;
            if last.before(&self.heap[p]) { self.sift_up(p, last) } else { self.sift_down(p, last) }
        }
        self.update_first();
    }

    fn update_first(&mut self) {
        self.next[0] = self.heap.first().copied().unwrap_or(NO_EVENT);
    }

    #[inline]
    fn place(&mut self, p: usize, key: Key) {
        self.heap[p] = key;
        self.position[key.source as usize] = p as u32;
    }

    #[inline]
    fn sift_up(&mut self, mut p: usize, key: Key) {
        while p > 0 {
            let parent = (p - 1) / 2;
            let above = self.heap[parent];
            if !key.before(&above) {
                break;
            }
            self.place(p, above);
            p = parent;
        }
        self.place(p, key);
    }

    #[inline]
    fn sift_down(&mut self, mut p: usize, key: Key) {
        loop {
            let mut child = 2 * p + 1;
            if child >= self.heap.len() {
                break;
            }
            if let Some(right) = self.heap.get(child + 1) {
                child += usize::from(right.before(&self.heap[child]));
            }
            let below = self.heap[child];
            if !below.before(&key) {
                break;
            }
            self.place(p, below);
            p = child;
        }
        self.place(p, key);
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
            steps in prop::collection::vec((0u32..8, 0u64..50, 0u64..5, any::<bool>()), 1..200),
            busy in 0u32..5,
        ) {
            let mut s = Scheduler::new(8, &(2..2 + busy).map(|s| (s, s)).collect::<Vec<_>>());
            let mut model: BTreeMap<u32, Key> = BTreeMap::new();
            for (source, time, triggered_at, clear) in steps {
                let lane = source.wrapping_sub(1);
                // A lane may be set by its number or by its source.
                let by_number = (1..=busy).contains(&lane) && triggered_at % 2 == 0;
                if clear {
                    if by_number { s.set_lane(lane, NEVER, 0) } else { s.clear(source) }
                    model.remove(&source);
                } else {
                    if by_number {
                        s.set_lane(lane, time, triggered_at);
                    } else {
                        s.set(source, time, triggered_at);
                    }
                    let link = if (1..=busy).contains(&lane) { source } else { NO_LINK };
                    model.insert(source, Key { time, triggered_at, source, link });
                }
                prop_assert_eq!(s.peek(), model.values().min().copied());
                let others = model.values().filter(|k| k.source != 2 || busy == 0);
                let earliest = others.map(|k| k.time).min().unwrap_or(NEVER);
                prop_assert!(s.horizon() <= earliest);
                if triggered_at == 3 && busy > 0 {
                    s.set_horizon(1, NEVER);
                    prop_assert_eq!(s.horizon(), earliest);
                }
            }
        }
    }
}
