//! Encapsulations: the innermost packet is found, other packets are put behind the headers, and no
//! input breaks either.

use std::net::SocketAddr;

use crate::wrappers::ALL;
use etherparse::TcpHeader;
use lasthop_wire::encapsulation::{Innermost, MAX_HEADERS};
use lasthop_wire::{Addressing, LinkType, NotTcp, Patch, assemble, innermost, parse, patch};
use proptest::prelude::*;

/// A TCP packet, by IPv4 or IPv6.
fn packet(v6: bool, ack: u32, payload: usize) -> Vec<u8> {
    let end = |n| match v6 {
        true => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, n], 80)),
        false => SocketAddr::from(([192, 0, 2, n as u8], 80)),
    };
    let addressing = Addressing {
        source: end(1),
        destination: end(2),
        hop_limit: 60,
        traffic_class: 0,
        flow_label: 0,
    };
    let tcp = TcpHeader { acknowledgment_number: ack, ack: true, ..TcpHeader::default() };
    assemble(&addressing, &tcp, &vec![7; payload])
}

fn ecn_marked(mut packet: Vec<u8>) -> Vec<u8> {
    lasthop_wire::mark_congestion_experienced(&mut packet);
    packet
}

#[test]
fn the_innermost_packet_is_found() {
    for (i, wrapper) in ALL.iter().enumerate() {
        for v6 in [false, true] {
            let inner = packet(v6, 5, 100);
            // Short Ethernet frames are padded.
            let frame = [(wrapper.wrap)(&inner, true), vec![0; 5]].concat();
            let found = innermost(wrapper.link_type, &frame)
                .unwrap_or_else(|e| panic!("{i} {}: {e}", wrapper.names));
            assert_eq!(found.encapsulation.names(), wrapper.names, "{i}");
            let found = &frame[found.ip_at..found.end];
            assert_eq!(found, inner, "{i} {}", wrapper.names);
        }
    }
}

#[test]
fn new_packets_get_right_lengths_and_checksums_and_edits_keep_them() {
    for (i, wrapper) in ALL.iter().enumerate() {
        for (v6, size) in [(false, 0), (true, 0), (false, 33), (true, 1301)] {
            let (old, new) = (packet(v6, 5, 100), packet(v6, 9, size));
            let frame = (wrapper.wrap)(&old, true);
            let found = innermost(wrapper.link_type, &frame).unwrap();
            let prefix = &frame[..found.ip_at];
            let wrapped = found.encapsulation.wrap(prefix, &new);
            assert_eq!(wrapped, (wrapper.wrap)(&new, true), "{i} {}", wrapper.names);

            let edits = Patch { ack: Some(0xdead_beef), window: Some(77), eln: true };
            let (mut edited, mut inner) = (frame.clone(), old.clone());
            patch(&mut edited[found.ip_at..], edits).unwrap();
            patch(&mut inner, edits).unwrap();
            assert_eq!(edited, (wrapper.wrap)(&inner, true), "{i} {}", wrapper.names);
        }
    }
}

#[test]
fn outer_headers_have_the_ecn_field_of_the_packet() {
    for wrapper in ALL.iter().filter(|w| w.link_type == LinkType::RAW && !w.names.is_empty()) {
        let frame = (wrapper.wrap)(&packet(false, 5, 100), true);
        let found = innermost(wrapper.link_type, &frame).unwrap();
        let prefix = &frame[..found.ip_at];
        let marked = found.encapsulation.wrap(prefix, &ecn_marked(packet(true, 5, 100)));
        let class = if marked[0] >> 4 == 6 { marked[1] >> 4 } else { marked[1] };
        assert_eq!(class & 3, 3, "{}", wrapper.names);
        let again = innermost(wrapper.link_type, &marked).unwrap();
        assert_eq!(found.encapsulation.wrap(&marked[..again.ip_at], &frame[found.ip_at..]), frame);
    }
}

#[test]
fn only_headers_without_a_direction_are_reversed() {
    for wrapper in &ALL {
        let inner = packet(false, 5, 0);
        let [mut down, up] = [true, false].map(|down| (wrapper.wrap)(&inner, down));
        let found = innermost(wrapper.link_type, &down).unwrap();
        let is_reversed = found.encapsulation.reverse(&mut down[..found.ip_at]);
        assert_eq!(is_reversed, !found.encapsulation.is_tunnel());
        assert!(!is_reversed || down == up, "{}", wrapper.names);
    }
}

/// An IPv4 packet of this protocol.
fn ipv4(protocol: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16 + 20).to_be_bytes();
    let head = [0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1];
    [&head[..], &[10, 0, 0, 2], content].concat()
}

fn udp(port: u16, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16 + 8).to_be_bytes();
    ipv4(17, &[&[0, 9][..], &port.to_be_bytes(), &length, &[0, 0], content].concat())
}

