//! Bit errors, given by the loss of a frame of a given size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bit_errors::BitErrorProcess;
use super::model::{LossModel, probability};
use crate::air::draws::{DrawIndex, Draws, default_slot};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share, Size};

/// Independent bit errors at the rate with which a frame of a given size is lost with a given
/// probability; shorter frames are lost less often.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameErrors {
    /// Probability that a frame of `bytes` bytes is lost.
    pub rate: Share,
    /// The size, link overhead and (in a cell) preamble included. Default: 1100 B, a segment of
    /// 1000 bytes in an 802.11 cell.
    #[serde(default = "frame_bytes")]
    pub bytes: Size,
    /// What addresses the draws.
    #[serde(default)]
    pub index: DrawIndex,
    /// Length of a slot, for `index = "slot"`.
    #[serde(default = "default_slot")]
    pub slot: Duration,
}

fn frame_bytes() -> Size {
    Size::Bytes(1100)
}

impl LossModel for FrameErrors {
    type Process = BitErrorProcess;

    fn process(&self, seed: u64, name: &str) -> Result<BitErrorProcess, String> {
        let bits = match self.bytes {
            Size::Bytes(n) if n > 0 => 8.0 * n as f64,
            _ => return Err("bytes must be a number of bytes above 0".into()),
        };
        // 1 - (1 - rate)^(1 / bits), without cancellation.
        let of_bit = -libm::expm1(libm::log1p(-probability("rate", self.rate)?) / bits);
        Ok(BitErrorProcess::new(
            Stream::new(seed, &["loss ", name].concat()),
            Draws::new(self.index, self.slot)?,
            of_bit,
        ))
    }

    fn slot(&self) -> Option<Duration> {
        Some(self.slot)
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        Some(FrameErrors {
            rate: Share(s.between(0.0, s.worst())),
            // At least a full frame: then `worst` bounds the loss of every frame.
            bytes: Size::Bytes(s.whole(1600, 3000)),
            index: s.draw_index(),
            slot: s.millis(1, 20),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SLOT, fault, process, share_of};
    use super::*;

    fn of(rate: f64, bytes: u64) -> FrameErrors {
        FrameErrors {
            rate: Share(rate),
            bytes: Size::Bytes(bytes),
            index: DrawIndex::Frame,
            slot: SLOT,
        }
    }

    #[test]
    fn the_loss_of_one_size_gives_that_of_all_sizes() {
        let errors = of(0.09, 1076).process(1, "test").unwrap();
        assert!((errors.probability(1076) - 0.09).abs() < 1e-12);
        // yun2009: with 9 % for data, an ACK of 76 bytes is lost with probability 0.66 %.
        assert!((errors.probability(76) - 0.00664).abs() < 1e-5, "{}", errors.probability(76));
        let lost = share_of(&mut process(of(0.09, 1076), 1), 1076, 200_000, 1);
        assert!((lost - 0.09).abs() < 0.003, "{lost}");
        assert_eq!(share_of(&mut process(of(1.0, 1), 1), 1, 100, 1), 1.0);
    }

    #[test]
    fn a_size_of_zero_is_an_error() {
        assert!(fault(of(0.1, 0)).contains("bytes must be a number of bytes above 0"));
    }
}
