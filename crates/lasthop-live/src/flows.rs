//! The connections of real packets: from header fields to segments and back.
//!
//! Numbers on the wire have 32 bits and start anywhere; segments count stream offsets from 0.
//! Windows are shifted by what the SYNs said. Both are undone here on the way to the agent and done
//! again on the way back.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use lasthop::segment::{Direction, Flags, FlowId, Payload, Segment};
use lasthop::units::{Duration, Time};
use lasthop_wire::options::TcpOption;
use lasthop_wire::render::MAX_WINDOW_SCALE;
use lasthop_wire::{Addressing, LinkType, Numbering, TcpPacket, assemble};
use thiserror::Error;

/// Connections held; when it is full, the one that was silent longest goes.
pub const MAX_FLOWS: usize = 65_536;

/// A connection that was closed or reset is forgotten after so much silence: Linux's TIME-WAIT.
pub const LINGER: Duration = Duration::secs(60);

/// Offset of the first byte seen of a stream whose SYN was not seen. Half the number space:
/// whatever was sent before it has an offset too.
const BIAS: u32 = 1 << 31;

/// The largest IP packet, in bytes, that is taken for one packet on a wire if the SYNs were not
/// seen: Ethernet's MTU.
const MTU: u32 = 1500;

/// A packet that was several on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "packet {number} carries {payload} bytes of payload, more than {limit}: it was merged from \
     several before it was captured; capture again after `ethtool -K IFACE gro off gso off tso \
     off`"
)]
pub struct SuperSegment {
    /// Number of the packet in the capture.
    pub number: u64,
    /// Its payload, bytes.
    pub payload: u32,
    /// What one segment can carry there, bytes.
    pub limit: u32,
}

/// A connection: the mobile's end and the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    mobile: SocketAddr,
    other: SocketAddr,
}

/// What the SYN of one side said about window scaling (RFC 7323 section 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scale {
    /// The SYN was not seen.
    #[default]
    Unknown,
    /// It had no such option.
    Without,
    /// Shift.
    Shift(u8),
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Initial sequence number, if the SYN was seen.
    isn: Option<u32>,
    /// The number on the wire that stands for offset 0.
    zero: Option<u32>,
    /// Highest offset seen, to which 32-bit numbers are near.
    highest: u64,
    scale: Scale,
    /// Largest segment that this side takes, if its SYN said so.
    mss: Option<u16>,
    /// FIN seen.
    finished: bool,
    /// Headers of the last packet.
    last: Option<Headers>,
}

/// What packets of a direction look like outside of TCP.
#[derive(Clone, Debug)]
struct Headers {
    interface: usize,
    link_type: LinkType,
    link: Vec<u8>,
    addressing: Addressing,
}

impl Stream {
    /// The SYN with this number begins the stream.
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

    /// The offset that a number on the wire stands for: the one nearest to the highest seen, not
    /// below 0.
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
    /// Its place in the order of use.
    stamp: u64,
}

impl Flow {
    fn new(key: Key) -> Flow {
        Flow {
            key,
            down: Stream::default(),
            up: Stream::default(),
            reset: false,
            last_seen: Time::ZERO,
            stamp: 0,
        }
    }

    /// The stream in this direction, and the other.
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
        // Both sides must have sent the option; a SYN that was not seen is taken to have had it.
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

    /// Closed or reset, and silent since.
    fn is_over(&self, now: Time) -> bool {
        (self.reset || self.down.finished && self.up.finished) && now.since(self.last_seen) > LINGER
    }
}

/// A packet of a connection, as the host found it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its number in the capture.
    pub number: u64,
    /// When.
    pub time: Time,
    /// Towards the mobile or from it.
    pub direction: Direction,
    /// The host's number of the interface.
    pub interface: usize,
    /// Kind of the link header.
    pub link_type: LinkType,
    /// The link header.
    pub link: &'a [u8],
}

/// All connections.
#[derive(Debug)]
pub struct Flows {
    flows: HashMap<FlowId, Flow>,
    ids: HashMap<Key, FlowId>,
    /// Flows in the order of their last packets.
    ages: BTreeMap<u64, FlowId>,
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
    /// Room for `cap` connections.
    pub fn new(cap: usize) -> Flows {
        Flows {
            flows: HashMap::new(),
            ids: HashMap::new(),
            ages: BTreeMap::new(),
            clock: 0,
            cap: cap.max(1),
            last_id: 0,
            evicted: 0,
        }
    }

