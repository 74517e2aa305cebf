//! A link as one object without I/O: frames go in, events come out.
//!
//! A [`Link`] has several forms (computed, served, evented, with counted attempts), and each asks
//! its host for other calls in another order. [`Drive`] makes these calls. A host passes in frames
//! ([`Drive::input`]), waits until [`Drive::next`], and takes the events ([`Drive::step`]).
//!
//! An event takes place at its own time, not at the time at which the host asks for it: a host that
//! is late gets late events, but the queue of the link is as if the host had been on time.

use std::collections::VecDeque;

use super::arq::Ended;
use super::{Link, Offered, Plan};
use crate::queue::{Frame, Headers, Outcome, drop_reason};
use lasthop_core::agent::{LinkEvent, Subscriptions};
use lasthop_core::framing::{AnyFraming, Step};
use lasthop_core::segment::{Flags, Handle, Options, Segment};
use lasthop_core::units::Time;

/// What became of a frame, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the event.
    pub at: Time,
    /// Its trigger time, which orders events at the same time: the start of serialisation for
    /// arrivals, losses and departures.
    pub triggered_at: Time,
    /// The host's handle of the frame.
    pub handle: Handle,
    /// What happened.
    pub kind: EventKind,
}

/// Kinds of events of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The frame arrives at the far end. The link forgets it.
    Arrived,
    /// The frame is finally lost on the air, at the end of its air time; an agent is notified by
    /// `LinkEvent::Discarded`. The link forgets it.
    Lost,
    /// The queue refuses or drops the frame for this reason; an agent is notified by
    /// `LinkEvent::Refused`. The link forgets it.
    Refused(&'static str),
    /// The queue removes the frame, because a later one makes it redundant. The link forgets it.
    Filtered,
    /// The queue marks the frame for this reason: the host sets `Flags::CE` of the segment.
    Marked(&'static str),
    /// Any other event for agents at the sending node.
    Told(LinkEvent),
    /// An event for agents at the receiving node: what it has received of a frame that was lost.
    /// `Lost` of this frame may have preceded it.
    ToldReceiver(LinkEvent),
}

/// Sources of events in the order in which they take place at the same time by the same trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Departure,
    Loss,
    Arrival,
}

/// A frame that the link has.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    handle: Handle,
    /// Its number is the handle, by which a damaged frame is recognised after the frame has ended.
    segment: Segment,
    options: Option<Options>,
    framing: Option<AnyFraming>,
}

/// What a link may know of a frame besides its segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details {
    /// Its options, see [`Headers::options`].
    pub options: Option<Options>,
    /// The fragments in which the link sends it; the link allows fragments (`Link::cut_frames`).
    pub framing: Option<AnyFraming>,
}

impl Headers for Vec<Slot> {
    fn segment(&self, handle: Handle) -> &Segment {
        &self[handle as usize].segment
    }

    fn options(&self, handle: Handle) -> Option<&Options> {
        self[handle as usize].options.as_ref()
    }
}

/// A link and the frames that it has.
pub struct Drive {
    link: Link,
    /// Events that agents at the sending and at the receiving node subscribe to.
    sender: Subscriptions,
    receiver: Subscriptions,
    slots: Vec<Slot>,
    free: Vec<Handle>,
    /// Events that have taken place and that the host has not taken.
    events: VecDeque<Event>,
    outcomes: Vec<Outcome>,
    /// The source of the link's next event, with its time and trigger time. Hosts ask for it far
    /// more often than it changes.
    next: Option<((Time, Time), Source)>,
}

