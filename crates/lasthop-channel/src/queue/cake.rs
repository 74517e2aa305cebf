//! CAKE: one queue per flow without collisions, fair to hosts and to the flows of each, and COBALT
//! in each queue.
//!
//! Source: Høiland-Jørgensen, Täht and Morton, "Piece of CAKE: a comprehensive queue management
//! solution for home gateways", LANMAN 2018; Linux (`sch_cake.c`), whose constants these are.
//!
//! Flows are hashed into 1024 queues in sets of 8 (`cake_hash`): a flow whose queue another one
//! uses takes any free one of the set. DRR++ serves flows that have just become active once before
//! the others. A flow's quantum is divided by the number of its host's busy flows, so that hosts
//! get equal shares ([`Isolation`], `cake_dequeue`).
//!
//! COBALT is CoDel whose drop rate falls as it rose, by 1 in each interval, instead of ending at
//! once, and BLUE, which drops at random with a probability that rises by 1/256 when the queue is
//! full and falls by 1/4096 when it is empty. CoDel marks ECN-capable frames, BLUE drops them. The
//! target is at least 1.5 full frames at the link's rate, and frames that waited for less than four
//! are not dropped. The last frame of a queue is never dropped.
//!
//! Redundant ACKs may be removed ([`AckFilter`]). Without the shaper, whose place the link's rate
//! takes, and without overheads and DiffServ tins: packets have no DSCP here, and the only tin in
//! use, Best Effort, has the whole rate. The kernel rounds divided quanta at random; they have
//! fractions here. It hashes hosts into 1024 entries; here each host has its count.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ack_filter::AckFilter;
use super::cobalt::{Cobalt, Law};
use super::discipline::{
    Fault, Frame, Headers, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued,
};
use super::drop_reason;
use super::fifo::{Fifo, excess};
use super::isolation::{BusyFlows, Hosts, Isolation};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::ring::Ring;
use lasthop_core::units::{Duration, QueueLimit, Time};

/// CAKE: a queue for each flow, with COBALT, fair to hosts and to the flows of each. Default limit:
/// 10240 packets, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cake {
    /// Round-trip time of the flows, COBALT's interval. Default: 100 ms (tc-cake(8), "internet").
    pub rtt: Duration,
    /// COBALT's target, at least; default: 5 ms.
    pub target: Duration,
    /// Mark ECN-capable frames instead of dropping them, except at random. Default: true, as in
    /// Linux.
    pub ecn: bool,
    /// What the link is shared between. Default: `triple-isolate`, as in Linux.
    pub isolation: Isolation,
    /// Remove ACKs that later ones make redundant. Default: off, as in Linux.
    pub ack_filter: AckFilter,
}

impl Default for Cake {
    fn default() -> Self {
        Cake {
            rtt: Duration::millis(100),
            target: Duration::millis(5),
            ecn: true,
            isolation: Isolation::TripleIsolate,
            ack_filter: AckFilter::Off,
        }
    }
}

impl QueueSettings for Cake {
    type Queue = CakeQueue;
    const IS_RANDOM: bool = true;
    const READS_SOURCE: bool = true;

    fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> CakeQueue {
        CakeQueue::new(self, limit, link)
    }

    fn default_limit() -> Option<QueueLimit> {
        Some(QueueLimit::Packets(10_240))
    }

