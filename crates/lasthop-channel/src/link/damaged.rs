//! What is left of lost frames: a damaged frame, or the first fragments of one, for an agent at the
//! far end that wants to see it.

use super::{Link, Plan, is_later};
use lasthop_core::agent::LinkEvent;
use lasthop_core::segment::Segment;
use lasthop_core::units::Time;

/// What is left of a frame that was given up, on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct DamagedFrame {
    pub(super) at: Time,
    pub(super) start: Time,
    segment: Segment,
    event: LinkEvent,
}

impl Link {
    /// An agent at the far end wants to see damaged frames. Before the first frame.
    pub fn report_damaged_frames(&mut self) {
        self.reports_damaged = true;
    }

    /// What the far end has of a frame that has just been found damaged, if anybody wants to know.
    pub(super) fn damage(&self, plan: &Plan, bytes: u32, segment: &Segment) -> Option<LinkEvent> {
        let header = (bytes + self.overhead).saturating_sub(segment.len);
        (plan.damaged && self.reports_damaged)
            .then(|| LinkEvent::Damaged { header_readable: self.air.loss.header_intact(header) })
    }

    /// A frame that is sent once and was found lost: if it comes damaged, that is on its way.
    #[cold]
    pub fn queue_damaged_frame(&mut self, plan: &Plan, segment: &Segment) {
        if let Some(event) = self.damage(plan, segment.size, segment) {
            self.push_damaged_frame(plan.arrival, plan.end, segment, event);
        }
    }

    /// What the far end has of a frame that was given up, for the agent there: it shall see it at
    /// that time.
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

    /// Takes what has arrived of the next such frame, if that is the next thing to come of lost
    /// frames.
    pub fn pop_damaged_frame(&mut self) -> Option<(Segment, LinkEvent)> {
        let next = self.damaged_frames.front().map(|r| (r.at, r.start))?;
        if self.losses.front().is_some_and(|f| !is_later((f.at, f.start), next)) {
            return None;
        }
        self.damaged_frames.pop_front().map(|r| (r.segment, r.event))
    }
}
