//! Encapsulations for tests: each puts an IP packet into headers with right lengths and checksums.

use lasthop_wire::LinkType;

/// An IP packet in the headers of one direction.
pub type Wrap = fn(&[u8], bool) -> Vec<u8>;

/// An encapsulation: its names in reports, link type, and frames.
pub struct Wrapper {
    pub names: &'static str,
    pub link_type: LinkType,
    pub wrap: Wrap,
}

const fn wrapper(names: &'static str, link_type: LinkType, wrap: Wrap) -> Wrapper {
    Wrapper { names, link_type, wrap }
}

/// One of each kind, and combinations.
pub const ALL: [Wrapper; 36] = [
    wrapper("", LinkType::RAW, |p, _| p.to_vec()),
    wrapper("", LinkType::ETHERNET, |p, down| ethernet(ip_type(p), p, down)),
    wrapper("", LinkType::ETHERNET, snap),
    wrapper("", LinkType::LINUX_SLL, |p, _| [&[0; 14][..], &ip_type(p).to_be_bytes(), p].concat()),
    wrapper("", LinkType::LINUX_SLL2, |p, _| [&ip_type(p).to_be_bytes()[..], &[0; 18], p].concat()),
    wrapper("", LinkType::C_HDLC, |p, _| [&[15, 0][..], &ip_type(p).to_be_bytes(), p].concat()),
    wrapper("", LinkType::PPP, |p, _| ppp(p)),
    wrapper("", LinkType::PPP_HDLC, |p, _| [&[0xff, 3][..], &ppp(p)].concat()),
    wrapper("PPPoE", LinkType::PPP_ETHER, |p, _| pppoe(p)),
    wrapper("MPLS", LinkType::MPLS, mpls),
    wrapper("VLAN", LinkType::ETHERNET, |p, down| ethernet(0x8100, &vlan(5, ip_type(p), p), down)),
    wrapper("VLAN, VLAN, PPPoE", LinkType::ETHERNET, |p, down| {
        ethernet(0x88a8, &vlan(7, 0x8100, &vlan(5, 0x8864, &pppoe(p))), down)
    }),
    wrapper("VLAN, PPPoE", LinkType::LINUX_SLL2, |p, _| {
        [&[0x81, 0][..], &[0; 18], &vlan(5, 0x8864, &pppoe(p))].concat()
    }),
    wrapper("MPLS", LinkType::ETHERNET, |p, down| ethernet(0x8847, &mpls(p, down), down)),
    wrapper("MPLS", LinkType::ETHERNET, |p, down| {
        ethernet(0x8847, &mpls(&ethernet(ip_type(p), p, down), down), down)
    }),
    wrapper("MPLS, pseudo-wire, VLAN", LinkType::ETHERNET, |p, down| {
        let frame = ethernet(0x8100, &vlan(9, ip_type(p), p), down);
        ethernet(0x8847, &mpls(&[&[0, 0, 0, 1][..], &frame].concat(), down), down)
    }),
    wrapper("GTP-U", LinkType::RAW, |p, down| ipv4(17, &udp4(2152, &gtp(p, down), down), down)),
    wrapper("GTP-U", LinkType::ETHERNET, |p, down| {
        ethernet(0x86dd, &ipv6(17, &udp6(2152, &gtp(p, down), down), down), down)
    }),
    wrapper("GTP-U", LinkType::ETHERNET, |p, down| {
        ethernet(0x0800, &ipv4(17, &unsummed(udp4(2152, &gtp_5g(p, down), down)), down), down)
    }),
    wrapper("VLAN, MPLS, GTP-U", LinkType::ETHERNET, |p, down| {
        let gtp = ipv4(17, &udp4(2152, &gtp_5g(p, down), down), down);
        ethernet(0x8100, &vlan(5, 0x8847, &mpls(&gtp, down)), down)
    }),
    wrapper("VXLAN", LinkType::ETHERNET, |p, down| {
        let frame = ethernet(ip_type(p), p, down);
        ethernet(0x0800, &ipv4(17, &udp4(4789, &vxlan(&frame), down), down), down)
    }),
    wrapper("VXLAN, VLAN, GTP-U", LinkType::ETHERNET, |p, down| {
        let gtp = ipv4(17, &unsummed(udp4(2152, &gtp(p, down), down)), down);
        let frame = ethernet(0x8100, &vlan(5, 0x0800, &gtp), down);
        ethernet(0x0800, &ipv4(17, &udp4(8472, &vxlan(&frame), down), down), down)
    }),
    wrapper("VXLAN", LinkType::RAW, |p, down| {
        let kind = if p[0] >> 4 == 6 { 2 } else { 1 };
        ipv4(17, &udp4(4790, &[&[0x0c, 0, 0, kind, 0, 0, 42, 0][..], p].concat(), down), down)
    }),
    wrapper("Geneve", LinkType::RAW, |p, down| {
        let frame = ethernet(ip_type(p), p, down);
        ipv6(17, &udp6(6081, &geneve(0x6558, &frame), down), down)
    }),
    wrapper("Geneve", LinkType::RAW, |p, down| {
        ipv4(17, &udp4(6081, &geneve(ip_type(p), p), down), down)
    }),
    wrapper("MPLS", LinkType::RAW, |p, down| ipv4(17, &udp4(6635, &mpls(p, down), down), down)),
    wrapper("GRE", LinkType::RAW, |p, down| ipv4(47, &gre(0, ip_type(p), p), down)),
    wrapper("GRE", LinkType::RAW, |p, down| ipv6(47, &gre(0xb000, ip_type(p), p), down)),
    wrapper("GRE", LinkType::RAW, |p, down| {
        ipv4(47, &gre(0xb000, 0x6558, &ethernet(ip_type(p), p, down)), down)
    }),
    wrapper("GRE", LinkType::RAW, |p, down| ipv4(47, &pptp(p), down)),
    wrapper("GRE, ERSPAN", LinkType::RAW, |p, down| {
        let frame = ethernet(ip_type(p), p, down);
        ipv4(47, &gre(0x1000, 0x88be, &[&[0x10; 8][..], &frame].concat()), down)
    }),
    wrapper("GRE, ERSPAN, VLAN", LinkType::RAW, |p, down| {
        let frame = ethernet(0x8100, &vlan(5, ip_type(p), p), down);
        ipv4(47, &gre(0x1000, 0x22eb, &[&[0x20; 11][..], &[1], &[0; 8], &frame].concat()), down)
    }),
    wrapper("GRE", LinkType::RAW, |p, down| {
        ipv4(47, &gre(0, 0x88be, &ethernet(ip_type(p), p, down)), down)
    }),
    wrapper("IP-in-IP", LinkType::RAW, |p, down| ipv4(ip_protocol(p), p, down)),
    wrapper("IP-in-IP, IP-in-IP", LinkType::RAW, |p, down| {
        ipv4(41, &ipv6_with_options(ip_protocol(p), p, down), down)
    }),
    wrapper("EtherIP", LinkType::RAW, |p, down| {
        ipv4(97, &[&[0x30, 0][..], &ethernet(ip_type(p), p, down)].concat(), down)
    }),
];

