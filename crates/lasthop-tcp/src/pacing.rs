//! Pacing: segments leave at the rate that the window rule asks for, instead of when ACKs come in.

use lasthop_core::units::{Duration, Rate, Time};

/// From this rate on segments leave in pairs (Linux: `bbr_min_tso_rate`).
const PAIRS_FROM: Rate = Rate(1_200_000);
/// A burst is never larger, in bytes.
const LARGEST_BURST: u64 = 65_536;

/// Payload bytes that leave together at this rate, in segments of `mss` bytes (the send quantum of
/// draft-ietf-ccwg-bbr): one segment below 1.2 Mbit/s, from there on what a millisecond takes, at
/// least two segments and at most 64 KiB.
pub fn quantum(rate: Rate, mss: u32) -> u32 {
    if rate < PAIRS_FROM {
        return mss;
    }
    let millisecond = (rate.0 / 8000).min(LARGEST_BURST) as u32;
    (millisecond - millisecond % mss.max(1)).max(2 * mss)
}

/// The time to the next burst, `late` being by how much this one left after it might have.
pub fn after_credit(gap: Duration, late: Duration) -> Duration {
    gap.saturating_sub(late.min(Duration(gap.0 / 2)))
}

/// When the next segment may leave.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    next: Time,
    /// When the present burst began, and how many bytes are left of it.
    burst: Time,
    left: u32,
    /// (bytes, rate, time for these bytes at this rate, bytes that leave together), as computed
    /// last: they seldom change, and divisions are slow.
    spacing: (u32, Rate, Duration, u32),
    /// A segment waits for `next`.
    waiting: bool,
    /// Segments of data up to the one with which pacing begins, that one included.
    unpaced: u32,
    /// What leaves late shortens the time to the next burst.
    has_credit: bool,
    /// How late the present burst is, as far as no segment of it has used that.
    credit: Duration,
}

impl Pacer {
    /// A pacer that lets the first `unpaced` segments of data leave without a delay between them,
    /// and `has_credit` (Linux `tcp_update_skb_after_send`: `data_segs_out`, `credit`).
    pub fn new(unpaced: u32, has_credit: bool) -> Pacer {
        Pacer { unpaced, has_credit, ..Pacer::default() }
    }

    /// A segment may leave now.
    pub fn ready(&self, now: Time) -> bool {
        now >= self.next || (now == self.burst && self.left > 0)
    }

    /// `bytes` of payload leave at a rate, `burst` bytes together (by default the quantum of the
    /// rate), which is asked for only if they begin a burst.
    #[inline(always)]
    pub fn on_sent(
        &mut self,
        now: Time,
        bytes: u32,
        rate: Rate,
        burst: impl FnOnce() -> Option<u32>,
    ) {
        if (self.spacing.0, self.spacing.1) != (bytes, rate) {
            self.space(bytes, rate);
        }
        if self.unpaced > 0 {
            let burst = burst().unwrap_or(self.spacing.3);
            return self.on_sent_unpaced(now, bytes, burst);
        }
        if now >= self.next {
            let burst = burst().unwrap_or(self.spacing.3);
            self.begin_burst(now, burst);
        }
        self.left = self.left.saturating_sub(bytes);
        self.advance(self.spacing.2);
    }

    #[inline(never)]
    fn space(&mut self, bytes: u32, rate: Rate) {
        self.spacing = (bytes, rate, rate.time_for(u64::from(bytes)), quantum(rate, bytes));
    }

    /// Pacing begins with the burst that has the last unpaced segment: all of it delays the next.
    #[cold]
    fn on_sent_unpaced(&mut self, now: Time, bytes: u32, burst: u32) {
        if self.left == 0 || now != self.burst {
            self.begin_burst(now, burst);
        }
        self.left = self.left.saturating_sub(bytes);
        self.unpaced -= 1;
        if self.unpaced == 0 {
            // The burst may have begun at another rate.
            let sent = burst.saturating_sub(self.left).max(bytes);
            self.advance(self.spacing.1.time_for(u64::from(sent)));
        }
    }

    /// A frame of `segments` leaves, `bytes` of payload.
    #[inline(never)]
    pub fn on_frame_sent(&mut self, now: Time, bytes: u32, segments: u32, rate: Rate) {
        self.unpaced = self.unpaced.saturating_sub(segments);
        self.begin_burst(self.next.max(now), 0);
        if self.unpaced == 0 {
            self.advance(rate.time_for(u64::from(bytes)));
        }
    }

    fn begin_burst(&mut self, now: Time, bytes: u32) {
        let late = if self.has_credit { now.since(self.next) } else { Duration::ZERO };
        (self.next, self.burst, self.left, self.credit) = (now, now, bytes, late);
    }

    /// The next burst leaves by `gap` later, less what the credit allows.
    #[inline(always)]
    fn advance(&mut self, gap: Duration) {
        let shortened = after_credit(gap, self.credit);
        self.credit = self.credit.saturating_sub(gap.saturating_sub(shortened));
        self.next += shortened;
    }

    /// When the next segment may leave.
    pub fn next(&self) -> Time {
        self.next
    }

