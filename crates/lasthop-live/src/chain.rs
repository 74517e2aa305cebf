//! The links and agents between two ends, as a state machine: packets go in, packets come out. No
//! I/O and no clock, so that the same chain runs on real packets and on a virtual clock.
//!
//! ```text
//! server end ──► link ──► node (agent) ──► link ──► mobile end
//!            ◄── link ◄──              ◄── link ◄──
//! ```
//!
//! An event that is due at t is processed as at t even if the host's clock is later: a host that is
//! late delivers late, but the queues of the links are as if it had been on time.

mod build;
mod frames;
mod hop;
mod node;
mod oracle;
mod packet;
mod view;

use std::collections::BTreeMap;

use lasthop::agent::{LinkChange, LinkEvent, Subscriptions};
use lasthop::link::drive::{Details, Event, EventKind};
use lasthop::scenario::network::Network;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, Flags, Handle, Options, Segment};
use lasthop::units::{Duration, Time};
use lasthop_wire::path_mtu::{TooLarge, clamp_mss, too_large};
use lasthop_wire::{
    Encapsulation, HIGH_DROP_PRECEDENCE, NotTcp, mark_congestion_experienced, parse,
};

use crate::flows::{Flows, Seen};
use crate::stand::{Sent, Stand};
use crate::summary::count;
use build::Parts;
use frames::{Frame, Frames};
use hop::{Hop, RelayNode, Station};
use oracle::Oracle;

pub use build::{ChainError, draw_by_frame};
pub use hop::HopCounters;
pub use packet::{Bytes, End, Packet, Release, Told};

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Hop(usize),
    Timer(usize),
    StateChange(usize),
    Relay,
    Oracle,
}

/// Links and agents between two ends.
pub struct Chain {
    hops: Vec<Hop>,
    stations: Vec<Station>,
    /// Position of the mobile; the server has position 0.
    last: usize,
    relay: Option<RelayNode>,
    oracle: Option<Oracle>,
    /// The smallest MTU of the links, bytes.
    mtu: Option<u32>,
    /// The connections; if there is a relay, those between it and the mobile.
    flows: Flows,
    /// The connections between the server and the relay.
    before_relay: Flows,
    frames: Frames,
    /// Notices that have arrived at an end.
    notices: Vec<(End, Told)>,
    now: Time,
    packets: u64,
    first_connection: Option<Time>,
    untouched: BTreeMap<&'static str, u64>,
    sent: Vec<Sent<Packet>>,
}

impl Chain {
    /// The links between the ends of the scenario's flows, and the agents of `scheme` on them. All
    /// random draws follow from `seed`, as in the simulator: the n-th frame on a link meets the
    /// same loss.
    ///
    /// # Errors
    ///
    /// [`ChainError`] if the scenario has parts that only exist in simulation (cells, relays,
    /// handovers, bit errors of connections), or the scheme has no agent between the ends.
    pub fn new(
        network: &Network,
        scheme: Option<&SchemeChoice>,
        seed: u64,
    ) -> Result<Chain, ChainError> {
        let Parts { hops, stations, last, relay, oracle } = Parts::new(network, scheme, seed)?;
        Ok(Chain {
            mtu: hops.iter().filter_map(|hop| hop.mtu).min(),
            hops,
            stations,
            last,
            relay,
            oracle,
            flows: Flows::default(),
            before_relay: Flows::default(),
            frames: Frames::default(),
            notices: Vec::new(),
            now: Time::ZERO,
            packets: 0,
            first_connection: None,
            untouched: BTreeMap::new(),
            sent: Vec::new(),
        })
    }

    /// A packet enters at `end`. All earlier calls have had earlier or equal times; what leaves the
    /// chain before `now` goes to `out`.
    pub fn packet(&mut self, now: Time, end: End, bytes: &[u8], out: &mut Vec<Release>) {
        self.step(now, out);
        // A clock that steps back must not reorder events.
        let now = now.max(self.now);
        self.now = now;
        self.packets += 1;
        let direction = end.sends();
        let clamped = self.mtu.and_then(|mtu| clamp_mss(bytes, mtu));
        let node = match end {
            End::Server => 0,
            End::Mobile => self.last,
        };
        let frame = self.read(now, (node, direction), clamped.as_deref().unwrap_or(bytes));
        if self.first_connection.is_none() && self.flows.seen() + self.before_relay.seen() > 0 {
            self.first_connection = Some(now);
        }
        match end {
            End::Server => self.forward((now, now), node, direction, frame, out),
            End::Mobile => self.arrive((now, now), node, frame, out),
        }
    }

