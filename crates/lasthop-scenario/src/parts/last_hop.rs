//! `[last_hop]`: the short form of a network. Its keys, their checks and defaults, and the links
//! that it stands for.

use std::path::PathBuf;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::air::check_rate;
use super::checks::Checked;
use super::link::{LinkSpec, PathSpec, check_path};
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::files::Traces;
use crate::text::keys::keys_of;
use crate::text::shorthand::some_form;
use crate::text::tree::{Path, Tree};
use lasthop_channel::air::config::{DelayConfig, RateConfig, TraceStart};
use lasthop_channel::queue::QueueConfig;
use lasthop_core::units::{Duration, Rate};

/// Keys of `[last_hop]`.
pub static KEYS: LazyLock<Vec<String>> = LazyLock::new(keys_of::<LastHop>);

const DEFAULT_RATE: Rate = Rate(10_000_000);
const DEFAULT_RTT: Duration = Duration::millis(40);
/// Rate of the wired link of `[last_hop]`, unless the radio is faster than a tenth of it.
const WIRED_RATE: Rate = Rate(1_000_000_000);
/// The highest rate that a file may contain.
const MAX_RATE: Rate = Rate(10_000_000_000_000);

/// The short form: `server` – fast wired link `wired` – `bs` – link `radio` – `phone`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LastHop {
    /// Mahimahi trace of the downlink. Relative to the scenario file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<PathBuf>,
    /// Mahimahi trace of the uplink. Default with `down`: the mean rate of that trace, constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<PathBuf>,
    /// Rate of the downlink, as `rate`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub down_rate: Option<RateConfig>,
    /// Rate of the uplink, as `rate`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub up_rate: Option<RateConfig>,
    /// Offset in the traces at which the run begins: a time, or "random" (drawn per seed, the same
    /// in both directions). Default: 0 s.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub start: Option<TraceStart>,
    /// Round-trip time without queueing and serialisation, split evenly over the four one-way
    /// delays. Default: 40 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// Settings of the radio link. `rate` is that of the directions that have neither a trace nor a
    /// rate; `delay` replaces the quarter of `rtt`.
    #[serde(flatten)]
    pub radio: PathSpec,
}

/// Checks the values of a last hop.
pub fn check(last_hop: &LastHop, tree: &Tree<'_>) -> Checked {
    let at = Path::key("last_hop");
    for (trace, rate, names) in [
        (&last_hop.down, &last_hop.down_rate, ["down", "down_rate"]),
        (&last_hop.up, &last_hop.up_rate, ["up", "up_rate"]),
    ] {
        if trace.is_some() && rate.is_some() {
            let [first, second] = names;
            return Err(tree.error(&at.at(second), ErrorKind::Exclusive { first, second }));
        }
    }
    for (key, rate) in [("down_rate", &last_hop.down_rate), ("up_rate", &last_hop.up_rate)] {
        check_rate(rate.as_ref(), &at.at(key), tree)?;
    }
    if last_hop.start.is_some() && last_hop.down.is_none() && last_hop.up.is_none() {
        return Err(tree.conflict(
            &at.at("start"),
            "`start` is the phase of a trace, and neither `down` nor `up` names one",
        ));
    }
    check_path(&last_hop.radio, &at, tree)
}

