//! The headers of each protocol: how long they are and what follows; and which number announces
//! which header.

use etherparse::LaxIpSlice;
use etherparse::checksum::Sum16BitWords;

use super::{Protocol, Step, Walk};
use crate::link::LinkType;
use crate::parse::{NotTcp, is_authenticated, read_ip, stated_length};

type Next = Result<Option<Step>, NotTcp>;
type Found = Result<Step, NotTcp>;

/// EtherType of Ethernet in GRE ("Transparent Ethernet Bridging", RFC 7637).
const BRIDGED: u16 = 0x6558;

/// Passes over the link header and says what follows it.
pub(super) fn by_link_type(link_type: LinkType, walk: &mut Walk<'_>) -> Found {
    let after = |walk: &mut Walk<'_>, length, step| walk.skip(length).map(|()| step);
    match link_type {
        LinkType::RAW | LinkType::RAW_BSD | LinkType::IPV4 | LinkType::IPV6 => Ok(Step(ip)),
        LinkType::NULL | LinkType::LOOP => after(walk, 4, Step(ip)),
        LinkType::ETHERNET => Ok(Step(ethernet_or_802_3)),
        LinkType::LINUX_SLL => {
            let step = by_ether_type(walk.u16(14)?)?;
            after(walk, 16, step)
        }
        LinkType::LINUX_SLL2 => {
            let step = by_ether_type(walk.u16(0)?)?;
            after(walk, 20, step)
        }
        LinkType::C_HDLC => {
            let step = by_ether_type(walk.u16(2)?)?;
            after(walk, 4, step)
        }
        LinkType::PPP | LinkType::PPP_HDLC => Ok(Step(ppp_hdlc)),
        LinkType::PPP_ETHER => Ok(Step(pppoe)),
        LinkType::MPLS => Ok(Step(mpls)),
        _ => Err(NotTcp::NotIp),
    }
}

/// EtherTypes (IEEE 802 numbers of IANA), also in GRE and Geneve.
fn by_ether_type(number: u16) -> Found {
    Ok(Step(match number {
        0x0800 | 0x86dd => ip,
        0x8100 | 0x88a8 | 0x9100 => vlan,
        0x8847 | 0x8848 => mpls,
        0x8864 => pppoe,
        0x6558 => ethernet,
        0x880b => ppp_hdlc,
        0x88be => erspan_2,
        0x22eb => erspan_3,
        0x8863 => return Err(NotTcp::Opaque("PPPoE discovery")),
        0x88e5 => return Err(NotTcp::Opaque("MACsec")),
        0x88e7 => return Err(NotTcp::Opaque("provider backbone bridging")),
        0x894f => return Err(NotTcp::Opaque("network service header")),
        _ => return Err(NotTcp::NotIp),
    }))
}

/// PPP protocol numbers.
fn by_ppp_protocol(number: u16) -> Found {
    Ok(Step(match number {
        0x0021 | 0x0057 => ip,
        0x0281 | 0x0283 => mpls,
        0x002d | 0x002f => return Err(NotTcp::Opaque("PPP with compressed TCP headers")),
        0x0061 | 0x0063 | 0x0065 | 0x0067 | 0x0069 => {
            return Err(NotTcp::Opaque("PPP with compressed IP headers"));
        }
        0x003d => return Err(NotTcp::Opaque("PPP multilink")),
        0x0053 | 0x0055 => return Err(NotTcp::Opaque("encrypted PPP")),
        0x00fb | 0x00fd => return Err(NotTcp::Opaque("compressed PPP")),
        _ => return Err(NotTcp::NotIp),
    }))
}

/// IP protocol numbers.
fn by_ip_protocol(number: u8) -> Found {
    Ok(Step(match number {
        4 | 41 | 94 => ip_in_ip,
        17 => udp,
        47 => gre,
        97 => ether_ip,
        137 => mpls,
        50 => return Err(NotTcp::Opaque("ESP")),
        51 => return Err(NotTcp::Opaque("IP authentication header")),
        55 => return Err(NotTcp::Opaque("minimal IP encapsulation")),
        108 => return Err(NotTcp::Opaque("compressed IP (IPComp)")),
        115 => return Err(NotTcp::Opaque("L2TP")),
        _ => return Err(NotTcp::OtherProtocol),
    }))
}

