//! The `[experiment]` of a scenario: which schemes to compare, what to vary, how often.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::tree::{Path, Tree};
use lasthop_schemes::catalogue::{SchemeChoice, SchemeText};

/// What to compare.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSpec {
    /// The schemes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<SchemeText>,
    /// Keys (as for `--set`) and their values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, Vec<Value>>")]
    pub vary: Map<String, Value>,
    /// Settings that a scheme needs in the scenario: its label, then keys (as for `--set`) and
    /// values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(
        with = "std::collections::BTreeMap<String, std::collections::BTreeMap<String, Value>>"
    )]
    pub settings: Map<String, Value>,
    /// Number of runs; their seeds are 1 to N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub seeds: Option<u32>,
}

impl ExperimentSpec {
    /// True if no key is set.
    pub fn is_empty(&self) -> bool {
        *self == ExperimentSpec::default()
    }
}

/// The experiment of a figure file.
#[derive(Clone, Debug, Default)]
pub struct Experiment {
    /// Schemes to compare; empty if the file does not give them.
    pub schemes: Vec<SchemeChoice>,
    /// Keys and their values.
    pub vary: Vec<Vary>,
    /// Number of runs; their seeds are 1 to N.
    pub seeds: Option<u32>,
    /// `[plot]`, unchanged from the file.
    pub plot: Option<Map<String, Value>>,
    /// `[[claim]]`, unchanged from the file.
    pub claims: Vec<Map<String, Value>>,
}

/// A key and the values of its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// The key, as for `--set`.
    pub key: String,
    /// The values, as for `--set`.
    pub values: Vec<String>,
}

/// Checks `[experiment]`, and that `[plot]` and `[[claim]]` have only values that TOML can express.
pub fn experiment(
    spec: &ExperimentSpec,
    plot: Option<&Map<String, Value>>,
    claims: &[Map<String, Value>],
    tree: &Tree<'_>,
) -> Result<Experiment, ScenarioError> {
    let at = Path::key("experiment");
    let mut schemes: Vec<SchemeChoice> = Vec::new();
    for (i, text) in spec.schemes.iter().enumerate() {
        let here = at.at("schemes").at(i);
        let choice = tree.scheme(text).map_err(|e| tree.error(&here, ErrorKind::Scheme(e)))?;
        if schemes.iter().any(|s| s.label == choice.label) {
            let kind = ErrorKind::DuplicateLabel { label: choice.label };
            return Err(tree.error(&here, kind));
        }
        schemes.push(choice);
    }
    let mut vary = Vec::new();
    for (key, values) in &spec.vary {
        let here = at.at("vary").at(key.as_str());
        let list = values.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| {
            tree.wrong(&here, "expected an array of values such as [\"0 %\", \"1 %\"]")
        })?;
        let texts: Option<Vec<String>> = list.iter().map(text).collect();
        let values =
            texts.ok_or_else(|| tree.wrong(&here, "nan, inf and dates are not values of a key"))?;
        vary.push(Vary { key: key.clone(), values });
    }
    for (label, settings) in &spec.settings {
        let here = at.at("settings").at(label.as_str());
        if settings.as_object().is_none_or(|table| table.values().any(has_null)) {
            return Err(tree.wrong(
                &here,
                "expected a table of keys and values such as { \"link.radio.queue\" = \"20 \
                 packets\" }",
            ));
        }
    }
    if spec.seeds == Some(0) {
        return Err(tree.wrong(&at.at("seeds"), "at least 1 run is needed, found 0"));
    }
    if plot.is_some_and(|plot| plot.values().any(has_null)) {
        return Err(tree.wrong(&Path::key("plot"), "nan and inf are not allowed here"));
    }
    if let Some(i) = claims.iter().position(|claim| claim.values().any(has_null)) {
        return Err(tree.wrong(&Path::key("claim").at(i), "nan and inf are not allowed here"));
    }
    Ok(Experiment {
        schemes,
        vary,
        seeds: spec.seeds,
        plot: plot.cloned(),
        claims: claims.to_vec(),
    })
}

/// A value in the form of `--set`.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        _ if has_null(value) => None,
        _ => toml::Value::try_from(value).ok().map(|v| v.to_string()),
    }
}

/// JSON has no nan and no inf: they become null.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(table) => table.values().any(has_null),
        _ => false,
    }
}
