//! Agents: what stands between a node's stack and its links and looks at every segment.
//!
//! An agent is a pure state machine. The host (simulator or live) calls it with the time and what
//! happened and carries out what it answers. The same agent runs in both.

pub use crate::flow_table::FlowTable;
use crate::role::Role;
use crate::segment::{Direction, FlowId, Notice, Options, Payload, Segment};
use crate::units::{Rate, Time};

/// What the agent decides about the segment it was shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Let it go on as it is.
    Forward,
    /// Let it go on with some fields changed.
    Rewrite(Rewrite),
    /// The agent takes custody; the host forgets it, its payload stays until released.
    Keep,
    /// Throw it away. The reason appears in events and captures.
    Drop(&'static str),
}

/// Field edits; the live host patches them into the original bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// New acknowledgment number.
    pub ack: Option<u64>,
    /// New receive window in bytes.
    pub window: Option<u32>,
    /// Sets the bit of an explicit loss notification.
    pub eln: bool,
}

/// What an agent asks the host to do besides its verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send this segment in this direction, routed like any packet.
    Inject(Direction, Segment),
    /// Let a segment go on that the agent had kept; its window and acknowledgment may have been
    /// changed.
    Forward(Direction, Segment),
    /// Call `on_timer(id)` at this time; a second call with the same id moves the timer.
    Wake(u32, Time),
    /// Forget the timer.
    Cancel(u32),
    /// Keep the payload of a segment that goes on: the agent may inject it later.
    Retain(Payload),
    /// The agent will not use this payload again.
    Release(Payload),
    /// Send this notice as a packet of its own. One for the agent's own node reaches the stack
    /// there at the same instant.
    Notify(Notice, Destination),
}

/// Where a notice goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To the data sender of the notice's flow.
    Sender,
    /// To its data receiver.
    Receiver,
    /// To the agent of the flow's scheme at the node with this role on its path.
    Agent(Role),
}

/// What a link of the agent's node did with a frame. On a link without retransmissions a frame has
/// one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The link's queue refused or dropped it.
    Refused,
    /// It has left the queue and is sent.
    Dequeued,
    /// An attempt to send it begins; the first is number 1.
    AttemptStarted {
        /// Its number.
        attempt: u32,
    },
    /// An attempt has failed, at the end of its air time.
    AttemptFailed {
        /// Its number.
        attempt: u32,
    },
    /// The last attempt allowed has failed: the link gives the frame up.
    Discarded,
    /// The far end has it, as far as the link layer knows.
    Delivered {
        /// How many attempts it took.
        attempts: u32,
    },
    /// At the receiving node: it has arrived damaged. The agent sees what its headers said, or
    /// would have said.
    Damaged {
        /// The headers are intact.
        header_readable: bool,
    },
    /// At the receiving node: its first fragment has arrived and the rest never will.
    Incomplete,
}

impl LinkEvent {
    /// What asks for this event.
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
}

/// What has changed of a link of the agent's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// Nothing gets through from now on.
    Down,
    /// It works again.
    Up,
    /// It works at this rate from now on.
    Rate(Rate),
}

/// The link events that an agent wants to hear of, as a bit set. What nobody asked for costs
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions(u16);

impl Subscriptions {
    /// None.
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
    /// All that happens at the node that sends.
    pub const SENDING: Subscriptions = Subscriptions(63 | 512);
    /// What a link knows only if it works departure by departure.
    pub const STEPS: Subscriptions =
        Self::DEQUEUED.with(Self::ATTEMPT_STARTED).with(Self::ATTEMPT_FAILED).with(Self::DELIVERED);

    /// Both sets together.
    pub const fn with(self, other: Subscriptions) -> Subscriptions {
        Subscriptions(self.0 | other.0)
    }

    /// True if any event of `other` is wanted.
    #[inline]
    pub const fn any(self, other: Subscriptions) -> bool {
        self.0 & other.0 != 0
    }
}

/// What an agent may read of the node it runs at.
pub trait NodeView {
    /// Frames and bytes that wait in the queue of the link in this direction, and its limit in
    /// frames if it has one.
    fn queue(&self, direction: Direction) -> QueueState;
    /// Rate of that link now, if it is known.
    fn rate(&self, direction: Direction) -> Option<Rate>;
    /// Rate of the link that a flow takes in this direction, at a node with links to several
    /// stations.
    fn rate_of(&self, _flow: FlowId, direction: Direction) -> Option<Rate> {
        self.rate(direction)
    }
}

