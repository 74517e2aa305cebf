//! Components of both versions of BBR: packet-timed round trips, windowed maxima, pacing.

use lasthop_core::units::{Duration, Rate, Time};
use lasthop_tcp::pacing::{after_credit, quantum};
use lasthop_tcp::rate::RateSample;

/// The pacing rate is 1 % below the estimated bandwidth, so that a queue drains.
const PACING_MARGIN: f64 = 0.99;

/// The smallest whole number not below `x`, for 0 <= x < 2^53: faster than the general function,
/// which branches.
#[inline]
pub fn ceil(x: f64) -> f64 {
    let below = x as i64 as f64;
    if below < x { below + 1.0 } else { below }
}

/// The larger of two numbers, neither of which is NaN: faster than the general function, which
/// branches.
#[inline]
pub fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The smaller of two numbers, neither of which is NaN.
#[inline]
pub fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Packet-timed round trips: a round ends when a segment is delivered that was sent after the round
/// began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacketRounds {
    /// Rounds so far.
    pub count: u64,
    /// True if this ACK begins a round.
    pub started: bool,
    /// Bytes delivered on the connection at which the next round begins.
    pub next_delivered: u64,
}

impl PacketRounds {
    /// Processes the rate sample of an ACK.
    pub fn on_ack(&mut self, sample: Option<&RateSample>) {
        self.started = sample.is_some_and(|s| s.prior_delivered >= self.next_delivered);
        if let Some(s) = sample.filter(|_| self.started) {
            self.next_delivered = s.total_delivered;
            self.count += 1;
        }
    }

    /// A round begins now. `delivered`: bytes delivered on the connection until now.
    pub fn restart(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

/// Maximum length of the window, in rounds.
const SLOTS: usize = 16;

/// Windowed maximum over rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowedMax {
    /// Maximum of each round, indexed by its number modulo `SLOTS`.
    slots: [f64; SLOTS],
    newest: u64,
    max: f64,
}

impl WindowedMax {
    /// Adds a value in round `now`, which does not decrease; the maximum covers `window` rounds
    /// before it.
    #[inline]
    pub fn update(&mut self, now: u64, window: u64, value: f64) {
        if now > self.newest {
            self.begin(now, window.min(SLOTS as u64 - 1));
        }
        let slot = &mut self.slots[(now % SLOTS as u64) as usize];
        *slot = larger(*slot, value);
        self.max = larger(self.max, value);
    }

    /// Round `now` begins.
    #[inline(never)]
    fn begin(&mut self, now: u64, window: u64) {
        for round in (self.newest + 1..=now).rev().take(SLOTS) {
            self.slots[(round % SLOTS as u64) as usize] = 0.0;
        }
        self.newest = now;
        self.max = (0..=window.min(now))
            .map(|ago| self.slots[((now - ago) % SLOTS as u64) as usize])
            .fold(0.0, f64::max);
    }

    /// The maximum.
    pub fn get(&self) -> f64 {
        self.max
    }
}

/// Growth of the rate per round that counts as growth, and the number of rounds without it after
/// which the pipe is full.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// Detects that a higher rate brings no more delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FullPipe {
    /// The rate that a higher one must exceed, bytes per second.
    pub base: f64,
    /// Rounds without growth.
    pub rounds: u32,
    /// The bandwidth has stopped growing since the last `restart`.
    pub now: bool,
    /// It has stopped growing at any time.
    pub ever: bool,
}

impl FullPipe {
    /// Processes the rate of a round that was not application-limited.
    pub fn check(&mut self, rate: f64) {
        self.check_each(rate, true);
    }

    /// As `check`, for a rate within a round.
    pub fn check_each(&mut self, rate: f64, round_ended: bool) {
        if self.now {
            return;
        }
        if rate >= FULL_GROWTH * self.base {
            return self.restart(rate);
        }
        self.rounds += u32::from(round_ended);
        self.now = self.rounds >= FULL_ROUNDS;
        self.ever |= self.now;
    }

    /// Starts another search for bandwidth above `base`.
    pub fn restart(&mut self, base: f64) {
        (self.base, self.rounds, self.now) = (base, 0, false);
    }
}

/// Minimum time in ProbeRTT after the volume in flight is low enough; one round is added.
const PROBE_RTT_TIME: Duration = Duration::millis(200);

/// The time in ProbeRTT.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stay {
    end: Option<Time>,
    round: bool,
}

