//! A frame on a plain link that is not stored there: constant rate and delay, DropTail, computed
//! when it enters the queue.

use crate::air::loss::{Frame as AirFrame, LossProcess};
use crate::link::Link;
use crate::link::flight::{HELD_BY_HOST, HeldByHost, InFlight, Passage, is_later};
use lasthop_core::segment::{Handle, Segment};
use lasthop_core::units::{Duration, Time};

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

    /// An agent at the far end receives damaged frames.
    pub fn reports_damaged(&self) -> bool {
        self.reports_damaged
    }

    /// Errors or outages may destroy frames.
    #[inline]
    pub fn loses_frames(&self) -> bool {
        self.loses_frames
    }

    /// Carries a frame of `size` bytes that enters a plain link without losses at `now`, by an
    /// event whose trigger time is `triggered_at`. Returns its arrival; `None` if the queue refuses
    /// it. Its serialisation begins at [`Link::last_start`]. It is not put in flight, and its
    /// arrival is counted now, because it is no event of this link.
    #[inline(always)]
    pub fn pass(&mut self, now: Time, triggered_at: Time, size: u32) -> Option<Time> {
        if self.takes_idle_path(now, triggered_at, size) {
            self.idle_path.passing += 1;
            return Some(self.serialize_idle(now));
        }
        let arrival = self.pass_queue(now, triggered_at, size);
        if arrival == Time::NEVER {
            return None;
        }
        self.passed(arrival);
        Some(arrival)
    }

    /// The same for a frame whose arrival is an event. It may be lost: see [`Link::loses_plain`].
    #[inline(always)]
    pub fn pass_last(&mut self, now: Time, triggered_at: Time, size: u32) -> Option<Time> {
        if self.takes_idle_path(now, triggered_at, size) {
            self.idle_path.arrivals += 1;
            return Some(self.serialize_idle(now));
        }
        let arrival = self.pass_queue(now, triggered_at, size);
        (arrival != Time::NEVER).then_some(arrival)
    }

    /// The same for a frame that usually has to wait.
    #[inline(always)]
    pub fn pass_busy(&mut self, now: Time, triggered_at: Time, size: u32) -> Option<Time> {
        if self.takes_idle_path(now, triggered_at, size) {
            self.idle_path.arrivals += 1;
            return Some(self.serialize_idle(now));
        }
        self.wait_and_serialize(now, triggered_at, size)
    }

    /// A frame finds the link idle and may take the fast path of an idle link.
    #[inline(always)]
    fn takes_idle_path(&self, now: Time, triggered_at: Time, size: u32) -> bool {
        // Equal times are rare where rates differ.
        let waits = self.last_end > now || (self.last_end == now && self.ends_later(triggered_at));
        !waits && size == self.idle_path.size && self.idle_path.starts.holds(now)
    }

    /// The last frame was sent by a later event than one with this trigger time.
    #[cold]
    fn ends_later(&self, triggered_at: Time) -> bool {
        self.last_start > triggered_at
    }

    /// Such a frame is sent. Returns its arrival, which is in the measured time, so that the sums
    /// do not overflow.
    #[inline(always)]
    fn serialize_idle(&mut self, now: Time) -> Time {
        let end = Time(now.0 + self.idle_path.time.0);
        (self.last_start, self.last_end) = (now, end);
        Time(end.0 + self.idle_path.delay.0)
    }

    /// The arrival of a frame that does not take the fast path of an idle link; `NEVER` if the
    /// queue refuses it.
    #[inline(never)]
    fn pass_queue(&mut self, now: Time, triggered_at: Time, size: u32) -> Time {
        self.wait_and_serialize(now, triggered_at, size).unwrap_or(Time::NEVER)
    }

    #[inline(always)]
    fn wait_and_serialize(&mut self, now: Time, triggered_at: Time, size: u32) -> Option<Time> {
        let bytes = size + self.overhead;
        let measured = self.measured;
        let holds = measured.holds(now);
        self.stats.offered += u64::from(holds);
        let (end, begun) = (self.last_end, self.last_start);
        let mut start = now;
        if is_later((end, begun), (now, triggered_at)) {
            start = end;
            if let Some(limit) = self.limit {
                self.waiting.settle(now, triggered_at);
                if self.refuses(limit, bytes) {
                    self.refuse(now);
                    return None;
                }
                self.waiting.push(end, begun, bytes);
                let length = self.waiting.frames();
                if length > self.stats.queue_peak && holds {
                    self.stats.queue_peak = length;
                }
            }
        }
        if self.idle_path.bytes != bytes {
            self.plain.as_ref()?;
            self.resize(size);
        }
        let end = start + self.idle_path.time;
        (self.last_start, self.last_end) = (start, end);
        if measured.holds(start) {
            self.stats.queue_delay.record(Duration(start.0 - now.0), 1);
            self.stats.bytes += u64::from(bytes);
        }
        Some(end + self.idle_path.delay)
    }

    /// Start of the serialisation of the frame that was sent last.
    #[inline(always)]
    pub fn last_start(&self) -> Time {
        self.last_start
    }

    /// The frame of `size` bytes that a plain link has passed last is lost.
    #[inline(always)]
    pub fn loses_plain(&mut self, size: u32, segment: impl FnOnce() -> Segment) -> bool {
        self.loses_frames && self.loses_next(size + self.overhead, segment)
    }

    /// True if errors destroy the next frame, which starts at `last_start`.
    #[inline(always)]
    pub(in crate::link) fn loses_next(
        &mut self,
        bytes: u32,
        segment: impl FnOnce() -> Segment,
    ) -> bool {
        if self.ordinal < self.safe_until {
            self.ordinal += 1;
            return false;
        }
        match self.loses_by_time(bytes) {
            Some(lost) => lost,
            None => self.loses(bytes, &segment()),
        }
    }

    /// The same where errors depend on nothing but the time; `None` if they do not.
    #[inline(never)]
    fn loses_by_time(&mut self, bytes: u32) -> Option<bool> {
        let (start, ordinal) = (self.last_start, self.ordinal);
        let LossProcess::Uniform(loss) = &mut self.air.loss else { return None };
        let lost = loss.lost_by_time(start, ordinal, bytes)?;
        self.ordinal += 1;
        Some(lost)
    }

    #[inline(never)]
    fn loses(&mut self, bytes: u32, segment: &Segment) -> bool {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let lost = self.air.loss.lost(&AirFrame {
            start: self.last_start,
            ordinal,
            bytes,
            mss: self.mss,
            segment,
        });
        self.safe_until = self.air.loss.safe_until(self.ordinal);
        lost
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

    /// This number of frames that the host stores has arrived, at `now` and before it, all of them
    /// within the measured time or none.
    #[inline]
    pub fn count_held(&mut self, now: Time, frames: u64) {
        self.stats.delivered += if self.measured.holds(now) { frames } else { 0 };
    }

    /// A frame that the host stores arrives; `next` is the next one of them. It is counted by
    /// [`Link::count_held`].
    #[inline(always)]
    pub fn arrive_held(&mut self, next: Option<Passage>) {
        self.held.frames -= 1;
        if let (Some((start, at)), 1..) = (next, self.held.frames) {
            (self.held.at, self.held.start) = (at, start);
        } else if self.coming() == Some(HELD_BY_HOST) {
            self.hold_next();
        }
    }

    /// The frames that arrive next are stored by the host.
    #[inline(never)]
    pub(in crate::link) fn hold_next(&mut self) {
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
