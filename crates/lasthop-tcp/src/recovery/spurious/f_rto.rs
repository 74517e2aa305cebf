//! Forward RTO recovery (RFC 5682): after a timeout the ACKs of new data decide whether it was
//! spurious.

use super::evidence::{Evidence, Verdict};

/// The progress of F-RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Off,
    /// The first segment was retransmitted after a timeout.
    First,
    /// Two new segments were sent on the first ACK.
    Second,
}

/// F-RTO of one connection.
#[derive(Clone, Debug)]
pub struct ForwardRto {
    enabled: bool,
    sack: bool,
    /// An original that arrives shows on any ACK that the timeout was spurious (Linux).
    any_original: bool,
    /// A timeout has occurred, and no ACK of new data since.
    timed_out: bool,
    step: Step,
    /// snd_max at the timeout (RFC 5682: recover, RecoveryPoint).
    point: u64,
}

impl ForwardRto {
    /// F-RTO if it is `enabled`; with `sack` in the form of section 3.1, otherwise of section 2.1.
    /// With `any_original`, as in Linux (`tcp_process_loss`), the first ACK may already show that
    /// the timeout was spurious, because it acknowledges or SACKs segments that were not
    /// retransmitted.
    pub fn new(enabled: bool, sack: bool, any_original: bool) -> ForwardRto {
        ForwardRto { enabled, sack, any_original, timed_out: false, step: Step::Off, point: 0 }
    }

    /// No timeout is in doubt.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.step == Step::Off
    }

    /// The timeout is not in doubt any longer.
    pub fn stop(&mut self) {
        self.step = Step::Off;
    }

    /// A timeout (RFC 5682, step 1). `recovering`: an earlier loss was being repaired, so that
    /// retransmissions may be in flight whose ACKs would mislead. True if F-RTO begins; then only
    /// the first segment is retransmitted.
    ///
    /// A timeout that repeats before any ACK has come leaves F-RTO in step 1, as in Linux: nothing
    /// but the first segment was retransmitted. With `any_original` a timeout that repeats begins
    /// F-RTO also during the repair of an earlier loss (`tcp_enter_loss`: `icsk_retransmits`).
    pub fn enter(&mut self, recovering: bool, snd_max: u64) -> bool {
        if !self.enabled {
            return false;
        }
        let repeats = std::mem::replace(&mut self.timed_out, true) && self.any_original;
        let begins = !recovering || self.step == Step::First || repeats;
        (self.step, self.point) = (if begins { Step::First } else { Step::Off }, snd_max);
        begins
    }

    /// Steps 2 and 3, basic (section 2.1) or with SACK (section 3.1).
    pub fn on_ack(&mut self, ack: &Evidence) -> Verdict {
        self.timed_out &= ack.acked == 0;
        let original = ack.fresh_end.is_some_and(|end| end <= self.point);
        let (verdict, next) = match self.step {
            Step::Off => return Verdict::Usual,
            _ if self.any_original && original => (Verdict::Spurious, Step::Off),
            Step::First if ack.acked == 0 && self.sack => return Verdict::Usual,
            Step::First if ack.acked == 0 || ack.ack >= self.point => (Verdict::Usual, Step::Off),
            Step::First => (Verdict::SendNew, Step::Second),
            Step::Second if self.sack && ack.highest > self.point => {
                (Verdict::Confirmed, Step::Off)
            }
            Step::Second if original => (Verdict::Spurious, Step::Off),
            Step::Second => (Verdict::Confirmed, Step::Off),
        };
        self.step = next;
        verdict
    }
}
