//! Idle-link fast path: a frame that finds a plain link idle is only counted.

use super::stats::Measured;
use lasthop_core::units::Duration;

/// Idle-link fast path: frames of the same size as the last one that find a plain link idle and
/// arrive within the measured time are only counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleFastPath {
    /// Size without overhead, bytes; `NO_SIZE` if the fast path is not available.
    pub size: u32,
    /// Size of the last frame on a plain link, overhead included: consecutive frames usually have
    /// the same size.
    pub bytes: u32,
    /// Frames counted here and not yet in the statistics: those whose arrival is an event of this
    /// link, which counts it, and the others; and of how many the bytes are in the statistics.
    pub arrivals: u64,
    pub passing: u64,
    pub weighed: u64,
    /// Span in which such a frame may start.
    pub starts: Measured,
    /// Serialisation time of such a frame; `delay` is the propagation after it.
    pub time: Duration,
    pub delay: Duration,
    /// Serialisation times of frames (bytes, overhead included): ACKs with SACK blocks have a few
    /// sizes in turn.
    pub times: [(u32, Duration); 4],
    /// The entry that is replaced next.
    pub oldest: u8,
}

pub(super) const NO_SIZE: u32 = u32::MAX;

impl IdleFastPath {
    /// Not available before the first frame; `measured`: the measured time.
    pub fn new(measured: Measured) -> IdleFastPath {
        IdleFastPath {
            size: NO_SIZE,
            bytes: 0,
            arrivals: 0,
            passing: 0,
            weighed: 0,
            starts: measured,
            time: Duration::ZERO,
            delay: Duration::ZERO,
            times: [(NO_SIZE, Duration::ZERO); 4],
            oldest: 0,
        }
    }
}