/// The links of a `[last_hop]`: a wired one that is never the bottleneck, and the radio link. Each
/// of the four directions has a quarter of the round-trip time.
pub fn expand(
    last_hop: LastHop,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
    assumed: &mut Vec<String>,
) -> Result<Vec<LinkSpec>, ScenarioError> {
    let Rates { down, up, fastest } = rates(&last_hop, tree, traces, assumed)?;
    let rtt = last_hop.rtt.unwrap_or(DEFAULT_RTT);
    if last_hop.rtt.is_none() {
        assumed.push(format!("round-trip time {rtt}: none is given"));
    }
    let quarter = DelayConfig::constant(Duration(rtt.0 / 4));
    let wired_rate = WIRED_RATE.max(Rate(fastest.0.saturating_mul(10))).min(MAX_RATE);
    let alike = down == up;
    let radio = PathSpec {
        rate: alike.then(|| down.clone()),
        delay: Some(last_hop.radio.delay.unwrap_or_else(|| quarter.clone())),
        ..last_hop.radio
    };
    let one_way =
        |rate: RateConfig| PathSpec { rate: (!alike).then_some(rate), ..PathSpec::default() };
    let link = |name: &str, a: &str, b: &str| LinkSpec {
        name: Some(name.into()),
        between: vec![a.into(), b.into()],
        ..LinkSpec::default()
    };
    let wired = PathSpec {
        rate: Some(RateConfig::Constant(wired_rate)),
        delay: Some(quarter),
        queue: Some(QueueConfig::UNLIMITED.into()),
        ..PathSpec::default()
    };
    Ok(vec![
        LinkSpec { both: wired, ..link("wired", "server", "bs") },
        LinkSpec {
            radio: true,
            both: radio,
            forward: one_way(down),
            backward: one_way(up),
            ..link("radio", "bs", "phone")
        },
    ])
}

/// Rates of a last hop.
struct Rates {
    down: RateConfig,
    up: RateConfig,
    /// The higher one, of a trace its mean.
    fastest: Rate,
}

/// The rates of a `[last_hop]`. A direction without a rate has the mean of the other direction's
/// trace, if there is one; `assumed` gets what the file does not say.
fn rates(
    last_hop: &LastHop,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
    assumed: &mut Vec<String>,
) -> Result<Rates, ScenarioError> {
    let at = Path::key("last_hop");
    let mut mean = |path: Option<&PathBuf>, at: Path| -> Result<Option<Rate>, ScenarioError> {
        let Some(path) = path else { return Ok(None) };
        let trace = traces.get(path).map_err(|e| tree.error(&at, e))?;
        Ok(Some(trace.mean_rate().min(MAX_RATE)))
    };
    let means =
        [mean(last_hop.down.as_ref(), at.at("down"))?, mean(last_hop.up.as_ref(), at.at("up"))?];
    let mut rate_of = |name: &str, other: &str, trace: &Option<PathBuf>, rate, i: usize| match trace
    {
        Some(trace) => {
            let start = last_hop.start.clone().unwrap_or_default();
            RateConfig::Trace { trace: trace.clone(), start }
        }
        None => match (rate, means[1 - i]) {
            (Some(rate), _) => RateConfig::clone(rate),
            (None, Some(mean)) => {
                assumed.push(format!(
                    "{name} {mean}: no rate is given, so it has the mean of the trace of the \
                     {other}"
                ));
                RateConfig::Constant(mean)
            }
            (None, None) => RateConfig::Constant(DEFAULT_RATE),
        },
    };
    let [down_rate, up_rate] = [&last_hop.down_rate, &last_hop.up_rate]
        .map(|own| own.as_ref().or(last_hop.radio.rate.as_ref()));
    let down = rate_of("downlink", "uplink", &last_hop.down, down_rate, 0);
    let up = rate_of("uplink", "downlink", &last_hop.up, up_rate, 1);
    if means == [None, None] && (down_rate.is_none() || up_rate.is_none()) {
        assumed.push(format!("rate of the last hop {DEFAULT_RATE}: none is given"));
    }
    let mut fastest = Rate(0);
    for (rate, key) in [(&down, "down_rate"), (&up, "up_rate")] {
        let key = if tree.get(&at.at(key)).is_some() { key } else { "rate" };
        fastest = fastest.max(match rate {
            RateConfig::Constant(rate) => *rate,
            RateConfig::Schedule { schedule } => {
                schedule.iter().map(|step| step.rate).max().unwrap_or_default()
            }
            RateConfig::Trace { trace, .. } => {
                mean(Some(trace), at.at(key).at("trace"))?.unwrap_or_default()
            }
        });
    }
    Ok(Rates { down, up, fastest })
}
