//! The frame that a station is serving.

use super::report::{Attempt, End};
use crate::queue::Frame;
use lasthop_core::agent::LinkEvent;
use lasthop_core::framing::{Progress, Step};
use lasthop_core::segment::Handle;
use lasthop_core::units::{Duration, Time};

/// The result of one attempt on the medium.
pub(super) struct Sent {
    /// The receiver has received the frame or fragment.
    pub received: bool,
    /// The sender considers it delivered.
    pub delivered: bool,
    /// Another station sent at the same time.
    pub collided: bool,
    /// The headers of a damaged frame are intact.
    pub readable: bool,
    /// Time of the medium that the attempt took.
    pub air_time: Duration,
}

/// The frame that a station is serving.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    frame: Frame,
    to: usize,
    progress: Progress,
    /// Bytes of overhead per fragment.
    overhead: u32,
    /// Time on the air of the frame or fragment, and of the first transmission: the RTS or the
    /// frame.
    data: Duration,
    first: Duration,
    attempts: u32,
    /// The receiver has the current fragment; the first one; and it misses none of those before.
    here: bool,
    begun: bool,
    torn: bool,
    /// The last attempt that failed was a collision.
    crashed: bool,
}

impl Head {
    /// A frame for station `to`; `overhead` is that of each fragment, in bytes. Its times on the
    /// air follow with [`Head::set_times`].
    pub(super) fn new(frame: Frame, to: usize, progress: Progress, overhead: u32) -> Head {
        Head {
            frame,
            to,
            progress,
            overhead,
            data: Duration::ZERO,
            first: Duration::ZERO,
            attempts: 0,
            here: false,
            begun: false,
            torn: false,
            crashed: false,
        }
    }

    /// Sets the time on the air of the frame or fragment, and of the first transmission.
    #[inline]
    pub(super) fn set_times(&mut self, (data, first): (Duration, Duration)) {
        (self.data, self.first) = (data, first);
    }

    /// The receiving station.
    #[inline]
    pub(super) fn to(&self) -> usize {
        self.to
    }

    /// Handle of the segment.
    #[inline]
    pub(super) fn handle(&self) -> Handle {
        self.frame.handle
    }

    /// Time on the air of the frame or fragment.
    #[inline]
    pub(super) fn data(&self) -> Duration {
        self.data
    }

    /// Time on the air of the first transmission: the RTS or the frame.
    #[inline]
    pub(super) fn first(&self) -> Duration {
        self.first
    }

    /// True if an RTS precedes the frame.
    #[inline]
    pub(super) fn reserves(&self) -> bool {
        self.first != self.data
    }

    /// Number of attempts so far, the current one included.
    #[inline]
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Begins an attempt.
    #[inline]
    pub(super) fn begin_attempt(&mut self) {
        self.attempts += 1;
    }

    /// Bytes to be sent, overhead included.
    #[inline]
    pub(super) fn bytes(&self) -> u32 {
        self.overhead + self.progress.bytes()
    }

    /// The frame is not fragmented, and the receiver does not have it yet.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.progress.fragments() == 1 && !self.here
    }

    /// The last attempt that failed was a collision.
    #[inline]
    pub(super) fn crashed(&self) -> bool {
        self.crashed
    }

    /// The attempt of station `i` that began at `start`.
    #[inline]
    pub(super) fn attempt(&self, i: usize, start: Time) -> Attempt {
        Attempt {
            station: i,
            to: self.to,
            frame: self.frame,
            bytes: self.bytes(),
            number: self.attempts,
            start,
        }
    }

    /// Ends an attempt with the result `how`: what the sender does next, and what the receiver has.
    #[inline]
    pub(super) fn end_attempt(&mut self, how: Sent) -> End {
        let Sent { received, delivered, collided, readable, air_time } = how;
        let (first, completes) =
            (self.progress.is_at_first(), self.progress.is_at_last() && !self.torn);
        let arrives = received && !self.here && completes;
        self.here |= received;
        self.begun |= first && received;
        let arrived = self.here && completes;
        if collided || !delivered {
            self.crashed = collided;
        }
        let step = self.progress.step(!delivered);
        let damaged_frames = match step {
            Step::More => None,
            _ if arrived => None,
            _ if self.progress.fragments() > 1 => self.begun.then_some(LinkEvent::Incomplete),
            _ => (!collided).then_some(LinkEvent::Damaged { header_readable: readable }),
        };
        if delivered {
            self.torn |= !self.here;
            self.here = false;
        }
        End {
            received,
            arrives,
            arrived,
            held: false,
            late: false,
            delivered,
            collided,
            crashed: self.crashed,
            step,
            damaged_frames,
            air_time,
        }
    }
}
