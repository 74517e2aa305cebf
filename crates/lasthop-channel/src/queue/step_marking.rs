//! Step marking: marks exactly the frames that arrive while the queue is longer than a threshold.
//!
//! Source: DCTCP (RFC 8257, section 3.1; Alizadeh and others 2010, section 3.1): one threshold K on
//! the instantaneous queue length, without average or probability. Frames that are not ECN-capable
//! pass unmarked; a full queue drops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discipline::{Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued};
use super::drop_reason;
use super::fifo::{Fifo, counted, half, number};
use crate::sample::Sample;
use lasthop_core::units::{QueueLimit, Time};

/// Marks every frame that arrives while the queue is longer than a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StepMarking {
    /// K: frames that arrive at a longer queue are marked. RFC 8257 gives no value. Default: half
    /// the limit.
    pub threshold: Option<QueueLimit>,
}

impl QueueSettings for StepMarking {
    type Queue = StepQueue;

    fn build(&self, limit: Option<QueueLimit>, _link: &LinkFacts<'_>) -> StepQueue {
        StepQueue::new(self, limit)
    }

    fn fill(&mut self, limit: Option<QueueLimit>) {
        self.threshold = self.threshold.or(half(limit));
    }

    fn threshold(&self) -> Option<(&'static str, QueueLimit)> {
        self.threshold.map(|threshold| ("threshold", threshold))
    }

    fn may_mark(&self, reason: &str, frame: &Queued) -> bool {
        reason == drop_reason::STEP && frame.is_arriving
    }

    fn sample(s: &mut Sample<'_>) -> Self {
        let threshold = s.flag().then(|| s.queue_length());
        StepMarking { threshold }
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// The queue is longer than the step threshold.
    pub const STEP: &str = "step";
}

/// A queue with step marking.
#[derive(Clone, Debug)]
pub struct StepQueue {
    fifo: Fifo,
    threshold: Option<QueueLimit>,
}

impl StepQueue {
    /// An empty queue. Without a threshold it never marks.
    pub fn new(settings: &StepMarking, limit: Option<QueueLimit>) -> StepQueue {
        StepQueue { fifo: Fifo::new(limit), threshold: settings.threshold }
    }
}

impl QueueDiscipline for StepQueue {
    fn enqueue(&mut self, _now: Time, mut frame: Frame, outcomes: &mut Vec<Outcome>) {
        if !self.fifo.has_room(frame.bytes) {
            return frame.drop(drop_reason::FULL, outcomes);
        }
        if self.threshold.is_some_and(|k| counted(self.fifo.load(), k) > number(k)) {
            frame.mark(drop_reason::STEP, outcomes);
        }
        self.fifo.push(frame);
    }

    fn dequeue(&mut self, _now: Time, _outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        self.fifo.pop()
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
    use super::super::testing::{Bench, ECT, PLAIN};
    use super::*;

    fn bench(threshold: QueueLimit, limit: u64) -> Bench<StepQueue> {
        Bench::new(StepQueue::new(
            &StepMarking { threshold: Some(threshold) },
            Some(QueueLimit::Packets(limit)),
        ))
    }

    #[test]
    fn frames_above_the_step_are_marked() {
        let mut b = bench(QueueLimit::Packets(2), 6);
        b.offer_all(0, 8, ECT);
        assert_eq!(b.marked(), [3, 4, 5]);
        assert_eq!(b.dropped(), [(6, drop_reason::FULL), (7, drop_reason::FULL)]);
        // The instantaneous queue counts: at 2 packets, nothing is marked.
        (0..4).for_each(|_| assert!(b.take(0).is_some()));
        b.offer(0, 8, ECT);
        assert_eq!(b.marked().len(), 3);
    }

    #[test]
    fn frames_without_ect_pass_unmarked() {
        let mut b = bench(QueueLimit::Packets(0), 3);
        b.offer_all(0, 3, PLAIN);
        assert!(b.outcomes.is_empty());
        assert_eq!(b.take_all(0), [0, 1, 2]);
    }

    #[test]
    fn threshold_in_bytes() {
        // Frames of the bench have 1000 bytes.
        let mut b = bench(QueueLimit::Bytes(1999), 9);
        b.offer_all(0, 4, ECT);
        assert_eq!(b.marked(), [2, 3]);
    }
}
