//! DropTail: first in, first out; frames that do not fit are dropped.

use super::discipline::{FULL, Frame, Load, Outcome, QueueDiscipline};
use super::fifo::Fifo;
use lasthop_core::units::{QueueLimit, Time};

/// A DropTail queue.
#[derive(Clone, Debug)]
pub struct DropTail {
    fifo: Fifo,
}

impl DropTail {
    /// An empty queue; without a limit it never drops.
    pub fn new(limit: Option<QueueLimit>) -> DropTail {
        DropTail { fifo: Fifo::new(limit) }
    }
}

impl QueueDiscipline for DropTail {
    #[inline]
    fn enqueue(&mut self, _now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
        if self.fifo.has_room(frame.bytes) {
            self.fifo.push(frame);
        } else {
            frame.drop(FULL, outcomes);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        self.fifo.pop()
    }

    #[inline]
    fn load(&self) -> Load {
        self.fifo.load()
    }

    fn has_room(&self, bytes: u32) -> bool {
        self.fifo.has_room(bytes)
    }
}
