//! What happens to frames of a link besides queueing and loss on the air: a policer before the
//! queue, copies, and bit errors that the link layer does not detect. As netem and `tc police`.
//!
//! A link with one of them is evented.

use super::Link;
use super::config::LinkConfig;
use crate::air::token_bucket::TokenBucket;
use crate::queue::{Frame, Outcome, drop_reason};
use lasthop_core::random::Stream;
use lasthop_core::units::{Share, Time};

/// Impairments of a link.
#[derive(Debug)]
pub(super) struct Impairments {
    policer: Option<TokenBucket>,
    duplicates: Option<Draws>,
    corruption: Option<Draws>,
}

/// A draw for each frame. Its index is the ordinal of the frame among those for which there is a
/// draw, so that two schemes have the same draws for the n-th frame.
#[derive(Debug)]
struct Draws {
    stream: Stream,
    rate: f64,
    ordinal: u64,
}

/// Distance of the indices of a second draw for the same frame.
const SECOND: u64 = 1 << 62;

impl Draws {
    fn new(rate: Option<Share>, seed: u64, process: &str) -> Option<Draws> {
        let rate = rate.filter(|rate| rate.0 > 0.0)?.0;
        Some(Draws { stream: Stream::new(seed, process), rate, ordinal: 0 })
    }

    /// Whether it hits the next frame, and a second number from 0 to 1.
    fn next(&mut self) -> Option<f64> {
        let n = self.ordinal;
        self.ordinal += 1;
        (self.stream.uniform(n) < self.rate).then(|| self.stream.uniform(n + SECOND))
    }
}

impl Impairments {
    /// Those of a link; `None` if it has none.
    pub(super) fn new(config: &LinkConfig, name: &str, seed: u64) -> Option<Box<Impairments>> {
        let all = Impairments {
            policer: config.policer.as_ref().map(TokenBucket::new),
            duplicates: Draws::new(config.duplicate, seed, &format!("duplicate {name}")),
            corruption: Draws::new(config.corrupt, seed, &format!("corrupt {name}")),
        };
        let any = all.policer.is_some() || all.duplicates.is_some() || all.corruption.is_some();
        any.then(|| Box::new(all))
    }
}

impl Link {
    /// True if the link polices, duplicates or corrupts frames.
    pub fn is_impaired(&self) -> bool {
        self.impairments.is_some()
    }

    /// True if frames may arrive with bit errors that the link layer does not detect.
    pub fn may_corrupt(&self) -> bool {
        self.impairments.as_ref().is_some_and(|i| i.corruption.is_some())
    }

    /// True if the frame that is about to be offered is duplicated: the host then offers a copy
    /// right behind it. Call it once for each frame that is not a copy.
    pub fn duplicates_next(&mut self, now: Time) -> bool {
        let draws = self.impairments.as_mut().and_then(|i| i.duplicates.as_mut());
        let hit = draws.is_some_and(|d| d.next().is_some());
        self.stats.duplicated += u64::from(hit && self.measured.holds(now));
        hit
    }

    /// Whether the frame that has just arrived has a bit error: a number from 0 to 1 for its place
    /// in the frame. Call it once for each frame that arrives.
    pub fn corrupts_next(&mut self, now: Time) -> Option<f64> {
        let place = self.impairments.as_mut()?.corruption.as_mut()?.next();
        self.stats.corrupted += u64::from(place.is_some() && self.measured.holds(now));
        place
    }

    /// True if the policer lets the frame pass; otherwise it is dropped.
    pub(super) fn polices(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) -> bool {
        let policer = self.impairments.as_mut().and_then(|i| i.policer.as_mut());
        let passes = policer.is_none_or(|policer| policer.conforms(now, frame.bytes));
        if !passes {
            frame.drop(drop_reason::POLICER, outcomes);
            self.stats.policed += u64::from(self.measured.holds(now));
        }
        passes
    }
}
