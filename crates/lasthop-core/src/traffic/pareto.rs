//! Datagrams with Pareto distributed spacing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{Application, Fault, Process, above, check_shape, pareto, pareto_shape};
use super::operation::Do;
use crate::random::Stream;
use crate::units::{Rate, Time};

/// Datagrams with Pareto spacings.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Pareto {
    /// Mean rate of the payload.
    pub rate: Rate,
    /// Pareto shape of the spacings, above 1.
    #[serde(default = "pareto_shape")]
    pub shape: f64,
}

impl Application for Pareto {
    type Process = Spacings;
    const IS_DATAGRAMS: bool = true;
    const IS_RANDOM: bool = true;
    const DATAGRAMS: &'static str = "bursts of datagrams, in the mean";

    fn check(&self) -> Result<(), Fault> {
        above("rate", self.rate, "0")?;
        check_shape(self.shape)
    }

    fn rate(&self, _segment: u32) -> f64 {
        self.rate.0 as f64
    }

    fn process(&self, segment: u32, draws: Stream) -> Spacings {
        Spacings { settings: *self, segment, draws, step: 0 }
    }
}

/// The datagrams of one flow.
#[derive(Clone, Debug)]
pub struct Spacings {
    settings: Pareto,
    segment: u32,
    draws: Stream,
    step: u64,
}

impl Process for Spacings {
    fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
        self.step += 1;
        let mean = self.settings.rate.time_for(u64::from(self.segment));
        let wait = pareto(&self.draws, self.step, mean, self.settings.shape);
        (Some(Do::Datagram(self.segment)), Some(now + wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::testing::times;

    #[test]
    fn pareto_spacing_has_the_mean_rate_and_a_minimum() {
        let found = times(&Pareto { rate: Rate(8_000_000), shape: 2.0 }.into(), 1);
        let rate = found.len() as f64 * 8000.0 / 2000.0;
        assert!((rate - 8e6).abs() < 0.02 * 8e6, "{rate}");
        assert!(found.windows(2).all(|t| t[1] - t[0] > 0.000_499));
    }
}
