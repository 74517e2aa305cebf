//! Benches of the unit tests.

pub mod harness;
pub mod pacing_bench;
