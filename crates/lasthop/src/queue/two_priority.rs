//! Two drop priorities, the queue of TCP Casablanca: a full queue pushes out a frame of low
//! priority.
//!
//! Source: Biaz and Vaidya, "De-randomizing congestion losses to improve TCP performance over
//! wired-wireless networks", IEEE/ACM Transactions on Networking 13(3), 2005. The sender gives some
//! of its packets a low priority; since routers drop those first, the mix of what is lost tells
//! congestion from the radio.
//!
//! A frame that finds the queue full pushes out one of low priority that waits, whatever its own
//! priority is; if none waits, it is dropped itself. Which one goes is not said; here it is the one
//! that came last, as near as may be to a tail drop. Frames without the flag are of high priority.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fifo::Fifo;
use super::{Frame, Load, Outcome, QueueDiscipline, drop_reason};
use crate::segment::Flags;
use crate::units::{QueueLimit, Time};

/// Settings of the two priorities: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TwoPriority {}

/// A queue with two priorities.
#[derive(Clone, Debug)]
pub struct TwoPriorityQueue {
    fifo: Fifo,
    /// What of it has low priority.
    low: Load,
}

fn is_low(frame: &Frame) -> bool {
    frame.flags.has(Flags::LOW_PRIORITY)
}

impl TwoPriorityQueue {
    /// An empty queue.
    pub fn new(limit: Option<QueueLimit>) -> TwoPriorityQueue {
        TwoPriorityQueue { fifo: Fifo::new(limit), low: Load::default() }
    }

    /// True if the frame fits once enough of low priority are pushed out.
    fn can_make_room(&self, bytes: u32) -> bool {
        let low = match self.fifo.limit() {
            Some(QueueLimit::Bytes(_)) => self.low.bytes,
            _ => self.low.packets,
        };
        self.fifo.excess(bytes).is_none_or(|over| over <= low)
    }

    fn left(&mut self, frame: &Frame) {
        if is_low(frame) {
            self.low.packets -= 1;
            self.low.bytes -= u64::from(frame.bytes);
        }
    }
}

impl QueueDiscipline for TwoPriorityQueue {
    fn enqueue(&mut self, _now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
        if !self.can_make_room(frame.bytes) {
            return frame.drop(drop_reason::FULL, outcomes);
        }
        while !self.fifo.has_room(frame.bytes)
            && let Some(low) = self.fifo.remove_last(is_low)
        {
            self.left(&low);
            low.drop(drop_reason::PUSHED_OUT, outcomes);
        }
        if is_low(&frame) {
            self.low.packets += 1;
            self.low.bytes += u64::from(frame.bytes);
        }
        self.fifo.push(frame);
    }

    fn dequeue(&mut self, _now: Time, _outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        let frame = self.fifo.pop()?;
        self.left(&frame);
        Some(frame)
    }

    fn load(&self) -> Load {
        self.fifo.load()
    }

    fn has_room(&self, bytes: u32) -> bool {
        self.can_make_room(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, LOW, PLAIN};
    use super::*;

    fn bench(limit: QueueLimit) -> Bench<TwoPriorityQueue> {
        Bench::new(TwoPriorityQueue::new(Some(limit)))
    }

    #[test]
    fn a_full_queue_pushes_out_the_last_of_low_priority() {
        let mut b = bench(QueueLimit::Packets(4));
        for (id, flags) in [LOW, PLAIN, LOW, PLAIN].into_iter().enumerate() {
            b.offer(0, id as u32, flags);
        }
        assert!(b.outcomes.is_empty());
        b.offer(0, 4, PLAIN);
        assert_eq!(b.dropped(), [(2, drop_reason::PUSHED_OUT)]);
        b.offer(0, 5, LOW);
        assert_eq!(b.dropped()[1..], [(0, drop_reason::PUSHED_OUT)]);
        b.offer(0, 6, PLAIN);
        assert_eq!(b.dropped()[2..], [(5, drop_reason::PUSHED_OUT)]);
        // None of low priority is left.
        b.offer(0, 7, PLAIN);
        b.offer(0, 8, LOW);
        assert_eq!(b.dropped()[3..], [(7, drop_reason::FULL), (8, drop_reason::FULL)]);
        // The order of the others is as they came.
        assert_eq!(b.take_all(0), [1, 3, 4, 6]);
    }

    #[test]
    fn one_that_was_sent_can_no_longer_be_pushed_out() {
        let mut b = bench(QueueLimit::Packets(2));
        b.offer(0, 0, LOW);
        b.offer(0, 1, PLAIN);
        assert_eq!(b.take(0), Some(0));
        b.offer(0, 2, PLAIN);
        b.offer(0, 3, PLAIN);
        assert_eq!(b.dropped(), [(3, drop_reason::FULL)]);
    }

    #[test]
    fn in_bytes_as_many_as_are_needed_and_none_in_vain() {
        let mut b = bench(QueueLimit::Bytes(3000));
        b.offer(0, 0, LOW);
        b.offer(0, 1, LOW);
        b.offer(0, 2, PLAIN);
        // 2500 bytes need the room of both; they fit only if the third went too, so nothing goes.
        b.offer_sized(0, 3, PLAIN, 2500);
        assert_eq!(b.dropped(), [(3, drop_reason::FULL)]);
        b.offer_sized(0, 4, PLAIN, 1500);
        assert_eq!(b.dropped()[1..], [(1, drop_reason::PUSHED_OUT), (0, drop_reason::PUSHED_OUT)]);
        assert_eq!(b.take_all(0), [2, 4]);
    }
}
