//! Periodic losses: the same number of frames is lost at constant distances.
//!
//! The loss under which the steady state of AIMD has a closed form: Mathis, Semke, Mahdavi and Ott,
//! "The macroscopic behavior of the TCP congestion avoidance algorithm", ACM SIGCOMM Computer
//! Communication Review 27(3), 1997, section 2; `PeriodicLoss` of ns-2's `ErrorModel/Periodic`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Frame, FrameLoss, LossModel};
use crate::sample::Sample;

/// Every n-th frame is lost, or several frames in a row.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Periodic {
    /// Frames from the first of a loss to the first of the next one.
    pub every: u64,
    /// Frames that are lost in a row. Default: 1.
    #[serde(default = "one")]
    pub burst: u64,
    /// Number of the first frame that is lost, from 1. Default: `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
}

fn one() -> u64 {
    1
}

impl LossModel for Periodic {
    type Process = PeriodicLoss;

    fn process(&self, _seed: u64, _name: &str) -> Result<PeriodicLoss, String> {
        let Periodic { every, burst, first } = *self;
        if burst == 0 || burst >= every {
            return Err(format!(
                "burst must be at least 1 and below every = {every}, found {burst}"
            ));
        }
        match first.unwrap_or(every).checked_sub(1) {
            Some(first) => Ok(PeriodicLoss { every, burst, first }),
            None => Err("first must be at least 1, found 0".into()),
        }
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        let burst = s.whole(1, 4);
        let least = (burst as f64 / s.worst().max(1e-3)) as u64 + 1;
        let every = s.whole(least, least + 100);
        Some(Periodic { every, burst, first: s.flag().then(|| s.whole(1, 200)) })
    }
}

/// The state of a direction, which is the ordinal of a frame alone.
#[derive(Clone, Copy, Debug)]
pub struct PeriodicLoss {
    every: u64,
    burst: u64,
    /// Ordinal of the first frame that is lost.
    first: u64,
}

impl FrameLoss for PeriodicLoss {
    fn lost(&mut self, frame: &Frame) -> bool {
        self.safe_until(frame.ordinal) == frame.ordinal
    }

    fn safe_until(&self, ordinal: u64) -> u64 {
        match ordinal.checked_sub(self.first) {
            None => self.first,
            Some(past) if past % self.every < self.burst => ordinal,
            Some(past) => self.first + (past / self.every + 1) * self.every,
        }
    }

    fn is_random(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fault, frame, is_random};
    use super::*;
    use lasthop_core::units::Time;

    /// Numbers of the lost frames among the first 20, from 1.
    fn lost(model: Periodic) -> Vec<u64> {
        let mut process = model.process(1, "test").unwrap();
        (0..20)
            .filter(|&ordinal| process.lost(&frame(Time::ZERO, ordinal, 1040)))
            .map(|ordinal| ordinal + 1)
            .collect()
    }

    #[test]
    fn losses_are_at_constant_distances() {
        let model = Periodic { every: 6, burst: 1, first: None };
        assert_eq!(lost(model), [6, 12, 18]);
        assert_eq!(lost(Periodic { first: Some(1), ..model }), [1, 7, 13, 19]);
        assert_eq!(lost(Periodic { burst: 3, first: Some(5), every: 8 }), [5, 6, 7, 13, 14, 15]);
        assert!(!is_random(model));
    }

    /// What is not lost is known in advance.
    #[test]
    fn safe_ranges_end_at_the_next_loss() {
        let process = Periodic { every: 8, burst: 3, first: Some(5) }.process(1, "test").unwrap();
        let ends = [0, 3, 4, 6, 7, 11, 12].map(|ordinal| process.safe_until(ordinal));
        assert_eq!(ends, [4, 4, 4, 6, 12, 12, 12]);
    }

    #[test]
    fn mistakes_are_errors() {
        let model = Periodic { every: 6, burst: 1, first: None };
        assert!(fault(Periodic { burst: 0, ..model }).contains("found 0"));
        assert!(fault(Periodic { burst: 6, ..model }).contains("below every = 6, found 6"));
        assert!(fault(Periodic { first: Some(0), ..model }).contains("first must be at least 1"));
    }
}
