//! The ends of transmissions in a cell with aggregation: data, RTS, collisions, and what follows
//! within a TXOP.

use super::ending::Ending;
use super::session::Session;
use super::stations::Station;
use super::transmission::{Content, Exchange};
use super::{AggregatingCell, Phase};
use crate::link::cell::air::OnAir;
use crate::link::cell::contention::Wait;
use crate::link::cell::medium_use::{MediumUse, UseKind};
use crate::link::cell::report::{Attempt, Delivery, Freight, Report};
use crate::queue::Outcome;
use lasthop_core::units::{Duration, Time};

impl AggregatingCell {
    /// Ends the data of the only sender.
    pub(super) fn end_data(
        &mut self,
        now: Time,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
    ) -> Option<Delivery> {
        let &[i] = self.senders.as_slice() else { return None };
        if let Some(delivery) = self.end_new(now, i, reports) {
            return Some(delivery);
        }
        let exchange = &self.stations[i].exchange;
        let (s, content, answer) = (exchange.session, exchange.content, exchange.answer);
        let to = self.stations[i].sessions[s].to;
        let free = now + self.durations.sifs + answer;
        let received = match self.passing.take_drawn() {
            true => self.received.contains(&true),
            false => self.receive(now, (i, s, to), freight),
        };
        let answered = received && !self.loses_control((to, i), now + self.durations.sifs, free);
        let air_time = self.use_medium(i, if received { free } else { now });
        let mut delivery = None;
        let session = &mut self.stations[i].sessions[s];
        let is_plain = answered && self.received.as_slice() == [true] && session.is_in_order();
        if is_plain && !self.watched {
            session.end_only(i, self.start, air_time, &mut delivery, reports);
            session.clear();
            session.rate.sent(now, session.mcs, 1, Some(1));
            (session.rts_failures, session.must_request) = (0, false);
        } else if answered
            && content == Content::Aggregate
            && !self.watched
            && session.is_all_new(self.received.len())
            && self.received.iter().all(|&received| received)
        {
            session.end_all(i, (self.start, now), air_time, &mut delivery, reports);
        } else {
            let ending = Ending { answered, collided: false, air_time };
            self.end_exchange(
                now,
                (i, s),
                (content, received),
                free,
                ending,
                &mut delivery,
                reports,
            );
        }
        self.after_any_data(now, (i, to), free, (received, answered));
        delivery
    }

    /// Ends the exchange of station `i`, if its frames are new and cannot be lost. Returns the
    /// delivery of the first one.
    #[inline(always)]
    fn end_new(&mut self, now: Time, i: usize, reports: &mut Vec<Report>) -> Option<Delivery> {
        let Station { sessions, exchange, .. } = &mut self.stations[i];
        let session = &mut sessions[exchange.session];
        let to = session.alone.as_ref().map(|_| session.to)?;
        if session.noise.is_some()
            || self.air.may_lose(i, to, false)
            || self.air.may_lose(to, i, true)
        {
            self.stations[i].enter_window();
            return None;
        }
        let free = now + self.durations.sifs + exchange.answer;
        let frame = session.take_alone()?;
        let air_time = self.air_time.exchange(i, self.begun, free);
        session.charge(air_time);
        let attempt = Attempt::of_packet(i, to, frame, 1, self.start);
        let mut delivery = Delivery { attempt, crashed: false, air_time };
        let mut mpdus = 1;
        if !session.further.is_empty() {
            mpdus += session.end_further(&mut delivery, reports);
        }
        session.rate.sent(now, session.mcs, mpdus, Some(mpdus));
        session.rts_failures = 0;
        self.after_data(now, (i, to), free, (true, true));
        Some(delivery)
    }

    /// Ends what the only sender has sent, with any result: `free` is the end of the answer.
    #[allow(clippy::too_many_arguments, reason = "the parts of `end_data` that are seldom needed")]
    #[inline(never)]
    fn end_exchange(
        &mut self,
        now: Time,
        (i, s): (usize, usize),
        (content, received): (Content, bool),
        free: Time,
        ending: Ending,
        delivery: &mut Option<Delivery>,
        reports: &mut Vec<Report>,
    ) {
        let answered = ending.answered;
        let (acknowledged, gave_up) = self.end_mpdus(now, (i, s), ending, delivery, reports);
        let kind = match content {
            Content::Request => UseKind::Request,
            Content::Single => UseKind::Single,
            _ => UseKind::Aggregate,
        };
        let has_rts = self.stations[i].exchange.rts.is_some();
        let start = if has_rts { self.begun } else { self.start };
        let used = (start, if received { free } else { now });
        self.report_use(kind, i, used, (received, acknowledged), reports);
        let limit = self.retry_limit;
        let session = &mut self.stations[i].sessions[s];
        session.rts_failures = 0;
        if content == Content::Request {
            session.end_request(i, received, answered, limit, reports);
        } else {
            session.rate.sent(now, session.mcs, self.received.len() as u32, acknowledged);
            if answered || gave_up {
                session.must_request = session.waits_in_vain();
            }
            session.must_request |= self.ns3 && !received && content == Content::Aggregate;
        }
        session.trim();
        self.schedule_expiry((i, s));
    }