impl Stay {
    /// Processes an ACK; `low` if the volume in flight is low enough. True if ProbeRTT ends.
    pub fn on_ack(
        &mut self,
        now: Time,
        low: bool,
        rounds: &mut PacketRounds,
        delivered: u64,
    ) -> bool {
        if self.end.is_some() {
            self.round |= rounds.started;
            return self.round && self.over(now);
        }
        if low {
            (self.end, self.round) = (Some(now + PROBE_RTT_TIME), false);
            rounds.restart(delivered);
        }
        false
    }

    /// True if the time is over.
    pub fn over(&self, now: Time) -> bool {
        self.end.is_some_and(|end| now > end)
    }
}

/// The pacing rate and what follows from it, computed only when the rate changes: once in many
/// ACKs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacingRate {
    /// Bytes per second.
    exact: f64,
    rate: Rate,
    mss: f64,
    quantum: f64,
}

impl Default for PacingRate {
    fn default() -> Self {
        PacingRate { exact: 0.0, rate: Rate(1), mss: 1.0, quantum: 1.0 }
    }
}

impl PacingRate {
    /// `gain` times `bandwidth` (bytes per second) less the margin.
    pub fn set(&mut self, gain: f64, bandwidth: f64) {
        self.set_exact(gain * bandwidth * PACING_MARGIN);
    }

    /// As `set`, but never lowers the rate.
    pub fn raise(&mut self, gain: f64, bandwidth: f64) {
        self.set_exact(self.exact.max(gain * bandwidth * PACING_MARGIN));
    }

    /// Rate at the start of a connection with segments of `mss` bytes: `window` bytes per round
    /// trip, or per millisecond while no round-trip time is known.
    pub fn start(&mut self, gain: f64, window: f64, rtt: Option<Duration>, mss: f64) {
        self.mss = mss;
        self.exact = f64::NAN;
        self.set(
            gain,
            window / rtt.unwrap_or(Duration::millis(1)).max(Duration::micros(1)).as_secs(),
        );
    }

    #[inline]
    fn set_exact(&mut self, exact: f64) {
        if exact != self.exact {
            self.change(exact);
        }
    }

    #[inline(never)]
    fn change(&mut self, exact: f64) {
        self.exact = exact;
        self.rate = Rate(((exact * 8.0) as u64).max(1));
        self.quantum = f64::from(quantum(self.rate, self.mss as u32));
    }

    /// The rate for the sender.
    #[inline]
    pub fn get(&self) -> Rate {
        self.rate
    }

    /// Bytes sent as one burst.
    #[inline]
    pub fn quantum(&self) -> f64 {
        self.quantum
    }
}

/// When the next segment leaves by the pacing rate (Linux `tcp_wstamp_ns`): what is in flight then
/// is less than now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Departure {
    at: Time,
    /// Bytes and rate of the last segment, and the time that it took at that rate.
    gap: (u32, Rate, Duration),
}

impl Departure {
    /// `bytes` leave, of segments of `mss` bytes: the next segment leaves as much later as they
    /// take at `rate` (`tcp_update_skb_after_send`).
    pub fn on_sent(&mut self, now: Time, bytes: u32, rate: Rate, mss: f64) {
        if (self.gap.0, self.gap.1) != (bytes, rate) {
            self.gap = (bytes, rate, rate.time_for(u64::from(bytes)));
        }
        let mut gap = self.gap.2;
        if f64::from(bytes) > mss {
            gap = after_credit(gap, now.since(self.at));
        }
        self.at = self.at.max(now) + gap;
    }

    /// Bytes in flight then, with `leaving` bytes that leave, if `in_flight` are now and the path
    /// delivers whole segments at `bandwidth` (`bbr_packets_in_net_at_edt`).
    pub fn in_net(&self, in_flight: f64, leaving: f64, bandwidth: f64, mss: f64, now: Time) -> f64 {
        let delivered = bandwidth * self.at.max(now).since(now).as_secs();
        larger(in_flight + leaving - mss * libm::floor(delivered / mss), 0.0)
    }

    /// The time itself.
    #[cfg(test)]
    pub fn set(&mut self, at: Time) {
        self.at = at;
    }
}

/// ACK aggregation: bytes delivered in an interval beyond the bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregation {
    since: Time,
    delivered: f64,
}

impl Aggregation {
    /// Starts an interval.
    pub fn new(now: Time) -> Self {
        Aggregation { since: now, delivered: 0.0 }
    }

    /// Processes an ACK for `bytes`: returns the excess, at most `cwnd`. The interval ends when
    /// delivery falls behind the bandwidth.
    pub fn on_ack(&mut self, now: Time, bytes: u64, bandwidth: f64, cwnd: f64) -> f64 {
        let mut expected = bandwidth * now.since(self.since).as_secs();
        if self.delivered <= expected {
            *self = Aggregation::new(now);
            expected = 0.0;
        }
        self.delivered += bytes as f64;
        smaller(self.delivered - expected, cwnd)
    }
}

