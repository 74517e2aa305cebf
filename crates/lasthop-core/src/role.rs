//! Roles of nodes: schemes are installed by role.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Role of a node in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The fixed host.
    Server,
    /// A node that only forwards packets.
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

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Server => "server",
            Role::Router => "router",
            Role::Proxy => "proxy",
            Role::Rnc => "radio network controller",
            Role::BaseStation => "base station",
            Role::Station => "station",
        })
    }
}
