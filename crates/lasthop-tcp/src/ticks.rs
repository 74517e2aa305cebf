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

/// When a timer expired that was set last. It expires at the same time if it is set in the same
/// tick for the same number of ticks, which takes no division to see.
#[derive(Clone, Copy, Debug)]
pub struct LastExpiry {
    /// When the tick began in which it was set, modulo 2^64 ns.
    tick: u64,
    /// Its wait, rounded up to ticks.
    wait: u64,
    expires: Time,
}

impl Default for LastExpiry {
    /// None yet: no run reaches that time.
    fn default() -> Self {
        LastExpiry { tick: 1 << 63, wait: 1 << 63, expires: Time::ZERO }
    }
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

    /// The same where `last` keeps what was computed last: usually it is the same again.
    #[inline(always)]
    pub fn expiry_as(&self, last: &mut LastExpiry, now: Time, wait: Duration) -> Time {
        if self.length == 0 {
            return now + wait;
        }
        if now.0.wrapping_sub(last.tick) < self.length
            && last.wait.wrapping_sub(wait.0) < self.length
        {
            return last.expires;
        }
        self.renew(last, now, wait)
    }

    #[inline(never)]
    fn renew(&self, last: &mut LastExpiry, now: Time, wait: Duration) -> Time {
        if wait == Duration::ZERO {
            return now;
        }
        let (tick, wait) = self.ticks_of(now, wait);
        *last = LastExpiry {
            tick: (tick * self.length).wrapping_sub(self.phase),
            wait: wait.saturating_mul(self.length),
            expires: self.fires(tick, wait),
        };
        last.expires
    }

    #[inline(never)]
    fn in_ticks(&self, now: Time, wait: Duration) -> Time {
        if wait == Duration::ZERO {
            return now;
        }
        let (tick, wait) = self.ticks_of(now, wait);
        self.fires(tick, wait)
    }

    /// The present tick, and the ticks of a wait.
    #[inline(always)]
    fn ticks_of(&self, now: Time, wait: Duration) -> (u64, u64) {
        ((now.0 + self.phase) / self.length, wait.0.div_ceil(self.length))
    }

    /// When a timer expires that is set at a tick for a number of ticks.
    #[inline(always)]
    fn fires(&self, tick: u64, wait: u64) -> Time {
        let mut shift = 0;
        while wait >= 63 << shift && shift < COARSEST {
            shift += 3;
        }
        let expires = tick + wait;
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
        /// A timer that is set again and again expires as one that is set once, the clock going
        /// forward by less than a tick or by more.
        #[test]
        fn the_last_expiry_is_used_only_where_it_holds(
            steps in prop::collection::vec((0u64..6_000_000, 0u64..3, 0u64..9_000_000), 1..60),
            phase in 0u64..2_048_000_000,
        ) {
            for profile in [ProfileName::Linux, ProfileName::Rfc] {
                let ticks = Ticks::new(&Profile::named(profile), Duration(phase));
                let (mut last, mut now) = (LastExpiry::default(), Time::ZERO);
                for &(step, long, more) in &steps {
                    let wait = Duration(if more < 20_000 { 0 } else { long * 100_000_000 + more });
                    prop_assert_eq!(ticks.expiry_as(&mut last, now, wait), ticks.expiry(now, wait));
                    now += Duration(step / (1 + 9 * (long % 2)));
                }
            }
        }

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
