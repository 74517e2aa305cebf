//! The evented link: departure by departure, for disciplines that decide what becomes of a frame
//! while it waits.

use super::arq::{Arq, ArqConfig};
use super::{Link, is_later};
use crate::queue::{AnyQueue, DropTail, Frame, Outcome, QueueDiscipline};
use lasthop_core::segment::{Handle, Segment};
use lasthop_core::units::Time;

/// The queue of an evented link.
pub(super) struct Evented {
    queue: AnyQueue,
    /// A frame is being sent, or holds the link.
    busy: bool,
    /// Attempts, if they are counted.
    pub(super) arq: Option<Arq>,
}

impl Evented {
    pub(super) fn new(queue: AnyQueue, arq: Option<Arq>) -> Evented {
        Evented { queue, busy: false, arq }
    }

    /// Frames and bytes waiting, and whether a full frame would find no room.
    pub(super) fn state(&self, full_frame: u32) -> (u64, u64, bool) {
        let load = self.queue.load();
        (load.packets, load.bytes, self.busy && !self.queue.has_room(full_frame))
    }
}

impl Link {
    /// True if it works departure by departure.
    pub fn is_evented(&self) -> bool {
        self.evented.is_some()
    }

    /// True if its queue has another discipline than DropTail.
    pub fn is_managed(&self) -> bool {
        self.evented.as_ref().is_some_and(|e| !matches!(e.queue, AnyQueue::DropTail(_)))
    }

    /// Makes it evented if it is not. Before its first frame.
    pub fn make_evented(&mut self) {
        let limit = self.limit;
        self.evented.get_or_insert_with(|| {
            Box::new(Evented::new(AnyQueue::DropTail(DropTail::new(limit)), None))
        });
    }

    /// Makes it evented and lets it count attempts, of which an agent may want to hear. Before its
    /// first frame.
    pub fn count_attempts(&mut self) {
        self.make_evented();
        if let Some(evented) = &mut self.evented {
            evented.arq.get_or_insert_with(|| Arq::new(&ArqConfig::ONCE, false));
        }
    }

    /// A segment as its queue sees it.
    pub fn frame(&self, handle: Handle, segment: &Segment, now: Time) -> Frame {
        Frame::new(handle, segment, self.overhead, now)
    }

    /// A frame that was offered comes to the queue, by an event whose trigger time is
    /// `triggered_at`. The frame that starts now, if one does: `plan` and `launch` have to follow.
    /// What else happened is added to `outcomes`, which must be empty.
    pub fn enqueue(
        &mut self,
        now: Time,
        triggered_at: Time,
        frame: Frame,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<Frame> {
        let departure = (self.last_end, self.last_start);
        let Evented { queue, busy, arq, .. } = self.evented.as_deref_mut()?;
        // What leaves at the very instant and by the very cause of its own coming (a trace's
        // opportunity) holds nobody up.
        *busy &=
            arq.is_some() || queue.load().packets > 0 || is_later(departure, (now, triggered_at));
        let mut starts = None;
        if *busy {
            queue.enqueue(now, frame, outcomes);
            if self.measured.holds(now) {
                self.stats.queue_peak = self.stats.queue_peak.max(queue.load().packets);
            }
        } else if queue.pass(now, frame, outcomes) {
            *busy = true;
            starts = Some(frame);
        }
        self.count(now, outcomes);
        starts
    }

    /// The frame being sent has left, or one is due to be sent again: the one that starts now, if
    /// one does, as from `enqueue`.
    pub fn depart(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        let Evented { queue, busy, arq, .. } = self.evented.as_deref_mut()?;
        *busy = true;
        if let Some(arq) = arq {
            let again = arq.retry(now);
            if again.is_some() || arq.holds_link() {
                return again;
            }
        }
        let starts = queue.dequeue(now, outcomes);
        *busy = starts.is_some();
        self.count(now, outcomes);
        starts
    }

    fn count(&mut self, now: Time, outcomes: &[Outcome]) {
        let one = u64::from(self.measured.holds(now));
        for outcome in outcomes {
            match outcome {
                Outcome::Marked { .. } => self.stats.marked += one,
                Outcome::Dropped { .. } => self.stats.dropped += one,
            }
        }
    }

    /// When the frame being sent will have left, and when it started, or when one is due to be sent
    /// again, and since when; `NEVER` if there is none.
    pub fn departure(&self) -> (Time, Time) {
        let on_air = (self.last_end, self.last_start);
        match self.evented.as_deref() {
            Some(Evented { arq: Some(arq), .. }) => arq.departure(on_air),
            Some(e) if e.busy => on_air,
            _ => (Time::NEVER, Time::ZERO),
        }
    }
}
