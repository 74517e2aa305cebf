//! Detection of losses by other detectors than RACK.

use super::{Phase, SackRecovery};
use crate::recovery::config::RecoveryKind;
use crate::recovery::detect::fack::Fack;
use crate::recovery::detect::rfc6675::Rfc6675;
use crate::recovery::detect::{AckSummary, LossDetector};
use crate::sender::stream::Stream;
use crate::window::WindowRule;

#[allow(
    clippy::multiple_inherent_impl,
    reason = "one file for each input: ACKs, episodes, sending, timers"
)]
impl SackRecovery {
    /// What other detectors than RACK find lost.
    #[inline(never)]
    pub(super) fn judge_otherwise<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        summary: &AckSummary,
    ) {
        match self.recovery.kind {
            RecoveryKind::Fack => Fack.on_ack(stream.board(), summary, &mut self.losses),
            RecoveryKind::Scheme(_) => self.judge_as_scheme(stream, summary),
            _ => Rfc6675.on_ack(stream.board(), summary, &mut self.losses),
        }
        self.board.lose_found(stream.board_mut(), &self.losses);
    }

    /// What the detector of a scheme finds lost, after RACK if that is used as well. If each loss
    /// is a reason to reduce, those in slow start after a timeout are none.
    fn judge_as_scheme<W: WindowRule>(&mut self, stream: &mut Stream<W>, summary: &AckSummary) {
        let SackRecovery { board, losses, .. } = self;
        if self.behaviour.by_time {
            board.rack_mut().on_ack(stream.board(), summary, losses);
            board.lose_found(stream.board_mut(), losses);
            losses.clear();
        }
        let Some(detector) = &mut self.detector else { return };
        match self.hints.as_deref_mut().filter(|h| !h.is_quiet()) {
            Some(hints) => detector.on_ack_with_hints(stream.board(), summary, hints, losses),
            None => detector.on_ack(stream.board(), summary, losses),
        }
        if self.reduces_for_each_loss() {
            let found = self.losses.copies.len() as u32;
            self.reductions_due = if self.phase == Phase::Loss { 0 } else { found };
        }
    }
}
