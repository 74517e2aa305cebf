//! State per flow, bounded, with constant-time lookup and eviction.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::segment::FlowId;

/// State of at most `cap` flows. When the table is full, the flow that was used least recently is
/// evicted and counted.
///
/// Every operation takes constant time. The iteration order depends on the calls alone, not on
/// hashing.
#[derive(Clone, Debug)]
pub struct FlowTable<S> {
    slots: Vec<Slot<S>>,
    places: HashMap<FlowId, usize, BuildHasherDefault<DefaultHasher>>,
    /// Ends of the list of slots by last use; `NONE` if the table is empty.
    oldest: usize,
    newest: usize,
    cap: usize,
    evicted: u64,
}

#[derive(Clone, Debug)]
struct Slot<S> {
    flow: FlowId,
    /// Neighbours by last use.
    older: usize,
    newer: usize,
    state: S,
}

const NONE: usize = usize::MAX;

impl<S: Default> FlowTable<S> {
    /// An empty table for at most `cap` flows (at least one).
    pub fn new(cap: usize) -> Self {
        FlowTable {
            slots: Vec::new(),
            places: HashMap::default(),
            oldest: NONE,
            newest: NONE,
            cap: cap.max(1),
            evicted: 0,
        }
    }

    /// The state of `flow`, created if it has none; counts as use. The second value is the state
    /// that was evicted for it, if any.
    ///
    /// ```
    /// use lasthop_core::agent::FlowTable;
    ///
    /// let mut table: FlowTable<u32> = FlowTable::new(2);
    /// *table.entry(1).0 = 10;
    /// *table.entry(2).0 = 20;
    /// table.entry(1);
    /// assert_eq!(table.entry(3).1, Some(20));
    /// ```
    #[inline]
    pub fn entry(&mut self, flow: FlowId) -> (&mut S, Option<S>) {
        if self.is_newest(flow) {
            return (&mut self.slots[self.newest].state, None);
        }
        self.older_entry(flow)
    }

    /// The same for a flow that was not used last.
    #[inline(never)]
    fn older_entry(&mut self, flow: FlowId) -> (&mut S, Option<S>) {
        let mut out = None;
        let i = match self.place(flow) {
            Some(i) => {
                self.unlink(i);
                i
            }
            None if self.slots.len() < self.cap => {
                self.slots.push(Slot { flow, older: NONE, newer: NONE, state: S::default() });
                self.slots.len() - 1
            }
            None => {
                let i = self.oldest;
                self.unlink(i);
                self.places.remove(&self.slots[i].flow);
                self.evicted += 1;
                self.slots[i].flow = flow;
                out = Some(std::mem::take(&mut self.slots[i].state));
                i
            }
        };
        self.places.insert(flow, i);
        self.link_newest(i);
        (&mut self.slots[i].state, out)
    }

    /// The slot of `flow`, if it has one.
    #[inline]
    fn place(&self, flow: FlowId) -> Option<usize> {
        // Segments of a flow mostly come one after the other.
        if self.is_newest(flow) { Some(self.newest) } else { self.older_place(flow) }
    }

    /// True if `flow` was used last.
    #[inline(always)]
    fn is_newest(&self, flow: FlowId) -> bool {
        self.slots.get(self.newest).is_some_and(|slot| slot.flow == flow)
    }

    #[inline(never)]
    fn older_place(&self, flow: FlowId) -> Option<usize> {
        self.places.get(&flow).copied()
    }

    /// Takes a slot out of the list by last use.
    fn unlink(&mut self, i: usize) {
        let (older, newer) = (self.slots[i].older, self.slots[i].newer);
        *self.newer_of(older) = newer;
        *self.older_of(newer) = older;
    }

    /// Puts a slot that is in no list at its newest end.
    fn link_newest(&mut self, i: usize) {
        let newest = self.newest;
        self.slots[i].older = newest;
        self.slots[i].newer = NONE;
        *self.newer_of(newest) = i;
        self.newest = i;
    }

    /// Where the newer neighbour of `i` is noted; of no slot: the oldest one.
    fn newer_of(&mut self, i: usize) -> &mut usize {
        self.slots.get_mut(i).map_or(&mut self.oldest, |slot| &mut slot.newer)
    }

