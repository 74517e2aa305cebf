//! What a router does for a link whose MTU is smaller than packets: it lowers the MSS option of
//! SYNs, and answers packets that are too large by ICMP or fragments them.

use std::net::IpAddr;

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{Icmpv4Type, Icmpv6Type, IpFragOffset, Ipv4Header, LaxIpSlice};

use crate::datagram::ip;
use crate::parse::parse;
use crate::patch::replace;

/// Bytes of IPv4 and TCP headers without options (RFC 9293, section 3.7.1).
const HEADERS_V4: u32 = 40;
/// Bytes of IPv6 and TCP headers without options.
const HEADERS_V6: u32 = 60;
/// Bytes of the headers of an ICMP error: IPv6 (IPv4 has 20 less) and 8 of ICMP.
const ERROR_HEADERS: usize = 48;
/// Bytes of a packet that an error about it repeats at most.
const QUOTED: usize = 512;
/// Kind and length of the MSS option (RFC 9293, section 3.2).
const MSS: (u8, u8) = (2, 4);

/// What becomes of a packet that is larger than an MTU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TooLarge {
    /// It may not be fragmented: the ICMP error for its sender (RFC 1191, section 3; RFC 4443,
    /// section 3.2).
    Error(Vec<u8>),
    /// Its fragments (RFC 791, section 3.2).
    Fragments(Vec<Vec<u8>>),
    /// It is no IP packet, or the MTU has no room for a fragment.
    Dropped,
}

/// What a router does with an IP packet that is larger than `mtu` bytes. The error has the address
/// of the packet's destination, because nodes of a link have none.
///
/// # Examples
///
/// ```
/// use lasthop_wire::datagram::Datagram;
/// use lasthop_wire::path_mtu::{TooLarge, too_large};
///
/// let (source, destination) = ("10.0.0.1:5000".parse().unwrap(), "10.0.0.2:53".parse().unwrap());
/// let mut packet = Datagram { source, destination, payload: &[7; 1000] }.packet();
/// assert!(matches!(too_large(&packet, 600), TooLarge::Error(_)));
/// // "Don't fragment" is bit 0x40 of byte 6.
/// packet[6] &= !0x40;
/// let TooLarge::Fragments(parts) = too_large(&packet, 600) else { panic!() };
/// assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [596, 452]);
/// ```
pub fn too_large(packet: &[u8], mtu: u32) -> TooLarge {
    let Ok((slice, _)) = LaxIpSlice::from_slice(packet) else { return TooLarge::Dropped };
    let (source, destination): (IpAddr, IpAddr) = match &slice {
        LaxIpSlice::Ipv4(v4) => {
            let header = v4.header();
            if !header.dont_fragment() {
                return fragments(header.to_header(), packet, mtu);
            }
            (header.source_addr().into(), header.destination_addr().into())
        }
        LaxIpSlice::Ipv6(v6) => {
            (v6.header().source_addr().into(), v6.header().destination_addr().into())
        }
    };
    // The error itself fits the link, too.
    let most = (mtu as usize).saturating_sub(ERROR_HEADERS).min(QUOTED);
    let quoted = packet.get(..most).unwrap_or(packet);
    let mut error = Vec::new();
    let Some(step) = ip(destination, source) else { return TooLarge::Dropped };
    let written = if source.is_ipv4() {
        let next_hop_mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let needed = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu };
        step.icmpv4(Icmpv4Type::DestinationUnreachable(needed)).write(&mut error, quoted)
    } else {
        step.icmpv6(Icmpv6Type::PacketTooBig { mtu }).write(&mut error, quoted)
    };
    written.map_or(TooLarge::Dropped, |()| TooLarge::Error(error))
}

/// The fragments of an IPv4 packet with this header.
fn fragments(header: Ipv4Header, packet: &[u8], mtu: u32) -> TooLarge {
    let length = header.header_len();
    let end = usize::from(header.total_len).min(packet.len());
    let Some(payload) = packet.get(length..end) else { return TooLarge::Dropped };
    // Offsets count in units of 8 bytes.
    let room = (mtu as usize).saturating_sub(length) / 8 * 8;
    if room == 0 {
        return TooLarge::Dropped;
    }
    let first = usize::from(header.fragment_offset.value());
    let last = payload.len().div_ceil(room).saturating_sub(1);
    let fragment = |(i, part): (usize, &[u8])| {
        let offset = u16::try_from(first + i * room / 8).ok()?;
        let mut own = header.clone();
        own.fragment_offset = IpFragOffset::try_new(offset).ok()?;
        own.more_fragments |= i != last;
        own.set_payload_len(part.len()).ok()?;
        own.header_checksum = own.calc_header_checksum();
        Some([own.to_bytes().as_slice(), part].concat())
    };
    let parts: Option<Vec<_>> = payload.chunks(room).enumerate().map(fragment).collect();
    parts.map_or(TooLarge::Dropped, TooLarge::Fragments)
}

