//! Making segments and sending them: as many as the windows allow, new data or retransmissions.

use super::Stream;
use crate::profile::LimitedTransmitRule;
use crate::scoreboard::{Marks, Sent};
use crate::sender::config::{Output, SendReason, State};
use crate::timestamps::timestamp;
use crate::window::WindowRule;
use lasthop_core::segment::{Flags, Payload, Segment};
use lasthop_core::units::{Duration, Time};

/// What is next to be sent: payload bytes, whether it is the FIN, and its place on the scoreboard
/// if it was sent before.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    len: u32,
    fin: bool,
    again: Option<usize>,
}

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of the stream")]
impl<W: WindowRule> Stream<W> {
    #[inline(always)]
    pub fn make(&self, seq: u64, len: u32, flags: Flags, attempt: u16, now: Time) -> Segment {
        let mut flags = if self.state == State::SynSent { flags } else { flags.with(Flags::ACK) };
        let mut size = self.config.headers + len;
        let (mut ts_value, mut ts_echo) = (0, 0);
        if self.profile.timestamps {
            flags = flags.with(Flags::TIMESTAMPS);
            size += if len > 0 {
                self.profile.timestamp_bytes
            } else {
                self.profile.timestamp_ack_bytes
            };
            ts_value = timestamp(now);
            ts_echo = self.paws.recent();
        }
        Segment {
            seq,
            ack: 0,
            id: 0,
            flow: self.config.flow,
            len,
            size,
            window: 65_535,
            ts_value,
            ts_echo,
            payload: Payload::NONE,
            to: self.config.to,
            flags,
            attempt,
            forward: true,
        }
    }

    /// Sends what the windows allow, at most `limit` segments.
    #[inline(always)]
    pub fn fill(&mut self, now: Time, limit: u32, reason: SendReason, out: &mut impl Output) {
        if !self.may_send() {
            return;
        }
        let window = self.congestion.inflated();
        let mss = u64::from(self.config.mss);
        // Nearly always there is nothing to send but whole new segments.
        let alike = self.written.saturating_sub(u64::from(self.closes_with_data()));
        let right = (self.snd_una + window.min(self.rwnd)).min(alike);
        let (mut sent, first, wanted) = (0, self.snd_max, self.written > self.snd_max);
        while sent < limit && self.snd_nxt == self.snd_max && self.snd_nxt + mss <= right {
            self.emit(now, mss as u32, false, out);
            sent += 1;
        }
        let offset = self.snd_nxt - self.snd_una;
        let blocked =
            offset + mss > window || self.rwnd.saturating_sub(offset) < mss.min(self.max_rwnd / 2);
        let full = blocked
            && self.snd_nxt == self.snd_max
            && self.written.saturating_sub(self.snd_nxt) >= mss;
        if !full && sent < limit {
            self.fill_with_others(
                now,
                window,
                limit - sent,
                if sent == 0 { reason } else { SendReason::Recovery },
                out,
            );
        }
        if wanted {
            self.note_cwnd_usage(self.snd_max > first, self.flight());
        }
        self.watch_window(now);
    }

    /// `fill` for a paced flow. The first segment after a timeout or a fast retransmit does not
    /// wait. The caller sets the deadline of the pacer and watches the window.
    #[inline(never)]
    pub fn fill_paced(
        &mut self,
        now: Time,
        limit: u32,
        mut reason: SendReason,
        out: &mut impl Output,
    ) {
        let window = self.congestion.inflated();
        let urgent = |reason| matches!(reason, SendReason::FastRetransmit | SendReason::Timeout);
        let limit = if urgent(reason) || !self.congestion.waits_for_pacer(now) { limit } else { 0 };
        if limit > 0 {
            self.congestion.stop_waiting();
        }
        let (first, wanted) = (self.snd_max, self.written > self.snd_max);
        for _ in 0..limit {
            let Some(next) = self.next_to_send(window) else { break };
            if !urgent(reason) && !self.congestion.paced(now) {
                break;
            }
            self.send_this(now, next, reason, out);
            reason = SendReason::Recovery;
        }
        if wanted {
            self.note_cwnd_usage(self.snd_max > first, self.flight());
        }
    }

