//! In-place edits of TCP header fields.

use crate::parse::{ELN_BIT, NotTcp, parse};

/// Header fields to change, in wire representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// New acknowledgment number field.
    pub ack: Option<u32>,
    /// New window field, after scaling (RFC 7323).
    pub window: Option<u16>,
    /// Set the explicit loss notification bit ([`ELN_BIT`]).
    pub eln: bool,
}

/// Changes TCP fields of an IP packet and updates the checksum incrementally (RFC 1624). A packet
/// with an invalid checksum therefore still has an invalid one, and a truncated packet can be
/// patched.
///
/// # Errors
///
/// [`NotTcp`] if [`parse`] rejects the packet; the packet is then unchanged.
///
/// # Examples
///
/// ```
/// use lasthop_wire::{NotTcp, Patch, parse, patch};
///
/// // IPv4 with a TCP header: an ACK from port 80 to port 5000, window 1000.
/// let mut packet = [
///     0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
///     0, 80, 0x13, 0x88, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x03, 0xe8, 0, 0, 0, 0,
/// ];
/// patch(&mut packet, Patch { window: Some(0), ..Patch::default() }).unwrap();
/// assert_eq!(parse(&packet).unwrap().window, 0);
///
/// assert_eq!(patch(&mut packet[..30], Patch::default()), Err(NotTcp::CutShort));
/// ```
pub fn patch(packet: &mut [u8], edits: Patch) -> Result<(), NotTcp> {
    let at = parse(packet)?.tcp_at;
    let header = packet.get_mut(at..).and_then(|tcp| tcp.first_chunk_mut::<20>());
    let [
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        ack_0,
        ack_1,
        ack_2,
        ack_3,
        offset,
        flags,
        window_0,
        window_1,
        sum_0,
        sum_1,
        _,
        _,
    ] = header.ok_or(NotTcp::CutShort)?;
    let mut sum = [sum_0, sum_1];
    if let Some(ack) = edits.ack {
        let [a, b, c, d] = ack.to_be_bytes();
        replace([ack_0, ack_1], [a, b], &mut sum);
        replace([ack_2, ack_3], [c, d], &mut sum);
    }
    if edits.eln {
        let word = u16::from_be_bytes([*offset, *flags]);
        replace([offset, flags], (word | ELN_BIT).to_be_bytes(), &mut sum);
    }
    if let Some(window) = edits.window {
        replace([window_0, window_1], window.to_be_bytes(), &mut sum);
    }
    Ok(())
}

/// Sets the ECN field of an IPv4 or IPv6 packet to "congestion experienced" (RFC 3168, section 5)
/// and updates the header checksum of IPv4. Other packets stay as they are.
///
/// # Examples
///
/// ```
/// use lasthop_wire::mark_congestion_experienced;
///
/// // The header of RFC 1071's example with ECT(0), and its checksum.
/// let mut header = [
///     0x45, 0x02, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x5f, //
///     0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
/// ];
/// mark_congestion_experienced(&mut header);
/// assert_eq!((header[1], header[10], header[11]), (0x03, 0xb8, 0x5e));
/// ```
pub fn mark_congestion_experienced(packet: &mut [u8]) {
    match packet {
        [first, tos, _, _, _, _, _, _, _, _, sum_high, sum_low, ..] if *first >> 4 == 4 => {
            let new = [*first, *tos | 0x03];
            replace([first, tos], new, &mut [sum_high, sum_low]);
        }
        [first, second, ..] if *first >> 4 == 6 => *second |= 0x30,
        _ => {}
    }
}

/// Replaces a 16-bit word of a header and updates the checksum.
pub(crate) fn replace(word: [&mut u8; 2], new: [u8; 2], checksum: &mut [&mut u8; 2]) {
    let [high, low] = word;
    let [sum_high, sum_low] = checksum;
    let inverted = |high: u8, low: u8| u32::from(!u16::from_be_bytes([high, low]));
    // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
    let mut sum = inverted(**sum_high, **sum_low)
        + inverted(*high, *low)
        + u32::from(u16::from_be_bytes(new));
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    [*high, *low] = new;
    [**sum_high, **sum_low] = (!(sum as u16)).to_be_bytes();
}
