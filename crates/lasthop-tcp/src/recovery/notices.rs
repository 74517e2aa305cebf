//! How a recovery answers what others report of losses: hints of the link layer and requests of the
//! receiver (SNACK).

use super::engine::Engine;
use super::hints::{HintKind, LinkHints, LossHint, TimeoutMeans};
use crate::scoreboard::Marks;
use crate::sender::config::{Output, SendReason, State};
use crate::sender::stream::Stream;
use crate::window::{LossClass, WindowRule};
use lasthop_core::segment::{Flags, Options, Segment};
use lasthop_core::snack::Snack;
use lasthop_core::units::{Duration, Time};

#[allow(clippy::multiple_inherent_impl, reason = "the response to hints is a file apart")]
impl Engine {
    /// What is known from the link layer, if the recovery accepts hints.
    fn hints_mut(&mut self) -> Option<&mut LinkHints> {
        match self {
            Engine::Dupack(d) => d.hints_mut(),
            Engine::Sack(s) => s.hints_mut(),
            Engine::SackNs2(_) => None,
        }
    }

    /// A hint of the link layer.
    #[inline(never)]
    pub fn on_hint<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        hint: &LossHint,
        out: &mut impl Output,
    ) {
        let nxt = stream.snd_nxt();
        let rto = stream.timers().rto().rto();
        let Some(hints) = self.hints_mut().filter(|_| stream.state() == State::Established) else {
            return;
        };
        let Some(segment) = LinkHints::accept(hint, stream.board_mut(), now, nxt) else {
            stream.counters_mut().notices_ignored += 1;
            return;
        };
        match hint.kind {
            HintKind::Retransmitting => {
                hints.hold(stream.board_mut(), segment.seq, now, rto);
                stream.counters_mut().ersn += 1;
            }
            HintKind::GivenUp => {
                let answered = hints.answers();
                stream.counters_mut().eln += 1;
                out.classified(segment.seq, segment.transmissions, LossClass::Wireless);
                self.give_up(stream, now, segment.seq, answered, out);
            }
        }
    }

    /// An ACK reports lost segments, or a damaged one.
    #[cold]
    #[inline(never)]
    pub fn on_loss_report<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        if segment.flags.has(Flags::SNACK) {
            self.on_snack(stream, now, segment, &options.snack, out);
        } else {
            self.on_eln_ack(stream, now, segment, options.named, out);
        }
    }

    /// An ACK reports that the receiver got the segment at `seq` damaged; if it names none, the
    /// segment that it asks for. The ACK does not say when that was sent: an answer cannot come
    /// sooner than half of a round trip after the last transmission, so one that does is about an
    /// earlier copy.
    fn on_eln_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        named: u64,
        out: &mut impl Output,
    ) {
        let Some(hints) = self.hints_mut() else { return };
        let seq = if segment.flags.has(Flags::NAMED) {
            named
        } else if hints.first_unnamed(segment.ack) {
            segment.ack
        } else {
            return;
        };
        // What the ACK covers has arrived.
        if seq < segment.ack {
            return;
        }
        let half = Duration(stream.timers().rto().srtt().unwrap_or_default().0 / 2);
        let made = Time(now.0.saturating_sub(half.0));
        self.on_hint(stream, now, &LossHint { kind: HintKind::GivenUp, seq, made }, out);
    }

    /// The receiver asks for what it misses. No more than a window is sent at once, and nothing
    /// whose copy can still be in flight: the receiver asks again for the remaining segments.
    fn on_snack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        snack: &Snack,
        out: &mut impl Output,
    ) {
        if self.hints_mut().is_none() || stream.state() != State::Established {
            return;
        }
        // The smoothed round-trip time is too short while a queue fills: the copies would be
        // requested before they can have arrived.
        let rto = stream.timers().rto();
        let round_trip = rto.srtt().unwrap_or_default() + rto.rttvar().unwrap_or_default() * 4;
        let mut room = stream.window().cwnd;
        let mut answered = false;
        for hole in snack.holes() {
            let mut seq = hole.start.max(segment.ack);
            // After a timeout without SACK everything from snd_nxt on is retransmitted anyway.
            let end = hole.end.min(stream.snd_nxt());
            while let Some(sent) = stream.board().get(seq).filter(|s| s.seq < end && room > 0.0) {
                seq = sent.end();
                let under_way = sent.transmissions > 1 && now < sent.last_sent + round_trip;
                if under_way || sent.marks.any(Marks::SACKED) {
                    continue;
                }
                room -= (sent.end() - sent.seq) as f64;
                if segment.flags.has(Flags::ELN) {
                    out.classified(sent.seq, sent.transmissions, LossClass::Wireless);
                }
                self.give_up(stream, now, sent.seq, true, out);
                answered = true;
            }
        }
        if answered {
            stream.timers_mut().arm(now);
        }
    }

    /// The last copy of a segment is known to be lost. It is retransmitted, if that is the answer.
    fn give_up<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        seq: u64,
        answered: bool,
        out: &mut impl Output,
    ) {
        if let Some(hints) = self.hints_mut() {
            hints.on_given_up(seq);
        }
        if let Engine::Sack(s) = self {
            s.on_given_up(stream, seq);
        }
        if answered {
            self.retransmit_notified(stream, now, seq, SendReason::Notified, out);
        }
    }

    fn retransmit_notified<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        seq: u64,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        match self {
            Engine::Dupack(d) => d.retransmit_notified(stream, now, seq, reason, out),
            Engine::Sack(s) => s.retransmit_notified(stream, now, seq, reason, out),
            Engine::SackNs2(_) => {}
        }
    }

    /// The retransmission timer has expired: true if that is no sign of congestion, because the
    /// link layer retransmits the first segment, or because nothing has been delivered for so long
    /// that the station must be out of reach.
    pub fn forbears_timeout<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) -> bool {
        let Some(hints) = self.hints_mut().filter(|_| !stream.board().is_empty()) else {
            return false;
        };
        match hints.on_timeout(stream.board()) {
            TimeoutMeans::Congestion => {
                if let Engine::Sack(s) = self {
                    s.on_hints_discarded();
                }
                false
            }
            TimeoutMeans::LinkAtWork => {
                stream.counters_mut().timeouts_held += 1;
                stream.timers_mut().arm(now);
                true
            }
            TimeoutMeans::Disconnected => {
                stream.counters_mut().timeouts += 1;
                stream.timers_mut().back_off();
                let una = stream.snd_una();
                if let Engine::Sack(s) = self {
                    s.lose_reported(stream, una);
                }
                self.retransmit_notified(stream, now, una, SendReason::Timeout, out);
                true
            }
        }
    }
}