/// UDP ports; the destination counts before the source.
fn by_udp_port(source: u16, destination: u16) -> Found {
    let known = |port| {
        Some(Ok(Step(match port {
            2152 => gtp_u,
            // 8472 is the default port of Linux.
            4789 | 8472 => vxlan,
            4790 => vxlan_gpe,
            6081 => geneve,
            6635 => mpls,
            500 | 4500 => return Some(Err(NotTcp::Opaque("IPsec in UDP"))),
            1701 => return Some(Err(NotTcp::Opaque("L2TP"))),
            3544 => return Some(Err(NotTcp::Opaque("Teredo"))),
            4341 => return Some(Err(NotTcp::Opaque("LISP"))),
            5246 | 5247 => return Some(Err(NotTcp::Opaque("CAPWAP"))),
            51820 => return Some(Err(NotTcp::Opaque("WireGuard"))),
            _ => return None,
        })))
    };
    known(destination).or_else(|| known(source)).unwrap_or(Err(NotTcp::OtherProtocol))
}

/// The link header of a captured Ethernet frame.
fn ethernet_or_802_3(walk: &mut Walk<'_>) -> Next {
    walk.skip(12)?;
    ether_type(walk)
}

/// An Ethernet header inside another protocol.
fn ethernet(walk: &mut Walk<'_>) -> Next {
    walk.enter(Protocol::Ethernet, 12)?;
    ether_type(walk)
}

/// An EtherType, or a length (IEEE 802.3) and LLC with SNAP.
fn ether_type(walk: &mut Walk<'_>) -> Next {
    let number = walk.u16(0)?;
    if number >= 0x600 {
        walk.skip(2)?;
        return by_ether_type(number).map(Some);
    }
    // Only SNAP with the OUI 0 has an EtherType.
    if walk.bytes(2)? != [0xaa, 0xaa, 3, 0, 0, 0] {
        return Err(NotTcp::NotIp);
    }
    let number = walk.u16(8)?;
    walk.enter(Protocol::Snap, 10)?;
    by_ether_type(number).map(Some)
}

fn vlan(walk: &mut Walk<'_>) -> Next {
    walk.enter(Protocol::Vlan, 2)?;
    ether_type(walk)
}

fn pppoe(walk: &mut Walk<'_>) -> Next {
    let [version, code, _, _, high, low] = walk.bytes(0)?;
    if (version, code) != (0x11, 0) {
        return Err(NotTcp::Opaque("PPPoE discovery"));
    }
    walk.enter(Protocol::Pppoe, 6)?;
    walk.bound(usize::from(u16::from_be_bytes([high, low])));
    ppp(walk)
}

/// PPP with the address and control field of HDLC, or without it (RFC 1662, RFC 1661 section 6.6).
fn ppp_hdlc(walk: &mut Walk<'_>) -> Next {
    if walk.u16(0)? == 0xff03 {
        walk.skip(2)?;
    }
    ppp(walk)
}

fn ppp(walk: &mut Walk<'_>) -> Next {
    // The field has one byte if it is compressed (RFC 1661, section 6.5).
    let [first] = walk.bytes(0)?;
    let (number, length) = if first & 1 == 1 { (u16::from(first), 1) } else { (walk.u16(0)?, 2) };
    walk.enter(Protocol::Ppp, length)?;
    by_ppp_protocol(number).map(Some)
}

