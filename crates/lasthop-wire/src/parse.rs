//! Parses TCP packets over IPv4 and IPv6, including options and extension headers.

use std::net::{IpAddr, SocketAddr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpNumber, LaxIpSlice, TcpHeaderSlice, TcpSlice};
use lasthop::segment::{self, Flags};
use thiserror::Error;

use crate::addressing::Addressing;
use crate::options::{EXPERIMENTAL, NAMED_ID, Options, REPORT_ID, TcpOption, options};
use crate::snack::read_snack;

/// The highest of the three reserved bits of the TCP header, in the 16-bit word that begins with
/// the data offset. Set on an ACK, it is an explicit loss notification. The other two bits give the
/// kind of a notice.
pub const ELN_BIT: u16 = 0x0800;

/// A TCP packet with complete headers. The capture may have truncated the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpPacket<'a> {
    /// Addresses, ports and the other fields of the IP header.
    pub addressing: Addressing,
    /// Length of the IP packet on the wire, bytes, headers included.
    pub total_len: u32,
    /// Offset of the TCP header in the IP packet, bytes.
    pub tcp_at: usize,
    /// Sequence number field.
    pub seq: u32,
    /// Acknowledgment number field.
    pub ack: u32,
    /// The nine flag bits in wire representation (FIN is 1, NS is 256), and [`ELN_BIT`].
    pub flag_bits: u16,
    /// Window field, before scaling.
    pub window: u16,
    /// Raw bytes of the TCP options.
    pub option_bytes: &'a [u8],
    /// The captured part of the payload.
    pub payload: &'a [u8],
    /// Payload length on the wire, bytes.
    pub payload_len: u32,
}

/// Why a packet cannot be read as TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("{}", self.reason())]
pub enum NotTcp {
    /// Neither IPv4 nor IPv6, or an invalid IP header.
    NotIp,
    /// A fragment of a larger packet.
    Fragment,
    /// Another protocol. This includes TCP behind an authentication header (RFC 4302), which must
    /// not be edited.
    OtherProtocol,
    /// The packet was truncated within its headers.
    CutShort,
    /// The TCP header is invalid.
    Malformed,
    /// A protocol that may carry TCP, but encrypts or compresses it or is not known well enough;
    /// its name.
    Opaque(&'static str),
    /// A header of an encapsulation is invalid, or exceeds the packet around it.
    MalformedTunnel,
    /// More headers than are followed.
    TooDeep,
}

impl NotTcp {
    /// Short description, used as the key of per-reason counters.
    pub fn reason(self) -> &'static str {
        match self {
            NotTcp::NotIp => "not IP",
            NotTcp::Fragment => "fragment",
            NotTcp::OtherProtocol => "not TCP",
            NotTcp::CutShort => "cut short within the headers",
            NotTcp::Malformed => "malformed TCP header",
            NotTcp::Opaque(name) => name,
            NotTcp::MalformedTunnel => "malformed tunnel header",
            NotTcp::TooDeep => "nested too deep",
        }
    }
}

/// Parses an IP packet. Bytes after its end (padding of short Ethernet frames) are ignored.
/// Checksums are not verified: with checksum offload, captures on the sending host contain packets
/// whose checksum the network card has not yet computed.
///
/// # Errors
///
/// [`NotTcp`] with the reason why the packet cannot be read as TCP.
///
/// # Examples
///
/// ```
/// use lasthop_wire::{NotTcp, parse};
///
/// assert_eq!(parse(&[]).unwrap_err(), NotTcp::CutShort);
/// assert_eq!(parse(&[0; 40]).unwrap_err(), NotTcp::NotIp);
/// ```
pub fn parse(packet: &[u8]) -> Result<TcpPacket<'_>, NotTcp> {
    let ip = read_ip(packet)?;
    let content = ip.payload();
    if content.ip_number != IpNumber::TCP || is_authenticated(&ip) {
        return Err(NotTcp::OtherProtocol);
    }
    let IpFields { length, hop_limit, traffic_class, flow_label } = fields(&ip);
    let segment = content.payload;
    // The payload is a subslice of the packet, so the difference of their addresses is its offset.
    let tcp_at = segment.as_ptr().addr() - packet.as_ptr().addr();
    // TSO segments above 64 KiB have a length field of 0; use the frame length then.
    let total_len = length.max(tcp_at + segment.len());
    let tcp = TcpHeaderSlice::from_slice(segment).map_err(|e| match e {
        etherparse::err::tcp::HeaderSliceError::Len(_) if content.incomplete => NotTcp::CutShort,
        _ => NotTcp::Malformed,
    })?;
    let header = tcp.slice();
    let Some(([.., offset, flags, _, _, _, _, _, _], option_bytes)) = header.split_at_checked(20)
    else {
        return Err(NotTcp::CutShort);
    };
    Ok(TcpPacket {
        addressing: Addressing {
            source: socket(ip.source_addr(), tcp.source_port()),
            destination: socket(ip.destination_addr(), tcp.destination_port()),
            hop_limit,
            traffic_class,
            flow_label,
        },
        total_len: total_len as u32,
        tcp_at,
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flag_bits: (u16::from(*offset) << 8 | u16::from(*flags)) & (0x1ff | ELN_BIT),
        window: tcp.window_size(),
        option_bytes,
        payload: segment.get(header.len()..).unwrap_or_default(),
        payload_len: (total_len - tcp_at - header.len()) as u32,
    })
}

