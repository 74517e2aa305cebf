//! Datagrams in bursts; the lengths of bursts and pauses are Pareto distributed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{
    Application, Burst, Fault, Process, above, check_shape, pareto, pareto_shape,
};
use super::operation::Do;
use crate::random::Stream;
use crate::units::{Duration, Rate, Time};

/// Datagrams in bursts; bursts and pauses have Pareto lengths.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ParetoOnOff {
    /// Rate of the payload within a burst.
    pub rate: Rate,
    /// Mean length of a burst.
    pub mean_on: Duration,
    /// Mean length of a pause.
    pub mean_off: Duration,
    /// Pareto shape of both, above 1.
    #[serde(default = "pareto_shape")]
    pub shape: f64,
}

impl Application for ParetoOnOff {
    type Process = Bursts;
    const IS_DATAGRAMS: bool = true;
    const IS_RANDOM: bool = true;
    const DATAGRAMS: &'static str = "bursts of datagrams, in the mean";

    fn check(&self) -> Result<(), Fault> {
        above("mean_on", self.mean_on, "0 s")?;
        above("rate", self.rate, "0")?;
        check_shape(self.shape)
    }

    fn rate(&self, _segment: u32) -> f64 {
        let (on, off) = (self.mean_on, self.mean_off);
        self.rate.0 as f64 * (on.0 as f64 / (on.0 + off.0) as f64)
    }

    fn process(&self, segment: u32, draws: Stream) -> Bursts {
        Bursts { settings: *self, segment, draws, step: 0, burst: Burst::default() }
    }
}

/// The bursts of one flow.
#[derive(Clone, Debug)]
pub struct Bursts {
    settings: ParetoOnOff,
    segment: u32,
    draws: Stream,
    step: u64,
    burst: Burst,
}

impl Process for Bursts {
    /// Sends the next datagram of a burst, or draws the next burst and the pause after it.
    fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
        self.step += 1;
        let ParetoOnOff { rate, mean_on, mean_off, shape } = self.settings;
        let spacing = rate.time_for(u64::from(self.segment)).max(Duration(1));
        if self.burst.remaining == 0 {
            let on = pareto(&self.draws, 2 * self.step, mean_on, shape);
            let off = pareto(&self.draws, 2 * self.step + 1, mean_off, shape);
            self.burst.add(on.0 as f64 / spacing.0 as f64);
            self.burst.next = now + on + off;
            if self.burst.remaining == 0 {
                return (None, Some(self.burst.next));
            }
        }
        // The carried-over fraction is below one spacing, so the last datagram leaves before the
        // burst ends.
        (Some(Do::Datagram(self.segment)), Some(self.burst.step(now, spacing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::testing::times;

    /// Bursts of 500 ms at 10 Mbit/s and pauses of 125 ms give a mean of 8 Mbit/s. With shape 2 the
    /// sample mean converges slowly.
    #[test]
    fn bursts_have_the_mean_rate() {
        let (mean_on, mean_off) = (Duration::millis(500), Duration::millis(125));
        let app = ParetoOnOff { rate: Rate(10_000_000), mean_on, mean_off, shape: 2.0 };
        assert_eq!(app.rate(1000), 8e6);
        let rates: Vec<f64> =
            (1..=8).map(|seed| times(&app.into(), seed).len() as f64 * 8000.0 / 2000.0).collect();
        let mean = rates.iter().sum::<f64>() / 8.0;
        assert!((mean - 8e6).abs() < 0.02 * 8e6, "{rates:?}");
        let gaps: Vec<f64> = times(&app.into(), 1).windows(2).map(|t| t[1] - t[0]).collect();
        assert!(gaps.iter().all(|g| *g > 0.000_799));
        // The minimum pause is half the mean pause.
        assert!(gaps.iter().all(|g| *g < 0.000_801 || *g > 0.062));
    }

    /// Fractions of a datagram are carried over between bursts.
    #[test]
    fn short_bursts_have_the_mean_rate() {
        let (mean_on, mean_off) = (Duration::millis(30), Duration::millis(30));
        let app = ParetoOnOff { rate: Rate(80_000), mean_on, mean_off, shape: 3.0 };
        let rate = times(&app.into(), 1).len() as f64 * 8000.0 / 2000.0;
        assert!((rate - 40_000.0).abs() < 0.05 * 40_000.0, "{rate}");
    }
}
