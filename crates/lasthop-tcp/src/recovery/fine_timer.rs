//! Vegas' fine-grained retransmission (Brakmo and Peterson 1995, section 3.1): a duplicate ACK, or
//! one of the first two ACKs after a retransmission, sends the first segment again if it is overdue
//! by a timer of its own, which knows when each segment was sent.
//!
//! The timer and its back-off are those of the authors' code, as in ns-2: (SRTT + 2 deviations) *
//! 17/16.

use crate::recovery::RecoveryKind;
use crate::scoreboard::Sent;
use crate::sender::{LastAction, Output, SendReason, Sender};
use crate::window::WindowRule;
use lasthop_core::segment::Segment;
use lasthop_core::units::{Duration, Time};

/// The timer.
#[derive(Clone, Debug, Default)]
pub(super) struct FineTimer {
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
    fn sample(&mut self, rtt: Duration) {
        let r = rtt.0 as i64;
        let (srtt, deviation) = match self.estimate {
            None => (r, r / 4),
            Some((s, d)) => (s + (r - s) / 8, d + ((r - s).abs() - d) / 4),
        };
        self.estimate = Some((srtt, deviation));
        self.timeout = Duration(((srtt + 2 * deviation).max(0) as u64) / 16 * 17);
    }

    fn overdue(&self, now: Time, first: &Sent) -> bool {
        self.estimate.is_some() && now - first.last_sent >= self.timeout
    }

    /// A segment that had been sent `transmissions` times is sent again; `outstanding` segments are
    /// in flight.
    fn on_resent(&mut self, transmissions: u16, outstanding: usize) {
        self.timeout =
            if transmissions > 1 { self.timeout * 2 } else { Duration(self.timeout.0 / 8 * 9) };
        self.checks = outstanding.min(2) as u32;
    }
}

impl<W: WindowRule> Sender<W> {
    /// An ACK of new data is about to be taken in.
    pub(super) fn sample_fine_timer(&mut self, now: Time, ack: u64) {
        let last =
            ack.checked_sub(1).and_then(|seq| self.board.get(seq)).filter(|s| s.transmissions == 1);
        if let (Some(fine), Some(last)) =
            (self.additions.as_mut().and_then(|a| a.fine.as_mut()), last)
        {
            fine.sample(now - last.last_sent);
        }
    }

    /// An ACK of new data was taken in: one of the first two after a retransmission looks at the
    /// next segment.
    pub(super) fn check_fine_timer(&mut self, now: Time, out: &mut impl Output) {
        let Some(first) = self.board.get(self.snd_una) else { return };
        let Some(fine) =
            self.additions.as_mut().and_then(|a| a.fine.as_mut()).filter(|f| f.checks > 0)
        else {
            return;
        };
        if !fine.overdue(now, &first) {
            fine.checks = 0;
            return;
        }
        fine.checks -= 1;
        self.retransmit(now, first.seq, SendReason::Recovery, out);
        self.dupacks = self.profile.dupack_threshold;
    }

    /// A duplicate ACK. True if it made a retransmission; the window falls only if the segment was
    /// sent after the last cut.
    pub(super) fn retransmit_overdue(
        &mut self,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) -> bool {
        let (threshold, outstanding) = (self.profile.dupack_threshold, self.board.len());
        let blocked = self.last_action == LastAction::Timeout && !self.may_fast_retransmit();
        let Some(first) = self.board.get(self.snd_una).filter(|_| !blocked) else { return false };
        let Some(fine) = self.additions.as_mut().and_then(|a| a.fine.as_mut()) else {
            return false;
        };
        if !fine.overdue(now, &first) && self.dupacks != threshold {
            return false;
        }
        fine.on_resent(first.transmissions, outstanding);
        if fine.last_cut.is_none_or(|cut| cut < first.last_sent) {
            fine.last_cut = Some(now);
            // What an earlier recovery has added is not what is reduced.
            self.inflation = 0.0;
            self.fast_retransmit(now, segment.flags, out);
        } else {
            self.retransmit(now, first.seq, SendReason::FastRetransmit, out);
            self.arm(now);
        }
        if first.transmissions == 1 && self.config.recovery.kind != RecoveryKind::Tahoe {
            self.dupacks = threshold;
        }
        true
    }

    /// The retransmission timer reduced the window.
    pub(super) fn fine_timer_cut(&mut self, now: Time) {
        if let Some(fine) = self.additions.as_mut().and_then(|a| a.fine.as_mut()) {
            (fine.last_cut, fine.checks) = (Some(now), 0);
        }
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
            f.overdue(Time::ZERO + f.timeout, &sent)
                && !f.overdue(Time::ZERO + Duration::millis(265), &sent)
        );
        f.on_resent(1, 10);
        assert_eq!((f.timeout, f.checks), (Duration((150 + 100) * 1_000_000 / 16 * 17 / 8 * 9), 2));
        let before = f.timeout;
        f.on_resent(2, 1);
        assert_eq!((f.timeout, f.checks), (before * 2, 1));
    }
}
