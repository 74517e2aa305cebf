//! Offload of segmentation and checksums: a kernel may hand a device packets of up to 64 KiB, which
//! the device has to split, and packets whose checksums it has to complete. The header before each
//! packet says which (virtio specification 1.2, section 5.1.6; the Linux drivers for TUN devices
//! and packet sockets use it too).

use etherparse::checksum::Sum16BitWords;

/// Length of the header before each packet, bytes.
pub const HEADER_LEN: usize = 10;

/// The header before a packet that needs nothing.
pub const PLAIN: [u8; HEADER_LEN] = [0; HEADER_LEN];

/// Room for the header, an Ethernet header and the largest IP packet.
const ROOM: usize = HEADER_LEN + 14 + 40 + 65_535;

/// The checksum is to be completed (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
const NEEDS_CHECKSUM: u8 = 1;
/// Kinds of segmentation (`VIRTIO_NET_HDR_GSO_TCPV4`, `_TCPV6`, `_UDP_L4`) without the bit for ECN.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// Numbers of the protocols in the pseudo-header.
const TCP_PROTOCOL: u8 = 6;
const UDP_PROTOCOL: u8 = 17;
/// Place of the checksum in a TCP header, bytes.
const TCP_CHECKSUM_AT: u16 = 16;
/// The same in a UDP header.
pub(crate) const UDP_CHECKSUM_AT: usize = 6;
const FIN_PSH: u8 = 0x01 | 0x08;
const CWR: u8 = 0x80;

/// Splits what a kernel hands over into packets with valid checksums. Only headers are copied.
///
/// # Examples
///
/// ```
/// use lasthop_wire::offload::{PLAIN, Splitter};
///
/// let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// let mut splitter = Splitter::new(0);
/// splitter.buffer()[..30].copy_from_slice(&[&PLAIN[..], &packet].concat());
/// splitter.accept(30);
/// assert_eq!(splitter.next(), Some(&packet[..]));
/// assert_eq!(splitter.next(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Splitter {
    buffer: Vec<u8>,
    /// Bytes between the header and the IP packet.
    skipped: usize,
    /// Where the next packet begins and the last one ends in `buffer`; equal if there is none.
    at: usize,
    end: usize,
    /// How to split what is left; `None` if it is one packet.
    split: Option<Split>,
}

/// A packet that is being split.
#[derive(Clone, Debug)]
struct Split {
    /// Headers of the whole, 120 bytes at most.
    headers: Vec<u8>,
    /// True for TCP, false for UDP.
    is_tcp: bool,
    transport_at: usize,
    /// Payload of each packet but the last one, bytes.
    size: usize,
    /// Packets made.
    made: u16,
}

impl Splitter {
    /// A splitter for a device that puts `skipped` bytes between the offload header and the IP
    /// packet.
    pub fn new(skipped: usize) -> Self {
        Splitter { buffer: vec![0; ROOM], skipped, at: 0, end: 0, split: None }
    }

    /// Where the device writes a header and a packet.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The device has written `length` bytes into the buffer. Fewer than the headers are no packet.
    pub fn accept(&mut self, length: usize) {
        self.at = HEADER_LEN + self.skipped;
        self.end = length.min(self.buffer.len()).max(self.at);
        self.split = None;
        let Some(([flags, kind, _, _, s0, s1, c0, c1, o0, o1], _)) =
            self.buffer.split_first_chunk::<HEADER_LEN>()
        else {
            return;
        };
        let number = |low: &u8, high: &u8| usize::from(u16::from_ne_bytes([*low, *high]));
        let (flags, kind, size) = (*flags, *kind & !ECN, number(s0, s1));
        let (start, offset) = (number(c0, c1), number(o0, o1));
        let Some(start) = start.checked_sub(self.skipped) else { return };
        let Some(packet) = self.buffer.get_mut(self.at..self.end) else { return };
        if matches!(kind, TCP_V4 | TCP_V6 | UDP) && size > 0 {
            self.split = Split::new(packet, kind != UDP, start, size);
            self.at += self.split.as_ref().map_or(0, |split| split.headers.len());
        } else if flags & NEEDS_CHECKSUM != 0 {
            complete(packet, start, offset);
        }
    }

    /// True if a packet is left.
    pub fn has_packet(&self) -> bool {
        self.at < self.end
    }

