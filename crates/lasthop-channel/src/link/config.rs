//! What a link is built from.

use std::sync::Arc;

use super::cell::config::Place;
use crate::air::config::{DelayConfig, LossConfig, OutageConfig, RateConfig};
use crate::air::trace::Trace;
use crate::link::arq::ArqConfig;
use crate::queue::QueueConfig;
use lasthop_core::segment::NodeId;

/// A one-way link.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Name of the `[[link]]`, or "link N".
    pub name: String,
    /// From which node.
    pub from: NodeId,
    /// To which node.
    pub to: NodeId,
    /// The wireless last hop.
    pub radio: bool,
    /// Bytes added to every frame on this link.
    pub overhead: u32,
    /// Queue before it.
    pub queue: QueueConfig,
    /// Rate.
    pub rate: RateConfig,
    /// The trace of `rate`, read and checked, if it is one.
    pub trace: Option<Arc<Trace>>,
    /// Delay.
    pub delay: DelayConfig,
    /// Loss.
    pub loss: LossConfig,
    /// Outages.
    pub outages: Vec<OutageConfig>,
    /// Link-layer retransmission.
    pub arq: Option<ArqConfig>,
    /// Its place in a cell, if it is a pair of stations of one; then the cell has queue, rate and
    /// losses.
    pub cell: Option<Place>,
}
