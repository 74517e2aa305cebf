//! What travels: TCP segments, datagrams of other traffic, and notices.

use crate::snack::Snack;
use crate::units::Time;

/// Index of a flow (a TCP connection or a stream of datagrams) at the host.
pub type FlowId = u32;

/// Index of a node at the host; where a host has no nodes, 0.
pub type NodeId = u16;

/// The host's handle of a segment on its way, in its pool.
pub type Handle = u32;

/// TCP flags and ECN marks of a segment, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u32);

impl Flags {
    /// No flag at all.
    pub const NONE: Flags = Flags(0);
    /// Synchronise: opens a connection.
    pub const SYN: Flags = Flags(1);
    /// The acknowledgment field counts.
    pub const ACK: Flags = Flags(2);
    /// No more data from the sender.
    pub const FIN: Flags = Flags(4);
    /// Reset.
    pub const RST: Flags = Flags(8);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(16);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(32);
    /// Congestion experienced, in the IP header (RFC 3168).
    pub const CE: Flags = Flags(64);
    /// Carries the timestamps option (RFC 7323).
    pub const TIMESTAMPS: Flags = Flags(128);
    /// Not TCP: a datagram of other traffic, which no scheme touches.
    pub const DATAGRAM: Flags = Flags(256);
    /// Carries SACK blocks (RFC 2018).
    pub const SACK: Flags = Flags(512);
    /// The first SACK block reports a duplicate (RFC 2883).
    pub const DSACK: Flags = Flags(1024);
    /// ECN-capable transport, in the IP header (RFC 3168).
    pub const ECT: Flags = Flags(2048);
    /// Of low priority: dropped first by the routers of TCP Casablanca.
    pub const LOW_PRIORITY: Flags = Flags(4096);
    /// Explicit loss notification: the segment that `Options::named` names, or without NAMED the
    /// one expected next, is lost and the radio lost it.
    pub const ELN: Flags = Flags(8192);
    /// Not TCP either: a notice, see `Segment::of_notice`.
    pub const NOTICE: Flags = Flags(16384);
    /// The notice is for the agent at its destination, not for the stack there.
    pub const TO_AGENT: Flags = Flags(32768);
    /// An option names a segment: with ELN the one that is lost, otherwise the one whose arrival
    /// the ACK answers (SMART).
    pub const NAMED: Flags = Flags(65536);
    /// An option carries a number of the receiver's scheme for the sender's: `Options::report`.
    pub const REPORT: Flags = Flags(131_072);
    /// An option asks for what the receiver misses (SNACK). With ELN it says that the radio lost
    /// that.
    pub const SNACK: Flags = Flags(262_144);
    /// Any option of the side table.
    pub const OPTIONS: Flags =
        Flags::SACK.with(Flags::NAMED).with(Flags::REPORT).with(Flags::SNACK);

