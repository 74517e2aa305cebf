//! Outages in a scenario: one, several, or a periodic one.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::text::shorthand::passed;
use lasthop_channel::air::config::{OutageConfig, OutageRule};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::Duration;

/// A span in which the link is down, once or periodically.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    /// Start of the first outage.
    from: Duration,
    /// Length.
    length: Duration,
    /// What happens to frames.
    #[serde(default)]
    frames: OutageRule,
    /// Time from one start to the next.
    #[serde(default)]
    every: Option<Duration>,
    /// Number of outages, with `every`.
    #[serde(default)]
    times: Option<u32>,
}

/// Maximum of `times`; more are a mistake.
const MAX_TIMES: u32 = 10_000;

impl OutageSpec {
    fn spans(self) -> Result<Vec<OutageConfig>, Mistake> {
        let OutageSpec { from, length, frames, every, times } = self;
        let (every, times) = match (every, times) {
            (None, None) => (Duration::ZERO, 1),
            (Some(every), Some(times)) if every <= length && times > 1 => {
                let message = format!(
                    "`every` is {every} and the link is down for {length}: it would never come \
                     back"
                );
                return Err(message.into());
            }
            (Some(_), Some(times)) if !(1..=MAX_TIMES).contains(&times) => {
                return Err(format!("`times` must be 1 to {MAX_TIMES}, found {times}").into());
            }
            (Some(every), Some(times)) => (every, times),
            _ => {
                return Err(
                    "`every` and `times` go together, such as every = \"10 s\", times = 6".into()
                );
            }
        };
        Ok((0..u64::from(times))
            .map(|n| OutageConfig { from: from + every * n, length, frames })
            .collect())
    }
}

/// Outages: one table or an array of them.
pub fn outages<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<OutageConfig>>, D::Error> {
    struct V;
    impl<'de> Visitor<'de> for V {
        type Value = Vec<OutageConfig>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(
                "an outage such as { from = \"5 s\", length = \"6 s\" }, or an array of them",
            )
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            OutageSpec::deserialize(MapAccessDeserializer::new(map))?.spans().map_err(passed)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(spec) = list.next_element::<OutageSpec>()? {
                all.extend(spec.spans().map_err(passed)?);
            }
            Ok(all)
        }
    }
    d.deserialize_any(V).map(Some)
}

/// Outages: one or several.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the schema is derived from it")]
pub enum OutageForm {
    /// One.
    One(OutageSpec),
    /// Several, in order of time.
    Several(Vec<OutageSpec>),
}