    /// Decides what the recipient receives: `received` says so of each MPDU. False if it receives
    /// nothing.
    #[inline]
    pub(super) fn receive(
        &mut self,
        now: Time,
        (i, s, to): (usize, usize, usize),
        freight: &impl Freight,
    ) -> bool {
        let station = &self.stations[i];
        self.received.clear();
        if station.exchange.content == Content::Request {
            return !self.loses_control((i, to), self.start, now);
        }
        let may_lose = self.air.may_lose(i, to, false);
        if may_lose || station.sessions[s].noise.is_some() {
            return self.draw_losses(now, (i, s, to), may_lose, freight);
        }
        match station.exchange.places.len() {
            1 => self.received.push(true),
            mpdus => self.received.resize(mpdus, true),
        }
        true
    }

    /// The same, where MPDUs may be lost.
    #[inline(never)]
    fn draw_losses(
        &mut self,
        now: Time,
        (i, s, to): (usize, usize, usize),
        may_lose: bool,
        freight: &impl Freight,
    ) -> bool {
        let AggregatingCell { stations, air, received, start, .. } = self;
        let station = &mut stations[i];
        let (session, exchange) = (&mut station.sessions[s], &station.exchange);
        for &k in &exchange.places {
            let mpdu = &session.window[k];
            let frame = OnAir {
                from: i,
                to,
                start: *start,
                end: now,
                bytes: mpdu.bytes,
                control: false,
                segment: freight.segment(mpdu.first.handle),
            };
            let lost = may_lose && air.lost(&frame);
            let hit = session.noise.as_mut().is_some_and(|n| n.hits(session.mcs, mpdu.bytes));
            received.push(!lost && !hit);
        }
        received.contains(&true)
    }

    /// True if a control frame is lost.
    #[inline]
    fn loses_control(&mut self, (from, to): (usize, usize), start: Time, end: Time) -> bool {
        let AggregatingCell { air, control, .. } = self;
        air.may_lose(from, to, true)
            && air.lost(&OnAir { from, to, start, end, bytes: 32, control: true, segment: control })
    }

    /// Station `i` has used the medium up to `end`, since its last exchange in this TXOP or since
    /// it won the medium.
    #[inline]
    fn use_medium(&mut self, i: usize, end: Time) -> Duration {
        let used = self.air_time.exchange(i, self.begun, end);
        self.stations[i].charge(used);
        used
    }

    /// Reports what station `i` has used the medium for, in the time of `used`. `answer`: whether
    /// there is one, and how many MPDUs it acknowledges.
    #[inline]
    fn report_use(
        &self,
        kind: UseKind,
        i: usize,
        (start, end): (Time, Time),
        (answered, acknowledged): (bool, Option<u32>),
        reports: &mut Vec<Report>,
    ) {
        if !self.watched {
            return;
        }
        let exchange = &self.stations[i].exchange;
        let session = &self.stations[i].sessions[exchange.session];
        let has_data = !matches!(kind, UseKind::Rts | UseKind::CfEnd)
            && (kind != UseKind::Collision || exchange.rts.is_none());
        let places = if has_data { exchange.places.as_slice() } else { &[] };
        let mut used = MediumUse {
            kind,
            start,
            end,
            from: i,
            to: session.to,
            rts: kind != UseKind::CfEnd && exchange.rts.is_some(),
            answered,
            mcs: session.mcs as u32,
            acknowledged: acknowledged.unwrap_or(0),
            ..MediumUse::default()
        };
        used.bytes = if has_data { exchange.psdu } else { 0 };
        for mpdu in places.iter().map(|&k| &session.window[k]) {
            used.mpdus += 1;
            used.packets += 1 + mpdu.others.len() as u32;
            used.retries += u32::from(mpdu.attempts > 1);
        }
        reports.push(Report::Used(used));
    }

