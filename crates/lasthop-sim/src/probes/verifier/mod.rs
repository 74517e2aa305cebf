//! Checks a run from its events only.
//!
//! The verifier is an observer that knows the scenario and nothing else of the run. It has
//! independent models of where each packet is, when a link must deliver a frame, what has arrived
//! at each receiver, and how far a sender may send; it shares no code with the links and end points
//! that it checks. A contradiction is a *violation*, reported as a sentence that starts with the
//! time.
//!
//! If no random number is involved, an arrival is checked to the nanosecond; a random delay must
//! lie within its bounds. Of a trace whose phase depends on the seed, only the rate is known;
//! frames on such a link are checked for order and place.

mod aggregation;
mod air_time;
mod capacity;
mod cell_events;
mod cells;
mod checked;
mod connections;
mod crossed;
mod finish;
mod impairments;
mod link_acks;
mod links;
mod queues;
mod timing;

use std::collections::BTreeMap;

use lasthop::link::cell::MediumUse;
use lasthop::queue::drop_reason;
use lasthop::scenario::network::{Network, Opener};
use lasthop::segment::{Flags, NodeId, Segment};
use lasthop::units::Time;

use crate::events::{Event, Kind, Observer};
use crate::network::paths::last_hop;
use capacity::Medium;
use cells::CellModel;
use connections::ConnectionModel;
use crossed::Crossed;
use links::LinkModel;

/// Violations beyond this number are counted but not reported: the first ones show the fault.
const MAX_VIOLATIONS: usize = 50;

/// Follows the events of a run and collects contradictions.
pub struct Verifier {
    end: Time,
    measure_from: Time,
    nodes: usize,
    next_hop: Vec<Vec<Option<u32>>>,
    links: Vec<LinkModel>,
    cells: Vec<CellModel>,
    flows: Vec<FlowModel>,
    connections: Vec<ConnectionModel>,
    /// By connection and node: the data that have crossed the links from there.
    crossed: BTreeMap<(usize, NodeId), Crossed>,
    media: Vec<Medium>,
    /// By flow: bytes sent but not delivered when measuring began; `None` before that.
    outstanding: Option<Vec<u64>>,
    packets: BTreeMap<u64, Packet>,
    last_id: u64,
    now: Time,
    /// The frame offered to a link last; the next event shows whether it was dropped.
    offered: Option<(usize, Segment, u64)>,
    counts: Counts,
    violations: Vec<String>,
    found: usize,
}

/// Number of packets by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sent by end points.
    pub sent: u64,
    /// Sent by agents.
    pub injected: u64,
    /// Received by their end point.
    pub received: u64,
    /// Lost on the air.
    pub lost: u64,
    /// Dropped by a queue, on arrival or later.
    pub refused: u64,
    /// Removed by a queue, because a later packet made it redundant.
    pub filtered: u64,
    /// Dropped by an agent.
    pub dropped: u64,
    /// Taken into custody by an agent.
    pub held_by_agents: u64,
    /// In transit on a link.
    pub in_transit: u64,
}

/// A packet and its present place.
#[derive(Clone, Debug)]
struct Packet {
    segment: Segment,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Node(NodeId),
    Link(usize),
    Agent(NodeId),
}

