//! Frames of media: which of them are complete in time to be played.

use std::collections::{BTreeMap, BTreeSet};

use lasthop::units::{Duration, Time};
use serde::{Deserialize, Serialize};

/// Frames of a flow; a frame is what is sent at one instant. Counted are those sent in the measured
/// time, at least the deadline before its end.
#[derive(Clone, Debug)]
pub struct FrameStats {
    /// Time from sending to playing.
    deadline: Duration,
    from: Time,
    end: Time,
    /// By the time of sending.
    frames: BTreeMap<Time, Frame>,
}

#[derive(Clone, Debug, Default)]
struct Frame {
    /// Datagrams that have not arrived, by their sequence numbers; of several copies the first one
    /// counts.
    missing: BTreeSet<u64>,
    /// When the last datagram arrived.
    arrived: Time,
}

/// The frames of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct FrameResult {
    /// Time from sending a frame to playing it, seconds.
    pub deadline_s: f64,
    /// Frames sent in the measured time, at least the deadline before its end.
    pub sent: u64,
    /// Frames of these that were complete only after the deadline.
    pub late: u64,
    /// Frames of these that were never complete.
    pub lost: u64,
    /// Share of the frames sent that were late or lost; `null` if none was sent.
    pub late_or_lost_share: Option<f64>,
}

impl FrameStats {
    /// A flow without frames, measured in `[from, end)`.
    pub fn new(deadline: Duration, (from, end): (Time, Time)) -> FrameStats {
        FrameStats { deadline, from, end, frames: BTreeMap::new() }
    }

    /// A datagram of a frame is sent.
    pub fn sent(&mut self, now: Time, seq: u64) {
        if now >= self.from && now + self.deadline < self.end {
            self.frames.entry(now).or_default().missing.insert(seq);
        }
    }

    /// A datagram of the frame sent at `sent_at` arrives.
    pub fn received(&mut self, now: Time, sent_at: Time, seq: u64) {
        if let Some(frame) = self.frames.get_mut(&sent_at)
            && frame.missing.remove(&seq)
        {
            frame.arrived = now;
        }
    }

    /// The result.
    pub fn result(&self) -> FrameResult {
        let is_lost = |frame: &Frame| !frame.missing.is_empty();
        let is_late =
            |(at, frame): (&Time, &Frame)| !is_lost(frame) && frame.arrived - *at > self.deadline;
        let sent = self.frames.len() as u64;
        let lost = self.frames.values().filter(|frame| is_lost(frame)).count() as u64;
        let late = self.frames.iter().filter(|found| is_late(*found)).count() as u64;
        FrameResult {
            deadline_s: self.deadline.decimal_secs(),
            sent,
            late,
            lost,
            late_or_lost_share: (sent > 0).then(|| (late + lost) as f64 / sent as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::millis(ms)
    }

    #[test]
    fn frames_are_in_time_late_or_lost() {
        let mut frames = FrameStats::new(Duration::millis(150), (at(100), at(1000)));
        assert_eq!(frames.result().late_or_lost_share, None);
        // Frames of two datagrams; that at 0 ms is before, that at 900 ms undecided at the end.
        for (k, ms) in (0..).zip([0, 100, 200, 300, 400, 900]) {
            frames.sent(at(ms), 2 * k);
            frames.sent(at(ms), 2 * k + 1);
        }
        for (arrived, sent, seq) in [
            (50, 0, 0),
            // In time, in the other order.
            (249, 100, 3),
            (250, 100, 2),
            // The second datagram is late.
            (300, 200, 4),
            (351, 200, 5),
            // A copy does not stand for the other datagram, nor make a frame late.
            (310, 300, 6),
            (311, 300, 6),
            (600, 100, 2),
        ] {
            frames.received(at(arrived), at(sent), seq);
        }
        let result = frames.result();
        assert_eq!((result.sent, result.late, result.lost), (4, 1, 2));
        assert_eq!(result.late_or_lost_share, Some(0.75));
    }
}
