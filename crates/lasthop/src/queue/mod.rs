//! Queue disciplines: who waits at a link, who is sent next, and who is marked or dropped.
//!
//! The frame being sent has left the queue, and a limit of N lets N frames wait behind it. A queue
//! holds handles, and of each frame what disciplines look at; the host holds the segments and
//! carries out what a discipline answers.
//!
//! Marking is that of RFC 3168: a frame of an ECN-capable transport gets `Flags::CE`. Where a
//! discipline that drops otherwise (RED, CoDel, FQ-CoDel) meets a frame that is not ECN-capable, it
//! drops it. Those that only ever mark (step marking, Jersey's congestion warning) let it pass:
//! their whole purpose is a signal, and their queue drops when it is full.

mod average;
pub mod codel;
pub mod config;
pub mod cw_marking;
mod drop_tail;
mod fifo;
pub mod fq_codel;
pub mod red;
pub mod step_marking;
pub mod two_priority;

#[cfg(test)]
mod testing;

use crate::segment::{Flags, FlowId, Handle, Segment};
use crate::units::Time;

pub use config::{Discipline, ForeignQueue, LinkFacts, QueueConfig};
pub use drop_tail::DropTail;

/// A frame at a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The host's handle of the segment.
    pub handle: Handle,
    /// Bytes on the link, its overhead included.
    pub bytes: u32,
    /// Connection, or stream of datagrams if the flags have DATAGRAM.
    pub flow: FlowId,
    /// Flags of the segment.
    pub flags: Flags,
    /// When it came.
    pub at: Time,
}

impl Frame {
    /// A segment that comes to a queue now; `overhead` is what the link adds to it.
    #[inline]
    pub fn new(handle: Handle, segment: &Segment, overhead: u32, now: Time) -> Frame {
        Frame {
            handle,
            bytes: segment.size + overhead,
            flow: segment.flow,
            flags: segment.flags,
            at: now,
        }
    }

    /// Marks the frame if its transport understands marks. True if it does.
    #[inline]
    pub fn mark(&mut self, reason: &'static str, outcomes: &mut Vec<Outcome>) -> bool {
        let capable = self.flags.has(Flags::ECT);
        if capable {
            self.flags = self.flags.with(Flags::CE);
            outcomes.push(Outcome::Marked { handle: self.handle, reason });
        }
        capable
    }

    /// Drops the frame.
    #[inline]
    pub fn drop(self, reason: &'static str, outcomes: &mut Vec<Outcome>) {
        outcomes.push(Outcome::Dropped { handle: self.handle, reason });
    }
}

/// What happened to a frame beside waiting and being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Congestion experienced: the host sets `Flags::CE`.
    Marked {
        /// Which.
        handle: Handle,
        /// Why.
        reason: &'static str,
    },
    /// It is gone.
    Dropped {
        /// Which.
        handle: Handle,
        /// Why.
        reason: &'static str,
    },
}

/// Why frames are dropped or marked.
pub mod drop_reason {
    /// There is no room.
    pub const FULL: &str = "queue full";
    /// RED's draw.
    pub const RED_EARLY: &str = "red early";
    /// RED's average is above all probabilities.
    pub const RED_FORCED: &str = "red forced";
    /// CoDel's control law.
    pub const CODEL: &str = "codel";
    /// FQ-CoDel is full, and this flow has most bytes in it.
    pub const FATTEST: &str = "fattest flow";
    /// A frame of low priority made room.
    pub const PUSHED_OUT: &str = "pushed out";
    /// The queue is above the step.
    pub const STEP: &str = "step";
    /// Congestion warning: the average is above the threshold.
    pub const CW: &str = "congestion warning";
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Frames.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Load {
    /// Both together.
    #[inline]
    pub fn plus(self, other: Load) -> Load {
        Load { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// A queue discipline.
///
/// `outcomes` is a list that the host empties after each call: a frame is in it at most twice,
/// marked and then dropped. Frames leave by `dequeue` or as [`Outcome::Dropped`], each once.
pub trait QueueDiscipline: Send {
    /// A frame comes and finds the link busy or others waiting.
    fn enqueue(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>);

    /// The link is free: the frame to be sent next. After `None` it is idle.
    fn dequeue(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame>;

    /// A frame comes, finds the link idle and nobody waiting, and need not wait. False if it is
    /// dropped all the same.
    fn pass(&mut self, _now: Time, _frame: Frame, _outcomes: &mut Vec<Outcome>) -> bool {
        true
    }

    /// How much waits.
    fn load(&self) -> Load;

    /// True if so many bytes more would find room, whatever else the discipline may do with them.
    fn has_room(&self, _bytes: u32) -> bool {
        true
    }
}

/// Any discipline: built-in ones by enum, one boxed variant for foreign ones.
#[allow(missing_docs)]
pub enum AnyQueue {
    DropTail(DropTail),
    Red(red::RedQueue),
    StepMarking(step_marking::StepQueue),
    Codel(codel::CodelQueue),
    FqCodel(fq_codel::FqCodelQueue),
    CwMarking(cw_marking::CwQueue),
    TwoPriority(two_priority::TwoPriorityQueue),
    Foreign(Box<dyn QueueDiscipline>),
}

macro_rules! each_queue {
    ($self:ident, $q:ident => $e:expr) => {
        match $self {
            AnyQueue::DropTail($q) => $e,
            AnyQueue::Red($q) => $e,
            AnyQueue::StepMarking($q) => $e,
            AnyQueue::Codel($q) => $e,
            AnyQueue::FqCodel($q) => $e,
            AnyQueue::CwMarking($q) => $e,
            AnyQueue::TwoPriority($q) => $e,
            AnyQueue::Foreign($q) => $e,
        }
    };
}

impl QueueDiscipline for AnyQueue {
    fn enqueue(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
        each_queue!(self, q => q.enqueue(now, frame, outcomes))
    }
    fn dequeue(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        each_queue!(self, q => q.dequeue(now, outcomes))
    }
    fn pass(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) -> bool {
        each_queue!(self, q => q.pass(now, frame, outcomes))
    }
    fn load(&self) -> Load {
        each_queue!(self, q => q.load())
    }
    fn has_room(&self, bytes: u32) -> bool {
        each_queue!(self, q => q.has_room(bytes))
    }
}
