//! What only a simulator knows: which retransmissions were spurious.
//!
//! A retransmission is spurious if, when it was sent, an earlier copy of all its bytes had reached the receiver or was on
//! its way and later did. So a verdict may have to wait until the earlier copies have arrived or are lost.

use lasthop::segment::Segment;
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::Cause;
use lasthop::tcp::window::Said;
use lasthop::units::Time;

/// Counts for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TruthCounts {
    /// Spurious retransmissions.
    pub retransmissions: u64,
    /// Timeouts whose segment an earlier copy of which arrived, an ACK for it being still on its way or the copy itself.
    pub timeouts: u64,
    /// Timeouts whose segment had arrived while every ACK for it was lost.
    pub ack_loss: u64,
    /// Fast retransmits of segments that were not lost.
    pub fast_retransmits: u64,
    /// What the scheme's classifier said.
    pub confusion: Confusion,
}

impl TruthCounts {
    /// What was found since `earlier`.
    pub fn since(self, earlier: TruthCounts) -> TruthCounts {
        // A timeout that was undecided then may have become one by lost ACKs.
        TruthCounts {
            retransmissions: self.retransmissions - earlier.retransmissions,
            timeouts: self.timeouts.saturating_sub(earlier.timeouts),
            ack_loss: self.ack_loss - earlier.ack_loss,
            fast_retransmits: self.fast_retransmits - earlier.fast_retransmits,
            confusion: self.confusion.since(earlier.confusion),
        }
    }
}

/// What became of a copy of a segment that did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Lost on the air.
    LostOnAir,
    /// Lost in a collision on a shared medium: a loss of the radio, no queue was full.
    Collision,
    /// Refused or dropped by a queue.
    Refused,
    /// Dropped by an agent.
    DroppedByAgent,
}

/// How often a classifier said what of which losses: [wireless, congestion] for each truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// The copy had been lost on the air, in a collision too.
    pub wireless: [u64; 2],
    /// It had been dropped by a queue.
    pub congestion: [u64; 2],
    /// No copy had been lost.
    pub not_lost: [u64; 2],
}

impl Confusion {
    /// What was counted since `earlier`.
    pub fn since(self, earlier: Confusion) -> Confusion {
        let minus = |a: [u64; 2], b: [u64; 2]| [a[0] - b[0], a[1] - b[1]];
        Confusion {
            wireless: minus(self.wireless, earlier.wireless),
            congestion: minus(self.congestion, earlier.congestion),
            not_lost: minus(self.not_lost, earlier.not_lost),
        }
    }

    /// Both together.
    pub fn plus(self, other: Confusion) -> Confusion {
        let plus = |a: [u64; 2], b: [u64; 2]| [a[0] + b[0], a[1] + b[1]];
        Confusion {
            wireless: plus(self.wireless, other.wireless),
            congestion: plus(self.congestion, other.congestion),
            not_lost: plus(self.not_lost, other.not_lost),
        }
    }

    /// Share of the segments really lost whose cause was told rightly.
    pub fn accuracy(self) -> Option<f64> {
        let lost: u64 = self.wireless.iter().chain(&self.congestion).sum();
        (lost > 0).then(|| (self.wireless[0] + self.congestion[1]) as f64 / lost as f64)
    }
}

/// Copies of a segment that are gone for good, those that an agent sent again taken off.
#[derive(Clone, Copy, Debug)]
struct Gone {
    seq: u64,
    copies: i32,
    last: Fate,
}

/// A retransmission whose earlier copies are not all accounted for.
#[derive(Clone, Copy, Debug)]
struct Pending {
    seq: u64,
    attempt: u16,
    earlier: i32,
    cause: Cause,
}

/// A copy that will be lost, as a queue further on has computed already.
#[derive(Clone, Copy, Debug)]
struct Doomed {
    at: Time,
    seq: u64,
    attempt: u16,
    fate: Fate,
}

/// The truth about one connection.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    gone: Vec<Gone>,
    doomed: Vec<Doomed>,
    pending: Vec<Pending>,
    /// Timeouts whose segment had arrived: (its first byte, the first packet number after the timeout). The next ACK that
    /// covers it tells whether one was still on its way.
    undecided: Vec<(u64, u64)>,
    counts: TruthCounts,
}

impl Truth {
    /// The sender sends a segment again. True if that is known to be spurious already.
    pub fn resent(&mut self, now: Time, segment: &Segment, cause: Cause, receiver: &Receiver) -> bool {
        self.settle(now);
        let (seq, end, attempt, id) = (segment.seq, segment.seq + u64::from(segment.len), segment.attempt, segment.id);
        if receiver.has(seq, end) {
            if cause == Cause::Timeout {
                self.counts.retransmissions += 1;
                self.undecided.push((seq, id));
            } else {
                self.count(cause);
            }
            return true;
        }
        let gone = self.gone.iter().find(|g| g.seq == seq).map_or(0, |g| g.copies);
        let earlier = i32::from(attempt) - 1 - gone;
        if earlier > 0 {
            self.pending.push(Pending { seq, attempt, earlier, cause });
        }
        false
    }