/// A label stack. The labels do not say what follows: IP, or a pseudo-wire with Ethernet, with or
/// without a control word (RFC 4385, RFC 4928).
fn mpls(walk: &mut Walk<'_>) -> Next {
    let mut length = 0;
    loop {
        let [_, _, third, _] = walk.bytes(length)?;
        length += 4;
        if third & 1 == 1 {
            break;
        }
    }
    walk.enter(Protocol::Mpls, length)?;
    let [first] = walk.bytes(0)?;
    let has_control_word = first >> 4 == 0
        && (walk.rest().get(4..).is_some_and(is_ethernet) || !is_ethernet(walk.rest()));
    if has_control_word {
        walk.enter(Protocol::ControlWord, 4)?;
        return Ok(Some(Step(ethernet)));
    }
    ip_or_ethernet(walk, "MPLS payload")
}

/// What a header carries that does not say it.
fn ip_or_ethernet(walk: &Walk<'_>, otherwise: &'static str) -> Next {
    let rest = walk.rest();
    let version = rest.first().map_or(0, |first| first >> 4);
    match version {
        4 | 6 if is_ip(rest) || !is_ethernet(rest) => Ok(Some(Step(ip))),
        _ if is_ethernet(rest) => Ok(Some(Step(ethernet))),
        _ => Err(NotTcp::Opaque(otherwise)),
    }
}

/// The bytes begin with an Ethernet header with a known EtherType.
fn is_ethernet(bytes: &[u8]) -> bool {
    let number = bytes.get(12..).and_then(<[u8]>::first_chunk).map(|b| u16::from_be_bytes(*b));
    let version = bytes.get(14).map(|first| first >> 4);
    match number {
        Some(0x0800) => version == Some(4),
        Some(0x86dd) => version == Some(6),
        Some(number) => number != BRIDGED && by_ether_type(number).is_ok(),
        None => false,
    }
}

/// The bytes begin with an IPv4 header with a valid checksum, or an IPv6 header with a length that
/// fits.
fn is_ip(bytes: &[u8]) -> bool {
    match bytes {
        [first, ..] if first >> 4 == 4 => {
            let header = bytes.get(..usize::from(first & 15) * 4).filter(|h| h.len() >= 20);
            header.is_some_and(|h| Sum16BitWords::new().add_slice(h).ones_complement() == 0)
        }
        [first, _, _, _, high, low, ..] if first >> 4 == 6 => {
            40 + usize::from(u16::from_be_bytes([*high, *low])) <= bytes.len()
        }
        _ => false,
    }
}

fn ip(walk: &mut Walk<'_>) -> Next {
    let packet = walk.rest();
    let ip = read_ip(packet).map_err(|e| match e {
        NotTcp::CutShort => walk.too_short(packet.len() + 1),
        e => e,
    })?;
    // A segment that the device is to split (TSO) has a length of 0.
    let length = stated_length(&ip);
    if length >= 20 {
        walk.bound(length);
    }
    let content = ip.payload();
    if is_authenticated(&ip) {
        return Err(NotTcp::Opaque("IP authentication header"));
    }
    if content.ip_number == etherparse::IpNumber::TCP {
        return Ok(None);
    }
    // The payload is a subslice of the packet, so the difference of their addresses is its offset.
    let length = content.payload.as_ptr().addr() - packet.as_ptr().addr();
    let protocol = match ip {
        LaxIpSlice::Ipv4(_) => Protocol::Ipv4,
        LaxIpSlice::Ipv6(_) => Protocol::Ipv6,
    };
    walk.enter(protocol, length)?;
    by_ip_protocol(content.ip_number.0).map(Some)
}

fn ip_in_ip(walk: &mut Walk<'_>) -> Next {
    walk.enter(Protocol::IpInIp, 0)?;
    Ok(Some(Step(ip)))
}

fn udp(walk: &mut Walk<'_>) -> Next {
    let (source, destination, length) = (walk.u16(0)?, walk.u16(2)?, walk.u16(4)?);
    let next = by_udp_port(source, destination)?;
    // A length of 0 stands for the rest of a jumbogram (RFC 2675) or of an offloaded packet.
    if length != 0 {
        walk.bound(usize::from(length));
    }
    walk.enter(Protocol::Udp, 8)?;
    Ok(Some(next))
}

