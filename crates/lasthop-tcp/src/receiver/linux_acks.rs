//! When a Linux receiver acknowledges: quick ACKs, and an ACK delay that adapts (`icsk_ack.ato`).
//!
//! Source: `tcp_event_data_recv`, `tcp_incr_quickack`, `tcp_grow_window`, `__tcp_ack_snd_check`,
//! `tcp_send_delayed_ack` and `tcp_delack_timer_handler` of Linux 6.18.

use lasthop_core::units::{Duration, Time};

/// Most quick ACKs granted at a time (`TCP_MAX_QUICKACKS`).
const MAX_QUICK_ACKS: u64 = 16;
/// Longest ACK delay of bulk data (`tcp_send_delayed_ack`, `max_ato`).
const MAX_DELAY: Duration = Duration::millis(500);
/// Longest ACK delay of all (`TCP_DELACK_MAX`).
const DELAY_LIMIT: Duration = Duration::millis(200);
/// What the receiver's own retransmission timeout exceeds its round-trip time by, at least.
const MIN_RTO: Duration = Duration::millis(200);
/// A data segment as it has been taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub now: Time,
    /// Payload bytes.
    pub len: u64,
    /// The window last advertised, bytes.
    pub window: u64,
    /// The window that is offered has grown.
    pub grew: bool,
    /// It brought nothing new.
    pub duplicate: bool,
    /// It filled the last hole.
    pub filled: bool,
    /// Segments are still missing.
    pub missing: bool,
    /// Bytes in order that no ACK has covered.
    pub unacknowledged: u64,
}

/// When the segment is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Now,
    /// By the timer of delayed ACKs.
    Delayed(Duration),
    /// At once or by the timer of compressed SACKs, as `Compression` says.
    Compressible,
}

/// The state of the ACK engine of a connection.
#[derive(Clone, Debug)]
pub(super) struct LinuxAcks {
    /// Shortest ACK delay (`TCP_ATO_MIN`), and the present one.
    min_delay: Duration,
    delay: Duration,
    /// Segments that are acknowledged at once (`icsk_ack.quick`).
    quick: u64,
    /// Largest segment so far (`rcv_mss`).
    mss: u64,
    last_data: Option<Time>,
    syn_answered: Time,
    /// Round-trip time of the handshake.
    rtt: Option<Duration>,
}

impl LinuxAcks {
    pub(super) fn new(min_delay: Duration) -> Self {
        LinuxAcks {
            min_delay,
            delay: min_delay,
            quick: 0,
            mss: 1,
            last_data: None,
            syn_answered: Time::ZERO,
            rtt: None,
        }
    }

    /// The SYN has been answered.
    pub(super) fn on_syn(&mut self, now: Time) {
        self.syn_answered = now;
    }

    /// Anything but a SYN has arrived: the first such segment ends the handshake.
    pub(super) fn on_established(&mut self, now: Time) {
        self.rtt.get_or_insert(now - self.syn_answered);
    }

    /// The receiver's own retransmission timeout; it has no round-trip time but that of the
    /// handshake.
    pub(super) fn rto(&self) -> Duration {
        let rtt = self.rtt.unwrap_or_default();
        rtt + (rtt * 2).max(MIN_RTO)
    }

    /// `tcp_incr_quickack`: half a window of quick ACKs, at most 16.
    fn grant(&mut self, window: u64) {
        self.quick = self.quick.max((window / (2 * self.mss)).clamp(2, MAX_QUICK_ACKS));
    }

    /// A segment that brings nothing new (`tcp_enter_quickack_mode`); `window`: as last advertised.
    pub(super) fn on_duplicate(&mut self, window: u64) {
        self.grant(window);
        self.delay = self.min_delay;
    }

    /// A data segment has been taken in; says when it is acknowledged.
    #[inline(always)]
    pub(super) fn on_data(&mut self, t: &Taken) -> When {
        self.mss = self.mss.max(t.len);
        if t.duplicate {
            self.on_duplicate(t.window);
        } else {
            self.update_delay(t);
        }
        if t.grew {
            self.quick |= 1;
        }
        if self.quick > 0 || t.filled || t.unacknowledged > self.mss {
            return When::Now;
        }
        if t.missing { When::Compressible } else { When::Delayed(self.wait()) }
    }

    /// `tcp_event_data_recv`.
    #[inline(always)]
    fn update_delay(&mut self, t: &Taken) {
        let half = Duration(self.delay.0 / 2);
        match self.last_data.replace(t.now).map(|last| t.now - last) {
            None => self.grant(t.window),
            Some(gap) if gap <= Duration(self.min_delay.0 / 2) => {
                self.delay = half + Duration(self.min_delay.0 / 2)
            }
            Some(gap) if gap < self.delay => self.delay = (half + gap).min(self.rto()),
            Some(gap) if gap > self.rto() => self.grant(t.window),
            Some(_) => {}
        }
    }

