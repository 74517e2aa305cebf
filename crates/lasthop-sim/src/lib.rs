//! The simulator: drives the protocol core with virtual time.
//!
//! `run` builds a network from a checked scenario, runs it, and gives the result. What happens on
//! the way goes to a [`events::Reader`].

pub mod agents;
pub mod build;
mod burst;
pub mod capture;
pub mod cells;
pub mod connection;
mod errors;
pub mod events;
pub mod handover;
pub mod ledger;
pub mod limits;
pub mod net;
pub mod oracle;
pub mod pool;
pub mod relay;
pub mod result;
pub mod scheduler;
pub mod sessions;
pub mod simulation;
pub mod truth;
pub mod verifier;

use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::Network;

pub use build::{Options, RunError};
pub use result::RunResult;

use events::Observer;
use simulation::Simulation;

/// Runs a scenario with a seed. `cancel` may be set from another thread to stop it.
pub fn run<R: Observer>(
    network: &Network,
    seed: u64,
    reader: R,
    cancel: &AtomicBool,
) -> Result<RunResult, RunError> {
    run_with(network, seed, reader, cancel, Options::default())
}

/// `run`, with options.
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
