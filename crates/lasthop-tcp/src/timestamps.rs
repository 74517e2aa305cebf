//! The clock of the timestamps option and protection against old segments (RFC 7323).

use lasthop_core::units::Time;

use crate::profile::{PawsRule, Profile};

/// The timestamp clock: microseconds, wrapping.
#[inline]
pub fn timestamp(now: Time) -> u32 {
    (now.0 / 1000) as u32
}

/// Microseconds in a tick of the clock of Linux (`TCP_TS_HZ` = 1000), unless it has `tcp_usec_ts`.
const LINUX_TICK: i64 = 1000;
/// Ticks by which a timestamp may be older (`TCP_PAWS_WINDOW`).
const LINUX_WINDOW: i64 = 1;
/// After this time without a segment in order a timestamp says nothing (`TCP_PAWS_WRAP`): 2^31
/// microseconds, in whole seconds.
const WRAP_S: u64 = 2147;

/// The last timestamp of a segment in order (TS.Recent), and which segments are discarded because
/// theirs is older (PAWS, RFC 7323, section 5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paws {
    rule: PawsRule,
    recent: u32,
    /// When `recent` arrived.
    stored: Time,
    /// A timestamp that is older by more microseconds is looked at.
    tolerated: i32,
}

impl Paws {
    /// Of a connection that has not received anything.
    pub fn new(profile: &Profile) -> Paws {
        let rule = if profile.timestamps { profile.paws } else { PawsRule::Off };
        let tolerated = if rule == PawsRule::Off { i32::MAX } else { 0 };
        Paws { rule, recent: 0, stored: Time::ZERO, tolerated }
    }

    /// TS.Recent, which is echoed.
    #[inline]
    pub fn recent(&self) -> u32 {
        self.recent
    }

    /// The connection begins with the timestamp `value`.
    pub fn begin(&mut self, now: Time, value: u32) {
        (self.recent, self.stored) = (value, now);
    }

    /// A segment of the timestamp `value` that begins at or before the last byte acknowledged has
    /// been accepted (`tcp_replace_ts_recent`). `bare`: it has no data and no FIN, and counts with
    /// PAWS only. `acceptable`: it does not end before that byte.
    #[inline]
    pub fn update(&mut self, now: Time, value: u32, bare: bool, acceptable: bool) {
        let age = self.recent.wrapping_sub(value) as i32;
        let counts = if self.rule == PawsRule::Off { !bare } else { acceptable };
        if !counts {
            return;
        }
        if age <= self.tolerated || self.says_nothing(now) {
            (self.recent, self.stored) = (value, now);
        }
    }

    /// The last timestamp is too long ago, or, for Linux, not the time of a clock: some peers send
    /// 0 with their SYN (`tcp_paws_check`).
    #[cold]
    fn says_nothing(&self, now: Time) -> bool {
        let is_linux = matches!(self.rule, PawsRule::Linux | PawsRule::LinuxUsec);
        (is_linux && self.recent == 0) || now.since(self.stored).0 / 1_000_000_000 >= WRAP_S
    }

    /// The timestamp is not older than the last one, or PAWS is off.
    #[inline(always)]
    pub fn is_recent(&self, value: u32) -> bool {
        self.recent.wrapping_sub(value) as i32 <= self.tolerated
    }

    /// How old a timestamp is, microseconds (of a real peer: ticks of the peer's clock), if that is
    /// reason to discard its segment.
    #[inline]
    pub fn excess(&self, now: Time, value: u32) -> Option<u32> {
        let age = self.recent.wrapping_sub(value) as i32;
        if age <= self.tolerated { None } else { self.excess_in_ticks(now, value, age) }
    }

    #[cold]
    fn excess_in_ticks(&self, now: Time, value: u32, age: i32) -> Option<u32> {
        if self.says_nothing(now) {
            return None;
        }
        let discards = match self.rule {
            PawsRule::Off => false,
            PawsRule::Rfc7323 => true,
            PawsRule::Linux => {
                let ticks = (i64::from(value) % LINUX_TICK + i64::from(age)) / LINUX_TICK;
                ticks > LINUX_WINDOW
            }
            PawsRule::LinuxUsec => i64::from(age) > LINUX_WINDOW,
        };
        discards.then_some(age.unsigned_abs())
    }

