//! Many connections of one host: which one a packet belongs to, which ones are accepted, and what
//! is answered when there is none.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use etherparse::TcpHeader;
use lasthop::segment::Flags;
use lasthop::units::Time;
use lasthop_wire::render::TTL;
use lasthop_wire::tuple_hash::TupleHash;
use lasthop_wire::{Addressing, TcpPacket, assemble, icmp_error};

use crate::arrival::read;
use crate::endpoint::{Endpoint, TcpState};
use crate::isn::{Secrets, initial_sequence_number};
use crate::settings::{Settings, TIMESTAMPS_BYTES};
use crate::terms::{Original, Terms, headers};

/// Connections in SYN-RECEIVED at most; further SYNs are dropped (Linux `tcp_max_syn_backlog`).
const BACKLOG: usize = 1024;

/// A connection of a host, by its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    /// Address and port of this end.
    pub local: SocketAddr,
    /// Address and port of the peer.
    pub remote: SocketAddr,
}

impl Hash for ConnectionId {
    /// In few words, which the derived way would not be.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(u32::from(self.local.port()) << 16 | u32::from(self.remote.port()));
        for end in [&self.local, &self.remote] {
            match end.ip() {
                IpAddr::V4(address) => state.write_u32(address.into()),
                IpAddr::V6(address) => state.write_u128(address.into()),
            }
        }
    }
}

/// Where a host accepts connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listening {
    /// Nowhere.
    #[default]
    Nowhere,
    /// At these addresses.
    At(HashSet<SocketAddr>),
    /// At every address: of a host that stands for others.
    Everywhere,
}

/// A connection with what the host notes of it.
struct Slot {
    endpoint: Endpoint,
    /// Its entry among the timers.
    due: Time,
    is_half_open: bool,
    /// The application does not need it any more.
    is_released: bool,
    /// It is in the list of changed connections.
    is_changed: bool,
}

/// The connections of one host, without I/O and clock.
pub struct Host<K = RandomState> {
    settings: Arc<Settings>,
    listening: Listening,
    key: K,
    connections: HashMap<ConnectionId, Slot, TupleHash>,
    timers: BTreeSet<(Time, ConnectionId)>,
    accepted: VecDeque<ConnectionId>,
    changed: VecDeque<ConnectionId>,
    half_open: usize,
    outgoing: VecDeque<Vec<u8>>,
}

impl<K: BuildHasher> Host<K> {
    /// A host whose connections have these settings, and initial sequence numbers that depend on
    /// the key.
    pub fn new(settings: Settings, listening: Listening, key: K) -> Host<K> {
        Host {
            settings: settings.into(),
            listening,
            key,
            connections: HashMap::default(),
            timers: BTreeSet::new(),
            accepted: VecDeque::new(),
            changed: VecDeque::new(),
            half_open: 0,
            outgoing: VecDeque::new(),
        }
    }

