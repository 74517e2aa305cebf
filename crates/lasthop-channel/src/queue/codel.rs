//! CoDel, controlled delay: while every frame waits longer than a target, frames are dropped or
//! marked increasingly often.
//!
//! Source: RFC 8289 (follows the pseudocode of section 5), with its constants of 5 ms and 100 ms.
//! With `ecn`, an ECN-capable frame is marked instead of dropped, and the control law continues as
//! after a drop, as in Linux. The sojourn time is measured from the arrival of a frame until it
//! leaves the queue. On a link with gaps (a trace, an outage) the frame being sent may wait longer
//! for its delivery opportunity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discipline::{
    Fault, Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued,
};
use super::drop_reason;
use super::fifo::Fifo;
use crate::sample::Sample;
use lasthop_core::units::{Duration, QueueLimit, Time};

/// Controlled delay: drops or marks increasingly often while every frame waits longer than a
/// target. Default limit: 1000 packets, as in Linux (tc-codel(8)).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Codel {
    /// Acceptable standing queue delay. Default: 5 ms (RFC 8289, section 4.4).
    pub target: Duration,
    /// Time for which all frames must wait longer than the target before the first drop; about a
    /// worst-case RTT. Default: 100 ms (RFC 8289, section 4.3).
    pub interval: Duration,
    /// Mark ECN-capable frames instead of dropping them. Default: false, as in Linux.
    pub ecn: bool,
}

impl Default for Codel {
    fn default() -> Self {
        Codel { target: Duration::millis(5), interval: Duration::millis(100), ecn: false }
    }
}

impl QueueSettings for Codel {
    type Queue = CodelQueue;

    fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> CodelQueue {
        CodelQueue::new(self, limit, link)
    }

    fn default_limit() -> Option<QueueLimit> {
        Some(QueueLimit::Packets(1000))
    }

    fn check(&self) -> Result<(), Fault> {
        if self.target == Duration::ZERO {
            return Err(("target", "must be above 0 s".into()));
        }
        if self.interval <= self.target {
            return Err((
                "interval",
                format!("must be above target = {}, found {}", self.target, self.interval),
            ));
        }
        Ok(())
    }

    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        match reason {
            drop_reason::CODEL => frame.is_first && !frame.is_marked_instead(self.ecn),
            _ => reason == drop_reason::FULL && frame.is_arriving && frame.exceeds_limit,
        }
    }

    fn may_mark(&self, reason: &str, _frame: &Queued) -> bool {
        self.ecn && reason == drop_reason::CODEL
    }

    fn sample(s: &mut Sample<'_>) -> Self {
        let target = s.whole(1, 50);
        let interval = target + s.whole(1, 200);
        Codel {
            target: Duration::millis(target),
            interval: Duration::millis(interval),
            ecn: s.flag(),
        }
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// CoDel's control law.
    pub const CODEL: &str = "codel";
}

/// A queue that CoDel controls.
pub(super) trait Backlog {
    /// Removes the frame that has waited longest.
    fn pop(&mut self) -> Option<Frame>;
    /// Bytes in the queue.
    fn bytes(&self) -> u64;
}

impl Backlog for Fifo {
    fn pop(&mut self) -> Option<Frame> {
        Fifo::pop(self)
    }
    fn bytes(&self) -> u64 {
        self.load().bytes
    }
}

/// CoDel's control law: the constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    settings: Codel,
    /// A frame is not dropped if at most this many bytes are queued behind it, so that the link
    /// does not become idle.
    full_frame: u64,
}

/// CoDel's state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Time at which the sojourn time will have been above the target for an interval.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops since the dropping state was entered.
    count: u32,
    /// `count` when the dropping state was last entered.
    last_count: u32,
}

impl Law {
    pub(super) fn new(settings: &Codel, link: &LinkFacts<'_>) -> Law {
        Law { settings: *settings, full_frame: link.full_frame.into() }
    }

    /// Time of the next drop: `t` plus the interval divided by the square root of the number of
    /// drops (RFC 8289, sections 3.3 and 5).
    fn next(&self, t: Time, count: u32) -> Time {
        t + Duration((self.settings.interval.0 as f64 / libm::sqrt(f64::from(count))) as u64)
    }

