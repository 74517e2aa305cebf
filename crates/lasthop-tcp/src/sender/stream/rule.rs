//! What the stream reports to the window rule about ACKs and losses, and how much of its window it
//! uses.

use super::Stream;
use crate::profile::{CwndLimitedBy, GrowthBase, HalvingBase};
use crate::rto::Bytes;
use crate::sender::config::Output;
use crate::timestamps::timestamp;
use crate::window::{Ack, Loss, LossClass, LossKind, Stamps, WindowRule};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Duration, Time};
use std::sync::Arc;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of the stream")]
impl<W: WindowRule> Stream<W> {
    /// Describes an ACK of `bytes` new bytes for the window rule, once it has been processed.
    #[inline(always)]
    pub fn report(
        &self,
        now: Time,
        segment: &Segment,
        bytes: u64,
        rtt: Option<Duration>,
        recovering: bool,
    ) -> Ack {
        let stamped = self.profile.timestamps && segment.flags.has(Flags::TIMESTAMPS);
        Ack {
            now,
            bytes: bytes + self.lacking(bytes),
            delivered: bytes,
            rtt,
            srtt: self.timers.rto().srtt(),
            flight: self.flight(),
            prior_flight: self.flight() + bytes,
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            mss: self.config.mss,
            recovering,
            by_bytes: self.growth.by_bytes,
            whole_segments: self.growth.whole_segments,
            ece: segment.flags.has(Flags::ECE),
            marked: self.marked(bytes),
            stamps: stamped.then_some(Stamps { sent: segment.ts_echo, received: segment.ts_value }),
            rate: None,
        }
    }

    /// What a short segment of the program's first write, among the `bytes` that were acknowledged,
    /// lacks: cwnd in whole segments grows by a segment for it (Linux `tcp_slow_start`).
    #[inline(always)]
    pub fn lacking(&self, bytes: u64) -> u64 {
        let (end, lacking) = self.short;
        if self.snd_una.saturating_sub(bytes) < end && self.snd_una >= end { lacking } else { 0 }
    }

    /// The round-trip time of the newest segment that `ack` newly covers, for rules that need every
    /// ACK; `None` if one of those covered was retransmitted (Karn's rule for each ACK, as in
    /// Linux; the timer samples one segment at a time).
    #[inline(never)]
    pub fn newest_rtt(&self, now: Time, ack: u64) -> Option<Duration> {
        let mut newest = None;
        for sent in self.board.iter().take_while(|s| s.end() <= ack) {
            if sent.transmissions > 1 {
                return None;
            }
            newest = Some(now - sent.first_sent);
        }
        newest
    }

    /// Passes an ACK to a rule that needs every ACK. Without SACK a duplicate ACK stands for one
    /// segment, and the ACK after it for the remaining bytes.
    #[inline(never)]
    pub fn report_any_ack(
        &mut self,
        now: Time,
        segment: &Segment,
        bytes: u64,
        rtt: Option<Duration>,
    ) -> u64 {
        let mut ack = self.report(now, segment, bytes, rtt, self.congestion.inflation() > 0.0);
        ack.delivered = self.delivered_without_sack(bytes);
        ack.marked = self.marked(ack.delivered);
        ack.rate = self.congestion.sample_rate(now, self.snd_una, ack.delivered);
        ack.flight = self.in_network();
        self.congestion.on_any_ack(&ack);
        ack.delivered
    }

    fn delivered_without_sack(&mut self, bytes: u64) -> u64 {
        let (mss, flight) = (u64::from(self.config.mss), self.flight());
        self.congestion.delivered_without_sack(bytes, mss, flight)
    }

    /// Counts what an ACK delivers, and passes it to a rule that needs every ACK.
    #[inline(always)]
    pub fn report_delivery(
        &mut self,
        now: Time,
        segment: &Segment,
        bytes: u64,
        rtt: Option<Duration>,
    ) -> u64 {
        if self.hooks.every_ack {
            self.report_any_ack(now, segment, bytes, rtt)
        } else if self.profile.growth_base == GrowthBase::Delivered {
            self.delivered_without_sack(bytes)
        } else {
            bytes
        }
    }

