//! What an ACK delivered, for the measures of time and of recovery that follow from it.

use lasthop_core::units::Time;

/// What an ACK delivered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// When it came.
    pub now: Time,
    /// The stamp that it echoes, microseconds.
    pub echo: Option<u32>,
    /// Bytes that it newly acknowledges.
    pub acked: u64,
    /// Bytes that it newly acknowledges or SACKs.
    pub delivered: u64,
    /// Bytes that it newly SACKs.
    pub sacked: u64,
    /// The lowest end of a segment delivered that was sent once.
    pub fresh_end: Option<u64>,
    /// Of what it newly acknowledges, and of what it newly SACKs: when segments that were sent once
    /// left.
    pub acked_once: Departures,
    pub sacked_once: Departures,
    /// It acknowledges a segment that was retransmitted.
    pub acked_again: bool,
    /// When the one sent last of the segments delivered was sent, and its offset.
    pub newest: Option<(Time, u64)>,
}

impl Arrival {
    /// When the one sent last left, of those newly delivered that were sent once.
    #[inline]
    pub fn latest_sent(&self) -> Option<Time> {
        self.acked_once.last().max(self.sacked_once.last())
    }
}

/// When segments left, in the order of their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Departures {
    /// The first of them; `None` if there are none.
    pub first: Option<Time>,
    /// The latest of them.
    pub latest: Time,
}

impl Departures {
    #[inline]
    pub(super) fn add(&mut self, at: Time) {
        self.first = self.first.or(Some(at));
        self.latest = self.latest.max(at);
    }

    /// The latest of them, if there are any.
    #[inline]
    pub fn last(&self) -> Option<Time> {
        self.first.map(|_| self.latest)
    }
}
