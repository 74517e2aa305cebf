//! RED's average queue length, with its rule for idle periods.

use lasthop_core::units::{Duration, Time};

/// Exponentially weighted moving average of the queue length at frame arrivals (Floyd and Jacobson
/// 1993, section 5).
///
/// An idle link takes no samples. The next arrival decays the average as if frames of typical size
/// had arrived back to back at an empty queue.
#[derive(Clone, Debug)]
pub(super) struct Average {
    weight: f64,
    value: f64,
    idle_since: Option<Time>,
    /// Transmission time of a typical frame.
    frame_time: Duration,
}

impl Average {
    pub(super) fn new(weight: f64, frame_time: Duration) -> Average {
        Average { weight, value: 0.0, idle_since: None, frame_time: frame_time.max(Duration(1)) }
    }

    /// The link becomes idle.
    pub(super) fn idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// A frame arrives at a queue of `waiting` packets or bytes; returns the new average.
    pub(super) fn update(&mut self, now: Time, waiting: u64) -> f64 {
        if let Some(since) = self.idle_since.take() {
            let missed = (now - since).0 as f64 / self.frame_time.0 as f64;
            self.value *= libm::pow(1.0 - self.weight, missed);
        }
        self.value += self.weight * (waiting as f64 - self.value);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_matches_manual_calculation() {
        let mut a = Average::new(0.25, Duration::millis(10));
        let t = Time(0);
        assert_eq!([4, 8, 0].map(|q| a.update(t, q)), [1.0, 2.75, 2.0625]);
    }

    /// Idle for two frame times: factor (1 - w)^2, and once more for the arrival at an empty queue.
    #[test]
    fn idle_time_decays_the_average() {
        let mut a = Average::new(0.25, Duration::millis(10));
        a.update(Time(0), 16);
        a.idle(Time(1_000_000));
        // A second call does not restart the idle period.
        a.idle(Time(15_000_000));
        assert!((a.update(Time(21_000_000), 0) - 4.0 * 0.75f64.powi(3)).abs() < 1e-12);
        // The link is no longer idle.
        assert!((a.update(Time(99_000_000), 0) - 4.0 * 0.75f64.powi(4)).abs() < 1e-12);
    }

    #[test]
    fn weight_of_one_gives_the_instantaneous_queue() {
        let mut a = Average::new(1.0, Duration::ZERO);
        assert_eq!(a.update(Time(0), 7), 7.0);
        a.idle(Time(0));
        assert_eq!([a.update(Time(0), 3), a.update(Time(5), 0)], [3.0, 0.0]);
    }
}
