//! FQ-CoDel: a queue for each flow, each with CoDel, served in turn by bytes; flows that do not
//! build a queue go first.
//!
//! Source: RFC 8290 (sections 4.1 and 4.2; constants: section 5.2). Flows are hashed by connection
//! into `flows` queues, so that few may share one. When all queues together are full, the one with
//! most bytes gives from its head half its frames, at most 64. The hash is not salted (the RFC's
//! salt guards against attackers): the seed of a run changes nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Backlog, Codel, Law, State};
use super::config::Fault;
use super::fifo::excess;
use super::{Frame, LinkFacts, Load, Outcome, QueueDiscipline, drop_reason};
use crate::random::Stream;
use crate::ring::Ring;
use crate::segment::Flags;
use crate::units::{Duration, QueueLimit, Size, Time};

/// Settings of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodel {
    /// CoDel's target, for each queue. Default: 5 ms.
    pub target: Duration,
    /// CoDel's interval, for each queue. Default: 100 ms.
    pub interval: Duration,
    /// Marks ECN-capable frames instead of dropping them. Default: true, as in Linux.
    pub ecn: bool,
    /// Bytes that a flow may send in its turn. Default: 1514 B.
    pub quantum: Size,
    /// Number of queues. Default: 1024.
    pub flows: u32,
}

impl Default for FqCodel {
    fn default() -> Self {
        let Codel { target, interval, .. } = Codel::default();
        FqCodel { target, interval, ecn: true, quantum: Size::Bytes(1514), flows: 1024 }
    }
}

impl FqCodel {
    fn codel(&self) -> Codel {
        Codel { target: self.target, interval: self.interval, ecn: self.ecn }
    }

    /// Checks the values against each other.
    pub fn check(&self) -> Result<(), Fault> {
        self.codel().check()?;
        // A smaller one gains no fairness: it only takes more turns until a frame may go.
        if !matches!(self.quantum, Size::Bytes(256..=65_535)) {
            let found = crate::units::Quantity::text(&self.quantum);
            return Err((
                "quantum",
                format!("expected bytes such as \"1514 B\", from 256 to 65535, found \"{found}\""),
            ));
        }
        if !(1..=65_536).contains(&self.flows) {
            return Err(("flows", format!("expected 1 to 65536 queues, found {}", self.flows)));
        }
        Ok(())
    }
}

/// RFC 8290, section 4.1: a full queue drops at most so many frames at once.
const BATCH: u32 = 64;

const NONE: u32 = u32::MAX;

/// The frames of all flows: a linked list for each of them.
#[derive(Clone, Debug, Default)]
struct Frames {
    slots: Vec<(Frame, u32)>,
    free: Vec<u32>,
    load: Load,
}

/// The queue of a flow, or of a few with the same hash.
#[derive(Clone, Copy, Debug)]
struct FlowQueue {
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
    /// Bytes it may still send in its turn.
    credit: i64,
    /// It is on one of the lists.
    listed: bool,
    codel: State,
}

impl FlowQueue {
    fn empty() -> FlowQueue {
        FlowQueue {
            head: NONE,
            tail: NONE,
            packets: 0,
            bytes: 0,
            credit: 0,
            listed: false,
            codel: State::default(),
        }
    }
}

impl Frames {
    fn push(&mut self, flow: &mut FlowQueue, frame: Frame) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push((frame, NONE));
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize] = (frame, NONE);
        match self.slots.get_mut(flow.tail as usize) {
            Some(last) => last.1 = slot,
            None => flow.head = slot,
        }
        flow.tail = slot;
        flow.packets += 1;
        flow.bytes += u64::from(frame.bytes);
        self.load = self.load.plus(Load { packets: 1, bytes: frame.bytes.into() });
    }

    fn pop(&mut self, flow: &mut FlowQueue) -> Option<Frame> {
        let &(frame, next) = self.slots.get(flow.head as usize)?;
        self.free.push(flow.head);
        flow.head = next;
        if next == NONE {
            flow.tail = NONE;
        }
        flow.packets -= 1;
        flow.bytes -= u64::from(frame.bytes);
        self.load.packets -= 1;
        self.load.bytes -= u64::from(frame.bytes);
        Some(frame)
    }
}

/// A flow's queue as CoDel sees it.
struct Backlogged<'a> {
    frames: &'a mut Frames,
    flow: &'a mut FlowQueue,
}

impl Backlog for Backlogged<'_> {
    fn pop(&mut self) -> Option<Frame> {
        self.frames.pop(self.flow)
    }
    fn bytes(&self) -> u64 {
        self.flow.bytes
    }
}

/// The queues of FQ-CoDel.
#[derive(Clone, Debug)]
pub struct FqCodelQueue {
    limit: Option<QueueLimit>,
    quantum: i64,
    law: Law,
    hash: Stream,
    frames: Frames,
    flows: Box<[FlowQueue]>,
    /// Flows that were empty until now.
    new: Ring<u32>,
    /// Flows that have had a turn.
    old: Ring<u32>,
}

