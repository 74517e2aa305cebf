//! The stream of everything that happens in a run, for what measures it.
//!
//! The network and the hosts report to one [`Probe`], a type parameter. A method that a probe does
//! not implement is empty, so an event without subscribers costs nothing.

use lasthop::agent::{NodeView, Subscriptions};
use lasthop::link::cell::MediumUse;
use lasthop::segment::{Flags, NodeId, Options, Segment};
use lasthop::tcp::receiver::Discard;
use lasthop::tcp::sender::{Limit, SendReason};
use lasthop::tcp::window::LossClass;
use lasthop::units::{Duration, Time};

use super::{Kind, ReportToAgent, SenderState};

/// An event of a segment, as [`super::Event`] without the flow.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Simulated time.
    pub t: Time,
    /// Kind of the event.
    pub kind: Kind,
    /// Node where it happens.
    pub node: NodeId,
    /// The one-way link, for events of links.
    pub link: Option<u32>,
    /// The segment.
    pub segment: &'a Segment,
    /// Its options, for frames in transit.
    pub options: &'a Options,
    /// Drop reason, reason for sending, or kind of notice.
    pub reason: &'static str,
    /// Seconds or a count, depending on `kind`.
    pub value: f64,
}

/// Why a copy of a segment did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Lost on the air.
    LostOnAir,
    /// Lost in a collision on a shared medium. Counts as a wireless loss: no queue was full.
    Collision,
    /// Refused or dropped by a queue.
    Refused,
    /// Discarded by its end point: a link has delivered it with a bit error.
    Corrupted,
    /// Dropped by an agent.
    DroppedByAgent,
    /// Discarded by the receiver.
    Discarded,
}

/// What a received segment contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes that the receiver did not have.
    New,
    /// Data, but no bytes that the receiver lacked.
    Duplicate,
    /// No data: SYN, FIN, window probe.
    Control,
}

/// What determines the receive window offered to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// The flow's receive window: there is no relay, or its buffer has more room than that.
    #[default]
    Own,
    /// The free space of the relay's buffer.
    Buffer,
    /// Less than the free space: the relay throttles the server or has closed the window.
    Steered,
}

/// What becomes of the earlier copies of a segment that is retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierCopies {
    /// All its bytes have reached the receiver. ACKs that the receiver has sent so far have packet
    /// numbers below `acks_from`.
    Arrived {
        /// A packet number.
        acks_from: u64,
    },
    /// A copy is in transit that will reach the receiver.
    WillArrive,
    /// Copies may be in transit, and it is not known yet whether they will arrive.
    Unknown,
    /// All of them are lost.
    Lost,
}

/// The name of a reason for sending in the event table.
pub fn reason_name(reason: SendReason) -> &'static str {
    match reason {
        SendReason::Control => "control",
        SendReason::New => "new",
        SendReason::FastRetransmit => "fast retransmit",
        SendReason::Timeout => "timeout",
        SendReason::Probe => "tail loss probe",
        SendReason::Recovery => "recovery",
        SendReason::Notified => "eln",
    }
}

/// True if a retransmission answers the expiry of the retransmission timer; for a SYN this is the
/// only reason, while a SYN-ACK may answer a repeated SYN.
pub fn is_for_timeout(segment: &Segment, reason: SendReason) -> bool {
    let syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
    reason == SendReason::Timeout || syn
}

/// The number of the end to which a datagram of an external stack is sent: its payload handle is
/// this number, counted from 1.
#[inline]
pub(crate) fn external_end(segment: &Segment) -> u32 {
    segment.payload.0 - 1
}

/// Receives everything that happens in a run, in order of time. All methods are empty by default.
///
/// Connections and flows are given by their index.
///
/// # Examples
///
/// A measurement implements the methods of the events that it subscribes to. This one adds up what
/// was lost on the air:
///
/// ```
/// use lasthop::segment::Segment;
/// use lasthop::units::Time;
/// use lasthop_sim::events::probe::{Fate, Probe};
///
/// #[derive(Default)]
/// struct AirLosses {
///     bytes: u64,
/// }
///
/// impl Probe for AirLosses {
///     fn lost(&mut self, _now: Time, _at: Time, segment: &Segment, fate: Fate) {
///         if fate == Fate::LostOnAir {
///             self.bytes += u64::from(segment.size);
///         }
///     }
/// }
///
/// // The network makes such calls.
/// let mut losses = AirLosses::default();
/// let segment = Segment { size: 1040, ..Segment::default() };
/// losses.lost(Time(0), Time(5_000_000), &segment, Fate::LostOnAir);
/// losses.lost(Time(0), Time(0), &segment, Fate::Refused);
/// losses.completed(Time(6_000_000), 0);
/// assert_eq!(losses.bytes, 1040);
/// ```
#[allow(unused_variables, reason = "the names of the parameters document the default methods")]
pub trait Probe {
    /// True if somebody reads [`Self::seen`], [`Self::node_view`] and [`Self::state`]. Otherwise
    /// these events are not even computed.
    const READS: bool = false;