    /// The same for any kind of segment: one sent again, a small one, the FIN.
    #[inline(never)]
    pub fn fill_with_others(
        &mut self,
        now: Time,
        window: u64,
        limit: u32,
        mut reason: SendReason,
        out: &mut impl Output,
    ) {
        for _ in 0..limit {
            if !self.send_next(now, window, reason, out) {
                break;
            }
            reason = SendReason::Recovery;
        }
    }

    /// Sends the segment at snd_nxt if it fits into `window` bytes from snd_una. `reason` holds for
    /// a segment sent again.
    pub fn send_next(
        &mut self,
        now: Time,
        window: u64,
        reason: SendReason,
        out: &mut impl Output,
    ) -> bool {
        let Some(next) = self.next_to_send(window) else { return false };
        self.send_this(now, next, reason, out);
        true
    }

    /// At least a whole segment of new data is next to be sent.
    #[inline(always)]
    pub fn has_new_segment(&self) -> bool {
        let mss = u64::from(self.config.mss);
        self.snd_nxt == self.snd_max && self.written.saturating_sub(self.snd_nxt) >= mss
    }

    /// The segment at snd_nxt, if it fits into `window` bytes from snd_una.
    #[inline]
    pub fn next_to_send(&self, window: u64) -> Option<Next> {
        self.next_up_to(window, self.config.mss)
    }

    /// The same with up to `most` bytes of new data.
    #[inline]
    pub fn next_up_to(&self, window: u64, most: u32) -> Option<Next> {
        let (left, room) = (self.written.saturating_sub(self.snd_nxt), window.min(self.rwnd));
        // Nearly always: whole new segments, and more behind them.
        if self.snd_nxt == self.snd_max
            && left > u64::from(most)
            && self.snd_nxt - self.snd_una + u64::from(most) <= room
        {
            return Some(Next { len: most, fin: false, again: None });
        }
        self.other_next_up_to(window, most)
    }

    #[inline(never)]
    fn other_next_up_to(&self, window: u64, most: u32) -> Option<Next> {
        let mut again = None;
        let (mut len, mut fin) = (0, false);
        if self.snd_nxt < self.snd_max {
            again = Some(self.board.place(self.snd_nxt)?);
            let s = self.board.at(again?)?;
            (len, fin) = (s.len, s.fin);
        } else {
            len =
                len.max(u64::from(most).min(self.written - self.snd_nxt.min(self.written)) as u32);
            if len == 0 {
                fin = self.close_wanted && self.profile.full_handshake && !self.fin_sent;
                if !fin {
                    return None;
                }
            }
        }
        let offset = self.snd_nxt - self.snd_una;
        if offset + u64::from(len) > window {
            return None;
        }
        let usable = self.rwnd.saturating_sub(offset);
        // What is sent again was inside the window once, even if a late ACK has an older one.
        if again.is_none() && u64::from(len) > usable {
            // Avoid silly windows (RFC 1122, section 4.2.3.4): a part of a segment only if it is
            // half of the largest window.
            if usable == 0 || usable < self.max_rwnd / 2 {
                return None;
            }
            len = usable as u32;
        }
        if again.is_none()
            && self.snd_nxt + u64::from(len) == self.written
            && self.closes_with_data()
        {
            fin = !self.fin_sent;
        }
        Some(Next { len, fin, again })
    }

    /// Sends it. `reason` holds for a segment sent again.
    #[inline]
    pub fn send_this(&mut self, now: Time, next: Next, reason: SendReason, out: &mut impl Output) {
        let Some(place) = next.again else {
            return self.emit(now, next.len, next.fin, out);
        };
        self.snd_nxt += u64::from(next.len) + u64::from(next.fin);
        self.retransmit_at(now, place, reason, out);
    }

    /// Limited transmit (RFC 3042; ns-2 rule 13): one segment beyond cwnd for this duplicate ACK.
    pub fn limited_transmit(&mut self, now: Time, dupacks: u32, out: &mut impl Output) {
        let rule = self.profile.limited_transmit_rule;
        if !self.profile.limited_transmit || (rule == LimitedTransmitRule::Rfc3042 && dupacks > 2) {
            return;
        }
        let window = self.window().cwnd + f64::from(dupacks) * f64::from(self.config.mss);
        let before = self.snd_max;
        self.send_next(now, window as u64, SendReason::Recovery, out);
        self.limited += self.snd_max - before;
    }

