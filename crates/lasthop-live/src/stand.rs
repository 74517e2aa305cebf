//! An agent on real packets: shows it segments and events, and carries out its verdicts and
//! actions. No I/O and no clock.
//!
//! A replay and a live link use the same [`Stand`]. What is to be sent comes out as [`Sent`]; the
//! host makes the bytes ([`Sent::bytes`]).

use std::collections::BTreeMap;

use lasthop::agent::{
    Action, Agent, Context, Destination, LinkChange, LinkEvent, NodeView, Rewrite, Subscriptions,
    Verdict,
};
use lasthop::schemes::catalogue::AnyAgent;
use lasthop::segment::{Direction, Flags, FlowId, Notice, Options, Payload, Segment};
use lasthop::units::Time;
use lasthop_wire::{Patch, patch};

use crate::flows::Flows;
use crate::store::Store;
use crate::timers::Timers;

/// A packet as shown to an agent. `P` is the host's packet; payload handles refer to it.
#[derive(Clone, Debug)]
pub struct Shown<P> {
    /// The host's packet.
    pub packet: P,
    /// Direction in which it passes the node.
    pub direction: Direction,
    /// Its segment, without payload handle.
    pub segment: Segment,
    /// Its TCP options.
    pub options: Options,
}

/// Why a packet leaves the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The agent forwards it unchanged.
    Forwarded,
    /// The agent forwards it with changed fields.
    Rewritten,
    /// The agent sends a packet that it made or kept.
    Injected,
    /// The agent forwards a packet that it held.
    Held,
}

/// A packet that leaves the node.
#[derive(Clone, Debug)]
pub struct Sent<P> {
    /// Why it is sent.
    pub reason: Reason,
    /// Where it goes.
    pub direction: Direction,
    /// The segment as it is sent.
    pub segment: Segment,
    /// Fields that differ from those of `packet`.
    pub rewrite: Rewrite,
    /// The host's packet; `None` for a packet that the agent made.
    pub packet: Option<P>,
}

/// What an agent has decided, in packets.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// Forwarded unchanged.
    pub forwarded: u64,
    /// Forwarded with changed fields.
    pub rewritten: u64,
    /// Kept to be forwarded or sent later.
    pub kept: u64,
    /// Dropped, by drop reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Notices of the link layer.
    pub notices: u64,
    /// Packets to be sent whose bytes are no longer stored.
    pub missing: u64,
}

/// An agent at its node.
pub struct Stand<P> {
    agent: AnyAgent,
    store: Store<Shown<P>>,
    timers: Timers,
    actions: Vec<Action>,
    notices: Vec<(Notice, Destination)>,
    decisions: Decisions,
}

impl<P: Clone> Stand<P> {
    /// An agent without state.
    pub fn new(agent: AnyAgent) -> Self {
        Stand {
            agent,
            store: Store::default(),
            timers: Timers::default(),
            actions: Vec::new(),
            notices: Vec::new(),
            decisions: Decisions::default(),
        }
    }

    /// Link events that the agent subscribes to.
    pub fn subscriptions(&self) -> Subscriptions {
        self.agent.subscribes()
    }

    /// True if the agent is shown no segments.
    pub fn is_passive(&self) -> bool {
        self.agent.is_passive()
    }

