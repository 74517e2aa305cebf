use super::*;
use proptest::prelude::*;

#[test]
fn a_future_queue_drop_does_not_count_before_its_time() {
    let mut truth = GroundTruth::default();
    truth.lost(Time(1), Time(5), (0, 1), Fate::Refused);
    truth.classified(Time(3), 0, 1, LossClass::Congestion);
    assert_eq!(
        truth.counts(NEVER).confusion,
        Confusion { not_lost: [0, 1], ..Confusion::default() }
    );
    truth.classified(Time(5), 0, 1, LossClass::Congestion);
    assert_eq!(
        truth.counts(NEVER).confusion,
        Confusion { not_lost: [0, 1], congestion: [0, 1], ..Confusion::default() }
    );
}

/// After the end of all runs.
const NEVER: Time = Time::NEVER;

/// Counts of timeouts: spurious ones, and those due to ACK loss.
fn timeouts(truth: &GroundTruth) -> (u64, u64) {
    let counts = truth.counts(NEVER);
    (counts.timeouts, counts.ack_loss)
}

/// A segment times out twice while the same ACK is in transit: both timeouts count.
#[test]
fn two_timeouts_before_the_same_ack_are_two() {
    let mut truth = GroundTruth::default();
    (30..32).for_each(|id| truth.timed_out(Time(1), 1000, id, vec![19]));
    assert_eq!(truth.counts(NEVER).timeouts, 2);
    truth.ack_received(1000, 19);
    assert_eq!(timeouts(&truth), (2, 0));
}

#[test]
fn without_an_ack_no_ack_was_lost() {
    let mut truth = GroundTruth::default();
    truth.ack_lost(Time(1), Time(1), (900, 5), Fate::LostOnAir);
    truth.timed_out(Time(2), 1000, 30, vec![]);
    truth.ack_received(1000, 31);
    assert_eq!(timeouts(&truth), (1, 0), "the receiver delayed its ACK");
}

/// A queue removes an ACK that may decide about a timeout, because a later one says the same.
#[test]
fn the_ack_that_replaces_one_decides_in_its_place() {
    let mut truth = GroundTruth::default();
    truth.ack_replaced(4, 5);
    truth.timed_out(Time(2), 1000, 30, vec![5, 8]);
    truth.ack_replaced(5, 31);
    truth.ack_replaced(8, 31);
    truth.ack_replaced(31, 32);
    assert_eq!(timeouts(&truth), (1, 0), "undecided");
    let mut lost = truth.clone();
    lost.ack_lost(Time(3), Time(3), (1000, 32), Fate::LostOnAir);
    assert_eq!(timeouts(&lost), (0, 1));
    truth.ack_received(1000, 32);
    assert_eq!(timeouts(&truth), (1, 0));
}

#[test]
fn one_ack_that_arrives_outweighs_those_that_are_lost() {
    let mut truth = GroundTruth::default();
    truth.ack_lost(Time(1), Time(1), (1000, 5), Fate::Refused);
    truth.timed_out(Time(2), 1000, 30, vec![6, 7]);
    truth.ack_lost(Time(3), Time(3), (1000, 6), Fate::LostOnAir);
    let mut arrives = truth.clone();
    arrives.ack_received(2000, 7);
    assert_eq!(timeouts(&arrives), (1, 0));
    // An ACK sent after the timeout arrives first: the fate of the earlier one decides.
    truth.ack_received(2000, 31);
    assert_eq!(timeouts(&truth), (1, 0));
    truth.ack_lost(Time(4), Time(4), (1000, 7), Fate::Collision);
    assert_eq!(timeouts(&truth), (0, 1));
}

#[test]
fn an_ack_that_an_agent_drops_or_holds_is_not_lost() {
    let mut truth = GroundTruth::default();
    truth.ack_lost(Time(1), Time(1), (1000, 5), Fate::DroppedByAgent);
    truth.ack_lost(Time(1), Time(1), (1000, 6), Fate::LostOnAir);
    truth.timed_out(Time(2), 1000, 30, vec![]);
    assert_eq!(timeouts(&truth), (1, 0), "dropped");
    let mut truth = GroundTruth::default();
    truth.ack_held(1000, 5);
    truth.timed_out(Time(2), 1000, 30, vec![]);
    assert_eq!(timeouts(&truth), (1, 0), "held");
    truth.ack_released(1000, 5);
    truth.ack_lost(Time(3), Time(3), (1000, 5), Fate::LostOnAir);
    assert_eq!(timeouts(&truth), (0, 1), "forwarded and lost");
}

