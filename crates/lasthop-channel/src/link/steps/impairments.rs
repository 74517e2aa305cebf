//! The impairments of a link, where a frame passes them.

use crate::link::Link;
use crate::queue::{Frame, Outcome};
use lasthop_core::units::Time;

impl Link {
    /// True if the link has an impairment.
    pub fn is_impaired(&self) -> bool {
        self.impairments.is_some()
    }

    /// True if frames may arrive with bit errors that the link layer does not detect.
    pub fn may_corrupt(&self) -> bool {
        self.impairments.as_ref().is_some_and(|i| i.may_corrupt())
    }

    /// True if the frame that is about to be offered is duplicated: the host then offers a copy
    /// right behind it. Call it once for each frame that is not a copy.
    pub fn duplicates_next(&mut self, now: Time) -> bool {
        let hit = self.impairments.as_mut().is_some_and(|i| i.duplicates());
        self.stats.duplicated += u64::from(hit && self.measured.holds(now));
        hit
    }

    /// Whether the frame that has just arrived has a bit error: a number from 0 to 1 for its place
    /// in the frame. Call it once for each frame that arrives.
    pub fn corrupts_next(&mut self, now: Time) -> Option<f64> {
        let place = self.impairments.as_mut()?.corrupts();
        self.stats.corrupted += u64::from(place.is_some() && self.measured.holds(now));
        place
    }

    /// True if no impairment drops the frame before the queue.
    pub(in crate::link) fn admits(
        &mut self,
        now: Time,
        frame: Frame,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        let reason = self.impairments.as_mut().and_then(|i| i.drops(now, frame.bytes));
        if let Some(reason) = reason {
            frame.drop(reason, outcomes);
            self.stats.policed += u64::from(self.measured.holds(now));
        }
        reason.is_none()
    }
}
