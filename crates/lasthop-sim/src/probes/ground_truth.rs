//! Ground truth about retransmissions and losses: which retransmissions were spurious, and whether
//! a loss was due to the radio or to a queue.
//!
//! A retransmission is spurious if an earlier copy of all its bytes had reached the receiver when
//! it was sent, or was in transit then and arrives later. The verdict therefore may have to wait
//! until the earlier copies have arrived or are lost.
//!
//! All collections are sorted maps and sets. With a large window and an overflowing queue a plain
//! list would be as long as the window and would be searched for each packet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{self, Excluded, Included};

use lasthop::tcp::sender::SendReason;
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

use crate::events::probe::{EarlierCopies, Fate};

/// Counts of spurious retransmissions, timeouts and fast retransmits, and the classifier's
/// confusion matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroundTruthCounts {
    /// Spurious retransmissions.
    pub retransmissions: u64,
    /// Timeouts for a segment of which an earlier copy arrived; the copy or an ACK for it was in
    /// transit when the timer fired.
    pub timeouts: u64,
    /// Timeouts for a segment that had arrived, but whose ACKs were all lost.
    pub ack_loss: u64,
    /// Fast retransmits of segments that were not lost.
    pub fast_retransmits: u64,
    /// Verdicts of the scheme's loss classifier.
    pub confusion: Confusion,
}

impl GroundTruthCounts {
    /// The counts since `earlier`.
    pub fn since(self, earlier: GroundTruthCounts) -> GroundTruthCounts {
        // A timeout that was undecided at `earlier` may have been counted under `ack_loss` since.
        GroundTruthCounts {
            retransmissions: self.retransmissions - earlier.retransmissions,
            timeouts: self.timeouts.saturating_sub(earlier.timeouts),
            ack_loss: self.ack_loss - earlier.ack_loss,
            fast_retransmits: self.fast_retransmits - earlier.fast_retransmits,
            confusion: self.confusion.since(earlier.confusion),
        }
    }
}

/// Confusion matrix of a loss classifier. A row is the true class; its two columns count the
/// verdicts [wireless, congestion].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// Lost on the air, collisions included.
    pub wireless: [u64; 2],
    /// Dropped by a queue.
    pub congestion: [u64; 2],
    /// Not lost.
    pub not_lost: [u64; 2],
}

impl Confusion {
    /// The counts since `earlier`.
    pub fn since(self, earlier: Confusion) -> Confusion {
        let minus = |a: [u64; 2], b: [u64; 2]| [a[0] - b[0], a[1] - b[1]];
        Confusion {
            wireless: minus(self.wireless, earlier.wireless),
            congestion: minus(self.congestion, earlier.congestion),
            not_lost: minus(self.not_lost, earlier.not_lost),
        }
    }

    /// The sum of two matrices.
    pub fn plus(self, other: Confusion) -> Confusion {
        let plus = |a: [u64; 2], b: [u64; 2]| [a[0] + b[0], a[1] + b[1]];
        Confusion {
            wireless: plus(self.wireless, other.wireless),
            congestion: plus(self.congestion, other.congestion),
            not_lost: plus(self.not_lost, other.not_lost),
        }
    }

    /// Share of the lost segments that were classified correctly, from 0 to 1; `None` if none was
    /// lost.
    pub fn accuracy(self) -> Option<f64> {
        let lost: u64 = self.wireless.iter().chain(&self.congestion).sum();
        (lost > 0).then(|| (self.wireless[0] + self.congestion[1]) as f64 / lost as f64)
    }
}

/// Lost copies of a segment.
#[derive(Clone, Copy, Debug)]
struct LostCopies {
    /// Lost copies minus the copies that an agent sent.
    copies: i32,
    last: Fate,
}

/// A retransmission with earlier copies still in transit.
#[derive(Clone, Copy, Debug)]
struct Pending {
    earlier: i32,
    reason: SendReason,
}

/// A copy that will be lost: a chained link has already computed the drop.
#[derive(Clone, Copy, Debug)]
struct FutureLoss {
    seq: u64,
    attempt: u16,
    fate: Fate,
}

/// A copy of a segment: its first byte, the number of the attempt and the packet number.
pub type CopyId = (u64, u16, u64);

/// The ground truth about one connection.
#[derive(Clone, Debug, Default)]
pub struct GroundTruth {
    /// By the first byte of the segment.
    lost_copies: BTreeMap<u64, LostCopies>,
    /// By the time of the loss; losses at the same time in the order in which they were recorded.
    future_losses: BTreeMap<(Time, u64), FutureLoss>,
    /// Number of the next entry of `doomed`.
    next_future_loss: u64,
    pending: BTreeMap<CopyId, Pending>,
    /// Timeouts whose segment had arrived: (its first byte, the first packet number of an ACK after
    /// the timeout, the packet number of the retransmission). The next ACK that covers the segment
    /// decides whether an ACK was in transit at the timeout.
    undecided_timeouts: BTreeSet<(u64, u64, u64)>,
    /// One of `lost_copies`, `pending` and `undecided_timeouts` may have entries: what arrives is
    /// looked up.
    open: bool,
    counts: GroundTruthCounts,
}

