//! A frame on a plain link that is not stored there: constant rate and delay, DropTail, computed
//! when it enters the queue.

use super::flight::InFlight;
use super::{Link, Waiting, is_later};
use lasthop_core::segment::{Handle, Segment};
use lasthop_core::units::Time;

/// The start of a frame's serialisation, which is the trigger time of its arrival, and the arrival.
pub type Passage = (Time, Time);

impl Link {
    /// Rate and delay are constant, the queue is DropTail, frames do not overtake each other, and
    /// departures are not events.
    pub fn is_plain(&self) -> bool {
        self.plain.is_some()
            && self.evented.is_none()
            && self.service.is_none()
            && self.place.is_none()
            && self.reordering.is_none()
    }

    /// Errors may destroy frames.
    #[inline]
    pub fn loses_frames(&self) -> bool {
        self.plain.is_none_or(|p| p.loses)
    }

    /// Carries a frame of `size` bytes that enters a plain link without losses at `now`, by an
    /// event whose trigger time is `triggered_at`; `None` if the queue refuses it. The frame is not
    /// put in flight. `PASSES`: its arrival is counted now, because it is no event of this link.
    #[inline(always)]
    pub fn pass<const PASSES: bool>(
        &mut self,
        now: Time,
        triggered_at: Time,
        size: u32,
    ) -> Option<Passage> {
        let idle_path = &mut self.idle_path;
        if size == idle_path.size && self.last_end < now && idle_path.starts.holds(now) {
            idle_path.frames += 1;
            idle_path.passing += u64::from(PASSES);
            (self.last_start, self.last_end) = (now, now + idle_path.time);
            return Some((now, self.last_end + idle_path.delay));
        }
        let (start, arrival) = self.pass_queue(now, triggered_at, size)?;
        if PASSES {
            self.passed(arrival);
        }
        Some((start, arrival))
    }

    #[inline(never)]
    fn pass_queue(&mut self, now: Time, triggered_at: Time, size: u32) -> Option<Passage> {
        let bytes = size + self.overhead;
        let measured = self.measured;
        let holds = measured.holds(now);
        self.stats.offered += u64::from(holds);
        let departure = (self.last_end, self.last_start);
        let waits = is_later(departure, (now, triggered_at));
        if waits && let Some(limit) = self.limit {
            self.settle(now, triggered_at);
            if self.refuses(limit, bytes) {
                self.refuse(now);
                return None;
            }
            self.waiting_bytes += u64::from(bytes);
            self.waiting.push(Waiting { at: departure.0, triggered_at: departure.1, bytes });
            let length = if holds { self.waiting.len() as u64 } else { 0 };
            self.stats.queue_peak = self.stats.queue_peak.max(length);
        }
        let plain = self.plain.as_ref()?;
        let (mut time, delay) = (plain.time, plain.delay);
        if plain.bytes != bytes {
            time = self.resize(*plain, size).time;
        }
        let start = now.max(departure.0);
        (self.last_start, self.last_end) = (start, start + time);
        if measured.holds(start) {
            self.stats.queue_delay.record(start - now, 1);
            self.stats.bytes += u64::from(bytes);
        }
        Some((start, start + time + delay))
    }

    /// As `pass`, on a plain link that may lose frames; also returns whether it loses this one. The
    /// arrival is not counted.
    #[inline(never)]
    pub fn pass_or_lose(
        &mut self,
        now: Time,
        triggered_at: Time,
        segment: &Segment,
    ) -> Option<(Passage, bool)> {
        let passage = self.pass::<false>(now, triggered_at, segment.size)?;
        let lost = self.loses_frames() && self.loses(segment.size + self.overhead, segment);
        Some((passage, lost))
    }

    /// Puts the frame in flight that was passed last, and lost; its serialisation began at `start`.
    pub fn put_lost_in_flight(&mut self, start: Time, handle: Handle) {
        self.losses.push(InFlight { at: self.last_end, start, handle, tag: 0 });
    }

    /// Puts a frame in flight that was passed last. True if it is the next one to arrive.
    #[inline(always)]
    pub fn put_in_flight(&mut self, (start, at): Passage, handle: Handle) -> bool {
        self.pipe.push(InFlight { at, start, handle, tag: 0 });
        self.pipe.len() == 1
    }
}
