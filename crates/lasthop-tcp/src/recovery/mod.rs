//! Loss recovery: how losses are found and repaired.

mod additions;
pub mod config;
mod dcr;
mod dupack;
mod dupack_additions;
pub mod elsn;
mod fine_timer;
mod ncr;
pub mod packet_list;
pub mod prr;
pub mod rack;
mod sack;
mod sack_additions;
mod sack_ns2;
pub mod sack_state;
mod selective_repeat;
mod spurious;

pub(crate) use additions::Additions;
pub use config::{Eifel, Recovery, RecoveryKind};
pub(crate) use elsn::Elsn;
pub use elsn::{AfterEln, ElsnRules};
pub(crate) use sack_ns2::SackNs2;

use crate::profile::{EcnReduction, GrowthBase, HalvingBase};
use crate::sender::{Output, Sender, bytes_of};
use crate::window::{Ack, Loss, LossClass, LossKind, Stamps, WindowRule};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Duration, Time};

impl<W: WindowRule> Sender<W> {
    /// What an ACK of `bytes` new bytes tells the window rule, once it has been taken in.
    #[inline(always)]
    fn report(
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
            bytes,
            delivered: bytes,
            rtt,
            srtt: self.rto.srtt(),
            flight: self.flight(),
            prior_flight: self.flight() + bytes,
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            mss: self.config.mss,
            recovering,
            by_bytes: self.profile.byte_counting,
            whole_segments: self.profile.whole_segments,
            ece: segment.flags.has(Flags::ECE),
            stamps: stamped.then_some(Stamps { sent: segment.ts_echo, received: segment.ts_value }),
            rate: None,
        }
    }

    /// For rules that want to know every ACK: since when the newest segment that `ack` newly covers
    /// is under way, unless one of those covered was sent again (Karn's rule for each ACK, as in
    /// Linux; the timer samples one segment at a time).
    #[inline(never)]
    fn newest_rtt(&self, now: Time, ack: u64) -> Option<Duration> {
        let mut newest = None;
        for sent in self.board.iter().take_while(|s| s.end() <= ack) {
            if sent.transmissions > 1 {
                return None;
            }
            newest = Some(now - sent.first_sent);
        }
        newest
    }

    /// Tells a rule that wants to know every ACK. Without SACK a duplicate ACK stands for one
    /// segment, and the ACK after it for what is left.
    #[inline(never)]
    fn tell(&mut self, now: Time, segment: &Segment, bytes: u64, rtt: Option<Duration>) -> u64 {
        let mut ack = self.report(now, segment, bytes, rtt, self.inflation > 0.0);
        ack.delivered = self.delivered_without_sack(bytes);
        ack.rate = self.sample_rate(now, ack.delivered);
        ack.flight = self.in_network();
        self.rule.on_any_ack(&mut self.window, &ack);
        self.mark_if_held_back();
        ack.delivered
    }

    /// What an ACK of `bytes` new bytes delivers where there is no SACK (Linux `tcp_add_reno_sack`,
    /// `tcp_remove_reno_sacks`).
    fn delivered_without_sack(&mut self, bytes: u64) -> u64 {
        let mss = u64::from(self.config.mss);
        if bytes == 0 {
            let delivered = mss.min(self.flight().saturating_sub(self.dup_delivered));
            self.dup_delivered += delivered;
            return delivered;
        }
        let delivered = bytes.saturating_sub(self.dup_delivered).max(bytes.min(mss));
        self.dup_delivered = self.dup_delivered.saturating_sub(bytes - delivered.min(bytes));
        delivered
    }

    /// Counts what an ACK delivers, and tells a rule that wants to know every ACK.
    #[inline(always)]
    fn tell_delivery(
        &mut self,
        now: Time,
        segment: &Segment,
        bytes: u64,
        rtt: Option<Duration>,
    ) -> u64 {
        if self.config.needs.every_ack {
            self.tell(now, segment, bytes, rtt)
        } else if self.profile.growth_base == GrowthBase::Delivered {
            self.delivered_without_sack(bytes)
        } else {
            bytes
        }
    }

    /// Tells the rule of a loss (or mark) and lets it set its window. `flags` are those of the ACK
    /// that told of it, `pipe` is that of SACK.
    fn reduce(
        &mut self,
        now: Time,
        kind: LossKind,
        flags: Flags,
        pipe: Option<u64>,
        out: &mut impl Output,
    ) {
        // What limited transmit sent does not count (RFC 5681, section 3.2 step 2).
        let extra = if kind == LossKind::DuplicateAcks { self.limited } else { 0 };
        let window = match self.profile.halving {
            HalvingBase::Cwnd if self.profile.whole_segments => {
                let mss = f64::from(self.config.mss);
                libm::floor(self.window.cwnd / mss) * mss
            }
            HalvingBase::Cwnd => self.window.cwnd,
            HalvingBase::Window | HalvingBase::FlightSize => self.window_in_use(),
        };
        let mut flight = self.flight() - extra.min(self.flight());
        if self.config.recovery.kind == RecoveryKind::PacketList {
            // A second loss of one window halves what the first has left.
            flight = flight.min(window as u64);
        }
        let loss = Loss {
            now,
            kind,
            seq: self.snd_una,
            snd_max: self.snd_max,
            flight,
            pipe: pipe.unwrap_or(flight),
            window,
            mss: self.config.mss,
            srtt: self.rto.srtt(),
            eln: flags.has(Flags::ELN),
            ece: flags.has(Flags::ECE),
            halving: self.profile.halving,
            integer_ssthresh: self.profile.integer_ssthresh,
            integer_window: self.profile.integer_window,
            whole_segments: self.profile.whole_segments,
            loss_window: bytes_of(self.profile.loss_window, self.config.mss),
        };
        if self.additions.is_some() {
            self.remember_reduction(now, kind);
        }
        let before = self.window;
        // One reduction for a window of data (RFC 3168, section 6.1.2): here a mark has been
        // answered already.
        let answered = kind == LossKind::DuplicateAcks
            && self.profile.ecn
            && !self.past_last_mark(self.snd_una);
        let mut said = LossClass::Unclassified;
        if !answered || self.rule.classifies() {
            said = self.rule.on_loss(&mut self.window, &loss);
            // With less than a segment the sender would stand still once nothing is in flight: half
            // of a receive window of one segment (a tail probe tells of losses in so small a window
            // too).
            self.window.cwnd = self.window.cwnd.max(f64::from(self.config.mss).min(before.cwnd));
        }
        if answered {
            self.window = before;
        }
        let fell = self.window.cwnd < before.cwnd || self.window.ssthresh < before.ssthresh;
        self.cwnd_preserved = kind == LossKind::DuplicateAcks
            && said != LossClass::Unclassified
            && self.window.cwnd >= before.cwnd;
        self.counters.reductions +=
            u64::from(fell || (said == LossClass::Unclassified && !answered));
        if self.profile.ecn && (fell || kind == LossKind::Ecn) {
            // RFC 3168, section 6.1.2: whatever made it reduce, the receiver is told, and echoes of
            // marks up to here are old.
            self.ecn_until = self.snd_max;
            self.cwr = true;
        }
        if said != LossClass::Unclassified
            && let Some(segment) = self.board.get(loss.seq).filter(|s| s.len > 0)
        {
            out.classified(loss.seq, segment.transmissions, said);
        }
    }

    /// An ECN echo: one reduction for a window of data (RFC 3168, section 6.1.2).
    #[inline(never)]
    pub(crate) fn on_ecn_echo(&mut self, now: Time, ack: u64, out: &mut impl Output) {
        let on_sack = self.sack.as_ref().is_some_and(|s| s.phase != sack_state::Phase::Open);
        let recovering = self.inflation > 0.0 || self.in_ns2_recovery() || on_sack;
        if self.past_last_mark(ack) && !recovering {
            self.end_cwr(ack);
            let before = self.window;
            self.reduce(now, LossKind::Ecn, Flags::ECE, None, out);
            if self.profile.ecn_reduction == EcnReduction::Proportional {
                self.begin_cwr(before);
            }
        }
    }

    /// An ACK that tells of congestion: it does not open the window.
    #[inline]
    pub(crate) fn is_echo(&self, segment: &Segment) -> bool {
        self.profile.ecn && segment.flags.has(Flags::ECE)
    }

    /// What `ack` acknowledges is past the window of data on which a reduction has answered marks.
    /// The receiver learns of it with the segment at `ecn_until`: the ACK of what comes before
    /// still echoes.
    fn past_last_mark(&self, ack: u64) -> bool {
        ack > self.ecn_until || self.ecn_until == 0
    }
}