impl Verifier {
    /// A verifier for a run of this network.
    pub fn new(network: &Network) -> Verifier {
        let network = &*network.with_processing_times();
        let measure_from = Time::ZERO + network.measure_from;
        let mut connections = Vec::new();
        let mut flows = Vec::new();
        let mut links: Vec<LinkModel> = network.links.iter().map(LinkModel::new).collect();
        for flow in &network.flows {
            let first = connections.len();
            if let Some(framing) = flow.scheme.scheme.framing().filter(|_| !flow.app.is_datagrams())
            {
                for l in last_hop(network, flow) {
                    links[l].framings.resize(first + 1, None);
                    links[l].framings[first] = Some(framing);
                }
            }
            if !flow.app.is_datagrams() {
                connections.push(ConnectionModel::new(flow, None, measure_from));
                if flow.scheme.scheme.relay().is_some() {
                    connections.push(ConnectionModel::new(flow, Some(first), measure_from));
                }
            }
            flows.push(FlowModel {
                connections: (first..connections.len()).collect(),
                reads_slowly: flow.reader.is_some(),
                opened_at: (flow.opens == Opener::Receiver).then_some(flow.to),
                ..FlowModel::default()
            });
        }
        Verifier {
            end: Time::ZERO + network.duration,
            measure_from,
            nodes: network.nodes.len(),
            next_hop: network.next_hop.clone(),
            links,
            cells: network.cells.iter().map(CellModel::new).collect(),
            flows,
            connections,
            crossed: BTreeMap::new(),
            media: Medium::all(network),
            outstanding: None,
            packets: BTreeMap::new(),
            last_id: 0,
            now: Time::ZERO,
            offered: None,
            counts: Counts::default(),
            violations: Vec::new(),
            found: 0,
        }
    }

    /// Number of packets by outcome so far.
    pub fn counts(&self) -> Counts {
        let count = |what: fn(&Place) -> bool| {
            self.packets.values().filter(|p| what(&p.place)).count() as u64
        };
        Counts {
            held_by_agents: count(|p| matches!(p, Place::Agent(_))),
            in_transit: count(|p| matches!(p, Place::Link(_))),
            ..self.counts
        }
    }

    /// Bytes in flight of a connection, recounted from the events.
    pub fn flight(&self, connection: usize) -> u64 {
        let c = &self.connections[connection];
        c.sent_to - c.acknowledged
    }

    /// In-order bytes of a connection at its receiver.
    pub fn in_order(&self, connection: usize) -> u64 {
        self.connections[connection].in_order
    }

    /// By flow: bytes in flight, queued, at a relay, or out of order at the receiver; for
    /// datagrams, bytes in transit.
    fn outstanding(&self) -> Vec<u64> {
        let mut bytes: Vec<u64> = self
            .flows
            .iter()
            .map(|flow| flow.connections.first().map_or(0, |&c| self.connections[c].sent_to))
            .collect();
        for (sent, flow) in bytes.iter_mut().zip(&self.flows) {
            *sent = sent.saturating_sub(flow.delivered);
        }
        for packet in self.packets.values().filter(|p| p.segment.flags.has(Flags::DATAGRAM)) {
            bytes[packet.segment.flow as usize] += u64::from(packet.segment.len);
        }
        bytes
    }

