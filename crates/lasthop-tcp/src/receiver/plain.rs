//! The fast path: segments without marks and without options but timestamps in the usual course of
//! things, and their ACKs.

use super::linux_acks::{Taken, When};
use super::{DataArrived, Receiver};
use crate::sender::config::{Output, SendReason};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the fast path is a file apart")]
impl Receiver {
    /// True if a segment of `len` bytes at `seq`, without marks and with no option but the
    /// timestamp `stamp` (0: none), is the next one in the usual course of things:
    /// [`Self::take_plain`] may take it.
    #[inline(always)]
    pub fn expects(&self, seq: u64, len: u32, stamp: u32) -> bool {
        self.plain
            && seq == self.rcv_nxt
            && seq + u64::from(len) <= self.edge
            && self.paws.is_recent(stamp)
    }

    /// True if a segment is one that it expects: [`Self::take_plain_segment`] may take it.
    #[inline(always)]
    pub fn expects_segment(&self, segment: &Segment) -> bool {
        self.is_usual(segment) && self.expects(segment.seq, segment.len, segment.ts_value)
    }

    /// The same for one that arrives beyond a hole, which [`Self::take_segment_beyond`] may take.
    #[inline(always)]
    pub fn expects_segment_beyond(&self, segment: &Segment) -> bool {
        self.is_usual(segment) && self.expects_beyond(segment.seq, segment.len, segment.ts_value)
    }

    /// The same for one below what has arrived, of which nothing has arrived, where ACKs are those
    /// of Linux: [`Self::take_filling`] may take it.
    #[inline(always)]
    pub fn expects_filling(&self, segment: &Segment) -> bool {
        let (start, end) = (segment.seq, segment.seq + u64::from(segment.len));
        self.plain_beyond
            && self.reports_beyond()
            && self.is_usual(segment)
            && start >= self.rcv_nxt
            && end <= self.edge
            && self.paws.is_recent(segment.ts_value)
            && self.ahead.lacks(start, end)
    }

    /// The segment has data, no marks and no options but timestamps.
    #[inline(always)]
    fn is_usual(&self, segment: &Segment) -> bool {
        let stamped = Flags::ACK.with(Flags::TIMESTAMPS);
        let usual = if self.timestamps { stamped } else { Flags::ACK };
        segment.flags == usual && segment.len > 0
    }

    /// Takes a segment that it expects, and sends its ACK unless that is delayed.
    #[inline(always)]
    pub fn take_plain_segment(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        let stamps = (segment.ts_value, segment.ts_echo);
        match self.take_plain(now, segment.len, stamps) {
            Some(_) if self.linux_acks.is_some() => self.send_ack(now, Flags::NONE, out),
            Some(window) => self.send_plain_ack(window, out),
            None => {}
        }
    }

    /// Takes a segment that it expects beyond a hole, and sends its ACK unless that is held back.
    #[inline(always)]
    pub fn take_segment_beyond(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        let data = (segment.seq, segment.len);
        if self.reports_beyond() {
            return self.take_beyond_as_linux(now, data, segment.ts_echo, out);
        }
        let (_, window) = self.take_beyond(data.0, data.1);
        self.send_plain_ack(window, out);
    }

    /// Sends an ACK without options that advertises this window.
    #[inline(always)]
    fn send_plain_ack(&self, window: u32, out: &mut impl Output) {
        let ack = Segment {
            ack: self.rcv_nxt,
            flow: self.config.flow,
            size: self.plain_ack_size(),
            window,
            ts_echo: self.echoed_stamp(),
            to: self.config.to,
            flags: Flags::ACK,
            attempt: 1,
            ..Segment::default()
        };
        out.send(ack, SendReason::Control);
    }

    /// The next segment may need more than the fast path.
    pub(super) fn leave_plain(&mut self) {
        (self.plain, self.plain_beyond) = (false, false);
    }

    /// Takes a segment that it expects and that arrives at `now`; `stamps` are its timestamp and
    /// the one that it echoes (0: none). Returns the window that its ACK advertises; the ACK has no
    /// option but timestamps, and its number is the end of the segment. `None` if the ACK is
    /// delayed.
    #[inline(always)]
    pub fn take_plain(&mut self, now: Time, len: u32, stamps: (u32, u32)) -> Option<u32> {
        self.rcv_nxt += u64::from(len);
        if let Some(delay) = self.delay {
            if self.linux_acks.is_some() {
                return self.take_as_linux(now, len, stamps);
            }
            self.pending = !self.pending;
            if self.pending {
                (self.deadline, self.armed) = (now + delay, now);
                return None;
            }
            self.deadline = Time::NEVER;
        }
        Some(self.advertise())
    }

