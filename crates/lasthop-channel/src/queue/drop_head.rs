//! Drop-head: a full queue drops the frame that has waited longest to admit the arriving one.
//!
//! Source: Lakshman, Neidhardt and Ott, "The drop from front strategy in TCP and in TCP over ATM",
//! IEEE INFOCOM 1996; `uplink-queue=drophead` of mahimahi, `pfifo_head_drop` of Linux. The sender
//! learns of the loss earlier than with a tail drop, by the time that the queue takes to drain. A
//! frame that does not fit an empty queue is dropped, and no other for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discipline::{Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued};
use super::drop_reason;
use super::fifo::{Fifo, excess};
use crate::sample::Sample;
use lasthop_core::units::{QueueLimit, Time};

/// Drop-head: a full queue drops the frame that has waited longest. There are no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DropHead {}

impl QueueSettings for DropHead {
    type Queue = DropHeadQueue;

    fn build(&self, limit: Option<QueueLimit>, _link: &LinkFacts<'_>) -> DropHeadQueue {
        DropHeadQueue::new(limit)
    }

    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        let is_arriving = reason == drop_reason::FULL;
        let is_known = is_arriving || (reason == drop_reason::HEAD && frame.is_first);
        is_known && frame.exceeds_limit && frame.is_arriving == is_arriving
    }

    fn sample(_sample: &mut Sample<'_>) -> Self {
        DropHead {}
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// The frame at the head was dropped to make room.
    pub const HEAD: &str = "head drop";
}

/// A queue that drops at its head.
#[derive(Clone, Debug)]
pub struct DropHeadQueue {
    fifo: Fifo,
}

impl DropHeadQueue {
    /// An empty queue; without a limit it never drops.
    pub fn new(limit: Option<QueueLimit>) -> DropHeadQueue {
        DropHeadQueue { fifo: Fifo::new(limit) }
    }
}

impl QueueDiscipline for DropHeadQueue {
    fn enqueue(&mut self, _now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
        let alone = Load { packets: 1, bytes: frame.bytes.into() };
        if excess(alone, self.fifo.limit()).is_some() {
            return frame.drop(drop_reason::FULL, outcomes);
        }
        while !self.fifo.has_room(frame.bytes)
            && let Some(head) = self.fifo.pop()
        {
            head.drop(drop_reason::HEAD, outcomes);
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

    fn bench(limit: QueueLimit) -> Bench<DropHeadQueue> {
        Bench::new(DropHeadQueue::new(Some(limit)))
    }

    #[test]
    fn a_full_queue_drops_the_oldest_frames() {
        let mut b = bench(QueueLimit::Packets(3));
        b.offer_all(0, 5, ECT);
        assert_eq!(b.dropped(), [(0, drop_reason::HEAD), (1, drop_reason::HEAD)]);
        assert!(b.marked().is_empty());
        assert_eq!(b.take_all(0), [2, 3, 4]);
    }

    #[test]
    fn frames_already_sent_are_not_dropped() {
        let mut b = bench(QueueLimit::Packets(2));
        b.offer_all(0, 2, PLAIN);
        assert_eq!(b.take(0), Some(0));
        b.offer(0, 2, PLAIN);
        b.offer(0, 3, PLAIN);
        assert_eq!(b.dropped(), [(1, drop_reason::HEAD)]);
        assert_eq!(b.take_all(0), [2, 3]);
    }

    #[test]
    fn limit_in_bytes_drops_as_many_as_needed() {
        let mut b = bench(QueueLimit::Bytes(3000));
        b.offer_all(0, 3, PLAIN);
        b.offer_sized(0, 3, PLAIN, 1500);
        assert_eq!(b.dropped(), [(0, drop_reason::HEAD), (1, drop_reason::HEAD)]);
        // A frame that an empty queue would not hold pushes out none.
        b.offer_sized(0, 4, PLAIN, 3001);
        assert_eq!(b.dropped()[2..], [(4, drop_reason::FULL)]);
        assert_eq!(b.take_all(0), [2, 3]);
    }
}
