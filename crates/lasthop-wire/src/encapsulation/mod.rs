//! Encapsulations: finds the innermost IP packet of a captured frame, and puts a new packet behind
//! the headers of another one.
//!
//! A base station's own captures contain the packets of mobiles inside tunnels: GTP-U on S1-U and
//! N3, PPPoE or MPLS on a backhaul, VXLAN or ERSPAN from a mirror port. [`innermost`] walks over
//! these headers.

mod headers;
mod rewrap;

use crate::link::LinkType;
use crate::parse::NotTcp;

/// The largest number of headers that [`innermost`] follows; an MPLS label stack counts as one.
pub const MAX_HEADERS: usize = 16;

/// A protocol that carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// IEEE 802.1Q or 802.1ad tag.
    Vlan,
    /// IEEE 802.3 with LLC and SNAP (RFC 1042); its length is in the Ethernet header.
    Snap,
    /// PPPoE session (RFC 2516).
    Pppoe,
    /// PPP protocol field (RFC 1661).
    Ppp,
    /// MPLS label stack (RFC 3032).
    Mpls,
    /// Control word of a pseudo-wire (RFC 4385).
    ControlWord,
    /// Ethernet inside another protocol.
    Ethernet,
    /// IPv4 header, with its options.
    Ipv4,
    /// IPv6 header, with its extension headers.
    Ipv6,
    /// IP directly in IP (RFC 2003, RFC 4213); the header has no bytes.
    IpInIp,
    /// UDP header.
    Udp,
    /// GRE (RFC 2784, RFC 2890, RFC 2637).
    Gre,
    /// GTP-U with its extension headers (3GPP TS 29.281).
    GtpU,
    /// VXLAN (RFC 7348) or VXLAN-GPE.
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// ERSPAN in GRE (draft-foschiano-erspan).
    Erspan,
    /// EtherIP (RFC 3378).
    EtherIp,
}

impl Protocol {
    /// Name for reports; `None` for headers that only carry one of the other protocols.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Protocol::Vlan => Some("VLAN"),
            Protocol::Pppoe => Some("PPPoE"),
            Protocol::Mpls => Some("MPLS"),
            Protocol::ControlWord => Some("pseudo-wire"),
            Protocol::IpInIp => Some("IP-in-IP"),
            Protocol::Gre => Some("GRE"),
            Protocol::GtpU => Some("GTP-U"),
            Protocol::Vxlan => Some("VXLAN"),
            Protocol::Geneve => Some("Geneve"),
            Protocol::Erspan => Some("ERSPAN"),
            Protocol::EtherIp => Some("EtherIP"),
            Protocol::Snap
            | Protocol::Ppp
            | Protocol::Ethernet
            | Protocol::Ipv4
            | Protocol::Ipv6
            | Protocol::Udp => None,
        }
    }
}

/// A header and its offset in the frame, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    protocol: Protocol,
    at: usize,
}

/// The headers of a frame before its innermost IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    link_type: LinkType,
    /// Outermost first, without the link header.
    headers: Vec<Header>,
}

impl Encapsulation {
    /// No headers: the frame is an IP packet.
    pub const NONE: Encapsulation = Encapsulation::link(LinkType::RAW);

    /// The link header only.
    pub const fn link(link_type: LinkType) -> Encapsulation {
        Encapsulation { link_type, headers: Vec::new() }
    }

    /// Names of the protocols, outermost first: "VLAN, PPPoE"; empty for plain IP.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.headers.iter().filter_map(|h| h.protocol.name()).collect();
        names.join(", ")
    }

    /// True if the frame belongs to a tunnel. VLAN tags and PPPoE are the same for both directions
    /// of a link; tunnels have identifiers (TEID, label, addresses) for each direction.
    pub fn is_tunnel(&self) -> bool {
        use Protocol::{Ppp, Pppoe, Snap, Vlan};
        self.headers.iter().any(|h| !matches!(h.protocol, Vlan | Snap | Pppoe | Ppp))
    }

    /// Turns the headers `prefix` of one direction into those of the other, if they say enough:
    /// swaps the addresses of the link. Returns false for a tunnel, and changes nothing.
    pub fn reverse(&self, prefix: &mut [u8]) -> bool {
        if self.is_tunnel() {
            return false;
        }
        self.link_type.reverse(prefix);
        true
    }

    /// A frame with the headers `prefix`, of which this is the description, and the IP packet
    /// `packet`. Lengths and checksums of the headers are those of the new frame, and the ECN field
    /// of outer IP headers is that of the packet (RFC 6040, section 4.1). Identifiers and sequence
    /// numbers of the headers stay; a UDP checksum that is not used (0) stays unused.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_wire::encapsulation::innermost;
    /// use lasthop_wire::LinkType;
    ///
    /// // IPv4 in IPv4: 20 bytes of header, and a packet of 40 bytes.
    /// let ip = |protocol, length| {
    ///     [0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
    /// };
    /// let frame = [ip(4, 60), ip(6, 40), [0; 20]].concat();
    /// let found = innermost(LinkType::RAW, &frame).unwrap();
    /// let packet = [&ip(6, 50)[..], &[0; 30]].concat();
    /// let longer = found.encapsulation.wrap(&frame[..found.ip_at], &packet);
    /// assert_eq!((longer.len(), longer[3]), (70, 70));
    /// ```
    pub fn wrap(&self, prefix: &[u8], packet: &[u8]) -> Vec<u8> {
        rewrap::wrap(&self.headers, prefix, packet)
    }
}

