//! DualPI2, the coupled dual-queue AQM of L4S: frames of scalable transports have a separate,
//! shallow queue, and one controller couples the marks of both so that flows share the link.
//!
//! Source: RFC 9332 (sections 2.4 and 2.5, appendix A) and Linux (`sch_dualpi2.c`, since 6.17),
//! whose defaults these are. Frames with ECT(1) or CE enter the L queue, all others the C queue
//! (RFC 9331, section 5.1). A PI controller updates the probability p' from the delay of the frame
//! that has waited longest. The C queue drops with the probability p'^2, or marks what is ECT(0);
//! the L queue marks with k p'. In addition, the L queue marks frames that have waited longer than
//! `step`; with a `ramp`, with a probability that rises linearly over it (RFC 9332, figure 5).
//!
//! While frames wait in both queues, a weighted round robin gives the C queue a tenth of the link
//! (Linux, `dequeue_packet`), or the L queue is served unless the C queue has waited longer by a
//! time shift (RFC 9332, section 4.1.2: twice the target). From k p' = 1 on, the AQM is overloaded:
//! frames of both queues are dropped with p'^2, whatever their ECN field, and others of the L queue
//! are marked. The controller drops and marks nothing while less than two full frames wait.
//!
//! Linux updates by a timer. Here, the updates that were due are made when a frame arrives or
//! leaves: until then, the times that they read are those of the same frames.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discipline::{
    Fault, Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued,
};
use super::drop_reason;
use super::fifo::{Fifo, excess};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::segment::Flags;
use lasthop_core::units::{Duration, QueueLimit, Time};

/// Coupled dual-queue AQM of L4S (RFC 9332): frames with ECT(1) or CE have a separate,
/// shallow queue. Default limit: 10000 packets, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dualpi2 {
    /// Delay that the controller aims at. Default: 15 ms (RFC 9332, appendix A.1).
    pub target: Duration,
    /// Time between two updates of the probability. Default: 16 ms, as in Linux; RFC 9332, appendix
    /// A.1: 15 ms.
    pub tupdate: Duration,
    /// Weight of the deviation from the target, per second. Default: 0.16 (tc-dualpi2(8)); RFC
    /// 9332, appendix A.1: 0.15.
    pub alpha: f64,
    /// Weight of the change of the delay, per second. Default: 3.2 (tc-dualpi2(8)); RFC 9332,
    /// appendix A.1: 3.
    pub beta: f64,
    /// k, the probability in the L queue relative to the base probability. Default: 2 (RFC 9332,
    /// section 2.1).
    pub coupling: f64,
    /// Waiting time above which a frame of the L queue is marked. Default: 1 ms, as in Linux; RFC
    /// 9332, appendix A.1: from 0.8 ms on, with a ramp of 0.4 ms.
    pub step: Duration,
    /// Time beyond `step` over which the probability of this mark rises to 1. Default: 0, as in
    /// Linux.
    pub ramp: Duration,
    /// Frames that must wait behind a frame of the L queue for it to be marked by `step`. Default:
    /// 0, as in Linux, which counts them when the frame arrives.
    pub min_qlen_step: u64,
    /// Which queue is served while frames wait in both. Default: "wrr", as in Linux.
    pub scheduler: Scheduler,
    /// Share of the C queue under "wrr", percent. Default: 10, as in Linux.
    pub classic_protection: u32,
    /// Drop frames of both queues when the AQM is overloaded; otherwise p' is at most 1 / k.
    /// Default: true, as in Linux.
    pub drop_overload: bool,
}

/// Which of the two queues is served while frames wait in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Weighted round robin, by bytes (Linux).
    #[default]
    Wrr,
    /// Time-shifted FIFO: the L queue, unless the C queue has waited longer by twice the target
    /// (RFC 9332, section 4.1.2).
    TimeShifted,
}

