//! Checks of a link: when it sends, when its frames arrive, and how many frames may be queued.

use std::collections::{BTreeMap, VecDeque};

use lasthop::air::config::{LossConfig, OutageRule};
use lasthop::framing::{AnyFraming, Framing};
use lasthop::link::arq::ArqKind;
use lasthop::scenario::network::Link;
use lasthop::segment::{Flags, Segment};
use lasthop::units::{QueueLimit, Time};

use super::queues::QueueModel;
use super::timing::{Bucket, DelayBounds, Spans, Transmitter};

/// The model of one link.
pub(super) struct LinkModel {
    pub config: Link,
    pub transmitter: Transmitter,
    pub delay: DelayBounds,
    pub policer: Option<Bucket>,
    /// The frame that the policer has to drop next.
    pub exceeding: Option<u64>,
    /// The queue, if its discipline is not DropTail.
    pub queue: Option<QueueModel>,
    pub lost_at_sending: Spans,
    pub lost_at_arrival: Spans,
    /// Frames on the link and the bounds of their arrival times.
    pub frames: BTreeMap<u64, Frame>,
    /// When each frame that may still be queued leaves the queue, and its size in bytes.
    pub waiting: VecDeque<(Time, u64)>,
    pub ordinal: u64,
    pub last_arrived: Option<u64>,
    pub last_lost: Option<u64>,
    /// End of the latest serialization; `None` once the time of a frame could not be predicted.
    pub busy_until: Option<Time>,
    pub offered: u64,
    pub delivered: u64,
    pub lost: u64,
    pub refused: u64,
    pub filtered: u64,
    pub marked: u64,
    /// In a cell: the smallest and the largest possible number of attempts.
    pub cell_attempts: (u64, u64),
    /// Attempts of frames that have arrived or were discarded, and how many more there may have
    /// been: fragments that arrived, of frames that were discarded.
    pub done: u64,
    pub unobserved: u64,
    /// By connection: how the link fragments its data; empty if it fragments none.
    pub framings: Vec<Option<AnyFraming>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub ordinal: u64,
    /// Start and end of serialization, if they are known.
    pub sent: Option<(Time, Time)>,
    /// Its fragments, and the number of attempts allowed for all of them together; one fragment
    /// unless the link fragments it.
    pub fragments: u32,
    pub slots: u32,
    /// Attempts allowed for each fragment, if the frame is discarded once one of them has failed as
    /// often.
    pub attempts_per_fragment: Option<u32>,
    /// Number of failed attempts, if the link layer retransmits, and the number of the last of
    /// them.
    pub failed: u32,
    pub last_failed: u32,
    pub earliest: Time,
    pub latest: Time,
}

impl LinkModel {
    pub(super) fn new(config: &Link) -> LinkModel {
        let spans = |rule| Spans::of(&config.outages, rule);
        LinkModel {
            transmitter: Transmitter::new(config),
            delay: DelayBounds::new(&config.delay),
            policer: config.impairments.policer.as_ref().map(Bucket::new),
            exceeding: None,
            queue: (!config.queue.is_drop_tail()).then(|| QueueModel::new(&config.queue)),
            lost_at_sending: spans(OutageRule::LostAtSending),
            lost_at_arrival: spans(OutageRule::LostAtArrival),
            frames: BTreeMap::new(),
            waiting: VecDeque::new(),
            ordinal: 0,
            last_arrived: None,
            last_lost: None,
            busy_until: Some(Time::ZERO),
            offered: 0,
            delivered: 0,
            lost: 0,
            refused: 0,
            filtered: 0,
            marked: 0,
            cell_attempts: (0, 0),
            done: 0,
            unobserved: 0,
            framings: Vec::new(),
            config: config.clone(),
        }
    }

    /// A frame is offered. According to the event, `waiting` frames are queued.
    pub(super) fn offer(
        &mut self,
        segment: &Segment,
        now: Time,
        waiting: u64,
        taken: bool,
    ) -> Result<(), String> {
        let bytes = segment.size + self.config.overhead;
        let verdict = self.check_queue(now, u64::from(bytes), waiting, taken);
        if taken {
            if self.config.queue.limit.is_some() {
                self.waiting
                    .push_back((self.busy_until.map_or(now, |b| b.max(now)), u64::from(bytes)));
            }
            self.send(segment, now);
        }
        verdict
    }

