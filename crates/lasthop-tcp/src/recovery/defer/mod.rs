//! What can be added to a recovery of either family: detection of spurious reductions, and a rule
//! that defers the response to duplicate ACKs. A sender without additions has no such state.

pub mod dcr;
pub mod fine_timer;
pub mod ncr;

use crate::recovery::config::{Eifel, Recovery, RecoveryKind};
use crate::recovery::spurious::Spurious;
use crate::recovery::spurious::evidence::{After, Before, Evidence};
use crate::sender::stream::Stream;
use crate::window::{LossKind, WindowRule};
use dcr::DelayedResponse;
use fine_timer::FineTimer;
use lasthop_core::units::Time;
use ncr::ExtendedTransmit;

/// The rules that defer a response exclude each other, and go with the recoveries that their
/// documents are about.
///
/// # Errors
///
/// The message says what goes with what.
pub fn check(recovery: &Recovery) -> Result<(), String> {
    let (ncr, dcr, fine) = (recovery.ncr.is_some(), recovery.dcr, recovery.fine_timer);
    let kinds = [RecoveryKind::Sack, RecoveryKind::Newreno, RecoveryKind::Reno];
    if (ncr || dcr) && !kinds.contains(&recovery.kind) {
        return Err("ncr and dcr go with reno, newreno and sack".into());
    }
    if u8::from(ncr) + u8::from(dcr) + u8::from(fine) > 1 {
        return Err("only one of ncr, dcr and fine-timer can say when a duplicate ACK means \
                    a loss"
            .into());
    }
    if fine && recovery.uses_sack() {
        return Err("fine-timer goes with tahoe, reno and newreno".into());
    }
    Ok(())
}

/// When a duplicate ACK means a loss; at most one rule applies.
#[derive(Clone, Debug)]
pub enum Defer {
    /// After the usual number of duplicate ACKs.
    Off,
    /// Non-congestion robustness.
    Ncr(ExtendedTransmit),
    /// Delayed congestion response.
    Dcr(DelayedResponse),
    /// Vegas' timer.
    Fine(FineTimer),
}

/// The additions to the recovery of one connection.
#[derive(Clone, Debug)]
pub struct Additions {
    spurious: Spurious,
    defer: Defer,
}

impl Additions {
    /// The additions of a recovery; `None` for most.
    pub fn of(recovery: &Recovery) -> Option<Box<Additions>> {
        let defer = match recovery {
            Recovery { ncr: Some(careful), .. } => Defer::Ncr(ExtendedTransmit::new(*careful)),
            Recovery { dcr: true, .. } => Defer::Dcr(DelayedResponse::default()),
            Recovery { fine_timer: true, .. } => Defer::Fine(FineTimer::default()),
            _ => Defer::Off,
        };
        let any = recovery.f_rto || recovery.eifel != Eifel::Off || !matches!(defer, Defer::Off);
        any.then(|| Box::new(Additions { spurious: Spurious::new(recovery), defer }))
    }

    /// The detection of spurious reductions.
    #[inline]
    pub fn spurious(&self) -> &Spurious {
        &self.spurious
    }

    /// The detection of spurious reductions, to inform it.
    #[inline]
    pub fn spurious_mut(&mut self) -> &mut Spurious {
        &mut self.spurious
    }

    /// No reduction is in doubt, and no response is deferred.
    pub fn are_idle(&self) -> bool {
        self.spurious.is_idle() && matches!(self.defer, Defer::Off)
    }

    /// A reduction is about to be made.
    pub fn remember<W: WindowRule>(&mut self, stream: &Stream<W>, now: Time, kind: LossKind) {
        let before = Before {
            window: stream.window(),
            flight: stream.flight(),
            snd_max: stream.snd_max(),
            rtt: stream.timers().rto().remembered(),
        };
        self.spurious.remember(now, kind, &before);
    }

