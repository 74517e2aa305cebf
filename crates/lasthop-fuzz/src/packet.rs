//! Packets: arbitrary frames are parsed and edited, arbitrary segments rendered and parsed.

use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop::segment::{Block, Flags, Options, Payload, SackBlocks, Segment};
use lasthop::snack::Snack;
use lasthop_wire::encapsulation::{Innermost, innermost};
use lasthop_wire::parse::ELN_BIT;
use lasthop_wire::{
    Endpoints, LinkType, Patch, Side, TcpPacket, assemble, parse, patch, render_with,
};

use crate::input::Input;

const LINK_TYPES: [LinkType; 15] = [
    LinkType::RAW,
    LinkType::ETHERNET,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::RAW_BSD,
    LinkType(147),
    LinkType::PPP,
    LinkType::PPP_HDLC,
    LinkType::PPP_ETHER,
    LinkType::C_HDLC,
    LinkType::MPLS,
];

/// Byte 0 selects a frame (link type, edits, bytes of the frame) or the fields of a segment.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.value::<u8>() % 4 == 3 {
        segment(&mut input);
    } else {
        frame(input);
    }
}

fn frame(mut input: Input<'_>) {
    let link_type = *input.choose(&LINK_TYPES);
    let edits =
        Patch { ack: input.value(), window: input.value(), eln: input.value::<u8>() % 2 == 1 };
    let ack = u64::from(input.value::<u32>());
    let mut frame = input.rest().to_vec();
    let Ok(Innermost { ip_at: at, end, encapsulation }) = innermost(link_type, &frame) else {
        return;
    };
    assert!(at < end && end <= frame.len());
    frame.truncate(end);
    let wrapped = encapsulation.wrap(&frame[..at], &frame[at..]);
    assert_eq!(wrapped[at..], frame[at..]);
    let is_whole = |tcp: TcpPacket<'_>| tcp.total_len as usize == end - at && end < 1500;
    if parse(&frame[at..]).is_ok_and(is_whole) {
        let again = innermost(link_type, &wrapped).expect("a wrapped packet can be found");
        assert_eq!((again.ip_at, again.end, &again.encapsulation), (at, end, &encapsulation));
    }
    encapsulation.reverse(&mut frame[..at]);
    let original = frame[at..].to_vec();
    let Ok(before) = parse(&original) else {
        assert!(
            patch(&mut frame[at..], edits).is_err(),
            "a packet that cannot be parsed was edited"
        );
        assert_eq!(frame[at..], original);
        return;
    };
    check_fields(&before, original.len(), ack);
    patch(&mut frame[at..], edits).expect("a parsed packet can be edited");
    check_edits(&before, &original, &frame[at..], edits);
    let mut header = lasthop_wire::Numbering::default().tcp_header(&Segment::default());
    header.sequence_number = before.seq;
    let assembled = assemble(&before.addressing, &header, before.payload);
    let reparsed = parse(&assembled).expect("an assembled packet can be parsed");
    assert_eq!((reparsed.seq, reparsed.payload), (before.seq, before.payload));
    assert_eq!(reparsed.addressing.source.port(), before.addressing.source.port());
}

fn check_fields(tcp: &TcpPacket<'_>, length: usize, ack: u64) {
    assert!(tcp.tcp_at + 20 + tcp.option_bytes.len() + tcp.payload.len() <= length);
    assert!(tcp.payload.len() <= tcp.payload_len as usize);
    assert!(tcp.tcp_at + 20 + tcp.payload_len as usize <= tcp.total_len as usize);
    let (flags, options) = tcp.segment_options(ack, 1460);
    assert_eq!(flags.has(Flags::SNACK), options.snack != Snack::NONE);
    assert_eq!(tcp.flags().has(Flags::TIMESTAMPS), tcp.timestamps().is_some());
}