    fn check(&self) -> Result<(), Fault> {
        if self.target == Duration::ZERO {
            return Err(("target", "must be above 0 s".into()));
        }
        if self.rtt <= self.target {
            let text = format!("must be above target = {}, found {}", self.target, self.rtt);
            return Err(("rtt", text));
        }
        Ok(())
    }

    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        frame.is_first_of_flow
            && match reason {
                drop_reason::FATTEST => frame.exceeds_limit,
                drop_reason::BLUE => true,
                drop_reason::COBALT => !frame.is_marked_instead(self.ecn),
                _ => false,
            }
    }

    fn may_mark(&self, reason: &str, _frame: &Queued) -> bool {
        self.ecn && reason == drop_reason::COBALT
    }

    fn filters(&self) -> bool {
        self.ack_filter != AckFilter::Off
    }

    fn may_filter(&self, frame: &Queued) -> bool {
        match self.ack_filter {
            AckFilter::Off => false,
            AckFilter::On => !frame.is_last_of_flow,
            AckFilter::Aggressive => true,
        }
    }

    fn may_send(&self, frame: &Queued) -> bool {
        frame.is_first_of_flow
    }

    fn sample(s: &mut Sample<'_>) -> Self {
        let target = s.whole(1, 50);
        Cake {
            target: Duration::millis(target),
            rtt: Duration::millis(target + s.whole(1, 200)),
            ecn: s.flag(),
            isolation: Isolation::ALL[s.whole(0, 7) as usize],
            ack_filter: AckFilter::ALL[s.whole(0, 2) as usize],
        }
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// CoDel's part of COBALT.
    pub const COBALT: &str = "cobalt";
    /// BLUE's part of COBALT.
    pub const BLUE: &str = "blue";
}

/// Queues (`CAKE_QUEUES`), and those of a set (`CAKE_SET_WAYS`).
const QUEUES: usize = 1024;
const WAYS: usize = 8;
/// Where a flow is in the rotation (`CAKE_SET_NONE` and so on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    /// Has just become active.
    Sparse,
    /// In the rotation of busy flows, but empty at its first turn there.
    SparseWait,
    Bulk,
    /// Empty, with a state of COBALT that has not come to rest.
    Decaying,
}

/// The lists of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// Flows that have not used their first quantum.
    New,
    /// Flows that have used it.
    Old,
    /// Empty flows.
    Decaying,
}

/// A queue, of one flow or, in a full set, of several.
#[derive(Clone, Debug)]
struct FlowQueue {
    fifo: Fifo,
    /// Hash of the flow that has or had the queue.
    tag: u64,
    hosts: Hosts,
    place: Place,
    /// Bytes that it may still send in this round.
    credit: f64,
    cobalt: Cobalt,
}

/// The queues of CAKE.
#[derive(Clone, Debug)]
pub struct CakeQueue {
    limit: Option<QueueLimit>,
    law: Law,
    quantum: f64,
    isolation: Isolation,
    ack_filter: Option<AckFilter>,
    hash: Stream,
    draws: Stream,
    judged: u64,
    load: Load,
    flows: Vec<FlowQueue>,
    busy: BusyFlows,
    new: Ring<u32>,
    old: Ring<u32>,
    decaying: Ring<u32>,
}

