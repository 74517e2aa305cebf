//! Round-trip times, and the retransmission timer after an ACK.

use super::SackRecovery;
use super::arrival::Arrival;
use crate::profile::{ClockKind, RtoRestart, RttSample};
use crate::recovery::detect::LossDetector;
use crate::sender::stream::Stream;
use crate::timestamps::timestamp;
use crate::window::WindowRule;
use lasthop_core::segment::Segment;
use lasthop_core::units::{Duration, Time};

#[allow(
    clippy::multiple_inherent_impl,
    reason = "one file for each input: ACKs, episodes, sending, timers"
)]
impl SackRecovery {
    /// A round-trip time sample, of the segment that the profile names; returns the one for the
    /// window rule. ns-2's clock times one segment at a time.
    pub(super) fn sample<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        arrival: &Arrival,
    ) -> Option<Duration> {
        if stream.profile().clock == ClockKind::Ns2Ticks {
            return if arrival.acked > 0 { stream.sample(now, segment) } else { None };
        }
        let stamped = || {
            arrival
                .echo
                .filter(|_| arrival.acked > 0)
                .map(|echo| Duration::micros(u64::from(timestamp(now).wrapping_sub(echo))))
        };
        let first = stream.profile().rtt_sample == RttSample::First;
        let (timer, rule) = if first {
            let acked = Some(arrival.acked_once).filter(|_| !arrival.acked_again);
            let acked = acked.unwrap_or_default();
            (acked.first.or(arrival.sacked_once.first), arrival.sacked_once.last().or(acked.last()))
        } else {
            let latest = arrival.latest_sent();
            (latest, latest)
        };
        let rtt = timer.map(|sent| now - sent).or_else(stamped)?;
        let rule = rule.map_or(rtt, |sent| now - sent);
        if first {
            self.board.rack_mut().note_rtt(now, rule);
        }
        stream.sample_rtt(rtt, now - rtt, true);
        if timer.is_some() || stream.profile().timestamp_ends_backoff {
            stream.timers_mut().end_back_off();
        }
        stream.timers_mut().stop_timing();
        Some(rule)
    }

    /// Restarts the retransmission timer if the ACK is a reason to; `reordering_timer` is when
    /// RACK's timer was to expire before it.
    pub(super) fn restart_rto<W: WindowRule>(
        &self,
        stream: &mut Stream<W>,
        now: Time,
        arrival: &Arrival,
        reordering_timer: Time,
    ) {
        let by_first = stream.profile().rto_restart == RtoRestart::FirstSegment;
        let first = stream.board().at(0).filter(|_| by_first);
        let Some(first_sent) = first.map(|s| s.last_sent) else {
            if arrival.acked > 0 {
                stream.rearm_in_ticks(now);
            }
            return;
        };
        let rack = self.board.rack().deadline();
        let by_sack = arrival.sacked_once.first.is_some_and(|sent| sent < first_sent);
        if rack != Time::NEVER || (arrival.acked > 0 && reordering_timer != Time::NEVER) {
            let due = first_sent + stream.timers().rto().rto();
            let soonest = if rack == Time::NEVER { now } else { rack };
            stream.timers_mut().arm_at(now, due.max(soonest) - now);
        } else if arrival.acked > 0 || by_sack {
            stream.rearm_in_ticks(now);
        }
    }
}
