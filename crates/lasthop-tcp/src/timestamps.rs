//! The clock of the timestamps option (RFC 7323).

use lasthop_core::units::Time;

/// The timestamp clock: microseconds, wrapping.
#[inline]
pub fn timestamp(now: Time) -> u32 {
    (now.0 / 1000) as u32
}
