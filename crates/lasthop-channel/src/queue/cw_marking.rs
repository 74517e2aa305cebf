//! Congestion warning, the marking of TCP Jersey's routers: every frame is marked while the average
//! queue length is above a threshold.
//!
//! Source: Xu, Tian and Ansari, "TCP-Jersey for wireless IP communications", IEEE JSAC 22(4), 2004.
//! Unlike RED, the marking is deterministic: a sender can attribute a loss without a warning to the
//! radio link. Frames that are not ECN-capable pass unmarked; a full queue drops.
//!
//! The paper gives neither the threshold nor the weight. The default threshold is half the buffer.
//! The default weight is 1, the instantaneous queue: with RED's 0.002 the average needs hundreds of
//! frames to follow, and in the short buffers of a last hop the warning would come after the losses
//! that it should explain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::average::Average;
use super::discipline::{
    Fault, Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued,
};
use super::drop_reason;
use super::fifo::{Fifo, counted, half, number};
use crate::sample::Sample;
use lasthop_core::units::{QueueLimit, Share, Time};

/// TCP Jersey's congestion warning: marks every frame while the average queue length is above a
/// threshold.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CwMarking {
    /// Every frame is marked while the average queue length is above this. Default: half the limit.
    pub threshold: Option<QueueLimit>,
    /// Weight of each arrival in the average; 100 % is the instantaneous queue, RED uses 0.2 %.
    /// Default: 100 %.
    pub weight: Share,
}

impl Default for CwMarking {
    fn default() -> Self {
        CwMarking { threshold: None, weight: Share(1.0) }
    }
}

impl QueueSettings for CwMarking {
    type Queue = CwQueue;

    fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> CwQueue {
        CwQueue::new(self, limit, link)
    }

    fn fill(&mut self, limit: Option<QueueLimit>) {
        self.threshold = self.threshold.or(half(limit));
    }

    fn threshold(&self) -> Option<(&'static str, QueueLimit)> {
        self.threshold.map(|threshold| ("threshold", threshold))
    }

    fn check(&self) -> Result<(), Fault> {
        if self.weight.0 > 0.0 {
            Ok(())
        } else {
            Err(("weight", "must be above 0: with 0 the average queue never changes".into()))
        }
    }

    fn may_mark(&self, reason: &str, frame: &Queued) -> bool {
        reason == drop_reason::CW && frame.is_arriving
    }

    fn sample(s: &mut Sample<'_>) -> Self {
        let threshold = s.flag().then(|| s.queue_length());
        CwMarking { threshold, weight: s.share() }
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// Congestion warning: the average queue is above the threshold.
    pub const CW: &str = "congestion warning";
}

/// A queue with congestion warning.
#[derive(Clone, Debug)]
pub struct CwQueue {
    fifo: Fifo,
    threshold: Option<QueueLimit>,
    average: Average,
}

impl CwQueue {
    /// An empty queue. Without a threshold it never marks.
    pub fn new(settings: &CwMarking, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> CwQueue {
        let average =
            Average::new(settings.weight.0, link.rate.time_for(u64::from(link.full_frame)));
        CwQueue { fifo: Fifo::new(limit), threshold: settings.threshold, average }
    }

    /// Updates the average for this arrival, and marks the frame if the average is above the
    /// threshold.
    fn warn(&mut self, now: Time, frame: &mut Frame, room: bool, outcomes: &mut Vec<Outcome>) {
        let Some(threshold) = self.threshold else { return };
        let average = self.average.update(now, counted(self.fifo.load(), threshold));
        if room && average > number(threshold) as f64 {
            frame.mark(drop_reason::CW, outcomes);
        }
    }
}

impl QueueDiscipline for CwQueue {
    fn enqueue(&mut self, now: Time, mut frame: Frame, outcomes: &mut Vec<Outcome>) {
        let room = self.fifo.has_room(frame.bytes);
        self.warn(now, &mut frame, room, outcomes);
        if room { self.fifo.push(frame) } else { frame.drop(drop_reason::FULL, outcomes) }
    }

    fn dequeue(&mut self, now: Time, _outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        let frame = self.fifo.pop();
        if frame.is_none() {
            self.average.idle(now);
        }
        frame
    }

    fn pass(&mut self, now: Time, mut frame: Frame, outcomes: &mut Vec<Outcome>) -> bool {
        self.warn(now, &mut frame, true, outcomes);
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
    use super::super::testing::{Bench, ECT, FACTS, PLAIN};
    use super::*;

    fn bench(weight: f64, threshold: u64) -> Bench<CwQueue> {
        let settings =
            CwMarking { threshold: Some(QueueLimit::Packets(threshold)), weight: Share(weight) };
        Bench::new(CwQueue::new(&settings, Some(QueueLimit::Packets(20)), &FACTS))
    }

    #[test]
    fn every_frame_is_marked_while_the_average_is_above_the_threshold() {
        let mut b = bench(0.5, 2);
        // Averages 0, 0.5, 1.25, 2.125, 3.06.
        b.offer_all(0, 5, ECT);
        assert_eq!(b.marked(), [3, 4]);
        b.outcomes.clear();
        assert_eq!(b.take_all(0), [0, 1, 2, 3, 4]);
        // The queue is empty; the averages are 1.53 and 0.77.
        b.offer(0, 5, ECT);
        b.offer(0, 6, ECT);
        assert!(b.marked().is_empty());
    }

    #[test]
    fn average_above_threshold_marks_at_an_empty_queue() {
        let mut b = bench(0.1, 2);
        b.offer_all(0, 20, ECT);
        let first = b.marked()[0];
        assert!(
            (7..12).contains(&first),
            "first mark at {first}; the instantaneous queue exceeds 2 at frame 3"
        );
        assert_eq!(b.take_all(0).len(), 20);
        // The average is near 11: without an idle period, frames at an empty queue are still
        // marked.
        b.outcomes.clear();
        b.offer(0, 20, ECT);
        assert_eq!(b.marked(), [20]);
    }

    /// A frame takes 10 ms on the test link.
    #[test]
    fn average_decays_while_the_link_is_idle() {
        let mut b = bench(0.5, 2);
        b.offer_all(0, 10, ECT);
        b.take_all(0);
        assert_eq!(b.take(0), None);
        b.outcomes.clear();
        assert!(b.pass(200, 10, ECT));
        assert!(b.marked().is_empty());
    }

    #[test]
    fn frames_without_ect_pass_and_a_full_queue_drops() {
        let mut b = bench(1.0, 0);
        b.offer_all(0, 21, PLAIN);
        assert_eq!((b.marked().len(), b.dropped()), (0, vec![(20, drop_reason::FULL)]));
        // Dropped frames are not also marked.
        let mut b = bench(1.0, 0);
        b.offer_all(0, 22, ECT);
        assert_eq!((b.marked().len(), b.dropped().len()), (19, 2));
    }
}
