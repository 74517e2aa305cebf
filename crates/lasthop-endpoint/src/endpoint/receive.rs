//! Packets of a connection that both ends know of (RFC 9293, section 3.10.7.4; RFC 5961; RFC 7323).

use lasthop::segment::{Flags, Options, Segment};
use lasthop::tcp::receiver::{Discard, Receiver};
use lasthop::units::Time;
use lasthop_wire::TcpPacket;

use super::{End, Endpoint, Phase};
use crate::arrival::{Arrival, Origins};
use crate::ecn::{self, Ecn};

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of a connection")]
impl Endpoint {
    pub(super) fn process_packet(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        if (tcp.addressing.destination, tcp.addressing.source) != self.addresses() {
            self.counters.invalid += 1;
            return;
        }
        match self.phase {
            Phase::Closed => {}
            Phase::SynSent => self.on_syn_sent(now, tcp),
            Phase::SynReceived { .. } | Phase::Open | Phase::TimeWait => {
                let flags = tcp.flags();
                if flags.has(Flags::RST) {
                    self.on_reset(now, tcp);
                } else if flags.has(Flags::SYN) {
                    self.on_repeated_syn(now, tcp);
                } else {
                    self.on_segment(now, tcp);
                }
            }
        }
    }

    /// The fields of a packet as offsets.
    pub(super) fn arrival(&self, tcp: &TcpPacket<'_>) -> Arrival {
        let wire = &self.wire;
        let agreed = wire.agreed.unwrap_or(wire.offer);
        let mut ignored = Flags::NONE;
        if !agreed.sack {
            ignored = ignored.with(Flags::SACK);
        }
        match agreed.ecn {
            Ecn::Off => ignored = ignored.with(ecn::COUNT).with(Flags::CE),
            Ecn::Classic => ignored = ignored.with(Flags::AE),
            Ecn::Accurate => {}
        }
        let origins = Origins {
            seq_zero: wire.peer_isn.wrapping_add(1),
            next: self.receiver.as_ref().map_or(0, Receiver::rcv_nxt),
            ack_zero: wire.secrets.isn.wrapping_add(1),
            unacknowledged: self.sender.snd_una(),
            shift: agreed.window_scale.unwrap_or(0),
            timestamp_offset: agreed.timestamps.then_some(wire.secrets.timestamp_offset),
            mss: agreed.segment(),
            ignored,
        };
        let mut arrival = origins.arrival(tcp);
        let ends_handshake =
            matches!(self.phase, Phase::SynReceived { .. }) && tcp.payload_len == 0;
        if agreed.ecn == Ecn::Accurate && (ends_handshake || tcp.flags().has(Flags::SYN)) {
            arrival.segment.flags = ecn::after_handshake(arrival.segment.flags);
        }
        arrival
    }

    fn on_segment(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        let arrival = self.arrival(tcp);
        let Some(receiver) = &self.receiver else { return };
        let segment = arrival.segment;
        let timestamps = self.wire.agreed.is_some_and(|agreed| agreed.timestamps);
        if timestamps && !segment.flags.has(Flags::TIMESTAMPS) {
            self.counters.without_timestamp += 1;
            return;
        }
        if !is_within_window(receiver, &arrival) {
            return self.on_segment_outside(now, &arrival);
        }
        let discard = receiver.discards(now, &segment);
        if discard == Some(Discard::OldTimestamp) {
            self.counters.unacceptable += 1;
            return self.receive(now, &segment, discard);
        }
        if !segment.flags.has(Flags::ACK) || !self.accepts_ack(now, tcp, &arrival) {
            return;
        }
        (self.last_arrival, self.keep_alives) = (now, 0);
        self.wire.syn_mark = None;
        if discard.is_none() {
            let next = self.receiver.as_ref().map_or(0, Receiver::rcv_nxt);
            let is_new = segment.len > 0 && segment.seq + u64::from(segment.len) > next;
            if self.is_released && is_new {
                self.wire.send_reset(self.offset_of(tcp.ack));
                return self.finish(End::Aborted);
            }
            self.arrived.store(segment.seq, tcp.payload, next);
        }
        self.receive(now, &segment, discard);
        match self.phase {
            Phase::SynReceived { passive } => {
                let accurate = self.wire.agreed.is_some_and(|a| a.ecn == Ecn::Accurate);
                let is_pure = passive && tcp.payload_len == 0;
                if accurate && is_pure && ecn::is_cleared(tcp.flags()) {
                    self.sender.disable_ecn();
                }
                self.on_syn_acknowledged(now, &segment, passive)
            }
            Phase::TimeWait if segment.flags.has(Flags::FIN) => self.wait(now),
            Phase::TimeWait | Phase::Closed => {}
            _ => self.acknowledge(now, &segment, &arrival.options),
        }
    }

