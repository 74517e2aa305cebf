//! Frames lost in outages.

use super::config::{OutageConfig, OutageRule};
use super::spans::Spans;
use lasthop_core::units::Time;

/// Frames that an outage loses: rules `lost-at-sending` and `lost-at-arrival`.
#[derive(Clone, Debug)]
pub struct OutageLoss {
    sending: Spans,
    arrival: Spans,
}

impl OutageLoss {
    /// Builds it from the outages of a link; those with rule `held` do not lose frames and are
    /// ignored.
    pub fn new(outages: &[OutageConfig]) -> OutageLoss {
        let spans = |rule| {
            Spans::new(outages.iter().filter(move |o| o.frames == rule).map(|o| (o.from, o.length)))
        };
        OutageLoss {
            sending: spans(OutageRule::LostAtSending),
            arrival: spans(OutageRule::LostAtArrival),
        }
    }

    /// True if no frame is ever lost.
    pub fn is_empty(&self) -> bool {
        self.sending.is_empty() && self.arrival.is_empty()
    }

    /// True if frames that start, or arrive, at this time are lost.
    pub fn holds(&self, t: Time) -> bool {
        self.sending.end_of(t).is_some() || self.arrival.end_of(t).is_some()
    }

    /// The first time after `t` at which `holds` changes.
    pub fn next_change(&self, t: Time) -> Option<Time> {
        let edge = |spans: &Spans| {
            spans.after(t).first().map(|&(from, to)| if from > t { from } else { to })
        };
        edge(&self.sending).into_iter().chain(edge(&self.arrival)).min()
    }

    /// True if a frame that starts at `start` and would arrive at `arrival` is lost.
    #[inline]
    pub fn lost(&self, start: Time, arrival: Time) -> bool {
        !self.is_empty()
            && (self.sending.end_of(start).is_some() || self.arrival.end_of(arrival).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::units::Duration;

    #[test]
    fn outages_lose_what_starts_or_arrives_in_them() {
        let outage =
            |from, frames| OutageConfig { from: Duration(from), length: Duration(10), frames };
        let loss = OutageLoss::new(&[
            outage(100, OutageRule::LostAtSending),
            outage(200, OutageRule::LostAtArrival),
            outage(300, OutageRule::Held),
        ]);
        let lost = |start, arrival| loss.lost(Time(start), Time(arrival));
        assert!(!lost(99, 105) && lost(100, 150) && lost(109, 150) && !lost(110, 150));
        assert!(!lost(150, 199) && lost(150, 200) && lost(150, 209) && !lost(205, 210));
        assert!(!lost(305, 306) && OutageLoss::new(&[outage(300, OutageRule::Held)]).is_empty());
    }
}
