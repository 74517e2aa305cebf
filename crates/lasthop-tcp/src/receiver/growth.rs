//! A receive window that follows the sender (Linux: dynamic right-sizing, Fisk and Feng 2001).
//!
//! Two limits: what the buffer may hold, from what the application has read in the last round trip
//! (`tcp_rcv_space_adjust`, `tcp_rcvbuf_grow`), and what is offered of it, two segments more with
//! each segment that arrives (`tcp_grow_window`). Both grow while segments are missing too, the
//! second one only with SACK: without it an ACK with another window is no duplicate
//! (`tcp_data_queue_ofo`). What waits beyond a hole takes room in the buffer
//! (`__tcp_select_window`).

use crate::profile::ReceiveRtt;
use crate::timestamps::timestamp;
use lasthop_core::units::{Duration, Time};

/// The first window: half of tcp_rmem's default of 128 KiB, in the 16 bits of a SYN.
pub const FIRST_WINDOW: u64 = 65_535;
/// What tcp_rmem's default holds once the first frame has shown that 5/8 of the memory of one are
/// payload (`scaling_ratio` in `tcp_measure_rcv_mss`: 1448 of 2304 bytes of a frame of 1500).
const FIRST_ROOM: u64 = 81_920;
/// Segments of the first round trip (TCP_INIT_CWND).
const FIRST_SEGMENTS: u64 = 10;
/// What the largest segment is taken for until a larger one comes, at most (TCP_MSS_DEFAULT).
const FIRST_MSS: u64 = 536;
/// A segment below that is no bulk data and opens nothing.
const SMALL: u64 = 128;

/// A segment with data has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub now: Time,
    /// Payload bytes of a segment, and of all segments that came as one frame.
    pub len: u64,
    pub frame: u64,
    /// The next byte expected, and the byte after the highest one that has arrived.
    pub next: u64,
    pub highest: u64,
    /// The next byte that the application reads.
    pub read: u64,
    /// It was not in order.
    pub ahead: bool,
    /// Bytes in the buffer: those beyond a hole that had arrived before, and those that are not
    /// read. What has come in order is among them (`tcp_queue_rcv`), what lies beyond a hole comes
    /// into the buffer afterwards (`tcp_data_queue_ofo`).
    pub held: u64,
    /// The window last advertised.
    pub window: u64,
    /// The tick of the timestamp that the sender echoes, and the time since then.
    pub echo: Option<(u32, Duration)>,
}

/// Microseconds of a tick of Linux' timestamps (`TCP_TS_HZ`).
const TICK: u32 = 1000;

/// The tick of the timestamp `stamp`, and the whole ticks that have begun since
/// (`tcp_rtt_tsopt_us`).
#[inline]
pub(super) fn since_stamp(now: Time, stamp: u32) -> (u32, Duration) {
    let since = timestamp(now).wrapping_sub(stamp) + stamp % TICK;
    (stamp / TICK, Duration::millis(u64::from(since / TICK)))
}

/// How far the window of a connection has grown.
#[derive(Clone, Debug)]
pub(super) struct WindowGrowth {
    /// The largest window that the buffer will ever hold.
    most: u64,
    /// What it holds now (`window_clamp`), and what is offered of it (`rcv_ssthresh`).
    room: u64,
    offered: u64,
    /// Bytes read in the last round trip (`rcvq_space`), since when and from where the next ones
    /// are counted.
    read: u64,
    since: Time,
    from: u64,
    /// Round-trip time, and the last timestamp that was echoed.
    rtt: Option<Duration>,
    echo: u32,
    /// The window whose arrival is being timed: since when, and the byte after its last one
    /// (`rcv_rtt_est`).
    timed: Option<(Time, u64)>,
    rule: ReceiveRtt,
    /// SACK is used.
    sack: bool,
    /// The largest segment so far (`rcv_mss`), and the one that was agreed on (`advmss`).
    mss: u64,
    agreed: u64,
}

impl WindowGrowth {
    pub(super) fn new(most: u64, rule: ReceiveRtt, sack: bool) -> Self {
        let room = FIRST_WINDOW.min(most);
        WindowGrowth {
            most,
            room,
            offered: room,
            read: 0,
            since: Time::ZERO,
            from: 0,
            rtt: None,
            echo: 0,
            timed: None,
            rule,
            sack,
            mss: 0,
            agreed: 0,
        }
    }

