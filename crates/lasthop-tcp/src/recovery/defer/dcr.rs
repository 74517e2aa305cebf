//! Delayed congestion response (Bhandarkar, Sadry, Reddy, Vaidya 2005): the first duplicate ACK
//! starts a wait of one round trip, in which the link may repair the loss; fast retransmit and
//! reduction follow only then. During the wait each duplicate ACK sends one new segment.

use lasthop_core::units::{Duration, Time};

/// The wait.
#[derive(Clone, Copy, Debug)]
pub struct DelayedResponse {
    due: Time,
}

impl Default for DelayedResponse {
    fn default() -> Self {
        DelayedResponse { due: Time::NEVER }
    }
}

impl DelayedResponse {
    /// When the wait is over; `NEVER` if there is none.
    #[inline]
    pub fn due(&self) -> Time {
        self.due
    }

    /// A wait has started.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.due != Time::NEVER
    }

    /// A duplicate: starts the wait of `round_trip` if none has started. True if it is over.
    pub fn on_duplicate(&mut self, now: Time, round_trip: Duration) -> bool {
        if !self.is_waiting() {
            self.due = now + round_trip;
        }
        self.is_over(now)
    }

    /// The wait is over.
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.due
    }
}