    /// The agent's counters, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.agent.counters()
    }

    /// What the agent has decided so far.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// Takes the notices that the agent has sent since the last call.
    pub fn take_notices(&mut self) -> Vec<(Notice, Destination)> {
        std::mem::take(&mut self.notices)
    }

    /// Number of packets that the agent keeps.
    pub fn stored(&self) -> usize {
        self.store.len()
    }

    /// Shows a packet to the agent.
    pub fn on_segment(
        &mut self,
        now: Time,
        node_view: &dyn NodeView,
        shown: Shown<P>,
        out: &mut Vec<Sent<P>>,
    ) {
        let Shown { direction, options, .. } = shown;
        let original = shown.segment;
        let packet = shown.packet.clone();
        let payload = self.store.put(shown);
        let segment = Segment { payload, ..original };
        let mut ctx = Context { now, options: &options, node_view, actions: &mut self.actions };
        let verdict = self.agent.on_segment(&mut ctx, direction, &segment);
        let mut send = |reason, rewrite: Rewrite| {
            let flags = if rewrite.eln { original.flags.with(Flags::ELN) } else { original.flags };
            let ack = rewrite.ack.unwrap_or(original.ack);
            let window = rewrite.window.unwrap_or(original.window);
            let segment = Segment { ack, window, flags, ..original };
            let packet = Some(packet.clone());
            out.push(Sent { reason, direction, segment, rewrite, packet });
        };
        match verdict {
            Verdict::Forward => {
                self.decisions.forwarded += 1;
                send(Reason::Forwarded, Rewrite::default());
            }
            Verdict::Rewrite(rewrite) => {
                self.decisions.rewritten += 1;
                send(Reason::Rewritten, rewrite);
            }
            Verdict::Keep => {
                self.decisions.kept += 1;
                // The agent's reference; the host's reference is released below.
                self.store.retain(payload);
            }
            Verdict::Drop(reason) => *self.decisions.dropped.entry(reason).or_default() += 1,
        }
        self.carry_out(now, out);
        self.store.release(payload);
    }

    /// A link of the node reports an event of a segment that was sent in this direction.
    pub fn on_link_event(
        &mut self,
        now: Time,
        node_view: &dyn NodeView,
        (direction, event, segment): (Direction, LinkEvent, &Segment),
        out: &mut Vec<Sent<P>>,
    ) {
        self.call(now, node_view, out, |agent, ctx| {
            agent.on_link_event(ctx, direction, event, segment);
        });
    }

    /// The link of the node in this direction changes its state or rate, for one flow.
    pub fn on_link_change(
        &mut self,
        now: Time,
        node_view: &dyn NodeView,
        (flow, direction, change): (FlowId, Direction, LinkChange),
        out: &mut Vec<Sent<P>>,
    ) {
        self.call(now, node_view, out, |agent, ctx| {
            agent.on_link_change(ctx, flow, direction, change);
        });
    }

    /// Time of the first timer and the time when it was set; `NEVER` if none is set.
    pub fn next_timer(&self) -> (Time, Time) {
        self.timers.first().unwrap_or((Time::NEVER, Time::NEVER))
    }

    /// Runs the first timer that expires at or before `until`, at its time, which is returned.
    pub fn run_timer(
        &mut self,
        until: Time,
        node_view: &dyn NodeView,
        out: &mut Vec<Sent<P>>,
    ) -> Option<Time> {
        let (now, id) = self.timers.due(until)?;
        self.call(now, node_view, out, |agent, ctx| agent.on_timer(ctx, id));
        Some(now)
    }

    fn call(
        &mut self,
        now: Time,
        node_view: &dyn NodeView,
        out: &mut Vec<Sent<P>>,
        call: impl FnOnce(&mut AnyAgent, &mut Context<'_>),
    ) {
        let actions = &mut self.actions;
        call(&mut self.agent, &mut Context { now, options: &Options::NONE, node_view, actions });
        self.carry_out(now, out);
    }

    fn carry_out(&mut self, now: Time, out: &mut Vec<Sent<P>>) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Inject(direction, segment) => {
                    self.send(Reason::Injected, direction, segment, out);
                }
                Action::Forward(direction, segment) => {
                    self.send(Reason::Held, direction, segment, out);
                }
                Action::Wake(id, at) => self.timers.set(now, id, at),
                Action::Cancel(id) => self.timers.cancel(id),
                Action::Retain(payload) => self.store.retain(payload),
                Action::Release(payload) => self.store.release(payload),
                Action::Notify(notice, to) => {
                    self.decisions.notices += 1;
                    self.notices.push((notice, to));
                }
            }
        }
        self.actions = actions;
    }

    fn send(
        &mut self,
        reason: Reason,
        direction: Direction,
        segment: Segment,
        out: &mut Vec<Sent<P>>,
    ) {
        let stored = self.store.get(segment.payload);
        if stored.is_none() && segment.payload != Payload::NONE {
            self.decisions.missing += 1;
            return;
        }
        let rewrite = stored.map_or(Rewrite::default(), |shown| Rewrite {
            ack: Some(segment.ack).filter(|&ack| ack != shown.segment.ack),
            window: Some(segment.window).filter(|&window| window != shown.segment.window),
            eln: segment.flags.has(Flags::ELN) && !shown.segment.flags.has(Flags::ELN),
        });
        let packet = stored.map(|shown| shown.packet.clone());
        out.push(Sent { reason, direction, segment, rewrite, packet });
    }
}

impl<P> Sent<P> {
    /// The bytes of the host's packet with the changed fields, or `None` if nothing changes: the
    /// host then sends its packet. `frame` are the bytes, whose IP header begins at `ip_at`.
    pub fn bytes(&self, flows: &Flows, frame: &[u8], ip_at: usize) -> Option<Vec<u8>> {
        if self.rewrite == Rewrite::default() {
            return None;
        }
        let mut bytes = frame.to_vec();
        let numbering = flows.numbering(self.segment.flow, self.direction);
        if let (Some(n), Some(ip)) = (numbering, bytes.get_mut(ip_at..)) {
            let syn = self.segment.flags.has(Flags::SYN);
            let edits = Patch {
                ack: self.rewrite.ack.map(|ack| n.ack_field(ack)),
                window: self.rewrite.window.map(|window| n.window_field(window, syn)),
                eln: self.rewrite.eln,
            };
            // Cannot fail: the packet was parsed before.
            patch(ip, edits).unwrap_or_default();
        }
        Some(bytes)
    }
}
