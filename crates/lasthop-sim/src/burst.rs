//! Bursts: how far a sender ran ahead of the narrowest link on its way.

use lasthop::air::config::RateConfig;
use lasthop::scenario::network::{Flow, Network};
use lasthop::units::{Duration, Rate, Time};

use crate::build::path;
use crate::events::Reader;
use crate::simulation::Simulation;

/// What a sender has sent, beside a link that would take it at its pace if it had nothing else to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Burst {
    /// The time that a full segment takes there; zero where that is not known.
    per_segment: Duration,
    /// When the link would have taken all.
    taken: Time,
    /// The longest time that it was behind.
    most: Duration,
}

impl Burst {
    /// Nothing sent yet.
    pub fn new(per_segment: Duration) -> Self {
        Burst { per_segment, ..Burst::default() }
    }

    /// A data segment leaves the sender.
    #[inline]
    pub fn sent(&mut self, now: Time) {
        self.taken = self.taken.max(now) + self.per_segment;
        self.most = self.most.max(self.taken - now);
    }

    /// Measuring begins.
    pub fn begin(&mut self) {
        self.most = Duration::ZERO;
    }

    /// The largest burst, in segments; `None` where the pace of the link is not known.
    pub fn segments(&self) -> Option<f64> {
        (self.per_segment > Duration::ZERO).then(|| self.most.as_secs() / self.per_segment.as_secs())
    }
}

impl<R: Reader> Simulation<R> {
    /// The first connection of each flow is measured against the narrowest link of the flow's data.
    pub(crate) fn measure_bursts(&mut self, network: &Network) {
        for (f, flow) in network.flows.iter().enumerate() {
            let times = path(network, flow.from, flow.to).into_iter().filter_map(|l| self.per_segment(network, flow, l));
            if let (Some(c), Some(per_segment)) = (self.flows[f].first, times.max()) {
                self.net.known[c as usize].burst = Burst::new(per_segment);
            }
        }
    }

    fn per_segment(&self, network: &Network, flow: &Flow, l: usize) -> Option<Duration> {
        let link = &network.links[l];
        let rate = match (&link.rate, &link.trace) {
            (_, Some(trace)) => Some(trace.mean_rate()),
            (RateConfig::Schedule { schedule }, _) => schedule.iter().map(|s| s.rate).max_by_key(|r| r.0),
            _ => self.net.links[l].rate(Time::ZERO),
        };
        rate.filter(|r| *r != Rate(0)).map(|r| r.time_for(u64::from(flow.segment + flow.headers + link.overhead)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments at the link's pace are no burst; five at once are five; what comes while the link is behind adds to it.
    #[test]
    fn a_burst_is_what_the_link_could_not_have_taken() {
        let at = |ms: u64| Time::ZERO + Duration::millis(ms);
        let mut burst = Burst::new(Duration::millis(10));
        (0..20).for_each(|i| burst.sent(at(10 * i)));
        assert_eq!(burst.segments(), Some(1.0));
        (0..5).for_each(|_| burst.sent(at(300)));
        assert_eq!(burst.segments(), Some(5.0));
        (0..3).for_each(|_| burst.sent(at(320)));
        assert_eq!(burst.segments(), Some(6.0));
        burst.begin();
        burst.sent(at(1000));
        assert_eq!((burst.segments(), Burst::default().segments()), (Some(1.0), None));
    }
}
