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

const NEVER: u64 = u64::MAX;
/// No event.
pub const NO_EVENT: Key =
    Key { time: NEVER, triggered_at: NEVER, source: Source::MAX, link: NO_LINK };

/// Number of lanes. For this few sources a linear scan is faster than a tree.
pub const LANES: usize = 12;

/// The source is not a link with a lane.
pub const NO_LINK: u32 = u32::MAX;

/// In `Key::link`: the lower bits are the index of a cell.
pub const OF_CELL: u32 = 1 << 31;

/// Number of a lane, from 1.
pub type Lane = u32;

/// The source has no lane: its event is in the tree.
pub const NO_LANE: Lane = 0;

/// A source without a lane, and the time of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: u64,
    source: Source,
}

/// How the event of a source is ordered among simultaneous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    triggered_at: u64,
    /// The source that the event belongs to: itself, or one of those that it stands for.
    source: Source,
}

/// The event queue. The most frequent sources (arrivals of a few links, or a cell) have lanes. The
/// others are the leaves of a tournament: each node of a binary tree has the earlier event of its
/// two children, so that a source that changes its time is compared once on each level.
#[derive(Debug, Default)]
pub struct Scheduler {
    /// The next event of the tree, then that of each lane.
    next: Vec<Key>,
    /// The entries of the nodes. The root is node 1, the children of node n are nodes 2 n and
    /// 2 n + 1, and those of the last level are the sources.
    nodes: Vec<Entry>,
    /// By source: how its event in the tree is ordered among those of the same time.
    orders: Vec<Order>,
    /// By source: its lane.
    lanes: Vec<Lane>,
    /// No event is earlier, except those of the lane for which it was set.
    horizon: u64,
}

impl Scheduler {
    /// A scheduler for `sources` sources, none of them scheduled. Those in `busy` (source, and link
    /// if the source is the arrivals of one) get the lanes 1, 2 and so on.
    pub fn new(sources: usize, busy: &[(Source, u32)]) -> Self {
        let first =
            busy.iter().map(|&(source, link)| Key { time: NEVER, triggered_at: 0, source, link });
        let next = std::iter::once(NO_EVENT).chain(first).collect();
        let mut lanes = vec![NO_LANE; sources];
        for (lane, &(source, _)) in (1..).zip(busy) {
            lanes[source as usize] = lane;
        }
        let leaves = sources.next_power_of_two();
        let mut nodes = vec![Entry { time: NEVER, source: 0 }; 2 * leaves];
        for node in (1..2 * leaves).rev() {
            let source = node.checked_sub(leaves).map(|source| source as Source);
            nodes[node].source = source.unwrap_or_else(|| nodes[2 * node].source);
        }
        let order = |source| Order { triggered_at: 0, source };
        let orders = (0..sources as Source).map(order).collect();
        Scheduler { next, nodes, orders, lanes, horizon: 0 }
    }

    /// The earliest event, if it is before `end`. Sets the horizon, if it is that of a link with a
    /// lane, or of a cell: no event of another source is earlier, and it is not after `end`.
    #[inline]
    pub fn peek(&mut self, end: u64) -> Option<Key> {
        let (mut best, lanes) = self.next.split_first()?;
        let (mut time, mut others) = (best.time, end);
        for key in lanes {
            others = others.min(key.time.max(time));
            best = if key.time < time { key } else { best };
            time = time.min(key.time);
        }
        if time >= end {
            return None;
        }
        if time == others {
            best = self.next.iter().min()?;
        }
        let key = *best;
        self.horizon = if key.link == NO_LINK { 0 } else { others };
        Some(key)
    }

    /// Something has to be done before the next event: no event is before the horizon.
    #[inline]
    pub fn end_horizon(&mut self) {
        self.horizon = 0;
    }

