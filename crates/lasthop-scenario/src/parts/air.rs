//! Rate, delay and loss of a link: their forms in a file, and their checks.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::checks::Checked;
use crate::text::errors::ErrorKind;
use crate::text::shorthand::{Form, NoTable, schema_forms, some_form};
use crate::text::tree::{Path, Tree};
use lasthop_channel::air::config::{
    DelayConfig, LossConfig, RandomStart, RateConfig, RateStep, TraceStart,
};
use lasthop_channel::air::delay::DelayProcess;
use lasthop_channel::air::loss::{LossProcess, Trace as LossTrace};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Duration, Quantity, Rate, Share};

/// The shortest slot of a random process.
const MIN_SLOT: Duration = Duration(1_000);

const NO_RATE: &str =
    "a rate must be above 0; for a link that is down for a while use `outage` or a schedule";

impl Form for LossConfig {
    type Table = LossConfig;
    const EXPECTED: &'static str = "a loss such as \"1 %\", { model = \"uniform\", rate = \"1 %\" \
                                    } or { trace = \"FILE\" }";
    fn short(text: &str) -> Result<Self, Mistake> {
        Ok(LossConfig::short(text)?)
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(LossConfig::uniform(Share::from_number(n)?))
    }
    fn table(table: LossConfig) -> Result<Self, Mistake> {
        Ok(table)
    }
}

impl Form for DelayConfig {
    type Table = DelayConfig;
    const EXPECTED: &'static str =
        "a delay such as \"170 ms\" or { base = \"170 ms\", table = \"zeng2006\" }";
    fn short(text: &str) -> Result<Self, Mistake> {
        Ok(DelayConfig::constant(Duration::parse(text)?))
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(DelayConfig::constant(Duration::from_number(n)?))
    }
    fn table(table: DelayConfig) -> Result<Self, Mistake> {
        Ok(table)
    }
}

/// The table forms of a rate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateTable {
    schedule: Option<Vec<RateStep>>,
    trace: Option<PathBuf>,
    #[serde(default, deserialize_with = "some_form")]
    start: Option<TraceStart>,
}

impl Form for RateConfig {
    type Table = RateTable;
    const EXPECTED: &'static str = "a rate such as \"250 kbps\", { schedule = [{ at = \"0 s\", \
                                    rate = \"2 Mbps\" }] } or { trace = \"FILE\" }";
    fn short(text: &str) -> Result<Self, Mistake> {
        Ok(RateConfig::Constant(Rate::parse(text)?))
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(RateConfig::Constant(Rate::from_number(n)?))
    }
    fn table(table: RateTable) -> Result<Self, Mistake> {
        match table {
            RateTable { schedule: Some(schedule), trace: None, start: None } => {
                Ok(RateConfig::Schedule { schedule })
            }
            RateTable { schedule: None, trace: Some(trace), start } => {
                Ok(RateConfig::Trace { trace, start: start.unwrap_or_default() })
            }
            RateTable { schedule: Some(_), .. } => Err("`schedule` does not go with `trace` or \
                                                        `start`: a rate is one or the other"
                .into()),
            RateTable { trace: None, .. } => {
                Err(Mistake::Other(format!("expected {}", Self::EXPECTED)))
            }
        }
    }
}

impl Form for TraceStart {
    type Table = NoTable;
    const EXPECTED: &'static str = "a time such as \"10 s\" or \"random\"";
    fn short(text: &str) -> Result<Self, Mistake> {
        if text.trim() == "random" {
            return Ok(TraceStart::Named(RandomStart::Random));
        }
        Duration::parse(text)
            .map(TraceStart::At)
            .map_err(|e| format!("{e}; \"random\" is allowed too").into())
    }
    fn table(_: NoTable) -> Result<Self, Mistake> {
        Err(Mistake::Other(format!("expected {}", Self::EXPECTED)))
    }
}

/// Loss on the air: a share ("1 %", uniform), "none", or a table.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the schema is derived from it")]
pub enum LossForm {
    /// Short form.
    Short(String),
    /// Table form.
    Table(LossConfig),
    /// A loss trace without the word `model`.
    Trace(LossTrace),
}

schema_forms! {
    /// One-way delay: a time ("170 ms") or a table.
    DelayForm = DelayConfig;
}

/// Checks a rate, at `at`.
pub fn check_rate(rate: Option<&RateConfig>, at: &Path, tree: &Tree<'_>) -> Checked {
    match rate {
        Some(RateConfig::Constant(Rate(0))) => return Err(tree.wrong(at, NO_RATE)),
        Some(RateConfig::Schedule { schedule }) => {
            let here = at.at("schedule");
            if schedule.first().is_none_or(|s| s.at > Duration::ZERO) {
                let found = schedule.first().map_or("nothing".to_string(), |s| s.at.to_string());
                return Err(
                    tree.wrong(&here, format!("the first step must be at 0 s, found {found}"))
                );
            }
            if let Some(i) = (1..schedule.len()).find(|&i| schedule[i].at <= schedule[i - 1].at) {
                let (found, before) = (schedule[i].at, schedule[i - 1].at);
                return Err(tree.wrong(
                    &here.at(i).at("at"),
                    format!("steps must come in order of time, but {found} comes after {before}"),
                ));
            }
            if schedule.iter().all(|s| s.rate == Rate(0)) {
                return Err(tree.wrong(&here, NO_RATE));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks the values of a delay.
pub fn check_delay(delay: &DelayConfig) -> Result<(), ErrorKind> {
    DelayProcess::new(delay, 0, "").map_err(ErrorKind::Value)?;
    check_slot(delay.slot)
}

/// Checks the values of a loss model.
pub fn check_loss(loss: &LossConfig) -> Result<(), ErrorKind> {
    LossProcess::new(loss, 0, "").map_err(ErrorKind::Value)?;
    loss.slot().map_or(Ok(()), check_slot)
}

fn check_slot(slot: Duration) -> Result<(), ErrorKind> {
    if slot < MIN_SLOT {
        Err(ErrorKind::Value(format!("slot must be at least {MIN_SLOT}, found {slot}")))
    } else {
        Ok(())
    }
}
