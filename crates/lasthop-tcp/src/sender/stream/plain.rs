//! The fast path of a stream for an ACK of new data. It does what the slow path does, where neither
//! options nor pacing nor an earlier loss nor the receive window's size matter.

use super::Stream;
use crate::profile::GrowthBase;
use crate::scoreboard::{Marks, Sent};
use crate::sender::config::{Output, SendReason};
use crate::sender::limits::Limit;
use crate::window::{Ack, WindowRule};
use lasthop_core::segment::{Flags, Payload, Segment};
use lasthop_core::units::{Duration, Time};

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of the stream")]
impl<W: WindowRule> Stream<W> {
    /// An ACK may take the fast path. That remains true after what is sent.
    #[inline]
    pub fn is_plain(&self) -> bool {
        !self.held
            && !self.special
            && !self.congestion.is_paced()
            && !self.hooks.every_ack
            && !self.profile.timestamps
            && self.profile.growth_base != GrowthBase::Delivered
            && self.timers.persist().is_none()
            && self.snd_nxt == self.snd_max
            && self.rwnd == self.max_rwnd
            && self.rwnd >= 2 * u64::from(self.config.mss)
            && self.congestion.inflation() == 0.0
    }

    /// An ACK of new data without options, outside of recovery; not everything written is
    /// acknowledged. Sends what the window allows. Returns what limits the sender then, if that is
    /// a window.
    #[inline(always)]
    pub fn on_plain_ack(&mut self, now: Time, ack: u64, out: &mut impl Output) -> Option<Limit> {
        let (bytes, prior_flight) = (ack - self.snd_una, self.snd_max - self.snd_una);
        let limited = self.is_cwnd_limited(prior_flight);
        self.limited = 0;
        self.snd_una = ack;
        self.board.acknowledge(ack);
        let mut rtt = None;
        if let Some(sent) = self.timers.take_timed(ack) {
            rtt = Some(now - sent);
            self.sample_rtt(now - sent, sent, false);
        }
        self.rearm_after_ack(now);
        if limited && self.congestion.grows_as_reno() && !self.profile.whole_segments {
            let ack = self.plain_ack(now, bytes, rtt, prior_flight);
            self.congestion.grow(&ack);
        } else if limited {
            self.open_window(now, bytes, rtt, prior_flight);
        }
        self.fill_plain(now, out)
    }

    /// The window rule opens the window.
    #[inline(never)]
    fn open_window(&mut self, now: Time, bytes: u64, rtt: Option<Duration>, prior_flight: u64) {
        let ack = self.plain_ack(now, bytes, rtt, prior_flight);
        self.congestion.on_ack(&ack);
    }

    /// What an ACK of `bytes` without options says.
    #[inline(always)]
    fn plain_ack(&self, now: Time, bytes: u64, rtt: Option<Duration>, prior_flight: u64) -> Ack {
        Ack {
            now,
            bytes,
            delivered: bytes,
            rtt,
            srtt: self.timers.rto().srtt(),
            flight: prior_flight - bytes,
            prior_flight,
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            mss: self.config.mss,
            recovering: false,
            by_bytes: self.profile.byte_counting,
            whole_segments: self.profile.whole_segments,
            ece: false,
            stamps: None,
            rate: None,
        }
    }

    /// `fill` in the same circumstances.
    #[inline(always)]
    fn fill_plain(&mut self, now: Time, out: &mut impl Output) -> Option<Limit> {
        let (mss, una, first) = (u64::from(self.config.mss), self.snd_una, self.snd_max);
        let window = self.congestion.inflated();
        let right = (una + window.min(self.rwnd)).min(self.written);
        let mut next = first;
        while next + mss <= right {
            self.emit_plain(now, next, out);
            next += mss;
        }
        // The rest of what is written may be less than a segment.
        let ends = self.written - next < mss;
        if ends {
            self.fill_with_others(now, window, u32::MAX, SendReason::Recovery, out);
        }
        if self.written > first {
            self.note_cwnd_usage(self.snd_max > first, self.flight());
        }
        // As `Sender::limited_by` says, where a full segment remains to be sent.
        let next_flight = next - una + mss;
        let by_cwnd = next_flight <= self.rwnd || next_flight > window;
        (!ends).then_some(if by_cwnd { Limit::Cwnd } else { Limit::ReceiveWindow })
    }

    /// Sends the new segment of full size at `seq`, which is snd_nxt.
    #[inline(always)]
    fn emit_plain(&mut self, now: Time, seq: u64, out: &mut impl Output) {
        let len = self.config.mss;
        let end = seq + u64::from(len);
        let nothing_outstanding = self.snd_una == seq;
        self.board.push(Sent {
            seq,
            first_sent: now,
            last_sent: now,
            len,
            transmissions: 1,
            fin: false,
            marks: Marks::NONE,
        });
        (self.snd_nxt, self.snd_max, self.last_sent) = (end, end, now);
        self.timers.time_segment(end, now);
        self.counters.segments += 1;
        let segment = Segment {
            seq,
            ack: 0,
            id: 0,
            flow: self.config.flow,
            len,
            size: self.config.headers + len,
            window: 65_535,
            ts_value: 0,
            ts_echo: 0,
            payload: Payload::NONE,
            to: self.config.to,
            flags: Flags::ACK,
            attempt: 1,
            forward: true,
        };
        out.send(segment, SendReason::New);
        if nothing_outstanding {
            self.timers.on_sent(now, true);
        }
    }
}
