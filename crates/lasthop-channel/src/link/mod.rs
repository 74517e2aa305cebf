//! A one-way point-to-point link: queue, serialisation, air, propagation.
//!
//! If rate, delay and loss of a link are known in advance and its queue is DropTail, the departure
//! and arrival of a frame can be computed when it enters the queue: one event per hop, the arrival.
//! An *evented* link works step by step, with a departure event for each frame, because other
//! disciplines decide at the departure. Any link can be evented; a property test checks that both
//! forms produce the same event stream.

#![allow(clippy::multiple_inherent_impl, reason = "each form of a link has a file")]

pub mod arq;
pub mod cell;
pub mod config;
mod damaged;
pub mod drive;
mod evented;
mod flight;
mod idle;
pub mod impairment;
mod reordering;
mod restart;
mod service;
pub mod stats;
mod steps;
mod waiting;

use std::collections::VecDeque;

use crate::air::config::LossConfig;
use crate::air::delay::DelayProcess;
use crate::air::loss::{Frame as AirFrame, LossProcess};
use crate::air::outage::OutageLoss;
use crate::air::rate::RateProcess;
use crate::queue::LinkFacts;
use lasthop_core::ring::Ring;
use lasthop_core::segment::{Handle, NodeId, Segment};
use lasthop_core::units::{Duration, QueueLimit, Rate, Time};

use arq::Arq;
use cell::config::Place;
use config::LinkConfig;
use damaged::DamagedFrame;
use evented::Evented;
pub use flight::{Fate, HELD_BY_HOST, Passage, Passed};
use flight::{HeldByHost, InFlight, is_later};
use idle::IdleFastPath;
use impairment::Processes;
use reordering::{Reordering, Sorter};
use service::Service;
use stats::{LinkStats, Measured};
use waiting::WaitingFrames;

/// A link of constant rate and delay. The arrival of a frame depends only on its size and, if the
/// link loses frames, on its fate.
#[derive(Clone, Copy, Debug)]
struct Plain {
    rate: Rate,
    delay: Duration,
    loses: bool,
}

/// Effects of the radio on a frame.
#[derive(Debug)]
struct Air {
    rate: RateProcess,
    delay: DelayProcess,
    loss: LossProcess,
    outage: OutageLoss,
}

/// A one-way link.
#[allow(clippy::partial_pub_fields, reason = "hosts read them at each arrival")]
pub struct Link {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// Counters of the measured time.
    pub stats: LinkStats,
    /// Position in a cell, if it is a pair of stations of one.
    place: Option<Place>,
    /// True if frames may be fragmented.
    cuts: bool,
    /// A number for the host, 0 at first. It is stored here because the host reads it at each
    /// arrival.
    pub tag: u32,
    overhead: u32,
    full_frame: u32,
    mss: u32,
    measured: Measured,
    ordinal: u64,
    /// No frame with an ordinal below this is lost, from the next one on.
    safe_until: u64,
    last_end: Time,
    last_start: Time,
    limit: Option<QueueLimit>,
    idle_path: IdleFastPath,
    plain: Option<Plain>,
    loses_frames: bool,
    /// Not plain, but what becomes of a frame depends on time, ordinal and size alone: the delay is
    /// constant or drawn in order, errors, if any, are drawn uniformly, and there are no outages.
    by_time: bool,
    /// Set if departures are events instead of being computed at enqueue.
    evented: Option<Box<Evented>>,
    /// Set if frames may take several slots, all of which are computed at enqueue.
    service: Option<Service>,
    /// The rate, if rate and delay are constant.
    constant: Option<Rate>,
    /// Frames that wait for their start of serialisation (computed links only).
    waiting: WaitingFrames,
    /// Frames in flight, if no frame can overtake another.
    pipe: Ring<InFlight>,
    /// Frames in flight that the host stores; they arrive before those in `pipe`.
    held: HeldByHost,
    /// Frames in flight, if they can be reordered.
    reordering: Option<Box<Reordering>>,
    /// Lost frames, in order of the end of their air time.
    losses: Ring<InFlight>,
    /// Damaged frames in flight, and whether an agent at the far end receives them.
    damaged_frames: VecDeque<DamagedFrame>,
    reports_damaged: bool,
    /// Set if the link polices, duplicates or corrupts frames.
    impairments: Option<Box<Processes>>,
    air: Box<Air>,
}

