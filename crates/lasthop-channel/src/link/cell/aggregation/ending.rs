//! The ends of attempts of MPDUs: what their sender and their recipient have of them then, and what
//! the host is told.

use super::AggregatingCell;
use super::session::{Mpdu, Session};
use crate::link::cell::report::{Attempt, Delivery, End, Report};
use lasthop_core::agent::LinkEvent;
use lasthop_core::framing::Step;
use lasthop_core::units::{Duration, Time};

/// How the attempts of a transmission have ended.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    /// The originator has received the answer.
    pub answered: bool,
    pub collided: bool,
    /// Time of the medium that they took together.
    pub air_time: Duration,
}

/// The attempts of the MPDUs of a station that end now.
struct Ended {
    station: usize,
    /// Start of the data.
    start: Time,
    now: Time,
    /// Attempts after which an MPDU is discarded.
    limit: u32,
    how: Ending,
}

/// Divides the time of an aggregate between its MPDUs by their lengths.
struct Shares {
    time: u64,
    /// Bytes of all MPDUs; 0 if there is nothing to divide.
    total: u64,
    bytes: u64,
    /// End of the last share.
    end: u64,
}

impl Shares {
    fn of(session: &Session, places: &[usize], time: Duration) -> Shares {
        let total = match places {
            [_] => 0,
            _ if time == Duration::ZERO => 0,
            all => all.iter().map(|&k| u64::from(session.window[k].bytes)).sum(),
        };
        Shares { time: time.0, total, bytes: 0, end: 0 }
    }

    /// The share of the next MPDU; a single one has all.
    #[inline]
    fn next(&mut self, bytes: u32) -> Duration {
        self.bytes += u64::from(bytes);
        match (self.time * self.bytes).checked_div(self.total) {
            Some(end) => Duration(end - std::mem::replace(&mut self.end, end)),
            None => Duration(self.time),
        }
    }
}

impl AggregatingCell {
    /// Ends the attempts of the MPDUs that station `i` has sent. `first` is the first delivery, if
    /// it comes before all reports. Returns how many are acknowledged, if there was an answer, and
    /// whether one has been given up.
    pub(super) fn end_mpdus(
        &mut self,
        now: Time,
        (i, s): (usize, usize),
        how: Ending,
        first: &mut Option<Delivery>,
        reports: &mut Vec<Report>,
    ) -> (Option<u32>, bool) {
        let AggregatingCell { stations, received, retry_limit, start, .. } = self;
        let station = &mut stations[i];
        let (session, places) = (&mut station.sessions[s], &station.exchange.places);
        if how.answered && received.as_slice() == [true] && session.is_in_order() {
            session.end_only(i, *start, how.air_time, first, reports);
            return (Some(1), false);
        }
        let mut shares = Shares::of(session, places, how.air_time);
        let ended = Ended { station: i, start: *start, now, limit: *retry_limit, how };
        let (mut acknowledged, mut gave_up) = (0, false);
        for (n, &k) in places.iter().enumerate() {
            let mpdu = &session.window[k];
            let air_time = shares.next(mpdu.bytes);
            let has_arrived = received.get(n) == Some(&true);
            if how.answered && has_arrived && !mpdu.received && session.is_head(k) {
                acknowledged += 1;
                let mpdu = &mut session.window[k];
                (mpdu.received, mpdu.received_at) = (true, now);
                session.end_delivered((i, k), *start, air_time, first, reports);
            } else if !has_arrived && !mpdu.received && mpdu.attempts < *retry_limit {
                session.end_failed(k, &ended, air_time, reports);
            } else {
                let step = session.end_other(k, &ended, (has_arrived, air_time), reports);
                acknowledged += u32::from(step == Step::Whole);
                gave_up |= matches!(step, Step::Over { .. });
            }
        }
        (how.answered.then_some(acknowledged), gave_up)
    }
}

impl Ended {
    /// Reports the end of an attempt for each packet of the MPDU; the first one has the air time.
    #[inline]
    fn report(&self, to: usize, mpdu: &Mpdu, end: End, reports: &mut Vec<Report>) {
        let attempt =
            |frame| Attempt::of_packet(self.station, to, frame, mpdu.attempts, self.start);
        reports.push(Report::Ended(attempt(mpdu.first), end));
        let end = End { air_time: Duration::ZERO, ..end };
        reports.extend(mpdu.others.iter().map(|&f| Report::Ended(attempt(f), end)));
    }
}

impl Session {
    /// Reports that the packets of the MPDU at place `k` are delivered.
    #[inline(always)]
    fn report_delivered(
        &self,
        (station, k): (usize, usize),
        start: Time,
        air_time: Duration,
        first: &mut Option<Delivery>,
        reports: &mut Vec<Report>,
    ) {
        let mpdu = &self.window[k];
        let delivery = |frame, air_time| Delivery {
            attempt: Attempt::of_packet(station, self.to, frame, mpdu.attempts, start),
            crashed: mpdu.collided,
            air_time,
        };
        let of_first = delivery(mpdu.first, air_time);
        if first.is_none() && reports.is_empty() {
            *first = Some(of_first);
        } else {
            reports.push(Report::Delivered(of_first));
        }
        let others = mpdu.others.iter().map(|&f| delivery(f, Duration::ZERO));
        reports.extend(others.map(Report::Delivered));
    }

