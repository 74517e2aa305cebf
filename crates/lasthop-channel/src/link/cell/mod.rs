//! A cell: one medium that several stations share, by carrier sense with collision avoidance
//! (CSMA/CA).
//!
//! All hear all, without propagation delay. A cell has one event per frame exchange: the end of the
//! data frame. Then it is settled who has got what, whether the sender tries again, and who sends
//! next (`contention`); the link ACK that follows is part of the wait before that. So a sender's
//! next frame leaves its queue at the end of the frame before, not of its link ACK. An exchange
//! with RTS and CTS has a second event, the end of the RTS.
//!
//! Each station has one queue for all that it sends, first in, first out unless its discipline says
//! otherwise: while its first frame is sent again and again, the others wait, whomever they are
//! for. A frame whose link ACK is lost is sent again and not handed up a second time.
//!
//! A frame that is cut goes fragment by fragment: each that gets through is followed by the next
//! after SIFS (a fragment burst, section 9.1.4), each that fails costs a back-off. An attempt is
//! then a fragment on the air, and the budget of the framing takes the place of the retry limit.
//!
//! Source: IEEE 802.11-1999, section 9.2 (DCF); 802.11b-1999, section 18 (preambles and rates).

mod air;
pub mod config;
mod contention;
pub mod mac;

use crate::queue::{AnyQueue, Frame, LinkFacts, Outcome, QueueDiscipline};
use lasthop_core::agent::LinkEvent;
use lasthop_core::framing::{AnyFraming, Cut, Progress, Step};
use lasthop_core::segment::{Handle, Segment};
use lasthop_core::units::{Duration, Rate, Time};

use air::{Air, OnAir};
use config::CellConfig;
use contention::{Contention, Wait};
use mac::{AfterCollision, Timing};

/// What the host knows of a frame.
pub trait Freight {
    /// The segment behind a handle.
    fn segment(&self, handle: Handle) -> &Segment;
    /// The station that the frame goes to next.
    fn receiver(&self, station: usize, handle: Handle) -> usize;
    /// How the frame is cut, if it is.
    fn framing(&self, _handle: Handle) -> Option<&AnyFraming> {
        None
    }
}

/// What a cell tells its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// An attempt begins (only if the host asked for it).
    Started(Attempt),
    /// An attempt is over, at the end of its air time.
    Ended(Attempt, End),
}

/// One attempt to send a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The station that sends.
    pub station: usize,
    /// The station that it is for.
    pub to: usize,
    /// The frame.
    pub frame: Frame,
    /// Bytes that are sent of it, overhead included: all but for fragments.
    pub bytes: u32,
    /// Number of the attempt, from 1; 0 if the frame is given up without one.
    pub number: u32,
    /// When it started.
    pub start: Time,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The receiver has got what was sent in this attempt, perhaps once more.
    pub received: bool,
    /// The frame is whole at the receiver with this attempt.
    pub arrives: bool,
    /// It is whole there, with this attempt or since an earlier one.
    pub arrived: bool,
    /// The sender holds what it sent for delivered: the link ACK has come, or there are none.
    pub delivered: bool,
    /// Another station sent at the same time.
    pub collided: bool,
    /// The same of the last attempt that failed: why a frame that is given up is lost.
    pub crashed: bool,
    /// What that means for the sender's frame.
    pub step: Step,
    /// What the receiver has of a frame that is given up and that it has not got: its first
    /// fragment, or a damaged frame.
    pub damaged_frames: Option<LinkEvent>,
    /// Time of the medium that it took, link ACK included. Of frames that collide the longest has
    /// it all.
    pub air_time: Duration,
}

impl End {
    /// The sender has done with the frame: it is delivered, or this was the last attempt.
    pub fn last(&self) -> bool {
        self.step != Step::More
    }

    /// The frame is lost.
    pub fn loses(&self) -> bool {
        self.last() && !self.arrived
    }
}

