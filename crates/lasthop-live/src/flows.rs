//! Connection tracking for real packets: converts header fields to segments and back.
//!
//! Sequence numbers on the wire have 32 bits and start at an arbitrary ISN; segments have stream
//! offsets that start at 0. Window fields are scaled as announced in the SYNs. Packets to the agent
//! are converted to offsets and unscaled windows, packets from the agent back.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use lasthop::segment::{Direction, Flags, FlowId, Payload, Segment};
use lasthop::units::{Duration, Time};
use lasthop_wire::options::TcpOption;
use lasthop_wire::render::MAX_WINDOW_SCALE;
use lasthop_wire::{Addressing, LinkType, Numbering, TcpPacket, assemble};
use thiserror::Error;

/// Capacity of the flow table. When it is full, the connection that was idle longest is removed.
pub const MAX_FLOWS: usize = 65_536;

/// Idle time after which a closed or reset connection is removed: Linux's TIME-WAIT.
pub const LINGER: Duration = Duration::secs(60);

/// Offset of the first byte captured of a stream whose SYN was not captured. Half the sequence
/// space, so that earlier bytes have a non-negative offset too.
const BIAS: u32 = 1 << 31;

/// The largest IP packet, in bytes, that is accepted as one packet on the wire if the SYNs were not
/// captured: Ethernet's MTU.
const MTU: u32 = 1500;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    mobile: SocketAddr,
    other: SocketAddr,
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
    /// Initial sequence number, if the SYN was captured.
    isn: Option<u32>,
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

/// Link and IP headers of the packets in one direction.
#[derive(Clone, Debug)]
struct Headers {
    interface: usize,
    link_type: LinkType,
    link: Vec<u8>,
    addressing: Addressing,
}

impl Stream {
    /// Starts a new stream at a SYN with this ISN; a retransmitted SYN changes nothing.
    fn open(&mut self, isn: u32) {
        if self.isn != Some(isn) {
            *self = Stream {
                isn: Some(isn),
                zero: Some(isn.wrapping_add(1)),
                last: self.last.take(),
                ..Stream::default()
            };
        }
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
    /// Link-layer header type.
    pub link_type: LinkType,
    /// Bytes of the link header.
    pub link: &'a [u8],
}

/// The table of connections, least recently used first out.
#[derive(Debug)]
pub struct Flows {
    flows: HashMap<FlowId, Flow>,
    ids: HashMap<Key, FlowId>,
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
            flows: HashMap::new(),
            ids: HashMap::new(),
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
        self.by_last_used.remove(&flow.last_used);
        self.clock += 1;
        flow.last_used = self.clock;
        self.by_last_used.insert(self.clock, id);
        flow.last_seen = seen.time;
        flow.reset |= flags.has(Flags::RST);
        let syn = flags.has(Flags::SYN);
        let (own, other) = flow.streams_mut(seen.direction);
        if syn {
            own.open(packet.seq);
            (own.scale, own.mss) = announced(packet);
        }
        check_size(seen.number, packet, other.mss)?;
        own.finished |= flags.has(Flags::FIN);
        let seq = if syn { 0 } else { own.offset(packet.seq) };
        let ack = if flags.has(Flags::ACK) { other.offset(packet.ack) } else { 0 };
        match &mut own.last {
            // The common case: no new allocation.
            Some(h) if h.interface == seen.interface && h.link == seen.link => {
                h.addressing = packet.addressing
            }
            last => {
                *last = Some(Headers {
                    interface: seen.interface,
                    link_type: seen.link_type,
                    link: seen.link.to_vec(),
                    addressing: packet.addressing,
                })
            }
        }
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

    /// A frame for `segment` without payload, and the index of its output interface. Link header,
    /// IP header, ports and TTL are those of the connection's last packet in this direction; if
    /// there was none, those of the other direction with source and destination swapped. The IP
    /// identification is 0 with "don't fragment"; the TCP fields are those of the segment. `None`
    /// for an unknown flow.
    pub fn frame(&self, direction: Direction, segment: &Segment) -> Option<(usize, Vec<u8>)> {
        let flow = self.flows.get(&segment.flow)?;
        let (own, other) = flow.streams(direction);
        let mut headers = match (&own.last, &other.last) {
            (Some(own), _) => own.clone(),
            (None, Some(other)) => {
                let mut reversed =
                    Headers { addressing: other.addressing.reversed(), ..other.clone() };
                reversed.link_type.reverse(&mut reversed.link);
                reversed
            }
            (None, None) => return None,
        };
        let mark = if segment.flags.has(Flags::CE) { 3 } else { 0 };
        headers.addressing.traffic_class = headers.addressing.traffic_class & !3 | mark;
        let tcp = flow.numbering(direction).tcp_header(segment);
        let mut frame = headers.link;
        frame.extend(assemble(&headers.addressing, &tcp, &[]));
        Some((headers.interface, frame))
    }