/// The edited fields have their new values, the checksum is as valid as before, and nothing else
/// has changed.
fn check_edits(before: &TcpPacket<'_>, original: &[u8], edited: &[u8], edits: Patch) {
    let after = parse(edited).expect("an edited packet can be parsed");
    assert_eq!(after.ack, edits.ack.unwrap_or(before.ack));
    assert_eq!(after.window, edits.window.unwrap_or(before.window));
    let eln = if edits.eln { ELN_BIT } else { 0 };
    assert_eq!(after.flag_bits, before.flag_bits | eln);
    let (ack, window, flag_bits) = (before.ack, before.window, before.flag_bits);
    let expected = TcpPacket { ack, window, flag_bits, ..after.clone() };
    assert_eq!(&expected, before);
    // The sum over the header may not change modulo 0xffff (RFC 1624).
    let header = before.tcp_at..before.tcp_at + 20;
    assert_eq!(sum(&original[header.clone()]) % 0xffff, sum(&edited[header]) % 0xffff);
}

/// Sum of the 16-bit big-endian words.
fn sum(bytes: &[u8]) -> u64 {
    let word = |w: &[u8]| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

fn segment(input: &mut Input<'_>) {
    let mut side = || Side {
        address: SocketAddrV4::new(Ipv4Addr::from_bits(input.value()), input.value()),
        isn: input.value(),
        window_scale: input.up_to(20) as u8,
    };
    let endpoints = Endpoints { sender: side(), receiver: side(), mss: input.value() };
    // Large payloads are rare because their checksums are slow.
    let len = if input.up_to(255) == 255 { input.value() } else { input.up_to(1500) as u32 };
    let segment = Segment {
        seq: input.value::<u64>() >> input.up_to(63),
        ack: input.value::<u64>() >> input.up_to(63),
        len,
        window: input.value(),
        ts_value: input.value(),
        ts_echo: input.value(),
        payload: Payload::NONE,
        flags: Flags(input.value()),
        forward: input.value::<u8>() % 2 == 1,
        ..Segment::default()
    };
    let mut sack = SackBlocks::NONE;
    (0..input.up_to(5)).for_each(|_| sack.push(input.value(), input.value()));
    let mut hole = || Block { start: input.value(), end: input.value() };
    let snack = Snack::of([hole(), hole(), hole()].into_iter(), u32::from(endpoints.mss));
    let options = Options {
        sack,
        named: input.value(),
        report: input.value(),
        snack: snack.unwrap_or(Snack::NONE),
    };
    check_rendered(&segment, &render_with(&segment, &options, &endpoints), &endpoints);
}

fn check_rendered(segment: &Segment, packet: &[u8], endpoints: &Endpoints) {
    assert!(packet.len() <= usize::from(u16::MAX));
    assert_eq!(sum_with_fields(packet), 0, "invalid TCP or UDP checksum");
    if segment.flags.any(Flags::DATAGRAM) {
        return assert!(parse(packet).is_err());
    }
    let tcp = parse(packet).expect("a rendered segment can be parsed");
    check_fields(&tcp, packet.len(), segment.ack);
    if segment.notice().is_some() {
        return;
    }
    let numbering = endpoints.numbering(segment.forward);
    let syn = segment.flags.has(Flags::SYN);
    let expected = numbering.seq_zero.wrapping_add(segment.seq as u32).wrapping_sub(u32::from(syn));
    assert_eq!(tcp.seq, expected);
    assert_eq!(tcp.window, numbering.window_field(segment.window, syn));
    let headers = 40 + tcp.option_bytes.len();
    assert_eq!(u64::from(tcp.payload_len), u64::from(segment.len).min(65_535 - headers as u64));
    let carried = Flags(0xff).without(Flags::CE);
    assert_eq!(tcp.flags().0 & carried.0, segment.flags.0 & carried.0);
}

/// The sum over pseudo-header and transport segment modulo 0xffff: 0 if the checksum is valid (RFC
/// 9293 section 3.1; RFC 768).
fn sum_with_fields(packet: &[u8]) -> u64 {
    let transport = &packet[20..];
    let pseudo = sum(&packet[12..20]) + u64::from(packet[9]) + transport.len() as u64;
    assert_eq!(sum(&packet[..20]) % 0xffff, 0, "invalid IP header checksum");
    (pseudo + sum(transport)) % 0xffff
}
