//! Non-congestion robustness (RFC 4653): duplicate ACKs for about one window mean a loss, not
//! three. Until then extended limited transmit preserves the ACK clock with new data.
//!
//! Without SACK, which the RFC requires, each duplicate ACK stands for one segment delivered.

use crate::window::Window;

/// Extended limited transmit.
#[derive(Clone, Debug)]
pub struct ExtendedTransmit {
    /// One new segment for every second one delivered; otherwise one for each.
    careful: bool,
    active: bool,
    /// Bytes in flight when it began (FlightSizePrev).
    flight: u64,
    /// Bytes not sent although there was room for them (Skipped).
    skipped: u64,
}

impl ExtendedTransmit {
    /// Careful (`true`) or aggressive extended limited transmit.
    pub fn new(careful: bool) -> Self {
        ExtendedTransmit { careful, active: false, flight: 0, skipped: 0 }
    }

    /// It is active.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Section 3.1: the first duplicate, with `flight` bytes in flight.
    pub fn begin(&mut self, flight: u64) {
        if !self.active {
            (self.active, self.flight, self.skipped) = (true, flight, 0);
        }
    }

    /// The bytes that may be sent with `pipe` bytes in the network (step E.2), of `room` that the
    /// window has.
    pub fn room(&self, room: u64, pipe: u64) -> u64 {
        if self.active { self.flight.saturating_sub(pipe + self.skipped) } else { room }
    }

    /// Step E.4.
    pub fn on_sent(&mut self, bytes: u64) {
        if self.active && self.careful {
            self.skipped += bytes;
        }
    }

    /// Duplicates that mean a loss with `flight` bytes in flight: two thirds of them (aggressive:
    /// half) with what was sent meanwhile, which is one window; at least `least`.
    pub fn loss_threshold(&self, flight: u64, mss: u32, least: u32) -> u32 {
        if !self.active {
            return least;
        }
        let (share, of) = if self.careful { (2, 3) } else { (1, 2) };
        let segments = (share * flight).div_ceil(of * u64::from(mss.max(1)));
        u32::try_from(segments).unwrap_or(u32::MAX).max(least)
    }

    /// The hole was filled (section 3.3), with `flight` bytes in flight now. The window to continue
    /// with, if it was active.
    pub fn end(
        &mut self,
        still_missing: bool,
        flight: u64,
        mss: u32,
        window: Window,
    ) -> Option<Window> {
        if !self.active {
            return None;
        }
        let mss = u64::from(mss);
        (self.active, self.skipped) = (still_missing, 0);
        Some(Window {
            ssthresh: window.ssthresh.max(self.flight as f64),
            cwnd: window.cwnd.min((flight + mss).min(self.flight.max(mss)) as f64),
        })
    }

    /// Recovery begins, or the timer expired.
    pub fn leave(&mut self) {
        self.active = false;
    }
}
