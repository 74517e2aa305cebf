//! How hosts send: into the network, by way of the agent at their node.

use lasthop::segment::{NodeId, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Output, SendReason};
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

use crate::engine::scheduler::Source;
use crate::events::probe::Probe;
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

    /// The port of the sender of a connection at `node`. `receiver` decides which retransmissions
    /// are spurious.
    #[inline(always)]
    pub(super) fn port<'b>(
        &'b mut self,
        node: NodeId,
        connection: u32,
        receiver: Option<&'b Receiver>,
    ) -> Port<'b, P> {
        let Outbox { net, agents } = self;
        Port { net, agents, node, connection, receiver }
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
        Some(a) => drop(agents.on_segment(a, handle, net)),
    }
}

/// The port through which an end point's stack sends into the network.
pub struct Port<'a, P> {
    net: &'a mut Net<P>,
    agents: &'a mut Agents,
    /// Node of the stack.
    node: NodeId,
    /// Index of the connection.
    connection: u32,
    /// The receiver, to determine spurious retransmissions (senders only).
    receiver: Option<&'a Receiver>,
}

impl<P: Probe> Output for Port<'_, P> {
    #[inline(always)]
    fn send(&mut self, segment: Segment, reason: SendReason) {
        let segment = self.number(segment, reason);
        transmit(self.net, self.agents, self.node, segment);
    }

    fn send_with(&mut self, segment: Segment, options: &Options, reason: SendReason) {
        let segment = self.number(segment, reason);
        self.transmit_with(segment, options);
    }

    fn classified(&mut self, seq: u64, times: u16, class: LossClass) {
        self.net.probes.classified(self.net.now, self.connection, seq, times, class);
    }
}

impl<P: Probe> Port<'_, P> {
    /// Assigns a packet number and reports the sending.
    #[inline(always)]
    fn number(&mut self, mut segment: Segment, reason: SendReason) -> Segment {
        segment.id = self.net.new_id();
        let arrived = segment.forward
            && reason != SendReason::New
            && segment.len > 0
            && self.has_arrived(segment.seq, segment.end());
        self.net.probes.sent(self.net.now, self.node, &segment, reason, arrived);
        segment
    }

    #[inline(never)]
    fn has_arrived(&self, seq: u64, end: u64) -> bool {
        self.receiver.is_some_and(|r| r.has(seq, end))
    }

    #[inline(never)]
    fn transmit_with(&mut self, segment: Segment, options: &Options) {
        let agent = self.agents.at(self.net, self.node, &segment);
        let handle = self.net.pool.put_with(segment, options);
        match agent {
            None => self.net.forward(self.node, handle),
            Some(a) => drop(self.agents.on_segment(a, handle, self.net)),
        }
    }
}
