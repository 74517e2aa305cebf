//! The simulator: runs the protocol core in virtual time.
//!
//! [`run`] builds a network from a checked scenario, simulates it and returns a [`RunResult`]. An
//! [`events::Observer`] receives the events of the run.
//!
//! The modules are floors; each imports only from its own and from lower ones, from the lowest:
//! [`engine`] (event queue, pool of segments), [`events`] (what happens in a run), [`network`]
//! (links, cells, routes), [`hosts`] (what runs at the nodes), [`probes`] (what measures),
//! [`metrics`] (numbers that comparisons average), [`build`], [`simulation`] (the event loop).
//!
//! # Examples
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use lasthop::scenario::{Overrides, load};
//! use lasthop_sim::events::{Event, Kind, Observer};
//!
//! /// Counts timeouts.
//! struct Timeouts(u32);
//!
//! impl Observer for Timeouts {
//!     fn on_event(&mut self, event: &Event<'_>) {
//!         self.0 += u32::from(event.kind == Kind::Timeout);
//!     }
//! }
//!
//! # use lasthop::scenario::Files;
//! # struct NoFiles;
//! # impl Files for NoFiles {
//! #     fn open(&self, _: &std::path::Path) -> std::io::Result<Box<dyn std::io::Read>> {
//! #         Err(std::io::ErrorKind::NotFound.into())
//! #     }
//! # }
//! let text = r#"
//!     duration = "10 s"
//!     last_hop = { rate = "2 Mbps", rtt = "100 ms", loss = "10 %" }
//! "#;
//! let scenario = load(text, None, &Overrides::default(), &NoFiles).unwrap();
//! let mut timeouts = Timeouts(0);
//! let cancel = AtomicBool::new(false);
//! let result = lasthop_sim::run(&scenario.network, 1, &mut timeouts, &cancel).unwrap();
//! assert_eq!(u64::from(timeouts.0), result.flows[0].timeouts.total);
//! ```

#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

pub mod build;
pub mod engine;
pub mod events;
pub mod hosts;
pub mod metrics;
pub mod network;
pub mod probes;
pub mod simulation;

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::Network;

pub use build::{Options, RunError};
pub use probes::result::RunResult;
pub use probes::{capture, limits, result, verifier};

use build::link_plan::{Choice, Plan};
use events::{AnyObserver, Event, Observer};
use hosts::external::Endpoint;
use probes::datagrams::DatagramRecord;
use probes::result::Contents;
use simulation::Simulation;

/// Simulates a scenario with a seed. A network with Poisson processes runs with the flows that
/// arrive with this seed; an observer that has state per flow is made from
/// [`Network::for_seed`]. Another thread may set `cancel` to stop the run. Without
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
    let mut reader = reader;
    let network = &*network.for_seed(seed);
    if R::ACTIVE {
        observed(network, seed, AnyObserver::new(&mut reader), cancel, options)
    } else {
        unobserved(network, seed, cancel, options)
    }
}

/// Like [`run_with`], with external stacks: the flows whose application is
/// [`External`](lasthop::traffic::App::External) are theirs. `endpoints`: for each such flow, in
/// order, the end at its sender's node and that at its receiver's. Also returns, for each end, the
/// datagrams that were sent to it.
///
/// # Errors
///
/// As for [`run`]; [`RunError::Scenario`] also if the number of ends is wrong, or an end sends or
/// sets timeouts without end, or sends a datagram that is too long for IP.
pub fn run_with_endpoints<R: Observer>(
    network: &Network,
    seed: u64,
    endpoints: &mut [&mut dyn Endpoint],
    reader: R,
    cancel: &AtomicBool,
    options: Options,
) -> Result<(RunResult, Vec<Vec<DatagramRecord>>), RunError> {
    let mut reader = reader;
    let network = &*network.for_seed(seed);
    if R::ACTIVE {
        let simulation = Simulation::new(network, seed, AnyObserver::new(&mut reader), options)?;
        finish_with(simulation, network, seed, endpoints, cancel)
    } else {
        let simulation = Simulation::new(network, seed, (), options)?;
        finish_with(simulation, network, seed, endpoints, cancel)
    }
}

/// Not generic, like [`unobserved`]: the simulator is compiled for these two and not once more for
/// each type of observer.
fn observed(
    network: &Network,
    seed: u64,
    reader: AnyObserver<'_>,
    cancel: &AtomicBool,
    options: Options,
) -> Result<RunResult, RunError> {
    finish(Simulation::new(network, seed, reader, options)?, network, seed, cancel)
}

fn unobserved(
    network: &Network,
    seed: u64,
    cancel: &AtomicBool,
    options: Options,
) -> Result<RunResult, RunError> {
    finish(Simulation::new(network, seed, (), options)?, network, seed, cancel)
}

