//! What a node is in the network: schemes are installed by role.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Roles of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The fixed host.
    Server,
    /// Forwards.
    Router,
    /// Split-connection proxy in the core network.
    Proxy,
    /// Radio network controller.
    Rnc,
    /// The wired end of the radio link.
    BaseStation,
    /// The mobile end of the radio link.
    Station,
}
