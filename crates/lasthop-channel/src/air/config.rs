//! Configuration of the air models, as scenario files contain it.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use lasthop_core::units::{Duration, Rate, Share, Size};

/// What addresses a random draw (common random numbers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DrawIndex {
    /// The time slot in which the frame starts (and its ordinal within the slot): two schemes that
    /// send at the same time see the same channel realisation.
    #[default]
    Slot,
    /// The ordinal of the frame on the air in its direction.
    Frame,
}

/// How frames are lost on the air. A plain share ("1 %") means uniform loss.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossConfig {
    /// No losses.
    #[default]
    None,
    /// Each frame is lost with the same probability, independently of its size.
    Uniform {
        /// Probability that a frame is lost.
        rate: Share,
        /// What addresses the draws.
        #[serde(default)]
        index: DrawIndex,
        /// Length of a slot, for `index = "slot"`.
        #[serde(default = "default_slot")]
        slot: Duration,
    },
    /// Two-state Markov chain (Gilbert and Elliott): each state has its own loss probability.
    Markov {
        /// Probability to stay in the good state at a step.
        good_to_good: Share,
        /// Probability to stay in the bad state at a step.
        bad_to_bad: Share,
        /// Loss probability in the good state.
        #[serde(default)]
        good_loss: Share,
        /// Loss probability in the bad state.
        #[serde(default = "one")]
        bad_loss: Share,
        /// When the chain takes a step.
        clock: MarkovClock,
        /// Length of a step, for `clock = "slot"`.
        #[serde(default = "default_slot")]
        slot: Duration,
    },
    /// Markov chain of two to 64 states, each with its loss probability; it starts in the first
    /// state.
    MarkovChain {
        /// Loss probability in each state.
        states: Vec<Share>,
        /// A row for each state: the probabilities of the states after a step. A row adds up to 1.
        transitions: Vec<Vec<Share>>,
        /// When the chain takes a step.
        clock: MarkovClock,
        /// Length of a step, for `clock = "slot"`.
        #[serde(default = "default_slot")]
        slot: Duration,
    },
    /// Markov-based Trace Analysis (Konrad, Zhao, Joseph and Ludwig, Wireless Networks 9(3), 2003):
    /// alternating error-free and lossy periods, error-free at the start. In lossy periods the fate
    /// of a frame depends on those of the k frames before.
    Mta {
        /// Length of error-free periods in steps.
        error_free: PeriodLength,
        /// Length of lossy periods in steps.
        lossy: PeriodLength,
        /// Loss probabilities in lossy periods, 2^k for a chain of order k, by the fates of the k
        /// frames before, read as a binary number (1 lost, the latest frame last): for k = 2 after
        /// 00, 01, 10 and 11. One value: independent losses.
        errors: Vec<Share>,
        /// What a step is: a frame, or a slot of time, whose frames share one fate.
        clock: MarkovClock,
        /// Length of a step, for `clock = "slot"`.
        #[serde(default = "default_slot")]
        slot: Duration,
    },
    /// Bit errors of a channel with two states in continuous time, good at the start. Dwell times
    /// are exponential, and a frame has the error rate of the state in which it starts.
    TwoState {
        /// Mean time in the good state.
        good: Duration,
        /// Mean time in the bad state.
        bad: Duration,
        /// Probability that a bit is wrong in the good state.
        #[serde(default)]
        good_rate: f64,
        /// Probability that a bit is wrong in the bad state.
        bad_rate: f64,
        /// What happens to dwell times that end while no frame is transmitted.
        #[serde(default)]
        unseen: IdleAdvance,
        /// What addresses the draws.
        #[serde(default)]
        index: DrawIndex,
        /// Length of a slot, for `index = "slot"`.
        #[serde(default = "default_slot")]
        slot: Duration,
    },
    /// Independent bit errors: a frame of n bits is lost with probability 1 - (1 - rate)^n.
    BitErrors {
        /// Probability that a bit is wrong.
        rate: f64,
        /// What addresses the draws.
        #[serde(default)]
        index: DrawIndex,
        /// Length of a slot, for `index = "slot"`.
        #[serde(default = "default_slot")]
        slot: Duration,
    },
    /// Independent bit errors at the rate with which a frame of a given size is lost with a given
    /// probability; shorter frames are lost less often.
    FrameErrors {
        /// Probability that a frame of `bytes` bytes is lost.
        rate: Share,
        /// The size, link overhead and (in a cell) preamble included. Default: 1100 B, a segment of
        /// 1000 bytes in an 802.11 cell.
        #[serde(default = "frame_bytes")]
        bytes: Size,
        /// What addresses the draws.
        #[serde(default)]
        index: DrawIndex,
        /// Length of a slot, for `index = "slot"`.
        #[serde(default = "default_slot")]
        slot: Duration,
    },
    /// Selected frames are lost, once each.
    Scripted {
        /// "segment:transmission", e.g. "14:2" = the second transmission of segment 14 on this link
        /// (segments count from 1, the SYN is 0).
        #[serde(default)]
        data: Vec<String>,
        /// ACK packets by ordinal on this link; number 1 acknowledges the SYN.
        #[serde(default)]
        acks: Vec<u64>,
        /// They arrive damaged, with intact headers; otherwise nothing arrives.
        #[serde(default)]
        damaged: bool,
    },
}

