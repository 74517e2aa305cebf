use std::net::SocketAddr;

use etherparse::TcpHeader;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop_wire::{Addressing, assemble, has_valid_checksum};
use proptest::prelude::*;

use super::*;
use crate::gateway::{Part, part_of};

const MSS: usize = 1000;
const SERVER: &str = "192.0.2.1:80";
const MOBILE: &str = "198.51.100.2:5000";
/// ISNs of server and mobile.
const ISN: [u32; 2] = [u32::MAX - 500, 7000];

struct Bed {
    engine: Engine,
    now: Time,
    out: Vec<Injected>,
}

fn agent(scheme: &str) -> AnyAgent {
    match part_of(&SchemeChoice::parse(scheme).unwrap().scheme, false) {
        Ok(Part::Agent(agent)) => *agent,
        _ => panic!("no agent"),
    }
}

/// A packet of the server (downlink) or the mobile, with numbers relative to the first bytes.
fn packet(
    direction: Direction,
    (seq, ack): (u32, u32),
    payload: &[u8],
    change: impl FnOnce(&mut TcpHeader),
) -> Vec<u8> {
    let (from, to, [own, other]) = match direction {
        Direction::Downlink => (SERVER, MOBILE, ISN),
        Direction::Uplink => (MOBILE, SERVER, [ISN[1], ISN[0]]),
    };
    let mut tcp = TcpHeader::new(0, 0, own.wrapping_add(1).wrapping_add(seq), 500);
    tcp.ack = true;
    tcp.acknowledgment_number = other.wrapping_add(1).wrapping_add(ack);
    change(&mut tcp);
    let addressing = Addressing {
        source: from.parse::<SocketAddr>().unwrap(),
        destination: to.parse().unwrap(),
        hop_limit: 63,
        traffic_class: 0,
        flow_label: 0,
    };
    assemble(&addressing, &tcp, payload)
}

fn syn(direction: Direction, is_answer: bool) -> Vec<u8> {
    packet(direction, (u32::MAX, 0), &[], |tcp| {
        (tcp.syn, tcp.ack) = (true, is_answer);
        // MSS 1000, window scale 4.
        tcp.set_options_raw(&[2, 4, 3, 232, 1, 3, 3, 4]).unwrap();
    })
}

/// Replaces the checksum of a packet by the sum of its pseudo-header, as a kernel with checksum
/// offload does.
fn without_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    let tcp = parse(&packet).unwrap();
    let (at, length) = (tcp.tcp_at, packet.len() - tcp.tcp_at);
    let mut sum = 6 + length as u64;
    for pair in packet[at - 8..at].chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[at + 16..at + 18].copy_from_slice(&(sum as u16).to_be_bytes());
    packet
}

impl Bed {
    fn new(scheme: &str, rate: Option<Rate>) -> Bed {
        let agent = agent(scheme);
        Bed { engine: Engine::new(agent, 100, rate), now: Time(0), out: Vec::new() }
    }

    /// A bed with an open connection.
    fn open(scheme: &str, rate: Option<Rate>) -> Bed {
        let mut bed = Bed::new(scheme, rate);
        assert_eq!(bed.give(Direction::Uplink, &syn(Direction::Uplink, false)), Fate::Accepted);
        assert_eq!(bed.engine.counts().shown, 0);
        assert_eq!(bed.give(Direction::Downlink, &syn(Direction::Downlink, true)), Fate::Accepted);
        assert_eq!(bed.engine.counts().shown, 1);
        bed
    }

    fn given(&mut self, direction: Direction, given: Given<'_>) -> Fate {
        self.now += lasthop::units::Duration::millis(1);
        self.engine.packet(self.now, direction, given, &mut self.out)
    }

    fn give(&mut self, direction: Direction, bytes: &[u8]) -> Fate {
        self.given(direction, Given { bytes, is_gso: false, lacks_checksum: false })
    }

    fn ack(&mut self, ack: u32) -> Fate {
        self.give(Direction::Uplink, &packet(Direction::Uplink, (0, ack), &[], |_| {}))
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 % 251) as u8).collect()
}

#[test]
fn snoop_repeats_a_segment_whose_checksum_the_kernel_had_not_completed() {
    let mut bed = Bed::open("snoop", None);
    let whole = bytes(5 * MSS);
    for (i, part) in whole.chunks(MSS).enumerate() {
        let sent = packet(Direction::Downlink, ((i * MSS) as u32, 0), part, |_| {});
        let sent = without_checksum(sent);
        assert!(!has_valid_checksum(&sent));
        let given = Given { bytes: &sent, is_gso: false, lacks_checksum: true };
        assert_eq!(bed.given(Direction::Downlink, given), Fate::Accepted);
    }
    assert_eq!(bed.ack(1000), Fate::Accepted);
    assert!(bed.out.is_empty());
    // The segment from 1000 was lost: duplicate ACKs stay here.
    let fates: Vec<Fate> = (0..3).map(|_| bed.ack(1000)).collect();
    assert!(fates.contains(&Fate::Dropped), "{fates:?}");
    let [repeated] = &bed.out[..] else { panic!("{:?}", bed.out) };
    assert_eq!(
        (repeated.direction, repeated.to),
        (Direction::Downlink, "198.51.100.2".parse().unwrap())
    );
    assert!(has_valid_checksum(&repeated.bytes));
    let tcp = parse(&repeated.bytes).unwrap();
    assert_eq!(tcp.seq, ISN[0].wrapping_add(1001));
    assert_eq!(tcp.payload, &whole[MSS..2 * MSS]);
}

