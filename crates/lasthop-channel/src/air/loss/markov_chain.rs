//! The Markov chain of several states.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clock::MarkovClock;
use super::model::{Frame, FrameLoss, LossModel, is_open, probability};
use crate::air::draws::{Draws, default_slot};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share, Time};

/// Maximum number of states; it bounds the time of a step.
const MAX_STATES: usize = 64;

/// Markov chain of two to 64 states, each with its loss probability; it starts in the first state.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkovChain {
    /// Loss probability in each state.
    pub states: Vec<Share>,
    /// A row for each state: the probabilities of the states after a step. A row adds up to 1.
    pub transitions: Vec<Vec<Share>>,
    /// When the chain takes a step.
    pub clock: MarkovClock,
    /// Length of a step, for `clock = "slot"`.
    #[serde(default = "default_slot")]
    pub slot: Duration,
}

impl LossModel for MarkovChain {
    type Process = Box<MarkovChainProcess>;

    fn process(&self, seed: u64, name: &str) -> Result<Self::Process, String> {
        let MarkovChain { states, transitions, .. } = self;
        let n = states.len();
        if !(2..=MAX_STATES).contains(&n) {
            return Err(format!("states must be 2 to {MAX_STATES} loss probabilities, found {n}"));
        }
        if transitions.len() != n || transitions.iter().any(|row| row.len() != n) {
            let found: Vec<usize> = transitions.iter().map(Vec::len).collect();
            return Err(format!(
                "transitions must be {n} rows of {n} probabilities, one row for each state, found \
                 rows of {found:?}"
            ));
        }
        let mut tails = Vec::with_capacity(n * n);
        for (i, row) in transitions.iter().enumerate() {
            let row: Vec<f64> =
                row.iter().map(|p| probability("transitions", *p)).collect::<Result<_, _>>()?;
            let sum: f64 = row.iter().sum();
            if (sum - 1.0).abs() > 1e-6 {
                return Err(format!("row {} of transitions must add up to 1, found {sum}", i + 1));
            }
            tails.extend((0..n).map(|j| row[j..].iter().rev().sum::<f64>()));
        }
        Ok(Box::new(MarkovChainProcess {
            states: Stream::new(seed, &["loss ", name].concat()),
            losses: Stream::new(seed, &["loss in state ", name].concat()),
            loss: states.iter().map(|p| probability("states", *p)).collect::<Result<_, _>>()?,
            tails,
            clock: self.clock,
            draws: self.clock.draws(self.slot)?,
            slot: self.slot.0,
            at: 0,
            state: 0,
        }))
    }

    fn slot(&self) -> Option<Duration> {
        Some(self.slot)
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        let row = |shares: [f64; 3]| shares.map(Share).to_vec();
        let (out, back) = (s.between(0.0, 0.1), s.between(0.1, 0.9));
        let loss = s.between(0.0, s.worst());
        Some(MarkovChain {
            states: row([0.0, loss / 2.0, loss]),
            transitions: vec![
                row([1.0 - out, out, 0.0]),
                row([back / 2.0, 1.0 - back, back / 2.0]),
                row([0.0, back, 1.0 - back]),
            ],
            clock: s.clock(),
            slot: s.millis(1, 20),
        })
    }
}

/// Markov chain with a loss probability per state, in the first state at the start. With two states
/// it takes the same steps as [`Markov`](super::Markov), frame for frame.
#[derive(Clone, Debug)]
pub struct MarkovChainProcess {
    states: Stream,
    losses: Stream,
    /// Loss probability of each state.
    loss: Vec<f64>,
    /// `tails[s * n + j]`: probability that the chain goes from state s to state j or a later one.
    tails: Vec<f64>,
    clock: MarkovClock,
    draws: Draws,
    /// Length of a slot in ns.
    slot: u64,
    /// The slot to which `state` belongs.
    at: u64,
    state: usize,
}

impl MarkovChainProcess {
    /// The state after the draw of this index. One draw serves all states.
    #[inline]
    fn next(&self, state: usize, index: u64) -> usize {
        let (draw, n) = (self.states.uniform(index), self.loss.len());
        let tails = &self.tails[state * n..(state + 1) * n];
        (1..n).rev().find(|&j| draw < tails[j]).unwrap_or(0)
    }

    /// Advances the chain to this slot. Each slot has its own draw, so that the state does not
    /// depend on which frames came before. Over a long gap the steps are composed backwards from
    /// the slot: as soon as they lead from every state to the same one, earlier steps do not
    /// matter.
    fn advance(&mut self, slot: u64) {
        let n = self.loss.len();
        if slot.saturating_sub(self.at) <= n as u64 {
            (self.at..slot).for_each(|i| self.state = self.next(self.state, i + 1));
        } else {
            let mut leads_to: [u8; MAX_STATES] = std::array::from_fn(|s| s as u8);
            for i in (self.at..slot).rev() {
                let after = leads_to;
                (0..n).for_each(|s| leads_to[s] = after[self.next(s, i + 1)]);
                if leads_to[..n].iter().all(|&s| s == leads_to[0]) {
                    break;
                }
            }
            self.state = usize::from(leads_to[self.state]);
        }
        self.at = self.at.max(slot);
    }
}

