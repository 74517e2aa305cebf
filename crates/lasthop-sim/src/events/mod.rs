//! Typed events of a run, and the observers that receive them.
//!
//! An observer is a type parameter of the simulation. Without observers (`()`) events cost no time.

pub mod probe;

use lasthop::agent::{LinkEvent, NodeView, Subscriptions};
use lasthop::link::cell::MediumUse;
use lasthop::segment::{Direction, NodeId, Options, Segment};
use lasthop::tcp::sender::Limit;
use lasthop::tcp::window::Window;
use lasthop::units::{Duration, Rate, Time};

/// An event of a run.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// Simulated time.
    pub t: Time,
    /// Node where it happens.
    pub node: u16,
    /// The one-way link, for events of links.
    pub link: Option<u32>,
    /// Index of the flow.
    pub flow: u32,
    /// Kind of the event.
    pub kind: Kind,
    /// The segment, if the event has one.
    pub segment: Option<&'a Segment>,
    /// The segment's options, for frames in transit; the segment's flags say which are valid.
    pub options: &'a Options,
    /// Drop reason, reason for sending, or kind of notice, depending on `kind`; empty if there is
    /// none.
    pub reason: &'static str,
    /// Bytes, seconds or a count, depending on `kind`.
    pub value: f64,
}

/// A link event that an agent gets.
#[derive(Clone, Copy, Debug)]
pub struct ReportToAgent<'a> {
    /// Simulated time.
    pub t: Time,
    /// The agent's node.
    pub node: NodeId,
    /// Direction of the segment at this node.
    pub direction: Direction,
    /// What the link did.
    pub event: LinkEvent,
    /// With this segment.
    pub segment: &'a Segment,
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
    /// In-order bytes are delivered to the application; `value` is their number.
    Delivered,
    /// A frame is offered to a link; `value` is the number of frames queued before it.
    Enqueued,
    /// The queue drops a frame, on arrival or later; `reason` is the drop reason.
    DroppedAtQueue,
    /// The queue removes an ACK, because a segment that has just been offered makes it redundant.
    Filtered,
    /// The queue marks a frame: congestion experienced (RFC 3168).
    Marked,
    /// A frame leaves a queue with a discipline other than DropTail to be sent; `value` is its
    /// queueing delay in seconds.
    Dequeued,
    /// A frame is lost on the air, at the end of its air time; with link-layer retransmission, at
    /// the end of the last attempt. The reason is "air", or on a shared medium "collision" or
    /// "contention".
    LostOnAir,
    /// An attempt of a link layer with retransmission fails, at the end of its air time; `value` is
    /// its number. In a cell the reason is "air", "collision" or "link ACK lost"; in the last case
    /// the frame has arrived.
    AttemptFailed,
    /// A frame arrives at the far end of a link.
    Arrived,
    /// A frame arrives at the far end of its last link, but bit errors of its connection or of a
    /// link have hit it: the end point discards it.
    Corrupted,
    /// A segment reaches the receiver, which discards it; the reason is a name of
    /// [`Discard`](lasthop::tcp::receiver::Discard).
    Discarded,
    /// A link makes a copy of the frame that has just been offered to it; the segment is the copy.
    Duplicated,
    /// A segment is shown to an agent.
    AgentIn,
    /// An agent forwards a segment.
    AgentForwarded,
    /// An agent sends a segment that it created or cached.
    AgentInjected,
    /// An agent drops a segment.
    AgentDropped,
    /// An agent sends a notice; `reason` is its kind. In the segment `ack` is the notice's value
    /// and `seq` its time stamp.
    NoticeSent,
    /// A notice reaches its destination node.
    NoticeReceived,
    /// A client sends a request; `seq` of the segment is its ordinal, `reason` is "new" or
    /// "repeated".
    RequestSent,
    /// A request reaches the server.
    RequestReceived,
    /// cwnd changes; `value` is the new cwnd in bytes.
    Cwnd,
    /// ssthresh changes; `value` is the new ssthresh in bytes.
    Ssthresh,
    /// A retransmission timeout at the sender.
    Timeout,
    /// A fast retransmit at the sender.
    FastRetransmit,
    /// The sender reverts a spurious reduction of cwnd (Eifel, F-RTO, D-SACK).
    Undone,
    /// Retransmissions turn out to be spurious; `value` is their number.
    Spurious,
    /// The sender ends the connection, since its retransmissions are not answered.
    GaveUp,
}