    /// Sends a frame that arrived or left the queue at `now`.
    fn send(&mut self, segment: &Segment, now: Time) {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let sent = self
            .transmitter
            .serialize(now, segment.size + self.config.overhead)
            .filter(|_| self.framings.is_empty());
        let (start, end) = sent.unwrap_or((now, now));
        let (earliest, latest) = self.delay.arrival(start, end, sent.is_some());
        self.busy_until = sent.map(|s| s.1);
        let (fragments, slots) = self.fragments_and_slots(segment);
        let attempts_per_fragment = self
            .config
            .arq
            .as_ref()
            .filter(|a| a.fragments > 1 && self.framing(segment).is_none())
            .map(|a| a.attempts);
        self.frames.insert(
            segment.id,
            Frame {
                ordinal,
                sent,
                fragments,
                slots,
                attempts_per_fragment,
                failed: 0,
                last_failed: 0,
                earliest,
                latest,
            },
        );
    }

    /// The number of fragments of this segment, and the number of attempts allowed for all of them.
    pub(super) fn fragments_and_slots(&self, segment: &Segment) -> (u32, u32) {
        self.cut(segment, self.config.arq.as_ref().map_or(1, |a| a.attempts))
    }

    /// Like [`Self::fragments_and_slots`], if a frame without fragments is sent up to `attempts`
    /// times.
    pub(super) fn cut(&self, segment: &Segment, attempts: u32) -> (u32, u32) {
        match self.framing(segment) {
            Some(framing) => {
                let fragments = framing.cut(segment).fragments();
                (fragments, framing.budget(fragments, attempts))
            }
            None => {
                let fragments =
                    self.config.arq.as_ref().map_or(1, |a| a.fragments).min(segment.size).max(1);
                (fragments, fragments * attempts)
            }
        }
    }

