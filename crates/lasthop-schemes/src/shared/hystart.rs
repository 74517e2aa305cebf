//! HyStart++ (RFC 9406): slow start ends when round-trip times rise, after a slower phase in which
//! the rise can prove to be jitter.

use lasthop_core::units::Duration;
use lasthop_tcp::window::{Ack, Window};

// RFC 9406, section 4.3.
const MIN_RTT_THRESH: Duration = Duration::millis(4);
const MAX_RTT_THRESH: Duration = Duration::millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;
/// Segments by which one ACK may open the window, without pacing.
const L: f64 = 8.0;

/// Conservative slow start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
}

/// The state of the first slow start of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HyStart {
    /// The round ends when this byte is acknowledged.
    end: u64,
    /// Smallest round-trip times of this round and the one before.
    current: Option<Duration>,
    last: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

impl HyStart {
    /// Processes an ACK of new data in slow start (section 4.2). Sets ssthresh when slow start
    /// ends.
    pub fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.current = Some(self.current.map_or(rtt, |c| c.min(rtt)));
            self.samples += 1;
            self.judge();
        }
        if ack.snd_una < self.end {
            return;
        }
        (self.last, self.current, self.samples, self.end) = (self.current, None, 0, ack.snd_max);
        if let Some(css) = &mut self.conservative {
            css.rounds += 1;
            if css.rounds >= CSS_ROUNDS {
                window.ssthresh = window.cwnd;
            }
        }
    }

    fn judge(&mut self) {
        let Some(current) = self.current.filter(|_| self.samples >= N_RTT_SAMPLE) else { return };
        match self.conservative {
            None => {
                if let Some(last) = self.last
                    && current
                        >= last
                            + Duration(last.0 / MIN_RTT_DIVISOR)
                                .clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
                {
                    self.conservative = Some(Conservative { baseline: current, rounds: 0 });
                }
            }
            Some(css) if current < css.baseline => self.conservative = None,
            Some(_) => {}
        }
    }

    /// Bytes by which an ACK opens the window.
    pub fn growth(&self, ack: &Ack) -> f64 {
        let bytes = (ack.bytes as f64).min(L * f64::from(ack.mss));
        if self.conservative.is_some() { bytes / CSS_GROWTH_DIVISOR } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{ack, window};

    /// A round of ten ACKs with these round-trip times in ms; cwnd has no effect. Returns ssthresh.
    fn round(h: &mut HyStart, n: u64, rtts: &[u64]) -> f64 {
        let mut w = window(10.0, f64::INFINITY);
        for (i, rtt) in rtts.iter().enumerate() {
            let una = 10_000 * n + 1000 * (i as u64 + 1);
            let a = Ack {
                rtt: Some(Duration::millis(*rtt)),
                snd_una: una,
                snd_max: 10_000 * (n + 2),
                ..ack()
            };
            h.on_ack(&mut w, &a);
        }
        w.ssthresh
    }

    fn after(rounds: &[&[u64]]) -> HyStart {
        let mut h = HyStart { end: 10_000, ..HyStart::default() };
        for (n, rtts) in rounds.iter().enumerate() {
            round(&mut h, n as u64, rtts);
        }
        h
    }

    /// An eighth of 80 ms is 10 ms; of 16 ms 2, so 4; of 800 ms 100, so 16.
    #[test]
    fn the_conservative_phase_begins_when_the_smallest_of_eight_samples_has_risen_by_an_eighth() {
        for (base, enough) in [(80, 10), (16, 4), (800, 16)] {
            assert!(
                after(&[&[base; 10], &[base + enough; 10]]).conservative.is_some(),
                "{base} ms"
            );
            assert!(
                after(&[&[base; 10], &[base + enough - 1; 10]]).conservative.is_none(),
                "{base} ms"
            );
        }
        assert!(after(&[&[80; 10], &[90; 7]]).conservative.is_none(), "seven samples are too few");
        assert!(
            after(&[&[80; 10], &[90, 90, 90, 80, 99, 99, 99, 99, 99, 99]]).conservative.is_none(),
            "the smallest counts"
        );
    }

    #[test]
    fn it_grows_by_a_quarter_and_ends_in_congestion_avoidance_after_five_rounds() {
        let mut h = after(&[&[80; 10]]);
        assert_eq!(h.growth(&Ack { bytes: 3000, ..ack() }), 3000.0);
        assert_eq!(h.growth(&Ack { bytes: 30_000, ..ack() }), 8000.0, "eight segments at most");
        // The round in which it begins counts.
        assert_eq!(round(&mut h, 1, &[90; 10]), f64::INFINITY);
        assert_eq!(h.growth(&Ack { bytes: 3000, ..ack() }), 750.0);
        for n in 2..5 {
            assert_eq!(round(&mut h, n, &[95; 10]), f64::INFINITY);
        }
        assert_eq!(round(&mut h, 5, &[95; 10]), 10_000.0);
    }

    #[test]
    fn a_rise_that_was_jitter_is_forgiven() {
        let mut h = after(&[&[80; 10], &[90; 10]]);
        assert!(h.conservative.is_some());
        round(&mut h, 2, &[89; 7]);
        assert!(h.conservative.is_some(), "seven samples are too few");
        round(&mut h, 3, &[89; 10]);
        assert!(h.conservative.is_none());
    }
}
