//! Renders simulated segments as packets that Wireshark can read: IPv4 with TCP or UDP and valid
//! checksums.
//!
//! Fields that a simulated segment does not have are fixed, so that equal segments give equal
//! bytes: IP identification 0 with "don't fragment" (RFC 6864), TTL 64, no PSH. The payload is a
//! function of the stream offset: each line of 16 bytes is its own offset in hexadecimal. The
//! packet length is the sum of its headers and payload. `Segment::size` may differ: it follows the
//! header conventions of the scenario (ns-2 counts 40 bytes regardless of options).

use std::net::{IpAddr, Ipv6Addr, SocketAddrV4};

use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, UdpHeader};
use lasthop::segment::{Flags, Notice, NoticeKind, Options, Segment};

use crate::addressing::Addressing;
use crate::options::{EXPERIMENTAL, NAMED_ID, OptionBytes, REPORT_ID, SackBlocks, TcpOption};
use crate::patch::{Patch, patch};
use crate::snack::SnackOption;

/// TTL of rendered packets.
pub const TTL: u8 = 64;

/// The largest shift of a window field (RFC 7323 section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Address and port.
    pub address: SocketAddrV4,
    /// Initial sequence number.
    pub isn: u32,
    /// Window scale of this side: windows are rounded down to multiples of 2^shift bytes. See
    /// [`window_scale_for`].
    pub window_scale: u8,
}

/// The two ends of a connection. For datagrams only the addresses are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The data sender; segments with `Segment::forward` come from it.
    pub sender: Side,
    /// The data receiver; segments without `Segment::forward` come from it.
    pub receiver: Side,
    /// Maximum segment size that both ends announce, bytes.
    pub mss: u16,
}

/// The origins of the numbers in TCP headers, for one direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    /// Sequence number of stream offset 0: ISN + 1.
    pub seq_zero: u32,
    /// Acknowledgment number of stream offset 0 of the other direction.
    pub ack_zero: u32,
    /// Window scale.
    pub window_scale: u8,
}

/// The smallest window scale that can represent a window of `bytes` (RFC 7323 section 2.2). Windows
/// up to 65,535 bytes have shift 0 and are exact.
pub fn window_scale_for(bytes: u64) -> u8 {
    (0..MAX_WINDOW_SCALE).find(|s| bytes >> s <= u64::from(u16::MAX)).unwrap_or(MAX_WINDOW_SCALE)
}

impl Endpoints {
    /// The numbering of the segments in this direction.
    pub fn numbering(&self, forward: bool) -> Numbering {
        let (from, to) = self.ordered(forward);
        Numbering {
            seq_zero: from.isn.wrapping_add(1),
            ack_zero: to.isn.wrapping_add(1),
            window_scale: from.window_scale,
        }
    }

    fn ordered(&self, forward: bool) -> (&Side, &Side) {
        if forward { (&self.sender, &self.receiver) } else { (&self.receiver, &self.sender) }
    }
}

impl Numbering {
    /// The acknowledgment field for stream offset `ack`.
    pub fn ack_field(&self, ack: u64) -> u32 {
        self.ack_zero.wrapping_add(ack as u32)
    }

    /// The window field for `bytes`, rounded down to the window scale. A SYN is never scaled (RFC
    /// 7323 section 2.2).
    pub fn window_field(&self, bytes: u32, syn: bool) -> u16 {
        let shift = if syn { 0 } else { self.window_scale.min(MAX_WINDOW_SCALE) };
        u16::try_from(bytes >> shift).unwrap_or(u16::MAX)
    }

    /// The header of `segment`: sequence and acknowledgment numbers, flags, window and timestamps.
    /// Ports and checksum are not set.
    pub fn tcp_header(&self, segment: &Segment) -> TcpHeader {
        let flag = |f| segment.flags.has(f);
        let syn = flag(Flags::SYN);
        let mut header = TcpHeader {
            // The SYN occupies the sequence number before offset 0.
            sequence_number: self
                .seq_zero
                .wrapping_add(segment.seq as u32)
                .wrapping_sub(u32::from(syn)),
            acknowledgment_number: if flag(Flags::ACK) { self.ack_field(segment.ack) } else { 0 },
            window_size: self.window_field(segment.window, syn),
            syn,
            ack: flag(Flags::ACK),
            fin: flag(Flags::FIN),
            rst: flag(Flags::RST),
            ece: flag(Flags::ECE),
            cwr: flag(Flags::CWR),
            ns: flag(Flags::AE),
            ..TcpHeader::default()
        };
        set_options(&mut header, &timestamps(segment));
        header
    }

