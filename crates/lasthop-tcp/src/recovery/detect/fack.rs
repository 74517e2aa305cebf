//! FACK (Mathis and Mahdavi 1996, section 2): the forward-most SACK alone decides.

use super::{AckSummary, LossDetector, Losses};
use crate::scoreboard::Scoreboard;

/// All below the forward-most SACK is lost, once that is more than the threshold above snd_una.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fack;

impl LossDetector for Fack {
    fn on_ack(&mut self, _: &Scoreboard, ack: &AckSummary, losses: &mut Losses) {
        let gap = ack.high_sacked.saturating_sub(ack.snd_una);
        if ack.sacked > 0
            && (ack.recovering
                || gap > u64::from(ack.threshold) * u64::from(ack.mss)
                || ack.dupacks >= ack.threshold)
        {
            losses.below = ack.high_sacked;
        }
    }
}
