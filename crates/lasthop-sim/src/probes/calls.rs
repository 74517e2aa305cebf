//! Calls: which packets arrive in time to be played, and the quality of speech.

use std::collections::BTreeSet;

use lasthop::units::{Duration, Time};
use serde::{Deserialize, Serialize};

/// Packets of a call. Counted are those sent in the measured time, at least the deadline before its
/// end.
#[derive(Clone, Debug)]
pub struct CallStats {
    /// Time between two packets.
    interval: Duration,
    /// Time from sending to playing.
    deadline: Duration,
    from: Time,
    end: Time,
    sent: u64,
    in_time: u64,
    late: u64,
    /// Packets that have arrived, by the time of sending, if links may duplicate them: of several
    /// copies the first one counts.
    arrived: Option<BTreeSet<Time>>,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct CallResult {
    /// Time from sending a packet to playing it, seconds.
    pub deadline_s: f64,
    /// Packets sent in the measured time, at least the deadline before its end.
    pub sent: u64,
    /// Packets of these that arrived after the deadline.
    pub late: u64,
    /// Packets of these that did not arrive.
    pub lost: u64,
    /// Share of the packets sent that were late or lost; `null` if none was sent.
    pub late_or_lost_share: Option<f64>,
    /// Mean opinion score, from 1 to 4.5; `null` if no packet was sent.
    pub mos: Option<f64>,
}

impl CallStats {
    /// A call without packets, measured in `[from, end)`.
    pub fn new(interval: Duration, deadline: Duration, (from, end): (Time, Time)) -> CallStats {
        CallStats { interval, deadline, from, end, sent: 0, in_time: 0, late: 0, arrived: None }
    }

    /// The same for a network whose links duplicate packets if `may` is true.
    #[must_use]
    pub fn with_duplicates(mut self, may: bool) -> CallStats {
        self.arrived = may.then(BTreeSet::new);
        self
    }

    fn counts(&self, sent_at: Time) -> bool {
        sent_at >= self.from && sent_at + self.deadline < self.end
    }

    /// A packet is sent.
    pub fn sent(&mut self, now: Time) {
        self.sent += u64::from(self.counts(now));
    }

    /// A packet sent at `sent_at` arrives.
    pub fn received(&mut self, now: Time, sent_at: Time) {
        let is_first = self.arrived.as_mut().is_none_or(|arrived| arrived.insert(sent_at));
        if is_first && self.counts(sent_at) {
            let is_in_time = now - sent_at <= self.deadline;
            *(if is_in_time { &mut self.in_time } else { &mut self.late }) += 1;
        }
    }

    /// The result.
    pub fn result(&self) -> CallResult {
        let share = (self.sent > 0).then(|| 1.0 - self.in_time as f64 / self.sent as f64);
        CallResult {
            deadline_s: self.deadline.decimal_secs(),
            sent: self.sent,
            late: self.late,
            lost: self.sent - self.in_time - self.late,
            late_or_lost_share: share,
            mos: share.map(|share| mos(self.deadline + self.interval, share)),
        }
    }
}

/// Mean opinion score of speech in G.711: the E-model of ITU-T G.107 as reduced to delay and loss
/// by Cole and Rosenbluth ("Voice over IP Performance Monitoring", ACM SIGCOMM Computer
/// Communication Review 31(2), 2001). `delay`: from mouth to ear, here packetisation and play-out;
/// `lost`: share of the packets that cannot be played.
fn mos(delay: Duration, lost: f64) -> f64 {
    let ms = delay.as_secs() * 1e3;
    let of_delay = 0.024 * ms + 0.11 * (ms - 177.3).max(0.0);
    let of_loss = 30.0 * libm::log(1.0 + 15.0 * lost);
    let r = (94.2 - of_delay - of_loss).clamp(0.0, 100.0);
    // Near 0 the polynomial is slightly below the worst score.
    (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::millis(ms)
    }

    #[test]
    fn packets_are_in_time_late_or_lost() {
        let (interval, deadline) = (Duration::millis(20), Duration::millis(150));
        let mut call = CallStats::new(interval, deadline, (at(100), at(1000)));
        assert_eq!((call.result().mos, call.result().late_or_lost_share), (None, None));
        // Sent at 0 ms (not measured), 100, 200, 300, 400 and 900 ms (not decided at the end).
        [0, 100, 200, 300, 400, 900].into_iter().for_each(|ms| call.sent(at(ms)));
        for (arrived, sent) in [(50, 0), (250, 100), (351, 200), (301, 300), (950, 900)] {
            call.received(at(arrived), at(sent));
        }
        let result = call.result();
        assert_eq!((result.sent, result.late, result.lost), (4, 1, 1));
        assert_eq!(result.late_or_lost_share, Some(0.5));
    }

    #[test]
    fn copies_count_once() {
        let (interval, deadline) = (Duration::millis(20), Duration::millis(150));
        let call = CallStats::new(interval, deadline, (at(0), at(1000)));
        let mut call = call.with_duplicates(true);
        [0, 20].into_iter().for_each(|ms| call.sent(at(ms)));
        for (arrived, sent) in [(50, 0), (51, 0), (180, 20), (181, 20)] {
            call.received(at(arrived), at(sent));
        }
        let result = call.result();
        assert_eq!((result.sent, result.late, result.lost), (2, 1, 0));
    }

    /// Values of the formulas: R = 90.12 without loss at 170 ms, and 77.4 at 3.5 % loss.
    #[test]
    fn the_score_falls_with_delay_and_loss() {
        let score = |ms, lost| mos(Duration::millis(ms), lost);
        assert!((score(170, 0.0) - 4.34).abs() < 0.01, "{}", score(170, 0.0));
        assert!((score(170, 0.035) - 3.93).abs() < 0.03, "{}", score(170, 0.035));
        assert!((score(400, 0.0) - 3.10).abs() < 0.03, "{}", score(400, 0.0));
        assert!((1.0..1.2).contains(&score(170, 1.0)), "{}", score(170, 1.0));
    }
}