/// However the run is computed, a loss after its end has not happened.
#[test]
fn a_loss_after_the_end_of_the_run_does_not_count() {
    let mut truth = GroundTruth::default();
    truth.ack_lost(Time(1), Time(9), (1000, 5), Fate::Refused);
    truth.timed_out(Time(2), 1000, 30, vec![]);
    assert_eq!(truth.counts(Time(9)).ack_loss, 0);
    assert_eq!(truth.counts(Time(10)).ack_loss, 1);
    assert_eq!(truth.begin(Time(9)).timeouts, 1);
    assert_eq!(truth.counts(Time(10)).ack_loss, 0, "the timeout was before");
}

/// An event of a segment.
#[derive(Clone, Copy, Debug)]
enum Step {
    Retransmitted {
        reason: SendReason,
        arrived: bool,
    },
    Lost {
        after: u64,
        fate: Fate,
    },
    Copied,
    Classified {
        class: LossClass,
    },
    Arrived,
    /// The receiver acknowledges the segment, and what becomes of one of the ACKs.
    AckSent,
    AckEnds {
        which: usize,
        end: AckEnd,
    },
}

/// What becomes of an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckEnd {
    Arrived,
    Held,
    Released,
    Lost { after: u64, fate: Fate },
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::LostOnAir),
        Just(Fate::Collision),
        Just(Fate::Refused),
        Just(Fate::DroppedByAgent)
    ]
}

fn any_ack_end() -> impl Strategy<Value = AckEnd> {
    prop_oneof![
        2 => Just(AckEnd::Arrived),
        1 => Just(AckEnd::Held),
        1 => Just(AckEnd::Released),
        3 => (prop_oneof![Just(0u64), 1u64..20], any_fate())
            .prop_map(|(after, fate)| AckEnd::Lost { after, fate }),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let reason = prop_oneof![
        Just(SendReason::Timeout),
        Just(SendReason::FastRetransmit),
        Just(SendReason::Recovery)
    ];
    let class = prop_oneof![
        Just(LossClass::Wireless),
        Just(LossClass::Congestion),
        Just(LossClass::Unclassified)
    ];
    prop_oneof![
        3 => (reason, prop::bool::weighted(0.3))
            .prop_map(|(reason, arrived)| Step::Retransmitted { reason, arrived }),
        3 => (prop_oneof![Just(0u64), 1u64..20], any_fate())
            .prop_map(|(after, fate)| Step::Lost { after, fate }),
        1 => Just(Step::Copied),
        1 => class.prop_map(|class| Step::Classified { class }),
        2 => Just(Step::Arrived),
        2 => Just(Step::AckSent),
        3 => (any::<usize>(), any_ack_end())
            .prop_map(|(which, end)| Step::AckEnds { which, end }),
    ]
}

/// An ACK ends in this way.
fn end_ack(truth: &mut GroundTruth, now: Time, (ack, id): (u64, u64), end: AckEnd) {
    match end {
        AckEnd::Arrived => truth.ack_received(ack, id),
        AckEnd::Held => truth.ack_held(ack, id),
        AckEnd::Released => truth.ack_released(ack, id),
        AckEnd::Lost { after, fate } => {
            truth.ack_lost(now, Time(now.0 + after), (ack, id), fate);
        }
    }
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
            // Some copy sent before.
            let copy = id * u64::from(attempt) / 5;
            match step {
                Step::Retransmitted { reason, arrived } => {
                    // What has been acknowledged does not time out.
                    let arrived = arrived && plain.una <= seq;
                    if arrived && reason == SendReason::Timeout {
                        truth.timed_out(now, seq + 1000, id, plain.in_transit(seq + 1000));
                    }
                    let earlier = if arrived {
                        EarlierCopies::Arrived { acks_from: id }
                    } else if truth.has_lost_all(now, seq, attempt) {
                        EarlierCopies::Lost
                    } else {
                        EarlierCopies::Unknown
                    };
                    let found = truth.retransmitted(now, ((seq, id), attempt), reason, earlier);
                    let expected = plain.retransmitted(now, ((seq, id), attempt), reason, arrived);
                    prop_assert_eq!(found, expected);
                }
                Step::Lost { after, fate } => {
                    truth.lost(now, Time(now.0 + after), (seq, copy), fate);
                    plain.lost(now, Time(now.0 + after), ((seq, copy), fate));
                }
                Step::Copied => {
                    truth.copied(now, seq);
                    plain.copied(now, seq);
                }
                Step::Classified { class } => {
                    truth.classified(now, seq, attempt, class);
                    plain.classified(now, seq, attempt, class);
                }
                Step::Arrived => {
                    let expected = plain.arrived(now, (seq, copy));
                    prop_assert_eq!(truth.arrived(now, (seq, copy)), expected);
                }
                Step::AckSent => plain.acks.push(Ack { ack: seq + 1000, id, ..Ack::default() }),
                Step::AckEnds { which, end } => match plain.ack_ends(which, end, now) {
                    Some(ack) => end_ack(&mut truth, now, ack, end),
                    None => continue,
                },
            }
            prop_assert_eq!(truth.counts(Time(now.0 + 1)), plain.counts(now));
            // Applies what is due.
            truth.settle(now);
            plain.settle(now);
            let lost_copies = truth.lost_copies.iter();
            prop_assert!(lost_copies.eq(plain.lost_copies()), "{:?} {:?}", truth, plain);
        }
    }
}

