//! Opening, closing and resetting the connection.

use super::{GaveUp, Output, Sender, SenderConfig, State, SynAckTimes};
use crate::profile::{IdleRestart, Profile};
use crate::timestamps::timestamp;
use crate::window::{Start, WindowRule};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Duration, Time};

#[allow(clippy::multiple_inherent_impl, reason = "the handshake and the notices are files apart")]
impl<W: WindowRule> Sender<W> {
    /// Opens the connection.
    pub fn open(&mut self, now: Time, out: &mut impl Output) {
        if self.stream.state() == State::Closed && !self.reset && self.listener.is_none() {
            self.stream.set_state(State::SynSent);
            self.send_syn(now, out);
        }
    }

    /// Closes the connection: no more data follow; with the full handshake a FIN follows the last
    /// byte.
    pub fn close(&mut self, now: Time, out: &mut impl Output) {
        self.leave_plain();
        self.stream.close();
        if self.stream.state() == State::Established {
            self.fill(now, out);
        }
    }

    /// The answer to the SYN.
    pub(super) fn establish(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        self.begin(now, segment, self.syn_losses > 0);
        if self.stream.profile().full_handshake {
            self.stream.send_control(0, Flags::ACK, now, out);
        }
        self.begin_transfer(now, out);
    }

    /// Passive open: `segment` acknowledges the SYN-ACK that this end sent as `syn_ack` says.
    pub fn accept(
        &mut self,
        now: Time,
        segment: &Segment,
        syn_ack: &SynAckTimes,
        out: &mut impl Output,
    ) {
        if self.stream.state() != State::Closed || self.reset {
            return;
        }
        self.stream.set_state(State::SynSent);
        if segment.flags.has(Flags::TIMESTAMPS) {
            self.stream.take_timestamp(now, segment);
        }
        (self.first_syn_at, self.syn_sent_at) = (syn_ack.first_sent, syn_ack.last_sent);
        self.syn_losses = syn_ack.retransmissions;
        self.begin(now, segment, syn_ack.timeouts > 0);
        self.begin_transfer(now, out);
    }

    /// Replaces everything that the answer to the SYN has negotiated, before it is processed: the
    /// largest segment, and with the options recovery and window rule. What the application has
    /// written is to be written again.
    pub fn renegotiate(&mut self, config: SenderConfig, profile: &Profile, rule: W) {
        if !matches!(self.stream.state(), State::Closed | State::SynSent) {
            return;
        }
        let mut next = Sender::new(config, profile, rule);
        next.stream.continue_handshake(&self.stream);
        next.syn_losses = self.syn_losses;
        (next.first_syn_at, next.syn_sent_at) = (self.first_syn_at, self.syn_sent_at);
        (next.reset, next.gave_up) = (self.reset, self.gave_up);
        *self = next;
    }

    /// The path does not carry the feedback of ECN: no segment is ECN-capable, and counts of marks
    /// are ignored (RFC 9768, section 3.2.2.1).
    pub fn disable_ecn(&mut self) {
        self.stream.disable_ecn();
    }

    /// The connection is established: its first windows, and the round-trip time of the handshake.
    /// `timed_out`: what the segment answers was retransmitted by its timer; a SYN-ACK that only
    /// answered a repeated SYN does not reduce cwnd in Linux (`tcp_init_transfer`, `undo_marker`).
    fn begin(&mut self, now: Time, segment: &Segment, timed_out: bool) {
        let stream = &mut self.stream;
        stream.set_state(State::Established);
        stream.set_first_rwnd(u64::from(segment.window));
        let echo = segment.flags.has(Flags::TIMESTAMPS).then_some(segment.ts_echo);
        if self.syn_losses > 0 {
            let profile = stream.profile();
            let first = echo == Some(timestamp(self.first_syn_at));
            let spurious = profile.syn_undo && (first || !timed_out);
            let window = match self.syn_losses {
                _ if spurious => profile.initial_window,
                1 => profile.syn_loss_window,
                _ => profile.syn_losses_window,
            };
            let cwnd = window.bytes(stream.mss()) as f64;
            stream.congestion_mut().set_cwnd(cwnd);
            if stream.profile().full_handshake {
                match echo {
                    // The echo identifies the SYN that was answered (Linux `tcp_ack_update_rtt`).
                    Some(echo) => {
                        let since = timestamp(now).wrapping_sub(echo);
                        let rtt = Duration::micros(u64::from(since));
                        stream.sample_rtt(rtt, Time(now.0.saturating_sub(rtt.0)), true);
                        stream.timers_mut().end_back_off();
                    }
                    None => stream.timers_mut().after_syn_loss(),
                }
            }
        } else {
            let exact = stream.profile().timestamps;
            stream.sample_rtt(now - self.syn_sent_at, self.syn_sent_at, exact);
            stream.timers_mut().end_back_off();
        }
        stream.timers_mut().stop_timing();
        stream.timers_mut().stop();
        if stream.profile().idle_restart == IdleRestart::Timer {
            stream.timers_mut().arm(now);
        }
    }

