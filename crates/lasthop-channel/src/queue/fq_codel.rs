//! FQ-CoDel: one CoDel queue per flow, served by deficit round robin; flows without a standing
//! queue go first.
//!
//! Source: RFC 8290 (sections 4.1 and 4.2; constants: section 5.2). Flows are hashed by connection
//! into `flows` queues, so collisions are possible. When the total limit is exceeded, the queue
//! with the most bytes drops half of its frames from the head, at most 64. The hash has no salt
//! (the RFC's salt protects against attackers), so it does not depend on the seed of the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Backlog, Codel, Law, State};
use super::discipline::{
    Fault, Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued,
};
use super::drop_reason;
use super::fifo::excess;
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::ring::Ring;
use lasthop_core::segment::Flags;
use lasthop_core::units::{Duration, QueueLimit, Size, Time};

/// One CoDel queue per flow, served by deficit round robin; flows without a standing queue go
/// first. Default limit: 10240 packets (RFC 8290, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodel {
    /// CoDel's target, for each queue. Default: 5 ms.
    pub target: Duration,
    /// CoDel's interval, for each queue. Default: 100 ms.
    pub interval: Duration,
    /// Mark ECN-capable frames instead of dropping them. Default: true, as in Linux.
    pub ecn: bool,
    /// Bytes that a flow may send per round. Default: 1514 B.
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
}

impl QueueSettings for FqCodel {
    type Queue = FqCodelQueue;

    fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> FqCodelQueue {
        FqCodelQueue::new(self, limit, link)
    }

    fn default_limit() -> Option<QueueLimit> {
        Some(QueueLimit::Packets(10_240))
    }

    fn check(&self) -> Result<(), Fault> {
        self.codel().check()?;
        // A smaller quantum does not improve fairness; it only takes more rounds to send a frame.
        if !matches!(self.quantum, Size::Bytes(256..=65_535)) {
            let found = lasthop_core::units::Quantity::text(&self.quantum);
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

    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        frame.is_first_of_flow
            && match reason {
                drop_reason::FATTEST => frame.exceeds_limit,
                drop_reason::CODEL => !frame.is_marked_instead(self.ecn),
                _ => false,
            }
    }

    fn may_mark(&self, reason: &str, _frame: &Queued) -> bool {
        self.ecn && reason == drop_reason::CODEL
    }

    fn may_send(&self, frame: &Queued) -> bool {
        frame.is_first_of_flow
    }

    fn sample(s: &mut Sample<'_>) -> Self {
        let Codel { target, interval, ecn } = Codel::sample(s);
        let quantum = Size::Bytes(s.whole(256, 3000));
        // Few queues make flows share one.
        let flows = if s.flag() { 1024 } else { s.whole(1, 4) as u32 };
        FqCodel { target, interval, ecn, quantum, flows }
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// FQ-CoDel is full, and this flow has the most bytes queued.
    pub const FATTEST: &str = "fattest flow";
}

/// Maximum number of frames that a full queue drops at once (RFC 8290, section 4.1).
const BATCH: u32 = 64;

const NONE: u32 = u32::MAX;

/// The frames of all flows, as one linked list per flow.
#[derive(Clone, Debug, Default)]
struct Frames {
    slots: Vec<(Frame, u32)>,
    free: Vec<u32>,
    load: Load,
}

/// The queue of a flow, or of several flows with the same hash.
#[derive(Clone, Copy, Debug)]
struct FlowQueue {
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
    /// Bytes that it may still send in this round.
    credit: i64,
    /// True if it is in the list of new or of old flows.
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

/// A flow's queue, as an argument for CoDel.
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
    /// Flows that became active and have not used their first quantum.
    new: Ring<u32>,
    /// Flows that have used their first quantum.
    old: Ring<u32>,
}

impl FqCodelQueue {
    /// A discipline with empty queues.
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

    /// Index of the queue for a frame's flow. Datagram streams are separate from connections.
    fn queue_of(&self, frame: &Frame) -> usize {
        let key = u64::from(frame.flow) | u64::from(frame.flags.has(Flags::DATAGRAM)) << 32;
        (self.hash.bits(key) % self.flows.len() as u64) as usize
    }

    /// Appends the frame to its flow's queue, regardless of the limit.
    fn append(&mut self, frame: Frame) {
        let i = self.queue_of(&frame);
        let flow = &mut self.flows[i];
        self.frames.push(flow, frame);
        if !std::mem::replace(&mut flow.listed, true) {
            flow.credit = self.quantum;
            self.new.push(i as u32);
        }
    }

    /// Drops frames of the flow with the most bytes.
    fn drop_from_fattest(&mut self, outcomes: &mut Vec<Outcome>) {
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
        self.append(frame);
        while excess(self.frames.load, self.limit).is_some() {
            self.drop_from_fattest(outcomes);
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
                    // An empty new flow moves to the old flows once. Otherwise a flow that sends
                    // one frame at a time would always be new and starve the old ones.
                    flow.listed = is_new;
                    if is_new {
                        self.old.push(i);
                    }
                }
            }
        }
    }

