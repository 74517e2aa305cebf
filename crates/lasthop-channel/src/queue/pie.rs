//! PIE, proportional integral controller enhanced: an arriving frame is dropped or marked with a
//! probability that follows the queueing delay and its trend.
//!
//! Source: RFC 8033, with its constants: the probability of section 4.2 with the scaling of its
//! table, the burst allowance (4.4), ECN (5.1), the cap of the increase (5.5) and the drops that
//! are spaced (5.4). As in Linux (`sch_pie.c` without `dq_rate_estimator`), the delay is that of
//! the frame that left last, 0 if that left an empty queue; above 250 ms, the probability rises by
//! a further 2 % in each update.
//!
//! Linux updates by a timer. Here, the updates that were due are made when a frame arrives or
//! leaves, which is the same: what they read changes only then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discipline::{
    Fault, Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued,
};
use super::drop_reason;
use super::fifo::Fifo;
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, QueueLimit, Time};

/// Proportional integral controller: drops or marks arriving frames with a probability that follows
/// the queueing delay. Default limit: 1000 packets, as in Linux (tc-pie(8)).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pie {
    /// Queueing delay that the controller aims at. Default: 15 ms (RFC 8033, section 5.1).
    pub target: Duration,
    /// Time between two updates of the probability. Default: 15 ms (RFC 8033, section 5.1).
    pub tupdate: Duration,
    /// Weight of the deviation from the target, per second. Default: 0.125 (RFC 8033, section
    /// 5.1); tc-pie(8) has sixteenths, 2.
    pub alpha: f64,
    /// Weight of the change of the delay, per second. Default: 1.25 (RFC 8033, section 5.1);
    /// tc-pie(8) has sixteenths, 20.
    pub beta: f64,
    /// Time for which nothing is dropped after an empty queue. Default: 150 ms (RFC 8033, section
    /// 5.1).
    pub burst: Duration,
    /// Mark ECN-capable frames instead of dropping them while the probability is at most 10 %.
    /// Default: false, as in Linux.
    pub ecn: bool,
}

impl Default for Pie {
    fn default() -> Self {
        Pie {
            target: Duration::millis(15),
            tupdate: Duration::millis(15),
            alpha: 0.125,
            beta: 1.25,
            burst: Duration::millis(150),
            ecn: false,
        }
    }
}

impl QueueSettings for Pie {
    type Queue = PieQueue;
    const IS_RANDOM: bool = true;

    fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> PieQueue {
        PieQueue {
            fifo: Fifo::new(limit),
            law: Law { settings: *self, ..Law::default() },
            next_update: Time::ZERO + self.tupdate,
            passed: 0.0,
            small: 2 * u64::from(link.full_frame),
            arrived: 0,
            draws: Stream::new(link.seed, &format!("pie {}", link.name)),
        }
    }

    fn default_limit() -> Option<QueueLimit> {
        Some(QueueLimit::Packets(1000))
    }

    fn check(&self) -> Result<(), Fault> {
        for (key, time) in [("target", self.target), ("tupdate", self.tupdate)] {
            if time == Duration::ZERO {
                return Err((key, "must be above 0 s".into()));
            }
        }
        for (key, weight) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !(0.0..=2.0).contains(&weight) {
                return Err((key, format!("expected 0 to 2 per second, found {weight}")));
            }
        }
        Ok(())
    }

    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        frame.is_arriving && (reason == drop_reason::PIE || frame.exceeds_limit)
    }

    fn may_mark(&self, reason: &str, frame: &Queued) -> bool {
        self.ecn && reason == drop_reason::PIE && frame.is_arriving
    }

    fn sample(s: &mut Sample<'_>) -> Self {
        Pie {
            target: s.millis(1, 50),
            tupdate: s.millis(1, 30),
            alpha: s.between(0.0, 2.0),
            beta: s.between(0.0, 2.0),
            burst: s.millis(0, 200),
            ecn: s.flag(),
        }
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// PIE's random early drop or mark.
    pub const PIE: &str = "pie";
}

