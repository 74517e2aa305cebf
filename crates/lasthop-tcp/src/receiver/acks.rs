//! The ACKs of a receiver: their flags, their window and their options.

use super::Receiver;
use crate::sender::config::{Output, SendReason};
use crate::timestamps::timestamp;
use lasthop_core::segment::{Flags, NAMED_BYTES, Options, Payload, REPORT_BYTES, Segment};
use lasthop_core::units::Time;

/// Bytes that a TCP header has for options.
const ROOM: u32 = 40;

#[allow(clippy::multiple_inherent_impl, reason = "the ACKs and the window are files apart")]
impl Receiver {
    #[inline(never)]
    pub(super) fn ack_now(&mut self, now: Time, out: &mut impl Output) {
        (self.pending, self.compressing) = (false, false);
        if !self.is_answering() {
            self.deadline = Time::NEVER;
        }
        if let Some(compression) = &mut self.compression {
            compression.ack_sent();
        }
        if let Some(acks) = &mut self.linux_acks {
            acks.on_ack_sent();
        }
        self.send_ack(now, Flags::NONE, out);
    }

    #[inline(never)]
    pub(super) fn send_ack(&mut self, now: Time, extra: Flags, out: &mut impl Output) {
        self.acknowledge(now, extra, out);
    }

    #[inline(always)]
    pub(super) fn acknowledge(&mut self, now: Time, extra: Flags, out: &mut impl Output) {
        let mut flags = Flags::ACK.with(extra).with(std::mem::take(&mut self.marks));
        let fin_taken = self.fin_at == Some(self.rcv_nxt) && self.ack_limit >= self.rcv_nxt;
        if fin_taken && self.full_handshake {
            flags = flags.with(Flags::FIN);
        }
        if self.timestamps {
            flags = flags.with(Flags::TIMESTAMPS);
        }
        if !extra.has(Flags::SYN) {
            flags = flags.with(self.echo.flags());
        }
        self.move_edge();
        let honest = self.rcv_nxt.min(self.ack_limit);
        let ack = if extra.has(Flags::SYN) { 0 } else { self.claimed(honest) };
        self.last_ack = ack;
        let window = if self.shut { 0 } else { self.edge.saturating_sub(ack) };
        let segment = Segment {
            seq: 0,
            ack: ack + u64::from(fin_taken),
            id: 0,
            flow: self.config.flow,
            len: 0,
            size: self.config.headers + self.ack_bytes,
            window: u32::try_from(window).unwrap_or(u32::MAX),
            ts_value: if self.timestamps { timestamp(now) } else { 0 },
            ts_echo: self.paws.recent(),
            payload: Payload::NONE,
            to: self.config.to,
            flags,
            attempt: 1,
            forward: false,
        };
        let sacks = self.sack_blocks > 0 && (self.duplicate.is_some() || !self.ahead.is_empty());
        if sacks || flags.any(Flags::OPTIONS) {
            // A copy: what is taken by its address goes through memory, and so would the plain ACK.
            let mut segment = segment;
            let mut options = Options { named: self.named, report: self.reported, ..Options::NONE };
            self.report(&mut segment, &mut options);
            return out.send_with(segment, &options, SendReason::Control);
        }
        out.send(segment, SendReason::Control);
    }

    /// Where the window ends never moves back (RFC 9293, section 3.8.6); it counts from the ACK
    /// number beside it.
    #[inline(always)]
    fn move_edge(&mut self) {
        let edge = self.claimed(self.rcv_nxt) + self.window();
        if !self.shut && edge >= self.edge.saturating_add(self.edge_step) {
            self.edge = edge;
        }
    }

    /// Acknowledges with a segment of this end's own stream: sets its ACK number, its window, its
    /// echoed timestamp and the ECN echo. A delayed ACK is no longer due, unless it has options,
    /// for which a full segment has no room.
    pub fn piggyback(&mut self, segment: &mut Segment) {
        self.move_edge();
        let has_options = (self.sack_blocks > 0
            && (self.duplicate.is_some() || !self.ahead.is_empty()))
            || self.marks != Flags::NONE;
        if !has_options && !self.is_answering() {
            (self.pending, self.compressing, self.deadline) = (false, false, Time::NEVER);
            if let Some(acks) = &mut self.linux_acks {
                acks.on_ack_sent();
            }
        }
        let fin_taken = self.finished() && self.ack_limit >= self.rcv_nxt;
        self.last_ack = self.rcv_nxt.min(self.ack_limit);
        segment.ack = self.last_ack + u64::from(fin_taken);
        let window = if self.shut { 0 } else { self.edge.saturating_sub(self.last_ack) };
        segment.window = u32::try_from(window).unwrap_or(u32::MAX);
        segment.ts_echo = self.paws.recent();
        segment.flags = segment.flags.with(Flags::ACK);
        segment.flags = segment.flags.with(self.echo.flags());
    }

    /// The options of an ACK: the segment that it names, what it asks for, and what has arrived
    /// beyond its number, before that a duplicate if there was one (RFC 2883, section 4).
    #[inline(never)]
    pub(super) fn report(&mut self, segment: &mut Segment, options: &mut Options) {
        if segment.flags.has(Flags::NAMED) {
            segment.size += NAMED_BYTES;
        }
        if segment.flags.has(Flags::REPORT) {
            segment.size += REPORT_BYTES;
        }
        let mut room = self.sack_blocks;
        if segment.flags.has(Flags::SNACK) {
            options.snack = self.snack;
            segment.size += self.snack.bytes();
            room = room.min(
                (ROOM.saturating_sub(self.ack_bytes + self.sack_bytes + self.snack.bytes()) / 8)
                    as usize,
            );
        }
        if room == 0 || (self.duplicate.is_none() && self.ahead.is_empty()) {
            return;
        }
        let mut flags = segment.flags.with(Flags::SACK);
        if let Some(d) = self.duplicate.take() {
            options.sack.push(d.start, d.end);
            flags = flags.with(Flags::DSACK);
            room -= 1;
        }
        self.ahead.report(&mut options.sack, room);
        if options.sack.as_slice().is_empty() {
            // What is held is so old that ns-2 does not report it.
            return;
        }
        segment.size += self.sack_bytes + 8 * options.sack.as_slice().len() as u32;
        segment.flags = flags;
    }
}
