//! Transfers that arrive as a Poisson process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::sizes::{SizesForm, SizesSpec, check_sizes, sizes};
use crate::network::arrivals::expected;
use crate::network::capacity::narrowest_rate;
use crate::network::{App, Flow, Network};
use crate::parts::checks::MAX_FLOWS;
use crate::text::errors::ScenarioError;
use crate::text::files::Traces;
use crate::text::shorthand::{Form, NoTable, form, some_form};
use crate::text::tree::{Path, Tree};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Duration, Quantity, Rate, Share};

/// Transfers that arrive as a Poisson process, each over its own connection; drawn per seed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct PoissonSpec {
    /// Sizes of the transfers: "150 kB", "web-search", "data-mining" or a table.
    #[serde(deserialize_with = "form")]
    #[schemars(with = "SizesForm")]
    pub size: SizesSpec,
    /// Mean time between two arrivals. Either this or `load`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Offered payload: a rate, or a share of the rate of the path's narrowest link.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub load: Option<Load>,
}

/// The offered load of a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Payload per second.
    Rate(Rate),
    /// Share of the rate of the narrowest link of the path.
    Share(Share),
}

impl Form for Load {
    type Table = NoTable;
    const EXPECTED: &'static str = "a rate such as \"2 Mbps\" or a share such as \"50 %\"";
    fn short(text: &str) -> Result<Self, Mistake> {
        if text.contains('%') {
            return Ok(Load::Share(Share::parse(text)?));
        }
        Ok(Load::Rate(Rate::parse(text)?))
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(Load::Share(Share::from_number(n)?))
    }
    fn table(_: NoTable) -> Result<Self, Mistake> {
        Err(Mistake::Other(format!("expected {}", Self::EXPECTED)))
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Load::Rate(rate) => rate.serialize(s),
            // Without the sign a share would be read as a rate.
            Load::Share(Share(share)) => s.serialize_f64(*share),
        }
    }
}

/// Checks the keys of a Poisson process; `at` is the place of its table.
pub fn check(spec: &PoissonSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    match (spec.every, spec.load) {
        (Some(_), Some(_)) => {
            let message = "`every` and `load` exclude each other: both set the rate of arrivals";
            return Err(tree.conflict(&at.at("load"), message));
        }
        (None, None) => {
            let message = "how many transfers arrive? write every = \"2 s\" (mean time between \
                           two) or load = \"50 %\" (of the rate of the narrowest link)";
            return Err(tree.missing(&at.at("every"), message));
        }
        (Some(Duration::ZERO), _) => {
            return Err(tree.wrong(&at.at("every"), "must be above 0 s"));
        }
        (_, Some(Load::Rate(Rate(0)))) | (_, Some(Load::Share(Share(0.0)))) => {
            return Err(tree.wrong(&at.at("load"), "must be above 0"));
        }
        _ => {}
    }
    check_sizes(&spec.size, &at.at("size"), tree)
}

/// The traffic model of a Poisson process; `at` is the place of the `[[flow]]`.
pub fn resolve(
    network: &Network,
    flow: &Flow,
    spec: &PoissonSpec,
    at: &Path,
    tree: &Tree<'_>,
    traces: &Traces<'_>,
) -> Result<App, ScenarioError> {
    let PoissonSpec { size, every, load } = spec;
    let at = at.at("app");
    let sizes = sizes(size, flow.segment, &at.at("size"), tree, traces)?;
    let offered = match load {
        None => None,
        Some(Load::Rate(rate)) => Some(rate.0 as f64),
        Some(Load::Share(share)) => match narrowest_rate(network, flow) {
            Some(rate) => Some(share.0 * rate.0 as f64),
            None => {
                let message = "no link of the path has a known rate; write a rate or `every`";
                return Err(tree.wrong(&at.at("load"), message));
            }
        },
    };
    let of_load = |bits: f64| Duration::from_secs_f64(sizes.mean() * 8.0 / bits);
    let mean_gap = every.or(offered.map(of_load)).unwrap_or_default().max(Duration(1));
    let app = App::Poisson { sizes, mean_gap };
    let others: f64 = network.flows.iter().map(|f| expected(network, f)).sum();
    let arriving = expected(network, &Flow { app: app.clone(), ..flow.clone() });
    if others + arriving > MAX_FLOWS as f64 {
        let key = if every.is_some() { "every" } else { "load" };
        let message = format!(
            "about {arriving:.0} transfers would arrive in the run; more than {MAX_FLOWS} flows \
             are not possible"
        );
        return Err(tree.wrong(&at.at(key), message));
    }
    Ok(app)
}