impl Drive {
    /// Drives a link that has not sent a frame. `sender` and `receiver` are the events that agents
    /// at its two nodes subscribe to; others are not generated. Arrivals, losses, drops and marks
    /// are always reported. A link without subscribers to attempts computes its retransmissions in
    /// advance, if it can.
    ///
    /// # Errors
    ///
    /// If the link is a pair of stations of a cell, which the cell drives.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_channel::air::config::{DelayConfig, LossConfig, RateConfig};
    /// use lasthop_channel::link::Link;
    /// use lasthop_channel::link::config::LinkConfig;
    /// use lasthop_channel::link::drive::{Drive, EventKind};
    /// use lasthop_channel::queue::QueueConfig;
    /// use lasthop_core::agent::Subscriptions;
    /// use lasthop_core::segment::Segment;
    /// use lasthop_core::units::{Duration, QueueLimit, Rate, Time};
    ///
    /// let config = LinkConfig {
    ///     name: "radio".into(),
    ///     from: 0,
    ///     to: 1,
    ///     radio: true,
    ///     overhead: 0,
    ///     queue: QueueConfig::drop_tail(QueueLimit::Packets(1)),
    ///     rate: RateConfig::Constant(Rate(8_000_000)),
    ///     trace: None,
    ///     delay: DelayConfig::constant(Duration::millis(20)),
    ///     loss: LossConfig::None,
    ///     outages: vec![],
    ///     arq: None,
    ///     shaper: None,
    ///     impairments: Default::default(),
    ///     mtu: None,
    ///     cell: None,
    /// };
    /// let (start, end) = (Time::ZERO, Time(60_000_000_000));
    /// let link = Link::new(&config, "a>b", 1, Duration::ZERO, 960, start, end).unwrap();
    /// let mut drive = Drive::new(link, Subscriptions::NONE, Subscriptions::NONE).unwrap();
    /// let segment = Segment { size: 1000, ..Segment::default() };
    /// for handle in 1..=3 {
    ///     drive.input(start, start, handle, &segment);
    /// }
    /// // The second frame waits behind the first; the third one does not fit.
    /// let refused = drive.step(start).unwrap();
    /// assert_eq!((refused.handle, refused.kind), (3, EventKind::Refused("queue full")));
    /// // 1000 bytes take 1 ms, and 20 ms later they arrive.
    /// assert_eq!(drive.next(), Time(21_000_000));
    /// let arrived = drive.step(drive.next()).unwrap();
    /// assert_eq!((arrived.handle, arrived.kind), (1, EventKind::Arrived));
    /// assert_eq!(drive.next(), Time(22_000_000));
    /// ```
    pub fn new(
        mut link: Link,
        sender: Subscriptions,
        receiver: Subscriptions,
    ) -> Result<Drive, String> {
        if link.place().is_some() {
            return Err("a link of a cell is driven by its cell".into());
        }
        if sender.any(Subscriptions::STEPS) {
            link.count_attempts();
        }
        if !sender.any(Subscriptions::STEPS.with(Subscriptions::RETRIED)) {
            link.precompute_retransmissions();
        }
        if receiver.any(Subscriptions::DAMAGED) {
            link.report_damaged_frames();
        }
        let mut drive = Drive {
            link,
            sender,
            receiver,
            slots: Vec::new(),
            free: Vec::new(),
            events: VecDeque::new(),
            outcomes: Vec::new(),
            next: None,
        };
        drive.find_next();
        Ok(drive)
    }

    /// The link, for its statistics and state.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// True if the host shall send a copy of the frame that it is about to send right behind it;
    /// see `Link::duplicates_next`.
    pub fn duplicates_next(&mut self, now: Time) -> bool {
        self.link.duplicates_next(now)
    }

    /// Whether the frame that has just arrived has a bit error; see `Link::corrupts_next`.
    pub fn corrupts_next(&mut self, now: Time) -> Option<f64> {
        self.link.corrupts_next(now)
    }

    /// Sends a frame at `now`, by an event whose trigger time is `triggered_at` (`now` if there is
    /// none). Later calls have no earlier time. `handle` is the host's, and names the frame in
    /// events.
    pub fn input(&mut self, now: Time, triggered_at: Time, handle: Handle, segment: &Segment) {
        self.input_with(now, triggered_at, handle, segment, Details::default());
    }

