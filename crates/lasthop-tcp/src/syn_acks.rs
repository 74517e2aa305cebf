//! The timer of a SYN-ACK (Linux `reqsk_timer_handler`), of the data receiver or, where that opens
//! the connection, of the data sender.

use crate::profile::Profile;
use crate::ticks::Ticks;
use lasthop_core::units::{Duration, Time};

/// The timer of the SYN-ACK.
#[derive(Clone, Debug)]
pub(crate) struct SynAcks {
    pub phase: Phase,
    /// Timeout of the first SYN-ACK, and the longest one.
    pub first: Duration,
    pub longest: Duration,
    /// Retransmissions before the connection is forgotten (`tcp_synack_retries`).
    pub retries: u32,
    pub ticks: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Listening,
    /// A SYN-ACK is unanswered (SYN-RECEIVED); its timeouts so far.
    Answering(u32),
    Established,
    /// The last SYN-ACK was not answered either.
    Forgotten,
}

impl SynAcks {
    pub fn new(profile: &Profile) -> SynAcks {
        SynAcks {
            phase: Phase::Listening,
            first: profile.initial_rto,
            longest: profile.max_rto,
            retries: profile.synack_retries,
            ticks: Ticks::new(profile, Duration::ZERO),
        }
    }

    /// When the SYN-ACK sent now times out (`tcp_reqsk_timeout`).
    pub fn expiry(&self, now: Time, timeouts: u32) -> Time {
        let wait = self.first.0.saturating_mul(1 << timeouts.min(31)).min(self.longest.0);
        self.ticks.expiry(now, Duration(wait))
    }
}
