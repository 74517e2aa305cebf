//! The key `random_starts`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::shorthand::{Form, NoTable};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Duration, Quantity};

/// The key `random_starts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RandomStarts {
    /// Each flow starts later than its `start` by a time that is uniform from 0 to this; a trace
    /// without `start` begins at a random place.
    UpTo(Duration),
    /// "none": no command draws them.
    Named(NoStarts),
}

/// The value "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoStarts {
    /// Flows start at their `start`, and traces begin at theirs.
    None,
}

impl RandomStarts {
    /// The range of the starts of flows; 0 if they are not drawn.
    pub fn range(self) -> Duration {
        match self {
            RandomStarts::UpTo(range) => range,
            RandomStarts::Named(NoStarts::None) => Duration::ZERO,
        }
    }
}

impl fmt::Display for RandomStarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RandomStarts::UpTo(range) => write!(f, "{range}"),
            RandomStarts::Named(NoStarts::None) => f.write_str("none"),
        }
    }
}

impl Form for RandomStarts {
    type Table = NoTable;
    const EXPECTED: &'static str = "a time such as \"1 s\" or \"none\"";
    fn short(text: &str) -> Result<Self, Mistake> {
        if text.trim() == "none" {
            return Ok(RandomStarts::Named(NoStarts::None));
        }
        Duration::parse(text)
            .map(RandomStarts::UpTo)
            .map_err(|e| format!("{e}; \"none\" is allowed too").into())
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(RandomStarts::UpTo(Duration::from_number(n)?))
    }
    fn table(_: NoTable) -> Result<Self, Mistake> {
        Err(Mistake::Other(format!("expected {}", Self::EXPECTED)))
    }
}
