//! Ground truth about retransmissions and losses: which retransmissions were spurious, and whether
//! a loss was due to the radio or to a queue.
//!
//! A retransmission is spurious if an earlier copy of all its bytes had reached the receiver when
//! it was sent, or was in transit then and arrives later. The verdict therefore may have to wait
//! until the earlier copies have arrived or are lost. A timeout whose segment had arrived is due to
//! ACK loss if ACKs for it had been sent and all of them are lost; their fates are looked up too.
//!
//! Sequence numbers are those on the wire with an ISN of 0: the SYN has number 0, the first byte of
//! data number 1.
//!
//! All collections that are searched are sorted. With a large window and an
//! overflowing queue a plain list would be as long as the window and would be searched for each
//! packet.

mod lost_copies;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{self, Excluded, Included};

use lasthop::segment::{Flags, Segment};
use lasthop::tcp::sender::SendReason;
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

use crate::events::probe::{EarlierCopies, Fate};
use lost_copies::LostSegments;

/// Counts of spurious retransmissions, timeouts and fast retransmits, and the classifier's
/// confusion matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroundTruthCounts {
    /// Spurious retransmissions.
    pub retransmissions: u64,
    /// Timeouts for a segment of which an earlier copy arrived, `ack_loss` excepted.
    pub timeouts: u64,
    /// Timeouts for a segment that had arrived, and for which at least one ACK had been sent, all
    /// of which were lost on the air, in a collision or at a queue.
    pub ack_loss: u64,
    /// Fast retransmits of segments that were not lost.
    pub fast_retransmits: u64,
    /// Verdicts of the scheme's loss classifier.
    pub confusion: Confusion,
}

