//! Flows: their applications, connections and relays.

use std::sync::Arc;

use lasthop::leg::Relay;
use lasthop::role::Role;
use lasthop::scenario::network::{Flow, Network, Opener};
use lasthop::schemes::catalogue::SenderPart;
use lasthop::segment::{Flags, NodeId, Payload, Segment};
use lasthop::tcp::profile::Profile;
use lasthop::tcp::receiver::{Receiver, ReceiverConfig};
use lasthop::tcp::sender::{Sender, SenderConfig};
use lasthop::tcp::ticks::clock_phase;
use lasthop::traffic::{App, AppState, Quality};
use lasthop::units::Time;

use super::{Builder, RunError, no_role};
use crate::events::Observer;
use crate::events::probe::{Offer, Probe};
use crate::hosts::Timer;
use crate::hosts::endpoint::Connection;
use crate::hosts::external::ExternalHost;
use crate::hosts::flow::FlowHost;
use crate::hosts::reader::ReaderHost;
use crate::hosts::relay::{CAPABILITIES, RelayHost};
use crate::network::paths::{Path, nodes_on_path};
use crate::probes::UserStats;
use crate::probes::calls::CallStats;
use crate::probes::frames::FrameStats;
use crate::probes::limits::FlowLimits;
use crate::probes::requests::RequestStats;

/// One connection of a flow.
struct Half {
    /// Nodes of the sender and of the receiver.
    ends: (NodeId, NodeId),
    /// The receive window, bytes.
    receive_window: u64,
    /// The receiver's data are read by a relay.
    inbound: bool,
    /// The sender is a relay's.
    second_half: bool,
    /// The write time of a byte is the time of its first transmission.
    written_when_sent: bool,
}