impl CakeQueue {
    /// A discipline with empty queues.
    fn new(settings: &Cake, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> CakeQueue {
        let empty = FlowQueue {
            fifo: Fifo::new(None),
            tag: u64::MAX,
            hosts: Hosts::default(),
            place: Place::Nowhere,
            credit: 0.0,
            cobalt: Cobalt::default(),
        };
        let quantum = match (link.rate.0 / 8) >> 12 {
            0 if link.rate.0 == 0 => 1514,
            bytes => bytes.clamp(300, 1514),
        };
        CakeQueue {
            limit,
            law: Law::new([settings.target, settings.rtt], settings.ecn, link),
            quantum: quantum as f64,
            isolation: settings.isolation,
            ack_filter: settings.filters().then_some(settings.ack_filter),
            hash: Stream::new(0, "cake"),
            draws: Stream::new(link.seed, &format!("cake {}", link.name)),
            judged: 0,
            load: Load::default(),
            flows: vec![empty; QUEUES],
            busy: BusyFlows::default(),
            new: Ring::default(),
            old: Ring::default(),
            decaying: Ring::default(),
        }
    }

    /// Index of the queue for a frame's flow (`cake_hash`).
    fn queue_of(&self, frame: &Frame) -> (usize, u64) {
        let tag = self.hash.bits(self.isolation.key(frame));
        let direct = (tag % QUEUES as u64) as usize;
        let (set, first) = (direct / WAYS * WAYS, direct % WAYS);
        let members = || (0..WAYS).map(move |i| set + (first + i) % WAYS);
        let reserved = members().find(|&q| self.flows[q].tag == tag);
        let free = || members().find(|&q| self.flows[q].place == Place::Nowhere);
        (reserved.or_else(free).unwrap_or(direct), tag)
    }

    /// Bytes that a flow may send in a round: the more busy flows its host has, the fewer.
    fn quantum_of(&self, q: usize) -> f64 {
        self.quantum / f64::from(self.busy.host_load(self.isolation, self.flows[q].hosts))
    }

    /// The flow moves to another place; its hosts have one busy flow more or less.
    fn set_place(&mut self, q: usize, place: Place) {
        let FlowQueue { hosts, place: before, .. } = self.flows[q];
        match (before == Place::Bulk, place == Place::Bulk) {
            (false, true) => self.busy.add(hosts),
            (true, false) => self.busy.remove(hosts),
            _ => {}
        }
        self.flows[q].place = place;
    }

    /// The queue is that of another flow from now on; the frames that wait remain in it.
    fn reserve(&mut self, q: usize, tag: u64, hosts: Hosts) {
        // The flow that has the queue now counts as a busy one, if the queue is in the rotation.
        let place = self.flows[q].place;
        self.set_place(q, Place::Nowhere);
        (self.flows[q].tag, self.flows[q].hosts) = (tag, hosts);
        self.set_place(q, place);
    }

    fn pop(&mut self, q: usize) -> Option<Frame> {
        let frame = self.flows[q].fifo.pop()?;
        self.leaves(&frame);
        Some(frame)
    }

    fn leaves(&mut self, frame: &Frame) {
        self.load.packets -= 1;
        self.load.bytes -= u64::from(frame.bytes);
    }

    /// The longest queue loses its first frame (`cake_drop`).
    fn drop_from_fattest(&mut self, now: Time, outcomes: &mut Vec<Outcome>) {
        let bytes = |q: &u32| self.flows[*q as usize].fifo.load().bytes;
        let listed = [&self.new, &self.old].into_iter().flat_map(Ring::iter).copied();
        let Some(q) = listed.max_by_key(|q| (bytes(q), std::cmp::Reverse(*q))) else { return };
        let (q, law) = (q as usize, self.law);
        self.flows[q].cobalt.on_full(&law, now);
        if let Some(frame) = self.pop(q) {
            frame.drop(drop_reason::FATTEST, outcomes);
        }
    }

    fn list(&mut self, list: List) -> &mut Ring<u32> {
        match list {
            List::New => &mut self.new,
            List::Old => &mut self.old,
            List::Decaying => &mut self.decaying,
        }
    }

    /// The flow whose turn it is, and its list; in the first turn of a dequeuing one whose state
    /// decays (`cake_dequeue`).
    fn in_turn(&self, first: bool) -> Option<(List, usize)> {
        let of = |list, ring: &Ring<u32>| ring.front().map(|&q| (list, q as usize));
        let decaying = || of(List::Decaying, &self.decaying);
        let first = if first { decaying() } else { None };
        let busy = || of(List::New, &self.new).or_else(|| of(List::Old, &self.old));
        first.or_else(busy).or_else(decaying)
    }

    /// Takes an empty flow off the list that it is in.
    fn unlist(&mut self, q: usize) {
        for list in [List::Decaying, List::Old] {
            let ring = self.list(list);
            if let Some(i) = (0..ring.len()).find(|&i| ring.get(i) == Some(&(q as u32))) {
                ring.remove(i);
                return;
            }
        }
    }

    /// A flow without credit gets its quantum and waits for its next turn among the busy ones.
    fn renew(&mut self, q: usize) {
        if self.flows[q].place == Place::Sparse {
            let is_empty = self.flows[q].fifo.load().packets == 0;
            self.set_place(q, if is_empty { Place::SparseWait } else { Place::Bulk });
        }
        self.flows[q].credit += self.quantum_of(q);
        self.old.push(q as u32);
    }

    /// A flow whose turn it was is empty.
    fn rest(&mut self, q: usize, now: Time) {
        let law = self.law;
        self.flows[q].cobalt.on_empty(&law, now);
        if self.flows[q].cobalt.is_at_rest(now) {
            self.set_place(q, Place::Nowhere);
        } else {
            self.set_place(q, Place::Decaying);
            self.decaying.push(q as u32);
        }
    }

    /// The flow's next frame that is not dropped; `None` if it was empty.
    fn serve(&mut self, q: usize, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        let law = self.law;
        loop {
            let mut frame = self.pop(q)?;
            let flow = &mut self.flows[q];
            let draw = self.draws.uniform(self.judged);
            self.judged += 1;
            let is_last = flow.fifo.load().packets == 0;
            match flow.cobalt.judge(&law, now, &mut frame, draw, outcomes) {
                Some(reason) if !is_last => frame.drop(reason, outcomes),
                _ => {
                    flow.credit -= f64::from(frame.bytes);
                    return Some(frame);
                }
            }
        }
    }

    /// Appends the frame to its flow's queue, regardless of the limit.
    fn add(&mut self, frame: Frame) {
        let (q, tag) = self.queue_of(&frame);
        if self.flows[q].tag != tag || self.flows[q].place == Place::Nowhere {
            self.reserve(q, tag, Hosts::of(&frame));
        }
        self.load = self.load.plus(Load { packets: 1, bytes: frame.bytes.into() });
        self.flows[q].fifo.push(frame);
        match self.flows[q].place {
            place @ (Place::Nowhere | Place::Decaying) => {
                if place == Place::Decaying {
                    self.unlist(q);
                }
                self.flows[q].credit = self.quantum_of(q);
                self.set_place(q, Place::Sparse);
                self.new.push(q as u32);
            }
            Place::SparseWait => self.set_place(q, Place::Bulk),
            Place::Sparse | Place::Bulk => {}
        }
    }
}

impl QueueDiscipline for CakeQueue {
    fn filter(&mut self, arriving: &Frame, headers: &dyn Headers, outcomes: &mut Vec<Outcome>) {
        let Some(filter) = self.ack_filter else { return };
        let (q, _) = self.queue_of(arriving);
        let fifo = &mut self.flows[q].fifo;
        let redundant = filter.redundant(fifo.iter(), arriving, headers);
        if let Some(frame) = redundant.and_then(|i| fifo.remove(i)) {
            self.leaves(&frame);
            outcomes.push(Outcome::Filtered { handle: frame.handle, by: arriving.handle });
        }
    }

    fn enqueue(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
        self.add(frame);
        while excess(self.load, self.limit).is_some() && self.load.packets > 0 {
            self.drop_from_fattest(now, outcomes);
        }
    }

    fn dequeue(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        let mut first = true;
        while self.load.packets > 0 {
            let (list, q) = self.in_turn(std::mem::take(&mut first))?;
            if self.flows[q].credit <= 0.0 {
                self.list(list).pop();
                self.renew(q);
            } else if let Some(frame) = self.serve(q, now, outcomes) {
                return Some(frame);
            } else {
                self.list(list).pop();
                self.rest(q, now);
            }
        }
        None
    }

    fn pass(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) -> bool {
        self.add(frame);
        self.dequeue(now, outcomes).is_some()
    }

    fn load(&self) -> Load {
        self.load
    }

    fn has_room(&self, bytes: u32) -> bool {
        excess(self.load.plus(Load { packets: 1, bytes: bytes.into() }), self.limit).is_none()
    }
}

#[cfg(test)]
mod tests;
