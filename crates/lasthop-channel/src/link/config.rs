//! Configuration of a link.

use std::sync::Arc;

use super::cell::config::Place;
use crate::air::config::{DelayConfig, LossConfig, OutageConfig, RateConfig};
use crate::air::token_bucket::TokenBucketConfig;
use crate::air::trace::Trace;
use crate::link::arq::ArqConfig;
use crate::link::impairment::Impairments;
use crate::queue::QueueConfig;
use lasthop_core::segment::NodeId;

/// A one-way link.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Name of the `[[link]]`, or "link N".
    pub name: String,
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// True for the wireless last hop.
    pub radio: bool,
    /// Bytes added to every frame on this link.
    pub overhead: u32,
    /// Largest IP packet, bytes, `overhead` not counted; `None`: any packet fits. The host sees to
    /// it: a link carries what it is given.
    pub mtu: Option<u32>,
    /// Queue at the sending node.
    pub queue: QueueConfig,
    /// Rate or trace.
    pub rate: RateConfig,
    /// The trace of `rate`, read and checked, if it is one.
    pub trace: Option<Arc<Trace>>,
    /// Delay after serialisation.
    pub delay: DelayConfig,
    /// Loss on the air.
    pub loss: LossConfig,
    /// Outages.
    pub outages: Vec<OutageConfig>,
    /// Link-layer retransmission.
    pub arq: Option<ArqConfig>,
    /// Token bucket that delays the start of frames.
    pub shaper: Option<TokenBucketConfig>,
    /// Policer, copies, bit errors that the link layer does not detect.
    pub impairments: Impairments,
    /// Position in a cell, if the link is a pair of stations; the cell then has queue, rate and
    /// losses.
    pub cell: Option<Place>,
}
