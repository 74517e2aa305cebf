//! Agents: per-node processing of every segment between the node's stack and its links.
//!
//! An agent is a state machine without I/O. The host (simulator or live) passes it the time and an
//! event, and executes the returned verdict and actions. The same agent runs in both hosts.

pub use crate::flow_table::FlowTable;
use crate::role::Role;
use crate::segment::{Direction, FlowId, Notice, Options, Payload, Segment};
use crate::units::{Rate, Time};

/// An agent's decision about a segment.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Forward it unchanged.
    Forward,
    /// Forward it with some fields changed.
    Rewrite(Rewrite),
    /// The agent takes custody of the segment. The host does not forward it and stores its payload
    /// until it is released.
    Keep,
    /// Drop it, with this drop reason for events and captures.
    Drop(&'static str),
}

/// Header fields to change; the live host patches them into the original bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// New acknowledgment number, as a stream offset.
    pub ack: Option<u64>,
    /// New receive window, bytes.
    pub window: Option<u32>,
    /// Set the explicit loss notification bit.
    pub eln: bool,
}

/// An action that an agent requests from its host besides its verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send this segment in this direction; it is routed like any packet.
    Inject(Direction, Segment),
    /// Forward a segment that the agent has held; its window and acknowledgment number may have
    /// changed.
    Forward(Direction, Segment),
    /// Call `on_timer(id)` at this time; a further request with the same id resets the timer.
    Wake(u32, Time),
    /// Cancel the timer with this id.
    Cancel(u32),
    /// Retain the payload of a forwarded segment, so that the agent can inject it later.
    Retain(Payload),
    /// Release a payload; the agent will not use it any more.
    Release(Payload),
    /// Send this notice as a separate packet. A notice to the agent's own node reaches its stack at
    /// the same instant.
    Notify(Notice, Destination),
}

/// Destination of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The data sender of the notice's flow.
    Sender,
    /// The data receiver of the notice's flow.
    Receiver,
    /// The agent of the flow's scheme at the node with this role on the path.
    Agent(Role),
}

/// A link-layer event for a frame at the agent's node. On a link without retransmissions a frame
/// has one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The link's queue dropped the frame.
    Refused,
    /// The frame has left the queue and is being sent.
    Dequeued,
    /// A transmission attempt begins.
    AttemptStarted {
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// A transmission attempt failed; reported at the end of its air time.
    AttemptFailed {
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// The last allowed attempt failed: the link discards the frame.
    Discarded,
    /// The link layer knows that the frame has reached the far end.
    Delivered {
        /// Number of attempts used.
        attempts: u32,
    },
    /// At the receiving node: the frame has arrived damaged. The agent gets its original headers,
    /// even if they are unreadable.
    Damaged {
        /// True if the headers are intact.
        header_readable: bool,
    },
    /// At the receiving node: the first fragment has arrived and the others are lost.
    Incomplete,
}

impl LinkEvent {
    /// The subscriptions that include this event.
    pub fn subscription(self) -> Subscriptions {
        match self {
            LinkEvent::Refused => Subscriptions::REFUSED,
            LinkEvent::Dequeued => Subscriptions::DEQUEUED,
            LinkEvent::AttemptStarted { attempt: 1 } => Subscriptions::ATTEMPT_STARTED,
            LinkEvent::AttemptStarted { .. } => {
                Subscriptions::ATTEMPT_STARTED.with(Subscriptions::RETRIED)
            }
            LinkEvent::AttemptFailed { .. } => Subscriptions::ATTEMPT_FAILED,
            LinkEvent::Discarded => Subscriptions::DISCARDED,
            LinkEvent::Delivered { .. } => Subscriptions::DELIVERED,
            LinkEvent::Damaged { .. } => Subscriptions::DAMAGED,
            LinkEvent::Incomplete => Subscriptions::INCOMPLETE,
        }
    }

    /// Its name in captures and for agents in Python.
    pub fn name(self) -> &'static str {
        match self {
            LinkEvent::Refused => "refused",
            LinkEvent::Dequeued => "dequeued",
            LinkEvent::AttemptStarted { .. } => "attempt-started",
            LinkEvent::AttemptFailed { .. } => "attempt-failed",
            LinkEvent::Discarded => "discarded",
            LinkEvent::Delivered { .. } => "delivered",
            LinkEvent::Damaged { .. } => "damaged",
            LinkEvent::Incomplete => "incomplete",
        }
    }

    /// Number of the attempt, or of the attempts used, if the event has one.
    pub fn attempt(self) -> Option<u32> {
        match self {
            LinkEvent::AttemptStarted { attempt } | LinkEvent::AttemptFailed { attempt } => {
                Some(attempt)
            }
            LinkEvent::Delivered { attempts } => Some(attempts),
            _ => None,
        }
    }
}

