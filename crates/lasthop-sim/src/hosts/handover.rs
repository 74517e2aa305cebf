//! Handovers: a node is replaced by another machine, and the state of its agents and relays is
//! transferred.
//!
//! The new machine takes the place of the old one in the network: links, routes and queued frames
//! remain. Until the state has been transferred, it forwards nothing; arriving frames are held.

use std::collections::VecDeque;

use lasthop::agent::Agent;
use lasthop::scenario::network::{Handover, Network};
use lasthop::segment::{Handle, NodeId};
use lasthop::units::{Duration, Time};

use crate::engine::scheduler::Source;
use crate::events::Observer;
use crate::simulation::{EventSource, Simulation};

/// Bytes of state of a socket besides its buffers: about the size of a Linux checkpoint (the fields
/// of TCP_REPAIR).
const SOCKET_BYTES: u64 = 200;

/// A gap in delivery counts as the handover's until this time after the end of the transfer.
const GAP_WINDOW: Duration = Duration::secs(2);

/// A handover and its effects.
#[derive(Debug)]
pub struct HandoverHost {
    /// Configuration: node, time, and whether the state is transferred.
    pub config: Handover,
    /// Bytes of state that were transferred.
    pub bytes: u64,
    /// From the handover to the end of the state transfer; `None` before the handover.
    pub transfer_time: Option<Duration>,
    /// The longest time without a delivery to any application, from the handover until 2 s after
    /// the transfer.
    pub gap: Duration,
    states: Vec<(usize, u32, Vec<u8>)>,
    held_frames: VecDeque<Handle>,
    in_transfer: bool,
    last_delivery: Time,
    source: Source,
}

impl HandoverHost {
    /// Records a delivery to an application.
    pub fn delivered(&mut self, now: Time) {
        let at = Time::ZERO + self.config.at;
        if now >= at && now <= at + self.transfer_time.unwrap_or_default() + GAP_WINDOW {
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
                transfer_time: None,
                gap: Duration::ZERO,
                states: Vec::new(),
                held_frames: VecDeque::new(),
                in_transfer: false,
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

    /// Holds a frame that arrives while the state of its node is being transferred. Returns true if
    /// it is held.
    pub(crate) fn hold_for_state(&mut self, node: NodeId, handle: Handle) -> bool {
        let Some(h) = self.handovers.iter_mut().find(|h| h.in_transfer && h.config.node == node)
        else {
            return false;
        };
        h.held_frames.push_back(handle);
        true
    }

    /// A handover begins, or its state transfer is complete.
    #[inline(never)]
    pub(crate) fn handover(&mut self, i: usize) {
        if self.handovers[i].in_transfer { self.end_handover(i) } else { self.begin_handover(i) }
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
                bytes += self.begin_relay_handover(r, config.moved);
            }
        }
        let transfer_time =
            if config.moved { config.delay + config.rate.time_for(bytes) } else { Duration::ZERO };
        let h = &mut self.handovers[i];
        (h.bytes, h.transfer_time, h.in_transfer) = (bytes, Some(transfer_time), true);
        self.net.scheduler.set(h.source, (self.net.now + transfer_time).0, self.net.now.0);
    }

    /// Starts the handover of a relay. Returns the bytes to transfer, two sockets and their
    /// buffered data; without transfer both connections are aborted.
    fn begin_relay_handover(&mut self, r: usize, moved: bool) -> u64 {
        let (inbound, outbound) =
            (self.relays[r].inbound as usize, self.relays[r].outbound as usize);
        let flow = self.connections[inbound].flow as usize;
        if !moved {
            self.connections[inbound].sender.abort();
            self.connections[outbound].sender.abort();
            return 0;
        }
        let sender = &self.connections[outbound].sender;
        let buffered = self.connections[inbound].receiver.unread()
            + sender.written().saturating_sub(sender.snd_una());
        let write_times = &mut self.flows[flow].write_times;
        self.connections[outbound].with_sender(&mut self.net, write_times, |s, _, _| s.hold());
        buffered + 2 * SOCKET_BYTES
    }

    fn end_handover(&mut self, i: usize) {
        let h = &mut self.handovers[i];
        h.in_transfer = false;
        self.net.scheduler.clear(h.source);
        let (node, states, held_frames) =
            (h.config.node, std::mem::take(&mut h.states), std::mem::take(&mut h.held_frames));
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
        for handle in held_frames {
            let segment = *self.net.pool.get(handle);
            self.receive_at_node(node, handle, &segment);
        }
    }
}
