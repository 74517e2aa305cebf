//! What the far end receives of lost frames: a damaged frame, or the first fragments of one, for an
//! agent that subscribes to it.

use lasthop_core::agent::LinkEvent;
use lasthop_core::segment::Segment;
use lasthop_core::units::Time;

/// A damaged frame in flight, of a frame that was discarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct DamagedFrame {
    /// Time of arrival.
    pub at: Time,
    /// Trigger time of the arrival.
    pub start: Time,
    /// The frame's segment.
    pub segment: Segment,
    /// What the agent is notified of.
    pub event: LinkEvent,
}
