//! The two-state Markov chain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clock::MarkovClock;
use super::model::{Frame, FrameLoss, LossModel, is_open, probability};
use crate::air::draws::{Draws, default_slot};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share, Time};

/// Two-state Markov chain (Gilbert and Elliott): each state has its own loss probability.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Markov {
    /// Probability to stay in the good state at a step.
    pub good_to_good: Share,
    /// Probability to stay in the bad state at a step.
    pub bad_to_bad: Share,
    /// Loss probability in the good state.
    #[serde(default)]
    pub good_loss: Share,
    /// Loss probability in the bad state.
    #[serde(default = "one")]
    pub bad_loss: Share,
    /// When the chain takes a step.
    pub clock: MarkovClock,
    /// Length of a step, for `clock = "slot"`.
    #[serde(default = "default_slot")]
    pub slot: Duration,
}

fn one() -> Share {
    Share(1.0)
}

impl LossModel for Markov {
    type Process = MarkovProcess;

    fn process(&self, seed: u64, name: &str) -> Result<MarkovProcess, String> {
        Ok(MarkovProcess {
            states: Stream::new(seed, &["loss ", name].concat()),
            losses: Stream::new(seed, &["loss in state ", name].concat()),
            good_to_bad: 1.0 - probability("good_to_good", self.good_to_good)?,
            bad_to_bad: probability("bad_to_bad", self.bad_to_bad)?,
            good_loss: probability("good_loss", self.good_loss)?,
            bad_loss: probability("bad_loss", self.bad_loss)?,
            clock: self.clock,
            draws: self.clock.draws(self.slot)?,
            slot: self.slot.0,
            at: 0,
            bad: false,
        })
    }

    fn slot(&self) -> Option<Duration> {
        Some(self.slot)
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        Some(Markov {
            good_to_good: Share(s.between(0.9, 1.0)),
            bad_to_bad: Share(s.between(0.1, 0.7)),
            good_loss: Share(s.between(0.0, 0.1)),
            bad_loss: Share(s.between(0.1, s.worst())),
            clock: s.clock(),
            slot: s.millis(1, 20),
        })
    }
}

/// Two-state Markov chain (Gilbert 1960, Elliott 1963), good at the start.
#[derive(Clone, Debug)]
pub struct MarkovProcess {
    states: Stream,
    losses: Stream,
    good_to_bad: f64,
    bad_to_bad: f64,
    good_loss: f64,
    bad_loss: f64,
    clock: MarkovClock,
    draws: Draws,
    /// Length of a slot in ns.
    slot: u64,
    /// The slot to which `bad` belongs.
    at: u64,
    bad: bool,
}

/// Effect of a step on the chain, for both states.
enum Step {
    Stay,
    Flip,
    Good,
    Bad,
}

impl MarkovProcess {
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
}

