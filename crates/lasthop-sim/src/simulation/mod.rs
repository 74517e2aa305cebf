//! A run: the network, its connections and applications, and the event loop.

mod report;

use std::sync::atomic::{AtomicBool, Ordering};

use lasthop::leg::{LegEvent, Side};
use lasthop::link::Link;
use lasthop::segment::{Flags, Handle, NodeId, Notice, Options, Segment};
use lasthop::tcp::sender::{SenderCounters, State};
use lasthop::traffic::{AppState, Do};
use lasthop::units::{Duration, Time};

use crate::engine::scheduler::{Key, NO_LINK, OF_CELL, Source};
use crate::events::{Event, Kind, Observer};
use crate::hosts::agent::Pending;
use crate::hosts::endpoint::{Connection, FlowStats, WriteTimes};
use crate::hosts::handover::HandoverHost;
use crate::hosts::oracle::Oracle;
use crate::hosts::relay::{RelayHost, SimSplitConnection};
use crate::hosts::sessions::SessionState;
use crate::network::Net;
use crate::probes::ground_truth::GroundTruthCounts;

/// What a source number refers to: the kind of event and the index of its link, agent, connection
/// or flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventSource {
    Departure(u32),
    Loss(u32),
    Arrival(u32),
    Cell(u32),
    CellArrival(u32),
    Agent(u32),
    Relay(u32),
    LinkState(u32),
    Handover(u32),
    Sender(u32),
    Receiver(u32),
    App(u32),
    Oracle(u32),
}

/// The state of a flow during the run.
pub struct FlowState {
    /// Index of its first connection (the sender's); `None` for datagrams.
    pub first: Option<u32>,
    /// Index of its last connection (the receiver's); the same as `first` unless the flow is split.
    pub last: Option<u32>,
    /// Index of the relay between the two connections of a split flow.
    pub relay: Option<u32>,
    /// State of the application that writes the data.
    pub app: AppState,
    /// What is measured of the flow.
    pub stats: FlowStats,
    /// When its bytes were written.
    pub write_times: WriteTimes,
    /// Bytes written by the application so far.
    pub written: u64,
    /// When the application starts.
    pub start: Time,
    /// Index of its web session, if the session's next click waits for the completion of this flow.
    pub(crate) session: Option<u32>,
    pub(crate) source: Source,
    /// The datagram that the flow sends; `None` for TCP.
    pub(crate) datagram: Option<Segment>,
    pub(crate) node: u16,
}

/// A simulation in progress.
pub struct Simulation<R> {
    /// Links, routes, agents and the clock.
    pub net: Net<R>,
    /// TCP connections; a split flow has two.
    pub connections: Vec<Connection>,
    /// Flows, in the order of the scenario.
    pub flows: Vec<FlowState>,
    /// Relays of split connections.
    pub relays: Vec<RelayHost>,
    pub(crate) oracles: Vec<Oracle>,
    pub(crate) sessions: Vec<SessionState>,
    pub(crate) handovers: Vec<HandoverHost>,
    pub(crate) sources: Vec<EventSource>,
    pub(crate) measure_from: Time,
    pub(crate) end: Time,
    /// Counters of each connection when measuring began; empty if the whole run is measured.
    pub(crate) before_measuring: Vec<(SenderCounters, GroundTruthCounts)>,
    /// Events handled.
    pub events: u64,
}

/// The event loop checks for cancellation once per this number of events.
const CANCEL_EVERY: u64 = 4096;

impl<R: Observer> Simulation<R> {
    /// Runs to the end. Returns false if the run was cancelled.
    pub fn run(&mut self, cancel: &AtomicBool) -> bool {
        if self.measure_from > Time::ZERO {
            if !self.run_until(self.measure_from.min(self.end), cancel) {
                return false;
            }
            let in_flight = self.net.pool.bytes() - self.net.ledger.retained_copies;
            self.net.ledger.begin(in_flight);
            self.net.connection_info.iter_mut().for_each(|k| k.burst.begin());
            self.before_measuring = self
                .connections
                .iter()
                .zip(&self.net.connection_info)
                .map(|(c, k)| (c.sender.counters(), k.ground_truth.counts()))
                .collect();
        }
        let finished = self.run_until(self.end, cancel);
        self.net.links.iter_mut().for_each(Link::count_idle_path);
        finished
    }

