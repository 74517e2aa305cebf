//! Media at a constant rate: frames of several datagrams, each of which is useless after a
//! deadline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{Application, Burst, Fault, Process, Quality, above};
use super::call::deadline;
use super::operation::Do;
use crate::random::Stream;
use crate::units::{Duration, Rate, Time};

/// Media at a constant rate: frames, which are sent as datagrams, all of a frame at once. A frame
/// of which a datagram takes longer than `deadline` is late.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Media {
    /// Mean rate of the payload. A frame has whole datagrams; what is left of its share of the rate
    /// belongs to the next one.
    pub rate: Rate,
    /// Time between two frames. Default: 40 ms.
    #[serde(default = "frame_interval")]
    pub every: Duration,
    /// Time from sending a frame to playing it. Default: 150 ms.
    #[serde(default = "deadline")]
    pub deadline: Duration,
}

/// 25 frames per second.
fn frame_interval() -> Duration {
    Duration::millis(40)
}

impl Application for Media {
    type Process = Frames;
    const IS_DATAGRAMS: bool = true;
    const DATAGRAMS: &'static str = "frames of datagrams, in the mean";

    fn check(&self) -> Result<(), Fault> {
        above("rate", self.rate, "0")?;
        above("every", self.every, "0 s")?;
        above("deadline", self.deadline, "0 s")
    }

    fn rate(&self, _segment: u32) -> f64 {
        self.rate.0 as f64
    }

    fn quality(&self) -> Option<Quality> {
        Some(Quality::Frames { deadline: self.deadline })
    }

    fn process(&self, segment: u32, _draws: Stream) -> Frames {
        let bytes = self.rate.0 as f64 / 8.0 * self.every.as_secs();
        Frames {
            segment,
            interval: self.every,
            datagrams: bytes / f64::from(segment),
            frame: Burst::default(),
        }
    }
}

/// The frames of one flow.
#[derive(Clone, Debug)]
pub struct Frames {
    segment: u32,
    interval: Duration,
    /// Mean number of datagrams of a frame.
    datagrams: f64,
    frame: Burst,
}

impl Process for Frames {
    fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
        if self.frame.remaining == 0 {
            self.frame.add(self.datagrams);
            self.frame.next = now + self.interval;
            if self.frame.remaining == 0 {
                return (None, Some(self.frame.next));
            }
        }
        (Some(Do::Datagram(self.segment)), Some(self.frame.step(now, Duration::ZERO)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::testing::times;

    /// 1 Mbit/s in 25 frames per second is 5000 bytes for each.
    #[test]
    fn a_frame_is_sent_at_once() {
        let app = Media { rate: Rate(1_000_000), every: frame_interval(), deadline: deadline() };
        let found = times(&app.into(), 1);
        assert_eq!(found.len(), 2000 * 125);
        for (k, frame) in found.chunks(5).enumerate() {
            assert!(frame.iter().all(|t| *t == frame[0]), "{frame:?}");
            assert!((frame[0] - 0.04 * k as f64).abs() < 1e-9);
        }
    }

    /// 2.5 datagrams for each frame: two and three in turn. With a tenth of one, most are empty.
    #[test]
    fn frames_of_fractions_have_the_mean_rate() {
        let app = Media { rate: Rate(500_000), every: frame_interval(), deadline: deadline() };
        let found = times(&app.into(), 1);
        let of = |k: u32| found.iter().filter(|t| (**t - 0.04 * f64::from(k)).abs() < 1e-9).count();
        assert_eq!([0, 1, 2, 3].map(of), [2, 3, 2, 3]);
        let found = times(&Media { rate: Rate(20_000), ..app }.into(), 1);
        assert!((4999..=5000).contains(&found.len()), "{}", found.len());
    }
}
