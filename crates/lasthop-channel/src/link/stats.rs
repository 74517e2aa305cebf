//! Counters of a link.

use lasthop_core::histogram::Histogram;
use lasthop_core::units::{Duration, Time};

/// The measured time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Start.
    pub from: Time,
    /// Length.
    pub length: Duration,
}

impl Measured {
    #[inline]
    pub(super) fn holds(self, t: Time) -> bool {
        t.0.wrapping_sub(self.from.0) < self.length.0
    }
}

/// Counters of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Frames offered.
    pub offered: u64,
    /// Frames that arrived.
    pub delivered: u64,
    /// Frames lost on the air; with retransmission, those that the link discarded.
    pub lost: u64,
    /// Of `lost`, those whose last attempt ended in a collision (in a cell).
    pub lost_in_collision: u64,
    /// Attempts to send a frame, on links that count them.
    pub attempts: u64,
    /// Frames that a station of a cell discarded, some of which had arrived.
    pub discarded: u64,
    /// Attempts that ended in a collision (in a cell).
    pub collisions: u64,
    /// Frames that the queue refused or dropped.
    pub dropped: u64,
    /// Of `dropped`, those that the policer dropped.
    pub policed: u64,
    /// Frames that the queue removed because a later one made them redundant.
    pub filtered: u64,
    /// Copies that the link made.
    pub duplicated: u64,
    /// Frames that arrived with a bit error that the link layer did not detect.
    pub corrupted: u64,
    /// Largest number of waiting frames, without the one being sent; links without a limit do not
    /// count them.
    pub queue_peak: u64,
    /// Frames that the queue marked.
    pub marked: u64,
    /// Bytes sent, overhead included.
    pub bytes: u64,
    /// Time spent sending, on links that are not plain.
    pub busy: Duration,
    /// Time from entering the queue to the start of serialisation.
    pub queue_delay: Histogram,
}
