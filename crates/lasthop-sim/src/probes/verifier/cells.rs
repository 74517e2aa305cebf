//! Checks of a cell: one station sends at a time, or all that do collide; interframe spaces are
//! observed; the frames of a station leave in order; a frame is not sent more often than allowed.

use lasthop::scenario::network::{Cell, Link};
use lasthop::segment::Segment;
use lasthop::units::{Duration, QueueLimit, Time};

use super::air_time::AirTimeModel;
use super::checked::{Checked, ensure};
use crate::events::Kind;
use crate::network::cells::drop_reason;

/// The model of one cell.
pub(super) struct CellModel {
    pub config: Cell,
    pub stations: Vec<Station>,
    /// How the medium is used, of a cell with aggregation.
    pub air_time: AirTimeModel,
    /// Attempts that have ended at the instant `at`.
    pub ended: Vec<Ended>,
    pub at: Time,
    /// When the medium is free again, DIFS included.
    pub free: Time,
    /// Number of attempts so far.
    pub attempts: u64,
    /// Fragments are sent without link ACKs, so that collisions of fragments cause no event.
    pub misses_collisions: bool,
}

#[derive(Default)]
pub(super) struct Station {
    /// Its frames, the one in service first.
    pub frames: Vec<Frame>,
    pub is_drop_tail: bool,
    pub limit: Option<QueueLimit>,
}

#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub id: u64,
    pub bytes: u64,
    /// Index of the receiving member.
    pub to: u32,
    /// Its fragments, and the number of attempts allowed.
    pub fragments: u32,
    pub slots: u32,
    pub attempts: u32,
    pub failures: u32,
    pub arrived: bool,
    /// The receiver has it, perhaps in its reorder buffer, but an acknowledgement was lost.
    pub received: bool,
    /// Time of the last failed attempt, and of the first one.
    pub failed: Option<Time>,
    pub first_failed: Option<Time>,
    /// The receiver has stopped waiting for it.
    pub skipped: bool,
    /// It has arrived within an aggregate that is on the air; that attempt is counted.
    pub counted: bool,
}

/// An attempt that has ended.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    station: u32,
    air: Duration,
    reason: &'static str,
}

impl CellModel {
    pub(super) fn new(config: &Cell) -> CellModel {
        let station = |s: &lasthop::link::cell::config::StationConfig| Station {
            frames: Vec::new(),
            is_drop_tail: s.queue.is_drop_tail(),
            limit: s.queue.limit,
        };
        let stations = config.stations.iter().map(station).collect();
        CellModel {
            config: config.clone(),
            stations,
            air_time: AirTimeModel::new(config),
            ended: Vec::new(),
            at: Time::ZERO,
            free: Time::ZERO,
            attempts: 0,
            misses_collisions: false,
        }
    }

    /// Propagation delay, from the end of a transmission to the arrival of the frame.
    pub(super) fn delay(&self) -> Duration {
        self.config.mac.delay
    }

    /// Number of attempts allowed for a frame without fragments.
    pub(super) fn attempts_allowed(&self) -> u32 {
        let attempts = if self.config.mac.link_acks { self.config.mac.attempts.max(1) } else { 1 };
        self.config.wifi.as_ref().map_or(attempts, |wifi| wifi.retry_limit(attempts))
    }

    /// A frame with this number of fragments and allowed attempts is offered to the queue of the
    /// station `from`. According to the event, `reported` frames are queued there.
    pub(super) fn enqueued(
        &mut self,
        from: u32,
        link: &Link,
        segment: &Segment,
        (fragments, slots): (u32, u32),
        reported: u64,
    ) -> Checked {
        self.misses_collisions |= fragments > 1 && !self.config.mac.link_acks;
        let station = &mut self.stations[from as usize];
        // A frame whose link ACK was lost may have been delivered since, without an event.
        let most = station.frames.len().saturating_sub(1) as u64;
        // A frame whose transmission has ended may still be in propagation.
        let in_propagation = self.config.mac.delay.0 > 0;
        let uncertain = u64::from(station.frames.first().is_some_and(|f| f.arrived))
            + u64::from(in_propagation);
        let bytes = u64::from(segment.size + link.overhead);
        station.frames.push(Frame {
            id: segment.id,
            bytes,
            to: link.cell.map_or(0, |place| place.to),
            fragments,
            slots,
            attempts: 0,
            failures: 0,
            arrived: false,
            received: false,
            failed: None,
            first_failed: None,
            skipped: false,
            counted: false,
        });
        let managed = !station.is_drop_tail;
        // Packets that are in the window of a session have left the queue.
        let least = if self.aggregates() { 0 } else { most.saturating_sub(uncertain) };
        ensure(managed || (least..=most).contains(&reported), || {
            format!("{reported} frames are reported as queued, expected {least} to {most}")
        })
    }