/// Delay above which the probability rises faster (Linux).
const LONG: Duration = Duration::millis(250);

/// The probability of a drop (RFC 8033, section 4.2).
#[derive(Clone, Debug, Default, PartialEq)]
struct Law {
    settings: Pie,
    probability: f64,
    /// Queueing delay now, and at the last update.
    delay: Duration,
    delay_before: Duration,
    /// Time for which nothing is dropped yet; `None` before the first update.
    allowance: Option<Duration>,
}

impl Law {
    fn allowance(&self) -> Duration {
        self.allowance.unwrap_or(self.settings.burst)
    }

    /// Updates the probability, once in `tupdate`.
    fn update(&mut self) {
        let Pie { target, tupdate, alpha, beta, burst, .. } = self.settings;
        let [now, before] = [self.delay, self.delay_before].map(Duration::as_secs);
        let mut change =
            scale(self.probability) * (alpha * (now - target.as_secs()) + beta * (now - before));
        if self.probability >= 0.1 {
            change = change.min(0.02);
        }
        if self.delay > LONG {
            change += 0.02;
        }
        self.probability = (self.probability + change).clamp(0.0, 1.0);
        if self.delay == Duration::ZERO && self.delay_before == Duration::ZERO {
            self.probability *= 1.0 - 1.0 / 64.0;
        }
        let is_short = |delay: Duration| delay * 2 < target;
        self.allowance = Some(
            if self.probability == 0.0 && is_short(self.delay) && is_short(self.delay_before) {
                burst
            } else {
                self.allowance().saturating_sub(tupdate)
            },
        );
        self.delay_before = self.delay;
    }
}

/// Factor of a change: small probabilities change in smaller steps (RFC 8033, section 4.2).
fn scale(probability: f64) -> f64 {
    let mut factor = 1.0;
    let mut below = 0.1;
    while probability < below && below > 5e-7 {
        factor /= if below == 0.1 { 2.0 } else { 4.0 };
        below /= 10.0;
    }
    factor
}

/// A queue with PIE.
#[derive(Clone, Debug)]
pub struct PieQueue {
    fifo: Fifo,
    law: Law,
    next_update: Time,
    /// Sum of the probabilities of the frames since the last drop or mark.
    passed: f64,
    /// Bytes below which nothing is dropped early: two full frames.
    small: u64,
    arrived: u64,
    draws: Stream,
}

impl PieQueue {
    /// Makes the updates that were due before now.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let before = self.law.clone();
            self.law.update();
            self.next_update += self.law.settings.tupdate;
            if self.law == before && self.next_update <= now {
                let tupdate = self.law.settings.tupdate;
                let updates = (now - self.next_update).0 / tupdate.0;
                self.next_update += tupdate * updates;
            }
        }
    }

    /// True if an arriving frame is to be dropped early. Drops are spaced: none until the
    /// probabilities of the frames before have a sum of 0.85, and one at a sum of 8.5 (RFC 8033,
    /// section 5.4).
    fn drops_early(&mut self) -> bool {
        let ordinal = self.arrived;
        self.arrived += 1;
        let Law { settings, probability, delay_before, .. } = self.law;
        let is_calm = delay_before * 2 < settings.target && probability < 0.2;
        if self.law.allowance() > Duration::ZERO || is_calm || self.fifo.load().bytes < self.small {
            return false;
        }
        self.passed = if probability == 0.0 { 0.0 } else { self.passed + probability };
        if self.passed < 0.85 {
            return false;
        }
        let hit = self.passed >= 8.5 || self.draws.uniform(ordinal) < probability;
        if hit {
            self.passed = 0.0;
        }
        hit
    }
}

impl QueueDiscipline for PieQueue {
    fn enqueue(&mut self, now: Time, mut frame: Frame, outcomes: &mut Vec<Outcome>) {
        self.catch_up(now);
        if !self.fifo.has_room(frame.bytes) {
            self.passed = 0.0;
            return frame.drop(drop_reason::FULL, outcomes);
        }
        if self.drops_early() {
            let marks = self.law.settings.ecn && self.law.probability <= 0.1;
            if !(marks && frame.mark(drop_reason::PIE, outcomes)) {
                return frame.drop(drop_reason::PIE, outcomes);
            }
        }
        self.fifo.push(frame);
    }

