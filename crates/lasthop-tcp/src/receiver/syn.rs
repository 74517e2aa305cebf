//! State of an active open: the SYN that is unanswered, and its timer.

use crate::profile::Profile;
use crate::ticks::Ticks;
use lasthop_core::units::{Duration, Time};

/// The SYN of a receiver that opens the connection.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub phase: Phase,
    /// When the last SYN was sent.
    pub sent: Time,
    /// Timeout of the first SYN, and the longest one.
    pub first: Duration,
    pub longest: Duration,
    /// Timeouts without back-off (`tcp_syn_linear_timeouts`), and those after them before the
    /// connection is given up (`tcp_syn_retries`; 0: never).
    pub linear: u32,
    pub retries: u32,
    pub ticks: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    /// A SYN is unanswered; its timeouts so far.
    SynSent(u32),
    Established,
    GaveUp(Time),
}

impl Opening {
    pub fn new(profile: &Profile, clock_phase: Duration) -> Opening {
        Opening {
            phase: Phase::Closed,
            sent: Time::ZERO,
            first: profile.initial_rto,
            longest: profile.max_rto,
            linear: profile.syn_linear_timeouts,
            retries: profile.syn_retries,
            ticks: Ticks::new(profile, clock_phase),
        }
    }

    /// When the SYN sent now, after this number of timeouts, times out.
    pub fn expiry(&self, now: Time, timeouts: u32) -> Time {
        let doublings = timeouts.saturating_sub(self.linear).min(31);
        let wait = self.first.0.saturating_mul(1 << doublings).min(self.longest.0);
        self.ticks.expiry(now, Duration(wait))
    }
}
