//! Poisson processes of transfers in runs: the flows, their times, and pairs of schemes.

use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::{App, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::traffic::Sizes;
use lasthop::units::Duration;
use lasthop_sim::RunResult;
use lasthop_sim::verifier::Verifier;

use crate::support::{flow, last_hop};

/// About 60 transfers of 4 kB in the mean on a link of 1 Mbit/s: a load of a tenth.
fn network(scheme: &str, secs: u64) -> Network {
    let app = App::Poisson {
        sizes: Sizes::Exponential { mean: 4000.0 },
        mean_gap: Duration::millis(333),
    };
    let mut web = flow(scheme, ProfileName::Linux, app);
    (web.name, web.group) = ("web".into(), "web".into());
    last_hop(vec![web], Duration::secs(secs))
}

/// Runs with the verifier, which checks also that the sizes are delivered.
fn run(network: &Network, seed: u64) -> RunResult {
    let network = network.for_seed(seed);
    let mut verifier = Verifier::new(&network);
    let result = lasthop_sim::run(&network, seed, &mut verifier, &AtomicBool::new(false)).unwrap();
    verifier.finish_with(&result).unwrap_or_else(|e| panic!("{e:?}"));
    result
}

#[test]
fn each_arrival_is_a_transfer() {
    let result = run(&network("cubic", 20), 1);
    assert!((40..85).contains(&result.flows.len()), "{}", result.flows.len());
    let mut before = 0.0;
    for flow in &result.flows {
        let arrived = flow.arrived_s.unwrap();
        assert!(arrived > before && arrived < 20.0 && flow.app == "transfer");
        before = arrived;
        let ideal = flow.empty_path_s.unwrap();
        assert!(flow.completed_s.is_none_or(|t| t > 0.999 * ideal), "{flow:?}");
    }
    let complete = result.flows.iter().filter(|f| f.completed_s.is_some()).count();
    assert!(complete + 3 > result.flows.len());
}

/// The result does not depend on whether the caller has drawn the flows.
#[test]
fn a_run_draws_the_flows_itself() {
    let json = |network: &Network| {
        let result = lasthop_sim::run(network, 4, (), &AtomicBool::new(false)).unwrap();
        serde_json::to_string(&result).unwrap()
    };
    let network = network("reno", 10);
    assert_eq!(json(&network), json(&network.for_seed(4)));
    assert_ne!(json(&network), json(&network.for_seed(5)));
}

#[test]
fn schemes_get_the_same_arrivals() {
    let arrivals = |scheme| {
        let result = run(&network(scheme, 10), 2);
        result.flows.iter().map(|f| (f.id.clone(), f.arrived_s)).collect::<Vec<_>>()
    };
    assert_eq!(arrivals("cubic"), arrivals("i-tcp"));
}

/// A process without an arrival still has a flow, and with it the agents of its scheme.
#[test]
fn agents_exist_without_an_arrival() {
    let mut network = network("snoop", 10);
    network.flows[0].stop = Some(Duration(1));
    let result = run(&network, 1);
    assert_eq!((result.flows.len(), result.agents.len()), (1, 1));
    assert!(result.flows[0].arrived_s.unwrap() >= 10.0);
    assert_eq!((result.flows[0].sent_segments, result.flows[0].goodput_bps), (0, 0.0));
}