#[cfg(test)]
pub mod path {
    //! A minimal path for tests: a bottleneck with an unlimited queue, and a sender that obeys
    //! pacing and cwnd.

    use crate::testing::harness::{ack, loss, start, window};
    use lasthop_core::segment::FlowId;
    use lasthop_core::units::{Duration, Time};
    use lasthop_tcp::rate::RateSampler;
    use lasthop_tcp::scoreboard::{Marks, Sent};
    use lasthop_tcp::window::{Ack, Loss, Lost, Start, Window, WindowRule};
    use std::collections::VecDeque;

    /// An application that writes segment by segment at a rate; by default it is unlimited.
    #[derive(Clone, Copy)]
    pub struct App {
        since: Time,
        rate: f64,
        written: f64,
    }

    impl Default for App {
        fn default() -> Self {
            App::at(Time::ZERO, f64::INFINITY)
        }
    }

    impl App {
        /// From `since` on, at `rate` bytes per second; 0: nothing.
        pub fn at(since: Time, rate: f64) -> Self {
            App { since, rate, written: 0.0 }
        }

        fn next(&self) -> Time {
            if self.rate == 0.0 {
                Time::NEVER
            } else {
                self.since + Duration::from_secs_f64(self.written / self.rate)
            }
        }
    }

    /// A token bucket (bytes per second, bytes) that drops segments without tokens.
    #[derive(Clone, Copy)]
    pub struct Policer {
        rate: f64,
        bucket: f64,
        tokens: f64,
        at: Time,
    }

    impl Policer {
        /// A bucket that is full at the start.
        pub fn new(rate: f64, bucket: f64) -> Option<Self> {
            Some(Policer { rate, bucket, tokens: bucket, at: Time::ZERO })
        }

        fn drops(&mut self, now: Time) -> bool {
            self.tokens = self.bucket.min(self.tokens + self.rate * (now - self.at).as_secs());
            self.at = now;
            let short = self.tokens < 1000.0;
            self.tokens -= if short { 0.0 } else { 1000.0 };
            short
        }
    }

    /// Segments of 1000 bytes, numbered from 0, over a bottleneck of `rate` bytes per second and a
    /// round trip of `delay`.
    pub struct Path<R> {
        pub rule: R,
        pub w: Window,
        pub now: Time,
        pub rate: f64,
        pub delay: Duration,
        /// One segment in this number is lost; 0: none.
        pub lose_every: u64,
        /// Segments lost so far.
        pub lost: u64,
        pub app: App,
        /// Size of the bottleneck's queue, bytes.
        pub queue: f64,
        pub policer: Option<Policer>,
        /// ACKs arrive together, once in this interval.
        pub batch: Duration,
        /// The rule is notified of recoveries, which end when the data outstanding at their
        /// beginning is acknowledged.
        pub recovers: bool,
        pub recovery_point: u64,
        pub sampler: RateSampler,
        /// (number, arrival of its ACK, whether it is lost), in order of sending.
        pub flying: VecDeque<(u64, Time, bool)>,
        pub next: u64,
        pub una: u64,
        pub free_at: f64,
        pub next_send: Time,
        pub sent: u64,
    }

    impl<R: WindowRule> Path<R> {
        pub fn new(mut rule: R, flow: FlowId, rate: f64, delay_ms: u64) -> Self {
            let mut w = window(10.0, f64::INFINITY);
            let delay = Duration::millis(delay_ms);
            rule.on_established(
                &mut w,
                &Start { flow, draw: u64::from(flow), rtt: Some(delay), ..start() },
            );
            let sampler = RateSampler::new(Some(delay));
            let flying = VecDeque::new();
            Path {
                rule,
                w,
                now: Time::ZERO,
                rate,
                delay,
                lose_every: 0,
                lost: 0,
                app: App::default(),
                queue: f64::INFINITY,
                policer: None,
                batch: Duration::ZERO,
                recovers: false,
                recovery_point: 0,
                sampler,
                flying,
                next: 0,
                una: 0,
                free_at: 0.0,
                next_send: Time::ZERO,
                sent: 0,
            }
        }

        pub fn in_flight(&self) -> f64 {
            self.sampler.in_flight() as f64
        }

