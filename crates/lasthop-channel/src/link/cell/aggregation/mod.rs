//! A cell of 802.11n, 802.11ac or 802.11ax: EDCA, A-MPDU and A-MSDU, block acknowledgements.
//!
//! As in other cells, all stations receive all others, without propagation delay, and `contention`
//! decides which station sends next. A station that has won the medium chooses its receiver and the
//! MPDUs of the aggregate when it starts to send (`select`). At the end of the data it is decided
//! which MPDUs the receiver has (`exchange`); the answer that follows is part of the wait before
//! the next start. Each pair of stations has a session (`session`): sequence numbers, the window of
//! the originator and the reorder buffer of the recipient, from which packets go up the stack in
//! order. An MPDU that is not acknowledged is sent again, up to the number of attempts of the cell
//! (without a limit, if the cell has none for sessions). After an MPDU has been given up, a
//! BlockAckReq moves the recipient's window; the recipient does not wait for it longer than 100 ms.
//!
//! Not modelled: two access categories in one station, multi-user transmissions, power save, and
//! management frames other than beacons.
//!
//! Source: IEEE 802.11-2020, 10.23.2 (EDCA), 10.11 (A-MSDU), 10.12 (A-MPDU), 10.25 (block ack).

mod airtime;
mod device;
mod durations;
mod ending;
mod exchange;
mod minstrel;
mod occupation;
mod passing;
mod rate;
mod select;
mod session;
mod stations;
#[cfg(test)]
mod tests;
mod transmission;

use super::air::Air;
use super::config::CellConfig;
use super::contention::{Contention, Wait};
use super::mac::{Access, Mac};
use super::medium_use::{MediumUse, UseKind};
use super::report::{Attempt, Clock, Delivery, Freight, Report};
use crate::queue::{Frame, Outcome};
use lasthop_core::segment::Segment;
use lasthop_core::units::{Duration, Rate, Time};

use airtime::AirtimeLimit;
use durations::{ByMcs, Durations};
use occupation::{Occupation, Occupations};
use stations::Station;
use transmission::{Content, Passing};

/// What is being transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    Idle,
    /// The RTS of the only sender.
    Rts,
    /// Data: of one sender, or in a collision the first frames of several.
    Data,
    /// The answer to an exchange, within a TXOP of the sender.
    Answer,
    /// A beacon, or other networks.
    Taken,
}

/// Shares of time on the medium since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AirTime {
    /// Exchanges of each station: RTS, CTS, data, answers, pauses between them, CF-End.
    pub stations: Vec<Duration>,
    /// Collisions.
    pub collisions: Duration,
    /// Beacons.
    pub beacons: Duration,
    /// Other networks: the spans of `busy`.
    pub others: Duration,
    /// Nobody sends: back-off, interframe spaces before it, ACK timeouts, no traffic.
    pub idle: Duration,
    /// End of the last of these spans.
    pub until: Time,
}

impl AirTime {
    /// Sum of all shares, which equals `until`.
    pub fn sum(&self) -> Duration {
        let busy = self.stations.iter().fold(Duration::ZERO, |sum, &d| sum + d);
        busy + self.collisions + self.beacons + self.others + self.idle
    }

    /// Station `i` uses the medium up to `end`, since `begun` or the end of its last exchange in
    /// this TXOP. Returns the time.
    #[inline(always)]
    fn exchange(&mut self, i: usize, begun: Time, end: Time) -> Duration {
        let used = self.busy(begun.max(self.until), end);
        self.stations[i] = self.stations[i] + used;
        used
    }

    /// The medium was idle up to `from` and is then busy up to `to`. Returns the busy time.
    fn busy(&mut self, from: Time, to: Time) -> Duration {
        self.idle = self.idle + (from - self.until);
        self.until = to;
        to - from
    }
}

/// A cell with aggregation.
pub struct AggregatingCell {
    durations: Durations,
    attempts: u32,
    /// Attempts after which an MPDU is discarded.
    retry_limit: u32,
    rts_threshold: u64,
    ampdu: u64,
    amsdu: u32,
    /// MPDUs in the window of a session; without aggregates 1.
    window: usize,
    airtime_limit: Option<AirtimeLimit>,
    /// The rules of ns-3: MPDUs go up the stack at their ends, reorder buffers wait without a
    /// limit, and a BlockAckReq precedes an aggregate of which nothing was received.
    ns3: bool,
    overhead: u32,
    full_frame: u32,
    air: Air,
    contention: Contention,
    stations: Vec<Station>,
    phase: Phase,
    senders: Vec<usize>,
    /// Start and end of the current transmission; the next start.
    start: Time,
    end: Time,
    /// Start of the exchange or TXOP.
    begun: Time,
    /// Time when the next start was decided.
    settled: Time,
    announces: u32,
    /// Each use of the medium is reported.
    watched: bool,
    /// Time when packets have waited in a reorder buffer for too long.
    expiry: Time,
    occupations: Occupations,
    air_time: AirTime,
    /// Stands for the content of control frames.
    control: Segment,
    /// Which of the MPDUs that end now are received.
    received: Vec<bool>,
    /// The MPDUs of the aggregate on the air that go up the stack before its end.
    passing: Passing,
}