impl Default for Dualpi2 {
    fn default() -> Self {
        Dualpi2 {
            target: Duration::millis(15),
            tupdate: Duration::millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            step: Duration::millis(1),
            ramp: Duration::ZERO,
            min_qlen_step: 0,
            scheduler: Scheduler::Wrr,
            classic_protection: 10,
            drop_overload: true,
        }
    }
}

impl QueueSettings for Dualpi2 {
    type Queue = Dualpi2Queue;
    const IS_RANDOM: bool = true;

    fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> Dualpi2Queue {
        let full = i64::from(link.full_frame);
        let first = full * (2 * i64::from(self.classic_protection) - 100);
        Dualpi2Queue {
            limit,
            l: Lane::new(link, "l"),
            c: Lane::new(link, "c"),
            law: Law { settings: *self, probability: 0.0, delay_before: Duration::ZERO },
            next_update: Time::ZERO + self.tupdate,
            small: 2 * u64::from(link.full_frame),
            credit: first,
            first_credit: first,
        }
    }

    fn default_limit() -> Option<QueueLimit> {
        Some(QueueLimit::Packets(10_000))
    }

    fn check(&self) -> Result<(), Fault> {
        for (key, time) in [("target", self.target), ("tupdate", self.tupdate)] {
            if time == Duration::ZERO {
                return Err((key, "must be above 0 s".into()));
            }
        }
        for (key, weight) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !(0.0..=100.0).contains(&weight) {
                return Err((key, format!("expected 0 to 100 per second, found {weight}")));
            }
        }
        if !(1.0..=255.0).contains(&self.coupling) {
            return Err(("coupling", format!("expected 1 to 255, found {}", self.coupling)));
        }
        if self.classic_protection > 100 {
            let text = format!("expected 0 to 100 %, found {}", self.classic_protection);
            return Err(("classic_protection", text));
        }
        Ok(())
    }

    fn lane(&self, flags: Flags) -> u8 {
        u8::from(is_l4s(flags))
    }

    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        match reason {
            drop_reason::PI2 => frame.is_first,
            _ => reason == drop_reason::FULL && frame.is_arriving && frame.exceeds_limit,
        }
    }

    fn may_mark(&self, reason: &str, frame: &Queued) -> bool {
        frame.is_first
            && (reason == drop_reason::PI2
                || (reason == drop_reason::L4S_STEP && is_l4s(frame.flags)))
    }

    fn sample(s: &mut Sample<'_>) -> Self {
        Dualpi2 {
            target: s.millis(1, 50),
            tupdate: s.millis(1, 30),
            alpha: s.between(0.0, 10.0),
            beta: s.between(0.0, 10.0),
            coupling: s.between(1.0, 4.0),
            step: s.millis(0, 20),
            ramp: s.millis(0, 5),
            min_qlen_step: s.whole(0, 3),
            scheduler: if s.flag() { Scheduler::Wrr } else { Scheduler::TimeShifted },
            classic_protection: s.whole(0, 101) as u32,
            drop_overload: s.flag(),
        }
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// The PI2 controller of DualPI2.
    pub const PI2: &str = "pi2";
    /// The frame has waited too long in the L queue.
    pub const L4S_STEP: &str = "l4s step";
}

/// True for the frames of the L queue: ECT(1) and CE (RFC 9331, section 5.1).
fn is_l4s(flags: Flags) -> bool {
    flags.any(Flags::ECT1.with(Flags::CE))
}

/// The base probability p'.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Law {
    settings: Dualpi2,
    probability: f64,
    /// Delay at the last update.
    delay_before: Duration,
}

impl Law {
    /// Updates p', once in `tupdate` (RFC 9332, figure 6; Linux `calculate_probability`).
    fn update(&mut self, delay: Duration) {
        let Dualpi2 { target, alpha, beta, coupling, drop_overload, .. } = self.settings;
        let [now, before] = [delay, self.delay_before].map(Duration::as_secs);
        let change = alpha * (now - target.as_secs()) + beta * (now - before);
        let most = if drop_overload { 1.0 } else { 1.0 / coupling };
        self.probability = (self.probability + change).clamp(0.0, most);
        self.delay_before = delay;
    }

