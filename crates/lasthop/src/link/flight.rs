//! Frames on their way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::segment::Handle;
use crate::units::Time;

/// A frame on its way: when it arrives (or is lost), and what it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) at: Time,
    /// Start of its serialisation: the time of cause.
    pub(super) start: Time,
    pub(super) handle: Handle,
}

/// Frames that may overtake each other, ordered by (arrival, start, ordinal).
pub(super) type Reordering = BinaryHeap<Reverse<HeapEntry>>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeapEntry {
    pub(super) ordinal: u64,
    pub(super) frame: InFlight,
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