    /// The header of `segment` with those of `options` that its flags mark as present, as far as
    /// they fit. A SYN gets none but timestamps: its sender writes what it offers.
    pub fn tcp_header_with(&self, segment: &Segment, options: &Options) -> TcpHeader {
        let mut header = self.tcp_header(segment);
        if segment.flags.any(Flags::OPTIONS) && !segment.flags.has(Flags::SYN) {
            // Cannot fail: there are at most 40 padded bytes.
            header.set_options_raw(self.options(segment, options).padded()).unwrap_or_default();
        }
        header
    }

    /// The options that the flags of `segment` mark as present: timestamps, SNACK, the experimental
    /// options and as many SACK blocks as fit.
    fn options(&self, segment: &Segment, options: &Options) -> OptionBytes {
        let mut bytes = written(&timestamps(segment));
        let flag = |f| segment.flags.has(f);
        let snack = SnackOption::of(&options.snack, segment.ack).filter(|_| flag(Flags::SNACK));
        let (named, report) =
            (self.ack_field(options.named).to_be_bytes(), options.report.to_be_bytes());
        let named = flag(Flags::NAMED).then_some(TcpOption::Experimental {
            kind: EXPERIMENTAL,
            id: NAMED_ID,
            data: &named,
        });
        let report = flag(Flags::REPORT).then_some(TcpOption::Experimental {
            kind: EXPERIMENTAL,
            id: REPORT_ID,
            data: &report,
        });
        for option in [snack.as_ref().map(SnackOption::option), named, report].into_iter().flatten()
        {
            bytes.push(option).unwrap_or_default();
        }
        let blocks: Vec<(u32, u32)> = options
            .sack
            .as_slice()
            .iter()
            .map(|b| (self.ack_field(b.start), self.ack_field(b.end)))
            .collect();
        for count in (1..=blocks.len()).rev().filter(|_| flag(Flags::SACK)) {
            let mut longer = bytes;
            let list = [
                TcpOption::NoOperation,
                TcpOption::NoOperation,
                TcpOption::Sack(SackBlocks::new(blocks.get(..count).unwrap_or_default())),
            ];
            if list.iter().try_for_each(|&o| longer.push(o)).is_ok() {
                return longer;
            }
        }
        bytes
    }
}

/// The timestamps option, if the segment has it, aligned to four bytes.
fn timestamps(segment: &Segment) -> Vec<TcpOption<'static>> {
    let stamps = TcpOption::Timestamps { value: segment.ts_value, echo: segment.ts_echo };
    if segment.flags.has(Flags::TIMESTAMPS) {
        vec![TcpOption::NoOperation, TcpOption::NoOperation, stamps]
    } else {
        vec![]
    }
}

/// Replaces the options of a header; those that do not fit are left out.
fn set_options(header: &mut TcpHeader, list: &[TcpOption<'_>]) {
    // Cannot fail: there are at most 40 padded bytes.
    header.set_options_raw(written(list).padded()).unwrap_or_default();
}

fn written(list: &[TcpOption<'_>]) -> OptionBytes {
    let mut bytes = OptionBytes::default();
    list.iter().for_each(|&o| bytes.push(o).unwrap_or_default());
    bytes
}

/// An IP packet with this TCP header, payload and valid checksums. The payload is truncated so that
/// the packet does not exceed 65,535 bytes.
pub fn assemble(addressing: &Addressing, tcp: &TcpHeader, payload: &[u8]) -> Vec<u8> {
    let mut tcp = tcp.clone();
    tcp.source_port = addressing.source.port();
    tcp.destination_port = addressing.destination.port();
    let room = usize::from(u16::MAX) - Ipv4Header::MIN_LEN - tcp.header_len();
    let payload = payload.get(..room).unwrap_or(payload);
    let length = (tcp.header_len() + payload.len()) as u16;
    let mut out;
    match (addressing.source.ip(), addressing.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = ipv4(addressing, source.octets(), destination.octets(), length, IpNumber::TCP);
            // Cannot fail: the payload fits.
            tcp.checksum = tcp.calc_checksum_ipv4(&ip, payload).unwrap_or_default();
            out = Vec::with_capacity(Ipv4Header::MIN_LEN + usize::from(length));
            out.extend_from_slice(&ip.to_bytes());
        }
        (source, destination) => {
            let ip = Ipv6Header {
                traffic_class: addressing.traffic_class,
                flow_label: Ipv6FlowLabel::try_new(addressing.flow_label & 0xf_ffff)
                    .unwrap_or_default(),
                payload_length: length,
                next_header: IpNumber::TCP,
                hop_limit: addressing.hop_limit,
                source: ipv6(source).octets(),
                destination: ipv6(destination).octets(),
            };
            tcp.checksum = tcp.calc_checksum_ipv6(&ip, payload).unwrap_or_default();
            out = Vec::with_capacity(Ipv6Header::LEN + usize::from(length));
            out.extend_from_slice(&ip.to_bytes());
        }
    }
    out.extend_from_slice(&tcp.to_bytes());
    out.extend_from_slice(payload);
    out
}

fn ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped(),
        IpAddr::V6(a) => a,
    }
}

