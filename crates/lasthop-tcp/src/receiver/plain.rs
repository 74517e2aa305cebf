//! The fast path: segments without options and marks in the usual course of things, and their ACKs.

use super::Receiver;
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the fast path is a file apart")]
impl Receiver {
    /// True if a segment of `len` bytes at `seq`, without options and marks, is the next one in the
    /// usual course of things: [`Self::take_plain`] may take it.
    #[inline(always)]
    pub fn expects(&self, seq: u64, len: u32) -> bool {
        self.plain && seq == self.rcv_nxt && seq + u64::from(len) <= self.edge
    }

    /// Takes a segment that it expects and that arrives at `now`. Returns the window that its ACK
    /// advertises; the ACK has no options, and its number is the end of the segment. `None` if the
    /// ACK is delayed.
    #[inline(always)]
    pub fn take_plain(&mut self, now: Time, len: u32) -> Option<u32> {
        self.rcv_nxt += u64::from(len);
        if let Some(delay) = self.delay {
            self.pending = !self.pending;
            if self.pending {
                (self.deadline, self.armed) = (now + delay, now);
                return None;
            }
            self.deadline = Time::NEVER;
        }
        Some(self.advertise())
    }

    /// The window of a plain ACK that is sent now.
    #[inline(always)]
    fn advertise(&mut self) -> u32 {
        let next = self.rcv_nxt;
        let edge = self.edge.max(next + self.plain_window);
        (self.edge, self.last_ack) = (edge, next);
        u32::try_from(edge - next).unwrap_or(u32::MAX)
    }

    /// True if a segment of `len` bytes at `seq`, without options and marks, arrives in the usual
    /// course of things beyond all that has arrived and beyond a hole: [`Self::take_beyond`] may
    /// take it.
    #[inline]
    pub fn expects_beyond(&self, seq: u64, len: u32) -> bool {
        self.plain_beyond
            && seq > self.rcv_nxt
            && seq + u64::from(len) <= self.edge
            && self.ahead.highest().is_none_or(|highest| seq >= highest)
    }

    /// Takes such a segment. Returns the number and the window of the duplicate ACK that answers
    /// it, which has no options.
    #[inline]
    pub fn take_beyond(&mut self, seq: u64, len: u32) -> (u64, u32) {
        self.ahead.take(seq, seq + u64::from(len), self.rcv_nxt);
        (self.plain, self.pending, self.deadline) = (false, false, Time::NEVER);
        (self.rcv_nxt, self.advertise())
    }

    /// Bytes on the wire of an ACK without options.
    pub fn plain_ack_size(&self) -> u32 {
        self.config.headers + self.ack_bytes
    }

    /// After a segment that was not expected: notes what is to be expected from now on.
    #[inline]
    pub(super) fn update_plain(&mut self) {
        let plain = (self.usual || self.delays_plainly()) && !self.echo && !self.timestamps;
        self.plain = plain && self.ahead.is_empty();
        self.plain_beyond = plain && self.sack_blocks == 0;
        self.plain_window = self.window();
    }

    /// As `usual`, but every second segment is acknowledged at once, the others by the timer.
    fn delays_plainly(&self) -> bool {
        self.open
            && !self.is_answering()
            && self.delay.is_some()
            && self.linux_acks.is_none()
            && self.compression.is_none()
            && !self.config.manual_read
            && self.fin_at.is_none()
            && self.rule.is_none()
            && self.growth.is_none()
            && (self.ack_limit, self.shut) == (u64::MAX, false)
    }
}
