//! Frames in flight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arq::Sorter;
use lasthop_core::segment::Handle;
use lasthop_core::units::Time;

/// In place of a handle: frames in flight that the host stores, in the order of their arrival.
pub const HELD_BY_HOST: Handle = Handle::MAX;

/// Frames in flight that the host stores and that arrive before all others of the link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldByHost {
    pub frames: u32,
    /// Arrival of the first one, and its trigger time.
    pub at: Time,
    pub start: Time,
}

/// A frame in flight: the time of its arrival (or loss), and its handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InFlight {
    pub at: Time,
    /// Start of serialisation: the trigger time of the arrival.
    pub start: Time,
    pub handle: Handle,
    /// Ordinal on a link that restores the order; the number of frames behind each
    /// other that the host stores.
    pub tag: u32,
}

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
