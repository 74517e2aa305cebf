//! What only a simulator knows: which retransmissions were spurious.
//!
//! A retransmission is spurious if, when it was sent, an earlier copy of all its bytes had reached
//! the receiver or was on its way and later did. So a verdict may have to wait until the earlier
//! copies have arrived or are lost.
//!
//! Everything is ordered by what it is looked up by. Where a large window overflows a queue, a list
//! would be as long as the window, and searched at each packet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{self, Excluded, Included};

use lasthop::segment::Segment;
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::SendReason;
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

/// Counts for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TruthCounts {
    /// Spurious retransmissions.
    pub retransmissions: u64,
    /// Timeouts whose segment an earlier copy of which arrived, an ACK for it being still on its
    /// way or the copy itself.
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
    copies: i32,
    last: Fate,
}

/// A retransmission whose earlier copies are not all accounted for.
#[derive(Clone, Copy, Debug)]
struct Pending {
    earlier: i32,
    reason: SendReason,
}

/// A copy that will be lost, as a queue further on has computed already.
#[derive(Clone, Copy, Debug)]
struct Doomed {
    seq: u64,
    attempt: u16,
    fate: Fate,
}

/// A retransmission: the first byte of its segment, its attempt and its packet number.
type CopyId = (u64, u16, u64);

/// The truth about one connection.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// By the first byte of the segment.
    gone: BTreeMap<u64, Gone>,
    /// By the time of the loss; those of one time in the order in which they were learned.
    doomed: BTreeMap<(Time, u64), Doomed>,
    /// Number of the next entry of `doomed`.
    next_doomed: u64,
    pending: BTreeMap<CopyId, Pending>,
    /// Timeouts whose segment had arrived: (its first byte, the first packet number after the
    /// timeout). The next ACK that covers it tells whether one was still on its way.
    undecided: BTreeSet<(u64, u64)>,
    counts: TruthCounts,
}

impl Truth {
    /// The sender sends a segment again. True if that is known to be spurious already.
    pub fn resent(
        &mut self,
        now: Time,
        segment: &Segment,
        reason: SendReason,
        receiver: &Receiver,
    ) -> bool {
        let arrived = receiver.has(segment.seq, segment.seq + u64::from(segment.len));
        self.resent_copy(now, (segment.seq, segment.attempt, segment.id), reason, arrived)
    }

    /// The same, given whether all bytes of the segment have arrived.
    fn resent_copy(&mut self, now: Time, copy: CopyId, reason: SendReason, arrived: bool) -> bool {
        self.settle(now);
        let (seq, attempt, id) = copy;
        if arrived {
            if reason == SendReason::Timeout {
                self.counts.retransmissions += 1;
                self.undecided.insert((seq, id));
            } else {
                self.count(reason);
            }
            return true;
        }
        let gone = self.gone.get(&seq).map_or(0, |g| g.copies);
        let earlier = i32::from(attempt) - 1 - gone;
        if earlier > 0 {
            self.pending.insert(copy, Pending { earlier, reason });
        }
        false
    }

    fn count(&mut self, reason: SendReason) {
        self.counts.retransmissions += 1;
        match reason {
            SendReason::Timeout => self.counts.timeouts += 1,
            SendReason::FastRetransmit => self.counts.fast_retransmits += 1,
            _ => {}
        }
    }

    /// A copy of the segment at `seq` is lost, refused or dropped at `at`, now or in the future.
    pub fn lost(&mut self, now: Time, at: Time, seq: u64, attempt: u16, fate: Fate) {
        self.settle(now);
        if at > now {
            self.doomed.insert((at, self.next_doomed), Doomed { seq, attempt, fate });
            self.next_doomed += 1;
        } else {
            self.remove_copy(seq, attempt, fate);
        }
    }

