//! The stations of a cell with aggregation: their sessions, and which of them is next.

use std::sync::Arc;

use super::rate::RateSelection;
use super::session::{Noise, Session};
use super::transmission::Exchange;
use crate::link::cell::config::{CellConfig, StationConfig};
use crate::link::cell::error_rate::ideal_mcs;
use crate::link::cell::wifi::{RateRule, Scheduling, Wifi};
use crate::queue::{Frame, Headers, LinkFacts, Outcome, QueueConfig};
use lasthop_core::ring::Ring;
use lasthop_core::units::{Duration, QueueLimit, Rate, Time};

/// Air time that a receiver gets in one turn, nanoseconds (mac80211's weight of 256, in
/// microseconds).
const QUANTUM: i64 = 256_000;
/// No session yet.
const NONE: u32 = u32::MAX;

/// A station.
pub(super) struct Station {
    pub sessions: Vec<Session>,
    /// Index of the session with each receiver.
    pub by_receiver: Vec<u32>,
    /// It takes part in the contention.
    pub ready: bool,
    /// Its transmissions without an answer in sequence, if MPDUs have no retry limit.
    pub failures: u32,
    /// What it sends or has sent last.
    pub exchange: Exchange,
    /// Its index, and the radios of all members.
    pub index: usize,
    pub radios: Arc<Radios>,
    /// The limit that holds for all its queues together.
    pub shared_limit: Option<QueueLimit>,
    /// Places in the window of a session, if sessions take turns by the arrival of their frames.
    pub fifo_window: Option<usize>,
    /// With several sessions: frames and bytes in their queues, and the sessions by the arrival of
    /// the frame that has waited longest. `note` keeps both; outdated entries remain until they are
    /// the first ones.
    pub waiting: (u64, u64),
    pub turns: Ring<(Time, u32)>,
    /// An exchange has begun since its session was noted.
    pub stale: bool,
    pub make: MakeQueue,
}

/// The radios of the members.
pub(super) struct Radios {
    wifi: Wifi,
    cw_min: u32,
    /// MCS and SNR of each member, where they are set.
    members: Vec<(Option<u32>, Option<f64>)>,
}

impl Radios {
    /// MCS and SNR of data between two members: those of the station, not of the access point. The
    /// MCS of "minstrel-ht" is the one to which it should come.
    pub(super) fn between(&self, a: usize, b: usize) -> (u32, Option<f64>) {
        let of = |i: usize| self.members.get(i).copied().unwrap_or_default();
        let (first, second) = if a == 0 { (of(b), of(a)) } else { (of(a), of(b)) };
        let snr = first.1.or(second.1);
        let mcs = match (self.wifi.rate_rule, snr) {
            (RateRule::Ideal | RateRule::MinstrelHt, Some(snr)) => ideal_mcs(&self.wifi, snr),
            _ => first.0.or(second.0).unwrap_or(self.wifi.mcs),
        };
        (mcs, snr)
    }
}

/// What its queues are made from.
pub(super) struct MakeQueue {
    config: QueueConfig,
    name: String,
    seed: u64,
    rate: Rate,
    full_frame: u32,
}

impl Station {
    pub(super) fn all(
        config: &CellConfig,
        wifi: &Wifi,
        names: &[String],
        seed: u64,
        (full_frame, window): (u32, usize),
    ) -> Vec<Station> {
        let members = config.stations.iter().map(|s| (s.mcs, s.snr_db)).collect();
        let radios = Arc::new(Radios { wifi: wifi.clone(), cw_min: config.mac.cw_min, members });
        let station = |(index, (station, name)): (usize, (&StationConfig, &String))| {
            let shares = wifi.scheduling == Scheduling::Fifo && station.queue.is_drop_tail();
            let shared_limit = station.queue.limit.filter(|_| shares);
            let own = QueueConfig { limit: None, ..station.queue.clone() };
            Station {
                sessions: Vec::new(),
                by_receiver: Vec::new(),
                ready: false,
                failures: 0,
                exchange: Exchange::default(),
                index,
                radios: Arc::clone(&radios),
                shared_limit,
                fifo_window: (wifi.scheduling == Scheduling::Fifo).then_some(window),
                waiting: (0, 0),
                turns: Ring::default(),
                stale: false,
                make: MakeQueue {
                    config: if shares { own } else { station.queue.clone() },
                    name: name.clone(),
                    seed,
                    rate: wifi.phy(wifi.mcs).rate(),
                    full_frame,
                },
            }
        };
        config.stations.iter().zip(names).enumerate().map(station).collect()
    }

