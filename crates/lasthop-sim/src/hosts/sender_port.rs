//! How senders send: on the fast path of their connection, or into the network like other hosts.

use lasthop::segment::{Flags, NodeId, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Output, SendReason};
use lasthop::tcp::window::LossClass;
use lasthop::units::Time;

use crate::events::probe::{EarlierCopies, Probe, is_for_timeout};
use crate::hosts::advance::{FastConnection, FutureArrivals};
use crate::hosts::agent::Agents;
use crate::hosts::fast_port::FastPort;
use crate::hosts::outbox::{Outbox, send_to_agent, transmit, transmit_with};
use crate::network::Net;
use crate::network::fast_path::PlainData;

/// The receiver of a connection, seen from its sender: it decides which retransmissions are
/// spurious, and it may be computed in advance.
pub(super) struct FarEnd<'a> {
    pub receiver: &'a mut Receiver,
    /// Set if the receiver is computed in advance.
    pub future: Option<&'a mut FutureArrivals>,
    /// Set if its packets may take the fast path.
    pub fast: Option<&'a mut FastConnection>,
}

/// The port through which the sender of a connection sends into the network.
pub struct SenderPort<'a, P> {
    net: &'a mut Net<P>,
    agents: &'a mut Agents,
    /// Node of the sender.
    node: NodeId,
    /// Index of the connection.
    connection: u32,
    /// The other end.
    far: FarEnd<'a>,
}

impl<'a, P: Probe> SenderPort<'a, P> {
    /// The port of the sender of `connection` at `node`; `far` is the other end.
    #[inline(always)]
    pub(super) fn new(
        out: &'a mut Outbox<'_, P>,
        node: NodeId,
        connection: u32,
        far: FarEnd<'a>,
    ) -> Self {
        let Outbox { net, agents } = out;
        SenderPort { net, agents, node, connection, far }
    }
}

impl<P: Probe> Output for SenderPort<'_, P> {
    #[inline(always)]
    fn send(&mut self, segment: Segment, reason: SendReason) {
        let segment = self.number(segment, reason);
        transmit(self.net, self.agents, self.node, segment);
    }

    #[inline(always)]
    fn send_new(&mut self, segment: Segment) {
        let Segment { seq, len, size, flags, ts_value, ts_echo, .. } = segment;
        if flags.without(Flags::TIMESTAMPS) == Flags::ACK {
            let connection = self.connection;
            let data = PlainData { seq, len, size, connection, flags, ts_value, ts_echo };
            if self.is_open() && self.send_fast(data) {
                return;
            }
            if self.sends_to_agent() {
                let none = &Options::NONE;
                return send_to_agent(self.net, self.node, segment, none, SendReason::New);
            }
        }
        self.send(segment, SendReason::New);
    }

    fn send_with(&mut self, segment: Segment, options: &Options, reason: SendReason) {
        let segment = self.number(segment, reason);
        transmit_with(self.net, self.agents, self.node, segment, options);
    }

    fn classified(&mut self, seq: u64, times: u16, class: LossClass) {
        self.net.probes.classified(self.net.now, self.connection, seq, times, class);
    }
}

impl<P: Probe> SenderPort<'_, P> {
    /// New data may take the fast path, if the receiver expects them.
    #[inline(always)]
    fn is_open(&self) -> bool {
        self.far.fast.is_some() && self.net.is_fast_path_open()
    }

    /// New data reach their receiver by way of an agent, and need not be stored.
    #[inline(always)]
    fn sends_to_agent(&self) -> bool {
        matches!(self.far, FarEnd { future: Some(_), fast: None, .. })
            && self.net.agent_paths.has(self.connection)
    }

    /// Sends it on the fast path, if it may take it.
    #[inline(always)]
    fn send_fast(&mut self, data: PlainData) -> bool {
        let receiver = &self.far.receiver;
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
        let FarEnd { receiver, future, fast } = &mut self.far;
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
            FarEnd { receiver, future: Some(future), fast } => {
                let (net, c) = (&self.net, self.connection);
                let path = fast.as_ref().map(|f| &*f.path);
                let last = fast.as_ref().map_or(Time::ZERO, |f| f.last);
                let fast = (|from| net.fast.acks_of(path, c, from), last);
                future.earlier_copies(receiver, &net.event, fast, segment)
            }
            FarEnd { receiver, future: None, .. } if receiver.has_segment(segment) => {
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
}