/// A change of state or rate of a link at the agent's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// The link goes down.
    Down,
    /// The link is up again.
    Up,
    /// The link has this rate from now on.
    Rate(Rate),
}

/// The link events that an agent subscribes to, as a bit set. Events without a subscriber are not
/// generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions(u16);

impl Subscriptions {
    /// No event.
    pub const NONE: Subscriptions = Subscriptions(0);
    /// `LinkEvent::Refused`.
    pub const REFUSED: Subscriptions = Subscriptions(1);
    /// `LinkEvent::Dequeued`.
    pub const DEQUEUED: Subscriptions = Subscriptions(2);
    /// `LinkEvent::AttemptStarted`.
    pub const ATTEMPT_STARTED: Subscriptions = Subscriptions(4);
    /// `LinkEvent::AttemptFailed`.
    pub const ATTEMPT_FAILED: Subscriptions = Subscriptions(8);
    /// `LinkEvent::Discarded`.
    pub const DISCARDED: Subscriptions = Subscriptions(16);
    /// `LinkEvent::Delivered`.
    pub const DELIVERED: Subscriptions = Subscriptions(32);
    /// `LinkEvent::Damaged`.
    pub const DAMAGED: Subscriptions = Subscriptions(64);
    /// `LinkEvent::Incomplete`.
    pub const INCOMPLETE: Subscriptions = Subscriptions(128);
    /// Every `LinkChange`.
    pub const CHANGES: Subscriptions = Subscriptions(256);
    /// `LinkEvent::AttemptStarted` for every attempt but a frame's first.
    pub const RETRIED: Subscriptions = Subscriptions(512);
    /// All events at the sending node.
    pub const SENDING: Subscriptions = Subscriptions(63 | 512);
    /// Events that are known only if the link computes each departure separately.
    pub const STEPS: Subscriptions =
        Self::DEQUEUED.with(Self::ATTEMPT_STARTED).with(Self::ATTEMPT_FAILED).with(Self::DELIVERED);