    /// The session with a receiver.
    #[inline(always)]
    pub(super) fn session(&mut self, to: usize) -> usize {
        if let Some(&s) = self.by_receiver.get(to).filter(|&&s| s != NONE) {
            return s as usize;
        }
        self.open_session(to)
    }

    #[cold]
    fn open_session(&mut self, to: usize) -> usize {
        let s = self.sessions.len();
        if self.by_receiver.len() <= to {
            self.by_receiver.resize(to + 1, NONE);
        }
        self.by_receiver[to] = s as u32;
        let MakeQueue { config, name, seed, rate, full_frame } = &self.make;
        let name = format!("{name} to {to}");
        let queue = config.build(&LinkFacts {
            name: &name,
            seed: *seed,
            rate: *rate,
            full_frame: *full_frame,
        });
        let (mcs, snr) = self.radios.between(self.index, to);
        let wifi = &self.radios.wifi;
        let noise = snr.map(|snr| Noise::new(wifi.generation.largest_mcs(), snr, *seed, &name));
        let rate = RateSelection::new(wifi, mcs, self.radios.cw_min, *seed, &name);
        self.sessions.push(Session::new(to, rate, noise, queue));
        if s == 1 {
            self.note(0);
        }
        s
    }

    /// A session may have changed: updates what is known of all of them, if there are several.
    #[inline]
    pub(super) fn note(&mut self, s: usize) {
        if self.sessions.len() > 1 {
            self.note_load(s);
            self.note_turn(s);
        }
    }

    /// The same of what waits in its queue.
    #[inline(always)]
    fn note_load(&mut self, s: usize) {
        let Some(session) = self.sessions.get_mut(s) else { return };
        let load = session.load();
        if load != session.counted {
            let before = std::mem::replace(&mut session.counted, load);
            let sum = (self.waiting.0 + load.0, self.waiting.1 + load.1);
            self.waiting = (sum.0 - before.0, sum.1 - before.1);
        }
    }

    /// The same of the frame that has waited longest.
    #[inline(always)]
    fn note_turn(&mut self, s: usize) {
        let (Some(window), Some(session)) = (self.fifo_window, self.sessions.get_mut(s)) else {
            return;
        };
        let turn = session.oldest(window);
        if session.turn != turn {
            session.turn = turn;
            if turn != Time::NEVER {
                self.queue_turn((turn, s as u32));
            }
        }
    }

    /// Enters a turn in order. Mostly it is the last one, of a frame that has just arrived.
    #[inline(always)]
    fn queue_turn(&mut self, turn: (Time, u32)) {
        if self.turns.back().is_none_or(|last| last.0 < turn.0) {
            return self.turns.push(turn);
        }
        self.insert_turn(turn);
    }

    #[inline(never)]
    fn insert_turn(&mut self, turn: (Time, u32)) {
        let place = self.turns.first_place(|&other| other > turn);
        self.turns.insert(place, turn);
    }

    /// Frames and bytes that wait, and whether a full-sized frame would be refused.
    pub(super) fn queue(&self, full_frame: u32) -> (u64, u64, bool) {
        let (packets, bytes) = self.load();
        let full = match self.shared_limit {
            Some(_) => self.refuses((packets, bytes), full_frame),
            None => {
                !self.sessions.is_empty() && self.sessions.iter().all(|s| !s.has_room(full_frame))
            }
        };
        (packets, bytes, full && self.sessions.iter().any(Session::is_busy))
    }

