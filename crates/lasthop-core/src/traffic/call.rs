//! Calls: datagrams at a constant interval, each of which is useless after a deadline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{Application, Fault, Quality, above};
use super::cbr::Spaced;
use crate::random::Stream;
use crate::units::{Duration, Size};

/// A call: datagrams (of `segment`, default 160 B) at a constant interval. Those that take
/// longer than `deadline` are late.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Call {
    /// Time between two datagrams. Default: 20 ms.
    #[serde(default = "packet_interval")]
    pub every: Duration,
    /// Time from sending to playing. Default: 150 ms.
    #[serde(default = "deadline")]
    pub deadline: Duration,
}

/// G.711 in packets of 20 ms (RFC 3551).
fn packet_interval() -> Duration {
    Duration::millis(20)
}

/// One-way delay that most applications bear without loss of quality (ITU-T G.114).
pub(super) fn deadline() -> Duration {
    Duration::millis(150)
}

impl Application for Call {
    type Process = Spaced;
    const IS_DATAGRAMS: bool = true;
    const PAYLOAD: Option<Size> = Some(Size::Bytes(160));

    fn check(&self) -> Result<(), Fault> {
        above("every", self.every, "0 s")?;
        above("deadline", self.deadline, "0 s")
    }

    fn rate(&self, segment: u32) -> f64 {
        8.0 * f64::from(segment) / self.every.as_secs()
    }

    fn quality(&self) -> Option<Quality> {
        Some(Quality::Call { interval: self.every, deadline: self.deadline })
    }

    fn process(&self, segment: u32, _draws: Stream) -> Spaced {
        Spaced::new(segment, self.every)
    }
}
