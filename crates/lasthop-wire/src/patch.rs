//! Edits of TCP fields in the original bytes of a packet.

use crate::parse::{NotTcp, parse};

/// Header fields to change, as they stand on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// New acknowledgment number.
    pub ack: Option<u32>,
    /// New window field, scaled already.
    pub window: Option<u16>,
    /// Sets the bit of an explicit loss notification ([`ELN_BIT`]).
    pub eln: bool,
}

/// The highest of the three reserved bits of the TCP header, in the word that begins with the data
/// offset: on an ACK an explicit loss notification. The two others say what a notice is.
pub const ELN_BIT: u16 = 0x0800;

/// Changes the fields of an IP packet that carries TCP and mends the checksum by what has changed
/// (RFC 1624), so that a packet with a wrong checksum keeps a wrong one and a packet that was cut
/// short can be patched.
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

/// Puts a 16-bit word at `offset` of the TCP header at `at`, whose 20 bytes are there: `parse` has
/// seen them.
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
