//! Bit errors of a channel with two states in continuous time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bit_errors::BitErrorProcess;
use super::model::{Frame, FrameLoss, LossModel, is_open, probability};
use crate::air::draws::{DrawIndex, Draws, default_slot};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share, Time};

/// Bit errors of a channel with two states in continuous time, good at the start. Dwell times are
/// exponential, and a frame has the error rate of the state in which it starts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TwoState {
    /// Mean time in the good state.
    pub good: Duration,
    /// Mean time in the bad state.
    pub bad: Duration,
    /// Probability that a bit is wrong in the good state.
    #[serde(default)]
    pub good_rate: f64,
    /// Probability that a bit is wrong in the bad state.
    pub bad_rate: f64,
    /// What happens to dwell times that end while no frame is transmitted.
    #[serde(default)]
    pub unseen: IdleAdvance,
    /// What addresses the draws.
    #[serde(default)]
    pub index: DrawIndex,
    /// Length of a slot, for `index = "slot"`.
    #[serde(default = "default_slot")]
    pub slot: Duration,
}

/// What happens to dwell times of a channel that end while no frame is transmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleAdvance {
    /// The dwell times elapse as if frames were transmitted.
    #[default]
    Pass,
    /// The first frame after the end starts the next dwell time, as in ns-2's
    /// `ErrorModel/MultiState`: each bad state affects at least one frame.
    Wait,
}

impl LossModel for TwoState {
    type Process = Box<TwoStateProcess>;

    fn process(&self, seed: u64, name: &str) -> Result<Self::Process, String> {
        let stream = Stream::new(seed, &["loss ", name].concat());
        let errors = |key: &str, rate: f64| {
            let rate = probability(key, Share(rate))?;
            Ok::<_, String>(BitErrorProcess::new(stream, Draws::Frame, rate))
        };
        Ok(Box::new(TwoStateProcess {
            dwells: Stream::new(seed, &["state ", name].concat()),
            means: [above_zero("good", self.good)?, above_zero("bad", self.bad)?],
            errors: [errors("good_rate", self.good_rate)?, errors("bad_rate", self.bad_rate)?],
            draws: Draws::new(self.index, self.slot)?,
            unseen: self.unseen,
            dwell: 0,
            until: None,
        }))
    }

    fn slot(&self) -> Option<Duration> {
        Some(self.slot)
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        Some(TwoState {
            good: s.millis(10, 2000),
            bad: s.millis(10, 300),
            good_rate: s.between(0.0, 1e-5),
            bad_rate: s.between(0.0, 1e-4),
            unseen: if s.flag() { IdleAdvance::Pass } else { IdleAdvance::Wait },
            index: s.draw_index(),
            slot: s.millis(1, 20),
        })
    }
}

fn above_zero(key: &str, time: Duration) -> Result<Duration, String> {
    if time > Duration::ZERO { Ok(time) } else { Err(format!("{key} must be above 0 s")) }
}

/// Bit errors of a channel with two states in continuous time.
#[derive(Clone, Debug)]
pub struct TwoStateProcess {
    /// Draws of the dwell times, the first one in the good state.
    dwells: Stream,
    /// Mean dwell times and bit errors, good and bad. Both states use the same draws, so that the
    /// states of two runs differ only by their error rates.
    means: [Duration; 2],
    errors: [BitErrorProcess; 2],
    draws: Draws,
    unseen: IdleAdvance,
    /// Number of the present dwell time, and when it ends (unknown before the first frame).
    dwell: u64,
    until: Option<Time>,
}

impl TwoStateProcess {
    /// 0 is good, 1 is bad.
    #[inline]
    fn state(&self) -> usize {
        (self.dwell & 1) as usize
    }

    /// Advances the chain to this time. With `IdleAdvance::Pass` the dwell times do not depend on
    /// which frames ask, nor when.
    #[inline]
    fn advance(&mut self, now: Time) {
        if now == Time::NEVER {
            return;
        }
        let mut until = self.until.unwrap_or_else(|| Time::ZERO + self.stay());
        while until <= now {
            self.dwell += 1;
            until = if self.unseen == IdleAdvance::Wait { now } else { until } + self.stay();
        }
        self.until = Some(until);
    }