impl GroundTruthCounts {
    /// The counts since `earlier`.
    pub fn since(self, earlier: GroundTruthCounts) -> GroundTruthCounts {
        GroundTruthCounts {
            retransmissions: self.retransmissions - earlier.retransmissions,
            timeouts: self.timeouts - earlier.timeouts,
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

/// A retransmission with earlier copies still in transit.
#[derive(Clone, Copy, Debug)]
struct Pending {
    earlier: i32,
    reason: SendReason,
}

/// A packet that is lost or dropped.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// A copy of the segment at `seq`, as packet `id`.
    Copy { seq: u64, id: u64, fate: Fate },
    /// An ACK for all numbers below `ack`, as packet `id`.
    Ack { ack: u64, id: u64, fate: Fate },
}

/// A timeout whose segment had arrived: the packet numbers of the ACKs for it that may arrive yet.
#[derive(Clone, Debug)]
struct UndecidedTimeout {
    acks: Vec<u64>,
}

/// A copy of a segment: its first number and the packet number. Copies sent later have higher
/// packet numbers.
pub type CopyId = (u64, u64);

/// The ground truth about one connection.
#[derive(Clone, Debug, Default)]
pub struct GroundTruth {
    lost_copies: LostSegments,
    /// Losses that a chained link has computed in advance, by their time; those at the same time in
    /// the order in which they were recorded.
    future_losses: VecDeque<(Time, Loss)>,
    pending: BTreeMap<CopyId, Pending>,
    undecided_timeouts: Vec<UndecidedTimeout>,
    /// The highest ACK number that was lost, and the highest one that an agent dropped.
    lost_ack: u64,
    dropped_ack: u64,
    /// ACKs that an agent has taken into custody: ACK number and packet number.
    held_acks: BTreeSet<(u64, u64)>,
    /// One of `lost_copies`, `pending`, `undecided_timeouts` and `held_acks` may have entries: what
    /// arrives is looked up.
    open: bool,
    counts: GroundTruthCounts,
}

impl GroundTruth {
    /// All copies of the segment at `seq` are lost; the next one is its `attempt`.
    pub fn has_lost_all(&mut self, now: Time, seq: u64, attempt: u16) -> bool {
        self.settle(now);
        self.lost_copies.get(seq).is_some_and(|s| s.copies + 1 >= i32::from(attempt))
    }

    /// The sender retransmits a segment, its `attempt` to send it. Returns true if it is already
    /// certain that this is spurious.
    #[inline(never)]
    pub fn retransmitted(
        &mut self,
        now: Time,
        (copy, attempt): (CopyId, u16),
        reason: SendReason,
        earlier: EarlierCopies,
    ) -> bool {
        self.settle(now);
        match earlier {
            EarlierCopies::Arrived { .. } if reason == SendReason::Timeout => {
                // `timed_out` counts the timeout.
                self.counts.retransmissions += 1;
                return true;
            }
            EarlierCopies::Arrived { .. } | EarlierCopies::WillArrive => {
                self.count(reason);
                return true;
            }
            EarlierCopies::Lost => return false,
            EarlierCopies::Unknown => {}
        }
        let lost_copies = self.lost_copies.get(copy.0).map_or(0, |g| g.copies);
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

    /// The timer expires for a segment that has arrived, with numbers below `end`. `acks_from`:
    /// ACKs that had been sent by then have packet numbers below; `acks`: those of the ACKs for the
    /// segment that are in transit.
    #[inline(never)]
    pub fn timed_out(&mut self, now: Time, end: u64, acks_from: u64, mut acks: Vec<u64>) {
        self.settle(now);
        let held = self.held_acks.range((end, 0)..).map(|&(_, id)| id);
        let lost_later = self.future_losses.iter().filter_map(|(_, loss)| match *loss {
            Loss::Ack { ack, id, .. } if ack >= end => Some(id),
            _ => None,
        });
        acks.extend(held.chain(lost_later).filter(|id| *id < acks_from));
        if self.dropped_ack >= end || (acks.is_empty() && self.lost_ack < end) {
            self.counts.timeouts += 1;
        } else if acks.is_empty() {
            self.counts.ack_loss += 1;
        } else {
            acks.sort_unstable();
            acks.dedup();
            self.undecided_timeouts.push(UndecidedTimeout { acks });
            self.open = true;
        }
    }

    /// A copy of a segment is lost or dropped at `at`, which may be in the future.
    pub fn lost(&mut self, now: Time, at: Time, (seq, id): CopyId, fate: Fate) {
        self.record_loss(now, at, Loss::Copy { seq, id, fate });
    }

    /// An ACK for all numbers below `ack`, packet `id`, is lost or dropped at `at`, which may be in
    /// the future.
    pub fn ack_lost(&mut self, now: Time, at: Time, (ack, id): (u64, u64), fate: Fate) {
        self.record_loss(now, at, Loss::Ack { ack, id, fate });
    }

    /// A queue removes the ACK with packet number `id`, because the one with the number `by` says
    /// all that it does: whether that one arrives decides in its place.
    pub fn ack_replaced(&mut self, id: u64, by: u64) {
        for timeout in &mut self.undecided_timeouts {
            if let Ok(at) = timeout.acks.binary_search(&id) {
                timeout.acks.remove(at);
                if let Err(at) = timeout.acks.binary_search(&by) {
                    timeout.acks.insert(at, by);
                }
            }
        }
    }

    /// An agent takes an ACK for all numbers below `ack`, packet `id`, into custody.
    pub fn ack_held(&mut self, ack: u64, id: u64) {
        self.held_acks.insert((ack, id));
        self.open = true;
    }

    /// An agent forwards an ACK that it had taken into custody.
    pub fn ack_released(&mut self, ack: u64, id: u64) {
        self.held_acks.remove(&(ack, id));
    }

    fn record_loss(&mut self, now: Time, at: Time, loss: Loss) {
        self.settle(now);
        if at > now {
            // Nearly always behind all others.
            let place = self.future_losses.iter().rposition(|(other, _)| *other <= at);
            self.future_losses.insert(place.map_or(0, |p| p + 1), (at, loss));
        } else {
            self.apply_loss(loss);
        }
    }

    /// Applies the future losses that are due.
    fn settle(&mut self, now: Time) {
        while let Some(&(at, loss)) = self.future_losses.front()
            && at <= now
        {
            self.future_losses.pop_front();
            self.apply_loss(loss);
        }
    }

    fn apply_loss(&mut self, loss: Loss) {
        match loss {
            Loss::Copy { seq, id, fate } => self.remove_copy((seq, id), fate),
            Loss::Ack { ack, id, fate } => self.remove_ack(ack, id, fate),
        }
    }

    fn remove_ack(&mut self, ack: u64, id: u64, fate: Fate) {
        let by_agent = fate == Fate::DroppedByAgent;
        let highest = if by_agent { &mut self.dropped_ack } else { &mut self.lost_ack };
        *highest = ack.max(*highest);
        let counts = &mut self.counts;
        self.undecided_timeouts.retain_mut(|timeout| {
            let Ok(at) = timeout.acks.binary_search(&id) else { return true };
            timeout.acks.remove(at);
            let decided = by_agent || timeout.acks.is_empty();
            if decided {
                *(if by_agent { &mut counts.timeouts } else { &mut counts.ack_loss }) += 1;
            }
            !decided
        });
    }

    fn remove_copy(&mut self, (seq, id): CopyId, fate: Fate) {
        self.open = true;
        let lost_copies = self.lost_copies.entry(seq, fate);
        (lost_copies.copies, lost_copies.last) = (lost_copies.copies + 1, fate);
        if self.pending.is_empty() {
            return;
        }
        let mut after = (seq, id);
        while let Some((&copy, pending)) = self.pending.range_mut(later(after)).next() {
            pending.earlier -= 1;
            if pending.earlier == 0 {
                self.pending.remove(&copy);
            }
            after = copy;
        }
    }

    /// An agent sends a copy of the segment at `seq`.
    pub fn copied(&mut self, now: Time, seq: u64) {
        self.settle(now);
        self.open = true;
        self.lost_copies.entry(seq, Fate::DroppedByAgent).copies -= 1;
    }

    /// The scheme classifies the loss of the segment at `seq`, which was sent `times` times so far.
    /// The segment counts as lost if all its copies are lost; the last one determines the true
    /// class. Segments that an agent dropped or the receiver discarded are not counted.
    pub fn classified(&mut self, now: Time, seq: u64, times: u16, class: LossClass) {
        self.settle(now);
        let confusion = &mut self.counts.confusion;
        let row = match self
            .lost_copies
            .get(seq)
            .filter(|g| g.copies >= i32::from(times))
            .map(|g| g.last)
        {
            Some(Fate::LostOnAir | Fate::Collision | Fate::Corrupted) => &mut confusion.wireless,
            Some(Fate::Refused) => &mut confusion.congestion,
            Some(Fate::DroppedByAgent | Fate::Discarded) => return,
            None => &mut confusion.not_lost,
        };
        match class {
            LossClass::Wireless => row[0] += 1,
            LossClass::Congestion => row[1] += 1,
            LossClass::Unclassified => {}
        }
    }

    /// A copy of a segment reaches the receiver. Returns how many retransmissions this makes
    /// spurious.
    #[inline(always)]
    pub fn arrived(&mut self, now: Time, copy: CopyId) -> u32 {
        if self.open && !self.pending.is_empty() { self.end_pending(now, copy) } else { 0 }
    }

    #[inline(never)]
    fn end_pending(&mut self, now: Time, copy: CopyId) -> u32 {
        self.settle(now);
        let mut spurious = 0;
        while let Some((&later, &Pending { reason, .. })) = self.pending.range(later(copy)).next() {
            self.pending.remove(&later);
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
            self.ack_arrived(id);
        }
        while self.held_acks.first().is_some_and(|held| held.0 <= ack) {
            self.held_acks.pop_first();
        }
        // Losses below the ACK number are history.
        self.lost_copies.forget_below(ack);
        self.open = !self.lost_copies.is_empty()
            || !self.pending.is_empty()
            || !self.undecided_timeouts.is_empty()
            || !self.held_acks.is_empty();
    }

    /// The ACK in packet `id` arrives: timeouts at which it was in transit were spurious.
    #[cold]
    fn ack_arrived(&mut self, id: u64) {
        let undecided = self.undecided_timeouts.len();
        self.undecided_timeouts.retain(|timeout| timeout.acks.binary_search(&id).is_err());
        self.counts.timeouts += (undecided - self.undecided_timeouts.len()) as u64;
    }

    /// Counts of what happens before `end`. A timeout for which an ACK is in transit at that time
    /// counts as spurious.
    pub fn counts(&self, end: Time) -> GroundTruthCounts {
        let undecided_losses = !self.undecided_timeouts.is_empty()
            && self.future_losses.front().is_some_and(|(at, _)| *at < end);
        if undecided_losses {
            let mut settled = self.clone();
            settled.settle(Time(end.0 - 1));
            return settled.counts(end);
        }
        GroundTruthCounts {
            timeouts: self.counts.timeouts + self.undecided_timeouts.len() as u64,
            ..self.counts
        }
    }

    /// Measuring begins at `now`. Returns the counts so far; the verdicts on timeouts before this
    /// time are final.
    pub fn begin(&mut self, now: Time) -> GroundTruthCounts {
        self.counts.timeouts = self.counts(now).timeouts;
        self.undecided_timeouts.clear();
        self.counts
    }
}

/// The range of copies of the same segment that were sent after `copy`.
fn later(copy: CopyId) -> (Bound<CopyId>, Bound<CopyId>) {
    (Excluded(copy), Included((copy.0, u64::MAX)))
}

/// First sequence number of a segment, with an ISN of 0, and its packet number.
pub(super) fn copy_of(segment: &Segment) -> CopyId {
    let first = if segment.flags.has(Flags::SYN) { 0 } else { segment.seq.saturating_add(1) };
    (first, segment.id)
}

/// The number after the last one of a segment.
pub(super) fn end_of(segment: &Segment) -> u64 {
    if segment.flags.has(Flags::SYN) { 1 } else { segment.end().saturating_add(1) }
}

/// The ACK number, with an ISN of 0, of a segment from a receiver; `None` for other packets.
pub(super) fn ack_of(segment: &Segment) -> Option<u64> {
    let other = Flags::DATAGRAM.with(Flags::NOTICE);
    let is_ack = !segment.forward && segment.flags.has(Flags::ACK) && !segment.flags.any(other);
    is_ack.then(|| segment.ack.saturating_add(1))
}

#[cfg(test)]
mod tests;