    /// The reorder buffer of a session has changed.
    #[inline]
    pub(super) fn schedule_expiry(&mut self, (i, s): (usize, usize)) {
        if self.ns3 {
            return;
        }
        let session = &mut self.stations[i].sessions[s];
        let before = session.expires;
        session.set_expiry();
        if session.expires != before {
            self.set_expiry();
        }
    }

    fn set_expiry(&mut self) {
        let sessions = self.stations.iter().flat_map(|s| &s.sessions);
        self.expiry = sessions.map(|s| s.expires).min().unwrap_or(Time::NEVER);
    }

    /// Packets have waited in a reorder buffer for too long: they go up the stack.
    pub(super) fn expire(&mut self, now: Time, reports: &mut Vec<Report>) {
        for (i, station) in self.stations.iter_mut().enumerate() {
            for session in &mut station.sessions {
                while session.skip_missing(now) {
                    session.release(i, reports);
                    session.set_expiry();
                }
            }
        }
        self.set_expiry();
    }

    /// The medium after data: the TXOP goes on, or all wait.
    #[inline(never)]
    fn after_any_data(
        &mut self,
        now: Time,
        stations: (usize, usize),
        free: Time,
        result: (bool, bool),
    ) {
        self.after_data(now, stations, free, result);
    }

    /// The same, compiled in place.
    #[inline(always)]
    fn after_data(
        &mut self,
        now: Time,
        (i, to): (usize, usize),
        free: Time,
        (received, answered): (bool, bool),
    ) {
        let (sifs, aifs) = (self.durations.sifs, self.durations.aifs);
        if answered && self.durations.txop_limit > Duration::ZERO {
            (self.phase, self.start, self.end) = (Phase::Answer, now, free + sifs);
            return;
        }
        self.contention.all_wait(Wait { busy_until: free, since: free + aifs });
        if !received {
            self.wait_unanswered(now, (i, to));
        } else if !answered {
            let since = free + self.durations.garbled;
            self.contention.set_wait(i, Wait { busy_until: free, since });
        } else if self.ns3 && self.stations[i].exchange.content == Content::Single {
            // Of an aggregate, packets go up the stack in ns-3 while it is on the air: an answer
            // finds the medium busy.
            self.contention.set_wait(to, Wait { busy_until: now, since: free + aifs });
        }
        self.conclude_in_place(now, !answered);
    }

    /// The recipient has received nothing that it can answer.
    fn wait_unanswered(&mut self, now: Time, (i, to): (usize, usize)) {
        let wait = |since| Wait { busy_until: now, since };
        self.contention.set_wait(to, wait(now + self.durations.garbled));
        self.contention.set_wait(i, wait(now + self.durations.unanswered));
    }

    /// SIFS after an answer within a TXOP: the next exchange begins, or a CF-End frees the medium
    /// (802.11-2020, 10.23.2.10).
    pub(super) fn continue_txop(
        &mut self,
        now: Time,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) {
        let &[i] = self.senders.as_slice() else { return };
        let left = self.durations.txop_limit.saturating_sub(now - self.begun);
        if self.stations[i].has_work() {
            let s = self.stations[i].next_session();
            if self.select(now, i, s, Some(left), outcomes) {
                let data = self.stations[i].exchange.data;
                // The first exchange has protected the TXOP.
                self.stations[i].exchange.rts = None;
                (self.phase, self.start, self.end) = (Phase::Data, now, now + data);
                self.announce_starts(i, reports);
                return;
            }
        }
        let cf_end = self.durations.cf_end;
        let free = if cf_end <= left {
            self.use_medium(i, now + cf_end);
            self.report_use(UseKind::CfEnd, i, (now, now + cf_end), (false, None), reports);
            now + cf_end
        } else {
            self.air_time.until
        };
        self.contention.all_wait(Wait { busy_until: free, since: free + self.durations.aifs });
        self.conclude(now, false);
    }

