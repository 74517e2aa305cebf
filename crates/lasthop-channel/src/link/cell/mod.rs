//! A cell: one medium that several stations share, by carrier sense with collision avoidance
//! (CSMA/CA).
//!
//! All stations receive all others, without propagation delay. A cell has one event per frame
//! exchange: the end of the data frame. Then it is decided which stations have received the frame,
//! whether the sender retries, and which station sends next (`contention`); the link ACK that
//! follows is part of the wait before that. So a sender's next frame leaves its queue at the end of
//! the frame before, not of its link ACK. An exchange with RTS and CTS has a second event, the end
//! of the RTS.
//!
//! Each station has one queue for all that it sends, first in, first out unless its discipline
//! orders frames differently: while its first frame is retransmitted, the others wait, for any
//! receiver. A frame whose link ACK is lost is retransmitted and not delivered a second time.
//!
//! A fragmented frame is sent fragment by fragment: a fragment that is received is followed by the
//! next after SIFS (a fragment burst, section 9.1.4), one that fails costs a back-off. An attempt
//! is then a fragment on the air, and the budget of the framing replaces the retry limit.
//!
//! Source: IEEE 802.11-1999, section 9.2 (DCF); 802.11b-1999, section 18 (preambles and rates).

pub mod aggregation;
mod air;
pub mod any;
pub mod config;
mod contention;
pub mod error_rate;
mod exchange;
mod head;
pub mod mac;
mod medium_use;
pub mod phy;
mod report;
pub mod wifi;

use crate::queue::{AnyQueue, Frame, LinkFacts, Outcome, QueueDiscipline};
use lasthop_core::framing::{Cut, Progress, Step};
use lasthop_core::units::{Duration, Rate, Time};

use air::Air;
use config::CellConfig;
use contention::Contention;
use head::Head;
use mac::{AfterCollision, Timing};
use report::Exchanged;

pub use medium_use::{MediumUse, UseKind};
pub use report::{Attempt, Clock, Delivery, End, Freight, Report};

struct Station {
    queue: AnyQueue,
    head: Option<Head>,
    /// The last frame size, and its times.
    known: (u32, Duration, Duration),
}

/// What is being transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    Idle,
    /// The first transmission of the senders.
    First,
    /// A frame after RTS and CTS, or a fragment after another one: all other stations wait.
    Protected,
}

/// A cell.
pub struct Cell {
    timing: Timing,
    attempts: u32,
    rts_threshold: u64,
    link_acks: bool,
    after_collision: AfterCollision,
    ns3: bool,
    overhead: u32,
    full_frame: u32,
    air: Air,
    contention: Contention,
    stations: Vec<Station>,
    phase: Phase,
    /// Stations that are sending.
    senders: Vec<usize>,
    /// Start of the current exchange, or of the next one.
    start: Time,
    /// End of the frame, or of the longest one in a collision.
    end: Time,
    /// Time when the next exchange was decided.
    settled: Time,
    /// The host is notified of the start of attempts from this number on.
    announces: u32,
    /// The host is notified of the next one.
    told: bool,
}

impl Cell {
    /// An idle cell. `names` are those of the nodes; with the cell's name and the seed they address
    /// the draws. `mss`: payload of a full-sized segment, bytes.
    ///
    /// # Errors
    ///
    /// The message of the loss model that refuses its settings.
    pub fn new(config: &CellConfig, names: &[String], seed: u64, mss: u32) -> Result<Cell, String> {
        let mac = &config.mac;
        let overhead = mac.overhead.bytes(1) as u32;
        let full_frame = mss + 40 + overhead;
        let names: Vec<String> = names.iter().map(|n| format!("{} {n}", config.name)).collect();
        let station = |(station, name): (&config::StationConfig, &String)| {
            let facts = LinkFacts { name, seed, rate: mac.data_rate, full_frame };
            Station {
                queue: station.queue.build(&facts),
                head: None,
                known: (u32::MAX, Duration::ZERO, Duration::ZERO),
            }
        };
        Ok(Cell {
            timing: Timing::new(mac),
            attempts: if mac.link_acks { mac.attempts.max(1) } else { 1 },
            rts_threshold: mac.rts_threshold.bytes(1),
            link_acks: mac.link_acks,
            after_collision: mac.after_collision,
            ns3: mac.access == mac::Access::Ns3,
            overhead,
            full_frame,
            air: Air::new(config, &names, seed, mss)?,
            contention: Contention::new(mac, seed, &names),
            stations: config.stations.iter().zip(&names).map(station).collect(),
            phase: Phase::Idle,
            senders: Vec::with_capacity(names.len()),
            start: Time::NEVER,
            end: Time::NEVER,
            settled: Time::ZERO,
            announces: u32::MAX,
            told: false,
        })
    }

