//! COBALT, the AQM of CAKE: CoDel whose drop rate falls as it rose, and BLUE; see `cake.rs`.

use super::discipline::{Frame, LinkFacts, Outcome};
use super::drop_reason;
use lasthop_core::units::{Duration, Time};

/// Steps of BLUE's probability (`cake_set_rate`).
const RISE: f64 = 1.0 / 256.0;
const FALL: f64 = 1.0 / 4096.0;

/// COBALT's constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    target: Duration,
    interval: Duration,
    /// Time in which the link sends a full frame.
    frame_time: Duration,
    ecn: bool,
}

impl Law {
    /// Constants for at least this target and about this interval (`cake_set_rate`).
    pub fn new([least, rtt]: [Duration; 2], ecn: bool, link: &LinkFacts<'_>) -> Law {
        let bits = 8 * u64::from(link.full_frame);
        let frame_time = Duration((bits * 1_000_000_000).checked_div(link.rate.0).unwrap_or(0));
        let target = least.max(Duration(frame_time.0 * 3 / 2));
        let interval = (rtt + target.saturating_sub(least)).max(target * 2);
        Law { target, interval, frame_time, ecn }
    }

    /// Time of the next drop after `t` (`cobalt_control`).
    fn next(&self, t: Time, count: u32) -> Time {
        t + Duration((self.interval.0 as f64 / libm::sqrt(f64::from(count.max(1)))) as u64)
    }
}

/// COBALT's state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cobalt {
    count: u32,
    dropping: bool,
    drop_next: Time,
    /// BLUE's probability, and when it changed.
    probability: f64,
    changed: Time,
}

impl Cobalt {
    /// A frame of this queue is dropped because all are full (`cobalt_queue_full`).
    pub fn on_full(&mut self, law: &Law, now: Time) {
        if now.since(self.changed) > law.target {
            self.probability = (self.probability + RISE).min(1.0);
            self.changed = now;
        }
        (self.dropping, self.drop_next, self.count) = (true, now, self.count.max(1));
    }

    /// The queue was to be served, and is empty (`cobalt_queue_empty`).
    pub fn on_empty(&mut self, law: &Law, now: Time) {
        if self.probability > 0.0 && now.since(self.changed) > law.target {
            self.probability = (self.probability - FALL).max(0.0);
            self.changed = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.drop_next = law.next(self.drop_next, self.count);
        }
    }

    /// The reason to drop a frame that is about to leave, which may be marked instead
    /// (`cobalt_should_drop`); `draw` is its random number.
    pub fn judge(
        &mut self,
        law: &Law,
        now: Time,
        frame: &mut Frame,
        draw: f64,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<&'static str> {
        let waited = now.since(frame.at);
        let mut is_late = now > self.drop_next;
        let mut is_due = self.count > 0 && now >= self.drop_next;
        let mut reason = None;
        if waited > law.target && waited > law.frame_time * 4 {
            if !self.dropping {
                (self.dropping, self.drop_next) = (true, law.next(now, self.count));
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if is_due && self.dropping {
            if !(law.ecn && frame.mark(drop_reason::COBALT, outcomes)) {
                reason = Some(drop_reason::COBALT);
            }
            self.count = self.count.saturating_add(1);
            self.drop_next = law.next(self.drop_next, self.count);
            is_late = now > self.drop_next;
        }
        while is_due && !self.dropping {
            self.count -= 1;
            self.drop_next = law.next(self.drop_next, self.count);
            is_late = now > self.drop_next;
            is_due = self.count > 0 && now >= self.drop_next;
        }
        if draw < self.probability {
            reason = reason.or(Some(drop_reason::BLUE));
        }
        if self.count == 0 {
            self.drop_next = now + law.interval;
        } else if is_late && reason.is_none() {
            self.drop_next = now;
        }
        reason
    }

    /// BLUE's probability.
    #[cfg(test)]
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Nothing is left of the last busy time.
    pub fn is_at_rest(&self, now: Time) -> bool {
        self.probability == 0.0 && self.count == 0 && now >= self.drop_next
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FACTS, at};
    use super::*;
    use lasthop_core::units::Rate;

    const TIMES: [Duration; 2] = [Duration::millis(5), Duration::millis(100)];

    /// That of a link of 12 Mbit/s.
    fn law() -> Law {
        Law::new(TIMES, true, &LinkFacts { rate: Rate(12_000_000), ..FACTS })
    }

    /// `cake_set_rate`: at 800 kbit/s a frame takes 10 ms, so that the target is 15 ms and the
    /// interval 110 ms; at 12 Mbit/s they are 5 ms and 100 ms.
    #[test]
    fn the_target_follows_the_rate() {
        let slow = Law::new(TIMES, true, &FACTS);
        assert_eq!([slow.target, slow.interval], [15, 110].map(Duration::millis));
        assert_eq!([law().target, law().interval], TIMES);
    }

    /// After the queue has gone, the count falls by one in each interval of its control law.
    #[test]
    fn the_drop_rate_falls_as_it_rose() {
        let law = law();
        let mut cobalt =
            Cobalt { count: 4, dropping: true, drop_next: at(1000), ..Cobalt::default() };
        let judge = |cobalt: &mut Cobalt, ms| {
            let mut frame = Frame { at: at(ms), ..Frame::default() };
            cobalt.judge(&law, at(ms), &mut frame, 0.5, &mut Vec::new())
        };
        assert_eq!(judge(&mut cobalt, 999), None);
        assert_eq!((cobalt.count, cobalt.dropping), (4, false));
        // Due at 1000, 1057.7, 1128.4 and 1228.4 ms.
        for (ms, count) in [(1000, 3), (1057, 3), (1058, 2), (1129, 1), (1229, 0)] {
            assert_eq!(judge(&mut cobalt, ms), None);
            assert_eq!(cobalt.count, count, "at {ms} ms");
        }
        assert!(!cobalt.is_at_rest(at(1300)) && cobalt.is_at_rest(at(1329)));
    }

    #[test]
    fn blue_rises_when_full_and_falls_when_empty() {
        let (law, mut cobalt) = (law(), Cobalt::default());
        // At most one step within the target.
        (10..40).for_each(|ms| cobalt.on_full(&law, at(ms)));
        assert_eq!(cobalt.probability, 5.0 * RISE);
        (40..52).for_each(|ms| cobalt.on_empty(&law, at(ms)));
        assert_eq!(cobalt.probability, 5.0 * RISE - 2.0 * FALL);
    }
}