impl AggregatingCell {
    /// An idle cell; the arguments are those of [`Cell::new`](super::Cell::new). `None` if the
    /// configuration has no settings of 802.11n or its successors.
    ///
    /// # Errors
    ///
    /// The message of the loss model that refuses its settings.
    pub fn new(
        config: &CellConfig,
        names: &[String],
        seed: u64,
        mss: u32,
    ) -> Result<Option<AggregatingCell>, String> {
        let (Some(durations), Some(wifi)) = (Durations::new(config), &config.wifi) else {
            return Ok(None);
        };
        let overhead = config.mac.overhead.bytes(1) as u32;
        let full_frame = mss + 40 + overhead;
        let names: Vec<String> = names.iter().map(|n| format!("{} {n}", config.name)).collect();
        let mac = Mac { difs: durations.aifs, ..config.mac.clone() };
        let (ampdu, amsdu) = (wifi.ampdu.bytes(1), wifi.amsdu.bytes(1) as u32);
        let pifs = durations.aifs.min(durations.pifs);
        let window = if ampdu > 0 { wifi.block_ack_window as usize } else { 1 };
        let attempts = mac.attempts.max(1);
        Ok(Some(AggregatingCell {
            attempts,
            retry_limit: wifi.retry_limit(attempts),
            rts_threshold: mac.rts_threshold.bytes(1),
            ampdu,
            amsdu: durations.most_amsdu(amsdu, ampdu),
            window,
            airtime_limit: AirtimeLimit::new(wifi),
            ns3: mac.access == Access::Ns3,
            overhead,
            full_frame,
            air: Air::new(config, &names, seed, mss)?,
            // The rules of ns-2 know the DCF only.
            contention: if mac.access == Access::Ns2 {
                Contention::new(&mac, seed, &names)
            } else {
                Contention::new(&mac, seed, &names).with_edca()
            },
            stations: Station::all(config, wifi, &names, seed, (full_frame, window)),
            phase: Phase::Idle,
            senders: Vec::with_capacity(names.len()),
            start: Time::NEVER,
            end: Time::NEVER,
            begun: Time::ZERO,
            settled: Time::ZERO,
            announces: u32::MAX,
            watched: false,
            expiry: Time::NEVER,
            occupations: Occupations::new(config, wifi.beacon_interval, pifs),
            air_time: AirTime { stations: vec![Duration::ZERO; names.len()], ..AirTime::default() },
            control: Segment::default(),
            received: Vec::new(),
            passing: Passing::NONE,
            durations,
        }))
    }

    /// Requests a report at the start of each attempt from number `first` on.
    pub fn announce(&mut self, first: u32) {
        self.announces = self.announces.min(first);
    }

    /// Requests a report of each use of the medium.
    pub fn watch(&mut self) {
        self.watched = true;
    }

    /// Time of the next event (`NEVER` if there is none), and its trigger time.
    #[inline]
    pub fn next_event(&self) -> (Time, Time) {
        let of_medium = self.next_of_medium();
        if self.expiry < of_medium.0 { (self.expiry, self.settled) } else { of_medium }
    }

    /// The same, of what is or will be transmitted.
    #[inline]
    fn next_of_medium(&self) -> (Time, Time) {
        match self.phase {
            Phase::Idle if self.occupations.next() < self.start => {
                (self.occupations.next(), self.settled)
            }
            Phase::Idle => (self.start, self.settled),
            _ => (self.end.min(self.passing.at), self.start),
        }
    }

    /// Frames waiting and bytes waiting at a station, and whether a full-sized frame would be
    /// refused.
    pub fn queue(&self, station: usize) -> (u64, u64, bool) {
        self.stations.get(station).map_or((0, 0, false), |s| s.queue(self.full_frame))
    }

    /// Shares of time on the medium up to `now`; an exchange whose answer is still to come counts
    /// whole, a transmission that has not ended not at all.
    pub fn air_time(&self, now: Time) -> AirTime {
        let mut shares = self.air_time.clone();
        if shares.until < now {
            shares.busy(now, now);
        }
        shares
    }