/// What has become of an attempt by itself.
struct Sent {
    received: bool,
    delivered: bool,
    collided: bool,
    readable: bool,
    air_time: Duration,
}

/// A station's frame in service.
#[derive(Clone, Copy, Debug)]
struct Head {
    frame: Frame,
    to: usize,
    progress: Progress,
    /// Bytes that each fragment has beside its own.
    overhead: u32,
    /// Time on the air of what is to be sent, and of what goes before it: the RTS or itself.
    data: Duration,
    first: Duration,
    attempts: u32,
    /// The receiver has the fragment that is being sent; the first one; none of those before.
    here: bool,
    begun: bool,
    torn: bool,
    /// The last attempt that failed was a collision.
    crashed: bool,
}

impl Head {
    /// Bytes to be sent, overhead included.
    fn bytes(&self) -> u32 {
        self.overhead + self.progress.bytes()
    }

    /// The attempt of station `i` that began at `start`.
    fn attempt(&self, i: usize, start: Time) -> Attempt {
        Attempt {
            station: i,
            to: self.to,
            frame: self.frame,
            bytes: self.bytes(),
            number: self.attempts,
            start,
        }
    }

    fn is_cut(&self) -> bool {
        self.progress.fragments() > 1
    }
}

struct Station {
    queue: AnyQueue,
    head: Option<Head>,
    /// The last size of what it sent, and the times of that.
    known: (u32, Duration, Duration),
}

/// What is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    Idle,
    /// What the senders send first.
    First,
    /// A frame behind RTS and CTS, or a fragment behind the one before it: all others wait.
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
    /// Of the exchange under way, or of the next one.
    start: Time,
    /// End of the frame, or of the longest of those that collide.
    end: Time,
    /// When it was settled who sends next.
    settled: Time,
    /// The host wants to hear of the starts of attempts from this number on.
    announces: u32,
    /// It wants to hear of the next one.
    told: bool,
}

impl Cell {
    /// A cell in which nothing is sent. `names` are those of the nodes; together with the cell's
    /// name and the seed they address the draws. `mss` is the payload of a full segment.
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

    /// Asks for a report, and an event, at the start of each attempt to send a frame from number
    /// `first` on.
    pub fn announce(&mut self, first: u32) {
        self.announces = self.announces.min(first);
    }

    /// When the cell has its next event (`NEVER` if it has none), and the trigger time of that.
    #[inline]
    pub fn next_event(&self) -> (Time, Time) {
        if self.told && self.phase == Phase::Idle {
            (self.start, self.settled)
        } else {
            (self.end, self.start)
        }
    }

    /// Frames and bytes that wait at a station, and whether a full frame would find no room.
    pub fn queue(&self, station: usize) -> (u64, u64, bool) {
        let Some(s) = self.stations.get(station) else { return (0, 0, false) };
        let load = s.queue.load();
        (load.packets, load.bytes, s.head.is_some() && !s.queue.has_room(self.full_frame))
    }

    /// What a pair of stations carries when nobody else sends, if each full frame of the one is
    /// answered by an ACK of 40 bytes from the other (TCP): bits of full frames per second.
    pub fn rate_of_pair(&self) -> Rate {
        let t = &self.timing;
        let answer = if self.link_acks { t.sifs + t.ack } else { Duration::ZERO };
        let exchange =
            |bytes: u32| t.difs + self.contention.mean_backoff() + t.data(bytes) + answer;
        let cycle = exchange(self.full_frame) + exchange(self.overhead + 40);
        Rate((f64::from(self.full_frame) * 8.0 / cycle.as_secs()) as u64)
    }