    /// Requests a report, and an event, at the start of each attempt from number `first` on.
    pub fn announce(&mut self, first: u32) {
        self.announces = self.announces.min(first);
    }

    /// Time of the next event (`NEVER` if there is none), and its trigger time.
    #[inline]
    pub fn next_event(&self) -> (Time, Time) {
        if self.told && self.phase == Phase::Idle {
            (self.start, self.settled)
        } else {
            (self.end, self.start)
        }
    }

    /// Frames waiting and bytes waiting at a station, and whether a full-sized frame would be
    /// refused.
    pub fn queue(&self, station: usize) -> (u64, u64, bool) {
        let Some(s) = self.stations.get(station) else { return (0, 0, false) };
        let load = s.queue.load();
        (load.packets, load.bytes, s.head.is_some() && !s.queue.has_room(self.full_frame))
    }

    /// Capacity for one pair of stations if no other station sends and each full-sized frame of one
    /// is answered by an ACK of 40 bytes from the other (TCP): bit/s of full-sized frames.
    pub fn rate_of_pair(&self) -> Rate {
        let t = &self.timing;
        let answer = if self.link_acks { t.sifs + t.ack } else { Duration::ZERO };
        let exchange =
            |bytes: u32| t.difs + self.contention.mean_backoff() + t.data(bytes) + answer;
        let cycle = exchange(self.full_frame) + exchange(self.overhead + 40);
        Rate((f64::from(self.full_frame) * 8.0 / cycle.as_secs()) as u64)
    }

    /// Enqueues a frame at a station, for another one. True if the next event changes.
    #[inline]
    pub fn offer(
        &mut self,
        now: Time,
        (station, to): (usize, usize),
        frame: Frame,
        freight: &impl Freight,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        // A station that was to start before this time has started. At this time the new frame may
        // still start with it.
        let starts = self.phase == Phase::Idle && self.start < now;
        if starts {
            self.begin();
        }
        let Some(s) = self.stations.get_mut(station) else { return starts };
        if s.head.is_some() {
            s.queue.filter(&frame, freight, outcomes);
            s.queue.enqueue(now, frame, outcomes);
            return starts;
        }
        if s.queue.pass(now, frame, outcomes) {
            self.serve((station, to), frame, freight);
            if self.contention.ready(station, now) {
                self.settle(now);
                return true;
            }
        }
        starts
    }

    /// Takes the next frame in the queue of a station into service.
    fn serve_next(&mut self, station: usize, frame: Frame, freight: &impl Freight) {
        let to = freight.receiver(station, frame.handle);
        self.serve((station, to), frame, freight);
    }

    /// Takes a frame into service.
    fn serve(&mut self, (station, to): (usize, usize), frame: Frame, freight: &impl Freight) {
        let (progress, overhead) = match freight.framing(frame.handle) {
            Some(framing) => {
                let segment = freight.segment(frame.handle);
                (framing.begin(segment, self.attempts), frame.bytes.saturating_sub(segment.size))
            }
            None => (Progress::new(Cut::whole(frame.bytes), self.attempts), 0),
        };
        let mut head = Head::new(frame, to, progress, overhead);
        head.set_times(self.times(station, head.bytes()));
        self.stations[station].head = Some(head);
    }

    /// Time on the air of `bytes` bytes from a station, and of what precedes them (RTS and CTS).
    #[inline]
    fn times(&mut self, station: usize, bytes: u32) -> (Duration, Duration) {
        let known = &mut self.stations[station].known;
        if known.0 != bytes {
            let data = self.timing.data(bytes);
            let protected = self.link_acks && u64::from(bytes) > self.rts_threshold;
            *known = (bytes, data, if protected { self.timing.rts } else { data });
        }
        (known.1, known.2)
    }

