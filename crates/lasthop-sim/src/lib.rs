//! The simulator: runs the protocol core in virtual time.
//!
//! [`run`] builds a network from a checked scenario, simulates it and returns a [`RunResult`]. An
//! [`events::Observer`] receives the events of the run.

pub mod build;
pub mod engine;
pub mod events;
pub mod hosts;
pub mod network;
pub mod probes;
pub mod simulation;

use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::Network;

pub use build::{Options, RunError};
pub use probes::result::RunResult;
pub use probes::{capture, limits, result, verifier};

use events::Observer;
use simulation::Simulation;

/// Simulates a scenario with a seed. Another thread may set `cancel` to stop the run. Without
/// events: pass `()` as `reader`.
///
/// # Errors
///
/// [`RunError::Scenario`] if the scenario cannot be simulated, for example if a scheme needs a node
/// that the flow's path does not have; [`RunError::Cancelled`] if `cancel` was set before the end.
pub fn run<R: Observer>(
    network: &Network,
    seed: u64,
    reader: R,
    cancel: &AtomicBool,
) -> Result<RunResult, RunError> {
    run_with(network, seed, reader, cancel, Options::default())
}

/// Like [`run`], with options.
///
/// # Errors
///
/// As for [`run`].
pub fn run_with<R: Observer>(
    network: &Network,
    seed: u64,
    reader: R,
    cancel: &AtomicBool,
    options: Options,
) -> Result<RunResult, RunError> {
    let mut simulation = Simulation::new(network, seed, reader, options)?;
    if !simulation.run(cancel) {
        return Err(RunError::Cancelled);
    }
    Ok(simulation.result(network, seed))
}

/// The Rust snippets of the documentation, compiled and run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/own-schemes.md")]
pub mod own_schemes {}