/// The innermost IP packet of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Innermost {
    /// Offset of its header in the frame, bytes.
    pub ip_at: usize,
    /// Offset of its end, bytes; at most the captured length. Bytes after it are padding or
    /// trailers of the outer headers.
    pub end: usize,
    /// The headers before it.
    pub encapsulation: Encapsulation,
}

/// Finds the innermost IP packet of a frame, if it carries TCP.
///
/// # Errors
///
/// [`NotTcp`] with the reason why there is none, or why it cannot be found: an encrypted or unknown
/// protocol, a fragment, a truncated or inconsistent header, more than [`MAX_HEADERS`] headers.
///
/// # Examples
///
/// ```
/// use lasthop_wire::encapsulation::innermost;
/// use lasthop_wire::{LinkType, NotTcp};
///
/// // Ethernet, a VLAN tag, IPv4 with TCP.
/// let mut frame = [0; 18].to_vec();
/// frame[12..14].copy_from_slice(&[0x81, 0x00]);
/// frame[16..18].copy_from_slice(&[0x08, 0x00]);
/// frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
/// frame.extend([0; 20]);
/// let found = innermost(LinkType::ETHERNET, &frame).unwrap();
/// assert_eq!((found.ip_at, found.encapsulation.names().as_str()), (18, "VLAN"));
///
/// // The same packet, encrypted.
/// frame[27] = 50;
/// assert_eq!(innermost(LinkType::ETHERNET, &frame), Err(NotTcp::Opaque("ESP")));
/// ```
pub fn innermost(link_type: LinkType, frame: &[u8]) -> Result<Innermost, NotTcp> {
    let mut walk = Walk { frame, at: 0, end: usize::MAX, headers: Vec::new() };
    let mut next = headers::by_link_type(link_type, &mut walk)?;
    loop {
        if walk.headers.len() > MAX_HEADERS {
            return Err(NotTcp::TooDeep);
        }
        match (next.0)(&mut walk)? {
            Some(step) => next = step,
            None => break,
        }
    }
    Ok(Innermost {
        ip_at: walk.at,
        end: walk.end.min(frame.len()),
        encapsulation: Encapsulation { link_type, headers: walk.headers },
    })
}

/// Reads the header at the place of a [`Walk`], passes over it and says what follows; `None` if an
/// IP packet with TCP begins here.
#[derive(Clone, Copy)]
struct Step(fn(&mut Walk<'_>) -> Result<Option<Step>, NotTcp>);

/// A place in a frame.
struct Walk<'a> {
    frame: &'a [u8],
    /// Offset of the next header, bytes.
    at: usize,
    /// End of the enclosing packet on the wire as the headers until here state it, bytes; it may
    /// lie beyond the captured part.
    end: usize,
    headers: Vec<Header>,
}

impl<'a> Walk<'a> {
    /// The captured bytes from here to the end of the enclosing packet.
    fn rest(&self) -> &'a [u8] {
        self.frame.get(self.at..self.end.min(self.frame.len())).unwrap_or_default()
    }

    /// The first `N` bytes from here plus `offset`.
    fn bytes<const N: usize>(&self, offset: usize) -> Result<[u8; N], NotTcp> {
        let found = self.rest().get(offset..).and_then(<[u8]>::first_chunk);
        found.copied().ok_or_else(|| self.too_short(offset + N))
    }

    fn u16(&self, offset: usize) -> Result<u16, NotTcp> {
        self.bytes(offset).map(u16::from_be_bytes)
    }

    /// Why `length` bytes from here cannot be read: the outer headers end before, or the capture.
    fn too_short(&self, length: usize) -> NotTcp {
        if self.at.saturating_add(length) > self.end {
            NotTcp::MalformedTunnel
        } else {
            NotTcp::CutShort
        }
    }

    /// States that the enclosing packet ends `length` bytes from here. If the packet around ends
    /// before, so does this one: tools that wrap truncated packets write such lengths.
    fn bound(&mut self, length: usize) {
        self.end = self.end.min(self.at.saturating_add(length));
    }

    /// Passes over `length` bytes.
    fn skip(&mut self, length: usize) -> Result<(), NotTcp> {
        if length > self.rest().len() {
            return Err(self.too_short(length));
        }
        self.at += length;
        Ok(())
    }

    /// Notes a header that begins here, and passes over its `length` bytes.
    fn enter(&mut self, protocol: Protocol, length: usize) -> Result<(), NotTcp> {
        self.headers.push(Header { protocol, at: self.at });
        self.skip(length)
    }
}
