//! In-place edits of TCP header fields.

use crate::parse::{NotTcp, parse};

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

/// The highest of the three reserved bits of the TCP header, in the 16-bit word that begins with
/// the data offset. Set on an ACK, it is an explicit loss notification. The other two bits give the
/// kind of a notice.
pub const ELN_BIT: u16 = 0x0800;

/// Changes TCP fields of an IP packet and updates the checksum incrementally (RFC 1624). A packet
/// with an invalid checksum therefore still has an invalid one, and a truncated packet can be
/// patched.
///
/// # Errors
///
/// [`NotTcp`] if [`parse`] rejects the packet; the packet is then unchanged.
pub fn patch(packet: &mut [u8], edits: Patch) -> Result<(), NotTcp> {
    let at = parse(packet)?.tcp_at;
    if let Some(ack) = edits.ack {
        let [a, b, c, d] = ack.to_be_bytes();
        replace(packet, at, 8, [a, b]);
        replace(packet, at, 10, [c, d]);
    }
    if edits.eln {
        let word = u16::from_be_bytes([packet[at + 12], packet[at + 13]]);
        replace(packet, at, 12, (word | ELN_BIT).to_be_bytes());
    }
    if let Some(window) = edits.window {
        replace(packet, at, 14, window.to_be_bytes());
    }
    Ok(())
}

/// Replaces the 16-bit word at `offset` of the TCP header at `at`. `parse` has checked that the
/// header's 20 bytes are present.
fn replace(packet: &mut [u8], at: usize, offset: usize, new: [u8; 2]) {
    let word = |p: &[u8], o: usize| u32::from(u16::from_be_bytes([p[at + o], p[at + o + 1]]));
    // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
    let mut sum = (!word(packet, 16) & 0xffff)
        + (!word(packet, offset) & 0xffff)
        + u32::from(u16::from_be_bytes(new));
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    packet[at + offset..at + offset + 2].copy_from_slice(&new);
    packet[at + 16..at + 18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