    /// The probability that couples the L queue to the C queue; above 1 the AQM is overloaded.
    fn coupled(&self) -> f64 {
        self.settings.coupling * self.probability
    }

    /// The probability of the L queue's own mark after this waiting time (RFC 9332, `laqm`).
    fn of_wait(&self, waited: Duration) -> f64 {
        let Dualpi2 { step, ramp, .. } = self.settings;
        if waited <= step {
            0.0
        } else if waited >= step + ramp {
            1.0
        } else {
            waited.saturating_sub(step).as_secs() / ramp.as_secs()
        }
    }
}

/// One of the two queues.
#[derive(Clone, Debug)]
struct Lane {
    fifo: Fifo,
    /// Frames that have left.
    left: u64,
    draws: Stream,
}

impl Lane {
    fn new(link: &LinkFacts<'_>, name: &str) -> Lane {
        let draws = Stream::new(link.seed, &format!("dualpi2 {name} {}", link.name));
        Lane { fifo: Fifo::new(None), left: 0, draws }
    }

    /// Time for which its first frame has waited; 0 if it is empty.
    fn delay(&self, now: Time) -> Duration {
        self.fifo.first().map_or(Duration::ZERO, |f| now.since(f.at))
    }

    /// The first frame with its random number.
    fn pop(&mut self) -> Option<(Frame, f64)> {
        let frame = self.fifo.pop()?;
        self.left += 1;
        Some((frame, self.draws.uniform(self.left - 1)))
    }
}

/// What becomes of a frame that is about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Sent,
    Marked(&'static str),
    Dropped,
}

/// The two queues of DualPI2.
#[derive(Clone, Debug)]
pub struct Dualpi2Queue {
    limit: Option<QueueLimit>,
    l: Lane,
    c: Lane,
    law: Law,
    next_update: Time,
    /// Bytes below which the controller drops and marks nothing: two full frames.
    small: u64,
    /// Bytes times percent by which the L queue was preferred (Linux `c_protection_credit`): above
    /// 0 it is the turn of the C queue.
    credit: i64,
    first_credit: i64,
}

impl Dualpi2Queue {
    /// Makes the updates that were due before now.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let delay = self.l.delay(self.next_update).max(self.c.delay(self.next_update));
            let before = self.law;
            self.law.update(delay);
            let tupdate = self.law.settings.tupdate;
            self.next_update += tupdate;
            // Nothing waits, and nothing changes any more: an idle time of any length is one step.
            if self.load().packets == 0 && self.law == before && self.next_update <= now {
                self.next_update += tupdate * ((now - self.next_update).0 / tupdate.0);
            }
        }
    }

    /// True if the next frame is one of the L queue.
    fn serves_l(&self, now: Time) -> bool {
        let [l, c] = [&self.l, &self.c].map(|lane| lane.fifo.load().packets > 0);
        if !(l && c) {
            return l;
        }
        match self.law.settings.scheduler {
            Scheduler::Wrr => self.credit <= 0,
            Scheduler::TimeShifted => {
                self.l.delay(now) + self.law.settings.target * 2 >= self.c.delay(now)
            }
        }
    }

    /// A frame of `bytes` bytes is sent, `of_l` from the L queue. The credit changes while frames
    /// wait in the other one.
    fn charge(&mut self, of_l: bool, bytes: u32) {
        let other = if of_l { &self.c } else { &self.l };
        if other.fifo.load().packets > 0 {
            let weight = i64::from(self.law.settings.classic_protection);
            self.credit += i64::from(bytes) * if of_l { weight } else { weight - 100 };
        }
    }

    /// What becomes of a frame that is about to leave, with its random number (Linux `must_drop`,
    /// `do_step_aqm`). `of_l`: it comes from the L queue.
    fn fate(&self, now: Time, frame: &Frame, of_l: bool, draw: f64) -> Fate {
        let law = &self.law;
        let controls = self.load().bytes >= self.small;
        let overload = law.coupled() > 1.0;
        let drops = controls && draw < law.probability * law.probability;
        if !of_l {
            return match drops {
                false => Fate::Sent,
                true if overload || !frame.flags.has(Flags::ECT) => Fate::Dropped,
                true => Fate::Marked(drop_reason::PI2),
            };
        }
        if overload && drops && law.settings.drop_overload {
            return Fate::Dropped;
        }
        let coupled = if controls { law.coupled() } else { 0.0 };
        let is_long = self.l.fifo.load().packets >= law.settings.min_qlen_step;
        let native = if is_long { law.of_wait(now.since(frame.at)) } else { 0.0 };
        if draw < coupled {
            Fate::Marked(drop_reason::PI2)
        } else if draw < native {
            Fate::Marked(drop_reason::L4S_STEP)
        } else {
            Fate::Sent
        }
    }
}

