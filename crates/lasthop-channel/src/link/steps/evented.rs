//! One event per departure.

use crate::link::Link;
use crate::link::arq::{Arq, ArqConfig};
use crate::link::evented::Evented;
use crate::link::flight::is_later;
use crate::queue::{AnyQueue, DropTail, Frame, Headers, Outcome, QueueDiscipline};
use lasthop_core::segment::{Handle, NodeId, Segment};
use lasthop_core::units::Time;

impl Link {
    /// True if each departure is an event.
    pub fn is_evented(&self) -> bool {
        self.evented.is_some()
    }

    /// True if the queue is not DropTail.
    pub fn is_managed(&self) -> bool {
        self.evented.as_ref().is_some_and(|e| !matches!(e.queue, AnyQueue::DropTail(_)))
    }

    /// Makes the link evented. Call it before the first frame.
    pub fn make_evented(&mut self) {
        let limit = self.limit;
        self.evented.get_or_insert_with(|| {
            Box::new(Evented::new(AnyQueue::DropTail(DropTail::new(limit)), None))
        });
    }

    /// Makes the link evented and counts its attempts, so that agents can subscribe to them. Call
    /// it before the first frame.
    pub fn count_attempts(&mut self) {
        self.make_evented();
        if let Some(evented) = &mut self.evented {
            evented.arq.get_or_insert_with(|| Arq::new(&ArqConfig::ONCE, false));
        }
    }

    /// The queue's view of a segment from the node `from`, 0 if the host has no nodes.
    #[inline]
    pub fn frame(&self, handle: Handle, segment: &Segment, from: NodeId, now: Time) -> Frame {
        Frame { from, ..Frame::new(handle, segment, self.overhead, now) }
    }

    /// Enqueues an offered frame, by an event whose trigger time is `triggered_at`. Returns the
    /// frame that starts now, if one does; `plan` and `propagate` have to follow. Drops and marks
    /// are added to `outcomes`, which must be empty. `headers` has all frames of the link.
    pub fn enqueue(
        &mut self,
        now: Time,
        triggered_at: Time,
        frame: Frame,
        headers: &dyn Headers,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<Frame> {
        if self.impairments.is_some() && !self.admits(now, frame, outcomes) {
            self.count(now, outcomes);
            return None;
        }
        let departure = (self.last_end, self.last_start);
        let Evented { queue, busy, arq, .. } = self.evented.as_deref_mut()?;
        // A frame that leaves at the time and by the event that brought it (an opportunity of a
        // trace) delays no other frame.
        *busy &=
            arq.is_some() || queue.load().packets > 0 || is_later(departure, (now, triggered_at));
        let mut starts = None;
        if *busy {
            queue.filter(&frame, headers, outcomes);
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

    /// The frame being sent has left, or a retransmission is due. Returns the frame that starts
    /// now, as `enqueue` does.
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

    /// Counts what the queue has done to frames.
    pub fn count(&mut self, now: Time, outcomes: &[Outcome]) {
        let one = u64::from(self.measured.holds(now));
        for outcome in outcomes {
            match outcome {
                Outcome::Marked { .. } => self.stats.marked += one,
                Outcome::Dropped { .. } => self.stats.dropped += one,
                Outcome::Filtered { .. } => self.stats.filtered += one,
            }
        }
    }

    /// Time of the next departure with the start of that frame, or time of the next retransmission
    /// with the time since when it waits; `NEVER` if there is none.
    pub fn departure(&self) -> (Time, Time) {
        let on_air = (self.last_end, self.last_start);
        match self.evented.as_deref() {
            Some(Evented { arq: Some(arq), .. }) => arq.departure(on_air),
            Some(e) if e.busy => on_air,
            _ => (Time::NEVER, Time::ZERO),
        }
    }
}