    /// Decides which stations send next, as far as known now.
    #[inline]
    fn settle(&mut self, now: Time) {
        self.settled = now;
        let Some((i, several)) = self.contention.first() else {
            (self.start, self.end) = (Time::NEVER, Time::NEVER);
            self.told = false;
            return;
        };
        self.start = self.contention.next();
        let (mut longest, mut attempts) = (Duration::ZERO, 0);
        let mut add = |head: &Head| {
            longest = longest.max(head.first());
            attempts = attempts.max(head.attempts() + 1);
        };
        if several {
            let starters = self.contention.starters();
            starters.filter_map(|i| self.stations[i].head.as_ref()).for_each(&mut add);
        } else {
            self.stations[i].head.iter().for_each(&mut add);
        }
        self.end = self.start + longest;
        self.told = attempts >= self.announces;
    }

    fn begin(&mut self) {
        self.senders.clear();
        self.contention.begin(&mut self.senders);
        for &i in &self.senders {
            self.stations[i].head.iter_mut().for_each(Head::begin_attempt);
        }
        self.phase = Phase::First;
    }

    /// Processes the event of `next_event`. Returns the delivery of a frame, if the event is that;
    /// `reports`, which must be empty, has the other reports, which follow it. `outcomes` must be
    /// empty.
    pub fn fire(
        &mut self,
        now: Time,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<Delivery> {
        if self.phase == Phase::Idle {
            self.begin();
            if self.told {
                self.announce_starts(reports);
                return None;
            }
        }
        let mut delivery = None;
        if let &[i] = self.senders.as_slice() {
            let head = self.stations[i].head.as_ref()?;
            if self.phase == Phase::First && head.reserves() {
                if self.reserve(now, i, freight, reports) {
                    return None;
                }
            } else {
                match self.exchange(now, i, freight, reports) {
                    Exchanged::Delivered(done) => delivery = Some(done),
                    Exchanged::Fragment => return None,
                    Exchanged::Other => {}
                }
            }
        } else if !self.senders.is_empty() {
            self.collide(now, freight, reports);
        }
        self.conclude(now, freight, reports, outcomes);
        delivery
    }

    /// Reports the attempts that begin.
    #[inline(never)]
    fn announce_starts(&self, reports: &mut Vec<Report>) {
        let heads = self.senders.iter().filter_map(|&i| Some((i, self.stations[i].head.as_ref()?)));
        let announced = heads.filter(|(_, head)| head.attempts() >= self.announces);
        reports.extend(announced.map(|(i, head)| Report::Started(head.attempt(i, self.start))));
    }

    /// After an exchange: starts serving the next frames of the senders, and decides which station
    /// sends next.
    fn conclude(
        &mut self,
        now: Time,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) {
        self.phase = Phase::Idle;
        for k in 0..self.senders.len() {
            let i = self.senders[k];
            if self.stations[i].head.is_none()
                && let Some(frame) = self.stations[i].queue.dequeue(now, outcomes)
            {
                self.serve_next(i, frame, freight);
            }
            let head = &self.stations[i].head;
            self.contention.concluded(
                i,
                head.as_ref().is_some_and(|h| h.attempts() > 0),
                head.is_some(),
            );
        }
        self.contention.release();
        while let Some(i) = self.contention.take_given_up() {
            self.give_up(now, i, freight, reports, outcomes);
        }
        self.settle(now);
    }

    /// Drops the frame of station `i` without an attempt, because the medium was busy each time the
    /// station sensed it.
    #[inline(never)]
    fn give_up(
        &mut self,
        now: Time,
        i: usize,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) {
        let Some(head) = self.stations[i].head.take() else { return };
        let end = End {
            received: false,
            arrives: false,
            arrived: false,
            held: false,
            late: false,
            delivered: false,
            collided: true,
            crashed: true,
            step: Step::Over { begun: false },
            damaged_frames: None,
            air_time: Duration::ZERO,
        };
        reports.push(Report::Ended(head.attempt(i, now), end));
        if let Some(frame) = self.stations[i].queue.dequeue(now, outcomes) {
            self.serve_next(i, frame, freight);
            self.contention.ready(i, Time::ZERO);
        }
    }
}

#[cfg(test)]
mod tests;