/// The link's answer to an offered frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The frame is admitted: `plan` has to follow.
    Admitted,
    /// The frame is admitted and may take several slots: `plan_service` has to follow.
    Served,
    /// The queue refuses it.
    Refused,
    /// The link is evented: `enqueue` has to follow.
    Evented,
}

/// Times and fate of a frame on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Start of serialisation.
    pub start: Time,
    /// End of serialisation.
    pub end: Time,
    /// Arrival at the far end.
    pub arrival: Time,
    /// The frame is lost on the air.
    pub lost: bool,
    /// It is lost by bit errors, so that a damaged frame arrives; otherwise nothing arrives.
    pub damaged: bool,
}

/// True if frames whose rate or delay varies need no stored segment and no plan.
fn is_by_time(config: &LinkConfig, delay: &DelayProcess) -> bool {
    (delay.constant().is_some() || delay.is_drawn_in_order())
        && matches!(config.loss, LossConfig::None | LossConfig::Uniform { .. })
        && config.outages.is_empty()
        && config.cell.is_none()
}

/// True if each departure is an event, impairments aside. A pair of stations of a cell is evented,
/// but the cell has the queue.
fn is_evented(config: &LinkConfig) -> bool {
    !config.queue.is_drop_tail() || config.arq.is_some() || config.cell.is_some()
}

/// The rate over time; `phase`: the start offset of a trace.
fn rate_process(config: &LinkConfig, phase: Duration) -> RateProcess {
    RateProcess::new(&config.rate, config.trace.clone(), &config.outages, phase)
        .shaped(config.shaper.as_ref())
}

/// The mean rate of a run.
fn mean_rate(rate: &RateProcess, run_end: Time) -> Rate {
    let bits = rate.capacity_bits(Time::ZERO, run_end);
    Rate((bits / (run_end - Time::ZERO).as_secs()) as u64)
}

impl Link {
    /// Builds a link from its part of the scenario. `phase` is the start offset of the trace;
    /// `name` and `seed` address the random draws.
    ///
    /// # Errors
    ///
    /// The message of the delay or loss model that refuses its settings.
    pub fn new(
        config: &LinkConfig,
        name: &str,
        seed: u64,
        phase: Duration,
        mss: u32,
        measure_from: Time,
        run_end: Time,
    ) -> Result<Link, String> {
        let rate = rate_process(config, phase);
        let delay = DelayProcess::new(&config.delay, seed, &["delay ", name].concat())?;
        let loss = LossProcess::new(&config.loss, seed, &["loss ", name].concat())?;
        let constant = rate.constant().zip(delay.constant()).filter(|_| config.cell.is_none());
        let loses = !matches!(config.loss, LossConfig::None);
        let plain = constant.filter(|_| config.outages.is_empty());
        let plain = plain.map(|(rate, delay)| Plain { rate, delay, loses });
        let by_time = plain.is_none() && is_by_time(config, &delay);
        let measured = Measured { from: measure_from, length: run_end - measure_from };
        let may_reorder = delay.may_reorder();
        let sorter =
            config.arq.as_ref().filter(|a| a.sorts(may_reorder)).map(|_| Sorter::default());
        let reordering =
            (may_reorder || sorter.is_some()).then(|| Box::new(Reordering::new(sorter)));
        let full_frame = mss + 40 + config.overhead;
        let impairments = Processes::new(&config.impairments, name, seed);
        let evented = (is_evented(config) || impairments.is_some()).then(|| {
            let rate = mean_rate(&rate, run_end);
            let queue = config.queue.build(&LinkFacts { name, seed, rate, full_frame });
            Box::new(Evented::new(queue, config.arq.as_ref().map(|a| Arq::new(a, may_reorder))))
        });
        Ok(Link {
            from: config.from,
            to: config.to,
            stats: LinkStats::default(),
            place: config.cell,
            cuts: false,
            tag: 0,
            overhead: config.overhead,
            full_frame,
            mss,
            measured,
            ordinal: 0,
            safe_until: 0,
            last_end: Time::ZERO,
            last_start: Time::ZERO,
            limit: config.queue.limit,
            idle_path: IdleFastPath::new(measured),
            plain,
            loses_frames: loses || !config.outages.is_empty(),
            by_time,
            evented,
            service: None,
            constant: constant.map(|c| c.0),
            waiting: WaitingFrames::default(),
            pipe: Ring::default(),
            held: HeldByHost::default(),
            reordering,
            losses: Ring::default(),
            damaged_frames: VecDeque::new(),
            reports_damaged: false,
            impairments,
            air: Box::new(Air { rate, delay, loss, outage: OutageLoss::new(&config.outages) }),
        })
    }

