//! Non-congestion robustness (RFC 4653): a loss is believed only after duplicate ACKs for about one
//! window. Until then extended limited transmit keeps the ACK clock running with new data.
//!
//! Without SACK, which the RFC asks for, each duplicate ACK stands for one segment delivered.

use crate::sender::{Output, SendReason, Sender};
use crate::window::WindowRule;
use lasthop_core::units::Time;

/// Extended limited transmit.
#[derive(Clone, Debug)]
pub(super) struct ExtendedTransmit {
    /// One new segment for every second one delivered; otherwise one for each.
    careful: bool,
    active: bool,
    /// Bytes in flight when it began (FlightSizePrev).
    flight: u64,
    /// Bytes not sent although there was room for them (Skipped).
    skipped: u64,
}

impl ExtendedTransmit {
    pub(super) fn new(careful: bool) -> Self {
        ExtendedTransmit { careful, active: false, flight: 0, skipped: 0 }
    }

    /// Section 3.1: the first duplicate, with so many bytes in flight.
    fn begin(&mut self, flight: u64) {
        if !self.active {
            (self.active, self.flight, self.skipped) = (true, flight, 0);
        }
    }

    /// What may be sent with `pipe` bytes in the network (step E.2).
    fn room(&self, pipe: u64) -> u64 {
        self.flight.saturating_sub(pipe + self.skipped)
    }

    /// Step E.4.
    fn on_sent(&mut self, bytes: u64) {
        if self.careful {
            self.skipped += bytes;
        }
    }

    /// Duplicates that make a loss with `flight` bytes in flight: two thirds of them (aggressive:
    /// half) with what was sent meanwhile, which is one window; at least `least`.
    fn threshold(&self, flight: u64, mss: u32, least: u32) -> u32 {
        let (share, of) = if self.careful { (2, 3) } else { (1, 2) };
        let segments = (share * flight).div_ceil(of * u64::from(mss.max(1)));
        u32::try_from(segments).unwrap_or(u32::MAX).max(least)
    }
}

impl<W: WindowRule> Sender<W> {
    /// Extended limited transmit is under way.
    pub(super) fn extended(&self) -> bool {
        self.additions.as_ref().and_then(|a| a.ncr.as_ref()).is_some_and(|n| n.active)
    }

    /// A duplicate ACK or news of SACK outside of recovery. `flight` is what was in flight before
    /// it.
    pub(super) fn begin_extended(&mut self, flight: u64) {
        if let Some(n) = self.additions.as_mut().and_then(|a| a.ncr.as_mut()) {
            n.begin(flight);
        }
    }

    /// Duplicate ACKs (or segments SACKed further up) that make a loss now.
    pub(super) fn loss_threshold(&self) -> u32 {
        let least = self.profile.dupack_threshold;
        let Some(a) = &self.additions else { return least };
        match (&a.ncr, &a.dcr) {
            (Some(n), _) if n.active => n.threshold(self.flight(), self.config.mss, least),
            (_, Some(d)) if d.waiting() => u32::MAX,
            _ => least,
        }
    }

    /// What extended limited transmit leaves of the `room` that the window has.
    pub(super) fn extended_room(&self, room: u64, pipe: u64) -> u64 {
        match self.additions.as_ref().and_then(|a| a.ncr.as_ref()) {
            Some(n) if n.active => n.room(pipe),
            _ => room,
        }
    }

    /// New data were sent under extended limited transmit.
    pub(super) fn extended_sent(&mut self, bytes: u64) {
        if let Some(n) = self.additions.as_mut().and_then(|a| a.ncr.as_mut()).filter(|n| n.active) {
            n.on_sent(bytes);
        }
    }

    /// Sends new data for a duplicate ACK, as far as `pipe` leaves room (section 3.2).
    pub(super) fn extended_transmit(&mut self, now: Time, pipe: u64, out: &mut impl Output) {
        let mss = u64::from(self.config.mss);
        let mut pipe = pipe;
        while self.extended_room(0, pipe) >= mss {
            let sent = self.send_one_new(now, out);
            if sent == 0 {
                return;
            }
            pipe += sent;
            self.extended_sent(sent);
        }
    }

    /// Sends one new segment beyond the window, which does not count as flight for a reduction.
    /// Returns its bytes.
    pub(super) fn send_one_new(&mut self, now: Time, out: &mut impl Output) -> u64 {
        let before = self.snd_max;
        if self.snd_nxt == before {
            self.send_next(now, self.flight() + u64::from(self.config.mss), SendReason::New, out);
        }
        self.limited += self.snd_max - before;
        self.snd_max - before
    }

    /// The hole was filled: it was reordering (section 3.3). Slow start leads back to what had been
    /// in flight, without a burst. True if that was the case.
    pub(super) fn end_extended(&mut self, still_missing: bool) -> bool {
        let (flight, mss) = (self.flight(), u64::from(self.config.mss));
        let Some(n) = self.additions.as_mut().and_then(|a| a.ncr.as_mut()).filter(|n| n.active)
        else {
            return false;
        };
        n.active = still_missing;
        n.skipped = 0;
        self.window.ssthresh = self.window.ssthresh.max(n.flight as f64);
        self.window.cwnd = self.window.cwnd.min((flight + mss).min(n.flight.max(mss)) as f64);
        true
    }

    /// Recovery begins, or the timer fired.
    pub(super) fn leave_extended(&mut self) {
        if let Some(n) = self.additions.as_mut().and_then(|a| a.ncr.as_mut()) {
            n.active = false;
        }
    }
}
