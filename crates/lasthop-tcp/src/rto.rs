//! Round-trip time estimation and the retransmission timeout.

use crate::profile::{ClockKind, DeviationRule, MinRtoRule, Profile};
use lasthop_core::units::{Duration, Time};

/// SRTT, RTTVAR and the RTO with its back-off (RFC 6298), or ns-2's integer arithmetic in ticks.
#[derive(Clone, Debug)]
pub struct RtoEstimator {
    kind: ClockKind,
    granularity: Duration,
    min: Duration,
    min_rule: MinRtoRule,
    max: Duration,
    max_backoff: u32,
    /// Where in a tick the clock of this host stands at time zero (ns-2 only).
    phase: Duration,
    /// RTO before back-off and clamping.
    base: Duration,
    backoff: u32,
    estimate: Option<Estimate>,
    /// Where the deviation is the largest of a round trip: that.
    maximum: Option<RoundTripMaximum>,
    /// The timeout now, back-off included, and the smoothed round-trip time: they are asked for
    /// with every ACK.
    rto: Duration,
    srtt: Option<Duration>,
}

/// The estimates: nanoseconds, or scaled ticks (srtt with 3 fraction bits, rttvar with 2).
#[derive(Clone, Copy, Debug)]
struct Estimate {
    srtt: i64,
    rttvar: i64,
}

/// The largest deviation of each round trip (Linux `tcp_rtt_estimator`), nanoseconds. All are four
/// times the mean deviation.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTripMaximum {
    /// Smoothed (`mdev_us`), and the largest of this round trip (`mdev_max_us`).
    smoothed: i64,
    largest: i64,
    /// What the timeout has over SRTT (`rttvar_us`).
    deviation: i64,
    /// The round trip ends when everything up to here, all sent by its beginning, is acknowledged.
    end: u64,
}

/// Up to where data were acknowledged and sent when a sample was taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes {
    /// The first byte that is not acknowledged.
    pub snd_una: u64,
    /// The first byte that is not sent.
    pub snd_nxt: u64,
}

impl RoundTripMaximum {
    /// A sample that is `error` above SRTT; `floor` is what the deviation never falls below.
    fn sample(&mut self, error: i64, bytes: Bytes, floor: i64) {
        let mut change = error.abs() - self.smoothed / 4;
        if error < 0 && change > 0 {
            change /= 8;
        }
        self.smoothed += change;
        self.largest = self.largest.max(self.smoothed);
        self.deviation = self.deviation.max(self.largest);
        if bytes.snd_una > self.end {
            self.deviation -= (self.deviation - self.largest).max(0) / 4;
            (self.largest, self.end) = (floor, bytes.snd_nxt);
        }
    }
}

impl RtoEstimator {
    /// An estimator without samples. `phase` is the phase of ns-2's clock, below one tick.
    pub fn new(profile: &Profile, phase: Duration) -> Self {
        let mut estimator = RtoEstimator {
            kind: profile.clock,
            granularity: profile.clock_granularity,
            min: profile.min_rto,
            min_rule: profile.min_rto_rule,
            max: profile.max_rto,
            max_backoff: profile.max_backoff,
            phase,
            base: profile.initial_rto,
            backoff: 1,
            estimate: None,
            maximum: (profile.rtt_deviation == DeviationRule::RoundTripMaximum)
                .then(RoundTripMaximum::default),
            rto: Duration::ZERO,
            srtt: None,
        };
        estimator.update();
        estimator
    }

    /// A valid sample: the round-trip time of a segment sent at `sent`. `exact` if it came from a
    /// timestamp; `bytes` as the ACK that gave it left them.
    pub fn sample(&mut self, rtt: Duration, sent: Time, exact: bool, bytes: Bytes) {
        match self.kind {
            ClockKind::Rfc => self.sample_rfc(rtt, bytes),
            ClockKind::Ns2Ticks => self.sample_ticks(rtt, sent, exact),
        }
        self.update();
    }

