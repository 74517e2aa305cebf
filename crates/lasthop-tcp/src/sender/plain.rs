//! The fast path for ACKs of new data of a connection in its usual state: established, recovery by
//! duplicate ACKs without additions, nothing to be retransmitted, no options. It does what
//! `on_segment` does, without the questions whose answers are known.

use super::{Limit, Sender};
use crate::recovery::engine::Engine;
use crate::sender::config::{Output, State};
use crate::window::WindowRule;
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the fast path is a file apart")]
impl<W: WindowRule> Sender<W> {
    /// An ACK without options and without data that acknowledges all bytes below `ack` and
    /// advertises `window`. Returns what limits the sender afterwards; `None` if the ACK may need
    /// more than the fast path: then nothing has changed, and `on_segment` has to follow.
    #[inline(always)]
    pub fn on_plain_ack(
        &mut self,
        now: Time,
        ack: u64,
        window: u32,
        out: &mut impl Output,
    ) -> Option<Limit> {
        let stream = &mut self.stream;
        let usual = self.plain
            && ack > stream.snd_una()
            && ack <= stream.snd_max()
            && ack < stream.written()
            && u64::from(window) == stream.rwnd();
        if !usual {
            return None;
        }
        let Engine::Dupack(recovery) = &mut self.recovery else { return None };
        recovery.on_plain_ack();
        let limit = stream.on_plain_ack(now, ack, out);
        Some(limit.unwrap_or_else(|| self.limited_by()))
    }

    /// After an ACK that has taken the slow path: notes whether the next one may take the fast one.
    /// Every other input ends that, see `leave_plain`.
    #[inline]
    pub(super) fn update_plain(&mut self) {
        self.plain = match &self.recovery {
            Engine::Dupack(recovery) => {
                recovery.is_plain()
                    && self.stream.state() == State::Established
                    && self.stream.is_plain()
            }
            Engine::Sack(_) | Engine::SackNs2(_) => false,
        };
    }

    /// The next ACK takes the slow path.
    #[inline]
    pub(super) fn leave_plain(&mut self) {
        self.plain = false;
    }
}