/// An ACK in the reference model.
#[derive(Clone, Copy, Debug, Default)]
struct Ack {
    ack: u64,
    id: u64,
    held: bool,
    arrived: bool,
    lost: Option<(Time, Fate)>,
}

/// Reference model with plain lists: lost copies as (first byte, copies, last fate),
/// retransmissions as (copy, earlier copies, reason), timeouts of segments that had arrived as (the
/// byte after the last one, packet number).
#[derive(Debug, Default)]
struct Plain {
    lost_copies: Vec<(u64, i32, Fate)>,
    future_losses: Vec<(Time, CopyId, Fate)>,
    pending: Vec<(CopyId, i32, SendReason)>,
    timeouts: Vec<(u64, u64)>,
    acks: Vec<Ack>,
    /// Everything below is acknowledged.
    una: u64,
    counts: GroundTruthCounts,
}

impl Plain {
    fn settle(&mut self, now: Time) {
        self.future_losses.sort_by_key(|d| d.0);
        let due = self.future_losses.partition_point(|d| d.0 <= now);
        for (_, copy, fate) in self.future_losses.drain(..due).collect::<Vec<_>>() {
            match self.lost_copies.iter_mut().find(|g| g.0 == copy.0) {
                Some(g) => (g.1, g.2) = (g.1 + 1, fate),
                None => self.lost_copies.push((copy.0, 1, fate)),
            }
            let later = self.pending.iter_mut().filter(|p| p.0.0 == copy.0 && copy.1 < p.0.1);
            later.for_each(|p| p.1 -= 1);
            self.pending.retain(|p| p.1 > 0);
        }
    }

    fn lost(&mut self, now: Time, at: Time, (copy, fate): (CopyId, Fate)) {
        self.settle(now);
        self.future_losses.push((at, copy, fate));
        self.settle(now);
    }