    /// A segment outside of the window is answered, and nothing of it counts. One that repeats what
    /// has arrived may be reported as a duplicate.
    fn on_segment_outside(&mut self, now: Time, arrival: &Arrival) {
        self.counters.unacceptable += 1;
        let segment = &arrival.segment;
        let repeats =
            arrival.ahead < 0 && segment.has_sequence_numbers() && !is_before_stream(segment);
        match repeats && self.phase == Phase::Open {
            true => self.receive(now, segment, None),
            false => {
                self.challenge(now);
                if self.phase == Phase::TimeWait && segment.flags.has(Flags::FIN) {
                    self.wait(now);
                }
            }
        }
    }

    /// RFC 5961, section 5.2: the ACK number is of data in flight, or not older than the largest
    /// window; in SYN-RECEIVED it is that of the SYN (RFC 9293, section 3.10.7.4).
    fn accepts_ack(&mut self, now: Time, tcp: &TcpPacket<'_>, arrival: &Arrival) -> bool {
        if matches!(self.phase, Phase::SynReceived { .. }) {
            if arrival.acks != 0 {
                self.counters.unacceptable += 1;
                self.wire.send_reset(self.offset_of(tcp.ack));
            }
            return arrival.acks == 0;
        }
        let in_flight = self.sender.flight() as i64;
        let oldest = -(self.max_peer_window.min(1 << 30) as i64);
        let accepted = (oldest..=in_flight).contains(&arrival.acks);
        if !accepted {
            self.counters.unacceptable += 1;
            self.challenge(now);
        }
        accepted
    }

    fn receive(&mut self, now: Time, segment: &Segment, discard: Option<Discard>) {
        self.with_receiver(now, |receiver, port| {
            receiver.on_judged_segment(now, segment, discard, port);
        });
    }

    /// The sender gets the ACK of a segment. An older one does not change the window (RFC 9293,
    /// section 3.10.7.4).
    fn acknowledge(&mut self, now: Time, segment: &Segment, options: &Options) {
        let mut ack = *segment;
        if (segment.seq, segment.ack) < self.window_from {
            ack.window = u32::try_from(self.sender.receive_window()).unwrap_or(u32::MAX);
        } else {
            self.window_from = (segment.seq, segment.ack);
            self.max_peer_window = self.max_peer_window.max(segment.window.into());
        }
        if segment.flags.has(Flags::FIN) {
            // It counts as a byte, and the receiver acknowledges it.
            (ack.flags, ack.len) = (segment.flags.without(Flags::FIN), segment.len + 1);
        }
        self.with_sender(|sender, port| sender.on_segment(now, &ack, options, port));
    }

    /// RFC 5961, section 3.2: only a reset with exactly the next sequence number ends the
    /// connection; one within the window is challenged. TIME-WAIT ignores resets (RFC 1337).
    fn on_reset(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        let arrival = self.arrival(tcp);
        let Some(receiver) = &self.receiver else { return };
        let window = receiver.right_edge().saturating_sub(receiver.rcv_nxt()) as i64;
        let next = i64::from(receiver.finished());
        if self.phase == Phase::TimeWait {
            self.counters.challenged += 1;
        } else if receiver.accepts_reset(arrival.segment.seq) {
            self.finish(End::Reset);
        } else {
            match (next..=next + window).contains(&arrival.ahead) {
                true => self.challenge(now),
                false => self.counters.challenged += 1,
            }
        }
    }

    /// Answers what cannot be of this connection with what is expected (challenge ACK).
    pub(super) fn challenge(&mut self, now: Time) {
        self.counters.challenged += 1;
        self.with_receiver(now, |receiver, port| receiver.challenge(now, port));
    }
}

/// A segment is within the window if it ends no earlier than the last ACK and begins no later than
/// the right edge (Linux `tcp_sequence`). A closed window accepts ACKs (RFC 9293, section
/// 3.10.7.4).
fn is_within_window(receiver: &Receiver, arrival: &Arrival) -> bool {
    let segment = &arrival.segment;
    let fin = i64::from(segment.flags.has(Flags::FIN));
    let end = arrival.ahead + i64::from(segment.len) + fin;
    let acknowledged = receiver.last_ack() as i64 - receiver.rcv_nxt() as i64;
    let window = receiver.right_edge().saturating_sub(receiver.rcv_nxt()) as i64;
    let right = window + i64::from(receiver.finished());
    end >= acknowledged && arrival.ahead <= right && !is_before_stream(segment)
}

/// Its first byte would be before the first one of the stream.
fn is_before_stream(segment: &Segment) -> bool {
    segment.seq > u64::MAX / 2
}