    /// Dequeues the next frame. True if it may be dropped: the sojourn time has been above the
    /// target for an interval.
    fn pop_and_check(
        &self,
        state: &mut State,
        now: Time,
        queue: &mut impl Backlog,
    ) -> (Option<Frame>, bool) {
        let frame = queue.pop();
        let short = frame.is_none_or(|f| now - f.at < self.settings.target)
            || queue.bytes() <= self.full_frame;
        if short {
            state.first_above = None;
            return (frame, false);
        }
        let due = *state.first_above.get_or_insert(now + self.settings.interval);
        (frame, now >= due)
    }

    /// Returns the frame to be sent next.
    pub(super) fn dequeue(
        &self,
        state: &mut State,
        now: Time,
        queue: &mut impl Backlog,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<Frame> {
        let (mut frame, ok_to_drop) = self.pop_and_check(state, now, queue);
        if !ok_to_drop {
            state.dropping = false;
            return frame;
        }
        if !state.dropping {
            if !self.marks(&mut frame, outcomes) {
                self.drop(frame, outcomes);
                frame = self.pop_and_check(state, now, queue).0;
            }
            self.enter(state, now);
            return frame;
        }
        while state.dropping && now >= state.drop_next {
            state.count = state.count.saturating_add(1);
            if self.marks(&mut frame, outcomes) {
                state.drop_next = self.next(state.drop_next, state.count);
                break;
            }
            self.drop(frame, outcomes);
            (frame, state.dropping) = self.pop_and_check(state, now, queue);
            if state.dropping {
                state.drop_next = self.next(state.drop_next, state.count);
            }
        }
        frame
    }

    /// Enters the dropping state. If it was left recently, starts with the drop rate reached then.
    fn enter(&self, state: &mut State, now: Time) {
        let before = state.count - state.last_count;
        let recent = now - state.drop_next < Duration(self.settings.interval.0.saturating_mul(16));
        state.dropping = true;
        state.count = if before > 1 && recent { before } else { 1 };
        state.last_count = state.count;
        state.drop_next = self.next(now, state.count);
    }

    fn marks(&self, frame: &mut Option<Frame>, outcomes: &mut Vec<Outcome>) -> bool {
        self.settings.ecn && frame.as_mut().is_some_and(|f| f.mark(drop_reason::CODEL, outcomes))
    }

    fn drop(&self, frame: Option<Frame>, outcomes: &mut Vec<Outcome>) {
        if let Some(frame) = frame {
            frame.drop(drop_reason::CODEL, outcomes);
        }
    }
}

/// A queue with CoDel.
#[derive(Clone, Debug)]
pub struct CodelQueue {
    fifo: Fifo,
    law: Law,
    state: State,
}

impl CodelQueue {
    /// An empty queue.
    pub fn new(settings: &Codel, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> CodelQueue {
        CodelQueue {
            fifo: Fifo::new(limit),
            law: Law::new(settings, link),
            state: State::default(),
        }
    }
}

impl QueueDiscipline for CodelQueue {
    fn enqueue(&mut self, _now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
        if self.fifo.has_room(frame.bytes) {
            self.fifo.push(frame);
        } else {
            frame.drop(drop_reason::FULL, outcomes);
        }
    }

    fn dequeue(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        self.law.dequeue(&mut self.state, now, &mut self.fifo, outcomes)
    }

