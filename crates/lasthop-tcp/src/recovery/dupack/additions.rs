//! Duplicate ACKs with additions: detection of spurious reductions, deferred responses, and hints
//! of the link layer.

use super::{DupackRecovery, LastAction, Response};
use crate::recovery::spurious::evidence::{Evidence, Verdict};
use crate::sender::config::{Output, SendReason};
use crate::sender::stream::Stream;
use crate::window::WindowRule;
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the additions are a file apart")]
impl DupackRecovery {
    /// Retransmits a segment without considering it lost by congestion.
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
        stream.retransmit(now, seq, reason, out);
        if let Some(hints) = &mut self.hints {
            hints.on_resent(seq, now);
        }
        if seq == stream.snd_una() {
            // The copy has a whole timeout.
            stream.timers_mut().arm(now);
        }
    }

    /// An ACK of new data.
    #[inline(never)]
    pub(super) fn on_new_ack_with_additions<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) {
        let evidence = evidence(stream, segment);
        let verdict = self.judge(stream, &evidence);
        self.sample_fine_timer(stream, now, segment.ack);
        self.end_response_wait(stream, now);
        if verdict == Verdict::Spurious {
            self.advance_and_sample(stream, now, segment);
            self.restore(stream, now, &evidence);
            stream.check_done();
        } else if self.ncr_is_active() {
            self.advance_and_sample(stream, now, segment);
            if let Some(a) = &mut self.additions {
                a.end_extended(stream, false);
            }
            stream.check_done();
        } else {
            self.on_new_ack(stream, now, segment, out);
        }
        match verdict {
            Verdict::SendNew => {
                if !stream.send_two_new(now, out)
                    && let Some(a) = &mut self.additions
                {
                    a.spurious_mut().stop_f_rto();
                }
            }
            Verdict::Confirmed => self.go_back(stream),
            Verdict::Usual | Verdict::Spurious => {}
        }
        self.check_fine_timer(stream, now, out);
    }

    fn judge<W: WindowRule>(&mut self, stream: &Stream<W>, evidence: &Evidence) -> Verdict {
        let Some(a) = &mut self.additions else { return Verdict::Usual };
        a.spurious_mut().judge(evidence, stream.snd_max())
    }

    fn ncr_is_active(&self) -> bool {
        self.additions.as_ref().and_then(|a| a.ncr()).is_some_and(|n| n.is_active())
    }

    /// A duplicate ACK. True if it has been dealt with.
    #[inline(never)]
    pub(super) fn duplicate_with_additions<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) -> bool {
        if self.judge(stream, &evidence(stream, segment)) == Verdict::Confirmed {
            self.go_back(stream);
            return true;
        }
        let open = self.open_to_loss(stream);
        let Some(a) = &mut self.additions else { return false };
        if a.fine_mut().is_some() {
            return self.retransmit_overdue(stream, now, segment, out);
        }
        if !open || !a.defers() {
            return false;
        }
        let (flight, mss) = (stream.flight(), stream.mss());
        let Some(ncr) = a.ncr_mut() else {
            if a.wait_for_repair(stream, now) {
                self.respond(stream, now, out);
            } else {
                stream.send_one_new(now, out);
                let at = self.aux_deadline(stream);
                stream.timers_mut().set_aux_deadline(now, at);
            }
            return true;
        };
        ncr.begin(flight);
        if self.dupacks < ncr.loss_threshold(flight, mss, stream.profile().dupack_threshold) {
            let delivered = u64::from(self.dupacks) * u64::from(mss);
            // Segments sent meanwhile are in the network, too.
            let mut pipe = flight.saturating_sub(delivered);
            while ncr.room(0, pipe) >= u64::from(mss) {
                let sent = stream.send_one_new(now, out);
                if sent == 0 {
                    break;
                }
                pipe += sent;
                ncr.on_sent(sent);
            }
        } else {
            ncr.leave();
            self.fast_retransmit(stream, now, segment.flags, out);
        }
        true
    }

    /// The wait of delayed congestion response is over: fast retransmit and reduction.
    pub(super) fn respond<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        self.end_response_wait(stream, now);
        if self.open_to_loss(stream) && stream.flight() > 0 {
            self.fast_retransmit(stream, now, Flags::NONE, out);
            self.dupacks = self.dupacks.max(stream.profile().dupack_threshold);
            self.fill(stream, now, u32::MAX, SendReason::Recovery, out);
        }
    }

    /// The retransmission timer expired and the window was reduced. True if only the first segment
    /// is to be retransmitted.
    pub(super) fn timeout_with_additions<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        recovering: bool,
    ) -> bool {
        self.end_response_wait(stream, now);
        let Some(a) = &mut self.additions else { return false };
        a.leave_extended();
        if let Some(fine) = a.fine_mut() {
            fine.on_timeout(now);
        }
        a.spurious_mut().enter_f_rto(recovering, stream.snd_max())
    }

    /// F-RTO, step 3a: everything outstanding is retransmitted in slow start.
    fn go_back<W: WindowRule>(&mut self, stream: &mut Stream<W>) {
        self.dupacks = 0;
        stream.go_back();
        stream.confirm_timeout();
    }

    /// The last reduction was spurious, as an ACK shows that has been processed. New data are sent
    /// next, and the window is restored unless the ACK carries an ECN echo (RFC 4015, step 8).
    fn restore<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time, ack: &Evidence) {
        stream.congestion_mut().set_inflation(0.0);
        self.last_action = LastAction::None;
        // RFC 5682, step 3b.
        self.recover = Some(stream.snd_una());
        (self.partial_seen, self.cwnd_preserved) = (false, false);
        if let Some(a) = &mut self.additions {
            a.restore(stream, now, ack);
        }
    }

    fn end_response_wait<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time) {
        let Some(a) = self.additions.as_mut().filter(|a| a.dcr().is_some()) else { return };
        a.end_wait();
        let at = self.aux_deadline(stream);
        stream.timers_mut().set_aux_deadline(now, at);
    }

    /// Outside of recovery, and free to begin one.
    fn open_to_loss<W: WindowRule>(&self, stream: &Stream<W>) -> bool {
        stream.congestion().inflation() == 0.0
            && !self.in_recovery(stream.snd_una())
            && self.may_fast_retransmit(stream)
    }

    // Vegas' timer.

    /// An ACK of new data is about to be processed.
    fn sample_fine_timer<W: WindowRule>(&mut self, stream: &Stream<W>, now: Time, ack: u64) {
        let Some(fine) = self.additions.as_mut().and_then(|a| a.fine_mut()) else { return };
        let last = ack.checked_sub(1).and_then(|seq| stream.board().get(seq));
        if let Some(last) = last.filter(|s| s.transmissions == 1) {
            fine.sample(now - last.last_sent);
        }
    }

    /// An ACK of new data was processed: one of the first two after a retransmission checks the
    /// next segment.
    fn check_fine_timer<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        let Some(fine) = self.additions.as_mut().and_then(|a| a.fine_mut()) else { return };
        let first = stream.board().get(stream.snd_una());
        if let Some(first) = first.filter(|first| fine.check(now, first)) {
            stream.retransmit(now, first.seq, SendReason::Recovery, out);
            self.dupacks = stream.profile().dupack_threshold;
        }
    }

    /// A duplicate ACK. True if it made a retransmission; the window is reduced only if the segment
    /// was sent after the last reduction.
    fn retransmit_overdue<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) -> bool {
        let (threshold, outstanding) = (stream.profile().dupack_threshold, stream.board().len());
        let blocked = self.last_action == LastAction::Timeout && !self.may_fast_retransmit(stream);
        let first = stream.board().get(stream.snd_una()).filter(|_| !blocked);
        let Some(first) = first else { return false };
        let Some(fine) = self.additions.as_mut().and_then(|a| a.fine_mut()) else {
            return false;
        };
        if !fine.is_overdue(now, &first) && self.dupacks != threshold {
            return false;
        }
        fine.on_resent(first.transmissions, outstanding);
        if fine.cuts(now, first.last_sent) {
            // The inflation of an earlier recovery is not reduced.
            stream.congestion_mut().set_inflation(0.0);
            self.fast_retransmit(stream, now, segment.flags, out);
        } else {
            stream.retransmit(now, first.seq, SendReason::FastRetransmit, out);
            stream.timers_mut().arm(now);
        }
        if first.transmissions == 1 && self.response != Response::Tahoe {
            self.dupacks = threshold;
        }
        true
    }
}

/// An ACK that is about to be processed, for the detection of spurious reductions.
fn evidence<W: WindowRule>(stream: &Stream<W>, segment: &Segment) -> Evidence {
    let stamped = stream.profile().timestamps && segment.flags.has(Flags::TIMESTAMPS);
    let mut place = 0;
    let fresh = loop {
        match stream.board().at(place).filter(|s| s.end() <= segment.ack) {
            Some(sent) if sent.transmissions == 1 => break Some(sent.end()),
            Some(_) => place += 1,
            None => break None,
        }
    };
    Evidence {
        ack: segment.ack,
        acked: segment.ack - stream.snd_una(),
        fresh_end: fresh,
        highest: segment.ack,
        echo: stamped.then_some(segment.ts_echo),
        ece: segment.flags.has(Flags::ECE),
        dsack: segment.flags.has(Flags::DSACK),
    }
}