impl QueueDiscipline for Dualpi2Queue {
    fn enqueue(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
        self.catch_up(now);
        if !self.has_room(frame.bytes) {
            return frame.drop(drop_reason::FULL, outcomes);
        }
        if is_l4s(frame.flags) { &mut self.l } else { &mut self.c }.fifo.push(frame);
    }

    fn dequeue(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        self.catch_up(now);
        loop {
            let of_l = self.serves_l(now);
            let Some((mut frame, draw)) = if of_l { &mut self.l } else { &mut self.c }.pop() else {
                self.credit = self.first_credit;
                return None;
            };
            match self.fate(now, &frame, of_l, draw) {
                Fate::Dropped => {
                    frame.drop(drop_reason::PI2, outcomes);
                    continue;
                }
                Fate::Marked(reason) if !frame.flags.has(Flags::CE) => {
                    frame.mark(reason, outcomes);
                }
                Fate::Marked(_) | Fate::Sent => {}
            }
            self.charge(of_l, frame.bytes);
            return Some(frame);
        }
    }

    fn pass(&mut self, now: Time, _frame: Frame, _outcomes: &mut Vec<Outcome>) -> bool {
        self.catch_up(now);
        true
    }

    fn load(&self) -> Load {
        self.l.fifo.load().plus(self.c.fifo.load())
    }

    fn has_room(&self, bytes: u32) -> bool {
        excess(Load { packets: 1, bytes: bytes.into() }.plus(self.load()), self.limit).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, ECT, FACTS, PLAIN, at};
    use super::*;

    const L4S: Flags = Flags::ECT.with(Flags::ECT1);

    fn bench(settings: Dualpi2) -> Bench<Dualpi2Queue> {
        Bench::new(settings.build(None, &FACTS))
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
    }

    /// p' += alpha (delay - target) + beta (delay - delay before), RFC 9332, figure 6, with the
    /// gains of its appendix A.1 for a longest round-trip time of 100 ms: 0.1 * 15 ms / (100 ms)^2
    /// = 0.15 per second and 0.3 / 100 ms = 3 per second.
    #[test]
    fn the_base_probability_follows_the_rfc() {
        let rfc = Dualpi2 { alpha: 0.15, beta: 3.0, ..Dualpi2::default() };
        let updated = |settings, probability, [before, now]: [u64; 2]| {
            let mut law = Law { settings, probability, delay_before: Duration::millis(before) };
            law.update(Duration::millis(now));
            assert_eq!(law.delay_before, Duration::millis(now));
            law.probability
        };
        near(updated(rfc, 0.1, [15, 15]), 0.1);
        near(updated(rfc, 0.1, [15, 25]), 0.1 + 0.15 * 0.010 + 3.0 * 0.010);
        near(updated(rfc, 0.1, [30, 20]), 0.1 + 0.15 * 0.005 - 3.0 * 0.010);
        near(updated(rfc, 0.01, [30, 0]), 0.0);
        near(updated(rfc, 0.9, [0, 100]), 1.0);
        let keeps = Dualpi2 { drop_overload: false, ..rfc };
        near(updated(keeps, 0.4, [0, 100]), 0.5);
    }