    fn pass(&mut self, _now: Time, _frame: Frame, _outcomes: &mut Vec<Outcome>) -> bool {
        // The frame has not waited.
        self.state.first_above = None;
        self.state.dropping = false;
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

    fn bench(ecn: bool) -> Bench<CodelQueue> {
        let mut b = Bench::new(CodelQueue::new(
            &Codel { ecn, ..Codel::default() },
            Some(QueueLimit::Packets(10_000)),
            &FACTS,
        ));
        b.offer_all(0, 5000, if ecn { ECT } else { PLAIN });
        b
    }

    /// Times of drops and marks in ms, with one dequeue per millisecond.
    fn acted(b: &mut Bench<CodelQueue>, from: u64, to: u64) -> Vec<u64> {
        let mut times = Vec::new();
        for ms in from..to {
            let before = b.outcomes.len();
            assert!(b.take(ms).is_some());
            times.extend(std::iter::repeat_n(ms, b.outcomes.len() - before));
        }
        times
    }

    /// The sojourn time exceeds the target at 5 ms, and has done so for an interval at 105 ms. The
    /// drops are then 100 ms, 100/√2, 100/√3, … apart (RFC 8289, section 3.3): at 105, 205, 275.7,
    /// 333.4, 383.4, 428.2, 469.0, 506.8 ms.
    #[test]
    fn drops_follow_the_control_law() {
        let mut b = bench(false);
        let mut due = 105.0;
        let expected: Vec<u64> = (1..=20)
            .map(|n| {
                let t = f64::ceil(due - 1e-9) as u64;
                due += 100.0 / f64::from(n).sqrt();
                t
            })
            .collect();
        assert_eq!(expected[..6], [105, 205, 276, 334, 384, 429]);
        let last = expected[expected.len() - 1];
        assert_eq!(acted(&mut b, 0, last + 1), expected);
        assert!(b.dropped().iter().all(|d| d.1 == drop_reason::CODEL));
    }

    #[test]
    fn marks_follow_the_control_law_without_drops() {
        let (mut drops, mut marks) = (bench(false), bench(true));
        assert_eq!(acted(&mut drops, 0, 2000), acted(&mut marks, 0, 2000));
        assert!(marks.dropped().is_empty() && marks.marked().len() == drops.dropped().len());
        assert_eq!(marks.queue.load().packets, 3000);
    }

    #[test]
    fn frames_without_ect_are_dropped() {
        let mut b =
            Bench::new(CodelQueue::new(&Codel { ecn: true, ..Codel::default() }, None, &FACTS));
        b.offer_all(0, 5000, PLAIN);
        acted(&mut b, 0, 1000);
        assert!(b.marked().is_empty() && b.dropped().len() > 10);
    }

    /// A queue that is long for less than an interval causes no drops.
    #[test]
    fn short_bursts_are_not_dropped() {
        let mut b = Bench::new(CodelQueue::new(&Codel::default(), None, &FACTS));
        for round in 0..20 {
            let t = round * 100;
            b.offer_all(t, 90, PLAIN);
            (t..t + 90).for_each(|ms| assert!(b.take(ms).is_some()));
            assert_eq!(b.take(t + 90), None);
        }
        assert!(b.outcomes.is_empty());
    }

    /// With at most one full frame behind it, a frame is sent regardless of its sojourn time.
    #[test]
    fn last_frames_are_never_dropped() {
        let mut b = Bench::new(CodelQueue::new(&Codel::default(), None, &FACTS));
        for i in 0..100u32 {
            b.offer_all(u64::from(i) * 50, 2, PLAIN);
            assert!(
                b.take(u64::from(i) * 50 + 20).is_some()
                    && b.take(u64::from(i) * 50 + 40).is_some()
            );
        }
        assert!(b.outcomes.is_empty());
    }

    /// If the dropping state is re-entered within 16 intervals, it resumes at its previous rate.
    #[test]
    fn dropping_resumes_at_its_previous_rate() {
        let mut b = bench(false);
        acted(&mut b, 0, 1000);
        let (count, last) = (b.queue.state.count, b.queue.state.last_count);
        assert!(count > 20 && last == 1);
        // A frame that did not wait ends the dropping state.
        let rest: Vec<u32> = (0..b.queue.load().packets as u32).collect();
        b.queue.fifo = Fifo::new(None);
        b.offer(1000, 0, PLAIN);
        b.take(1000);
        assert!(!b.queue.state.dropping);
        rest.iter().for_each(|&i| b.offer(1000, i, PLAIN));
        assert_eq!(acted(&mut b, 1001, 1107), [1105]);
        assert_eq!(b.queue.state.count, count - last);
        assert_eq!(
            b.queue.state.drop_next,
            at(1105) + Duration((1e8 / f64::from(count - last).sqrt()) as u64)
        );
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let key = |target, interval| {
            Codel {
                target: Duration::millis(target),
                interval: Duration::millis(interval),
                ecn: false,
            }
            .check()
            .map_err(|e| e.0)
        };
        assert_eq!(
            (key(5, 100), key(0, 100), key(100, 100)),
            (Ok(()), Err("target"), Err("interval"))
        );
    }
}
