//! The sides of a node at which connections end.

use lasthop_endpoint::ConnectionId;

/// A side of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Towards the server.
    Server,
    /// Towards the mobile.
    Mobile,
}

impl Side {
    /// The opposite side.
    pub fn other(self) -> Side {
        match self {
            Side::Server => Side::Mobile,
            Side::Mobile => Side::Server,
        }
    }
}

/// The addresses as the other side sees them.
pub(super) fn mirrored(id: ConnectionId) -> ConnectionId {
    ConnectionId { local: id.remote, remote: id.local }
}
