//! A frame on a plain link that is not stored there: constant rate and delay, DropTail, computed
//! when it enters the queue.

use super::flight::{HELD_BY_HOST, HeldByHost, InFlight};
use super::{Link, Offered, is_later};
use lasthop_core::segment::{Handle, Segment};
use lasthop_core::units::Time;

/// The start of a frame's serialisation, which is the trigger time of its arrival, and the arrival.
pub type Passage = (Time, Time);

impl Link {
    /// The queue is DropTail, frames do not overtake each other and take one slot each, and
    /// departures are not events.
    pub fn passes_in_order(&self) -> bool {
        self.evented.is_none()
            && self.service.is_none()
            && self.place.is_none()
            && self.reordering.is_none()
    }

    /// The same, and rate and delay are constant.
    pub fn is_plain(&self) -> bool {
        self.passes_in_order() && self.plain.is_some_and(|p| p.rate.0 > 0)
    }

    /// Errors or outages may destroy frames.
    #[inline]
    pub fn loses_frames(&self) -> bool {
        self.loses_frames
    }

    /// Carries a frame of `size` bytes that enters a plain link without losses at `now`, by an
    /// event whose trigger time is `triggered_at`. Returns its arrival; `NEVER` if the queue
    /// refuses it. Its serialisation begins at [`Link::last_start`]. It is not put in flight.
    /// `PASSES`: its arrival is counted now, because it is no event of this link.
    #[inline(always)]
    pub fn pass<const PASSES: bool>(&mut self, now: Time, triggered_at: Time, size: u32) -> Time {
        let idle_path = &mut self.idle_path;
        let departure = (self.last_end, self.last_start);
        let waits = is_later(departure, (now, triggered_at));
        if size == idle_path.size && !waits && idle_path.starts.holds(now) {
            idle_path.frames += 1;
            idle_path.passing += u64::from(PASSES);
            (self.last_start, self.last_end) = (now, now + idle_path.time);
            return self.last_end + idle_path.delay;
        }
        let arrival = self.pass_queue(now, triggered_at, size);
        if PASSES && arrival != Time::NEVER {
            self.passed(arrival);
        }
        arrival
    }

    #[inline(never)]
    fn pass_queue(&mut self, now: Time, triggered_at: Time, size: u32) -> Time {
        let bytes = size + self.overhead;
        let measured = self.measured;
        let holds = measured.holds(now);
        self.stats.offered += u64::from(holds);
        let departure = (self.last_end, self.last_start);
        let waits = is_later(departure, (now, triggered_at));
        if waits && let Some(limit) = self.limit {
            self.waiting.settle(now, triggered_at);
            if self.refuses(limit, bytes) {
                self.refuse(now);
                return Time::NEVER;
            }
            self.waiting.push(departure.0, departure.1, bytes);
            let length = if holds { self.waiting.frames() } else { 0 };
            self.stats.queue_peak = self.stats.queue_peak.max(length);
        }
        let Some(plain) = &self.plain else { return Time::NEVER };
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
        start + time + delay
    }

    /// Start of the serialisation of the frame that was sent last.
    #[inline(always)]
    pub fn last_start(&self) -> Time {
        self.last_start
    }

    /// As `pass`, on a link that may lose frames, and whose rate and delay may vary; `None` if the
    /// queue refuses the frame. Also returns whether it is lost. The arrival is not counted.
    #[inline(never)]
    pub fn pass_or_lose(
        &mut self,
        now: Time,
        triggered_at: Time,
        segment: &Segment,
    ) -> Option<(Passage, bool)> {
        if self.plain.is_none_or(|p| p.rate.0 == 0) || now == Time::NEVER {
            let Offered::Admitted = self.offer(now, triggered_at, segment.size) else {
                return None;
            };
            let plan = self.plan(now, now, segment);
            if plan.lost {
                self.queue_damaged_frame(&plan, segment);
            }
            return Some(((plan.start, plan.arrival), plan.lost));
        }
        let arrival = self.pass::<false>(now, triggered_at, segment.size);
        if arrival == Time::NEVER {
            return None;
        }
        let passage = (self.last_start, arrival);
        let lost = self.loses_frames() && self.loses(segment.size + self.overhead, segment);
        Some((passage, lost))
    }

    /// Puts the frame in flight that was passed last, and lost; its serialisation began at `start`.
    pub fn put_lost_in_flight(&mut self, start: Time, handle: Handle) {
        self.losses.push(InFlight { at: self.last_end, start, handle, tag: 0 });
    }

    /// Puts a frame in flight that was passed last, and that the host stores. True if it is the
    /// next one to arrive.
    #[inline(always)]
    pub fn put_held_in_flight(&mut self, (start, at): Passage) -> bool {
        if !self.pipe.is_empty() {
            self.put_held_behind((start, at));
            return false;
        }
        self.held.frames += 1;
        if self.held.frames == 1 {
            (self.held.at, self.held.start) = (at, start);
        }
        self.held.frames == 1
    }

    #[inline(never)]
    fn put_held_behind(&mut self, (start, at): Passage) {
        match self.pipe.back_mut() {
            Some(last) if last.handle == HELD_BY_HOST => last.tag += 1,
            _ => self.pipe.push(InFlight { at, start, handle: HELD_BY_HOST, tag: 1 }),
        }
    }

    /// The frame that arrives next is one that the host stores.
    #[inline(always)]
    pub fn holds_next_at_host(&self) -> bool {
        self.held.frames > 0
    }

    /// Such a frame arrives; `next` is the next one that the host stores. Returns the time of the
    /// next arrival and its trigger time.
    #[inline(always)]
    pub fn arrive_held(&mut self, now: Time, next: Option<Passage>) -> (Time, Time) {
        self.passed(now);
        self.held.frames -= 1;
        if let (Some((start, at)), 1..) = (next, self.held.frames) {
            (self.held.at, self.held.start) = (at, start);
            return (at, start);
        }
        if self.coming() == Some(HELD_BY_HOST) {
            self.hold_next();
        }
        self.next_arrival()
    }

    /// The frames that arrive next are stored by the host.
    #[inline(never)]
    pub(super) fn hold_next(&mut self) {
        if let Some(InFlight { at, start, tag: frames, .. }) = self.pipe.pop() {
            self.held = HeldByHost { frames, at, start };
        }
    }

    /// Puts a frame in flight that was passed last. True if it is the next one to arrive.
    #[inline(always)]
    pub fn put_in_flight(&mut self, (start, at): Passage, handle: Handle) -> bool {
        self.pipe.push(InFlight { at, start, handle, tag: 0 });
        self.pipe.len() == 1 && self.held.frames == 0
    }
}