    /// An event of a segment that no measurement but an observer needs.
    #[inline(always)]
    fn seen(&mut self, seen: &Seen<'_>) {}

    /// The view of its node that an agent is about to get, before each `AgentIn` event and each
    /// report of a link, and the link events that the agent subscribes to.
    #[inline(always)]
    fn node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions) {}

    /// A link event that an agent is about to get, after the view of its node; called only if
    /// `READS`.
    #[inline(always)]
    fn link_reported(&mut self, report: &ReportToAgent<'_>) {}

    /// An event of a flow at a node, without a segment.
    #[inline(always)]
    fn state(&mut self, now: Time, node: NodeId, flow: u32, kind: Kind, value: f64) {}

    /// A sender has processed an input; called only if `READS`.
    #[inline(always)]
    fn sender_state(&mut self, state: &SenderState) {}

    /// The medium of a cell is used; called only if `READS`.
    #[inline(always)]
    fn medium_used(&mut self, cell: usize, used: &MediumUse) {}

    /// A copy of a segment is lost or dropped at `at`, which may be in the future.
    #[inline(always)]
    fn lost(&mut self, now: Time, at: Time, segment: &Segment, fate: Fate) {}

    /// A queue removes a segment, because `by` makes it redundant, which arrives.
    #[inline(always)]
    fn filtered(&mut self, segment: &Segment, by: &Segment) {}

    /// A link makes a copy of a segment; `segment` is the copy.
    #[inline(always)]
    fn duplicated(&mut self, now: Time, segment: &Segment) {}

    /// A frame has arrived, but its station still holds a copy of `bytes` bytes: the link ACK was
    /// lost.
    #[inline(always)]
    fn copy_retained(&mut self, bytes: u64) {}

    /// The station discards such a copy.
    #[inline(always)]
    fn copy_released(&mut self, bytes: u64) {}

    /// An end point sends a segment; `earlier` are the earlier copies of a retransmission.
    #[inline(always)]
    fn sent(
        &mut self,
        now: Time,
        node: NodeId,
        segment: &Segment,
        reason: SendReason,
        earlier: EarlierCopies,
    ) {
    }

    /// All copies of a segment that is about to be sent again, and not yet `sent`, are known to be
    /// lost.
    #[inline(always)]
    fn all_copies_lost(&mut self, now: Time, segment: &Segment) -> bool {
        false
    }

    /// The retransmission timer expires for a segment that has arrived; called before its
    /// retransmission is `sent`. `acks_from` as in [`EarlierCopies::Arrived`]; `acks`: the packet
    /// numbers of the ACKs for the segment that are in transit.
    #[inline(always)]
    fn timed_out(&mut self, now: Time, segment: &Segment, acks_from: u64, acks: Vec<u64>) {}

    /// A segment with data, SYN or FIN reaches the receiver.
    #[inline(always)]
    fn data_received(&mut self, now: Time, node: NodeId, segment: &Segment) {}

    /// What the segment reported last by [`Self::data_received`] contained.
    #[inline(always)]
    fn data_processed(&mut self, segment: &Segment, content: Content) {}

    /// A segment reaches the receiver, which discards it; `had`: it has all its bytes.
    #[inline(always)]
    fn data_discarded(
        &mut self,
        now: Time,
        node: NodeId,
        segment: &Segment,
        discard: Discard,
        had: bool,
    ) {
    }

    /// An ACK reaches the sender; `ack` is its cumulative ACK, at most `snd_max`.
    #[inline(always)]
    fn ack_received(&mut self, now: Time, node: NodeId, segment: &Segment, ack: u64) {}

    /// A sender sends new bytes, a range given by its first byte and its length, in a packet of
    /// `size` bytes; as `sent`.
    #[inline(always)]
    fn sent_undelivered(&mut self, now: Time, connection: u32, range: (u64, u32), size: u32) {}

    /// The same, and it is known that they are delivered at `at`, in order, and are answered by an
    /// ACK. `sizes`: bytes of the packet and of the ACK, 0 if that is delayed.
    #[inline(always)]
    fn delivered_fast(
        &mut self,
        now: Time,
        at: Time,
        connection: u32,
        range: (u64, u32),
        sizes: (u32, u32),
    ) {
    }

    /// The bytes from `seq` on, reported by [`Self::sent_undelivered`], arrive at `at` beyond a
    /// hole and are answered by a duplicate ACK. `sizes`: bytes of the packet and of the ACK.
    #[inline(always)]
    fn arrived_beyond(&mut self, at: Time, connection: u32, seq: u64, sizes: (u32, u32)) {}

    /// An ACK of `size` bytes without options reaches the sender of a connection; as
    /// `ack_received`.
    #[inline(always)]
    fn ack_received_fast(&mut self, connection: u32, size: u32, ack: u64, id: u64) {}

    /// The scheme classifies the loss of the segment at `seq`, sent `times` times so far.
    #[inline(always)]
    fn classified(&mut self, now: Time, connection: u32, seq: u64, times: u16, class: LossClass) {}

    /// A round-trip time sample of a flow.
    #[inline(always)]
    fn rtt(&mut self, now: Time, flow: u32, rtt: Duration) {}

    /// Another limit prevents a sender of the flow from sending; `second_half`: the relay's sender.
    #[inline(always)]
    fn limited(&mut self, now: Time, flow: u32, second_half: bool, limit: Limit) {}

    /// The window offered to the server of a split flow has changed.
    #[inline(always)]
    fn window_offered(&mut self, now: Time, flow: u32, offer: Offer) {}

    /// Whether an agent's full cache limits the flow.
    #[inline(always)]
    fn cache_binds(&mut self, now: Time, flow: u32, binds: bool) {}

    /// The application has written the bytes of the flow up to `end`.
    #[inline(always)]
    fn written(&mut self, now: Time, flow: u32, end: u64) {}

    /// The bytes `[first, first + count)` are delivered to the application, in order.
    #[inline(always)]
    fn delivered(&mut self, now: Time, node: NodeId, flow: u32, first: u64, count: u64) {}

    /// The start of a flow is put off to `at`.
    #[inline(always)]
    fn start_deferred(&mut self, flow: u32, at: Time) {}

    /// The last byte of a finite transfer is delivered.
    #[inline(always)]
    fn completed(&mut self, now: Time, flow: u32) {}

    /// A flow sends a datagram.
    #[inline(always)]
    fn datagram_sent(&mut self, now: Time, node: NodeId, segment: &Segment) {}

    /// A datagram reaches its destination. Its `ack` field is its sending time.
    #[inline(always)]
    fn datagram_received(&mut self, now: Time, segment: &Segment) {}

    /// An end of an external stack sends a datagram; its `ack` field is its sending time, `seq`
    /// counts the datagrams of this end.
    #[inline(always)]
    fn external_sent(&mut self, now: Time, node: NodeId, segment: &Segment) {}

    /// Such a datagram reaches its destination.
    #[inline(always)]
    fn external_received(&mut self, now: Time, segment: &Segment) {}

    /// A client sends a request; `times`: how many times it has been sent, this time included.
    #[inline(always)]
    fn request_sent(&mut self, now: Time, node: NodeId, segment: &Segment, times: u32) {}

    /// A request reaches the server.
    #[inline(always)]
    fn request_received(&mut self, now: Time, segment: &Segment) {}

    /// The response to a request is complete; `time` is the time since the request was first sent.
    #[inline(always)]
    fn responded(&mut self, now: Time, flow: u32, time: Duration) {}

    /// An agent sends a segment that it created (`AgentInjected`) or forwards later
    /// (`AgentForwarded`), or a notice (`NoticeSent`).
    #[inline(always)]
    fn injected(
        &mut self,
        now: Time,
        node: NodeId,
        kind: Kind,
        segment: &Segment,
        reason: &'static str,
    ) {
    }

    /// An agent takes a segment into custody.
    #[inline(always)]
    fn held_by_agent(&mut self, segment: &Segment) {}

    /// A notice reaches its destination node; `kind` is its name.
    #[inline(always)]
    fn notice_received(&mut self, now: Time, segment: &Segment, kind: &'static str) {}

    /// A handover begins; the transfer of the state takes `took`.
    #[inline(always)]
    fn handover_began(&mut self, handover: usize, took: Duration) {}
}

/// Measures nothing.
impl Probe for () {}
