//! UDP datagrams, and the ICMP errors about them (RFC 792, RFC 4443), for a host that carries
//! datagrams by sockets.

use std::net::{IpAddr, SocketAddr};

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::icmpv6::DestUnreachableCode;
use etherparse::{
    Icmpv4Type, Icmpv6Type, IpNumber, LaxIpSlice, PacketBuilder, PacketBuilderStep, UdpSlice,
};

use crate::render::TTL;

/// Bytes of a packet that an error about it repeats: enough for any header, and the error fits into
/// the smallest MTU.
const QUOTED: usize = 512;

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port that it is sent to.
    pub destination: SocketAddr,
    /// Its data.
    pub payload: &'a [u8],
}

/// The datagram that an IP packet carries; `None` for other protocols, fragments and incomplete
/// packets.
///
/// # Examples
///
/// ```
/// use lasthop_wire::datagram::{Datagram, datagram};
///
/// let sent = Datagram {
///     source: "10.0.0.1:5000".parse().unwrap(),
///     destination: "10.0.0.2:53".parse().unwrap(),
///     payload: b"question",
/// };
/// assert_eq!(datagram(&sent.packet()), Some(sent));
/// ```
pub fn datagram(packet: &[u8]) -> Option<Datagram<'_>> {
    let (ip, stop) = LaxIpSlice::from_slice(packet).ok()?;
    let (source, destination): (IpAddr, IpAddr) = match &ip {
        LaxIpSlice::Ipv4(v4) => {
            (v4.header().source_addr().into(), v4.header().destination_addr().into())
        }
        LaxIpSlice::Ipv6(v6) => {
            (v6.header().source_addr().into(), v6.header().destination_addr().into())
        }
    };
    let content = ip.payload();
    if content.fragmented || stop.is_some() || content.ip_number != IpNumber::UDP {
        return None;
    }
    let udp = UdpSlice::from_slice(content.payload).ok()?;
    Some(Datagram {
        source: SocketAddr::new(source, udp.source_port()),
        destination: SocketAddr::new(destination, udp.destination_port()),
        payload: udp.payload(),
    })
}

impl Datagram<'_> {
    /// An IP packet with this datagram. Data that one packet cannot carry is cut off; a mixture of
    /// IPv4 and IPv6 addresses gives no packet.
    pub fn packet(&self) -> Vec<u8> {
        let room = usize::from(u16::MAX) - 48;
        let payload = self.payload.get(..room).unwrap_or(self.payload);
        let step = ip(self.source.ip(), self.destination.ip());
        let step = step.map(|s| s.udp(self.source.port(), self.destination.port()));
        let mut packet = Vec::new();
        // Writing into memory cannot fail, and the payload fits.
        step.and_then(|s| s.write(&mut packet, payload).ok()).unwrap_or_default();
        packet
    }
}

/// What cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The network: there is no route.
    Network,
    /// The port: no socket is bound to it.
    Port,
}

/// The ICMP error that tells the sender of a datagram that its destination cannot be reached.
///
/// # Examples
///
/// ```
/// use lasthop_wire::datagram::{Datagram, Unreachable, unreachable};
///
/// let (source, destination) = ("10.0.0.1:5000".parse().unwrap(), "10.0.0.2:53".parse().unwrap());
/// let packet = Datagram { source, destination, payload: b"question" }.packet();
/// // IPv4 and ICMP headers, and the packet.
/// assert_eq!(unreachable(&packet, Unreachable::Port).unwrap().len(), 28 + packet.len());
/// ```
pub fn unreachable(packet: &[u8], what: Unreachable) -> Option<Vec<u8>> {
    let Datagram { source, destination, .. } = datagram(packet)?;
    let quoted = packet.get(..QUOTED).unwrap_or(packet);
    let mut error = Vec::new();
    let step = ip(destination.ip(), source.ip())?;
    if source.is_ipv4() {
        let kind = match what {
            Unreachable::Network => DestUnreachableHeader::Network,
            Unreachable::Port => DestUnreachableHeader::Port,
        };
        step.icmpv4(Icmpv4Type::DestinationUnreachable(kind)).write(&mut error, quoted).ok()?;
    } else {
        let kind = match what {
            Unreachable::Network => DestUnreachableCode::NoRoute,
            Unreachable::Port => DestUnreachableCode::Port,
        };
        step.icmpv6(Icmpv6Type::DestinationUnreachable(kind)).write(&mut error, quoted).ok()?;
    }
    Some(error)
}

/// The IP header of a packet that is being built; `None` for addresses of different families.
pub(crate) fn ip(
    source: IpAddr,
    destination: IpAddr,
) -> Option<PacketBuilderStep<etherparse::IpHeaders>> {
    match (source, destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some(PacketBuilder::ipv4(a.octets(), b.octets(), TTL)),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some(PacketBuilder::ipv6(a.octets(), b.octets(), TTL)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(v6: bool) -> (SocketAddr, SocketAddr) {
        let (a, b) =
            if v6 { ("[fd00::1]:7", "[fd00::2]:53") } else { ("10.0.0.1:7", "10.0.0.2:53") };
        (a.parse().unwrap(), b.parse().unwrap())
    }

    proptest! {
        #[test]
        fn datagrams_are_read_as_they_were_written(
            v6: bool, payload in prop::collection::vec(any::<u8>(), 0..1500),
        ) {
            let (source, destination) = pair(v6);
            let sent = Datagram { source, destination, payload: &payload };
            let packet = sent.packet();
            prop_assert_eq!(packet.len(), payload.len() + if v6 { 48 } else { 28 });
            prop_assert_eq!(datagram(&packet), Some(sent));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let read = datagram(&bytes).is_some();
            prop_assert_eq!(unreachable(&bytes, Unreachable::Port).is_some(), read);
        }
    }

    #[test]
    fn errors_go_back_to_the_sender() {
        for (v6, network, port) in [(false, [3, 0], [3, 3]), (true, [1, 0], [1, 4])] {
            let (source, destination) = pair(v6);
            let packet = Datagram { source, destination, payload: &[7; 600] }.packet();
            let at = if v6 { 40 } else { 20 };
            for (what, code) in [(Unreachable::Network, network), (Unreachable::Port, port)] {
                let error = unreachable(&packet, what).unwrap();
                assert_eq!(error.get(at..at + 2), Some(&code[..]));
                assert_eq!(error.get(at + 8..), packet.get(..QUOTED));
                let (from, to) = if v6 { (8, 24) } else { (12, 16) };
                let address = |p: &[u8], at: usize| p.get(at..at + (to - from)).unwrap().to_vec();
                assert_eq!(address(&error, to), address(&packet, from));
                assert_eq!(address(&error, from), address(&packet, to));
            }
        }
    }
}
