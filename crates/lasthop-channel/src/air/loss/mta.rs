//! The channel of Markov-based Trace Analysis.

use super::{Frame, probability};
use crate::air::config::{MarkovClock, PeriodLength};
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share, Time};

/// Highest order of the chain in lossy periods.
const MAX_ORDER: u32 = 16;
/// Longest period in steps.
const MAX_LENGTH: f64 = 1e15;

/// Alternating error-free and lossy periods, error-free at the start. Within lossy periods the fate
/// of a frame depends on those of the k frames before it: a Markov chain of order k, which
/// continues from one lossy period to the next.
///
/// Source: the abstract of Konrad, Zhao, Joseph and Ludwig, Wireless Networks 9(3), 2003; the
/// division into periods and the order of the chain follow public programs that fit the model. The
/// chain continues because it is fitted to all lossy periods put together.
#[derive(Clone, Debug)]
pub struct Mta {
    periods: Stream,
    fates: Stream,
    /// Lengths of error-free and of lossy periods.
    lengths: [PeriodLength; 2],
    /// Loss probability in a lossy period by the fates of the frames before: a number whose lowest
    /// bit is the latest frame, 1 for a loss.
    errors: Vec<f64>,
    clock: MarkovClock,
    /// Length of a slot in ns.
    slot: u64,
    /// Number of the present period, and the step at which it ends; periods with odd numbers are
    /// lossy.
    period: u64,
    until: u64,
    /// The next step, the number of lossy steps, and their latest fates.
    next: u64,
    lossy_steps: u64,
    history: usize,
    /// Fate of the latest step.
    lost: bool,
}

impl Mta {
    pub(super) fn new(
        [error_free, lossy]: [&PeriodLength; 2],
        errors: &[Share],
        clock: MarkovClock,
        slot: Duration,
        seed: u64,
        name: &str,
    ) -> Result<Mta, String> {
        check_length("error_free", error_free)?;
        check_length("lossy", lossy)?;
        if !errors.len().is_power_of_two() || errors.len() > 1 << MAX_ORDER {
            return Err(format!(
                "errors must be 2^k loss probabilities for a chain of order k, at most \
                 2^{MAX_ORDER}, found {}",
                errors.len()
            ));
        }
        if clock == MarkovClock::Slot && slot == Duration::ZERO {
            return Err("slot must be longer than 0 s".into());
        }
        let periods = Stream::new(seed, &format!("state {name}"));
        Ok(Mta {
            until: length(periods, error_free, 0),
            periods,
            fates: Stream::new(seed, &format!("loss {name}")),
            lengths: [error_free.clone(), lossy.clone()],
            errors: errors.iter().map(|p| probability("errors", *p)).collect::<Result<_, _>>()?,
            clock,
            slot: slot.0,
            period: 0,
            next: 0,
            lossy_steps: 0,
            history: 0,
            lost: false,
        })
    }

    #[inline]
    pub(super) fn lost(&mut self, frame: &Frame) -> bool {
        match self.clock {
            MarkovClock::Frame => self.advance(self.next),
            MarkovClock::Slot if frame.start < Time::NEVER => {
                self.advance(frame.start.0 / self.slot);
            }
            MarkovClock::Slot => {}
        }
        self.lost
    }

    /// Advances the channel to this step. Periods and fates have separate draws, so that a slot's
    /// fate does not depend on which frames came before; the frames of one slot share it.
    fn advance(&mut self, step: u64) {
        while self.next <= step {
            if self.next == self.until {
                self.period += 1;
                let lengths = &self.lengths[(self.period & 1) as usize];
                self.until = self.until.saturating_add(length(self.periods, lengths, self.period));
            }
            let end = self.until.min(step.saturating_add(1));
            if self.period & 1 == 1 {
                (self.next..end).for_each(|_| self.take_lossy_step());
            } else {
                self.lost = false;
            }
            self.next = end;
        }
    }

    fn take_lossy_step(&mut self) {
        self.lost = self.fates.uniform(self.lossy_steps) < self.errors[self.history];
        self.lossy_steps += 1;
        self.history = (self.history << 1 | usize::from(self.lost)) & (self.errors.len() - 1);
    }

    pub(super) fn is_random(&self) -> bool {
        self.errors.iter().any(|&p| p > 0.0)
    }
}

fn check_length(key: &str, length: &PeriodLength) -> Result<(), String> {
    let is_length = |x: &f64| (1.0..=MAX_LENGTH).contains(x);
    match length {
        PeriodLength::Mean(mean) if is_length(mean) => Ok(()),
        PeriodLength::Mean(mean) => {
            Err(format!("{key} must be a mean of at least 1 step, found {mean}"))
        }
        PeriodLength::Quantiles(q) if q.len() >= 2 && q.iter().all(is_length) && q.is_sorted() => {
            Ok(())
        }
        PeriodLength::Quantiles(q) => Err(format!(
            "{key} must be at least two quantiles of 1 step or more in rising order, found {q:?}"
        )),
    }
}

/// Length of the period of this number in steps, at least 1.
fn length(draws: Stream, lengths: &PeriodLength, number: u64) -> u64 {
    let draw = draws.uniform(number);
    let steps = match lengths {
        PeriodLength::Mean(mean) => 1.0 + (libm::log1p(-draw) / libm::log1p(-1.0 / mean)).floor(),
        PeriodLength::Quantiles(quantiles) => {
            let place = draw * (quantiles.len() - 1) as f64;
            let below = (place as usize).min(quantiles.len() - 2);
            let [low, high] = [quantiles[below], quantiles[below + 1]];
            libm::round(low + (high - low) * (place - below as f64))
        }
    };
    steps.clamp(1.0, MAX_LENGTH) as u64
}