    /// A frame comes to the queue of a station.
    pub fn offer(
        &mut self,
        now: Time,
        station: usize,
        frame: Frame,
        freight: &impl Freight,
        outcomes: &mut Vec<Outcome>,
    ) {
        // Whoever was to start before this instant has done so. At this very instant the newcomer
        // may still start with them.
        if self.phase == Phase::Idle && self.start < now {
            self.begin();
        }
        let Some(s) = self.stations.get_mut(station) else { return };
        if s.head.is_some() {
            return s.queue.enqueue(now, frame, outcomes);
        }
        if s.queue.pass(now, frame, outcomes) {
            self.serve(station, frame, freight);
            if self.contention.ready(station, now) {
                self.settle(now);
            }
        }
    }

    /// Takes a frame into service.
    fn serve(&mut self, station: usize, frame: Frame, freight: &impl Freight) {
        let (progress, overhead) = match freight.framing(frame.handle) {
            Some(framing) => {
                let segment = freight.segment(frame.handle);
                (framing.begin(segment, self.attempts), frame.bytes.saturating_sub(segment.size))
            }
            None => (Progress::new(Cut::whole(frame.bytes), self.attempts), 0),
        };
        let to = freight.receiver(station, frame.handle);
        let (data, first) = self.times(station, overhead + progress.bytes());
        self.stations[station].head = Some(Head {
            frame,
            to,
            progress,
            overhead,
            data,
            first,
            attempts: 0,
            here: false,
            begun: false,
            torn: false,
            crashed: false,
        });
    }

    /// Time on the air of so many bytes from a station, and of what goes before them.
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

    /// Who sends next is known, for now.
    fn settle(&mut self, now: Time) {
        self.start = self.contention.next();
        self.settled = now;
        let (mut longest, mut attempts) = (Duration::ZERO, 0);
        for head in self.contention.starters().filter_map(|i| self.stations[i].head.as_ref()) {
            longest = longest.max(head.first);
            attempts = attempts.max(head.attempts + 1);
        }
        self.end = self.start + longest;
        self.told = attempts >= self.announces;
    }

    fn begin(&mut self) {
        self.senders.clear();
        self.contention.begin(&mut self.senders);
        for &i in &self.senders {
            self.stations[i].head.iter_mut().for_each(|h| h.attempts += 1);
        }
        self.phase = Phase::First;
    }

    /// The event of `next_event` is due. `reports` and `outcomes` must be empty.
    pub fn fire(
        &mut self,
        now: Time,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) {
        if self.phase == Phase::Idle {
            self.begin();
            if self.told {
                let heads =
                    self.senders.iter().filter_map(|&i| Some((i, self.stations[i].head.as_ref()?)));
                let announced = heads.filter(|(_, head)| head.attempts >= self.announces);
                return reports.extend(
                    announced.map(|(i, head)| Report::Started(head.attempt(i, self.start))),
                );
            }
        }
        if self.senders.len() > 1 {
            self.collide(now, freight, reports);
        } else if let Some(&i) = self.senders.first() {
            let Some(head) = &self.stations[i].head else { return };
            let reserves = self.phase == Phase::First && head.first != head.data;
            let goes_on = if reserves {
                self.reserve(now, i, freight, reports)
            } else {
                self.exchange(now, i, freight, reports)
            };
            if goes_on {
                return;
            }
        }
        self.conclude(now, freight, reports, outcomes);
    }

