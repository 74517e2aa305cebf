//! How hosts send: into the network, by way of the agent at their node.

use lasthop::segment::{Flags, NodeId, Options, Segment};
use lasthop::tcp::sender::{Output, SendReason};
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

use crate::engine::scheduler::Source;
use crate::events::probe::{EarlierCopies, Probe};
use crate::hosts::agent::Agents;
use crate::network::Net;

/// Where hosts send segments, set timers and report what happens.
pub(crate) struct Outbox<'a, P> {
    /// The network.
    pub net: &'a mut Net<P>,
    /// The agents at the nodes.
    pub agents: &'a mut Agents,
}

impl<P: Probe> Outbox<'_, P> {
    /// Current simulated time.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.net.now
    }

    /// Sets a timer.
    #[inline]
    pub(crate) fn set_timer(&mut self, source: Source, at: Time, armed: Time) {
        self.net.scheduler.set(source, at.0, armed.0);
    }

    /// Cancels a timer.
    pub(crate) fn clear_timer(&mut self, source: Source) {
        self.net.scheduler.clear(source);
    }
}

/// Sends a segment from a node's stack.
#[inline(always)]
pub(super) fn transmit<P: Probe>(
    net: &mut Net<P>,
    agents: &mut Agents,
    node: NodeId,
    segment: Segment,
) {
    let agent = agents.at(net, node, &segment);
    let handle = net.pool.put(segment);
    match agent {
        None => net.forward(node, handle),
        Some(watch) => agents.on_sending(&watch, handle, net),
    }
}

/// The same with options.
#[inline(never)]
pub(super) fn transmit_with<P: Probe>(
    net: &mut Net<P>,
    agents: &mut Agents,
    node: NodeId,
    segment: Segment,
    options: &Options,
) {
    let agent = agents.at(net, node, &segment);
    let handle = net.pool.put_with(segment, options);
    match agent {
        None => net.forward(node, handle),
        Some(watch) => agents.on_sending(&watch, handle, net),
    }
}

/// Sends new data, or an ACK, to the agent on the path of its connection.
#[inline(never)]
pub(super) fn send_to_agent<P: Probe>(
    net: &mut Net<P>,
    node: NodeId,
    mut segment: Segment,
    options: &Options,
    reason: SendReason,
) {
    segment.id = net.new_id();
    net.probes.sent(net.now, node, &segment, reason, EarlierCopies::Unknown);
    net.transmit_to_agent(&segment, options);
}

/// The port through which the receiver of a connection sends into the network.
pub struct ReceiverPort<'a, P> {
    net: &'a mut Net<P>,
    /// `None` where no agent is at the node.
    agents: Option<&'a mut Agents>,
    /// Node of the receiver.
    node: NodeId,
    /// Index of the connection.
    connection: u32,
}

impl<'a, P: Probe> ReceiverPort<'a, P> {
    /// The port of the receiver of `connection` at `node`; `agents`: `None` if none is there.
    #[inline(always)]
    pub(super) fn new(
        net: &'a mut Net<P>,
        agents: Option<&'a mut Agents>,
        node: NodeId,
        connection: u32,
    ) -> Self {
        ReceiverPort { net, agents, node, connection }
    }

    /// The ACK reaches the sender by way of an agent, and need not be stored.
    #[inline(always)]
    fn answers_by_agent(&self, segment: &Segment) -> bool {
        let optional = Flags::TIMESTAMPS.with(Flags::SACK).with(Flags::DSACK);
        segment.flags.without(optional) == Flags::ACK && self.net.agent_paths.has(self.connection)
    }

    /// Assigns a packet number and reports the sending.
    #[inline(always)]
    fn number(&mut self, segment: &mut Segment, reason: SendReason) {
        let net = &mut *self.net;
        segment.id = net.new_id();
        net.probes.sent(net.now, self.node, segment, reason, EarlierCopies::Unknown);
    }
}

impl<P: Probe> Output for ReceiverPort<'_, P> {
    #[inline(always)]
    fn send(&mut self, mut segment: Segment, reason: SendReason) {
        if self.answers_by_agent(&segment) {
            return send_to_agent(self.net, self.node, segment, &Options::NONE, reason);
        }
        self.number(&mut segment, reason);
        if let Some(agents) = &mut self.agents {
            return transmit(self.net, agents, self.node, segment);
        }
        let handle = self.net.pool.put(segment);
        self.net.forward(self.node, handle);
    }

    fn send_with(&mut self, mut segment: Segment, options: &Options, reason: SendReason) {
        if self.answers_by_agent(&segment) {
            return send_to_agent(self.net, self.node, segment, options, reason);
        }
        self.number(&mut segment, reason);
        if let Some(agents) = &mut self.agents {
            return transmit_with(self.net, agents, self.node, segment, options);
        }
        let handle = self.net.pool.put_with(segment, options);
        self.net.forward(self.node, handle);
    }

    fn classified(&mut self, seq: u64, times: u16, class: LossClass) {
        self.net.probes.classified(self.net.now, self.connection, seq, times, class);
    }
}