    /// The window rule begins, and the first data leave.
    fn begin_transfer(&mut self, now: Time, out: &mut impl Output) {
        let stream = &mut self.stream;
        let start = Start {
            now,
            flow: stream.config().flow,
            draw: stream.config().draw,
            mss: stream.mss(),
            rtt: stream.timers().rto().srtt(),
            sack: stream.config().needs.sack,
            receive_window: stream.rwnd(),
            cubic: stream.profile().cubic,
            accurate_ecn: stream.counts_marks(),
            profile: stream.profile().profile,
        };
        let samples = stream.config().needs.rate_samples;
        stream.congestion_mut().on_established(&start, samples);
        stream.begin_buffer(now);
        self.fill(now, out);
        self.write_blocks(now, out);
    }

    /// The SYN was not answered in time (Linux `tcp_retransmit_timer`, `tcp_write_timeout`).
    pub(super) fn on_syn_timeout(&mut self, now: Time, out: &mut impl Output) {
        let stream = &mut self.stream;
        let (linear, retries) =
            (stream.profile().syn_linear_timeouts, stream.profile().syn_retries);
        if retries > 0 && self.syn_losses >= retries.saturating_add(linear) {
            return self.give_up(GaveUp::NotConnected(now));
        }
        self.syn_losses += 1;
        stream.counters_mut().timeouts += 1;
        if stream.profile().syn_loss_cuts_ssthresh {
            let least = 2.0 * f64::from(stream.mss());
            stream.congestion_mut().set_ssthresh(least);
            stream.counters_mut().reductions += 1;
        }
        if self.syn_losses > linear {
            stream.timers_mut().back_off();
        }
        stream.counters_mut().retransmissions += 1;
        self.send_syn(now, out);
    }

    /// Ends the connection without an answer. What arrives later is answered with a reset, as for
    /// an unknown connection.
    #[cold]
    pub(super) fn give_up(&mut self, reason: GaveUp) {
        self.abort();
        (self.gave_up, self.reset) = (Some(reason), true);
    }

    /// Why and when the sender gave up the connection; `None` if it did not.
    pub fn gave_up(&self) -> Option<GaveUp> {
        self.gave_up
    }

    fn send_syn(&mut self, now: Time, out: &mut impl Output) {
        if self.syn_losses == 0 {
            self.first_syn_at = now;
        }
        self.syn_sent_at = now;
        self.stream.send_syn(now, self.syn_losses, out);
    }

    /// A segment that is no ACK, or that arrives when there is no connection. A reset ends the
    /// connection; any other segment after that is answered with a reset (RFC 9293, section
    /// 3.10.7.1), for the first one may have been lost.
    #[cold]
    #[inline(never)]
    pub(super) fn on_stray(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        if self.listener.is_some() {
            self.on_opening(now, segment, out);
        } else if segment.flags.has(Flags::RST) {
            self.abort();
            self.reset = true;
        } else if self.reset {
            // The number that the receiver expects (RFC 9293, section 3.10.7.1).
            let acked = segment.flags.has(Flags::ACK).then_some(segment.ack);
            let seq = acked.unwrap_or(self.stream.snd_nxt());
            self.stream.send_reset(seq, now, out);
        } else if segment.flags.has(Flags::SYN)
            && self.stream.state() == State::Established
            && self.stream.profile().challenge_acks
        {
            // An old copy of the SYN that opened the connection (RFC 5961, section 4.2).
            self.challenge(now, out);
        }
    }

    /// Resets the connection and informs the receiver.
    pub fn reset(&mut self, now: Time, out: &mut impl Output) {
        if !self.reset && !matches!(self.stream.state(), State::Closed | State::Done) {
            self.abort();
            self.stream.send_reset(self.stream.snd_nxt(), now, out);
        }
        self.reset = true;
    }

    /// The connection was reset, by either side.
    pub fn is_reset(&self) -> bool {
        self.reset
    }

    /// Ends the connection: nothing more is sent, and what arrives is ignored.
    pub fn abort(&mut self) {
        self.leave_plain();
        self.listener = None;
        self.stream.set_state(State::Closed);
        self.stream.timers_mut().stop_all();
    }
}
