//! What a cell is built from.

use super::mac::Mac;
use crate::air::config::{LossConfig, OutageConfig};
use crate::queue::QueueConfig;
use lasthop_core::segment::NodeId;

/// A cell: a medium that several stations share.
#[derive(Clone, Debug)]
pub struct CellConfig {
    /// Name of the `[[cell]]`, or "cell N".
    pub name: String,
    /// Medium access control.
    pub mac: Mac,
    /// The members, an access point among them.
    pub stations: Vec<StationConfig>,
}

/// A member of a cell.
#[derive(Clone, Debug)]
pub struct StationConfig {
    /// Its node.
    pub node: NodeId,
    /// What it has to send waits here, whomever it is for.
    pub queue: QueueConfig,
    /// Bytes added to what it sends, beside the MAC's.
    pub overhead: u32,
    /// Loss of frames that are sent to it.
    pub down: LossConfig,
    /// Loss of frames that it sends.
    pub up: LossConfig,
    /// Spans in which nothing reaches it and nothing that it sends arrives.
    pub outages: Vec<OutageConfig>,
}

/// The place of a one-way link in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which cell.
    pub cell: u32,
    /// The member that sends.
    pub from: u32,
    /// The member that receives.
    pub to: u32,
}
