//! The receiver component of a scheme, and the configuration of a receiver.

use crate::loss::LossClass;
use crate::reassembly::Reassembly;
use lasthop_core::segment::{Block, Flags, FlowId, NodeId, Segment};
use lasthop_core::snack::Snack;
use lasthop_core::units::Time;

/// Configuration of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Number of the flow.
    pub flow: FlowId,
    /// Node of the sender.
    pub to: NodeId,
    /// Header bytes of every packet.
    pub headers: u32,
    /// Payload bytes of a full segment; a longer one consists of several, sent as one frame.
    pub mss: u32,
    /// Receive buffer in bytes.
    pub buffer: u64,
    /// The application reads by `read`; otherwise it reads everything at once.
    pub manual_read: bool,
}

/// How a scheme answers a data segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Flags for the ACK; with NAMED it names the segment, with REPORT it carries `report`.
    pub flags: Flags,
    /// No ACK at all, unless it asks for something.
    pub silent: bool,
    /// What the ACK reports, if its flags have REPORT.
    pub report: u32,
    /// The class of the losses that the arrival reveals: segments from the highest byte so far to
    /// its first byte.
    pub said: LossClass,
}

impl From<Flags> for Reply {
    fn from(flags: Flags) -> Reply {
        Reply { flags, ..Reply::default() }
    }
}

/// The receiver component of a scheme: what it adds to ACKs, and which segments are acknowledged.
///
/// # Examples
///
/// A rule that sets a flag in the ACK of every segment that leaves a gap:
///
/// ```
/// use lasthop_core::segment::{Flags, Segment};
/// use lasthop_tcp::receiver::{ReceiverRule, Reply};
/// use lasthop_core::units::Time;
///
/// struct ReportGaps;
/// impl ReceiverRule for ReportGaps {
///     fn on_data(&mut self, _: Time, segment: &Segment, expected: u64, _: u64) -> Reply {
///         Reply::from(if segment.seq > expected { Flags::ELN } else { Flags::NONE })
///     }
/// }
///
/// let late = Segment { seq: 2000, len: 1000, ..Segment::default() };
/// assert_eq!(ReportGaps.on_data(Time::ZERO, &late, 1000, 1000).flags, Flags::ELN);
/// ```
pub trait ReceiverRule: Send {
    /// A data segment has arrived when `expected` was the next byte expected and `highest` the byte
    /// after the highest one that had arrived.
    fn on_data(&mut self, now: Time, segment: &Segment, expected: u64, highest: u64) -> Reply;

    /// The segment has been processed. The holes returned are requested (SNACK) by the ACK that
    /// answers it, which is sent now.
    fn asks(&mut self, now: Time, segment: &Segment, held: &Held<'_>) -> Option<Snack> {
        let _ = (now, segment, held);
        None
    }

    /// When `on_timer` is to be called.
    fn deadline(&self) -> Time {
        Time::NEVER
    }

    /// The deadline has come. The holes returned are requested by a separate ACK with the flags
    /// returned.
    fn on_timer(&mut self, now: Time, held: &Held<'_>) -> Option<(Snack, Flags)> {
        let _ = (now, held);
        None
    }

    /// It classifies losses: its flows have a confusion matrix.
    fn classifies(&self) -> bool {
        false
    }
}

/// What a receiver holds.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    next: u64,
    ahead: &'a Reassembly,
}

impl<'a> Held<'a> {
    /// What a receiver holds that expects `next`, and above that has `ahead`.
    pub(super) fn new(next: u64, ahead: &'a Reassembly) -> Held<'a> {
        Held { next, ahead }
    }

    /// The next byte expected.
    pub fn next(&self) -> u64 {
        self.next
    }
    /// What is missing below the highest byte that has arrived, in order.
    pub fn holes(&self) -> impl Iterator<Item = Block> {
        self.ahead.holes(self.next)
    }

    /// The byte after the highest one that has arrived.
    pub fn highest(&self) -> u64 {
        self.ahead.highest().unwrap_or(self.next)
    }
}