    /// Offers a frame of `size` bytes at `now`, by an event whose trigger time is `triggered_at`.
    /// The returned value says which call has to follow.
    #[inline(always)]
    pub fn offer(&mut self, now: Time, triggered_at: Time, size: u32) -> Offered {
        let bytes = size + self.overhead;
        self.stats.offered += u64::from(self.measured.holds(now));
        if self.evented.is_some() {
            return Offered::Evented;
        }
        if !self.enter_queue((now, triggered_at), bytes) {
            return Offered::Refused;
        }
        if self.service.is_some() {
            return Offered::Served;
        }
        Offered::Admitted
    }

    /// A frame enters the queue of a computed link, if it has to wait. False if the queue refuses
    /// it.
    #[inline(always)]
    fn enter_queue(&mut self, (now, triggered_at): (Time, Time), bytes: u32) -> bool {
        let (end, begun) = (self.last_end, self.last_start);
        if is_later((end, begun), (now, triggered_at))
            && let Some(limit) = self.limit
        {
            // Frames that have left are removed only where their number matters, many at once:
            // nothing predicts how many there are from one frame to the next.
            if self.waiting.frames() >= self.stats.queue_peak || self.refuses(limit, bytes) {
                self.waiting.settle(now, triggered_at);
                if self.refuses(limit, bytes) {
                    self.refuse(now);
                    return false;
                }
            }
            self.waiting.push_irregular(end, begun, bytes);
            if self.measured.holds(now) {
                self.stats.queue_peak = self.stats.queue_peak.max(self.waiting.frames());
            }
        }
        true
    }

    #[cold]
    fn refuse(&mut self, now: Time) {
        if self.measured.holds(now) {
            self.stats.dropped += 1;
            // The queue may have filled up before the measured time began.
            self.stats.queue_peak = self.stats.queue_peak.max(self.waiting.frames());
        }
    }

    /// Plans the next frame to be sent, which was enqueued at `enqueued`.
    // Inlined: the only frequent caller reads the fields at once, and returning the plan through
    // memory would cost more than computing it.
    #[inline(always)]
    pub fn plan(&mut self, now: Time, enqueued: Time, segment: &Segment) -> Plan {
        let bytes = segment.size + self.overhead;
        let (arrival, lost, damaged) = self.transmit(now, bytes, segment);
        let start = self.last_start;
        if self.measured.holds(start) {
            self.stats.queue_delay.record(start - enqueued, 1);
            self.stats.bytes += u64::from(bytes);
        }
        Plan { start, end: self.last_end, arrival, lost, damaged }
    }

    /// Plans a retransmission of the link layer.
    fn plan_retransmission(&mut self, now: Time, segment: &Segment) -> Plan {
        let bytes = segment.size + self.overhead;
        let (arrival, lost, damaged) = self.transmit(now, bytes, segment);
        if self.measured.holds(self.last_start) {
            self.stats.bytes += u64::from(bytes);
        }
        Plan { start: self.last_start, end: self.last_end, arrival, lost, damaged }
    }

    /// Arrival of the next frame, whether it is lost, and whether bit errors alone are the cause.
    #[inline(always)]
    fn transmit(&mut self, now: Time, bytes: u32, segment: &Segment) -> (Time, bool, bool) {
        let Some(plain) = self.plain else { return self.serialize(now, bytes, segment) };
        if self.idle_path.bytes != bytes {
            self.resize(segment.size);
        }
        self.serialize_plain(&plain, now, self.idle_path.time, bytes, segment)
    }

