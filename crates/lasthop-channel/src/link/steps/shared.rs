//! The link between two stations of a cell: the cell has the queue and the medium, the link has the
//! counters.

use crate::air::config::RateConfig;
use crate::air::rate::RateProcess;
use crate::link::Link;
use crate::link::cell::config::Place;
use crate::link::cell::{Attempt, Delivery, End};
use crate::queue::Frame;
use lasthop_core::framing::Step;
use lasthop_core::segment::{Handle, NodeId, Segment};
use lasthop_core::units::{Duration, Rate, Time};

impl Link {
    /// Position in a cell, if it is in one.
    #[inline]
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// Sets the capacity that it has if no other station sends.
    pub fn set_rate(&mut self, rate: Rate) {
        self.air.rate = RateProcess::new(&RateConfig::Constant(rate), None, &[], Duration::ZERO);
    }

    /// A segment from the node `from` is offered to the cell now: counts it, and returns its frame.
    #[inline]
    pub fn enter_cell(
        &mut self,
        handle: Handle,
        segment: &Segment,
        from: NodeId,
        now: Time,
    ) -> Frame {
        self.stats.offered += u64::from(self.measured.holds(now));
        self.frame(handle, segment, from, now)
    }

    /// Counts an attempt that ends now.
    pub fn count_attempt(&mut self, now: Time, attempt: &Attempt, end: &End) {
        let counts = self.count_sent(attempt, end.air_time);
        self.stats.collisions += u64::from(counts && end.collided);
        if self.measured.holds(now) {
            let lost = end.loses();
            self.stats.lost += u64::from(lost);
            self.stats.discarded += u64::from(matches!(end.step, Step::Over { .. }));
            self.stats.lost_in_collision += u64::from(lost && end.crashed);
        }
    }

    /// The same for the delivery of a frame.
    #[inline]
    pub fn count_delivered_attempt(&mut self, delivery: &Delivery) {
        self.count_sent(&delivery.attempt, delivery.air_time);
    }

    /// Counts what an attempt sends, if it has begun within the measured time.
    #[inline(always)]
    fn count_sent(&mut self, attempt: &Attempt, air_time: Duration) -> bool {
        let counts = self.measured.holds(attempt.start) && attempt.number > 0;
        if counts {
            self.stats.attempts += 1;
            self.stats.bytes += u64::from(attempt.bytes);
            self.stats.busy = self.stats.busy + air_time;
            if attempt.number == 1 {
                self.stats.queue_delay.record(attempt.start - attempt.frame.at, 1);
            }
        }
        counts
    }
}
