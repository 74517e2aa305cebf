//! Frames that overtake each other on the air, and the far end that restores their order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::flight::InFlight;
use lasthop_core::ring::Ring;
use lasthop_core::segment::Handle;

/// Frames that can be reordered on the air.
#[derive(Debug)]
pub(super) struct Reordering {
    /// Ordered by (arrival, start, ordinal).
    heap: BinaryHeap<Reverse<HeapEntry>>,
    launched: u64,
    /// Set if the far end restores the order.
    sorter: Option<Sorter>,
}

impl Reordering {
    pub(super) fn new(sorter: Option<Sorter>) -> Self {
        Reordering { heap: BinaryHeap::new(), launched: 0, sorter }
    }

    pub(super) fn push(&mut self, frame: InFlight) {
        self.launched += 1;
        self.heap.push(Reverse(HeapEntry { ordinal: self.launched, frame }));
    }

    /// The next arrival or delivery.
    pub(super) fn next(&self) -> Option<&InFlight> {
        let ready = self.sorter.as_ref().and_then(|s| s.next());
        ready.or_else(|| self.heap.peek().map(|e| &e.0.frame))
    }

    /// Removes it. `None` if the frame that has arrived must wait for others.
    pub(super) fn pop(&mut self) -> Option<InFlight> {
        let Some(sorter) = &mut self.sorter else { return Some(self.heap.pop()?.0.frame) };
        if sorter.next().is_none() {
            sorter.take(self.heap.pop()?.0.frame);
        }
        sorter.pop()
    }
}

#[derive(Debug, PartialEq, Eq)]
struct HeapEntry {
    ordinal: u64,
    frame: InFlight,
}

impl Ord for HeapEntry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |e: &Self| (e.frame.at, e.frame.start, e.ordinal);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for HeapEntry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The handle of a frame that will not arrive.
pub(super) const NOBODY: Handle = Handle::MAX;

/// The far end of a link that delivers frames in order.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    /// Tag of the first missing frame.
    first: u32,
    /// State of the frames from that one on.
    tags: VecDeque<TagState>,
    /// Frames that can be delivered now.
    ready: Ring<InFlight>,
}

#[derive(Clone, Copy, Debug)]
enum TagState {
    Missing,
    Here(InFlight),
    Discarded,
}

impl Sorter {
    /// The next frame that can be delivered now.
    pub(super) fn next(&self) -> Option<&InFlight> {
        self.ready.front()
    }

    /// Removes it.
    pub(super) fn pop(&mut self) -> Option<InFlight> {
        self.ready.pop()
    }

    /// Processes an arrival, or the notice that a frame will not arrive.
    pub(super) fn take(&mut self, frame: InFlight) {
        let place = frame.tag.wrapping_sub(self.first) as usize;
        while self.tags.len() <= place {
            self.tags.push_back(TagState::Missing);
        }
        self.tags[place] =
            if frame.handle == NOBODY { TagState::Discarded } else { TagState::Here(frame) };
        while let Some(TagState::Here(_) | TagState::Discarded) = self.tags.front() {
            if let Some(TagState::Here(f)) = self.tags.pop_front() {
                self.ready.push(InFlight { at: frame.at, ..f });
            }
            self.first = self.first.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::units::Time;

    fn frame(tag: u32, at: u64) -> InFlight {
        InFlight { at: Time(at), start: Time::ZERO, handle: tag.wrapping_add(100), tag }
    }

    fn ready(sorter: &mut Sorter) -> Vec<(Handle, u64)> {
        std::iter::from_fn(|| sorter.pop()).map(|f| (f.handle, f.at.0)).collect()
    }

    #[test]
    fn frames_go_up_in_order_and_nobody_waits_for_what_is_discarded() {
        let mut s = Sorter { first: u32::MAX, ..Sorter::default() };
        s.take(frame(u32::MAX, 1));
        assert_eq!(ready(&mut s), [(99, 1)]);
        s.take(frame(1, 2));
        s.take(frame(3, 3));
        assert_eq!(ready(&mut s), []);
        s.take(frame(0, 4));
        assert_eq!(ready(&mut s), [(100, 4), (101, 4)]);
        s.take(InFlight { handle: NOBODY, ..frame(2, 5) });
        assert_eq!(ready(&mut s), [(103, 5)]);
    }
}