    /// Where the older neighbour of `i` is noted; of no slot: the newest one.
    fn older_of(&mut self, i: usize) -> &mut usize {
        self.slots.get_mut(i).map_or(&mut self.newest, |slot| &mut slot.older)
    }

    /// The state of `flow` if there is one; does not count as use.
    #[inline]
    pub fn get_mut(&mut self, flow: FlowId) -> Option<&mut S> {
        let i = self.place(flow)?;
        Some(&mut self.slots[i].state)
    }

    /// The state of `flow` if there is one; does not count as use.
    #[inline]
    pub fn get(&self, flow: FlowId) -> Option<&S> {
        self.place(flow).map(|i| &self.slots[i].state)
    }

    /// Removes a flow and returns its state.
    pub fn remove(&mut self, flow: FlowId) -> Option<S> {
        let i = self.places.remove(&flow)?;
        self.unlink(i);
        let removed = self.slots.swap_remove(i);
        if let Some(moved) = self.slots.get(i) {
            let (flow, older, newer) = (moved.flow, moved.older, moved.newer);
            self.places.insert(flow, i);
            *self.newer_of(older) = i;
            *self.older_of(newer) = i;
        }
        Some(removed.state)
    }

    /// Flows held.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if no flow is held.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Flows evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// All flows with their state, in the order of their slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (FlowId, &mut S)> {
        self.slots.iter_mut().map(|s| (s.flow, &mut s.state))
    }

    /// All flows with their state, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &S)> {
        self.slots.iter().map(|s| (s.flow, &s.state))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_table_evicts_the_flow_used_least_recently() {
        let mut t: FlowTable<u32> = FlowTable::new(2);
        *t.entry(1).0 = 10;
        *t.entry(2).0 = 20;
        t.entry(1);
        let (_, evicted) = t.entry(3);
        assert_eq!(evicted, Some(20));
        assert_eq!((t.len(), t.evicted()), (2, 1));
        assert_eq!(t.get_mut(1), Some(&mut 10));
    }

    /// The same by linear search: flow, time of last use, state.
    #[derive(Default)]
    struct Plain {
        slots: Vec<(FlowId, usize, u32)>,
        clock: usize,
    }

    impl Plain {
        fn entry(&mut self, flow: FlowId, cap: usize, value: u32) -> Option<u32> {
            self.clock += 1;
            if let Some(slot) = self.slots.iter_mut().find(|s| s.0 == flow) {
                (slot.1, slot.2) = (self.clock, value);
                return None;
            }
            if self.slots.len() < cap {
                self.slots.push((flow, self.clock, value));
                return None;
            }
            let oldest = (0..cap).min_by_key(|&i| self.slots[i].1).unwrap();
            let evicted = self.slots[oldest].2;
            self.slots[oldest] = (flow, self.clock, value);
            Some(evicted)
        }

        fn remove(&mut self, flow: FlowId) -> Option<u32> {
            let i = self.slots.iter().position(|s| s.0 == flow)?;
            Some(self.slots.swap_remove(i).2)
        }
    }

    proptest! {
        #[test]
        fn agrees_with_linear_search(
            cap in 1usize..6,
            steps in prop::collection::vec((0u32..9, prop::bool::weighted(0.2)), 1..200),
        ) {
            let mut table: FlowTable<u32> = FlowTable::new(cap);
            let mut plain = Plain::default();
            for (i, &(flow, removed)) in steps.iter().enumerate() {
                let value = i as u32 + 1;
                if removed {
                    prop_assert_eq!(table.remove(flow), plain.remove(flow));
                } else {
                    let (state, evicted) = table.entry(flow);
                    *state = value;
                    prop_assert_eq!(evicted, plain.entry(flow, cap, value));
                }
                prop_assert!(table.iter().eq(plain.slots.iter().map(|s| (s.0, &s.2))));
                let expected = plain.slots.iter().find(|s| s.0 == flow).map(|s| &s.2);
                prop_assert_eq!(table.get(flow), expected);
            }
        }
    }
}