    /// The next packet.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend from itself")]
    pub fn next(&mut self) -> Option<&[u8]> {
        if !self.has_packet() {
            return None;
        }
        let (from, to) = match &mut self.split {
            None => (self.at, self.end),
            Some(split) => {
                // The headers of the next packet overwrite payload that has been handed out.
                let from = self.at - split.headers.len();
                let to = self.end.min(self.at + split.size);
                split.make(self.buffer.get_mut(from..to)?, to == self.end);
                (from, to)
            }
        };
        self.at = to;
        self.buffer.get(from..to)
    }
}

impl Split {
    /// How to split a packet whose TCP or UDP header begins at `transport_at`; `None` if that is
    /// impossible.
    fn new(packet: &[u8], is_tcp: bool, transport_at: usize, size: usize) -> Option<Split> {
        let transport_len = match is_tcp {
            true => usize::from(packet.get(transport_at + 12)? >> 4) * 4,
            false => 8,
        };
        let headers = packet.get(..transport_at + transport_len)?;
        let minimum = if packet.first()? >> 4 == 4 { 20 } else { 40 };
        let possible = transport_at >= minimum
            && transport_len >= if is_tcp { 20 } else { 8 }
            && packet.len() > headers.len();
        possible.then(|| Split { headers: headers.to_vec(), is_tcp, transport_at, size, made: 0 })
    }

    /// Writes the headers of the next packet: lengths, identification, sequence number, flags,
    /// checksums.
    fn make(&mut self, packet: &mut [u8], is_last: bool) {
        let length = packet.len();
        if let Some(headers) = packet.get_mut(..self.headers.len()) {
            headers.copy_from_slice(&self.headers);
        }
        let Some((ip, transport)) = packet.split_at_mut_checked(self.transport_at) else { return };
        let addresses = match ip {
            [first, _, l0, l1, id0, id1, _, _, _, _, sum0, sum1, rest @ ..] if *first >> 4 == 4 => {
                [*l0, *l1] = (length as u16).to_be_bytes();
                let id = u16::from_be_bytes([*id0, *id1]).wrapping_add(self.made);
                [*id0, *id1] = id.to_be_bytes();
                [*sum0, *sum1] = [0; 2];
                let addresses = rest.get(..8).map(|a| Sum16BitWords::new().add_slice(a));
                write_sum(ip, 10, Sum16BitWords::new().add_slice(ip));
                addresses
            }
            [_, _, _, _, l0, l1, _, _, rest @ ..] => {
                [*l0, *l1] = (length.saturating_sub(40) as u16).to_be_bytes();
                rest.get(..32).map(|a| Sum16BitWords::new().add_slice(a))
            }
            _ => None,
        };
        let Some(sum) = addresses else { return };
        let length = (transport.len() as u16).to_be_bytes();
        if self.is_tcp {
            self.make_tcp(transport, is_last);
            let sum = sum.add_2bytes([0, TCP_PROTOCOL]).add_2bytes(length);
            write_sum(transport, 16, sum.add_slice(transport));
        } else if let [_, _, _, _, l0, l1, sum0, sum1, ..] = &mut *transport {
            [*l0, *l1] = length;
            [*sum0, *sum1] = [0; 2];
            let sum = sum.add_2bytes([0, UDP_PROTOCOL]).add_2bytes(length);
            write_sum(transport, UDP_CHECKSUM_AT, sum.add_slice(transport));
        }
        self.made = self.made.wrapping_add(1);
    }

    /// Writes what differs from packet to packet in a TCP header; its checksum is then zero.
    fn make_tcp(&self, tcp: &mut [u8], is_last: bool) {
        let [_, _, _, _, s0, s1, s2, s3, _, _, _, _, _, flags, _, _, sum0, sum1, ..] = tcp else {
            return;
        };
        let passed = u32::from(self.made).wrapping_mul(self.size as u32);
        let seq = u32::from_be_bytes([*s0, *s1, *s2, *s3]).wrapping_add(passed);
        [*s0, *s1, *s2, *s3] = seq.to_be_bytes();
        // As a sender would have done it: a push or the end goes with the last byte, and "window
        // reduced" (RFC 3168, section 6.1.2) is said once.
        *flags &= if is_last { 0xff } else { !FIN_PSH };
        *flags &= if self.made == 0 { 0xff } else { !CWR };
        [*sum0, *sum1] = [0; 2];
    }
}