    /// RFC 6298, sections 2.2 and 2.3: the deviation uses the old SRTT.
    fn sample_rfc(&mut self, rtt: Duration, bytes: Bytes) {
        let r = rtt.0 as i64;
        if self.maximum.is_some() {
            return self.sample_maximum(r, bytes);
        }
        let e = match self.estimate {
            None => Estimate { srtt: r, rttvar: r / 2 },
            Some(e) => Estimate {
                srtt: e.srtt + (r - e.srtt) / 8,
                rttvar: e.rttvar + ((e.srtt - r).abs() - e.rttvar) / 4,
            },
        };
        let floor =
            if self.min_rule == MinRtoRule::Deviation { self.min } else { self.granularity };
        self.base = Duration((e.srtt + (4 * e.rttvar).max(floor.0 as i64)) as u64);
        self.estimate = Some(e);
    }

    fn sample_maximum(&mut self, r: i64, bytes: Bytes) {
        let floor = self.min.0 as i64;
        let Some(maximum) = &mut self.maximum else { return };
        let srtt = match self.estimate {
            None => {
                let first = (2 * r).max(floor);
                *maximum = RoundTripMaximum {
                    smoothed: 2 * r,
                    largest: first,
                    deviation: first,
                    end: bytes.snd_nxt,
                };
                r
            }
            Some(e) => {
                maximum.sample(r - e.srtt, bytes, floor);
                e.srtt + (r - e.srtt) / 8
            }
        };
        self.base = Duration((srtt + maximum.deviation) as u64);
        self.estimate = Some(Estimate { srtt, rttvar: maximum.deviation / 4 });
    }

    /// ns-2 rule 8: everything in ticks.
    fn sample_ticks(&mut self, rtt: Duration, sent: Time, exact: bool) {
        let tick = self.granularity.0.max(1);
        let ticks = if exact {
            (rtt.0 + tick / 2) / tick
        } else {
            let into_tick = (sent.0 + self.phase.0) % tick;
            (rtt.0 + into_tick) / tick
        };
        let t = ticks.max(1) as i64;
        let e = match self.estimate {
            None => Estimate { srtt: t << 3, rttvar: t << 1 },
            Some(e) => {
                let delta = t - (e.srtt >> 3);
                let srtt = (e.srtt + delta).max(1);
                let rttvar = (e.rttvar + delta.abs() - (e.rttvar >> 2)).max(1);
                Estimate { srtt, rttvar }
            }
        };
        self.base = Duration((((e.rttvar << 3) + e.srtt) >> 3) as u64 * tick);
        self.estimate = Some(e);
    }

    /// The timeout now, back-off included.
    #[inline]
    pub fn rto(&self) -> Duration {
        self.rto
    }

    fn update(&mut self) {
        let rto = (self.base.max(self.min) * u64::from(self.backoff)).min(self.max);
        self.rto = match self.kind {
            ClockKind::Rfc => rto,
            ClockKind::Ns2Ticks => rto.max(self.granularity * 2),
        };
        self.srtt = self.estimate.map(|e| match self.kind {
            ClockKind::Rfc => Duration(e.srtt as u64),
            ClockKind::Ns2Ticks => Duration((e.srtt as u64 * self.granularity.0) >> 3),
        });
    }

    /// The timer fired: doubles the timeout (RFC 6298, rule 5.5).
    pub fn back_off(&mut self) {
        if self.backoff < self.max_backoff {
            self.backoff *= 2;
        }
        // ns-2 and BSD: after this many timeouts the estimate is folded into the deviation, and
        // the next sample starts a new one.
        if let (ClockKind::Ns2Ticks, true, Some(e)) = (self.kind, self.backoff > 8, self.estimate)
            && e.srtt > 0
        {
            self.estimate = None;
        }
        self.update();
    }

    /// Fresh evidence: the back-off ends.
    pub fn end_back_off(&mut self) {
        if self.backoff != 1 {
            self.backoff = 1;
            self.update();
        }
    }