    /// A round-trip time sample of an ACK: from the timestamp, or of the one segment being timed
    /// (Karn's rule: of no segment that was retransmitted).
    #[inline(always)]
    pub fn sample(&mut self, now: Time, segment: &Segment) -> Option<Duration> {
        let mut rtt = None;
        if segment.flags.has(Flags::TIMESTAMPS) && self.profile.timestamps {
            let micros = timestamp(now).wrapping_sub(segment.ts_echo);
            let sample = Duration::micros(u64::from(micros));
            self.sample_rtt(sample, now - sample, true);
            if self.profile.timestamp_ends_backoff {
                self.timers.end_back_off();
            }
            rtt = Some(sample);
        }
        if let Some(sent) = self.timers.take_timed(segment.ack)
            && rtt.is_none()
        {
            rtt = Some(now - sent);
            self.sample_rtt(now - sent, sent, false);
        }
        rtt
    }

    /// A round-trip time sample of a segment sent at `sent`; `exact` if a timestamp gave it.
    #[inline]
    pub fn sample_rtt(&mut self, rtt: Duration, sent: Time, exact: bool) {
        let bytes = Bytes { snd_una: self.snd_una, snd_nxt: self.snd_nxt };
        self.timers.sample_rtt(rtt, sent, exact, bytes);
    }

    /// The window in use: cwnd and its inflation, not above the receive window. A window that is
    /// nearly closed is no congestion.
    pub fn window_in_use(&self) -> f64 {
        (self.window().cwnd + self.congestion.inflation())
            .min(self.rwnd.max(u64::from(self.config.mss)) as f64)
    }

    /// Describes a loss (or mark) for the window rule. `flags` are those of the ACK that reported
    /// it, `pipe` is that of SACK; `within_window`: the flight counts only as far as the window
    /// reaches.
    fn loss(
        &self,
        now: Time,
        kind: LossKind,
        flags: Flags,
        pipe: Option<u64>,
        within_window: bool,
    ) -> Loss {
        let mss = self.config.mss;
        // What limited transmit sent does not count (RFC 5681, section 3.2 step 2).
        let extra = if kind == LossKind::DuplicateAcks { self.limited } else { 0 };
        let window = match self.profile.halving {
            HalvingBase::Cwnd if self.growth.whole_segments => {
                let mss = f64::from(mss);
                libm::floor(self.window().cwnd / mss) * mss
            }
            HalvingBase::Cwnd => self.window().cwnd,
            HalvingBase::Window | HalvingBase::FlightSize => self.window_in_use(),
        };
        let mut flight = self.flight() - extra.min(self.flight());
        if within_window {
            flight = flight.min(window as u64);
        }
        Loss {
            now,
            kind,
            seq: self.snd_una,
            snd_max: self.snd_max,
            flight,
            pipe: pipe.unwrap_or(flight),
            window,
            mss,
            srtt: self.timers.rto().srtt(),
            eln: flags.has(Flags::ELN),
            ece: flags.has(Flags::ECE),
            halving: self.profile.halving,
            integer_ssthresh: self.profile.integer_ssthresh,
            integer_window: self.profile.integer_window,
            whole_segments: self.growth.whole_segments,
            loss_window: self.profile.loss_window.bytes(mss) as f64,
        }
    }