    fn retransmitted(
        &mut self,
        now: Time,
        (copy, attempt): (CopyId, u16),
        reason: SendReason,
        arrived: bool,
    ) -> bool {
        self.settle(now);
        match (arrived, reason) {
            (true, SendReason::Timeout) => {
                self.counts.retransmissions += 1;
                self.timeouts.push((copy.0 + 1000, copy.1));
            }
            (true, _) => self.count(reason),
            (false, _) => {
                let lost_copies =
                    self.lost_copies.iter().find(|g| g.0 == copy.0).map_or(0, |g| g.1);
                self.pending.extend(
                    Some((copy, i32::from(attempt) - 1 - lost_copies, reason)).filter(|p| p.1 > 0),
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

    fn copied(&mut self, now: Time, seq: u64) {
        self.settle(now);
        match self.lost_copies.iter_mut().find(|g| g.0 == seq) {
            Some(g) => g.1 -= 1,
            None => self.lost_copies.push((seq, -1, Fate::DroppedByAgent)),
        }
    }

    fn classified(&mut self, now: Time, seq: u64, times: u16, class: LossClass) {
        self.settle(now);
        let confusion = &mut self.counts.confusion;
        let row = match self.lost_copies.iter().find(|g| g.0 == seq && g.1 >= i32::from(times)) {
            Some((.., Fate::LostOnAir | Fate::Collision | Fate::Corrupted)) => {
                &mut confusion.wireless
            }
            Some((.., Fate::Refused)) => &mut confusion.congestion,
            Some((.., Fate::DroppedByAgent | Fate::Discarded)) => return,
            None => &mut confusion.not_lost,
        };
        match class {
            LossClass::Wireless => row[0] += 1,
            LossClass::Congestion => row[1] += 1,
            LossClass::Unclassified => {}
        }
    }

    fn arrived(&mut self, now: Time, copy: CopyId) -> u32 {
        if self.pending.is_empty() {
            return 0;
        }
        self.settle(now);
        let (now, waiting): (Vec<_>, Vec<_>) =
            self.pending.drain(..).partition(|p| p.0.0 == copy.0 && copy.1 < p.0.1);
        self.pending = waiting;
        now.iter().for_each(|p| self.count(p.2));
        now.len() as u32
    }

    /// Packet numbers of the ACKs for what is below `end` that are on their way.
    fn in_transit(&self, end: u64) -> Vec<u64> {
        let on_their_way = |a: &&Ack| a.ack >= end && !a.held && !a.arrived && a.lost.is_none();
        self.acks.iter().filter(on_their_way).map(|a| a.id).collect()
    }

    /// Returns the ACK to which this happens: its ACK number and its packet number.
    fn ack_ends(&mut self, which: usize, end: AckEnd, now: Time) -> Option<(u64, u64)> {
        let held = end == AckEnd::Released;
        let may = |a: &&mut Ack| a.held == held && !a.arrived && a.lost.is_none();
        let mut candidates: Vec<&mut Ack> = self.acks.iter_mut().filter(may).collect();
        let which = which.checked_rem(candidates.len())?;
        let ack = &mut *candidates[which];
        match end {
            AckEnd::Arrived => ack.arrived = true,
            AckEnd::Held | AckEnd::Released => ack.held = !held,
            AckEnd::Lost { after, fate } => ack.lost = Some((Time(now.0 + after), fate)),
        }
        let (number, id) = (ack.ack, ack.id);
        if end == AckEnd::Arrived {
            self.una = self.una.max(number);
            self.lost_copies.retain(|g| g.0 >= number);
        }
        Some((number, id))
    }

    /// True if ACKs for what is below `end` were sent before the packet `id`, and all are lost.
    fn is_ack_loss(&self, (end, id): (u64, u64), now: Time) -> bool {
        let lost = |a: &Ack| a.lost.is_some_and(|l| l.0 <= now && l.1 != Fate::DroppedByAgent);
        let mut acks = self.acks.iter().filter(|a| a.ack >= end && a.id < id).peekable();
        acks.peek().is_some() && acks.all(lost)
    }

    fn counts(&self, now: Time) -> GroundTruthCounts {
        let by_ack_loss = self.timeouts.iter().filter(|t| self.is_ack_loss(**t, now)).count();
        let spurious = self.timeouts.len() - by_ack_loss;
        GroundTruthCounts {
            timeouts: self.counts.timeouts + spurious as u64,
            ack_loss: by_ack_loss as u64,
            ..self.counts
        }
    }

    fn lost_copies(&self) -> Vec<(u64, i32, Fate)> {
        let mut sorted = self.lost_copies.clone();
        sorted.sort_by_key(|g| g.0);
        sorted
    }
}