        /// Sets the bottleneck's rate (bytes per second), also for segments that are queued.
        pub fn change_rate(&mut self, rate: f64) {
            let (now, slower) = (self.now.as_secs(), self.rate / rate);
            let later =
                |leaves: f64| if leaves > now { now + (leaves - now) * slower } else { leaves };
            for (_, at, _) in &mut self.flying {
                let leaves = (*at - Time::ZERO).as_secs() - self.delay.as_secs();
                *at = Time::ZERO + Duration::from_secs_f64(later(leaves)) + self.delay;
            }
            (self.free_at, self.rate) = (later(self.free_at), rate);
        }

        fn send(&mut self) {
            let n = self.next;
            let seg = Sent {
                seq: 1000 * n,
                first_sent: self.now,
                last_sent: self.now,
                len: 1000,
                transmissions: 1,
                fin: false,
                marks: Marks::NONE,
            };
            self.sampler.on_sent(self.now, &seg, 0, self.sampler.in_flight() == 0);
            self.rule.on_sent(&mut self.w, self.now, 1000, self.sampler.in_flight());
            self.sent += 1;
            self.app.written += 1000.0;
            let waiting = (self.free_at - self.now.as_secs()).max(0.0) * self.rate;
            let dropped =
                waiting > self.queue || self.policer.as_mut().is_some_and(|p| p.drops(self.now));
            if !dropped {
                self.free_at = self.free_at.max(self.now.as_secs()) + 1000.0 / self.rate;
            }
            let mut arrival = Time::ZERO
                + Duration::from_secs_f64(self.free_at.max(self.now.as_secs()))
                + self.delay;
            if self.batch > Duration::ZERO {
                arrival = Time(arrival.0.next_multiple_of(self.batch.0));
            }
            let lost =
                dropped || (self.lose_every > 0 && self.sent.is_multiple_of(self.lose_every));
            self.flying.push_back((n, arrival, lost));
            self.next += 1;
            if let Some(rate) = self.rule.pacing() {
                self.next_send = self.next_send.max(self.now) + rate.time_for(1000);
            }
        }

        /// Sends a segment or processes the next ACK, whichever is first. Lost segments are not
        /// retransmitted: new ones replace them.
        pub fn step(&mut self) {
            let room = self.in_flight() + 1000.0 <= self.w.cwnd;
            let ack_at = self.flying.front().map_or(Time::NEVER, |f| f.1);
            let may_send = self.next_send.max(self.now).max(self.app.next());
            if room && may_send <= ack_at && may_send < Time::NEVER {
                self.now = may_send;
                return self.send();
            }
            if room && self.app.next() > self.now {
                self.sampler.mark_app_limited();
            }
            let Some((n, at, lost)) = self.flying.pop_front() else {
                self.now += Duration::millis(10);
                return;
            };
            self.now = self.now.max(at);
            if lost {
                self.lost += 1;
                if let Some(l) = self.sampler.on_lost(self.now, 1000 * n, 0) {
                    self.rule.on_lost(&mut self.w, &Lost { now: self.now, ..l });
                }
                if self.recovers && self.una >= self.recovery_point {
                    self.recovery_point = self.next;
                    self.rule.on_loss(
                        &mut self.w,
                        &Loss { now: self.now, snd_max: 1000 * self.next, ..loss(0) },
                    );
                }
                return;
            }
            self.una = n + 1;
            self.sampler.on_acknowledged(1000 * self.una);
            let rate = self.sampler.finish(self.now, 1000);
            let a = Ack {
                now: self.now,
                rate,
                flight: self.sampler.in_flight(),
                snd_una: 1000 * self.una,
                snd_max: 1000 * self.next,
                ..ack()
            };
            self.rule.on_any_ack(&mut self.w, &a);
            if self.rule.is_app_limited_by_rule() {
                self.sampler.mark_app_limited();
            }
        }

        /// The values of `shown` during the next `secs` seconds, each with its start (s).
        pub fn changes<M: PartialEq>(
            &mut self,
            secs: f64,
            shown: impl Fn(&R) -> M,
        ) -> Vec<(M, f64)> {
            let mut seen = vec![(shown(&self.rule), self.now.as_secs())];
            self.until(secs, |p| {
                let now = shown(&p.rule);
                if seen.last().is_none_or(|l| l.0 != now) {
                    seen.push((now, p.now.as_secs()));
                }
                false
            });
            seen
        }

        /// Steps until `done`, at most for `secs` seconds; true if `done` was reached.
        pub fn until(&mut self, secs: f64, mut done: impl FnMut(&Self) -> bool) -> bool {
            let end = self.now.as_secs() + secs;
            while self.now.as_secs() < end {
                self.step();
                if done(self) {
                    return true;
                }
            }
            false
        }
    }
}

#[cfg(test)]
mod tests;