    /// RFC 9332, appendix A.1: a threshold of 0.8 ms and a ramp of 0.4 ms.
    #[test]
    fn the_ramp_rises_from_the_threshold() {
        let micros = Duration::micros;
        let ramp = Dualpi2 { step: micros(800), ramp: micros(400), ..Dualpi2::default() };
        let of_wait = |settings, waited| {
            Law { settings, probability: 0.0, delay_before: Duration::ZERO }.of_wait(waited)
        };
        for (waited, expected) in
            [(0, 0.0), (800, 0.0), (900, 0.25), (1000, 0.5), (1200, 1.0), (9000, 1.0)]
        {
            near(of_wait(ramp, micros(waited)), expected);
        }
        let step = Dualpi2::default();
        near(of_wait(step, micros(1000)), 0.0);
        near(of_wait(step, Duration(1_000_001)), 1.0);
    }

    /// Frames of both kinds wait, none for longer than `step`. The L queue marks 2 p', the C queue
    /// p'^2, of which those that are not ECN-capable are dropped.
    #[test]
    fn both_queues_are_coupled() {
        let run = |flags| {
            let mut b = bench(Dualpi2::default());
            b.offer_all(0, 20_010, flags);
            b.queue.law.probability = 0.1;
            for _ in 0..20_000 {
                b.queue.dequeue(at(0), &mut b.outcomes);
            }
            [b.marked().len() as f64, b.dropped().len() as f64]
        };
        // Within 4 standard deviations of the binomial distribution.
        let within = |found: f64, share: f64| {
            let deviation = (20_000.0 * share * (1.0 - share)).sqrt();
            assert!((found - 20_000.0 * share).abs() < 4.0 * deviation, "{found} of {share}");
        };
        let [marked, dropped] = run(L4S);
        within(marked, 0.2);
        assert!(dropped == 0.0);
        let [marked, dropped] = run(ECT);
        within(marked, 0.01);
        assert!(dropped == 0.0);
        let [marked, dropped] = run(PLAIN);
        within(dropped, 0.01);
        assert!(marked == 0.0);
    }

    #[test]
    fn frames_that_waited_longer_than_the_step_are_marked() {
        let mut b = bench(Dualpi2::default());
        b.offer(0, 0, L4S);
        b.offer(0, 1, L4S);
        b.offer(0, 2, L4S.with(Flags::CE));
        assert_eq!(b.take(1), Some(0));
        assert!(b.outcomes.is_empty());
        assert_eq!(b.take(2), Some(1));
        assert_eq!(b.outcomes, [Outcome::Marked { handle: 1, reason: drop_reason::L4S_STEP }]);
        // One that arrived marked is not marked again.
        assert_eq!(b.take(9), Some(2));
        assert_eq!(b.outcomes.len(), 1);
        // Frames must wait behind it.
        let mut b = bench(Dualpi2 { min_qlen_step: 1, ..Dualpi2::default() });
        b.offer_all(0, 2, L4S);
        assert_eq!(b.take_all(9), [0, 1]);
        assert_eq!(b.marked(), [0]);
    }

    /// The L queue begins; 9 of its frames, and one of the C queue.
    #[test]
    fn the_classic_queue_has_a_tenth_of_a_busy_link() {
        let mut b = bench(Dualpi2 { step: Duration::secs(9), ..Dualpi2::default() });
        (0..100).for_each(|i| b.offer(0, i, L4S));
        (100..200).for_each(|i| b.offer(0, i, PLAIN));
        let taken: Vec<u32> = (0..100).filter_map(|_| b.take(0)).collect();
        let classic: Vec<usize> =
            (0..100).filter(|&i| taken.get(i).is_some_and(|&h| h >= 100)).collect();
        assert_eq!(classic, [9, 19, 29, 39, 49, 59, 69, 79, 89, 99]);
        // Each queue is first in, first out; one alone has the whole link.
        assert_eq!(b.take_all(0).len(), 100);
        assert_eq!(b.take(0), None);
        assert_eq!(b.queue.credit, -80_000);
    }

