//! Opening, closing, breaking off.

use super::{Output, SendReason, Sender, State};
use crate::profile::IdleRestart;
use crate::rate::RateSampler;
use crate::window::{Start, WindowRule};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

impl<W: WindowRule> Sender<W> {
    pub(super) fn establish(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        self.state = State::Established;
        self.rwnd = u64::from(segment.window);
        self.max_rwnd = self.rwnd;
        if self.syn_lost {
            self.window.cwnd = self.profile.syn_loss_window.bytes(self.config.mss) as f64;
            if self.profile.full_handshake {
                self.rto.after_syn_loss();
            }
        } else {
            self.take_rtt(now, now - self.syn_sent_at, self.syn_sent_at, self.profile.timestamps);
            self.rto.end_back_off();
        }
        self.timing = None;
        self.deadline = Time::NEVER;
        if self.profile.idle_restart == IdleRestart::Timer {
            self.arm(now);
        }
        if self.profile.full_handshake {
            self.send_control(0, Flags::ACK, now, out);
        }
        let start = Start {
            now,
            flow: self.config.flow,
            mss: self.config.mss,
            rtt: self.rto.srtt(),
            sack: self.config.needs.sack,
            receive_window: self.rwnd,
            cubic: self.profile.cubic,
            profile: self.profile.profile,
        };
        self.rate = self.config.needs.rate_samples.then(|| Box::new(RateSampler::new(start.rtt)));
        self.rule.on_established(&mut self.window, &start);
        self.fill_window(now, u32::MAX, SendReason::Recovery, out);
    }

    pub(super) fn on_syn_timeout(&mut self, now: Time, out: &mut impl Output) {
        self.syn_lost = true;
        self.counters.timeouts += 1;
        if self.profile.syn_loss_cuts_ssthresh {
            self.window.ssthresh = 2.0 * f64::from(self.config.mss);
            self.counters.reductions += 1;
        }
        self.rto.back_off();
        self.counters.retransmissions += 1;
        self.send_syn(now, out);
    }

    pub(super) fn send_syn(&mut self, now: Time, out: &mut impl Output) {
        self.syn_sent_at = now;
        self.counters.segments += 1;
        let segment = self.make(0, 0, Flags::SYN, u16::from(self.syn_lost) + 1, now);
        out.send(segment, SendReason::Control);
        self.arm(now);
    }

    pub(super) fn send_control(
        &mut self,
        seq: u64,
        flags: Flags,
        now: Time,
        out: &mut impl Output,
    ) {
        let segment = self.make(seq, 0, flags, 1, now);
        out.send(segment, SendReason::Control);
    }

    /// What is no ACK, or comes when there is no connection. A reset ends it; whatever else comes
    /// after one is answered with one (RFC 9293, section 3.10.7.1), for the first may have been
    /// lost.
    #[inline(never)]
    pub(super) fn on_stray(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        if segment.flags.has(Flags::RST) {
            self.abort();
            self.reset = true;
        } else if self.reset {
            self.send_reset(now, out);
        }
    }

    /// Breaks the connection off and tells the receiver.
    pub fn reset(&mut self, now: Time, out: &mut impl Output) {
        if !self.reset && !matches!(self.state, State::Closed | State::Done) {
            self.abort();
            self.send_reset(now, out);
        }
        self.reset = true;
    }

    fn send_reset(&mut self, now: Time, out: &mut impl Output) {
        let segment =
            Segment { flags: Flags::RST, ..self.make(self.snd_nxt, 0, Flags::NONE, 1, now) };
        out.send(segment, SendReason::Control);
    }

    /// The connection was broken off, by either side.
    pub fn is_reset(&self) -> bool {
        self.reset
    }

    /// Forgets the connection: nothing more is sent, and nothing that comes is heeded.
    pub fn abort(&mut self) {
        self.state = State::Closed;
        self.deadline = Time::NEVER;
        self.aux_deadline = Time::NEVER;
    }

    /// Everything written has been acknowledged, the FIN too.
    #[inline]
    pub(crate) fn check_done(&mut self) {
        let closing = self.close_wanted && self.snd_una >= self.written;
        if closing
            && (!self.profile.full_handshake || (self.fin_sent && self.snd_una == self.snd_max))
        {
            self.state = State::Done;
            self.deadline = Time::NEVER;
        }
    }
}
