//! The nodes that a file names, as indices.

use crate::network::Network;
use crate::parts::flow::FlowSpec;
use crate::parts::node::NodeNames;
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::tree::{Path, Tree};
use lasthop_core::segment::NodeId;

/// The ends of the flows of a `[[flow]]`; none if a node is unknown, which is reported later.
pub fn ends_in_turn(network: &Network, spec: &FlowSpec) -> Vec<(NodeId, NodeId)> {
    let nodes = |names: &Option<NodeNames>| -> Option<Vec<NodeId>> {
        names.iter().flat_map(NodeNames::as_slice).map(|name| network.node(name)).collect()
    };
    let (Some(froms), Some(tos)) = (nodes(&spec.from), nodes(&spec.to)) else { return Vec::new() };
    if froms.is_empty() || tos.is_empty() {
        return Vec::new();
    }
    let turns = u64::from(spec.count).div_ceil(u64::from(spec.each.max(1))) as usize;
    (0..turns).map(|turn| (froms[turn % froms.len()], tos[turn % tos.len()])).collect()
}

/// The nodes that the flows of a `[[flow]]` use in turn.
pub fn ends(
    network: &Network,
    names: &Option<NodeNames>,
    at: &Path,
    tree: &Tree<'_>,
) -> Result<Vec<NodeId>, ScenarioError> {
    let node = |name: &String| {
        network.node(name).ok_or_else(|| tree.error(at, no_such_node(network, name)))
    };
    names.iter().flat_map(NodeNames::as_slice).map(node).collect()
}

/// The mistake of a name that no node has.
pub fn no_such_node(network: &Network, name: &str) -> ErrorKind {
    let known = network.nodes.iter().map(|n| n.name.clone()).collect();
    ErrorKind::NoSuchNode { name: name.to_string(), known }
}
