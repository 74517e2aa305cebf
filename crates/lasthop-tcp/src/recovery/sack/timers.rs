//! The timers: retransmission, RACK's reordering window, tail loss probes.

use super::arrival::Arrival;
use super::{Phase, SackRecovery};
use crate::profile::RtoRestart;
use crate::recovery::config::RecoveryKind;
use crate::recovery::detect::LossDetector;
use crate::recovery::spurious::dsack::Undo;
use crate::sender::config::{Output, SendReason};
use crate::sender::stream::Stream;
use crate::window::WindowRule;
use lasthop_core::segment::Segment;
use lasthop_core::units::Time;

#[allow(
    clippy::multiple_inherent_impl,
    reason = "one file for each input: ACKs, episodes, sending, timers"
)]
impl SackRecovery {
    /// The retransmission timer expired (RFC 6675, section 5.1; RFC 8985, section 6.3).
    pub fn on_timeout<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        if stream.idle_timeout(now) {
            return;
        }
        if self.detector.as_mut().is_some_and(|d| d.replaces_timeout(now)) {
            stream.timers_mut().arm(now);
            return self.on_aux_timer(stream, now, out);
        }
        let keeps = stream.profile().timeout_keeps_ssthresh && self.reduced_already(stream);
        if !keeps {
            self.undo = Some(Undo::new(stream.window(), stream.snd_una()));
        }
        self.timeouts += 1;
        stream.counters_mut().timeouts += 1;
        self.end_deferral();
        let threshold = stream.profile().dupack_threshold;
        let sacked = self.board.sacked_segments(stream.mss());
        if self.phase == Phase::Open && sacked >= u64::from(threshold) {
            self.board.rack_mut().forget_reordering();
        }
        let srtt = stream.timers().rto().srtt();
        let window = self.board.rack().reordering_window(true, sacked, threshold, srtt);
        let overdue_only =
            (self.recovery.kind == RecoveryKind::Rack).then_some(self.board.rack().rtt() + window);
        let pipe = self.pipe(stream.flight());
        if let Some(detector) = &mut self.detector {
            detector.on_sent(stream.board());
            detector.on_timeout(stream.board());
        }
        self.board.lose_all(stream.board_mut(), now, overdue_only);
        self.report_losses(stream, now);
        self.reduce_by_timeout(stream, now, pipe, keeps, out);
        if let Some(a) = &mut self.additions {
            a.spurious_mut().enter_f_rto(self.phase != Phase::Open, stream.snd_max());
        }
        stream.timers_mut().back_off();
        self.phase = Phase::Loss;
        self.recovery_point = stream.snd_max();
        self.board.set_high_resent(stream.snd_una());
        self.board.rack_mut().forget_probe();
        (self.prr, self.cwr_until) = (None, None);
        self.dupacks = 0;
        self.board.rack_mut().stop_timer();
        self.probe_deadline = Time::NEVER;
        stream.timers_mut().stop_timing();
        stream.timers_mut().arm(now);
        self.retransmit_first(stream, now, SendReason::Timeout, out);
        self.send_by_pipe(stream, now, out);
        self.set_timers(stream, now);
    }

    /// The window of data in flight was reduced already, and nothing has been acknowledged since
    /// the timeout if that was one.
    fn reduced_already<W: WindowRule>(&self, stream: &Stream<W>) -> bool {
        let within = stream.snd_una() < self.recovery_point;
        match self.phase {
            Phase::Open => self.in_cwr(),
            Phase::Recovery => within,
            Phase::Loss => within && self.timeouts > 0,
        }
    }

    /// The deadline of RACK, of a deferred response, of the pacer or of a tail loss probe has come.
    pub fn on_aux_timer<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        if now >= self.board.rack().deadline().min(self.detector_deadline()) {
            self.find_losses_by_timer(stream, now, out);
        }
        if now >= self.deferred_deadline() {
            self.respond(stream, now, out);
        }
        if now >= stream.congestion().pacing_deadline() {
            let before = stream.snd_max();
            self.send_by_pipe(stream, now, out);
            if stream.snd_max() > before {
                self.plan_probe(stream, now, true);
            }
        }
        if now >= self.probe_deadline {
            self.probe_deadline = Time::NEVER;
            self.send_probe(stream, now, out);
        }
        self.set_timers(stream, now);
    }

    /// The reordering timer expired, or that of a detector.
    #[inline(never)]
    fn find_losses_by_timer<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        self.find_losses(stream, now);
        if self.board.waiting() > 0 && self.phase == Phase::Open {
            self.begin_recovery_by_timer(stream, now, out);
        }
        self.send_by_pipe(stream, now, out);
    }

    fn detector_deadline(&self) -> Time {
        self.detector.as_ref().map_or(Time::NEVER, |d| d.deadline())
    }

    fn deferred_deadline(&self) -> Time {
        self.additions.as_ref().map_or(Time::NEVER, |a| a.deadline())
    }

    /// A loss was found without an ACK.
    #[cold]
    #[inline(never)]
    fn begin_recovery_by_timer<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        self.begin_recovery(stream, now, &Segment::default(), &Arrival::default(), out);
        // For PRR Linux counts such a loss as a segment delivered (`tcp_rack_reo_timeout`).
        let segments = stream.profile().whole_segments;
        let delivered = if segments { u64::from(stream.mss()) } else { 0 };
        self.apply_prr(stream, delivered, false);
    }

    /// The wait of delayed congestion response is over: the first segment is lost, and what SACK
    /// reports besides.
    #[cold]
    #[inline(never)]
    fn respond<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time, out: &mut impl Output) {
        if let Some(a) = &mut self.additions {
            a.end_wait();
        }
        if self.phase == Phase::Open && self.board.sacked() > 0 {
            self.board.lose_first(stream.board_mut());
            self.find_losses(stream, now);
            self.begin_recovery_by_timer(stream, now, out);
            self.send_by_pipe(stream, now, out);
        }
    }

    /// RFC 8985, section 7.2: a probe is planned when nothing else would reveal a loss at the end.
    /// `sent`: new data have just been sent, not only acknowledged.
    #[inline(always)]
    pub(super) fn plan_probe<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        sent: bool,
    ) {
        self.probe_deadline = Time::NEVER;
        let flight = stream.flight();
        if self.recovery.kind != RecoveryKind::Rack
            || self.phase != Phase::Open
            || self.board.sacked() > 0
            || flight == 0
        {
            return;
        }
        let by_first = stream.profile().rto_restart == RtoRestart::FirstSegment;
        let probing = self.board.rack().probing();
        if probing && !by_first {
            return;
        }
        let wait = self.board.rack().probe_timeout(
            stream.timers().rto().srtt(),
            flight <= u64::from(stream.mss()),
            stream.profile().probe_slack,
        );
        let rto = stream.timers().rto().rto();
        let of_first = stream.board().at(0).map(|first| first.last_sent + rto);
        let timeout = match of_first.filter(|_| by_first && sent) {
            Some(due) if due > now => due,
            Some(_) => Time::NEVER,
            None => stream.timers().rto_deadline(),
        };
        let due = (now + wait).min(timeout);
        if probing {
            // Linux `tcp_send_loss_probe` sends no second one, and sets the timer.
            let at = of_first.unwrap_or(due).max(due);
            stream.timers_mut().arm_at(now, at - now);
        } else {
            let ticks = stream.timers().ticks();
            self.probe_deadline = ticks.expiry_as(&mut self.last_probe, now, due - now);
        }
    }

    /// RFC 8985, section 7.3: new data if there are any, otherwise the last segment once more.
    #[cold]
    #[inline(never)]
    fn send_probe<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        if self.phase != Phase::Open
            || stream.flight() == 0
            || self.board.rack().probing()
            || stream.is_held()
        {
            return;
        }
        stream.counters_mut().tail_probes += 1;
        let before = stream.snd_max();
        let window = stream.snd_nxt() - stream.snd_una() + u64::from(stream.mss());
        let again = !stream.send_next(now, window, SendReason::New, out);
        if again {
            let place = stream.board().len().wrapping_sub(1);
            let Some(last) = stream.board().at(place).map(|l| l.seq) else { return };
            stream.retransmit_at(now, place, SendReason::Probe, out);
            self.note_retransmitted(stream, (last, place), now);
        } else {
            self.sent_new(stream, before);
        }
        self.board.rack_mut().on_probe(stream.snd_max(), again);
        stream.timers_mut().arm(now);
    }

    #[cold]
    #[inline(never)]
    fn update_detector_deadline<W: WindowRule>(&mut self, stream: &Stream<W>, now: Time) -> Time {
        let summary = self.summary(stream, now);
        if let Some(detector) = &mut self.detector {
            detector.set_deadline(&summary, stream.flight());
        }
        self.detector_deadline()
    }

    /// Sets the earliest of the deadlines.
    #[inline(always)]
    pub(super) fn set_timers<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time) {
        let mut next =
            self.board.rack().deadline().min(self.probe_deadline).min(stream.other_deadline());
        if self.detector.is_some() {
            next = next.min(self.update_detector_deadline(stream, now));
        }
        if self.additions.is_some() {
            next = next.min(self.deferred_deadline());
        }
        let at = if stream.is_shut_out() { Time::NEVER } else { next };
        stream.timers_mut().set_aux_deadline(now, at);
    }
}