    /// As `transmit`, on a plain link, for a frame that takes `time` to send.
    #[inline(always)]
    fn serialize_plain(
        &mut self,
        plain: &Plain,
        now: Time,
        time: Duration,
        bytes: u32,
        segment: &Segment,
    ) -> (Time, bool, bool) {
        self.last_start = now.max(self.last_end);
        self.last_end = self.last_start + time;
        let lost = plain.loses && self.loses_next(bytes, || *segment);
        (self.last_end + plain.delay, lost, lost)
    }

    /// As `transmit`, on a link that is not plain.
    #[inline(never)]
    fn serialize(&mut self, now: Time, bytes: u32, segment: &Segment) -> (Time, bool, bool) {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let (start, end) = self.air.rate.serialize(now, bytes);
        let frame = AirFrame { start, ordinal, bytes, mss: self.mss, segment };
        let arrival = self.air.delay.arrival(&frame, end);
        (self.last_start, self.last_end) = (start, end);
        let errors = self.air.loss.lost(&frame);
        let out = self.air.outage.lost(start, arrival);
        if self.measured.holds(start) {
            self.stats.busy = self.stats.busy + (end - start);
        }
        (arrival, errors | out, errors & !out)
    }

    /// Puts a planned frame in flight. True if the time of the link's next event changes.
    #[inline(always)]
    pub fn propagate(&mut self, plan: &Plan, handle: Handle) -> bool {
        if plan.lost {
            self.losses.push(InFlight { at: plan.end, start: plan.start, handle, tag: 0 });
            return true;
        }
        self.push_in_flight(InFlight { at: plan.arrival, start: plan.start, handle, tag: 0 })
    }

    /// Puts a frame in flight that is sent and not lost. True if the time of the link's next event
    /// changes.
    #[inline(always)]
    pub fn put_sent_in_flight(&mut self, (start, at): Passage, handle: Handle) -> bool {
        self.push_in_flight(InFlight { at, start, handle, tag: 0 })
    }

    /// Adds a frame in flight that will arrive. True if the time of the link's next event changes.
    #[inline(always)]
    fn push_in_flight(&mut self, frame: InFlight) -> bool {
        if self.reordering.is_some() {
            self.push_reordering(frame.at, frame.start, frame.handle, frame.tag);
            return true;
        }
        self.pipe.push(frame);
        (self.pipe.len() == 1 && self.held.frames == 0) || self.evented.is_some()
    }

    // Field by field: a frame whose address is taken would be stored in memory on all links.
    #[inline(never)]
    fn push_reordering(&mut self, at: Time, start: Time, handle: Handle, tag: u32) {
        if let Some(reordering) = &mut self.reordering {
            reordering.push(InFlight { at, start, handle, tag });
        }
    }

    /// Counts a frame that arrives without an event of this link: it continues on a chained link,
    /// or leaves a cell.
    #[inline]
    pub fn passed(&mut self, arrival: Time) {
        self.count_delivery(arrival);
    }

    #[inline]
    fn count_delivery(&mut self, at: Time) {
        self.stats.delivered += u64::from(self.measured.holds(at));
    }

    /// True if a frame that has to wait would be refused.
    #[inline]
    fn refuses(&self, limit: QueueLimit, bytes: u32) -> bool {
        match limit {
            QueueLimit::Packets(n) => self.waiting.frames() >= n,
            QueueLimit::Bytes(n) => self.waiting.bytes() + u64::from(bytes) > n,
        }
    }

    /// Frames waiting, bytes waiting, and whether a full-sized frame would be refused. A computed
    /// link without a limit counts nothing.
    pub fn queue(&mut self, now: Time, triggered_at: Time) -> (u64, u64, bool) {
        if let Some(evented) = &self.evented {
            return evented.state(self.full_frame);
        }
        self.waiting.settle(now, triggered_at);
        let busy = is_later((self.last_end, self.last_start), (now, triggered_at));
        let full = busy && self.limit.is_some_and(|limit| self.refuses(limit, self.full_frame));
        (self.waiting.frames(), self.waiting.bytes(), full)
    }

    /// True if the queue would refuse a full-sized frame.
    #[inline]
    pub fn is_full(&mut self, now: Time, triggered_at: Time) -> bool {
        // Frames that have left are still counted here, so that there may only be fewer.
        let has_room = self.limit.is_none_or(|limit| !self.refuses(limit, self.full_frame));
        !(has_room && self.evented.is_none()) && self.queue(now, triggered_at).2
    }