    fn count(&mut self, cause: Cause) {
        self.counts.retransmissions += 1;
        match cause {
            Cause::Timeout => self.counts.timeouts += 1,
            Cause::FastRetransmit => self.counts.fast_retransmits += 1,
            _ => {}
        }
    }

    /// A copy of the segment at `seq` is lost, refused or dropped at `at`, now or in the future.
    pub fn lost(&mut self, now: Time, at: Time, seq: u64, attempt: u16, fate: Fate) {
        self.settle(now);
        if at > now {
            self.doomed.push(Doomed { at, seq, attempt, fate });
        } else {
            self.take_off(seq, attempt, fate);
        }
    }

    /// What was to be lost by now is.
    fn settle(&mut self, now: Time) {
        if self.doomed.is_empty() {
            return;
        }
        self.doomed.sort_by_key(|d| d.at);
        while let Some(&Doomed { seq, attempt, fate, .. }) = self.doomed.first().filter(|d| d.at <= now) {
            self.doomed.remove(0);
            self.take_off(seq, attempt, fate);
        }
    }

    fn take_off(&mut self, seq: u64, attempt: u16, fate: Fate) {
        match self.gone.iter_mut().find(|g| g.seq == seq) {
            Some(g) => (g.copies, g.last) = (g.copies + 1, fate),
            None => self.gone.push(Gone { seq, copies: 1, last: fate }),
        }
        self.pending.retain_mut(|p| {
            if p.seq == seq && attempt < p.attempt {
                p.earlier -= 1;
            }
            p.earlier > 0
        });
    }

    /// An agent sent a copy of the segment at `seq`.
    pub fn copied(&mut self, now: Time, seq: u64, attempt: u16) {
        self.settle(now);
        if let Some(g) = self.gone.iter_mut().find(|g| g.seq == seq) {
            g.copies -= 1;
        } else {
            self.gone.push(Gone { seq, copies: -1, last: Fate::DroppedByAgent });
        }
        for p in self.pending.iter_mut().filter(|p| p.seq == seq && attempt < p.attempt) {
            p.earlier += 1;
        }
    }

    /// The scheme holds the loss of the segment at `seq`, sent `times` times so far, for one of this cause. The segment is
    /// lost if all its copies are; then the last one tells why. What an agent dropped is no matter of it.
    pub fn classified(&mut self, now: Time, seq: u64, times: u16, said: Said) {
        self.settle(now);
        let confusion = &mut self.counts.confusion;
        let row = match self.gone.iter().find(|g| g.seq == seq && g.copies >= i32::from(times)).map(|g| g.last) {
            Some(Fate::LostOnAir | Fate::Collision) => &mut confusion.wireless,
            Some(Fate::Refused) => &mut confusion.congestion,
            Some(Fate::DroppedByAgent) => return,
            None => &mut confusion.not_lost,
        };
        match said {
            Said::Wireless => row[0] += 1,
            Said::Congestion => row[1] += 1,
            Said::Nothing => {}
        }
    }

    /// A copy of the segment at `seq` reached the receiver. Returns how many retransmissions that made spurious.
    #[inline]
    pub fn arrived(&mut self, now: Time, seq: u64, attempt: u16) -> u32 {
        if self.pending.is_empty() {
            return 0;
        }
        self.settle(now);
        let mut spurious = 0;
        let mut i = 0;
        while i < self.pending.len() {
            let p = self.pending[i];
            if p.seq == seq && attempt < p.attempt {
                self.pending.swap_remove(i);
                self.count(p.cause);
                spurious += 1;
            } else {
                i += 1;
            }
        }
        spurious
    }

    /// The ACK number `ack` reached the sender in packet `id`.
    #[inline]
    pub fn ack_received(&mut self, ack: u64, id: u64) {
        if !self.undecided.is_empty() {
            self.decide(ack, id);
        }
        self.acknowledged(ack);
    }

    #[cold]
    fn decide(&mut self, ack: u64, id: u64) {
        let counts = &mut self.counts;
        self.undecided.retain(|&(seq, after)| {
            if ack <= seq {
                return true;
            }
            // An older packet had been on its way when the timer fired; a newer one says that all before it were lost.
            *(if id < after { &mut counts.timeouts } else { &mut counts.ack_loss }) += 1;
            false
        });
    }

    /// Counts so far. A timeout that no ACK has decided yet counts as spurious.
    pub fn counts(&self) -> TruthCounts {
        TruthCounts { timeouts: self.counts.timeouts + self.undecided.len() as u64, ..self.counts }
    }

    /// Everything below `una` is acknowledged: losses of it matter no more.
    #[inline]
    fn acknowledged(&mut self, una: u64) {
        if !self.gone.is_empty() {
            self.gone.retain(|g| g.seq >= una);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_a_queue_will_refuse_is_not_lost_yet() {
        let mut truth = Truth::default();
        truth.lost(Time(1), Time(5), 0, 1, Fate::Refused);
        truth.classified(Time(3), 0, 1, Said::Congestion);
        assert_eq!(truth.counts().confusion, Confusion { not_lost: [0, 1], ..Confusion::default() });
        truth.classified(Time(5), 0, 1, Said::Congestion);
        assert_eq!(truth.counts().confusion, Confusion { not_lost: [0, 1], congestion: [0, 1], ..Confusion::default() });
    }
}