/// The header before an IP packet with a TCP header at `tcp_at` that is to be split into packets
/// with at most `size` bytes of payload.
pub fn segmentation_header(packet: &[u8], tcp_at: usize, size: u16) -> [u8; HEADER_LEN] {
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let kind = if is_v6 { TCP_V6 } else { TCP_V4 };
    let ([s0, s1], [c0, c1]) = (size.to_ne_bytes(), (tcp_at as u16).to_ne_bytes());
    let [o0, o1] = TCP_CHECKSUM_AT.to_ne_bytes();
    [NEEDS_CHECKSUM, kind, 0, 0, s0, s1, c0, c1, o0, o1]
}

/// Completes the checksum of an IP packet whose TCP header begins at `tcp_at` and whose checksum
/// field has the sum of the pseudo-header.
pub fn complete_checksum(packet: &mut [u8], tcp_at: usize) {
    complete(packet, tcp_at, usize::from(TCP_CHECKSUM_AT));
}

/// Completes the checksum of a packet from `start` on, whose field, `offset` bytes later, has the
/// sum of the pseudo-header.
fn complete(packet: &mut [u8], start: usize, offset: usize) {
    let Some(part) = packet.get_mut(start..) else { return };
    let sum = Sum16BitWords::new().add_slice(part);
    write_sum(part, offset, sum);
}

