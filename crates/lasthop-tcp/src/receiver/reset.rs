//! Resets, and the end of a connection by one (RFC 9293, section 3.10.7).

use super::Receiver;
use crate::sender::config::{Output, SendReason};
use crate::timestamps::timestamp;
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "resets are a file apart")]
impl Receiver {
    /// A reset ends the connection; whatever else comes after one is answered with one (RFC 9293,
    /// section 3.10.7.1).
    pub(super) fn on_stray(&mut self, segment: &Segment, out: &mut impl Output) {
        if !segment.flags.has(Flags::RST) {
            return self.send_reset(out);
        }
        self.forget();
    }

    pub(super) fn forget(&mut self) {
        (self.reset, self.open, self.usual) = (true, false, false);
        (self.plain, self.plain_beyond) = (false, false);
        (self.deadline, self.wake.0) = (Time::NEVER, Time::NEVER);
    }

    /// Breaks the connection off and tells the sender. A reset carries a timestamp, too (RFC 7323,
    /// section 3.2).
    pub fn reset(&mut self, now: Time, out: &mut impl Output) {
        if self.open {
            let mut segment = self.reset_segment();
            if self.timestamps {
                (segment.flags, segment.size) =
                    (segment.flags.with(Flags::TIMESTAMPS), segment.size + self.ack_bytes);
                (segment.ts_value, segment.ts_echo) = (timestamp(now), self.paws.recent());
            }
            out.send(segment, SendReason::Control);
        }
        self.forget();
    }

    /// The connection was broken off, by either side.
    pub fn is_reset(&self) -> bool {
        self.reset
    }

    pub(super) fn send_reset(&mut self, out: &mut impl Output) {
        out.send(self.reset_segment(), SendReason::Control);
    }

    fn reset_segment(&self) -> Segment {
        let (flow, to, size) = (self.config.flow, self.config.to, self.config.headers);
        Segment { flow, to, size, attempt: 1, flags: Flags::RST, ..Segment::default() }
    }
}
