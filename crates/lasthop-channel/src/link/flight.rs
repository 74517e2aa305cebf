//! Frames in flight.

use lasthop_core::segment::Handle;
use lasthop_core::units::Time;

/// In place of a handle: frames in flight that the host stores, in the order of their arrival.
pub const HELD_BY_HOST: Handle = Handle::MAX;

/// The start of a frame's serialisation, which is the trigger time of its arrival, and the arrival.
pub type Passage = (Time, Time);

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is sent, and arrives.
    Sent,
    /// It is lost on the air.
    Lost,
    /// The queue refuses it.
    Refused,
}

impl Fate {
    /// That of a frame that is sent.
    #[inline(always)]
    pub(super) fn of_sent(lost: bool) -> Fate {
        if lost { Fate::Lost } else { Fate::Sent }
    }
}

/// What becomes of a stored frame on a link that computes this from few facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It is sent.
    Sent {
        /// Start of its serialisation.
        start: Time,
        /// Its arrival at the far end.
        arrival: Time,
        /// It is lost on the air.
        lost: bool,
    },
    /// The queue refuses it.
    Refused,
    /// The link needs the steps for any frame.
    Otherwise,
}

/// Frames in flight that the host stores and that arrive before all others of the link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldByHost {
    pub frames: u32,
    /// Arrival of the first one, and its trigger time.
    pub at: Time,
    pub start: Time,
}

/// A frame in flight: the time of its arrival (or loss), and its handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InFlight {
    pub at: Time,
    /// Start of serialisation: the trigger time of the arrival.
    pub start: Time,
    pub handle: Handle,
    /// Ordinal on a link that restores the order; the number of frames behind each
    /// other that the host stores.
    pub tag: u32,
}

/// Compares (time, trigger time). Branches are faster than a comparison of tuples, because equal
/// times are rare.
#[inline]
pub(super) fn is_later(a: (Time, Time), b: (Time, Time)) -> bool {
    a.0 > b.0 || (a.0 == b.0 && a.1 > b.1)
}