    /// The rate at `now`, or `None` if it is not defined (traces).
    pub fn rate(&self, now: Time) -> Option<Rate> {
        self.air.rate.rate_at(now)
    }

    /// True if nothing is delivered now: the rate is zero, or there is an outage.
    pub fn is_down(&self, now: Time) -> bool {
        self.rate(now) == Some(Rate(0)) || self.air.outage.holds(now)
    }

    /// The first time after `now` at which rate or outage state may change.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        self.air.rate.next_change(now).into_iter().chain(self.air.outage.next_change(now)).min()
    }

    /// Capacity at `now`, bit/s. For a trace, which has no rate at a time, the mean over the last
    /// `span`.
    pub fn capacity_now(&self, now: Time, span: Duration) -> f64 {
        match self.rate(now) {
            Some(rate) => rate.0 as f64,
            None => {
                let from = Time(now.0.saturating_sub(span.0));
                self.air.rate.capacity_bits(from, from + span) / span.as_secs()
            }
        }
    }

    /// Mean delay of frames sent at `now`.
    pub fn mean_delay(&self, now: Time) -> Duration {
        self.air.delay.mean_at(now)
    }

    /// Capacity of the link over the measured time, bits.
    pub fn capacity_bits(&self) -> f64 {
        self.air.rate.capacity_bits(self.measured.from, self.measured.from + self.measured.length)
    }

    /// Time of the next arrival (`NEVER` if there is none) and its trigger time.
    #[inline]
    pub fn next_arrival(&self) -> (Time, Time) {
        if self.held.frames > 0 {
            return (self.held.at, self.held.start);
        }
        let next = match &self.reordering {
            None => self.pipe.front(),
            Some(reordering) => reordering.next(),
        };
        next.map_or((Time::NEVER, Time::ZERO), |f| (f.at, f.start))
    }

    /// Removes the frame that arrives; the second value is `next_arrival`. `None` if the frame has
    /// to wait for earlier ones.
    #[inline(always)]
    pub fn arrive(&mut self, now: Time) -> Option<(Handle, (Time, Time))> {
        if self.reordering.is_some() {
            return Some((self.arrive_reordered(now)?, self.next_arrival()));
        }
        self.count_delivery(now);
        let handle = self.pipe.pop()?.handle;
        let next = self.pipe.front().map_or((Time::NEVER, Time::ZERO), |f| (f.at, f.start));
        if self.coming() == Some(HELD_BY_HOST) {
            self.hold_next();
        }
        Some((handle, next))
    }

    /// The frame that arrives next, on links without reordering.
    #[inline(always)]
    pub fn coming(&self) -> Option<Handle> {
        self.pipe.front().map(|f| f.handle)
    }

    #[inline(never)]
    fn arrive_reordered(&mut self, now: Time) -> Option<Handle> {
        let handle = self.reordering.as_mut()?.pop()?.handle;
        self.count_delivery(now);
        Some(handle)
    }

    /// The earlier of the end of the air time of the next lost frame and the arrival of the next
    /// damaged one, with its trigger time.
    pub fn next_loss(&self) -> (Time, Time) {
        let lost = self.losses.front().map_or((Time::NEVER, Time::ZERO), |f| (f.at, f.start));
        match self.damaged_frames.front().map(|r| (r.at, r.start)) {
            Some(damaged_frames) if is_later(lost, damaged_frames) => damaged_frames,
            _ => lost,
        }
    }

    /// Removes the lost frame.
    pub fn lose(&mut self, now: Time) -> Option<Handle> {
        let frame = self.losses.pop()?;
        self.stats.lost += u64::from(now >= self.measured.from);
        Some(frame.handle)
    }

    /// Time spent sending within the measured time.
    pub fn busy(&self) -> Duration {
        match self.constant {
            Some(rate) => rate.time_for(self.stats.bytes),
            None => self.stats.busy,
        }
    }

    /// True if frames always leave in the order of their arrival.
    pub fn in_order(&self) -> bool {
        self.reordering.is_none()
    }
}