    /// The timestamp that the next ACK echoes; 0 without timestamps.
    #[inline(always)]
    pub fn echoed_stamp(&self) -> u32 {
        self.paws.recent()
    }

    /// The rest of `take_plain` where ACKs are those of Linux: as `on_data`, where the segment is
    /// the next one, nothing is missing, and no ACK has to go out for another reason.
    #[inline(never)]
    fn take_as_linux(&mut self, now: Time, len: u32, (stamp, echo): (u32, u32)) -> Option<u32> {
        if self.timestamps && self.rcv_nxt - u64::from(len) <= self.last_ack {
            self.paws.update(now, stamp, false, true);
        }
        let grew = self.grow_window_in_order(now, len, echo);
        let acks = self.linux_acks.as_mut()?;
        let taken = Taken {
            now,
            len: u64::from(len.min(self.config.mss)),
            window: self.edge.saturating_sub(self.last_ack),
            grew,
            duplicate: false,
            filled: false,
            missing: false,
            unacknowledged: self.rcv_nxt.saturating_sub(self.last_ack),
        };
        if let When::Delayed(wait) = acks.on_data(&taken) {
            self.delay_ack(now, wait);
            return None;
        }
        acks.on_ack_sent();
        (self.pending, self.compressing, self.deadline) = (false, false, Time::NEVER);
        if let Some(compression) = &mut self.compression {
            compression.ack_sent();
        }
        let (next, edge) = (self.rcv_nxt, self.edge.max(self.rcv_nxt + self.window()));
        (self.edge, self.last_ack) = (edge, next);
        Some(u32::try_from(edge - next).unwrap_or(u32::MAX))
    }

    /// As `grow_window` with the next segment, while nothing is missing and all is read.
    #[inline(always)]
    fn grow_window_in_order(&mut self, now: Time, bytes: u32, stamp: u32) -> bool {
        let Some(growth) = &mut self.growth else { return false };
        let (before, echo) = (growth.offered(), if self.timestamps { stamp } else { 0 });
        let window = self.edge.saturating_sub(self.last_ack);
        let lens = (u64::from(bytes.min(self.config.mss)), u64::from(bytes));
        growth.on_next(now, lens, (self.rcv_nxt, window), echo);
        growth.offered() > before
    }

    /// As `grow_window` with a segment beyond a hole that has just been taken in.
    #[inline(always)]
    fn grow_window_beyond(&mut self, now: Time, bytes: u32, stamp: u32) -> bool {
        let Some(growth) = &mut self.growth else { return false };
        let (before, echo) = (growth.offered(), if self.timestamps { stamp } else { 0 });
        let len = u64::from(bytes.min(self.config.mss));
        let held = self.ahead.bytes().saturating_sub(len);
        let beyond = self.ahead.highest().unwrap_or(self.rcv_nxt).saturating_sub(self.rcv_nxt);
        growth.on_beyond(now, (len, u64::from(bytes)), (held, beyond), echo);
        growth.offered() > before
    }

    /// The window of a plain ACK that is sent now.
    #[inline(always)]
    fn advertise(&mut self) -> u32 {
        let next = self.rcv_nxt;
        let edge = self.edge.max(next + self.plain_window);
        (self.edge, self.last_ack) = (edge, next);
        u32::try_from(edge - next).unwrap_or(u32::MAX)
    }

    /// True if a segment of `len` bytes at `seq`, without marks and with no option but the
    /// timestamp `stamp` (0: none), arrives in the usual course of things beyond all that has
    /// arrived and beyond a hole: [`Self::take_beyond`] may take it, or
    /// [`Self::take_beyond_as_linux`] if [`Self::reports_beyond`].
    #[inline]
    pub fn expects_beyond(&self, seq: u64, len: u32, stamp: u32) -> bool {
        self.plain_beyond
            && seq > self.rcv_nxt
            && seq + u64::from(len) <= self.edge
            && self.ahead.highest().is_none_or(|highest| seq >= highest)
            && self.paws.is_recent(stamp)
    }

    /// What arrives beyond a hole is answered as Linux does.
    #[inline]
    pub fn reports_beyond(&self) -> bool {
        self.linux_acks.is_some()
    }

