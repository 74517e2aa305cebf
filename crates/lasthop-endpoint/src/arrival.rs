//! Packets that arrive, as the segments of the core.

use lasthop::segment::{Flags, Options, Segment};
use lasthop_wire::{TcpPacket, has_valid_checksum, parse};

/// A TCP packet that has arrived whole, with a valid checksum.
pub(crate) fn read(packet: &[u8]) -> Option<TcpPacket<'_>> {
    let tcp = parse(packet).ok()?;
    let whole = tcp.payload.len() == tcp.payload_len as usize;
    (whole && has_valid_checksum(packet)).then_some(tcp)
}

/// The numbers by which the fields of a connection's packets become stream offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origins {
    /// Sequence number of offset 0 of the peer's stream, and the next offset expected.
    pub seq_zero: u32,
    pub next: u64,
    /// Sequence number of offset 0 of this end's stream, and its first unacknowledged offset.
    pub ack_zero: u32,
    pub unacknowledged: u64,
    /// Shift of the peer's window field.
    pub shift: u8,
    /// Timestamps are used, with this offset of the clock.
    pub timestamp_offset: Option<u32>,
    /// Payload bytes of a full segment, in which SNACK counts.
    pub mss: u32,
    /// What the connection has not negotiated: SACK, ECN.
    pub ignored: Flags,
}

/// A segment with its distances from what the connection expects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub segment: Segment,
    pub options: Options,
    /// Distance of its first byte from the next one expected.
    pub ahead: i64,
    /// Distance of its ACK number from the first unacknowledged byte.
    pub acks: i64,
}

impl Origins {
    /// The segment of a packet. Offsets are those closest to what is expected (RFC 9293, section
    /// 3.4); a sequence number before the stream wraps around, an ACK number is that of its start.
    pub fn arrival(&self, tcp: &TcpPacket<'_>) -> Arrival {
        let distance = |number: u32, zero: u32, offset: u64| {
            i64::from(number.wrapping_sub(zero).wrapping_sub(offset as u32) as i32)
        };
        let ahead = distance(tcp.seq, self.seq_zero, self.next);
        let acks = distance(tcp.ack, self.ack_zero, self.unacknowledged);
        let ack = self.unacknowledged.saturating_add_signed(acks);
        let flags = tcp.flags();
        let (present, options) = tcp.segment_options(ack, self.mss);
        let stamps = tcp.timestamps().zip(self.timestamp_offset);
        let mut flags = flags.with(present).without(self.ignored);
        if !flags.has(Flags::SACK) {
            flags = flags.without(Flags::DSACK);
        }
        let (mut ts_value, mut ts_echo) = (0, 0);
        match stamps {
            Some(((value, echo), offset)) => {
                ts_value = value;
                ts_echo = if flags.has(Flags::ACK) { echo.wrapping_sub(offset) } else { 0 };
            }
            None => flags = flags.without(Flags::TIMESTAMPS),
        }
        let shift = if flags.has(Flags::SYN) { 0 } else { self.shift };
        let segment = Segment {
            seq: self.next.wrapping_add_signed(ahead),
            ack,
            window: u32::from(tcp.window) << shift,
            flags,
            len: tcp.payload_len,
            size: tcp.total_len,
            ts_value,
            ts_echo,
            attempt: 1,
            ..Segment::default()
        };
        Arrival { segment, options, ahead, acks }
    }
}
