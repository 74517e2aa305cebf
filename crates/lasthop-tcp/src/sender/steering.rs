//! What others say: the receiver's reports, notices, and a relay that holds the sender, thaws it or
//! sets its window.

use super::{LastAction, Output, SendReason, Sender, State};
use crate::scoreboard::Marks;
use crate::window::{Report, WindowRule};
use lasthop_core::segment::{Notice, NoticeKind};
use lasthop_core::units::{Duration, Time};

impl<W: WindowRule> Sender<W> {
    /// A number from the receiver's scheme. What it does to the window counts as a reduction where
    /// it makes it smaller.
    #[inline(never)]
    pub(super) fn take_report(&mut self, now: Time, value: u32, out: &mut impl Output) {
        let before = self.window;
        let report = Report {
            now,
            value,
            srtt: self.rto.srtt(),
            flight: self.flight(),
            mss: self.config.mss,
        };
        self.rule.on_report(&mut self.window, &report);
        self.counters.reductions +=
            u64::from(self.window.cwnd < before.cwnd || self.window.ssthresh < before.ssthresh);
        if self.rule.reports_alone() {
            // The slides send one new segment for it, whatever the window (`output(t_seqno_++)`).
            self.send_next(now, self.rwnd, SendReason::Recovery, out);
        } else if self.window.cwnd > before.cwnd
            && before.cwnd < self.in_pipe() + f64::from(self.config.mss)
        {
            // Where the window held nothing back the ACK has just sent what may be sent.
            self.fill_window(now, u32::MAX, SendReason::Recovery, out);
        }
    }

    /// Bytes that the window counts as under way, at most.
    fn in_pipe(&self) -> f64 {
        let flight = self.flight();
        self.sack.as_ref().map_or(flight, |s| s.pipe(flight).max(flight)) as f64
    }

    /// A notice for this flow.
    pub fn on_notice(&mut self, now: Time, notice: &Notice, out: &mut impl Output) {
        let before = self.window;
        if matches!(notice.kind, NoticeKind::Eln | NoticeKind::Ersn) && self.elsn.is_some() {
            self.on_link_notice(now, notice, out);
        }
        if notice.kind == NoticeKind::Link && self.profile.freeze > Duration::ZERO {
            self.on_route_notice(now, notice, out);
        }
        self.rule.on_notice(&mut self.window, now, notice);
        if self.window != before {
            self.fill_window(now, u32::MAX, SendReason::Recovery, out);
        }
    }

    /// The route has failed, or stands again: then all that is not acknowledged is sent once more
    /// (TCP-F).
    fn on_route_notice(&mut self, now: Time, notice: &Notice, out: &mut impl Output) {
        // One that was overtaken says nothing.
        if notice.stamp < self.route_told {
            return;
        }
        self.route_told = notice.stamp;
        if notice.value == 0 {
            self.hold();
            if self.held {
                self.frozen_until = now + self.profile.freeze;
                self.set_aux_deadline(now, self.frozen_until);
            }
        } else {
            self.frozen_until = Time::NEVER;
            self.resume(now, self.flight(), out);
        }
    }

    /// While it is held no timer counts, but a frozen sender wakes by itself in the end, as an
    /// ordinary one.
    pub(super) fn on_timer_while_held(&mut self, now: Time, out: &mut impl Output) {
        (self.deadline, self.aux_deadline) = (Time::NEVER, Time::NEVER);
        if now >= self.frozen_until {
            self.frozen_until = Time::NEVER;
            self.resume(now, 0, out);
            // What fell due in the meantime is due now.
            if self.deadline().0 <= now {
                self.on_timer(now, out);
            }
        } else {
            self.set_aux_deadline(now, self.frozen_until);
        }
    }

    /// Freezes the sender and its timer (split schemes). A handshake goes on.
    pub fn hold(&mut self) {
        if !self.held && self.state == State::Established {
            self.held = true;
            self.deadline = Time::NEVER;
            self.aux_deadline = Time::NEVER;
        }
    }