fn ip_type(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 }
}

fn ip_protocol(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 6 { 41 } else { 4 }
}

fn ethernet(ether_type: u16, content: &[u8], down: bool) -> Vec<u8> {
    let addresses = if down { b"\x02mobi\x01\x02serv\x02" } else { b"\x02serv\x02\x02mobi\x01" };
    [&addresses[..], &ether_type.to_be_bytes(), content].concat()
}

fn snap(packet: &[u8], down: bool) -> Vec<u8> {
    let head = [0xaa, 0xaa, 3, 0, 0, 0];
    let content = [&head[..], &ip_type(packet).to_be_bytes(), packet].concat();
    ethernet(content.len() as u16, &content, down)
}

fn vlan(id: u16, ether_type: u16, content: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &ether_type.to_be_bytes(), content].concat()
}

fn ppp(packet: &[u8]) -> Vec<u8> {
    [if packet[0] >> 4 == 6 { &[0, 0x57][..] } else { &[0x21] }, packet].concat()
}

fn pppoe(packet: &[u8]) -> Vec<u8> {
    let content = ppp(packet);
    [&[0x11, 0, 0, 77][..], &(content.len() as u16).to_be_bytes(), &content].concat()
}

/// Two labels.
fn mpls(content: &[u8], down: bool) -> Vec<u8> {
    [&[0, 1, 0x20 + u8::from(down) * 0x10, 64][..], &[0, 2, 0x31, 63], content].concat()
}

