//! How hosts send: into the network, by way of the agent at their node.

use lasthop::segment::{Flags, NodeId, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Output, SendReason};
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

use crate::engine::scheduler::Source;
use crate::events::probe::{EarlierCopies, Probe};
use crate::hosts::advance::FutureArrivals;
use crate::hosts::agent::Agents;
use crate::network::Net;
use crate::network::fast_path::{PlainAck, ReceivedAck};

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
        Some(a) => drop(agents.on_segment(a, handle, net)),
    }
}

/// The receiver of a connection, seen from its sender: it decides which retransmissions are
/// spurious, and it may be computed in advance.
pub(super) struct FarEnd<'a> {
    pub receiver: &'a mut Receiver,
    /// Set if the receiver is computed in advance.
    pub future: Option<&'a mut FutureArrivals>,
    /// Time of the scheduler entry of the receiver's timer.
    pub entry: &'a mut Time,
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
        if reason == SendReason::New && self.send_fast(segment) {
            return;
        }
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
    /// Sends a segment of new data on the fast path: computes its arrival, the ACK that it causes,
    /// and the arrival of this ACK. Returns false if it has to take the slow path.
    #[inline(always)]
    fn send_fast(&mut self, segment: Segment) -> bool {
        let Some(FarEnd { receiver, future: Some(future), .. }) = &mut self.far else {
            return false;
        };
        let Some(fast) = future.fast() else { return false };
        let net = &mut *self.net;
        let Segment { seq, len, size, .. } = segment;
        if segment.flags != Flags::ACK || !receiver.expects(seq, len) || !net.is_fast_path_open() {
            return false;
        }
        let (now, connection) = (net.now, self.connection);
        let id = net.new_id();
        net.probes.sent_fast(now, connection, len, size);
        let Some((at, triggered_at)) = net.transmit_data(fast.path, Segment { id, ..segment })
        else {
            net.probes.sent_undelivered(now, connection, seq + u64::from(len));
            return true;
        };
        let window = receiver.take_plain(at, len);
        let ack_size = if window.is_some() { fast.ack_size } else { 0 };
        net.probes.delivered_fast(now, at, connection, (seq, len), (size, ack_size));
        let Some(window) = window else {
            self.delay_ack((at, triggered_at), (seq, seq + u64::from(len)));
            return true;
        };
        future.arrives_fast(at);
        let ack = PlainAck {
            number: seq + u64::from(len),
            id: net.new_id(),
            sent_at: at,
            triggered_at,
            connection,
            len,
            ..PlainAck::default()
        };
        if window != fast.window || !net.transmit_ack(fast.path, fast.ack_size, ack) {
            self.send_ack_slow(window, &{ ack });
        }
        true
    }

    /// The ACK of a segment on the fast path is delayed.
    #[inline]
    fn delay_ack(&mut self, when: (Time, Time), range: (u64, u64)) {
        let Some(FarEnd { receiver, future: Some(future), entry }) = &mut self.far else { return };
        let net = &mut *self.net;
        future.record(&net.event, when, range, false, net.next_packet());
        let (deadline, armed) = receiver.deadline();
        if future.is_due_earlier(deadline, armed) {
            let timer = (deadline, armed, future.receiver_timer(), self.connection);
            net.add_receiver_timer(future.link(), timer);
        }
        if deadline < **entry {
            net.scheduler.set(future.receiver_timer(), deadline.0, armed.0);
            **entry = deadline;
        }
    }

    /// The ACK of a segment on the fast path that cannot take it.
    #[inline(never)]
    fn send_ack_slow(&mut self, window: u32, ack: &PlainAck) {
        let Some(FarEnd { future: Some(future), .. }) = &mut self.far else { return };
        let Some(fast) = future.fast() else { return };
        let (seq, when) = (ack.number - u64::from(ack.len), (ack.sent_at, ack.triggered_at));
        future.record(&self.net.event, when, (seq, ack.number), false, ack.id);
        let &PlainAck { number, id, connection, .. } = ack;
        let received = ReceivedAck { number, id, connection };
        let ack = Segment { window, ..fast.ack_segment(received, self.node) };
        let present = (self.net.now, self.net.triggered_at);
        (self.net.now, self.net.triggered_at) = when;
        let handle = self.net.pool.put(ack);
        self.net.forward(self.net.receiving_node(fast.path), handle);
        (self.net.now, self.net.triggered_at) = present;
    }

    /// Assigns a packet number and reports the sending.
    #[inline(always)]
    fn number(&mut self, mut segment: Segment, reason: SendReason) -> Segment {
        segment.id = self.net.new_id();
        let again = segment.forward && reason != SendReason::New && segment.len > 0;
        let earlier = if again {
            self.earlier_copies(segment.seq, segment.end(), segment.id)
        } else {
            EarlierCopies::Unknown
        };
        self.net.probes.sent(self.net.now, self.node, &segment, reason, earlier);
        segment
    }

    /// What becomes of the earlier copies of the bytes `[seq, end)`, retransmitted as packet `id`.
    #[inline(never)]
    fn earlier_copies(&self, seq: u64, end: u64, id: u64) -> EarlierCopies {
        match &self.far {
            Some(FarEnd { receiver, future: Some(future), .. }) => {
                let (net, c) = (&self.net, self.connection);
                let path = future.fast().map_or(u32::MAX, |fast| fast.path);
                let fast = |from| net.fast.acks_of(path, c, from);
                future.earlier_copies(receiver, &net.event, fast, (seq, end), id)
            }
            Some(FarEnd { receiver, future: None, .. }) if receiver.has(seq, end) => {
                EarlierCopies::Arrived { acks_from: id }
            }
            _ => EarlierCopies::Unknown,
        }
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
