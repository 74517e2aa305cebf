//! Puts another packet behind the headers of a frame.

use etherparse::checksum::Sum16BitWords;

use super::{Header, Protocol};
use crate::offload::{UDP_CHECKSUM_AT, write_sum};

/// A frame with these headers, of which `prefix` are the bytes, and an IP packet.
pub(super) fn wrap(headers: &[Header], prefix: &[u8], packet: &[u8]) -> Vec<u8> {
    let mut frame = [prefix, packet].concat();
    // A checksum covers the headers inside, so they come first.
    for (i, header) in headers.iter().enumerate().rev() {
        let ip = headers.get(..i).and_then(<[Header]>::last);
        complete(&mut frame, *header, ip.copied(), ecn(packet));
    }
    frame
}

/// The ECN field of an IP packet.
fn ecn(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 6 => second >> 4 & 3,
        [_, second, ..] => second & 3,
        _ => 0,
    }
}

/// Sets lengths and checksums of a header to those of what follows it in the frame. `ip` is the
/// header before it.
fn complete(frame: &mut [u8], header: Header, ip: Option<Header>, ecn: u8) {
    let Some((before, here)) = frame.split_at_mut_checked(header.at) else { return };
    let length = here.len();
    match header.protocol {
        Protocol::Snap => set(here, 0, length.saturating_sub(2)),
        Protocol::Pppoe => set(here, 4, length.saturating_sub(6)),
        Protocol::GtpU => set(here, 2, length.saturating_sub(8)),
        Protocol::Ipv4 => {
            set(here, 2, length);
            if let Some(class) = here.get_mut(1) {
                *class = *class & !3 | ecn;
            }
            let header = here.first().map_or(0, |first| usize::from(first & 15) * 4);
            if let Some(header) = here.get_mut(..header) {
                set_checksum(header, 10, Sum16BitWords::new());
            }
        }
        Protocol::Ipv6 => {
            set(here, 4, length.saturating_sub(40));
            if let Some(class) = here.get_mut(1) {
                *class = *class & !0x30 | ecn << 4;
            }
        }
        Protocol::Udp => {
            set(here, 4, length);
            let pseudo = ip.and_then(|ip| addresses(before.get(ip.at..)?, ip.protocol));
            if let (Some(pseudo), Some(true)) = (pseudo, here.get(6..8).map(|sum| sum != [0, 0])) {
                let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
                set_checksum(here, UDP_CHECKSUM_AT, pseudo.add_2bytes([0, 17]).add_2bytes(length));
            }
        }
        Protocol::Gre => {
            let (flags, version) = match here {
                [flags, version, ..] => (*flags, *version & 7),
                _ => return,
            };
            if version == 1 {
                let acknowledgment = here.get(1).map_or(0, |byte| byte >> 7);
                let header = 8 + usize::from(flags >> 4 & 1) * 4 + usize::from(acknowledgment) * 4;
                set(here, 4, length.saturating_sub(header));
            } else if flags & 0x80 != 0 {
                set_checksum(here, 4, Sum16BitWords::new());
            }
        }
        Protocol::Vlan
        | Protocol::Ppp
        | Protocol::Mpls
        | Protocol::ControlWord
        | Protocol::Ethernet
        | Protocol::IpInIp
        | Protocol::Vxlan
        | Protocol::Geneve
        | Protocol::Erspan
        | Protocol::EtherIp => {}
    }
}

/// The sum of the addresses of an IP header.
fn addresses(ip: &[u8], protocol: Protocol) -> Option<Sum16BitWords> {
    let range = if protocol == Protocol::Ipv6 { 8..40 } else { 12..20 };
    ip.get(range).map(|addresses| Sum16BitWords::new().add_slice(addresses))
}

fn set(bytes: &mut [u8], at: usize, value: usize) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes());
    }
}

/// Sets the checksum at `at` to that of `bytes`, added to `sum`.
fn set_checksum(bytes: &mut [u8], at: usize, sum: Sum16BitWords) {
    set(bytes, at, 0);
    let sum = sum.add_slice(bytes);
    write_sum(bytes, at, sum);
}
