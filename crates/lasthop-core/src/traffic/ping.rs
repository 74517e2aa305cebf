//! Datagrams that the receiver answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{Application, Fault, Quality, above};
use super::cbr::Spaced;
use crate::random::Stream;
use crate::units::{Duration, Size};

/// Datagrams (of `segment`, default 60 B) that the receiver answers; measures the round-trip
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Ping {
    /// Time between two datagrams. Default: 100 ms.
    #[serde(default = "ping_interval")]
    pub every: Duration,
}

fn ping_interval() -> Duration {
    Duration::millis(100)
}

impl Application for Ping {
    type Process = Spaced;
    const IS_DATAGRAMS: bool = true;
    const IS_ANSWERED: bool = true;
    const DATAGRAMS: &'static str = "datagrams that the receiver answers, at";
    const PAYLOAD: Option<Size> = Some(Size::Bytes(60));

    fn check(&self) -> Result<(), Fault> {
        above("every", self.every, "0 s")
    }

    fn rate(&self, segment: u32) -> f64 {
        8.0 * f64::from(segment) / self.every.as_secs()
    }

    fn quality(&self) -> Option<Quality> {
        Some(Quality::RoundTrip)
    }

    fn process(&self, segment: u32, _draws: Stream) -> Spaced {
        Spaced::new(segment, self.every)
    }
}
