//! What a station sends in an exchange: the MPDUs of an aggregate.
//!
//! Source: IEEE 802.11-2020, 10.12 (A-MPDU operation), 10.11 (A-MSDU operation), 10.23.2.9 (TXOP
//! limits).

use super::AggregatingCell;
use super::durations::DELIMITER;
use super::session::Mpdu;
use super::stations::Station;
use super::transmission::Content;
use crate::queue::Outcome;
use lasthop_core::units::{Duration, Time};

/// QoS header and frame check sequence, the part of an MPDU that an A-MSDU has once.
const HEADER_BYTES: u32 = 30;
/// Header of a packet in an A-MSDU (9.3.2.2.2).
const SUBFRAME_HEADER: u32 = 14;

/// The length of an aggregate so far, and its limits.
struct Room {
    count: usize,
    most: usize,
    bytes: u64,
    most_bytes: u64,
}

impl Room {
    /// Adds an MPDU, if it fits.
    fn add(&mut self, mpdu: u32) -> bool {
        let bytes = self.bytes.next_multiple_of(4) + DELIMITER + u64::from(mpdu);
        let fits = bytes <= self.most_bytes;
        if fits {
            (self.bytes, self.count) = (bytes, self.count + 1);
        }
        fits
    }
}

impl AggregatingCell {
    /// Chooses the frames of session `s` for a first exchange, if they are all new. Returns false
    /// if it has others, or if they may become an A-MSDU.
    #[inline(always)]
    pub(super) fn select_new(
        &mut self,
        now: Time,
        i: usize,
        s: usize,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        let Station { sessions, exchange, stale, .. } = &mut self.stations[i];
        let session = &mut sessions[s];
        let Some(mcs) = session.rate.fixed().filter(|_| self.amsdu == 0) else { return false };
        let Some(first) = session.take_new(now, outcomes) else { return false };
        *stale = true;
        session.mcs = mcs;
        exchange.places.clear();
        (exchange.session, exchange.protect) = (s, false);
        if session.staged.is_some() && self.select_more(now, (i, s), first, outcomes) {
            return true;
        }
        let exchange = &mut self.stations[i].exchange;
        if exchange.single != Some((mcs, first)) {
            exchange.single = Some((mcs, first));
            self.select_single(i, mcs, first);
        }
        true
    }

    /// Adds further frames to the first one, which has `first` bytes. Returns false if none fits.
    #[inline(never)]
    fn select_more(
        &mut self,
        now: Time,
        (i, s): (usize, usize),
        first: u32,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        let Station { sessions, exchange, .. } = &mut self.stations[i];
        let session = &mut sessions[s];
        let times = self.durations.of(session.mcs);
        let most_bytes = if self.window > 1 { times.first_most.1.min(self.ampdu) } else { 0 };
        let mut room = Room { count: 0, most: self.window, bytes: 0, most_bytes };
        let mut fits = room.add(first);
        while fits
            && room.count < room.most
            && let Some(next) = &session.staged
        {
            fits = room.add(next.bytes);
            if fits {
                let next = session.take_frame(now, outcomes);
                session.further.extend(next);
            }
        }
        if session.further.is_empty() {
            return false;
        }
        (exchange.content, exchange.answer) = (Content::Aggregate, times.block_ack);
        (exchange.psdu, exchange.data) = (room.bytes, times.format.ppdu(room.bytes));
        exchange.rts = (room.bytes > self.rts_threshold).then_some(times.rts);
        exchange.single = None;
        true
    }

    /// Chooses what station `i` sends in session `s`, within `limit` (answer included) if that is
    /// not the first exchange after it has won the medium. Returns false if nothing fits.
    pub(super) fn select(
        &mut self,
        now: Time,
        i: usize,
        s: usize,
        limit: Option<Duration>,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        let sifs = self.durations.sifs;
        let Station { sessions, exchange, stale, .. } = &mut self.stations[i];
        *stale = true;
        let session = &mut sessions[s];
        let must_request = session.must_request;
        let choice = session.rate.choose(now);
        session.mcs = choice.mcs;
        (exchange.protect, exchange.single) = (choice.protect, None);
        let times = self.durations.of(choice.mcs);
        exchange.places.clear();
        (exchange.session, exchange.rts, exchange.psdu) = (s, None, 0);
        if must_request {
            (exchange.content, exchange.data) = (Content::Request, times.request);
            exchange.answer = times.block_ack;
            let whole = times.request + sifs + times.block_ack;
            return limit.is_none_or(|limit| whole <= limit);
        }
        let is_first = limit.is_none();
        if is_first && session.start == 0 {
            if session.window.is_empty()
                && self.amsdu == 0
                && let Some(first) = session.take_frame(now, outcomes)
            {
                session.window.push_back(Mpdu::new(first));
            }
            if session.window.len() == 1 && session.staged.is_none() {
                return self.select_only(i, s);
            }
        }
        let (single_limit, most) = limit.map_or(times.first_most, |limit| {
            let left = |answer| limit.saturating_sub(sifs + answer).min(self.durations.ppdu_limit);
            let bytes = |answer| times.format.most_bytes(left(answer));
            (bytes(times.ack), bytes(times.block_ack))
        });
        let most_bytes = if self.window > 1 { most.min(self.ampdu) } else { 0 };
        let most = if choice.probe { 1 } else { self.window };
        let mut room = Room { count: 0, most, bytes: 0, most_bytes };
        self.add_retries(i, s, &mut room);
        self.add_new(now, i, s, single_limit, is_first, &mut room, outcomes);
        self.finish_selection(i, s, room.bytes, (single_limit, is_first))
    }

