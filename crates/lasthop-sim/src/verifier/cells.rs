//! What a cell must do: one station sends at a time or all that do collide, pauses are kept, each
//! station's frames leave in order, and a frame is sent as often as it may be.

use lasthop::scenario::network::{Cell, Link};
use lasthop::segment::Segment;
use lasthop::units::{Duration, QueueLimit, Time};

use crate::cells::drop_reason;
use crate::events::Kind;

/// The books of one cell.
pub(super) struct CellBook {
    config: Cell,
    stations: Vec<Station>,
    /// Attempts that have ended at the instant `at`.
    ended: Vec<Ended>,
    at: Time,
    /// From when on somebody may send again, DIFS included.
    free: Time,
    /// Attempts so far.
    pub(super) attempts: u64,
    /// Fragments may collide unheard: there are some, and no link ACKs.
    is_deaf: bool,
}

#[derive(Default)]
struct Station {
    /// What it has, the frame in service first.
    frames: Vec<Frame>,
    is_drop_tail: bool,
    limit: Option<QueueLimit>,
}

#[derive(Clone, Copy)]
struct Frame {
    id: u64,
    bytes: u64,
    /// Its fragments, and the attempts that it may use.
    fragments: u32,
    slots: u32,
    attempts: u32,
    failures: u32,
    arrived: bool,
    /// When an attempt failed last.
    failed: Option<Time>,
}

/// An attempt that has ended.
#[derive(Clone, Copy)]
struct Ended {
    station: u32,
    air: Duration,
    reason: &'static str,
}

type Checked = Result<(), String>;

fn must(ok: bool, text: impl FnOnce() -> String) -> Checked {
    if ok { Ok(()) } else { Err(text()) }
}

impl CellBook {
    pub(super) fn new(config: &Cell) -> CellBook {
        let station = |s: &lasthop::link::cell::config::StationConfig| Station {
            frames: Vec::new(),
            is_drop_tail: s.queue.is_drop_tail(),
            limit: s.queue.limit,
        };
        let stations = config.stations.iter().map(station).collect();
        CellBook {
            config: config.clone(),
            stations,
            ended: Vec::new(),
            at: Time::ZERO,
            free: Time::ZERO,
            attempts: 0,
            is_deaf: false,
        }
    }

    /// From the end of a transmission to the arrival of the frame.
    pub(super) fn delay(&self) -> Duration {
        self.config.mac.delay
    }

    /// How often a whole frame is sent at most.
    pub(super) fn attempts_allowed(&self) -> u32 {
        if self.config.mac.link_acks { self.config.mac.attempts.max(1) } else { 1 }
    }

    /// A frame of so many fragments and attempts comes to the queue of the station `from` when, by
    /// the cell's own account, `said` frames wait there.
    pub(super) fn enqueued(
        &mut self,
        from: u32,
        link: &Link,
        segment: &Segment,
        (fragments, slots): (u32, u32),
        said: u64,
    ) -> Checked {
        self.is_deaf |= fragments > 1 && !self.config.mac.link_acks;
        let station = &mut self.stations[from as usize];
        // A frame whose link ACK was lost may have been delivered since, of which nobody hears.
        let most = station.frames.len().saturating_sub(1) as u64;
        // One that has ended may not have arrived yet.
        let under_way = self.config.mac.delay.0 > 0;
        let unsure =
            u64::from(station.frames.first().is_some_and(|f| f.arrived)) + u64::from(under_way);
        let bytes = u64::from(segment.size + link.overhead);
        station.frames.push(Frame {
            id: segment.id,
            bytes,
            fragments,
            slots,
            attempts: 0,
            failures: 0,
            arrived: false,
            failed: None,
        });
        let least = most.saturating_sub(unsure);
        let managed = !station.is_drop_tail;
        must(managed || (least..=most).contains(&said), || {
            format!("{said} frames are said to wait, it must be {least} to {most}")
        })
    }

    /// A frame is dropped by its station's queue.
    pub(super) fn dropped(&mut self, from: u32, id: u64) -> Checked {
        let station = &mut self.stations[from as usize];
        let Some(i) = station.frames.iter().position(|f| f.id == id) else {
            return Err("is dropped where it is not".into());
        };
        let frame = station.frames.remove(i);
        if !station.is_drop_tail {
            return Ok(());
        }
        let waiting = station.frames.len().saturating_sub(1) as u64;
        let bytes: u64 = station.frames.iter().skip(1).map(|f| f.bytes).sum();
        let full = match station.limit {
            None => false,
            Some(QueueLimit::Packets(n)) => waiting >= n,
            Some(QueueLimit::Bytes(n)) => bytes + frame.bytes > n,
        };
        must(i == station.frames.len() && i > 0, || {
            "is dropped by DropTail, but was not the last to come".into()
        })?;
        must(full, || format!("is refused, but there is room ({waiting} frames wait)"))
    }

