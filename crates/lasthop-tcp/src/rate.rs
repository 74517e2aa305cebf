//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-02; draft-ietf-ccwg-bbr,
//! section 4.1).
//!
//! When a segment leaves, what the connection has delivered so far is noted beside it; when it is
//! acknowledged, the difference over the time in between is a sample. Only flows whose rule asks
//! for samples have a sampler.

use crate::loss::Lost;
use crate::scoreboard::Sent;
use lasthop_core::ring::{Ring, Span};
use lasthop_core::units::{Duration, Time};

/// How fast the network delivered between two moments of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Bytes per second.
    pub rate: f64,
    /// Bytes delivered in the interval.
    pub delivered: u64,
    /// The interval: the longer of that of sending and that of acknowledging.
    pub interval: Duration,
    /// Bytes that the connection had delivered when the segment acknowledged last was sent: tells
    /// round trips.
    pub prior_delivered: u64,
    /// Bytes that the connection has delivered by now.
    pub total_delivered: u64,
    /// The application did not keep the pipe full.
    pub app_limited: bool,
    /// Bytes in flight when that segment had been sent, itself included.
    pub tx_in_flight: u64,
    /// Round-trip time of that segment, if it was sent only once.
    pub rtt: Option<Duration>,
    /// Bytes found lost between then and now.
    pub lost: u64,
    /// Bytes that this ACK found lost; those that a timer found lost before it do not count (Linux
    /// `tcp_ack`: `lost`).
    pub newly_lost: u64,
}

/// What was known when a segment was last sent.
#[derive(Clone, Copy, Debug, Default)]
// A cache line.
#[repr(align(64))]
struct Snapshot {
    start: u64,
    /// Bytes of the stream that it covers, a FIN included.
    len: u32,
    /// When it was sent.
    sent: Time,
    /// When the flight that it belongs to began to be sent.
    first_sent: Time,
    /// When something was last delivered, how much there was by then, and how much had been lost.
    delivered_at: Time,
    delivered: u64,
    lost: u64,
    tx_in_flight: u64,
    app_limited: bool,
    /// It had been sent before.
    again: bool,
    /// It has been delivered, or is considered lost.
    done: bool,
    gone: bool,
}

impl Span for Snapshot {
    #[inline]
    fn start(&self) -> u64 {
        self.start
    }
    #[inline]
    fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
}

const _: () = assert!(size_of::<Snapshot>() == 64);

/// Makes delivery-rate samples for one connection.
#[derive(Clone, Debug)]
pub struct RateSampler {
    /// One for each segment in flight, in order, as in the scoreboard.
    snapshots: Ring<Snapshot>,
    delivered: u64,
    delivered_at: Time,
    /// When the segment delivered last had been sent; after an idle time, when sending began again.
    first_sent: Time,
    lost: u64,
    /// When something was last found lost, and how many bytes by that event.
    last_loss: (Time, u64),
    /// What is sent is limited by the application until so much has been delivered.
    app_limited: Option<u64>,
    min_rtt: Duration,
    /// Of what this ACK delivers, what was sent last, and how many bytes it delivers.
    newest: Option<Snapshot>,
    taken: u64,
    /// Bytes sent and neither delivered nor considered lost; bytes considered lost that were not
    /// retransmitted.
    outstanding: u64,
    gone: u64,
    /// Bytes that duplicate ACKs without SACK stood for, of segments not known by name.
    anonymous: u64,
}

impl RateSampler {
    /// A sampler for a connection whose handshake took `rtt`.
    pub fn new(rtt: Option<Duration>) -> Self {
        RateSampler {
            snapshots: Ring::default(),
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent: Time::ZERO,
            lost: 0,
            last_loss: (Time::ZERO, 0),
            app_limited: None,
            min_rtt: rtt.unwrap_or(Duration::MAX),
            newest: None,
            taken: 0,
            outstanding: 0,
            gone: 0,
            anonymous: 0,
        }
    }

    /// Bytes in the network.
    pub fn in_flight(&self) -> u64 {
        self.outstanding.saturating_sub(self.anonymous)
    }