    /// Opens a connection; `None` if there is one between these addresses.
    pub fn connect(
        &mut self,
        now: Time,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnectionId> {
        self.connect_as(now, ConnectionId { local, remote }, None)
    }

    /// As [`connect`](Host::connect), for a host that stands for the one whose SYN is `original`.
    pub fn connect_as(
        &mut self,
        now: Time,
        id: ConnectionId,
        original: Option<Original>,
    ) -> Option<ConnectionId> {
        if self.connections.contains_key(&id) {
            return None;
        }
        let timestamps = Terms::offer(&self.settings, id.remote.is_ipv6()).timestamps;
        let (settings, secrets) = self.beginning(id, now, original, timestamps);
        self.insert(id, Endpoint::connect(now, settings, id.local, id.remote, secrets));
        Some(id)
    }

    /// With what a connection begins, which has timestamps or not. Segments are as large as those
    /// that it continues, whatever options these have.
    fn beginning(
        &self,
        id: ConnectionId,
        now: Time,
        original: Option<Original>,
        timestamps: bool,
    ) -> (Arc<Settings>, Secrets) {
        let mut secrets = initial_sequence_number(&self.key, id.local, id.remote, now);
        if !self.settings.hides_clock {
            secrets.timestamp_offset = 0;
        }
        let mut settings = self.settings.clone();
        if let Some(Original { isn, segment }) = original {
            secrets.isn = isn;
            let options = if timestamps { TIMESTAMPS_BYTES } else { 0 };
            let mtu = segment + options + headers(id.remote.is_ipv6());
            if mtu < settings.mtu {
                settings = Settings { mtu, ..(*settings).clone() }.into();
            }
        }
        (settings, secrets)
    }

    /// A packet has arrived: TCP, or an ICMP error about a segment.
    pub fn packet(&mut self, now: Time, packet: &[u8]) {
        if let Some(error) = icmp_error(packet) {
            let id = ConnectionId { local: error.source, remote: error.destination };
            self.with(id, |endpoint| endpoint.icmp(now, &error));
        } else if let Some(tcp) = read(packet) {
            self.checked_packet(now, &tcp);
        }
    }

    /// A TCP packet has arrived, whole and with a checksum that is known to be right.
    pub fn checked_packet(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        let id = ConnectionId { local: tcp.addressing.destination, remote: tcp.addressing.source };
        self.replace(id, tcp);
        match self.get(id).map(|endpoint| endpoint.end().is_some()) {
            Some(false) => {
                self.with(id, |endpoint| endpoint.checked_packet(now, tcp));
            }
            // The peer tries again until the application has released the old connection.
            Some(true) if tcp.flags().has(Flags::SYN) => {}
            Some(true) | None => self.on_unknown(now, id, tcp),
        }
    }

    /// A SYN asks for a connection that a host has accepted for which this one stands; `original`
    /// is its answer.
    pub fn accept_as(&mut self, now: Time, syn: &TcpPacket<'_>, original: Option<Original>) {
        let id = ConnectionId { local: syn.addressing.destination, remote: syn.addressing.source };
        self.replace(id, syn);
        if self.with(id, |endpoint| endpoint.checked_packet(now, syn)).is_some()
            || self.half_open >= BACKLOG
        {
            return;
        }
        let timestamps = Terms::offer(&self.settings, id.remote.is_ipv6()).timestamps
            && Terms::of(syn).timestamps;
        let (settings, secrets) = self.beginning(id, now, original, timestamps);
        if let Some(endpoint) = Endpoint::accept_checked(now, settings, syn, secrets) {
            self.insert(id, endpoint);
        }
    }

    /// Forgets a connection in TIME-WAIT in whose place this SYN asks for another one.
    fn replace(&mut self, id: ConnectionId, tcp: &TcpPacket<'_>) {
        if self.connections.get(&id).is_some_and(|slot| slot.endpoint.may_be_replaced(tcp)) {
            self.remove(id);
        }
    }

    /// A packet of no connection (RFC 9293, sections 3.10.7.1 and 3.10.7.2).
    fn on_unknown(&mut self, now: Time, id: ConnectionId, tcp: &TcpPacket<'_>) {
        let flags = tcp.flags();
        let is_listening = match &self.listening {
            Listening::Nowhere => false,
            Listening::At(addresses) => addresses.contains(&id.local),
            Listening::Everywhere => true,
        };
        if flags.has(Flags::RST) {
            return;
        }
        if is_listening && flags.has(Flags::SYN) && !flags.has(Flags::ACK) {
            return self.accept_as(now, tcp, None);
        }
        self.outgoing.push_back(reset_for(tcp));
    }

    /// Calls a connection; what it sends is the host's to send. `None` if there is none.
    pub fn with<T>(&mut self, id: ConnectionId, act: impl FnOnce(&mut Endpoint) -> T) -> Option<T> {
        let result = act(&mut self.connections.get_mut(&id)?.endpoint);
        self.update(id);
        Some(result)
    }

    /// A connection, to look at.
    pub fn get(&self, id: ConnectionId) -> Option<&Endpoint> {
        self.connections.get(&id).map(|slot| &slot.endpoint)
    }

    /// The next connection that a peer has opened, once it is established.
    pub fn accept(&mut self) -> Option<ConnectionId> {
        self.accepted.pop_front()
    }

    /// A connection that packets, timers or the application have changed since it was returned
    /// last; it may be gone.
    pub fn changed(&mut self) -> Option<ConnectionId> {
        let id = self.changed.pop_front()?;
        if let Some(slot) = self.connections.get_mut(&id) {
            slot.is_changed = false;
        }
        Some(id)
    }

    /// Answers a packet as if there were no connection, and nobody listened.
    pub fn refuse(&mut self, packet: &[u8]) {
        if let Some(tcp) = read(packet).filter(|tcp| !tcp.flags().has(Flags::RST)) {
            self.outgoing.push_back(reset_for(&tcp));
        }
    }

    /// The application does not need the connection any more: it is closed
    /// ([`Endpoint::release`]), and forgotten when it has ended.
    pub fn release(&mut self, now: Time, id: ConnectionId) {
        if let Some(slot) = self.connections.get_mut(&id) {
            slot.is_released = true;
        }
        self.with(id, |endpoint| endpoint.release(now));
    }

    /// The next packet to be sent.
    pub fn outgoing(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop_front()
    }

    /// When [`timer`](Host::timer) is to be called; `NEVER` if no timer runs.
    pub fn next(&self) -> Time {
        self.timers.first().map_or(Time::NEVER, |timer| timer.0)
    }

    /// The time of [`next`](Host::next) has come.
    pub fn timer(&mut self, now: Time) {
        while let Some((_, id)) = self.timers.first().copied().filter(|timer| timer.0 <= now) {
            self.with(id, |endpoint| endpoint.timer(now));
        }
    }

    /// The connections that are not forgotten, in no order.
    pub fn all(&self) -> impl Iterator<Item = (ConnectionId, &Endpoint)> {
        self.connections.iter().map(|(id, slot)| (*id, &slot.endpoint))
    }

    /// Connections that are not forgotten.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// There is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    fn insert(&mut self, id: ConnectionId, endpoint: Endpoint) {
        let is_half_open = endpoint.state() == TcpState::SynReceived;
        self.half_open += usize::from(is_half_open);
        let slot = Slot {
            endpoint,
            due: Time::NEVER,
            is_half_open,
            is_released: false,
            is_changed: false,
        };
        self.connections.insert(id, slot);
        self.update(id);
    }

