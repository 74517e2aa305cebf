//! Configuration of a cell.

use super::mac::Mac;
use super::wifi::Wifi;
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
    /// Aggregation and PHY, of 802.11n, 802.11ac and 802.11ax.
    pub wifi: Option<Wifi>,
    /// Spans in which other networks occupy the medium (802.11n and its successors).
    pub busy: Vec<OutageConfig>,
    /// The members, an access point among them.
    pub stations: Vec<StationConfig>,
}

/// A member of a cell.
#[derive(Clone, Debug)]
pub struct StationConfig {
    /// The node of the station.
    pub node: NodeId,
    /// Queue of all frames that the station sends, to any receiver.
    pub queue: QueueConfig,
    /// Bytes added to each frame that it sends, besides those of the MAC.
    pub overhead: u32,
    /// Loss of frames that are sent to it.
    pub down: LossConfig,
    /// Loss of frames that it sends.
    pub up: LossConfig,
    /// Spans in which the station neither receives nor is received.
    pub outages: Vec<OutageConfig>,
    /// MCS of data that it sends and of data to it, if it differs from that of the cell (802.11n
    /// and its successors). Between the access point and a station the station's holds.
    pub mcs: Option<u32>,
    /// Signal-to-noise ratio of data that it sends and of data to it, dB per subcarrier and stream;
    /// between the access point and a station the station's holds. `None`: no errors by noise.
    pub snr_db: Option<f64>,
}

/// Position of a one-way link in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the cell.
    pub cell: u32,
    /// Index of the sending member.
    pub from: u32,
    /// Index of the receiving member.
    pub to: u32,
}
