//! The connections of a node, and the copying between their two ends.

use std::collections::HashMap;
use std::hash::RandomState;

use lasthop::segment::{Flags, Notice};
use lasthop::units::Time;
use lasthop_endpoint::{
    ConnectionId, End, Endpoint, Host, Listening, Original, Settings, TcpState,
};
use lasthop_wire::tuple_hash::TupleHash;
use lasthop_wire::{TcpPacket, has_valid_checksum, icmp_error, parse};

use super::relays::Relays;
use super::side::{Side, mirrored};

/// Connections that wait for the other side to accept; further SYNs are dropped.
const OPENING: usize = 4096;
/// Bytes that are copied at a time.
const BLOCK: usize = 64 << 10;

/// The two ends of each connection at a node, and what joins them. No I/O and no clock.
#[allow(
    clippy::field_scoped_visibility_modifiers,
    reason = "the relays of connections are a file apart"
)]
pub struct Split {
    pub(super) server: Host,
    pub(super) mobile: Host,
    /// The SYNs that wait for the other side to accept, by side and connection.
    opening: HashMap<(Side, ConnectionId), Vec<u8>, TupleHash>,
    pub(super) relays: Option<Relays>,
    pub(super) block: Vec<u8>,
    connections: u64,
}

impl Split {
    /// A node whose ends towards the server and towards the mobile have these settings.
    pub fn new(server: Settings, mobile: Settings) -> Split {
        let host = |settings| Host::new(settings, Listening::Everywhere, RandomState::new());
        Split {
            server: host(server),
            mobile: host(mobile),
            opening: HashMap::default(),
            relays: None,
            block: vec![0; BLOCK],
            connections: 0,
        }
    }

    /// The same with a relay for each connection.
    pub fn with_relays(self, relays: Relays) -> Split {
        Split { relays: Some(relays), ..self }
    }

    /// Its relays, if it has some.
    pub fn relays(&self) -> Option<&Relays> {
        self.relays.as_ref()
    }

    /// Connections that both sides have accepted.
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// The next packet that leaves on this side.
    pub fn outgoing(&mut self, side: Side) -> Option<Vec<u8>> {
        self.host(side).outgoing()
    }

    /// When [`timer`](Split::timer) is to be called; `NEVER` if no timer runs.
    pub fn next(&self) -> Time {
        let relays = self.relays.as_ref().map_or(Time::NEVER, Relays::next);
        self.server.next().min(self.mobile.next()).min(relays)
    }

    /// The time of [`next`](Split::next) has come.
    pub fn timer(&mut self, now: Time) {
        self.server.timer(now);
        self.mobile.timer(now);
        while let Some(id) = self.relays.as_mut().and_then(|relays| relays.due(now)) {
            self.relay_timer(now, id);
        }
        self.settle(now);
    }

    /// A packet has come on one side; false if it is none of TCP, and passes.
    pub fn packet(&mut self, now: Time, side: Side, packet: &[u8]) -> bool {
        let Ok(tcp) = parse(packet) else {
            let is_error = icmp_error(packet).is_some();
            if is_error {
                self.host(side).packet(now, packet);
                self.settle(now);
            }
            return is_error;
        };
        if is_whole(&tcp) && has_valid_checksum(packet) {
            self.checked_packet(now, side, &tcp, packet);
        }
        true
    }

    /// A TCP packet has come on one side, whole and with a checksum that is known to be right.
    pub fn checked_packet(&mut self, now: Time, side: Side, tcp: &TcpPacket<'_>, packet: &[u8]) {
        let id = ConnectionId { local: tcp.addressing.destination, remote: tcp.addressing.source };
        let flags = tcp.flags();
        let asks = flags.has(Flags::SYN) && !flags.any(Flags::ACK.with(Flags::RST));
        let known = self.host(side).get(id).is_some_and(|c| c.state() != TcpState::TimeWait);
        if asks && !known {
            self.open(now, side, (id, tcp), packet);
        } else {
            self.host(side).checked_packet(now, tcp);
            if flags.has(Flags::ACK) {
                self.relay_acknowledged(now, side, id);
            }
        }
        self.settle(now);
    }