    /// A segment leaves, for the first time or again; `place` is where one that had been sent
    /// before probably lies, counted from snd_una. `idle`: nothing else was outstanding.
    #[inline(always)]
    pub fn on_sent(&mut self, now: Time, segment: &Sent, place: usize, idle: bool) {
        if idle {
            (self.first_sent, self.delivered_at, self.anonymous) = (now, now, 0);
        }
        if segment.transmissions > 1 {
            return self.on_resent(now, segment, place);
        }
        // What is sent for the first time is not there yet.
        self.outstanding += u64::from(segment.len + u32::from(segment.fin));
        self.snapshots.push(self.snapshot(now, segment));
    }

    #[inline(never)]
    fn on_resent(&mut self, now: Time, segment: &Sent, place: usize) {
        let place = self.snapshots.place_at(segment.seq, place);
        let old = place.and_then(|i| self.snapshots.get(i)).copied();
        match old {
            None => self.outstanding += u64::from(segment.len + u32::from(segment.fin)),
            Some(old) if old.gone => {
                self.gone -= u64::from(old.len);
                self.outstanding += u64::from(old.len);
            }
            Some(_) => {}
        }
        let snapshot = self.snapshot(now, segment);
        match place.and_then(|i| self.snapshots.get_mut(i)) {
            // The scoreboard may have cut off what was acknowledged in part.
            Some(old) => {
                *old = Snapshot { start: old.start, len: old.len, done: old.done, ..snapshot }
            }
            None => self.snapshots.push(snapshot),
        }
    }

    /// What is known as a segment leaves.
    #[inline(always)]
    fn snapshot(&self, now: Time, segment: &Sent) -> Snapshot {
        Snapshot {
            start: segment.seq,
            len: segment.len + u32::from(segment.fin),
            sent: now,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            tx_in_flight: self.in_flight(),
            app_limited: self.app_limited.is_some(),
            again: segment.transmissions > 1,
            done: false,
            gone: false,
        }
    }

    /// The segment at `seq`, at this place from snd_una on, is newly known to be delivered, by
    /// SACK.
    #[inline]
    pub fn on_delivered(&mut self, place: usize, seq: u64) {
        debug_assert_eq!(
            self.snapshots.place_of(seq),
            Some(place),
            "the scoreboard holds other segments than the sampler"
        );
        self.take(place);
    }

    #[inline]
    fn take(&mut self, place: usize) {
        let Some(s) = self.snapshots.get_mut(place).filter(|s| !s.done) else { return };
        let bytes = u64::from(s.len);
        // Before the marks: a copy of what has just been written in part waits for the write.
        if self.newest.is_none_or(|n| (n.sent, n.start) < (s.sent, s.start)) {
            self.newest = Some(*s);
        }
        s.done = true;
        self.taken += bytes;
        if std::mem::replace(&mut s.gone, false) {
            self.gone -= bytes;
        } else {
            self.outstanding -= bytes;
        }
    }

    /// Everything below `ack` is delivered, if it was not known before, and forgotten.
    pub fn on_acknowledged(&mut self, ack: u64) {
        while self.snapshots.front().is_some_and(|s| s.end() <= ack) {
            self.take(0);
            self.snapshots.pop();
        }
    }

    /// The segment that contains `seq`, and probably lies at `place`, counted from snd_una, is
    /// considered lost; `None` if it was already, or has been delivered.
    pub fn on_lost(&mut self, now: Time, seq: u64, place: usize) -> Option<Lost> {
        let place = self.snapshots.place_at(seq, place)?;
        self.lose(now, place)
    }

    fn lose(&mut self, now: Time, place: usize) -> Option<Lost> {
        let s = self.snapshots.get_mut(place)?;
        if s.done || std::mem::replace(&mut s.gone, true) {
            return None;
        }
        let bytes = u64::from(s.len);
        self.outstanding -= bytes;
        self.gone += bytes;
        self.lost += bytes;
        let by_same = if self.last_loss.0 == now { self.last_loss.1 } else { 0 };
        self.last_loss = (now, by_same + bytes);
        Some(Lost {
            now,
            seq: s.start,
            bytes,
            tx_in_flight: s.tx_in_flight,
            lost: self.lost - s.lost,
            // With what the ACK that revealed the loss delivers: `finish` has not counted it yet.
            delivered: self.delivered + self.taken,
            app_limited: s.app_limited,
        })
    }