    /// SRTT + 2 G and RTTVAR, to be taken up again after a spurious timeout (RFC 4015, step 0).
    pub fn remembered(&self) -> Option<(Duration, Duration)> {
        Some((self.srtt? + self.granularity * 2, self.rttvar()?))
    }

    /// The first sample after a spurious timeout: the estimates restart, not below what they were
    /// (RFC 4015, step 9).
    pub fn reseed(&mut self, (srtt, rttvar): (Duration, Duration), sample: Duration) {
        let (srtt, rttvar) = (srtt.max(sample), rttvar.max(Duration(sample.0 / 2)));
        let tick = self.granularity.0.max(1);
        let (e, base) = match self.kind {
            ClockKind::Rfc => {
                let floor = if self.min_rule == MinRtoRule::Deviation {
                    self.min
                } else {
                    self.granularity
                };
                (
                    Estimate { srtt: srtt.0 as i64, rttvar: rttvar.0 as i64 },
                    srtt + (rttvar * 4).max(floor),
                )
            }
            ClockKind::Ns2Ticks => {
                let e = Estimate {
                    srtt: ((srtt.0 / tick).max(1) << 3) as i64,
                    rttvar: ((rttvar.0 << 2) / tick).max(1) as i64,
                };
                (e, Duration((((e.rttvar << 3) + e.srtt) >> 3) as u64 * tick))
            }
        };
        (self.estimate, self.base, self.backoff) = (Some(e), base, 1);
        self.update();
    }

    /// The factor of the back-off now.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// RFC 6298, rule 5.7: after a lost SYN data start with at least 3 s.
    pub fn after_syn_loss(&mut self) {
        if self.estimate.is_none() {
            self.base = self.base.max(Duration::secs(3));
            self.backoff = 1;
            self.update();
        }
    }

