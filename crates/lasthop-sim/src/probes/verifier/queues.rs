//! Checks of a queue with a discipline other than DropTail, whichever frames it chooses: the queue
//! limit holds, no flow is reordered, the link is not idle while frames are queued, and only frames
//! that the discipline may mark or drop are marked or dropped.

use lasthop::queue::{QueueConfig, Queued};
use lasthop::segment::{Flags, Segment};
use lasthop::units::{QueueLimit, Time};

use super::checked::{Checked, ensure};

/// The model of one queue with a discipline other than DropTail.
pub(super) struct QueueModel {
    config: QueueConfig,
    /// Queued frames in order of arrival.
    waiting: Vec<Waiting>,
    /// The frame that arrived last, until it or another one leaves to be sent.
    last_enqueued: Option<u64>,
    /// True if its arrival exceeded the limit.
    over: bool,
    /// True if its arrival has removed another frame.
    has_filtered: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    bytes: u64,
    flow: (bool, u32),
    flags: Flags,
    segment: Segment,
    /// The part of the queue that it has entered.
    lane: u8,
    at: Time,
}

/// Marks of ECN, in the IP and TCP headers.
const ECN: Flags = Flags::ECE.with(Flags::CWR).with(Flags::ECT).with(Flags::ECT1).with(Flags::CE);

impl QueueModel {
    pub(super) fn new(config: &QueueConfig) -> QueueModel {
        QueueModel {
            config: config.clone().filled(),
            waiting: Vec::new(),
            last_enqueued: None,
            over: false,
            has_filtered: false,
        }
    }

    /// Returns true if the queued frames exceed the limit.
    fn is_over(&self) -> bool {
        match self.config.limit {
            None => false,
            Some(QueueLimit::Packets(n)) => self.waiting.len() as u64 > n,
            Some(QueueLimit::Bytes(n)) => self.waiting.iter().map(|w| w.bytes).sum::<u64>() > n,
        }
    }

    fn place(&self, id: u64) -> Result<usize, String> {
        self.waiting.iter().position(|w| w.id == id).ok_or_else(|| "is not in this queue".into())
    }

    fn is_first_of_flow(&self, i: usize) -> bool {
        !self.waiting[..i].iter().any(|w| w.flow == self.waiting[i].flow)
    }

    /// A frame is offered. According to the event, `reported` frames are queued.
    pub(super) fn enqueued(
        &mut self,
        segment: &Segment,
        bytes: u32,
        now: Time,
        reported: u64,
    ) -> Checked {
        let waiting = self.waiting.len() as u64;
        let within = self.settled();
        let flow = (segment.flags.has(Flags::DATAGRAM), segment.flow);
        self.waiting.push(Waiting {
            id: segment.id,
            bytes: bytes.into(),
            flow,
            flags: segment.flags,
            segment: *segment,
            lane: self.config.discipline.lane(segment.flags),
            at: now,
        });
        self.last_enqueued = Some(segment.id);
        self.over = self.is_over();
        self.has_filtered = false;
        within?;
        ensure(reported == waiting, || {
            format!("{reported} frames are reported as queued, expected {waiting}")
        })
    }

    /// Checks that all drops that the limit requires have taken place.
    fn settled(&self) -> Checked {
        ensure(!self.is_over(), || {
            format!(
                "{} frames are queued, which exceeds the limit {:?}",
                self.waiting.len(),
                self.config.limit
            )
        })
    }

    pub(super) fn dropped(&mut self, id: u64, reason: &str) -> Checked {
        let i = self.place(id)?;
        let verdict = self.check_drop(i, reason);
        self.waiting.remove(i);
        verdict
    }

    /// What a discipline may know of a queued frame.
    fn queued(&self, i: usize) -> Queued {
        let w = &self.waiting[i];
        let is_arriving = |w: &Waiting| self.last_enqueued == Some(w.id);
        let is_low = |w: &Waiting| w.flags.has(Flags::LOW_PRIORITY) && !is_arriving(w);
        Queued {
            flags: w.flags,
            is_arriving: is_arriving(w),
            is_first: !self.waiting[..i].iter().any(|before| before.lane == w.lane),
            is_first_of_flow: self.is_first_of_flow(i),
            exceeds_limit: self.over,
            limit_in_bytes: matches!(self.config.limit, Some(QueueLimit::Bytes(_))),
            low_priority_waits: self.waiting.iter().any(is_low),
            is_last_of_flow: !self.waiting[i + 1..]
                .iter()
                .any(|after| after.flow == w.flow && !is_arriving(after)),
        }
    }

