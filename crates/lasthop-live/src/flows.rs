//! Connection tracking for real packets: converts header fields to segments and back.
//!
//! Sequence numbers on the wire have 32 bits and start at an arbitrary ISN; segments have stream
//! offsets that start at 0. Window fields are scaled as announced in the SYNs. Packets to the agent
//! are converted to offsets and unscaled windows, packets from the agent back.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use lasthop::segment::{Direction, Flags, FlowId, Payload, Segment};
use lasthop::units::{Duration, Time};
use lasthop_wire::options::TcpOption;
use lasthop_wire::render::MAX_WINDOW_SCALE;
use lasthop_wire::tuple_hash::TupleHash;
use lasthop_wire::{Addressing, Encapsulation, Numbering, TcpPacket, assemble};
use rustc_hash::FxHashMap;
use thiserror::Error;

/// Capacity of the flow table. When it is full, the connection that was idle longest is removed.
pub const MAX_FLOWS: usize = 65_536;

/// Idle time after which a closed or reset connection is removed: Linux's TIME-WAIT.
pub const LINGER: Duration = Duration::secs(60);

/// Offset of the first byte captured of a stream whose SYN was not captured. Half the sequence
/// space, so that earlier bytes have a non-negative offset too.
const BIAS: u32 = 1 << 31;

/// Bytes of a stream that can be captured before its SYN or SYN-ACK if the capture has reordered
/// packets: the largest window without scaling. The first number of a new connection on the same
/// ports is higher than those of the old one (RFC 6191; Linux adds this window too).
const REORDERED: u32 = 1 << 16;

/// The largest IP packet, in bytes, that is accepted as one packet on the wire if the SYNs were not
/// captured: Ethernet's MTU.
const MTU: u32 = 1500;

/// The MSS if a SYN announces none (RFC 9293, section 3.7.1), bytes.
const DEFAULT_MSS: u32 = 536;

/// The largest window (RFC 7323, section 2.3), bytes.
const LARGEST_WINDOW: i64 = 1 << 30;

/// Why [`Flows::admit`] refuses packets of a connection that existed before.
pub(crate) const NO_HANDSHAKE: &str = "connection whose beginning was not seen";

/// A packet that segmentation offload (GRO, GSO, TSO) merged from several packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "packet {number} carries {payload} bytes of payload, more than {limit}: segmentation offload \
     merged several packets before the capture; repeat the capture after `ethtool -K IFACE gro \
     off gso off tso off`"
)]
pub struct SuperSegment {
    /// Number of the packet in the capture.
    pub number: u64,
    /// Payload, bytes.
    pub payload: u32,
    /// Largest payload of one segment on this connection, bytes.
    pub limit: u32,
}

/// A connection, identified by the mobile's endpoint and its peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    mobile: SocketAddr,
    other: SocketAddr,
}

impl Hash for Key {
    /// In two pieces for each endpoint; the derived way has a dozen.
    fn hash<H: Hasher>(&self, state: &mut H) {
        for side in [&self.mobile, &self.other] {
            let address = match side.ip() {
                IpAddr::V4(address) => u128::from(u32::from(address)),
                IpAddr::V6(address) => u128::from(address),
            };
            state.write_u128(address);
            state.write_u16(side.port());
        }
    }
}

/// Window scaling as announced in the SYN of one side (RFC 7323 section 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scale {
    /// The SYN was not captured.
    #[default]
    Unknown,
    /// The SYN had no window scale option.
    Without,
    /// Shift count.
    Shift(u8),
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Initial sequence number, if the SYN or the SYN-ACK that answers it was captured.
    isn: Option<u32>,
    /// True if only the SYN-ACK was.
    is_isn_from_answer: bool,
    /// Sequence number of offset 0.
    zero: Option<u32>,
    /// Highest offset seen; 32-bit numbers are unwrapped relative to it.
    highest: u64,
    scale: Scale,
    /// MSS that this side announced in its SYN, bytes.
    mss: Option<u16>,
    /// True if a FIN was seen.
    finished: bool,
    /// Headers of the last packet.
    last: Option<Headers>,
}

/// The headers of the packets in one direction.
#[derive(Clone, Debug)]
struct Headers {
    interface: usize,
    /// The bytes before the IP packet, and which headers they are.
    prefix: Vec<u8>,
    encapsulation: Encapsulation,
    addressing: Addressing,
}

