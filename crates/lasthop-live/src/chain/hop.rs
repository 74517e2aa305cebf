//! The links of a chain, and the nodes with agents.

use lasthop::agent::Subscriptions;
use lasthop::framing::AnyFraming;
use lasthop::link::drive::Drive;
use lasthop::segment::Direction;
use lasthop::units::Rate;

use super::packet::Packet;
use crate::split::Split;
use crate::stand::Stand;

/// A one-way link of the chain.
pub(super) struct Hop {
    /// Name, as "bs>phone".
    pub name: String,
    pub drive: Drive,
    /// Nodes at its ends, as positions between server (0) and mobile.
    pub from: usize,
    pub to: usize,
    pub direction: Direction,
    /// Bytes that it adds to each frame.
    pub overhead: u32,
    /// Largest IP packet, bytes.
    pub mtu: Option<u32>,
    /// Packets that were larger.
    pub above_mtu: u64,
    /// True if its queue removes redundant ACKs.
    pub filters: bool,
    /// How the link cuts data, if the scheme says so.
    pub framing: Option<AnyFraming>,
    /// Link events that the agent at the receiving node subscribes to.
    pub receiver: Subscriptions,
}

/// An agent between the ends.
pub(super) struct Station {
    /// Its position.
    pub node: usize,
    pub stand: Stand<Packet>,
    /// The hops that leave the node towards the mobile and towards the server.
    pub down: usize,
    pub up: usize,
    /// State of these two hops as last reported to the agent, if it subscribes to changes.
    pub reported: Option<[LinkState; 2]>,
}

/// A node at which connections end, and go on from there.
pub(super) struct RelayNode {
    /// Its position.
    pub node: usize,
    pub split: Split,
}

/// Rate of a link, and whether it is down.
pub(super) type LinkState = (Option<Rate>, bool);

/// Counters of a link.
#[derive(Clone, Debug)]
pub struct HopCounters {
    /// Name, as "bs>phone".
    pub name: String,
    /// Direction of its frames.
    pub direction: Direction,
    /// Frames offered to its queue.
    pub offered: u64,
    /// Frames that arrived at its far end.
    pub delivered: u64,
    /// Frames lost on the air.
    pub lost: u64,
    /// Frames that it has at the moment: waiting, being sent or propagating.
    pub in_transit: u64,
    /// Frames that its queue refused or dropped.
    pub dropped: u64,
    /// ACKs that its queue removed because later segments made them redundant.
    pub filtered: u64,
    /// Of `dropped`, those that its policer dropped.
    pub policed: u64,
    /// Copies that it made.
    pub duplicated: u64,
    /// Of `delivered`, those in which it inverted a bit.
    pub corrupted: u64,
    /// Packets that were larger than its MTU, and were fragmented or refused by ICMP. They are not
    /// among `offered`.
    pub above_mtu: u64,
    /// Frames that its queue marked.
    pub marked: u64,
    /// Bytes sent, link overhead included.
    pub bytes: u64,
}

impl Hop {
    pub(super) fn counters(&self) -> HopCounters {
        let stats = &self.drive.link().stats;
        HopCounters {
            name: self.name.clone(),
            direction: self.direction,
            offered: stats.offered,
            delivered: stats.delivered,
            lost: stats.lost,
            in_transit: self.drive.in_transit() as u64,
            dropped: stats.dropped,
            filtered: stats.filtered,
            policed: stats.policed,
            duplicated: stats.duplicated,
            corrupted: stats.corrupted,
            above_mtu: self.above_mtu,
            marked: stats.marked,
            bytes: stats.bytes,
        }
    }
}