    /// The subscription to each link event, with the event's name.
    pub const BY_NAME: [(&'static str, Subscriptions); 8] = [
        ("refused", Self::REFUSED),
        ("dequeued", Self::DEQUEUED),
        ("attempt-started", Self::ATTEMPT_STARTED),
        ("attempt-failed", Self::ATTEMPT_FAILED),
        ("discarded", Self::DISCARDED),
        ("delivered", Self::DELIVERED),
        ("damaged", Self::DAMAGED),
        ("incomplete", Self::INCOMPLETE),
    ];

    /// The union of both sets.
    pub const fn with(self, other: Subscriptions) -> Subscriptions {
        Subscriptions(self.0 | other.0)
    }

    /// True if any event of `other` is in the set.
    #[inline]
    pub const fn any(self, other: Subscriptions) -> bool {
        self.0 & other.0 != 0
    }

    /// The events of both sets.
    pub const fn common(self, other: Subscriptions) -> Subscriptions {
        Subscriptions(self.0 & other.0)
    }

    /// The events of this set that `other` does not have.
    pub const fn without(self, other: Subscriptions) -> Subscriptions {
        Subscriptions(self.0 & !other.0)
    }
}

/// The state of its node that an agent may read.
///
/// # Examples
///
/// The view of a node with 20 packets in the queue of its radio link, the limit of that queue:
///
/// ```
/// use lasthop_core::agent::{NodeView, QueueState};
/// use lasthop_core::segment::Direction;
/// use lasthop_core::units::Rate;
///
/// struct FullRadioQueue;
///
/// impl NodeView for FullRadioQueue {
///     fn queue(&self, direction: Direction) -> QueueState {
///         match direction {
///             Direction::Downlink => QueueState { packets: 20, bytes: 20_800, full: true },
///             Direction::Uplink => QueueState::default(),
///         }
///     }
///
///     fn rate(&self, _: Direction) -> Option<Rate> {
///         Some(Rate(2_000_000))
///     }
/// }
///
/// let view = FullRadioQueue;
/// assert!(view.queue(Direction::Downlink).full);
/// // The node has one link in each direction, so that all flows have its rate.
/// assert_eq!(view.rate_of(3, Direction::Uplink), Some(Rate(2_000_000)));
/// ```
pub trait NodeView {
    /// Length of the link queue in this direction, and whether it is full.
    fn queue(&self, direction: Direction) -> QueueState;
    /// True if that queue would drop one more frame of full size.
    fn is_full(&self, direction: Direction) -> bool {
        self.queue(direction).full
    }
    /// Current rate of that link, if known.
    fn rate(&self, direction: Direction) -> Option<Rate>;
    /// Current rate of the link that a flow uses in this direction; it depends on the flow at a
    /// node with links to several stations.
    fn rate_of(&self, _flow: FlowId, direction: Direction) -> Option<Rate> {
        self.rate(direction)
    }
}

/// Length of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Frames in the queue, excluding the one being sent.
    pub packets: u64,
    /// Bytes in the queue, excluding the frame being sent.
    pub bytes: u64,
    /// True if the queue would drop one more frame of full size.
    pub full: bool,
}

/// A [`NodeView`] without information: empty queues that are never full, and unknown rates.
pub struct BlankView;

impl NodeView for BlankView {
    fn queue(&self, _: Direction) -> QueueState {
        QueueState::default()
    }
    fn rate(&self, _: Direction) -> Option<Rate> {
        None
    }
}

/// The context of one call: the time, the state of the node, and the list of actions.
pub struct Context<'a> {
    /// Current time.
    pub now: Time,
    /// TCP options of the segment that is processed.
    pub options: &'a Options,
    /// Queues and rates of the node.
    pub node_view: &'a dyn NodeView,
    /// Requested actions; the host executes them in this order after the verdict.
    pub actions: &'a mut Vec<Action>,
}

impl Context<'_> {
    /// Sends `segment` in `direction` after the verdict is executed.
    pub fn inject(&mut self, direction: Direction, segment: Segment) {
        self.actions.push(Action::Inject(direction, segment));
    }

    /// Forwards a segment that the agent has held.
    pub fn forward(&mut self, direction: Direction, segment: Segment) {
        self.actions.push(Action::Forward(direction, segment));
    }

    /// Sets or resets timer `id` to expire at `at`.
    #[inline]
    pub fn wake(&mut self, id: u32, at: Time) {
        self.actions.push(Action::Wake(id, at));
    }

    /// Cancels timer `id`.
    #[inline]
    pub fn cancel(&mut self, id: u32) {
        self.actions.push(Action::Cancel(id));
    }

    /// Retains the payload of a segment beyond this call.
    #[inline]
    pub fn retain(&mut self, payload: Payload) {
        if payload != Payload::NONE {
            self.actions.push(Action::Retain(payload));
        }
    }

    /// Releases a retained payload.
    #[inline]
    pub fn release(&mut self, payload: Payload) {
        if payload != Payload::NONE {
            self.actions.push(Action::Release(payload));
        }
    }

    /// Sends a notice, stamped with the current time.
    pub fn notify(&mut self, notice: Notice, to: Destination) {
        self.actions.push(Action::Notify(Notice { stamp: self.now, ..notice }, to));
    }
}