/// Writes a checksum. Zero in UDP stands for none, and is written as all ones (RFC 768); elsewhere
/// it is zero (RFC 1624, section 3).
pub(crate) fn write_sum(bytes: &mut [u8], at: usize, sum: Sum16BitWords) {
    let sum = match at {
        UDP_CHECKSUM_AT => sum.to_ones_complement_with_no_zero(),
        _ => sum.ones_complement(),
    };
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_ne_bytes());
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use std::net::SocketAddr;

    use etherparse::TcpHeader;
    use proptest::prelude::*;

    use super::*;
    use crate::datagram::Datagram;
    use crate::{Addressing, assemble, has_valid_checksum, parse};

    fn addressing(v6: bool) -> Addressing {
        let address =
            |v4: &str, six: &str| -> SocketAddr { (if v6 { six } else { v4 }).parse().unwrap() };
        Addressing {
            source: address("10.0.0.1:80", "[fd00::1]:80"),
            destination: address("10.0.0.2:5000", "[fd00::2]:5000"),
            hop_limit: 64,
            traffic_class: 2,
            flow_label: 7,
        }
    }

    fn tcp(seq: u32, is_first: bool, is_last: bool) -> TcpHeader {
        let mut tcp = TcpHeader::new(0, 0, seq, 300);
        (tcp.ack, tcp.psh, tcp.fin, tcp.cwr) = (true, is_last, is_last, is_first);
        tcp.set_options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap();
        tcp
    }

    /// What a device gets: the header, bytes before the packet, the packet.
    fn given(kind: u8, size: usize, v6: bool, skipped: usize, packet: &[u8]) -> Vec<u8> {
        let start = (skipped + if v6 { 40 } else { 20 }) as u16;
        let mut bytes = vec![NEEDS_CHECKSUM, kind, 0, 0];
        for number in [size as u16, start, 16] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.resize(HEADER_LEN + skipped, 0);
        bytes.extend(packet);
        bytes
    }

    fn all(splitter: &mut Splitter, bytes: &[u8]) -> Vec<Vec<u8>> {
        splitter.buffer()[..bytes.len()].copy_from_slice(bytes);
        splitter.accept(bytes.len());
        std::iter::from_fn(|| splitter.next().map(<[u8]>::to_vec)).collect()
    }

    /// The packets that the sender would have made, with what a device writes into IPv4: the
    /// identification counts; the checksum of the header follows it.
    fn numbered(mut packets: Vec<Vec<u8>>, v6: bool) -> Vec<Vec<u8>> {
        for (i, packet) in packets.iter_mut().enumerate().filter(|_| !v6) {
            packet[4..6].copy_from_slice(&(i as u16).to_be_bytes());
            packet[10..12].copy_from_slice(&[0; 2]);
            let sum = Sum16BitWords::new().add_slice(&packet[..20]);
            write_sum(packet, 10, sum);
        }
        packets
    }

    /// The bytes of a large packet, and how many of them a small one has.
    fn large() -> impl Strategy<Value = (Vec<u8>, usize)> {
        let payload = (1..40_000_usize).prop_map(|n| (0..n).map(|i| (i % 251) as u8).collect());
        (payload, 500..1500_usize)
    }

    proptest! {
        /// The packets of a large one are those that the sender would have made.
        #[test]
        fn packets_are_as_the_sender_would_have_made_them(
            v6: bool, seq: u32, (payload, size) in large(),
            skipped in prop::sample::select(vec![0, 14]),
        ) {
            let whole = assemble(&addressing(v6), &tcp(seq, true, true), &payload);
            let kind = if v6 { TCP_V6 } else { TCP_V4 | ECN };
            let mut splitter = Splitter::new(skipped);
            let made = all(&mut splitter, &given(kind, size, v6, skipped, &whole));
            let chunks: Vec<_> = payload.chunks(size).collect();
            let expected = chunks.iter().enumerate().map(|(i, chunk)| {
                let from = seq.wrapping_add((i * size) as u32);
                assemble(&addressing(v6), &tcp(from, i == 0, i + 1 == chunks.len()), chunk)
            });
            prop_assert_eq!(made, numbered(expected.collect(), v6));
        }

        /// The datagrams of a large one (UDP_SEGMENT) are those that single writes would have made.
        #[test]
        fn datagrams_are_as_single_writes_would_have_made_them(
            v6: bool, (payload, size) in large(),
        ) {
            let Addressing { source, destination, .. } = addressing(v6);
            let packet = |payload| Datagram { source, destination, payload }.packet();
            let mut splitter = Splitter::new(0);
            let mut bytes = given(UDP, size, v6, 0, &packet(&payload));
            bytes[8..10].copy_from_slice(&6_u16.to_ne_bytes());
            let made = all(&mut splitter, &bytes);
            prop_assert_eq!(made, numbered(payload.chunks(size).map(packet).collect(), v6));
        }

        /// A checksum that the kernel has left to the device is completed.
        #[test]
        fn checksums_are_completed(v6: bool, length in 0..1400_usize) {
            let payload: Vec<u8> = (0..length).map(|i| (i % 13) as u8).collect();
            let valid = assemble(&addressing(v6), &tcp(7, false, true), &payload);
            let mut packet = valid.clone();
            let at = parse(&valid).unwrap().tcp_at;
            let addresses = if v6 { &valid[8..40] } else { &valid[12..20] };
            let pseudo = Sum16BitWords::new()
                .add_slice(addresses)
                .add_2bytes([0, TCP_PROTOCOL])
                .add_2bytes(((valid.len() - at) as u16).to_be_bytes());
            packet[at + 16..at + 18].copy_from_slice(&(!pseudo.ones_complement()).to_ne_bytes());
            let made = all(&mut Splitter::new(0), &given(0, 0, v6, 0, &packet));
            prop_assert_eq!(made, vec![valid]);
        }

        /// A checksum of zero is written as zero, except in UDP: a peer may compare it with the one
        /// that it computes.
        #[test]
        fn a_checksum_of_zero_is_zero_in_tcp(v6: bool, length in 2..1400_usize) {
            let mut payload = vec![0; length];
            let sum = |payload: &[u8]| {
                let packet = assemble(&addressing(v6), &tcp(7, false, true), payload);
                (parse(&packet).unwrap().tcp_at, packet)
            };
            let (at, first) = sum(&payload);
            payload[..2].copy_from_slice(&first[at + 16..at + 18]);
            let (_, mut valid) = sum(&payload);
            prop_assert_eq!(&valid[at + 16..at + 18], [0; 2]);
            prop_assert!(has_valid_checksum(&valid));
            let mut packet = valid.clone();
            let pseudo = Sum16BitWords::new().add_slice(&valid[at..]).ones_complement();
            packet[at + 16..at + 18].copy_from_slice(&pseudo.to_ne_bytes());
            complete_checksum(&mut packet, at);
            prop_assert_eq!(&packet, &valid);
            // What others write is as good (RFC 1071: the sum of all words is all ones).
            valid[at + 16..at + 18].fill(0xff);
            prop_assert!(has_valid_checksum(&valid));
        }

        /// Whatever a device gives, the splitter does not panic, and ends.
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let made = all(&mut Splitter::new(0), &bytes);
            prop_assert!(made.len() <= bytes.len());
        }
    }
}