/// True if the TCP checksum of an IP packet is right (RFC 9293, section 3.1), and that of its IPv4
/// header (RFC 1122, section 3.2.1.2). False for a packet that [`parse`] refuses, and for one that
/// is truncated.
pub fn has_valid_checksum(packet: &[u8]) -> bool {
    let Ok(ip) = read_ip(packet) else { return false };
    let content = ip.payload();
    let is_tcp = content.ip_number == IpNumber::TCP && !content.incomplete;
    if !is_tcp || TcpSlice::from_slice(content.payload).is_err() {
        return false;
    }
    let (header, addresses): (&[u8], _) = match &ip {
        LaxIpSlice::Ipv4(v4) => (v4.header().slice(), v4.header().slice().get(12..20)),
        LaxIpSlice::Ipv6(v6) => (&[], v6.header().slice().get(8..40)),
    };
    // RFC 1071, section 1: the sum of all words, checksum included, is all ones. A checksum of all
    // ones is as good as one of zero.
    let is_right = |sum: Sum16BitWords| sum.ones_complement() == 0;
    let length = (content.payload.len() as u32).to_be_bytes();
    let pseudo_header = Sum16BitWords::new()
        .add_slice(addresses.unwrap_or_default())
        .add_4bytes(length)
        .add_2bytes([0, IpNumber::TCP.0]);
    (header.is_empty() || is_right(Sum16BitWords::new().add_slice(header)))
        && is_right(pseudo_header.add_slice(content.payload))
}

/// The headers of an IP packet that is not a fragment and whose extension headers are complete.
pub(crate) fn read_ip(packet: &[u8]) -> Result<LaxIpSlice<'_>, NotTcp> {
    let first = *packet.first().ok_or(NotTcp::CutShort)?;
    let (ip, stop) = LaxIpSlice::from_slice(packet).map_err(|e| {
        if matches!(first >> 4, 4 | 6) && is_len(&e) { NotTcp::CutShort } else { NotTcp::NotIp }
    })?;
    let content = ip.payload();
    if content.fragmented {
        return Err(NotTcp::Fragment);
    }
    // Do not iterate over extension headers that failed to parse: etherparse 0.21 does not check
    // their length fields.
    if stop.is_some() {
        return Err(if content.incomplete { NotTcp::CutShort } else { NotTcp::OtherProtocol });
    }
    Ok(ip)
}

/// The packet has an authentication header.
pub(crate) fn is_authenticated(ip: &LaxIpSlice<'_>) -> bool {
    match ip {
        LaxIpSlice::Ipv4(v4) => v4.extensions().auth.is_some(),
        LaxIpSlice::Ipv6(v6) => v6
            .extensions()
            .clone()
            .into_iter()
            .any(|e| matches!(e, etherparse::Ipv6ExtensionSlice::Authentication(_))),
    }
}

/// Length of an IP packet as its header has it, bytes; 0 if it has none.
pub(crate) fn stated_length(ip: &LaxIpSlice<'_>) -> usize {
    fields(ip).length
}

/// Fields of an IP header.
struct IpFields {
    /// Of the packet, as the header has it; 0 if it has none.
    length: usize,
    hop_limit: u8,
    traffic_class: u8,
    flow_label: u32,
}

fn fields(ip: &LaxIpSlice<'_>) -> IpFields {
    match ip {
        LaxIpSlice::Ipv4(v4) => {
            let h = v4.header();
            IpFields {
                length: usize::from(h.total_len()),
                hop_limit: h.ttl(),
                traffic_class: h.dcp().value() << 2 | h.ecn().value(),
                flow_label: 0,
            }
        }
        LaxIpSlice::Ipv6(v6) => {
            let h = v6.header();
            let length = match h.payload_length() {
                0 => 0,
                n => 40 + usize::from(n),
            };
            IpFields {
                length,
                hop_limit: h.hop_limit(),
                traffic_class: h.traffic_class(),
                flow_label: h.flow_label().value(),
            }
        }
    }
}

