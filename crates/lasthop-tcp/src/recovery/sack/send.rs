//! Sending by the pipe: what is lost first, then new data, then what may be lost.

use super::{Phase, SackRecovery};
use crate::profile::RtoRestart;
use crate::recovery::detect::LossDetector;
use crate::scoreboard::{Marks, Sent};
use crate::sender::config::{Output, SendReason};
use crate::sender::stream::Stream;
use crate::sender::stream::frames::LargestFrame;
use crate::window::WindowRule;
use lasthop_core::units::Time;

/// What became of new data.
enum Turn {
    Sent,
    /// There are none, or the windows have no room for them.
    Nothing,
    /// They wait for the pacer.
    Paced,
    /// They wait for room for a whole burst.
    Deferred,
}

#[allow(
    clippy::multiple_inherent_impl,
    reason = "one file for each input: ACKs, episodes, sending, timers"
)]
impl SackRecovery {
    /// New data may be sent: the application has written, or the connection is open.
    #[inline(never)]
    pub fn fill<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        if !stream.may_send() {
            return;
        }
        let before = stream.snd_max();
        self.send_by_pipe(stream, now, out);
        if stream.snd_max() > before {
            self.plan_probe(stream, now, true);
        }
        self.set_timers(stream, now);
    }

    /// Sends what the window allows; plans a tail loss probe after an ACK that delivers something.
    #[inline]
    pub(super) fn send_after_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        delivers: bool,
        out: &mut impl Output,
    ) {
        let before = stream.snd_max();
        self.send_by_pipe(stream, now, out);
        self.only_new = false;
        if self.phase == Phase::Open {
            self.forget_copies(stream);
        }
        if delivers {
            self.plan_probe(stream, now, stream.snd_max() > before);
        }
    }

    /// Sends what the window has room for beyond the pipe.
    pub(super) fn send_by_pipe<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        if !stream.may_send()
            || stream.is_shut_out()
            || self.additions.as_ref().is_some_and(|a| a.spurious().f_rto_waits())
        {
            // Where nothing may be sent, nothing waits for the pacer.
            return stream.congestion_mut().stop_waiting();
        }
        if stream.congestion().waits_for_pacer(now) {
            return stream.watch_window(now);
        }
        stream.congestion_mut().stop_waiting();
        let mss = u64::from(stream.mss());
        let (first, wanted) = (stream.snd_max(), stream.written() > stream.snd_max());
        let mut deferred = false;
        loop {
            let room = self.room(stream);
            let waiting =
                if self.only_new { None } else { self.board.first_waiting(stream.board()) };
            if let Some(place) = waiting {
                let bytes = stream.board().at(place).map_or(mss, |b| b.end() - b.seq);
                if room < mss.min(bytes) || !stream.congestion_mut().paced(now) {
                    break;
                }
                let is_first =
                    self.phase == Phase::Recovery && self.board.high_resent() == stream.snd_una();
                let reason =
                    if is_first { SendReason::FastRetransmit } else { SendReason::Recovery };
                self.retransmit(stream, now, place, reason, out);
                continue;
            }
            match self.send_new(stream, now, room, out) {
                Turn::Sent => continue,
                Turn::Nothing => {}
                Turn::Paced => break,
                Turn::Deferred => {
                    deferred = true;
                    break;
                }
            }
            let more = room >= mss
                && self.phase == Phase::Recovery
                && self.behaviour.retransmits_uncertain;
            if !more
                || !stream.congestion_mut().paced(now)
                || !self.retransmit_uncertain(stream, now, out)
            {
                break;
            }
        }
        if wanted {
            // What waits for a whole burst is limited by cwnd.
            let pipe =
                if deferred { stream.window().bytes(0.0) } else { self.pipe(stream.flight()) };
            stream.note_cwnd_usage(stream.snd_max() > first, pipe);
        }
        stream.watch_window(now);
    }

    /// Sends a burst of new data, or a segment, if there is room for it.
    #[inline(always)]
    fn send_new<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        room: u64,
        out: &mut impl Output,
    ) -> Turn {
        let before = stream.snd_max();
        let offset = stream.snd_nxt() - stream.snd_una();
        let mss = stream.mss();
        if room < u64::from(mss) && stream.has_new_segment() {
            return Turn::Nothing;
        }
        let (bursts, offloads) = (stream.sends_bursts(), stream.offloads());
        let mut largest = LargestFrame::new(Some(self.board.rack()));
        let most = if offloads { stream.frame_bytes(room, &mut largest) } else { mss };
        let Some(mut next) = stream.next_up_to(offset + room, most) else { return Turn::Nothing };
        if !stream.congestion_mut().paced(now) {
            return Turn::Paced;
        }
        if bursts && self.phase == Phase::Open && stream.defers(now, room, &mut largest) {
            stream.congestion_mut().on_cwnd_limited();
            return Turn::Deferred;
        }
        let many = bursts && !offloads;
        let burst = if many { stream.frame_bytes(room, &mut largest) } else { most };
        let mut left = burst;
        loop {
            stream.send_this(now, next, SendReason::New, out);
            left = left.saturating_sub(most);
            if left < most.max(1) {
                break;
            }
            let Some(following) = stream.next_up_to(offset + room, mss) else { break };
            next = following;
        }
        self.sent_new(stream, before);
        Turn::Sent
    }

    /// Bytes that may be sent now.
    #[inline(always)]
    fn room<W: WindowRule>(&self, stream: &Stream<W>) -> u64 {
        // Without limited transmit what is SACKed makes no room before recovery.
        let without_credit = !stream.profile().limited_transmit
            && self.phase == Phase::Open
            && !self.preserves_ack_clock();
        let flight = stream.flight();
        let pipe = if without_credit { flight } else { self.pipe(flight) };
        let room = stream.window().bytes(0.0).saturating_sub(pipe);
        match self.additions.as_ref().and_then(|a| a.ncr()) {
            Some(ncr) => ncr.room(room, pipe),
            None => room,
        }
    }

    /// New data may leave for everything that is delivered, while the response to a loss is
    /// deferred, or while losses of the radio are repaired.
    fn preserves_ack_clock(&self) -> bool {
        self.behaviour.keeps_ack_clock
            || (self.behaviour.in_sending_order && self.has_hints())
            || self.additions.as_ref().is_some_and(|a| a.defers())
    }

    pub(super) fn sent_new<W: WindowRule>(&mut self, stream: &mut Stream<W>, before: u64) {
        let bytes = stream.snd_max() - before;
        if let Some(detector) = &mut self.detector {
            detector.on_sent(stream.board());
        }
        if self.phase == Phase::Open && self.dupacks > 0 {
            stream.add_limited(bytes);
        }
        if let Some(ncr) = self.additions.as_mut().and_then(|a| a.ncr_mut()) {
            ncr.on_sent(bytes);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_sent(bytes);
        }
    }

    /// RFC 6675, NextSeg (3) and (4): what has not been reported, and in the end one rescue
    /// retransmission.
    #[cold]
    #[inline(never)]
    fn retransmit_uncertain<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) -> bool {
        let unreported = self.board.first_unreported(stream.board());
        let rescued = self.rescued.is_some_and(|r| stream.snd_una() <= r);
        let rescue = || if rescued { None } else { self.board.last_unsacked(stream.board()) };
        let Some(seq) = unreported.or_else(rescue) else { return false };
        let high = self.board.high_resent();
        if let Some(place) = stream.board().place(seq) {
            self.retransmit(stream, now, place, SendReason::Recovery, out);
        }
        if unreported.is_none() {
            self.rescued = Some(self.recovery_point);
            self.board.set_high_resent(high);
        }
        true
    }

    pub(super) fn retransmit_first<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        if let Some(place) = self.board.first_waiting(stream.board()) {
            self.retransmit(stream, now, place, reason, out);
        }
    }

    /// Retransmits the segment at a place of the scoreboard.
    fn retransmit<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        place: usize,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        let Some((seq, end)) = stream.board().at(place).map(|s| (s.seq, s.end())) else { return };
        stream.retransmit_at(now, place, reason, out);
        self.note_retransmitted(stream, (seq, place), now);
        if let Some(hints) = &mut self.hints {
            hints.on_resent(seq, now);
        }
        self.board.set_high_resent(self.board.high_resent().max(end));
        if let Some(prr) = &mut self.prr {
            prr.on_sent(end - seq);
        }
        let restarts = stream.profile().rto_restart == RtoRestart::FirstSegment
            && self.board.rack().deadline() == Time::NEVER;
        if restarts && seq == stream.snd_una() {
            stream.timers_mut().arm(now);
        }
    }

    /// The segment at `place`, which has the byte `seq`, has just been retransmitted.
    pub(super) fn note_retransmitted<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        (seq, place): (u64, usize),
        now: Time,
    ) {
        if !self.board.resent(stream.board_mut(), (seq, place), now) {
            return;
        }
        if let Some(detector) = &mut self.detector {
            detector.on_sent(stream.board());
            detector.on_retransmitted(stream.board(), seq);
        }
        if self.phase == Phase::Open {
            return;
        }
        self.first_copy = self.first_copy.or(Some(now));
        if let Some(undo) = &mut self.undo {
            undo.on_retransmitted();
        }
    }

    // Link hints.

    /// The link layer has given the segment at `seq` up.
    pub fn on_given_up<W: WindowRule>(&mut self, stream: &mut Stream<W>, seq: u64) {
        self.lose_reported(stream, seq);
        if seq == stream.snd_una() && self.behaviour.in_sending_order {
            // They were about the copy that is known to be lost now.
            self.dupacks = 0;
        }
    }

    /// The link layer reports that the copy of a segment that was sent last is lost.
    pub fn lose_reported<W: WindowRule>(&mut self, stream: &mut Stream<W>, seq: u64) {
        self.board.lose_reported(stream.board_mut(), seq);
    }

    /// Retransmits a segment without considering it lost by congestion. In the order of
    /// transmission it is the last one now.
    pub fn retransmit_notified<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        seq: u64,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        // What is behind a hole cannot be timed: its ACK waits for the hole.
        stream.timers_mut().stop_timing_above(seq);
        if let Some(place) = stream.board().place(seq) {
            stream.retransmit_at(now, place, reason, out);
            self.note_retransmitted(stream, (seq, place), now);
            if let (Some(prr), Some(sent)) = (&mut self.prr, stream.board().at(place)) {
                prr.on_sent(sent.end() - sent.seq);
            }
        }
        if let Some(hints) = &mut self.hints {
            hints.on_resent(seq, now);
        }
        if seq == stream.snd_una() {
            // The copy has a whole timeout.
            stream.timers_mut().arm(now);
        }
    }

    /// In the order of transmission, on a duplicate ACK for a segment that had been SACKed: the
    /// receiver has discarded it and needs it again (yun2009, Algorithm 1, third case).
    #[cold]
    #[inline(never)]
    pub(super) fn retransmit_taken_back<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        let una = stream.snd_una();
        let is_sacked = |first: &Sent| first.marks.any(Marks::SACKED);
        if self.behaviour.in_sending_order && stream.board().at(0).is_some_and(is_sacked) {
            self.board.take_back(stream.board_mut(), una);
            self.lose_reported(stream, una);
            self.retransmit_notified(stream, now, una, SendReason::Recovery, out);
        }
    }
}
