//! What a queue with a discipline must do, whomever it chooses: nobody waits beyond the limit, no
//! flow is reordered, the link is not idle while somebody waits, and who is marked or dropped is
//! one whom the discipline may mark or drop.

use lasthop::queue::{Discipline, QueueConfig, drop_reason};
use lasthop::segment::{Flags, Segment};
use lasthop::units::{QueueLimit, Time};

/// The books of one queue with another discipline than DropTail.
pub(super) struct QueueBook {
    config: QueueConfig,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
    /// The frame that came last, until it or another one leaves to be sent.
    newcomer: Option<u64>,
    /// More waited than the limit allows when it had come.
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

fn must(ok: bool, text: impl FnOnce() -> String) -> Checked {
    if ok { Ok(()) } else { Err(text()) }
}

impl QueueBook {
    pub(super) fn new(config: &QueueConfig) -> QueueBook {
        QueueBook {
            config: config.clone().filled(),
            waiting: Vec::new(),
            newcomer: None,
            over: false,
        }
    }

    /// Those that wait, as the limit counts them, beyond the limit.
    fn is_over(&self) -> bool {
        match self.config.limit {
            None => false,
            Some(QueueLimit::Packets(n)) => self.waiting.len() as u64 > n,
            Some(QueueLimit::Bytes(n)) => self.waiting.iter().map(|w| w.bytes).sum::<u64>() > n,
        }
    }

    fn place(&self, id: u64) -> Result<usize, String> {
        self.waiting
            .iter()
            .position(|w| w.id == id)
            .ok_or_else(|| "does not wait in this queue".into())
    }

    fn is_first_of_flow(&self, i: usize) -> bool {
        !self.waiting[..i].iter().any(|w| w.flow == self.waiting[i].flow)
    }

    /// A frame comes when, by the queue's own account, `said` frames wait.
    pub(super) fn enqueued(
        &mut self,
        segment: &Segment,
        bytes: u32,
        now: Time,
        said: u64,
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
        self.newcomer = Some(segment.id);
        self.over = self.is_over();
        within?;
        must(said == waiting, || format!("{said} frames are said to wait, it must be {waiting}"))
    }

    /// All that had to be dropped has been.
    fn settled(&self) -> Checked {
        must(!self.is_over(), || {
            format!("{} frames wait beyond the limit {:?}", self.waiting.len(), self.config.limit)
        })
    }

    pub(super) fn dropped(&mut self, id: u64, why: &str) -> Checked {
        let i = self.place(id)?;
        let verdict = self.check_drop(i, why);
        self.waiting.remove(i);
        verdict
    }

    fn check_drop(&self, i: usize, why: &str) -> Checked {
        let w = &self.waiting[i];
        let is_newcomer = self.newcomer == Some(w.id);
        let low = |w: &Waiting| w.has(Flags::LOW_PRIORITY);
        let others_low = self.waiting.iter().any(|w| low(w) && self.newcomer != Some(w.id));
        let spared = |ecn: bool| !(ecn && w.has(Flags::ECT));
        let may = match (&self.config.discipline, why) {
            (Discipline::Foreign(_), _) => true,
            // In bytes a few small frames of low priority may not be worth the place of a large
            // one.
            (Discipline::TwoPriority(_), drop_reason::FULL) if others_low => {
                self.over && matches!(self.config.limit, Some(QueueLimit::Bytes(_)))
            }
            (Discipline::TwoPriority(_), drop_reason::PUSHED_OUT) => {
                low(w) && !is_newcomer && self.over
            }
            (Discipline::FqCodel(_), drop_reason::FATTEST) => self.over && self.is_first_of_flow(i),
            (Discipline::FqCodel(fq), drop_reason::CODEL) => {
                spared(fq.ecn) && self.is_first_of_flow(i)
            }
            (Discipline::FqCodel(_), _) => false,
            (Discipline::Codel(codel), drop_reason::CODEL) => spared(codel.ecn) && i == 0,
            (Discipline::Red(red), drop_reason::RED_EARLY) => spared(red.ecn) && is_newcomer,
            (Discipline::Red(_), drop_reason::RED_FORCED) => is_newcomer,
            (_, drop_reason::FULL) => is_newcomer && self.over,
            _ => false,
        };
        must(may, || {
            format!(
                "is dropped for the reason \"{why}\", which it must not be: {w:?}, {} wait",
                self.waiting.len()
            )
        })
    }

    /// The frame is marked; `segment` is what it is now.
    pub(super) fn marked(&mut self, segment: &Segment, why: &str) -> Checked {
        let i = self.place(segment.id)?;
        let w = &mut self.waiting[i];
        let may = match (&self.config.discipline, why) {
            (Discipline::Foreign(_), _) => true,
            (Discipline::Red(red), drop_reason::RED_EARLY) => {
                red.ecn && self.newcomer == Some(w.id)
            }
            (Discipline::Codel(codel), drop_reason::CODEL) => codel.ecn,
            (Discipline::FqCodel(fq), drop_reason::CODEL) => fq.ecn,
            (Discipline::StepMarking(_), drop_reason::STEP)
            | (Discipline::CwMarking(_), drop_reason::CW) => self.newcomer == Some(w.id),
            _ => false,
        };
        let capable = w.has(Flags::ECT);
        w.flags = w.flags.with(Flags::CE);
        must(may && capable, || {
            format!("is marked for the reason \"{why}\", which it must not be: {w:?}")
        })
    }

    /// A frame leaves to be sent on a link that is free from `free_at` on, if that is known.
    pub(super) fn dequeued(
        &mut self,
        id: u64,
        now: Time,
        waited: f64,
        free_at: Option<Time>,
    ) -> Checked {
        let i = self.place(id)?;
        let passes = self.newcomer.take() == Some(id) && self.waiting.len() == 1;
        let within = if passes { Ok(()) } else { self.settled() };
        let in_turn = match self.config.discipline {
            Discipline::Foreign(_) => true,
            Discipline::FqCodel(_) => self.is_first_of_flow(i),
            _ => i == 0,
        };
        let w = self.waiting.remove(i);
        within?;
        must(in_turn, || "overtakes one of its own flow".into())?;
        let since = (now - w.at).as_secs();
        must((waited - since).abs() < 1e-9, || {
            format!("is said to have waited {waited} s, it was {since} s")
        })?;
        let Some(free_at) = free_at else { return Ok(()) };
        must(now >= free_at, || format!("is sent while another one is, until {free_at}"))?;
        must(now == free_at || now == w.at, || {
            format!("is sent at last, but the link was free at {free_at}")
        })
    }

    /// True if somebody has waited since before `now`.
    pub(super) fn waits(&self, now: Time) -> bool {
        self.waiting.iter().any(|w| w.at < now)
    }
}