    fn stay(&self) -> Duration {
        let mean = self.means[self.state()].as_secs();
        Duration::from_secs_f64(self.dwells.exponential(self.dwell, mean)).max(Duration(1))
    }
}

impl FrameLoss for TwoStateProcess {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        self.advance(frame.start);
        let index = self.draws.next(frame.start, frame.ordinal);
        self.errors[self.state()].lost_by(index, frame.bytes)
    }

    fn header_intact(&self, header: u32) -> bool {
        self.errors[self.state()].header_intact(header)
    }

    fn hits_control_frames(&self) -> bool {
        true
    }

    fn is_random(&self) -> bool {
        let [good, bad] = self.errors.each_ref().map(BitErrorProcess::rate);
        is_open(good) || is_open(bad) || good != bad
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SLOT, fates, fault, frame, mean_burst, process, share, share_of};
    use super::*;

    fn two_state(bad: u64, good_rate: f64, bad_rate: f64) -> TwoState {
        TwoState {
            good: Duration::millis(1000),
            bad: Duration::millis(bad),
            good_rate,
            bad_rate,
            unseen: IdleAdvance::Pass,
            index: DrawIndex::Frame,
            slot: SLOT,
        }
    }

    /// noor's channel: a third of a second bad after a second good. At 1e-3 60.5 % of 928-bit
    /// frames are lost, at 1e-4 8.9 %.
    #[test]
    fn a_channel_of_two_states_has_its_dwell_times_and_rates() {
        // 100 frames a second for 40 000 s.
        let lost = fates(two_state(333, 0.0, 1.0), 7, 4_000_000, 10_000_000);
        assert!((share(&lost) - 0.333 / 1.333).abs() < 0.005, "{}", share(&lost));
        // A dwell time that ends between two frames counts from the next frame: 33.3 frames and a
        // half on average.
        assert!((mean_burst(&lost) - 33.8).abs() < 0.8, "{}", mean_burst(&lost));
        let mut process = process(two_state(333, 1e-6, 1e-3), 7);
        let lost = share_of(&mut process, 116, 4_000_000, 10_000_000);
        let expected = (0.605 * 0.333 + 0.00093) / 1.333;
        assert!((lost - expected).abs() < 0.004, "{lost} {expected}");
    }

    #[test]
    fn the_dwell_times_of_a_channel_do_not_depend_on_frames() {
        let config = two_state(333, 0.0, 1.0);
        let always = fates(config.clone(), 3, 20_000, 10_000_000);
        let mut seldom = process(config, 3);
        for i in (0..20_000).filter(|i| i % 37 == 5) {
            assert_eq!(seldom.lost(&frame(Time(i * 10_000_000), i / 37, 40)), always[i as usize]);
        }
        seldom.lost(&frame(Time::NEVER, 0, 1));
        assert!(fault(two_state(0, 0.0, 0.5)).contains("bad must be above 0 s"));
        assert!(fault(two_state(1, 0.0, 1.5)).contains("bad_rate"));
    }

    /// Frames 3 s apart. With `wait`, each frame starts a dwell time, so every second frame is in
    /// the bad state; with `pass`, a quarter are. For frames close together both are equal, apart
    /// from the gaps.
    #[test]
    fn dwell_times_that_wait_all_affect_a_frame() {
        let waiting = TwoState { unseen: IdleAdvance::Wait, ..two_state(333, 0.0, 1.0) };
        let seldom = |config: TwoState| share(&fates(config, 7, 100_000, 3_000_000_000));
        assert!((seldom(two_state(333, 0.0, 1.0)) - 0.25).abs() < 0.01);
        // In 3 s, a good dwell time of 1 s ends with probability 95 %.
        assert!((seldom(waiting.clone()) - 0.487).abs() < 0.01);
        let close = fates(waiting, 7, 4_000_000, 1_000_000);
        assert!(
            (share(&close) - 0.333 / 1.333).abs() < 0.01
                && (mean_burst(&close) - 333.5).abs() < 10.0
        );
    }
}