impl FqCodelQueue {
    /// Empty queues.
    pub fn new(
        settings: &FqCodel,
        limit: Option<QueueLimit>,
        link: &LinkFacts<'_>,
    ) -> FqCodelQueue {
        FqCodelQueue {
            limit,
            quantum: settings.quantum.bytes(link.full_frame).max(1) as i64,
            law: Law::new(&settings.codel(), link),
            hash: Stream::new(0, "fq-codel"),
            frames: Frames::default(),
            flows: vec![FlowQueue::empty(); settings.flows.max(1) as usize].into(),
            new: Ring::default(),
            old: Ring::default(),
        }
    }

    /// The queue of a frame's flow. Datagrams are counted apart from connections.
    fn queue_of(&self, frame: &Frame) -> usize {
        let key = u64::from(frame.flow) | u64::from(frame.flags.has(Flags::DATAGRAM)) << 32;
        (self.hash.bits(key) % self.flows.len() as u64) as usize
    }

    /// The frame joins its flow, whatever the limit says.
    fn join(&mut self, frame: Frame) {
        let i = self.queue_of(&frame);
        let flow = &mut self.flows[i];
        self.frames.push(flow, frame);
        if !std::mem::replace(&mut flow.listed, true) {
            flow.credit = self.quantum;
            self.new.push(i as u32);
        }
    }

    /// Room is made at the expense of the flow with most bytes.
    fn shed(&mut self, outcomes: &mut Vec<Outcome>) {
        let Some(fattest) = self.flows.iter_mut().rev().max_by_key(|f| (f.bytes, f.packets)) else {
            return;
        };
        for _ in 0..fattest.packets.div_ceil(2).min(BATCH) {
            if let Some(frame) = self.frames.pop(fattest) {
                frame.drop(drop_reason::FATTEST, outcomes);
            }
        }
    }
}

impl QueueDiscipline for FqCodelQueue {
    fn enqueue(&mut self, _now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
        self.join(frame);
        while excess(self.frames.load, self.limit).is_some() {
            self.shed(outcomes);
        }
    }

