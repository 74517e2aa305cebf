//! The timers of receivers that are computed in advance ([`crate::hosts::advance`]). Nearly all of
//! them run in advance too, so that they share one event for each link: that of the first one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use lasthop::units::Time;

use crate::engine::scheduler::Source;

/// The timer of a receiver that is computed in advance: when it is due, when it was set, its event
/// source, and its connection.
pub(crate) type ReceiverTimer = (Time, Time, Source, u32);

/// No timer.
const NONE: ReceiverTimer = (Time::NEVER, Time::NEVER, Source::MAX, u32::MAX);

/// Those of the receivers behind a link.
#[derive(Debug)]
pub(super) struct ReceiverTimers {
    /// For each of them one entry at or before the time when it is due. An entry whose timer was
    /// cancelled or postponed remains until it is the first one.
    entries: BinaryHeap<Reverse<ReceiverTimer>>,
    /// The event source that stands for them.
    source: Source,
    /// Its event in the queue, which is not later than any of them.
    event: ReceiverTimer,
}

impl ReceiverTimers {
    /// No timer runs; `source`: the event source that stands for them.
    pub(super) fn new(source: Source) -> Self {
        ReceiverTimers { entries: BinaryHeap::new(), source, event: NONE }
    }

    /// Adds an entry. True if it precedes the event.
    pub(super) fn add(&mut self, timer: ReceiverTimer) -> bool {
        self.entries.push(Reverse(timer));
        timer < self.event
    }

    /// There is one entry.
    #[inline]
    pub(super) fn is_one(&self) -> bool {
        self.entries.len() == 1
    }

    /// The timer that is due first. `update` compares the first entry with its timer and returns
    /// the entry to be kept, or `None` to remove it: entries before that timer may be outdated.
    #[inline]
    pub(super) fn first(
        &mut self,
        mut update: impl FnMut(ReceiverTimer) -> Option<ReceiverTimer>,
    ) -> Option<ReceiverTimer> {
        while let Some(mut first) = self.entries.peek_mut() {
            let Reverse(entry) = *first;
            match update(entry) {
                Some(timer) if timer == entry => return Some(entry),
                Some(timer) => *first = Reverse(timer),
                None => {
                    PeekMut::pop(first);
                }
            }
        }
        None
    }

    /// Moves the event to a timer; `None` if there is none. Returns its source and the timer.
    pub(super) fn move_event(&mut self, to: Option<ReceiverTimer>) -> (Source, ReceiverTimer) {
        self.event = to.unwrap_or(NONE);
        (self.source, self.event)
    }
}