fn ipv4(
    addressing: &Addressing,
    source: [u8; 4],
    destination: [u8; 4],
    payload: u16,
    protocol: IpNumber,
) -> Ipv4Header {
    let class = addressing.traffic_class;
    let mut ip = Ipv4Header {
        // Six bits and two bits always fit.
        dscp: (class >> 2).try_into().unwrap_or_default(),
        ecn: (class & 3).try_into().unwrap_or_default(),
        total_len: payload.saturating_add(Ipv4Header::MIN_LEN_U16),
        identification: 0,
        dont_fragment: true,
        time_to_live: addressing.hop_limit,
        protocol,
        source,
        destination,
        ..Ipv4Header::default()
    };
    ip.header_checksum = ip.calc_header_checksum();
    ip
}

/// `length` payload bytes starting at stream offset `offset`. Each 16-byte line is the offset of
/// its first byte in hexadecimal (modulo 2^60) and a line feed.
pub fn filler(offset: u64, length: usize) -> Vec<u8> {
    let skipped = (offset % 16) as usize;
    let mut bytes = Vec::with_capacity(length + 31);
    let mut line = offset - offset % 16;
    while bytes.len() < skipped + length {
        bytes.extend((0..15).map(|i| match (line >> (56 - 4 * i) & 15) as u8 {
            digit @ 0..10 => b'0' + digit,
            digit => b'a' - 10 + digit,
        }));
        bytes.push(b'\n');
        line = line.wrapping_add(16);
    }
    bytes.truncate(skipped + length);
    bytes.drain(..skipped);
    bytes
}

/// Renders `segment` as an IPv4 packet without SACK, SNACK or experimental options.
///
/// Sequence and acknowledgment numbers are relative to the ISNs, modulo 2^32. A SYN announces `mss`
/// and the window scale of its side; its window is not scaled. A datagram becomes UDP. The payload
/// is truncated so that the packet does not exceed 65,535 bytes.
///
/// # Examples
///
/// ```
/// use std::net::{Ipv4Addr, SocketAddrV4};
///
/// use lasthop::segment::{Flags, Segment};
/// use lasthop_wire::{Endpoints, Side, parse, render};
///
/// let side = |host, isn| Side {
///     address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 5001),
///     isn,
///     window_scale: 0,
/// };
/// let endpoints = Endpoints { sender: side(1, 1000), receiver: side(2, 9000), mss: 1448 };
/// let segment = Segment {
///     forward: true,
///     seq: 2896,
///     len: 1448,
///     ack: 0,
///     window: 65_535,
///     flags: Flags::ACK,
///     ..Segment::default()
/// };
/// let packet = render(&segment, &endpoints);
/// let tcp = parse(&packet).unwrap();
/// // Stream offset 0 has the sequence number ISN + 1.
/// assert_eq!((tcp.seq, tcp.ack, tcp.payload_len), (3897, 9001, 1448));
/// ```
pub fn render(segment: &Segment, endpoints: &Endpoints) -> Vec<u8> {
    render_with(segment, &Options::NONE, endpoints)
}

/// The ECN field of the IP header (RFC 3168, section 5; RFC 9331) of a segment with these flags.
pub fn ecn_field(flags: Flags) -> u8 {
    match (flags.has(Flags::CE), flags.has(Flags::ECT), flags.has(Flags::ECT1)) {
        (true, ..) => 3,
        (_, true, true) => 1,
        (_, true, false) => 2,
        (_, false, _) => 0,
    }
}

