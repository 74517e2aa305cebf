//! What runs at the nodes: end points, agents, relays, applications, oracles, handovers.
//!
//! Each is an object with private state, called with what happens to it and an outbox (or the
//! network) for what it does. [`Hosts`] passes frames and timers to them, and the outcome of one to
//! the next.

pub(crate) mod advance;
pub mod agent;
mod by_agent;
pub mod endpoint;
pub mod external;
mod fast_answer;
mod fast_beyond;
mod fast_port;
pub mod flow;
pub mod handover;
pub mod oracle;
mod outbox;
pub(crate) mod reader;
pub mod relay;
mod sender_port;
pub mod sessions;

use lasthop::leg::{LegEvent, Side};
use lasthop::segment::{Flags, Handle, NodeId, Notice, Options, Payload, Segment};
use lasthop::tcp::sender::State;
use lasthop::traffic::Do;
use lasthop::units::Time;

use crate::events::probe::{Probe, external_end};
use crate::network::fast_path::ReceivedAck;
use crate::network::receiver_timers::ReceiverTimer;
use crate::network::{Net, Pending};
use agent::Agents;
use endpoint::{Connection, Input};
use external::{Endpoint, ExternalHost};
use flow::FlowHost;
use handover::{HandoverHost, SOCKET_BYTES};
use oracle::Oracle;
use outbox::{Outbox, transmit};
use relay::RelayHost;
use sessions::Session;

/// Timers of the hosts, by their index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// Timers of an agent.
    Agent(u32),
    /// The timer that a relay requested.
    Relay(u32),
    /// A change of the state of a link that an agent subscribes to.
    LinkState(u32),
    /// The beginning or the end of a handover.
    Handover(u32),
    /// The retransmission timer or pacing of a connection's sender.
    Sender(u32),
    /// The delayed ACK of a connection's receiver.
    Receiver(u32),
    /// The application of a flow.
    App(u32),
    /// The application at the receiver of a flow, if that does not read at once.
    Reader(u32),
    /// The notices of an oracle.
    Oracle(u32),
    /// The start or a timeout of an end of an external stack.
    Endpoint(u32),
}

/// All hosts of a run.
#[derive(Default)]
pub struct Hosts {
    /// The agents at the nodes.
    pub agents: Agents,
    /// TCP connections, by number.
    pub connections: Vec<Connection>,
    /// The applications, by flow.
    pub flows: Vec<FlowHost>,
    /// The relays of split schemes.
    pub relays: Vec<RelayHost>,
    /// The oracles of window rules.
    pub oracles: Vec<Oracle>,
    /// The ends of external stacks; the two of a flow follow each other, its sender's first.
    pub externals: Vec<ExternalHost>,
    /// Web sessions.
    pub sessions: Vec<Session>,
    /// Handovers between nodes.
    pub handovers: Vec<HandoverHost>,
    /// Start and end of the measured time.
    pub span: (Time, Time),
}

impl Hosts {
    /// A frame arrives at a node: at its agent, its TCP stack, or on its way to the next link.
    #[inline(always)]
    pub(crate) fn receive<P: Probe>(&mut self, net: &mut Net<P>, node: NodeId, handle: Handle) {
        if self.handovers.is_empty() || !self.hold_for_state(node, handle) {
            self.pass_on(net, node, handle);
        }
    }

    /// An ACK on the fast path arrives at its sender.
    #[inline(always)]
    pub(crate) fn receive_plain_ack<P: Probe>(&mut self, ack: ReceivedAck, net: &mut Net<P>) {
        self.connections[ack.connection as usize].receive_plain_ack(ack, net, &mut self.agents);
    }

    /// Before the arrival `next` at the end of the link `l`, which is computed in advance: runs the
    /// timers of receivers behind it that are due earlier, each with the clock set to its time.
    /// Returns false if one is due at the present instant, so that it has its place among the other
    /// events of this time.
    #[inline(never)]
    pub(crate) fn run_receiver_timers<P: Probe>(
        &mut self,
        l: usize,
        next: (Time, Time),
        net: &mut Net<P>,
    ) -> bool {
        let arrival = (next.0, next.1, net.arrival_source(l));
        loop {
            let first = self.first_receiver_timer(l, net);
            let before = |&(due, set, source, _): &ReceiverTimer| (due, set, source) < arrival;
            let Some((due, .., c)) = first.filter(before) else { return true };
            if due.0 <= net.event.time {
                return false;
            }
            let mut out = Outbox { net: &mut *net, agents: &mut self.agents };
            let connection = &mut self.connections[c as usize];
            connection.run_receiver_timer(&mut out);
            // Its entry is not removed: the next segment mostly sets the timer again.
            if connection.receiver().deadline().0 == Time::NEVER && net.has_one_receiver_timer(l) {
                return true;
            }
        }
    }