    fn violation(&mut self, text: impl FnOnce() -> String) {
        self.found += 1;
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(format!("{}: {}", self.now, text()));
        }
    }

    fn check(&mut self, ok: bool, text: impl FnOnce() -> String) {
        if !ok {
            self.violation(text);
        }
    }

    /// A packet is created at a node.
    fn created(&mut self, node: NodeId, segment: &Segment) {
        let id = segment.id;
        self.check(id > self.last_id, || format!("packet {id} does not have a new number"));
        self.check(usize::from(node) < self.nodes, || {
            format!("packet {id} is created at node {node}, which does not exist")
        });
        self.last_id = self.last_id.max(id);
        self.packets.insert(id, Packet { segment: *segment, place: Place::Node(node) });
    }

    /// Moves a packet to another place; it must be at `from`, unchanged.
    fn moved(&mut self, what: &str, segment: &Segment, from: Place, to: Option<Place>) {
        let id = segment.id;
        let Some(recorded) = self.packets.get(&id).cloned() else {
            return self.violation(|| format!("packet {id} {what}, but is not in the network"));
        };
        self.check(recorded.place == from, || {
            format!("packet {id} {what}, expected at {from:?}, but it is at {:?}", recorded.place)
        });
        // Only an agent may change a packet, and only these fields.
        let at_agent = matches!(from, Place::Agent(_));
        let marked = if recorded.segment.flags.has(Flags::ACK) {
            recorded.segment.flags.with(Flags::ELN)
        } else {
            recorded.segment.flags
        };
        let flags = if segment.flags == marked { marked } else { recorded.segment.flags };
        let rewritten =
            Segment { ack: segment.ack, window: segment.window, flags, ..recorded.segment };
        let same = if at_agent { rewritten == *segment } else { recorded.segment == *segment };
        self.check(same, || {
            format!(
                "packet {id} {what} changed in transit: {:?} became {segment:?}",
                recorded.segment
            )
        });
        match to {
            Some(place) => drop(self.packets.insert(id, Packet { segment: *segment, place })),
            None => drop(self.packets.remove(&id)),
        }
    }

    fn on_link_event(&mut self, l: usize, e: &Event<'_>, segment: &Segment) {
        let id = segment.id;
        let node = e.node;
        if let Some(place) = self.links[l].config.cell {
            return self.on_cell_event(l, place, e, segment);
        }
        if e.kind != Kind::Dequeued && self.links[l].check_work_conserving(e.t).is_err() {
            self.violation(|| format!("link {l}: frames are queued, but the link is idle"));
        }
        let measured = u64::from(e.t >= self.measure_from);
        match e.kind {
            Kind::Enqueued => self.enters_link(l, e, segment),
            Kind::DroppedAtQueue => self.dropped_at_link(l, e, segment),
            Kind::Filtered => self.filtered(l, e, segment),
            Kind::Duplicated => {
                self.check(self.links[l].config.impairments.duplicate.is_some(), || {
                    format!("packet {id} is a copy of link {l}, which makes none")
                });
                self.counts.injected += 1;
                self.created(node, segment);
            }
            Kind::Marked => self.marked_at_link(l, e, segment, measured),
            Kind::Dequeued => {
                self.moved("is sent", segment, Place::Link(l), Some(Place::Link(l)));
                let verdict = self.links[l].dequeued(segment, e.t, e.value);
                self.on_link(l, id, verdict);
            }
            Kind::Arrived | Kind::Corrupted => {
                let to = self.links[l].config.to;
                self.check(node == to, || {
                    format!("packet {id} arrives at node {node}, but link {l} ends at {to}")
                });
                self.arrives(l, e, segment);
                self.links[l].delivered += measured;
                let verdict = self.links[l].arrived(id, e.t);
                self.on_link(l, id, verdict);
            }
            Kind::AttemptFailed => {
                self.moved("fails on the air", segment, Place::Link(l), Some(Place::Link(l)));
                let verdict = self.links[l].attempt_failed(id, e.value as u32);
                self.on_link(l, id, verdict);
            }
            Kind::LostOnAir => {
                self.moved("is lost", segment, Place::Link(l), None);
                self.counts.lost += 1;
                self.links[l].lost += measured;
                let verdict = self.links[l].lost(id, e.t);
                self.on_link(l, id, verdict);
            }
            _ => {}
        }
    }

    /// The queue of a link marks a frame that waits there.
    fn marked_at_link(&mut self, l: usize, e: &Event<'_>, segment: &Segment, measured: u64) {
        self.links[l].marked += measured;
        if let Some(recorded) = self.packets.get_mut(&segment.id) {
            recorded.segment.flags = recorded.segment.flags.with(Flags::CE);
        }
        self.moved("is marked", segment, Place::Link(l), Some(Place::Link(l)));
        let queue = self.links[l].queue.as_mut();
        let verdict = queue.map_or_else(
            || Err("is marked by a DropTail queue".into()),
            |q| q.marked(segment, e.reason),
        );
        self.on_link(l, segment.id, verdict);
    }

    /// A frame is offered to the link that its route names; its queue takes it or refuses it.
    fn enters_link(&mut self, l: usize, e: &Event<'_>, segment: &Segment) {
        let (id, node) = (segment.id, e.node);
        let route = self.next_hop[usize::from(node)][usize::from(segment.to)];
        self.check(route == Some(l as u32), || {
            format!("packet {id} leaves node {node} on link {l}, but its route is {route:?}")
        });
        self.moved("enters a link", segment, Place::Node(node), Some(Place::Link(l)));
        self.links[l].offered += u64::from(e.t >= self.measure_from);
        let overhead = self.links[l].config.overhead;
        let bytes = segment.size + overhead;
        let LinkModel { queue, policer, exceeding, .. } = &mut self.links[l];
        match queue {
            None => self.offered = Some((l, *segment, e.value as u64)),
            Some(_) if policer.as_mut().is_some_and(|p| !p.conforms(e.t, bytes)) => {
                *exceeding = Some(id);
            }
            Some(queue) => {
                let verdict = queue.enqueued(segment, bytes, e.t, e.value as u64);
                self.on_link(l, id, verdict);
            }
        }
    }

    fn on_link(&mut self, l: usize, id: u64, verdict: Result<(), String>) {
        if let Err(text) = verdict {
            self.violation(|| format!("packet {id} on link {l}: {text}"));
        }
    }

    /// Determines from the next event whether a DropTail queue accepted the frame.
    fn settle(&mut self, e: &Event<'_>) {
        let Some((l, segment, waiting)) = self.offered.take() else { return };
        let refused =
            e.kind == Kind::DroppedAtQueue && e.segment.is_some_and(|s| s.id == segment.id);
        let now = self.now;
        if refused && e.reason == drop_reason::POLICER {
            self.packets.remove(&segment.id);
            return self.policed(l, &segment, now, true);
        }
        self.policed(l, &segment, now, false);
        if refused {
            self.packets.remove(&segment.id);
            self.counts.refused += 1;
            self.links[l].refused += u64::from(now >= self.measure_from);
        } else if e.kind == Kind::DroppedAtQueue && e.link == Some(l as u32) {
            self.violation(|| "a queue drops a frame that was not offered".into());
        }
        if let Err(text) = self.links[l].offer(&segment, now, waiting, !refused) {
            self.violation(|| format!("packet {} on link {l}: {text}", segment.id));
        }
    }

    fn on_tcp_event(&mut self, e: &Event<'_>, segment: &Segment) {
        let Some(c) = self.connections.get(segment.flow as usize) else {
            return self.violation(|| {
                format!("a segment of connection {}, which does not exist", segment.flow)
            });
        };
        let upstream = c.upstream.map(|u| self.connections[u].in_order);
        let reported = self.reported(e, segment);
        let c = &mut self.connections[segment.flow as usize];
        let verdict = match e.kind {
            Kind::DataSent => c.data_sent(e, segment, upstream),
            Kind::AckReceived => c.ack_received(e, segment),
            Kind::DataReceived => c.data_received(e, segment),
            Kind::AckSent | Kind::AgentInjected | Kind::AgentForwarded => {
                c.ack_made(segment, reported)
            }
            Kind::Spurious => {
                c.spurious += if e.t >= self.measure_from { e.value as u64 } else { 0 };
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(text) = verdict {
            self.violation(|| {
                format!("connection {}, packet {}: {text}", segment.flow, segment.id)
            });
        }
    }

    /// Checks events without a segment: changes of the sender's state, and deliveries.
    fn on_state_event(&mut self, e: &Event<'_>) {
        let f = e.flow as usize;
        if e.kind == Kind::Delivered {
            let count = e.value as u64;
            let flow = &mut self.flows[f];
            flow.delivered += count;
            flow.delivered_measured += if e.t >= self.measure_from { count } else { 0 };
            let (delivered, arrived) = (
                flow.delivered,
                flow.connections.last().map_or(0, |&c| self.connections[c].in_order),
            );
            let may_wait = flow.reads_slowly && delivered < arrived;
            self.check(count > 0 && (delivered == arrived || may_wait), || {
                format!(
                    "flow {f}: {arrived} bytes have arrived in order, but {delivered} are delivered"
                )
            });
            return;
        }
        if e.kind == Kind::GaveUp && self.flows[f].opened_at == Some(e.node) {
            return;
        }
        // The two senders of a split flow differ in their node.
        let Some(&c) =
            self.flows[f].connections.iter().find(|&&c| self.connections[c].from == Some(e.node))
        else {
            return self.violation(|| {
                format!("flow {f}: {} at node {}, where it has no sender", e.kind.name(), e.node)
            });
        };
        if let Err(text) = self.connections[c].state_changed(e) {
            self.violation(|| format!("connection {c}: {text}"));
        }
    }

    /// A segment at a node: it is sent, received, or in the hands of an agent.
    fn on_node_event(&mut self, e: &Event<'_>, segment: &Segment) {
        let node = e.node;
        match e.kind {
            Kind::DataSent | Kind::AckSent | Kind::RequestSent => {
                self.counts.sent += 1;
                self.created(node, segment);
            }
            Kind::AgentInjected | Kind::NoticeSent => {
                self.counts.injected += 1;
                self.created(node, segment);
            }
            Kind::DataReceived
            | Kind::Discarded
            | Kind::AckReceived
            | Kind::NoticeReceived
            | Kind::RequestReceived => {
                self.check(node == segment.to, || {
                    format!("packet {} for node {} ends at node {node}", segment.id, segment.to)
                });
                self.moved("is received", segment, Place::Node(node), None);
                self.counts.received += 1;
            }
            Kind::AgentIn => self.moved(
                "is shown to an agent",
                segment,
                Place::Node(node),
                Some(Place::Agent(node)),
            ),
            Kind::AgentForwarded => self.moved(
                "is forwarded by an agent",
                segment,
                Place::Agent(node),
                Some(Place::Node(node)),
            ),
            Kind::AgentDropped => {
                self.moved("is dropped by an agent", segment, Place::Agent(node), None);
                self.counts.dropped += 1;
            }
            _ => {}
        }
    }
}

impl Observer for Verifier {
    fn on_event(&mut self, e: &Event<'_>) {
        let (before, t) = (self.now, e.t);
        if self.outstanding.is_none() && t >= self.measure_from {
            self.outstanding = Some(self.outstanding());
        }
        self.settle(e);
        self.now = t;
        self.check(t >= before, || format!("{} goes back in time from {before}", e.kind.name()));
        self.check(t < self.end, || format!("{} after the end of the run", e.kind.name()));
        let Some(segment) = e.segment else { return self.on_state_event(e) };
        match e.link {
            Some(l) if (l as usize) < self.links.len() => {
                self.on_link_event(l as usize, e, segment);
                self.on_acknowledged_link(l as usize, e, segment);
            }
            Some(l) => self.violation(|| format!("an event of link {l}, which does not exist")),
            None => self.on_node_event(e, segment),
        }
        if !segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            self.on_tcp_event(e, segment);
        } else if segment.flags.has(Flags::NOTICE) {
            self.check(segment.len == 0 && segment.notice().is_some(), || {
                format!("packet {} is not a notice", segment.id)
            });
        } else if e.kind == Kind::DataReceived {
            let flow = &mut self.flows[segment.flow as usize];
            flow.delivered_measured +=
                if t >= self.measure_from { u64::from(segment.len) } else { 0 };
        } else if e.kind == Kind::DataSent {
            self.flows[segment.flow as usize].datagrams += u64::from(t >= self.measure_from);
        }
    }

    fn on_medium(&mut self, cell: usize, used: &MediumUse) {
        let model = &mut self.cells[cell];
        if let Err(text) = model.air_time.used(&model.config, used) {
            self.violation(|| format!("cell {cell}: {text}"));
        }
        self.cells[cell].forget_acknowledged(used.from, used.to);
    }
}

#[derive(Clone, Debug, Default)]
struct FlowModel {
    /// Its connections: none for datagrams, two for a split flow.
    connections: Vec<usize>,
    delivered: u64,
    delivered_measured: u64,
    datagrams: u64,
    /// Its application may leave unread what has arrived in order.
    reads_slowly: bool,
    /// Node of a receiver that opens the connection.
    opened_at: Option<NodeId>,
}
