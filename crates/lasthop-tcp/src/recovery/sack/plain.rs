//! The fast path for an ACK of new data while nothing is SACKed, lost or sent again: it does what
//! `on_ack` does, without the questions whose answers are known.

use super::{Phase, SackRecovery};
use crate::profile::RttSample;
use crate::recovery::config::RecoveryKind;
use crate::recovery::defer::Additions;
use crate::scoreboard::Delivered;
use crate::sender::config::Output;
use crate::sender::stream::Stream;
use crate::window::WindowRule;
use lasthop_core::segment::Segment;
use lasthop_core::units::{Duration, Time};

#[allow(
    clippy::multiple_inherent_impl,
    reason = "one file for each input: ACKs, episodes, sending, timers"
)]
impl SackRecovery {
    /// Losses are detected by RACK, no loss is known or in doubt, and no part of a scheme takes
    /// part. That remains true after ACKs on the fast path and after what is sent then.
    pub fn is_plain<W: WindowRule>(&self, stream: &Stream<W>) -> bool {
        self.phase == Phase::Open
            && self.recovery.kind == RecoveryKind::Rack
            && self.board.is_plain(stream.snd_una())
            && self.first_copy.is_none()
            && self.prr.is_none()
            && self.cwr_until.is_none()
            && self.hints.is_none()
            && self.detector.is_none()
            && self.additions.as_deref().is_none_or(Additions::are_idle)
    }

    /// An ACK of new data without options but timestamps. False if it needs more than the fast
    /// path; then nothing has changed.
    #[inline(always)]
    pub fn on_plain_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) -> bool {
        let Some(delivered) = stream.board().sent_once_up_to(segment.ack) else { return false };
        let last = delivered.last;
        if !self.board.rack().is_newest(&last) || !stream.take_plain_ack(now, segment, &delivered) {
            return false;
        }
        let acked = segment.ack - stream.snd_una();
        stream.advance(segment.ack);
        self.board.rack_mut().on_delivered(now, &last, false);
        (self.dupacks, self.timeouts) = (0, 0);
        stream.reset_limited();
        let rtt = self.sample_once(stream, now, &delivered);
        stream.report_plain_ack(now, segment, acked, rtt);
        stream.rearm_in_ticks(now);
        self.send_after_ack(stream, now, true, out);
        self.set_timers(stream, now);
        true
    }

    /// As `sample`, of segments that were all sent once.
    #[inline(always)]
    fn sample_once<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        delivered: &Delivered,
    ) -> Duration {
        let rule = now - delivered.last.last_sent;
        let first = stream.profile().rtt_sample == RttSample::First;
        let sent = if first { delivered.first_sent } else { delivered.last.last_sent };
        if first {
            self.board.rack_mut().note_rtt(now, rule);
        }
        stream.sample_rtt(now - sent, sent, true);
        stream.timers_mut().end_back_off();
        stream.timers_mut().stop_timing();
        rule
    }
}
