//! Independent bit errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Frame, FrameLoss, LossModel, is_open, probability};
use crate::air::draws::{DrawIndex, Draws, default_slot};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share};

/// Independent bit errors: a frame of n bits is lost with probability 1 - (1 - rate)^n.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BitErrors {
    /// Probability that a bit is wrong.
    pub rate: f64,
    /// What addresses the draws.
    #[serde(default)]
    pub index: DrawIndex,
    /// Length of a slot, for `index = "slot"`.
    #[serde(default = "default_slot")]
    pub slot: Duration,
}

impl LossModel for BitErrors {
    type Process = BitErrorProcess;

    fn process(&self, seed: u64, name: &str) -> Result<BitErrorProcess, String> {
        Ok(BitErrorProcess::new(
            Stream::new(seed, &["loss ", name].concat()),
            Draws::new(self.index, self.slot)?,
            probability("rate", Share(self.rate))?,
        ))
    }

    fn slot(&self) -> Option<Duration> {
        Some(self.slot)
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        Some(BitErrors { rate: s.between(0.0, 3e-5), index: s.draw_index(), slot: s.millis(1, 20) })
    }
}

/// Independent bit errors.
#[derive(Clone, Debug)]
pub struct BitErrorProcess {
    stream: Stream,
    draws: Draws,
    rate: f64,
    /// Frame sizes and their probabilities of loss, the newest first: a flow uses few sizes.
    known: [(u32, f64); 4],
    /// Draw of the last frame that was lost.
    last: f64,
}

impl BitErrorProcess {
    pub(super) fn new(stream: Stream, draws: Draws, rate: f64) -> BitErrorProcess {
        BitErrorProcess { stream, draws, rate, known: [(0, 0.0); 4], last: 0.0 }
    }

    /// Probability that a bit is wrong.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// True if the frame with this address of its draw has a bit error.
    #[inline]
    pub(super) fn lost_by(&mut self, index: u64, bytes: u32) -> bool {
        let probability = match self.known.iter().find(|k| k.0 == bytes) {
            Some(&(_, p)) => p,
            None => self.learn(bytes),
        };
        let draw = self.stream.uniform(index);
        let lost = draw < probability;
        if lost {
            self.last = draw;
        }
        lost
    }

    #[cold]
    fn learn(&mut self, bytes: u32) -> f64 {
        self.known.rotate_right(1);
        self.known[0] = (bytes, self.probability(bytes));
        self.known[0].1
    }

    /// Probability of a bit error in a frame of `bytes` bytes: 1 - (1 - rate)^bits, without
    /// cancellation for tiny rates.
    pub(super) fn probability(&self, bytes: u32) -> f64 {
        -libm::expm1(8.0 * f64::from(bytes) * libm::log1p(-self.rate))
    }
}

impl FrameLoss for BitErrorProcess {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        let index = self.draws.next(frame.start, frame.ordinal);
        self.lost_by(index, frame.bytes)
    }

    /// The frame's fate and its header's are one draw: the header is damaged if the draw is below
    /// the header's probability.
    fn header_intact(&self, header: u32) -> bool {
        self.last >= self.probability(header)
    }

    fn hits_control_frames(&self) -> bool {
        true
    }

    fn is_random(&self) -> bool {
        is_open(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SLOT, fault, process, share_of};
    use super::*;

    fn config(rate: f64) -> BitErrors {
        BitErrors { rate, index: DrawIndex::Frame, slot: SLOT }
    }

    #[test]
    fn bit_errors_lose_long_frames_more_often() {
        let lost = |rate, bytes| share_of(&mut process(config(rate), 1), bytes, 200_000, 1);
        // 1 - (1 - 1e-5)^(8 × 1500) = 11.308 %; of 40 bytes 0.3195 %.
        assert!((lost(1e-5, 1500) - 0.11308).abs() < 0.003);
        assert!((lost(1e-5, 40) - 0.003195).abs() < 0.0005);
        assert_eq!(lost(1e-5, 0), 0.0);
        assert_eq!(lost(1.0, 1), 1.0);
        assert_eq!(lost(0.0, 1500), 0.0);
        let tiny = config(1e-18).process(1, "test").unwrap().probability(125);
        assert!((tiny / 1e-15 - 1.0).abs() < 1e-9, "exact for tiny rates: {tiny}");
    }

    #[test]
    fn mistakes_are_errors() {
        assert!(fault(config(1.5)).contains("rate must lie between 0 and 1"));
        let slot = BitErrors { index: DrawIndex::Slot, slot: Duration::ZERO, ..config(0.1) };
        assert!(fault(slot).contains("slot must be longer than 0 s"));
    }
}
