//! Bursts: how many segments a sender sends faster than the narrowest link on their way can take
//! them.

use lasthop::air::config::RateConfig;
use lasthop::scenario::network::{Flow, Network};
use lasthop::units::{Duration, Rate, Time};

use crate::build::path;
use crate::events::Observer;
use crate::simulation::Simulation;

/// Runs of segments that follow each other faster than the narrowest link could take them: a gap of
/// half of a full segment's time there or more ends a run. (Half, for at the link's own pace a gap
/// may be a nanosecond short.)
#[derive(Clone, Copy, Debug, Default)]
pub struct Burst {
    /// Half of the time that a full segment takes there; zero where that is not known.
    gap: Duration,
    /// Payload bytes of a full segment; a frame of several counts for as many.
    segment: u32,
    last: Time,
    /// Segments of the present run, and of the longest one.
    run: u64,
    most: u64,
}

impl Burst {
    /// Nothing sent yet.
    pub fn new(per_segment: Duration, segment: u32) -> Self {
        Burst { gap: Duration(per_segment.0 / 2), segment, ..Burst::default() }
    }

    /// A data segment of `len` bytes leaves the sender.
    #[inline]
    pub fn sent(&mut self, now: Time, len: u32) {
        let segments =
            if len > self.segment { u64::from(len.div_ceil(self.segment.max(1))) } else { 1 };
        self.run = if now - self.last < self.gap { self.run + segments } else { segments };
        self.last = now;
        self.most = self.most.max(self.run);
    }

    /// Measuring begins.
    pub fn begin(&mut self) {
        (self.run, self.most) = (0, 0);
    }

    /// The largest burst, in segments; `None` where the pace of the link is not known.
    pub fn segments(&self) -> Option<u64> {
        (self.gap > Duration::ZERO).then_some(self.most)
    }
}

impl<R: Observer> Simulation<R> {
    /// The first connection of each flow is measured against the narrowest link of the flow's data.
    pub(crate) fn measure_bursts(&mut self, network: &Network) {
        for (f, flow) in network.flows.iter().enumerate() {
            let times = path(network, flow.from, flow.to)
                .into_iter()
                .filter_map(|l| self.per_segment(network, flow, l));
            if let (Some(c), Some(per_segment)) = (self.flows[f].first, times.max()) {
                self.net.connection_info[c as usize].burst = Burst::new(per_segment, flow.segment);
            }
        }
    }

    fn per_segment(&self, network: &Network, flow: &Flow, l: usize) -> Option<Duration> {
        let link = &network.links[l];
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments at the link's pace, or pairs of them at half of it, are no burst; five within its
    /// time for one are, and so are more that follow fast.
    #[test]
    fn a_burst_is_what_comes_faster_than_the_link_takes_it() {
        let at = |ms: u64| Time::ZERO + Duration::millis(ms);
        let mut burst = Burst::new(Duration::millis(10), 1000);
        (0..20).for_each(|i| burst.sent(at(100 + 10 * i), 1000));
        assert_eq!(burst.segments(), Some(1));
        (0..20).for_each(|i| (0..2).for_each(|_| burst.sent(at(400 + 20 * i), 1000)));
        assert_eq!(burst.segments(), Some(2));
        (0..5).for_each(|i| burst.sent(at(900 + i), 1000));
        (0..3).for_each(|i| burst.sent(at(908 + 4 * i), 1000));
        assert_eq!(burst.segments(), Some(8));
        burst.begin();
        burst.sent(at(2000), 1000);
        assert_eq!((burst.segments(), Burst::default().segments()), (Some(1), None));
        burst.sent(at(3000), 4000);
        assert_eq!(burst.segments(), Some(4), "one frame under segmentation offload");
    }
}
