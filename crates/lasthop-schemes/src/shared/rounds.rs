//! Round-trip times per round: the measurement of Vegas and Veno (Brakmo and Peterson 1995, section
//! 4).
//!
//! A round lasts from sending a segment until its ACK. A window of W bytes with round-trip time RTT
//! and the base round-trip time BaseRTT keeps W (RTT - BaseRTT) / RTT bytes in queues.

use lasthop_core::units::Duration;
use lasthop_tcp::window::Ack;

/// Measures rounds.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    base: Option<Duration>,
    /// The round ends when an ACK passes this byte.
    end: u64,
    paused: bool,
    min: Option<Duration>,
    sum: u64,
    samples: u32,
}

/// Measurements of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Smallest round-trip time of the connection.
    pub base: Duration,
    /// Smallest round-trip time of the round.
    pub min: Duration,
    /// Mean round-trip time of the round.
    pub mean: Duration,
    /// Number of samples.
    pub samples: u32,
    /// Bytes of new data sent in the round.
    pub bytes: u64,
}

impl Rounds {
    /// Processes an ACK; returns the measurements of the round if it ends with this ACK.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack) -> Option<Round> {
        if let Some(rtt) = ack.rtt {
            self.base = Some(self.base.map_or(rtt, |b| b.min(rtt)));
            self.min = Some(self.min.map_or(rtt, |m| m.min(rtt)));
            self.sum = self.sum.saturating_add(rtt.0);
            self.samples += 1;
        }
        if ack.snd_una <= self.end {
            return None;
        }
        let bytes = ack.snd_max - self.end.min(ack.snd_max);
        let round = self.min.zip(self.base).map(|(min, base)| Round {
            base,
            min,
            mean: Duration(self.sum / u64::from(self.samples.max(1))),
            samples: self.samples,
            bytes,
        });
        let paused = std::mem::take(&mut self.paused);
        self.begin(ack.snd_max);
        if paused { None } else { round }
    }

    /// After a loss the data in flight, up to `snd_max`, belongs to no round.
    pub fn pause(&mut self, snd_max: u64) {
        self.begin(snd_max);
        self.paused = true;
    }

    /// A pause ends, and a round begins, with the ACK that covers just what was in flight at the
    /// loss (Linux); after `on_ack`, which leaves that to the next ACK.
    pub fn resume(&mut self, ack: &Ack) {
        if self.paused && ack.snd_una >= self.end {
            self.paused = false;
            self.begin(ack.snd_max);
        }
    }

    /// True during such a pause.
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// Forgets the smallest round-trip time; the next sample replaces it.
    pub fn forget_base(&mut self) {
        self.base = None;
    }

    fn begin(&mut self, end: u64) {
        (self.end, self.min, self.sum, self.samples) = (end, None, 0, 0);
    }
}

/// Bytes of a window of `bytes` in queues, with round-trip time `rtt` and base round-trip time
/// `base`.
pub fn backlog(bytes: f64, rtt: Duration, base: Duration) -> f64 {
    if rtt.0 == 0 { 0.0 } else { bytes * rtt.saturating_sub(base).0 as f64 / rtt.0 as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::ack;
    use lasthop_core::units::Duration;

    fn ms(t: u64) -> Option<Duration> {
        Some(Duration::millis(t))
    }

    #[test]
    fn a_round_lasts_until_the_first_byte_sent_in_it_is_acknowledged() {
        let mut r = Rounds::default();
        let first = r.on_ack(&Ack { snd_una: 1000, snd_max: 2000, rtt: ms(100), ..ack() }).unwrap();
        assert_eq!((first.samples, first.bytes), (1, 2000));
        assert_eq!(r.on_ack(&Ack { snd_una: 2000, snd_max: 4000, rtt: ms(120), ..ack() }), None);
        let second =
            r.on_ack(&Ack { snd_una: 3000, snd_max: 5000, rtt: ms(140), ..ack() }).unwrap();
        let expected = Round {
            base: Duration::millis(100),
            min: Duration::millis(120),
            mean: Duration::millis(130),
            samples: 2,
            bytes: 3000,
        };
        assert_eq!(second, expected);
    }

    #[test]
    fn nothing_is_measured_before_all_that_was_in_flight_at_a_loss_is_acknowledged() {
        let mut r = Rounds::default();
        r.pause(9000);
        assert_eq!(r.on_ack(&Ack { snd_una: 9000, snd_max: 12_000, rtt: ms(50), ..ack() }), None);
        assert!(r.paused());
        assert_eq!(r.on_ack(&Ack { snd_una: 10_000, snd_max: 13_000, rtt: ms(60), ..ack() }), None);
        assert!(!r.paused());
        let round =
            r.on_ack(&Ack { snd_una: 14_000, snd_max: 16_000, rtt: ms(70), ..ack() }).unwrap();
        assert_eq!(
            (round.base, round.min, round.samples, round.bytes),
            (Duration::millis(50), Duration::millis(70), 1, 3000)
        );
    }

    /// 10 segments in 125 ms instead of 100 ms: 2 are queued.
    #[test]
    fn backlog_is_what_the_path_does_not_hold() {
        assert_eq!(backlog(10_000.0, Duration::millis(125), Duration::millis(100)), 2000.0);
        assert_eq!(backlog(10_000.0, Duration::millis(100), Duration::millis(100)), 0.0);
        assert_eq!(backlog(10_000.0, Duration::ZERO, Duration::ZERO), 0.0);
    }
}