    /// After each call of a connection.
    fn update(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(&id) else { return };
        while let Some(packet) = slot.endpoint.outgoing() {
            self.outgoing.push_back(packet);
        }
        if !slot.is_changed {
            slot.is_changed = true;
            self.changed.push_back(id);
        }
        let ended = slot.endpoint.end().is_some();
        let was_half_open = slot.is_half_open;
        if was_half_open && slot.endpoint.state() != TcpState::SynReceived {
            slot.is_half_open = false;
            self.half_open -= 1;
            if !ended {
                self.accepted.push_back(id);
            }
        }
        if ended && (slot.is_released || was_half_open) {
            return self.remove(id);
        }
        let due = slot.endpoint.next();
        if due != slot.due {
            self.timers.remove(&(slot.due, id));
            slot.due = due;
            if due != Time::NEVER {
                self.timers.insert((due, id));
            }
        }
    }

    fn remove(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.remove(&id) else { return };
        self.timers.remove(&(slot.due, id));
        self.half_open -= usize::from(slot.is_half_open);
        self.accepted.retain(|accepted| *accepted != id);
    }
}

/// The reset that answers a packet of no connection (RFC 9293, section 3.10.7.1).
fn reset_for(tcp: &TcpPacket<'_>) -> Vec<u8> {
    let flags = tcp.flags();
    let occupied = u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
    let mut header = TcpHeader { rst: true, ..TcpHeader::default() };
    if flags.has(Flags::ACK) {
        header.sequence_number = tcp.ack;
    } else {
        header.ack = true;
        header.acknowledgment_number = tcp.seq.wrapping_add(tcp.payload_len).wrapping_add(occupied);
    }
    let reversed = tcp.addressing.reversed();
    let addressing = Addressing { hop_limit: TTL, traffic_class: 0, flow_label: 0, ..reversed };
    assemble(&addressing, &header, &[])
}
