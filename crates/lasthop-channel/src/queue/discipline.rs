//! What a queue discipline gets, returns and implements.

use std::fmt;
use std::sync::Arc;

use crate::sample::Sample;
use lasthop_core::segment::{Flags, FlowId, Handle, NodeId, Options, Segment};
use lasthop_core::units::{QueueLimit, Rate, Time};

/// Reason of a drop: the queue is full.
pub const FULL: &str = "queue full";

/// Reason of a drop: the policer before the queue, see `policer` of a link.
pub const POLICER: &str = "policer";

/// A frame at a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The host's handle of the segment.
    pub handle: Handle,
    /// Length on the link, link overhead included, bytes.
    pub bytes: u32,
    /// Connection, or datagram stream if the flags have DATAGRAM.
    pub flow: FlowId,
    /// Flags of the segment.
    pub flags: Flags,
    /// Destination; 0 if the host has no nodes.
    pub to: NodeId,
    /// Source, 0 if the host has no nodes or no queue of its network reads it; of a notice, the end
    /// of its connection that it is not sent to.
    pub from: NodeId,
    /// Arrival time.
    pub at: Time,
}

const _: () = assert!(size_of::<Frame>() <= 32);

impl Frame {
    /// A segment that arrives at a queue now; `overhead` is the link overhead in bytes. The source
    /// is 0, since a segment does not have it.
    #[inline]
    pub fn new(handle: Handle, segment: &Segment, overhead: u32, now: Time) -> Frame {
        Frame {
            handle,
            bytes: segment.size + overhead,
            flow: segment.flow,
            flags: segment.flags,
            to: segment.to,
            from: 0,
            at: now,
        }
    }

    /// Marks the frame if its transport is ECN-capable; returns whether it is.
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

/// A frame was marked, dropped or made redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Congestion experienced: the host sets `Flags::CE` of the segment.
    Marked {
        /// Handle of the frame.
        handle: Handle,
        /// Reason, see [`drop_reason`](super::drop_reason).
        reason: &'static str,
    },
    /// The frame was dropped.
    Dropped {
        /// Handle of the frame.
        handle: Handle,
        /// Reason, see [`drop_reason`](super::drop_reason).
        reason: &'static str,
    },
    /// The frame was removed, because a frame that arrives makes it redundant.
    Filtered {
        /// Handle of the frame.
        handle: Handle,
        /// Handle of the frame that arrives.
        by: Handle,
    },
}

impl Outcome {
    /// Handle of the frame.
    pub fn handle(self) -> Handle {
        match self {
            Outcome::Marked { handle, .. }
            | Outcome::Dropped { handle, .. }
            | Outcome::Filtered { handle, .. } => handle,
        }
    }
}

/// The headers of frames, which the host has.
///
/// # Examples
///
/// ```
/// use lasthop_channel::queue::Headers;
/// use lasthop_core::segment::{Handle, Options, Segment};
///
/// struct Host(Vec<(Segment, Options)>);
///
/// impl Headers for Host {
///     fn segment(&self, handle: Handle) -> &Segment {
///         &self.0[handle as usize].0
///     }
///
///     fn options(&self, handle: Handle) -> Option<&Options> {
///         Some(&self.0[handle as usize].1)
///     }
/// }
///
/// let host = Host(vec![(Segment { ack: 1000, ..Segment::default() }, Options::NONE)]);
/// assert_eq!((host.segment(0).ack, host.options(0)), (1000, Some(&Options::NONE)));
/// ```
pub trait Headers {
    /// The segment behind a handle.
    fn segment(&self, handle: Handle) -> &Segment;

    /// Its options; the flags of the segment say which of them are valid. `None` if the header has
    /// anything that the segment and these options do not represent: such a frame is not filtered.
    fn options(&self, _handle: Handle) -> Option<&Options> {
        None
    }
}

