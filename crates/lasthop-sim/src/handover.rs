//! Handovers: another machine takes the place of a node, and the state of agents and relays moves
//! to it.
//!
//! The new one stands where the old one stood: links, routes and what waits there stay. Until the
//! state has come it passes nothing on; what arrives waits.

use std::collections::VecDeque;

use lasthop::agent::Agent;
use lasthop::scenario::network::{Handover, Network};
use lasthop::segment::{Handle, NodeId};
use lasthop::units::{Duration, Time};

use crate::events::Observer;
use crate::scheduler::Source;
use crate::simulation::{EventSource, Simulation};

/// What a socket takes besides its buffers, in bytes: about what a Linux checkpoint of one has
/// (TCP_REPAIR's fields).
const SOCKET_BYTES: u64 = 200;

/// So long after the state has come a gap in delivery is held to be the handover's.
const AFTER: Duration = Duration::secs(2);

/// A handover and what it cost.
#[derive(Debug)]
pub struct HandoverHost {
    /// What and when.
    pub config: Handover,
    /// Bytes of state that moved.
    pub bytes: u64,
    /// From the handover until the state had come; none before it.
    pub took: Option<Duration>,
    /// The longest time without a delivery from the handover on.
    pub gap: Duration,
    states: Vec<(usize, u32, Vec<u8>)>,
    waiting: VecDeque<Handle>,
    moving: bool,
    last_delivery: Time,
    source: Source,
}

impl HandoverHost {
    /// Bytes have been delivered to an application.
    pub fn delivered(&mut self, now: Time) {
        let at = Time::ZERO + self.config.at;
        if now >= at && now <= at + self.took.unwrap_or_default() + AFTER {
            self.gap = self.gap.max(now - self.last_delivery);
        }
        self.last_delivery = now;
    }
}

impl<R: Observer> Simulation<R> {
    pub(crate) fn add_handovers(&mut self, network: &Network) {
        for &config in &network.handovers {
            let source = self.add_source(EventSource::Handover(self.handovers.len() as u32));
            self.handovers.push(HandoverHost {
                config,
                bytes: 0,
                took: None,
                gap: Duration::ZERO,
                states: Vec::new(),
                waiting: VecDeque::new(),
                moving: false,
                last_delivery: Time::ZERO,
                source,
            });
        }
    }

    pub(crate) fn schedule_handovers(&mut self) {
        for h in &self.handovers {
            self.net.scheduler.set(h.source, h.config.at.0, 0);
        }
    }

    /// A frame that arrives while the state of its node is on the way waits.
    pub(crate) fn waits_for_state(&mut self, node: NodeId, handle: Handle) -> bool {
        let Some(h) = self.handovers.iter_mut().find(|h| h.moving && h.config.node == node) else {
            return false;
        };
        h.waiting.push_back(handle);
        true
    }

    /// A handover begins, or its state has come.
    #[inline(never)]
    pub(crate) fn handover(&mut self, i: usize) {
        if self.handovers[i].moving { self.end_handover(i) } else { self.begin_handover(i) }
    }

    fn begin_handover(&mut self, i: usize) {
        let config = self.handovers[i].config;
        let mut bytes = 0;
        for a in (0..self.net.agents.len())
            .filter(|&a| self.net.agents[a].node == config.node)
            .collect::<Vec<_>>()
        {
            let Some(role) = self
                .net
                .connection_info
                .iter()
                .flat_map(|k| &k.agents)
                .find(|w| w.agent as usize == a)
                .map(|w| w.role)
            else {
                continue;
            };
            let states = self.net.replace_agent(a, role);
            if config.moved {
                bytes += states.iter().map(|s| s.1.len() as u64).sum::<u64>();
                self.handovers[i].states.extend(states.into_iter().map(|(c, state)| (a, c, state)));
            }
        }
        for r in 0..self.relays.len() {
            if self.relays[r].node == config.node {
                bytes += self.begin_with_relay(r, config.moved);
            }
        }
        let took =
            if config.moved { config.delay + config.rate.time_for(bytes) } else { Duration::ZERO };
        let h = &mut self.handovers[i];
        (h.bytes, h.took, h.moving) = (bytes, Some(took), true);
        self.net.scheduler.set(h.source, (self.net.now + took).0, self.net.now.0);
    }

    /// Two sockets with what they hold: bytes that move, unless the connection dies.
    fn begin_with_relay(&mut self, r: usize, moved: bool) -> u64 {
        let (inbound, outbound) =
            (self.relays[r].inbound as usize, self.relays[r].outbound as usize);
        let flow = self.connections[inbound].flow as usize;
        if !moved {
            self.connections[inbound].sender.abort();
            self.connections[outbound].sender.abort();
            return 0;
        }
        let sender = &self.connections[outbound].sender;
        let held = self.connections[inbound].receiver.unread()
            + sender.written().saturating_sub(sender.snd_una());
        let write_times = &mut self.flows[flow].write_times;
        self.connections[outbound].with_sender(&mut self.net, write_times, |s, _, _| s.hold());
        held + 2 * SOCKET_BYTES
    }

    fn end_handover(&mut self, i: usize) {
        let h = &mut self.handovers[i];
        h.moving = false;
        self.net.scheduler.clear(h.source);
        let (node, states, waiting) =
            (h.config.node, std::mem::take(&mut h.states), std::mem::take(&mut h.waiting));
        for (a, c, state) in states {
            self.net.agents[a].agent.import(c, &state);
        }
        for r in (0..self.relays.len()).filter(|&r| self.relays[r].node == node).collect::<Vec<_>>()
        {
            let outbound = self.relays[r].outbound as usize;
            let write_times = &mut self.flows[self.connections[outbound].flow as usize].write_times;
            self.connections[outbound]
                .with_sender(&mut self.net, write_times, |s, now, port| s.resume(now, 0, port));
        }
        for handle in waiting {
            let segment = *self.net.pool.get(handle);
            self.receive_at_node(node, handle, &segment);
        }
    }
}