    /// As [`Drive::input`], for a frame of which the link may know more.
    pub fn input_with(
        &mut self,
        now: Time,
        triggered_at: Time,
        handle: Handle,
        segment: &Segment,
        Details { options, framing }: Details,
    ) {
        // What precedes the frame at the link takes place first.
        while let Some((key, source)) = self.next.filter(|s| s.0 < (now, triggered_at)) {
            self.fire(key, source);
        }
        let cause = (now, triggered_at);
        let segment = Segment { id: handle.into(), ..*segment };
        let frame = Slot { handle, segment, options, framing };
        match self.link.offer(now, triggered_at, segment.size) {
            Offered::Admitted => {
                let plan = self.link.plan(now, now, &segment);
                self.propagate(&plan, frame);
            }
            Offered::Served => {
                let plan = self.link.plan_service(now, &segment, framing.as_ref(), self.receiver);
                self.propagate(&plan, frame);
            }
            Offered::Refused => self.push(cause, handle, EventKind::Refused(drop_reason::FULL)),
            Offered::Evented => {
                let slot = self.put(frame);
                let frame = self.link.frame(slot, &segment, 0, now);
                let outcomes = &mut self.outcomes;
                let starts = self.link.enqueue(now, triggered_at, frame, &self.slots, outcomes);
                self.conclude(cause);
                self.start(cause, starts);
            }
        }
        self.find_next();
    }

    /// Time of the next event; [`Time::NEVER`] if there is none. It is in the past if an event has
    /// taken place that the host has not taken.
    pub fn next(&self) -> Time {
        match self.events.front() {
            Some(event) => event.at,
            None => self.next.map_or(Time::NEVER, |(key, _)| key.0),
        }
    }

    /// Time and trigger time of the next event, and its rank among events with equal times:
    /// departures (0) precede losses (1) and arrivals (2). A host with several links takes the
    /// events in this order, as the simulator does.
    pub fn next_key(&self) -> Option<(Time, Time, u8)> {
        match self.events.front() {
            Some(event) => Some((event.at, event.triggered_at, 0)),
            None => self.next.map(|((at, by), source)| (at, by, source as u8)),
        }
    }

