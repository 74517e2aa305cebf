//! Frames of the network in its cells.

use crate::engine::scheduler::NO_LANE;
use crate::events::Kind;
use crate::events::probe::{Fate, Probe};
use crate::network::Net;
use lasthop::agent::{LinkEvent, Subscriptions};
use lasthop::framing::Step;
use lasthop::link::cell::{Attempt, Clock, Delivery, End, Report};
use lasthop::segment::{Handle, NodeId, Segment};
use lasthop::units::{Duration, Time};

use super::{CellFrames, NO_CELL, drop_reason};

#[allow(clippy::multiple_inherent_impl, reason = "one file for each way of a frame")]
impl<P: Probe> Net<P> {
    /// Queues a frame at a station; it crosses the link `l`.
    #[inline(never)]
    pub(crate) fn enter_cell(&mut self, l: u32, handle: Handle) {
        let segment = self.pool.get(handle);
        let from = self.paths.source(segment);
        let link = &mut self.links[l as usize];
        let Some(place) = link.place() else { return };
        let frame = link.enter_cell(handle, segment, from, self.now);
        let at = handle as usize;
        if at >= self.hops.len() {
            self.hops.resize(self.pool.capacity(), 0);
        }
        self.hops[at] = l;
        let c = place.cell as usize;
        let Net { cells, pool, links, hops, paths, outcomes, now, .. } = self;
        let frames = &CellFrames { pool, links, hops, paths };
        let stations = (place.from as usize, place.to as usize);
        let changes = cells[c].cell.offer(*now, stations, frame, frames, outcomes);
        if changes && self.firing != place.cell {
            self.schedule_cell(c);
        }
        if !self.outcomes.is_empty() {
            self.conclude_outcomes();
        }
    }

    /// Schedules the events of cells that do not wait for a frame, at the start of a run: beacons.
    pub(crate) fn schedule_cells(&mut self) {
        for c in 0..self.cells.len() {
            if P::READS {
                self.cells[c].cell.watch();
            }
            if self.cells[c].cell.next_event().0 != Time::NEVER {
                self.schedule_cell(c);
            }
        }
    }

    /// Schedules the next event of a cell.
    #[inline(always)]
    fn schedule_cell(&mut self, c: usize) {
        let host = &mut self.cells[c];
        let next = host.cell.next_event();
        if next != host.scheduled {
            host.scheduled = next;
            let (source, lane) = (host.source, host.lane);
            if lane == NO_LANE {
                return self.schedule(source, next);
            }
            self.scheduler.set_lane(lane, next.0.0, next.1.0);
        }
    }

