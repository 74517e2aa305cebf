//! A delay or loss trace as a run meets it: from its start on.

use std::sync::Arc;

use super::config::{RandomStart, TraceStart};
use super::series::Series;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Time};

/// A series with the place in it at which the run begins.
#[derive(Clone, Debug)]
pub struct Playback {
    series: Arc<Series>,
    phase: Duration,
}

impl Playback {
    /// The series from `start` on. A random start is that of traces of the rate with this seed: the
    /// same share of the period.
    pub fn new(series: Arc<Series>, start: &TraceStart, seed: u64) -> Playback {
        let phase = match start {
            TraceStart::At(at) => *at,
            TraceStart::Named(RandomStart::Random) => {
                let share = Stream::new(seed, "trace phase").uniform(0);
                Duration((share * series.period().0 as f64) as u64)
            }
        };
        Playback { series, phase }
    }

    /// The value at a time of the run.
    #[inline]
    pub fn value_at(&self, t: Time) -> f64 {
        self.series.value_at(t + self.phase)
    }

    /// The smallest and the largest value.
    pub fn range(&self) -> (f64, f64) {
        self.series.range()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_begins_at_the_start() {
        let series = Arc::new(
            Series::of(vec![(0, 1.0), (1_000_000_000, 2.0), (2_000_000_000, 3.0)]).unwrap(),
        );
        let at = |start, seed| Playback::new(series.clone(), &start, seed).value_at(Time::ZERO);
        assert_eq!(at(TraceStart::At(Duration::secs(4)), 1), 2.0);
        let random = TraceStart::Named(RandomStart::Random);
        let values: Vec<_> = (0..30).map(|seed| at(random.clone(), seed)).collect();
        assert!([1.0, 2.0, 3.0].iter().all(|v| values.contains(v)), "{values:?}");
    }
}