/// Length of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Frames waiting, the one being sent not counted.
    pub packets: u64,
    /// Bytes waiting.
    pub bytes: u64,
    /// True if the queue would refuse one more frame of full size.
    pub full: bool,
}

/// NodeView of which nothing is known: unlimited empty queues. Replay uses it.
pub struct BlankView;

impl NodeView for BlankView {
    fn queue(&self, _: Direction) -> QueueState {
        QueueState::default()
    }
    fn rate(&self, _: Direction) -> Option<Rate> {
        None
    }
}

/// The context of one call: the time, the surroundings, and the place for answers.
pub struct Context<'a> {
    /// Now.
    pub now: Time,
    /// Options of the segment that is shown.
    pub options: &'a Options,
    /// Queues and rates of the node.
    pub node_view: &'a dyn NodeView,
    /// Answers, carried out by the host in this order after the call.
    pub actions: &'a mut Vec<Action>,
}

impl Context<'_> {
    /// Sends `segment` in `direction` after the verdict has been carried out.
    pub fn inject(&mut self, direction: Direction, segment: Segment) {
        self.actions.push(Action::Inject(direction, segment));
    }

    /// Lets a segment go on that the agent had kept.
    pub fn forward(&mut self, direction: Direction, segment: Segment) {
        self.actions.push(Action::Forward(direction, segment));
    }

    /// Sets timer `id`.
    pub fn wake(&mut self, id: u32, at: Time) {
        self.actions.push(Action::Wake(id, at));
    }

    /// Cancels timer `id`.
    pub fn cancel(&mut self, id: u32) {
        self.actions.push(Action::Cancel(id));
    }

    /// Keeps the payload of a segment beyond this call.
    pub fn retain(&mut self, payload: Payload) {
        if payload != Payload::NONE {
            self.actions.push(Action::Retain(payload));
        }
    }

    /// Gives a retained payload back.
    pub fn release(&mut self, payload: Payload) {
        if payload != Payload::NONE {
            self.actions.push(Action::Release(payload));
        }
    }

    /// Sends a notice, stamped with the time.
    pub fn notify(&mut self, notice: Notice, to: Destination) {
        self.actions.push(Action::Notify(Notice { stamp: self.now, ..notice }, to));
    }
}

/// A base-station agent (or one in any other node between stack and link).
///
/// Only `on_segment` is required.
pub trait Agent: Send {
    /// A TCP segment arrives at the node on its way. Called for flows of the agent's own scheme
    /// only.
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict;

    /// Timer `id` is due.
    fn on_timer(&mut self, _ctx: &mut Context<'_>, _id: u32) {}

    /// It only hears of link events and notices, and lets every segment pass unseen.
    fn is_passive(&self) -> bool {
        false
    }

    /// The link events that it wants to hear of; asked once.
    fn subscribes(&self) -> Subscriptions {
        Subscriptions::NONE
    }

    /// A link of the node did something with a segment of the agent's scheme that travels in
    /// `direction`. Called after the event has been dealt with, at the same instant.
    fn on_link_event(
        &mut self,
        _ctx: &mut Context<'_>,
        _direction: Direction,
        _event: LinkEvent,
        _segment: &Segment,
    ) {
    }

    /// The link that this flow takes from the node in this direction goes down, comes up, or has
    /// another rate. Called for each flow of the agent's scheme that has been set up in the host.
    fn on_link_change(
        &mut self,
        _ctx: &mut Context<'_>,
        _flow: FlowId,
        _direction: Direction,
        _change: LinkChange,
    ) {
    }

    /// A notice addressed to this node has come, for a flow of the agent's scheme.
    fn on_notice(&mut self, _ctx: &mut Context<'_>, _notice: &Notice) {}

    /// Its cache is full, so that it passes on segments of this flow that it cannot send again, and
    /// such a segment was lost. Asked after each segment, where the scheme has a cache among its
    /// bounds.
    fn cache_binds(&self, _flow: FlowId) -> bool {
        false
    }

    /// Named counters for reports, in a fixed order.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Bytes of state held per flow and in all; what a handoff would have to move.
    fn state_bytes(&self) -> usize {
        0
    }

    /// The state of a flow as bytes, for a handoff to another base station.
    fn export(&mut self, _flow: FlowId) -> Option<Vec<u8>> {
        None
    }

    /// Takes over a flow that another instance exported. False if the bytes make no sense.
    fn import(&mut self, _flow: FlowId, _state: &[u8]) -> bool {
        false
    }
}
