//! The ticks of a kernel's timers (jiffies), and the phase of a host's clock.

use crate::profile::{ClockKind, Profile};
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Time};

/// Ticks of the longest range of [`Ticks`]; the clock begins anywhere in it.
const RANGE: u64 = 512;

/// The coarsest level of the wheel rounds to 2^COARSEST ticks (`LVL_DEPTH` = 9 for HZ > 100).
const COARSEST: u32 = 24;

/// When timers of a host expire.
///
/// # Examples
///
/// ```
/// use lasthop_core::units::{Duration, Time};
/// use lasthop_tcp::profile::{Profile, ProfileName};
/// use lasthop_tcp::ticks::Ticks;
///
/// let linux = Ticks::new(&Profile::named(ProfileName::Linux), Duration::ZERO);
/// let at = |ms: u64| Time::ZERO + Duration::millis(ms);
/// // 13 ms are four ticks of 4 ms from the second one on; the wheel adds one.
/// assert_eq!(linux.expiry(at(5), Duration::millis(13)), at(24));
/// let rfc = Ticks::new(&Profile::named(ProfileName::Rfc), Duration::ZERO);
/// assert_eq!(rfc.expiry(at(5), Duration::millis(13)), at(18));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ticks {
    /// Nanoseconds of a tick; 0: timers are exact.
    length: u64,
    /// Nanoseconds of the clock at time zero.
    phase: u64,
}

impl Ticks {
    /// The timers of a host whose clock stands at `phase` at time zero.
    pub fn new(profile: &Profile, phase: Duration) -> Ticks {
        Ticks { length: profile.timer_tick.0, phase: phase.0 }
    }

    /// Timers are exact.
    #[inline]
    pub fn are_exact(&self) -> bool {
        self.length == 0
    }

    /// When a timer expires that is set for `wait` from now: the wait is rounded up to ticks, and
    /// the wheel of timers to the end of a tick, of eight from 63 ticks on, of 64 from 504 on, and
    /// so on by factors of eight (Linux `usecs_to_jiffies`, `calc_index`).
    #[inline]
    pub fn expiry(&self, now: Time, wait: Duration) -> Time {
        if self.length == 0 { now + wait } else { self.in_ticks(now, wait) }
    }

    fn in_ticks(&self, now: Time, wait: Duration) -> Time {
        if wait == Duration::ZERO {
            return now;
        }
        let wait = wait.0.div_ceil(self.length);
        let mut shift = 0;
        while wait >= 63 << shift && shift < COARSEST {
            shift += 3;
        }
        let expires = (now.0 + self.phase) / self.length + wait;
        let fires = ((expires >> shift) + 1) << shift;
        Time(fires * self.length - self.phase)
    }
}

/// Where the clock of a sender stands at time zero: at a random share of a tick in ns-2, anywhere
/// in the range of a kernel's timer wheel.
pub fn clock_phase(profile: &Profile, seed: u64, connection: u32) -> Duration {
    let range = match profile.clock {
        ClockKind::Ns2Ticks => profile.clock_granularity.0,
        ClockKind::Rfc => profile.timer_tick.0 * RANGE,
    };
    if range == 0 {
        return Duration::ZERO;
    }
    let share = Stream::new(seed, "clock phase").uniform(u64::from(connection));
    Duration((share * range as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfileName;
    use proptest::prelude::*;

    proptest! {
        /// A timer never expires early, and late by at most two ticks, or by an eighth of the wait
        /// and two ticks.
        #[test]
        fn a_timer_is_late_but_never_early(
            now in 0u64..100_000_000_000,
            wait in 1u64..150_000_000_000,
            phase in 0u64..2_048_000_000,
        ) {
            let ticks = Ticks::new(&Profile::named(ProfileName::Linux), Duration(phase));
            let late = ticks.expiry(Time(now), Duration(wait)) - (Time(now) + Duration(wait));
            prop_assert!(late > Duration::ZERO);
            prop_assert!(late.0 <= 8_000_000 + wait / 7);
        }
    }
}