    /// A segment waits for the pacer.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// A segment waits for the pacer, or no segment does.
    #[inline]
    pub fn set_waiting(&mut self, waiting: bool) {
        self.waiting = waiting;
    }

    /// When the segment that waits may leave; `NEVER` if none does.
    pub fn deadline(&self) -> Time {
        if self.waiting { self.next } else { Time::NEVER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When `n` segments of 1000 bytes leave, if one leaves whenever it may from `start` (ms) on;
    /// times in microseconds.
    fn times(pacer: &mut Pacer, start: u64, n: usize, rate: u64) -> Vec<u64> {
        let mut now = Time(start * 1_000_000);
        (0..n)
            .map(|_| {
                if !pacer.ready(now) {
                    now = pacer.next;
                }
                pacer.on_sent(now, 1000, Rate(rate), || None);
                now.0 / 1000
            })
            .collect()
    }

    #[test]
    fn slow_flows_send_one_by_one_and_faster_ones_in_bursts() {
        assert_eq!(times(&mut Pacer::default(), 0, 4, 1_000_000), [0, 8000, 16_000, 24_000]);
        assert_eq!(times(&mut Pacer::default(), 0, 6, 8_000_000), [0, 0, 2000, 2000, 4000, 4000]);
        assert_eq!(times(&mut Pacer::default(), 0, 6, 40_000_000), [0, 0, 0, 0, 0, 1000]);
        assert_eq!(
            [1_199_999, 1_200_000, 20_000_000, 100_000_000, 10_000_000_000]
                .map(|r| quantum(Rate(r), 1000)),
            [1000, 2000, 2000, 12_000, 65_000]
        );
    }

    /// 2000 bytes take 2 ms at 8 Mbit/s. Due at 2 ms, sent at 2.6 ms: the next one after 1.4 ms;
    /// sent 10 ms late: after 1 ms.
    #[test]
    fn a_late_frame_shortens_the_wait_for_the_next_by_half_at_most() {
        let mut pacer = Pacer::new(0, true);
        let mut next = |us: u64| {
            pacer.on_frame_sent(Time(us * 1000), 2000, 2, Rate(8_000_000));
            pacer.next().0 / 1000
        };
        assert_eq!((next(0), next(2600), next(4000), next(16_000)), (2000, 4000, 6000, 17_000));
        assert!(!pacer.ready(Time(16_999_999)) && pacer.ready(Time(17_000_000)));
    }

    /// The same in bursts of two segments: 0.6 ms are less than half of the gap of a burst, and
    /// the first segment alone, which is sent 10 ms late, may use half of the gap after it.
    #[test]
    fn a_late_burst_shortens_the_wait_for_the_next_by_half_at_most() {
        let mut pacer = Pacer::new(0, true);
        let mut next = |us: u64, segments: u32| {
            for _ in 0..segments {
                pacer.on_sent(Time(us * 1000), 1000, Rate(8_000_000), || None);
            }
            pacer.next().0 / 1000
        };
        assert_eq!((next(0, 2), next(2600, 2), next(4000, 2)), (2000, 4000, 6000));
        assert_eq!((next(16_000, 1), next(16_000, 1), next(30_000, 1)), (16_500, 17_000, 30_500));
        let mut without = Pacer::new(0, false);
        times(&mut without, 0, 2, 8_000_000);
        assert_eq!(times(&mut without, 16, 4, 8_000_000), [16_000, 16_000, 18_000, 18_000]);
    }

    /// In bursts of two segments, the tenth belongs to the fifth burst: the eleventh waits for two
    /// segments. In frames of four the third one has the tenth, and the fourth waits for all four.
    #[test]
    fn the_first_segments_are_not_paced() {
        let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2000, 2000, 4000];
        assert_eq!(times(&mut Pacer::new(10, false), 0, 13, 8_000_000), expected);
        let mut pacer = Pacer::new(9, false);
        times(&mut pacer, 0, 9, 8_000_000);
        assert!(pacer.next() == Time(1_000_000) && pacer.ready(Time::ZERO), "half of a burst");
        let mut pacer = Pacer::new(10, false);
        let waits = [0; 4].map(|_| {
            pacer.on_frame_sent(Time::ZERO, 4000, 4, Rate(8_000_000));
            pacer.next().0 / 1000
        });
        assert_eq!(waits, [0, 0, 4000, 8000]);
    }

    #[test]
    fn an_idle_time_saves_nothing_up() {
        let mut pacer = Pacer::default();
        times(&mut pacer, 0, 3, 8_000_000);
        assert_eq!(
            times(&mut pacer, 1000, 4, 8_000_000),
            [1_000_000, 1_000_000, 1_002_000, 1_002_000]
        );
    }

    #[test]
    fn only_a_segment_that_waits_sets_the_timer() {
        let mut pacer = Pacer::default();
        pacer.on_sent(Time::ZERO, 1000, Rate(1_000_000), || None);
        assert!(!pacer.ready(Time(7_999_999)) && pacer.ready(Time(8_000_000)));
        assert_eq!(pacer.deadline(), Time::NEVER);
        pacer.waiting = true;
        assert_eq!(pacer.deadline(), Time(8_000_000));
    }
}
