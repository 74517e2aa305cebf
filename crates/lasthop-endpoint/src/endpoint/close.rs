//! How a connection ends: by FINs, by a reset, or because the peer does not answer.

use lasthop::segment::{Flags, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{State, timestamp};
use lasthop::units::Time;
use lasthop_wire::TcpPacket;

use super::{End, Endpoint, Phase};
use crate::stream_data::Arrived;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of a connection")]
impl Endpoint {
    /// After every call: what has become of the connection.
    pub(super) fn settle(&mut self, now: Time) {
        self.wire.data.acknowledge(self.sender.snd_una());
        if let Some(rtt) = self.sender.take_last_rtt() {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let forgotten = self.receiver.as_ref().is_some_and(|r| r.has_forgotten());
        if self.phase == Phase::Closed || self.phase == Phase::TimeWait {
            return;
        }
        if self.sender.gave_up().is_some() || forgotten {
            return self.finish(End::TimedOut);
        }
        if self.has_received_fin() && !self.peer_has_closed {
            (self.peer_has_closed, self.closes_first) = (true, self.has_sent_fin());
        }
        if self.peer_has_closed && self.sender.state() == State::Done {
            match self.closes_first {
                true => self.wait(now),
                false => return self.finish(End::Closed),
            }
        }
        self.set_keep_alive();
    }

    /// TIME-WAIT begins, or begins again (RFC 9293, section 3.6.1).
    pub(super) fn wait(&mut self, now: Time) {
        (self.phase, self.time_wait_until) = (Phase::TimeWait, now + self.settings.time_wait);
        self.wire.data.clear();
    }

    /// A SYN may replace a connection in TIME-WAIT if its sequence number is above everything that
    /// the connection has received (RFC 9293, section 3.6.1): no old segment can be taken for one
    /// of the new connection.
    pub(crate) fn may_be_replaced(&self, tcp: &TcpPacket<'_>) -> bool {
        let flags = tcp.flags();
        if self.phase != Phase::TimeWait || !flags.has(Flags::SYN) || flags.has(Flags::ACK) {
            return false;
        }
        self.arrival(tcp).ahead > 1
    }

    pub(super) fn finish(&mut self, end: End) {
        (self.phase, self.end) = (Phase::Closed, Some(end));
        self.time_wait_until = Time::NEVER;
        self.sender.abort();
        self.wire.data.clear();
        if end != End::Closed {
            self.arrived = Arrived::default();
        }
    }

    pub(super) fn abort_with(&mut self, now: Time, end: End) {
        match self.phase {
            Phase::Closed => return,
            Phase::SynSent | Phase::TimeWait => {}
            Phase::SynReceived { .. } | Phase::Open => {
                let next = |r: &Receiver| r.rcv_nxt() + u64::from(r.finished());
                let ack = self.receiver.as_ref().map_or(0, next);
                let reset = self.bare_segment(now, self.sender.snd_max());
                let flags = reset.flags.with(Flags::RST);
                self.wire.send(Segment { ack, window: 0, flags, ..reset }, &Options::NONE);
            }
        }
        self.finish(end);
    }

    /// A segment without data; resets have timestamps too (RFC 7323, section 3.2).
    fn bare_segment(&mut self, now: Time, seq: u64) -> Segment {
        let timestamps = self.wire.agreed.is_some_and(|agreed| agreed.timestamps);
        let flags = if timestamps { Flags::ACK.with(Flags::TIMESTAMPS) } else { Flags::ACK };
        let mut segment = Segment { seq, flags, ts_value: timestamp(now), ..Segment::default() };
        if let Some(receiver) = &mut self.receiver {
            receiver.piggyback(&mut segment);
        }
        segment
    }

    /// A connection with nothing in flight is probed after a while without arrivals.
    fn set_keep_alive(&mut self) {
        let Some(keep_alive) = self.settings.keep_alive else { return };
        let is_idle = self.phase == Phase::Open && self.sender.flight() == 0;
        self.keep_alive_at = match is_idle {
            true => {
                let waited = keep_alive.interval * u64::from(self.keep_alives);
                self.last_arrival + keep_alive.idle + waited
            }
            false => Time::NEVER,
        };
    }

    /// The probe has the sequence number of the last byte that was acknowledged, so that it is
    /// answered (RFC 9293, section 3.8.4).
    pub(super) fn on_keep_alive_timer(&mut self, now: Time) {
        let Some(keep_alive) = self.settings.keep_alive else { return };
        if self.keep_alives >= keep_alive.probes {
            return self.abort_with(now, End::TimedOut);
        }
        self.keep_alives += 1;
        let probe = self.bare_segment(now, self.sender.snd_max().wrapping_sub(1));
        self.wire.send(probe, &Options::NONE);
    }
}
