//! ICMP errors about TCP segments (RFC 792, RFC 1191, RFC 4443).

use std::net::{IpAddr, SocketAddr};

use etherparse::icmpv4::DestUnreachableHeader as V4;
use etherparse::icmpv6::DestUnreachableCode as V6;
use etherparse::{Icmpv4Slice, Icmpv4Type, Icmpv6Slice, Icmpv6Type, IpNumber, LaxIpSlice};

/// What an ICMP error says of the segment that it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The packet is larger than the next link's MTU, bytes (RFC 1191, section 4: 0 if the router
    /// does not say it).
    TooLarge(u32),
    /// The destination cannot be reached. `hard`: its host refuses (port or protocol unreachable,
    /// administratively prohibited); otherwise the cause may pass (RFC 1122, section 4.2.3.9).
    Unreachable {
        /// Retrying cannot help.
        hard: bool,
    },
}

/// An ICMP error about a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What it says.
    pub problem: Problem,
    /// Sender of the segment, to which the error is addressed.
    pub source: SocketAddr,
    /// Destination of the segment.
    pub destination: SocketAddr,
    /// Sequence number field of the segment.
    pub seq: u32,
}

/// The error about a TCP segment that an IP packet carries; `None` for all other packets. Anybody
/// can send one: whoever receives it checks that the segment is in flight (RFC 5927, section 4).
///
/// # Examples
///
/// ```
/// use lasthop_wire::icmp_error;
///
/// assert_eq!(icmp_error(&[0x45; 40]), None);
/// ```
pub fn icmp_error(packet: &[u8]) -> Option<IcmpError> {
    let (ip, stop) = LaxIpSlice::from_slice(packet).ok()?;
    let content = ip.payload();
    if content.fragmented || stop.is_some() {
        return None;
    }
    let to = match &ip {
        LaxIpSlice::Ipv4(v4) => IpAddr::from(v4.header().destination_addr()),
        LaxIpSlice::Ipv6(v6) => IpAddr::from(v6.header().destination_addr()),
    };
    let (problem, quoted) = match content.ip_number {
        IpNumber::ICMP => of_v4(content.payload)?,
        IpNumber::IPV6_ICMP => of_v6(content.payload)?,
        _ => return None,
    };
    let (source, destination, seq) = segment(quoted)?;
    (source.ip() == to).then_some(IcmpError { problem, source, destination, seq })
}

fn of_v4(bytes: &[u8]) -> Option<(Problem, &[u8])> {
    let icmp = Icmpv4Slice::from_slice(bytes).ok()?;
    let Icmpv4Type::DestinationUnreachable(kind) = icmp.icmp_type() else { return None };
    let problem = match kind {
        V4::FragmentationNeeded { next_hop_mtu } => Problem::TooLarge(next_hop_mtu.into()),
        V4::Protocol | V4::Port | V4::FilterProhibited => Problem::Unreachable { hard: true },
        _ => Problem::Unreachable { hard: false },
    };
    bytes.get(8..).map(|quoted| (problem, quoted))
}

fn of_v6(bytes: &[u8]) -> Option<(Problem, &[u8])> {
    let icmp = Icmpv6Slice::from_slice(bytes).ok()?;
    let problem = match icmp.icmp_type() {
        Icmpv6Type::PacketTooBig { mtu } => Problem::TooLarge(mtu),
        Icmpv6Type::DestinationUnreachable(V6::Port | V6::Prohibited) => {
            Problem::Unreachable { hard: true }
        }
        Icmpv6Type::DestinationUnreachable(_) => Problem::Unreachable { hard: false },
        _ => return None,
    };
    bytes.get(8..).map(|quoted| (problem, quoted))
}

/// Addresses, ports and sequence number of a segment of which the first eight bytes of the TCP
/// header are there at least.
fn segment(quoted: &[u8]) -> Option<(SocketAddr, SocketAddr, u32)> {
    let (ip, _) = LaxIpSlice::from_slice(quoted).ok()?;
    let (source, destination) = match &ip {
        LaxIpSlice::Ipv4(v4) => {
            (IpAddr::from(v4.header().source_addr()), IpAddr::from(v4.header().destination_addr()))
        }
        LaxIpSlice::Ipv6(v6) => {
            (IpAddr::from(v6.header().source_addr()), IpAddr::from(v6.header().destination_addr()))
        }
    };
    let content = ip.payload();
    let &[a, b, c, d, e, f, g, h] = content.payload.first_chunk::<8>()?;
    if content.ip_number != IpNumber::TCP {
        return None;
    }
    let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let seq = u32::from_be_bytes([e, f, g, h]);
    Some((SocketAddr::new(source, from), SocketAddr::new(destination, to), seq))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_mtu::{TooLarge, too_large};
    use crate::{Addressing, assemble};

    fn packet(v6: bool) -> Vec<u8> {
        let (a, b) = if v6 { ("[fd00::1]:1", "[fd00::2]:2") } else { ("10.0.0.1:1", "10.0.0.2:2") };
        let addressing = Addressing {
            source: a.parse().unwrap(),
            destination: b.parse().unwrap(),
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        assemble(&addressing, &etherparse::TcpHeader::new(1, 2, 77, 1000), &[7; 1300])
    }

    #[test]
    fn an_error_of_a_router_names_the_segment() {
        for v6 in [false, true] {
            let TooLarge::Error(error) = too_large(&packet(v6), 1280) else { panic!("no error") };
            let read = icmp_error(&error).unwrap();
            assert_eq!((read.problem, read.seq), (Problem::TooLarge(1280), 77));
            assert_eq!((read.source.port(), read.destination.port()), (1, 2));
            for length in 0..error.len() {
                icmp_error(error.get(..length).unwrap());
            }
            assert_eq!(icmp_error(&packet(v6)), None);
        }
    }
}
