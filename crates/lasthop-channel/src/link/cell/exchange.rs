//! The ends of transmissions: a frame or fragment of one station, an RTS, or a collision.

use super::air::OnAir;
use super::contention::Wait;
use super::head::{Head, Sent};
use super::mac::{AfterCollision, Timing};
use super::report::{Delivery, Exchanged, Freight, Report};
use super::{Cell, Phase};
use lasthop_core::framing::Step;
use lasthop_core::segment::Segment;
use lasthop_core::units::{Duration, Time};

impl Cell {
    /// Ends a frame or fragment that one station alone has sent.
    #[inline]
    pub(super) fn exchange(
        &mut self,
        now: Time,
        i: usize,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
    ) -> Exchanged {
        let Some(head) = &self.stations[i].head else { return Exchanged::Other };
        let to = head.to();
        let Timing { sifs, difs, ack, .. } = self.timing;
        let free = if self.link_acks { now + sifs + ack } else { now };
        let (mut lost, mut readable, mut answered) = (false, false, true);
        if self.air.may_lose(i, to, false) || self.air.may_lose(to, i, true) {
            (lost, readable, answered) = self.fates(now, i, free, freight);
        }
        self.contention.all_wait(Wait { busy_until: free, since: free + difs });
        if lost || !answered || self.ns3 {
            self.set_waits(now, free, (i, to), lost, answered);
        }
        let Some(head) = &self.stations[i].head else { return Exchanged::Other };
        if !lost && answered && head.is_whole() {
            let attempt = head.attempt(i, self.start);
            let (crashed, air_time) = (head.crashed(), free - self.start);
            self.stations[i].head = None;
            return Exchanged::Delivered(Delivery { attempt, crashed, air_time });
        }
        let end = if lost && self.link_acks { now } else { free };
        let air_time = end - self.start;
        let step = self.end_attempt(
            i,
            Sent { received: !lost, delivered: answered, collided: false, readable, air_time },
            reports,
        );
        if answered && step == Step::More {
            self.burst(i, free + sifs, reports);
            return Exchanged::Fragment;
        }
        Exchanged::Other
    }

    /// Whether the frame that station `i` has sent is lost, whether its headers are intact then,
    /// and whether the sender gets the link ACK, which ends at `free`.
    #[inline(never)]
    fn fates(
        &mut self,
        now: Time,
        i: usize,
        free: Time,
        freight: &impl Freight,
    ) -> (bool, bool, bool) {
        let Some(head) = &self.stations[i].head else { return (false, false, true) };
        let (to, segment) = (head.to(), freight.segment(head.handle()));
        let Timing { preamble_bytes, .. } = self.timing;
        let frame = OnAir {
            from: i,
            to,
            start: now - head.data(),
            end: now,
            bytes: head.bytes() + preamble_bytes,
            control: false,
            segment,
        };
        let lost = self.air.may_lose(i, to, false) && self.air.lost(&frame);
        let readable = lost && self.air.header_intact(&frame);
        let answer = self.answer((to, i), now, free, segment);
        // Without link ACKs, and for a frame that is lost, there is no answer to draw for.
        let unanswered =
            lost || (self.link_acks && self.air.may_lose(to, i, true) && self.air.lost(&answer));
        let answered = !self.link_acks || !unanswered;
        (lost, readable, answered)
    }

