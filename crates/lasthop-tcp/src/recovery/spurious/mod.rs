//! Detection of spurious reductions and the window that is restored after one: Eifel, F-RTO, and
//! D-SACK (`dsack.rs`, for recovery on SACK blocks).
//!
//! The recovery calls `remember` before each reduction, `enter_f_rto` after a timeout, `judge` for
//! each ACK, and `undo` when the verdict is that the reduction was spurious.

pub mod dsack;
mod eifel;
pub mod evidence;
mod f_rto;

use crate::loss::LossKind;
use crate::recovery::config::{Eifel, Recovery};
use eifel::Reduction;
use evidence::{After, Before, Evidence, Restored, Verdict};
use f_rto::ForwardRto;
use lasthop_core::units::Time;

/// The detection of spurious reductions of one connection.
#[derive(Clone, Debug)]
pub struct Spurious {
    eifel: Eifel,
    /// The window of before a spurious reduction is restored as a whole, and the estimates of the
    /// round-trip time are not adapted (Linux).
    restores_all: bool,
    last: Option<Reduction>,
    f_rto: ForwardRto,
    /// The receiver reports duplicates.
    dsack_seen: bool,
}

impl Spurious {
    /// The detection that a recovery includes.
    pub fn new(recovery: &Recovery) -> Self {
        Spurious {
            eifel: recovery.eifel,
            restores_all: recovery.restores_all(),
            last: None,
            f_rto: ForwardRto::new(recovery.f_rto, recovery.uses_sack(), recovery.restores_all()),
            dsack_seen: false,
        }
    }

    /// No reduction is in doubt.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.f_rto.is_off() && !self.last.as_ref().is_some_and(Reduction::is_open)
    }

    /// A reduction is about to be made.
    pub fn remember(&mut self, now: Time, kind: LossKind, before: &Before) {
        match &mut self.last {
            // A mark reports congestion: nothing is restored.
            last if kind == LossKind::Ecn => *last = None,
            Some(r) if r.is_open() => r.repeat(kind == LossKind::Timeout),
            last => *last = Some(Reduction::new(now, kind == LossKind::Timeout, before)),
        }
    }

    /// A timeout; see [`ForwardRto::enter`].
    pub fn enter_f_rto(&mut self, recovering: bool, snd_max: u64) -> bool {
        self.f_rto.enter(recovering, snd_max)
    }

    /// What an ACK says about the last reduction.
    pub fn judge(&mut self, ack: &Evidence, snd_max: u64) -> Verdict {
        self.dsack_seen |= ack.dsack;
        let first_ack = ack.acked > 0 && self.last.as_mut().is_some_and(Reduction::close);
        if first_ack
            && self.last.is_some_and(|r| r.is_refuted(self.eifel, self.dsack_seen, ack, snd_max))
        {
            self.f_rto.stop();
            return Verdict::Spurious;
        }
        self.f_rto.on_ack(ack)
    }

    /// F-RTO waits for the ACK that decides: nothing else is sent.
    #[inline]
    pub fn f_rto_waits(&self) -> bool {
        !self.f_rto.is_off()
    }

    /// F-RTO had no new segments to send: the usual recovery continues.
    pub fn stop_f_rto(&mut self) {
        self.f_rto.stop();
    }

    /// The last reduction was found spurious by another detection.
    pub fn settle(&mut self) {
        self.last = None;
        self.f_rto.stop();
    }

    /// The last reduction was spurious: what is restored, once.
    pub fn undo(&mut self, after: &After) -> Option<Restored> {
        let r = self.last.take()?;
        let adapts = r.was_timeout() && self.eifel != Eifel::Original && !self.restores_all;
        Some(Restored {
            window: r.window_to_restore(self.eifel, self.restores_all, after),
            reseed: r.estimates().filter(|_| adapts),
        })
    }
}
