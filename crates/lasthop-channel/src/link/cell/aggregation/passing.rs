//! MPDUs that go up the stack of the receiver while their aggregate is still on the air, each at
//! its own end, as in ns-3 (`PhyEntity::RxPayload…`, `MpduAggregator`). The last one goes up at the
//! end of the aggregate, as all of them do without `access = "ns-3"`.

use super::transmission::{Content, Exchange, Passing};
use super::{AggregatingCell, Phase};
use crate::link::cell::report::{Attempt, Freight, Report};
use lasthop_core::units::{Duration, Time};

impl AggregatingCell {
    /// The data of the senders begin; their end is set.
    #[inline]
    pub(super) fn begin_data(&mut self) {
        self.passing = Passing::NONE;
        if self.ns3
            && self.phase == Phase::Data
            && let &[i] = self.senders.as_slice()
            && self.stations[i].exchange.content == Content::Aggregate
        {
            self.passing.at = self.end_of_mpdu(i, 0);
        }
    }

    /// End of an MPDU of the aggregate on the air; `NEVER` for the last one.
    fn end_of_mpdu(&self, i: usize, place: usize) -> Time {
        let Exchange { session, places, psdu, data, .. } = &self.stations[i].exchange;
        let session = &self.stations[i].sessions[*session];
        if place + 1 >= places.len() {
            return Time::NEVER;
        }
        let subframe = |&k: &usize| {
            u64::from(session.window[k].bytes).next_multiple_of(4) + super::durations::DELIMITER
        };
        let so_far: u64 = places[..=place].iter().map(subframe).sum();
        let preamble = self.durations.of(session.mcs).phy.preamble();
        let payload = data.saturating_sub(preamble).0;
        let rest = u128::from(payload) * u128::from(psdu.saturating_sub(so_far));
        let left = Duration((rest / u128::from((*psdu).max(1))) as u64);
        Time(self.end.0.saturating_sub(left.0))
    }

    /// An MPDU within the aggregate ends: it goes up the stack, if it is received in order.
    pub(super) fn pass_mpdu(
        &mut self,
        now: Time,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
    ) {
        let &[i] = self.senders.as_slice() else { return };
        let s = self.stations[i].exchange.session;
        if !self.passing.drawn {
            let to = self.stations[i].sessions[s].to;
            self.receive(self.end, (i, s, to), freight);
            self.passing.drawn = true;
        }
        let n = self.passing.next;
        let k = self.stations[i].exchange.places[n];
        let session = &mut self.stations[i].sessions[s];
        let (to, is_head) = (session.to, session.is_head(k));
        let mpdu = &mut session.window[k];
        if self.received.get(n) == Some(&true) && !mpdu.received {
            (mpdu.received, mpdu.received_at) = (true, now);
            if is_head {
                let attempts = mpdu.attempts;
                let released = |frame| Report::Released {
                    attempt: Attempt::of_packet(i, to, frame, attempts, Time::ZERO),
                    retained: true,
                };
                reports.extend(mpdu.frames().map(released));
                session.pass_head();
                session.release(i, reports);
            }
        }
        self.schedule_expiry((i, s));
        self.passing.next = n + 1;
        self.passing.at = self.end_of_mpdu(i, n + 1);
    }
}
