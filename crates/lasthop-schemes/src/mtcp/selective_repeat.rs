//! Selective repeat: each segment has a separate timer, a number of round trips long, and is
//! retransmitted alone when it expires.
//!
//! RACK detects segments that were overtaken. There is no other timeout and no back-off: the timer
//! of a copy is as long as that of the first transmission. The round-trip time is the smoothed one,
//! or the last one if that is longer; timestamps give it for retransmissions too, without which a
//! round-trip time that has grown past the timers would never be measured.

use lasthop_core::units::{Duration, Time};
use lasthop_tcp::recovery::detect::scheme::{Behaviour, Number, OwnAddition, Reductions};
use lasthop_tcp::recovery::detect::{AckSummary, LossDetector, Losses};
use lasthop_tcp::recovery::{DetectorEntry, SchemeDetector};
use lasthop_tcp::scoreboard::{Marks, Scoreboard};

/// The shortest timer of a segment, a jiffy of Linux: without it a path without delay would be sent
/// to without end at one instant.
const SHORTEST: Duration = Duration::millis(1);

/// Round-trip times after which a segment is retransmitted, unless a setting says otherwise.
pub const TIMER: u32 = 2;
/// The largest setting.
const MAX_TIMER: u32 = 1000;

/// Selective repeat, as a loss detector beside RACK.
pub static DETECTOR: DetectorEntry = DetectorEntry {
    behaviour: Behaviour {
        reductions: Reductions::Recovery,
        keeps_ack_clock: true,
        ..Behaviour::RACK
    },
    own: Some(OwnAddition {
        name: "timer",
        number: Some(Number {
            unit: "ROUND-TRIPS",
            about: "round-trip times after which a segment is sent again",
            range: 1..=MAX_TIMER,
        }),
        default: TIMER,
    }),
    excludes_additions: true,
    needs_timestamps: true,
    ..DetectorEntry::new("selective-repeat", |round_trips| {
        Box::new(SegmentTimers { round_trips, deadline: Time::NEVER })
    })
};

/// The timers of the segments of one connection.
#[derive(Clone, Copy, Debug)]
struct SegmentTimers {
    /// How long a timer is, in round-trip times.
    round_trips: u32,
    /// When the timers are to be checked. One deadline stands for all, the earliest when they were
    /// last checked. What is sent later is due later.
    deadline: Time,
}

impl SegmentTimers {
    /// How long a segment waits for its acknowledgment: some times the smoothed round-trip time,
    /// or the last one if that is longer; the retransmission timeout before there is a round-trip
    /// time.
    fn duration(&self, ack: &AckSummary) -> Duration {
        let timer =
            |srtt: Duration| (srtt.max(ack.last_rtt) * u64::from(self.round_trips)).max(SHORTEST);
        ack.srtt.map_or(ack.rto, timer)
    }
}

impl LossDetector for SegmentTimers {
    /// Each segment under way that was sent a timer ago or earlier is lost.
    fn on_ack(&mut self, board: &Scoreboard, ack: &AckSummary, losses: &mut Losses) {
        if ack.now < self.deadline {
            return;
        }
        let timer = self.duration(ack);
        // A receiver that took back what it had reported has it SACKed at snd_una (RFC 2018,
        // section 8).
        losses.reneged = board
            .at(0)
            .is_some_and(|s| s.marks.any(Marks::SACKED) && s.last_sent + timer <= ack.now);
        self.deadline = Time::NEVER;
        for sent in board.iter() {
            let waits = sent.marks.any(Marks::LOST) && !sent.marks.any(Marks::RESENT);
            if waits || (sent.marks.any(Marks::SACKED) && !losses.reneged) {
                continue;
            }
            let due = sent.last_sent + timer;
            if due <= ack.now {
                losses.copies.push(sent.seq);
            } else {
                self.deadline = self.deadline.min(due);
            }
        }
    }

    fn deadline(&self) -> Time {
        self.deadline
    }
}

impl SchemeDetector for SegmentTimers {
    /// Each segment has a timer. That of the sender is for segments for which no ACK has started
    /// one, as after a probe of the window.
    fn replaces_timeout(&mut self, now: Time) -> bool {
        self.deadline = now;
        true
    }

    fn set_deadline(&mut self, ack: &AckSummary, flight: u64) {
        if flight == 0 {
            self.deadline = Time::NEVER;
        } else if self.deadline == Time::NEVER {
            self.deadline = ack.now + self.duration(ack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_tcp::scoreboard::Sent;

    const TIMER: Duration = Duration::millis(100);

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

    /// What is lost at `now`, with timers of 100 ms, and when the next timer expires.
    fn lost(board: &Scoreboard, now: Time) -> (Losses, Time) {
        let ack = AckSummary {
            now,
            snd_una: 0,
            high_sacked: 0,
            sacked: 0,
            sacked_entries: 0,
            lost_below: 0,
            dupacks: 0,
            threshold: 3,
            mss: 1000,
            recovering: false,
            srtt: Some(Duration::millis(40)),
            last_rtt: Duration(TIMER.0 / 2),
            rto: Duration::secs(1),
        };
        let mut timers = SegmentTimers { round_trips: 2, deadline: Time::ZERO };
        let mut losses = Losses::default();
        timers.on_ack(board, &ack, &mut losses);
        (losses, timers.deadline())
    }

    #[test]
    fn each_segment_is_lost_when_its_own_timer_expires() {
        let mut board = board();
        assert_eq!(lost(&board, at(99)), (Losses::default(), at(100)));
        let (losses, next) = lost(&board, at(110));
        assert_eq!((losses.copies, next), (vec![0, 1000], at(120)));
        // What waits to be sent has no timer, and is not counted again.
        for seq in [0, 1000] {
            board.find(seq).unwrap().marks = Marks::LOST;
        }
        assert_eq!(lost(&board, at(119)), (Losses::default(), at(120)));
    }

    #[test]
    fn a_copy_has_a_timer_too_and_what_was_reported_has_none() {
        let mut board = board();
        if let Some(sent) = board.find(0) {
            (sent.last_sent, sent.marks) = (at(100), Marks::LOST.with(Marks::RESENT));
        }
        board.find(1000).unwrap().marks = Marks::SACKED;
        assert_eq!(lost(&board, at(115)), (Losses::default(), at(120)));
        assert_eq!(lost(&board, at(199)).0.copies, [2000, 3000, 4000]);
        assert_eq!(lost(&board, at(200)).0.copies, [0, 2000, 3000, 4000]);
    }

    #[test]
    fn a_receiver_that_has_discarded_its_data_gets_them_again() {
        let mut board = board();
        board.find(0).unwrap().marks = Marks::SACKED;
        board.find(1000).unwrap().marks = Marks::SACKED;
        assert!(!lost(&board, at(99)).0.reneged);
        let (losses, _) = lost(&board, at(110));
        assert!(losses.reneged);
        assert_eq!(losses.copies, [0, 1000]);
    }
}
