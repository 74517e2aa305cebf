//! The sizes of transfers: a size, or a distribution.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::errors::ScenarioError;
use crate::text::files::Traces;
use crate::text::shorthand::Form;
use crate::text::tree::{Path, Tree};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::traffic::{Cdf, DATA_MINING, Sizes, WEB_SEARCH};
use lasthop_core::units::{Quantity, Size};

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

/// Checks the values of a distribution of sizes; `at` is the place of its table.
pub fn check_sizes(sizes: &SizesSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let positive = |size: Size, key: &str| {
        if size.is_zero() { Err(tree.wrong(&at.at(key), "must be above 0")) } else { Ok(()) }
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
