//! Which bursts are measured: those of each flow's first connection, against the narrowest link on
//! the path of its data.

use lasthop::air::config::RateConfig;
use lasthop::scenario::network::Flow;
use lasthop::units::{Duration, Rate, Time};

use super::Builder;
use crate::events::Observer;
use crate::network::paths::path;
use crate::probes::bursts::Burst;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each part of a run")]
impl<R: Observer> Builder<'_, R> {
    pub(super) fn measure_bursts(&mut self) {
        for (f, flow) in self.network.flows.iter().enumerate() {
            let times = path(self.network, flow.from, flow.to)
                .into_iter()
                .filter_map(|l| self.per_segment(flow, l));
            if let (Some(c), Some(per_segment)) = (self.hosts.flows[f].first(), times.max()) {
                self.net.probes.add_burst(c, Burst::new(per_segment, flow.segment));
            }
        }
    }

    /// Serialization time of a full segment on a link; `None` if the rate is unknown.
    fn per_segment(&self, flow: &Flow, l: usize) -> Option<Duration> {
        let link = &self.network.links[l];
        let rate = match (&link.rate, &link.trace) {
            (_, Some(trace)) => Some(trace.mean_rate()),
            (RateConfig::Schedule { schedule }, _) => {
                schedule.iter().map(|s| s.rate).max_by_key(|r| r.0)
            }
            _ => self.net.links[l].rate(Time::ZERO),
        };
        rate.filter(|r| *r != Rate(0))
            .map(|r| r.time_for(u64::from(flow.segment + flow.headers + link.overhead)))
    }
}
