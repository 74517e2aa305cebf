//! How hosts send: into the network, by way of the agent at their node.

use lasthop::segment::{Flags, NodeId, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Output, SendReason};
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

use crate::engine::scheduler::Source;
use crate::events::probe::{EarlierCopies, Probe, is_for_timeout};
use crate::hosts::advance::{FastConnection, FutureArrivals};
use crate::hosts::agent::Agents;
use crate::hosts::fast_port::FastPort;
use crate::network::Net;
use crate::network::fast_path::PlainData;

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

    /// The port of an end of a connection at `node`; `far` is the other end, for a sender.
    #[inline(always)]
    pub(super) fn port<'b>(
        &'b mut self,
        node: NodeId,
        connection: u32,
        far: Option<FarEnd<'b>>,
    ) -> Port<'b, P> {
        let Outbox { net, agents } = self;
        Port { net, agents, node, connection, far }
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

/// The receiver of a connection, seen from its sender: it decides which retransmissions are
/// spurious, and it may be computed in advance.
pub(super) struct FarEnd<'a> {
    pub receiver: &'a mut Receiver,
    /// Set if the receiver is computed in advance.
    pub future: Option<&'a mut FutureArrivals>,
    /// Set if its packets may take the fast path.
    pub fast: Option<&'a mut FastConnection>,
}

/// The port through which an end point's stack sends into the network.
pub struct Port<'a, P> {
    net: &'a mut Net<P>,
    agents: &'a mut Agents,
    /// Node of the stack.
    node: NodeId,
    /// Index of the connection.
    connection: u32,
    /// The other end (senders only).
    far: Option<FarEnd<'a>>,
}

impl<P: Probe> Output for Port<'_, P> {
    #[inline(always)]
    fn send(&mut self, segment: Segment, reason: SendReason) {
        let Segment { seq, len, size, flags, ts_value, ts_echo, .. } = segment;
        if reason == SendReason::New && flags.without(Flags::TIMESTAMPS) == Flags::ACK {
            let connection = self.connection;
            let data = PlainData { seq, len, size, connection, flags, ts_value, ts_echo };
            if self.is_open() && self.send_fast(data) {
                return;
            }
            if self.sends_to_agent() {
                return self.send_to_agent(segment, &Options::NONE, SendReason::New);
            }
        } else if self.answers_by_agent(&segment) {
            return self.send_to_agent(segment, &Options::NONE, reason);
        }
        let segment = self.number(segment, reason);
        transmit(self.net, self.agents, self.node, segment);
    }

    fn send_with(&mut self, segment: Segment, options: &Options, reason: SendReason) {
        if self.answers_by_agent(&segment) {
            return self.send_to_agent(segment, options, reason);
        }
        let segment = self.number(segment, reason);
        self.transmit_with(segment, options);
    }

    fn classified(&mut self, seq: u64, times: u16, class: LossClass) {
        self.net.probes.classified(self.net.now, self.connection, seq, times, class);
    }
}

impl<P: Probe> Port<'_, P> {
    /// New data may take the fast path, if the receiver expects them.
    #[inline(always)]
    fn is_open(&self) -> bool {
        matches!(self.far, Some(FarEnd { fast: Some(_), .. })) && self.net.is_fast_path_open()
    }

    /// New data reach their receiver by way of an agent, and need not be stored.
    #[inline(always)]
    fn sends_to_agent(&self) -> bool {
        matches!(self.far, Some(FarEnd { future: Some(_), fast: None, .. }))
            && self.net.agent_paths.has(self.connection)
    }

    /// The same of an ACK of the receiver.
    #[inline(always)]
    fn answers_by_agent(&self, segment: &Segment) -> bool {
        let optional = Flags::TIMESTAMPS.with(Flags::SACK).with(Flags::DSACK);
        self.far.is_none()
            && segment.flags.without(optional) == Flags::ACK
            && !segment.forward
            && self.net.agent_paths.has(self.connection)
    }

    /// Sends new data, or an ACK, to that agent.
    #[inline(never)]
    fn send_to_agent(&mut self, mut segment: Segment, options: &Options, reason: SendReason) {
        let net = &mut *self.net;
        segment.id = net.new_id();
        net.probes.sent(net.now, self.node, &segment, reason, EarlierCopies::Unknown);
        net.transmit_to_agent(&segment, options);
    }

    /// Sends it on the fast path, if it may take it.
    #[inline(always)]
    fn send_fast(&mut self, data: PlainData) -> bool {
        let Some(FarEnd { receiver, .. }) = &self.far else { return false };
        let is_next = receiver.expects(data.seq, data.len, data.ts_value);
        if !is_next && !receiver.expects_beyond(data.seq, data.len, data.ts_value) {
            return false;
        }
        let Some(mut port) = self.fast_port() else { return false };
        if is_next {
            port.send_next(data);
        }
        is_next || port.send_beyond(&{ data })
    }

    #[inline(always)]
    fn fast_port(&mut self) -> Option<FastPort<'_, P>> {
        let FarEnd { receiver, future, fast } = self.far.as_mut()?;
        let (future, fast) = (future.as_deref_mut(), fast.as_deref_mut()?);
        Some(FastPort { net: &mut *self.net, receiver, future, fast })
    }

    /// Assigns a packet number and reports the sending.
    #[inline(always)]
    fn number(&mut self, mut segment: Segment, reason: SendReason) -> Segment {
        segment.id = self.net.new_id();
        let again = segment.forward && reason != SendReason::New && segment.attempt > 1;
        let earlier = if again {
            // A copy: what is taken by its address goes through memory.
            self.earlier_copies(&{ segment }, reason)
        } else {
            EarlierCopies::Unknown
        };
        self.net.probes.sent(self.net.now, self.node, &segment, reason, earlier);
        segment
    }

    /// What becomes of the earlier copies of a segment that is retransmitted. Reports a timeout of
    /// a segment that has arrived.
    #[inline(never)]
    fn earlier_copies(&mut self, segment: &Segment, reason: SendReason) -> EarlierCopies {
        if self.net.probes.all_copies_lost(self.net.now, segment) {
            return EarlierCopies::Lost;
        }
        let earlier = match &self.far {
            Some(FarEnd { receiver, future: Some(future), fast, .. }) => {
                let (net, c) = (&self.net, self.connection);
                let path = fast.as_ref().map(|f| &*f.path);
                let last = fast.as_ref().map_or(Time::ZERO, |f| f.last);
                let fast = (|from| net.fast.acks_of(path, c, from), last);
                future.earlier_copies(receiver, &net.event, fast, segment)
            }
            Some(FarEnd { receiver, future: None, .. }) if receiver.has_segment(segment) => {
                EarlierCopies::Arrived { acks_from: segment.id }
            }
            _ => EarlierCopies::Unknown,
        };
        if let EarlierCopies::Arrived { acks_from } = earlier
            && is_for_timeout(segment, reason)
        {
            let acks = self.net.acks_in_transit(segment, acks_from);
            self.net.probes.timed_out(self.net.now, segment, acks_from, acks);
        }
        earlier
    }

    #[inline(never)]
    fn transmit_with(&mut self, segment: Segment, options: &Options) {
        let agent = self.agents.at(self.net, self.node, &segment);
        let handle = self.net.pool.put_with(segment, options);
        match agent {
            None => self.net.forward(self.node, handle),
            Some(watch) => self.agents.on_sending(&watch, handle, self.net),
        }
    }
}
