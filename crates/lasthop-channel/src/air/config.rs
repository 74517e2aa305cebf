//! Configuration of the air models, as scenario files contain it. Those of loss models are with the
//! models, see [`loss`](super::loss).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

pub use super::draws::DrawIndex;
use super::draws::default_slot;
pub use super::loss::{IdleAdvance, LossConfig, MarkovClock, PeriodLength};
use super::series::Series;
use lasthop_core::units::{Duration, Rate, Share};

/// Propagation delay of a link. A plain time ("170 ms") is a constant delay.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayConfig {
    /// The delay where none of the settings below applies.
    #[serde(default)]
    pub base: Duration,
    /// Draw the delay of each frame from a table instead of `base`: a built-in name ("zeng2006") or
    /// rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<DelayTable>,
    /// Draw the delay of each frame from a distribution instead of `base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<DelayDistribution>,
    /// Delays over time from a file, instead of `base`: on each line a time and a one-way delay in
    /// milliseconds, held until the next time. Relative to the scenario file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Offset in `trace` at which the run begins: a time, or "random" (drawn per seed, the same as
    /// for a trace of the rate).
    #[serde(default, skip_serializing_if = "TraceStart::is_zero")]
    pub start: TraceStart,
    /// With a trace: a frame with a shorter delay overtakes the frames before it. By default it
    /// arrives with the last of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reorder: bool,
    /// The rows of `trace`; a host reads them before it builds a link.
    #[serde(skip)]
    pub rows: Option<Arc<Series>>,
    /// Draw only from this time on; `base` applies before.
    #[serde(default)]
    pub from: Duration,
    /// New values of the delay from given times on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<DelayStep>,
    /// Spans in which frames are stalled: a frame that starts in the span arrives `base` after its
    /// end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Span>,
    /// Spans in which the delay is longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<AddedDelay>,
    /// Selected frames are delayed, once each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scripted: Option<ScriptedDelay>,
    /// Frames are not reordered: a frame that would overtake another arrives one serialisation time
    /// after the latest arrival so far.
    #[serde(default)]
    pub in_order: bool,
    /// What addresses the draws.
    #[serde(default)]
    pub index: DrawIndex,
    /// Length of a slot, for `index = "slot"`.
    #[serde(default = "default_slot")]
    pub slot: Duration,
}

impl DelayConfig {
    /// A constant delay.
    pub fn constant(base: Duration) -> Self {
        DelayConfig {
            base,
            table: None,
            distribution: None,
            trace: None,
            start: TraceStart::default(),
            reorder: false,
            rows: None,
            from: Duration::ZERO,
            steps: vec![],
            stalls: vec![],
            added: vec![],
            scripted: None,
            in_order: false,
            index: DrawIndex::Slot,
            slot: default_slot(),
        }
    }
}

/// A delay table: uniform inside each row, or with an exponential tail.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DelayTable {
    /// A built-in table by name: "zeng2006" is Table 1 of the thesis.
    Named(String),
    /// Rows.
    Rows(Vec<DelayRow>),
}

impl<'de> Deserialize<'de> for DelayTable {
    // Not derived, because a derived untagged enum loses the reason of an error in a row.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = DelayTable;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a table (\"zeng2006\") or rows such as { share = \"80 %\", from \
                     = \"153 ms\", to = \"195 ms\" }",
                )
            }
            fn visit_str<E>(self, name: &str) -> Result<DelayTable, E> {
                Ok(DelayTable::Named(name.to_string()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, rows: A) -> Result<DelayTable, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(rows)).map(DelayTable::Rows)
            }
        }
        d.deserialize_any(V)
    }
}

/// One row of a delay table.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayRow {
    /// Share of the frames in this row.
    pub share: Share,
    /// Smallest one-way delay.
    pub from: Duration,
    /// Largest one-way delay; uniform between the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Duration>,
    /// Instead of `to`: the delay beyond `from` is exponential with this mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Duration>,
}

/// A distribution of the one-way delay.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DelayDistribution {
    /// Uniform between two values.
    Uniform {
        /// Smallest.
        from: Duration,
        /// Largest.
        to: Duration,
    },
    /// Normal, truncated at zero.
    Normal {
        /// Mean.
        mean: Duration,
        /// Standard deviation.
        sd: Duration,
    },
    /// A minimum plus an exponential part.
    Exponential {
        /// Minimum.
        min: Duration,
        /// Mean of the part above the minimum.
        mean: Duration,
    },
    /// A minimum plus a Pareto part.
    Pareto {
        /// Minimum.
        min: Duration,
        /// Mean of the part above the minimum.
        mean: Duration,
        /// Shape, above 1.
        shape: f64,
    },
}

/// From `at` on the delay is `delay`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayStep {
    /// Time of the step.
    pub at: Duration,
    /// The delay from then on.
    pub delay: Duration,
}

/// A span of time: from `from` for `length`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Start.
    pub from: Duration,
    /// Length.
    pub length: Duration,
}

/// A span in which `extra` is added to the delay.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddedDelay {
    /// Start.
    pub from: Duration,
    /// Length.
    pub length: Duration,
    /// Added to the delay of each frame that starts in the span.
    pub extra: Duration,
}

/// Selected frames are delayed, once each. For scenarios with a single flow.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptedDelay {
    /// "segment:transmission + time", e.g. "25:1 + 50 ms" = the first transmission of segment 25 on
    /// this link is delayed by 50 ms more (segments count from 1, the SYN is 0).
    #[serde(default)]
    pub data: Vec<String>,
    /// "ACK packet + time", e.g. "4 + 50 ms", by ordinal on this link; number 1 acknowledges the
    /// SYN.
    #[serde(default)]
    pub acks: Vec<String>,
}

/// Rate of a link. A plain rate ("250 kbps") is a constant rate.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RateConfig {
    /// A constant rate.
    Constant(Rate),
    /// New rates from given times on. A frame is sent at the rate at its start (ns-2's rule), and
    /// waits while the rate is zero.
    Schedule {
        /// Steps in order of time; the first must be at 0 s.
        schedule: Vec<RateStep>,
    },
    /// A Mahimahi trace: one integer per line, milliseconds; each line is an opportunity for up to
    /// 1500 bytes.
    Trace {
        /// The file. Relative to the scenario file.
        trace: PathBuf,
        /// Offset in the trace at which the run begins: a time, or "random" (drawn per seed, the
        /// same in both directions).
        #[serde(default)]
        start: TraceStart,
    },
}

/// A step of a rate schedule.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Time of the step.
    pub at: Duration,
    /// The rate from then on.
    pub rate: Rate,
}

/// Start offset of a trace.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TraceStart {
    /// This time from the start of the trace.
    At(Duration),
    /// "random".
    Named(RandomStart),
}

/// The value "random".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RandomStart {
    /// Drawn per seed, the same in both directions.
    Random,
}

impl TraceStart {
    /// True if the run begins at the start of the trace.
    pub fn is_zero(&self) -> bool {
        *self == TraceStart::default()
    }
}

impl Default for TraceStart {
    fn default() -> Self {
        TraceStart::At(Duration::ZERO)
    }
}

/// A span in which the link is down.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutageConfig {
    /// Start.
    pub from: Duration,
    /// Length.
    pub length: Duration,
    /// What happens to frames.
    #[serde(default)]
    pub frames: OutageRule,
}

/// What an outage does to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutageRule {
    /// The link stops serialising, also within a frame, and continues afterwards where it stopped.
    #[default]
    Held,
    /// Frames that start while the link is down are lost.
    LostAtSending,
    /// Frames that would arrive while the link is down are lost.
    LostAtArrival,
}