#[allow(clippy::multiple_inherent_impl, reason = "one file for each part of a run")]
impl<R: Observer> Builder<'_, R> {
    pub(super) fn add_flow(&mut self, f: u32, flow: &Flow) -> Result<(), RunError> {
        let source = self.add_source(Timer::App(f));
        let start = Time::ZERO + flow.start;
        let stop = flow.stop.map_or(self.end, |s| Time::ZERO + s).min(self.end);
        let limits = FlowLimits::new(self.measure_from.max(start), stop);
        let user = self.user_stats(flow);
        self.net.probes.add_flow(limits, user);
        let app = AppState::new(&flow.app, flow.stop, flow.segment, self.seed, &flow.name);
        let is_tcp = !flow.app.is_datagrams();
        let (node, packet) = match flow.app.request() {
            Some(bytes) => (flow.to, Some(request(flow, f, bytes))),
            None => (flow.from, (!is_tcp).then(|| datagram(flow, f))),
        };
        let mut host = FlowHost::new(f, app, node, start, source, packet);
        if is_tcp {
            match flow.scheme.scheme.relay() {
                Some(relay) => self.add_split_flow(f, flow, relay, &mut host)?,
                None => self.add_end_to_end_flow(f, flow, &mut host)?,
            }
            if let Some(spec) = &flow.reader {
                let source = self.add_source(Timer::Reader(f));
                host.set_reader(ReaderHost::new(spec.clone(), flow.segment, source));
            }
        }
        if flow.app == App::External {
            self.add_external_ends(f, flow, stop);
        }
        self.hosts.flows.push(host);
        self.net.paths.add_flow(flow.from, flow.to);
        Ok(())
    }

    /// What is measured of the user of a flow.
    fn user_stats(&self, flow: &Flow) -> UserStats {
        let measured = (self.measure_from, self.end);
        let mut user = UserStats {
            requests: flow.app.request().map(|_| Box::new(RequestStats::new(self.measure_from))),
            ..UserStats::default()
        };
        match flow.app.quality() {
            Some(Quality::Call { interval, deadline }) => {
                let copies = self.network.links.iter().any(|l| l.impairments.duplicate.is_some());
                let call = CallStats::new(interval, deadline, measured);
                user.call = Some(Box::new(call.with_duplicates(copies)));
            }
            Some(Quality::Frames { deadline }) => {
                user.frames = Some(Box::new(FrameStats::new(deadline, measured)));
            }
            Some(Quality::RoundTrip) | None => {}
        }
        user
    }

    /// The two ends of an external stack.
    fn add_external_ends(&mut self, f: u32, flow: &Flow, stop: Time) {
        let there = datagram(flow, f);
        let back = Segment { to: flow.from, forward: false, ..there };
        for (node, datagram) in [(flow.from, there), (flow.to, back)] {
            let end = self.hosts.externals.len() as u32;
            let source = self.add_source(Timer::Endpoint(end));
            let host = ExternalHost::new(end, node, datagram, flow.headers, stop, source);
            self.hosts.externals.push(host);
            self.net.probes.add_external_end();
        }
    }

    /// A flow with one connection.
    fn add_end_to_end_flow(
        &mut self,
        f: u32,
        flow: &Flow,
        host: &mut FlowHost,
    ) -> Result<(), RunError> {
        let half = Half {
            ends: (flow.from, flow.to),
            receive_window: flow.receive_window.bytes(flow.segment),
            inbound: false,
            second_half: false,
            written_when_sent: host.is_endless(),
        };
        let c = self.connect(f, flow, end_to_end_sender(flow), &half);
        host.connect(c);
        if !self.install_agents(flow, c)
            && let Some(&role) = flow.scheme.scheme.agent_roles().first()
        {
            return Err(no_role(flow, role));
        }
        self.install_framing(flow, c)
    }

    /// A flow with two connections and a relay between them.
    fn add_split_flow(
        &mut self,
        f: u32,
        flow: &Flow,
        relay: Box<dyn Relay>,
        host: &mut FlowHost,
    ) -> Result<(), RunError> {
        let node = relay_node(self.network, flow)?;
        check_capabilities(flow, relay.as_ref())?;
        let own_window = flow.receive_window.bytes(flow.segment);
        let half = Half {
            ends: (flow.from, node),
            receive_window: relay.receive_window().map_or(own_window, |w| w.min(own_window)),
            inbound: true,
            second_half: false,
            written_when_sent: host.is_endless(),
        };
        let inbound = self.connect(f, flow, end_to_end_sender(flow), &half);
        self.offer_window(f, inbound, relay.as_ref());
        let half = Half {
            ends: (node, flow.to),
            receive_window: own_window,
            inbound: false,
            second_half: true,
            written_when_sent: false,
        };
        let outbound = self.connect(f, flow, flow.scheme.outbound(&flow.profile), &half);
        if let Some(rule) = flow.scheme.scheme.outbound_window() {
            self.hosts.connections[outbound as usize].replace_rule(rule);
        }
        let r = self.hosts.relays.len() as u32;
        host.split(inbound, outbound, r);
        let source = self.add_source(Timer::Relay(r));
        let label = flow.scheme.label.clone();
        self.hosts.relays.push(RelayHost::new(relay, label, node, (inbound, outbound), source));
        let found = self.install_agents(flow, inbound) | self.install_agents(flow, outbound);
        if !found && !flow.scheme.scheme.agent_roles().is_empty() {
            return Err(no_role(flow, flow.scheme.scheme.agent_roles()[0]));
        }
        Ok(())
    }

    /// Determines the window that a relay offers to the server at first.
    fn offer_window(&mut self, f: u32, inbound: u32, relay: &dyn Relay) {
        let connection = &mut self.hosts.connections[inbound as usize];
        let mut offer =
            if relay.receive_window().is_some_and(|w| w <= connection.receiver().buffer()) {
                Offer::Buffer
            } else {
                Offer::Own
            };
        if let Some(bytes) = relay.first_window() {
            connection.begin_with(bytes);
            offer = Offer::Steered;
        }
        self.net.probes.window_offered(Time::ZERO, f, offer);
    }

    /// This profile, one for all connections in a row that have it.
    fn shared(&mut self, profile: &Profile) -> Arc<Profile> {
        let last = self.profile.take().filter(|last| **last == *profile);
        Arc::clone(self.profile.insert(last.unwrap_or_else(|| profile.into())))
    }

    /// Adds a connection. Returns its index.
    fn connect(
        &mut self,
        f: u32,
        flow: &Flow,
        (part, profile): (SenderPart, Profile),
        half: &Half,
    ) -> u32 {
        let index = self.hosts.connections.len() as u32;
        let (from, to) = half.ends;
        // What a relay may send on waits in its own buffer.
        let profile = if half.second_half { profile.without_send_buffer() } else { profile };
        let config = SenderConfig {
            flow: index,
            to,
            mss: flow.segment,
            headers: flow.headers,
            receive_window: half.receive_window,
            recovery: part.recovery,
            needs: part.needs,
            clock_phase: clock_phase(&profile, self.seed, index),
            draw: flow.draw.unwrap_or_default().wrapping_add(u64::from(index)),
        };
        let mut sender = Sender::new(config, self.shared(&profile), part.window());
        let receiver = Receiver::new(
            ReceiverConfig {
                flow: index,
                to: from,
                headers: flow.headers,
                mss: flow.segment,
                buffer: half.receive_window,
                manual_read: half.inbound,
            },
            &profile,
            part.receiver(),
        );
        let receiver = match flow.opens {
            Opener::Sender => receiver,
            Opener::Receiver => {
                sender.listen();
                // Another host has another clock.
                let phase = clock_phase(&profile, self.seed, !index);
                receiver.with_active_open(&profile, phase)
            }
        };
        let reads_slowly = flow.reader.is_some() && !half.inbound;
        let receiver = if reads_slowly { receiver.with_manual_reading() } else { receiver };
        let receiver = receiver.with_misbehaviour(flow.misbehaviour.filter(|_| !half.inbound));
        let timers = self.add_source(Timer::Sender(index));
        self.add_source(Timer::Receiver(index));
        let ends = (sender, receiver);
        let connection =
            Connection::new(ends, half.ends, f, flow.segment, timers, half.second_half);
        self.hosts.connections.push(connection);
        self.net.paths.add(Path { flow: f, from, to, agents: Vec::new(), framing: None });
        self.net.probes.add_connection(f, half.written_when_sent);
        index
    }
}

