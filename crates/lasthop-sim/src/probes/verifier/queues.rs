//! Checks of a queue with a discipline other than DropTail, whichever frames it chooses: the queue
//! limit holds, no flow is reordered, the link is not idle while frames are queued, and only frames
//! that the discipline may mark or drop are marked or dropped.

use lasthop::queue::{Discipline, QueueConfig, drop_reason};
use lasthop::segment::{Flags, Segment};
use lasthop::units::{QueueLimit, Time};

/// The model of one queue with a discipline other than DropTail.
pub(super) struct QueueModel {
    config: QueueConfig,
    /// Queued frames in order of arrival.
    waiting: Vec<Waiting>,
    /// The frame that arrived last, until it or another one leaves to be sent.
    last_enqueued: Option<u64>,
    /// True if its arrival exceeded the limit.
    over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    bytes: u64,
    flow: (bool, u32),
    flags: Flags,
    at: Time,
}

impl Waiting {
    fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }
}

type Checked = Result<(), String>;

fn ensure(ok: bool, text: impl FnOnce() -> String) -> Checked {
    if ok { Ok(()) } else { Err(text()) }
}

impl QueueModel {
    pub(super) fn new(config: &QueueConfig) -> QueueModel {
        QueueModel {
            config: config.clone().filled(),
            waiting: Vec::new(),
            last_enqueued: None,
            over: false,
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
            at: now,
        });
        self.last_enqueued = Some(segment.id);
        self.over = self.is_over();
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

    fn check_drop(&self, i: usize, reason: &str) -> Checked {
        let w = &self.waiting[i];
        let is_last_enqueued = self.last_enqueued == Some(w.id);
        let low = |w: &Waiting| w.has(Flags::LOW_PRIORITY);
        let others_low = self.waiting.iter().any(|w| low(w) && self.last_enqueued != Some(w.id));
        let spared = |ecn: bool| !(ecn && w.has(Flags::ECT));
        let may = match (&self.config.discipline, reason) {
            (Discipline::Foreign(_), _) => true,
            // With a limit in bytes, pushing out a few small frames of low priority may not make
            // room for a large one.
            (Discipline::TwoPriority(_), drop_reason::FULL) if others_low => {
                self.over && matches!(self.config.limit, Some(QueueLimit::Bytes(_)))
            }
            (Discipline::TwoPriority(_), drop_reason::PUSHED_OUT) => {
                low(w) && !is_last_enqueued && self.over
            }
            (Discipline::DropHead(_), drop_reason::HEAD) => {
                i == 0 && !is_last_enqueued && self.over
            }
            (Discipline::FqCodel(_), drop_reason::FATTEST) => self.over && self.is_first_of_flow(i),
            (Discipline::FqCodel(fq), drop_reason::CODEL) => {
                spared(fq.ecn) && self.is_first_of_flow(i)
            }
            (Discipline::FqCodel(_), _) => false,
            (Discipline::Codel(codel), drop_reason::CODEL) => spared(codel.ecn) && i == 0,
            (Discipline::Red(red), drop_reason::RED_EARLY) => spared(red.ecn) && is_last_enqueued,
            (Discipline::Red(_), drop_reason::RED_FORCED) => is_last_enqueued,
            (_, drop_reason::FULL) => is_last_enqueued && self.over,
            _ => false,
        };
        ensure(may, || {
            format!(
                "is dropped with the reason \"{reason}\", which the discipline does not allow: \
                 {w:?}, {} frames are queued",
                self.waiting.len()
            )
        })
    }

    /// The frame is marked; `segment` is its state afterwards.
    pub(super) fn marked(&mut self, segment: &Segment, reason: &str) -> Checked {
        let i = self.place(segment.id)?;
        let w = &mut self.waiting[i];
        let may = match (&self.config.discipline, reason) {
            (Discipline::Foreign(_), _) => true,
            (Discipline::Red(red), drop_reason::RED_EARLY) => {
                red.ecn && self.last_enqueued == Some(w.id)
            }
            (Discipline::Codel(codel), drop_reason::CODEL) => codel.ecn,
            (Discipline::FqCodel(fq), drop_reason::CODEL) => fq.ecn,
            (Discipline::StepMarking(_), drop_reason::STEP)
            | (Discipline::CwMarking(_), drop_reason::CW) => self.last_enqueued == Some(w.id),
            _ => false,
        };
        let capable = w.has(Flags::ECT);
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
        let passes = self.last_enqueued.take() == Some(id) && self.waiting.len() == 1;
        let within = if passes { Ok(()) } else { self.settled() };
        let in_turn = match self.config.discipline {
            Discipline::Foreign(_) => true,
            Discipline::FqCodel(_) => self.is_first_of_flow(i),
            _ => i == 0,
        };
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