    fn load(&self) -> (u64, u64) {
        let loads = self.sessions.iter().map(Session::load);
        loads.fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1))
    }

    /// True if the shared limit, when `load` waits, has no room for a frame that must wait.
    fn refuses(&self, load: (u64, u64), bytes: u32) -> bool {
        match self.shared_limit {
            None => false,
            Some(QueueLimit::Packets(n)) => load.0 >= n,
            Some(QueueLimit::Bytes(n)) => load.1 + u64::from(bytes) > n,
        }
    }

    /// The same as `load`. Since the last call, frames have arrived, after which `note` was called,
    /// and the session of the last exchange has sent.
    fn noted_load(&mut self) -> (u64, u64) {
        if self.sessions.len() < 2 {
            return self.load();
        }
        if self.stale {
            self.note(self.exchange.session);
        }
        debug_assert_eq!(self.waiting, self.load());
        self.waiting
    }

    /// A frame for a receiver arrives. True if it is the next one of its session.
    #[inline(always)]
    pub(super) fn offer(
        &mut self,
        now: Time,
        to: usize,
        frame: Frame,
        headers: &dyn Headers,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        let s = self.session(to);
        if self.sessions[s].is_busy() && self.shared_limit.is_some() {
            let load = self.noted_load();
            if self.refuses(load, frame.bytes) {
                frame.drop(crate::queue::drop_reason::FULL, outcomes);
                return false;
            }
        }
        let is_next = self.sessions[s].offer(now, frame, headers, outcomes);
        if self.sessions.len() > 1 {
            match is_next {
                true => self.note_turn(s),
                false => self.note_load(s),
            }
        }
        is_next
    }

    /// True if it has something to send; its last exchange has ended.
    #[inline]
    pub(super) fn has_work(&mut self) -> bool {
        match self.sessions.as_slice() {
            [] => false,
            [only] => only.has_work(),
            _ if self.fifo_window.is_none() => self.sessions.iter().any(Session::has_work),
            _ => {
                self.note(self.exchange.session);
                self.stale = false;
                self.first_turn().is_some()
            }
        }
    }

    /// True if it has to send again what it has sent last.
    pub(super) fn has_retry(&self) -> bool {
        let session = self.sessions.get(self.exchange.session);
        session.is_some_and(|s| s.must_request || s.unfinished().next().is_some())
    }

    /// The session whose turn it is; there is one with something to send.
    pub(super) fn next_session(&mut self) -> usize {
        if self.sessions.len() == 1 {
            return 0;
        }
        let Some(window) = self.fifo_window else { return self.next_by_airtime() };
        let next = self.first_turn();
        debug_assert_eq!(next, self.oldest_session(window));
        next.unwrap_or(0)
    }

    /// The session whose frame has waited longest, if one has something to send.
    fn first_turn(&mut self) -> Option<usize> {
        while let Some(&(at, s)) = self.turns.front() {
            if self.sessions[s as usize].turn == at {
                return Some(s as usize);
            }
            self.turns.drop_front();
        }
        None
    }

    /// The same, without what `note` keeps.
    fn oldest_session(&self, window: usize) -> Option<usize> {
        let times = self.sessions.iter().map(|s| s.oldest(window));
        times.zip(0..).filter(|&(at, _)| at != Time::NEVER).min().map(|(_, s)| s)
    }

    /// Deficit round-robin: the session of the last turn goes on as long as it has air time left.
    fn next_by_airtime(&mut self) -> usize {
        let n = self.sessions.len();
        let mut s = self.exchange.session % n;
        if !self.sessions.iter().any(Session::has_work) {
            return 0;
        }
        loop {
            let session = &mut self.sessions[s];
            if session.has_work() {
                if session.deficit > 0 {
                    return s;
                }
                session.deficit += QUANTUM;
            } else {
                // A receiver without traffic collects no credit and pays no debt.
                session.deficit = 0;
            }
            s = (s + 1) % n;
        }
    }

    /// The new frames of the exchange become MPDUs of the window, if they are not yet.
    pub(super) fn enter_window(&mut self) {
        let mpdus = self.sessions[self.exchange.session].enter_window();
        self.exchange.places.extend(0..mpdus);
    }

    /// Charges air time to the session of the last exchange.
    #[inline]
    pub(super) fn charge(&mut self, time: Duration) {
        if let Some(session) = self.sessions.get_mut(self.exchange.session) {
            session.charge(time);
        }
    }
}
