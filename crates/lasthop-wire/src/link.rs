//! Link-layer header types of captures (<https://www.tcpdump.org/linktypes.html>).

/// Link-layer header type (`LINKTYPE_` value).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: 4 bytes of protocol family in host byte order.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP, with or without the address and control field of HDLC.
    pub const PPP: LinkType = LinkType(9);
    /// Raw IP, the number that some BSDs write to files.
    pub const RAW_BSD: LinkType = LinkType(12);
    /// PPP in HDLC-like framing (RFC 1662).
    pub const PPP_HDLC: LinkType = LinkType(50);
    /// PPPoE, from the PPPoE header on.
    pub const PPP_ETHER: LinkType = LinkType(51);
    /// Raw IP.
    pub const RAW: LinkType = LinkType(101);
    /// Cisco HDLC.
    pub const C_HDLC: LinkType = LinkType(104);
    /// OpenBSD loopback: 4 bytes of protocol family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// MPLS, from the label stack on.
    pub const MPLS: LinkType = LinkType(219);
    /// Raw IPv4.
    pub const IPV4: LinkType = LinkType(228);
    /// Raw IPv6.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux "cooked" capture, second version.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// The supported link types, for error messages.
    pub const SUPPORTED: &str = "Ethernet (1), raw IP (12, 101, 228, 229), Linux cooked (113, \
                                 276), loopback (0, 108), PPP (9, 50, 51), Cisco HDLC (104), MPLS \
                                 (219)";

    /// True if [`innermost`](crate::encapsulation::innermost) supports this link type.
    pub fn is_supported(self) -> bool {
        matches!(
            self,
            Self::NULL
                | Self::ETHERNET
                | Self::PPP
                | Self::RAW_BSD
                | Self::PPP_HDLC
                | Self::PPP_ETHER
                | Self::C_HDLC
                | Self::MPLS
                | Self::RAW
                | Self::LOOP
                | Self::LINUX_SLL
                | Self::IPV4
                | Self::IPV6
                | Self::LINUX_SLL2
        )
    }

    /// Swaps source and destination address in the link header, if it has both.
    pub fn reverse(self, header: &mut [u8]) {
        if let (Self::ETHERNET, Some(addresses)) = (self, header.get_mut(..12)) {
            addresses.rotate_left(6);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
