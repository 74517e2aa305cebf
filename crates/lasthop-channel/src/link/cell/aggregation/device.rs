//! The queue of the device, between the queue discipline and the medium.

use super::AggregatingCell;
use super::session::Session;
use crate::queue::Outcome;
use lasthop_core::units::{Duration, Time};

impl AggregatingCell {
    /// The senders of the last exchange take packets out of their queues.
    #[cold]
    pub(super) fn fill_devices(&mut self, now: Time, outcomes: &mut Vec<Outcome>) {
        for k in 0..self.senders.len() {
            let i = self.senders[k];
            self.fill_device(now, (i, self.stations[i].exchange.session), outcomes);
        }
    }

    /// Station `i` takes packets of session `s` out of the queue, as far as its limit allows.
    #[inline]
    pub(super) fn fill_device(
        &mut self,
        now: Time,
        (i, s): (usize, usize),
        outcomes: &mut Vec<Outcome>,
    ) {
        let Some(limit) = self.airtime_limit else { return };
        let of = |session: &Session| session.pending.air_time(&self.durations.of(session.mcs).phy);
        let sessions = &mut self.stations[i].sessions;
        // A walk over all sessions, which is seldom needed.
        let sum = |sessions: &[Session]| {
            let others = sessions.iter().enumerate().filter(|&(k, _)| k != s);
            others.fold(Duration::ZERO, |sum, (_, other)| sum + of(other))
        };
        let mut others = None;
        loop {
            let own = of(&sessions[s]);
            let others = || *others.get_or_insert_with(|| sum(sessions));
            if !limit.allows(own, others) || !sessions[s].pull(now, outcomes) {
                break;
            }
        }
        self.stations[i].note(s);
    }
}