    fn dequeue(&mut self, now: Time, _outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        self.catch_up(now);
        let frame = self.fifo.pop()?;
        let is_empty = self.fifo.load().packets == 0;
        self.law.delay = if is_empty { Duration::ZERO } else { now - frame.at };
        Some(frame)
    }

    fn pass(&mut self, now: Time, _frame: Frame, _outcomes: &mut Vec<Outcome>) -> bool {
        self.catch_up(now);
        self.law.delay = Duration::ZERO;
        true
    }

    fn load(&self) -> Load {
        self.fifo.load()
    }

    fn has_room(&self, bytes: u32) -> bool {
        self.fifo.has_room(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, ECT, FACTS, PLAIN, at};
    use super::*;

    fn updated(probability: f64, [before, now]: [u64; 2]) -> f64 {
        let [delay_before, delay] = [before, now].map(Duration::millis);
        let mut law = Law { probability, delay, delay_before, ..Law::default() };
        law.update();
        assert_eq!(law.delay_before, delay);
        law.probability
    }

    /// The table of RFC 8033, section 4.2.
    #[test]
    fn changes_are_scaled_by_the_probability() {
        let divisors = [
            (5e-7, 2048.0),
            (5e-6, 512.0),
            (5e-5, 128.0),
            (5e-4, 32.0),
            (5e-3, 8.0),
            (0.05, 2.0),
            (0.1, 1.0),
            (0.5, 1.0),
        ];
        for (probability, divisor) in divisors {
            assert_eq!(1.0 / scale(probability), divisor, "{probability}");
        }
        assert_eq!(1.0 / scale(0.0), 2048.0);
    }

    /// 0.125 · (20 ms - 15 ms) + 1.25 · (20 ms - 10 ms) = 0.013125, halved for 5 %.
    #[test]
    fn the_probability_follows_the_delay_and_its_trend() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(updated(0.05, [10, 20]), 0.05 + 0.013125 / 2.0);
        near(updated(0.05, [20, 10]), 0.05 - 0.013125 / 2.0);
        near(updated(0.2, [15, 15]), 0.2);
        // At most 2 % at a time from 10 % on, and 2 % more above 250 ms.
        near(updated(0.2, [100, 200]), 0.22);
        near(updated(0.09, [100, 200]), 0.09 + (0.125 * 0.185 + 1.25 * 0.1) / 2.0);
        near(updated(0.2, [200, 251]), 0.24);
        near(updated(0.99, [200, 300]), 1.0);
        near(updated(0.001, [100, 0]), 0.0);
        // Without a queue, 1/64 less each time.
        near(updated(0.5, [0, 0]), (0.5 - 0.125 * 0.015) * 63.0 / 64.0);
    }

    /// A standing queue of 200 ms at 800 kbit/s, kept full by a new frame for each that leaves.
    fn standing(settings: Pie, flags: lasthop_core::segment::Flags, until: u64) -> Bench<PieQueue> {
        let mut b = Bench::new(settings.build(Some(QueueLimit::Packets(100)), &FACTS));
        b.offer_all(0, 20, flags);
        for (handle, ms) in (20..).zip((10..until).step_by(10)) {
            b.take(ms);
            b.offer(ms, handle, flags);
        }
        b
    }

    #[test]
    fn bursts_are_not_dropped() {
        assert!(standing(Pie::default(), PLAIN, 150).outcomes.is_empty());
        // Without an allowance the same queue has drops in this time.
        let strict = Pie { burst: Duration::ZERO, alpha: 2.0, beta: 2.0, ..Pie::default() };
        let without = standing(strict, PLAIN, 1500);
        assert!(!without.dropped().is_empty());
        assert!(without.dropped().iter().all(|d| d.1 == drop_reason::PIE));
        // The allowance returns when the queue has been short for two updates.
        let mut law = standing(Pie::default(), PLAIN, 400).queue.law;
        assert_eq!(law.allowance(), Duration::ZERO);
        (law.probability, law.delay, law.delay_before) = (0.0, Duration::ZERO, Duration::ZERO);
        law.update();
        assert_eq!(law.allowance(), Duration::millis(150));
    }