impl FrameLoss for MarkovProcess {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        match self.clock {
            MarkovClock::Frame => self.bad = self.apply(self.step(frame.ordinal)),
            MarkovClock::Slot if frame.start < Time::NEVER => {
                self.advance(frame.start.0 / self.slot);
            }
            MarkovClock::Slot => {}
        }
        let p = if self.bad { self.bad_loss } else { self.good_loss };
        // Computed in any case, because it counts the frames of a slot.
        let index = self.draws.next(frame.start, frame.ordinal);
        if is_open(p) { self.losses.uniform(index) < p } else { p > 0.0 }
    }

    fn is_random(&self) -> bool {
        let chain =
            is_open(self.good_to_bad) || (self.good_to_bad > 0.0 && is_open(self.bad_to_bad));
        let chain_matters = chain && self.good_loss != self.bad_loss;
        chain_matters
            || is_open(self.good_loss)
            || (!self.never_leaves_good() && is_open(self.bad_loss))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        CLOCKS, SLOT, assert_slots_have_fates, fates, frame, is_random, mean_burst, process, share,
    };
    use super::*;

    fn markov(clock: MarkovClock, good_loss: f64, bad_loss: f64) -> Markov {
        Markov {
            good_to_good: Share(0.9913),
            bad_to_bad: Share(0.8509),
            good_loss: Share(good_loss),
            bad_loss: Share(bad_loss),
            clock,
            slot: SLOT,
        }
    }

    #[test]
    fn the_chain_has_its_loss_rate_and_burst_length() {
        // (1 - p) / (2 - p - q) = 5.513 %; 1 / (1 - q) = 6.707 (Paul 2005; Gilbert 1960).
        for clock in CLOCKS {
            let lost = fates(markov(clock, 0.0, 1.0), 3, 4_000_000, 500_000);
            assert!((share(&lost) - 0.05513).abs() < 0.0008, "{}", share(&lost));
            assert!((mean_burst(&lost) - 6.707).abs() < 0.12, "{}", mean_burst(&lost));
            // P(burst of one) = 1 - q.
            let singles = lost.windows(3).filter(|w| !w[0] && w[1] && !w[2]).count();
            let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count();
            assert!((singles as f64 / bursts as f64 - 0.1491).abs() < 0.01);
        }
    }

    #[test]
    fn the_states_have_separate_loss_rates() {
        for clock in CLOCKS {
            let lost = fates(markov(clock, 0.01, 0.4), 5, 2_000_000, 500_000);
            assert!(
                (share(&lost) - (0.05513 * 0.4 + 0.94487 * 0.01)).abs() < 0.0008,
                "{}",
                share(&lost)
            );
        }
        // Frames of one slot have the same state but different draws.
        let lost = fates(markov(MarkovClock::Slot, 0.5, 0.5), 5, 100_000, 100);
        assert!((share(&lost) - 0.5).abs() < 0.01);
    }

    #[test]
    fn the_state_of_a_slot_does_not_depend_on_who_asks() {
        let chains = [
            (0.9913, 0.8509),
            (0.99999, 0.9999),
            (0.1, 0.2),
            (0.5, 0.5),
            (0.0, 0.0),
            (0.3, 1.0),
            (1.0, 0.0),
            (0.0, 0.7),
        ];
        for (good_to_good, bad_to_bad) in chains {
            let (good_to_good, bad_to_bad) = (Share(good_to_good), Share(bad_to_bad));
            let base = markov(MarkovClock::Slot, 0.0, 1.0);
            assert_slots_have_fates(Markov { good_to_good, bad_to_bad, ..base }, 200_000);
        }
    }

    #[test]
    fn the_chain_starts_good_and_steps_before_the_first_frame() {
        let config = |clock| Markov {
            good_to_good: Share(0.0),
            bad_to_bad: Share(0.0),
            ..markov(clock, 0.0, 1.0)
        };
        assert_eq!(fates(config(MarkovClock::Frame), 1, 4, 1), [true, false, true, false]);
        assert_eq!(
            fates(config(MarkovClock::Slot), 1, 6, 250_000),
            [false, false, true, true, false, false]
        );
    }

    #[test]
    fn a_frame_that_is_never_sent_does_not_step_the_chain() {
        // The second chain alternates: no draw ends the search for its state.
        let alternating = Markov {
            good_to_good: Share(0.0),
            bad_to_bad: Share(0.0),
            ..markov(MarkovClock::Slot, 0.0, 1.0)
        };
        for config in [markov(MarkovClock::Slot, 0.0, 1.0), alternating] {
            let mut process = process(config, 1);
            for i in 0..3 {
                process.lost(&frame(Time::NEVER, i, 1));
            }
            process.lost(&frame(Time::ZERO, 3, 1));
        }
    }

    #[test]
    fn randomness_is_known() {
        let random = |good, bad| is_random(markov(MarkovClock::Frame, good, bad));
        assert!(random(0.0, 1.0) && !random(0.0, 0.0) && random(0.5, 0.5));
    }
}
