use super::*;
use proptest::prelude::*;

#[test]
fn a_future_queue_drop_does_not_count_before_its_time() {
    let mut truth = GroundTruth::default();
    truth.lost(Time(1), Time(5), 0, 1, Fate::Refused);
    truth.classified(Time(3), 0, 1, LossClass::Congestion);
    assert_eq!(truth.counts().confusion, Confusion { not_lost: [0, 1], ..Confusion::default() });
    truth.classified(Time(5), 0, 1, LossClass::Congestion);
    assert_eq!(
        truth.counts().confusion,
        Confusion { not_lost: [0, 1], congestion: [0, 1], ..Confusion::default() }
    );
}

/// A segment times out twice while the same ACK is the next one to be sent: both timeouts count.
#[test]
fn two_timeouts_before_the_same_ack_are_two() {
    let mut truth = GroundTruth::default();
    for (attempt, id) in [(2, 30), (3, 31)] {
        let earlier = EarlierCopies::Arrived { acks_from: 20 };
        truth.retransmitted(Time(1), (0, attempt, id), SendReason::Timeout, earlier);
    }
    assert_eq!(truth.counts().timeouts, 2);
    truth.ack_received(1000, 19);
    assert_eq!((truth.counts().timeouts, truth.counts().ack_loss), (2, 0));
}

/// An event of a segment.
#[derive(Clone, Copy, Debug)]
enum Step {
    Retransmitted { reason: SendReason, arrived: bool },
    Lost { after: u64, fate: Fate },
    Copied,
    Classified { class: LossClass },
    Arrived,
    Acknowledged { late: bool },
}

fn any_step() -> impl Strategy<Value = Step> {
    let reason = prop_oneof![
        Just(SendReason::Timeout),
        Just(SendReason::FastRetransmit),
        Just(SendReason::Recovery)
    ];
    let fate = prop_oneof![
        Just(Fate::LostOnAir),
        Just(Fate::Collision),
        Just(Fate::Refused),
        Just(Fate::DroppedByAgent)
    ];
    let class = prop_oneof![
        Just(LossClass::Wireless),
        Just(LossClass::Congestion),
        Just(LossClass::Unclassified)
    ];
    prop_oneof![
        3 => (reason, prop::bool::weighted(0.3))
            .prop_map(|(reason, arrived)| Step::Retransmitted { reason, arrived }),
        3 => (prop_oneof![Just(0u64), 1u64..20], fate)
            .prop_map(|(after, fate)| Step::Lost { after, fate }),
        1 => Just(Step::Copied),
        1 => class.prop_map(|class| Step::Classified { class }),
        2 => Just(Step::Arrived),
        1 => any::<bool>().prop_map(|late| Step::Acknowledged { late }),
    ]
}

proptest! {
    /// Compares the sorted maps with plain lists that are searched linearly.
    #[test]
    fn agrees_with_plain_lists(
        steps in prop::collection::vec((any_step(), 0u64..12, 1u16..5, 0u64..4), 1..200),
    ) {
        let (mut truth, mut plain, mut now) = (GroundTruth::default(), Plain::default(), Time(0));
        for (id, (step, segment, attempt, passed)) in steps.into_iter().enumerate() {
            now = Time(now.0 + passed);
            let (seq, id) = (1000 * segment, 10 + id as u64);
            match step {
                Step::Retransmitted { reason, arrived } => {
                    let earlier = if arrived {
                        EarlierCopies::Arrived { acks_from: id }
                    } else {
                        EarlierCopies::Unknown
                    };
                    let found = truth.retransmitted(now, (seq, attempt, id), reason, earlier);
                    let expected = plain.retransmitted(now, (seq, attempt, id), reason, arrived);
                    prop_assert_eq!(found, expected);
                }
                Step::Lost { after, fate } => {
                    truth.lost(now, Time(now.0 + after), seq, attempt, fate);
                    plain.lost(now, Time(now.0 + after), (seq, attempt, fate));
                }
                Step::Copied => {
                    truth.copied(now, seq, attempt);
                    plain.copied(now, seq, attempt);
                }
                Step::Classified { class } => {
                    truth.classified(now, seq, attempt, class);
                    plain.classified(now, seq, attempt, class);
                }
                Step::Arrived => {
                    let expected = plain.arrived(now, seq, attempt);
                    prop_assert_eq!(truth.arrived(now, seq, attempt), expected);
                }
                Step::Acknowledged { late } => {
                    let id = if late { id - 5 } else { id };
                    truth.ack_received(seq, id);
                    plain.acknowledged(seq, id);
                }
            }
            prop_assert_eq!(truth.counts(), plain.counts());
            let lost_copies = truth.lost_copies.iter().map(|(s, g)| (*s, g.copies, g.last));
            prop_assert!(lost_copies.eq(plain.lost_copies()), "{:?} {:?}", truth, plain);
        }
    }
}