    /// Capacity from one station to another, each with the MCS of the pair, if no other station
    /// sends, aggregates are as long as allowed and each is answered by as many ACKs of 40 bytes
    /// (TCP): bit/s of full-sized frames.
    pub fn rate_of_pair(&self, from: usize, to: usize) -> Rate {
        let between = |a, b| self.stations.first().map_or(0, |s| s.radios.between(a, b).0);
        let times = self.durations.of(between(from, to) as usize);
        let times_back = self.durations.of(between(to, from) as usize);
        let subframe = |bytes: u32| u64::from(bytes).next_multiple_of(4) + durations::DELIMITER;
        let limit = times.format.most_bytes(self.durations.ppdu_limit).min(self.ampdu);
        let packets = (limit / subframe(self.full_frame)).clamp(1, self.window as u64);
        let exchange = |times: &ByMcs, bytes: u32| {
            let psdu = if packets > 1 { packets * subframe(bytes) } else { u64::from(bytes) };
            let answer = if packets > 1 { times.block_ack } else { times.ack };
            let access = self.durations.aifs + self.contention.mean_backoff();
            access + times.format.ppdu(psdu) + self.durations.sifs + answer
        };
        let cycle = exchange(times, self.full_frame) + exchange(times_back, self.overhead + 40);
        Rate((packets as f64 * f64::from(self.full_frame) * 8.0 / cycle.as_secs()) as u64)
    }

    /// Enqueues a frame at a station, for another one. True if the next event changes.
    #[inline(always)]
    pub fn offer(
        &mut self,
        now: Time,
        (station, to): (usize, usize),
        frame: Frame,
        freight: &impl Freight,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        let Some(s) = self.stations.get_mut(station) else { return false };
        let is_next = s.offer(now, to, frame, freight, outcomes);
        if !is_next && self.airtime_limit.is_some() {
            let session = self.stations[station].session(to);
            self.fill_device(now, (station, session), outcomes);
        }
        if !is_next || self.stations[station].ready {
            return false;
        }
        self.stations[station].ready = true;
        if self.contention.ready(station, now) {
            self.settle(now);
            return true;
        }
        false
    }

    /// Determines the next start, as far as known now.
    #[inline]
    fn settle(&mut self, now: Time) {
        self.settled = now;
        self.start = self.contention.next();
        self.occupations.after(self.air_time.until);
    }