    /// True if a packet with these addresses is of a connection of this side.
    pub fn has(&self, side: Side, id: ConnectionId) -> bool {
        let host = if side == Side::Server { &self.server } else { &self.mobile };
        self.opening.contains_key(&(side, id)) || host.get(id).is_some()
    }

    /// Connections that are not forgotten, and those that are being opened.
    pub fn len(&self) -> usize {
        self.server.len().max(self.mobile.len())
    }

    /// No further connection can be opened until others have been accepted.
    pub fn is_opening_full(&self) -> bool {
        self.opening.len() >= OPENING
    }

    /// The connections to the mobile, as its side sees them, with their bytes in flight.
    pub fn flights(&self) -> impl Iterator<Item = (ConnectionId, u64)> {
        self.mobile.all().map(|(id, endpoint)| (id, endpoint.in_flight()))
    }

    /// The ends of all connections: towards the mobile, and towards the server if that exists.
    pub fn ends(&self) -> impl Iterator<Item = (ConnectionId, &Endpoint, Option<&Endpoint>)> {
        self.mobile.all().map(|(id, end)| (id, end, self.server.get(mirrored(id))))
    }

    /// There is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Resets all connections; how many were open towards the mobile.
    pub fn abort(&mut self, now: Time) -> u64 {
        let is_open = |c: &Endpoint| !matches!(c.state(), TcpState::TimeWait | TcpState::Closed);
        let open = self.mobile.all().filter(|(_, c)| is_open(c)).count() as u64;
        for side in [Side::Server, Side::Mobile] {
            let all: Vec<ConnectionId> = self.host(side).all().map(|(id, _)| id).collect();
            for id in all {
                self.host(side).with(id, |c| c.abort(now));
            }
        }
        self.settle(now);
        open
    }

    /// A notice about a connection has arrived for its end on this side: the endpoint, and the
    /// relay of which it is the outbound one.
    pub fn notice(&mut self, now: Time, side: Side, id: ConnectionId, notice: &Notice) {
        self.host(side).with(id, |endpoint| endpoint.notice(now, notice));
        self.relay_notice(now, side, id, notice);
        self.settle(now);
    }

    fn host(&mut self, side: Side) -> &mut Host {
        match side {
            Side::Server => &mut self.server,
            Side::Mobile => &mut self.mobile,
        }
    }