    /// After an exchange: the next frames of those who sent, and who sends next.
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
                self.serve(i, frame, freight);
            }
            let head = &self.stations[i].head;
            self.contention.concluded(
                i,
                head.as_ref().is_some_and(|h| h.attempts > 0),
                head.is_some(),
            );
        }
        self.contention.release();
        while let Some(i) = self.contention.take_given_up() {
            self.give_up(now, i, freight, reports, outcomes);
        }
        self.settle(now);
    }

    /// The frame of station `i` is dropped without an attempt, since the medium was busy whenever
    /// it looked.
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
            delivered: false,
            collided: true,
            crashed: true,
            step: Step::Over { begun: false },
            damaged_frames: None,
            air_time: Duration::ZERO,
        };
        reports.push(Report::Ended(head.attempt(i, now), end));
        if let Some(frame) = self.stations[i].queue.dequeue(now, outcomes) {
            self.serve(i, frame, freight);
            self.contention.ready(i, Time::ZERO);
        }
    }

    /// One station alone has sent its frame, or a fragment. True if it goes on with the next one.
    fn exchange(
        &mut self,
        now: Time,
        i: usize,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
    ) -> bool {
        let Some(head) = &self.stations[i].head else { return false };
        let (to, start, bytes, segment) =
            (head.to, now - head.data, head.bytes(), freight.segment(head.frame.handle));
        let Timing { sifs, difs, ack, garbled, unanswered, preamble_bytes, ack_bytes, .. } =
            self.timing;
        let free = if self.link_acks { now + sifs + ack } else { now };
        let frame = OnAir {
            from: i,
            to,
            start,
            end: now,
            bytes: bytes + preamble_bytes,
            control: false,
            segment,
        };
        let lost = self.air.lost(&frame);
        let readable = lost && self.air.header_intact(&frame);
        let answer = OnAir {
            from: to,
            to: i,
            start: now + sifs,
            end: free,
            bytes: ack_bytes,
            control: true,
            segment,
        };
        let answered = !self.link_acks || (!lost && !self.air.lost(&answer));
        self.contention.all_wait(Wait { busy_until: free, since: free + difs });
        if lost {
            *self.contention.wait(to) = Wait { busy_until: now, since: now + garbled };
            *self.contention.wait(i) = Wait { busy_until: now, since: now + unanswered };
        } else if !answered {
            *self.contention.wait(i) = Wait { busy_until: free, since: free + garbled };
        } else if self.ns3 {
            self.contention.wait(to).busy_until = now;
        }
        let end = if lost && self.link_acks { now } else { free };
        let air_time = end - self.start;
        let step = self.end_attempt(
            i,
            Sent { received: !lost, delivered: answered, collided: false, readable, air_time },
            reports,
        );
        let goes_on = answered && step == Step::More;
        if goes_on {
            self.burst(i, free + sifs, reports);
        }
        goes_on
    }

    /// The next fragment follows at `start`, and nobody comes between.
    #[inline(never)]
    fn burst(&mut self, i: usize, start: Time, reports: &mut Vec<Report>) {
        let Some(head) = &mut self.stations[i].head else { return };
        head.attempts += 1;
        self.contention.answered(i);
        (self.phase, self.start, self.end) = (Phase::Protected, start, start + head.data);
        if head.attempts >= self.announces {
            reports.push(Report::Started(head.attempt(i, start)));
        }
    }

    /// One station alone has sent an RTS. True if it may go on.
    #[inline(never)]
    fn reserve(
        &mut self,
        now: Time,
        i: usize,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
    ) -> bool {
        let Some(head) = &self.stations[i].head else { return false };
        let (to, data, segment) = (head.to, head.data, freight.segment(head.frame.handle));
        let Timing { sifs, difs, ack, garbled, unanswered, ack_bytes, rts_bytes, .. } = self.timing;
        // A CTS is as long as a link ACK.
        let free = now + sifs + ack;
        let rts = OnAir {
            from: i,
            to,
            start: self.start,
            end: now,
            bytes: rts_bytes,
            control: true,
            segment,
        };
        let cts = OnAir {
            from: to,
            to: i,
            start: now + sifs,
            end: free,
            bytes: ack_bytes,
            control: true,
            segment,
        };
        let subscribed = !self.air.lost(&rts);
        if subscribed && !self.air.lost(&cts) {
            self.phase = Phase::Protected;
            self.end = free + sifs + data;
            return true;
        }
        self.contention.all_wait(Wait { busy_until: free, since: free + difs });
        let (busy_until, since) =
            if subscribed { (free, free + garbled) } else { (now, now + unanswered) };
        *self.contention.wait(i) = Wait { busy_until, since };
        if !subscribed {
            *self.contention.wait(to) = Wait { busy_until: now, since: now + garbled };
        }
        self.end_attempt(
            i,
            Sent {
                received: false,
                delivered: false,
                collided: false,
                readable: false,
                air_time: now - self.start,
            },
            reports,
        );
        false
    }

    /// Several stations have sent at the same time: nothing arrives.
    #[inline(never)]
    fn collide(&mut self, now: Time, freight: &impl Freight, reports: &mut Vec<Report>) {
        let Timing { difs, garbled, unanswered, preamble_bytes, rts_bytes, .. } = self.timing;
        self.contention.all_wait(Wait { busy_until: now, since: now + garbled });
        let first = |i: &usize| self.stations[*i].head.as_ref().map_or(Duration::ZERO, |h| h.first);
        let longest = self.senders.iter().map(first).max().unwrap_or(Duration::ZERO);
        let alone = self.senders.iter().filter(|i| first(i) == longest).count() == 1;
        let mut uncounted = true;
        for k in 0..self.senders.len() {
            let i = self.senders[k];
            let Some(head) = &self.stations[i].head else { continue };
            let end = self.start + head.first;
            let since = match self.after_collision {
                AfterCollision::Difs => now + difs,
                AfterCollision::AckTimeout => (end + unanswered).max(now + difs),
                AfterCollision::Ns2 if alone && head.first == longest => now + unanswered,
                AfterCollision::Eifs | AfterCollision::Ns2 => now + garbled,
            };
            *self.contention.wait(i) = Wait { busy_until: now, since };
            // It meets its own weather all the same: chains step, and draws are counted.
            let control = head.first != head.data;
            let bytes = if control { rts_bytes } else { head.bytes() + preamble_bytes };
            let segment = freight.segment(head.frame.handle);
            self.air.lost(&OnAir {
                from: i,
                to: head.to,
                start: self.start,
                end,
                bytes,
                control,
                segment,
            });
            let counted = uncounted && head.first == longest;
            uncounted &= !counted;
            let air_time = if counted { longest } else { Duration::ZERO };
            self.end_attempt(
                i,
                Sent {
                    received: false,
                    delivered: !self.link_acks,
                    collided: true,
                    readable: false,
                    air_time,
                },
                reports,
            );
        }
    }

    /// The attempt of station `i` is over; `how` is what the callers know of that.
    fn end_attempt(&mut self, i: usize, how: Sent, reports: &mut Vec<Report>) -> Step {
        let Sent { received, delivered, collided, readable, air_time } = how;
        let Some(head) = &mut self.stations[i].head else { return Step::Whole };
        let attempt = head.attempt(i, self.start);
        let (first, completes) =
            (head.progress.is_at_first(), head.progress.is_at_last() && !head.torn);
        let arrives = received && !head.here && completes;
        head.here |= received;
        head.begun |= first && received;
        let arrived = head.here && completes;
        if collided || !delivered {
            head.crashed = collided;
        }
        let step = head.progress.step(!delivered);
        let damaged_frames = match step {
            Step::More => None,
            _ if arrived => None,
            _ if head.is_cut() => head.begun.then_some(LinkEvent::Incomplete),
            _ => (!collided).then_some(LinkEvent::Damaged { header_readable: readable }),
        };
        if delivered {
            head.torn |= !head.here;
            head.here = false;
        }
        reports.push(Report::Ended(
            attempt,
            End {
                received,
                arrives,
                arrived,
                delivered,
                collided,
                crashed: head.crashed,
                step,
                damaged_frames,
                air_time,
            },
        ));
        let next = Some(head.bytes()).filter(|&bytes| bytes != attempt.bytes);
        if step != Step::More {
            self.stations[i].head = None;
        } else if let Some(bytes) = next {
            let (data, first) = self.times(i, bytes);
            self.stations[i].head.iter_mut().for_each(|h| (h.data, h.first) = (data, first));
        }
        step
    }
}

#[cfg(test)]
mod tests;
