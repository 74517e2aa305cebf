//! The average queue of RED, with its rule for idle times.

use crate::units::{Duration, Time};

/// An exponentially weighted moving average of what arriving frames find waiting (Floyd and
/// Jacobson 1993, section 5).
///
/// While the link is idle nobody looks. The next arrival makes up for it as if frames of a typical
/// size had come one after the other and found the queue empty.
#[derive(Clone, Debug)]
pub(super) struct Average {
    weight: f64,
    value: f64,
    idle_since: Option<Time>,
    /// How long a frame of typical size takes on the link.
    frame_time: Duration,
}

impl Average {
    pub(super) fn new(weight: f64, frame_time: Duration) -> Average {
        Average { weight, value: 0.0, idle_since: None, frame_time: frame_time.max(Duration(1)) }
    }

    /// The link has nothing to send.
    pub(super) fn idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// A frame comes and finds so many packets or bytes waiting. The average after that.
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
    fn the_average_by_hand() {
        let mut a = Average::new(0.25, Duration::millis(10));
        let t = Time(0);
        assert_eq!([4, 8, 0].map(|q| a.update(t, q)), [1.0, 2.75, 2.0625]);
    }

    /// Idle for as long as two frames take: (1 - w)^2, then the arrival itself finds nothing.
    #[test]
    fn idle_time_counts_as_frames_that_found_nothing() {
        let mut a = Average::new(0.25, Duration::millis(10));
        a.update(Time(0), 16);
        a.idle(Time(1_000_000));
        // Said again, it does not begin again.
        a.idle(Time(15_000_000));
        assert!((a.update(Time(21_000_000), 0) - 4.0 * 0.75f64.powi(3)).abs() < 1e-12);
        // No longer idle.
        assert!((a.update(Time(99_000_000), 0) - 4.0 * 0.75f64.powi(4)).abs() < 1e-12);
    }

    #[test]
    fn a_weight_of_one_is_the_queue_itself() {
        let mut a = Average::new(1.0, Duration::ZERO);
        assert_eq!(a.update(Time(0), 7), 7.0);
        a.idle(Time(0));
        assert_eq!([a.update(Time(0), 3), a.update(Time(5), 0)], [3.0, 0.0]);
    }
}
