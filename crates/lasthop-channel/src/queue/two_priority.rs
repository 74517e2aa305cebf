//! Two drop priorities, the queue of TCP Casablanca: a full queue drops a low-priority frame first.
//!
//! Source: Biaz and Vaidya, "De-randomizing congestion losses to improve TCP performance over
//! wired-wireless networks", IEEE/ACM Transactions on Networking 13(3), 2005. The sender gives some
//! of its packets low priority. Routers drop those first, so the share of low-priority packets
//! among the losses distinguishes congestion from radio losses.
//!
//! A frame that arrives at a full queue replaces a waiting low-priority frame, regardless of its
//! priority; without one, the arriving frame is dropped. The paper does not specify which waiting
//! frame is dropped. Here it is the last to arrive, which is closest to a tail drop. Frames without
//! the flag have high priority.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discipline::{Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued};
use super::drop_reason;
use super::fifo::Fifo;
use crate::sample::Sample;
use lasthop_core::segment::Flags;
use lasthop_core::units::{QueueLimit, Time};

/// TCP Casablanca's two drop priorities: a full queue drops a low-priority frame first. There are
/// no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TwoPriority {}

impl QueueSettings for TwoPriority {
    type Queue = TwoPriorityQueue;

    fn build(&self, limit: Option<QueueLimit>, _link: &LinkFacts<'_>) -> TwoPriorityQueue {
        TwoPriorityQueue::new(limit)
    }

    // With a limit in bytes, pushing out a few small frames of low priority may not make room for a
    // large one.
    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        frame.exceeds_limit
            && match reason {
                drop_reason::FULL if frame.low_priority_waits => frame.limit_in_bytes,
                drop_reason::FULL => frame.is_arriving,
                drop_reason::PUSHED_OUT => {
                    frame.flags.has(Flags::LOW_PRIORITY) && !frame.is_arriving
                }
                _ => false,
            }
    }

    fn sample(_sample: &mut Sample<'_>) -> Self {
        TwoPriority {}
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// A low-priority frame was dropped to make room.
    pub const PUSHED_OUT: &str = "pushed out";
}

/// A queue with two priorities.
#[derive(Clone, Debug)]
pub struct TwoPriorityQueue {
    fifo: Fifo,
    /// Load of low-priority frames.
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

    /// True if the frame fits after dropping low-priority frames.
    fn can_make_room(&self, bytes: u32) -> bool {
        let low = match self.fifo.limit() {
            Some(QueueLimit::Bytes(_)) => self.low.bytes,
            _ => self.low.packets,
        };
        self.fifo.excess(bytes).is_none_or(|over| over <= low)
    }

    fn remove_from_load(&mut self, frame: &Frame) {
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
            self.remove_from_load(&low);
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
        self.remove_from_load(&frame);
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
    fn full_queue_drops_the_last_low_priority_frame() {
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
        // No low-priority frame is left.
        b.offer(0, 7, PLAIN);
        b.offer(0, 8, LOW);
        assert_eq!(b.dropped()[3..], [(7, drop_reason::FULL), (8, drop_reason::FULL)]);
        // The others leave in order of arrival.
        assert_eq!(b.take_all(0), [1, 3, 4, 6]);
    }

    #[test]
    fn frames_already_sent_cannot_be_replaced() {
        let mut b = bench(QueueLimit::Packets(2));
        b.offer(0, 0, LOW);
        b.offer(0, 1, PLAIN);
        assert_eq!(b.take(0), Some(0));
        b.offer(0, 2, PLAIN);
        b.offer(0, 3, PLAIN);
        assert_eq!(b.dropped(), [(3, drop_reason::FULL)]);
    }

    #[test]
    fn limit_in_bytes_drops_as_many_as_needed_or_none() {
        let mut b = bench(QueueLimit::Bytes(3000));
        b.offer(0, 0, LOW);
        b.offer(0, 1, LOW);
        b.offer(0, 2, PLAIN);
        // Dropping both low-priority frames would not make room for 2500 bytes, so neither is
        // dropped.
        b.offer_sized(0, 3, PLAIN, 2500);
        assert_eq!(b.dropped(), [(3, drop_reason::FULL)]);
        b.offer_sized(0, 4, PLAIN, 1500);
        assert_eq!(b.dropped()[1..], [(1, drop_reason::PUSHED_OUT), (0, drop_reason::PUSHED_OUT)]);
        assert_eq!(b.take_all(0), [2, 4]);
    }
}