    /// Processes all events up to `now` in their order. Packets that leave the chain are appended
    /// to `out`.
    pub fn step(&mut self, now: Time, out: &mut Vec<Release>) {
        while self.step_once(now, out) {}
    }

    /// Processes the next event, if it is due at `now` or before.
    pub fn step_once(&mut self, now: Time, out: &mut Vec<Release>) -> bool {
        let Some((at, source)) = self.next_source().filter(|s| s.0 <= now) else { return false };
        self.now = self.now.max(at);
        match source {
            Source::Hop(h) => {
                let event = self.hops.get_mut(h).and_then(|hop| hop.drive.step(at));
                if let Some(event) = event {
                    self.link_event(h, event, out);
                }
            }
            Source::Timer(s) => self.at_station(s, (at, at), out, |stand, view, sent| {
                stand.run_timer(at, view, sent);
            }),
            Source::StateChange(s) => self.state_changed(s, at, out),
            Source::Relay => self.relay_timer(at, out),
            Source::Oracle => self.ask_oracle(at),
        }
        true
    }

    /// Time of the next event; `NEVER` if there is none.
    pub fn next(&self) -> Time {
        self.next_source().map_or(Time::NEVER, |(at, _)| at)
    }

    /// Packets that entered.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Packets in the chain, those that agents keep excluded.
    pub fn in_flight(&self) -> usize {
        self.frames.len()
    }

