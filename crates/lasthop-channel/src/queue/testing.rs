//! Test bench for a single queue: frames are identified by number, times are in milliseconds.

use super::{Frame, LinkFacts, Outcome, QueueDiscipline};
use lasthop_core::segment::{Flags, FlowId, NodeId};
use lasthop_core::units::{Duration, Rate, Time};

pub const PLAIN: Flags = Flags::NONE;
pub const ECT: Flags = Flags::ECT;
pub const LOW: Flags = Flags::LOW_PRIORITY;

/// A link of 800 kbit/s: a frame of 1000 bytes takes 10 ms.
pub const FACTS: LinkFacts<'static> =
    LinkFacts { name: "test", seed: 1, rate: Rate(800_000), full_frame: 1000 };

pub struct Bench<Q> {
    pub queue: Q,
    pub outcomes: Vec<Outcome>,
}

pub fn at(ms: u64) -> Time {
    Time::ZERO + Duration::millis(ms)
}

impl<Q: QueueDiscipline> Bench<Q> {
    pub fn new(queue: Q) -> Self {
        Bench { queue, outcomes: Vec::new() }
    }

    pub fn offer_frame(&mut self, ms: u64, handle: u32, flags: Flags, bytes: u32, flow: FlowId) {
        self.queue.enqueue(
            at(ms),
            Frame { handle, bytes, flow, flags, to: 0, from: 0, at: at(ms) },
            &mut self.outcomes,
        );
    }

    /// A frame of 1000 bytes of this flow to this host.
    pub fn offer_to(&mut self, ms: u64, handle: u32, flow: FlowId, to: NodeId) {
        self.offer_between(ms, handle, flow, [0, to]);
    }

    /// The same, from one host to another.
    pub fn offer_between(&mut self, ms: u64, handle: u32, flow: FlowId, [from, to]: [NodeId; 2]) {
        let frame = Frame { handle, bytes: 1000, flow, to, from, at: at(ms), ..Frame::default() };
        self.queue.enqueue(at(ms), frame, &mut self.outcomes);
    }

    pub fn offer_sized(&mut self, ms: u64, handle: u32, flags: Flags, bytes: u32) {
        self.offer_frame(ms, handle, flags, bytes, 0);
    }

    pub fn offer(&mut self, ms: u64, handle: u32, flags: Flags) {
        self.offer_sized(ms, handle, flags, 1000);
    }

    /// Enqueues frames 0 to n - 1 at the same time.
    pub fn offer_all(&mut self, ms: u64, n: u32, flags: Flags) {
        (0..n).for_each(|i| self.offer(ms, i, flags));
    }

    pub fn pass(&mut self, ms: u64, handle: u32, flags: Flags) -> bool {
        self.queue.pass(
            at(ms),
            Frame { handle, bytes: 1000, flow: 0, flags, to: 0, from: 0, at: at(ms) },
            &mut self.outcomes,
        )
    }

    pub fn take(&mut self, ms: u64) -> Option<u32> {
        self.queue.dequeue(at(ms), &mut self.outcomes).map(|f| f.handle)
    }

    /// Dequeues all waiting frames, but does not report the link as idle.
    pub fn take_all(&mut self, ms: u64) -> Vec<u32> {
        let mut taken = Vec::new();
        while self.queue.load().packets > 0 {
            taken.extend(self.take(ms));
        }
        assert_eq!(self.queue.load().bytes, 0);
        taken
    }

    pub fn marked(&self) -> Vec<u32> {
        self.outcomes
            .iter()
            .filter_map(
                |o| if let Outcome::Marked { handle, .. } = o { Some(*handle) } else { None },
            )
            .collect()
    }

    pub fn dropped(&self) -> Vec<(u32, &'static str)> {
        self.outcomes
            .iter()
            .filter_map(|o| {
                if let Outcome::Dropped { handle, reason } = o {
                    Some((*handle, *reason))
                } else {
                    None
                }
            })
            .collect()
    }
}