    /// `tcp_send_delayed_ack`.
    fn wait(&self) -> Duration {
        let longest = self.rtt.map_or(MAX_DELAY, |rtt| rtt.max(self.min_delay).min(MAX_DELAY));
        if self.delay > self.min_delay {
            self.delay.min(longest).min(DELAY_LIMIT)
        } else {
            self.delay
        }
    }

    /// Round-trip time of the handshake.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// An ACK leaves.
    pub(super) fn on_ack_sent(&mut self) {
        if self.quick == 1 {
            self.delay = self.min_delay;
        }
        self.quick = self.quick.saturating_sub(1);
    }

    /// No second segment came before the delay was over.
    pub(super) fn on_delay_over(&mut self) {
        self.delay = (self.delay * 2).min(self.rto());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn acks() -> LinuxAcks {
        let mut a = LinuxAcks::new(Duration::millis(40));
        a.on_syn(Time::ZERO);
        a.on_established(at(100));
        a
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::millis(ms)
    }

    /// One segment in order, the ACK before it having covered all before.
    fn segment(ms: u64) -> Taken {
        let now = at(ms);
        Taken {
            now,
            len: MSS,
            window: 60 * MSS,
            grew: false,
            duplicate: false,
            filled: false,
            missing: false,
            unacknowledged: MSS,
        }
    }

    fn answer(a: &mut LinuxAcks, taken: Taken) -> When {
        let when = a.on_data(&taken);
        if when == When::Now {
            a.on_ack_sent();
        }
        when
    }

    #[test]
    fn sixteen_quick_acks_at_the_start_and_half_a_window_if_that_is_less() {
        let mut a = acks();
        assert!((0..16).all(|i| answer(&mut a, segment(100 + i)) == When::Now));
        assert_eq!(answer(&mut a, segment(116)), When::Delayed(Duration::millis(40)));
        assert_eq!(answer(&mut a, Taken { unacknowledged: 2 * MSS, ..segment(117) }), When::Now);
        let mut small = acks();
        assert!((0..3).all(
            |i| answer(&mut small, Taken { window: 6 * MSS, ..segment(100 + i) }) == When::Now
        ));
        assert_eq!(answer(&mut small, segment(103)), When::Delayed(Duration::millis(40)));
    }

    #[test]
    fn each_segment_that_makes_the_window_grow_is_acknowledged_at_once() {
        let mut a = acks();
        (0..16).for_each(|i| assert_eq!(answer(&mut a, segment(100 + i)), When::Now));
        assert_eq!(answer(&mut a, Taken { grew: true, ..segment(116) }), When::Now);
        assert_ne!(answer(&mut a, segment(117)), When::Now);
    }

    #[test]
    fn duplicates_and_a_long_silence_bring_quick_acks_back() {
        for again in [Taken { duplicate: true, ..segment(117) }, segment(700)] {
            let mut a = acks();
            (0..16).for_each(|i| assert_eq!(answer(&mut a, segment(100 + i)), When::Now));
            assert_ne!(answer(&mut a, segment(116)), When::Now);
            assert_eq!(answer(&mut a, again), When::Now);
            let usual = Taken { duplicate: false, ..again };
            assert!((0..15).all(|_| answer(&mut a, usual) == When::Now));
            assert_ne!(answer(&mut a, usual), When::Now);
        }
    }

    /// 40 ms, doubled when it was waited for in vain, half of it and the gap after a gap of 30 ms;
    /// not longer than the round trip.
    #[test]
    fn the_delay_adapts() {
        let mut a = acks();
        (0..16).for_each(|i| assert_eq!(answer(&mut a, segment(100 + i)), When::Now));
        assert_eq!(answer(&mut a, segment(145)), When::Delayed(Duration::millis(50)));
        a.on_delay_over();
        a.on_ack_sent();
        assert_eq!(
            answer(&mut a, segment(245)),
            When::Delayed(Duration::millis(100)),
            "the round trip, not 100 ms doubled"
        );
        a.on_delay_over();
        a.on_ack_sent();
        assert_eq!(answer(&mut a, segment(246)), When::Delayed(Duration::millis(100)));
        assert_eq!(
            answer(&mut a, segment(247)),
            When::Delayed(Duration::millis(80)),
            "(200 / 2 + 20) / 2 + 20"
        );
    }
}