    /// An attempt of the station `from` ended, as `kind` and `cause` say; `number` is its number,
    /// where it is known.
    pub(super) fn ended(
        &mut self,
        from: u32,
        id: u64,
        kind: Kind,
        why: &'static str,
        number: f64,
        now: Time,
    ) -> Checked {
        let now = if kind == Kind::Arrived {
            Time(now.0.saturating_sub(self.config.mac.delay.0))
        } else {
            now
        };
        let settled = if now > self.at { self.settle() } else { Ok(()) };
        self.at = now;
        let station = &mut self.stations[from as usize];
        while station.frames.first().is_some_and(|f| f.arrived && f.id != id) {
            station.frames.remove(0);
        }
        let Some(i) = station.frames.iter().position(|f| f.id == id) else {
            return Err("is sent by a station that does not have it".into());
        };
        let in_turn = i == 0 || !station.is_drop_tail;
        if why == drop_reason::CONTENTION {
            station.frames.remove(i);
            must(self.config.mac.max_deferrals > 0, || {
                "is given up without an attempt, for no reason".into()
            })?;
            return settled;
        }
        let frame = &mut station.frames[i];
        let limit = frame.slots;
        if frame.fragments > 1 {
            let counted = self.fragment_ended(from, i, kind, why, number, now);
            must(in_turn, || "overtakes another frame of its station".into())?;
            return counted.and(settled);
        }
        let air = self.config.mac.preamble.time() + self.config.mac.data_rate.time_for(frame.bytes);
        let mut counted = Ok(());
        // What does not come with word of a failed attempt is an attempt of its own: a frame that
        // arrives and is acknowledged, or one that is lost in its only attempt.
        let failed = frame.failed.take_if(|t| *t == now).is_some();
        if kind == Kind::AttemptFailed || !failed {
            frame.attempts += 1;
            let reason = if kind == Kind::Arrived { "" } else { why };
            self.attempts += 1;
            self.ended.push(Ended { station: from, air, reason });
        }
        let last = frame.attempts >= limit;
        if frame.attempts > limit
            || (kind == Kind::AttemptFailed && number != f64::from(frame.attempts))
        {
            counted = Err(format!(
                "is sent for the {}. time, of {limit}; it is said to be number {number}",
                frame.attempts
            ));
        }
        match kind {
            Kind::AttemptFailed => {
                let arrives = why == drop_reason::LINK_ACK && !frame.arrived;
                frame.arrived |= arrives;
                frame.failed = Some(now);
                if last && frame.arrived && !arrives {
                    station.frames.remove(i);
                }
            }
            Kind::Arrived if failed && !last => {}
            _ => {
                if kind == Kind::LostOnAir && (!last || frame.arrived) {
                    counted = Err("is given up before the last attempt, or has arrived".into());
                }
                station.frames.remove(i);
            }
        }
        must(in_turn, || "overtakes another frame of its station".into())?;
        counted.and(settled)
    }

    /// The same of frame `i`, which is cut. Of fragments that get through nobody hears until the
    /// last.
    fn fragment_ended(
        &mut self,
        from: u32,
        i: usize,
        kind: Kind,
        why: &'static str,
        number: f64,
        now: Time,
    ) -> Checked {
        let station = &mut self.stations[from as usize];
        let frame = &mut station.frames[i];
        let failed = frame.failed.take_if(|t| *t == now).is_some();
        if kind == Kind::AttemptFailed || !failed {
            // Of its length no more is known than that it had a preamble.
            let air = self.config.mac.preamble.time();
            let reason = if kind == Kind::AttemptFailed { why } else { "" };
            self.ended.push(Ended { station: from, air, reason });
        }
        let (slots, had) = (frame.slots, frame.attempts);
        let counted;
        match kind {
            Kind::AttemptFailed => {
                frame.attempts = number as u32;
                frame.failures += 1;
                frame.failed = Some(now);
                self.attempts += 1;
                counted = must(had < frame.attempts && frame.attempts <= slots, || {
                    format!("attempt {number} comes after {had}, of {slots}")
                });
                if frame.arrived && frame.attempts == slots {
                    station.frames.remove(i);
                }
            }
            Kind::Arrived => {
                counted = must(!frame.arrived, || "arrives again".into());
                frame.arrived = true;
                self.attempts += u64::from(frame.fragments - u32::from(failed));
                if !failed || frame.attempts == slots {
                    station.frames.remove(i);
                }
            }
            _ => {
                counted = must(!frame.arrived, || "is lost and has arrived".into());
                // Without link ACKs each fragment goes once.
                let used = if self.config.mac.link_acks { slots } else { frame.fragments };
                self.attempts += u64::from(used - frame.failures);
                station.frames.remove(i);
            }
        }
        counted
    }

    /// All attempts that ended at one instant are known.
    pub(super) fn settle(&mut self) -> Checked {
        let ended = std::mem::take(&mut self.ended);
        let Some(longest) = ended.iter().map(|e| e.air).max() else { return Ok(()) };
        let mac = &self.config.mac;
        let mut senders: Vec<u32> = ended.iter().map(|e| e.station).collect();
        senders.sort_unstable();
        senders.dedup();
        let collided = ended.iter().filter(|e| e.reason == drop_reason::COLLISION).count();
        let (at, free) = (self.at, self.free);
        // With RTS a collision may be shorter than the frames.
        let threshold = mac.rts_threshold.bytes(1);
        let rts =
            mac.link_acks && mac.data_rate.time_for(threshold) + mac.preamble.time() < longest;
        let answered =
            ended.iter().any(|e| e.reason.is_empty() || e.reason == drop_reason::LINK_ACK)
                && mac.link_acks;
        let ack = mac.preamble.time() + mac.basic_rate.time_for(14);
        self.free = at + if answered { mac.sifs + ack + mac.difs } else { mac.difs };
        must(senders.len() == ended.len(), || format!("a station sends twice at {at}"))?;
        must(self.is_deaf || collided == 0 || collided == ended.len(), || {
            format!("some of those who send at {at} collide")
        })?;
        must(self.is_deaf || (ended.len() > 1) == (collided > 0), || {
            format!("{} stations send at {at}, {collided} collide", ended.len())
        })?;
        must(rts || at - longest >= free, || {
            format!("the frame that ends at {at} started before {free}, when the medium was free")
        })
    }

    /// At the end: true if the station still has the frame.
    pub(super) fn has(&self, from: u32, id: u64) -> bool {
        self.stations[from as usize].frames.iter().any(|f| f.id == id)
    }
}