/// Reference model with plain lists: lost copies as (first byte, copies, last fate),
/// retransmissions as (copy, earlier copies, reason).
#[derive(Debug, Default)]
struct Plain {
    lost_copies: Vec<(u64, i32, Fate)>,
    future_losses: Vec<(Time, u64, u16, Fate)>,
    pending: Vec<(CopyId, i32, SendReason)>,
    undecided_timeouts: Vec<(u64, u64)>,
    counts: GroundTruthCounts,
}

impl Plain {
    fn settle(&mut self, now: Time) {
        self.future_losses.sort_by_key(|d| d.0);
        let due = self.future_losses.partition_point(|d| d.0 <= now);
        for (_, seq, attempt, fate) in self.future_losses.drain(..due).collect::<Vec<_>>() {
            match self.lost_copies.iter_mut().find(|g| g.0 == seq) {
                Some(g) => (g.1, g.2) = (g.1 + 1, fate),
                None => self.lost_copies.push((seq, 1, fate)),
            }
            self.later(seq, attempt, -1);
            self.pending.retain(|p| p.1 > 0);
        }
    }

    fn later(&mut self, seq: u64, attempt: u16, change: i32) {
        self.pending
            .iter_mut()
            .filter(|p| p.0.0 == seq && attempt < p.0.1)
            .for_each(|p| p.1 += change);
    }

    fn lost(&mut self, now: Time, at: Time, (seq, attempt, fate): (u64, u16, Fate)) {
        self.settle(now);
        self.future_losses.push((at, seq, attempt, fate));
        self.settle(now);
    }

    fn retransmitted(
        &mut self,
        now: Time,
        copy: CopyId,
        reason: SendReason,
        arrived: bool,
    ) -> bool {
        self.settle(now);
        match (arrived, reason) {
            (true, SendReason::Timeout) => {
                self.counts.retransmissions += 1;
                self.undecided_timeouts.push((copy.0, copy.2));
            }
            (true, _) => self.count(reason),
            (false, _) => {
                let lost_copies =
                    self.lost_copies.iter().find(|g| g.0 == copy.0).map_or(0, |g| g.1);
                self.pending.extend(
                    Some((copy, i32::from(copy.1) - 1 - lost_copies, reason)).filter(|p| p.1 > 0),
                );
            }
        }
        arrived
    }

    fn count(&mut self, reason: SendReason) {
        self.counts.retransmissions += 1;
        self.counts.timeouts += u64::from(reason == SendReason::Timeout);
        self.counts.fast_retransmits += u64::from(reason == SendReason::FastRetransmit);
    }

    fn copied(&mut self, now: Time, seq: u64, attempt: u16) {
        self.settle(now);
        match self.lost_copies.iter_mut().find(|g| g.0 == seq) {
            Some(g) => g.1 -= 1,
            None => self.lost_copies.push((seq, -1, Fate::DroppedByAgent)),
        }
        self.later(seq, attempt, 1);
    }

    fn classified(&mut self, now: Time, seq: u64, times: u16, class: LossClass) {
        self.settle(now);
        let confusion = &mut self.counts.confusion;
        let row = match self.lost_copies.iter().find(|g| g.0 == seq && g.1 >= i32::from(times)) {
            Some((.., Fate::LostOnAir | Fate::Collision)) => &mut confusion.wireless,
            Some((.., Fate::Refused)) => &mut confusion.congestion,
            Some((.., Fate::DroppedByAgent)) => return,
            None => &mut confusion.not_lost,
        };
        match class {
            LossClass::Wireless => row[0] += 1,
            LossClass::Congestion => row[1] += 1,
            LossClass::Unclassified => {}
        }
    }

    fn arrived(&mut self, now: Time, seq: u64, attempt: u16) -> u32 {
        if self.pending.is_empty() {
            return 0;
        }
        self.settle(now);
        let (now, waiting): (Vec<_>, Vec<_>) =
            self.pending.drain(..).partition(|p| p.0.0 == seq && attempt < p.0.1);
        self.pending = waiting;
        now.iter().for_each(|p| self.count(p.2));
        now.len() as u32
    }

    fn acknowledged(&mut self, ack: u64, id: u64) {
        let (now, waiting): (Vec<_>, Vec<_>) =
            self.undecided_timeouts.drain(..).partition(|u| u.0 < ack);
        self.undecided_timeouts = waiting;
        self.counts.timeouts += now.iter().filter(|u| id < u.1).count() as u64;
        self.counts.ack_loss += now.iter().filter(|u| id >= u.1).count() as u64;
        self.lost_copies.retain(|g| g.0 >= ack);
    }

    fn counts(&self) -> GroundTruthCounts {
        GroundTruthCounts {
            timeouts: self.counts.timeouts + self.undecided_timeouts.len() as u64,
            ..self.counts
        }
    }

    fn lost_copies(&self) -> Vec<(u64, i32, Fate)> {
        let mut sorted = self.lost_copies.clone();
        sorted.sort_by_key(|g| g.0);
        sorted
    }
}
