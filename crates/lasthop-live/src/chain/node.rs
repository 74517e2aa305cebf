//! What happens to a frame at a node: an agent sees it, or a relay ends its connection. And the
//! notices of agents, which the links carry as frames.

use lasthop::agent::Destination;
use lasthop::segment::{Direction, Notice, Options, Segment};
use lasthop::units::Time;
use lasthop_endpoint::ConnectionId;

use super::Chain;
use super::frames::Frame;
use super::packet::{Bytes, End, Packet, Release, Told};
use super::view::View;
use crate::split::{Relays, Side};
use crate::stand::{Sent, Shown, Stand};

#[allow(clippy::multiple_inherent_impl, reason = "links and nodes are files apart")]
impl Chain {
    /// The relay's counters, for each connection that it has had.
    pub fn relay_counters(&self) -> Option<Vec<Vec<(&'static str, u64)>>> {
        self.relay.as_ref()?.split.relays().map(Relays::counters)
    }

    /// Takes the notices that have arrived at an end.
    pub fn take_notices(&mut self) -> Vec<(End, Told)> {
        std::mem::take(&mut self.notices)
    }

    /// What leaves a node in this direction is of a connection between server and relay.
    pub(super) fn is_before_relay(&self, node: usize, direction: Direction) -> bool {
        self.relay.as_ref().is_some_and(|relay| match direction {
            Direction::Downlink => node < relay.node,
            Direction::Uplink => node <= relay.node,
        })
    }

    /// A frame arrives at a node: at an end, at a relay, at an agent, or to go on. An agent at the
    /// relay's node is on the mobile's side of it.
    pub(super) fn arrive(
        &mut self,
        key: (Time, Time),
        node: usize,
        frame: Frame,
        out: &mut Vec<Release>,
    ) {
        match frame.direction {
            Direction::Downlink => self.enter_relay(key, node, frame, out),
            Direction::Uplink => self.enter_station(key, node, frame, out),
        }
    }

    fn enter_station(
        &mut self,
        key: (Time, Time),
        node: usize,
        frame: Frame,
        out: &mut Vec<Release>,
    ) {
        let station = self.stations.iter().position(|s| s.node == node && !s.stand.is_passive());
        match station.filter(|_| frame.tracked) {
            Some(s) => {
                let Frame { bytes, entered, segment, options, direction, .. } = frame;
                let packet = Packet { bytes, entered };
                let shown = Shown { packet, direction, segment, options };
                self.at_station(s, key, out, |stand, view, sent| {
                    stand.on_segment(key.0, view, shown, sent);
                });
            }
            None => self.leave_station(key, node, frame, out),
        }
    }

    fn leave_station(
        &mut self,
        key: (Time, Time),
        node: usize,
        frame: Frame,
        out: &mut Vec<Release>,
    ) {
        match frame.direction {
            Direction::Downlink => self.forward(key, node, Direction::Downlink, frame, out),
            Direction::Uplink => self.enter_relay(key, node, frame, out),
        }
    }

    fn leave_relay(
        &mut self,
        key: (Time, Time),
        node: usize,
        frame: Frame,
        out: &mut Vec<Release>,
    ) {
        match frame.direction {
            Direction::Downlink => self.enter_station(key, node, frame, out),
            Direction::Uplink => self.forward(key, node, Direction::Uplink, frame, out),
        }
    }

    /// A connection ends at the relay; packets that are none of TCP pass. The notice of an agent
    /// between relay and mobile is for the relay's end of that connection.
    fn enter_relay(
        &mut self,
        key: (Time, Time),
        node: usize,
        frame: Frame,
        out: &mut Vec<Release>,
    ) {
        let relay = self.relay.as_mut().filter(|relay| relay.node == node);
        let Some(relay) = relay else { return self.leave_relay(key, node, frame, out) };
        let side = match frame.direction {
            Direction::Downlink => Side::Server,
            Direction::Uplink => Side::Mobile,
        };
        let is_taken = match frame.notice {
            Some(Told { connection, notice }) => {
                relay.split.notice(key.0, side, connection, &notice);
                true
            }
            None => relay.split.packet(key.0, side, &frame.bytes),
        };
        if !is_taken {
            self.leave_relay(key, node, frame, out);
        }
        self.send_from_relay(key, out);
    }