    fn pass(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) -> bool {
        self.append(frame);
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

    /// Flow f has the frame numbers 100 f, 100 f + 1, ….
    fn flow_of(frames: &[u32]) -> Vec<u32> {
        frames.iter().map(|f| f / 100).collect()
    }

    #[test]
    fn sparse_flow_overtakes_a_bulk_flow() {
        let mut b = bench(1000);
        (0..10).for_each(|i| b.offer_frame(0, 100 + i, PLAIN, 1000, 1));
        // The bulk flow has sent its quantum of 1514 bytes: two frames.
        assert_eq!([b.take(0), b.take(0)], [Some(100), Some(101)]);
        b.offer_frame(1, 200, PLAIN, 100, 2);
        assert_eq!([b.take(1), b.take(1), b.take(1)], [Some(200), Some(102), Some(103)]);
        // The second frame of the sparse flow, now an old flow, does not wait for all of the bulk
        // flow.
        b.offer_frame(2, 201, PLAIN, 100, 2);
        let rest = b.take_all(2);
        assert!(rest.iter().position(|&f| f == 201).unwrap() <= 2, "{rest:?}");
    }

    /// Fairness is by bytes, not by frames: frames of 1500 and of 300 bytes.
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
    fn frames_of_a_flow_stay_in_order() {
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
            "not served in turn: {taken:?}"
        );
    }

    #[test]
    fn full_queue_drops_from_the_head_of_the_fattest_flow() {
        let mut b = bench(20);
        (0..4).for_each(|i| b.offer_frame(0, 200 + i, PLAIN, 1000, 2));
        (0..17).for_each(|i| b.offer_frame(0, 100 + i, PLAIN, 1000, 1));
        // Half of the flow's 17 frames, rounded up.
        assert_eq!(
            b.dropped(),
            (0..9).map(|i| (100 + i, drop_reason::FATTEST)).collect::<Vec<_>>()
        );
        assert_eq!(b.queue.load(), Load { packets: 12, bytes: 12_000 });
        let left = b.take_all(0);
        assert_eq!((left.len(), left.iter().filter(|f| **f / 100 == 2).count()), (12, 4));
    }

    #[test]
    fn drops_at_most_64_frames_at_once() {
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

    /// The limit excludes the frame being sent: an idle link sends a frame larger than the limit,
    /// as with DropTail.
    #[test]
    fn limit_excludes_the_frame_being_sent() {
        let mut b = Bench::new(FqCodelQueue::new(
            &FqCodel::default(),
            Some(QueueLimit::Bytes(500)),
            &FACTS,
        ));
        assert!(b.pass(0, 1, PLAIN) && b.outcomes.is_empty() && b.queue.load() == Load::default());
    }

    /// Each flow has separate CoDel state: the bulk flow is marked, the sparse one is not.
    #[test]
    fn only_the_queued_flow_is_marked() {
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
    fn idle_flows_return_as_new_flows() {
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
        // All slots are reused.
        assert_eq!((b.queue.frames.slots.len(), b.queue.frames.free.len()), (3, 3));
    }

    #[test]
    fn datagrams_and_connections_with_the_same_id_are_separate_flows() {
        let q = bench(1).queue;
        let frame = |flags| Frame { flow: 7, flags, ..Frame::default() };
        assert_ne!(q.queue_of(&frame(PLAIN)), q.queue_of(&frame(Flags::DATAGRAM)));
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let key = |fq: FqCodel| fq.check().map_err(|e| e.0);
        let fq = FqCodel::default();
        assert_eq!(key(fq), Ok(()));
        assert_eq!(key(FqCodel { quantum: Size::Segments(1.0), ..fq }), Err("quantum"));
        assert_eq!(key(FqCodel { quantum: Size::Bytes(0), ..fq }), Err("quantum"));
        assert_eq!(key(FqCodel { flows: 0, ..fq }), Err("flows"));
        assert_eq!(key(FqCodel { target: Duration::ZERO, ..fq }), Err("target"));
    }
}