    /// A duplicate ACK is accepted although its timestamp is older by this number of microseconds
    /// (`tcp_disordered_ack_check`, `tcp_tsval_replay`): by no more than the retransmission timeout
    /// of `rto_us` microseconds, and 1.2 times that without `tcp_usec_ts`.
    pub fn forgives_duplicate_ack(&self, excess_us: u32, rto_us: u64) -> bool {
        let window_us = match self.rule {
            PawsRule::Linux => rto_us * 6 / 5,
            PawsRule::LinuxUsec => rto_us,
            PawsRule::Off | PawsRule::Rfc7323 => return false,
        };
        u64::from(excess_us) <= window_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfileName;
    use lasthop_core::units::Duration;

    fn paws(rule: PawsRule) -> Paws {
        let profile =
            Profile { timestamps: true, paws: rule, ..Profile::named(ProfileName::Linux) };
        Paws::new(&profile)
    }

    #[test]
    fn linux_forgives_one_tick_and_the_rfc_nothing() {
        for (rule, accepted, discarded) in [
            (PawsRule::Linux, 8_000, 7_999),
            (PawsRule::LinuxUsec, 9_499, 9_498),
            (PawsRule::Rfc7323, 9_500, 9_499),
        ] {
            let mut p = paws(rule);
            p.begin(Time::ZERO, 9_500);
            assert_eq!(p.excess(Time::ZERO, accepted), None);
            assert_eq!(p.excess(Time::ZERO, discarded), Some(9_500 - discarded));
        }
        let mut off = paws(PawsRule::Off);
        off.begin(Time::ZERO, 9_500);
        assert_eq!(off.excess(Time::ZERO, 0), None);
    }

    /// Some peers send 0 with their SYN and a clock of any origin afterwards (`tcp_paws_check`).
    #[test]
    fn after_a_timestamp_of_zero_linux_accepts_any() {
        for (rule, old) in
            [(PawsRule::Linux, false), (PawsRule::LinuxUsec, false), (PawsRule::Rfc7323, true)]
        {
            let mut p = paws(rule);
            p.begin(Time::ZERO, 0);
            assert_eq!(p.excess(Time::ZERO, 3 << 30).is_some(), old, "{rule:?}");
            p.update(Time::ZERO, 3 << 30, false, true);
            assert_eq!(p.recent() == 0, old, "{rule:?}");
        }
    }

    #[test]
    fn an_older_timestamp_that_is_forgiven_is_not_stored() {
        let mut p = paws(PawsRule::Linux);
        p.update(Time::ZERO, 9_500, false, true);
        p.update(Time::ZERO, 9_100, false, true);
        assert_eq!(p.recent(), 9_500);
        let mut off = paws(PawsRule::Off);
        off.update(Time::ZERO, 9_500, false, true);
        off.update(Time::ZERO, 9_100, false, true);
        assert_eq!(off.recent(), 9_100);
    }

    /// The clock wraps after 71 minutes; half of that after the last segment nothing is old.
    #[test]
    fn a_long_silence_ends_the_protection() {
        let mut p = paws(PawsRule::Linux);
        p.update(Time::ZERO, u32::MAX - 10, false, true);
        assert_eq!(p.excess(Time::ZERO, 5), None, "across the wrap");
        p.update(Time::ZERO, 5, false, true);
        assert_eq!(p.recent(), 5);
        let later = Time::ZERO + Duration::secs(2500);
        let value = timestamp(later) + 5;
        assert!(p.excess(Time::ZERO, value).is_some());
        assert_eq!(p.excess(later, value), None);
        p.update(later, value, false, true);
        assert_eq!(p.recent(), value);
    }

    #[test]
    fn duplicate_acks_are_accepted_within_a_timeout() {
        assert!(paws(PawsRule::Linux).forgives_duplicate_ack(240_000, 200_000));
        assert!(!paws(PawsRule::Linux).forgives_duplicate_ack(240_001, 200_000));
        assert!(paws(PawsRule::LinuxUsec).forgives_duplicate_ack(200_000, 200_000));
        assert!(!paws(PawsRule::LinuxUsec).forgives_duplicate_ack(200_001, 200_000));
        assert!(!paws(PawsRule::Rfc7323).forgives_duplicate_ack(1, 200_000));
    }
}