impl Stream {
    /// Keeps the headers of a packet, for those that an agent makes.
    fn keep_headers(&mut self, seen: &Seen<'_>, packet: &TcpPacket<'_>) {
        match &mut self.last {
            // The common case: no new allocation.
            Some(h) if h.interface == seen.interface && h.prefix == seen.prefix => {
                h.addressing = packet.addressing
            }
            last => {
                *last = Some(Headers {
                    interface: seen.interface,
                    prefix: seen.prefix.to_vec(),
                    encapsulation: seen.encapsulation.clone(),
                    addressing: packet.addressing,
                })
            }
        }
    }

    /// Starts a new stream at a SYN with this ISN. A retransmitted SYN changes nothing; if packets
    /// were captured before their SYN, their offsets stay.
    fn open(&mut self, isn: u32) {
        if self.isn.is_none() && self.zero.is_some() && self.has_begun_at(isn.wrapping_add(1)) {
            self.isn = Some(isn);
        }
        if self.isn != Some(isn) {
            *self = Stream {
                isn: Some(isn),
                zero: Some(isn.wrapping_add(1)),
                last: self.last.take(),
                ..Stream::default()
            };
        }
        self.is_isn_from_answer = false;
    }

    /// A SYN-ACK acknowledges the SYN of this stream, which was not captured before.
    fn open_by_answer(&mut self, ack: u32) {
        if self.zero.is_none() {
            self.open(ack.wrapping_sub(1));
            self.is_isn_from_answer = true;
        }
    }

    /// True if a SYN with this ISN and `length` bytes of data (RFC 7413) can be that of the stream.
    fn can_have_syn(&self, isn: u32, length: u32) -> bool {
        match self.isn {
            Some(known) if self.is_isn_from_answer => known.wrapping_sub(isn) <= length,
            Some(known) => known == isn,
            None => self.has_begun_at(isn.wrapping_add(1)),
        }
    }

    /// True if a SYN-ACK with this acknowledgment number can answer the SYN of the stream, whose
    /// data it may acknowledge too (RFC 7413).
    fn can_have_answer(&self, ack: u32) -> bool {
        match self.isn {
            Some(isn) => ack.wrapping_sub(isn.wrapping_add(1)) < REORDERED,
            None => self.has_begun_at(ack),
        }
    }

    /// True if the first byte of the stream can have this number, judged by the packets that were
    /// captured before its SYN.
    fn has_begun_at(&self, first: u32) -> bool {
        let highest = self.zero.map(|zero| zero.wrapping_add(self.highest as u32));
        highest.is_none_or(|highest| highest.wrapping_sub(first) < REORDERED)
    }

    /// How far a sequence number is beyond the highest one seen, bytes; negative if it is below.
    fn distance(&self, number: u32) -> i64 {
        let passed = number.wrapping_sub(self.zero.unwrap_or(number));
        i64::from(passed.wrapping_sub(self.highest as u32) as i32)
    }

    /// Unwraps a sequence number: the offset nearest to the highest one seen, at least 0.
    fn offset(&mut self, number: u32) -> u64 {
        let zero = *self.zero.get_or_insert(number.wrapping_sub(BIAS));
        if self.isn.is_none() {
            self.highest = self.highest.max(u64::from(BIAS));
        }
        let distance = number.wrapping_sub(zero).wrapping_sub(self.highest as u32) as i32;
        let offset = self.highest.saturating_add_signed(i64::from(distance));
        self.highest = self.highest.max(offset);
        offset
    }
}

#[derive(Debug)]
struct Flow {
    key: Key,
    down: Stream,
    up: Stream,
    reset: bool,
    last_seen: Time,
    /// Key in the least-recently-used order.
    last_used: u64,
}

impl Flow {
    fn new(key: Key) -> Flow {
        Flow {
            key,
            down: Stream::default(),
            up: Stream::default(),
            reset: false,
            last_seen: Time::ZERO,
            last_used: 0,
        }
    }

    /// The stream in this direction and the opposite one.
    fn streams(&self, direction: Direction) -> (&Stream, &Stream) {
        match direction {
            Direction::Downlink => (&self.down, &self.up),
            Direction::Uplink => (&self.up, &self.down),
        }
    }

