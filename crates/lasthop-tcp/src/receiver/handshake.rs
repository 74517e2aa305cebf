//! The answer to the SYN, and its retransmission until the sender confirms it (Linux
//! `reqsk_timer_handler`, `tcp_check_req`).

use super::Receiver;
use crate::sender::config::Output;
use crate::syn_acks::Phase;
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the handshake is a file apart")]
impl Receiver {
    /// Active open: `segment` answers the SYN that this end sent at `syn_sent`. No SYN-ACK is sent.
    pub fn begin(&mut self, now: Time, segment: &Segment, syn_sent: Time) {
        self.open = true;
        self.paws.begin(now, segment.ts_value);
        if let Some(acks) = &mut self.linux_acks {
            acks.on_syn(syn_sent);
            acks.on_established(now);
        }
        self.on_confirmed();
        self.update_usual();
    }

    /// The connection begins, or the sender did not receive the answer. A repeated SYN is answered
    /// at most once in `invalid_ratelimit` (`tcp_oow_rate_limited`).
    pub(super) fn on_syn(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        self.open = true;
        let repeated = self.is_answering();
        if repeated && self.is_rate_limited(now) {
            return;
        }
        if !repeated {
            self.paws.begin(now, segment.ts_value);
        }
        if let Some(acks) = &mut self.linux_acks {
            acks.on_syn(now);
        }
        let timeouts = match self.syn_acks.as_ref().map(|s| s.phase) {
            Some(Phase::Answering(timeouts)) => Some(timeouts),
            Some(Phase::Listening | Phase::Forgotten) => Some(0),
            Some(Phase::Established) | None => None,
        };
        if let Some(timeouts) = timeouts {
            self.await_confirmation(now, timeouts);
        }
        self.update_usual();
        self.send_ack(now, Flags::SYN, out);
    }

    /// Starts the timer of the SYN-ACK that is sent now, after `timeouts`.
    fn await_confirmation(&mut self, now: Time, timeouts: u32) {
        let Some(syn_acks) = &mut self.syn_acks else { return };
        syn_acks.phase = Phase::Answering(timeouts);
        (self.deadline, self.armed) = (syn_acks.expiry(now, timeouts), now);
    }

    /// How often the timer of the SYN-ACK that is unanswered has expired; 0 if there is none.
    pub fn syn_ack_timeouts(&self) -> u32 {
        match self.syn_acks.as_ref().map(|s| s.phase) {
            Some(Phase::Answering(timeouts)) => timeouts,
            _ => 0,
        }
    }

    /// True if a SYN-ACK is unanswered and its timer runs.
    pub(super) fn is_answering(&self) -> bool {
        self.syn_acks.as_ref().is_some_and(|s| matches!(s.phase, Phase::Answering(_)))
    }

    /// The sender has confirmed the SYN-ACK; unknown (false) without its timer.
    pub(super) fn is_established(&self) -> bool {
        self.syn_acks.as_ref().is_some_and(|s| s.phase == Phase::Established)
    }

    /// The last SYN-ACK was not answered: the connection is unknown (Linux: no request socket).
    pub fn has_forgotten(&self) -> bool {
        self.syn_acks.as_ref().is_some_and(|s| s.phase == Phase::Forgotten)
    }

    /// A segment without SYN confirms the SYN-ACK.
    pub(super) fn on_confirmed(&mut self) {
        if let Some(syn_acks) = self.syn_acks.as_mut().filter(|s| s.phase != Phase::Established) {
            syn_acks.phase = Phase::Established;
            // The limit of the request is not that of the connection.
            (self.deadline, self.last_invalid) = (Time::NEVER, None);
            self.update_usual();
        }
    }

    fn update_usual(&mut self) {
        self.usual = !self.is_answering()
            && self.delay.is_none()
            && !self.config.manual_read
            && self.fin_at.is_none()
            && self.rule.is_none()
            && self.misbehaviour.is_none()
            && self.growth.is_none()
            && !self.echo.is_accurate();
    }

    /// The SYN-ACK was not answered in time.
    #[cold]
    pub(super) fn on_syn_ack_timeout(&mut self, now: Time, out: &mut impl Output) {
        self.deadline = Time::NEVER;
        let Some(syn_acks) = &mut self.syn_acks else { return };
        let Phase::Answering(timeouts) = syn_acks.phase else { return };
        if timeouts >= syn_acks.retries {
            (syn_acks.phase, self.open) = (Phase::Forgotten, false);
            return;
        }
        self.await_confirmation(now, timeouts + 1);
        self.send_ack(now, Flags::SYN, out);
    }
}