    /// Ends the RTS of the only sender: the data follow, or the RTS is sent again.
    pub(super) fn end_rts(&mut self, now: Time, reports: &mut Vec<Report>) {
        let &[i] = self.senders.as_slice() else { return };
        let exchange = &self.stations[i].exchange;
        let (s, data) = (exchange.session, exchange.data);
        let session = &self.stations[i].sessions[s];
        let (to, cts, sifs) = (session.to, self.durations.of(session.mcs).cts, self.durations.sifs);
        let free = now + sifs + cts;
        let received = !self.loses_control((i, to), self.start, now);
        if received && !self.loses_control((to, i), now + sifs, free) {
            (self.phase, self.start, self.end) = (Phase::Data, free + sifs, free + sifs + data);
            self.begin_data();
            self.announce_starts(i, reports);
            return;
        }
        let end = if received { free } else { now };
        self.use_medium(i, end);
        self.report_use(UseKind::Rts, i, (self.start, end), (received, None), reports);
        self.fail_rts(now, (i, s), false, reports);
        let since = free + self.durations.aifs;
        self.contention.all_wait(Wait { busy_until: free, since });
        if received {
            let since = free + self.durations.garbled;
            self.contention.set_wait(i, Wait { busy_until: free, since });
        } else {
            self.wait_unanswered(now, (i, to));
        }
        self.conclude(now, true);
    }

    /// An RTS has not been answered. The attempts of the data have not taken place, unless that was
    /// the last RTS: then the data are given up.
    fn fail_rts(
        &mut self,
        now: Time,
        (i, s): (usize, usize),
        collided: bool,
        reports: &mut Vec<Report>,
    ) {
        let limit = self.retry_limit;
        let station = &mut self.stations[i];
        let session = &mut station.sessions[s];
        session.rts_failures += 1;
        if session.rts_failures < limit {
            for &k in &station.exchange.places {
                session.window[k].attempts -= 1;
            }
            return;
        }
        session.rts_failures = 0;
        for &k in &station.exchange.places {
            session.window[k].attempts = limit;
        }
        self.received.clear();
        let ending = Ending { answered: false, collided, air_time: Duration::ZERO };
        self.end_mpdus(now, (i, s), ending, &mut None, reports);
        let session = &mut self.stations[i].sessions[s];
        session.must_request = session.waits_in_vain();
        session.trim();
    }

    /// Ends a collision: nothing is received.
    #[inline(never)]
    pub(super) fn collide(&mut self, now: Time, freight: &impl Freight, reports: &mut Vec<Report>) {
        let wait = |since| Wait { busy_until: now, since };
        self.contention.all_wait(wait(now + self.durations.collided));
        let longest = self.air_time.busy(self.start, now);
        self.air_time.collisions = self.air_time.collisions + longest;
        let senders = std::mem::take(&mut self.senders);
        let mut charged = Duration::ZERO;
        for &i in &senders {
            let exchange = &self.stations[i].exchange;
            let (s, first, rts) = (exchange.session, exchange.first(), exchange.rts.is_some());
            let end = self.start + first;
            let since = (end + self.durations.unanswered).max(now + self.durations.aifs);
            self.contention.set_wait(i, wait(since));
            self.stations[i].charge(first);
            // In the accounts of the links, one of the longest transmissions counts the whole time.
            let air_time = if first == longest && charged == Duration::ZERO {
                longest
            } else {
                Duration::ZERO
            };
            charged = charged + air_time;
            self.report_use(UseKind::Collision, i, (self.start, end), (false, None), reports);
            if rts {
                self.fail_rts(now, (i, s), true, reports);
                continue;
            }
            let to = self.stations[i].sessions[s].to;
            // The channel's chains and draws advance with every attempt, also with a collision.
            self.receive(now, (i, s, to), freight);
            self.received.clear();
            let ending = Ending { answered: false, collided: true, air_time };
            let (_, gave_up) = self.end_mpdus(now, (i, s), ending, &mut None, reports);
            let limit = self.retry_limit;
            let Exchange { content, ref places, .. } = self.stations[i].exchange;
            let mpdus = places.len() as u32;
            let session = &mut self.stations[i].sessions[s];
            if content == Content::Request {
                session.end_request(i, false, false, limit, reports);
            } else {
                session.rate.sent(now, session.mcs, mpdus, None);
                if gave_up {
                    session.must_request = session.waits_in_vain();
                }
                session.must_request |= self.ns3 && content == Content::Aggregate;
            }
            session.trim();
        }
        self.senders = senders;
        self.conclude(now, true);
    }
}

impl Session {
    /// Ends a BlockAckReq that the recipient has received or not.
    fn end_request(
        &mut self,
        station: usize,
        received: bool,
        answered: bool,
        limit: u32,
        reports: &mut Vec<Report>,
    ) {
        if received {
            self.release(station, reports);
            while self.skip_head() {
                self.release(station, reports);
            }
        }
        self.requests += 1;
        if answered || self.requests >= limit {
            (self.must_request, self.requests) = (false, 0);
        }
    }
}
