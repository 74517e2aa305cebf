//! Transfers that arrive as a Poisson process: their keys, and the flows that arrive with a seed.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::apps::AppSpec;
use crate::bounds;
use crate::check::MAX_FLOWS;
use crate::defaults::Traces;
use crate::errors::ScenarioError;
use crate::network::{App, Flow, Network};
use crate::shorthand::{Form, NoTable};
use crate::tree::{Path, Tree};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::random::Stream;
use lasthop_core::traffic::{Cdf, DATA_MINING, Sizes, WEB_SEARCH};
use lasthop_core::units::{Duration, Quantity, Rate, Share, Size};

/// The sizes of transfers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SizesSpec {
    /// All have the same size.
    Constant {
        /// The size.
        size: Size,
    },
    /// Exponential.
    Exponential {
        /// Mean size.
        mean: Size,
    },
    /// Pareto.
    Pareto {
        /// Mean size.
        mean: Size,
        /// Shape, above 1.
        #[serde(default = "pareto_shape")]
        shape: f64,
    },
    /// Lognormal; sizes outside the range are drawn again.
    Lognormal {
        /// Median before truncation.
        median: Size,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Smallest size. Default: 1 B.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Size>,
        /// Largest size. Default: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Size>,
    },
    /// A web search cluster (Alizadeh et al. 2010, figure 4).
    WebSearch {},
    /// A data mining cluster (Greenberg et al. 2009, figure 2).
    DataMining {},
    /// A file: lines "SIZE SHARE" of a distribution function, or a size on each line.
    File {
        /// The file. Relative to the scenario file.
        file: PathBuf,
    },
}

fn pareto_shape() -> f64 {
    1.5
}

