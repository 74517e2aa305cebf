//! Opening, closing and resetting the connection.

use super::{Output, Sender, State};
use crate::profile::IdleRestart;
use crate::window::{Start, WindowRule};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the handshake and the notices are files apart")]
impl<W: WindowRule> Sender<W> {
    /// Opens the connection.
    pub fn open(&mut self, now: Time, out: &mut impl Output) {
        if self.stream.state() == State::Closed && !self.reset {
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
        let stream = &mut self.stream;
        stream.set_state(State::Established);
        stream.set_first_rwnd(u64::from(segment.window));
        if self.syn_losses > 0 {
            let profile = stream.profile();
            let window = match self.syn_losses {
                1 => profile.syn_loss_window,
                _ => profile.syn_losses_window,
            };
            let cwnd = window.bytes(stream.mss()) as f64;
            stream.congestion_mut().set_cwnd(cwnd);
            if stream.profile().full_handshake {
                stream.timers_mut().after_syn_loss();
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
        if stream.profile().full_handshake {
            stream.send_control(0, Flags::ACK, now, out);
        }
        let start = Start {
            now,
            flow: stream.config().flow,
            mss: stream.mss(),
            rtt: stream.timers().rto().srtt(),
            sack: stream.config().needs.sack,
            receive_window: stream.rwnd(),
            cubic: stream.profile().cubic,
            profile: stream.profile().profile,
        };
        let samples = stream.config().needs.rate_samples;
        stream.congestion_mut().on_established(&start, samples);
        self.fill(now, out);
    }

    /// The SYN was not answered in time.
    pub(super) fn on_syn_timeout(&mut self, now: Time, out: &mut impl Output) {
        self.syn_losses += 1;
        let stream = &mut self.stream;
        stream.counters_mut().timeouts += 1;
        if stream.profile().syn_loss_cuts_ssthresh {
            let least = 2.0 * f64::from(stream.mss());
            stream.congestion_mut().set_ssthresh(least);
            stream.counters_mut().reductions += 1;
        }
        stream.timers_mut().back_off();
        stream.counters_mut().retransmissions += 1;
        self.send_syn(now, out);
    }

    fn send_syn(&mut self, now: Time, out: &mut impl Output) {
        self.syn_sent_at = now;
        self.stream.send_syn(now, self.syn_losses > 0, out);
    }

    /// A segment that is no ACK, or that arrives when there is no connection. A reset ends the
    /// connection; any other segment after that is answered with a reset (RFC 9293, section
    /// 3.10.7.1), for the first one may have been lost.
    #[inline(never)]
    pub(super) fn on_stray(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        if segment.flags.has(Flags::RST) {
            self.abort();
            self.reset = true;
        } else if self.reset {
            self.stream.send_reset(now, out);
        }
    }

    /// Resets the connection and informs the receiver.
    pub fn reset(&mut self, now: Time, out: &mut impl Output) {
        if !self.reset && !matches!(self.stream.state(), State::Closed | State::Done) {
            self.abort();
            self.stream.send_reset(now, out);
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
        self.stream.set_state(State::Closed);
        self.stream.timers_mut().stop_all();
    }
}
