//! The fast path of a stream for an ACK of new data. It does what the slow path does, where neither
//! options nor pacing nor an earlier loss nor the receive window's size matter.

use super::Stream;
use crate::profile::{ClockKind, CwndLimitedBy, GrowthBase};
use crate::scoreboard::{Delivered, Marks, Sent};
use crate::sender::config::{Output, SendReason, State};
use crate::sender::limits::Limit;
use crate::window::{Ack, WindowRule};
use lasthop_core::segment::{Flags, Segment};
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
            && self.limited == 0
            && self.timers.is_plain()
            && self.snd_nxt == self.snd_max
            && !self.closes_with_data()
            && self.buffer.is_none()
            && self.rwnd == self.max_rwnd
            && self.rwnd >= 2 * u64::from(self.config.mss)
            && self.congestion.inflation() == 0.0
    }

    /// An ACK may take the fast path of SACK recovery, as far as the stream is concerned.
    #[inline]
    pub fn is_plain_with_sack(&self) -> bool {
        self.state == State::Established
            && !self.special
            && !self.congestion.is_paced()
            && self.profile.clock != ClockKind::Ns2Ticks
            && self.snd_nxt == self.snd_max
            && !self.close_wanted
            && !self.is_program_writing()
    }

    /// Takes the window and the timestamp of an ACK on that path, and removes what it delivers.
    /// False if it needs more than the fast path; then nothing has changed.
    #[inline(always)]
    pub fn take_plain_ack(&mut self, now: Time, ack: &Segment, delivered: &Delivered) -> bool {
        let window = u64::from(ack.window);
        let stamped = ack.flags.has(Flags::TIMESTAMPS);
        if window < u64::from(self.config.mss)
            || self.timers.persist().is_some()
            || (stamped && !self.paws.is_recent(ack.ts_value))
        {
            return false;
        }
        if stamped {
            self.paws.update(now, ack.ts_value, false, true);
        }
        self.timers.probes_answered();
        self.set_rwnd(window);
        self.board.drop_first(delivered.count);
        true
    }

    /// Passes an ACK on that path, of `bytes` more and with this round-trip time, to the window
    /// rule.
    #[inline(always)]
    pub fn report_plain_ack(&mut self, now: Time, ack: &Segment, bytes: u64, rtt: Duration) {
        let ack = self.report(now, ack, bytes, Some(rtt), false);
        if self.hooks.every_ack {
            self.congestion.on_any_ack(&ack);
        }
        if self.is_cwnd_limited(ack.prior_flight) {
            self.congestion.on_ack(&ack);
        }
    }

    /// An ACK of new data without options, outside of recovery; not everything written is
    /// acknowledged. Sends what the window allows.
    #[inline(always)]
    pub fn on_plain_ack(
        &mut self,
        now: Time,
        ack: u64,
        take: impl FnMut(u64) -> bool,
    ) -> AfterPlainAck {
        let (bytes, prior_flight) = (ack - self.snd_una, self.snd_max - self.snd_una);
        let limited = self.is_cwnd_limited(prior_flight);
        self.snd_una = ack;
        self.acknowledge_plain(ack, bytes);
        let mut rtt = None;
        if self.timers.times_up_to(ack) {
            rtt = self.sample_timed(now, ack);
        }
        if ack < self.snd_max {
            self.timers.arm_plain(now);
        } else {
            self.rearm_after_ack(now);
        }
        if limited && self.grows_as_reno {
            let ack = self.plain_ack(now, bytes, rtt, prior_flight);
            self.congestion.grow(&Ack { whole_segments: false, ..ack });
        } else if limited {
            self.open_window(now, bytes, rtt, prior_flight);
        }
        self.fill_plain(now, take)
    }

    /// The round-trip time of the segment being timed, which `ack` covers.
    #[inline(never)]
    fn sample_timed(&mut self, now: Time, ack: u64) -> Option<Duration> {
        let sent = self.timers.take_timed(ack)?;
        self.sample_rtt(now - sent, sent, false);
        Some(now - sent)
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
            by_bytes: self.growth.by_bytes,
            whole_segments: self.growth.whole_segments,
            ece: false,
            marked: 0,
            stamps: None,
            rate: None,
        }
    }

    /// `fill` in the same circumstances.
    #[inline(always)]
    fn fill_plain(&mut self, now: Time, mut take: impl FnMut(u64) -> bool) -> AfterPlainAck {
        let (mss, una, first) = (u64::from(self.config.mss), self.snd_una, self.snd_max);
        // Not in whole bytes: what is in flight has no fraction, and the conversion takes longer
        // than the comparison.
        let window = self.congestion.inflated_window();
        let right = (una + self.rwnd).min(self.written);
        let limit = loop {
            let next = self.snd_max;
            let end = next + mss;
            if self.written - next < mss {
                // The rest of what is written may be less than a segment.
                return AfterPlainAck::Remains(Rest { first });
            }
            let fits = (end - una) as i64 as f64 <= window;
            if !fits {
                break Limit::Cwnd;
            }
            if end > right {
                break Limit::ReceiveWindow;
            }
            if !take(next) {
                return AfterPlainAck::Remains(Rest { first });
            }
            self.recent.push(now);
            self.note_sent(now, next);
        };
        self.note_plain_usage(first);
        AfterPlainAck::Sent(limit)
    }

    /// As `note_cwnd_usage`, after sending from `first` on, if there was anything to be sent.
    #[inline(always)]
    fn note_plain_usage(&mut self, first: u64) {
        if self.growth.limited_by == CwndLimitedBy::PacketsOut && self.written > first {
            self.note_cwnd_usage(self.snd_max > first, self.flight());
        }
    }

    /// Sends what remains after `fill_plain`. Returns what limits the sender then, if that is a
    /// window.
    #[inline(never)]
    pub fn send_rest(&mut self, now: Time, rest: Rest, out: &mut impl Output) -> Option<Limit> {
        self.unfold();
        let mss = u64::from(self.config.mss);
        let window = self.congestion.inflated();
        let right = (self.snd_una + window.min(self.rwnd)).min(self.written);
        while self.snd_max + mss <= right {
            let seq = self.snd_max;
            let segment = self.make(seq, self.config.mss, Flags::NONE, 1, now);
            self.board.push(self.sent_once(seq, now));
            self.note_sent(now, seq);
            out.send_new(segment);
        }
        let ends = self.written - self.snd_max < mss;
        if ends {
            self.fill_with_others(now, window, u32::MAX, SendReason::Recovery, out);
        }
        self.note_plain_usage(rest.first);
        // As `Sender::limited_by` says, where a full segment remains to be sent.
        let next_flight = self.flight() + mss;
        let by_cwnd = next_flight <= self.rwnd || next_flight > window;
        (!ends).then_some(if by_cwnd { Limit::Cwnd } else { Limit::ReceiveWindow })
    }

    /// The new segment of full size at `seq`, which is snd_nxt, is sent.
    #[inline(always)]
    fn note_sent(&mut self, now: Time, seq: u64) {
        let end = seq + u64::from(self.config.mss);
        (self.snd_nxt, self.snd_max, self.last_sent) = (end, end, now);
        self.timers.time_segment(end, now);
        self.counters.segments += 1;
        if self.snd_una == seq {
            self.timers.on_sent(now, true);
        }
    }

    // The segments sent on the fast path are on the scoreboard only from the slow path on.

    /// A segment of full size that was sent once, at `at`.
    fn sent_once(&self, seq: u64, at: Time) -> Sent {
        Sent {
            seq,
            first_sent: at,
            last_sent: at,
            len: self.config.mss,
            transmissions: 1,
            fin: false,
            marks: Marks::NONE,
        }
    }

    /// Sequence number of the first segment that is not on the scoreboard.
    fn recent_start(&self) -> u64 {
        self.snd_max - self.recent.len() as u64 * u64::from(self.config.mss)
    }

    /// `ack` acknowledges `bytes` more.
    #[inline(always)]
    fn acknowledge_plain(&mut self, ack: u64, bytes: u64) {
        let (mss, mut left, mut whole) = (u64::from(self.config.mss), bytes, 0);
        if self.board.is_empty() {
            while left >= mss {
                whole += 1;
                left -= mss;
            }
            self.recent.drop_first(whole);
            if left == 0 {
                return;
            }
        }
        self.acknowledge_others(ack, left);
    }

    /// The same if the scoreboard is not empty, or if `left` bytes are less than a segment.
    #[inline(never)]
    fn acknowledge_others(&mut self, ack: u64, left: u64) {
        if self.board.is_empty() {
            // Its other bytes are in flight.
            if let Some(at) = self.recent.pop() {
                let seq = ack - left;
                self.board.push(self.sent_once(seq, at));
            }
        } else if ack > self.board.end() {
            self.unfold();
        }
        self.board.acknowledge(ack);
    }

    /// Moves the segments sent on the fast path to the scoreboard.
    #[inline]
    pub fn unfold(&mut self) {
        if !self.recent.is_empty() {
            self.unfold_recent();
        }
    }

    #[inline(never)]
    fn unfold_recent(&mut self) {
        let mut seq = self.recent_start();
        while let Some(at) = self.recent.pop() {
            self.board.push(self.sent_once(seq, at));
            seq += u64::from(self.config.mss);
        }
    }

    /// The state of the segment that holds this offset, if it is in flight.
    pub fn sent(&self, seq: u64) -> Option<Sent> {
        let (start, mss) = (self.recent_start(), u64::from(self.config.mss));
        if seq < start {
            return self.board.get(seq);
        }
        let place = (seq - start) / mss.max(1);
        self.recent.get(place as usize).map(|&at| self.sent_once(start + place * mss, at))
    }

    /// Number of segments in flight.
    pub fn segments_in_flight(&self) -> usize {
        self.board.len() + self.recent.len()
    }
}

/// What an ACK on the fast path has left to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// snd_max before.
    first: u64,
}

/// What an ACK on the fast path leads to.
#[derive(Clone, Copy, Debug)]
pub enum AfterPlainAck {
    /// The window is used up, or nothing is left to be sent; what limits the sender now.
    Sent(Limit),
    /// Something remains to be sent that the host does not take on its fast path:
    /// [`send_rest`](crate::sender::Sender::send_rest) has to follow.
    Remains(Rest),
    /// The ACK may need more than the fast path. Nothing has changed;
    /// [`on_segment`](crate::sender::Sender::on_segment) has to follow.
    Other,
}
