//! The Markov chain of several states.

use super::{Frame, is_open, probability};
use crate::air::config::{DrawIndex, MarkovClock};
use crate::air::draws::Draws;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share, Time};

/// Maximum number of states; it bounds the time of a step.
const MAX_STATES: usize = 64;

/// Markov chain with a loss probability per state, in the first state at the start. With two states
/// it takes the same steps as [`super::Markov`], frame for frame.
#[derive(Clone, Debug)]
pub struct Chain {
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

impl Chain {
    pub(super) fn new(
        states: &[Share],
        transitions: &[Vec<Share>],
        clock: MarkovClock,
        slot: Duration,
        seed: u64,
        name: &str,
    ) -> Result<Chain, String> {
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
        Ok(Chain {
            states: Stream::new(seed, &format!("loss {name}")),
            losses: Stream::new(seed, &format!("loss in state {name}")),
            loss: states.iter().map(|p| probability("states", *p)).collect::<Result<_, _>>()?,
            tails,
            clock,
            draws: match clock {
                MarkovClock::Frame => Draws::Frame,
                MarkovClock::Slot => Draws::new(DrawIndex::Slot, slot)?,
            },
            slot: slot.0,
            at: 0,
            state: 0,
        })
    }

    #[inline]
    pub(super) fn lost(&mut self, frame: &Frame) -> bool {
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

    pub(super) fn is_random(&self) -> bool {
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
