//! Selective repeat: each segment has a timer of its own, so many round trips long, and goes out
//! again alone when it expires.
//!
//! Besides, what was overtaken is found as RACK finds it. There is no other timeout and no
//! back-off: the timer of a copy is as long as that of the first sending. The round-trip time is
//! the smoothed one, or the last one if that is longer; timestamps tell it of copies too, without
//! which one that has grown past the timers would never be learnt.

use crate::recovery::RecoveryKind;
use crate::recovery::sack_state::SackState;
use crate::scoreboard::{Marks, Scoreboard};
use crate::sender::Sender;
use crate::window::WindowRule;
use lasthop_core::units::{Duration, Time};

/// The shortest timer of a segment, a jiffy of Linux: without it a path without delay would be sent
/// to without end at one instant.
const SHORTEST: Duration = Duration::millis(1);

impl SackState {
    /// Each segment under way that was sent `timer` ago or earlier is lost. Returns when the next
    /// one will be.
    fn lose_expired(&mut self, board: &mut Scoreboard, now: Time, timer: Duration) -> Time {
        // A receiver that took back what it had reported has it SACKed at snd_una (RFC 2018,
        // section 8).
        if board.at(0).is_some_and(|s| s.marks.any(Marks::SACKED) && s.last_sent + timer <= now) {
            self.forget_sacks(board);
        }
        let (mut next, mut place) = (Time::NEVER, 0);
        while let Some(sent) = board.at_mut(place) {
            place += 1;
            let waits = sent.marks.any(Marks::LOST) && !sent.marks.any(Marks::RESENT);
            if waits || sent.marks.any(Marks::SACKED) {
                continue;
            }
            let due = sent.last_sent + timer;
            if due <= now {
                self.lose(sent, true);
            } else {
                next = next.min(due);
            }
        }
        next
    }
}

impl<W: WindowRule> Sender<W> {
    /// How long a segment waits for word of its delivery; as the retransmission timer before there
    /// is a round-trip time.
    fn segment_timer(&self, s: &SackState) -> Duration {
        let trips = u64::from(self.config.recovery.timer);
        self.rto.srtt().map_or(self.rto.rto(), |srtt| (srtt.max(s.rack.rtt) * trips).max(SHORTEST))
    }

    /// Segments whose timer has expired are lost.
    pub(super) fn lose_by_timers(&mut self, now: Time, s: &mut SackState) {
        if now >= s.segment_deadline {
            let timer = self.segment_timer(s);
            s.segment_deadline = s.lose_expired(&mut self.board, now, timer);
        }
    }

    /// One deadline stands for all timers: the earliest when they were last looked at. What is sent
    /// later is due later.
    pub(super) fn keep_segment_timers(&self, now: Time, s: &mut SackState) {
        if self.config.recovery.kind != RecoveryKind::SelectiveRepeat {
            return;
        }
        if self.flight() == 0 {
            s.segment_deadline = Time::NEVER;
        } else if s.segment_deadline == Time::NEVER {
            s.segment_deadline = now + self.segment_timer(s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, ProfileName};
    use crate::recovery::Recovery;
    use crate::scoreboard::Sent;
    use crate::sender::{Output, SendReason, SenderConfig};
    use crate::testing::RenoWindow;
    use crate::window::Needs;
    use lasthop_core::segment::{Flags, Options, Segment};

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::millis(ms)
    }

    /// Five segments of 1000 bytes, sent 10 ms apart.
    fn board() -> Scoreboard {
        let mut board = Scoreboard::default();
        let sent = |i: u64| Sent {
            seq: i * 1000,
            len: 1000,
            transmissions: 1,
            first_sent: at(10 * i),
            last_sent: at(10 * i),
            ..Sent::default()
        };
        (0..5).for_each(|i| board.push(sent(i)));
        board
    }

    const TIMER: Duration = Duration::millis(100);

    /// A path without delay has a round-trip time of 0 ns, and no timer may expire at the instant
    /// it was set.
    #[test]
    fn the_timer_has_a_length_where_the_round_trip_has_none() {
        struct Nowhere;
        impl Output for Nowhere {
            fn send(&mut self, _: Segment, _: SendReason) {}
            fn send_with(&mut self, _: Segment, _: &Options, _: SendReason) {}
        }
        let profile = Profile::named(ProfileName::Linux);
        let recovery = Recovery::of(RecoveryKind::SelectiveRepeat);
        let needs = Needs { sack: true, ..Needs::default() };
        let config = SenderConfig {
            flow: 0,
            to: 0,
            mss: 1000,
            headers: 40,
            receive_window: 9000,
            recovery,
            needs,
            clock_phase: Duration::ZERO,
        };
        let mut sender = Sender::new(config, &profile, RenoWindow);
        sender.open(at(5), &mut Nowhere);
        let answer =
            Segment { flags: Flags::SYN.with(Flags::ACK), window: 9000, ..Segment::default() };
        sender.on_segment(at(5), &answer, &Options::NONE, &mut Nowhere);
        assert_eq!(sender.rto().srtt(), Some(Duration::ZERO));
        sender.write(at(6), 3000, &mut Nowhere);
        for _ in 0..5 {
            let (due, _) = sender.deadline();
            sender.on_timer(due, &mut Nowhere);
            assert!(sender.deadline().0 > due, "due again at {due}");
        }
    }

    #[test]
    fn each_segment_is_lost_when_its_own_timer_expires() {
        let (mut board, mut s) = (board(), SackState::new(RecoveryKind::SelectiveRepeat, false));
        assert_eq!(s.lose_expired(&mut board, at(99), TIMER), at(100));
        assert_eq!(s.waiting(), 0);
        assert_eq!(s.lose_expired(&mut board, at(110), TIMER), at(120));
        assert_eq!((s.waiting(), s.first_waiting(&board)), (2000, Some(0)));
        // What waits to be sent has no timer, and is not counted again.
        assert_eq!(s.lose_expired(&mut board, at(119), TIMER), at(120));
        assert_eq!(s.waiting(), 2000);
    }

    #[test]
    fn a_copy_has_a_timer_too_and_what_was_reported_has_none() {
        let (mut board, mut s) = (board(), SackState::new(RecoveryKind::SelectiveRepeat, false));
        s.lose_expired(&mut board, at(100), TIMER);
        if let Some(sent) = board.find(0) {
            (sent.last_sent, sent.transmissions) = (at(100), 2);
        }
        s.resent(&mut board, 0, at(100));
        if let Some(sent) = board.find(1000) {
            sent.marks = Marks::SACKED;
        }
        assert_eq!(s.lose_expired(&mut board, at(115), TIMER), at(120));
        assert_eq!(s.waiting(), 0);
        s.lose_expired(&mut board, at(199), TIMER);
        assert_eq!(s.waiting(), 3000);
        assert_eq!(s.lose_expired(&mut board, at(200), TIMER), Time::NEVER);
        assert_eq!(s.waiting(), 4000);
    }
}