/// The sender and the profile of a flow: of the whole path, or of the first half of a split
/// connection.
fn end_to_end_sender(flow: &Flow) -> (SenderPart, Profile) {
    let part = flow.scheme.sender(&flow.profile);
    let profile = part.profile(&flow.profile);
    (part, profile)
}

/// The node of a flow's relay: the first of the scheme's roles that the path has.
fn relay_node(network: &Network, flow: &Flow) -> Result<NodeId, RunError> {
    let roles = flow.scheme.scheme.relay_roles();
    let nodes = nodes_on_path(network, flow.from, flow.to);
    let at =
        |role: Role| nodes.iter().copied().find(|&n| network.nodes[usize::from(n)].role == role);
    let wanted = roles.first().copied().unwrap_or(Role::BaseStation);
    roles
        .iter()
        .find_map(|&role| at(role))
        .or_else(|| at(wanted))
        .ok_or_else(|| no_role(flow, wanted))
}

/// Checks that simulated connections can do what a relay needs.
fn check_capabilities(flow: &Flow, relay: &dyn Relay) -> Result<(), RunError> {
    let needs = relay.needs();
    let missing = [
        (needs.window && !CAPABILITIES.window, "set the congestion window"),
        (needs.receive_window && !CAPABILITIES.receive_window, "set the receive window"),
        (
            needs.acknowledge && !CAPABILITIES.acknowledge,
            "acknowledge only part of the received data",
        ),
        (needs.hold && !CAPABILITIES.hold, "freeze its sender"),
    ];
    match missing.iter().find(|m| m.0) {
        Some((_, capability)) => Err(RunError::Scenario(format!(
            "scheme `{}` needs connections that can {capability}",
            flow.scheme.label
        ))),
        None => Ok(()),
    }
}

/// The request of a flow's client.
fn request(flow: &Flow, f: u32, bytes: u32) -> Segment {
    let (size, forward) = (bytes + flow.headers, false);
    Segment { len: bytes, size, to: flow.from, forward, ..datagram(flow, f) }
}

fn datagram(flow: &Flow, f: u32) -> Segment {
    Segment {
        seq: 0,
        ack: 0,
        id: 0,
        flow: f,
        len: flow.segment,
        size: flow.segment + flow.headers,
        window: 0,
        ts_value: 0,
        ts_echo: 0,
        payload: Payload::NONE,
        to: flow.to,
        flags: Flags::DATAGRAM,
        attempt: 1,
        forward: true,
    }
}