    /// The session has one MPDU, which fits into any first exchange.
    fn select_only(&mut self, i: usize, s: usize) -> bool {
        let station = &mut self.stations[i];
        let session = &mut station.sessions[s];
        let (mcs, mpdu) = (session.mcs, &mut session.window[0]);
        mpdu.attempts += 1;
        let bytes = mpdu.bytes;
        station.exchange.places.push(0);
        self.select_single(i, mcs, bytes);
        true
    }

    /// Station `i` sends one MPDU of this length.
    #[inline(never)]
    fn select_single(&mut self, i: usize, mcs: usize, bytes: u32) {
        let exchange = &mut self.stations[i].exchange;
        let times = self.durations.of(mcs);
        let psdu = self.durations.single(bytes);
        (exchange.content, exchange.answer) = (Content::Single, times.ack);
        (exchange.psdu, exchange.data) = (psdu, times.format.ppdu(psdu));
        exchange.rts = (psdu > self.rts_threshold || exchange.protect).then_some(times.rts);
    }

    /// Adds the MPDUs that have failed before.
    fn add_retries(&mut self, i: usize, s: usize, room: &mut Room) {
        let station = &mut self.stations[i];
        let places = &mut station.exchange.places;
        for k in station.sessions[s].unfinished() {
            let fits = room.add(station.sessions[s].window[k].bytes);
            if !fits && !places.is_empty() {
                return;
            }
            places.push(k);
            if !fits || room.count >= room.most {
                return;
            }
        }
    }

    /// Adds new MPDUs, as far as the window and the limits have room.
    #[allow(clippy::too_many_arguments, reason = "the limits of one selection")]
    fn add_new(
        &mut self,
        now: Time,
        i: usize,
        s: usize,
        single_limit: u64,
        is_first: bool,
        room: &mut Room,
        outcomes: &mut Vec<Outcome>,
    ) {
        let (window, amsdu) = (self.window, self.amsdu);
        let station = &mut self.stations[i];
        let (session, places) = (&mut station.sessions[s], &mut station.exchange.places);
        while room.count < room.most
            && (places.is_empty() || room.count == places.len())
            && let Some(frame) = session.next_frame(window)
        {
            // The first MPDU must fit alone, others in the aggregate. What does not fit in a TXOP
            // that is only limited is sent in one that has just begun.
            let alone = self.durations.single(frame.bytes) <= single_limit || is_first;
            let fits = room.add(frame.bytes);
            if !fits && (!places.is_empty() || !alone) {
                return;
            }
            let Some(first) = session.take_frame(now, outcomes) else { return };
            let mut mpdu = Mpdu::new(first);
            while amsdu > 0
                && let Some(next) = session.next_frame(window)
                && let Some(bytes) = mpdu.with(next.bytes, amsdu)
            {
                let grown = if fits {
                    let whole = room.bytes + u64::from(bytes - mpdu.bytes);
                    let grows = whole <= room.most_bytes;
                    room.bytes = if grows { whole } else { room.bytes };
                    grows
                } else {
                    self.durations.single(bytes) <= single_limit
                };
                if !grown {
                    break;
                }
                mpdu.bytes = bytes;
                mpdu.others.extend(session.take_frame(now, outcomes));
            }
            places.push(session.window.len());
            session.window.push_back(mpdu);
            if !fits {
                return;
            }
        }
    }

    /// Completes the exchange with these MPDUs. Returns false if it does not fit.
    fn finish_selection(
        &mut self,
        i: usize,
        s: usize,
        bytes: u64,
        (single_limit, is_first): (u64, bool),
    ) -> bool {
        let station = &mut self.stations[i];
        let (session, exchange) = (&mut station.sessions[s], &mut station.exchange);
        let times = self.durations.of(session.mcs);
        let psdu = match *exchange.places {
            [] => return false,
            [only] => {
                (exchange.content, exchange.answer) = (Content::Single, times.ack);
                let psdu = self.durations.single(session.window[only].bytes);
                if psdu > single_limit && !is_first {
                    return false;
                }
                psdu
            }
            _ => {
                (exchange.content, exchange.answer) = (Content::Aggregate, times.block_ack);
                bytes
            }
        };
        (exchange.psdu, exchange.data) = (psdu, times.format.ppdu(psdu));
        exchange.rts = (psdu > self.rts_threshold || exchange.protect).then_some(times.rts);
        for &k in &exchange.places {
            session.window[k].attempts += 1;
        }
        true
    }
}

impl Mpdu {
    #[inline]
    pub(super) fn new(first: crate::queue::Frame) -> Mpdu {
        Mpdu {
            first,
            others: Vec::new(),
            bytes: first.bytes,
            attempts: 0,
            received: false,
            received_at: Time::NEVER,
            passed: false,
            skipped: false,
            finished: false,
            collided: false,
        }
    }

    /// Its length with another packet, if an A-MSDU of at most `most` bytes has room for it. All
    /// packets but the last are padded to a multiple of 4 bytes.
    fn with(&self, packet: u32, most: u32) -> Option<u32> {
        let subframe = |frame: u32| SUBFRAME_HEADER + frame.saturating_sub(HEADER_BYTES);
        let so_far =
            if self.others.is_empty() { subframe(self.bytes) } else { self.bytes - HEADER_BYTES };
        let whole = so_far.next_multiple_of(4) + subframe(packet);
        (whole <= most).then_some(HEADER_BYTES + whole)
    }
}