    /// Thaws it. The first `lost` bytes in flight are sent again at once. The rest may still be on
    /// its way, and can be acknowledged a round trip from now at the earliest: the timer starts
    /// anew, without back-off. What was sent before gives no round-trip time.
    pub fn resume(&mut self, now: Time, lost: u64, out: &mut impl Output) {
        if !std::mem::take(&mut self.held) || self.state != State::Established {
            return;
        }
        self.timing = None;
        self.rtt_from = now;
        self.rto.end_back_off();
        // A closed window is probed anew: no timer ran while the sender was held.
        self.persist = None;
        let to = (self.snd_una + lost).min(self.snd_max);
        if lost > 0 {
            (self.dupacks, self.limited, self.inflation) = (0, 0, 0.0);
            self.last_action = LastAction::None;
            // What had arrived and was not acknowledged comes twice: duplicate ACKs of that mean
            // nothing, as after a timeout.
            self.recover = Some(self.snd_max);
        }
        let mut at = self.snd_una;
        while at < to
            && let Some(sent) = self.board.get(at)
        {
            // What recovery has found lost and not sent again yet it will send itself.
            let waits = sent.marks.any(Marks::LOST) && !sent.marks.any(Marks::RESENT);
            if !waits && !sent.marks.any(Marks::SACKED) {
                self.retransmit(now, sent.seq, SendReason::Notified, out);
            }
            at = sent.end();
        }
        if self.snd_una < self.snd_max {
            self.arm(now);
        }
        self.fill_window(now, u32::MAX, SendReason::Recovery, out);
    }

    /// A relay replaces cwnd (split schemes), in bytes; a segment at least.
    pub fn set_window(&mut self, now: Time, bytes: u64, out: &mut impl Output) {
        self.rule.on_steered(&mut self.window, bytes.max(u64::from(self.config.mss)));
        self.fill_window(now, u32::MAX, SendReason::Recovery, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, ProfileName};
    use crate::recovery::{Recovery, RecoveryKind};
    use crate::sender::SenderConfig;
    use crate::testing::RenoWindow;
    use crate::window::Needs;
    use lasthop_core::segment::{Flags, Options, Segment};

    struct Sent(u64);

    impl Output for Sent {
        fn send(&mut self, segment: Segment, _: SendReason) {
            self.0 += u64::from(segment.len);
        }
        fn send_with(&mut self, segment: Segment, _: &Options, reason: SendReason) {
            self.send(segment, reason);
        }
    }

    /// With a window of 0 nothing would ever be sent, and the first ACK would make it infinite.
    #[test]
    fn a_relay_leaves_a_window_of_one_segment() {
        let (recovery, receive_window) = (Recovery::of(RecoveryKind::Newreno), 9000);
        let config = SenderConfig {
            flow: 0,
            to: 0,
            mss: 1000,
            headers: 40,
            receive_window,
            recovery,
            needs: Needs::default(),
            clock_phase: Duration::ZERO,
        };
        let (mut sender, mut sent) =
            (Sender::new(config, &Profile::named(ProfileName::Rfc), RenoWindow), Sent(0));
        sender.open(Time(0), &mut sent);
        let ack = |ack| Segment { ack, flags: Flags::ACK, window: 9000, ..Segment::default() };
        let answer = Segment { flags: Flags::SYN.with(Flags::ACK), ..ack(0) };
        sender.on_segment(Time(5), &answer, &Options::NONE, &mut sent);
        sender.set_window(Time(6), 0, &mut sent);
        sender.write(Time(7), 9000, &mut sent);
        assert_eq!((sender.window().cwnd, sent.0), (1000.0, 1000));
        sender.on_segment(Time(9), &ack(1000), &Options::NONE, &mut sent);
        assert!(sender.window().cwnd <= 2000.0, "{:?}", sender.window());
    }
}