    /// Sends the new segment at snd_nxt and moves on.
    #[inline(always)]
    pub fn emit(&mut self, now: Time, len: u32, fin: bool, out: &mut impl Output) {
        let seq = self.snd_nxt;
        self.snd_nxt = seq + u64::from(len) + u64::from(fin);
        let nothing_outstanding = self.snd_una == self.snd_max;
        let sent = Sent {
            seq,
            first_sent: now,
            last_sent: now,
            len,
            transmissions: 1,
            fin,
            marks: Marks::NONE,
        };
        self.board.push(sent);
        self.fin_sent |= fin;
        self.snd_max = self.snd_nxt;
        self.timers.time_segment(self.snd_nxt, now);
        let mut flags = if fin { Flags::FIN } else { Flags::NONE };
        let mut further_headers = 0;
        if self.special {
            // A copy: what is taken by its address goes through memory, and the push above waits
            // for it.
            flags = flags.with(self.extras(now, &{ sent }));
            further_headers = self.further_headers(len);
        }
        let mut segment = self.make(seq, len, flags, 1, now);
        segment.size += further_headers;
        self.last_sent = now;
        self.counters.segments += 1;
        out.send_new(segment);
        self.timers.on_sent(now, nothing_outstanding);
    }

    /// What new data carry for ECN and for the window rule.
    #[inline(never)]
    pub fn extras(&mut self, now: Time, sent: &Sent) -> Flags {
        let mut flags = Flags::NONE;
        if self.profile.ecn {
            flags = flags.with(self.capability());
            if self.congestion.take_cwr() && self.marks.is_none() {
                flags = flags.with(Flags::CWR);
            }
        }
        self.snapshot(now, sent, 0);
        if self.hooks.every_send {
            let in_network = self.in_network();
            self.congestion.on_sent(now, sent.len, in_network);
        }
        if self.hooks.marks {
            flags = flags.with(self.congestion.marks(sent.seq / u64::from(self.config.mss.max(1))));
        }
        self.congestion.charge_pacer(now, sent.len, self.offloaded_segments(sent.len));
        flags
    }

    /// The code point of an ECN-capable segment.
    fn capability(&self) -> Flags {
        if self.profile.l4s { Flags::ECT.with(Flags::ECT1) } else { Flags::ECT }
    }

    /// Sends the segment that begins at `seq` again.
    pub fn retransmit(&mut self, now: Time, seq: u64, reason: SendReason, out: &mut impl Output) {
        if let Some(place) = self.board.place(seq) {
            self.retransmit_at(now, place, reason, out);
        }
    }

    /// Sends the segment at a place of the scoreboard again.
    #[inline(never)]
    pub fn retransmit_at(
        &mut self,
        now: Time,
        place: usize,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        let Some(sent) = self.board.at_mut(place) else { return };
        sent.last_sent = now;
        sent.transmissions = sent.transmissions.saturating_add(1);
        sent.marks = sent.marks.without(Marks::SAID);
        let sent = *sent;
        let (seq, len, fin, attempt) = (sent.seq, sent.len, sent.fin, sent.transmissions);
        let mut further_headers = 0;
        if self.special {
            self.snapshot(now, &sent, place);
            self.congestion.charge_pacer(now, len, self.offloaded_segments(len));
            further_headers = self.further_headers(len);
        }
        let mut flags = if fin { Flags::FIN } else { Flags::NONE };
        if self.marks.is_some() {
            // RFC 3168, section 6.1.5, excludes retransmissions; with AccECN, Linux does not
            // (`tcp_ecn_send`).
            flags = flags.with(self.capability());
        }
        let mut segment = self.make(seq, len, flags, attempt, now);
        segment.size += further_headers;
        self.last_sent = now;
        if self.unanswered.0 != self.snd_una {
            self.unanswered = (self.snd_una, now);
        }
        self.counters.segments += 1;
        self.counters.retransmissions += 1;
        out.send(segment, reason);
        self.timers.on_retransmitted(now);
    }

