//! A frame that is not stored on a link that passes frames in order, which may vary in rate or
//! delay.

use crate::air::loss::LossProcess;
use crate::link::flight::{Fate, Passed};
use crate::link::{Link, Offered};
use lasthop_core::segment::Segment;
use lasthop_core::units::Time;

impl Link {
    /// Carries a frame of `size` bytes over any link that passes frames in order, where it enters
    /// the queue at `now`, by an event whose trigger time is `triggered_at`. Returns its arrival,
    /// if there is one, and its fate; unless the queue refuses it, its serialisation begins at
    /// [`Link::last_start`]. Its arrival is not counted.
    #[inline(always)]
    pub fn pass_in_order(
        &mut self,
        now: Time,
        triggered_at: Time,
        size: u32,
        segment: impl FnOnce() -> Segment,
    ) -> (Time, Fate) {
        if self.by_time && !self.reports_damaged {
            return self.pass_by_time(now, triggered_at, size);
        }
        if self.plain.is_some_and(|p| p.rate.0 > 0) && now != Time::NEVER {
            let Some(arrival) = self.pass_busy(now, triggered_at, size) else {
                return (Time::NEVER, Fate::Refused);
            };
            return (arrival, Fate::of_sent(self.loses_plain(size, segment)));
        }
        self.pass_by_plan(now, triggered_at, &segment())
    }

    /// The same, compiled once: copies at each caller would displace other code in the instruction
    /// cache.
    #[inline(never)]
    pub fn pass_any_in_order(
        &mut self,
        now: Time,
        triggered_at: Time,
        segment: &Segment,
    ) -> (Time, Fate) {
        self.pass_in_order(now, triggered_at, segment.size, || *segment)
    }

    /// The same where the frame's fate depends on nothing but time, ordinal and size.
    #[inline(never)]
    fn pass_by_time(&mut self, now: Time, triggered_at: Time, size: u32) -> (Time, Fate) {
        let bytes = size + self.overhead;
        self.stats.offered += u64::from(self.measured.holds(now));
        if !self.enter_queue((now, triggered_at), bytes) {
            return (Time::NEVER, Fate::Refused);
        }
        let (air, ordinal) = (&mut *self.air, self.ordinal);
        self.ordinal += 1;
        let (start, end) = air.rate.serialize(now, bytes);
        (self.last_start, self.last_end) = (start, end);
        if self.measured.holds(start) {
            self.stats.busy = self.stats.busy + (end - start);
            self.stats.queue_delay.record(start - now, 1);
            self.stats.bytes += u64::from(bytes);
        }
        let arrival = air.delay.drawn_arrival(ordinal, (start, end));
        let lost = match &mut air.loss {
            LossProcess::Uniform(loss) => loss.lost_at(start, ordinal, bytes),
            _ => false,
        };
        (arrival, Fate::of_sent(lost))
    }

    /// The same on other links.
    #[inline(never)]
    fn pass_by_plan(&mut self, now: Time, triggered_at: Time, segment: &Segment) -> (Time, Fate) {
        let Offered::Admitted = self.offer(now, triggered_at, segment.size) else {
            return (Time::NEVER, Fate::Refused);
        };
        let plan = self.plan(now, now, segment);
        if plan.lost {
            self.queue_damaged_frame(&plan, segment);
        }
        (plan.arrival, Fate::of_sent(plan.lost))
    }

    /// Carries a stored frame over a link that computes its fate from time, ordinal and size, or
    /// from a draw of its losses. [`Passed::Otherwise`] on other links, and where an agent receives
    /// damaged frames: nothing has changed then. The arrival is not counted.
    #[inline(always)]
    pub fn pass_stored(&mut self, now: Time, triggered_at: Time, segment: &Segment) -> Passed {
        if self.evented.is_some() || self.service.is_some() || self.reports_damaged {
            return Passed::Otherwise;
        }
        let size = segment.size;
        if self.plain.is_some_and(|p| p.rate.0 > 0) {
            let Some(arrival) = self.pass_busy(now, triggered_at, size) else {
                return Passed::Refused;
            };
            return Passed::Sent {
                start: self.last_start,
                arrival,
                lost: self.loses_plain(size, || *segment),
            };
        }
        if self.by_time && now != Time::NEVER {
            let (arrival, fate) = self.pass_by_time(now, triggered_at, size);
            return match fate {
                Fate::Refused => Passed::Refused,
                fate => Passed::Sent { start: self.last_start, arrival, lost: fate == Fate::Lost },
            };
        }
        Passed::Otherwise
    }
}
