//! Vegas' fine-grained retransmission (Brakmo and Peterson 1995, section 3.1): a duplicate ACK, or
//! one of the first two ACKs after a retransmission, retransmits the first segment if it is overdue
//! by a separate timer, which runs from the transmission of each segment.
//!
//! The timer and its back-off are those of the authors' code, as in ns-2: (SRTT + 2 deviations) *
//! 17/16.

use crate::scoreboard::Sent;
use lasthop_core::units::{Duration, Time};

/// The timer.
#[derive(Clone, Debug, Default)]
pub struct FineTimer {
    /// Smoothed round-trip time and mean deviation, ns.
    estimate: Option<(i64, i64)>,
    timeout: Duration,
    /// ACKs that still check the first segment.
    checks: u32,
    /// When the window was last reduced for a loss.
    last_cut: Option<Time>,
}

impl FineTimer {
    /// The round-trip time of a segment that was sent once.
    pub fn sample(&mut self, rtt: Duration) {
        let r = rtt.0 as i64;
        let (srtt, deviation) = match self.estimate {
            None => (r, r / 4),
            Some((s, d)) => (s + (r - s) / 8, d + ((r - s).abs() - d) / 4),
        };
        self.estimate = Some((srtt, deviation));
        self.timeout = Duration(((srtt + 2 * deviation).max(0) as u64) / 16 * 17);
    }

    /// The first segment in flight has waited for the timer.
    pub fn is_overdue(&self, now: Time, first: &Sent) -> bool {
        self.estimate.is_some() && now - first.last_sent >= self.timeout
    }

    /// One of the first two ACKs after a retransmission: true if it retransmits the next segment.
    pub fn check(&mut self, now: Time, first: &Sent) -> bool {
        let overdue = self.checks > 0 && self.is_overdue(now, first);
        self.checks = if overdue { self.checks - 1 } else { 0 };
        overdue
    }

    /// A segment last sent at `sent` is lost. True if the window is reduced: the segment was sent
    /// after the last reduction.
    pub fn cuts(&mut self, now: Time, sent: Time) -> bool {
        let cuts = self.last_cut.is_none_or(|cut| cut < sent);
        if cuts {
            self.last_cut = Some(now);
        }
        cuts
    }

    /// The retransmission timer reduced the window.
    pub fn on_timeout(&mut self, now: Time) {
        (self.last_cut, self.checks) = (Some(now), 0);
    }

    /// A segment that had been sent `transmissions` times is sent again; `outstanding` segments are
    /// in flight.
    pub fn on_resent(&mut self, transmissions: u16, outstanding: usize) {
        self.timeout =
            if transmissions > 1 { self.timeout * 2 } else { Duration(self.timeout.0 / 8 * 9) };
        self.checks = outstanding.min(2) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_follows_the_authors_code() {
        let mut f = FineTimer::default();
        f.sample(Duration::millis(160));
        // (160 + 2 * 40) * 17/16
        assert_eq!(f.timeout, Duration::millis(255));
        f.sample(Duration::millis(80));
        // srtt = 160 - 10, deviation = 40 + (80 - 40) / 4
        assert_eq!(f.timeout, Duration((150 + 100) * 1_000_000 / 16 * 17));
        let sent = Sent { last_sent: Time::ZERO, ..Sent::default() };
        assert!(
            f.is_overdue(Time::ZERO + f.timeout, &sent)
                && !f.is_overdue(Time::ZERO + Duration::millis(265), &sent)
        );
        f.on_resent(1, 10);
        assert_eq!((f.timeout, f.checks), (Duration((150 + 100) * 1_000_000 / 16 * 17 / 8 * 9), 2));
        let before = f.timeout;
        f.on_resent(2, 1);
        assert_eq!((f.timeout, f.checks), (before * 2, 1));
    }
}