    /// Takes such a segment. Returns the number and the window of the duplicate ACK that answers
    /// it, which has no options.
    #[inline]
    pub fn take_beyond(&mut self, seq: u64, len: u32) -> (u64, u32) {
        self.ahead.take(seq, seq + u64::from(len), self.rcv_nxt);
        (self.plain, self.pending, self.deadline) = (false, false, Time::NEVER);
        (self.rcv_nxt, self.advertise())
    }

    /// The same where ACKs are those of Linux, for a segment that arrives at `now` and echoes the
    /// timestamp `stamp` (0: none). Sends its ACK, unless that is held back.
    #[inline]
    pub fn take_beyond_as_linux(
        &mut self,
        now: Time,
        (seq, len): (u64, u32),
        stamp: u32,
        out: &mut impl Output,
    ) {
        let ranges = self.ahead.ranges();
        self.ahead.take(seq, seq + u64::from(len), self.rcv_nxt);
        self.plain = false;
        let grew = self.grow_window_beyond(now, len, stamp);
        let taken = Taken {
            now,
            len: u64::from(len.min(self.config.mss)),
            window: self.edge.saturating_sub(self.last_ack),
            grew,
            duplicate: false,
            filled: false,
            missing: true,
            unacknowledged: self.rcv_nxt.saturating_sub(self.last_ack),
        };
        let when = self.linux_acks.as_mut().map(|acks| acks.on_data(&taken));
        let held_back = when.filter(|when| *when == When::Compressible);
        match held_back.and_then(|_| self.compress(now, stamp, ranges)) {
            Some(wait) => self.delay_ack(now, wait),
            None => self.ack_now(now, out),
        }
    }

    /// Takes a segment that fills a hole or a part of one, and sends its ACK unless that is held
    /// back.
    #[inline(never)]
    pub fn take_filling(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        let (start, end) = (segment.seq, segment.seq + u64::from(segment.len));
        if self.timestamps && start <= self.last_ack {
            self.paws.update(now, segment.ts_value, false, end >= self.last_ack);
        }
        let (before, ranges) = (self.rcv_nxt, self.ahead.ranges());
        self.rcv_nxt = self.ahead.take(start, end, before).next;
        let (len, stamp, came) = (segment.len, segment.ts_echo, self.rcv_nxt - before);
        let grew = self.grow_window(now, len, stamp, start > before, came);
        let arrived = DataArrived { now, end, len, stamp, clean: false, grew, ranges };
        match self.ack_wait(&arrived) {
            Some(wait) => self.delay_ack(now, wait),
            None => self.ack_now(now, out),
        }
        self.plain = self.ahead.is_empty();
    }

    /// Bytes on the wire of an ACK without options.
    pub fn plain_ack_size(&self) -> u32 {
        self.config.headers + self.ack_bytes
    }

    /// After a segment that was not expected: notes what is to be expected from now on.
    #[inline]
    pub(super) fn update_plain(&mut self) {
        if self.linux_acks.is_some() {
            self.plain_beyond = self.acks_as_linux();
            self.plain = self.plain_beyond && self.ahead.is_empty();
            return;
        }
        let plain =
            (self.usual || self.delays_plainly()) && self.echo.is_silent() && !self.timestamps;
        self.plain = plain && self.ahead.is_empty();
        self.plain_beyond = plain && self.sack_blocks == 0;
        self.plain_window = self.window();
    }

    /// As `usual`, but every second segment is acknowledged at once, the others by the timer.
    fn delays_plainly(&self) -> bool {
        self.delays_acks()
            && self.linux_acks.is_none()
            && self.compression.is_none()
            && self.growth.is_none()
    }

    /// As `usual`, but the ACK engine of Linux says what is acknowledged at once, and the window
    /// may grow.
    fn acks_as_linux(&self) -> bool {
        self.linux_acks.as_ref().is_some_and(|acks| acks.rtt().is_some())
            && self.delays_acks()
            && self.echo.is_silent()
            && self.duplicate.is_none()
            && self.edge_step == 0
    }

    /// Open, read at once, no FIN seen, no part of a scheme and no relay; ACKs may be delayed.
    fn delays_acks(&self) -> bool {
        self.open
            && !self.is_answering()
            && self.delay.is_some()
            && !self.config.manual_read
            && self.fin_at.is_none()
            && self.rule.is_none()
            && self.misbehaviour.is_none()
            && (self.ack_limit, self.shut) == (u64::MAX, false)
    }
}
