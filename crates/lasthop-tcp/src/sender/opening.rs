//! Passive open by the data sender, as a server that its client connects to: the SYN-ACK, and its
//! retransmissions until the client confirms it (Linux `tcp_conn_request`, `reqsk_timer_handler`,
//! `tcp_check_req`).

use super::listener::Listener;
use super::{GaveUp, Output, SendReason, Sender, State, SynAckTimes};
use crate::syn_acks::{Phase, SynAcks};
use crate::window::WindowRule;
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the passive open is a file apart")]
impl<W: WindowRule> Sender<W> {
    /// Waits for the receiver's SYN from now on: [`open`](Sender::open) sends none.
    pub fn listen(&mut self) {
        if self.stream.state() == State::Closed && !self.reset {
            let syn_acks = SynAcks::new(self.stream.profile());
            let sent = SynAckTimes::default();
            self.listener = Some(Box::new(Listener { syn_acks, sent }));
        }
    }

    /// A SYN or its confirmation is awaited.
    pub(super) fn awaits_opening(&self) -> bool {
        self.listener.as_ref().is_some_and(|l| l.syn_acks.phase != Phase::Forgotten)
    }

    /// A segment for a sender that waits for a SYN or that has answered one.
    #[cold]
    pub(super) fn on_opening(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        let Some(listener) = &mut self.listener else { return };
        let (timeouts, sent) = (listener.timeouts(), listener.sent);
        if segment.flags.has(Flags::RST) {
            listener.syn_acks.phase = Phase::Listening;
            self.stream.timers_mut().stop();
        } else if segment.flags.has(Flags::SYN) {
            self.on_syn(now, segment, timeouts, out);
        } else if timeouts.is_some() && segment.ack == 0 {
            self.listener = None;
            self.accept(now, segment, &sent, out);
        } else if segment.flags.has(Flags::ACK) {
            self.stream.send_reset(segment.ack, now, out);
        }
    }

    /// A SYN: the first one, or one that is repeated because the SYN-ACK has not arrived. That one
    /// is answered at most once in `invalid_ratelimit` (`tcp_oow_rate_limited`).
    fn on_syn(
        &mut self,
        now: Time,
        segment: &Segment,
        timeouts: Option<u32>,
        out: &mut impl Output,
    ) {
        let Some(timeouts) = timeouts else {
            if let Some(listener) = &mut self.listener {
                listener.sent = SynAckTimes::default();
            }
            // A connection that was forgotten is opened after all.
            (self.gave_up, self.last_invalid) = (None, None);
            self.stream.begin_timestamps(now, segment.ts_value);
            return self.send_syn_ack(now, 0, SendReason::Control, out);
        };
        let limit = self.stream.profile().invalid_ratelimit;
        if self.last_invalid.is_none_or(|last| now.since(last) >= limit) {
            self.last_invalid = Some(now);
            self.send_syn_ack(now, timeouts, SendReason::Control, out);
        }
    }

    /// The SYN-ACK was not confirmed in time. The connection is forgotten after the last
    /// retransmission; a further SYN opens another one.
    pub(super) fn on_syn_ack_timeout(&mut self, now: Time, out: &mut impl Output) {
        let Some(listener) = &mut self.listener else { return };
        let Some(timeouts) = listener.timeouts() else { return };
        if timeouts >= listener.syn_acks.retries {
            listener.syn_acks.phase = Phase::Forgotten;
            self.gave_up = Some(GaveUp::NotConfirmed(now));
            return;
        }
        listener.sent.timeouts += 1;
        self.stream.counters_mut().timeouts += 1;
        self.send_syn_ack(now, timeouts + 1, SendReason::Timeout, out);
    }

    /// Sends the SYN-ACK after this number of timeouts, and starts its timer if it has one.
    fn send_syn_ack(
        &mut self,
        now: Time,
        timeouts: u32,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        let Some(listener) = &mut self.listener else { return };
        let repeated = listener.timeouts().is_some();
        listener.syn_acks.phase = Phase::Answering(timeouts);
        listener.sent.note(now, repeated);
        let due = match listener.syn_acks.retries {
            0 => Time::NEVER,
            _ => listener.syn_acks.expiry(now, timeouts),
        };
        let unanswered = listener.sent.retransmissions;
        self.stream.counters_mut().retransmissions += u64::from(repeated);
        self.stream.send_syn_ack(now, unanswered, reason, out);
        self.stream.timers_mut().set_deadline(now, due);
    }
}