    /// Connections seen so far.
    pub fn seen(&self) -> u64 {
        u64::from(self.last_id)
    }

    /// Open connections that had to be forgotten for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The packet as a segment of its connection. The payload is left open.
    pub fn segment(
        &mut self,
        seen: &Seen<'_>,
        packet: &TcpPacket<'_>,
    ) -> Result<Segment, SuperSegment> {
        let flags = packet.flags();
        let (id, key) = self.find(seen, packet);
        let flow = self.flows.entry(id).or_insert_with(|| Flow::new(key));
        self.ages.remove(&flow.stamp);
        self.clock += 1;
        flow.stamp = self.clock;
        self.ages.insert(self.clock, id);
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
            // As in most packets of a connection.
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

    /// The largest segment of a connection, as the SYN in this direction or the other one says; 0
    /// if neither was seen.
    pub fn mss(&self, flow: FlowId, direction: Direction) -> u32 {
        let said = self
            .flows
            .get(&flow)
            .map(|f| f.streams(direction))
            .and_then(|(own, other)| own.mss.or(other.mss));
        said.map_or(0, u32::from)
    }

    /// What numbers of the connection count from in this direction.
    pub fn numbering(&self, flow: FlowId, direction: Direction) -> Option<Numbering> {
        self.flows.get(&flow).map(|f| f.numbering(direction))
    }

    /// A frame without payload that says what `segment` says: link and IP header, ports and TTL are
    /// those of the connection's last packet in this direction (or, if there was none, in the
    /// other, turned round), the IP identification is 0 with "don't fragment", the TCP fields are
    /// the segment's. The number is that of the interface.
    pub fn frame(&self, direction: Direction, segment: &Segment) -> Option<(usize, Vec<u8>)> {
        let flow = self.flows.get(&segment.flow)?;
        let (own, other) = flow.streams(direction);
        let mut headers = match (&own.last, &other.last) {
            (Some(own), _) => own.clone(),
            (None, Some(other)) => {
                let mut turned =
                    Headers { addressing: other.addressing.reversed(), ..other.clone() };
                turned.link_type.reverse(&mut turned.link);
                turned
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

    /// The number of a packet's connection, a new one if there is none. One that is over is
    /// forgotten first, and so is one whose place a SYN with another initial number takes.
    fn find(&mut self, seen: &Seen<'_>, packet: &TcpPacket<'_>) -> (FlowId, Key) {
        let (source, destination) = (packet.addressing.source, packet.addressing.destination);
        let key = match seen.direction {
            Direction::Downlink => Key { mobile: destination, other: source },
            Direction::Uplink => Key { mobile: source, other: destination },
        };
        let opens = packet.flags().has(Flags::SYN) && !packet.flags().has(Flags::ACK);
        if let Some(&id) = self.ids.get(&key) {
            let stands = |f: &Flow| {
                !f.is_over(seen.time)
                    && (!opens || f.streams(seen.direction).0.isn == Some(packet.seq))
            };
            if self.flows.get(&id).is_some_and(stands) {
                return (id, key);
            }
            self.forget(id);
        }
        self.make_room(seen.time);
        self.last_id = self.last_id.wrapping_add(1);
        self.ids.insert(key, self.last_id);
        (self.last_id, key)
    }

    /// Forgets the connections that are over, as far as they were silent longest, and one more if
    /// there is no room.
    fn make_room(&mut self, now: Time) {
        while let Some((_, &oldest)) = self.ages.first_key_value() {
            let over = self.flows.get(&oldest).is_none_or(|f| f.is_over(now));
            if !over && self.flows.len() < self.cap {
                return;
            }
            self.evicted += u64::from(!over);
            self.forget(oldest);
        }
    }

    fn forget(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.remove(&id) {
            self.ages.remove(&flow.stamp);
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

/// Refuses packets that cannot have been on a wire: more payload than the receiver takes, or longer
/// than Ethernet's MTU if it did not say.
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

    /// A packet between the mobile 10.0.0.2:80 and 10.0.0.1 at this port.
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

        fn see(&self, flows: &mut Flows, time: Time) -> Result<Segment, SuperSegment> {
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
        let syn = scaled(wire(true, 999, 0, Flags::SYN), syn).see(flows, Time(0)).unwrap();
        assert_eq!((syn.seq, syn.ack, syn.window, syn.len), (0, 0, 100, 0));
        let answer =
            scaled(wire(false, u32::MAX, 1000, SYN_ACK), answer).see(flows, Time(1)).unwrap();
        assert_eq!((answer.seq, answer.ack, answer.window), (0, 0, 100));
    }

    #[test]
    fn offsets_count_from_the_syns_and_windows_are_scaled_if_both_say_so() {
        for (syn, answer, down, up) in [
            (Some(3), Some(7), 800, 12_800),
            (Some(3), None, 100, 100),
            (None, Some(7), 100, 100),
            (Some(200), Some(0), 100 << 14, 100),
        ] {
            let mut flows = Flows::default();
            handshake(&mut flows, syn, answer);
            let data = Wire { payload: 10, ..wire(true, 1010, 5, Flags::ACK) }
                .see(&mut flows, Time(2))
                .unwrap();
            assert_eq!(
                (data.seq, data.ack, data.len, data.size, data.window),
                (10, 5, 10, 50, down)
            );
            let ack = wire(false, 5, 1020, Flags::ACK).see(&mut flows, Time(3)).unwrap();
            assert_eq!((ack.seq, ack.ack, ack.window, ack.forward), (5, 20, up, false));
            assert_eq!((ack.flow, flows.seen()), (1, 1));
        }
    }

    #[test]
    fn a_capture_may_begin_in_the_middle() {
        let mut flows = Flows::default();
        let first = wire(true, 5, 77, Flags::ACK).see(&mut flows, Time(0)).unwrap();
        let earlier = wire(true, u32::MAX, 77, Flags::ACK).see(&mut flows, Time(1)).unwrap();
        let later = wire(false, 79, 15, Flags::ACK).see(&mut flows, Time(2)).unwrap();
        let bias = u64::from(BIAS);
        assert_eq!(
            (first.seq, earlier.seq, later.ack, later.seq, first.ack),
            (bias, bias - 6, bias + 10, bias + 2, bias)
        );
    }

    #[test]
    fn what_comes_before_offset_0_stays_at_0() {
        let mut flows = Flows::default();
        handshake(&mut flows, None, None);
        // A keep-alive of a connection without data (RFC 9293 section 3.8.4).
        assert_eq!(wire(true, 999, 0, Flags::ACK).see(&mut flows, Time(2)).unwrap().seq, 0);
    }

    #[test]
    fn merged_segments_are_refused() {
        let mut flows = Flows::default();
        wire(true, 0, 0, Flags::SYN)
            .with(TcpOption::MaximumSegmentSize(8960))
            .see(&mut flows, Time(0))
            .unwrap();
        wire(false, 0, 1, SYN_ACK)
            .with(TcpOption::MaximumSegmentSize(1000))
            .see(&mut flows, Time(0))
            .unwrap();
        let down = |n| Wire { payload: n, ..wire(true, 1, 1, Flags::ACK) };
        assert!(down(1000).see(&mut flows, Time(1)).is_ok());
        let error = down(1001).see(&mut flows, Time(1)).unwrap_err();
        assert_eq!((error.payload, error.limit), (1001, 1000));
        assert!(
            error.to_string().contains("ethtool -K IFACE gro off gso off tso off")
                && error.to_string().lines().count() == 1
        );
        assert!(
            Wire { payload: 8960, ..wire(false, 1, 1, Flags::ACK) }
                .see(&mut flows, Time(1))
                .is_ok()
        );
        let unknown = |n| {
            Wire { payload: n, port: 6000, ..wire(true, 1, 1, Flags::ACK) }
                .see(&mut Flows::default(), Time(0))
        };
        assert!(unknown(1460).is_ok());
        assert_eq!(unknown(1461).unwrap_err().limit, 1460);
    }

    #[test]
    fn ports_may_be_used_again() {
        let mut flows = Flows::default();
        let at = |s: u64| Time::ZERO + Duration::secs(s);
        handshake(&mut flows, None, None);
        assert_eq!(wire(true, 999, 0, Flags::SYN).see(&mut flows, at(1)).unwrap().flow, 1);
        assert_eq!(wire(true, 5_000_000, 0, Flags::SYN).see(&mut flows, at(2)).unwrap().flow, 2);
        let fin = Flags::ACK.with(Flags::FIN);
        wire(true, 5_000_001, 0, fin).see(&mut flows, at(3)).unwrap();
        wire(false, 70, 5_000_002, fin).see(&mut flows, at(4)).unwrap();
        assert_eq!(wire(true, 5_000_002, 71, Flags::ACK).see(&mut flows, at(5)).unwrap().flow, 2);
        let late = wire(true, 5_000_002, 71, Flags::ACK).see(&mut flows, at(66)).unwrap();
        assert_eq!((late.flow, late.seq), (3, u64::from(BIAS)));
        assert_eq!(
            (flows.flows.len(), flows.ids.len(), flows.ages.len(), flows.evicted()),
            (1, 1, 1, 0)
        );
    }

    #[test]
    fn the_table_is_bounded() {
        let mut flows = Flows::new(3);
        for port in 1..=10 {
            Wire { port, ..wire(true, 0, 0, Flags::SYN) }
                .see(&mut flows, Time(u64::from(port)))
                .unwrap();
            // The first stays in use.
            Wire { port: 1, ..wire(true, 0, 0, Flags::SYN) }
                .see(&mut flows, Time(u64::from(port)))
                .unwrap();
        }
        assert_eq!(
            (flows.seen(), flows.evicted(), flows.flows.len(), flows.ages.len()),
            (10, 7, 3, 3)
        );
        assert!(flows.numbering(1, Direction::Uplink).is_some());
        // Connections that are over go first and are not counted.
        Wire { port: 1, ..wire(true, 1, 0, Flags::RST) }.see(&mut flows, Time(11)).unwrap();
        let late = Time::ZERO + LINGER + Duration(100);
        for port in [9, 10] {
            Wire { port, ..wire(true, 0, 0, Flags::SYN) }.see(&mut flows, late).unwrap();
        }
        Wire { port: 20, ..wire(true, 0, 0, Flags::SYN) }.see(&mut flows, late).unwrap();
        assert_eq!((flows.evicted(), flows.flows.len()), (7, 3));
    }

    #[test]
    fn made_frames_look_like_the_last_packet_in_their_direction_or_turned_round() {
        let mut flows = Flows::default();
        wire(true, 999, 0, Flags::SYN)
            .with(TcpOption::WindowScale(2))
            .see(&mut flows, Time(0))
            .unwrap();
        let ack = Segment { ack: 500, window: 4000, ..BLANK };
        let (_, turned) = flows.frame(Direction::Uplink, &ack).unwrap();
        assert_eq!(&turned[..14], b"BBBBBBAAAAAA\x08\x00");
        wire(false, 7, 1000, SYN_ACK)
            .with(TcpOption::WindowScale(2))
            .see(&mut flows, Time(1))
            .unwrap();
        let (_, frame) = flows.frame(Direction::Uplink, &ack).unwrap();
        assert_eq!(&frame[..14], b"AAAAAABBBBBB\x08\x00");
        let p = parse(&frame[14..]).unwrap();
        assert_eq!((p.seq, p.ack, p.window, p.payload_len), (8, 1500, 1000, 0));
        // DSCP stays, the ECN mark does not; TTL as seen.
        assert_eq!(
            (p.addressing.traffic_class, p.addressing.hop_limit, p.addressing.source.port()),
            (0x28, 61, 80)
        );
        assert_eq!(flows.frame(Direction::Uplink, &Segment { flow: 9, ..ack }), None);
    }

    proptest! {
        /// Numbers that move by less than half the space at a time are unwrapped, wherever the
        /// stream begins.
        #[test]
        fn numbers_are_unwrapped(isn: u32, steps in proptest::collection::vec(-1_000_000i64..1 << 30, 1..40)) {
            let mut stream = Stream::default();
            stream.open(isn);
            let (mut highest, mut offset) = (0i64, 0i64);
            for step in steps {
                offset = (offset + step).clamp(highest.saturating_sub(1 << 30).max(0), highest + (1 << 30));
                highest = highest.max(offset);
                let number = isn.wrapping_add(1).wrapping_add(offset as u32);
                prop_assert_eq!(stream.offset(number), offset as u64);
            }
        }

        #[test]
        fn any_numbers_are_taken(numbers in proptest::collection::vec(any::<u32>(), 1..40)) {
            let mut stream = Stream::default();
            let first = stream.offset(numbers[0]);
            prop_assert_eq!(first, u64::from(BIAS));
            numbers.into_iter().for_each(|n| { stream.offset(n); });
        }
    }
}