    /// The usual end of the only MPDU.
    #[inline(always)]
    pub(super) fn end_only(
        &mut self,
        station: usize,
        start: Time,
        air_time: Duration,
        first: &mut Option<Delivery>,
        reports: &mut Vec<Report>,
    ) {
        self.report_delivered((station, 0), start, air_time, first, reports);
        self.finish_all();
    }

    /// The usual end of an aggregate: all MPDUs of the window are received for the first time, and
    /// acknowledged. `start` and `now` are those of the data.
    #[inline(never)]
    pub(super) fn end_all(
        &mut self,
        station: usize,
        (start, now): (Time, Time),
        air_time: Duration,
        first: &mut Option<Delivery>,
        reports: &mut Vec<Report>,
    ) {
        let total = self.window.iter().map(|m| u64::from(m.bytes)).sum();
        let mut shares = Shares { time: air_time.0, total, bytes: 0, end: 0 };
        for k in 0..self.window.len() {
            let share = shares.next(self.window[k].bytes);
            self.report_delivered((station, k), start, share, first, reports);
        }
        let mpdus = self.window.len() as u32;
        self.finish_all();
        self.clear();
        self.rate.sent(now, self.mcs, mpdus, Some(mpdus));
        (self.rts_failures, self.must_request) = (0, false);
    }

    /// The frames that follow a new one in an aggregate are delivered, as all of them are.
    /// `delivery` is that of the first one, with the air time of all. Returns their number.
    #[inline(never)]
    pub(super) fn end_further(
        &mut self,
        delivery: &mut Delivery,
        reports: &mut Vec<Report>,
    ) -> u32 {
        let Delivery { attempt, crashed, air_time } = *delivery;
        let further = self.further.iter().map(|frame| u64::from(frame.bytes)).sum::<u64>();
        let total = u64::from(attempt.frame.bytes) + further;
        let mut shares = Shares { time: air_time.0, total, bytes: 0, end: 0 };
        delivery.air_time = shares.next(attempt.frame.bytes);
        for &frame in &self.further {
            let attempt = Attempt { frame, bytes: frame.bytes, ..attempt };
            let air_time = shares.next(frame.bytes);
            reports.push(Report::Delivered(Delivery { attempt, crashed, air_time }));
            self.pending.remove(&frame);
        }
        let mpdus = self.further.len() as u32;
        self.further.clear();
        mpdus
    }

    /// The usual end of the MPDU at place `k`: it is in order, and acknowledged.
    #[inline(always)]
    fn end_delivered(
        &mut self,
        (station, k): (usize, usize),
        start: Time,
        air_time: Duration,
        first: &mut Option<Delivery>,
        reports: &mut Vec<Report>,
    ) {
        self.report_delivered((station, k), start, air_time, first, reports);
        self.finish(k);
        self.pass_head();
        if self.deliverable().is_some() {
            self.release(station, reports);
        }
    }

    /// The attempt of the MPDU at place `k` has failed; the recipient does not have it, and it is
    /// sent again.
    #[inline]
    fn end_failed(
        &mut self,
        k: usize,
        ended: &Ended,
        air_time: Duration,
        reports: &mut Vec<Report>,
    ) {
        let mpdu = &mut self.window[k];
        mpdu.collided = ended.how.collided;
        let end = End {
            received: false,
            arrives: false,
            arrived: false,
            held: false,
            late: false,
            delivered: false,
            collided: ended.how.collided,
            crashed: ended.how.collided,
            step: Step::More,
            damaged_frames: None,
            air_time,
        };
        ended.report(self.to, mpdu, end, reports);
    }

    /// The attempt of the MPDU at place `k` has ended in any way. Returns what follows for it.
    fn end_other(
        &mut self,
        k: usize,
        ended: &Ended,
        (has_arrived, air_time): (bool, Duration),
        reports: &mut Vec<Report>,
    ) -> Step {
        let &Ended { now, limit, how, .. } = ended;
        let is_head = self.is_head(k);
        let mpdu = &mut self.window[k];
        let arrives_now = has_arrived && !mpdu.received;
        if arrives_now {
            (mpdu.received, mpdu.received_at) = (true, now);
        }
        let delivered = how.answered && mpdu.received;
        let step = match delivered {
            true => Step::Whole,
            false if mpdu.attempts >= limit => Step::Over { begun: false },
            false => Step::More,
        };
        if !delivered {
            mpdu.collided = how.collided;
        }
        let arrives = arrives_now && is_head;
        let is_lost = step != Step::More && !mpdu.received && !how.collided;
        let end = End {
            received: has_arrived,
            arrives,
            arrived: mpdu.received && !mpdu.skipped,
            held: mpdu.received && !mpdu.passed && !arrives,
            late: mpdu.received && mpdu.skipped,
            delivered,
            collided: how.collided,
            crashed: mpdu.collided,
            step,
            damaged_frames: is_lost.then_some(LinkEvent::Damaged { header_readable: false }),
            air_time,
        };
        ended.report(self.to, mpdu, end, reports);
        if step != Step::More {
            self.finish(k);
        }
        if arrives {
            self.pass_head();
            self.release(ended.station, reports);
        }
        step
    }

    /// The recipient delivers what is at its head.
    #[inline]
    pub(super) fn release(&mut self, station: usize, reports: &mut Vec<Report>) {
        while let Some(mpdu) = self.deliverable() {
            let released = |frame| Report::Released {
                attempt: Attempt::of_packet(station, self.to, frame, mpdu.attempts, Time::ZERO),
                retained: !mpdu.finished,
            };
            reports.extend(mpdu.frames().map(released));
            self.pass_head();
        }
    }
}