    fn check_drop(&self, i: usize, reason: &str) -> Checked {
        let w = &self.waiting[i];
        let may = self.config.discipline.may_drop(reason, &self.queued(i));
        ensure(may, || {
            format!(
                "is dropped with the reason \"{reason}\", which the discipline does not allow: \
                 {w:?}, {} frames are queued",
                self.waiting.len()
            )
        })
    }

    /// The frame that arrived last removes this one: it is a pure ACK of its connection, and
    /// acknowledges no more.
    pub(super) fn filtered(&mut self, id: u64) -> Checked {
        let i = self.place(id)?;
        let may = self.config.discipline.may_filter(&self.queued(i));
        let only = !std::mem::replace(&mut self.has_filtered, true);
        let old = self.waiting.remove(i);
        self.over = self.is_over();
        let new = self.waiting.last().filter(|w| self.last_enqueued == Some(w.id));
        let is_redundant = |new: &Waiting| {
            let (o, n) = (&old.segment, &new.segment);
            // A D-SACK block beyond the acknowledgment number is one that others cover.
            let sack = Flags::SACK.with(Flags::DSACK);
            let plain = Flags::ACK.with(ECN).with(Flags::TIMESTAMPS).with(sack);
            let is_pure = o.len == 0 && o.flags.without(plain) == Flags::NONE;
            let acks = o.flags.has(Flags::ACK) && n.flags.has(Flags::ACK);
            let reports_more = n.flags.has(Flags::SACK);
            let has_sack = !o.flags.has(Flags::SACK) || reports_more;
            let advances = n.ack > o.ack || n.ack == o.ack && reports_more;
            let same = (old.flow, o.forward) == (new.flow, n.forward);
            is_pure && acks && has_sack && advances && same
        };
        ensure(may && only && new.is_some_and(is_redundant), || {
            format!("is removed by {new:?}, which does not make it redundant: {old:?}")
        })
    }

    /// The frame is marked; `segment` is its state afterwards.
    pub(super) fn marked(&mut self, segment: &Segment, reason: &str) -> Checked {
        let i = self.place(segment.id)?;
        let may = self.config.discipline.may_mark(reason, &self.queued(i));
        let w = &mut self.waiting[i];
        let capable = w.flags.has(Flags::ECT);
        w.flags = w.flags.with(Flags::CE);
        ensure(may && capable, || {
            format!(
                "is marked with the reason \"{reason}\", which the discipline does not allow: {w:?}"
            )
        })
    }

    /// A frame leaves to be sent on a link that is free from `free_at`, if that is known.
    pub(super) fn dequeued(
        &mut self,
        id: u64,
        now: Time,
        waited: f64,
        free_at: Option<Time>,
    ) -> Checked {
        let i = self.place(id)?;
        let in_turn = self.config.discipline.may_send(&self.queued(i));
        let passes = self.last_enqueued.take() == Some(id) && self.waiting.len() == 1;
        let within = if passes { Ok(()) } else { self.settled() };
        let w = self.waiting.remove(i);
        within?;
        ensure(in_turn, || "overtakes another frame of its flow".into())?;
        let since = (now - w.at).as_secs();
        ensure((waited - since).abs() < 1e-9, || {
            format!("is reported to have waited {waited} s, expected {since} s")
        })?;
        let Some(free_at) = free_at else { return Ok(()) };
        ensure(now >= free_at, || {
            format!("is sent while another frame is being sent until {free_at}")
        })?;
        ensure(now == free_at || now == w.at, || {
            format!("is sent late: the link was free at {free_at}")
        })
    }

    /// Returns true if a frame has been queued since before `now`.
    pub(super) fn waits(&self, now: Time) -> bool {
        self.waiting.iter().any(|w| w.at < now)
    }
}