impl Kind {
    /// The name of the kind in the event table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::DataSent => "data_sent",
            Kind::AckReceived => "ack_received",
            Kind::DataReceived => "data_received",
            Kind::AckSent => "ack_sent",
            Kind::Delivered => "delivered",
            Kind::Enqueued => "enqueued",
            Kind::DroppedAtQueue => "dropped_at_queue",
            Kind::Filtered => "filtered",
            Kind::Marked => "marked",
            Kind::Dequeued => "dequeued",
            Kind::LostOnAir => "lost_on_air",
            Kind::AttemptFailed => "attempt_failed",
            Kind::Arrived => "arrived",
            Kind::Corrupted => "corrupted",
            Kind::Discarded => "discarded",
            Kind::Duplicated => "duplicated",
            Kind::AgentIn => "agent_in",
            Kind::AgentForwarded => "agent_forwarded",
            Kind::AgentInjected => "agent_injected",
            Kind::AgentDropped => "agent_dropped",
            Kind::NoticeSent => "notice_sent",
            Kind::NoticeReceived => "notice_received",
            Kind::RequestSent => "request_sent",
            Kind::RequestReceived => "request_received",
            Kind::Cwnd => "cwnd",
            Kind::Ssthresh => "ssthresh",
            Kind::Timeout => "timeout",
            Kind::FastRetransmit => "fast_retransmit",
            Kind::Undone => "undone",
            Kind::Spurious => "spurious",
            Kind::GaveUp => "gave_up",
        }
    }
}

/// State of a TCP sender after it has processed an input and sent what it may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderState {
    /// Simulated time.
    pub t: Time,
    /// Index of the flow.
    pub flow: u32,
    /// Number of the connection.
    pub connection: u32,
    /// True for the second half of a split connection, whose sender is the relay's.
    pub second_half: bool,
    /// Congestion window and slow-start threshold, bytes.
    pub window: Window,
    /// Bytes sent and not cumulatively acknowledged.
    pub flight: u64,
    /// Bytes that the sender considers to be in the network (RFC 6675, SetPipe); without SACK as
    /// `flight`.
    pub pipe: u64,
    /// Advertised receive window, bytes.
    pub receive_window: u64,
    /// Round-trip time sample of this input.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298).
    pub srtt: Option<Duration>,
    /// Retransmission timeout, back-off included (RFC 6298).
    pub rto: Duration,
    /// Pacing rate, if the sender paces.
    pub pacing_rate: Option<Rate>,
    /// What keeps the sender from sending its next new byte.
    pub limit: Limit,
}

/// Receives the events of a run.
///
/// # Examples
///
/// The largest congestion window of a run, in segments of 1000 bytes. `on_sender` gets the state of
/// a sender after each input, `on_event` the events of packets and links:
///
/// ```
/// use std::sync::atomic::AtomicBool;
///
/// use lasthop::scenario::{Overrides, load};
/// use lasthop_sim::events::{Event, Observer, SenderState};
///
/// #[derive(Default)]
/// struct LargestWindow {
///     segments: f64,
///     events: u64,
/// }
///
/// impl Observer for LargestWindow {
///     fn on_event(&mut self, _: &Event<'_>) {
///         self.events += 1;
///     }
///
///     fn on_sender(&mut self, state: &SenderState) {
///         self.segments = self.segments.max(state.window.cwnd / 1000.0);
///     }
/// }
///
/// # use lasthop::scenario::Files;
/// # struct NoFiles;
/// # impl Files for NoFiles {
/// #     fn open(&self, _: &std::path::Path) -> std::io::Result<Box<dyn std::io::Read>> {
/// #         Err(std::io::ErrorKind::NotFound.into())
/// #     }
/// # }
/// let text = "duration = '5 s'\nlast_hop = { rate = '2 Mbps', rtt = '100 ms' }";
/// let scenario = load(text, None, &Overrides::default(), &NoFiles).unwrap();
/// let mut largest = LargestWindow::default();
/// // A pair of observers is an observer; `()` reads nothing.
/// let observers = (&mut largest, ());
/// lasthop_sim::run(&scenario.network, 1, observers, &AtomicBool::new(false)).unwrap();
/// assert!(largest.segments > 10.0 && largest.events > 0);
/// ```
pub trait Observer {
    /// False for `()`: events are then not even computed.
    const ACTIVE: bool = true;

