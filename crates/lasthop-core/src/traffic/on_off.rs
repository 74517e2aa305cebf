//! Bursts of writing and pauses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{Application, Burst, Fault, Process, above, duty, exponential};
use super::operation::Do;
use crate::random::Stream;
use crate::units::{Duration, Rate, Time};

/// Alternates between writing and pauses; both are exponential.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct OnOff {
    /// Mean length of a burst.
    pub mean_on: Duration,
    /// Mean length of a pause.
    pub mean_off: Duration,
    /// Rate of writing in a burst, segment by segment; data that TCP has not sent when the
    /// burst ends is sent later. Default: unlimited, and data that TCP has not sent when the
    /// burst ends is withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

impl Application for OnOff {
    type Process = Bursts;
    const IS_RANDOM: bool = true;

    fn check(&self) -> Result<(), Fault> {
        above("mean_on", self.mean_on, "0 s")?;
        self.rate.map_or(Ok(()), |rate| above("rate", rate, "0"))
    }

    fn segments(&self, through: f64, seconds: f64, segment: u32) -> f64 {
        let duty = duty(self.mean_on, self.mean_off);
        match self.rate {
            None => through * duty,
            Some(rate) => rate.0 as f64 / 8.0 * seconds * duty / f64::from(segment),
        }
    }

    fn is_endless(&self) -> bool {
        self.rate.is_none()
    }

    fn process(&self, segment: u32, draws: Stream) -> Bursts {
        Bursts { settings: *self, segment, draws, step: 0, writing: false, burst: Burst::default() }
    }
}

/// The bursts of one flow.
#[derive(Clone, Debug)]
pub struct Bursts {
    settings: OnOff,
    segment: u32,
    draws: Stream,
    step: u64,
    writing: bool,
    burst: Burst,
}

impl Process for Bursts {
    fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
        self.step += 1;
        let OnOff { mean_on, mean_off, rate } = self.settings;
        if let Some(rate) = rate {
            return self.write_at(now, rate);
        }
        self.writing = !self.writing;
        let mean = if self.writing { mean_on } else { mean_off };
        let next = now + exponential(&self.draws, self.step, mean);
        (Some(if self.writing { Do::Write(u64::MAX) } else { Do::Stop }), Some(next))
    }
}

impl Bursts {
    /// Writes the next segment of a burst, or draws the next burst and the pause after it. The
    /// first segment is written at the start of the burst.
    fn write_at(&mut self, now: Time, rate: Rate) -> (Option<Do>, Option<Time>) {
        let spacing = rate.time_for(u64::from(self.segment)).max(Duration(1));
        if self.burst.remaining == 0 {
            let on = exponential(&self.draws, 2 * self.step, self.settings.mean_on);
            let off = exponential(&self.draws, 2 * self.step + 1, self.settings.mean_off);
            self.burst.remaining = on.0.div_ceil(spacing.0);
            self.burst.next = now + on + off;
        }
        (Some(Do::Write(u64::from(self.segment))), Some(self.burst.step(now, spacing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source of noor: 16 kbit/s for one second, nothing for one second, on average. The number
    /// of segments in a burst is rounded up.
    #[test]
    fn bursts_are_written_at_their_rate() {
        let (mean_on, mean_off) = (Duration::secs(1), Duration::secs(1));
        let app = OnOff { mean_on, mean_off, rate: Some(Rate(16_000)) };
        let mut process = app.process(76, Stream::new(1, "traffic x"));
        let (mut now, mut gaps, mut written) = (Time::ZERO, Vec::new(), 0);
        while now < Time::ZERO + Duration::secs(20_000) {
            let (what, next) = process.fire(now);
            assert_eq!(what, Some(Do::Write(76)));
            gaps.push(next.unwrap() - now);
            (now, written) = (next.unwrap(), written + 1);
        }
        let spacing = Duration::millis(38);
        let in_burst = gaps.iter().filter(|g| **g == spacing).count() as f64;
        assert!((in_burst * 0.038 / 20_000.0 - 0.5).abs() < 0.01);
        let expected = 20_000.0 / 2.0 / (1.0 - libm::exp(-0.038));
        assert!((written as f64 / expected - 1.0).abs() < 0.02, "{written} {expected}");
        assert!(!app.is_endless());
    }
}