    fn streams_mut(&mut self, direction: Direction) -> (&mut Stream, &mut Stream) {
        match direction {
            Direction::Downlink => (&mut self.down, &mut self.up),
            Direction::Uplink => (&mut self.up, &mut self.down),
        }
    }

    fn numbering(&self, direction: Direction) -> Numbering {
        let (own, other) = self.streams(direction);
        // Scaling requires the option from both sides; a SYN that was not captured is assumed to
        // have it.
        let window_scale = match (own.scale, other.scale) {
            (Scale::Shift(_), Scale::Without) => 0,
            (Scale::Shift(shift), _) => shift.min(MAX_WINDOW_SCALE),
            _ => 0,
        };
        Numbering {
            seq_zero: own.zero.unwrap_or_default(),
            ack_zero: other.zero.unwrap_or_default(),
            window_scale,
        }
    }

    /// True if the packet can belong to this connection: it is no SYN and no SYN-ACK of another one
    /// on the same ports. The capture may have reordered the packets of the handshake.
    fn can_have(&self, direction: Direction, packet: &TcpPacket<'_>) -> bool {
        let (own, other) = self.streams(direction);
        let flags = packet.flags();
        match (flags.has(Flags::SYN), flags.has(Flags::ACK)) {
            (false, _) => true,
            (true, false) => own.can_have_syn(packet.seq, packet.payload_len),
            (true, true) => own.isn == Some(packet.seq) || other.can_have_answer(packet.ack),
        }
    }

    /// True if the connection is closed or reset and has been idle longer than [`LINGER`].
    fn is_expired(&self, now: Time) -> bool {
        (self.reset || self.down.finished && self.up.finished) && now.since(self.last_seen) > LINGER
    }
}

/// Metadata of a captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Number in the capture, from 1.
    pub number: u64,
    /// Capture time.
    pub time: Time,
    /// Downlink: towards the mobile; uplink: from the mobile.
    pub direction: Direction,
    /// Index of the output interface.
    pub interface: usize,
    /// The bytes before the innermost IP packet: the link header, and those of tunnels.
    pub prefix: &'a [u8],
    /// Which headers these bytes are.
    pub encapsulation: &'a Encapsulation,
}

/// Why a packet that an agent made has no headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFrame {
    /// No packet of the connection was seen, or it was removed.
    UnknownFlow,
    /// The connection is in a tunnel, and no packet of this direction has shown its headers.
    UnknownTunnel,
}

/// The table of connections, least recently used first out. Peers choose the keys of `ids`, so its
/// hash is keyed at random; the numbers in `flows` are ours.
#[derive(Debug)]
pub struct Flows {
    flows: FxHashMap<FlowId, Flow>,
    ids: HashMap<Key, FlowId, TupleHash>,
    /// Flows in the order of their last packet, oldest first.
    by_last_used: BTreeMap<u64, FlowId>,
    clock: u64,
    cap: usize,
    last_id: FlowId,
    evicted: u64,
}

impl Default for Flows {
    fn default() -> Self {
        Flows::new(MAX_FLOWS)
    }
}

impl Flows {
    /// A table of at most `cap` connections (at least 1).
    pub fn new(cap: usize) -> Flows {
        Flows {
            flows: FxHashMap::default(),
            ids: HashMap::default(),
            by_last_used: BTreeMap::new(),
            clock: 0,
            cap: cap.max(1),
            last_id: 0,
            evicted: 0,
        }
    }

    /// Number of connections seen, including removed ones.
    pub fn seen(&self) -> u64 {
        u64::from(self.last_id)
    }