    /// A SYN asks for a connection, which is opened on the other side first.
    fn open(
        &mut self,
        now: Time,
        side: Side,
        (id, tcp): (ConnectionId, &TcpPacket<'_>),
        syn: &[u8],
    ) {
        let key = (side, id);
        if self.opening.contains_key(&key) || self.opening.len() >= OPENING {
            return;
        }
        let beyond = mirrored(id);
        // The rest of an earlier connection with these addresses.
        if self.host(side.other()).get(beyond).is_some_and(|c| c.state() == TcpState::TimeWait) {
            self.host(side.other()).with(beyond, |c| c.abort(now));
            self.host(side.other()).release(now, beyond);
        }
        // If the rest of an earlier connection is in the way, the peer tries again.
        let original = Some(Original::of(tcp));
        if self.host(side.other()).connect_as(now, beyond, original).is_some() {
            self.opening.insert(key, syn.to_vec());
        }
    }

    /// Copies what connections can take, until nothing changes any more.
    fn settle(&mut self, now: Time) {
        loop {
            let server = self.server.changed().map(|id| (Side::Server, id));
            let Some((side, id)) =
                server.or_else(|| self.mobile.changed().map(|id| (Side::Mobile, id)))
            else {
                break;
            };
            self.on_change(now, side, id);
        }
        while self.server.accept().is_some() || self.mobile.accept().is_some() {}
    }

    fn on_change(&mut self, now: Time, side: Side, id: ConnectionId) {
        let beyond = mirrored(id);
        // A connection that was opened because the other side has asked for it.
        let key = (side.other(), beyond);
        if self.opening.contains_key(&key) {
            let state = self.host(side).get(id).map(Endpoint::state);
            match state {
                Some(TcpState::SynSent | TcpState::SynReceived) => return,
                Some(TcpState::Closed) | None => {
                    let Some(syn) = self.opening.remove(&key) else { return };
                    self.host(side).release(now, id);
                    self.host(side.other()).refuse(&syn);
                    return;
                }
                Some(_) => {
                    let Some(syn) = self.opening.remove(&key) else { return };
                    self.connections += 1;
                    let answer = self.host(side).get(id).and_then(Endpoint::peer);
                    if let Ok(syn) = parse(&syn) {
                        self.host(side.other()).accept_as(now, &syn, answer);
                    }
                    self.begin_relay(now, side, id);
                }
            }
        }
        self.pass_on(now, side, id);
        self.pass_on(now, side.other(), beyond);
        self.end(now, side, id);
        self.end(now, side.other(), beyond);
        self.drop_unaccepted(now, side, id);
        self.drop_unaccepted(now, side.other(), beyond);
        self.end_relay(side, id);
    }

    /// What has arrived on one side goes to the other: by the relay, if that is its direction.
    fn pass_on(&mut self, now: Time, from: Side, id: ConnectionId) {
        if !self.relay_arrived(now, from, id) {
            self.copy(now, from, id);
        }
    }

    /// Moves what has arrived on one side to the other, and passes the end of the data on.
    fn copy(&mut self, now: Time, from: Side, id: ConnectionId) {
        let (to, beyond) = (from.other(), mirrored(id));
        let mut block = std::mem::take(&mut self.block);
        loop {
            let readable = self.host(from).get(id).map_or(0, Endpoint::readable);
            let writable = self.host(to).get(beyond).map_or(0, Endpoint::writable);
            let count = readable.min(writable).min(block.len());
            let Some(part) = block.get_mut(..count).filter(|part| !part.is_empty()) else { break };
            self.host(from).with(id, |c| c.read(now, part));
            self.host(to).with(beyond, |c| c.write(now, part));
        }
        self.block = block;
        if self.host(from).get(id).is_some_and(Endpoint::is_at_end)
            && self.host(to).get(beyond).is_some_and(|c| !c.is_closing())
        {
            self.host(to).with(beyond, |c| c.close(now));
        }
    }

    /// Passes a reset on, and forgets what has ended.
    fn end(&mut self, now: Time, side: Side, id: ConnectionId) {
        let Some(endpoint) = self.host(side).get(id) else { return };
        let (end, unread) = (endpoint.end(), endpoint.readable());
        match end {
            None => {}
            Some(End::Closed) if unread > 0 => {}
            Some(End::Closed) => self.host(side).release(now, id),
            Some(_) => {
                self.relay_reset(now, side, id);
                let (other, beyond) = (side.other(), mirrored(id));
                self.host(other).with(beyond, |c| c.abort(now));
                self.host(other).release(now, beyond);
                self.host(side).release(now, id);
            }
        }
    }

    /// Resets a connection that was opened for one which does not exist: the program that asked for
    /// it has gone meanwhile, or too many wait to be accepted. What ends otherwise has closed or
    /// reset the other side before it is forgotten.
    fn drop_unaccepted(&mut self, now: Time, side: Side, id: ConnectionId) {
        let (other, beyond) = (side.other(), mirrored(id));
        let is_asked_for =
            self.opening.contains_key(&(other, beyond)) || self.opening.contains_key(&(side, id));
        let is_open = self.host(side).get(id).is_some_and(|c| !c.is_closing());
        if is_open && !is_asked_for && self.host(other).get(beyond).is_none() {
            self.host(side).with(id, |c| c.abort(now));
            self.host(side).release(now, id);
        }
    }
}

/// All of its payload was captured.
fn is_whole(tcp: &TcpPacket<'_>) -> bool {
    tcp.payload.len() == tcp.payload_len as usize
}
