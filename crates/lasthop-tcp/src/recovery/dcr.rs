//! Delayed congestion response (Bhandarkar, Sadry, Reddy, Vaidya 2005): the first duplicate ACK
//! starts a wait of one round trip, in which the link may repair the loss; only then come fast
//! retransmit and reduction. Meanwhile each duplicate ACK sends one new segment.

use crate::sender::{Output, Sender};
use crate::window::WindowRule;
use lasthop_core::units::{Duration, Time};

/// The wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct DelayedResponse {
    due: Time,
}

impl Default for DelayedResponse {
    fn default() -> Self {
        DelayedResponse { due: Time::NEVER }
    }
}

impl DelayedResponse {
    /// A wait is under way.
    pub(super) fn waiting(&self) -> bool {
        self.due != Time::NEVER
    }

    /// A duplicate: starts the wait of `round_trip` if none is under way. True if it is over.
    fn on_duplicate(&mut self, now: Time, round_trip: Duration) -> bool {
        if !self.waiting() {
            self.due = now + round_trip;
        }
        self.is_over(now)
    }

    fn is_over(&self, now: Time) -> bool {
        now >= self.due
    }
}

impl<W: WindowRule> Sender<W> {
    /// When the wait is over; `NEVER` if there is none.
    pub(crate) fn response_due(&self) -> Time {
        self.additions.as_ref().and_then(|a| a.dcr).map_or(Time::NEVER, |d| d.due)
    }

    /// A duplicate ACK or news of SACK outside of recovery. True if the wait, if there is one, is
    /// over.
    pub(super) fn wait_for_repair(&mut self, now: Time) -> bool {
        // Before the first round-trip time there is nothing to wait for but the timer's first
        // guess.
        let round_trip = self.rto.srtt().unwrap_or(self.rto.rto());
        self.additions
            .as_mut()
            .and_then(|a| a.dcr.as_mut())
            .is_some_and(|d| d.on_duplicate(now, round_trip))
    }

    /// The hole was filled, recovery begins, or the timer fired.
    pub(super) fn end_wait(&mut self) {
        if let Some(d) = self.additions.as_mut().and_then(|a| a.dcr.as_mut()) {
            *d = DelayedResponse::default();
        }
    }

    /// The wait's timer, for recovery by duplicate ACKs.
    pub(crate) fn on_response_timer(&mut self, now: Time, out: &mut impl Output) {
        if self.additions.as_ref().and_then(|a| a.dcr).is_some_and(|d| d.is_over(now))
            && self.dupacks > 0
        {
            self.respond(now, out);
        }
    }
}