    /// The timer that is due first of the receivers behind the link `l`.
    #[inline(always)]
    fn first_receiver_timer<P: Probe>(
        &mut self,
        l: usize,
        net: &mut Net<P>,
    ) -> Option<ReceiverTimer> {
        let connections = &mut self.connections;
        let first = net.first_receiver_timer(l, |entry| {
            connections[entry.3 as usize].update_receiver_timer(entry)
        });
        net.receivers_due[l] = first.map_or(Time::NEVER, |timer| timer.0);
        first
    }

    /// The event of a receiver's timer has come up. If the receiver is computed in advance, it is
    /// that of all receivers behind its link: the first one's timer runs if it is due.
    #[inline(never)]
    fn receiver_timer<P: Probe>(&mut self, c: u32, triggered_at: u64, net: &mut Net<P>) {
        let input = Input::ReceiverTimer(triggered_at);
        let Some(l) = self.connections[c as usize].link_in_advance() else {
            return self.call(c, input, net);
        };
        let l = l as usize;
        let mut first = self.first_receiver_timer(l, net);
        let event = (net.now, net.triggered_at, net.event.source);
        if let Some((due, set, source, c)) = first
            && (due, set, source) == event
        {
            self.call(c, input, net);
            first = self.first_receiver_timer(l, net);
        }
        net.schedule_receiver_timers(l, first);
    }

    #[inline(always)]
    fn pass_on<P: Probe>(&mut self, net: &mut Net<P>, node: NodeId, handle: Handle) {
        let segment = *net.pool.get(handle);
        // An agent cannot read a packet with a bit error and forwards it.
        let agent = self.agents.at(net, node, &segment);
        match agent.filter(|_| !segment.flags.has(Flags::CORRUPTED)) {
            Some(watch) => self.receive_at_agent(&watch, &segment, handle, net),
            None if segment.to == node => {
                net.pool.free(handle);
                self.deliver(&segment, handle, net);
            }
            None => net.forward(node, handle),
        }
    }

    #[cold]
    #[inline(never)]
    fn hold_for_state(&mut self, node: NodeId, handle: Handle) -> bool {
        self.handovers.iter_mut().any(|h| h.holds(node, handle))
    }

    /// Delivers a segment that its receiver expects. False if it does not, or may need more.
    #[inline(always)]
    fn deliver_plain<P: Probe>(&mut self, segment: &Segment, net: &mut Net<P>) -> bool {
        let Some(connection) = self.connections.get_mut(segment.flow as usize) else {
            return false;
        };
        let mut out = Outbox { net: &mut *net, agents: &mut self.agents };
        let Some(in_order) = connection.receive_plain(segment, &mut out) else { return false };
        let (f, to) = (connection.flow() as usize, connection.ends().1);
        if in_order.1 > 0 && self.flows[f].deliver(in_order, to, net) {
            self.transfer_completed(f, net);
        }
        true
    }

    /// A frame reaches the stack of its destination node.
    pub(crate) fn deliver_frame<P: Probe>(&mut self, handle: Handle, net: &mut Net<P>) {
        let segment = *net.pool.get(handle);
        net.pool.free(handle);
        self.deliver(&segment, handle, net);
    }

    /// Does what was put off until the present event had been handled. `endpoints`: the external
    /// stacks of `externals`.
    #[inline(never)]
    pub(crate) fn handle_pending<P: Probe>(
        &mut self,
        pending: Pending,
        endpoints: &mut [&mut dyn Endpoint],
        net: &mut Net<P>,
    ) {
        match pending {
            Pending::Endpoint(e) => self.externals[e as usize].call(endpoints[e as usize], net),
            Pending::Deliver(handle) => self.deliver_frame(handle, net),
            Pending::LinkEvent(notification) => {
                let a = notification.watch.agent as usize;
                self.agents.handle(a, agent::Input::LinkEvent(&notification), net);
            }
        }
    }