fn gtp(packet: &[u8], down: bool) -> Vec<u8> {
    let length = (packet.len() as u16).to_be_bytes();
    [&[0x30, 255][..], &length, &[0, 0, 0, u8::from(down)], packet].concat()
}

/// With a sequence number and two extension headers: PDU session container, and one of 8 bytes.
fn gtp_5g(packet: &[u8], down: bool) -> Vec<u8> {
    let length = (packet.len() as u16 + 16).to_be_bytes();
    let more = [0, 9, 0, 0x85, 1, 0, 1, 0x40, 2, 0, 0, 0, 0, 0, 0, 0];
    [&[0x36, 255][..], &length, &[0, 0, 0, u8::from(down)], &more, packet].concat()
}

fn vxlan(frame: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, 42, 0][..], frame].concat()
}

/// With one option.
fn geneve(ether_type: u16, content: &[u8]) -> Vec<u8> {
    let option = [1, 2, 3, 1, 5, 6, 7, 8];
    [&[2, 0][..], &ether_type.to_be_bytes(), &[0, 0, 42, 0], &option, content].concat()
}

/// With the fields that the flags name.
fn gre(flags: u16, protocol: u16, content: &[u8]) -> Vec<u8> {
    let mut bytes = [flags.to_be_bytes(), protocol.to_be_bytes()].concat();
    for bit in [0x8000, 0x2000, 0x1000] {
        if flags & bit != 0 {
            bytes.extend(if bit == 0x8000 { [0; 4] } else { [0, 0, 3, 4] });
        }
    }
    bytes.extend(content);
    if flags & 0x8000 != 0 {
        let sum = checksum(&[&bytes]);
        bytes[4..6].copy_from_slice(&sum);
    }
    bytes
}

/// GRE version 1 with sequence and acknowledgment number.
fn pptp(packet: &[u8]) -> Vec<u8> {
    let content = [&[0xff, 3][..], &ppp(packet)].concat();
    let length = (content.len() as u16).to_be_bytes();
    [&[0x30, 0x81, 0x88, 0x0b][..], &length, &[0, 1], &[0, 0, 0, 2, 0, 0, 0, 3], &content].concat()
}

fn udp(port: u16, content: &[u8], addresses: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16 + 8).to_be_bytes();
    let mut bytes = [&[0xd0, 1][..], &port.to_be_bytes(), &length, &[0, 0], content].concat();
    let sum = match checksum(&[addresses, &[0, 17], &length, &bytes]) {
        [0, 0] => [0xff, 0xff],
        sum => sum,
    };
    bytes[6..8].copy_from_slice(&sum);
    bytes
}

fn udp4(port: u16, content: &[u8], down: bool) -> Vec<u8> {
    udp(port, content, &addresses(4, down))
}

fn udp6(port: u16, content: &[u8], down: bool) -> Vec<u8> {
    udp(port, content, &addresses(16, down))
}

/// UDP without a checksum.
fn unsummed(mut udp: Vec<u8>) -> Vec<u8> {
    udp[6..8].fill(0);
    udp
}

fn addresses(length: usize, down: bool) -> Vec<u8> {
    let host = |n| [&[10][..], &vec![0; length - 2], &[n]].concat();
    if down { [host(1), host(2)].concat() } else { [host(2), host(1)].concat() }
}

/// With an option of four bytes.
fn ipv4(protocol: u8, content: &[u8], down: bool) -> Vec<u8> {
    let length = (content.len() as u16 + 24).to_be_bytes();
    let mut bytes = [0x46, 0x28, length[0], length[1], 0, 7, 0, 0, 62, protocol, 0, 0].to_vec();
    bytes.extend(addresses(4, down));
    bytes.extend([0x94, 4, 0, 0]);
    let sum = checksum(&[&bytes]);
    bytes[10..12].copy_from_slice(&sum);
    bytes.extend(content);
    bytes
}

fn ipv6(protocol: u8, content: &[u8], down: bool) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    let head = [0x62, 0x80, 0, 3, length[0], length[1], protocol, 61];
    [&head[..], &addresses(16, down), content].concat()
}

/// With hop-by-hop and destination options.
fn ipv6_with_options(protocol: u8, content: &[u8], down: bool) -> Vec<u8> {
    let options = [60, 0, 1, 4, 0, 0, 0, 0, protocol, 0, 1, 4, 0, 0, 0, 0];
    ipv6(0, &[&options[..], content].concat(), down)
}

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let word = |w: &[u8]| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