    /// Called for each event, in order of time.
    fn on_event(&mut self, event: &Event<'_>);

    /// Called after each input that a sender has processed (an ACK, a timer, a write, a notice).
    fn on_sender(&mut self, _state: &SenderState) {}

    /// Called before each `AgentIn` event and each report of a link to an agent, with the view of
    /// the node that the agent is about to get, and the link events that it subscribes to.
    fn on_node_view(&mut self, _node_view: &dyn NodeView, _subscriptions: Subscriptions) {}

    /// Called before an agent gets a link event.
    fn on_link_report(&mut self, _report: &ReportToAgent<'_>) {}

    /// Called after the data of each transmission in a cell with aggregation, which is given by its
    /// index. The end of the transmission, with the answer, may be in the future.
    fn on_medium(&mut self, _cell: usize, _used: &MediumUse) {}
}

impl Observer for () {
    const ACTIVE: bool = false;
    fn on_event(&mut self, _: &Event<'_>) {}
}

/// Two observers at once.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const ACTIVE: bool = A::ACTIVE || B::ACTIVE;
    fn on_event(&mut self, event: &Event<'_>) {
        self.0.on_event(event);
        self.1.on_event(event);
    }
    fn on_node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions) {
        self.0.on_node_view(node_view, subscriptions);
        self.1.on_node_view(node_view, subscriptions);
    }
    fn on_link_report(&mut self, report: &ReportToAgent<'_>) {
        self.0.on_link_report(report);
        self.1.on_link_report(report);
    }
    fn on_sender(&mut self, state: &SenderState) {
        self.0.on_sender(state);
        self.1.on_sender(state);
    }
    fn on_medium(&mut self, cell: usize, used: &MediumUse) {
        self.0.on_medium(cell, used);
        self.1.on_medium(cell, used);
    }
}

/// An optional observer.
impl<R: Observer> Observer for Option<R> {
    fn on_event(&mut self, event: &Event<'_>) {
        if let Some(r) = self {
            r.on_event(event);
        }
    }
    fn on_node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions) {
        if let Some(r) = self {
            r.on_node_view(node_view, subscriptions);
        }
    }
    fn on_link_report(&mut self, report: &ReportToAgent<'_>) {
        if let Some(r) = self {
            r.on_link_report(report);
        }
    }
    fn on_sender(&mut self, state: &SenderState) {
        if let Some(r) = self {
            r.on_sender(state);
        }
    }
    fn on_medium(&mut self, cell: usize, used: &MediumUse) {
        if let Some(r) = self {
            r.on_medium(cell, used);
        }
    }
}

impl<R: Observer> Observer for &mut R {
    const ACTIVE: bool = R::ACTIVE;
    fn on_event(&mut self, event: &Event<'_>) {
        (**self).on_event(event);
    }
    fn on_node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions) {
        (**self).on_node_view(node_view, subscriptions);
    }
    fn on_link_report(&mut self, report: &ReportToAgent<'_>) {
        (**self).on_link_report(report);
    }
    fn on_sender(&mut self, state: &SenderState) {
        (**self).on_sender(state);
    }
    fn on_medium(&mut self, cell: usize, used: &MediumUse) {
        (**self).on_medium(cell, used);
    }
}

/// An observer whose type is not known when the simulator is compiled: one call through a pointer
/// for each event instead of a simulator for each type.
pub struct AnyObserver<'a>(&'a mut dyn Listener);

impl<'a> AnyObserver<'a> {
    /// Passes all events to this observer.
    pub fn new<R: Observer>(observer: &'a mut R) -> Self {
        AnyObserver(observer)
    }
}

impl Observer for AnyObserver<'_> {
    fn on_event(&mut self, event: &Event<'_>) {
        self.0.event(event);
    }
    fn on_node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions) {
        self.0.node_view(node_view, subscriptions);
    }
    fn on_link_report(&mut self, report: &ReportToAgent<'_>) {
        self.0.link_report(report);
    }
    fn on_sender(&mut self, state: &SenderState) {
        self.0.sender(state);
    }
    fn on_medium(&mut self, cell: usize, used: &MediumUse) {
        self.0.medium(cell, used);
    }
}

/// [`Observer`] without its constant, which no trait object may have.
trait Listener {
    fn event(&mut self, event: &Event<'_>);
    fn node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions);
    fn link_report(&mut self, report: &ReportToAgent<'_>);
    fn sender(&mut self, state: &SenderState);
    fn medium(&mut self, cell: usize, used: &MediumUse);
}

impl<R: Observer> Listener for R {
    fn event(&mut self, event: &Event<'_>) {
        self.on_event(event);
    }
    fn node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions) {
        self.on_node_view(node_view, subscriptions);
    }
    fn link_report(&mut self, report: &ReportToAgent<'_>) {
        self.on_link_report(report);
    }
    fn sender(&mut self, state: &SenderState) {
        self.on_sender(state);
    }
    fn medium(&mut self, cell: usize, used: &MediumUse) {
        self.on_medium(cell, used);
    }
}