    /// With a probability of 10 %, at least 8 and at most 85 frames pass between two drops.
    #[test]
    fn drops_are_spaced() {
        let mut b = Bench::new(Pie::default().build(None, &FACTS));
        b.offer_all(0, 20, PLAIN);
        let mut passed = Vec::new();
        let mut run = 0;
        for _ in 0..10_000 {
            let law = &mut b.queue.law;
            law.probability = 0.1;
            (law.delay_before, law.allowance) = (Duration::millis(20), Some(Duration::ZERO));
            if b.queue.drops_early() {
                passed.push(run);
                run = 0;
            } else {
                run += 1;
            }
        }
        assert!(passed.iter().all(|n| (8..85).contains(n)), "{passed:?}");
        // 8 frames, and then 10 in the mean.
        let mean = passed.iter().sum::<u64>() as f64 / passed.len() as f64;
        assert!((mean - 17.0).abs() < 1.0, "{mean}");
    }

    /// What happens to 1000 frames at this probability: the numbers of those marked and dropped.
    fn acted(settings: Pie, flags: lasthop_core::segment::Flags, probability: f64) -> [usize; 2] {
        let mut b = Bench::new(settings.build(None, &FACTS));
        b.queue.law.probability = probability;
        b.queue.law.allowance = Some(Duration::ZERO);
        b.queue.law.delay_before = Duration::millis(20);
        b.offer_all(0, 1000, flags);
        [b.marked().len(), b.dropped().len()]
    }

    #[test]
    fn frames_are_marked_up_to_ten_percent() {
        let ecn = Pie { ecn: true, ..Pie::default() };
        let [marked, dropped] = acted(ecn, ECT, 0.1);
        assert!(marked > 30 && dropped == 0, "{marked} {dropped}");
        assert_eq!(acted(ecn, PLAIN, 0.1), [0, marked]);
        assert_eq!(acted(Pie::default(), ECT, 0.1), [0, marked]);
        let [marked, dropped] = acted(ecn, ECT, 0.11);
        assert!(marked == 0 && dropped > 30, "{marked} {dropped}");
    }

    #[test]
    fn two_frames_are_never_dropped() {
        let mut b = Bench::new(Pie::default().build(None, &FACTS));
        b.queue.law.probability = 1.0;
        b.queue.law.allowance = Some(Duration::ZERO);
        b.queue.law.delay_before = Duration::millis(500);
        b.offer_all(0, 2, PLAIN);
        assert!(b.outcomes.is_empty());
        (2..20).for_each(|i| b.offer(0, i, PLAIN));
        assert_eq!(b.dropped().len(), 18);
    }

    /// An idle time of an hour is 240 000 updates, of which nearly all change nothing.
    #[test]
    fn the_probability_falls_while_the_link_is_idle() {
        let mut b = standing(Pie::default(), PLAIN, 5000);
        assert!(b.queue.law.probability > 0.01);
        b.take_all(5000);
        b.pass(5001, 0, PLAIN);
        b.queue.catch_up(at(3_600_000));
        assert_eq!(b.queue.law.probability, 0.0);
        assert!(b.queue.next_update > at(3_600_000));
        assert!(b.queue.next_update <= at(3_600_015));
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let key = |pie: Pie| pie.check().map_err(|e| e.0);
        let pie = Pie::default();
        assert_eq!(key(pie), Ok(()));
        assert_eq!(key(Pie { target: Duration::ZERO, ..pie }), Err("target"));
        assert_eq!(key(Pie { tupdate: Duration::ZERO, ..pie }), Err("tupdate"));
        assert_eq!(key(Pie { alpha: 2.1, ..pie }), Err("alpha"));
        assert_eq!(key(Pie { beta: f64::NAN, ..pie }), Err("beta"));
    }
}