    /// The answer to a frame of `segment` that has just ended: a link ACK or CTS, which ends at
    /// `end`.
    fn answer<'s>(
        &self,
        (from, to): (usize, usize),
        now: Time,
        end: Time,
        segment: &'s Segment,
    ) -> OnAir<'s> {
        let Timing { sifs, ack_bytes, .. } = self.timing;
        OnAir { from, to, start: now + sifs, end, bytes: ack_bytes, control: true, segment }
    }

    /// The waits that differ from those of the other stations after an exchange of station `i` with
    /// station `to`.
    #[inline(never)]
    fn set_waits(
        &mut self,
        now: Time,
        free: Time,
        (i, to): (usize, usize),
        lost: bool,
        answered: bool,
    ) {
        let Timing { difs, garbled, unanswered, .. } = self.timing;
        if lost {
            self.contention.set_wait(to, Wait { busy_until: now, since: now + garbled });
            self.contention.set_wait(i, Wait { busy_until: now, since: now + unanswered });
        } else if !answered {
            self.contention.set_wait(i, Wait { busy_until: free, since: free + garbled });
        } else if self.ns3 {
            self.contention.set_wait(to, Wait { busy_until: now, since: free + difs });
        }
    }

    /// The next fragment follows at `start`; no other station can send before.
    #[inline(never)]
    fn burst(&mut self, i: usize, start: Time, reports: &mut Vec<Report>) {
        let Some(head) = &mut self.stations[i].head else { return };
        head.begin_attempt();
        self.contention.answered(i);
        (self.phase, self.start, self.end) = (Phase::Protected, start, start + head.data());
        if head.attempts() >= self.announces {
            reports.push(Report::Started(head.attempt(i, start)));
        }
    }

    /// Ends an RTS that one station alone has sent. True if the data frame follows.
    #[inline(never)]
    pub(super) fn reserve(
        &mut self,
        now: Time,
        i: usize,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
    ) -> bool {
        let Some(head) = &self.stations[i].head else { return false };
        let (to, data, segment) = (head.to(), head.data(), freight.segment(head.handle()));
        let Timing { sifs, difs, ack, garbled, unanswered, rts_bytes, .. } = self.timing;
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
        let cts = self.answer((to, i), now, free, segment);
        let mut lost = |f: &OnAir<'_>| self.air.may_lose(f.from, f.to, true) && self.air.lost(f);
        let subscribed = !lost(&rts);
        if subscribed && !lost(&cts) {
            self.phase = Phase::Protected;
            self.end = free + sifs + data;
            return true;
        }
        self.contention.all_wait(Wait { busy_until: free, since: free + difs });
        let (busy_until, since) =
            if subscribed { (free, free + garbled) } else { (now, now + unanswered) };
        self.contention.set_wait(i, Wait { busy_until, since });
        if !subscribed {
            self.contention.set_wait(to, Wait { busy_until: now, since: now + garbled });
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

    /// Ends a collision: no frame is received.
    #[inline(never)]
    pub(super) fn collide(&mut self, now: Time, freight: &impl Freight, reports: &mut Vec<Report>) {
        let Timing { difs, garbled, unanswered, preamble_bytes, rts_bytes, .. } = self.timing;
        self.contention.all_wait(Wait { busy_until: now, since: now + garbled });
        let first = |i: &usize| self.stations[*i].head.as_ref().map_or(Duration::ZERO, Head::first);
        let longest = self.senders.iter().map(first).max().unwrap_or(Duration::ZERO);
        let alone = self.senders.iter().filter(|i| first(i) == longest).count() == 1;
        let mut uncounted = true;
        for k in 0..self.senders.len() {
            let i = self.senders[k];
            let Some(head) = &self.stations[i].head else { continue };
            let end = self.start + head.first();
            let since = match self.after_collision {
                AfterCollision::Difs => now + difs,
                AfterCollision::AckTimeout => (end + unanswered).max(now + difs),
                AfterCollision::Ns2 if alone && head.first() == longest => now + unanswered,
                AfterCollision::Eifs | AfterCollision::Ns2 => now + garbled,
            };
            self.contention.set_wait(i, Wait { busy_until: now, since });
            // The channel's chains and draws advance with every attempt, also with a collision.
            let control = head.reserves();
            let bytes = if control { rts_bytes } else { head.bytes() + preamble_bytes };
            let segment = freight.segment(head.handle());
            if self.air.may_lose(i, head.to(), control) {
                self.air.lost(&OnAir {
                    from: i,
                    to: head.to(),
                    start: self.start,
                    end,
                    bytes,
                    control,
                    segment,
                });
            }
            let counted = uncounted && head.first() == longest;
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

    /// Ends the attempt of station `i` with the result `how`.
    pub(super) fn end_attempt(&mut self, i: usize, how: Sent, reports: &mut Vec<Report>) -> Step {
        let Some(head) = &mut self.stations[i].head else { return Step::Whole };
        let attempt = head.attempt(i, self.start);
        let end = head.end_attempt(how);
        let step = end.step;
        reports.push(Report::Ended(attempt, end));
        if step != Step::More {
            self.stations[i].head = None;
            return step;
        }
        let bytes = head.bytes();
        if bytes != attempt.bytes {
            let times = self.times(i, bytes);
            self.stations[i].head.iter_mut().for_each(|h| h.set_times(times));
        }
        step
    }
}