fn finish<R: Observer>(
    simulation: Simulation<R>,
    network: &Network,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<RunResult, RunError> {
    Ok(finish_with(simulation, network, seed, &mut [], cancel)?.0)
}

fn finish_with<R: Observer>(
    mut simulation: Simulation<R>,
    network: &Network,
    seed: u64,
    endpoints: &mut [&mut dyn Endpoint],
    cancel: &AtomicBool,
) -> Result<(RunResult, Vec<Vec<DatagramRecord>>), RunError> {
    run_to_end(&mut simulation, endpoints, cancel)?;
    let datagrams = simulation.take_datagrams();
    Ok((simulation.into_result(network, seed, Contents::ALL), datagrams))
}

fn run_to_end<R: Observer>(
    simulation: &mut Simulation<R>,
    endpoints: &mut [&mut dyn Endpoint],
    cancel: &AtomicBool,
) -> Result<(), RunError> {
    let (given, wanted) = (endpoints.len(), simulation.endpoints());
    if given != wanted {
        let message = format!("{wanted} ends of external stacks are needed, {given} are given");
        return Err(RunError::Scenario(message));
    }
    if !simulation.run_with(endpoints, cancel) {
        return Err(RunError::Cancelled);
    }
    match simulation.endpoint_failure() {
        Some(why) => Err(RunError::Scenario(why.to_string())),
        None => Ok(()),
    }
}

/// A network that is simulated with many seeds. What does not depend on the seed is computed once,
/// and the memory of a run is used again.
pub struct Repeated<'a> {
    network: &'a Network,
    /// The same, with the time that receivers take to answer.
    timed: Cow<'a, Network>,
    /// How it is computed.
    choice: OnceCell<Choice>,
    /// What the results contain.
    contents: Contents,
    /// The last run, for its memory.
    last: Cell<Option<Simulation<()>>>,
    /// A result that is no longer used.
    old: Cell<Option<RunResult>>,
}

/// The memory of a run with more connections is freed: it would be there while the next run and the
/// result are made.
const MOST_KEPT: usize = 100;

impl<'a> Repeated<'a> {
    /// Runs of this network, with these contents of their results.
    pub fn new(network: &'a Network, contents: Contents) -> Repeated<'a> {
        let (timed, choice) = (network.with_processing_times(), OnceCell::new());
        Repeated { network, timed, choice, contents, last: Cell::default(), old: Cell::default() }
    }

    /// Takes a result of one of these runs that is no longer used, for its memory.
    pub fn take_back(&self, result: RunResult) {
        self.old.set(Some(result).filter(|result| result.flows.len() <= MOST_KEPT));
    }

    /// As [`run`], without an observer.
    ///
    /// # Errors
    ///
    /// As for [`run`].
    pub fn run(&self, seed: u64, cancel: &AtomicBool) -> Result<RunResult, RunError> {
        let network = self.network.for_seed(seed);
        let options = Options::default();
        let mut last = self.last.take();
        let mut simulation = match &network {
            Cow::Borrowed(_) => {
                let links = last.as_mut().map(Simulation::take_links).unwrap_or_default();
                Simulation::of_timed(&self.timed, seed, (), options, &self.choice, links)?
            }
            Cow::Owned(network) => Simulation::new(network, seed, (), options)?,
        };
        if let Some(last) = last {
            simulation.reuse_memory(last);
        }
        run_to_end(&mut simulation, &mut [], cancel)?;
        if simulation.connections().len() > MOST_KEPT {
            return Ok(simulation.into_result(&network, seed, self.contents));
        }
        // The flows of another seed may be others.
        let old = self.old.take().filter(|_| matches!(network, Cow::Borrowed(_)));
        let result = simulation.result_with(&network, seed, self.contents, old);
        self.last.set(Some(simulation));
        Ok(result)
    }
}

/// How a run would be computed, without running it: the mode of each link, and what measures the
/// run. `observed`: as for a run with an observer, for which each event happens at its time.
///
/// # Errors
///
/// [`RunError::Scenario`] as for [`run`].
///
/// # Examples
///
/// ```
/// use lasthop::scenario::{Overrides, load};
///
/// # use lasthop::scenario::Files;
/// # struct NoFiles;
/// # impl Files for NoFiles {
/// #     fn open(&self, _: &std::path::Path) -> std::io::Result<Box<dyn std::io::Read>> {
/// #         Err(std::io::ErrorKind::NotFound.into())
/// #     }
/// # }
/// let text = "last_hop = { rate = '2 Mbps', rtt = '100 ms' }";
/// let scenario = load(text, None, &Overrides::default(), &NoFiles).unwrap();
/// let plan = lasthop_sim::explain(&scenario.network, false).unwrap();
/// assert!(plan.to_string().contains("link bs>phone: chained"));
/// ```
pub fn explain(network: &Network, observed: bool) -> Result<Plan, RunError> {
    // The choice does not depend on the seed.
    let (seed, options) = (1, Options { explain: true, ..Options::default() });
    let network = &*network.for_seed(seed);
    Ok(if observed {
        Simulation::new(network, seed, AnyObserver::new(&mut Unread), options)?.plan().clone()
    } else {
        Simulation::new(network, seed, (), options)?.plan().clone()
    })
}

/// An observer that reads nothing.
struct Unread;

impl Observer for Unread {
    fn on_event(&mut self, _: &Event<'_>) {}
}

/// The Rust snippets of the documentation, compiled and run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/own-schemes.md")]
pub mod own_schemes {}