    pub(super) fn relay_timer(&mut self, at: Time, out: &mut Vec<Release>) {
        if let Some(relay) = &mut self.relay {
            relay.split.timer(at);
        }
        self.send_from_relay((at, at), out);
    }

    fn send_from_relay(&mut self, key: (Time, Time), out: &mut Vec<Release>) {
        let sides = [(Side::Mobile, Direction::Downlink), (Side::Server, Direction::Uplink)];
        for (side, direction) in sides {
            while let Some((node, bytes)) =
                self.relay.as_mut().and_then(|r| Some((r.node, r.split.outgoing(side)?)))
            {
                let frame = self.read(key.0, (node, direction), &bytes);
                self.leave_relay(key, node, frame, out);
            }
        }
    }

    /// Calls an agent and sends what it asks for.
    pub(super) fn at_station(
        &mut self,
        s: usize,
        key: (Time, Time),
        out: &mut Vec<Release>,
        call: impl FnOnce(&mut Stand<Packet>, &View<'_>, &mut Vec<Sent<Packet>>),
    ) {
        let mut all = std::mem::take(&mut self.sent);
        let Some(station) = self.stations.get_mut(s) else { return };
        let node = station.node;
        let view = View::new(&mut self.hops, (station.down, station.up), key);
        call(&mut station.stand, &view, &mut all);
        let notices = station.stand.take_notices();
        for sent in all.drain(..) {
            let (bytes, entered) = match &sent.packet {
                Some(Packet { bytes, entered }) => {
                    let changed = sent.bytes(&self.flows, bytes, 0);
                    (Some(changed.map_or_else(|| bytes.clone(), Bytes::from)), *entered)
                }
                None => {
                    let made = self.flows.frame(sent.direction, &sent.segment).ok();
                    (made.map(|(_, bytes)| bytes.into()), key.0)
                }
            };
            // A packet of a connection that is no longer known cannot be made.
            let Some(bytes) = bytes else { continue };
            let Sent { direction, segment, .. } = sent;
            let (options, tracked, notice) = (Options::NONE, true, None);
            let frame = Frame { bytes, entered, segment, options, direction, tracked, notice };
            self.leave_station(key, node, frame, out);
        }
        self.sent = all;
        for (notice, to) in notices {
            self.notify(key, node, &notice, to, out);
        }
    }

    /// The oracle's notices reach the sender at once.
    pub(super) fn ask_oracle(&mut self, at: Time) {
        let Some(oracle) = &mut self.oracle else { return };
        let end = End::of(oracle.direction().reverse());
        for notice in oracle.notices(at, &self.hops) {
            let Some((mobile, server)) = self.flows.ends(notice.flow) else { continue };
            let (local, remote) = match end {
                End::Server => (server, mobile),
                End::Mobile => (mobile, server),
            };
            let connection = ConnectionId { local, remote };
            self.notices.push((end, Told { connection, notice }));
        }
    }

    /// Sends the notice of an agent. Its data are those towards the mobile.
    fn notify(
        &mut self,
        key: (Time, Time),
        node: usize,
        notice: &Notice,
        to: Destination,
        out: &mut Vec<Release>,
    ) {
        let Some((mobile, server)) = self.flows.ends(notice.flow) else { return };
        let direction = match to {
            Destination::Sender => Direction::Uplink,
            Destination::Receiver => Direction::Downlink,
            // No scheme of the catalogue has two agents that notify each other.
            Destination::Agent(_) => return,
        };
        // As the receiving end of the notice sees the connection.
        let connection = match direction {
            Direction::Uplink => ConnectionId { local: server, remote: mobile },
            Direction::Downlink => ConnectionId { local: mobile, remote: server },
        };
        let frame = Frame {
            bytes: [].into(),
            entered: key.0,
            segment: Segment::of_notice(notice, 0),
            options: Options::NONE,
            direction,
            tracked: false,
            notice: Some(Told { connection, notice: *notice }),
        };
        self.leave_station(key, node, frame, out);
    }
}
