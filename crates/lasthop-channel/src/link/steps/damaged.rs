//! What the far end receives of lost frames.

use crate::link::damaged::DamagedFrame;
use crate::link::flight::is_later;
use crate::link::{Link, Plan};
use lasthop_core::agent::LinkEvent;
use lasthop_core::segment::Segment;
use lasthop_core::units::Time;

impl Link {
    /// An agent at the far end receives damaged frames. Call it before the first frame.
    pub fn report_damaged_frames(&mut self) {
        self.reports_damaged = true;
    }

    /// What the far end receives of a frame that was just damaged, if an agent subscribes to it.
    pub(in crate::link) fn damage(
        &self,
        plan: &Plan,
        bytes: u32,
        segment: &Segment,
    ) -> Option<LinkEvent> {
        let header = (bytes + self.overhead).saturating_sub(segment.len);
        (plan.damaged && self.reports_damaged)
            .then(|| LinkEvent::Damaged { header_readable: self.air.loss.header_intact(header) })
    }

    /// Puts a damaged frame in flight for a frame that is sent once and was lost by errors.
    #[cold]
    pub fn queue_damaged_frame(&mut self, plan: &Plan, segment: &Segment) {
        if let Some(event) = self.damage(plan, segment.size, segment) {
            self.push_damaged_frame(plan.arrival, plan.end, segment, event);
        }
    }

    /// Puts in flight what the far end has of a discarded frame; the agent there gets it at that
    /// time.
    pub fn push_damaged_frame(
        &mut self,
        at: Time,
        start: Time,
        segment: &Segment,
        event: LinkEvent,
    ) {
        let at = self.damaged_frames.back().map_or(at, |r| at.max(r.at));
        self.damaged_frames.push_back(DamagedFrame { at, start, segment: *segment, event });
    }

    /// Removes the next damaged frame that has arrived, if it precedes the next lost frame.
    pub fn pop_damaged_frame(&mut self) -> Option<(Segment, LinkEvent)> {
        let next = self.damaged_frames.front().map(|r| (r.at, r.start))?;
        if self.losses.front().is_some_and(|f| !is_later((f.at, f.start), next)) {
            return None;
        }
        self.damaged_frames.pop_front().map(|r| (r.segment, r.event))
    }
}