    /// Finds the connection of a packet, or creates one. An expired connection is replaced, and so
    /// is one for whose ports a SYN with another ISN arrives.
    fn find(&mut self, seen: &Seen<'_>, packet: &TcpPacket<'_>) -> (FlowId, Key) {
        let (source, destination) = (packet.addressing.source, packet.addressing.destination);
        let key = match seen.direction {
            Direction::Downlink => Key { mobile: destination, other: source },
            Direction::Uplink => Key { mobile: source, other: destination },
        };
        let opens = packet.flags().has(Flags::SYN) && !packet.flags().has(Flags::ACK);
        if let Some(&id) = self.ids.get(&key) {
            let is_current = |f: &Flow| {
                !f.is_expired(seen.time)
                    && (!opens || f.streams(seen.direction).0.isn == Some(packet.seq))
            };
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
mod tests {
    use super::*;
    use lasthop_wire::options::{OptionBytes, TcpOption};
    use lasthop_wire::parse;
    use proptest::prelude::*;

    /// A packet between the mobile 10.0.0.2:80 and 10.0.0.1:`port`.
    struct Wire {
        port: u16,
        down: bool,
        seq: u32,
        ack: u32,
        flags: Flags,
        window: u16,
        options: OptionBytes,
        payload: usize,
    }

    fn wire(down: bool, seq: u32, ack: u32, flags: Flags) -> Wire {
        Wire {
            port: 5000,
            down,
            seq,
            ack,
            flags,
            window: 100,
            options: OptionBytes::default(),
            payload: 0,
        }
    }

    impl Wire {
        fn with(mut self, option: TcpOption<'_>) -> Wire {
            self.options.push(option).unwrap();
            self
        }

        fn bytes(&self) -> Vec<u8> {
            let to_mobile = Addressing {
                source: SocketAddr::from(([10, 0, 0, 1], self.port)),
                destination: SocketAddr::from(([10, 0, 0, 2], 80)),
                hop_limit: 61,
                traffic_class: 0x2a,
                flow_label: 0,
            };
            let segment = Segment { flags: self.flags, ..BLANK };
            let mut tcp = Numbering::default().tcp_header(&segment);
            (tcp.sequence_number, tcp.acknowledgment_number, tcp.window_size) =
                (self.seq, self.ack, self.window);
            tcp.set_options_raw(self.options.padded()).unwrap();
            assemble(
                &if self.down { to_mobile } else { to_mobile.reversed() },
                &tcp,
                &vec![0; self.payload],
            )
        }

        fn process(&self, flows: &mut Flows, time: Time) -> Result<Segment, SuperSegment> {
            let direction = if self.down { Direction::Downlink } else { Direction::Uplink };
            let seen = Seen {
                number: 1,
                time,
                direction,
                interface: 0,
                link_type: LinkType::ETHERNET,
                link: b"AAAAAABBBBBB\x08\x00",
            };
            flows.segment(&seen, &parse(&self.bytes()).unwrap())
        }
    }

    const BLANK: Segment = Segment {
        seq: 0,
        ack: 0,
        id: 0,
        flow: 1,
        len: 0,
        size: 0,
        window: 0,
        ts_value: 0,
        ts_echo: 0,
        payload: Payload::NONE,
        to: 0,
        flags: Flags::ACK,
        attempt: 1,
        forward: false,
    };

    const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);

    fn handshake(flows: &mut Flows, syn: Option<u8>, answer: Option<u8>) {
        let scaled = |w: Wire, shift: Option<u8>| {
            shift.into_iter().fold(w, |w, s| w.with(TcpOption::WindowScale(s)))
        };
        let syn = scaled(wire(true, 999, 0, Flags::SYN), syn).process(flows, Time(0)).unwrap();
        assert_eq!((syn.seq, syn.ack, syn.window, syn.len), (0, 0, 100, 0));
        let answer =
            scaled(wire(false, u32::MAX, 1000, SYN_ACK), answer).process(flows, Time(1)).unwrap();
        assert_eq!((answer.seq, answer.ack, answer.window), (0, 0, 100));
    }

    #[test]
    fn offsets_start_at_the_syns_and_windows_scale_if_both_sides_announce_it() {
        for (syn, answer, down, up) in [
            (Some(3), Some(7), 800, 12_800),
            (Some(3), None, 100, 100),
            (None, Some(7), 100, 100),
            (Some(200), Some(0), 100 << 14, 100),
        ] {
            let mut flows = Flows::default();
            handshake(&mut flows, syn, answer);
            let data = Wire { payload: 10, ..wire(true, 1010, 5, Flags::ACK) }
                .process(&mut flows, Time(2))
                .unwrap();
            assert_eq!(
                (data.seq, data.ack, data.len, data.size, data.window),
                (10, 5, 10, 50, down)
            );
            let ack = wire(false, 5, 1020, Flags::ACK).process(&mut flows, Time(3)).unwrap();
            assert_eq!((ack.seq, ack.ack, ack.window, ack.forward), (5, 20, up, false));
            assert_eq!((ack.flow, flows.seen()), (1, 1));
        }
    }

    #[test]
    fn capture_may_start_in_mid_connection() {
        let mut flows = Flows::default();
        let first = wire(true, 5, 77, Flags::ACK).process(&mut flows, Time(0)).unwrap();
        let earlier = wire(true, u32::MAX, 77, Flags::ACK).process(&mut flows, Time(1)).unwrap();
        let later = wire(false, 79, 15, Flags::ACK).process(&mut flows, Time(2)).unwrap();
        let bias = u64::from(BIAS);
        assert_eq!(
            (first.seq, earlier.seq, later.ack, later.seq, first.ack),
            (bias, bias - 6, bias + 10, bias + 2, bias)
        );
    }

    #[test]
    fn numbers_before_offset_0_are_clamped_to_0() {
        let mut flows = Flows::default();
        handshake(&mut flows, None, None);
        // A keep-alive of a connection without data (RFC 9293 section 3.8.4).
        assert_eq!(wire(true, 999, 0, Flags::ACK).process(&mut flows, Time(2)).unwrap().seq, 0);
    }

    #[test]
    fn merged_segments_are_rejected() {
        let mut flows = Flows::default();
        wire(true, 0, 0, Flags::SYN)
            .with(TcpOption::MaximumSegmentSize(8960))
            .process(&mut flows, Time(0))
            .unwrap();
        wire(false, 0, 1, SYN_ACK)
            .with(TcpOption::MaximumSegmentSize(1000))
            .process(&mut flows, Time(0))
            .unwrap();
        let down = |n| Wire { payload: n, ..wire(true, 1, 1, Flags::ACK) };
        assert!(down(1000).process(&mut flows, Time(1)).is_ok());
        let error = down(1001).process(&mut flows, Time(1)).unwrap_err();
        assert_eq!((error.payload, error.limit), (1001, 1000));
        assert!(
            error.to_string().contains("ethtool -K IFACE gro off gso off tso off")
                && error.to_string().lines().count() == 1
        );
        assert!(
            Wire { payload: 8960, ..wire(false, 1, 1, Flags::ACK) }
                .process(&mut flows, Time(1))
                .is_ok()
        );
        let unknown = |n| {
            Wire { payload: n, port: 6000, ..wire(true, 1, 1, Flags::ACK) }
                .process(&mut Flows::default(), Time(0))
        };
        assert!(unknown(1460).is_ok());
        assert_eq!(unknown(1461).unwrap_err().limit, 1460);
    }

    #[test]
    fn reused_ports_start_a_new_flow() {
        let mut flows = Flows::default();
        let at = |s: u64| Time::ZERO + Duration::secs(s);
        handshake(&mut flows, None, None);
        assert_eq!(wire(true, 999, 0, Flags::SYN).process(&mut flows, at(1)).unwrap().flow, 1);
        assert_eq!(
            wire(true, 5_000_000, 0, Flags::SYN).process(&mut flows, at(2)).unwrap().flow,
            2
        );
        let fin = Flags::ACK.with(Flags::FIN);
        wire(true, 5_000_001, 0, fin).process(&mut flows, at(3)).unwrap();
        wire(false, 70, 5_000_002, fin).process(&mut flows, at(4)).unwrap();
        assert_eq!(
            wire(true, 5_000_002, 71, Flags::ACK).process(&mut flows, at(5)).unwrap().flow,
            2
        );
        let late = wire(true, 5_000_002, 71, Flags::ACK).process(&mut flows, at(66)).unwrap();
        assert_eq!((late.flow, late.seq), (3, u64::from(BIAS)));
        assert_eq!(
            (flows.flows.len(), flows.ids.len(), flows.by_last_used.len(), flows.evicted()),
            (1, 1, 1, 0)
        );
    }

    #[test]
    fn flow_table_is_bounded() {
        let mut flows = Flows::new(3);
        for port in 1..=10 {
            Wire { port, ..wire(true, 0, 0, Flags::SYN) }
                .process(&mut flows, Time(u64::from(port)))
                .unwrap();
            // Flow 1 is used each time and is never the oldest.
            Wire { port: 1, ..wire(true, 0, 0, Flags::SYN) }
                .process(&mut flows, Time(u64::from(port)))
                .unwrap();
        }
        assert_eq!(
            (flows.seen(), flows.evicted(), flows.flows.len(), flows.by_last_used.len()),
            (10, 7, 3, 3)
        );
        assert!(flows.numbering(1, Direction::Uplink).is_some());
        // Expired connections are removed first and do not count as evicted.
        Wire { port: 1, ..wire(true, 1, 0, Flags::RST) }.process(&mut flows, Time(11)).unwrap();
        let late = Time::ZERO + LINGER + Duration(100);
        for port in [9, 10] {
            Wire { port, ..wire(true, 0, 0, Flags::SYN) }.process(&mut flows, late).unwrap();
        }
        Wire { port: 20, ..wire(true, 0, 0, Flags::SYN) }.process(&mut flows, late).unwrap();
        assert_eq!((flows.evicted(), flows.flows.len()), (7, 3));
    }

    #[test]
    fn generated_frames_copy_the_headers_of_their_direction_or_reverse_the_other() {
        let mut flows = Flows::default();
        wire(true, 999, 0, Flags::SYN)
            .with(TcpOption::WindowScale(2))
            .process(&mut flows, Time(0))
            .unwrap();
        let ack = Segment { ack: 500, window: 4000, ..BLANK };
        let (_, reversed) = flows.frame(Direction::Uplink, &ack).unwrap();
        assert!(reversed.starts_with(b"BBBBBBAAAAAA\x08\x00"), "{reversed:?}");
        wire(false, 7, 1000, SYN_ACK)
            .with(TcpOption::WindowScale(2))
            .process(&mut flows, Time(1))
            .unwrap();
        let (_, frame) = flows.frame(Direction::Uplink, &ack).unwrap();
        let p = parse(frame.strip_prefix(b"AAAAAABBBBBB\x08\x00").unwrap()).unwrap();
        assert_eq!((p.seq, p.ack, p.window, p.payload_len), (8, 1500, 1000, 0));
        // DSCP and TTL are copied, the ECN mark is not.
        assert_eq!(
            (p.addressing.traffic_class, p.addressing.hop_limit, p.addressing.source.port()),
            (0x28, 61, 80)
        );
        assert_eq!(flows.frame(Direction::Uplink, &Segment { flow: 9, ..ack }), None);
    }

    proptest! {
        /// Numbers that change by less than half the sequence space at a time are unwrapped for any
        /// ISN.
        #[test]
        fn sequence_numbers_are_unwrapped(
            isn: u32,
            steps in proptest::collection::vec(-1_000_000i64..1 << 30, 1..40),
        ) {
            let mut stream = Stream::default();
            stream.open(isn);
            let (mut highest, mut offset) = (0i64, 0i64);
            for step in steps {
                let lowest = highest.saturating_sub(1 << 30).max(0);
                offset = (offset + step).clamp(lowest, highest + (1 << 30));
                highest = highest.max(offset);
                let number = isn.wrapping_add(1).wrapping_add(offset as u32);
                prop_assert_eq!(stream.offset(number), offset as u64);
            }
        }

        #[test]
        fn arbitrary_sequence_numbers_are_accepted(
            numbers in proptest::collection::vec(any::<u32>(), 1..40),
        ) {
            let mut stream = Stream::default();
            let first = numbers.first().map(|&n| stream.offset(n));
            prop_assert_eq!(first, Some(u64::from(BIAS)));
            numbers.into_iter().for_each(|n| { stream.offset(n); });
        }
    }
}
