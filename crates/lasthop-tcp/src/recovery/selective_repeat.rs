//! Selective repeat: each segment has a separate timer, a number of round trips long, and is
//! retransmitted alone when it expires.
//!
//! RACK detects segments that were overtaken. There is no other timeout and no back-off: the timer
//! of a copy is as long as that of the first transmission. The round-trip time is the smoothed one,
//! or the last one if that is longer; timestamps give it for retransmissions too, without which a
//! round-trip time that has grown past the timers would never be measured.

use crate::recovery::sack::board::SackBoard;
use crate::recovery::{Recovery, RecoveryKind};
use crate::rto::RtoEstimator;
use crate::scoreboard::{Marks, Scoreboard};
use lasthop_core::units::{Duration, Time};

/// The shortest timer of a segment, a jiffy of Linux: without it a path without delay would be sent
/// to without end at one instant.
const SHORTEST: Duration = Duration::millis(1);

/// Round-trip times after which a segment is retransmitted, unless a setting says otherwise.
pub const TIMER: u32 = 2;
/// The largest setting.
const MAX_TIMER: u32 = 1000;

/// Selective repeat takes no addition except `timer`, and `timer` needs selective repeat.
///
/// # Errors
///
/// The message says which of the two is violated, or the range of the timer.
pub fn check(recovery: &Recovery) -> Result<(), String> {
    let repeats = recovery.kind == RecoveryKind::SelectiveRepeat;
    let plain = Recovery { timer: recovery.timer, ..Recovery::of(RecoveryKind::SelectiveRepeat) };
    if repeats && *recovery != plain {
        return Err("selective-repeat takes no addition but timer".into());
    }
    if recovery.timer != TIMER && !repeats {
        return Err("timer goes with selective-repeat".into());
    }
    if !(1..=MAX_TIMER).contains(&recovery.timer) {
        return Err(format!("timer must lie between 1 and {MAX_TIMER} round-trip times"));
    }
    Ok(())
}

impl SackBoard {
    /// Each segment under way that was sent `timer` ago or earlier is lost. Returns when the next
    /// one will be.
    pub fn lose_expired(&mut self, board: &mut Scoreboard, now: Time, timer: Duration) -> Time {
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

/// How long a segment waits for its acknowledgment: `trips` times the smoothed round-trip time, or
/// the last one if that is longer; the retransmission timeout before there is a round-trip time.
pub fn segment_timer(rto: &RtoEstimator, last_rtt: Duration, trips: u32) -> Duration {
    rto.srtt().map_or(rto.rto(), |srtt| (srtt.max(last_rtt) * u64::from(trips)).max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::detect::rack::Rack;
    use crate::scoreboard::Sent;

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

    #[test]
    fn each_segment_is_lost_when_its_own_timer_expires() {
        let (mut board, mut s) =
            (board(), SackBoard::new(RecoveryKind::SelectiveRepeat, Rack::default(), false));
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
        let (mut board, mut s) =
            (board(), SackBoard::new(RecoveryKind::SelectiveRepeat, Rack::default(), false));
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