impl Form for SizesSpec {
    type Table = SizesSpec;
    const EXPECTED: &'static str = "a size such as \"150 kB\", \"web-search\", \"data-mining\" or \
                                    a table such as { distribution = \"pareto\", mean = \"50 kB\" \
                                    } (distributions: constant, exponential, pareto, lognormal, \
                                    web-search, data-mining, file)";
    fn short(text: &str) -> Result<Self, Mistake> {
        match text.trim() {
            "web-search" => Ok(SizesSpec::WebSearch {}),
            "data-mining" => Ok(SizesSpec::DataMining {}),
            other => match Size::parse(other) {
                Ok(size) => Ok(SizesSpec::Constant { size }),
                Err(_) => Err(Mistake::WrongType {
                    expected: Self::EXPECTED.into(),
                    found: format!("\"{text}\""),
                }),
            },
        }
    }
    fn table(table: SizesSpec) -> Result<Self, Mistake> {
        Ok(table)
    }
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
pub fn check(
    sizes: &SizesSpec,
    times: (Option<Duration>, Option<Load>),
    at: &Path,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    match times {
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
    check_sizes(sizes, &at.at("size"), tree)
}

/// Checks the values of a distribution of sizes; `at` is the place of its table.
pub fn check_sizes(sizes: &SizesSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let positive = |size: Size, key: &str| match size {
        Size::Bytes(0) => Err(tree.wrong(&at.at(key), "must be above 0")),
        Size::Segments(n) if n <= 0.0 => Err(tree.wrong(&at.at(key), "must be above 0")),
        _ => Ok(()),
    };
    match sizes {
        SizesSpec::Constant { size } => positive(*size, "size"),
        SizesSpec::Exponential { mean } => positive(*mean, "mean"),
        SizesSpec::Pareto { mean, shape } => {
            positive(*mean, "mean")?;
            if shape.is_finite() && *shape > 1.0 {
                return Ok(());
            }
            let message =
                format!("the shape must be above 1, else there is no mean; found {shape}");
            Err(tree.wrong(&at.at("shape"), message))
        }
        SizesSpec::Lognormal { median, sigma, .. } => {
            positive(*median, "median")?;
            if *sigma > 0.0 && *sigma <= 10.0 {
                return Ok(());
            }
            Err(tree.wrong(&at.at("sigma"), format!("expected 0 to 10, 0 excluded, found {sigma}")))
        }
        SizesSpec::WebSearch {} | SizesSpec::DataMining {} | SizesSpec::File { .. } => Ok(()),
    }
}

/// The distribution of sizes; `at` is the place of its table.
pub fn sizes(
    spec: &SizesSpec,
    segment: u32,
    at: &Path,
    tree: &Tree<'_>,
    traces: &Traces<'_>,
) -> Result<Sizes, ScenarioError> {
    let bytes = |size: Size| size.bytes(segment).max(1) as f64;
    let found = match spec {
        SizesSpec::Constant { size } => Sizes::Constant(size.bytes(segment).max(1)),
        SizesSpec::Exponential { mean } => Sizes::Exponential { mean: bytes(*mean) },
        SizesSpec::Pareto { mean, shape } => Sizes::Pareto { mean: bytes(*mean), shape: *shape },
        SizesSpec::Lognormal { median, sigma, min, max } => Sizes::Lognormal {
            median: bytes(*median),
            sigma: *sigma,
            range: [min.map_or(1.0, bytes), max.map_or(f64::INFINITY, bytes)],
        },
        SizesSpec::WebSearch {} => Sizes::Cdf(Cdf::new(&WEB_SEARCH)),
        SizesSpec::DataMining {} => Sizes::Cdf(Cdf::new(&DATA_MINING)),
        SizesSpec::File { file } => {
            traces.sizes(file).map_err(|kind| tree.error(&at.at("file"), kind))?
        }
    };
    if found.share_in_range() < 0.5 {
        let message = "the range must have at least half of the values";
        return Err(tree.wrong(&at.at("median"), message));
    }
    if found.mean() < 1.0 {
        return Err(tree.wrong(at, "the mean size must be at least 1 B"));
    }
    Ok(found)
}

/// The traffic model of a Poisson process; `None` for other applications. `at` is the place of the
/// `[[flow]]`.
pub fn resolve(
    network: &Network,
    flow: &Flow,
    spec: &AppSpec,
    at: &Path,
    tree: &Tree<'_>,
    traces: &Traces<'_>,
) -> Result<Option<App>, ScenarioError> {
    let AppSpec::Poisson { size, every, load } = spec else { return Ok(None) };
    let at = at.at("app");
    let sizes = sizes(size, flow.segment, &at.at("size"), tree, traces)?;
    let offered = match load {
        None => None,
        Some(Load::Rate(rate)) => Some(rate.0 as f64),
        Some(Load::Share(share)) => match bounds::narrowest_rate(network, flow) {
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
    Ok(Some(app))
}

/// Mean number of flows that a flow of the scenario stands for.
pub(crate) fn expected(network: &Network, flow: &Flow) -> f64 {
    match flow.app {
        App::Poisson { mean_gap, .. } => {
            window(network, flow).as_secs() / mean_gap.as_secs().max(1e-9)
        }
        _ => 1.0,
    }
}

/// The time in which transfers arrive.
fn window(network: &Network, flow: &Flow) -> Duration {
    let end = flow.stop.unwrap_or(network.duration).min(network.duration);
    end.saturating_sub(flow.start)
}

/// See [`Network::for_seed`].
pub(crate) fn for_seed(network: &Network, seed: u64) -> Cow<'_, Network> {
    let is_process = |f: &Flow| matches!(f.app, App::Poisson { .. });
    if !network.flows.iter().any(is_process) {
        return Cow::Borrowed(network);
    }
    let mut flows = Vec::new();
    let mut places = Vec::with_capacity(network.flows.len());
    for flow in &network.flows {
        places.push(flows.len());
        match &flow.app {
            App::Poisson { sizes, mean_gap } => {
                flows.extend(arrivals(network, flow, sizes, *mean_gap, seed));
            }
            _ => flows.push(flow.clone()),
        }
    }
    places.push(flows.len());
    let mut found = Network { flows, ..network.clone() };
    for page in found.sessions.iter_mut().flat_map(|s| &mut s.pages) {
        *page = places[page.start]..places[page.end];
    }
    Cow::Owned(found)
}

/// The transfers of a Poisson process with this seed. The first one is a flow also if it arrives
/// after the end, so that each `[[flow]]` has a flow, and each agent a connection.
fn arrivals(
    network: &Network,
    flow: &Flow,
    sizes: &Sizes,
    mean_gap: Duration,
    seed: u64,
) -> Vec<Flow> {
    let gaps = Stream::new(seed, &format!("arrivals {}", flow.name));
    let stream = Stream::new(seed, &format!("sizes {}", flow.name));
    let end = flow.start + window(network, flow);
    let mut found = Vec::new();
    let mut at = flow.start;
    for k in 0.. {
        let gap = Duration::from_secs_f64(gaps.exponential(k, mean_gap.as_secs()));
        at = at + gap.min(network.duration);
        let is_late = at >= end;
        if !is_late || found.is_empty() {
            let name = format!("{} {}", flow.name, k + 1);
            let app = App::Transfer { size: sizes.draw(stream, k) };
            let start = if is_late { at.max(network.duration) } else { at };
            let stop = None;
            found.push(Flow { name, app, start, stop, is_arrival: true, ..flow.clone() });
        }
        if is_late {
            break;
        }
    }
    found
}

/// Sizes of transfers: a size, the name of a distribution, or a table.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the schema is derived from it")]
pub enum SizesForm {
    /// Short form.
    Short(String),
    /// Table form.
    Table(SizesSpec),
}
