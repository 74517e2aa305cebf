//! The way of a frame over a link: from a node to the next one, to its loss or to its drop.

use lasthop::agent::LinkEvent;
use lasthop::framing::Step;
use lasthop::link::arq::Ended;
use lasthop::link::{HELD_BY_HOST, Link, Offered, Passed, Plan};
use lasthop::queue::{Frame, Outcome, drop_reason};
use lasthop::segment::{Flags, Handle, NodeId, Options, Segment};
use lasthop::units::Time;

use crate::events::Kind;
use crate::events::probe::{Fate, Probe, Seen};
use crate::network::fast_path::Arrival;
use crate::network::paths::Paths;
use crate::network::{Net, cells};

#[allow(clippy::multiple_inherent_impl, reason = "one file for each way of a frame")]
impl<P: Probe> Net<P> {
    /// A frame arrives at the far end of a link. Returns the node and the frame; `None` if another
    /// frame of the link has overtaken it.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, l: usize) -> Option<(NodeId, Handle)> {
        let link = &mut self.links[l];
        let (node, lane) = (link.to, link.tag);
        let Some((handle, next)) = link.arrive(self.now) else {
            self.schedule_link(l);
            return None;
        };
        if let Some(coming) = link.coming().filter(|c| *c != HELD_BY_HOST) {
            self.pool.prefetch(coming);
        }
        self.schedule_arrival(l, lane, next);
        if self.in_advance[l] {
            // Frames behind it may be computed in advance now.
            self.enter(l as u32);
            self.fast.leave(2);
        }
        Some((node, handle))
    }

    /// The next lost or damaged frame of a link is due.
    #[inline(never)]
    pub(crate) fn loss(&mut self, l: usize) {
        if self.damaged_frame_arrives(l) {
            return;
        }
        let handle = self.links[l].lose(self.now);
        self.schedule_link(l);
        if let Some(handle) = handle {
            self.lost_on_air(l, handle);
        }
    }

    /// Sends a segment on the link towards its destination and on the links chained to it.
    #[inline(never)]
    pub(crate) fn forward(&mut self, node: NodeId, handle: Handle) {
        if !self.cells.is_empty() && !P::READS {
            let to = self.pool.get(handle).to;
            if let &[l, ..] = &*self.routes[usize::from(node) * self.nodes + usize::from(to)]
                && self.links[l as usize].place().is_some()
            {
                return self.enter_cell(l, handle);
            }
        }
        self.forward_on_links(node, handle);
    }

    /// The same. If the arrival at the end of the last link can be computed at once, the frame is
    /// not put in flight: returns that link and the arrival.
    #[inline(never)]
    pub(crate) fn forward_to_receiver(
        &mut self,
        node: NodeId,
        handle: Handle,
    ) -> Option<(u32, Arrival)> {
        self.carry::<true>(node, handle)
    }

    /// `forward` without the entry into a cell, which needs fewer registers.
    #[inline(never)]
    fn forward_on_links(&mut self, node: NodeId, handle: Handle) {
        self.carry::<false>(node, handle);
    }

    #[inline(always)]
    fn carry<const ARRIVES: bool>(
        &mut self,
        node: NodeId,
        handle: Handle,
    ) -> Option<(u32, Arrival)> {
        let segment = self.pool.get(handle);
        let route = &self.routes[usize::from(node) * self.nodes + usize::from(segment.to)];
        let (mut at, mut triggered_at, mut left) = (self.now, self.triggered_at, route.len());
        for &l in route {
            let link = &mut self.links[l as usize];
            if P::READS {
                let value = cells::queue_of(link, &self.cells, at, triggered_at).0 as f64;
                see_enqueued(&mut self.probes, at, (link.from, l), segment, value);
            }
            if link.place().is_some() {
                self.enter_cell(l, handle);
                return None;
            }
            let (start, arrival, lost) = match link.pass_stored(at, triggered_at, segment) {
                Passed::Sent { start, arrival, lost } => (start, arrival, lost),
                Passed::Refused => {
                    self.dropped(l as usize, handle, drop_reason::FULL, at);
                    return None;
                }
                Passed::Otherwise => match offer(link, &self.paths, (at, triggered_at), segment) {
                    Ok(plan) => (plan.start, plan.arrival, plan.lost),
                    Err(Offered::Refused) => {
                        self.dropped(l as usize, handle, drop_reason::FULL, at);
                        return None;
                    }
                    Err(_) => {
                        self.enqueue(l as usize, handle);
                        return None;
                    }
                },
            };
            left -= 1;
            if left > 0 && !lost {
                link.passed(arrival);
                (at, triggered_at) = (arrival, start);
                continue;
            }
            if ARRIVES && !lost && self.arrives_at_once(l, (arrival, start)) {
                return Some((l, (arrival, start)));
            }
            let link = &mut self.links[l as usize];
            let changes = if lost {
                link.put_lost_in_flight(start, handle);
                true
            } else {
                link.put_sent_in_flight((start, arrival), handle)
            };
            if self.in_advance[l as usize] && !lost {
                self.enter(l);
            } else if changes {
                self.schedule_link(l as usize);
            }
            return None;
        }
        // No route: cannot happen, since routes are checked when the scenario is read.
        self.pool.free(handle);
        None
    }

    /// The arrival of a frame at the end of the link `l` is computed in advance, and no frame
    /// before it waits for that.
    #[inline(always)]
    pub(crate) fn arrives_at_once(&self, l: u32, (at, _): Arrival) -> bool {
        self.in_advance[l as usize]
            && self.is_fast_path_open()
            && at.0 > self.event.time
            && at < self.until
    }

    /// Puts a frame in flight whose arrival was to be computed at once.
    #[inline(never)]
    pub(crate) fn put_in_flight(&mut self, l: u32, (at, start): Arrival, handle: Handle) {
        self.links[l as usize].put_in_flight((start, at), handle);
        self.enter(l);
    }

    /// A frame has entered a link whose arrivals are computed in advance.
    #[inline]
    pub(super) fn enter(&mut self, l: u32) {
        self.fast.enter();
        if self.entered.last() != Some(&l) {
            self.entered.push(l);
            self.scheduler.end_horizon();
        }
    }

    /// The next arrival at the far end of a link whose arrivals are computed in advance, before
    /// `until`: its time and trigger time. Otherwise it will be an event.
    #[inline]
    pub(crate) fn next_in_advance(&mut self, l: usize) -> Option<(Time, Time)> {
        let next = self.links[l].next_arrival();
        // An arrival at the present instant has its place among the other events of this time.
        if next.0.0 <= self.event.time || next.0 >= self.until {
            self.arrives_by_event(l);
            return None;
        }
        Some(next)
    }

    /// The next arrival at the far end of a link is an event.
    pub(crate) fn arrives_by_event(&mut self, l: usize) {
        let link = &self.links[l];
        let (lane, next) = (link.tag, link.next_arrival());
        self.schedule_arrival(l, lane, next);
    }

    /// That arrival; sets the clock to its time.
    #[inline]
    pub(crate) fn arrive_in_advance(
        &mut self,
        l: usize,
        (at, triggered_at): (Time, Time),
    ) -> Option<Handle> {
        (self.now, self.triggered_at) = (at, triggered_at);
        let handle = self.links[l].arrive(at)?.0;
        self.fast.leave(1);
        Some(handle)
    }

    /// Queues a segment at an evented link, and a copy behind it if the link duplicates it.
    #[inline(never)]
    fn enqueue(&mut self, l: usize, handle: Handle) {
        // The frame may be dropped, so it is copied before.
        let copy = self.links[l].duplicates_next(self.now).then(|| self.pool.copy(handle));
        self.enqueue_frame(l, handle);
        if let Some(copy) = copy {
            self.enqueue_copy(l, copy);
        }
    }

    /// Queues a copy that the link has made.
    fn enqueue_copy(&mut self, l: usize, handle: Handle) {
        self.pool.get_mut(handle).id = self.new_id();
        let segment = *self.pool.get(handle);
        let node = self.links[l].from;
        self.probes.duplicated(self.now, &segment);
        self.emit_frame(Kind::Duplicated, node, Some(l as u32), handle, "");
        if P::READS {
            let link = &mut self.links[l];
            let value = link.queue(self.now, self.triggered_at).0 as f64;
            see_enqueued(&mut self.probes, self.now, (node, l as u32), &segment, value);
        }
        self.links[l].offer(self.now, self.triggered_at, segment.size);
        self.enqueue_frame(l, handle);
    }

    fn enqueue_frame(&mut self, l: usize, handle: Handle) {
        let link = &mut self.links[l];
        let segment = self.pool.get(handle);
        let frame = link.frame(handle, segment, self.paths.source(segment), self.now);
        let (now, triggered_at) = (self.now, self.triggered_at);
        let starts = link.enqueue(now, triggered_at, frame, &self.pool, &mut self.outcomes);
        self.conclude(l);
        if starts.is_some() {
            self.start(l, starts);
        }
    }

    /// The transmission of a frame on an evented link ends.
    #[inline(never)]
    pub(crate) fn depart(&mut self, l: usize) {
        if let Some(ended) = self.links[l].end_attempt(self.now) {
            self.attempt_ended(l, ended);
        }
        let starts = self.links[l].depart(self.now, &mut self.outcomes);
        self.conclude(l);
        self.start(l, starts);
    }

    /// Starts the transmission of the next frame on an evented link.
    fn start(&mut self, l: usize, frame: Option<Frame>) {
        if let Some(frame) = frame {
            let segment = *self.pool.get(frame.handle);
            let link = &self.links[l];
            if P::READS && link.is_managed() && link.slot() == 1 {
                let (node, waited) = (link.from, (self.now - frame.at).as_secs());
                self.emit(Kind::Dequeued, node, Some(l as u32), &segment, "", waited);
            }
            if self.links[l].has_attempts() {
                self.start_attempt(l, frame, &segment);
            } else {
                let link = &mut self.links[l];
                let plan = link.plan(self.now, frame.at, &segment);
                if plan.lost {
                    link.queue_damaged_frame(&plan, &segment);
                }
                link.propagate(&plan, frame.handle);
            }
        }
        self.schedule_link(l);
    }

    /// Starts an attempt on a link that counts attempts.
    fn start_attempt(&mut self, l: usize, frame: Frame, segment: &Segment) {
        let (slot, attempt) = (self.links[l].slot(), self.links[l].attempt());
        let node = self.links[l].from;
        if slot == 1 {
            self.raise(node, LinkEvent::Dequeued, segment);
        }
        if let Some(attempt) = attempt {
            self.raise(node, LinkEvent::AttemptStarted { attempt }, segment);
        }
        let framing = self.paths.framing_of(&self.links[l], segment);
        self.links[l].send_attempt(self.now, frame, segment, framing);
    }

    /// An attempt ends, at the end of its air time.
    #[inline(never)]
    fn attempt_ended(&mut self, l: usize, ended: Ended) {
        let Ended { handle, attempt, lost, step, damaged_frames } = ended;
        let node = self.links[l].from;
        let segment = *self.pool.get(handle);
        if lost && self.links[l].retransmits() {
            self.emit(
                Kind::AttemptFailed,
                node,
                Some(l as u32),
                &segment,
                "air",
                f64::from(attempt),
            );
        }
        if lost {
            self.raise(node, LinkEvent::AttemptFailed { attempt }, &segment);
        }
        match step {
            Step::More => {}
            Step::Whole => self.raise(node, LinkEvent::Delivered { attempts: attempt }, &segment),
            Step::Over { .. } => {
                self.lost_on_air(l, handle);
                let to = self.links[l].to;
                if let Some((at, event)) = damaged_frames
                    .filter(|r| self.paths.subscribes(to, &segment, r.1.subscription()))
                {
                    self.links[l].push_damaged_frame(at, self.now, &segment, event);
                }
            }
        }
    }

    /// A frame is finally lost, at the end of its air time.
    fn lost_on_air(&mut self, l: usize, handle: Handle) {
        let (node, segment) = (self.links[l].from, *self.pool.get(handle));
        self.pool.free(handle);
        self.emit_frame(Kind::LostOnAir, node, Some(l as u32), handle, "air");
        self.probes.lost(self.now, self.now, &segment, Fate::LostOnAir);
        self.raise(node, LinkEvent::Discarded, &segment);
    }

    /// The damaged frame that a link has given up reaches its far end. Returns false if another
    /// frame is lost before that.
    fn damaged_frame_arrives(&mut self, l: usize) -> bool {
        let Some((segment, event)) = self.links[l].pop_damaged_frame() else { return false };
        self.raise(self.links[l].to, event, &segment);
        self.schedule_link(l);
        true
    }

    /// Applies the decisions of a queue.
    fn conclude(&mut self, l: usize) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            self.carry_out_outcome(l, outcome);
        }
        self.outcomes = outcomes;
    }

    /// Applies a mark, drop or removal of a frame queued at the link `l`.
    pub(super) fn carry_out_outcome(&mut self, l: usize, outcome: Outcome) {
        match outcome {
            Outcome::Marked { handle, reason } => {
                let segment = self.pool.get_mut(handle);
                segment.flags = segment.flags.with(Flags::CE);
                let (node, segment) = (self.links[l].from, *segment);
                self.emit(Kind::Marked, node, Some(l as u32), &segment, reason, 0.0);
            }
            Outcome::Dropped { handle, reason } => self.dropped(l, handle, reason, self.now),
            Outcome::Filtered { handle, by } => self.filtered(l, handle, by),
        }
    }

    /// A queue removes a frame that the frame `by`, which arrives, makes redundant.
    fn filtered(&mut self, l: usize, handle: Handle, by: Handle) {
        let node = self.links[l].from;
        self.emit_frame(Kind::Filtered, node, Some(l as u32), handle, "");
        self.probes.filtered(self.pool.get(handle), self.pool.get(by));
        self.pool.free(handle);
    }

    #[cold]
    pub(super) fn dropped(&mut self, l: usize, handle: Handle, reason: &'static str, at: Time) {
        let (node, segment) = (self.links[l].from, *self.pool.get(handle));
        self.emit_frame(Kind::DroppedAtQueue, node, Some(l as u32), handle, reason);
        self.probes.lost(self.now, at, &segment, Fate::Refused);
        self.raise(node, LinkEvent::Refused, &segment);
        self.pool.free(handle);
    }
}

/// Offers a segment to a link, at a time and with a trigger time, and plans it.
///
/// # Errors
///
/// The answer of the link, if its queue refuses the segment or the link is evented.
#[inline(never)]
fn offer(
    link: &mut Link,
    paths: &Paths,
    (at, triggered_at): (Time, Time),
    segment: &Segment,
) -> Result<Plan, Offered> {
    let plan = match link.offer(at, triggered_at, segment.size) {
        Offered::Admitted => link.plan(at, at, segment),
        Offered::Served => {
            let subscriptions = paths.subscriptions(link.to);
            link.plan_service(at, segment, paths.framing_of(link, segment), subscriptions)
        }
        answer => return Err(answer),
    };
    if plan.lost {
        link.queue_damaged_frame(&plan, segment);
    }
    Ok(plan)
}

/// A segment enters the queue of a link (its node and number), in which `value` frames wait.
fn see_enqueued<P: Probe>(
    probes: &mut P,
    t: Time,
    (node, link): (NodeId, u32),
    segment: &Segment,
    value: f64,
) {
    let (kind, link, options, reason) = (Kind::Enqueued, Some(link), &Options::NONE, "");
    probes.seen(&Seen { t, kind, node, link, segment, options, reason, value });
}
