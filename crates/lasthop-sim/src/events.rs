//! What happened: typed events, and the readers that listen to them.
//!
//! A reader is a type parameter of the simulation. Without readers (`()`) the events cost nothing.

use lasthop::agent::NodeView;
use lasthop::segment::{Options, Segment};
use lasthop::units::Time;

/// One event.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// When.
    pub t: Time,
    /// Node.
    pub node: u16,
    /// One-way link.
    pub link: Option<u32>,
    /// Flow.
    pub flow: u32,
    /// What.
    pub kind: Kind,
    /// The segment, where there is one.
    pub segment: Option<&'a Segment>,
    /// The segment's options, where it is a frame on its way; its flags say which of them count.
    pub options: &'a Options,
    /// Why.
    pub reason: &'static str,
    /// Bytes, seconds or a count, as `kind` says.
    pub value: f64,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The sender hands a data segment (or SYN, FIN) to its node.
    DataSent,
    /// An ACK reaches the sender.
    AckReceived,
    /// A data segment reaches the receiver's node.
    DataReceived,
    /// The receiver hands an ACK to its node.
    AckSent,
    /// In-order bytes go to the application: `value` of them.
    Delivered,
    /// A frame enters a link; `value` is the number of frames waiting before it.
    Enqueued,
    /// The queue refused or dropped it, for the reason that is the cause.
    DroppedAtQueue,
    /// The queue marked it: congestion experienced.
    Marked,
    /// It leaves a queue with another discipline than DropTail, to be sent; `value` is the seconds
    /// it waited.
    Dequeued,
    /// Lost on the air, at the end of its air time; where the link layer sends frames again, at the
    /// end of the last attempt. The cause is "air", or "collision" on a shared medium.
    LostOnAir,
    /// An attempt of a link layer that sends frames again has failed, at the end of its air time;
    /// `value` is its number. In a cell the cause is "air", "collision" or "link ACK lost"; in the
    /// last case the frame has arrived.
    AttemptFailed,
    /// A frame leaves a link at its far end.
    Arrived,
    /// It leaves the link at its far end, but bit errors of the connection's own have hit it: the
    /// end point does not get it.
    Corrupted,
    /// A segment is shown to an agent.
    AgentIn,
    /// An agent lets a segment go on.
    AgentForwarded,
    /// An agent makes a segment, or sends one it kept.
    AgentInjected,
    /// An agent throws a segment away.
    AgentDropped,
    /// An agent sends a notice; the cause is its kind, ack the value and seq its stamp.
    NoticeSent,
    /// A notice reaches the node it was sent to.
    NoticeReceived,
    /// cwnd, in bytes.
    Cwnd,
    /// ssthresh, in bytes.
    Ssthresh,
    /// A retransmission timeout.
    Timeout,
    /// A fast retransmit.
    FastRetransmit,
    /// The sender takes a reduction back that was uncalled for (Eifel, F-RTO, D-SACK).
    Undone,
    /// A retransmission turned out to be spurious.
    Spurious,
}

impl Kind {
    /// Its name in the event table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::DataSent => "data_sent",
            Kind::AckReceived => "ack_received",
            Kind::DataReceived => "data_received",
            Kind::AckSent => "ack_sent",
            Kind::Delivered => "delivered",
            Kind::Enqueued => "enqueued",
            Kind::DroppedAtQueue => "dropped_at_queue",
            Kind::Marked => "marked",
            Kind::Dequeued => "dequeued",
            Kind::LostOnAir => "lost_on_air",
            Kind::AttemptFailed => "attempt_failed",
            Kind::Arrived => "arrived",
            Kind::Corrupted => "corrupted",
            Kind::AgentIn => "agent_in",
            Kind::AgentForwarded => "agent_forwarded",
            Kind::AgentInjected => "agent_injected",
            Kind::AgentDropped => "agent_dropped",
            Kind::NoticeSent => "notice_sent",
            Kind::NoticeReceived => "notice_received",
            Kind::Cwnd => "cwnd",
            Kind::Ssthresh => "ssthresh",
            Kind::Timeout => "timeout",
            Kind::FastRetransmit => "fast_retransmit",
            Kind::Undone => "undone",
            Kind::Spurious => "spurious",
        }
    }
}

/// Listens to a run.
pub trait Observer {
    /// False for the reader that does not listen: then nothing is even computed for it.
    const ACTIVE: bool = true;

    /// Something happened.
    fn on_event(&mut self, event: &Event<'_>);

    /// What the agent that is about to be shown a segment can read of its node. Comes before the
    /// segment's `AgentIn`.
    fn on_node_view(&mut self, _surroundings: &dyn NodeView) {}
}

impl Observer for () {
    const ACTIVE: bool = false;
    fn on_event(&mut self, _: &Event<'_>) {}
}

/// Two readers at once.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const ACTIVE: bool = A::ACTIVE || B::ACTIVE;
    fn on_event(&mut self, event: &Event<'_>) {
        self.0.on_event(event);
        self.1.on_event(event);
    }
    fn on_node_view(&mut self, node_view: &dyn NodeView) {
        self.0.on_node_view(node_view);
        self.1.on_node_view(node_view);
    }
}

/// A reader that may be absent.
impl<R: Observer> Observer for Option<R> {
    fn on_event(&mut self, event: &Event<'_>) {
        if let Some(r) = self {
            r.on_event(event);
        }
    }
    fn on_node_view(&mut self, node_view: &dyn NodeView) {
        if let Some(r) = self {
            r.on_node_view(node_view);
        }
    }
}

impl<R: Observer> Observer for &mut R {
    const ACTIVE: bool = R::ACTIVE;
    fn on_event(&mut self, event: &Event<'_>) {
        (**self).on_event(event);
    }
    fn on_node_view(&mut self, node_view: &dyn NodeView) {
        (**self).on_node_view(node_view);
    }
}