    /// Handles the events before `end`. Returns false if the run was cancelled.
    fn run_until(&mut self, end: Time, cancel: &AtomicBool) -> bool {
        while let Some(key) = self.net.scheduler.peek() {
            if key.time >= end.0 {
                break;
            }
            self.net.now = Time(key.time);
            self.net.triggered_at = Time(key.triggered_at);
            self.events += 1;
            if self.events.is_multiple_of(CANCEL_EVERY) && cancel.load(Ordering::Relaxed) {
                return false;
            }
            match key.link {
                NO_LINK => self.event(key),
                l if l & OF_CELL != 0 => self.cell_event((l & !OF_CELL) as usize),
                l => self.arrival(l as usize),
            }
            while let Some(pending) = self.net.pending.pop_front() {
                self.handle_pending(pending);
            }
        }
        self.net.now = end;
        true
    }

    #[inline(never)]
    fn handle_pending(&mut self, pending: Pending) {
        match pending {
            Pending::Deliver(handle) => self.deliver_handle(handle),
            Pending::LinkEvent(watch, event, segment) => {
                self.net.deliver_link_event(&watch, event, &segment)
            }
        }
    }

    #[inline(never)]
    fn event(&mut self, key: Key) {
        match self.sources[key.source as usize] {
            EventSource::Arrival(l) => self.arrival(l as usize),
            EventSource::Cell(c) => self.cell_event(c as usize),
            EventSource::CellArrival(c) => self.cell_arrival(c as usize),
            EventSource::Departure(l) => self.net.depart(l as usize),
            EventSource::Loss(l) => self.loss(l as usize),
            EventSource::Sender(c) => self.sender_timer(c, key.source, key.triggered_at),
            EventSource::Receiver(c) => self.receiver_timer(c, key.source, key.triggered_at),
            EventSource::Agent(a) => self.net.agent_timer(a as usize),
            EventSource::Relay(r) => {
                self.net.scheduler.clear(key.source);
                self.relay_event(self.relays[r as usize].outbound, LegEvent::Timer);
            }
            EventSource::LinkState(i) => self.net.link_state_changed(i as usize),
            EventSource::Handover(i) => self.handover(i as usize),
            EventSource::App(f) => self.app_timer(f as usize),
            EventSource::Oracle(o) => self.oracle_due(o as usize),
        }
    }

    #[inline(always)]
    fn arrival(&mut self, l: usize) {
        let net = &mut self.net;
        let link = &mut net.links[l];
        let (node, lane) = (link.to, link.tag);
        let Some((handle, next)) = link.arrive(net.now) else { return net.schedule_link(l) };
        if let Some(coming) = link.coming() {
            net.pool.prefetch(coming);
        }
        net.schedule_arrival(l, lane, next);
        self.arrived(l, node, handle);
    }

    /// A frame arrives at the far end of a link.
    #[inline(always)]
    pub(crate) fn arrived(&mut self, l: usize, node: NodeId, handle: Handle) {
        let net = &mut self.net;
        let segment = *net.pool.get(handle);
        if !net.errors.is_empty() && segment.to == node && net.has_bit_errors(&segment) {
            return net.drop_corrupted(l, node, handle);
        }
        net.emit_frame(Kind::Arrived, node, Some(l as u32), handle, "");
        if self.handovers.is_empty() || !self.hold_for_state(node, handle) {
            self.receive_at_node(node, handle, &segment);
        }
    }

    /// Passes an arrived frame to the node's agent, its TCP stack or the next link.
    #[inline(always)]
    pub(crate) fn receive_at_node(&mut self, node: NodeId, handle: Handle, segment: &Segment) {
        let net = &mut self.net;
        match net.agent_at(node, segment) {
            Some(a) => self.arrive_at_agent(a, handle),
            None if segment.to == node => {
                net.pool.free(handle);
                self.deliver(segment, handle);
            }
            None => net.forward(node, handle),
        }
    }