    /// The last reduction was spurious: new data are sent next, the window and the estimates are
    /// restored.
    pub fn restore<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time, ack: &Evidence) {
        stream.skip_to(stream.snd_max());
        let mss = stream.mss();
        let after = After {
            window: stream.window(),
            flight: stream.flight(),
            acked: ack.acked,
            initial_window: stream.profile().initial_window.bytes(mss),
            mss,
        };
        let Some(restored) = self.spurious.undo(&after) else { return };
        stream.counters_mut().undone += 1;
        if !ack.ece {
            stream.congestion_mut().on_undo(&restored.window, now);
        }
        if let Some((above, estimates)) = restored.reseed {
            stream.timers_mut().reseed_above(above, estimates);
        }
    }

    /// The response to duplicate ACKs is deferred by non-congestion robustness or delayed
    /// congestion response: new data may leave for everything that is delivered meanwhile.
    #[inline]
    pub fn defers(&self) -> bool {
        matches!(self.defer, Defer::Ncr(_) | Defer::Dcr(_))
    }

    /// Non-congestion robustness, if that is the rule.
    pub fn ncr(&self) -> Option<&ExtendedTransmit> {
        match &self.defer {
            Defer::Ncr(ncr) => Some(ncr),
            _ => None,
        }
    }

    /// The same, to inform it.
    pub fn ncr_mut(&mut self) -> Option<&mut ExtendedTransmit> {
        match &mut self.defer {
            Defer::Ncr(ncr) => Some(ncr),
            _ => None,
        }
    }

    /// Delayed congestion response, if that is the rule.
    pub fn dcr(&self) -> Option<&DelayedResponse> {
        match &self.defer {
            Defer::Dcr(dcr) => Some(dcr),
            _ => None,
        }
    }

    /// The same, to inform it.
    pub fn dcr_mut(&mut self) -> Option<&mut DelayedResponse> {
        match &mut self.defer {
            Defer::Dcr(dcr) => Some(dcr),
            _ => None,
        }
    }

    /// Vegas' timer, if that is the rule.
    pub fn fine_mut(&mut self) -> Option<&mut FineTimer> {
        match &mut self.defer {
            Defer::Fine(fine) => Some(fine),
            _ => None,
        }
    }

    /// When the deferred response is due; `NEVER` if none is.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.dcr().map_or(Time::NEVER, DelayedResponse::due)
    }

    /// The number of duplicate ACKs (or segments SACKed further up) that means a loss now; at least
    /// `least`.
    pub fn loss_threshold(&self, flight: u64, mss: u32, least: u32) -> u32 {
        match &self.defer {
            Defer::Ncr(ncr) => ncr.loss_threshold(flight, mss, least),
            Defer::Dcr(dcr) if dcr.is_waiting() => u32::MAX,
            _ => least,
        }
    }

    /// A duplicate ACK or new SACK information outside of recovery: starts the wait of delayed
    /// congestion response if none has started. True if a wait is over.
    pub fn wait_for_repair<W: WindowRule>(&mut self, stream: &Stream<W>, now: Time) -> bool {
        // Before the first round-trip time the only estimate is the initial RTO.
        let rto = stream.timers().rto();
        let round_trip = rto.srtt().unwrap_or(rto.rto());
        self.dcr_mut().is_some_and(|d| d.on_duplicate(now, round_trip))
    }

    /// The hole was filled, recovery begins, or the timer expired.
    pub fn end_wait(&mut self) {
        if let Some(dcr) = self.dcr_mut() {
            *dcr = DelayedResponse::default();
        }
    }

    /// The hole was filled: it was reordering (RFC 4653, section 3.3). Slow start leads back to
    /// what had been in flight, without a burst. True if extended limited transmit was active.
    pub fn end_extended<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        still_missing: bool,
    ) -> bool {
        let (flight, mss, window) = (stream.flight(), stream.mss(), stream.window());
        let restored = self.ncr_mut().and_then(|n| n.end(still_missing, flight, mss, window));
        if let Some(window) = restored {
            stream.congestion_mut().set_window(window);
        }
        restored.is_some()
    }

    /// Recovery begins, or the timer expired.
    pub fn leave_extended(&mut self) {
        if let Some(ncr) = self.ncr_mut() {
            ncr.leave();
        }
    }
}
