//! Compression of the ACKs that report data beyond a hole (Linux `__tcp_ack_snd_check`, sysctls
//! `net.ipv4.tcp_comp_sack_*`).

use lasthop_core::units::{Duration, Time};

/// ACKs of one hole that go out at once (`TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u32 = 3;
/// ACKs that one ACK stands for at most (`tcp_comp_sack_nr`).
const MOST_HELD: u32 = 44;
/// An ACK is held back for at most this long (`tcp_comp_sack_delay_ns`), and for a twentieth of the
/// round-trip time.
const LONGEST: Duration = Duration::millis(1);
/// Slack of the timer (`tcp_comp_sack_slack_ns`); captures show all of it.
const SLACK: Duration = Duration::micros(100);
/// SACK ranges that the receiver keeps (`TCP_NUM_SACKS`): a further one is not waited with.
pub(super) const MOST_RANGES: usize = 4;

/// A segment with data that has just been taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataArrived {
    pub now: Time,
    /// The byte after its last one, and its payload bytes.
    pub end: u64,
    pub len: u32,
    /// The timestamp that it echoes; 0 if none.
    pub stamp: u32,
    /// It was the next one, and nothing was missing.
    pub clean: bool,
    /// The window that is offered has grown.
    pub grew: bool,
    /// The ranges beyond holes before it.
    pub ranges: usize,
}

/// Which ACKs of a connection are held back.
#[derive(Clone, Debug, Default)]
pub(super) struct Compression {
    /// The byte expected when the last such ACK was due, and how many have gone out at once since
    /// it changed.
    hole: u64,
    at_once: u32,
    /// ACKs held back since the last one that went out.
    held: u32,
    rtt: Option<Duration>,
}

impl Compression {
    /// A round-trip time sample, from a timestamp that the sender has echoed.
    pub(super) fn sample(&mut self, rtt: Duration) {
        self.rtt = Some(self.rtt.map_or(rtt, |r| Duration((7 * r.0 + rtt.0) / 8)));
    }

    /// How long the ACK of an arrival beyond a hole waits, `next` being the next byte expected;
    /// `None`: it goes out now. `rtt`: the round-trip time, if the receiver knows it by other means
    /// than timestamps.
    pub(super) fn wait(&mut self, next: u64, rtt: Option<Duration>) -> Option<Duration> {
        if self.held >= MOST_HELD {
            return None;
        }
        if self.hole != next {
            (self.hole, self.at_once) = (next, 0);
        }
        if self.at_once < AT_ONCE {
            self.at_once += 1;
            return None;
        }
        self.held += 1;
        Some(rtt.or(self.rtt).map_or(LONGEST, |r| LONGEST.min(Duration(r.0 / 20))) + SLACK)
    }

    /// An ACK goes out.
    pub(super) fn ack_sent(&mut self) {
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_acks_of_a_hole_go_out_and_at_most_44_wait_for_one() {
        let mut c = Compression::default();
        assert_eq!([c.wait(1000, None), c.wait(1000, None), c.wait(1000, None)], [None; 3]);
        assert!((0..44).all(|_| c.wait(1000, None) == Some(Duration::micros(1100))));
        assert_eq!(c.wait(1000, None), None);
        c.ack_sent();
        assert_eq!(c.wait(1000, None), Some(Duration::micros(1100)));
        // Another hole.
        assert_eq!(c.wait(2000, None), None);
    }

    #[test]
    fn no_longer_than_a_twentieth_of_the_round_trip() {
        let mut c = Compression::default();
        c.sample(Duration::millis(2));
        (0..3).for_each(|_| assert_eq!(c.wait(0, None), None));
        assert_eq!(c.wait(0, None), Some(Duration::micros(200)));
        (0..100).for_each(|_| c.sample(Duration::millis(80)));
        assert_eq!(c.wait(0, None), Some(Duration::micros(1100)));
    }
}
