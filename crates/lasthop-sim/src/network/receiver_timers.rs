//! The timers of receivers that are computed in advance ([`crate::hosts::advance`]). Nearly all of
//! them run in advance too, so that they share one event for each link: that of the first one.

use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use std::cmp::Reverse;

use lasthop::units::Time;

use crate::engine::scheduler::Source;
use crate::events::probe::Probe;
use crate::network::Net;

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
}

#[allow(clippy::multiple_inherent_impl, reason = "one file for each part of the network")]
impl<P: Probe> Net<P> {
    /// Adds an entry for the timer of a receiver behind the link `l`.
    #[inline(never)]
    pub(crate) fn add_receiver_timer(&mut self, l: u32, timer: ReceiverTimer) {
        let due = &mut self.receivers_due[l as usize];
        *due = timer.0.min(*due);
        let timers = &mut self.receiver_timers[l as usize];
        timers.entries.push(Reverse(timer));
        if timer < timers.event {
            self.schedule_receiver_timers(l as usize, Some(timer));
        }
    }

    /// The timer that is due first of the receivers behind the link `l`. `update` compares the
    /// first entry with its timer and returns the entry to be kept, or `None` to remove it: entries
    /// before that timer may be outdated.
    pub(crate) fn first_receiver_timer(
        &mut self,
        l: usize,
        mut update: impl FnMut(ReceiverTimer) -> Option<ReceiverTimer>,
    ) -> Option<ReceiverTimer> {
        while let Some(mut first) = self.receiver_timers[l].entries.peek_mut() {
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

    /// Moves the event of the timers behind the link `l` to the first one; `None` if there is none.
    pub(crate) fn schedule_receiver_timers(&mut self, l: usize, first: Option<ReceiverTimer>) {
        let timers = &mut self.receiver_timers[l];
        timers.event = first.unwrap_or(NONE);
        let (due, set, source, _) = timers.event;
        self.scheduler.set_for(timers.source, source, due.0, set.0);
    }
}
