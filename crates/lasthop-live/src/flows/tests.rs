use super::*;
use lasthop_wire::options::{OptionBytes, TcpOption};
use lasthop_wire::{LinkType, parse};
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
            prefix: b"AAAAAABBBBBB\x08\x00",
            encapsulation: &Encapsulation::link(LinkType::ETHERNET),
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
        assert_eq!((data.seq, data.ack, data.len, data.size, data.window), (10, 5, 10, 50, down));
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
    assert_eq!(wire(true, 5_000_000, 0, Flags::SYN).process(&mut flows, at(2)).unwrap().flow, 2);
    let fin = Flags::ACK.with(Flags::FIN);
    wire(true, 5_000_001, 0, fin).process(&mut flows, at(3)).unwrap();
    wire(false, 70, 5_000_002, fin).process(&mut flows, at(4)).unwrap();
    assert_eq!(wire(true, 5_000_002, 71, Flags::ACK).process(&mut flows, at(5)).unwrap().flow, 2);
    let late = wire(true, 5_000_002, 71, Flags::ACK).process(&mut flows, at(66)).unwrap();
    assert_eq!((late.flow, late.seq), (3, u64::from(BIAS)));
    assert_eq!(
        (flows.flows.len(), flows.ids.len(), flows.by_last_used.len(), flows.evicted()),
        (1, 1, 1, 0)
    );
}

/// The packets of a handshake and of data after it: the mobile is the server.
fn opening() -> [Wire; 4] {
    let scaled = |w: Wire| w.with(TcpOption::WindowScale(7));
    let sized = |w: Wire| w.with(TcpOption::MaximumSegmentSize(1200));
    [
        scaled(sized(wire(true, 999, 0, Flags::SYN))),
        scaled(sized(wire(false, 4999, 1000, SYN_ACK))),
        wire(true, 1000, 5000, Flags::ACK),
        Wire { payload: 100, ..wire(true, 1000, 5000, Flags::ACK) },
    ]
}

/// Any order of the first packets in the capture gives one connection, and its offsets and window
/// scale are the same as soon as all were captured.
#[test]
fn reordered_handshakes_are_one_flow() {
    let packets = opening();
    let mut orders = 0;
    for order in 0..256 {
        let order = [order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6];
        if (0..4).any(|i| !order.contains(&i)) {
            continue;
        }
        orders += 1;
        let mut flows = Flows::default();
        for i in order {
            packets.get(i).unwrap().process(&mut flows, Time(0)).unwrap();
        }
        assert_eq!((flows.seen(), flows.ids()), (1, vec![1]), "{order:?}");
        let more = Wire { payload: 10, ..wire(true, 1100, 5000, Flags::ACK) };
        let more = more.process(&mut flows, Time(1)).unwrap();
        let ack = wire(false, 5000, 1110, Flags::ACK).process(&mut flows, Time(1)).unwrap();
        // Relative to the first packet of each stream, whatever its offset is.
        let data = packets.last().unwrap().process(&mut flows, Time(1)).unwrap();
        assert_eq!((more.seq - data.seq, ack.ack - data.seq, ack.seq), (100, 110, more.ack));
        assert_eq!((ack.window, more.window), (100 << 7, 100 << 7), "{order:?}");
        assert_eq!(flows.mss(1, Direction::Uplink), 1200);
    }
    assert_eq!(orders, 24);
}

#[test]
fn a_syn_after_its_answer_changes_no_offset() {
    let mut flows = Flows::default();
    let [syn, answer, ack, data] = opening();
    let first = answer.process(&mut flows, Time(0)).unwrap();
    assert_eq!((first.seq, first.ack), (0, 0));
    for packet in [&syn, &ack, &data] {
        let segment = packet.process(&mut flows, Time(1)).unwrap();
        assert_eq!((segment.flow, segment.seq, segment.ack), (1, 0, 0));
    }
    // Retransmissions of the handshake.
    for packet in [&syn, &answer, &syn] {
        assert_eq!(packet.process(&mut flows, Time(2)).unwrap().flow, 1);
    }
    // With Fast Open the answer acknowledges data of the SYN.
    let mut flows = Flows::default();
    wire(false, 4999, 1050, SYN_ACK).process(&mut flows, Time(0)).unwrap();
    let syn = Wire { payload: 50, ..wire(true, 999, 0, Flags::SYN) };
    assert_eq!(syn.process(&mut flows, Time(1)).unwrap().flow, 1);
    let data = wire(true, 1050, 5000, Flags::ACK).process(&mut flows, Time(2)).unwrap();
    assert_eq!((data.flow, data.seq), (1, 50));
}

#[test]
fn simultaneous_open_is_one_flow() {
    let mut flows = Flows::default();
    for (down, flags) in
        [(true, Flags::SYN), (false, Flags::SYN), (false, SYN_ACK), (true, SYN_ACK)]
    {
        let (seq, ack) = if down { (999, 5000) } else { (4999, 1000) };
        let ack = if flags.has(Flags::ACK) { ack } else { 0 };
        assert_eq!(wire(down, seq, ack, flags).process(&mut flows, Time(0)).unwrap().flow, 1);
    }
    let data = wire(true, 1010, 5020, Flags::ACK).process(&mut flows, Time(1)).unwrap();
    assert_eq!((data.seq, data.ack), (10, 20));
}

/// Of a connection on the ports of an earlier one, the SYN-ACK may be captured before the SYN too.
#[test]
fn reused_ports_start_a_new_flow_whatever_comes_first() {
    let [syn, answer, ack, data] = opening();
    let again = |packet: &Wire, forth: u32| {
        let add = |n: u32, by: u32| if n == 0 { 0 } else { n.wrapping_add(by) };
        let (seq, ack) = if packet.down { (forth, 7_000_000) } else { (7_000_000, forth) };
        Wire {
            options: packet.options,
            ..wire(packet.down, add(packet.seq, seq), add(packet.ack, ack), packet.flags)
        }
    };
    // Linux begins a connection in TIME-WAIT 65,537 bytes after the old one.
    for forth in [100 + 65_537, 1 << 20, 1 << 31, u32::MAX - 70_000] {
        for first in [&syn, &answer] {
            let mut flows = Flows::default();
            for packet in [&syn, &answer, &ack, &data] {
                packet.process(&mut flows, Time(0)).unwrap();
            }
            for packet in [first, &syn, &answer, &ack] {
                let segment = again(packet, forth).process(&mut flows, Time(1)).unwrap();
                assert_eq!((segment.flow, segment.seq, segment.ack), (2, 0, 0), "{forth}");
            }
            // A capture that began in the middle of the old connection.
            let mut flows = Flows::default();
            data.process(&mut flows, Time(0)).unwrap();
            assert_eq!(again(first, forth).process(&mut flows, Time(1)).unwrap().flow, 2);
        }
    }
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
    assert_eq!(
        flows.frame(Direction::Uplink, &Segment { flow: 9, ..ack }),
        Err(NoFrame::UnknownFlow)
    );
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
