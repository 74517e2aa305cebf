//! Random settings of models, for tests with random networks.

use crate::air::draws::DrawIndex;
use crate::air::loss::clock::MarkovClock;
use lasthop_core::units::{Duration, QueueLimit, Share};

/// Numbers from 0 to 1 from which a model makes its settings, one after another; after the last
/// number it begins again.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    numbers: &'a [f64],
    next: usize,
    worst: f64,
}

impl<'a> Sample<'a> {
    /// Settings are made from these numbers. Loss models stay below `worst`, the highest
    /// probability that the test allows.
    pub fn new(numbers: &'a [f64], worst: f64) -> Sample<'a> {
        Sample { numbers, next: 0, worst }
    }

    /// The highest probability of loss that the test allows.
    pub fn worst(&self) -> f64 {
        self.worst
    }

    /// A number from `low` to `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        let number = self.numbers.get(self.next % self.numbers.len().max(1)).copied();
        self.next += 1;
        low + (high - low) * number.unwrap_or(0.0).clamp(0.0, 1.0)
    }

    /// A whole number from `low` to `high`, without `high`.
    pub fn whole(&mut self, low: u64, high: u64) -> u64 {
        let last = high.saturating_sub(1).max(low);
        (self.between(low as f64, high as f64) as u64).clamp(low, last)
    }

    /// A time of whole milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::millis(self.whole(low, high))
    }

    /// True or false.
    pub fn flag(&mut self) -> bool {
        self.between(0.0, 1.0) >= 0.5
    }

    /// A share from 0.1 % to 100 %; in every second case 100 %.
    pub fn share(&mut self) -> Share {
        let share = self.between(0.001, 1.0);
        Share(if self.flag() { 1.0 } else { share })
    }

    /// A length of a queue below 20 packets or 20 kB.
    pub fn queue_length(&mut self) -> QueueLimit {
        let length = self.whole(0, 20_000);
        if self.flag() { QueueLimit::Packets(length / 1000) } else { QueueLimit::Bytes(length) }
    }

    /// What addresses the draws of a model.
    pub fn draw_index(&mut self) -> DrawIndex {
        if self.flag() { DrawIndex::Frame } else { DrawIndex::Slot }
    }

    /// The clock of a chain.
    pub fn clock(&mut self) -> MarkovClock {
        if self.flag() { MarkovClock::Slot } else { MarkovClock::Frame }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_in_turn_and_stay_in_range() {
        let mut s = Sample::new(&[0.0, 0.25, 1.0], 0.3);
        assert_eq!(
            [s.between(2.0, 4.0), s.between(2.0, 4.0), s.between(2.0, 4.0)],
            [2.0, 2.5, 4.0]
        );
        assert_eq!([s.whole(1, 5), s.whole(1, 5), s.whole(1, 5)], [1, 2, 4]);
        assert_eq!(
            (s.flag(), s.draw_index(), s.clock()),
            (false, DrawIndex::Slot, MarkovClock::Slot)
        );
        assert_eq!((Sample::new(&[], 1.0).millis(3, 9), s.worst()), (Duration::millis(3), 0.3));
    }
}