impl FrameLoss for MarkovChainProcess {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        match self.clock {
            MarkovClock::Frame => self.state = self.next(self.state, frame.ordinal),
            MarkovClock::Slot if frame.start < Time::NEVER => {
                self.advance(frame.start.0 / self.slot);
            }
            MarkovClock::Slot => {}
        }
        let p = self.loss[self.state];
        // Computed in any case, because it counts the frames of a slot.
        let index = self.draws.next(frame.start, frame.ordinal);
        if is_open(p) { self.losses.uniform(index) < p } else { p > 0.0 }
    }

    fn is_random(&self) -> bool {
        let n = self.loss.len();
        // Probability of a step from s to j.
        let goes = |s: usize, j: usize| {
            let tails = &self.tails[s * n..(s + 1) * n];
            tails[j] - tails.get(j + 1).unwrap_or(&0.0)
        };
        let mut reached = vec![0];
        let mut i = 0;
        while i < reached.len() {
            let from = reached[i];
            let new: Vec<usize> =
                (0..n).filter(|&j| goes(from, j) > 0.0 && !reached.contains(&j)).collect();
            reached.extend(new);
            i += 1;
        }
        let is_drawn = reached.iter().any(|&s| (0..n).any(|j| is_open(goes(s, j))));
        let differ = reached.iter().any(|&s| self.loss[s] != self.loss[reached[0]]);
        (is_drawn && differ) || reached.iter().any(|&s| is_open(self.loss[s]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Markov;
    use super::super::testing::{
        CLOCKS, SLOT, assert_slots_have_fates, fates, fault, is_random, mean_burst, share,
    };
    use super::*;

    fn chain(states: &[f64], transitions: &[&[f64]], clock: MarkovClock) -> MarkovChain {
        let shares = |row: &[f64]| row.iter().map(|p| Share(*p)).collect();
        let transitions = transitions.iter().map(|row| shares(row)).collect();
        MarkovChain { states: shares(states), transitions, clock, slot: SLOT }
    }

    /// A matrix of two states equals the model `markov`, frame for frame: the rates of paul2005's
    /// slides.
    #[test]
    fn two_states_are_the_two_state_model() {
        let (p, q) = (0.9913, 0.8509);
        for clock in CLOCKS {
            for losses in [[0.0, 1.0], [0.01, 0.4]] {
                let [good_loss, bad_loss] = losses.map(Share);
                let (good_to_good, bad_to_bad, slot) = (Share(p), Share(q), SLOT);
                let markov = Markov { good_to_good, bad_to_bad, good_loss, bad_loss, clock, slot };
                let matrix = chain(&losses, &[&[p, 1.0 - p], &[1.0 - q, q]], clock);
                for gap in [100_000, 500_000, 70_000_000] {
                    assert_eq!(
                        fates(matrix.clone(), 3, 200_000, gap),
                        fates(markov.clone(), 3, 200_000, gap),
                        "{clock:?}, {gap} ns"
                    );
                }
            }
        }
    }

    /// For the chain 0 <-> 1 <-> 2, detailed balance gives the stationary shares 10/13, 2/13 and
    /// 1/13; state 2 lasts 10 steps.
    #[test]
    fn a_chain_of_three_states_has_its_stationary_loss() {
        let rows: [&[f64]; 3] = [&[0.99, 0.01, 0.0], &[0.05, 0.9, 0.05], &[0.0, 0.1, 0.9]];
        for clock in CLOCKS {
            let lost = fates(chain(&[0.0, 0.1, 1.0], &rows, clock), 5, 4_000_000, 500_000);
            let expected = (2.0 * 0.1 + 1.0) / 13.0;
            assert!((share(&lost) - expected).abs() < 0.003, "{} {expected}", share(&lost));
            let bursts = fates(chain(&[0.0, 0.0, 1.0], &rows, clock), 5, 4_000_000, 500_000);
            assert!((mean_burst(&bursts) - 10.0).abs() < 0.3, "{}", mean_burst(&bursts));
        }
    }

    #[test]
    fn the_state_of_a_chain_does_not_depend_on_who_asks() {
        let cases: [[&[f64]; 3]; 3] = [
            [&[0.99, 0.01, 0.0], &[0.05, 0.9, 0.05], &[0.0, 0.1, 0.9]],
            [&[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0], &[1.0, 0.0, 0.0]],
            [&[0.2, 0.3, 0.5], &[0.5, 0.2, 0.3], &[0.3, 0.5, 0.2]],
        ];
        for rows in cases {
            let config = chain(&[0.0, 0.0, 1.0], &rows, MarkovClock::Slot);
            assert!(share(&assert_slots_have_fates(config, 100_000)) > 0.05);
        }
    }

    #[test]
    fn mistakes_are_errors() {
        let frame = MarkovClock::Frame;
        let wrong = |states: &[f64], rows: &[&[f64]]| fault(chain(states, rows, frame));
        assert!(wrong(&[0.1], &[&[1.0]]).contains("2 to 64"));
        assert!(wrong(&[0.0, 1.0], &[&[0.5, 0.5]]).contains("2 rows of 2"));
        assert!(
            wrong(&[0.0, 1.0], &[&[0.5, 0.5], &[0.5, 0.4]])
                .contains("row 2 of transitions must add up to 1, found 0.9")
        );
        assert!(
            wrong(&[0.0, 1.5], &[&[0.5, 0.5], &[0.5, 0.5]])
                .contains("states must lie between 0 and 1")
        );
    }

    #[test]
    fn randomness_is_known() {
        let random =
            |states: &[f64], rows: &[&[f64]]| is_random(chain(states, rows, MarkovClock::Frame));
        let halves: [&[f64]; 2] = [&[0.5, 0.5], &[0.5, 0.5]];
        let flips: [&[f64]; 2] = [&[0.0, 1.0], &[1.0, 0.0]];
        let lasting: [&[f64]; 2] = [&[1.0, 0.0], &[0.5, 0.5]];
        assert!(random(&[0.0, 1.0], &halves) && random(&[0.5, 0.5], &flips));
        assert!(!random(&[1.0, 1.0], &halves) && !random(&[0.0, 1.0], &flips));
        assert!(!random(&[0.0, 0.5], &lasting), "the second state is never reached");
    }
}
