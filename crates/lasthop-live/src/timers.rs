//! The timers of an agent.

use std::collections::{BTreeSet, HashMap};

use lasthop::units::Time;

/// Timers by id. Timers that expire at the same time fire in the order in which they were set, then
/// by id.
#[derive(Debug, Default)]
pub struct Timers {
    /// Expiry time, time when it was set, id.
    queue: BTreeSet<(Time, Time, u32)>,
    set: HashMap<u32, (Time, Time)>,
}

impl Timers {
    /// Sets or resets timer `id` to expire at `at`, or at `now` if `at` is in the past.
    pub fn set(&mut self, now: Time, id: u32, at: Time) {
        self.cancel(id);
        let at = at.max(now);
        self.set.insert(id, (at, now));
        self.queue.insert((at, now, id));
    }

    /// Cancels timer `id`; does nothing if it is not set.
    pub fn cancel(&mut self, id: u32) {
        if let Some((at, set)) = self.set.remove(&id) {
            self.queue.remove(&(at, set, id));
        }
    }

    /// Expiry time of the first timer, and the time when it was set.
    pub fn first(&self) -> Option<(Time, Time)> {
        self.queue.first().map(|&(at, set, _)| (at, set))
    }

    /// Removes the first timer that expires at or before `until`; returns its time and id.
    pub fn due(&mut self, until: Time) -> Option<(Time, u32)> {
        let &(at, _, id) = self.queue.first().filter(|t| t.0 <= until)?;
        self.cancel(id);
        Some((at, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_can_be_reset() {
        let mut t = Timers::default();
        t.set(Time(1), 1, Time(30));
        t.set(Time(1), 2, Time(20));
        t.set(Time(2), 3, Time(20));
        t.set(Time(2), 0, Time(20));
        t.set(Time(2), 4, Time(10));
        t.set(Time(3), 2, Time(20));
        t.cancel(4);
        t.cancel(9);
        t.set(Time(35), 5, Time(10));
        assert_eq!(t.due(Time(19)), None);
        assert_eq!(t.due(Time(20)), Some((Time(20), 0)));
        assert_eq!(t.due(Time(30)), Some((Time(20), 3)));
        assert_eq!(t.due(Time(30)), Some((Time(20), 2)));
        assert_eq!(t.due(Time(30)), Some((Time(30), 1)));
        assert_eq!(t.due(Time(30)), None);
        assert_eq!(t.due(Time::NEVER), Some((Time(35), 5)));
    }
}