    /// All that is outstanding is lost; `report` is called with each segment.
    pub fn lose_all(&mut self, now: Time, mut report: impl FnMut(&Lost)) {
        for place in 0..self.snapshots.len() {
            if let Some(lost) = self.lose(now, place) {
                report(&lost);
            }
        }
        self.anonymous = 0;
    }

    /// The application, which has written all that it has, leaves room in a window of `cwnd` bytes
    /// (draft-ietf-ccwg-bbr, section 4.1.2.4).
    pub fn leaves_room(&self, cwnd: f64) -> bool {
        self.gone == 0 && (self.in_flight() as f64) < cwnd
    }

    /// Nothing that is outstanding is lost after all.
    pub fn lose_nothing(&mut self) {
        for place in 0..self.snapshots.len() {
            if let Some(s) = self.snapshots.get_mut(place) {
                s.gone = false;
            }
        }
        self.outstanding += std::mem::take(&mut self.gone);
    }

    /// The application, or a rule that limits its rate, leaves the pipe less than full: samples
    /// show less than the path could carry until all that is in flight now is delivered.
    pub fn mark_app_limited(&mut self) {
        self.app_limited = Some(self.delivered + self.in_flight());
    }

    /// An ACK that newly delivers `bytes` has been taken in: the sample that it gives.
    pub fn finish(&mut self, now: Time, bytes: u64) -> Option<RateSample> {
        let taken = std::mem::take(&mut self.taken);
        self.anonymous = (self.anonymous + bytes).saturating_sub(taken);
        self.delivered += bytes;
        if bytes > 0 {
            self.delivered_at = now;
        }
        if self.app_limited.is_some_and(|until| self.delivered > until) {
            self.app_limited = None;
        }
        let (at, bytes_lost) = std::mem::take(&mut self.last_loss);
        let newly_lost = if at == now { bytes_lost } else { 0 };
        let s = self.newest.take()?;
        self.first_sent = s.sent;
        let rtt = (!s.again).then(|| now - s.sent);
        self.min_rtt = self.min_rtt.min(rtt.unwrap_or(Duration::MAX));
        let interval = (s.sent - s.first_sent).max(now - s.delivered_at);
        // Shorter than any round trip: the ACK answers an earlier copy of the segment.
        if interval < self.min_rtt || interval == Duration::ZERO {
            return None;
        }
        let delivered = self.delivered - s.delivered;
        Some(RateSample {
            rate: delivered as f64 / interval.as_secs(),
            delivered,
            interval,
            prior_delivered: s.delivered,
            total_delivered: self.delivered,
            app_limited: s.app_limited,
            tx_in_flight: s.tx_in_flight,
            rtt,
            lost: self.lost - s.lost,
            newly_lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoreboard::Marks;
    use proptest::prelude::*;

    fn ms(t: u64) -> Time {
        Time(t * 1_000_000)
    }

    /// Segment number `n` from 0, 1000 bytes each, sent for the `k`-th time.
    fn segment(n: u64, k: u16) -> Sent {
        Sent {
            seq: 1000 * n,
            first_sent: Time::ZERO,
            last_sent: Time::ZERO,
            len: 1000,
            transmissions: k,
            fin: false,
            marks: Marks::NONE,
        }
    }

    fn ack(r: &mut RateSampler, t: u64, up_to: u64) -> Option<RateSample> {
        let before = r.delivered;
        r.on_acknowledged(1000 * up_to);
        r.finish(ms(t), (1000 * up_to).saturating_sub(before))
    }

    /// Segments 0 and 1 leave at 0 and 10 ms, and segment 2 when the ACK of the first comes in at
    /// 100 ms.
    #[test]
    fn a_sample_counts_from_the_ack_before_the_segment_left() {
        let mut r = RateSampler::new(None);
        r.on_sent(ms(0), &segment(0, 1), 0, true);
        r.on_sent(ms(10), &segment(1, 1), 0, false);
        let s = ack(&mut r, 100, 1).unwrap();
        assert_eq!(
            (s.delivered, s.interval, s.rate, s.prior_delivered),
            (1000, Duration::millis(100), 10_000.0, 0)
        );
        assert_eq!(
            (s.rtt, s.tx_in_flight, s.app_limited),
            (Some(Duration::millis(100)), 1000, false)
        );
        r.on_sent(ms(100), &segment(2, 1), 0, false);
        let s = ack(&mut r, 110, 2).unwrap();
        assert_eq!((s.delivered, s.interval, s.prior_delivered), (2000, Duration::millis(110), 0));
        let s = ack(&mut r, 200, 3).unwrap();
        assert_eq!((s.delivered, s.interval, s.rate), (2000, Duration::millis(100), 20_000.0));
        assert_eq!(
            (s.prior_delivered, s.total_delivered, s.rtt),
            (1000, 3000, Some(Duration::millis(100)))
        );
    }

    /// Four segments leave 10 ms apart after the ACK at 100 ms; their ACKs arrive within 3 ms. By
    /// the ACKs alone the last sample would be 4000 bytes in 103 ms; it is the sending, from 0 to
    /// 130 ms, that says how fast it can have been.
    #[test]
    fn compressed_acks_do_not_make_a_rate_above_that_of_sending() {
        let mut r = RateSampler::new(None);
        r.on_sent(ms(0), &segment(0, 1), 0, true);
        ack(&mut r, 100, 1);
        for n in 1..=4 {
            r.on_sent(ms(90 + 10 * n), &segment(n, 1), 0, false);
        }
        for n in 2..=4 {
            ack(&mut r, 200 + n - 2, n);
        }
        let s = ack(&mut r, 203, 5).unwrap();
        assert_eq!((s.delivered, s.interval), (4000, Duration::millis(130)));
        assert_eq!(s.rate, 4000.0 / 0.130);
    }

    #[test]
    fn an_idle_time_is_no_part_of_a_sample() {
        let mut r = RateSampler::new(None);
        r.on_sent(ms(0), &segment(0, 1), 0, true);
        ack(&mut r, 50, 1);
        r.on_sent(ms(5000), &segment(1, 1), 0, true);
        assert_eq!(ack(&mut r, 5050, 2).unwrap().interval, Duration::millis(50));
    }

    /// The bubble: marked with 2000 bytes delivered and 1000 in flight, so all that leaves before
    /// more than 3000 are delivered.
    #[test]
    fn what_leaves_behind_a_bubble_is_limited_by_the_application_until_it_has_passed() {
        let mut r = RateSampler::new(None);
        for n in 0..3 {
            r.on_sent(ms(10 * n), &segment(n, 1), 0, n == 0);
        }
        ack(&mut r, 100, 2);
        r.mark_app_limited();
        r.on_sent(ms(105), &segment(3, 1), 0, false);
        assert!(!ack(&mut r, 120, 3).unwrap().app_limited, "it left before the bubble");
        r.on_sent(ms(120), &segment(4, 1), 0, false);
        assert!(ack(&mut r, 205, 4).unwrap().app_limited);
        r.on_sent(ms(206), &segment(5, 1), 0, false);
        assert!(ack(&mut r, 220, 5).unwrap().app_limited);
        assert!(!ack(&mut r, 306, 6).unwrap().app_limited);
    }

    /// SACK delivers segment 2, then the retransmission of segment 1 fills the hole. Each counts
    /// once.
    #[test]
    fn sacked_segments_count_once_and_retransmissions_give_no_round_trip_time() {
        let mut r = RateSampler::new(None);
        for n in 0..3 {
            r.on_sent(ms(n), &segment(n, 1), 0, n == 0);
        }
        ack(&mut r, 100, 1);
        r.on_delivered(1, 2000);
        let s = r.finish(ms(102), 1000).unwrap();
        assert_eq!((s.delivered, s.rtt), (2000, Some(Duration::millis(100))));
        assert_eq!(
            r.on_lost(ms(103), 1000, 0).map(|l| (l.bytes, l.lost, l.tx_in_flight)),
            Some((1000, 1000, 2000))
        );
        assert!(r.on_lost(ms(103), 1000, 0).is_none(), "once");
        assert!(r.on_lost(ms(103), 2000, 0).is_none(), "it has arrived");
        r.on_sent(ms(103), &segment(1, 2), 0, false);
        r.on_acknowledged(3000);
        let s = r.finish(ms(203), 1000).unwrap();
        // Sent at 103 with 2000 bytes delivered by 102 ms; nothing was lost after that.
        assert_eq!(
            (s.delivered, s.interval, s.total_delivered),
            (1000, Duration::millis(101), 3000)
        );
        assert_eq!((s.rtt, s.lost, s.newly_lost), (None, 0, 0), "an earlier event found it lost");
    }

    /// What the ACK finds lost is of the ACK; what a timer found before it is not (`tcp_ack`).
    #[test]
    fn losses_that_a_timer_found_are_of_no_ack() {
        let mut r = RateSampler::new(None);
        for n in 0..6 {
            r.on_sent(ms(n), &segment(n, 1), 0, n == 0);
        }
        ack(&mut r, 100, 1);
        r.on_delivered(2, 3000);
        r.on_lost(ms(102), 1000, 0);
        r.on_lost(ms(102), 2000, 0);
        assert_eq!(r.finish(ms(102), 1000).map(|s| s.newly_lost), Some(2000));
        r.on_lost(ms(103), 4000, 0);
        r.on_delivered(4, 5000);
        assert_eq!(r.finish(ms(105), 1000).map(|s| (s.newly_lost, s.lost)), Some((0, 3000)));
    }

    /// The ACK that tells of a loss delivers two segments: they count before the loss does.
    #[test]
    fn a_loss_is_told_with_what_its_ack_delivers() {
        let mut r = RateSampler::new(None);
        for n in 0..4 {
            r.on_sent(ms(n), &segment(n, 1), 0, n == 0);
        }
        ack(&mut r, 100, 1);
        r.on_delivered(1, 2000);
        r.on_delivered(2, 3000);
        assert_eq!(r.on_lost(ms(103), 1000, 0).map(|l| l.delivered), Some(3000));
        assert_eq!(r.finish(ms(103), 2000).map(|s| s.total_delivered), Some(3000));
    }

    /// A spurious retransmission: the ACK of the first copy comes 5 ms after the second left.
    #[test]
    fn an_interval_below_the_smallest_round_trip_gives_no_sample() {
        let mut r = RateSampler::new(Some(Duration::millis(40)));
        r.on_sent(ms(0), &segment(0, 1), 0, true);
        ack(&mut r, 50, 1);
        r.on_sent(ms(50), &segment(1, 1), 0, true);
        r.on_sent(ms(195), &segment(1, 2), 0, true);
        assert!(ack(&mut r, 200, 2).is_none());
    }

    proptest! {
        /// Whatever is sent, SACKed, lost and acknowledged: bytes count once, and a rate is what
        /// the sample says.
        #[test]
        fn deliveries_add_up(steps in prop::collection::vec((0u8..5, 0u64..20, 1u64..50), 1..200)) {
            let (mut r, mut now, mut next, mut una) = (RateSampler::new(None), 0, 0u64, 0u64);
            let mut has = std::collections::BTreeSet::new();
            for (what, which, dt) in steps {
                now += dt;
                let n = (una + which).min(next.saturating_sub(1));
                let mut newly = 0;
                match what {
                    0 | 1 => {
                        r.on_sent(ms(now), &segment(next, 1), 0, next == una);
                        next += 1;
                        continue;
                    }
                    2 if n >= una && n < next && has.insert(n) => {
                        r.on_delivered((n - una) as usize, 1000 * n);
                        newly = 1;
                    }
                    3 if n >= una && n < next && !has.contains(&n) => {
                        r.on_lost(ms(now), 1000 * n, 0);
                        r.on_sent(ms(now), &segment(n, 2), 0, false);
                        continue;
                    }
                    4 if next > una => {
                        newly = (una..=n).filter(|k| has.insert(*k)).count() as u64;
                        una = n + 1;
                        r.on_acknowledged(1000 * una);
                    }
                    _ => {}
                }
                if let Some(s) = r.finish(ms(now), 1000 * newly) {
                    prop_assert!(s.rate.is_finite() && s.rate > 0.0 && s.interval > Duration::ZERO);
                    let (rated, delivered) = (s.rate * s.interval.as_secs(), s.delivered as f64);
                    prop_assert!((rated - delivered).abs() < 1e-6 * delivered);
                    prop_assert_eq!(s.total_delivered, 1000 * has.len() as u64);
                    prop_assert!(s.prior_delivered + s.delivered == s.total_delivered);
                }
                prop_assert!(r.snapshots.len() as u64 == next - una);
            }
        }
    }
}