    /// Processes the event that is due, and those behind it before `clock.until`, up to the first
    /// one of which the host has to know; the clock is set to that. Otherwise as `fire`.
    pub fn act(
        &mut self,
        clock: &mut Clock,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<Delivery> {
        loop {
            let delivery = self.fire(clock.now, freight, reports, outcomes);
            if delivery.is_some() || !reports.is_empty() || !outcomes.is_empty() {
                return delivery;
            }
            let next = self.next_event();
            if next.0 >= clock.until {
                return None;
            }
            (clock.now, clock.triggered_at) = next;
        }
    }

    /// Processes the event of `next_event`; `reports` and `outcomes` must be empty. Returns the
    /// delivery of a packet, if the event has one that comes before all reports.
    #[inline(always)]
    pub fn fire(
        &mut self,
        now: Time,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<Delivery> {
        if self.expiry != Time::NEVER && self.expiry < self.next_of_medium().0 {
            self.expire(now, reports);
            return None;
        }
        let mut delivery = None;
        match self.phase {
            Phase::Idle if self.occupations.next() < self.start => self.take_medium(now, reports),
            Phase::Idle => self.begin(now, reports, outcomes),
            Phase::Rts => self.end_rts(now, reports),
            Phase::Data if self.passing.at < self.end => self.pass_mpdu(now, freight, reports),
            Phase::Data if self.senders.len() > 1 => self.collide(now, freight, reports),
            Phase::Data => delivery = self.end_data(now, freight, reports),
            Phase::Answer => self.continue_txop(now, reports, outcomes),
            Phase::Taken => {
                let since = now + self.durations.aifs;
                self.contention.all_wait(Wait { busy_until: now, since });
                self.conclude(now, false);
            }
        }
        if self.airtime_limit.is_some() {
            self.fill_devices(now, outcomes);
        }
        delivery
    }

    /// The stations whose back-off has ended choose what to send, and start.
    #[inline(always)]
    fn begin(&mut self, now: Time, reports: &mut Vec<Report>, outcomes: &mut Vec<Outcome>) {
        self.senders.clear();
        self.contention.begin(&mut self.senders);
        (self.start, self.begun) = (now, now);
        self.phase = Phase::Data;
        let longest = match *self.senders.as_slice() {
            [i] => {
                let s = self.stations[i].next_session();
                if !self.select_new(now, i, s, outcomes) {
                    self.select(now, i, s, None, outcomes);
                }
                self.begin_of(i, true, reports)
            }
            _ => self.begin_collision(now, reports, outcomes),
        };
        self.end = now + longest;
        self.begin_data();
    }

    /// Several stations, or none, choose what to send, and start.
    #[inline(never)]
    fn begin_collision(
        &mut self,
        now: Time,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) -> Duration {
        let mut longest = Duration::ZERO;
        for k in 0..self.senders.len() {
            let i = self.senders[k];
            let s = self.stations[i].next_session();
            self.select(now, i, s, None, outcomes);
            longest = longest.max(self.begin_of(i, false, reports));
        }
        longest
    }

    /// Station `i` starts, as the only one or not. Returns the duration of its first transmission.
    #[inline(always)]
    fn begin_of(&mut self, i: usize, is_only: bool, reports: &mut Vec<Report>) -> Duration {
        let station = &mut self.stations[i];
        let (reserves, first) = (station.exchange.rts.is_some(), station.exchange.first());
        // What is not simply sent and received needs its MPDUs.
        let passes = self.ns3 && station.exchange.content == Content::Aggregate;
        if reserves || !is_only || passes || self.watched || self.announces < u32::MAX {
            station.enter_window();
        }
        if reserves && is_only {
            self.phase = Phase::Rts;
        } else if !reserves {
            self.announce_starts(i, reports);
        }
        first
    }

    #[inline]
    fn announce_starts(&self, i: usize, reports: &mut Vec<Report>) {
        if self.announces < u32::MAX {
            self.report_starts(i, reports);
        }
    }

    #[inline(never)]
    fn report_starts(&self, i: usize, reports: &mut Vec<Report>) {
        let station = &self.stations[i];
        let session = &station.sessions[station.exchange.session];
        for &k in &station.exchange.places {
            let mpdu = &session.window[k];
            if mpdu.attempts >= self.announces {
                let started = |frame| {
                    Report::Started(Attempt::of_packet(
                        i,
                        session.to,
                        frame,
                        mpdu.attempts,
                        self.start,
                    ))
                };
                reports.extend(mpdu.frames().map(started));
            }
        }
    }

    /// A beacon, or other networks, take the medium.
    fn take_medium(&mut self, now: Time, reports: &mut Vec<Report>) {
        self.senders.clear();
        self.contention.occupy(now);
        let (what, end) = self.occupations.begin(self.durations.beacon);
        (self.phase, self.start, self.end) = (Phase::Taken, now, end);
        let length = self.air_time.busy(now, end);
        let (share, kind) = match what {
            Occupation::Beacon => (&mut self.air_time.beacons, UseKind::Beacon),
            Occupation::Others(_) => (&mut self.air_time.others, UseKind::Others),
        };
        *share = *share + length;
        if self.watched {
            let used = MediumUse { kind, start: now, end, ..MediumUse::default() };
            reports.push(Report::Used(used));
        }
    }

    /// The medium becomes free. `failed`: the senders have not been answered.
    #[inline(never)]
    fn conclude(&mut self, now: Time, failed: bool) {
        self.conclude_in_place(now, failed);
    }

    /// The same, compiled in place.
    #[inline(always)]
    fn conclude_in_place(&mut self, now: Time, failed: bool) {
        self.phase = Phase::Idle;
        match *self.senders.as_slice() {
            [i] => self.conclude_of(i, failed),
            _ => self.conclude_collision(failed),
        }
        self.contention.release();
        self.settle(now);
    }

    /// The same for several stations, or none.
    #[inline(never)]
    fn conclude_collision(&mut self, failed: bool) {
        for k in 0..self.senders.len() {
            self.conclude_of(self.senders[k], failed);
        }
    }

    /// The same for station `i`, which has sent.
    #[inline(always)]
    fn conclude_of(&mut self, i: usize, failed: bool) {
        let station = &mut self.stations[i];
        station.ready = station.has_work();
        let mut retry = failed && station.has_retry();
        // What is sent without a limit still counts for the contention window
        // (QSRC: 802.11-2020, 10.23.2.2).
        if self.retry_limit == u32::MAX {
            station.failures = if retry { station.failures + 1 } else { 0 };
            if station.failures == self.attempts {
                (station.failures, retry) = (0, false);
            }
        }
        self.contention.concluded(i, retry, station.ready);
    }
}