fn gtp_u(walk: &mut Walk<'_>) -> Next {
    const T_PDU: u8 = 255;
    let [flags, kind, high, low] = walk.bytes(0)?;
    if flags & 0xf0 != 0x30 {
        return Err(NotTcp::OtherProtocol);
    }
    if kind != T_PDU {
        return Err(NotTcp::Opaque("GTP-U signalling"));
    }
    walk.bound(8 + usize::from(u16::from_be_bytes([high, low])));
    let mut length = 8;
    // Any of the flags E, S and PN adds four bytes; the last is the type of the extension header.
    if flags & 0x07 != 0 {
        length += 4;
    }
    if flags & 0x04 != 0 {
        while walk.bytes(length - 1)? != [0] {
            match walk.bytes(length)? {
                [0] => return Err(NotTcp::MalformedTunnel),
                [words] => length += usize::from(words) * 4,
            }
        }
    }
    walk.enter(Protocol::GtpU, length)?;
    ip_or_ethernet(walk, "GTP-U payload")
}

fn vxlan(walk: &mut Walk<'_>) -> Next {
    let [flags] = walk.bytes(0)?;
    if flags & 0x08 == 0 {
        return Err(NotTcp::OtherProtocol);
    }
    walk.enter(Protocol::Vxlan, 8)?;
    Ok(Some(Step(ethernet)))
}

fn vxlan_gpe(walk: &mut Walk<'_>) -> Next {
    let [flags, _, _, next] = walk.bytes(0)?;
    walk.enter(Protocol::Vxlan, 8)?;
    match (flags & 0x04 != 0, next) {
        (false, _) | (true, 3) => Ok(Some(Step(ethernet))),
        (true, 1 | 2) => Ok(Some(Step(ip))),
        (true, 5) => Ok(Some(Step(mpls))),
        _ => Err(NotTcp::Opaque("VXLAN-GPE payload")),
    }
}

fn geneve(walk: &mut Walk<'_>) -> Next {
    let [first, _, high, low] = walk.bytes(0)?;
    if first >> 6 != 0 {
        return Err(NotTcp::OtherProtocol);
    }
    walk.enter(Protocol::Geneve, 8 + usize::from(first & 0x3f) * 4)?;
    by_ether_type(u16::from_be_bytes([high, low])).map(Some)
}

fn gre(walk: &mut Walk<'_>) -> Next {
    let (flags, number) = (walk.u16(0)?, walk.u16(2)?);
    let has = |bit: u16| usize::from(flags & bit != 0);
    let (checksum, routing, key, sequence, version) =
        (has(0x8000), has(0x4000), has(0x2000), has(0x1000), flags & 7);
    if routing == 1 || version > 1 {
        return Err(NotTcp::Opaque("GRE of an unknown version"));
    }
    // Version 1 (PPTP) may acknowledge; its key begins with the length of the payload.
    let acknowledgment = if version == 1 { has(0x0080) } else { 0 };
    let length = 4 + 4 * (checksum + key + sequence + acknowledgment);
    if version == 1 {
        let payload = walk.u16(4)?;
        walk.bound(length + usize::from(payload));
    }
    walk.enter(Protocol::Gre, length)?;
    // ERSPAN has a header from type II on, whose GRE header has a sequence number.
    match number {
        0x88be if sequence == 0 => Ok(Some(Step(ethernet))),
        _ => by_ether_type(number).map(Some),
    }
}

fn erspan_2(walk: &mut Walk<'_>) -> Next {
    walk.enter(Protocol::Erspan, 8)?;
    Ok(Some(Step(ethernet)))
}

/// ERSPAN type III, with the platform-specific subheader if its flag is set.
fn erspan_3(walk: &mut Walk<'_>) -> Next {
    let [flags] = walk.bytes(11)?;
    walk.enter(Protocol::Erspan, if flags & 1 == 1 { 20 } else { 12 })?;
    Ok(Some(Step(ethernet)))
}

fn ether_ip(walk: &mut Walk<'_>) -> Next {
    walk.enter(Protocol::EtherIp, 2)?;
    Ok(Some(Step(ethernet)))
}
