//! Segments and ACKs that take the fast path over the links of the network.

use crate::events::probe::Probe;
use crate::network::Net;
use lasthop::link::Fate;
use lasthop::queue::drop_reason;
use lasthop::ring::Ring;
use lasthop::segment::{NodeId, Segment};
use lasthop::units::Time;
use std::sync::Arc;

use super::{Arrival, FastPath, PlainAck, PlainData, ReceivedAck};

#[allow(clippy::multiple_inherent_impl, reason = "one file for each way of a frame")]
impl<P: Probe> Net<P> {
    /// Adds a path from one node to another over links that frames pass in order, if there is none
    /// yet; `None` if an event is needed at a node between, or for a link.
    pub(crate) fn add_fast_path(&mut self, from: NodeId, to: NodeId) -> Option<Arc<FastPath>> {
        let route =
            |a: NodeId, b: NodeId| &self.routes[usize::from(a) * self.nodes + usize::from(b)];
        let (data, acks) = (route(from, to), route(to, from));
        let ((&last, before_last), (&last_of_acks, acks_before)) =
            (data.split_last()?, acks.split_last()?);
        let links = &self.links;
        let in_order = |l: &u32| links[*l as usize].passes_in_order();
        let plain = |l: &u32| links[*l as usize].is_plain();
        let ends = links[last as usize].to == to && links[last_of_acks as usize].to == from;
        let is_taken = self.agent_paths.ring(last_of_acks).is_some();
        if !ends || is_taken || !data.iter().all(in_order) || !acks.iter().all(in_order) {
            return None;
        }
        let loses = |l: &u32| links[*l as usize].loses_frames();
        let first_lossy = before_last.iter().position(|l| loses(l) || !plain(l));
        let first_lossy = first_lossy.or((!plain(&last)).then_some(before_last.len()));
        let safe = &before_last[..first_lossy.unwrap_or(before_last.len()).min(before_last.len())];
        let mut path = FastPath {
            data: safe.into(),
            lossy: first_lossy.map_or(Box::default(), |i| data[i..].into()),
            last,
            to,
            acks: acks_before.into(),
            acks_are_plain: acks.iter().all(|l| plain(l) && !loses(l)),
            last_of_acks,
            ring: self.fast.ring_of_link[last_of_acks as usize],
        };
        let same = |p: &&Arc<FastPath>| {
            (p.last, p.last_of_acks) == (last, last_of_acks)
                && (&p.data, &p.lossy, &p.acks) == (&path.data, &path.lossy, &path.acks)
        };
        if let Some(p) = self.fast.paths.iter().find(same) {
            return Some(Arc::clone(p));
        }
        if path.ring == u32::MAX {
            path.ring = self.fast.acks.len() as u32;
            self.fast.acks.push(Ring::default());
            self.fast.ring_of_link[last_of_acks as usize] = path.ring;
        }
        let path = Arc::new(path);
        self.fast.paths.push(Arc::clone(&path));
        Some(path)
    }

    /// True if no frame on the slow path is before a segment that is sent now.
    #[inline(always)]
    pub(crate) fn is_fast_path_open(&self) -> bool {
        self.fast.waiting == 0
    }

    /// True if the arrival of a frame at the end of the link `l` must be an event, at `arrival`: it
    /// is at the present instant, too late, or after a timer of a receiver there.
    #[inline(always)]
    pub(crate) fn arrives_later(&self, l: u32, (at, _): Arrival) -> bool {
        at.0 <= self.event.time || at >= self.until.min(self.receivers_due[l as usize])
    }

    /// Transmits a segment of new data to the receiver, now, as the next packet. Returns its
    /// arrival; `None` if that is an event, or if the segment is dropped or lost. `clear` is called
    /// before an arrival that must be an event; it is none if that returns true.
    #[inline(always)]
    pub(crate) fn transmit_data(
        &mut self,
        path: &FastPath,
        data: PlainData,
        clear: impl FnOnce(&mut Self, u32, Arrival) -> bool,
    ) -> Option<Arrival> {
        let (mut at, mut triggered_at) = (self.now, self.triggered_at);
        for &l in &*path.data {
            let Some(arrival) = self.links[l as usize].pass(at, triggered_at, data.size) else {
                self.refuse_data(l, at, &{ data }, path.to);
                return None;
            };
            // As of a link that was idle or not: its last frame is this one.
            (triggered_at, at) = (self.links[l as usize].last_start(), arrival);
        }
        if !path.lossy.is_empty() {
            let arrival = self.transmit_lossy(path, (at, triggered_at), &{ data }, clear);
            return (arrival.0 != Time::NEVER).then_some(arrival);
        }
        let (l, to) = (path.last, path.to);
        let link = &mut self.links[l as usize];
        let Some(arrival) = link.pass_busy(at, triggered_at, data.size) else {
            self.refuse_data(l, at, &{ data }, to);
            return None;
        };
        if link.loses_plain(data.size, || data.segment(self.next_id + 1, to)) {
            self.lose_data(l, &{ data }, to);
            return None;
        }
        let start = link.last_start();
        // As in `arrives_later`: with a call of that, `link` would be looked up again.
        let due = self.receivers_due[l as usize];
        if arrival.0 > self.event.time && arrival < self.until.min(due) {
            link.passed(arrival);
        } else if clear(self, l, (arrival, start)) {
            self.links[l as usize].passed(arrival);
        } else {
            self.data_arrive_by_event(l, (start, arrival), &{ data }, to);
            return None;
        }
        Some((arrival, start))
    }

