//! Link-layer header types of captures (<https://www.tcpdump.org/linktypes.html>) and the offset of
//! the IP packet in their frames.

/// Link-layer header type (`LINKTYPE_` value).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: 4 bytes of protocol family in host byte order.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// Raw IP, the number that some BSDs write to files.
    pub const RAW_BSD: LinkType = LinkType(12);
    /// Raw IP.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback: 4 bytes of protocol family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// Raw IPv4.
    pub const IPV4: LinkType = LinkType(228);
    /// Raw IPv6.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux "cooked" capture, second version.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// The supported link types, for error messages.
    pub const SUPPORTED: &str =
        "Ethernet (1), raw IP (12, 101, 228, 229), Linux cooked (113, 276), loopback (0, 108)";

    /// True if [`ip_at`](Self::ip_at) supports this link type.
    pub fn is_supported(self) -> bool {
        matches!(
            self,
            Self::NULL
                | Self::ETHERNET
                | Self::RAW_BSD
                | Self::RAW
                | Self::LOOP
                | Self::LINUX_SLL
                | Self::IPV4
                | Self::IPV6
                | Self::LINUX_SLL2
        )
    }

    /// Offset of the IP packet in `frame`, bytes; `None` if there is none or the frame is too
    /// short. VLAN tags (IEEE 802.1Q, 802.1ad) are skipped.
    pub fn ip_at(self, frame: &[u8]) -> Option<usize> {
        match self {
            Self::RAW | Self::RAW_BSD | Self::IPV4 | Self::IPV6 => Some(0),
            Self::NULL | Self::LOOP => Some(4),
            Self::ETHERNET => after_tags(frame, 12),
            Self::LINUX_SLL => after_tags(frame, 14),
            Self::LINUX_SLL2 => is_ip(ethertype(frame, 0)?).then_some(20),
            _ => None,
        }
        .filter(|&at| at < frame.len())
    }

    /// Swaps source and destination address in the link header, if it has both.
    pub fn reverse(self, header: &mut [u8]) {
        if let (Self::ETHERNET, Some(addresses)) = (self, header.get_mut(..12)) {
            addresses.rotate_left(6);
        }
    }
}

/// Offset of the IP packet after the EtherType at `at` and any VLAN tags.
fn after_tags(frame: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match ethertype(frame, at)? {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            t => return is_ip(t).then_some(at + 2),
        }
    }
}

fn ethertype(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn is_ip(ethertype: u16) -> bool {
    matches!(ethertype, 0x0800 | 0x86dd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_begins_after_the_link_header() {
        let frame = |at: usize, types: &[u16]| {
            let mut f = vec![0; at];
            types.iter().enumerate().for_each(|(i, t)| {
                f.extend(t.to_be_bytes());
                f.extend(if i + 1 < types.len() { [0, 5].as_slice() } else { &[] });
            });
            f.push(0x45);
            f
        };
        assert_eq!(LinkType::ETHERNET.ip_at(&frame(12, &[0x0800])), Some(14));
        assert_eq!(LinkType::ETHERNET.ip_at(&frame(12, &[0x8100, 0x86dd])), Some(18));
        assert_eq!(LinkType::ETHERNET.ip_at(&frame(12, &[0x88a8, 0x8100, 0x0800])), Some(22));
        assert_eq!(LinkType::ETHERNET.ip_at(&frame(12, &[0x0806])), None);
        assert_eq!(LinkType::ETHERNET.ip_at(frame(12, &[0x8100]).get(..14).unwrap()), None);
        assert_eq!(LinkType::LINUX_SLL.ip_at(&frame(14, &[0x0800])), Some(16));
        let mut sll2 = frame(0, &[0x86dd]);
        sll2.resize(21, 0);
        assert_eq!(LinkType::LINUX_SLL2.ip_at(&sll2), Some(20));
        assert_eq!(LinkType::NULL.ip_at(&[2, 0, 0, 0, 0x45]), Some(4));
        assert_eq!(LinkType::RAW.ip_at(&[0x45]), Some(0));
        assert_eq!(LinkType::RAW.ip_at(&[]), None);
        assert_eq!(LinkType(147).ip_at(&[0; 60]), None);
    }

    #[test]
    fn reverse_swaps_ethernet_addresses() {
        let mut header = *b"aaaaaabbbbbb\x08\x00";
        LinkType::ETHERNET.reverse(&mut header);
        assert_eq!(&header, b"bbbbbbaaaaaa\x08\x00");
        LinkType::ETHERNET.reverse(&mut header[..5]);
        LinkType::RAW.reverse(&mut header);
        assert_eq!(&header[..6], b"bbbbbb");
    }
}