    #[inline(never)]
    fn arrive_at_agent(&mut self, a: usize, handle: Handle) {
        if let Some(handle) = self.net.through_agent(a, handle) {
            self.deliver_handle(handle);
        }
    }

    fn deliver_handle(&mut self, handle: Handle) {
        let segment = *self.net.pool.get(handle);
        self.net.pool.free(handle);
        self.deliver(&segment, handle);
    }

    #[inline(never)]
    fn loss(&mut self, l: usize) {
        let now = self.net.now;
        if self.net.damaged_frame_arrives(l) {
            return;
        }
        let handle = self.net.links[l].lose(now);
        self.net.schedule_link(l);
        if let Some(handle) = handle {
            self.net.lost_on_air(l, handle);
        }
    }

    /// Delivers a segment to the stack of its destination node.
    #[inline(always)]
    fn deliver(&mut self, segment: &Segment, handle: Handle) {
        if segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            self.deliver_other(segment);
        } else if segment.forward {
            self.deliver_data(segment);
        } else {
            self.deliver_ack(segment, handle);
        }
    }

    fn deliver_data(&mut self, segment: &Segment) {
        let c = segment.flow;
        let connection = &mut self.connections[c as usize];
        let (first, count) = connection.receive(&mut self.net, segment);
        let flow = &mut self.flows[connection.flow as usize];
        if count == 0 {
            if segment.flags.has(Flags::RST) {
                self.relay_event(c, LegEvent::Reset(Side::Inbound));
            } else if connection.receiver.finished() {
                self.relay_event(c, LegEvent::HalfClosed);
            }
            return;
        }
        if flow.last != Some(c) {
            let finished = connection.receiver.finished();
            return self
                .relay_event(c, if finished { LegEvent::HalfClosed } else { LegEvent::Readable });
        }
        let now = self.net.now;
        flow.stats.first_byte.get_or_insert(now);
        self.handovers.iter_mut().for_each(|h| h.delivered(now));
        flow.stats.delivered_total += count;
        if now >= self.measure_from {
            flow.stats.delivered += count;
            flow.write_times.deliver(first, count, now, Some(&mut flow.stats.delay));
        } else {
            flow.write_times.deliver(first, count, now, None);
        }
        if R::ACTIVE {
            let (node, flow) = (connection.to, connection.flow);
            let (kind, options, value) = (Kind::Delivered, &Options::NONE, count as f64);
            self.net.reader.on_event(&Event {
                t: now,
                node,
                link: None,
                flow,
                kind,
                segment: None,
                options,
                reason: "",
                value,
            });
        }
        if flow.stats.delivered_total == flow.written {
            if let Some(at) = flow.app.delivered(now) {
                self.net.scheduler.set(flow.source, at.0, now.0);
            }
            if flow.app.finite() {
                flow.stats.completed = Some(now);
                self.net.limits[connection.flow as usize].end(now);
                let f = connection.flow as usize;
                self.transfer_completed(f);
            }
        }
    }

    /// `handle` has just been freed; its options are still readable.
    fn deliver_ack(&mut self, segment: &Segment, handle: Handle) {
        let c = segment.flow;
        let options = if segment.flags.any(Flags::OPTIONS) {
            self.net.pool.options(handle)
        } else {
            Options::NONE
        };
        let connection = &mut self.connections[c as usize];
        self.net.emit(Kind::AckReceived, connection.from, None, segment, "", 0.0);
        self.net.ledger.ack_received(segment);
        let ack = segment.ack.min(connection.sender.snd_max());
        self.net.connection_info[c as usize].ground_truth.ack_received(ack, segment.id);
        let flow = &mut self.flows[connection.flow as usize];
        connection.with_sender(&mut self.net, &mut flow.write_times, |sender, now, port| {
            sender.on_segment(now, segment, &options, port)
        });
        if let Some(rtt) = connection.sender.take_last_rtt() {
            connection.min_rtt = Some(connection.min_rtt.map_or(rtt, |least| least.min(rtt)));
            if self.net.now >= self.measure_from {
                flow.stats.rtt.record(rtt, 1);
            }
        }
        if flow.relay.is_some() {
            if segment.flags.has(Flags::RST) {
                return self.relay_event(c, LegEvent::Reset(Side::Outbound));
            }
            self.relay_acknowledged(c);
        }
    }

    /// Delivers notices and datagrams.
    #[inline(never)]
    fn deliver_other(&mut self, segment: &Segment) {
        match segment.notice() {
            Some(notice) => self.deliver_notice(segment, &notice),
            None => self.deliver_datagram(segment),
        }
    }

    fn deliver_notice(&mut self, segment: &Segment, notice: &Notice) {
        let node = segment.to;
        self.net.ledger.now.control += u64::from(segment.size);
        self.net.emit(Kind::NoticeReceived, node, None, segment, notice.kind.name(), 0.0);
        let connection = &mut self.connections[notice.flow as usize];
        if segment.flags.has(Flags::TO_AGENT) {
            self.net.notice_to_agent(node, notice);
        } else if connection.from == node {
            let write_times = &mut self.flows[connection.flow as usize].write_times;
            connection.with_sender(&mut self.net, write_times, |sender, now, port| {
                sender.on_notice(now, notice, port)
            });
            // Notices for the server's sender do not concern the relay.
            if self.flows[connection.flow as usize].first != Some(notice.flow) {
                self.relay_event(notice.flow, LegEvent::Notice(*notice));
            }
        } else if connection.to == node {
            connection.with_receiver(&mut self.net, |receiver, now, port| {
                receiver.on_notice(now, notice, port)
            });
        }
    }

    fn deliver_datagram(&mut self, segment: &Segment) {
        let now = self.net.now;
        self.net.ledger.now.data += u64::from(segment.size);
        let stats = &mut self.flows[segment.flow as usize].stats;
        if now >= self.measure_from {
            stats.delivered += u64::from(segment.len);
            // The `ack` field of a simulated datagram carries its sending time.
            stats.delay.record(now - Time(segment.ack), u64::from(segment.len));
        }
        let node = segment.to;
        if R::ACTIVE {
            self.net.emit(Kind::DataReceived, node, None, segment, "", 0.0);
        }
    }

    #[inline(never)]
    fn relay_event(&mut self, c: u32, event: LegEvent) {
        let f = self.connections[c as usize].flow as usize;
        let Some(r) = self.flows[f].relay else { return };
        let host = &mut self.relays[r as usize];
        let Ok([inbound, outbound]) =
            self.connections.get_disjoint_mut([host.inbound as usize, host.outbound as usize])
        else {
            return;
        };
        let mut split = SimSplitConnection {
            inbound,
            outbound,
            net: &mut self.net,
            write_times: &mut self.flows[f].write_times,
            buffer: host.buffer,
            source: host.source,
        };
        split.notify(host.relay.as_mut(), event);
    }

    /// Informs a relay of an ACK on one of its two connections.
    fn relay_acknowledged(&mut self, c: u32) {
        let f = self.connections[c as usize].flow as usize;
        let (Some(first), Some(last)) = (self.flows[f].first, self.flows[f].last) else { return };
        if c == last {
            let offset = self.connections[c as usize].sender.snd_una();
            self.relay_event(c, LegEvent::Acknowledged(offset));
        } else if c == first
            && self.connections[first as usize].sender.state() == State::Established
            && self.connections[last as usize].sender.state() == State::Closed
            && !self.connections[last as usize].sender.is_reset()
        {
            // The relay opens its outbound connection once the inbound one is established.
            self.connections[last as usize].with_sender(
                &mut self.net,
                &mut self.flows[f].write_times,
                |s, now, port| s.open(now, port),
            );
            self.relay_event(c, LegEvent::Open);
        }
    }

    #[inline(never)]
    fn sender_timer(&mut self, c: u32, source: Source, triggered_at: u64) {
        let connection = &mut self.connections[c as usize];
        let (deadline, armed) = connection.sender.deadline();
        if !self.net.timer_is_due(
            source,
            deadline,
            armed,
            triggered_at,
            &mut connection.sender_entry,
        ) {
            return;
        }
        let write_times = &mut self.flows[connection.flow as usize].write_times;
        connection.with_sender(&mut self.net, write_times, |sender, now, port| {
            sender.on_timer(now, port)
        });
        self.net.timer_served(source, connection.sender_entry);
        debug_assert!(
            connection.sender.deadline().0 > self.net.now,
            "the sender's timer is due again at the same instant"
        );
    }

    #[inline(never)]
    fn receiver_timer(&mut self, c: u32, source: Source, triggered_at: u64) {
        let connection = &mut self.connections[c as usize];
        let (deadline, armed) = connection.receiver.deadline();
        if self.net.timer_is_due(
            source,
            deadline,
            armed,
            triggered_at,
            &mut connection.receiver_entry,
        ) {
            connection
                .with_receiver(&mut self.net, |receiver, now, port| receiver.on_timer(now, port));
            self.net.timer_served(source, connection.receiver_entry);
        }
    }

    #[inline(never)]
    fn app_timer(&mut self, f: usize) {
        let now = self.net.now;
        let flow = &mut self.flows[f];
        let (action, next) = flow.app.fire(now);
        match next {
            Some(at) => self.net.scheduler.set(flow.source, at.0, now.0),
            None => self.net.scheduler.clear(flow.source),
        }
        match (action, flow.first) {
            (Some(Do::Write(bytes)), Some(c)) => self.write(f, c, bytes),
            (Some(Do::Stop), Some(c)) => {
                let connection = &mut self.connections[c as usize];
                connection.sender.stop();
                flow.written = connection.sender.written();
            }
            (Some(Do::Abort), Some(_)) => {
                for connection in self.connections.iter_mut().filter(|c| c.flow as usize == f) {
                    connection.sender.abort();
                }
            }
            (Some(Do::Datagram(_)), _) => self.send_datagram(f),
            _ => {}
        }
    }

    fn write(&mut self, f: usize, c: u32, bytes: u64) {
        let flow = &mut self.flows[f];
        let now = self.net.now;
        flow.written = flow.written.saturating_add(bytes);
        if !flow.app.endless() {
            flow.write_times.push(flow.written, now);
        }
        let finite = flow.app.finite();
        self.connections[c as usize].with_sender(
            &mut self.net,
            &mut flow.write_times,
            |sender, now, port| {
                sender.open(now, port);
                sender.write(now, bytes, port);
                if finite {
                    sender.close(now, port);
                }
            },
        );
    }

    fn send_datagram(&mut self, f: usize) {
        let flow = &mut self.flows[f];
        let Some(mut segment) = flow.datagram else { return };
        segment.id = self.net.new_id();
        segment.ack = self.net.now.0;
        segment.seq = flow.stats.datagrams * u64::from(segment.len);
        flow.stats.datagrams += 1;
        flow.stats.datagrams_measured += u64::from(self.net.now >= self.measure_from);
        let node = flow.node;
        if R::ACTIVE {
            self.net.emit(Kind::DataSent, node, None, &segment, "new", 0.0);
        }
        self.net.transmit(node, segment);
    }

    /// Length of the measured time.
    pub fn measured(&self) -> Duration {
        self.end - self.measure_from
    }
}

impl<R: Observer> Net<R> {
    /// The scheduler entry of a timer has come up. Returns true if the timer is due; otherwise
    /// moves the entry to the timer's deadline. The entry of a due timer remains until the timer
    /// has been served: in most cases the timer is armed again, and moving an entry is cheaper than
    /// removing and inserting one.
    fn timer_is_due(
        &mut self,
        source: Source,
        deadline: Time,
        armed: Time,
        triggered_at: u64,
        entry: &mut Time,
    ) -> bool {
        if deadline != Time::NEVER && (deadline > self.now || armed.0 > triggered_at) {
            self.scheduler.set(source, deadline.0, armed.0);
            *entry = deadline;
            return false;
        }
        *entry = Time::NEVER;
        if deadline == Time::NEVER {
            self.scheduler.clear(source);
        }
        deadline != Time::NEVER
    }

    /// Removes the scheduler entry of a timer that has been served and was not armed again.
    fn timer_served(&mut self, source: Source, entry: Time) {
        if entry == Time::NEVER {
            self.scheduler.clear(source);
        }
    }
}