#[test]
fn what_is_hidden_is_named() {
    let raw = |packet: Vec<u8>| innermost(LinkType::RAW, &packet).unwrap_err();
    for (protocol, name) in [
        (50, "ESP"),
        (55, "minimal IP encapsulation"),
        (108, "compressed IP (IPComp)"),
        (115, "L2TP"),
    ] {
        assert_eq!(raw(ipv4(protocol, &[1; 40])), NotTcp::Opaque(name));
    }
    let authentication = [6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let authenticated = ipv4(51, &[&authentication[..], &packet(false, 1, 0)[20..]].concat());
    assert_eq!(raw(authenticated), NotTcp::Opaque("IP authentication header"));
    for (port, name) in [
        (500, "IPsec in UDP"),
        (4500, "IPsec in UDP"),
        (1701, "L2TP"),
        (51820, "WireGuard"),
        (3544, "Teredo"),
    ] {
        assert_eq!(raw(udp(port, &[1; 40])), NotTcp::Opaque(name));
    }
    assert_eq!(
        raw(udp(2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0])),
        NotTcp::Opaque("GTP-U signalling")
    );
    assert_eq!(
        raw(udp(2152, &[0x30, 255, 0, 4, 0, 0, 0, 0, 9, 9, 9, 9])),
        NotTcp::Opaque("GTP-U payload")
    );
    assert_eq!(raw(udp(53, &[1; 40])), NotTcp::OtherProtocol);
    let ether_type = |n: u16| [&[0; 12][..], &n.to_be_bytes(), &[0; 40]].concat();
    let ethernet = |frame: Vec<u8>| innermost(LinkType::ETHERNET, &frame).unwrap_err();
    assert_eq!(ethernet(ether_type(0x88e5)), NotTcp::Opaque("MACsec"));
    assert_eq!(ethernet(ether_type(0x8863)), NotTcp::Opaque("PPPoE discovery"));
    assert_eq!(ethernet(ether_type(0x0806)), NotTcp::NotIp);
    let ppp = |n: u16| [&n.to_be_bytes()[..], &[0; 40]].concat();
    let link = |n| innermost(LinkType::PPP, &ppp(n)).unwrap_err();
    assert_eq!(
        (link(0x002d), link(0xc021)),
        (NotTcp::Opaque("PPP with compressed TCP headers"), NotTcp::NotIp)
    );
    let fragment = |mut packet: Vec<u8>| {
        packet[6] = 0x20;
        raw(packet)
    };
    assert_eq!(fragment(udp(2152, &[0x30; 40])), NotTcp::Fragment);
    assert_eq!(innermost(LinkType(147), &[0; 60]), Err(NotTcp::NotIp));
}

#[test]
fn nesting_has_a_limit() {
    let nested = |n| (0..n).fold(packet(false, 1, 0), |inner, _| ipv4(4, &inner));
    // Each level has the header and the mark of IP in IP.
    let deepest = MAX_HEADERS / 2;
    assert!(innermost(LinkType::RAW, &nested(deepest)).is_ok());
    for deeper in [deepest + 1, 1000] {
        assert_eq!(innermost(LinkType::RAW, &nested(deeper)), Err(NotTcp::TooDeep));
    }
}

#[test]
fn packets_longer_than_the_packet_around_are_read_as_truncated() {
    let gtp = |p: &[u8]| {
        let length = (p.len() as u16).to_be_bytes();
        udp(2152, &[&[0x30, 255, length[0], length[1], 0, 0, 0, 0][..], p].concat())
    };
    for wrap in [|p: &[u8]| ipv4(4, p), gtp] {
        let mut inner = packet(false, 1, 50);
        inner[3] += 100;
        let frame = [wrap(&inner), vec![0; 9]].concat();
        let found = innermost(LinkType::RAW, &frame).unwrap();
        let tcp = parse(&frame[found.ip_at..found.end]).unwrap();
        assert_eq!((tcp.payload.len(), tcp.payload_len), (50, 150));
    }
}

#[test]
fn headers_longer_than_the_packet_around_are_malformed() {
    // An extension header of GTP-U without length, and one that goes on after the end.
    for length in [0, 100] {
        let gtp =
            [&[0x34, 255, 0, 44, 0, 0, 0, 0, 0, 0, 0, 0x85, length][..], &[0x85; 39]].concat();
        assert_eq!(innermost(LinkType::RAW, &udp(2152, &gtp)), Err(NotTcp::MalformedTunnel));
    }
}

/// Nothing is said but what the frame contains, and all is usable.
fn check(link_type: LinkType, frame: &[u8]) {
    let Ok(Innermost { ip_at, end, encapsulation }) = innermost(link_type, frame) else { return };
    assert!(ip_at <= end && end <= frame.len());
    let _ = parse(&frame[ip_at..end]);
    let wrapped = encapsulation.wrap(&frame[..ip_at], &packet(true, 1, 10));
    assert_eq!(wrapped.len(), ip_at + 70);
    encapsulation.reverse(&mut wrapped[..ip_at].to_vec());
}

#[test]
fn truncated_frames_are_cut_short() {
    for wrapper in &ALL {
        let frame = (wrapper.wrap)(&packet(false, 1, 10), true);
        let whole = innermost(wrapper.link_type, &frame).unwrap();
        for length in 0..frame.len() {
            check(wrapper.link_type, &frame[..length]);
            let found = innermost(wrapper.link_type, &frame[..length]);
            let tcp = found.map(|f| (f.ip_at, parse(&frame[f.ip_at..length]).is_ok()));
            let headers = whole.ip_at + 40;
            assert_eq!(
                tcp == Ok((whole.ip_at, true)),
                length >= headers,
                "{length} {}",
                wrapper.names
            );
            assert_ne!(tcp, Err(NotTcp::MalformedTunnel), "{length} {}", wrapper.names);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_accepted(
        number in 0u16..300, bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        check(LinkType(number), &bytes);
        check(LinkType::RAW, &bytes);
        check(LinkType::ETHERNET, &bytes);
    }

    #[test]
    fn damaged_frames_are_accepted(
        which in 0..ALL.len(), v6: bool, keep in 0usize..400,
        damage in prop::collection::vec((0usize..150, any::<u8>()), 1..4),
    ) {
        let wrapper = &ALL[which];
        let mut frame = (wrapper.wrap)(&packet(v6, 1, 60), true);
        for (at, value) in damage {
            let at = at % frame.len();
            frame[at] = value;
        }
        frame.truncate(keep);
        check(wrapper.link_type, &frame);
    }
}