    /// The rest of a path, from the first link on that loses frames, to the arrival; `NEVER` as in
    /// `transmit_data`.
    #[inline(never)]
    fn transmit_lossy(
        &mut self,
        path: &FastPath,
        (mut at, mut triggered_at): Arrival,
        data: &PlainData,
        clear: impl FnOnce(&mut Self, u32, Arrival) -> bool,
    ) -> Arrival {
        const NONE: Arrival = (Time::NEVER, Time::ZERO);
        let id = self.next_packet();
        let segment = || segment_of(data, id, path.to);
        for &l in &*path.lossy {
            let link = &mut self.links[l as usize];
            let (arrival, fate) = link.pass_in_order(at, triggered_at, data.size, segment);
            let start = link.last_start();
            match fate {
                Fate::Sent => {}
                Fate::Refused => {
                    self.refused(l, at, &segment());
                    return NONE;
                }
                Fate::Lost => {
                    self.lose(l, start, &segment());
                    return NONE;
                }
            }
            (at, triggered_at) = (arrival, start);
            if l == path.last {
                if self.arrives_later(l, (arrival, start)) && !clear(self, l, (arrival, start)) {
                    self.data_arrive_by_event(l, (start, arrival), data, path.to);
                    return NONE;
                }
                self.links[l as usize].passed(at);
                break;
            }
            self.links[l as usize].passed(at);
        }
        (at, triggered_at)
    }

    /// The segment that a plain link has passed last is lost.
    #[inline(never)]
    fn lose_data(&mut self, l: u32, data: &PlainData, to: NodeId) {
        let start = self.links[l as usize].last_start();
        self.lose(l, start, &data.segment(self.next_packet(), to));
    }

    fn lose(&mut self, l: u32, start: Time, segment: &Segment) {
        let handle = self.pool.put(*segment);
        self.links[l as usize].put_lost_in_flight(start, handle);
        self.schedule_link(l as usize);
    }

    /// The arrival of a segment at the receiver has to be an event.
    #[inline(never)]
    fn data_arrive_by_event(
        &mut self,
        l: u32,
        passage: (Time, Time),
        data: &PlainData,
        to: NodeId,
    ) {
        self.arrive_by_event(l, passage, &data.segment(self.next_packet(), to));
    }

    fn arrive_by_event(&mut self, l: u32, passage: (Time, Time), segment: &Segment) {
        let handle = self.pool.put(*segment);
        self.links[l as usize].put_in_flight(passage, handle);
        self.enter(l);
    }

    /// The queue of a link refuses a segment that would enter it at `at`.
    #[inline(never)]
    fn refuse_data(&mut self, l: u32, at: Time, data: &PlainData, to: NodeId) {
        self.refused(l, at, &data.segment(self.next_packet(), to));
    }

    /// The queue of a link refuses a frame that would enter it at `at`.
    fn refused(&mut self, l: u32, at: Time, segment: &Segment) {
        let handle = self.pool.put(*segment);
        self.dropped(l as usize, handle, drop_reason::FULL, at);
    }

    /// Transmits an ACK of `size` bytes to the sender. Returns false if it is dropped or lost.
    #[inline(always)]
    pub(crate) fn transmit_ack(&mut self, path: &FastPath, size: u32, ack: PlainAck) -> bool {
        if !path.acks_are_plain {
            return self.transmit_ack_over_variable_links(path, size, &{ ack });
        }
        let (mut at, mut triggered_at) = (ack.sent_at, ack.triggered_at);
        for &l in &*path.acks {
            let link = &mut self.links[l as usize];
            let Some(arrival) = link.pass(at, triggered_at, size) else {
                return self.refuse_ack(l, at, size, &{ ack });
            };
            (triggered_at, at) = (link.last_start(), arrival);
        }
        let l = path.last_of_acks;
        let link = &mut self.links[l as usize];
        let Some(arrival) = link.pass_last(at, triggered_at, size) else {
            return self.refuse_ack(l, at, size, &{ ack });
        };
        let start = link.last_start();
        let passage = (start, arrival);
        self.fast.acks[path.ring as usize].push(PlainAck { passage, ..ack });
        let lane = link.tag;
        if link.put_held_in_flight(passage) {
            self.schedule_arrival(l as usize, lane, (arrival, start));
        }
        true
    }

