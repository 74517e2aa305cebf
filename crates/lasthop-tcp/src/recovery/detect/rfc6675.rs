//! RFC 6675: three duplicate ACKs, or as many segments SACKed further up.

use super::{AckSummary, LossDetector, Losses};
use crate::scoreboard::{Marks, Scoreboard};

/// IsLost of RFC 6675, and its threshold of duplicate ACKs for the first segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rfc6675;

/// IsLost: the start of the lowest SACKed segment from which on more than `threshold` - 1 segments'
/// bytes, or `threshold` segments, are SACKed, itself included; 0 if there is none above
/// `lost_below`. All below it is lost.
pub fn edge(board: &Scoreboard, ack: &AckSummary) -> u64 {
    let enough = u64::from(ack.threshold.saturating_sub(1)) * u64::from(ack.mss);
    let (mut above, mut segments) = (0, 0);
    let mut place = ack.high_sacked.checked_sub(1).and_then(|h| board.place(h));
    while let Some(sent) = place.and_then(|p| board.at(p)) {
        if sent.marks.any(Marks::SACKED) {
            above += sent.end() - sent.seq;
            segments += 1;
            if above > enough || segments >= ack.threshold {
                return sent.seq;
            }
        }
        if sent.seq <= ack.lost_below {
            return 0;
        }
        place = place.and_then(|p| p.checked_sub(1));
    }
    0
}

impl LossDetector for Rfc6675 {
    fn on_ack(&mut self, board: &Scoreboard, ack: &AckSummary, losses: &mut Losses) {
        if ack.sacked == 0 {
            return;
        }
        losses.below = edge(board, ack);
        if ack.dupacks >= ack.threshold {
            losses.below = losses.below.max(board.at(0).map_or(0, |first| first.end()));
        }
    }
}
