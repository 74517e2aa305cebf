//! A run with the verifier as its observer: the frame of the property tests of random networks.

use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::Network;
use lasthop_sim::events::AnyObserver;
use lasthop_sim::hosts::endpoint::Connection;
use lasthop_sim::simulation::Simulation;
use lasthop_sim::verifier::Verifier;
use lasthop_sim::{Options, RunResult};
use proptest::prelude::*;

use super::{json, to_json};

/// A run that the verifier has observed.
pub struct Verified {
    pub verifier: Verifier,
    pub result: RunResult,
    pub connections: Vec<Connection>,
    /// Segments in the pool at the end.
    pub in_pool: u64,
}

/// Runs a network. Fails if it does not end, or if a bit is not accounted for.
pub fn verified(network: &Network, seed: u64) -> Result<Verified, TestCaseError> {
    let mut verifier = Verifier::new(network);
    let observer = AnyObserver::new(&mut verifier);
    let mut simulation = Simulation::new(network, seed, observer, Options::default()).unwrap();
    prop_assert!(simulation.run(&AtomicBool::new(false)));
    let result = simulation.result(network, seed);
    let in_pool = simulation.in_transit() as u64;
    let connections = simulation.into_connections();
    let traffic = result.traffic_bits;
    prop_assert_eq!(traffic.balance(), 0, "every bit is accounted for: {:?}", traffic);
    Ok(Verified { verifier, result, connections, in_pool })
}

impl Verified {
    /// Fails if a run without observers is another one.
    pub fn check_unobserved(&self, network: &Network, seed: u64) -> Result<(), TestCaseError> {
        prop_assert_eq!(to_json(&self.result), json(network, seed), "without observers");
        Ok(())
    }

    /// Fails if the verifier has found a violation.
    pub fn check(&self) -> Result<(), TestCaseError> {
        self.verifier.finish_with(&self.result).map_err(|v| TestCaseError::fail(v.join("\n")))
    }

    /// Fails unless the pool holds the segments in transit and at most `held` others: those that
    /// stations of a cell keep although they have arrived, because no link ACK has.
    pub fn check_pool(&self, held: u64) -> Result<(), TestCaseError> {
        let in_transit = self.verifier.counts().in_transit;
        let expected = in_transit..=in_transit + held;
        prop_assert!(expected.contains(&self.in_pool), "{in_transit} of {}", self.in_pool);
        Ok(())
    }
}