    /// The horizon, not later than what has been scheduled since it was computed.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.horizon
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
        let lane = self.lanes[source as usize];
        if lane != NO_LANE {
            return self.set_lane(lane, time, triggered_at);
        }
        self.horizon = self.horizon.min(time);
        self.orders[source as usize].triggered_at = triggered_at;
        self.replay(Entry { time, source });
    }

    /// The same of a source without a lane that stands for several: its event belongs to `of`.
    pub fn set_for(&mut self, source: Source, of: Source, time: u64, triggered_at: u64) {
        self.horizon = self.horizon.min(time);
        self.orders[source as usize] = Order { triggered_at, source: of };
        self.replay(Entry { time, source });
    }

    /// Removes a source.
    pub fn clear(&mut self, source: Source) {
        let node = self.nodes.len() / 2 + source as usize;
        if self.lanes[source as usize] != NO_LANE || self.nodes[node].time != NEVER {
            self.set(source, NEVER, 0);
        }
    }

    /// The entry of a source has changed: compares it again on the way to the root.
    #[inline]
    fn replay(&mut self, changed: Entry) {
        let (nodes, orders) = (self.nodes.as_mut_slice(), self.orders.as_slice());
        let mut node = nodes.len() / 2 + changed.source as usize;
        let mut first = changed;
        nodes[node] = first;
        // The nodes where it is the first now.
        while node > 1 {
            let other = nodes[node ^ 1];
            node >>= 1;
            if precedes(orders, other, first) {
                first = other;
                break;
            }
            nodes[node] = first;
        }
        // The nodes where it was. The change reaches none above them.
        while first.source != changed.source {
            if nodes[node].source != changed.source {
                return;
            }
            nodes[node] = first;
            if node <= 1 {
                break;
            }
            let other = nodes[node ^ 1];
            node >>= 1;
            // Selected instead of branched, since nothing predicts which one is earlier.
            let mut is_earlier = other.time < first.time;
            if other.time == first.time {
                is_earlier = ties(orders, other, first);
            }
            first = std::hint::select_unpredictable(is_earlier, other, first);
        }
        let Entry { time, source } = first;
        let Order { triggered_at, source } = self.orders[source as usize];
        self.next[0] = Key { time, triggered_at, source, link: NO_LINK };
    }
}

/// True if the event `a` precedes the event `b`.
#[inline(always)]
fn precedes(orders: &[Order], a: Entry, b: Entry) -> bool {
    // Equal times are rare, so that this branch is predicted.
    a.time <= b.time && (a.time < b.time || ties(orders, a, b))
}

/// The same of two events at the same time.
#[cold]
#[inline(never)]
fn ties(orders: &[Order], a: Entry, b: Entry) -> bool {
    // Leaves without a source come last.
    let last = |source| Order { triggered_at: NEVER, source };
    let order = |e: Entry| orders.get(e.source as usize).copied().unwrap_or(last(e.source));
    order(a) < order(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_like_a_sorted_map(
            steps in prop::collection::vec((0u32..13, 0u64..50, 0u64..5, any::<bool>()), 1..200),
            busy in 0u32..5,
        ) {
            let mut s = Scheduler::new(13, &(2..2 + busy).map(|s| (s, s)).collect::<Vec<_>>());
            let mut model: BTreeMap<u32, Key> = BTreeMap::new();
            for (source, time, triggered_at, clear) in steps {
                let lane = source.wrapping_sub(1);
                // A lane may be set by its number or by its source.
                let by_number = (1..=busy).contains(&lane) && triggered_at % 2 == 0;
                if clear {
                    if by_number { s.set_lane(lane, NEVER, 0) } else { s.clear(source) }
                    model.remove(&source);
                } else {
                    // The last source stands for others.
                    let of = if source == 12 { 20 - triggered_at as Source } else { source };
                    if by_number {
                        s.set_lane(lane, time, triggered_at);
                    } else if source == 12 {
                        s.set_for(source, of, time, triggered_at);
                    } else {
                        s.set(source, time, triggered_at);
                    }
                    let link = if (1..=busy).contains(&lane) { source } else { NO_LINK };
                    model.insert(source, Key { time, triggered_at, source: of, link });
                }
                let first = model.values().min().copied();
                let others = model.values().filter(|k| first.is_some_and(|f| **k != f));
                let earliest = others.map(|k| k.time).min().unwrap_or(NEVER);
                prop_assert_eq!(s.peek(time), first.filter(|k| k.time < time));
                prop_assert_eq!(s.peek(NEVER), first);
                let is_link = first.is_some_and(|k| k.link != NO_LINK);
                let horizon = if is_link { earliest } else { 0 };
                prop_assert!(first.is_none() || s.horizon() == horizon);
            }
        }
    }
}