    /// Records for the delivery-rate samples that a segment leaves, which lies at `place` if it had
    /// been sent before.
    #[inline(always)]
    fn snapshot(&mut self, now: Time, segment: &Sent, place: usize) {
        let (una, max) = (self.snd_una, self.snd_max);
        self.congestion.snapshot(now, segment, place, || {
            segment.seq == una && segment.end() == max && segment.transmissions == 1
        });
    }

    /// Sends one new segment beyond the window, which does not count as flight for a reduction.
    /// Returns its bytes.
    pub fn send_one_new(&mut self, now: Time, out: &mut impl Output) -> u64 {
        let before = self.snd_max;
        if self.snd_nxt == before {
            self.send_next(now, self.flight() + u64::from(self.config.mss), SendReason::New, out);
        }
        self.limited += self.snd_max - before;
        self.snd_max - before
    }

    /// Sends up to two new segments beyond the window. False if there are none.
    pub fn send_two_new(&mut self, now: Time, out: &mut impl Output) -> bool {
        let next = std::mem::replace(&mut self.snd_nxt, self.snd_max);
        let window = self.flight() + 2 * u64::from(self.config.mss);
        let before = self.snd_max;
        while self.send_next(now, window, SendReason::New, out) {}
        if self.snd_max == before {
            self.snd_nxt = next;
        }
        self.snd_max > before
    }

    /// Sends a segment without data.
    pub fn send_control(&mut self, seq: u64, flags: Flags, now: Time, out: &mut impl Output) {
        let segment = self.make(seq, 0, flags, 1, now);
        out.send(segment, SendReason::Control);
    }

    /// Sends the SYN, after this number of unanswered ones.
    pub fn send_syn(&mut self, now: Time, unanswered: u32, out: &mut impl Output) {
        self.counters.segments += 1;
        let attempt = u16::try_from(unanswered).unwrap_or(u16::MAX).saturating_add(1);
        let segment = self.make(0, 0, Flags::SYN, attempt, now);
        out.send(segment, SendReason::Control);
        self.timers.arm(now);
    }

    /// Sends the SYN-ACK, after this number of earlier ones.
    pub fn send_syn_ack(
        &mut self,
        now: Time,
        earlier: u32,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        self.counters.segments += 1;
        let attempt = u16::try_from(earlier).unwrap_or(u16::MAX).saturating_add(1);
        out.send(self.make(0, 0, Flags::SYN, attempt, now), reason);
    }

    /// Sends a reset with the sequence number `seq`.
    pub fn send_reset(&mut self, seq: u64, now: Time, out: &mut impl Output) {
        let segment = Segment { flags: Flags::RST, ..self.make(seq, 0, Flags::NONE, 1, now) };
        out.send(segment, SendReason::Control);
    }

    /// The deadline of the zero-window probe has come (RFC 1122, section 4.2.2.17).
    pub fn on_persist_timer(&mut self, now: Time, probes: u32, out: &mut impl Output) {
        let room = u64::from(self.config.mss)
            .min(self.rwnd)
            .min(self.written - self.snd_nxt.min(self.written));
        if room > 0 && self.snd_nxt < self.snd_max {
            // What a timeout has gone back to was inside the window once.
            self.send_next(now, u64::MAX, SendReason::Recovery, out);
            return;
        }
        if room > 0 && self.flight() + room > self.rwnd {
            // The window is not closed, but full.
            return self.watch_zero_window(now);
        }
        if room > 0 {
            // A window that stays below half of what it was is used in the end (RFC 1122, section
            // 4.2.3.4).
            return self.emit(now, room as u32, false, out);
        }
        self.timers.set_persist(Some(probes + 1));
        self.timers.count_probe();
        self.counters.probes += 1;
        self.send_control(self.snd_una.wrapping_sub(1), Flags::ACK, now, out);
        let doublings = match self.profile.probe_retries {
            _ if !self.profile.persist_doubles_at_once => probes.min(6),
            0 => (probes + 1).min(10),
            // `tcp_send_probe0`
            retries => (probes + 1).min(10).min(retries),
        };
        let wait = Duration(self.timers.rto().rto().0 << doublings).min(self.profile.max_rto);
        self.timers.arm_at(now, wait);
    }
}