/// Renders `segment` as [`render`] does, with those of `options` that its flags mark as present.
pub fn render_with(segment: &Segment, options: &Options, endpoints: &Endpoints) -> Vec<u8> {
    let (from, to) = endpoints.ordered(segment.forward);
    let addressing = Addressing {
        source: from.address.into(),
        destination: to.address.into(),
        hop_limit: TTL,
        traffic_class: ecn_field(segment.flags),
        flow_label: 0,
    };
    let payload = filler(segment.seq, segment.len.min(u32::from(u16::MAX)) as usize);
    if segment.flags.has(Flags::DATAGRAM) {
        return udp(&addressing, from, to, &payload);
    }
    if let Some(notice) = segment.notice() {
        return notice_packet(&addressing, endpoints, &notice);
    }
    let numbering = endpoints.numbering(segment.forward);
    let mut tcp = numbering.tcp_header_with(segment, options);
    if segment.flags.has(Flags::SYN) {
        let scale = [
            TcpOption::NoOperation,
            TcpOption::WindowScale(from.window_scale.min(MAX_WINDOW_SCALE)),
        ];
        set_options(
            &mut tcp,
            &[
                &[TcpOption::MaximumSegmentSize(endpoints.mss)],
                timestamps(segment).as_slice(),
                &scale,
            ]
            .concat(),
        );
    }
    let mut packet = assemble(&addressing, &tcp, &payload);
    // Cannot fail: the packet is TCP.
    patch(&mut packet, Patch { eln: segment.flags.has(Flags::ELN), ..Patch::default() })
        .unwrap_or_default();
    packet
}

/// A notice has the form of an ACK from the data receiver (yun2009, section 3.1). The
/// acknowledgment number identifies the segment, the two lower of the three reserved bits the kind
/// of notice: 01 is ERSN, 10 is ELN.
fn notice_packet(addressing: &Addressing, endpoints: &Endpoints, notice: &Notice) -> Vec<u8> {
    let numbering = endpoints.numbering(false);
    let tcp = TcpHeader {
        sequence_number: numbering.seq_zero,
        acknowledgment_number: numbering.ack_field(notice.value),
        ack: true,
        ..TcpHeader::default()
    };
    let mut packet = assemble(addressing, &tcp, &[]);
    let bits: u8 = match notice.kind {
        NoticeKind::Ersn => 0b0010,
        NoticeKind::Eln => 0b0100,
        _ => 0b0110,
    };
    // Byte 12 of the TCP header holds the data offset and the reserved bits. The checksum is
    // updated in one's complement arithmetic (RFC 1624).
    let (at, sum_at) = (Ipv4Header::MIN_LEN + 12, Ipv4Header::MIN_LEN + 16);
    if let Some(byte) = packet.get_mut(at) {
        *byte |= bits;
    }
    if let Some([high, low]) = packet.get_mut(sum_at..sum_at + 2) {
        let sum = u32::from(!u16::from_be_bytes([*high, *low])) + (u32::from(bits) << 8);
        [*high, *low] = (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes();
    }
    packet
}

fn udp(addressing: &Addressing, from: &Side, to: &Side, payload: &[u8]) -> Vec<u8> {
    let room = usize::from(u16::MAX) - Ipv4Header::MIN_LEN - UdpHeader::LEN;
    let payload = payload.get(..room).unwrap_or(payload);
    let length = (UdpHeader::LEN + payload.len()) as u16;
    let ip = ipv4(
        addressing,
        from.address.ip().octets(),
        to.address.ip().octets(),
        length,
        IpNumber::UDP,
    );
    let mut udp = UdpHeader {
        source_port: from.address.port(),
        destination_port: to.address.port(),
        length,
        checksum: 0,
    };
    // Cannot fail: the payload fits. etherparse writes a checksum of 0 as 0xffff, because 0 means
    // "no checksum" (RFC 768).
    udp.checksum = udp.calc_checksum_ipv4(&ip, payload).unwrap_or_default();
    let mut out = Vec::with_capacity(usize::from(ip.total_len));
    out.extend_from_slice(&ip.to_bytes());
    out.extend_from_slice(&udp.to_bytes());
    out.extend_from_slice(payload);
    out
}
