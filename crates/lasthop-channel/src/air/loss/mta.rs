//! The channel of Markov-based Trace Analysis.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::clock::MarkovClock;
use super::model::{Frame, FrameLoss, LossModel, probability};
use crate::air::draws::default_slot;
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share, Time};

/// Highest order of the chain in lossy periods.
const MAX_ORDER: u32 = 16;
/// Longest period in steps.
const MAX_LENGTH: f64 = 1e15;

/// Markov-based Trace Analysis (Konrad, Zhao, Joseph and Ludwig, Wireless Networks 9(3), 2003):
/// alternating error-free and lossy periods, error-free at the start. In lossy periods the fate of
/// a frame depends on those of the k frames before.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mta {
    /// Length of error-free periods in steps.
    pub error_free: PeriodLength,
    /// Length of lossy periods in steps.
    pub lossy: PeriodLength,
    /// Loss probabilities in lossy periods, 2^k for a chain of order k, by the fates of the k
    /// frames before, read as a binary number (1 lost, the latest frame last): for k = 2 after
    /// 00, 01, 10 and 11. One value: independent losses.
    pub errors: Vec<Share>,
    /// What a step is: a frame, or a slot of time, whose frames share one fate.
    pub clock: MarkovClock,
    /// Length of a step, for `clock = "slot"`.
    #[serde(default = "default_slot")]
    pub slot: Duration,
}

/// Length of a period of the MTA channel, in steps (at least 1).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PeriodLength {
    /// The mean of a geometric distribution, the exponential one in whole steps.
    Mean(f64),
    /// Quantiles of a measured distribution at equal distances, from the shortest to the longest;
    /// linear between them.
    Quantiles(Vec<f64>),
}

impl<'de> Deserialize<'de> for PeriodLength {
    // Not derived, because a derived untagged enum loses the reason of an error.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = PeriodLength;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mean number of steps (120) or quantiles ([1, 4, 60])")
            }
            fn visit_f64<E>(self, mean: f64) -> Result<PeriodLength, E> {
                Ok(PeriodLength::Mean(mean))
            }
            fn visit_i64<E>(self, mean: i64) -> Result<PeriodLength, E> {
                Ok(PeriodLength::Mean(mean as f64))
            }
            fn visit_u64<E>(self, mean: u64) -> Result<PeriodLength, E> {
                Ok(PeriodLength::Mean(mean as f64))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<PeriodLength, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(PeriodLength::Quantiles)
            }
        }
        d.deserialize_any(V)
    }
}

impl LossModel for Mta {
    type Process = Box<MtaProcess>;

    fn process(&self, seed: u64, name: &str) -> Result<Self::Process, String> {
        let Mta { error_free, lossy, errors, .. } = self;
        check_length("error_free", error_free)?;
        check_length("lossy", lossy)?;
        if !errors.len().is_power_of_two() || errors.len() > 1 << MAX_ORDER {
            return Err(format!(
                "errors must be 2^k loss probabilities for a chain of order k, at most \
                 2^{MAX_ORDER}, found {}",
                errors.len()
            ));
        }
        self.clock.draws(self.slot)?;
        let periods = Stream::new(seed, &["state ", name].concat());
        Ok(Box::new(MtaProcess {
            until: length(periods, error_free, 0),
            periods,
            fates: Stream::new(seed, &["loss ", name].concat()),
            lengths: [error_free.clone(), lossy.clone()],
            errors: errors.iter().map(|p| probability("errors", *p)).collect::<Result<_, _>>()?,
            clock: self.clock,
            slot: self.slot.0,
            period: 0,
            next: 0,
            lossy_steps: 0,
            history: 0,
            lost: false,
        }))
    }

    fn slot(&self) -> Option<Duration> {
        Some(self.slot)
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        let lossy = s.between(1.0, 20.0);
        Some(Mta {
            error_free: PeriodLength::Mean(s.between(20.0, 500.0)),
            lossy: PeriodLength::Quantiles(vec![1.0, lossy, 2.0 * lossy]),
            errors: vec![Share(s.between(0.0, s.worst())), Share(s.between(0.0, s.worst()))],
            clock: s.clock(),
            slot: s.millis(1, 20),
        })
    }
}

/// Alternating error-free and lossy periods, error-free at the start. Within lossy periods the fate
/// of a frame depends on those of the k frames before it: a Markov chain of order k, which
/// continues from one lossy period to the next.
///
/// Source: the abstract of Konrad, Zhao, Joseph and Ludwig, Wireless Networks 9(3), 2003; the
/// division into periods and the order of the chain follow public programs that fit the model. The
/// chain continues because it is fitted to all lossy periods put together.
#[derive(Clone, Debug)]
pub struct MtaProcess {
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

impl MtaProcess {
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
}

impl FrameLoss for MtaProcess {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        match self.clock {
            MarkovClock::Frame => self.advance(self.next),
            MarkovClock::Slot if frame.start < Time::NEVER => {
                self.advance(frame.start.0 / self.slot);
            }
            MarkovClock::Slot => {}
        }
        self.lost
    }