    #[test]
    fn a_time_shift_prefers_the_l_queue() {
        let mut b = bench(Dualpi2 { scheduler: Scheduler::TimeShifted, ..Dualpi2::default() });
        b.offer(0, 0, PLAIN);
        b.offer(0, 1, PLAIN);
        b.offer(30, 2, L4S);
        b.offer(31, 3, L4S);
        assert_eq!(b.take(30), Some(2));
        // The C queue has waited 31 ms, the L queue 0.
        assert_eq!(b.take(31), Some(0));
        assert_eq!(b.take(31), Some(1));
        assert_eq!(b.take(31), Some(3));
    }

    /// From k p' = 1 on, frames of both queues are dropped with p'^2, ECN-capable ones too, and the
    /// others of the L queue are marked.
    #[test]
    fn an_overloaded_queue_drops_everything_alike() {
        let run = |drop_overload, flags| {
            let mut b = bench(Dualpi2 { drop_overload, ..Dualpi2::default() });
            b.offer_all(0, 10_010, flags);
            b.queue.law.probability = 0.7;
            while b.queue.load().packets > 10 {
                b.queue.dequeue(at(0), &mut b.outcomes);
            }
            [b.marked().len(), b.dropped().len()]
        };
        let [marked, dropped] = run(true, L4S);
        assert!(marked + dropped >= 10_000);
        assert!((4700..5100).contains(&dropped), "{dropped}");
        let [marked, dropped] = run(true, ECT);
        assert!(marked == 0 && (4700..5100).contains(&dropped), "{marked} {dropped}");
        assert_eq!(run(false, L4S), [10_000, 0]);
    }

    #[test]
    fn two_frames_are_not_controlled() {
        let mut b = bench(Dualpi2 { step: Duration::secs(9), ..Dualpi2::default() });
        b.queue.law.probability = 1.0;
        b.offer_all(0, 2, PLAIN);
        assert_eq!(b.take_all(1), [0, 1]);
        assert!(b.outcomes.is_empty());
    }

    #[test]
    fn the_limit_is_that_of_both_queues() {
        let limit = Some(QueueLimit::Packets(2));
        let mut b = Bench::new(Dualpi2::default().build(limit, &FACTS));
        b.offer(0, 0, L4S);
        b.offer(0, 1, PLAIN);
        b.offer(0, 2, L4S);
        assert_eq!(b.dropped(), [(2, drop_reason::FULL)]);
        assert!(!b.queue.has_room(1));
    }

    /// An idle time of an hour is 225 000 updates, of which nearly all change nothing.
    #[test]
    fn the_probability_falls_while_the_link_is_idle() {
        let mut b = bench(Dualpi2::default());
        b.queue.law.probability = 0.5;
        b.queue.catch_up(at(1000));
        // 62 updates, each 0.16 * 15 ms lower.
        near(b.queue.law.probability, 0.5 - 62.0 * 0.16 * 0.015);
        b.pass(3_600_000, 0, PLAIN);
        assert_eq!(b.queue.law.probability, 0.0);
        assert!(b.queue.next_update > at(3_600_000));
        assert!(b.queue.next_update <= at(3_600_016));
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let key = |settings: Dualpi2| settings.check().map_err(|e| e.0);
        let good = Dualpi2::default();
        assert_eq!(key(good), Ok(()));
        assert_eq!(key(Dualpi2 { target: Duration::ZERO, ..good }), Err("target"));
        assert_eq!(key(Dualpi2 { tupdate: Duration::ZERO, ..good }), Err("tupdate"));
        assert_eq!(key(Dualpi2 { alpha: -1.0, ..good }), Err("alpha"));
        assert_eq!(key(Dualpi2 { beta: f64::NAN, ..good }), Err("beta"));
        assert_eq!(key(Dualpi2 { coupling: 0.5, ..good }), Err("coupling"));
        let text = key(Dualpi2 { classic_protection: 101, ..good });
        assert_eq!(text, Err("classic_protection"));
    }
}
