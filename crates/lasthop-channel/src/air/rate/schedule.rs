//! Rates that change at given times.

use crate::air::spans::Spans;
use lasthop_core::units::{Rate, Time};

/// New rates from given times on.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// In order of time.
    steps: Vec<(Time, Rate)>,
    /// The step at the start of the last frame.
    at: usize,
}

impl Schedule {
    pub fn new(mut steps: Vec<(Time, Rate)>) -> Schedule {
        steps.sort_by_key(|s| s.0);
        // Before its first step a schedule has the rate of that step; a scenario file must begin at
        // 0 s anyway.
        match steps.first_mut() {
            Some(first) => first.0 = Time::ZERO,
            None => steps.push((Time::ZERO, Rate(0))),
        }
        Schedule { steps, at: 0 }
    }

    /// The first time from `t` on at which the link is up and the rate is above zero, and that
    /// rate.
    #[inline]
    pub fn start(&mut self, t: Time, outages: &Spans) -> (Time, Rate) {
        let mut t = outages.leave(t);
        loop {
            while self.steps.get(self.at + 1).is_some_and(|next| next.0 <= t) {
                self.at += 1;
            }
            let rate = self.steps[self.at].1;
            if rate.0 > 0 {
                return (t, rate);
            }
            match self.steps.get(self.at + 1) {
                Some(next) => t = outages.leave(next.0),
                None => return (Time::NEVER, rate),
            }
        }
    }

    pub fn rate_at(&self, t: Time) -> Rate {
        let after = self.steps.partition_point(|s| s.0 <= t);
        self.steps[after.saturating_sub(1)].1
    }

    pub fn next_step(&self, t: Time) -> Option<Time> {
        self.steps.get(self.steps.partition_point(|s| s.0 <= t)).map(|s| s.0)
    }

    pub fn bits(&self, from: Time, to: Time) -> f64 {
        let ends = self.steps.iter().skip(1).map(|s| s.0).chain([Time::NEVER]);
        self.steps.iter().zip(ends).map(|(s, end)| bits(s.1, s.0.max(from), end.min(to))).sum()
    }
}

pub(super) fn bits(rate: Rate, from: Time, to: Time) -> f64 {
    rate.0 as f64 * (to - from).0 as f64 / 1e9
}