    /// Frames that the link has: waiting, being sent or propagating.
    pub fn in_transit(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Frames waiting, bytes waiting, and whether a full-sized frame would be refused.
    pub fn queue(&mut self, now: Time, triggered_at: Time) -> (u64, u64, bool) {
        self.link.queue(now, triggered_at)
    }

    /// The next event, if it takes place at `now` or earlier. Call it until it returns `None`.
    pub fn step(&mut self, now: Time) -> Option<Event> {
        while self.events.is_empty() {
            let (key, source) = self.next.filter(|s| s.0.0 <= now)?;
            self.fire(key, source);
        }
        self.events.pop_front()
    }

    fn find_next(&mut self) {
        let mut next = (self.link.departure(), Source::Departure);
        for other in
            [(self.link.next_loss(), Source::Loss), (self.link.next_arrival(), Source::Arrival)]
        {
            // Of equal keys the earlier source comes first.
            if other.0 < next.0 {
                next = other;
            }
        }
        self.next = (next.0.0 < Time::NEVER).then_some(next);
    }

    fn fire(&mut self, key: (Time, Time), source: Source) {
        let now = key.0;
        match source {
            Source::Departure => {
                if let Some(ended) = self.link.end_attempt(now) {
                    self.attempt_ended(key, ended);
                }
                let starts = self.link.depart(now, &mut self.outcomes);
                self.conclude(key);
                self.start(key, starts);
            }
            Source::Loss => {
                if let Some((segment, event)) = self.link.pop_damaged_frame() {
                    self.push(key, segment.id as Handle, EventKind::ToldReceiver(event));
                } else if let Some(slot) = self.link.lose(now) {
                    self.end(key, slot, EventKind::Lost);
                }
            }
            Source::Arrival => {
                if let Some((slot, _)) = self.link.arrive(now) {
                    self.end(key, slot, EventKind::Arrived);
                }
            }
        }
        self.find_next();
    }

    /// Puts a planned frame in flight.
    fn propagate(&mut self, plan: &Plan, frame: Slot) {
        if plan.lost {
            self.link.queue_damaged_frame(plan, &frame.segment);
        }
        let slot = self.put(frame);
        self.link.propagate(plan, slot);
    }

    /// Starts the transmission of a frame that has left the queue.
    fn start(&mut self, key: (Time, Time), frame: Option<Frame>) {
        let Some(frame) = frame else { return };
        let Slot { handle, segment, framing, .. } = self.slots[frame.handle as usize];
        let now = key.0;
        if !self.link.has_attempts() {
            let plan = self.link.plan(now, frame.at, &segment);
            if plan.lost {
                self.link.queue_damaged_frame(&plan, &segment);
            }
            self.link.propagate(&plan, frame.handle);
            return;
        }
        if self.link.slot() == 1 {
            self.tell(key, handle, LinkEvent::Dequeued);
        }
        if let Some(attempt) = self.link.attempt() {
            self.tell(key, handle, LinkEvent::AttemptStarted { attempt });
        }
        self.link.send_attempt(now, frame, &segment, framing.as_ref());
    }

    /// An attempt has ended, at the end of its air time.
    fn attempt_ended(&mut self, key: (Time, Time), ended: Ended) {
        let Ended { handle: slot, attempt, lost, step, damaged_frames } = ended;
        let Slot { handle, segment, .. } = self.slots[slot as usize];
        if lost {
            self.tell(key, handle, LinkEvent::AttemptFailed { attempt });
        }
        match step {
            Step::More => {}
            Step::Whole => self.tell(key, handle, LinkEvent::Delivered { attempts: attempt }),
            Step::Over { .. } => {
                self.end(key, slot, EventKind::Lost);
                let told = damaged_frames.filter(|d| self.receiver.any(d.1.subscription()));
                if let Some((at, event)) = told {
                    self.link.push_damaged_frame(at, key.0, &segment, event);
                }
            }
        }
    }

    /// Carries out the decisions of the queue.
    fn conclude(&mut self, key: (Time, Time)) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Marked { handle, reason } => {
                    let slot = &mut self.slots[handle as usize];
                    slot.segment.flags = slot.segment.flags.with(Flags::CE);
                    let handle = slot.handle;
                    self.push(key, handle, EventKind::Marked(reason));
                }
                Outcome::Dropped { handle, reason } => {
                    self.end(key, handle, EventKind::Refused(reason));
                }
                Outcome::Filtered { handle, .. } => self.end(key, handle, EventKind::Filtered),
            }
        }
        self.outcomes = outcomes;
    }

    /// The frame's last event, except for what the receiving node is told.
    fn end(&mut self, key: (Time, Time), slot: Handle, kind: EventKind) {
        self.push(key, self.slots[slot as usize].handle, kind);
        self.free.push(slot);
    }

    /// An event for agents at the sending node, if one subscribes to it.
    fn tell(&mut self, key: (Time, Time), handle: Handle, event: LinkEvent) {
        if self.sender.any(event.subscription()) {
            self.push(key, handle, EventKind::Told(event));
        }
    }

    fn put(&mut self, frame: Slot) -> Handle {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = frame;
                slot
            }
            None => {
                self.slots.push(frame);
                (self.slots.len() - 1) as Handle
            }
        }
    }

    fn push(&mut self, (at, triggered_at): (Time, Time), handle: Handle, kind: EventKind) {
        self.events.push_back(Event { at, triggered_at, handle, kind });
    }
}

#[cfg(test)]
mod tests;
