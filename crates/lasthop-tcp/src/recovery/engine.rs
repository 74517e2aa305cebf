//! The recovery of one connection: one of the engines on duplicate ACKs, SACK, and ns-2's SACK.

use super::config::{Recovery, RecoveryKind};
use super::detect::rack::Rack;
use super::dupack::{AfterTimeout, DupackRecovery};
use super::sack::SackRecovery;
use super::sack_ns2::SackNs2Recovery;
use crate::profile::{EcnReduction, Profile};
use crate::sender::config::{Output, SendReason};
use crate::sender::stream::Stream;
use crate::window::{LossKind, Needs, WindowRule};
use lasthop_core::segment::{Flags, Options, Segment};
use lasthop_core::units::Time;

/// The recovery of one connection.
#[derive(Debug)]
pub enum Engine {
    /// By duplicate ACKs.
    Dupack(DupackRecovery),
    /// On SACK blocks.
    Sack(Box<SackRecovery>),
    /// On SACK blocks, as in ns-2.
    SackNs2(Box<SackNs2Recovery>),
}

impl Engine {
    /// At the start of a connection.
    pub fn new(recovery: &Recovery, profile: &Profile, needs: &Needs) -> Engine {
        let guarded = profile.guard_first_segment;
        match recovery.kind {
            RecoveryKind::SackNs2 => {
                Engine::SackNs2(Box::new(SackNs2Recovery::new(recovery, guarded)))
            }
            RecoveryKind::Tahoe | RecoveryKind::Reno | RecoveryKind::Newreno => {
                Engine::Dupack(DupackRecovery::new(recovery, guarded).with_heuristics(profile))
            }
            _ => Engine::Sack(Box::new(SackRecovery::new(
                recovery,
                Rack::new(profile),
                needs.rate_samples,
            ))),
        }
    }

    /// Recovery on SACK blocks, if it is that.
    #[inline]
    pub fn sack(&self) -> Option<&SackRecovery> {
        match self {
            Engine::Sack(sack) => Some(sack),
            Engine::Dupack(_) | Engine::SackNs2(_) => None,
        }
    }

    /// Bytes in the network, of `flight` bytes not yet acknowledged: by SACK if that is used (RFC
    /// 6675, SetPipe), otherwise all of them.
    #[inline]
    pub fn pipe(&self, flight: u64) -> u64 {
        self.sack().map_or(flight, |s| s.pipe(flight))
    }

    /// Duplicate ACKs in a row.
    pub fn dupacks(&self) -> u32 {
        match self {
            Engine::Dupack(d) => d.dupacks(),
            Engine::Sack(s) => s.dupacks(),
            Engine::SackNs2(s) => s.dupacks(),
        }
    }

    /// An ACK of an established connection.
    #[inline(always)]
    pub fn on_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        match self {
            Engine::Sack(s) => s.on_ack(stream, now, segment, options, out),
            Engine::Dupack(d) => on_any_ack(d, stream, now, segment, out),
            Engine::SackNs2(s) => s.on_ack(stream, now, segment, options, out),
        }
    }

    /// Sends what the windows allow; `reason` is that of the first retransmission.
    #[inline(never)]
    pub fn fill<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        match self {
            Engine::Sack(s) => s.fill(stream, now, out),
            Engine::Dupack(d) => d.fill(stream, now, u32::MAX, reason, out),
            Engine::SackNs2(s) => s.fill(stream, now, reason, out),
        }
    }

    /// A deadline besides the retransmission timer has come.
    pub fn on_aux_timer<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        match self {
            Engine::Sack(s) => s.on_aux_timer(stream, now, out),
            Engine::Dupack(d) => d.on_aux_timer(stream, now, out),
            Engine::SackNs2(s) => s.fill(stream, now, SendReason::Recovery, out),
        }
    }

    /// The retransmission timer expired.
    pub fn on_timeout<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        if self.forbears_timeout(stream, now, out) {
            return;
        }
        match self {
            Engine::Sack(s) => s.on_timeout(stream, now, out),
            Engine::Dupack(d) => {
                if let AfterTimeout::Send { limit } = d.on_timeout(stream, now, out) {
                    d.fill(stream, now, limit, SendReason::Timeout, out);
                }
            }
            Engine::SackNs2(s) => s.on_timeout(stream, now, out),
        }
    }

    /// An ECN echo: one reduction for a window of data (RFC 3168, section 6.1.2).
    #[inline(never)]
    pub fn on_ecn_echo<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        ack: u64,
        out: &mut impl Output,
    ) {
        if !stream.congestion().past_last_mark(ack) || stream.congestion().inflation() > 0.0 {
            return;
        }
        let proportional = stream.profile().ecn_reduction == EcnReduction::Proportional;
        match self {
            Engine::Sack(s) => s.on_ecn_echo(stream, now, ack, proportional, out),
            Engine::Dupack(d) => d.reduce(stream, now, LossKind::Ecn, Flags::ECE, out),
            Engine::SackNs2(s) if s.is_recovering() => {}
            Engine::SackNs2(s) => {
                s.base_mut().reduce(stream, now, LossKind::Ecn, Flags::ECE, out);
            }
        }
    }

    /// The sender continues after it was frozen, and what was in flight is lost.
    pub fn on_resumed<W: WindowRule>(&mut self, stream: &mut Stream<W>) {
        match self {
            Engine::Sack(_) => stream.reset_limited(),
            Engine::Dupack(d) => d.on_resumed(stream),
            Engine::SackNs2(s) => s.base_mut().on_resumed(stream),
        }
    }
}

/// An ACK with any flags for recovery by duplicate ACKs. The sender passes those without in place.
#[inline(never)]
fn on_any_ack<W: WindowRule>(
    recovery: &mut DupackRecovery,
    stream: &mut Stream<W>,
    now: Time,
    segment: &Segment,
    out: &mut impl Output,
) {
    recovery.on_ack(stream, now, segment, out);
}