    fn is_random(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::super::testing::{
        CLOCKS, SLOT, assert_slots_have_fates, fates, fault, is_random, mean_burst, share,
    };
    use super::*;

    fn mta(error_free: f64, lossy: f64, errors: &[f64], clock: MarkovClock) -> Mta {
        Mta {
            error_free: PeriodLength::Mean(error_free),
            lossy: PeriodLength::Mean(lossy),
            errors: errors.iter().map(|p| Share(*p)).collect(),
            clock,
            slot: SLOT,
        }
    }

    /// The stationary loss of the order-2 chain: after 00, 01, 10, 11 a frame is lost with 0.2,
    /// 0.5, 0.4, 0.75, which balances at 3 : 1 : 1 : 2, so that 3/7 are lost in lossy periods;
    /// these take lossy / (lossy + error_free) of the steps.
    #[test]
    fn mta_loses_its_share_of_lossy_periods() {
        for clock in CLOCKS {
            for (errors, in_lossy) in
                [(&[0.2, 0.5, 0.4, 0.75][..], 3.0 / 7.0), (&[0.3, 0.6], 3.0 / 7.0), (&[0.4], 0.4)]
            {
                let lost = fates(mta(200.0, 50.0, errors, clock), 7, 4_000_000, 500_000);
                let expected = 0.2 * in_lossy;
                assert!(
                    (share(&lost) - expected).abs() < 0.003,
                    "{errors:?}: {} {expected}",
                    share(&lost)
                );
            }
        }
    }

    /// Lossy periods in which every frame is lost are the two-state channel: share and burst length
    /// of paul2005's slides.
    #[test]
    fn mta_without_good_frames_in_lossy_periods_is_the_two_state_channel() {
        let (p, q) = (0.9913, 0.8509);
        let lost = fates(
            mta(1.0 / (1.0 - p), 1.0 / (1.0 - q), &[1.0, 1.0], MarkovClock::Frame),
            3,
            4_000_000,
            1,
        );
        assert!((share(&lost) - (1.0 - p) / (2.0 - p - q)).abs() < 0.0008, "{}", share(&lost));
        assert!((mean_burst(&lost) - 1.0 / (1.0 - q)).abs() < 0.12, "{}", mean_burst(&lost));
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count();
        let singles = lost.windows(3).filter(|w| !w[0] && w[1] && !w[2]).count();
        assert!((singles as f64 / bursts as f64 - (1.0 - q)).abs() < 0.01, "geometric lengths");
    }

    #[test]
    fn mta_draws_measured_lengths() {
        let lengths = |q: &[f64]| PeriodLength::Quantiles(q.to_vec());
        let config = Mta {
            error_free: lengths(&[10.0, 20.0, 110.0]),
            lossy: lengths(&[4.0, 4.0]),
            errors: vec![Share(1.0)],
            clock: MarkovClock::Frame,
            slot: SLOT,
        };
        let lost = fates(config, 3, 1_000_000, 1);
        assert!((mean_burst(&lost) - 4.0).abs() < 1e-3, "{}", mean_burst(&lost));
        // Half of the lengths lie between 10 and 20, half between 20 and 110: 40 on average.
        assert!((share(&lost) - 4.0 / 44.0).abs() < 0.001, "{}", share(&lost));
        assert!(!lost[..10].contains(&true), "the shortest period comes first");
    }

    #[test]
    fn the_fate_of_a_slot_does_not_depend_on_who_asks() {
        let config = mta(90.0, 30.0, &[0.2, 0.5, 0.4, 0.75], MarkovClock::Slot);
        assert_slots_have_fates(config, 100_000);
    }

    #[test]
    fn mistakes_are_errors() {
        let wrong =
            |free, lossy, errors: &[f64]| fault(mta(free, lossy, errors, MarkovClock::Frame));
        assert!(wrong(0.5, 2.0, &[1.0]).contains("error_free must be a mean of at least 1"));
        assert!(wrong(5.0, f64::NAN, &[1.0]).contains("lossy must be"));
        assert!(wrong(5.0, 2.0, &[1.0, 0.5, 0.2]).contains("2^k"));
        assert!(wrong(5.0, 2.0, &[]).contains("2^k"));
        let slot = Mta { slot: Duration::ZERO, ..mta(5.0, 2.0, &[1.0], MarkovClock::Slot) };
        assert!(fault(slot).contains("slot must be longer than 0 s"));
    }

    #[test]
    fn randomness_is_known() {
        let random = |errors: &[f64]| is_random(mta(5.0, 2.0, errors, MarkovClock::Frame));
        assert!(random(&[0.0, 0.5]) && !random(&[0.0]));
    }
}