    /// A station's queue drops a frame.
    pub(super) fn dropped(&mut self, from: u32, id: u64) -> Checked {
        let station = &mut self.stations[from as usize];
        let Some(i) = station.frames.iter().position(|f| f.id == id) else {
            return Err("is dropped by a station that does not have it".into());
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
        ensure(i == station.frames.len() && i > 0, || {
            "is dropped by DropTail, but did not arrive last".into()
        })?;
        ensure(full, || format!("is dropped, but there is room ({waiting} frames are queued)"))
    }

    /// An attempt of the station `from` ended, with the event's `kind` and `reason`; `number` is
    /// the number of the attempt, where the event has it.
    pub(super) fn ended(
        &mut self,
        from: u32,
        id: u64,
        kind: Kind,
        reason: &'static str,
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
        while self.config.wifi.is_none()
            && station.frames.first().is_some_and(|f| f.arrived && f.id != id)
        {
            station.frames.remove(0);
        }
        let Some(i) = station.frames.iter().position(|f| f.id == id) else {
            return Err("is sent by a station that does not have it".into());
        };
        if self.config.wifi.is_some() {
            return self.packet_ended(from, i, kind, reason, number, now);
        }
        let in_turn = i == 0 || !station.is_drop_tail;
        if reason == drop_reason::CONTENTION {
            station.frames.remove(i);
            ensure(self.config.mac.max_deferrals > 0, || {
                "is discarded without an attempt, but the number of deferrals is not limited".into()
            })?;
            return settled;
        }
        let counted = if station.frames[i].fragments > 1 {
            self.fragment_ended(from, i, kind, reason, number, now)
        } else {
            self.frame_ended(from, i, kind, reason, number, now)
        };
        ensure(in_turn, || "overtakes another frame of its station".into())?;
        counted.and(settled)
    }

    /// Like [`Self::ended`], for frame `i` of the station, which is not fragmented.
    fn frame_ended(
        &mut self,
        from: u32,
        i: usize,
        kind: Kind,
        reason: &'static str,
        number: f64,
        now: Time,
    ) -> Checked {
        let station = &mut self.stations[from as usize];
        let frame = &mut station.frames[i];
        let limit = frame.slots;
        let air = self.config.mac.frame_time().of(frame.bytes, self.config.mac.data_rate);
        let mut counted = Ok(());
        // An event without a failed attempt at the same instant is an attempt in itself: a frame
        // that arrives and is acknowledged, or one that is lost in its only attempt.
        let failed = frame.failed.take_if(|t| *t == now).is_some();
        if kind == Kind::AttemptFailed || !failed {
            frame.attempts += 1;
            let reason = if kind == Kind::Arrived { "" } else { reason };
            self.attempts += 1;
            self.ended.push(Ended { station: from, air, reason });
        }
        let last = frame.attempts >= limit;
        if frame.attempts > limit
            || (kind == Kind::AttemptFailed && number != f64::from(frame.attempts))
        {
            counted = Err(format!(
                "is sent in attempt {} of {limit}; the event says attempt {number}",
                frame.attempts
            ));
        }
        match kind {
            Kind::AttemptFailed => {
                let arrives = reason == drop_reason::LINK_ACK && !frame.arrived;
                frame.arrived |= arrives;
                frame.failed = Some(now);
                if last && frame.arrived && !arrives {
                    station.frames.remove(i);
                }
            }
            Kind::Arrived if failed && !last => {}
            _ => {
                if kind == Kind::LostOnAir && (!last || frame.arrived) {
                    counted = Err("is discarded before the last attempt, or has arrived".into());
                }
                station.frames.remove(i);
            }
        }
        counted
    }

    /// Like [`Self::frame_ended`], for a fragmented frame. Fragments that
    /// arrive cause no event before the last.
    fn fragment_ended(
        &mut self,
        from: u32,
        i: usize,
        kind: Kind,
        reason: &'static str,
        number: f64,
        now: Time,
    ) -> Checked {
        let station = &mut self.stations[from as usize];
        let frame = &mut station.frames[i];
        let failed = frame.failed.take_if(|t| *t == now).is_some();
        if kind == Kind::AttemptFailed || !failed {
            // Of its duration only the preamble is certain.
            let air = self.config.mac.frame_time().of(0, self.config.mac.data_rate);
            let reason = if kind == Kind::AttemptFailed { reason } else { "" };
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
                counted = ensure(had < frame.attempts && frame.attempts <= slots, || {
                    format!("attempt {number} of {slots} follows attempt {had}")
                });
                if frame.arrived && frame.attempts == slots {
                    station.frames.remove(i);
                }
            }
            Kind::Arrived => {
                counted = ensure(!frame.arrived, || "arrives twice".into());
                frame.arrived = true;
                self.attempts += u64::from(frame.fragments - u32::from(failed));
                if !failed || frame.attempts == slots {
                    station.frames.remove(i);
                }
            }
            _ => {
                counted = ensure(!frame.arrived, || "is lost, but has arrived".into());
                // Without link ACKs each fragment is sent once.
                let used = if self.config.mac.link_acks { slots } else { frame.fragments };
                self.attempts += u64::from(used - frame.failures);
                station.frames.remove(i);
            }
        }
        counted
    }

    /// Checks the attempts that ended at the same instant, once all are known.
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
        let rts = mac.link_acks && mac.frame_time().of(threshold, mac.data_rate) < longest;
        let answered =
            ended.iter().any(|e| e.reason.is_empty() || e.reason == drop_reason::LINK_ACK)
                && mac.link_acks;
        let ack = mac.frame_time().of(14, mac.control_rate());
        self.free = at + if answered { mac.sifs + ack + mac.difs } else { mac.difs };
        ensure(senders.len() == ended.len(), || {
            format!("a station has two attempts that end at {at}")
        })?;
        ensure(self.misses_collisions || collided == 0 || collided == ended.len(), || {
            format!("only some of the attempts that end at {at} collide")
        })?;
        ensure(self.misses_collisions || (ended.len() > 1) == (collided > 0), || {
            format!("{} attempts end at {at}, {collided} of them collide", ended.len())
        })?;
        ensure(rts || at - longest >= free, || {
            format!(
                "the frame that ends at {at} started before {free}, when the medium became free"
            )
        })
    }

    /// Returns true if the station has the frame.
    pub(super) fn has(&self, from: u32, id: u64) -> bool {
        self.stations[from as usize].frames.iter().any(|f| f.id == id)
    }
}