    /// How the scheme of the segment's flow fragments it, if it does.
    fn framing(&self, segment: &Segment) -> Option<AnyFraming> {
        let is_data = segment.forward
            && segment.len > 0
            && !segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE));
        self.framings.get(segment.flow as usize).copied().flatten().filter(|_| is_data)
    }

    /// A frame leaves a queue with a discipline other than DropTail.
    pub(super) fn dequeued(
        &mut self,
        segment: &Segment,
        now: Time,
        waited: f64,
    ) -> Result<(), String> {
        let Some(queue) = &mut self.queue else {
            return Err("leaves a DropTail queue, whose departures are not events".into());
        };
        let verdict = queue.dequeued(segment.id, now, waited, self.busy_until);
        self.send(segment, now);
        verdict
    }

    /// Checks that no frame is queued while the link is idle.
    pub(super) fn check_work_conserving(&self, now: Time) -> Result<(), String> {
        let idle = self.busy_until.is_some_and(|t| t < now)
            && self.queue.as_ref().is_some_and(|q| q.waits(now));
        if idle { Err("frames are queued, but the link is idle".into()) } else { Ok(()) }
    }

    /// Checks the reported queue length and the verdict of a DropTail queue. A frame that leaves at
    /// the same instant may or may not count as queued: that depends on the order of the events.
    fn check_queue(
        &mut self,
        now: Time,
        bytes: u64,
        waiting: u64,
        taken: bool,
    ) -> Result<(), String> {
        let (Some(limit), Some(busy_until)) = (self.config.queue.limit, self.busy_until) else {
            return Ok(());
        };
        while self.waiting.front().is_some_and(|w| w.0 < now) {
            self.waiting.pop_front();
        }
        let most = self.waiting.iter().fold((0, 0), |sum, w| (sum.0 + 1, sum.1 + w.1));
        let least = self
            .waiting
            .iter()
            .filter(|w| w.0 > now)
            .fold((0, 0), |sum, w| (sum.0 + 1, sum.1 + w.1));
        if waiting < least.0 || waiting > most.0 {
            return Err(format!(
                "{waiting} frames are reported as queued, expected {} to {}",
                least.0, most.0
            ));
        }
        let (full, room) = match limit {
            QueueLimit::Packets(n) => (waiting >= n, waiting < n),
            QueueLimit::Bytes(n) => (most.1 + bytes > n, least.1 + bytes <= n),
        };
        if taken && busy_until > now && !room {
            return Err(format!(
                "is accepted by a full queue ({waiting} frames, {} bytes; limit {limit:?})",
                least.1
            ));
        }
        if !taken && (busy_until < now || !full) {
            return Err(format!(
                "is dropped, but there is room ({waiting} frames, {} bytes; limit {limit:?})",
                most.1
            ));
        }
        Ok(())
    }

    pub(super) fn arrived(&mut self, id: u64, now: Time) -> Result<(), String> {
        let Some(frame) = self.frames.remove(&id) else {
            return Err("arrives, but was not sent".into());
        };
        if now < frame.earliest || now > frame.latest {
            return Err(format!(
                "arrives outside the possible interval, {} to {}",
                frame.earliest, frame.latest
            ));
        }
        // A frame held for in-order delivery crossed the air before `now`.
        let waited = self.config.arq.as_ref().is_some_and(|a| a.in_order);
        if (self.lost_at_arrival.contains(now) && !waited)
            || frame.sent.is_some_and(|s| self.lost_at_sending.contains(s.0))
        {
            return Err("arrives although the link is down".into());
        }
        if matches!(self.config.loss, LossConfig::Uniform { rate, .. } if rate.0 >= 1.0) {
            return Err("arrives although the loss rate is 1".into());
        }
        self.done += u64::from(frame.failed + frame.fragments);
        if frame.failed + frame.fragments > frame.slots {
            return Err("arrives after the link layer discarded it".into());
        }
        let overtook =
            self.last_arrived.replace(frame.ordinal).is_some_and(|last| last > frame.ordinal);
        if overtook && self.delivers_in_order() {
            Err("was overtaken on a link that delivers in order".into())
        } else {
            Ok(())
        }
    }

    /// Returns true if frames arrive in the order in which they were sent.
    fn delivers_in_order(&self) -> bool {
        match &self.config.arq {
            Some(arq) if arq.in_order => true,
            Some(arq)
                if arq.kind == ArqKind::SelectiveRepeat
                    && arq.attempts > 1
                    && self.framings.is_empty() =>
            {
                false
            }
            _ => !self.delay.may_reorder,
        }
    }

    /// The attempt `number` of this frame has failed.
    pub(super) fn attempt_failed(&mut self, id: u64, number: u32) -> Result<(), String> {
        let Some(frame) = self.frames.get_mut(&id) else {
            return Err("fails, but was not sent".into());
        };
        frame.failed += 1;
        let before = std::mem::replace(&mut frame.last_failed, number);
        // Between two failed attempts there may be one successful attempt per fragment.
        let between = number.checked_sub(before + 1);
        if between.is_none_or(|b| b >= frame.fragments) || number > frame.slots {
            return Err(format!(
                "fails in attempt {number}; this is failure {} of at most {}",
                frame.failed, frame.slots
            ));
        }
        Ok(())
    }

    /// The smallest and the largest possible number of attempts, from the events of the whole run.
    pub(super) fn attempts(&self) -> (u64, u64) {
        let failed: u64 = self.frames.values().map(|f| u64::from(f.failed)).sum();
        let through: u64 = self.frames.values().map(|f| u64::from(f.fragments)).sum();
        (self.done + failed, self.done + failed + through + self.unobserved)
    }

    pub(super) fn lost(&mut self, id: u64, now: Time) -> Result<(), String> {
        let Some(frame) = self.frames.remove(&id) else {
            return Err("is lost, but was not sent".into());
        };
        if frame.sent.is_some_and(|s| s.1 != now) {
            return Err(format!(
                "is lost at a time other than the end of its air time, {}",
                frame.sent.map_or(now, |s| s.1)
            ));
        }
        if let Some(each) = frame.attempts_per_fragment {
            self.done += u64::from(frame.failed);
            self.unobserved += u64::from(frame.fragments - 1);
            if frame.failed < each {
                return Err(format!(
                    "is discarded after {} failures, before a fragment can have had {each}",
                    frame.failed
                ));
            }
        } else {
            self.done += u64::from(frame.slots);
        }
        let through = if frame.slots == 1 { 0 } else { frame.slots - frame.failed };
        if frame.attempts_per_fragment.is_none() && through >= frame.fragments {
            return Err(format!("is discarded after {} of {} attempts", frame.failed, frame.slots));
        }
        let may_lose = match &self.config.loss {
            LossConfig::None => false,
            LossConfig::Uniform { rate, .. } => rate.0 > 0.0,
            _ => true,
        };
        let sending = frame
            .sent
            .map_or(!self.lost_at_sending.is_empty(), |s| self.lost_at_sending.contains(s.0));
        let arrival = self.lost_at_arrival.overlap(frame.earliest, frame.latest);
        if !may_lose && !sending && !arrival {
            return Err("is lost, but the link cannot lose frames at that time".into());
        }
        if self.config.arq.as_ref().is_some_and(|a| a.kind == ArqKind::SelectiveRepeat)
            && self.framings.is_empty()
        {
            return Ok(());
        }
        let order = self.last_lost.replace(frame.ordinal).is_none_or(|last| last < frame.ordinal);
        if order { Ok(()) } else { Err("is lost out of order".into()) }
    }
}