fn is_len(e: &etherparse::err::ip::LaxHeaderSliceError) -> bool {
    matches!(e, etherparse::err::ip::LaxHeaderSliceError::Len(_))
}

fn socket(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}

const FLAG_BITS: [(u16, Flags); 8] = [
    (1, Flags::FIN),
    (2, Flags::SYN),
    (4, Flags::RST),
    (16, Flags::ACK),
    (64, Flags::ECE),
    (128, Flags::CWR),
    (256, Flags::AE),
    (ELN_BIT, Flags::ELN),
];

impl<'a> TcpPacket<'a> {
    /// Iterates over the TCP options.
    pub fn options(&self) -> Options<'a> {
        options(self.option_bytes)
    }

    /// TSval and TSecr of the timestamps option, if present.
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        self.options().map_while(Result::ok).find_map(|o| match o {
            TcpOption::Timestamps { value, echo } => Some((value, echo)),
            _ => None,
        })
    }

    /// True if the header has what an ordinary ACK has, and nothing else: the flags ACK, ECE and
    /// CWR, and the options timestamps, SACK and MD5 signature (RFC 2385).
    pub fn is_ordinary_ack(&self) -> bool {
        const ORDINARY: u16 = 16 | 64 | 128;
        const MD5_SIGNATURE: u8 = 19;
        let mut options = self.options();
        let is_ordinary = |option: Result<TcpOption<'_>, _>| {
            matches!(
                option,
                Ok(TcpOption::NoOperation
                    | TcpOption::Timestamps { .. }
                    | TcpOption::Sack(_)
                    | TcpOption::Other { kind: MD5_SIGNATURE, .. })
            )
        };
        self.flag_bits & !ORDINARY == 0 && options.all(is_ordinary)
    }

    /// The options of the simulator's segments and the flags that mark them as present: SACK,
    /// D-SACK, SNACK, named segment, receiver report. `ack` is the stream offset that the
    /// acknowledgment number stands for, bytes. SNACK counts in segments of `mss` bytes; with `mss`
    /// 0 it is ignored.
    pub fn segment_options(&self, ack: u64, mss: u32) -> (Flags, segment::Options) {
        let offset = |number: u32| {
            ack.saturating_add_signed(i64::from(number.wrapping_sub(self.ack) as i32))
        };
        let (mut flags, mut found) = (Flags::NONE, segment::Options::NONE);
        for option in self.options().map_while(Result::ok) {
            let flag = match option {
                TcpOption::Sack(blocks) => {
                    blocks
                        .as_slice()
                        .iter()
                        .for_each(|&(start, end)| found.sack.push(offset(start), offset(end)));
                    Flags::SACK
                }
                TcpOption::Snack { .. } => match read_snack(option, ack, mss) {
                    Some(snack) => {
                        found.snack = snack;
                        Flags::SNACK
                    }
                    None => continue,
                },
                TcpOption::Experimental {
                    kind: EXPERIMENTAL,
                    id: NAMED_ID,
                    data: &[a, b, c, d],
                } => {
                    found.named = offset(u32::from_be_bytes([a, b, c, d]));
                    Flags::NAMED
                }
                TcpOption::Experimental {
                    kind: EXPERIMENTAL,
                    id: REPORT_ID,
                    data: &[a, b, c, d],
                } => {
                    found.report = u32::from_be_bytes([a, b, c, d]);
                    Flags::REPORT
                }
                _ => continue,
            };
            flags = flags.with(flag);
        }
        if found.report_duplicate(ack) {
            flags = flags.with(Flags::DSACK);
        }
        (flags, found)
    }

    /// Whether the transport is ECN-capable, and by which code point, as flags of the simulator's
    /// segments.
    pub fn capability(&self) -> Flags {
        match self.addressing.traffic_class & 3 {
            0 => Flags::NONE,
            1 => Flags::ECT.with(Flags::ECT1),
            _ => Flags::ECT,
        }
    }

    /// The flags in the simulator's representation, including the CE mark of the IP header.
    pub fn flags(&self) -> Flags {
        let mut flags = FLAG_BITS
            .iter()
            .filter(|(bit, _)| self.flag_bits & bit != 0)
            .fold(Flags::NONE, |all, (_, f)| all.with(*f));
        if self.addressing.traffic_class & 3 == 3 {
            flags = flags.with(Flags::CE);
        }
        if self.timestamps().is_some() {
            flags = flags.with(Flags::TIMESTAMPS);
        }
        flags
    }
}