/// A SYN whose MSS option is larger than an MTU of `mtu` bytes allows, with the largest MSS that it
/// allows; `None` for all other packets. Checksums are updated (RFC 1624). As the routers of such
/// links do (Linux `xt_TCPMSS` with clamp-mss-to-pmtu), so that connections need no path MTU
/// discovery.
pub fn clamp_mss(packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let tcp = parse(packet).ok()?;
    if !tcp.flags().has(lasthop::segment::Flags::SYN) {
        return None;
    }
    let headers = match packet.first()? >> 4 {
        4 => HEADERS_V4,
        _ => HEADERS_V6,
    };
    let most = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
    let at = tcp.tcp_at + 20 + mss_at(tcp.option_bytes)?;
    let mut changed = packet.to_vec();
    let [high, low] = changed.get(at..)?.first_chunk::<2>()?;
    if u16::from_be_bytes([*high, *low]) <= most {
        return None;
    }
    let is_aligned = (at - tcp.tcp_at).is_multiple_of(2);
    let (header, value) = changed.get_mut(tcp.tcp_at..)?.split_at_mut_checked(at - tcp.tcp_at)?;
    let [sum_high, sum_low] = header.get_mut(16..)?.first_chunk_mut::<2>()?;
    let [high, low] = value.first_chunk_mut::<2>()?;
    let [new_high, new_low] = most.to_be_bytes();
    // At an odd place, each byte is in the other half of a word of the checksum.
    match is_aligned {
        true => replace([high, low], [new_high, new_low], &mut [sum_high, sum_low]),
        false => replace([low, high], [new_low, new_high], &mut [sum_high, sum_low]),
    }
    Some(changed)
}