    /// The window rule reduces its window for a loss (or mark). True if the rule has classified the
    /// loss and kept cwnd. For the arguments see [`Self::loss`].
    pub fn reduce(
        &mut self,
        now: Time,
        kind: LossKind,
        flags: Flags,
        pipe: Option<u64>,
        within_window: bool,
        out: &mut impl Output,
    ) -> bool {
        let loss = self.loss(now, kind, flags, pipe, within_window);
        let before = self.window();
        // One reduction for a window of data (RFC 3168, section 6.1.2): a mark in this window has
        // been answered already. That of L4S is a smaller one (RFC 9331, section 4.3).
        let answered = kind == LossKind::DuplicateAcks
            && self.profile.ecn
            && !self.profile.l4s
            && !self.congestion.past_last_mark(self.snd_una);
        let mut class = LossClass::Unclassified;
        if !answered || self.congestion.classifies() {
            class = self.congestion.on_loss(&loss);
            // With less than a segment the sender would stop once nothing is in flight: half of a
            // receive window of one segment (a tail probe finds losses in such a window too).
            let least = f64::from(self.config.mss).min(before.cwnd);
            self.congestion.set_cwnd(self.window().cwnd.max(least));
        }
        if answered {
            self.congestion.set_window(before);
        }
        let after = self.window();
        let fell = after.cwnd < before.cwnd || after.ssthresh < before.ssthresh;
        let classified = class != LossClass::Unclassified;
        self.counters.reductions += u64::from(fell || (!classified && !answered));
        if self.profile.ecn && (fell || kind == LossKind::Ecn) {
            self.congestion.begin_cwr(self.snd_max);
        }
        if classified && let Some(segment) = self.board.get(loss.seq).filter(|s| s.len > 0) {
            out.classified(loss.seq, segment.transmissions, class);
        }
        kind == LossKind::DuplicateAcks && classified && after.cwnd >= before.cwnd
    }

    /// An ACK that has a count of marks, with an echo in its place if marks are reported; `None`
    /// without AccECN.
    #[inline]
    pub fn read_marks(&mut self, segment: &Segment) -> Option<Segment> {
        let is_old = segment.ack < self.snd_una;
        self.marks.as_mut().map(|marks| marks.read(segment, is_old))
    }

    /// From now on no segment is ECN-capable, and marks are ignored.
    pub fn disable_ecn(&mut self) {
        Arc::make_mut(&mut self.profile).ecn = false;
        if let Some(marks) = &mut self.marks {
            marks.ignore();
        }
    }

    /// ACKs count marks (AccECN).
    pub fn counts_marks(&self) -> bool {
        self.marks.is_some()
    }

    /// Segments that the ACK being processed reports as marked, if it newly delivers this number of
    /// bytes.
    #[inline]
    pub fn marked(&self, delivered: u64) -> u32 {
        if self.marks.is_none() { 0 } else { self.marked_by_count(delivered) }
    }

    #[cold]
    #[inline(never)]
    fn marked_by_count(&self, delivered: u64) -> u32 {
        let Some(marks) = &self.marks else { return 0 };
        marks.marked(delivered.div_ceil(u64::from(self.config.mss.max(1))) as u32)
    }

    /// An ACK that echoes a mark: it does not open the window.
    #[inline]
    pub fn is_echo(&self, segment: &Segment) -> bool {
        self.profile.ecn && segment.flags.has(Flags::ECE)
    }

    /// New data were to be sent: `sent` says whether any were, and `pipe` is what is in flight now
    /// (Linux `tcp_write_xmit`).
    #[inline]
    pub fn note_cwnd_usage(&mut self, sent: bool, pipe: u64) {
        if self.growth.limited_by != CwndLimitedBy::PacketsOut {
            return;
        }
        let full = pipe + u64::from(self.config.mss) > self.congestion.inflated();
        if !sent && !full {
            return;
        }
        let out = if self.offload {
            self.segments_of(self.flight()) as usize
        } else {
            self.segments_in_flight()
        };
        self.usage.note(full, out, self.snd_una, self.snd_nxt);
    }

    /// cwnd limits the sender, so that an ACK may open it; `pipe_before` is what was in flight
    /// before the ACK.
    #[inline]
    pub fn is_cwnd_limited(&self, pipe_before: u64) -> bool {
        if self.growth.when_window_limited {
            return true;
        }
        match self.growth.limited_by {
            CwndLimitedBy::Pipe => {
                pipe_before + u64::from(self.config.mss) > self.window().bytes(0.0)
            }
            CwndLimitedBy::PacketsOut => self.usage.is_limited(self.window(), self.config.mss),
        }
    }
}
