//! A network beside others that it has nothing to do with: whatever is computed in advance, or in
//! one go, is interrupted by the events there.

use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::{App, Flow, Network, Node, Role};
use lasthop::tcp::profile::ProfileName;
use lasthop::traffic::Cbr;
use lasthop::units::Rate;
use lasthop_sim::RunResult;
use proptest::prelude::*;

use super::{flow, link, mbps, ms, routes};

/// The same network and two nodes that are connected to none of its nodes, with a datagram between
/// them in each third of a millisecond.
fn with_stream_elsewhere(network: &Network) -> Network {
    let mut network = network.clone();
    let (from, to) = (network.nodes.len() as u16, network.nodes.len() as u16 + 1);
    for node in [from, to] {
        network.nodes.push(Node { name: format!("n{node}"), role: Role::Router });
    }
    network.links.push(link(from, to, mbps(1000.0), ms(1)));
    network.links.push(link(to, from, mbps(1000.0), ms(1)));
    network.next_hop = routes(network.nodes.len(), &network.links);
    // No larger than the others, whose largest one is the full segment of all links.
    let segment = network.flows.iter().map(|f| f.segment).min().unwrap_or(1000);
    let rate = Rate(u64::from(segment) * 8 * 3000);
    let stream = flow("reno", ProfileName::Rfc, App::Cbr(Cbr { rate }));
    network.flows.push(Flow { name: "elsewhere".into(), from, to, segment, ..stream });
    network
}

/// Fails if a stream elsewhere changes a flow, a link or an agent of the network.
pub fn check_stream_elsewhere(network: &Network, seed: u64) -> Result<(), TestCaseError> {
    let run = |network: &Network| lasthop_sim::run(network, seed, (), &AtomicBool::new(false));
    let nodes: Vec<&str> = network.nodes.iter().map(|node| &*node.name).collect();
    let parts = |result: RunResult| {
        let RunResult { flows, mut links, agents, .. } = result;
        links.retain(|link| nodes.contains(&&*link.from));
        serde_json::to_string_pretty(&(&flows[..network.flows.len()], links, agents)).unwrap()
    };
    let (alone, beside) = (run(network).unwrap(), run(&with_stream_elsewhere(network)).unwrap());
    let (alone, beside) = (parts(alone), parts(beside));
    let difference = alone.lines().zip(beside.lines()).find(|(a, b)| a != b);
    prop_assert!(difference.is_none() && alone.len() == beside.len(), "{:?}", difference);
    Ok(())
}
