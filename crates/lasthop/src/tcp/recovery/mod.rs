//! Loss recovery: how losses are found and repaired.

pub mod config;
mod dupack;

pub use config::{Eifel, Recovery, RecoveryKind};

use crate::segment::{Flags, Segment};
use crate::tcp::sender::{Output, Sender, bytes_of};
use crate::tcp::window::{Ack, Loss, LossKind, Said, Stamps, WindowRule};
use crate::units::{Duration, Time};

impl<W: WindowRule> Sender<W> {
    /// What an ACK of `bytes` new bytes tells the window rule, once it has been taken in.
    #[inline(always)]
    fn report(&self, now: Time, segment: &Segment, bytes: u64, rtt: Option<Duration>, recovering: bool) -> Ack {
        let stamped = self.profile.timestamps && segment.flags.has(Flags::TIMESTAMPS);
        Ack {
            now,
            bytes,
            delivered: bytes,
            rtt,
            srtt: self.rto.srtt(),
            flight: self.flight(),
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            mss: self.config.mss,
            recovering,
            by_bytes: self.profile.byte_counting,
            ece: segment.flags.has(Flags::ECE),
            stamps: stamped.then_some(Stamps { sent: segment.ts_echo, received: segment.ts_value }),
            rate: None,
        }
    }

    /// Tells a rule that wants to know every ACK. Without SACK a duplicate ACK stands for one segment, and the ACK after
    /// it for what is left.
    #[inline(never)]
    fn tell(&mut self, now: Time, segment: &Segment, bytes: u64, rtt: Option<Duration>) {
        let mut ack = self.report(now, segment, bytes, rtt, self.inflation > 0.0);
        let mss = u64::from(self.config.mss);
        if bytes == 0 {
            ack.delivered = mss.min(self.flight().saturating_sub(self.dup_delivered));
            self.dup_delivered += ack.delivered;
        } else {
            ack.delivered = bytes.saturating_sub(self.dup_delivered).max(bytes.min(mss));
            self.dup_delivered = self.dup_delivered.saturating_sub(bytes - ack.delivered.min(bytes));
        }
        self.rule.on_any_ack(&mut self.window, &ack);
    }

    /// Tells the rule of a loss (or mark) and lets it set its window.
    fn reduce(&mut self, now: Time, kind: LossKind, eln: bool, out: &mut impl Output) {
        // What limited transmit sent does not count (RFC 5681, section 3.2 step 2).
        let extra = if kind == LossKind::DuplicateAcks { self.limited } else { 0 };
        let loss = Loss {
            now,
            kind,
            seq: self.snd_una,
            snd_max: self.snd_max,
            flight: self.flight() - extra.min(self.flight()),
            window: self.window_in_use(),
            mss: self.config.mss,
            srtt: self.rto.srtt(),
            eln,
            halving: self.profile.halving,
            integer_ssthresh: self.profile.integer_ssthresh,
            loss_window: bytes_of(self.profile.loss_window, self.config.mss),
        };
        let before = self.window;
        let said = self.rule.on_loss(&mut self.window, &loss);
        let fell = self.window.cwnd < before.cwnd || self.window.ssthresh < before.ssthresh;
        self.kept = kind == LossKind::DuplicateAcks && said == Said::Wireless && self.window.cwnd >= before.cwnd;
        self.counters.reductions += u64::from(fell || said == Said::Nothing);
        if said != Said::Nothing {
            out.classified(loss.seq, said);
        }
    }

    /// An ECN echo: one reduction for a window of data (RFC 3168, section 6.1.2).
    #[inline(never)]
    pub(in crate::tcp) fn on_ecn_echo(&mut self, now: Time, out: &mut impl Output) {
        if self.snd_una >= self.ecn_until && self.inflation == 0.0 {
            self.ecn_until = self.snd_max;
            self.cwr = true;
            self.reduce(now, LossKind::Ecn, false, out);
        }
    }
}