    #[inline(never)]
    fn conclude_outcomes(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            let l = self.hops[outcome.handle() as usize] as usize;
            self.links[l].count(self.now, &[outcome]);
            self.carry_out_outcome(l, outcome);
        }
        self.outcomes = outcomes;
    }

    /// Raises the link events of the start of an attempt.
    #[inline(never)]
    fn cell_attempt_started(&mut self, attempt: &Attempt) {
        let handle = attempt.frame.handle;
        let node = self.links[self.hops[handle as usize] as usize].from;
        let segment = *self.pool.get(handle);
        if attempt.number == 1 {
            self.raise(node, LinkEvent::Dequeued, &segment);
        }
        self.raise(node, LinkEvent::AttemptStarted { attempt: attempt.number }, &segment);
    }

    /// Handles the end of an attempt. Returns the frame that arrives, with its link, if one does.
    fn cell_attempt_ended(&mut self, attempt: &Attempt, end: &End) -> Option<(usize, Handle)> {
        let handle = attempt.frame.handle;
        let l = self.hops[handle as usize] as usize;
        self.links[l].count_attempt(self.now, attempt, end);
        let (node, segment) = (self.links[l].from, *self.pool.get(handle));
        let is_lost = end.loses();
        let reason = match (end.collided, end.received) {
            (true, _) => drop_reason::COLLISION,
            (false, true) => drop_reason::LINK_ACK,
            (false, false) => drop_reason::AIR,
        };
        // Without retransmission a failed attempt is the loss of the frame and no separate event.
        if !(end.delivered || is_lost && attempt.number <= 1) {
            self.emit(
                Kind::AttemptFailed,
                node,
                Some(l as u32),
                &segment,
                reason,
                f64::from(attempt.number),
            );
        }
        if is_lost {
            let reason = match (attempt.number, end.crashed) {
                _ if end.late => drop_reason::REORDER_TIMEOUT,
                (0, _) => drop_reason::CONTENTION,
                (_, true) => drop_reason::COLLISION,
                (_, false) => drop_reason::AIR,
            };
            self.emit_frame(Kind::LostOnAir, node, Some(l as u32), handle, reason);
            let fate = if end.crashed { Fate::Collision } else { Fate::LostOnAir };
            self.probes.lost(self.now, self.now, &segment, fate);
        }
        self.report_attempt(node, attempt, end, &segment);
        if let Some(event) = end.damaged_frames {
            self.raise(self.links[l].to, event, &segment);
        }
        match (end.arrives, end.last()) {
            (true, true) => Some((l, handle)),
            // The station retransmits its copy: the link ACK was lost.
            (true, false) => Some((l, self.copy_from_station(handle))),
            (false, last) => {
                // A frame in a reorder buffer is released later.
                if last && !end.held {
                    if end.arrived {
                        self.probes.copy_released(u64::from(segment.size));
                    }
                    self.pool.free(handle);
                }
                None
            }
        }
    }

    /// Raises the link events that the sending station derives from the end of an attempt.
    fn report_attempt(&mut self, node: NodeId, attempt: &Attempt, end: &End, segment: &Segment) {
        if !end.delivered && attempt.number > 0 {
            self.raise(node, LinkEvent::AttemptFailed { attempt: attempt.number }, segment);
        }
        match end.step {
            Step::More => {}
            Step::Whole => {
                self.raise(node, LinkEvent::Delivered { attempts: attempt.number }, segment)
            }
            Step::Over { .. } => self.raise(node, LinkEvent::Discarded, segment),
        }
    }

    /// The events of a cell are handled, from the one that is due on, until
    /// [`Self::end_cell_events`].
    #[inline]
    pub(crate) fn begin_cell_events(&mut self, c: usize) {
        self.firing = c as u32;
    }

    /// True if the next event is one of the same cell, whose horizon the scheduler has; the clock
    /// is set to it.
    #[inline(always)]
    pub(crate) fn continue_cell_events(&mut self, c: usize) -> bool {
        let next = self.cells[c].cell.next_event();
        let follows = next.0.0 < self.scheduler.horizon();
        if follows {
            (self.now, self.triggered_at) = next;
        }
        follows
    }

    /// An event of a cell at this time, with this trigger time, is handled.
    #[inline(always)]
    fn set_clock(&mut self, (now, triggered_at): (Time, Time)) {
        (self.event.time, self.event.triggered_at) = (now.0, triggered_at.0);
        (self.now, self.triggered_at) = (now, triggered_at);
    }

    /// Schedules the next event of the cell after those that have been handled.
    #[inline]
    pub(crate) fn end_cell_events(&mut self, c: usize) {
        self.firing = NO_CELL;
        self.schedule_cell(c);
    }

    /// Lets a cell act from the present instant on, up to the first event of which the network has
    /// to know; the clock is set to that. Returns the delivery of a frame, if there is one, for
    /// [`Self::cell_delivery`]; further reports of its stations are in [`Self::report`].
    #[inline]
    pub(crate) fn fire_cell(&mut self, c: usize) -> Option<Delivery> {
        let (now, triggered_at) = (self.now, self.triggered_at);
        let mut clock = Clock { now, triggered_at, until: Time(self.scheduler.horizon()) };
        let Net { cells, pool, links, hops, paths, outcomes, reports, .. } = self;
        let frames = &CellFrames { pool, links, hops, paths };
        let delivery = cells[c].cell.act(&mut clock, frames, reports, outcomes);
        self.set_clock((clock.now, clock.triggered_at));
        if !self.outcomes.is_empty() {
            self.conclude_outcomes();
        }
        delivery
    }

    /// A cell has reports besides a delivery.
    #[inline]
    pub(crate) fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// The report of this number, from 0, of a cell after a delivery.
    #[inline]
    pub(crate) fn report(&self, i: usize) -> Option<Report> {
        self.reports.get(i).copied()
    }

    /// All reports have been handled.
    #[inline]
    pub(crate) fn clear_reports(&mut self) {
        self.reports.clear();
    }

    /// A delivery in a cell is reported to an agent or an observer: it is one for
    /// [`Self::cell_report`].
    #[inline(always)]
    pub(crate) fn reports_delivery(&self, delivery: &Delivery) -> bool {
        let l = self.hops[delivery.attempt.frame.handle as usize] as usize;
        let subscriptions = self.paths.subscriptions(self.links[l].from);
        P::READS || subscriptions.any(Subscriptions::DELIVERED)
    }

    /// Handles any other delivery in a cell. Returns the frame, with its link, if it arrives at
    /// this instant.
    #[inline(always)]
    pub(crate) fn cell_delivery(
        &mut self,
        c: usize,
        delivery: &Delivery,
    ) -> Option<(usize, Handle)> {
        let handle = delivery.attempt.frame.handle;
        let l = self.hops[handle as usize] as usize;
        self.links[l].count_delivered_attempt(delivery);
        self.frame_ended(c, l, handle)
    }

    /// Handles a report of a cell. Returns the frame that arrives at this instant, with its link,
    /// if one does.
    pub(crate) fn cell_report(&mut self, c: usize, report: &Report) -> Option<(usize, Handle)> {
        match report {
            Report::Started(attempt) => {
                self.cell_attempt_started(attempt);
                None
            }
            Report::Ended(attempt, end) => {
                let (l, handle) = self.cell_attempt_ended(attempt, end)?;
                self.frame_ended(c, l, handle)
            }
            Report::Delivered(delivery) => self.cell_report(c, &delivery.report()),
            &Report::Released { ref attempt, retained } => {
                let handle = attempt.frame.handle;
                let l = self.hops[handle as usize] as usize;
                let handle = if retained { self.copy_from_station(handle) } else { handle };
                self.frame_ended(c, l, handle)
            }
            Report::Used(used) => {
                self.probes.medium_used(c, used);
                None
            }
        }
    }

    /// The receiver's copy of a frame that its sender will retransmit, because it does not know
    /// that the frame was received.
    fn copy_from_station(&mut self, handle: Handle) -> Handle {
        self.probes.copy_retained(u64::from(self.pool.get(handle).size));
        self.pool.copy(handle)
    }

    /// A frame has been received: it arrives now, or after the cell's propagation delay.
    #[inline(always)]
    fn frame_ended(&mut self, c: usize, l: usize, handle: Handle) -> Option<(usize, Handle)> {
        let (now, host) = (self.now, &mut self.cells[c]);
        self.links[l].passed(now + host.delay);
        if host.delay == Duration::ZERO {
            return Some((l, handle));
        }
        self.propagate_in_cell(c, l, handle);
        None
    }

    /// Puts a frame that has been received in propagation.
    #[inline(never)]
    fn propagate_in_cell(&mut self, c: usize, l: usize, handle: Handle) {
        let (now, host) = (self.now, &mut self.cells[c]);
        let at = now + host.delay;
        host.in_transit.push_back((at, l as u32, handle));
        if host.in_transit.len() == 1 {
            let source = host.arrivals;
            self.schedule(source, (at, now));
        }
    }

    /// The first frame in propagation arrives. Returns its link and the frame.
    pub(crate) fn cell_arrival(&mut self, c: usize) -> Option<(usize, Handle)> {
        let host = &mut self.cells[c];
        let (source, delay) = (host.arrivals, host.delay);
        let (_, l, handle) = host.in_transit.pop_front()?;
        let next = host
            .in_transit
            .front()
            .map_or((Time::NEVER, Time::ZERO), |&(at, ..)| (at, Time(at.0 - delay.0)));
        self.schedule(source, next);
        Some((l as usize, handle))
    }
}
