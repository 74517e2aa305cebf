//! The longest time without a delivery to any application around a handover.

use lasthop::units::{Duration, Time};

/// A gap in delivery counts as the handover's until this time after the end of the transfer.
const GAP_WINDOW: Duration = Duration::secs(2);

/// The gap in delivery around one handover.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryGap {
    /// Time of the handover.
    at: Time,
    /// Duration of the state transfer; zero before the handover.
    took: Duration,
    last_delivery: Time,
    gap: Duration,
}

impl DeliveryGap {
    /// The gap around a handover at this time.
    pub fn new(at: Time) -> Self {
        DeliveryGap { at, took: Duration::ZERO, last_delivery: Time::ZERO, gap: Duration::ZERO }
    }

    /// The handover begins; the transfer of the state takes `took`.
    pub fn began(&mut self, took: Duration) {
        self.took = took;
    }

    /// Records a delivery to an application.
    pub fn delivered(&mut self, now: Time) {
        if now >= self.at && now <= self.at + self.took + GAP_WINDOW {
            self.gap = self.gap.max(now - self.last_delivery);
        }
        self.last_delivery = now;
    }

    /// The longest time without a delivery, from the handover until 2 s after the transfer.
    pub fn longest(&self) -> Duration {
        self.gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gaps_around_the_handover_count() {
        let at = |s: u64| Time::ZERO + Duration::secs(s);
        let mut gap = DeliveryGap::new(at(10));
        [3, 9].into_iter().for_each(|s| gap.delivered(at(s)));
        assert_eq!(gap.longest(), Duration::ZERO, "before the handover");
        gap.began(Duration::secs(1));
        gap.delivered(at(12));
        assert_eq!(gap.longest(), Duration::secs(3));
        gap.delivered(at(20));
        assert_eq!(gap.longest(), Duration::secs(3), "more than 2 s after the transfer");
    }
}