    /// Packets that agents were not shown, by reason: other protocols, fragments, malformed
    /// headers.
    pub fn untouched(&self) -> &BTreeMap<&'static str, u64> {
        &self.untouched
    }

    /// TCP connections seen.
    pub fn connections(&self) -> u64 {
        self.flows.seen()
    }

    /// When the first packet of a TCP connection entered.
    pub fn first_connection(&self) -> Option<Time> {
        self.first_connection
    }

    /// The agents on the path, from the server to the mobile.
    pub fn agents(&self) -> impl Iterator<Item = &Stand<Packet>> {
        self.stations.iter().map(|s| &s.stand)
    }

    /// Counters of each link.
    pub fn hops(&self) -> impl Iterator<Item = HopCounters> {
        self.hops.iter().map(Hop::counters)
    }

    /// The smaller of the delays of both directions, without queueing and serialisation.
    pub fn one_way_delay(&self) -> Duration {
        let of = |direction| {
            let hops = self.hops.iter().filter(|h| h.direction == direction);
            hops.map(|h| h.drive.link().mean_delay(Time::ZERO)).fold(Duration::ZERO, |a, b| a + b)
        };
        of(Direction::Downlink).min(of(Direction::Uplink))
    }

    /// Packets that wait at the links of this direction.
    pub fn queued(&mut self, direction: Direction) -> u64 {
        let now = self.now;
        let hops = self.hops.iter_mut().filter(|h| h.direction == direction);
        hops.map(|h| h.drive.queue(now, now).0).sum()
    }

    /// What comes next, in the order of the simulator: time, trigger time, then departures, losses
    /// and arrivals of the links, then agents.
    fn next_source(&self) -> Option<(Time, Source)> {
        let mut next = None;
        let mut consider = |key: (Time, Time, u8), source| {
            if key.0 < Time::NEVER && next.is_none_or(|(first, _)| key < first) {
                next = Some((key, source));
            }
        };
        for (h, hop) in self.hops.iter().enumerate() {
            if let Some(key) = hop.drive.next_key() {
                consider(key, Source::Hop(h));
            }
        }
        for (s, station) in self.stations.iter().enumerate() {
            let (at, set) = station.stand.next_timer();
            consider((at, set, 3), Source::Timer(s));
            consider((self.next_change(station), self.now, 4), Source::StateChange(s));
        }
        let relay = self.relay.as_ref().map_or(Time::NEVER, |relay| relay.split.next());
        consider((relay, self.now, 5), Source::Relay);
        let oracle = self.oracle.as_ref().map_or(Time::NEVER, Oracle::next);
        consider((oracle, self.now, 6), Source::Oracle);
        next.map(|((at, ..), source)| (at, source))
    }

    /// Parses a packet that leaves a node in a direction.
    fn read(&mut self, now: Time, (node, direction): (usize, Direction), bytes: &[u8]) -> Frame {
        match self.read_tcp(now, (node, direction), bytes) {
            Ok((segment, options)) => Frame {
                bytes: bytes.into(),
                entered: now,
                segment,
                options,
                direction,
                tracked: true,
                notice: None,
            },
            Err(reason) => {
                count(&mut self.untouched, reason);
                self.untracked(now, direction, bytes)
            }
        }
    }

    /// A packet that agents are not shown.
    fn untracked(&self, entered: Time, direction: Direction, bytes: &[u8]) -> Frame {
        let size = bytes.len() as u32;
        let segment = Segment {
            id: self.packets,
            size,
            len: size.saturating_sub(28),
            flags: Flags::DATAGRAM,
            attempt: 1,
            forward: direction == Direction::Downlink,
            ..Segment::default()
        };
        let (bytes, options) = (bytes.into(), Options::NONE);
        Frame { bytes, entered, segment, options, direction, tracked: false, notice: None }
    }

    fn read_tcp(
        &mut self,
        now: Time,
        (node, direction): (usize, Direction),
        bytes: &[u8],
    ) -> Result<(Segment, Options), &'static str> {
        let tcp = parse(bytes).map_err(NotTcp::reason)?;
        let seen = Seen {
            number: self.packets,
            time: now,
            direction,
            interface: 0,
            prefix: &[],
            encapsulation: &Encapsulation::NONE,
        };
        let flows = match self.is_before_relay(node, direction) {
            true => &mut self.before_relay,
            false => &mut self.flows,
        };
        let mut segment =
            flows.segment(&seen, &tcp).map_err(|_| "larger than a segment of its connection")?;
        let mss = flows.mss(segment.flow, direction);
        let (present, options) = tcp.segment_options(segment.ack, mss);
        segment.flags = segment.flags.with(present).with(tcp.capability());
        if tcp.addressing.traffic_class & !3 == HIGH_DROP_PRECEDENCE {
            segment.flags = segment.flags.with(Flags::LOW_PRIORITY);
        }
        Ok((segment, options))
    }

    /// Sends a frame from a node over its next link, or releases it at the end.
    fn forward(
        &mut self,
        key: (Time, Time),
        node: usize,
        direction: Direction,
        frame: Frame,
        out: &mut Vec<Release>,
    ) {
        let (at, triggered_at) = key;
        let mut hops = self.hops.iter_mut().enumerate();
        let hop = hops.find(|(_, h)| h.from == node && h.direction == direction);
        let Some((h, hop)) = hop else {
            let Frame { bytes, entered, notice, .. } = frame;
            if let Some(told) = notice {
                return self.notices.push((End::of(direction), told));
            }
            out.push(Release { due: at, entered, end: End::of(direction), bytes });
            return;
        };
        if let Some(mtu) = hop.mtu.filter(|&mtu| frame.bytes.len() > mtu as usize) {
            hop.above_mtu += 1;
            return self.too_large(key, node, &frame, mtu, out);
        }
        let segment = frame.segment;
        if let Some(oracle) = self.oracle.as_mut().filter(|o| o.direction() == direction) {
            oracle.count(at, h, &segment, frame.tracked);
        }
        let framing = hop.framing.filter(|_| frame.tracked && segment.len > 0);
        let is_ordinary = || parse(&frame.bytes).is_ok_and(|tcp| tcp.is_ordinary_ack());
        let is_known = hop.filters && frame.tracked && is_ordinary();
        let details = Details { options: is_known.then_some(frame.options), framing };
        let copy = hop.drive.duplicates_next(at).then(|| frame.clone());
        for frame in std::iter::once(frame).chain(copy) {
            let handle = self.frames.put(frame);
            hop.drive.input_with(at, triggered_at, handle, &segment, details);
        }
    }

    /// A packet is larger than the MTU of the next link: the node fragments it, or tells its sender
    /// by ICMP.
    fn too_large(
        &mut self,
        key: (Time, Time),
        node: usize,
        frame: &Frame,
        mtu: u32,
        out: &mut Vec<Release>,
    ) {
        let (packets, direction, entered) = match too_large(&frame.bytes, mtu) {
            TooLarge::Fragments(parts) => (parts, frame.direction, frame.entered),
            TooLarge::Error(error) => (vec![error], frame.direction.reverse(), key.0),
            TooLarge::Dropped => return,
        };
        for bytes in packets {
            let packet = self.untracked(entered, direction, &bytes);
            self.forward(key, node, direction, packet, out);
        }
    }

    /// A link reports an event of a frame.
    fn link_event(&mut self, h: usize, event: Event, out: &mut Vec<Release>) {
        let Some(hop) = self.hops.get_mut(h) else { return };
        let (from, to, receiver) = (hop.from, hop.to, hop.receiver);
        let key = (event.at, event.triggered_at);
        match event.kind {
            EventKind::Arrived => {
                let bit_error = hop.drive.corrupts_next(event.at);
                if let Some(mut frame) = self.frames.take(event.handle) {
                    if let Some(place) = bit_error {
                        frame.flip_bit(place);
                    }
                    self.arrive(key, to, frame, out);
                }
            }
            EventKind::Marked(_) => {
                if let Some(frame) = self.frames.get_mut(event.handle) {
                    frame.segment.flags = frame.segment.flags.with(Flags::CE);
                    let mut bytes = frame.bytes.to_vec();
                    mark_congestion_experienced(&mut bytes);
                    frame.bytes = bytes.into();
                }
            }
            EventKind::Lost => {
                self.tell(from, key, event.handle, LinkEvent::Discarded, out);
                let damaged = Subscriptions::DAMAGED.with(Subscriptions::INCOMPLETE);
                self.frames.end(event.handle, event.at, receiver.any(damaged));
            }
            EventKind::Refused(_) => {
                self.tell(from, key, event.handle, LinkEvent::Refused, out);
                self.frames.end(event.handle, event.at, false);
            }
            EventKind::Filtered => self.frames.end(event.handle, event.at, false),
            EventKind::Told(told) => self.tell(from, key, event.handle, told, out),
            EventKind::ToldReceiver(told) => self.tell(to, key, event.handle, told, out),
        }
    }

    /// Passes a link event to the agent at a node, if it subscribes to it.
    fn tell(
        &mut self,
        node: usize,
        key: (Time, Time),
        handle: Handle,
        event: LinkEvent,
        out: &mut Vec<Release>,
    ) {
        let subscribes =
            |s: &Station| s.node == node && s.stand.subscriptions().any(event.subscription());
        let Some(s) = self.stations.iter().position(subscribes) else { return };
        let Some(frame) = self.frames.get_mut(handle).filter(|f| f.tracked) else { return };
        let (direction, segment) = (frame.direction, frame.segment);
        self.at_station(s, key, out, |stand, view, sent| {
            stand.on_link_event(key.0, view, (direction, event, &segment), sent);
        });
    }

    /// When the state of a link of an agent that subscribes to changes may change next.
    fn next_change(&self, station: &Station) -> Time {
        if station.reported.is_none() {
            return Time::NEVER;
        }
        let hops = [station.down, station.up].into_iter().filter_map(|h| self.hops.get(h));
        hops.filter_map(|h| h.drive.link().next_change(self.now)).min().unwrap_or(Time::NEVER)
    }

    /// Reports changes of state and rate of the links at an agent's node, for each connection.
    fn state_changed(&mut self, s: usize, at: Time, out: &mut Vec<Release>) {
        let Some(station) = self.stations.get(s) else { return };
        let hops = [(station.down, Direction::Downlink), (station.up, Direction::Uplink)];
        let before = station.reported.unwrap_or_default();
        let mut reported = before;
        let mut changes = Vec::new();
        for ((hop, direction), (was, state)) in
            hops.into_iter().zip(before.iter().zip(&mut reported))
        {
            let Some(link) = self.hops.get(hop).map(|h| h.drive.link()) else { continue };
            *state = (link.rate(at), link.is_down(at));
            if state.1 != was.1 {
                changes.push((direction, if state.1 { LinkChange::Down } else { LinkChange::Up }));
            }
            if let Some(rate) = state.0.filter(|r| r.0 > 0 && state.0 != was.0) {
                changes.push((direction, LinkChange::Rate(rate)));
            }
        }
        if let Some(station) = self.stations.get_mut(s) {
            station.reported = Some(reported);
        }
        for flow in self.flows.ids() {
            for &(direction, change) in &changes {
                self.at_station(s, (at, at), out, |stand, view, sent| {
                    stand.on_link_change(at, view, (flow, direction, change), sent);
                });
            }
        }
    }
}