    /// True if any flag of `other` is set.
    #[inline]
    pub fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// True if every flag of `other` is set.
    #[inline]
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[inline]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The set without the flags of `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// The host's handle of a payload. The core never looks inside: in the simulator there is nothing
/// but a length, live it names the packet's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Payload(pub u32);

impl Payload {
    /// No bytes behind it: the host makes the packet from the segment's fields alone.
    pub const NONE: Payload = Payload(0);
}

/// A TCP segment (or datagram), small enough to be copied from hop to hop.
///
/// Sequence numbers are offsets in the byte stream: the first payload byte is 0, whatever the
/// initial sequence number on the wire; a host that sees real packets unwraps them to 64 bits. A
/// FIN takes the offset after the last byte. A SYN has `seq` 0 and no payload, and its answer `ack`
/// 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first payload byte.
    pub seq: u64,
    /// Next byte expected from the other side; counts if `flags` has ACK.
    pub ack: u64,
    /// A number of its own for every packet that a host makes; copies made on the way get new ones.
    pub id: u64,
    /// Connection.
    pub flow: FlowId,
    /// Payload bytes.
    pub len: u32,
    /// Bytes on the wire, headers included, link overhead excluded.
    pub size: u32,
    /// Advertised receive window in bytes, scaling already applied.
    pub window: u32,
    /// Timestamp value in microseconds (counts if `flags` has TIMESTAMPS); wraps.
    pub ts_value: u32,
    /// Timestamp echoed, microseconds.
    pub ts_echo: u32,
    /// The host's payload.
    pub payload: Payload,
    /// Destination node.
    pub to: NodeId,
    /// Flags.
    pub flags: Flags,
    /// How often these bytes had been sent when this segment left the sender, itself included (1 =
    /// first sending).
    pub attempt: u16,
    /// True on the way from the data sender to the data receiver of the flow.
    pub forward: bool,
}

const _: () = assert!(size_of::<Segment>() <= 64);

impl Segment {
    /// Offset after the last payload byte; a FIN counts one. Not beyond the largest offset,
    /// whatever a hostile peer numbers.
    #[inline]
    pub fn end(&self) -> u64 {
        self.seq.saturating_add(u64::from(self.len) + u64::from(self.flags.has(Flags::FIN)))
    }

    /// An ACK that says the same number once more is a duplicate (RFC 5681, section 2) if it has no
    /// data and no FIN, and the same window. With SACK blocks it is one whatever its window (RFC
    /// 6675, section 2): a receiver that tunes its buffer, as Linux does, changes the window while
    /// segments are missing too. A block that reports a duplicate tells of no loss.
    #[inline]
    pub fn is_duplicate_ack(&self, same_window: bool) -> bool {
        let reports = self.flags.has(Flags::SACK) && !self.flags.has(Flags::DSACK);
        self.len == 0 && !self.flags.has(Flags::FIN) && (same_window || reports)
    }

    /// The packet that carries a notice to a node: like an ACK (yun2009, section 3.1), with the
    /// value in the place of the acknowledgment number.
    pub fn of_notice(notice: &Notice, to: NodeId) -> Segment {
        Segment {
            seq: notice.stamp.0,
            ack: notice.value,
            flow: notice.flow,
            size: NOTICE_BYTES,
            window: notice.kind as u32,
            to,
            flags: Flags::NOTICE,
            ..Segment::default()
        }
    }

    /// The notice that the packet carries, if it is such a packet.
    pub fn notice(&self) -> Option<Notice> {
        let kind = NoticeKind::ALL
            .into_iter()
            .find(|k| *k as u32 == self.window)
            .filter(|_| self.flags.has(Flags::NOTICE))?;
        Some(Notice { kind, flow: self.flow, value: self.ack, stamp: Time(self.seq) })
    }
}

/// Bytes on the wire of a packet with a notice: IP and TCP headers without options.
pub const NOTICE_BYTES: u32 = 40;

/// Bytes on the wire of the option that names a segment: an experimental one (RFC 6994) with kind,
/// length, ExID and a sequence number.
pub const NAMED_BYTES: u32 = 8;

/// Bytes on the wire of the option that reports a number: an experimental one (RFC 6994) with kind,
/// length, ExID and 32 bits.
pub const REPORT_BYTES: u32 = 8;

/// TCP options beside the timestamps: they travel in a side table, for most segments have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// SACK blocks; they count if the segment's flags have SACK.
    pub sack: SackBlocks,
    /// Offset of the first byte of the segment that an ACK names; it counts if the flags have
    /// NAMED.
    pub named: u64,
    /// A number that the receiver's scheme reports, such as a rate; it counts if the flags have
    /// REPORT.
    pub report: u32,
    /// What an ACK asks for; it counts if the flags have SNACK.
    pub snack: Snack,
}

impl Options {
    /// No options.
    pub const NONE: Options =
        Options { sack: SackBlocks::NONE, named: 0, report: 0, snack: Snack::NONE };
}

/// A range of bytes [start, end).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

/// Up to four ranges that have arrived, the latest first (RFC 2018, section 4).
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    blocks: [Block; 4],
    len: u8,
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &SackBlocks) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl SackBlocks {
    /// None.
    pub const NONE: SackBlocks = SackBlocks { blocks: [Block { start: 0, end: 0 }; 4], len: 0 };

    /// Adds a block after the others; a fifth has no room and is left out.
    pub fn push(&mut self, start: u64, end: u64) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = Block { start, end };
            self.len += 1;
        }
    }

    /// Takes over the blocks of another one.
    #[inline]
    pub fn set(&mut self, other: &SackBlocks) {
        self.len = other.len;
        self.blocks.iter_mut().zip(other.as_slice()).for_each(|(mine, its)| *mine = *its);
    }

    /// The blocks.
    #[inline]
    pub fn as_slice(&self) -> &[Block] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// The direction of a segment at an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Towards the mobile station.
    Downlink,
    /// From the mobile station.
    Uplink,
}

impl Direction {
    /// The other one.
    pub fn reverse(self) -> Direction {
        match self {
            Direction::Downlink => Direction::Uplink,
            Direction::Uplink => Direction::Downlink,
        }
    }
}

/// A message beside TCP: routed, queued, delayed and lost like any packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Notice {
    /// What it says.
    pub kind: NoticeKind,
    /// The flow it is about.
    pub flow: FlowId,
    /// Sequence number, rate in bit/s or queue in bytes, as the kind says.
    pub value: u64,
    /// When it was made.
    pub stamp: Time,
}

/// The kinds of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoticeKind {
    /// The last hop is down (value 0) or up again (value 1).
    Link,
    /// What an oracle knows: the payload rate in bit/s that the flow could have if all flows shared
    /// its path alike.
    FairShare,
    /// What an oracle knows: the payload rate in bit/s that the other flows leave of its path.
    Residual,
    /// What an oracle knows: the round-trip time in ns with empty queues.
    BaseRtt,
    /// Explicit retransmission start: the link layer begins to send the segment at this offset
    /// again (yun2009, section 3.1).
    Ersn,
    /// Explicit loss: the segment at this offset is lost on the radio link.
    Eln,
    /// The rate in bit/s that the radio link has for the flow; 0: it is down (janevski2009).
    Bandwidth,
    /// The bytes of the flow that wait at the radio link.
    Queue,
}

impl NoticeKind {
    /// All kinds.
    pub const ALL: [NoticeKind; 8] = [
        NoticeKind::Link,
        NoticeKind::FairShare,
        NoticeKind::Residual,
        NoticeKind::BaseRtt,
        NoticeKind::Ersn,
        NoticeKind::Eln,
        NoticeKind::Bandwidth,
        NoticeKind::Queue,
    ];

    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            NoticeKind::Link => "link",
            NoticeKind::FairShare => "fair share",
            NoticeKind::Residual => "residual",
            NoticeKind::BaseRtt => "base rtt",
            NoticeKind::Ersn => "ersn",
            NoticeKind::Eln => "eln",
            NoticeKind::Bandwidth => "bandwidth",
            NoticeKind::Queue => "queue",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_end_where_numbers_do() {
        let hostile =
            Segment { seq: u64::MAX - 3, len: 1000, flags: Flags::FIN, ..Segment::default() };
        assert_eq!(hostile.end(), u64::MAX);
    }

    #[test]
    fn a_notice_is_read_from_its_packet_as_it_was_written() {
        for kind in NoticeKind::ALL {
            let notice = Notice { kind, flow: 7, value: u64::MAX - 3, stamp: Time(12_345_678_901) };
            let packet = Segment::of_notice(&notice, 3);
            assert_eq!((packet.notice(), packet.to, packet.size), (Some(notice), 3, 40));
        }
        assert_eq!(Segment::default().notice(), None);
    }
}
