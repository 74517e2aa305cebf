//! Benches of the unit tests.

use serde::de::DeserializeOwned;
use serde_json::Value;

pub mod harness;
pub mod pacing_bench;

/// Settings from TOML, by way of a JSON value like those of a scenario: deserialisers of TOML are
/// not compiled for each type.
pub fn settings<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_value(toml::from_str::<Value>(text).unwrap()).unwrap()
}
