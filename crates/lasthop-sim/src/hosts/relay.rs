//! Split connections: a relay between two simulated TCP connections.

use lasthop::leg::{Capabilities, LegEvent, Relay, Side, SplitConnection};
use lasthop::segment::NodeId;
use lasthop::units::{Duration, Time};

use crate::engine::scheduler::Source;
use crate::events::probe::{Offer, Probe};
use crate::hosts::endpoint::Connection;
use crate::hosts::outbox::Outbox;

/// A relay and the two connections that it joins.
pub struct RelayHost {
    /// The relay algorithm.
    relay: Box<dyn Relay>,
    /// Label of its scheme.
    label: String,
    /// Node of the relay.
    node: NodeId,
    /// Connection on which data arrive.
    inbound: u32,
    /// Connection on which data leave.
    outbound: u32,
    /// Size of its buffer, bytes; `u64::MAX` if it is unlimited.
    buffer: u64,
    /// Event source of its timer.
    source: Source,
}

/// Capabilities of simulated connections: all.
pub const CAPABILITIES: Capabilities =
    Capabilities { window: true, receive_window: true, acknowledge: true, hold: true };

impl RelayHost {
    /// A relay at `node` between the connections `inbound` and `outbound`.
    pub(crate) fn new(
        relay: Box<dyn Relay>,
        label: String,
        node: NodeId,
        (inbound, outbound): (u32, u32),
        source: Source,
    ) -> RelayHost {
        let buffer = relay.receive_window().unwrap_or(u64::MAX);
        RelayHost { relay, label, node, inbound, outbound, buffer, source }
    }

    /// Label of its scheme.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Node of the relay.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The connections on which data arrive and leave.
    pub fn connections(&self) -> (u32, u32) {
        (self.inbound, self.outbound)
    }

    /// Event source of its timer.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Counters of the relay, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.relay.counters()
    }

    /// Passes an event to the relay, which may act on its two connections.
    pub(crate) fn handle<P: Probe>(
        &mut self,
        event: LegEvent,
        [inbound, outbound]: [&mut Connection; 2],
        out: Outbox<'_, P>,
    ) {
        let now = out.now();
        let (buffer, source) = (self.buffer, self.source);
        let mut split = SimSplitConnection { inbound, outbound, out, buffer, source };
        self.relay.on_event(now, event, &mut split);
    }
}

/// The two connections as a relay sees them.
struct SimSplitConnection<'a, P> {
    inbound: &'a mut Connection,
    outbound: &'a mut Connection,
    out: Outbox<'a, P>,
    /// Size of the relay's buffer, bytes.
    buffer: u64,
    /// Event source of the relay's timer.
    source: Source,
}

impl<P: Probe> SimSplitConnection<'_, P> {
    /// Classifies the window offered to the server, which has changed.
    fn offered(&mut self) {
        let left = self.buffer.saturating_sub(self.readable() + self.unacknowledged());
        let receiver = self.inbound.receiver();
        let offer = match receiver.window_limit() {
            Some(limit) if limit > receiver.buffer() => Offer::Own,
            Some(limit) if limit >= left => Offer::Buffer,
            _ => Offer::Steered,
        };
        self.out.net.probes.window_offered(self.out.now(), self.inbound.flow(), offer);
    }
}

impl<P: Probe> SplitConnection for SimSplitConnection<'_, P> {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn readable(&self) -> u64 {
        self.inbound.receiver().unread()
    }

    fn unacknowledged(&self) -> u64 {
        let sender = self.outbound.sender();
        sender.written() - sender.snd_una().min(sender.written())
    }

    fn in_flight(&self) -> u64 {
        self.outbound.sender().flight()
    }

    fn segment(&self) -> (u32, u32) {
        (self.outbound.mss(), self.outbound.sender().full_size())
    }

    fn round_trip(&self, side: Side) -> Option<Duration> {
        match side {
            Side::Inbound => self.inbound.min_rtt(),
            Side::Outbound => self.outbound.min_rtt(),
        }
    }

    fn transfer(&mut self, bytes: u64) -> u64 {
        let n = bytes.min(self.readable());
        if n > 0 {
            let mss = self.inbound.mss();
            self.inbound.with_receiver(&mut self.out, |r, now, port| r.read(now, n, mss, port));
            self.outbound.with_sender(&mut self.out, |s, now, port| s.write(now, n, port));
        }
        n
    }

    fn set_receive_window(&mut self, bytes: u64) {
        let mss = self.inbound.mss();
        self.inbound
            .with_receiver(&mut self.out, |r, now, port| r.set_window_limit(now, bytes, mss, port));
        self.offered();
    }

    fn acknowledge_up_to(&mut self, offset: u64) {
        self.inbound
            .with_receiver(&mut self.out, |r, now, port| r.acknowledge_up_to(now, offset, port));
    }

    fn close_window(&mut self, offset: u64) {
        self.inbound.with_receiver(&mut self.out, |r, now, port| r.close_window(now, offset, port));
        self.offered();
    }

    fn open_window(&mut self, offset: u64) {
        self.inbound.with_receiver(&mut self.out, |r, now, port| r.open_window(now, offset, port));
        self.offered();
    }

    fn wake(&mut self, at: Time) {
        let now = self.out.now();
        self.out.set_timer(self.source, at.max(now), now);
    }

    fn set_window(&mut self, bytes: u64) {
        self.outbound.with_sender(&mut self.out, |s, now, port| s.set_window(now, bytes, port));
    }

    fn hold(&mut self) {
        self.outbound.with_sender(&mut self.out, |s, _, _| s.hold());
    }

    fn resume(&mut self, lost: u64) {
        self.outbound.with_sender(&mut self.out, |s, now, port| s.resume(now, lost, port));
    }

    fn half_close(&mut self) {
        self.outbound.with_sender(&mut self.out, |s, now, port| s.close(now, port));
    }

    fn reset(&mut self, side: Side) {
        match side {
            Side::Inbound => {
                self.inbound.with_receiver(&mut self.out, |r, now, port| r.reset(now, port))
            }
            Side::Outbound => {
                self.outbound.with_sender(&mut self.out, |s, now, port| s.reset(now, port))
            }
        }
    }
}
