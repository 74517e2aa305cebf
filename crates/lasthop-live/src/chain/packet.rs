//! The packets of a chain, and its ends.

use std::rc::Rc;

use lasthop::segment::{Direction, Notice};
use lasthop::units::Time;
use lasthop_endpoint::ConnectionId;

/// The bytes of an IP packet.
pub type Bytes = Rc<[u8]>;

/// A packet that an agent may keep.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The IP packet.
    pub bytes: Bytes,
    /// When it entered the chain.
    pub entered: Time,
}

/// An end of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The fixed network.
    Server,
    /// The mobile.
    Mobile,
}

impl End {
    /// The direction of packets that enter at this end.
    pub fn sends(self) -> Direction {
        match self {
            End::Server => Direction::Downlink,
            End::Mobile => Direction::Uplink,
        }
    }

    /// The end at which packets in this direction leave.
    pub fn of(direction: Direction) -> End {
        match direction {
            Direction::Downlink => End::Mobile,
            Direction::Uplink => End::Server,
        }
    }
}

/// A packet that leaves the chain.
#[derive(Clone, Debug)]
pub struct Release {
    /// When it arrives at the end, which may be before the present time of a late host.
    pub due: Time,
    /// When it entered the chain, or was made by an agent.
    pub entered: Time,
    /// Where it arrives.
    pub end: End,
    /// The IP packet.
    pub bytes: Bytes,
}

/// A notice about a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// The connection as the end that is told sees it.
    pub connection: ConnectionId,
    /// What is told.
    pub notice: Notice,
}
