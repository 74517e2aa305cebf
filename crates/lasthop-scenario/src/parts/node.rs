//! Nodes: their roles, handovers, and how a flow names its ends.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::network::Role;
use crate::text::brace_expansion::expand;
use crate::text::shorthand::passed;
use lasthop_core::units::{Duration, Rate};

/// A node and its role.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Name.
    pub name: String,
    /// Role. Default: inferred from the one link with `radio = true` and from the ends of the
    /// flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// A handover: another machine replaces a node and takes over its links and queues. The state of
/// agents and relays is transferred; until it has arrived, the node forwards nothing.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoverSpec {
    /// The node.
    pub node: String,
    /// Time of the handover.
    pub at: Duration,
    /// Rate of the line between the two machines. Default: 100 Mbps.
    #[serde(default = "line_rate")]
    pub rate: Rate,
    /// Delay of that line. Default: 5 ms.
    #[serde(default = "line_delay")]
    pub delay: Duration,
    /// What happens to the state. Default: "moved".
    #[serde(default)]
    pub state: HandoverState,
}

fn line_rate() -> Rate {
    Rate(100_000_000)
}

fn line_delay() -> Duration {
    Duration::millis(5)
}

/// What happens to the state of agents and relays at a handover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HandoverState {
    /// It is transferred to the new machine.
    #[default]
    Moved,
    /// Agents start without state at once; a connection that the node split is dead.
    Lost,
}

/// Names of nodes, "n{1..5..2}" being n1, n3, n5. The first of several flows uses the first name,
/// the second the second, and so on, cyclically.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NodeNames {
    /// The same for all flows.
    One(String),
    /// In turn.
    Several(Vec<String>),
}

impl NodeNames {
    /// The names in turn.
    pub fn as_slice(&self) -> &[String] {
        match self {
            NodeNames::One(name) => std::slice::from_ref(name),
            NodeNames::Several(names) => names,
        }
    }

    /// True if the node is one of them.
    pub fn has(&self, node: &str) -> bool {
        self.as_slice().iter().any(|n| n == node)
    }
}

impl fmt::Display for NodeNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_slice().join(", "))
    }
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = NodeNames;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a node, or a list of names for flows that take them in turn")
    }
    fn visit_str<E: Error>(self, name: &str) -> Result<NodeNames, E> {
        let mut names = expand(name).map_err(passed)?;
        Ok(if names.len() == 1 {
            NodeNames::One(names.remove(0))
        } else {
            NodeNames::Several(names)
        })
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NodeNames, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element::<String>()? {
            names.extend(expand(&name).map_err(passed)?);
        }
        if names.is_empty() {
            Err(A::Error::custom("the list of nodes is empty"))
        } else {
            Ok(NodeNames::Several(names))
        }
    }
}

impl<'de> Deserialize<'de> for NodeNames {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<NodeNames, D::Error> {
        d.deserialize_any(NamesVisitor)
    }
}