    /// Smoothed round-trip time, once there is one.
    #[inline]
    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// Round-trip time deviation, once there is one.
    pub fn rttvar(&self) -> Option<Duration> {
        let e = self.estimate?;
        Some(match self.kind {
            ClockKind::Rfc => Duration(e.rttvar as u64),
            ClockKind::Ns2Ticks => Duration((e.rttvar as u64 * self.granularity.0) >> 2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfileName;
    use proptest::prelude::*;

    fn rfc() -> RtoEstimator {
        RtoEstimator::new(&Profile::named(ProfileName::Rfc), Duration::ZERO)
    }

    fn ns2() -> RtoEstimator {
        RtoEstimator::new(&Profile::named(ProfileName::Ns235), Duration::ZERO)
    }

    #[test]
    fn first_and_second_sample_of_rfc_6298() {
        let mut r = rfc();
        assert_eq!(r.rto(), Duration::secs(1));
        r.sample(Duration::millis(800), Time::ZERO, true, Bytes::default());
        assert_eq!(
            (r.srtt(), r.rttvar()),
            (Some(Duration::millis(800)), Some(Duration::millis(400)))
        );
        assert_eq!(r.rto(), Duration::millis(2400));
        r.sample(Duration::millis(1600), Time::ZERO, true, Bytes::default());
        // rttvar = 3/4 * 400 + 1/4 * |800 - 1600|, srtt = 7/8 * 800 + 1/8 * 1600
        assert_eq!(
            (r.srtt(), r.rttvar()),
            (Some(Duration::millis(900)), Some(Duration::millis(500)))
        );
    }

    /// Linux, 100 ms at first: 200 ms of deviation. 180 ms raise four times the mean deviation, 200
    /// ms, by 80 - 50 = 30 ms; samples of 100 ms in the same round trip leave the timeout's part as
    /// it is, though the smoothed deviation falls; the next round trip takes it down by a quarter
    /// of the way. A round trip ends when all that was sent at its beginning is acknowledged.
    #[test]
    fn the_largest_deviation_of_a_round_trip_counts() {
        let mut r = RtoEstimator::new(&Profile::named(ProfileName::Linux), Duration::ZERO);
        let mut sample = |ms: u64, snd_una: u64, snd_nxt: u64| {
            r.sample(Duration::millis(ms), Time::ZERO, true, Bytes { snd_una, snd_nxt });
            (r.srtt(), r.rto())
        };
        let first = (Some(Duration::millis(100)), Duration::millis(300));
        assert_eq!(sample(100, 1000, 9000), first);
        let second = (Some(Duration::millis(110)), Duration::millis(340));
        assert_eq!(sample(180, 5000, 12_000), second);
        for _ in 0..40 {
            assert_eq!(sample(110, 9000, 20_000), second, "within the round trip");
        }
        assert_eq!(sample(110, 9001, 20_000), second, "its maximum was 230 ms, and ends here");
        assert_eq!(sample(110, 20_000, 30_000), second);
        let lower = Duration::micros(332_500);
        assert_eq!(sample(110, 20_001, 30_000).1, lower, "230 - (230 - 200) / 4");
    }

    #[test]
    fn back_off_doubles_up_to_the_limits_and_ends_with_a_sample() {
        let mut r = rfc();
        let seen: Vec<u64> = (0..8)
            .map(|_| {
                r.back_off();
                r.rto().0 / 1_000_000_000
            })
            .collect();
        assert_eq!(seen, [2, 4, 8, 16, 32, 60, 60, 60]);
        r.end_back_off();
        assert_eq!(r.rto(), Duration::secs(1));
    }

    /// Rule 8 of the ns-2 reference: with a minimum of 1 s and short round trips the RTO is 1 s
    /// times the back-off.
    #[test]
    fn ns2_counts_in_ticks() {
        let mut r = ns2();
        assert_eq!(r.rto(), Duration::secs(3));
        r.sample(Duration::micros(100_704), Time::ZERO, false, Bytes::default());
        assert_eq!(r.srtt(), Some(Duration::millis(100)));
        assert_eq!(r.rto(), Duration::millis(300));
        // the phase of the clock decides whether one tick more is counted
        let mut late = ns2();
        late.sample(Duration::micros(100_704), Time(9_500_000), false, Bytes::default());
        assert_eq!(late.srtt(), Some(Duration::millis(110)));
    }

    /// RFC 4015, step 9: SRTT is not below what it was plus two clock ticks, nor below the sample;
    /// RTTVAR not below half of it.
    #[test]
    fn after_a_spurious_timeout_the_estimates_start_anew() {
        let mut r = rfc();
        r.sample(Duration::millis(800), Time::ZERO, true, Bytes::default());
        let before = r.remembered().unwrap();
        assert_eq!(before, (Duration::millis(802), Duration::millis(400)));
        r.back_off();
        r.reseed(before, Duration::millis(3000));
        assert_eq!(
            (r.srtt(), r.rttvar()),
            (Some(Duration::millis(3000)), Some(Duration::millis(1500)))
        );
        assert_eq!((r.rto(), r.backoff()), (Duration::millis(9000), 1));
        r.reseed(before, Duration::millis(100));
        assert_eq!(r.rto(), Duration::millis(802 + 4 * 400));
        let mut ticks = ns2();
        ticks.reseed((Duration::millis(120), Duration::millis(20)), Duration::millis(100));
        assert_eq!(
            (ticks.srtt(), ticks.rttvar()),
            (Some(Duration::millis(120)), Some(Duration::millis(50)))
        );
        assert_eq!(ticks.rto(), Duration::millis(320));
    }

    proptest! {
        /// zeng2006 prints the deviation with a minus sign; with the right one it is never negative
        /// and the RTO never below SRTT.
        #[test]
        fn deviation_is_never_negative(
            samples in prop::collection::vec(1u64..5_000_000_000, 1..60),
            ticks in any::<bool>(),
        ) {
            let mut r = if ticks { ns2() } else { rfc() };
            for s in samples {
                r.sample(Duration(s), Time(s / 3), false, Bytes::default());
                let srtt = r.srtt().unwrap().min(Duration::secs(60));
                prop_assert!(r.rto() + Duration::millis(1) >= srtt);
                prop_assert!(r.rttvar().is_some());
            }
        }
    }
}