/// Where the options have the value of the MSS.
fn mss_at(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match (*options.get(at)?, options.get(at + 1)) {
            (0, _) => return None,
            (1, _) => at += 1,
            (kind, Some(&length)) if (kind, length) == MSS => return Some(at + 2),
            (_, Some(&length)) if length >= 2 => at += usize::from(length),
            _ => return None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::datagram::{Datagram, datagram};
    use crate::options::{OptionBytes, TcpOption};
    use crate::{Addressing, assemble};

    /// A packet between two hosts; IPv4 without "don't fragment".
    fn packet(v6: bool, length: usize) -> Vec<u8> {
        let (a, b) =
            if v6 { ("[fd00::1]:7", "[fd00::2]:53") } else { ("10.0.0.1:7", "10.0.0.2:53") };
        let payload: Vec<u8> = (0..length).map(|i| i as u8).collect();
        let (source, destination) = (a.parse().unwrap(), b.parse().unwrap());
        let mut packet = Datagram { source, destination, payload: &payload }.packet();
        if !v6 {
            packet[6] &= !0x40;
        }
        packet
    }

    /// A SYN with `padding` bytes before the MSS option.
    fn syn(v6: bool, mss: u16, padding: usize) -> Vec<u8> {
        let (a, b) = if v6 { ("[fd00::1]:1", "[fd00::2]:2") } else { ("10.0.0.1:1", "10.0.0.2:2") };
        let addressing = Addressing {
            source: a.parse().unwrap(),
            destination: b.parse().unwrap(),
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        let mut options = OptionBytes::default();
        options.push(TcpOption::MaximumSegmentSize(mss)).unwrap();
        let mut bytes = vec![1; padding];
        bytes.extend_from_slice(options.padded());
        bytes.resize(bytes.len().div_ceil(4) * 4, 0);
        let mut tcp = etherparse::TcpHeader::new(1, 2, 3, 1000);
        tcp.syn = true;
        tcp.set_options_raw(&bytes).unwrap();
        assemble(&addressing, &tcp, &[])
    }

    fn mss_of(packet: &[u8]) -> Option<u16> {
        parse(packet).unwrap().options().map_while(Result::ok).find_map(|o| match o {
            TcpOption::MaximumSegmentSize(mss) => Some(mss),
            _ => None,
        })
    }

    /// The one's complement sum over pseudo header and segment, which is zero if it is right.
    fn has_valid_checksum(packet: &[u8]) -> bool {
        let ip = etherparse::IpSlice::from_slice(packet).unwrap();
        let tcp = etherparse::TcpSlice::from_slice(ip.payload().payload).unwrap();
        let header = tcp.to_header();
        let sum = match ip {
            etherparse::IpSlice::Ipv4(v4) => {
                header.calc_checksum_ipv4(&v4.header().to_header(), tcp.payload())
            }
            etherparse::IpSlice::Ipv6(v6) => {
                header.calc_checksum_ipv6(&v6.header().to_header(), tcp.payload())
            }
        };
        sum == Ok(header.checksum)
    }

    #[test]
    fn syns_get_the_mss_that_fits() {
        let cases = [(false, 0, 1360), (false, 1, 1360), (true, 0, 1340), (true, 3, 1340)];
        for (v6, padding, most) in cases {
            let sent = syn(v6, 1460, padding);
            let clamped = clamp_mss(&sent, 1400).unwrap();
            assert_eq!((mss_of(&clamped), clamped.len()), (Some(most), sent.len()));
            assert!(has_valid_checksum(&sent) && has_valid_checksum(&clamped), "{v6} {padding}");
            assert_eq!(clamp_mss(&clamped, 1400), None);
            assert_eq!(clamp_mss(&syn(v6, 500, padding), 1400), None);
        }
        assert_eq!(clamp_mss(&packet(false, 1000), 600), None);
    }

    #[test]
    fn packets_that_may_not_be_fragmented_are_answered() {
        for (v6, kind, at) in [(false, [3, 4], 20), (true, [2, 0], 40)] {
            let mut sent = packet(v6, 1300);
            if !v6 {
                sent[6] |= 0x40;
            }
            let TooLarge::Error(error) = too_large(&sent, 1280) else { panic!("no error") };
            assert_eq!(error[at..at + 2], kind);
            assert_eq!(error[at + 4..at + 8], 1280_u32.to_be_bytes());
            assert_eq!(error[at + 8..], sent[..QUOTED]);
            let TooLarge::Error(small) = too_large(&sent, 68) else { panic!("no error") };
            assert!(small.len() <= 68, "{}", small.len());
        }
    }

    proptest! {
        #[test]
        fn fragments_fit_and_are_the_packet(length in 0_usize..3000, mtu in 68_u32..1500) {
            let sent = packet(false, length);
            prop_assume!(sent.len() > mtu as usize);
            let TooLarge::Fragments(parts) = too_large(&sent, mtu) else {
                return Err(TestCaseError::fail("no fragments"));
            };
            let mut payload = Vec::new();
            for (i, part) in parts.iter().enumerate() {
                prop_assert!(part.len() <= mtu as usize);
                let header = Ipv4Header::from_slice(part).unwrap().0;
                prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
                prop_assert_eq!(usize::from(header.total_len), part.len());
                prop_assert_eq!(8 * usize::from(header.fragment_offset.value()), payload.len());
                prop_assert_eq!(header.more_fragments, i + 1 < parts.len());
                payload.extend_from_slice(&part[20..]);
            }
            prop_assert_eq!(&payload, &sent[20..]);
            prop_assert!(datagram(&parts[0]).is_none());
            // A fragment is fragmented further.
            if let TooLarge::Fragments(smaller) = too_large(&parts[0], 68) {
                let more = |p: &Vec<u8>| Ipv4Header::from_slice(p).unwrap().0.more_fragments;
                prop_assert!(smaller.iter().all(more));
            }
        }

        #[test]
        fn any_bytes_are_taken(
            bytes in prop::collection::vec(any::<u8>(), 0..200), mtu in 0_u32..300,
        ) {
            if let TooLarge::Fragments(parts) = too_large(&bytes, mtu) {
                prop_assert!(parts.iter().all(|part| part.len() <= mtu as usize));
            }
            if let Some(changed) = clamp_mss(&bytes, mtu) {
                prop_assert_eq!(changed.len(), bytes.len());
            }
        }
    }
}
