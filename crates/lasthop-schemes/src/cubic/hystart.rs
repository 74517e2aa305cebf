//! HyStart (Ha and Rhee 2008) as in Linux' CUBIC: slow start ends when the ACKs of one train span
//! the path, or when eight round-trip times of a round have risen by an eighth (`hystart_update`).
//! RFC 9406 is its successor.

use lasthop_core::units::{Duration, Time};
use lasthop_tcp::window::{Ack, Window};

/// Smallest cwnd (segments) at which HyStart is active (`hystart_low_window`).
const LOW_WINDOW: f64 = 16.0;
/// ACKs that are at most this far apart belong to one train (`hystart_ack_delta_us`).
const TRAIN_GAP: Duration = Duration::millis(2);
/// RTT samples of a round before its delay is evaluated (`HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;
/// Bounds of the rise that ends slow start (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const MIN_RISE: Duration = Duration::millis(4);
const MAX_RISE: Duration = Duration::millis(16);
/// Bytes of a burst of the sender that do not count as queueing: four GSO packets
/// (`hystart_ack_delay`).
const BURST: f64 = 4.0 * 65_536.0;

/// The state of slow start.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    /// True if the end of slow start was detected.
    found: bool,
    /// Start of the round, which ends when more than `end` bytes have been acknowledged.
    round_start: Time,
    end: u64,
    /// Arrival of the last ACK of the train.
    last_ack: Time,
    /// Smallest round-trip time of the round, and number of samples.
    current: Duration,
    samples: u32,
}

impl HyStart {
    pub(super) fn new(now: Time) -> Self {
        HyStart {
            found: false,
            round_start: now,
            end: 0,
            last_ack: now,
            current: Duration::MAX,
            samples: 0,
        }
    }

    /// Starts another slow start after a timeout.
    pub(super) fn restart(&mut self, now: Time, snd_max: u64) {
        *self = HyStart { end: snd_max, ..HyStart::new(now) };
    }

    /// Processes an ACK in slow start with the round-trip time `rtt`; the smallest so far is
    /// `delay_min`. Sets ssthresh at the end of slow start.
    pub(super) fn on_ack(
        &mut self,
        window: &mut Window,
        ack: &Ack,
        rtt: Duration,
        delay_min: Duration,
    ) {
        if self.found {
            return;
        }
        if ack.snd_una > self.end {
            self.restart(ack.now, ack.snd_max);
        }
        if window.cwnd < LOW_WINDOW * f64::from(ack.mss) {
            return;
        }
        if ack.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = ack.now;
            let threshold = Duration((delay_min + burst_time(window, ack)).0 / 2);
            self.found = ack.now.since(self.round_start) > threshold;
        }
        self.current = self.current.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let rise = Duration(delay_min.0 / 8).clamp(MIN_RISE, MAX_RISE);
            self.found |= self.current > delay_min + rise;
        }
        if self.found {
            window.ssthresh = window.cwnd;
        }
    }
}

/// Duration of a burst at the sender's pacing rate, two windows per round trip; a millisecond at
/// most.
fn burst_time(window: &Window, ack: &Ack) -> Duration {
    let rate = 2.0 * window.cwnd / ack.srtt.unwrap_or_default().as_secs();
    Duration::from_secs_f64((BURST / rate).min(0.001))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{MSS, ack, window};

    /// ACKs of two segments each, `gap` ms apart, the first at `from` ms, all with the round-trip
    /// time `rtt`. Returns ssthresh in segments.
    fn round(h: &mut HyStart, n: u64, from: u64, gap: u64, rtt: u64, count: u64) -> f64 {
        let mut w = window(20.0, f64::INFINITY);
        for i in 0..count {
            let una = 100_000 * n + 1000 * (i + 1);
            let rtt = Duration::millis(rtt);
            let a = Ack {
                now: Time((from + gap * i) * 1_000_000),
                srtt: Some(rtt),
                snd_una: una,
                snd_max: 100_000 * (n + 1),
                ..ack()
            };
            h.on_ack(&mut w, &a, rtt, Duration::millis(200));
        }
        w.ssthresh / MSS
    }

    /// An eighth of 200 ms is 25, but 16 are enough: nine samples of 217 ms end slow start, eight
    /// do not, and 216 ms do not.
    #[test]
    fn eight_delays_that_have_risen_end_slow_start() {
        for (rtt, count, ends) in [(217, 9, true), (217, 8, false), (216, 20, false)] {
            let mut h = HyStart::new(Time::ZERO);
            assert_eq!(round(&mut h, 1, 1000, 10, rtt, count) < 100.0, ends, "{rtt} ms, {count}");
        }
    }

    /// A train longer than half of the smallest round-trip time plus a burst: 101 ms; a gap ends
    /// the train.
    #[test]
    fn a_train_that_spans_the_path_ends_slow_start() {
        for (gap, count, ends) in [(2, 52, true), (2, 51, false), (3, 60, false)] {
            let mut h = HyStart::new(Time::ZERO);
            assert_eq!(round(&mut h, 1, 1000, gap, 200, count) < 100.0, ends, "{gap} ms, {count}");
        }
    }

    #[test]
    fn nothing_is_judged_below_sixteen_segments() {
        let (mut h, mut w) = (HyStart::new(Time::ZERO), window(15.0, f64::INFINITY));
        for i in 0..100 {
            let a = Ack { now: Time(i * 1_000_000), snd_max: 1_000_000, snd_una: 1 + i, ..ack() };
            h.on_ack(&mut w, &a, Duration::millis(300), Duration::millis(100));
        }
        assert_eq!(w.ssthresh, f64::INFINITY);
    }
}