    /// The connections in the table, in the order in which they were first seen.
    pub fn ids(&self) -> Vec<FlowId> {
        let mut ids: Vec<FlowId> = self.flows.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Number of connections in the table.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Addresses and ports of a connection: the mobile's, and its peer's.
    pub fn ends(&self, flow: FlowId) -> Option<(SocketAddr, SocketAddr)> {
        self.flows.get(&flow).map(|f| (f.key.mobile, f.key.other))
    }

    /// Number of open connections removed because the table was full.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Converts a packet to a segment of its connection. The segment's `payload` handle is not set.
    ///
    /// # Errors
    ///
    /// [`SuperSegment`] if the payload exceeds what one packet can carry.
    pub fn segment(
        &mut self,
        seen: &Seen<'_>,
        packet: &TcpPacket<'_>,
    ) -> Result<Segment, SuperSegment> {
        let flags = packet.flags();
        let (id, key) = self.find(seen, packet);
        let flow = self.flows.entry(id).or_insert_with(|| Flow::new(key));
        if flow.last_used != self.clock || self.clock == 0 {
            self.by_last_used.remove(&flow.last_used);
            self.clock += 1;
            flow.last_used = self.clock;
            self.by_last_used.insert(self.clock, id);
        }
        flow.last_seen = seen.time;
        flow.reset |= flags.has(Flags::RST);
        let syn = flags.has(Flags::SYN);
        let (own, other) = flow.streams_mut(seen.direction);
        if syn {
            own.open(packet.seq);
            (own.scale, own.mss) = announced(packet);
            if flags.has(Flags::ACK) {
                other.open_by_answer(packet.ack);
            }
        }
        check_size(seen.number, packet, other.mss)?;
        own.finished |= flags.has(Flags::FIN);
        // The SYN occupies the sequence number before the first byte.
        let first = packet.seq.wrapping_add(1);
        let seq = match syn {
            true if own.zero == Some(first) => 0,
            true => own.offset(first),
            false => own.offset(packet.seq),
        };
        let ack = if flags.has(Flags::ACK) { other.offset(packet.ack) } else { 0 };
        own.keep_headers(seen, packet);
        let scale = if syn { 0 } else { flow.numbering(seen.direction).window_scale };
        let (ts_value, ts_echo) = packet.timestamps().unwrap_or_default();
        Ok(Segment {
            seq,
            ack,
            id: seen.number,
            flow: id,
            len: packet.payload_len,
            size: packet.total_len,
            window: u32::from(packet.window) << scale,
            ts_value,
            ts_echo,
            payload: Payload::NONE,
            to: 0,
            flags,
            attempt: 1,
            forward: seen.direction == Direction::Downlink,
        })
    }

    /// MSS announced in the SYN of this direction, otherwise of the other one, bytes; 0 if neither
    /// was captured.
    pub fn mss(&self, flow: FlowId, direction: Direction) -> u32 {
        let mss = self
            .flows
            .get(&flow)
            .map(|f| f.streams(direction))
            .and_then(|(own, other)| own.mss.or(other.mss));
        mss.map_or(0, u32::from)
    }

    /// Origins of the sequence and acknowledgment numbers in this direction; `None` for an unknown
    /// flow.
    pub fn numbering(&self, flow: FlowId, direction: Direction) -> Option<Numbering> {
        self.flows.get(&flow).map(|f| f.numbering(direction))
    }

    /// The largest payload, bytes, of a segment of this direction, if the packet can belong to a
    /// connection whose SYN and SYN-ACK were seen. For hosts that forward packets of strangers: a
    /// packet that is refused changes nothing here.
    ///
    /// # Errors
    ///
    /// The reason: there is no such connection, or the packet acknowledges data that was not seen.
    pub fn admit(&self, direction: Direction, packet: &TcpPacket<'_>) -> Result<u32, &'static str> {
        let flow = self.ids.get(&key(direction, packet)).and_then(|id| self.flows.get(id));
        let (own, other) = flow.map(|f| f.streams(direction)).ok_or(NO_HANDSHAKE)?;
        if own.scale == Scale::Unknown || other.scale == Scale::Unknown {
            return Err(NO_HANDSHAKE);
        }
        // The last segment seen ends at most this far beyond its first byte, the FIN included.
        let last = own.mss.map_or(DEFAULT_MSS, u32::from) + 1;
        if packet.flags().has(Flags::ACK) && other.distance(packet.ack) > i64::from(last) {
            return Err("acknowledges data that was not seen");
        }
        if own.distance(packet.seq).abs() > LARGEST_WINDOW {
            return Err("outside every window");
        }
        let limit = other.mss.map_or(DEFAULT_MSS, u32::from);
        Ok(limit.saturating_sub(packet.option_bytes.len() as u32))
    }

    /// True if a SYN-ACK can answer the SYN of a connection that was seen.
    pub fn admit_answer(&self, direction: Direction, packet: &TcpPacket<'_>) -> bool {
        let flow = self.ids.get(&key(direction, packet)).and_then(|id| self.flows.get(id));
        flow.is_some_and(|f| {
            let (_, other) = f.streams(direction);
            other.scale != Scale::Unknown && f.can_have(direction, packet)
        })
    }

    /// A frame for `segment` without payload, and the index of its output interface. Link header,
    /// headers of tunnels, IP header, ports and TTL are those of the connection's last packet in
    /// this direction, with the lengths and checksums of the new frame; if there was none, those of
    /// the other direction with source and destination swapped. The IP identification is 0 with
    /// "don't fragment"; the TCP fields are those of the segment.
    ///
    /// # Errors
    ///
    /// [`NoFrame`] for an unknown flow, and for a tunnel of whose direction no packet was seen.
    pub fn frame(
        &self,
        direction: Direction,
        segment: &Segment,
    ) -> Result<(usize, Vec<u8>), NoFrame> {
        let flow = self.flows.get(&segment.flow).ok_or(NoFrame::UnknownFlow)?;
        let (own, other) = flow.streams(direction);
        let mut headers = match (&own.last, &other.last) {
            (Some(own), _) => own.clone(),
            (None, Some(other)) => {
                let mut reversed =
                    Headers { addressing: other.addressing.reversed(), ..other.clone() };
                if !reversed.encapsulation.reverse(&mut reversed.prefix) {
                    return Err(NoFrame::UnknownTunnel);
                }
                reversed
            }
            (None, None) => return Err(NoFrame::UnknownFlow),
        };
        let mark = if segment.flags.has(Flags::CE) { 3 } else { 0 };
        headers.addressing.traffic_class = headers.addressing.traffic_class & !3 | mark;
        let tcp = flow.numbering(direction).tcp_header(segment);
        let packet = assemble(&headers.addressing, &tcp, &[]);
        Ok((headers.interface, headers.encapsulation.wrap(&headers.prefix, &packet)))
    }

    /// Finds the connection of a packet, or creates one. An expired connection is replaced, and so
    /// is one for whose ports the SYN or SYN-ACK of another one arrives.
    fn find(&mut self, seen: &Seen<'_>, packet: &TcpPacket<'_>) -> (FlowId, Key) {
        let key = key(seen.direction, packet);
        if let Some(&id) = self.ids.get(&key) {
            let is_current =
                |f: &Flow| !f.is_expired(seen.time) && f.can_have(seen.direction, packet);
            if self.flows.get(&id).is_some_and(is_current) {
                return (id, key);
            }
            self.remove(id);
        }
        self.make_room(seen.time);
        self.last_id = self.last_id.wrapping_add(1);
        self.ids.insert(key, self.last_id);
        (self.last_id, key)
    }

    /// Removes expired connections, oldest first, and the oldest open connection if the table is
    /// full.
    fn make_room(&mut self, now: Time) {
        while let Some((_, &oldest)) = self.by_last_used.first_key_value() {
            let expired = self.flows.get(&oldest).is_none_or(|f| f.is_expired(now));
            if !expired && self.flows.len() < self.cap {
                return;
            }
            self.evicted += u64::from(!expired);
            self.remove(oldest);
        }
    }

    fn remove(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.remove(&id) {
            self.by_last_used.remove(&flow.last_used);
            self.ids.remove(&flow.key);
        }
    }
}

/// The connection of a packet.
fn key(direction: Direction, packet: &TcpPacket<'_>) -> Key {
    let (source, destination) = (packet.addressing.source, packet.addressing.destination);
    match direction {
        Direction::Downlink => Key { mobile: destination, other: source },
        Direction::Uplink => Key { mobile: source, other: destination },
    }
}

/// Window scale and MSS that a SYN announces.
fn announced(packet: &TcpPacket<'_>) -> (Scale, Option<u16>) {
    packet.options().map_while(Result::ok).fold((Scale::Without, None), |(scale, mss), option| {
        match option {
            TcpOption::WindowScale(shift) => (Scale::Shift(shift), mss),
            TcpOption::MaximumSegmentSize(size @ 1..) => (scale, Some(size)),
            _ => (scale, mss),
        }
    })
}

/// Rejects packets that cannot have been sent as one packet: more payload than the receiver's MSS,
/// or, if that is unknown, a packet longer than Ethernet's MTU.
fn check_size(number: u64, packet: &TcpPacket<'_>, mss: Option<u16>) -> Result<(), SuperSegment> {
    let payload = packet.payload_len;
    let limit = mss.map_or(MTU.saturating_sub(packet.total_len - payload), u32::from);
    if payload > limit { Err(SuperSegment { number, payload, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
