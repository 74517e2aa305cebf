//! Split connections: a relay between two simulated TCP connections.

use lasthop::leg::{Capabilities, LegEvent, Relay, Side, SplitConnection};
use lasthop::segment::NodeId;
use lasthop::units::{Duration, Time};

use crate::engine::scheduler::Source;
use crate::events::Observer;
use crate::hosts::endpoint::{Connection, WriteTimes};
use crate::network::Net;
use crate::probes::limits::Offer;

/// A relay and the two connections that it joins.
pub struct RelayHost {
    /// The relay algorithm.
    pub relay: Box<dyn Relay>,
    /// Label of its scheme.
    pub label: String,
    /// Node of the relay.
    pub node: NodeId,
    /// Connection on which data arrive.
    pub inbound: u32,
    /// Connection on which data leave.
    pub outbound: u32,
    /// Size of its buffer, bytes; `u64::MAX` if it is unlimited.
    pub buffer: u64,
    /// Event source of its timer.
    pub source: Source,
}

/// Capabilities of simulated connections: all.
pub const CAPABILITIES: Capabilities =
    Capabilities { window: true, receive_window: true, acknowledge: true, hold: true };

/// The two connections as a relay sees them.
pub struct SimSplitConnection<'a, R> {
    /// Connection on which data arrive.
    pub inbound: &'a mut Connection,
    /// Connection on which data leave.
    pub outbound: &'a mut Connection,
    /// Links, routes, agents and the clock.
    pub net: &'a mut Net<R>,
    /// The flow's write times; a relay adds none.
    pub write_times: &'a mut WriteTimes,
    /// Size of the relay's buffer, bytes.
    pub buffer: u64,
    /// Event source of the relay's timer.
    pub source: Source,
}

impl<R: Observer> SimSplitConnection<'_, R> {
    /// Passes an event to the relay, which may act on the connections.
    pub fn notify(&mut self, relay: &mut dyn Relay, event: LegEvent) {
        let now = self.net.now;
        relay.on_event(now, event, self);
    }

    /// Classifies the window offered to the server, which has changed.
    fn offered(&mut self) {
        let left = self.buffer.saturating_sub(self.readable() + self.unacknowledged());
        let offer = match self.inbound.receiver.window_limit() {
            Some(limit) if limit > self.inbound.receiver.buffer() => Offer::Own,
            Some(limit) if limit >= left => Offer::Buffer,
            _ => Offer::Steered,
        };
        self.net.limits[self.inbound.flow as usize].offer(self.net.now, offer);
    }
}

impl<R: Observer> SplitConnection for SimSplitConnection<'_, R> {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn readable(&self) -> u64 {
        self.inbound.receiver.unread()
    }

    fn unacknowledged(&self) -> u64 {
        self.outbound.sender.written()
            - self.outbound.sender.snd_una().min(self.outbound.sender.written())
    }

    fn in_flight(&self) -> u64 {
        self.outbound.sender.flight()
    }

    fn segment(&self) -> (u32, u32) {
        (self.outbound.mss, self.outbound.sender.full_size())
    }

    fn round_trip(&self, side: Side) -> Option<Duration> {
        match side {
            Side::Inbound => self.inbound.min_rtt,
            Side::Outbound => self.outbound.min_rtt,
        }
    }

    fn transfer(&mut self, bytes: u64) -> u64 {
        let n = bytes.min(self.readable());
        if n > 0 {
            let mss = self.inbound.mss;
            self.inbound.with_receiver(self.net, |r, now, port| r.read(now, n, mss, port));
            self.outbound
                .with_sender(self.net, self.write_times, |s, now, port| s.write(now, n, port));
        }
        n
    }

    fn set_receive_window(&mut self, bytes: u64) {
        let mss = self.inbound.mss;
        self.inbound
            .with_receiver(self.net, |r, now, port| r.set_window_limit(now, bytes, mss, port));
        self.offered();
    }

    fn acknowledge_up_to(&mut self, offset: u64) {
        self.inbound.with_receiver(self.net, |r, now, port| r.acknowledge_up_to(now, offset, port));
    }

    fn close_window(&mut self, offset: u64) {
        self.inbound.with_receiver(self.net, |r, now, port| r.close_window(now, offset, port));
        self.offered();
    }

    fn open_window(&mut self, offset: u64) {
        self.inbound.with_receiver(self.net, |r, now, port| r.open_window(now, offset, port));
        self.offered();
    }

    fn wake(&mut self, at: Time) {
        self.net.scheduler.set(self.source, at.max(self.net.now).0, self.net.now.0);
    }

    fn set_window(&mut self, bytes: u64) {
        self.outbound
            .with_sender(self.net, self.write_times, |s, now, port| s.set_window(now, bytes, port));
    }

    fn hold(&mut self) {
        self.outbound.with_sender(self.net, self.write_times, |s, _, _| s.hold());
    }

    fn resume(&mut self, lost: u64) {
        self.outbound
            .with_sender(self.net, self.write_times, |s, now, port| s.resume(now, lost, port));
    }

    fn half_close(&mut self) {
        self.outbound.with_sender(self.net, self.write_times, |s, now, port| s.close(now, port));
    }

    fn reset(&mut self, side: Side) {
        match side {
            Side::Inbound => self.inbound.with_receiver(self.net, |r, _, port| r.reset(port)),
            Side::Outbound => {
                self.outbound
                    .with_sender(self.net, self.write_times, |s, now, port| s.reset(now, port))
            }
        }
    }
}
