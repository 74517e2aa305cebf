//! What others direct the sender to do: the receiver's reports, notices, and a relay that freezes
//! the sender, lets it continue or sets its window.

use super::{Output, SendReason, Sender, State};
use crate::notice_rule::NoticeResponse;
use crate::recovery::hints::LossHint;
use crate::scoreboard::Marks;
use crate::window::{Report, WindowRule};
use lasthop_core::segment::Notice;
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the handshake and the notices are files apart")]
impl<W: WindowRule> Sender<W> {
    /// A number from the receiver's scheme. It counts as a reduction if it makes the window
    /// smaller.
    #[inline(never)]
    pub(super) fn on_report(&mut self, now: Time, value: u32, out: &mut impl Output) {
        let stream = &mut self.stream;
        let before = stream.window();
        let report = Report {
            now,
            value,
            srtt: stream.timers().rto().srtt(),
            flight: stream.flight(),
            mss: stream.mss(),
        };
        stream.congestion_mut().on_report(&report);
        let after = stream.window();
        stream.counters_mut().reductions +=
            u64::from(after.cwnd < before.cwnd || after.ssthresh < before.ssthresh);
        if stream.congestion().reports_alone() {
            // The slides send one new segment for it, whatever the window (`output(t_seqno_++)`).
            let window = stream.rwnd();
            stream.send_next(now, window, SendReason::Recovery, out);
        } else if after.cwnd > before.cwnd
            && before.cwnd < self.window_filled() + f64::from(self.stream.mss())
        {
            // Unless the window limited it the ACK has just sent what may be sent.
            self.fill(now, out);
        }
    }

    /// Bytes of the window that are in use, at most.
    fn window_filled(&self) -> f64 {
        let flight = self.stream.flight();
        self.recovery.pipe(flight).max(flight) as f64
    }

    /// A notice for this flow.
    pub fn on_notice(&mut self, now: Time, notice: &Notice, out: &mut impl Output) {
        self.leave_plain();
        self.stream.catch_up(now);
        let before = self.stream.window();
        if let Some(hint) = LossHint::of(notice) {
            self.recovery.on_hint(&mut self.stream, now, &hint, out);
        }
        match self.notice_rule.as_mut().map(|rule| rule.on_notice(now, notice)) {
            None | Some(NoticeResponse::Ignore) => {}
            Some(NoticeResponse::Hold { until }) => {
                self.hold();
                if self.stream.is_held() {
                    self.stream.timers_mut().set_held_until(until);
                    self.stream.timers_mut().set_aux_deadline(now, until);
                }
            }
            Some(NoticeResponse::Resume) => {
                self.stream.timers_mut().set_held_until(Time::NEVER);
                self.resume(now, self.stream.flight(), out);
            }
        }
        self.stream.congestion_mut().on_notice(now, notice);
        if self.stream.window() != before {
            self.fill(now, out);
        }
        self.await_block(now);
    }

    /// While the sender is held no timer runs, except the limit of a hold by a notice.
    pub(super) fn on_timer_while_held(&mut self, now: Time, out: &mut impl Output) {
        let timers = self.stream.timers_mut();
        timers.stop_all();
        let until = timers.held_until();
        if now < until {
            return timers.set_aux_deadline(now, until);
        }
        timers.set_held_until(Time::NEVER);
        self.resume(now, 0, out);
        // Deadlines that passed in the meantime expire now.
        if self.deadline().0 <= now {
            self.on_timer(now, out);
        }
    }

    /// Freezes the sender and its timers (split schemes). A handshake continues.
    pub fn hold(&mut self) {
        self.leave_plain();
        if self.stream.may_send() {
            self.stream.set_held(true);
            self.stream.timers_mut().stop_all();
        }
    }

    /// Lets a held sender continue. The first `lost` bytes in flight are retransmitted at once. The
    /// rest may still arrive, and can be acknowledged a round trip from now at the earliest: the
    /// timer restarts without back-off. Segments sent before give no round-trip time.
    pub fn resume(&mut self, now: Time, lost: u64, out: &mut impl Output) {
        self.leave_plain();
        let stream = &mut self.stream;
        if !stream.is_held() {
            return;
        }
        stream.set_held(false);
        if stream.state() != State::Established {
            return;
        }
        stream.timers_mut().ignore_rtt_before(now);
        stream.timers_mut().end_back_off();
        // A closed window is probed from the start: no timer ran while the sender was held.
        stream.timers_mut().set_persist(None);
        let to = (stream.snd_una() + lost).min(stream.snd_max());
        if lost > 0 {
            self.recovery.on_resumed(stream);
        }
        let mut at = stream.snd_una();
        while at < to
            && let Some(sent) = stream.board().get(at)
        {
            // Recovery itself retransmits what it has found lost and not retransmitted yet.
            let waits = sent.marks.any(Marks::LOST) && !sent.marks.any(Marks::RESENT);
            if !waits && !sent.marks.any(Marks::SACKED) {
                stream.retransmit(now, sent.seq, SendReason::Notified, out);
            }
            at = sent.end();
        }
        if stream.flight() > 0 {
            stream.timers_mut().arm(now);
        }
        self.fill(now, out);
        self.await_block(now);
    }

    /// A relay replaces cwnd (split schemes), in bytes; at least one segment.
    pub fn set_window(&mut self, now: Time, bytes: u64, out: &mut impl Output) {
        self.leave_plain();
        let least = u64::from(self.stream.mss());
        self.stream.congestion_mut().on_steered(bytes.max(least));
        self.fill(now, out);
    }
}