#[test]
fn a_super_packet_is_shown_as_segments_and_goes_on_whole() {
    let mut bed = Bed::open("snoop", None);
    let whole = bytes(10 * MSS + 10);
    let sent = packet(Direction::Downlink, (0, 0), &whole, |_| {});
    let given = Given { bytes: &sent, is_gso: true, lacks_checksum: true };
    assert_eq!(bed.given(Direction::Downlink, given), Fate::Accepted);
    assert_eq!(bed.engine.counts().shown, 1 + 11);
    bed.ack(9000);
    for _ in 0..2 {
        bed.ack(9000);
    }
    let [repeated] = &bed.out[..] else { panic!("{:?}", bed.out) };
    assert!(has_valid_checksum(&repeated.bytes));
    assert_eq!(parse(&repeated.bytes).unwrap().payload, &whole[9 * MSS..10 * MSS]);
    // Without the flag, a packet of this size cannot have been on the wire.
    let sent = packet(Direction::Downlink, (whole.len() as u32, 0), &whole, |_| {});
    assert_eq!(bed.give(Direction::Downlink, &sent), Fate::Accepted);
    assert_eq!(bed.engine.counts().untouched["larger than a segment of its connection"], 1);
}

#[test]
fn a_window_is_rewritten_with_a_valid_checksum() {
    let mut bed = Bed::open("rate-control:pacing=false", Some(Rate(1_000_000)));
    for i in 0..20_u32 {
        bed.give(
            Direction::Downlink,
            &packet(Direction::Downlink, (i * 1000, 0), &bytes(MSS), |_| {}),
        );
        bed.now += lasthop::units::Duration::millis(10);
        let ack =
            packet(Direction::Uplink, (0, (i + 1) * 1000), &[], |tcp| tcp.window_size = 60_000);
        let ack = without_checksum(ack);
        let given = Given { bytes: &ack, is_gso: false, lacks_checksum: true };
        if let Fate::Replaced(changed) = bed.given(Direction::Uplink, given) {
            assert!(has_valid_checksum(&changed));
            assert!(parse(&changed).unwrap().window < 60_000);
            return;
        }
    }
    panic!("no window was rewritten");
}

#[test]
fn strangers_change_nothing() {
    let mut bed = Bed::open("snoop", None);
    for i in 0..3 {
        bed.give(
            Direction::Downlink,
            &packet(Direction::Downlink, (i * 1000, 0), &bytes(MSS), |_| {}),
        );
    }
    let shown = bed.engine.counts().shown;
    // Data that was never sent is acknowledged, or lies outside every window.
    assert_eq!(bed.ack(1_000_000), Fate::Accepted);
    let far = packet(Direction::Downlink, (1 << 31, 0), &bytes(MSS), |_| {});
    assert_eq!(bed.give(Direction::Downlink, &far), Fate::Accepted);
    // A connection that existed before.
    let mut other = packet(Direction::Downlink, (0, 0), &bytes(10), |tcp| tcp.ack = true);
    other[20] ^= 1;
    assert_eq!(bed.give(Direction::Downlink, &other), Fate::Accepted);
    assert_eq!(bed.engine.counts().shown, shown);
    assert_eq!(bed.engine.counts().untouched["acknowledges data that was not seen"], 1);
    assert_eq!(bed.engine.counts().untouched["outside every window"], 1);
    assert_eq!(bed.engine.counts().untouched["connection whose beginning was not seen"], 1);
    assert!(bed.out.is_empty());
    // The connection goes on.
    assert_eq!(bed.ack(2000), Fate::Accepted);
    assert_eq!(bed.engine.counts().shown, shown + 1);
}

#[test]
fn a_flood_of_syns_is_bounded() {
    let mut bed = Bed::new("snoop", None);
    for i in 0..10_000_u32 {
        let mut flood = syn(Direction::Downlink, false);
        flood[12..16].copy_from_slice(&i.to_be_bytes());
        bed.give(Direction::Downlink, &flood);
    }
    assert_eq!(bed.engine.flows().len(), 100);
    assert_eq!((bed.engine.counts().shown, bed.engine.stored()), (0, 0));
    assert_eq!(bed.engine.flows().seen(), 10_000);
}

#[test]
fn what_the_agent_knows_is_forgotten() {
    let mut bed = Bed::open("snoop", None);
    bed.give(Direction::Downlink, &packet(Direction::Downlink, (0, 0), &bytes(MSS), |_| {}));
    assert_eq!(bed.engine.stored(), 1);
    let agent = agent("snoop");
    bed.engine.forget(agent, 100);
    assert_eq!((bed.engine.stored(), bed.engine.flows().len()), (0, 0));
    assert_eq!(bed.engine.next(), Time::NEVER);
}

proptest! {
    #[test]
    fn no_packet_causes_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in 0..60_usize,
        is_gso: bool,
        lacks_checksum: bool,
        is_random: bool,
    ) {
        let mut bed = Bed::open("snoop", None);
        let direction = if at % 2 == 0 { Direction::Downlink } else { Direction::Uplink };
        let mut given = packet(direction, (0, 0), &bytes, |_| {});
        if let (Some(byte), Some(with)) = (given.get_mut(at), bytes.first()) {
            *byte = *with;
        }
        let bytes = if is_random { &bytes } else { &given };
        bed.given(direction, Given { bytes, is_gso, lacks_checksum });
    }
}
