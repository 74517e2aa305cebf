//! The links between two nodes.

use super::types::Network;
use lasthop_core::segment::NodeId;

/// See `Network::route`.
pub fn route(network: &Network, from: NodeId, to: NodeId) -> Option<Vec<usize>> {
    let mut path = Vec::new();
    let mut at = from;
    while at != to {
        let link = network.next_hop[usize::from(at)][usize::from(to)]? as usize;
        path.push(link);
        at = network.links[link].to;
    }
    Some(path)
}

/// See `Network::path`.
pub fn path(network: &Network, from: NodeId, to: NodeId) -> Vec<usize> {
    route(network, from, to).unwrap_or_default()
}