    /// Of a connection with segments of `mss` bytes (`tcp_initialize_rcv_mss`).
    pub(super) fn with_segments(self, mss: u64) -> Self {
        WindowGrowth { mss: FIRST_MSS.min(mss), agreed: mss, ..self }
    }

    /// The window that is offered while `held` bytes wait beyond a hole or to be read.
    #[inline]
    pub(super) fn window(&self, held: u64) -> u64 {
        self.offered.min(self.room.saturating_sub(held))
    }

    /// The largest window that the buffer holds now (`window_clamp`).
    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// The window that would be offered if nothing waited.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    /// Round-trip time, once there is one.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    pub(super) fn on_data(&mut self, arrived: &Arrived) {
        if arrived.len > self.mss {
            self.mss = arrived.len;
            self.room = self.room.max(FIRST_ROOM.min(self.most));
        }
        if self.read == 0 {
            let segments = FIRST_SEGMENTS * self.agreed.max(self.mss);
            (self.read, self.since) = (segments.min(self.room), arrived.now);
        }
        if let Some(echo) = arrived.echo {
            self.sample(echo, arrived.len);
        }
        if !arrived.ahead && self.has_arrived(arrived.next) {
            self.time_window(arrived.now, arrived.next, arrived.window);
        }
        if self.sack || !arrived.ahead {
            self.offer_more(arrived.len, arrived.frame, arrived.held);
        }
        if arrived.ahead {
            // Nothing can be read, which is when the kernel measures (`tcp_rcv_space_adjust`).
            return self.grow(self.read, arrived.highest - arrived.next);
        }
        if self.is_round_trip_over(arrived.now) {
            let ahead = arrived.highest.saturating_sub(arrived.next);
            self.end_round_trip(arrived.now, arrived.read, ahead);
        }
    }

    /// As `on_data`, of a segment in order that is read at once, where nothing is missing; `echo`:
    /// the timestamp that it echoes (0: none).
    #[inline(always)]
    pub(super) fn on_next(
        &mut self,
        now: Time,
        (len, frame): (u64, u64),
        (next, window): (u64, u64),
        echo: u32,
    ) {
        if self.read == 0 || len > self.mss {
            return self.on_first(now, (len, frame), (next, window), echo);
        }
        if echo != 0 && echo / TICK != self.echo {
            self.sample(since_stamp(now, echo), len);
        }
        if self.has_arrived(next) {
            self.time_window(now, next, window);
        }
        self.offer_more(len, frame, frame);
        if self.is_round_trip_over(now) {
            self.end_round_trip(now, next, 0);
        }
    }

    /// The same of the first segment, or of the largest one so far.
    #[cold]
    fn on_first(
        &mut self,
        now: Time,
        (len, frame): (u64, u64),
        (next, window): (u64, u64),
        echo: u32,
    ) {
        let echo = (echo != 0).then(|| since_stamp(now, echo));
        let (read, highest) = (next, next);
        let (ahead, held) = (false, frame);
        let first = Arrived { now, len, frame, next, highest, read, ahead, held, window, echo };
        self.on_data(&first);
    }

    /// As `on_data`, of a segment beyond a hole. `held`: bytes in the buffer before it; `beyond`:
    /// bytes between the next one expected and the highest one; `echo`: as in `on_next`.
    #[inline(always)]
    pub(super) fn on_beyond(
        &mut self,
        now: Time,
        (len, frame): (u64, u64),
        (held, beyond): (u64, u64),
        echo: u32,
    ) {
        if self.read == 0 || len > self.mss {
            return self.on_first_beyond(now, (len, frame), (held, beyond), echo);
        }
        if echo != 0 && echo / TICK != self.echo {
            self.sample(since_stamp(now, echo), len);
        }
        if self.sack {
            self.offer_more(len, frame, held);
        }
        self.make_room((2 * self.read).saturating_add(beyond));
    }

    /// The same of the first segment, or of the largest one so far.
    #[cold]
    fn on_first_beyond(
        &mut self,
        now: Time,
        (len, frame): (u64, u64),
        (held, beyond): (u64, u64),
        echo: u32,
    ) {
        let echo = (echo != 0).then(|| since_stamp(now, echo));
        // What is read and what the window was count in order only.
        let (next, read, window, highest) = (0, 0, 0, beyond);
        let ahead = true;
        let first = Arrived { now, len, frame, next, highest, read, ahead, held, window, echo };
        self.on_data(&first);
    }

    /// Two segments more are offered, of what `held` bytes leave free.
    #[inline(always)]
    fn offer_more(&mut self, len: u64, frame: u64, held: u64) {
        if len >= SMALL {
            let free = self.room.saturating_sub(held);
            if self.offered < free {
                self.offered = (self.offered + 2 * self.mss.max(frame)).min(free);
            }
        }
    }

    #[inline(always)]
    fn is_round_trip_over(&self, now: Time) -> bool {
        self.rtt.is_some_and(|rtt| now.since(self.since) >= rtt)
    }

    /// The application has read all bytes below `read`; `ahead` bytes lie ahead of a hole.
    #[inline(never)]
    fn end_round_trip(&mut self, now: Time, read: u64, ahead: u64) {
        let bytes = read.saturating_sub(self.from);
        if self.rtt > Some(Duration::ZERO) && bytes > self.read {
            self.grow(bytes, ahead);
        }
        (self.since, self.from) = (now, read);
    }

    /// The window that is being timed has arrived, or none is.
    #[inline(always)]
    fn has_arrived(&self, next: u64) -> bool {
        self.timed.is_none_or(|(_, end)| next >= end)
    }

    /// Without timestamps the round-trip time is the shortest time in which a window of data has
    /// arrived (`tcp_rcv_rtt_measure`).
    #[inline(never)]
    fn time_window(&mut self, now: Time, next: u64, window: u64) {
        if let Some((since, _)) = self.timed {
            let sample = now - since;
            self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt.min(sample)));
        }
        self.timed = Some((now, next + window));
    }

    /// One sample for each timestamp, of full segments (`tcp_rcv_rtt_measure_ts`).
    fn sample(&mut self, (tick, rtt): (u32, Duration), len: u64) {
        let is_new = std::mem::replace(&mut self.echo, tick) != tick;
        if is_new && len >= self.mss && rtt > Duration::ZERO {
            let smoothed = self.rtt.map_or(rtt, |r| Duration((7 * r.0 + rtt.0) / 8));
            self.rtt = Some(match self.rule {
                ReceiveRtt::Smoothed => smoothed,
                ReceiveRtt::Latched => smoothed.min(rtt),
            });
        }
    }

    /// `read` bytes in a round trip: room for two of them, since this was measured a round trip
    /// ago, and as much more as a sender in slow start will have grown by then; and for what lies
    /// ahead of a hole.
    fn grow(&mut self, read: u64, ahead: u64) {
        let before = std::mem::replace(&mut self.read, read).max(1);
        // Beyond a hole nothing more has been read: no division for each of those segments.
        let more = read.saturating_sub(before);
        let growth = match more {
            0 => 0,
            _ => u128::from(2 * read) * u128::from(more) / u128::from(before),
        };
        let room = u128::from(2 * read) + 2 * growth + u128::from(ahead);
        self.make_room(u64::try_from(room).unwrap_or(u64::MAX));
    }

    /// The buffer has room for as many bytes, at least, up to the most that it will ever have.
    #[inline(always)]
    fn make_room(&mut self, bytes: u64) {
        self.room = self.room.max(bytes.min(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A segment of 1000 bytes at `ms`, after which `next` is expected. `highest` above it lies
    /// beyond a hole.
    fn arrived(ms: u64, next: u64, highest: u64) -> Arrived {
        Arrived {
            now: Time(ms * 1_000_000),
            len: 1000,
            frame: 1000,
            next,
            read: next,
            highest,
            ahead: highest > next,
            held: 0,
            window: 65_535,
            echo: None,
        }
    }

    /// A segment of 1000 bytes in order at `ms`, of a path of 100 ms, that makes `next` the next
    /// byte expected.
    fn in_order(g: &mut WindowGrowth, ms: u64, next: u64) -> u64 {
        g.on_data(&Arrived {
            held: 1000,
            echo: Some((ms as u32 + 1, Duration::millis(100))),
            ..arrived(ms, next, next)
        });
        g.window(0)
    }

    proptest! {
        /// The fast path does what `on_data` does of segments in order.
        #[test]
        fn the_next_segment_takes_either_path(
            steps in prop::collection::vec((0u64..60, 1u64..1449, 0u32..6, 1u64..4), 1..200),
            latched in any::<bool>(),
        ) {
            let rule = if latched { ReceiveRtt::Latched } else { ReceiveRtt::Smoothed };
            let (mut slow, mut fast) =
                (WindowGrowth::new(4 << 20, rule, true), WindowGrowth::new(4 << 20, rule, true));
            let (mut now, mut next) = (Time(1_000_000_000), 0);
            for (ms, len, ago, frames) in steps {
                now += Duration::millis(ms);
                let frame = len * frames;
                next += frame;
                let stamp = if ago == 0 { 0 } else { timestamp(now) - 20_000 * ago };
                let echo = (stamp != 0).then(|| since_stamp(now, stamp));
                let (window, held, ahead) = (slow.offered(), frame, false);
                let (read, highest) = (next, next);
                slow.on_data(&Arrived {
                    now, len, frame, next, highest, read, ahead, held, window, echo,
                });
                fast.on_next(now, (len, frame), (next, window), stamp);
                prop_assert_eq!(format!("{slow:?}"), format!("{fast:?}"));
            }
        }
    }

    #[test]
    fn it_starts_below_64_kib_and_is_never_larger_than_the_buffer() {
        assert_eq!(WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true).window(0), 65_535);
        assert_eq!(WindowGrowth::new(20_000, ReceiveRtt::Latched, true).window(0), 20_000);
        let mut g = WindowGrowth::new(100_000, ReceiveRtt::Latched, true);
        let last = (1..1000).map(|i| in_order(&mut g, 10 * i, 100_000 * i)).last();
        assert_eq!(last, Some(99_000));
    }

    /// Of a segment that is smaller than `rcv_mss` no memory of a frame follows, and no round-trip
    /// time (`tcp_measure_rcv_mss`, `tcp_rcv_rtt_measure_ts`). The first round trip is still
    /// expected to bring ten full segments: ten and a small one are more.
    #[test]
    fn a_small_segment_comes_first() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true).with_segments(1000);
        let echo = Some((1, Duration::millis(100)));
        g.on_data(&Arrived { len: 200, frame: 200, held: 200, echo, ..arrived(0, 200, 200) });
        assert_eq!((g.room, g.offered(), g.rtt(), g.read), (65_535, 65_535, None, 10_000));
        in_order(&mut g, 1, 1200);
        assert_eq!((g.room, g.offered()), (81_920, 67_535));
        in_order(&mut g, 100, 10_000);
        assert_eq!(g.read, 10_000, "no more than expected");
        in_order(&mut g, 200, 20_200);
        assert_eq!(g.read, 10_200);
    }

    /// Ten segments were expected and twenty came: room for 2 · 20 + 2 · (40 · (20 - 10) / 10) =
    /// 120 segments, offered two at a time.
    #[test]
    fn room_for_twice_what_the_next_round_trip_will_bring() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true);
        in_order(&mut g, 0, 1000);
        assert_eq!(in_order(&mut g, 99, 20_000), 69_535);
        assert_eq!(g.room, 81_920, "within a round trip");
        in_order(&mut g, 100, 20_000);
        assert_eq!(g.room, 120_000);
        assert_eq!(in_order(&mut g, 101, 21_000), 73_535);
    }

    #[test]
    fn a_steady_rate_leaves_it_as_it_is() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true);
        for i in 1..200 {
            in_order(&mut g, 10 * i, 1000 * i);
        }
        assert_eq!((g.room, g.window(0)), (81_920, 80_920));
    }

    /// `tcp_space`: a segment in order has left no room for itself. The first one beyond a hole
    /// takes that, which is one more quick ACK; the next one finds none.
    #[test]
    fn the_first_segment_beyond_a_hole_takes_the_room_of_the_last_one_in_order() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true);
        let offers = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|i| in_order(&mut g, 10 * i, 1000 * i));
        assert_eq!(offers[6..], [79_535, 80_920, 80_920]);
        for offer in [81_920, 81_920] {
            g.on_data(&Arrived { held: offer - 81_920, ..arrived(95, 9000, 12_000) });
            assert_eq!(g.offered(), offer);
        }
    }

    #[test]
    fn the_round_trip_time_has_one_sample_for_each_timestamp_and_takes_short_ones_at_once() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true);
        let mut after = |echo, ms, len| {
            let next = 1000;
            let echo = Some((echo, Duration::millis(ms)));
            g.on_data(&Arrived { now: Time(1), len, frame: len, echo, ..arrived(0, next, next) });
            g.rtt().map(|r| r.0 / 1000)
        };
        assert_eq!(after(7, 80, 1000), Some(80_000));
        assert_eq!(after(7, 90, 1000), Some(80_000), "later segments of the burst");
        assert_eq!(after(8, 40, 999), Some(80_000), "not a full one");
        assert_eq!(after(9, 48, 1000), Some(48_000));
        assert_eq!(after(10, 56, 1000), Some(49_000));
        g.rule = ReceiveRtt::Smoothed;
        let echo = Some((11, Duration::millis(41)));
        g.on_data(&Arrived { now: Time(1), echo, ..arrived(0, 1000, 1000) });
        assert_eq!(g.rtt(), Some(Duration::millis(48)));
    }

    /// `tcp_rcv_space_adjust` is called when the application reads: ten segments of the first round
    /// trip and ten that come a round trip later, before and behind one beyond a hole, are twenty.
    #[test]
    fn what_lies_beyond_a_hole_ends_no_round_trip() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true);
        in_order(&mut g, 0, 10_000);
        g.on_data(&Arrived { held: 1000, ..arrived(100, 10_000, 20_000) });
        in_order(&mut g, 120, 20_000);
        assert_eq!(g.room, 120_000);
    }

    /// It is a duplicate ACK that tells of this.
    #[test]
    fn it_grows_for_what_lies_ahead_of_a_hole() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true);
        in_order(&mut g, 0, 1000);
        let before = g.window(0);
        for i in 0..3 {
            g.on_data(&Arrived { held: 1000 * i, ..arrived(i + 1, 1000, 62_000 + 1000 * i) });
        }
        assert_eq!((g.room, g.window(0) > before), (83_000, true));
    }

    /// An ACK with another window is no duplicate (RFC 5681), and without SACK nothing else repairs
    /// the loss.
    #[test]
    fn without_sack_the_offer_does_not_grow_while_segments_are_missing() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, false);
        let before = in_order(&mut g, 0, 1000);
        g.on_data(&arrived(1, 1000, 62_000));
        assert_eq!(g.window(0), before);
        assert_eq!(in_order(&mut g, 2, 2000), before + 2000);
    }

    /// `tcp_rcv_rtt_measure`: without timestamps the first window of 65 535 bytes gives the first
    /// sample, and the shortest counts.
    #[test]
    fn without_timestamps_a_window_is_timed() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true);
        let mut after = |ms: u64, next| {
            g.on_data(&arrived(ms, next, next));
            g.rtt().map(|r| r.0 / 1_000_000)
        };
        assert_eq!(after(100, 1000), None);
        assert_eq!(after(250, 66_534), None, "a byte less than a window");
        assert_eq!(after(300, 66_535), Some(200));
        assert_eq!(after(380, 132_070), Some(80));
        assert_eq!(after(500, 197_605), Some(80), "a longer one does not count");
    }

    #[test]
    fn what_waits_beyond_a_hole_takes_room() {
        let mut g = WindowGrowth::new(4 << 20, ReceiveRtt::Latched, true);
        for i in 1..20 {
            in_order(&mut g, 10 * i, 1000 * i);
        }
        assert_eq!((g.window(0), g.window(2000), g.window(90_000)), (80_920, 79_920, 0));
        // The buffer grows with the highest byte, the offer not.
        let offer = g.offered();
        g.on_data(&Arrived { held: 79_000, ..arrived(200, 19_000, 99_000) });
        assert_eq!((g.room, g.offered()), (102_000, offer));
        assert_eq!(g.window(80_000), 22_000);
    }
}
