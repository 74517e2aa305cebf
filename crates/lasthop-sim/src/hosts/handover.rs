//! Handovers: a node is replaced by another machine, and the state of its agents and relays is
//! transferred.
//!
//! The new machine takes the place of the old one in the network: links, routes and queued frames
//! remain. Until the state has been transferred, it forwards nothing; arriving frames are held.

use std::collections::VecDeque;

use lasthop::scenario::network::Handover;
use lasthop::segment::{Handle, NodeId};
use lasthop::units::{Duration, Time};

use crate::engine::scheduler::Source;

/// Bytes of state of a socket besides its buffers: about the size of a Linux checkpoint (the fields
/// of TCP_REPAIR).
pub(super) const SOCKET_BYTES: u64 = 200;

/// The state of a flow at an agent: index of the agent, connection, exported bytes.
pub(super) type FlowOfAgent = (usize, u32, Vec<u8>);

/// A handover and its effects.
#[derive(Debug)]
pub struct HandoverHost {
    /// Configuration: node, time, and whether the state is transferred.
    config: Handover,
    /// Bytes of state that were transferred.
    bytes: u64,
    /// From the handover to the end of the state transfer; `None` before the handover.
    transfer_time: Option<Duration>,
    states: Vec<FlowOfAgent>,
    held_frames: VecDeque<Handle>,
    in_transfer: bool,
    source: Source,
}

impl HandoverHost {
    /// A handover that has not begun.
    pub(crate) fn new(config: Handover, source: Source) -> HandoverHost {
        HandoverHost {
            config,
            bytes: 0,
            transfer_time: None,
            states: Vec::new(),
            held_frames: VecDeque::new(),
            in_transfer: false,
            source,
        }
    }

    /// Configuration: node, time, and whether the state is transferred.
    pub fn config(&self) -> &Handover {
        &self.config
    }

    /// Bytes of state that were transferred.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// From the handover to the end of the state transfer; `None` before the handover.
    pub fn transfer_time(&self) -> Option<Duration> {
        self.transfer_time
    }

    /// Event source of its beginning and its end.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Returns true while the state is being transferred.
    pub(super) fn in_transfer(&self) -> bool {
        self.in_transfer
    }

    /// The handover begins: `bytes` are transferred, `states` of agents among them. Returns the
    /// time that this takes.
    pub(super) fn begin(&mut self, bytes: u64, states: Vec<FlowOfAgent>) -> Duration {
        let Handover { moved, delay, rate, .. } = self.config;
        let took = if moved { delay + rate.time_for(bytes) } else { Duration::ZERO };
        (self.bytes, self.transfer_time, self.in_transfer) = (bytes, Some(took), true);
        self.states = states;
        took
    }

    /// The transfer is complete. Returns the states of agents and the frames that were held.
    pub(super) fn end(&mut self) -> (Vec<FlowOfAgent>, VecDeque<Handle>) {
        self.in_transfer = false;
        (std::mem::take(&mut self.states), std::mem::take(&mut self.held_frames))
    }

    /// Holds a frame that arrives while the state of its node is being transferred. Returns true if
    /// it is held.
    pub(super) fn holds(&mut self, node: NodeId, handle: Handle) -> bool {
        let holds = self.in_transfer && self.config.node == node;
        if holds {
            self.held_frames.push_back(handle);
        }
        holds
    }

    /// Time of the handover.
    pub(crate) fn at(&self) -> Time {
        Time::ZERO + self.config.at
    }
}
