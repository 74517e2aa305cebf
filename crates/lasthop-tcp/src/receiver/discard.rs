//! Segments that a receiver discards, and how it answers them (RFC 9293, section 3.10.7.4; RFC
//! 7323, section 5; RFC 5961; Linux `tcp_validate_incoming`).

use super::Receiver;
use super::reason::Discard;
use crate::profile::SequenceCheck;
use crate::sender::config::Output;
use lasthop_core::segment::{Block, Flags, Segment};
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "what is discarded is a file apart")]
impl Receiver {
    /// Why a segment that arrives now is discarded; `None` if it is accepted or only repeats what
    /// has arrived.
    #[inline]
    pub fn discards(&self, now: Time, segment: &Segment) -> Option<Discard> {
        let end = segment.seq.wrapping_add(u64::from(segment.len));
        let suspicious = (segment.flags.has(Flags::TIMESTAMPS)
            && self.paws.excess(now, segment.ts_value).is_some())
            || end > self.edge
            || segment.flags.any(Flags::SYN.with(Flags::RST))
            || self.fin_at.is_some()
            || !self.open;
        if suspicious { self.reason_to_discard(now, segment, end) } else { None }
    }

    #[inline(never)]
    fn reason_to_discard(&self, now: Time, segment: &Segment, end: u64) -> Option<Discard> {
        if self.reset || !self.open {
            let stray = self.has_forgotten() && !segment.flags.any(Flags::SYN.with(Flags::RST));
            return stray.then_some(Discard::NoConnection);
        }
        if segment.flags.any(Flags::SYN.with(Flags::RST)) {
            return self.is_challenged(segment).then_some(Discard::Challenged);
        }
        if segment.flags.has(Flags::TIMESTAMPS)
            && let Some(excess) = self.paws.excess(now, segment.ts_value)
        {
            let repeats = !occupies(segment) && segment.seq == self.next_expected();
            let forgiven = repeats && self.paws.forgives_duplicate_ack(excess, self.rto_us());
            return (!forgiven).then_some(Discard::OldTimestamp);
        }
        if !occupies(segment) {
            return None;
        }
        if end > self.fin_at.unwrap_or(u64::MAX) {
            return Some(Discard::BeyondWindow);
        }
        if end <= self.edge {
            return None;
        }
        match self.sequence_check {
            SequenceCheck::WithinWindow => Some(Discard::BeyondWindow),
            SequenceCheck::Linux if segment.seq < self.edge && self.unread == 0 => None,
            SequenceCheck::Linux if segment.seq == self.rcv_nxt && segment.seq == self.edge => {
                Some(Discard::ZeroWindow)
            }
            SequenceCheck::Linux => Some(Discard::BeyondWindow),
        }
    }

    /// A scheme's part in the receiver sees a segment beyond the window.
    pub(super) fn is_shown_to_rule(&self, discard: Discard) -> bool {
        discard == Discard::BeyondWindow && self.sequence_check == SequenceCheck::WithinWindow
    }

    /// RFC 5961: a SYN of an open connection (section 4.2), a reset that is neither the next
    /// segment nor behind the last one that has arrived (section 3.2; Linux accepts the right edge
    /// of SACK blocks).
    fn is_challenged(&self, segment: &Segment) -> bool {
        if !self.challenge_acks || !self.is_established() {
            return false;
        }
        let accepted = self.accepts_reset(segment.seq) || Some(segment.seq) == self.ahead.highest();
        segment.flags.has(Flags::SYN) || !accepted
    }

    /// True if a reset with this sequence number ends the connection (RFC 5961, section 3.2): the
    /// next one expected, or, where a relay withholds ACKs, the one that was acknowledged last: a
    /// peer without a connection answers a challenge with it.
    pub fn accepts_reset(&self, seq: u64) -> bool {
        let withheld = self.ack_limit < self.rcv_nxt && seq == self.last_ack;
        seq == self.next_expected() || withheld
    }

    /// The retransmission timeout of this end, microseconds.
    fn rto_us(&self) -> u64 {
        self.linux_acks.as_ref().map_or(0, |acks| acks.rto().0 / 1000)
    }

    /// Answers a segment that is discarded (Linux `tcp_send_dupack`).
    #[cold]
    pub(super) fn on_discard(
        &mut self,
        now: Time,
        segment: &Segment,
        discard: Discard,
        out: &mut impl Output,
    ) {
        let sequence = occupies(segment);
        let repeats = sequence && segment.seq < self.rcv_nxt;
        if repeats || discard == Discard::ZeroWindow {
            let window = self.edge.saturating_sub(self.last_ack);
            if let Some(acks) = &mut self.linux_acks {
                acks.on_duplicate(window);
            }
        }
        if repeats && self.dsack && discard != Discard::Challenged {
            self.duplicate =
                Some(Block { start: segment.seq, end: segment.end().min(self.rcv_nxt) });
        }
        // `SKB_DROP_REASON_TCP_RFC7323_PAWS_ACK`: old ACKs are common.
        let old_ack =
            !sequence && segment.seq < self.rcv_nxt && self.sequence_check == SequenceCheck::Linux;
        let limited = !sequence || discard == Discard::Challenged;
        if old_ack || (limited && self.is_rate_limited(now)) {
            return;
        }
        self.ack_now(now, out);
    }

    /// Answers a segment that cannot be one of the connection with an ACK that says what is
    /// expected (RFC 5961, sections 3 to 5: challenge ACK), at most one in `invalid_ratelimit`.
    pub fn challenge(&mut self, now: Time, out: &mut impl Output) {
        if self.open && !self.is_rate_limited(now) {
            self.ack_now(now, out);
        }
    }

    /// An ACK of the sender without data, or a probe of a closed window: its old sequence number
    /// asks for an answer.
    pub(super) fn on_bare_ack(&mut self, now: Time, start: u64, out: &mut impl Output) {
        let outside = match self.sequence_check {
            SequenceCheck::WithinWindow => start != self.next_expected(),
            SequenceCheck::Linux => {
                start < self.last_ack + u64::from(self.finished()) || start > self.edge + 1
            }
        };
        if outside && !self.is_rate_limited(now) {
            self.ack_now(now, out);
        }
    }

    /// True if an ACK of this kind was sent less than `invalid_ratelimit` ago
    /// (`__tcp_oow_rate_limited`); otherwise one is sent now.
    pub(super) fn is_rate_limited(&mut self, now: Time) -> bool {
        let limit = self.invalid_ratelimit;
        if self.last_invalid.is_some_and(|last| now.since(last) < limit) {
            return true;
        }
        self.last_invalid = Some(now);
        false
    }
}

/// True if the segment occupies sequence numbers.
fn occupies(segment: &Segment) -> bool {
    segment.len > 0 || segment.flags.any(Flags::SYN.with(Flags::FIN))
}