/// A frame in a queue, as the verifier of a run sees it.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Queued {
    /// Its flags.
    pub flags: Flags,
    /// It has just arrived.
    pub is_arriving: bool,
    /// It has waited longest, of those in its [lane](QueueSettings::lane).
    pub is_first: bool,
    /// The same among the frames of its flow.
    pub is_first_of_flow: bool,
    /// The queue exceeds its limit with the frame that has just arrived.
    pub exceeds_limit: bool,
    /// The limit is in bytes.
    pub limit_in_bytes: bool,
    /// Frames of low priority wait that have not just arrived.
    pub low_priority_waits: bool,
    /// No frame of its flow follows but the one that has just arrived.
    pub is_last_of_flow: bool,
}

impl Queued {
    /// True for a frame that is marked where others are dropped.
    pub(super) fn is_marked_instead(&self, ecn: bool) -> bool {
        ecn && self.flags.has(Flags::ECT)
    }
}

/// Load of the queue, excluding the frame being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of frames.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Load {
    /// The sum of both loads.
    #[inline]
    pub fn plus(self, other: Load) -> Load {
        Load { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// A queue discipline.
///
/// The host empties `outcomes` after each call. A frame is in it at most twice, marked and then
/// dropped. Each frame leaves exactly once, by `dequeue` or as [`Outcome::Dropped`] or
/// [`Outcome::Filtered`].
///
/// # Examples
///
/// ```
/// use lasthop_channel::queue::{DropTail, Frame, Outcome, QueueDiscipline, drop_reason};
/// use lasthop_core::segment::Segment;
/// use lasthop_core::units::{QueueLimit, Time};
///
/// let mut queue = DropTail::new(Some(QueueLimit::Packets(1)));
/// let segment = Segment { size: 1040, ..Segment::default() };
/// let mut outcomes = Vec::new();
/// for handle in [1, 2] {
///     let frame = Frame::new(handle, &segment, 14, Time::ZERO);
///     queue.enqueue(Time::ZERO, frame, &mut outcomes);
/// }
/// assert_eq!(outcomes, [Outcome::Dropped { handle: 2, reason: drop_reason::FULL }]);
/// assert_eq!((queue.load().packets, queue.load().bytes), (1, 1054));
/// assert_eq!(queue.dequeue(Time::ZERO, &mut outcomes).map(|f| f.handle), Some(1));
/// ```
pub trait QueueDiscipline: Send {
    /// A frame is about to be passed to `enqueue`: removes a frame that it makes redundant.
    fn filter(&mut self, _arriving: &Frame, _headers: &dyn Headers, _outcomes: &mut Vec<Outcome>) {}

    /// A frame arrives while the link is busy or other frames wait.
    fn enqueue(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>);

    /// The link is free: returns the frame to be sent next. After `None` the link is idle.
    fn dequeue(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame>;

    /// A frame arrives while the link is idle and the queue empty, and is sent at once. False if it
    /// is dropped instead.
    fn pass(&mut self, _now: Time, _frame: Frame, _outcomes: &mut Vec<Outcome>) -> bool {
        true
    }

    /// Load of the queue, excluding the frame being sent.
    fn load(&self) -> Load;

    /// True if a frame of `bytes` bytes fits within the limit; the discipline may still drop it.
    fn has_room(&self, _bytes: u32) -> bool {
        true
    }
}

/// The settings of a queue discipline: the keys of its table in a scenario file, with their doc
/// comments and defaults.
///
/// # Examples
///
/// A queue of one frame, which drops all that arrive while that one waits:
///
/// ```
/// use lasthop_channel::queue::{
///     DropTail, Frame, LinkFacts, Outcome, QueueDiscipline, QueueSettings, drop_reason,
/// };
/// use lasthop_channel::sample::Sample;
/// use lasthop_core::segment::Segment;
/// use lasthop_core::units::{QueueLimit, Rate, Time};
///
/// struct OneFrame;
///
/// impl QueueSettings for OneFrame {
///     type Queue = DropTail;
///
///     fn build(&self, limit: Option<QueueLimit>, _link: &LinkFacts<'_>) -> DropTail {
///         DropTail::new(limit)
///     }
///
///     fn default_limit() -> Option<QueueLimit> {
///         Some(QueueLimit::Packets(1))
///     }
///
///     fn sample(_: &mut Sample<'_>) -> Self {
///         OneFrame
///     }
/// }
///
/// let link = LinkFacts { name: "bs>phone", seed: 1, rate: Rate(2_000_000), full_frame: 1054 };
/// let mut queue = OneFrame.build(OneFrame::default_limit(), &link);
/// let segment = Segment { size: 1040, ..Segment::default() };
/// let mut outcomes = vec![];
/// for handle in [1, 2] {
///     let frame = Frame::new(handle, &segment, 14, Time::ZERO);
///     queue.enqueue(Time::ZERO, frame, &mut outcomes);
/// }
/// assert_eq!(outcomes, [Outcome::Dropped { handle: 2, reason: drop_reason::FULL }]);
/// ```
pub trait QueueSettings: Sized {
    /// The queue.
    type Queue: QueueDiscipline;

    /// True if the discipline uses random draws.
    const IS_RANDOM: bool = false;

    /// True if the discipline may read the source of a frame; otherwise the host need not look for
    /// it.
    const READS_SOURCE: bool = false;

    /// Constructs an empty queue for a link. The settings are [filled](QueueSettings::fill).
    fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> Self::Queue;

    /// The usual limit of the discipline, if it has one.
    fn default_limit() -> Option<QueueLimit> {
        None
    }

    /// Fills in settings whose defaults derive from the limit.
    fn fill(&mut self, _limit: Option<QueueLimit>) {}

    /// Checks the settings for consistency.
    ///
    /// # Errors
    ///
    /// The key and a message that states what is allowed.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Key and value of the queue length above which the discipline acts, if it has one; it must be
    /// below the limit.
    fn threshold(&self) -> Option<(&'static str, QueueLimit)> {
        None
    }

    /// The part of the queue that a frame with these flags enters, each of which is first in, first
    /// out, for disciplines that have several.
    fn lane(&self, _flags: Flags) -> u8 {
        0
    }

    /// True if the discipline may drop a frame for this reason. The verifier asks, which knows
    /// nothing else of a discipline.
    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        reason == FULL && frame.is_arriving && frame.exceeds_limit
    }

    /// True if the discipline may mark a frame of an ECN-capable transport for this reason.
    fn may_mark(&self, _reason: &str, _frame: &Queued) -> bool {
        false
    }

    /// True if the discipline removes frames that others make redundant.
    fn filters(&self) -> bool {
        false
    }

    /// True if the frame that has just arrived may remove this one, if it makes it redundant.
    fn may_filter(&self, _frame: &Queued) -> bool {
        false
    }

    /// True if this frame may be sent next.
    fn may_send(&self, frame: &Queued) -> bool {
        frame.is_first
    }

    /// Random settings that pass the checks, for tests with random networks.
    fn sample(sample: &mut Sample<'_>) -> Self;
}

/// Properties of the link, for the construction of a discipline.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts<'a> {
    /// Name of the link; with the seed it selects the random draws.
    pub name: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// Mean rate; 0 if unknown.
    pub rate: Rate,
    /// Length of a full-size frame, link overhead included, bytes.
    pub full_frame: u32,
}

/// Constructs a discipline for a link.
pub type MakeQueue = dyn Fn(&LinkFacts<'_>) -> Box<dyn QueueDiscipline> + Send + Sync;

/// A discipline defined outside this crate.
#[derive(Clone)]
pub struct ForeignQueue {
    /// Name for reports.
    pub name: String,
    /// Constructor.
    pub make: Arc<MakeQueue>,
}

impl fmt::Debug for ForeignQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignQueue({})", self.name)
    }
}

impl PartialEq for ForeignQueue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

/// An invalid setting: its key, and what is wrong with its value.
pub type Fault = (&'static str, String);