impl GroundTruth {
    /// The sender retransmits a segment. Returns true if it is already certain that this is
    /// spurious.
    #[inline(never)]
    pub fn retransmitted(
        &mut self,
        now: Time,
        copy: CopyId,
        reason: SendReason,
        earlier: EarlierCopies,
    ) -> bool {
        self.settle(now);
        let (seq, attempt, id) = copy;
        match earlier {
            EarlierCopies::Arrived { acks_from } if reason == SendReason::Timeout => {
                self.counts.retransmissions += 1;
                self.undecided_timeouts.insert((seq, acks_from, id));
                self.open = true;
                return true;
            }
            EarlierCopies::Arrived { .. } | EarlierCopies::WillArrive => {
                self.count(reason);
                return true;
            }
            EarlierCopies::Unknown => {}
        }
        let lost_copies = self.lost_copies.get(&seq).map_or(0, |g| g.copies);
        let earlier = i32::from(attempt) - 1 - lost_copies;
        if earlier > 0 {
            self.pending.insert(copy, Pending { earlier, reason });
            self.open = true;
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

    /// A copy of the segment at `seq` is lost or dropped at `at`, which may be in the future.
    pub fn lost(&mut self, now: Time, at: Time, seq: u64, attempt: u16, fate: Fate) {
        self.settle(now);
        if at > now {
            self.future_losses
                .insert((at, self.next_future_loss), FutureLoss { seq, attempt, fate });
            self.next_future_loss += 1;
        } else {
            self.remove_copy(seq, attempt, fate);
        }
    }

    /// Applies the future losses that are due.
    fn settle(&mut self, now: Time) {
        if self.future_losses.is_empty() {
            return;
        }
        while let Some(entry) = self.future_losses.first_entry().filter(|e| e.key().0 <= now) {
            let FutureLoss { seq, attempt, fate } = entry.remove();
            self.remove_copy(seq, attempt, fate);
        }
    }

    fn remove_copy(&mut self, seq: u64, attempt: u16, fate: Fate) {
        self.open = true;
        let lost_copies =
            self.lost_copies.entry(seq).or_insert(LostCopies { copies: 0, last: fate });
        (lost_copies.copies, lost_copies.last) = (lost_copies.copies + 1, fate);
        let mut after = (seq, attempt, u64::MAX);
        while let Some((&copy, pending)) = self.pending.range_mut(later(after)).next() {
            pending.earlier -= 1;
            if pending.earlier == 0 {
                self.pending.remove(&copy);
            }
            after = copy;
        }
    }

    /// An agent sends a copy of the segment at `seq`.
    pub fn copied(&mut self, now: Time, seq: u64, attempt: u16) {
        self.settle(now);
        self.open = true;
        self.lost_copies
            .entry(seq)
            .or_insert(LostCopies { copies: 0, last: Fate::DroppedByAgent })
            .copies -= 1;
        for (_, pending) in self.pending.range_mut(later((seq, attempt, u64::MAX))) {
            pending.earlier += 1;
        }
    }

    /// The scheme classifies the loss of the segment at `seq`, which was sent `times` times so far.
    /// The segment counts as lost if all its copies are lost; the last one determines the true
    /// class. Segments that an agent dropped are not counted.
    pub fn classified(&mut self, now: Time, seq: u64, times: u16, class: LossClass) {
        self.settle(now);
        let confusion = &mut self.counts.confusion;
        let row = match self
            .lost_copies
            .get(&seq)
            .filter(|g| g.copies >= i32::from(times))
            .map(|g| g.last)
        {
            Some(Fate::LostOnAir | Fate::Collision) => &mut confusion.wireless,
            Some(Fate::Refused) => &mut confusion.congestion,
            Some(Fate::DroppedByAgent) => return,
            None => &mut confusion.not_lost,
        };
        match class {
            LossClass::Wireless => row[0] += 1,
            LossClass::Congestion => row[1] += 1,
            LossClass::Unclassified => {}
        }
    }

    /// A copy of the segment at `seq` reaches the receiver. Returns how many retransmissions this
    /// makes spurious.
    #[inline(always)]
    pub fn arrived(&mut self, now: Time, seq: u64, attempt: u16) -> u32 {
        if self.open { self.end_pending(now, seq, attempt) } else { 0 }
    }

    #[inline(never)]
    fn end_pending(&mut self, now: Time, seq: u64, attempt: u16) -> u32 {
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

    /// The cumulative ACK `ack` reaches the sender in packet `id`.
    #[inline]
    pub fn ack_received(&mut self, ack: u64, id: u64) {
        if self.open {
            self.acknowledged(ack, id);
        }
    }

    #[inline(never)]
    fn acknowledged(&mut self, ack: u64, id: u64) {
        if !self.undecided_timeouts.is_empty() {
            self.decide(ack, id);
        }
        // Losses below the ACK number are history.
        while let Some(lost) = self.lost_copies.first_entry().filter(|lost| *lost.key() < ack) {
            lost.remove();
        }
        self.open = !self.lost_copies.is_empty()
            || !self.pending.is_empty()
            || !self.undecided_timeouts.is_empty();
    }

    #[cold]
    fn decide(&mut self, ack: u64, id: u64) {
        while let Some(&timeout) = self.undecided_timeouts.first().filter(|u| u.0 < ack) {
            self.undecided_timeouts.remove(&timeout);
            let (_, after, _) = timeout;
            // A packet sent before the timeout was in transit when the timer fired. A later one
            // shows that all earlier ACKs were lost.
            *(if id < after { &mut self.counts.timeouts } else { &mut self.counts.ack_loss }) += 1;
        }
    }

    /// Counts so far. A timeout not yet decided by an ACK counts as spurious.
    pub fn counts(&self) -> GroundTruthCounts {
        GroundTruthCounts {
            timeouts: self.counts.timeouts + self.undecided_timeouts.len() as u64,
            ..self.counts
        }
    }
}

/// The range of copies of the same segment that were sent after `copy`.
fn later(copy: CopyId) -> (Bound<CopyId>, Bound<CopyId>) {
    (Excluded(copy), Included((copy.0, u16::MAX, u64::MAX)))
}

#[cfg(test)]
mod tests;