    /// Handles a timer whose entry has come up, with its trigger time.
    #[inline]
    pub(crate) fn handle_timer<P: Probe>(
        &mut self,
        timer: Timer,
        triggered_at: u64,
        net: &mut Net<P>,
    ) {
        match timer {
            Timer::Sender(c) => self.call(c, Input::SenderTimer(triggered_at), net),
            Timer::Receiver(c) => self.receiver_timer(c, triggered_at, net),
            Timer::Agent(a) => self.agents.handle(a as usize, agent::Input::Timer, net),
            Timer::Relay(r) => {
                let relay = &self.relays[r as usize];
                net.scheduler.clear(relay.source());
                self.relay_event(relay.connections().1, LegEvent::Timer, net);
            }
            Timer::LinkState(i) => self.agents.link_state_changed(i as usize, net),
            Timer::Handover(i) => self.handover(i as usize, net),
            Timer::App(f) => self.app_timer(f as usize, net),
            Timer::Reader(f) => self.read(f as usize, net),
            Timer::Endpoint(e) => {
                self.externals[e as usize].timer_expired(net);
                net.add_pending(Pending::Endpoint(e));
            }
            Timer::Oracle(o) => {
                let mut out = Outbox { net, agents: &mut self.agents };
                self.oracles[o as usize].handle(&mut self.connections, &self.flows, &mut out);
            }
        }
    }

    /// Calls a connection.
    #[inline(always)]
    fn call<P: Probe>(&mut self, c: u32, input: Input<'_>, net: &mut Net<P>) {
        let mut out = Outbox { net, agents: &mut self.agents };
        self.connections[c as usize].handle(input, &mut out);
    }

