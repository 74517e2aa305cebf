//! The two-state Markov chain.

use super::{Frame, is_open};
use crate::air::config::MarkovClock;
use crate::air::draws::Draws;
use lasthop_core::random::Stream;

/// Two-state Markov chain (Gilbert 1960, Elliott 1963), good at the start.
#[derive(Clone, Debug)]
pub struct Markov {
    pub(super) states: Stream,
    pub(super) losses: Stream,
    pub(super) good_to_bad: f64,
    pub(super) bad_to_bad: f64,
    pub(super) good_loss: f64,
    pub(super) bad_loss: f64,
    pub(super) clock: MarkovClock,
    pub(super) draws: Draws,
    /// Length of a slot in ns.
    pub(super) slot: u64,
    /// The slot to which `bad` belongs.
    pub(super) at: u64,
    pub(super) bad: bool,
}

/// Effect of a step on the chain, for both states.
enum Step {
    Stay,
    Flip,
    Good,
    Bad,
}

impl Markov {
    #[inline]
    pub(super) fn lost(&mut self, frame: &Frame) -> bool {
        match self.clock {
            MarkovClock::Frame => self.bad = self.apply(self.step(frame.ordinal)),
            MarkovClock::Slot => self.advance(frame.start.0 / self.slot),
        }
        let p = if self.bad { self.bad_loss } else { self.good_loss };
        // Computed in any case, because it counts the frames of a slot.
        let index = self.draws.next(frame.start, frame.ordinal);
        if is_open(p) { self.losses.uniform(index) < p } else { p > 0.0 }
    }

    /// One draw serves both states: the chain goes from good to bad if it is below `good_to_bad`,
    /// stays bad if it is below `bad_to_bad`.
    #[inline]
    fn step(&self, index: u64) -> Step {
        let draw = self.states.uniform(index);
        match (draw < self.good_to_bad, draw < self.bad_to_bad) {
            (true, true) => Step::Bad,
            (false, false) => Step::Good,
            (false, true) => Step::Stay,
            (true, false) => Step::Flip,
        }
    }

    #[inline]
    fn apply(&self, step: Step) -> bool {
        match step {
            Step::Stay => self.bad,
            Step::Flip => !self.bad,
            Step::Good => false,
            Step::Bad => true,
        }
    }

    /// Advances the chain to this slot. Each slot has its own draw, so its state does not depend on
    /// which frames came before. Going back from the slot, the search ends at the first step whose
    /// result does not depend on the state before it: after a long gap it takes 1 / (2 -
    /// good_to_good - bad_to_bad) draws on average.
    #[inline]
    fn advance(&mut self, slot: u64) {
        if self.never_leaves_good() {
            return;
        }
        let mut flips = false;
        let mut before = self.bad;
        for n in (self.at..slot).rev() {
            match self.step(n + 1) {
                Step::Stay => continue,
                Step::Flip => {
                    flips = !flips;
                    continue;
                }
                Step::Good => before = false,
                Step::Bad => before = true,
            }
            break;
        }
        self.bad = before ^ flips;
        self.at = self.at.max(slot);
    }

    fn never_leaves_good(&self) -> bool {
        self.good_to_bad <= 0.0
    }

    pub(super) fn is_random(&self) -> bool {
        let chain =
            is_open(self.good_to_bad) || (self.good_to_bad > 0.0 && is_open(self.bad_to_bad));
        let chain_matters = chain && self.good_loss != self.bad_loss;
        chain_matters
            || is_open(self.good_loss)
            || (!self.never_leaves_good() && is_open(self.bad_loss))
    }
}