/// An agent at the base station, or at any other node, between stack and links.
///
/// Only `on_segment` is required.
///
/// # Examples
///
/// An agent that drops every ACK whose number repeats, and counts them:
///
/// ```
/// use lasthop_core::agent::{Agent, BlankView, Context, Verdict};
/// use lasthop_core::segment::{Direction, Flags, Options, Segment};
/// use lasthop_core::units::Time;
///
/// #[derive(Default)]
/// struct DropRepeatedAcks {
///     highest: u64,
///     dropped: u64,
/// }
///
/// impl Agent for DropRepeatedAcks {
///     fn on_segment(
///         &mut self,
///         _ctx: &mut Context<'_>,
///         direction: Direction,
///         segment: &Segment,
///     ) -> Verdict {
///         if direction == Direction::Downlink || segment.len > 0 || segment.ack > self.highest {
///             self.highest = self.highest.max(segment.ack);
///             return Verdict::Forward;
///         }
///         self.dropped += 1;
///         Verdict::Drop("repeated ACK")
///     }
///
///     fn counters(&self) -> Vec<(&'static str, u64)> {
///         vec![("dropped", self.dropped)]
///     }
/// }
///
/// let mut agent = DropRepeatedAcks::default();
/// let (options, mut actions) = (Options::default(), Vec::new());
/// let mut ctx = Context {
///     now: Time::ZERO,
///     options: &options,
///     node_view: &BlankView,
///     actions: &mut actions,
/// };
/// let ack = Segment { ack: 1000, flags: Flags::ACK, ..Segment::default() };
/// assert_eq!(agent.on_segment(&mut ctx, Direction::Uplink, &ack), Verdict::Forward);
/// assert_ne!(agent.on_segment(&mut ctx, Direction::Uplink, &ack), Verdict::Forward);
/// assert_eq!(agent.counters(), [("dropped", 1)]);
/// ```
pub trait Agent: Send {
    /// Processes a TCP segment that passes the node. Called only for flows of the agent's scheme.
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict;

    /// Timer `id` has expired.
    fn on_timer(&mut self, _ctx: &mut Context<'_>, _id: u32) {}

    /// True if the agent processes only link events and notices; segments then bypass it.
    fn is_passive(&self) -> bool {
        false
    }

    /// True if the agent may inject ACKs; read once. A simulator computes receivers in advance only
    /// where no agent does.
    fn sends_acks(&self) -> bool {
        true
    }

    /// The link events that the agent subscribes to; read once.
    fn subscribes(&self) -> Subscriptions {
        Subscriptions::NONE
    }

    /// A link of the node reports an event for a segment of the agent's scheme, sent in
    /// `direction`. Called after the host has processed the event, at the same instant.
    fn on_link_event(
        &mut self,
        _ctx: &mut Context<'_>,
        _direction: Direction,
        _event: LinkEvent,
        _segment: &Segment,
    ) {
    }

    /// The link that this flow uses from the node in this direction goes down, comes up or changes
    /// its rate. Called for each flow of the agent's scheme.
    fn on_link_change(
        &mut self,
        _ctx: &mut Context<'_>,
        _flow: FlowId,
        _direction: Direction,
        _change: LinkChange,
    ) {
    }

    /// A notice addressed to this agent has arrived, for a flow of its scheme.
    fn on_notice(&mut self, _ctx: &mut Context<'_>, _notice: &Notice) {}

    /// True if a segment of this flow was lost that the agent cannot retransmit because its cache
    /// was full. Queried after each segment if the scheme lists its cache as a bound.
    fn cache_binds(&self, _flow: FlowId) -> bool {
        false
    }

    /// Named counters for reports, in a fixed order.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Size of the agent's state over all flows, bytes; what a handover would transfer.
    fn state_bytes(&self) -> usize {
        0
    }

    /// Serialises and removes the state of a flow, for a handover to another base station; `None`
    /// if there is nothing to transfer.
    fn export(&mut self, _flow: FlowId) -> Option<Vec<u8>> {
        None
    }

    /// Restores the state of a flow that another instance exported. False if the bytes are invalid.
    fn import(&mut self, _flow: FlowId, _state: &[u8]) -> bool {
        false
    }
}