impl LossConfig {
    /// Each frame is lost with the same probability.
    pub fn uniform(rate: Share) -> Self {
        LossConfig::Uniform { rate, index: DrawIndex::default(), slot: default_slot() }
    }
}

/// What happens to dwell times of a channel that end while no frame is transmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleAdvance {
    /// The dwell times elapse as if frames were transmitted.
    #[default]
    Pass,
    /// The first frame after the end starts the next dwell time, as in ns-2's
    /// `ErrorModel/MultiState`: each bad state affects at least one frame.
    Wait,
}

/// Length of a period of the MTA channel, in steps (at least 1).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PeriodLength {
    /// The mean of a geometric distribution, the exponential one in whole steps.
    Mean(f64),
    /// Quantiles of a measured distribution at equal distances, from the shortest to the longest;
    /// linear between them.
    Quantiles(Vec<f64>),
}

impl<'de> Deserialize<'de> for PeriodLength {
    // Not derived, because a derived untagged enum loses the reason of an error.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = PeriodLength;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mean number of steps (120) or quantiles ([1, 4, 60])")
            }
            fn visit_f64<E>(self, mean: f64) -> Result<PeriodLength, E> {
                Ok(PeriodLength::Mean(mean))
            }
            fn visit_i64<E>(self, mean: i64) -> Result<PeriodLength, E> {
                Ok(PeriodLength::Mean(mean as f64))
            }
            fn visit_u64<E>(self, mean: u64) -> Result<PeriodLength, E> {
                Ok(PeriodLength::Mean(mean as f64))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<PeriodLength, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(PeriodLength::Quantiles)
            }
        }
        d.deserialize_any(V)
    }
}

/// When a chain steps. With `frame`, a sender that is alone on the link and waits for its timer
/// stops the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkovClock {
    /// Once for each frame, before its loss is drawn.
    Frame,
    /// Once per time slot, with or without a frame.
    Slot,
}

fn default_slot() -> Duration {
    Duration::micros(500)
}

fn frame_bytes() -> Size {
    Size::Bytes(1100)
}

fn one() -> Share {
    Share(1.0)
}

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
            from: Duration::ZERO,
            steps: vec![],
            stalls: vec![],
            added: vec![],
            in_order: false,
            index: DrawIndex::Slot,
            slot: default_slot(),
        }
    }
}

/// A delay table: uniform inside each row.
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
    /// Largest one-way delay.
    pub to: Duration,
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