    /// Delivers a segment to the stack of its destination node. `handle` has just been freed; its
    /// options are still readable.
    #[inline(always)]
    fn deliver<P: Probe>(&mut self, segment: &Segment, handle: Handle, net: &mut Net<P>) {
        if segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            self.deliver_other(segment, handle, net);
        } else if segment.forward {
            self.deliver_data(segment, net);
        } else {
            self.deliver_any_ack(segment, handle, net);
        }
    }

    /// Delivers an ACK, with options or without.
    #[inline(always)]
    fn deliver_any_ack<P: Probe>(&mut self, segment: &Segment, handle: Handle, net: &mut Net<P>) {
        let mut copy = None;
        let options = match segment.flags.any(Flags::OPTIONS) {
            true => net.pool.valid_options(handle, &mut copy),
            false => &Options::NONE,
        };
        self.deliver_ack(segment, options, net);
    }

    fn deliver_data<P: Probe>(&mut self, segment: &Segment, net: &mut Net<P>) {
        if self.deliver_plain(segment, net) {
            return;
        }
        let c = segment.flow;
        let connection = &mut self.connections[c as usize];
        let mut out = Outbox { net, agents: &mut self.agents };
        let (first, count) = connection.handle(Input::Data(segment), &mut out);
        let flow = &mut self.flows[connection.flow() as usize];
        if count == 0 {
            if segment.flags.has(Flags::SYN) && flow.has_client() {
                let f = connection.flow() as usize;
                self.send_request(f, c, net);
            } else if segment.flags.has(Flags::RST) {
                self.relay_event(c, LegEvent::Reset(Side::Inbound), net);
            } else if connection.receiver().finished() {
                self.relay_event(c, LegEvent::HalfClosed, net);
            }
            return;
        }
        if flow.last() != Some(c) {
            let finished = connection.receiver().finished();
            let event = if finished { LegEvent::HalfClosed } else { LegEvent::Readable };
            return self.relay_event(c, event, net);
        }
        let f = connection.flow() as usize;
        if connection.receiver().is_read_manually() {
            self.read(f, net);
        } else if flow.deliver((first, count), connection.ends().1, net) {
            self.transfer_completed(f, net);
        }
    }

    /// The receiving application of a flow reads what it reads now.
    #[inline(never)]
    fn read<P: Probe>(&mut self, f: usize, net: &mut Net<P>) {
        let flow = &mut self.flows[f];
        let Some(c) = flow.last() else { return };
        let connection = &mut self.connections[c as usize];
        let (receiver, mss) = (connection.receiver(), connection.mss());
        let unread = if receiver.is_reset() { 0 } else { receiver.unread() };
        let count = flow.read(unread, net);
        if count == 0 {
            return;
        }
        let first = connection.receiver().rcv_nxt() - unread;
        let mut out = Outbox { net: &mut *net, agents: &mut self.agents };
        connection.with_receiver(&mut out, |r, now, port| r.read(now, count, mss, port));
        if flow.deliver((first, count), connection.ends().1, net) {
            self.transfer_completed(f, net);
        }
    }

    fn deliver_ack<P: Probe>(&mut self, segment: &Segment, options: &Options, net: &mut Net<P>) {
        let c = segment.flow;
        self.call(c, Input::Ack(segment, options), net);
        if !self.relays.is_empty() && self.flow_of(c).relay().is_some() {
            if segment.flags.has(Flags::RST) {
                return self.relay_event(c, LegEvent::Reset(Side::Outbound), net);
            }
            self.relay_acknowledged(c, net);
        }
    }

    /// The flow of a connection.
    #[inline]
    fn flow_of(&self, c: u32) -> &FlowHost {
        &self.flows[self.connections[c as usize].flow() as usize]
    }

    /// Delivers notices and datagrams.
    #[inline(never)]
    fn deliver_other<P: Probe>(&mut self, segment: &Segment, handle: Handle, net: &mut Net<P>) {
        match segment.notice() {
            Some(notice) => self.deliver_notice(segment, &notice, net),
            None if segment.payload != Payload::NONE => {
                let e = external_end(segment);
                self.externals[e as usize].receive(segment, handle, net);
                net.add_pending(Pending::Endpoint(e));
            }
            None if self.flows[segment.flow as usize].has_client() => {
                let flow = &mut self.flows[segment.flow as usize];
                let (bytes, first) = (flow.request_arrived(segment, net), flow.first());
                if let (Some(bytes), Some(c)) = (bytes, first) {
                    self.write(segment.flow as usize, c, bytes, net);
                }
            }
            None => {
                net.probes.datagram_received(net.now, segment);
                if let Some(answer) = self.flows[segment.flow as usize].answer(segment, net) {
                    transmit(net, &mut self.agents, segment.to, answer);
                }
            }
        }
    }

    fn deliver_notice<P: Probe>(&mut self, segment: &Segment, notice: &Notice, net: &mut Net<P>) {
        let (node, c) = (segment.to, notice.flow);
        net.probes.notice_received(net.now, segment, notice.kind.name());
        if segment.flags.has(Flags::TO_AGENT) {
            if let Some(watch) = net.paths.watch(node, c) {
                let (a, links) = (watch.agent as usize, watch.links);
                self.agents.handle(a, agent::Input::Notice(notice, links), net);
            }
            return;
        }
        self.call(c, Input::Notice(notice, node), net);
        // Notices for the server's sender do not concern the relay.
        let to_sender = self.connections[c as usize].ends().0 == node;
        if to_sender && self.flow_of(c).first() != Some(c) {
            self.relay_event(c, LegEvent::Notice(*notice), net);
        }
    }

    #[inline(never)]
    fn relay_event<P: Probe>(&mut self, c: u32, event: LegEvent, net: &mut Net<P>) {
        let Some(r) = self.flow_of(c).relay() else { return };
        let relay = &mut self.relays[r as usize];
        let (inbound, outbound) = relay.connections();
        let ends = [inbound as usize, outbound as usize];
        let Ok(connections) = self.connections.get_disjoint_mut(ends) else { return };
        relay.handle(event, connections, Outbox { net, agents: &mut self.agents });
    }

    /// Informs a relay of an ACK on one of its two connections.
    fn relay_acknowledged<P: Probe>(&mut self, c: u32, net: &mut Net<P>) {
        let flow = self.flow_of(c);
        let (Some(first), Some(last)) = (flow.first(), flow.last()) else { return };
        let state = |c: u32| self.connections[c as usize].sender().state();
        if c == last {
            let offset = self.connections[c as usize].sender().snd_una();
            self.relay_event(c, LegEvent::Acknowledged(offset), net);
        } else if c == first
            && state(first) == State::Established
            && state(last) == State::Closed
            && !self.connections[last as usize].sender().is_reset()
        {
            // The relay opens its outbound connection once the inbound one is established.
            self.call(last, Input::Open, net);
            self.relay_event(c, LegEvent::Open, net);
        }
    }

    #[inline(never)]
    fn app_timer<P: Probe>(&mut self, f: usize, net: &mut Net<P>) {
        let flow = &mut self.flows[f];
        match (flow.handle(net), flow.first()) {
            (Some(Do::Write(bytes)), Some(c)) => self.write(f, c, bytes, net),
            (Some(Do::Request { ordinal, times, .. }), Some(c)) => {
                flow.set_request((ordinal, times));
                if self.connections[c as usize].receiver().opens_actively() {
                    self.call(c, Input::Open, net);
                }
                self.send_request(f, c, net);
            }
            (Some(Do::Stop), Some(c)) => {
                self.call(c, Input::Stop, net);
                self.flows[f].stop(self.connections[c as usize].sender().written());
            }
            (Some(Do::Abort), Some(_)) => {
                for c in 0..self.connections.len() {
                    if self.connections[c].flow() as usize == f {
                        self.call(c as u32, Input::Abort, net);
                    }
                }
            }
            (Some(Do::Datagram(_)), _) => {
                if let Some((node, segment)) = flow.next_datagram(net) {
                    transmit(net, &mut self.agents, node, segment);
                }
            }
            _ => {}
        }
    }

    /// Sends the request that is due, once the client has a connection if it opens that itself.
    fn send_request<P: Probe>(&mut self, f: usize, c: u32, net: &mut Net<P>) {
        let receiver = self.connections[c as usize].receiver();
        if receiver.opens_actively() && !receiver.is_open() {
            return;
        }
        if let Some((node, segment)) = self.flows[f].next_request(net) {
            transmit(net, &mut self.agents, node, segment);
        }
    }

    /// The application of a flow writes to its first connection.
    fn write<P: Probe>(&mut self, f: usize, c: u32, bytes: u64, net: &mut Net<P>) {
        let finite = self.flows[f].write(bytes, net);
        self.call(c, Input::Write { bytes, finite }, net);
    }

    /// A transfer is complete. If it was the last object of its page, schedules the next click.
    #[inline(never)]
    fn transfer_completed<P: Probe>(&mut self, f: usize, net: &mut Net<P>) {
        let Some(s) = self.flows[f].session() else { return };
        let session = &mut self.sessions[s as usize];
        let Some(mut page) = session.page() else { return };
        if page.any(|f| self.flows[f].completed().is_none()) {
            return;
        }
        let (page, think) = session.next_page();
        let (now, (measure_from, end)) = (net.now, self.span);
        let click = now + think;
        for f in page {
            self.flows[f].defer(click.min(end));
            net.probes.start_deferred(f as u32, click.max(measure_from));
            self.flows[f].schedule(click, now, net);
            for oracle in &self.oracles {
                if self.connections[oracle.connection() as usize].flow() as usize == f {
                    oracle.schedule(click, now, net);
                }
            }
        }
    }

    /// A handover begins, or its state transfer is complete.
    #[inline(never)]
    fn handover<P: Probe>(&mut self, i: usize, net: &mut Net<P>) {
        if self.handovers[i].in_transfer() {
            self.end_handover(i, net)
        } else {
            self.begin_handover(i, net)
        }
    }

    fn begin_handover<P: Probe>(&mut self, i: usize, net: &mut Net<P>) {
        let config = *self.handovers[i].config();
        let mut moved = Vec::new();
        for a in self.agents.at_node(config.node) {
            let states = self.agents.replace(a, net);
            moved.extend(states.into_iter().map(|(c, state)| (a, c, state)));
        }
        if !config.moved {
            moved.clear();
        }
        let mut bytes = moved.iter().map(|s| s.2.len() as u64).sum::<u64>();
        for r in self.relays_at(config.node) {
            bytes += self.begin_relay_handover(r, config.moved, net);
        }
        let took = self.handovers[i].begin(bytes, moved);
        net.probes.handover_began(i, took);
        let source = self.handovers[i].source();
        net.scheduler.set(source, (net.now + took).0, net.now.0);
    }

    /// Indices of the relays at a node.
    fn relays_at(&self, node: NodeId) -> Vec<usize> {
        (0..self.relays.len()).filter(|&r| self.relays[r].node() == node).collect()
    }

    /// Starts the handover of a relay. Returns the bytes to transfer, two sockets and their
    /// buffered data; without transfer both connections are aborted.
    fn begin_relay_handover<P: Probe>(&mut self, r: usize, moved: bool, net: &mut Net<P>) -> u64 {
        let (inbound, outbound) = self.relays[r].connections();
        if !moved {
            self.call(inbound, Input::Abort, net);
            self.call(outbound, Input::Abort, net);
            return 0;
        }
        let sender = self.connections[outbound as usize].sender();
        let buffered = self.connections[inbound as usize].receiver().unread()
            + sender.written().saturating_sub(sender.snd_una());
        self.call(outbound, Input::Hold, net);
        buffered + 2 * SOCKET_BYTES
    }

    fn end_handover<P: Probe>(&mut self, i: usize, net: &mut Net<P>) {
        let node = self.handovers[i].config().node;
        net.scheduler.clear(self.handovers[i].source());
        let (states, held_frames) = self.handovers[i].end();
        for (a, c, state) in states {
            self.agents.import(a, c, &state);
        }
        for r in self.relays_at(node) {
            self.call(self.relays[r].connections().1, Input::Resume, net);
        }
        for handle in held_frames {
            self.pass_on(net, node, handle);
        }
    }
}
