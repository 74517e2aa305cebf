//! Datagrams at a constant rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{Application, Fault, Process, above};
use super::operation::Do;
use crate::random::Stream;
use crate::units::{Duration, Rate, Time};

/// Datagrams at a constant rate; not TCP.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Cbr {
    /// Rate of the payload.
    pub rate: Rate,
}

impl Application for Cbr {
    type Process = Spaced;
    const IS_DATAGRAMS: bool = true;

    fn check(&self) -> Result<(), Fault> {
        above("rate", self.rate, "0")
    }

    fn rate(&self, _segment: u32) -> f64 {
        self.rate.0 as f64
    }

    fn process(&self, segment: u32, _draws: Stream) -> Spaced {
        Spaced::new(segment, self.rate.time_for(u64::from(segment)))
    }
}

/// Datagrams with a constant spacing in whole nanoseconds: rounding errors do not accumulate.
#[derive(Clone, Debug)]
pub struct Spaced {
    segment: u32,
    interval: Duration,
}

impl Spaced {
    /// Datagrams with `segment` bytes of payload.
    pub(super) fn new(segment: u32, interval: Duration) -> Spaced {
        Spaced { segment, interval }
    }
}

impl Process for Spaced {
    fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
        (Some(Do::Datagram(self.segment)), Some(now + self.interval))
    }
}