    /// What was to be lost by now is.
    fn settle(&mut self, now: Time) {
        if self.doomed.is_empty() {
            return;
        }
        while let Some(entry) = self.doomed.first_entry().filter(|e| e.key().0 <= now) {
            let Doomed { seq, attempt, fate } = entry.remove();
            self.remove_copy(seq, attempt, fate);
        }
    }

    fn remove_copy(&mut self, seq: u64, attempt: u16, fate: Fate) {
        let gone = self.gone.entry(seq).or_insert(Gone { copies: 0, last: fate });
        (gone.copies, gone.last) = (gone.copies + 1, fate);
        let mut after = (seq, attempt, u64::MAX);
        while let Some((&copy, pending)) = self.pending.range_mut(later(after)).next() {
            pending.earlier -= 1;
            if pending.earlier == 0 {
                self.pending.remove(&copy);
            }
            after = copy;
        }
    }

    /// An agent sent a copy of the segment at `seq`.
    pub fn copied(&mut self, now: Time, seq: u64, attempt: u16) {
        self.settle(now);
        self.gone.entry(seq).or_insert(Gone { copies: 0, last: Fate::DroppedByAgent }).copies -= 1;
        for (_, pending) in self.pending.range_mut(later((seq, attempt, u64::MAX))) {
            pending.earlier += 1;
        }
    }

    /// The scheme holds the loss of the segment at `seq`, sent `times` times so far, for one of
    /// this cause. The segment is lost if all its copies are; then the last one tells why. What an
    /// agent dropped is no matter of it.
    pub fn classified(&mut self, now: Time, seq: u64, times: u16, said: LossClass) {
        self.settle(now);
        let confusion = &mut self.counts.confusion;
        let row = match self.gone.get(&seq).filter(|g| g.copies >= i32::from(times)).map(|g| g.last)
        {
            Some(Fate::LostOnAir | Fate::Collision) => &mut confusion.wireless,
            Some(Fate::Refused) => &mut confusion.congestion,
            Some(Fate::DroppedByAgent) => return,
            None => &mut confusion.not_lost,
        };
        match said {
            LossClass::Wireless => row[0] += 1,
            LossClass::Congestion => row[1] += 1,
            LossClass::Unclassified => {}
        }
    }

    /// A copy of the segment at `seq` reached the receiver. Returns how many retransmissions that
    /// made spurious.
    #[inline]
    pub fn arrived(&mut self, now: Time, seq: u64, attempt: u16) -> u32 {
        if self.pending.is_empty() {
            return 0;
        }
        self.settle(now);
        let mut spurious = 0;
        while let Some((&copy, &Pending { reason, .. })) =
            self.pending.range(later((seq, attempt, u64::MAX))).next()
        {
            self.pending.remove(&copy);
            self.count(reason);
            spurious += 1;
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
        while let Some(&(seq, after)) = self.undecided.first().filter(|u| u.0 < ack) {
            self.undecided.remove(&(seq, after));
            // An older packet had been on its way when the timer fired; a newer one says that all
            // before it were lost.
            *(if id < after { &mut self.counts.timeouts } else { &mut self.counts.ack_loss }) += 1;
        }
    }

    /// Counts so far. A timeout that no ACK has decided yet counts as spurious.
    pub fn counts(&self) -> TruthCounts {
        TruthCounts { timeouts: self.counts.timeouts + self.undecided.len() as u64, ..self.counts }
    }

    /// Everything below `una` is acknowledged: losses of it matter no more.
    #[inline]
    fn acknowledged(&mut self, una: u64) {
        if !self.gone.is_empty() {
            self.forget_below(una);
        }
    }

    #[inline(never)]
    fn forget_below(&mut self, una: u64) {
        while self.gone.first_key_value().is_some_and(|(&seq, _)| seq < una) {
            self.gone.pop_first();
        }
    }
}

/// The copies of a segment that were sent after this one.
fn later(copy: CopyId) -> (Bound<CopyId>, Bound<CopyId>) {
    (Excluded(copy), Included((copy.0, u16::MAX, u64::MAX)))
}

#[cfg(test)]
mod tests;