    /// As `transmit_ack`, where a rate or a delay varies or a link loses frames.
    #[inline(never)]
    fn transmit_ack_over_variable_links(
        &mut self,
        path: &FastPath,
        size: u32,
        ack: &PlainAck,
    ) -> bool {
        let (mut at, mut triggered_at) = (ack.sent_at, ack.triggered_at);
        for &l in &*path.acks {
            let Some(arrival) = self.pass_ack(l, (at, triggered_at), size, ack) else {
                return false;
            };
            (at, triggered_at) = arrival;
            self.links[l as usize].passed(at);
        }
        let l = path.last_of_acks;
        let Some((at, start)) = self.pass_ack(l, (at, triggered_at), size, ack) else {
            return false;
        };
        let (passage, link) = ((start, at), &mut self.links[l as usize]);
        let lane = link.tag;
        if link.put_held_in_flight(passage) {
            self.schedule_arrival(l as usize, lane, (at, start));
        }
        self.fast.acks[path.ring as usize].push(PlainAck { passage, ..*ack });
        true
    }

    /// An ACK enters a link at `at`. Returns its arrival; `None` if it is refused, or lost.
    #[inline(always)]
    fn pass_ack(
        &mut self,
        l: u32,
        (at, triggered_at): Arrival,
        size: u32,
        ack: &PlainAck,
    ) -> Option<Arrival> {
        let link = &mut self.links[l as usize];
        let (arrival, fate) = link.pass_in_order(at, triggered_at, size, || ack.segment(size));
        let start = link.last_start();
        if fate == Fate::Sent {
            return Some((arrival, start));
        }
        self.end_ack(fate, (l, at, start), size, ack);
        None
    }

    /// An ACK that would enter a link at `at` is refused, or lost there.
    #[inline(never)]
    fn end_ack(
        &mut self,
        fate: Fate,
        (l, at, start): (u32, Time, Time),
        size: u32,
        ack: &PlainAck,
    ) {
        if fate == Fate::Refused {
            self.refuse_ack(l, at, size, ack);
        } else {
            self.lose(l, start, &ack.segment(size));
        }
    }

    /// The queue of a link refuses an ACK that would enter it at `at`.
    #[inline(never)]
    fn refuse_ack(&mut self, l: u32, at: Time, size: u32, ack: &PlainAck) -> bool {
        let present = std::mem::replace(&mut self.now, ack.sent_at);
        self.refused(l, at, &ack.segment(size));
        self.now = present;
        false
    }

    /// An ACK on the fast path arrives at the end of a link now.
    #[inline(always)]
    pub(crate) fn has_plain_ack(&self, l: usize) -> bool {
        self.links[l].holds_next_at_host()
    }

    /// Where the ACKs on the fast path are stored that arrive at the end of a link.
    #[inline]
    pub(crate) fn ring_of_acks(&self, l: usize) -> usize {
        self.fast.ring_of_link[l] as usize
    }

    /// The ACK of a link's ring that arrives now; neither is it counted nor the next arrival
    /// scheduled. `None` if there is none.
    #[inline(always)]
    pub(crate) fn take_plain_ack(&mut self, l: usize, ring: usize) -> Option<ReceivedAck> {
        let acks = self.fast.acks.get_mut(ring)?;
        let ack = ReceivedAck::of(acks.front()?);
        acks.drop_front();
        self.links[l].arrive_held(acks.front().map(|a| a.passage));
        Some(ack)
    }

    /// True if the next event is also an ACK on the fast path at the end of the link `l`, whose
    /// horizon the scheduler has; the clock is set to it.
    #[inline(always)]
    pub(crate) fn continue_plain_acks(&mut self, l: usize) -> bool {
        let link = &self.links[l];
        if !link.holds_next_at_host() {
            return false;
        }
        let (at, triggered_at) = link.next_arrival();
        if at.0 >= self.scheduler.horizon() {
            return false;
        }
        (self.event.time, self.event.triggered_at) = (at.0, triggered_at.0);
        (self.now, self.triggered_at) = (at, triggered_at);
        true
    }

    /// After this number of ACKs on the fast path: counts them and schedules the next arrival.
    #[inline]
    pub(crate) fn end_plain_acks(&mut self, l: usize, acks: u64) {
        let link = &mut self.links[l];
        link.count_held(Time(self.event.time), acks);
        let (lane, next) = (link.tag, link.next_arrival());
        self.schedule_arrival(l, lane, next);
    }
}

/// The segment of new data. Apart, since it is seldom asked for: otherwise its fields are loaded in
/// any case.
#[inline(never)]
fn segment_of(data: &PlainData, id: u64, to: NodeId) -> Segment {
    data.segment(id, to)
}