    fn dequeue(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let i = *list.front()?;
            let flow = &mut self.flows[i as usize];
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                list.pop();
                self.old.push(i);
                continue;
            }
            let mut backlog = Backlogged { frames: &mut self.frames, flow: &mut *flow };
            let mut state = backlog.flow.codel;
            let frame = self.law.dequeue(&mut state, now, &mut backlog, outcomes);
            flow.codel = state;
            match frame {
                Some(frame) => {
                    flow.credit -= i64::from(frame.bytes);
                    return Some(frame);
                }
                None => {
                    list.pop();
                    // A new flow that is empty waits its turn once, else a flow that sends one
                    // frame at a time would always be new and starve the old ones.
                    flow.listed = is_new;
                    if is_new {
                        self.old.push(i);
                    }
                }
            }
        }
    }

    fn pass(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) -> bool {
        self.join(frame);
        self.dequeue(now, outcomes).is_some()
    }

    fn load(&self) -> Load {
        self.frames.load
    }

    fn has_room(&self, bytes: u32) -> bool {
        excess(self.frames.load.plus(Load { packets: 1, bytes: bytes.into() }), self.limit)
            .is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, ECT, FACTS, PLAIN};
    use super::*;

    fn bench(limit: u64) -> Bench<FqCodelQueue> {
        Bench::new(FqCodelQueue::new(&FqCodel::default(), Some(QueueLimit::Packets(limit)), &FACTS))
    }

    /// Frames of flow f have the numbers 100 f, 100 f + 1, and so on.
    fn flow_of(frames: &[u32]) -> Vec<u32> {
        frames.iter().map(|f| f / 100).collect()
    }

    #[test]
    fn a_thin_flow_overtakes_a_bulk_flow() {
        let mut b = bench(1000);
        (0..10).for_each(|i| b.offer_frame(0, 100 + i, PLAIN, 1000, 1));
        // The bulk flow has had its turn of 1514 bytes: two frames.
        assert_eq!([b.take(0), b.take(0)], [Some(100), Some(101)]);
        b.offer_frame(1, 200, PLAIN, 100, 2);
        assert_eq!([b.take(1), b.take(1), b.take(1)], [Some(200), Some(102), Some(103)]);
        // A second one behind the first finds its flow on the list of old ones, but not behind all
        // of the bulk.
        b.offer_frame(2, 201, PLAIN, 100, 2);
        let rest = b.take_all(2);
        assert!(rest.iter().position(|&f| f == 201).unwrap() <= 2, "{rest:?}");
    }

    /// By bytes, not by frames: 1500 bytes against 300, three times each in all.
    #[test]
    fn two_flows_share_by_bytes() {
        let mut b = bench(1000);
        (0..60).for_each(|i| b.offer_frame(0, 100 + i, PLAIN, 1500, 1));
        (0..60).for_each(|i| b.offer_frame(0, 200 + i, PLAIN, 300, 2));
        let (mut large, mut small) = (0u32, 0u32);
        for _ in 0..60 {
            match b.take(0).map(|f| f / 100) {
                Some(1) => large += 1500,
                Some(2) => small += 300,
                other => panic!("{other:?}"),
            }
            assert!(large.abs_diff(small) <= 2 * 1514, "{large} {small}");
        }
    }

    #[test]
    fn frames_of_a_flow_keep_their_order() {
        let mut b = bench(1000);
        for i in 0..30 {
            (1..=3)
                .for_each(|flow| b.offer_frame(0, 100 * flow + i, PLAIN, 100 + 300 * flow, flow));
        }
        let taken = b.take_all(0);
        for flow in 1..=3 {
            let own: Vec<u32> =
                taken.iter().filter(|f| **f / 100 == flow).map(|f| f % 100).collect();
            assert_eq!(own, (0..30).collect::<Vec<u32>>());
        }
        assert!(
            flow_of(&taken[..60]).windows(10).all(|w| (1..=3).all(|flow| w.contains(&flow))),
            "they take turns: {taken:?}"
        );
    }

    #[test]
    fn a_full_queue_takes_from_the_head_of_the_fattest_flow() {
        let mut b = bench(20);
        (0..4).for_each(|i| b.offer_frame(0, 200 + i, PLAIN, 1000, 2));
        (0..17).for_each(|i| b.offer_frame(0, 100 + i, PLAIN, 1000, 1));
        // Half of its 17 frames.
        assert_eq!(
            b.dropped(),
            (0..9).map(|i| (100 + i, drop_reason::FATTEST)).collect::<Vec<_>>()
        );
        assert_eq!(b.queue.load(), Load { packets: 12, bytes: 12_000 });
        let left = b.take_all(0);
        assert_eq!((left.len(), left.iter().filter(|f| **f / 100 == 2).count()), (12, 4));
    }

    #[test]
    fn no_more_than_64_at_once_and_in_bytes_as_many_as_it_takes() {
        let mut b = bench(200);
        (0..201).for_each(|i| b.offer_frame(0, 1000 + i, PLAIN, 1000, 1));
        assert_eq!(b.dropped().len(), 64);
        let mut b = Bench::new(FqCodelQueue::new(
            &FqCodel::default(),
            Some(QueueLimit::Bytes(2500)),
            &FACTS,
        ));
        b.offer_frame(0, 100, PLAIN, 1000, 1);
        b.offer_frame(0, 200, PLAIN, 9000, 2);
        assert_eq!((b.dropped(), b.queue.load().packets), (vec![(200, drop_reason::FATTEST)], 1));
    }

    /// The frame being sent does not count: on an idle link one that is larger than the limit is
    /// sent, as with DropTail.
    #[test]
    fn a_limit_is_for_those_who_wait() {
        let mut b = Bench::new(FqCodelQueue::new(
            &FqCodel::default(),
            Some(QueueLimit::Bytes(500)),
            &FACTS,
        ));
        assert!(b.pass(0, 1, PLAIN) && b.outcomes.is_empty() && b.queue.load() == Load::default());
    }

    /// Each flow has a CoDel of its own: the bulk flow is marked, the thin one never.
    #[test]
    fn only_the_flow_that_waits_is_marked() {
        let mut b = bench(10_000);
        (0..3000).for_each(|i| b.offer_frame(0, 10_000 + i, ECT, 1000, 1));
        for ms in 0..1000 {
            if ms % 10 == 0 {
                b.offer_frame(ms, 1, ECT, 100, 2);
            }
            b.take(ms);
        }
        assert!(b.marked().len() > 10 && b.marked().iter().all(|&f| f >= 10_000));
        assert!(b.dropped().is_empty());
    }

    #[test]
    fn flows_that_went_idle_are_forgotten_and_come_back_as_new() {
        let mut b = bench(100);
        for round in 0..5 {
            (1..=3).for_each(|flow| b.offer_frame(round, 100 * flow, PLAIN, 1000, flow));
            assert_eq!(b.take_all(round).len(), 3);
            assert_eq!(b.take(round), None);
            assert!(
                b.queue.new.is_empty()
                    && b.queue.old.is_empty()
                    && b.queue.flows.iter().all(|f| !f.listed)
            );
        }
        // No slot was lost.
        assert_eq!((b.queue.frames.slots.len(), b.queue.frames.free.len()), (3, 3));
    }

    #[test]
    fn datagrams_and_connections_of_one_number_are_two_flows() {
        let q = bench(1).queue;
        let frame = |flags| Frame { flow: 7, flags, ..Frame::default() };
        assert_ne!(q.queue_of(&frame(PLAIN)), q.queue_of(&frame(Flags::DATAGRAM)));
    }

    #[test]
    fn senseless_settings() {
        let key = |fq: FqCodel| fq.check().map_err(|e| e.0);
        let fq = FqCodel::default();
        assert_eq!(key(fq), Ok(()));
        assert_eq!(key(FqCodel { quantum: Size::Segments(1.0), ..fq }), Err("quantum"));
        assert_eq!(key(FqCodel { quantum: Size::Bytes(0), ..fq }), Err("quantum"));
        assert_eq!(key(FqCodel { flows: 0, ..fq }), Err("flows"));
        assert_eq!(key(FqCodel { target: Duration::ZERO, ..fq }), Err("target"));
    }
}
