//! Detection of spurious reductions and the window that is restored after one: Eifel, F-RTO, and
//! D-SACK (`dsack.rs`, for recovery on SACK blocks).
//!
//! The recovery calls `remember` before each reduction, `enter_f_rto` after a timeout, `judge` for
//! each ACK, and `undo` when the verdict is that the reduction was spurious.

pub mod dsack;
mod eifel;
mod f_rto;

use crate::recovery::{Eifel, Recovery};
use crate::window::{LossKind, Window};
use eifel::Reduction;
use f_rto::ForwardRto;
use lasthop_core::units::{Duration, Time};

/// What an ACK says about the last reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: recovery continues as usual.
    Usual,
    /// It was spurious.
    Spurious,
    /// F-RTO, step 2b: two new segments instead of retransmissions, then wait for the next ACK.
    SendNew,
    /// F-RTO, step 3a: the timeout was not spurious.
    Confirmed,
}

/// An ACK as the detection sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// The ACK number.
    pub ack: u64,
    /// Bytes that it newly acknowledges.
    pub acked: u64,
    /// The lowest end of a segment, sent once, that it newly acknowledges or SACKs.
    pub fresh_end: Option<u64>,
    /// The highest byte acknowledged or SACKed.
    pub highest: u64,
    /// The timestamp that it echoes.
    pub echo: Option<u32>,
    /// It carries an ECN echo.
    pub ece: bool,
    /// It reports a duplicate (RFC 2883).
    pub dsack: bool,
}

/// The sender before a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// cwnd and ssthresh.
    pub window: Window,
    /// Bytes in flight.
    pub flight: u64,
    /// The byte after the last one sent.
    pub snd_max: u64,
    /// SRTT + 2 G and RTTVAR.
    pub rtt: Option<(Duration, Duration)>,
}

/// The sender when a reduction has been found spurious, and the ACK that shows it is processed.
#[derive(Clone, Copy, Debug)]
pub struct After {
    /// cwnd and ssthresh.
    pub window: Window,
    /// Bytes in flight.
    pub flight: u64,
    /// Bytes that the ACK acknowledged.
    pub acked: u64,
    /// The initial window in bytes.
    pub initial_window: u64,
    /// Maximum segment size in bytes.
    pub mss: u32,
}

/// What is restored after a spurious reduction.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// cwnd and ssthresh.
    pub window: Window,
    /// The first round-trip time of data above this byte restarts the estimates from these (RFC
    /// 4015, step 9).
    pub reseed: Option<(u64, (Duration, Duration))>,
}

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
            f_rto: ForwardRto::new(recovery.f_rto, recovery.uses_sack()),
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
