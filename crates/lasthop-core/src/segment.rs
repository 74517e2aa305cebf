//! Packets: TCP segments, datagrams of other traffic, and notices.

pub use crate::sack::{Block, SackBlocks};
use crate::snack::Snack;
use crate::units::Time;

/// Index of a flow (a TCP connection or a stream of datagrams) at the host.
pub type FlowId = u32;

/// Index of a node at the host; 0 if the host has no nodes.
pub type NodeId = u16;

/// The host's handle of a segment in transit.
pub type Handle = u32;

/// TCP flags and ECN marks of a segment, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u32);

impl Flags {
    /// No flag at all.
    pub const NONE: Flags = Flags(0);
    /// Synchronise sequence numbers: opens a connection.
    pub const SYN: Flags = Flags(1);
    /// The acknowledgment field is valid.
    pub const ACK: Flags = Flags(2);
    /// No more data from the sender.
    pub const FIN: Flags = Flags(4);
    /// Resets the connection.
    pub const RST: Flags = Flags(8);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(16);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(32);
    /// Congestion experienced, in the IP header (RFC 3168).
    pub const CE: Flags = Flags(64);
    /// Carries the timestamps option (RFC 7323).
    pub const TIMESTAMPS: Flags = Flags(128);
    /// Not TCP: a datagram of other traffic, which no scheme processes.
    pub const DATAGRAM: Flags = Flags(256);
    /// Carries SACK blocks (RFC 2018).
    pub const SACK: Flags = Flags(512);
    /// The first SACK block reports a duplicate (RFC 2883).
    pub const DSACK: Flags = Flags(1024);
    /// ECN-capable transport, in the IP header (RFC 3168).
    pub const ECT: Flags = Flags(2048);
    /// Low drop priority: dropped first by the routers of TCP Casablanca.
    pub const LOW_PRIORITY: Flags = Flags(4096);
    /// Explicit loss notification: the segment at `Options::named` (without NAMED, the next
    /// expected one) was lost on the radio link.
    pub const ELN: Flags = Flags(8192);
    /// Not TCP: a notice, see `Segment::of_notice`.
    pub const NOTICE: Flags = Flags(16384);
    /// The notice is addressed to the agent at its destination, not to the stack.
    pub const TO_AGENT: Flags = Flags(32768);
    /// An option names a segment: with ELN the lost one, otherwise the one that triggered the ACK
    /// (SMART).
    pub const NAMED: Flags = Flags(65536);
    /// An option carries a value from the receiver's scheme to the sender's: `Options::report`.
    pub const REPORT: Flags = Flags(131_072);
    /// An option requests segments that the receiver lacks (SNACK). With ELN they were lost on the
    /// radio link.
    pub const SNACK: Flags = Flags(262_144);
    /// The packet has a bit error that a link layer has not detected: who verifies its checksum
    /// discards it.
    pub const CORRUPTED: Flags = Flags(524_288);
    /// The code point of an ECN-capable transport is ECT(1), which identifies L4S (RFC 9331); set
    /// only with ECT.
    pub const ECT1: Flags = Flags(1_048_576);
    /// The highest bit of the count of marks in an ACK (AccECN, RFC 9768); CWR and ECE are the
    /// others.
    pub const AE: Flags = Flags(2_097_152);
    /// The options that are stored in the side table, see [`Options`].
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

    /// The union of both sets.
    #[inline]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The set without the flags of `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// The host's handle of a payload, opaque to this crate. In the simulator a payload is only a
/// length; in the live host it is the packet's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Payload(pub u32);

impl Payload {
    /// No stored bytes: the host generates the packet from the segment's fields.
    pub const NONE: Payload = Payload(0);
}

/// A TCP segment (or datagram), small enough to be copied from hop to hop.
///
/// Sequence numbers are offsets in the byte stream. The first payload byte has offset 0,
/// independent of the ISN on the wire; a host with real packets unwraps the numbers to 64 bits. A
/// FIN occupies the offset after the last byte. A SYN has `seq` 0 and no payload, and a SYN-ACK has
/// `ack` 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Stream offset of the first payload byte.
    pub seq: u64,
    /// Next stream offset expected from the peer; valid if `flags` has ACK.
    pub ack: u64,
    /// Unique number of the packet; copies made in the network get new numbers.
    pub id: u64,
    /// Flow of the segment.
    pub flow: FlowId,
    /// Payload length, bytes.
    pub len: u32,
    /// Length with IP and TCP headers, without link overhead, bytes.
    pub size: u32,
    /// Advertised receive window, bytes, after scaling.
    pub window: u32,
    /// TSval, microseconds, wraps around; valid if `flags` has TIMESTAMPS.
    pub ts_value: u32,
    /// TSecr, microseconds; valid if `flags` has TIMESTAMPS.
    pub ts_echo: u32,
    /// The host's handle of the payload.
    pub payload: Payload,
    /// Destination node.
    pub to: NodeId,
    /// TCP flags, ECN marks and options present.
    pub flags: Flags,
    /// Number of transmissions of these bytes, including this one (1: original transmission).
    pub attempt: u16,
    /// True for segments from the flow's data sender to its data receiver.
    pub forward: bool,
}

const _: () = assert!(size_of::<Segment>() <= 64);

impl Segment {
    /// Stream offset after the last payload byte; a FIN counts as one byte. Saturates, because the
    /// numbers of a malicious peer may overflow.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_core::segment::{Flags, Segment};
    ///
    /// let last = Segment { seq: 2000, len: 500, flags: Flags::FIN, ..Segment::default() };
    /// assert_eq!(last.end(), 2501);
    /// ```
    #[inline]
    pub fn end(&self) -> u64 {
        self.seq.saturating_add(u64::from(self.len) + u64::from(self.flags.has(Flags::FIN)))
    }

    /// True for a TCP segment that occupies sequence numbers: it has data, a SYN or a FIN.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_core::segment::{Flags, Segment};
    ///
    /// assert!(Segment { flags: Flags::SYN, ..Segment::default() }.has_sequence_numbers());
    /// assert!(!Segment { flags: Flags::ACK, ..Segment::default() }.has_sequence_numbers());
    /// ```
    #[inline]
    pub fn has_sequence_numbers(&self) -> bool {
        (self.len > 0 || self.flags.any(Flags::SYN.with(Flags::FIN)))
            && !self.flags.has(Flags::DATAGRAM)
    }

    /// True if an ACK with a repeated acknowledgment number is a duplicate ACK: it has no data, no
    /// FIN and the same window (RFC 5681 section 2). With SACK blocks the window is ignored (RFC
    /// 6675 section 2), because a receiver with buffer auto-tuning, such as Linux, also changes its
    /// window while segments are missing. A D-SACK block does not indicate a loss.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_core::segment::{Flags, Segment};
    ///
    /// let ack = Segment { ack: 1000, flags: Flags::ACK, ..Segment::default() };
    /// assert!(ack.is_duplicate_ack(true));
    /// // Another window: a window update, unless the ACK has SACK blocks.
    /// assert!(!ack.is_duplicate_ack(false));
    /// let sack = Segment { flags: Flags::ACK.with(Flags::SACK), ..ack };
    /// assert!(sack.is_duplicate_ack(false));
    /// ```
    #[inline]
    pub fn is_duplicate_ack(&self, same_window: bool) -> bool {
        let reports = self.flags.has(Flags::SACK) && !self.flags.has(Flags::DSACK);
        self.len == 0 && !self.flags.has(Flags::FIN) && (same_window || reports)
    }

    /// The packet that carries a notice to a node. It has the form of an ACK (yun2009, section 3.1)
    /// with the value as its acknowledgment number.
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

    /// The notice that the packet carries, if any.
    pub fn notice(&self) -> Option<Notice> {
        let kind = NoticeKind::ALL
            .into_iter()
            .find(|k| *k as u32 == self.window)
            .filter(|_| self.flags.has(Flags::NOTICE))?;
        Some(Notice { kind, flow: self.flow, value: self.ack, stamp: Time(self.seq) })
    }
}

/// Length of a notice packet, bytes: IP and TCP headers without options.
pub const NOTICE_BYTES: u32 = 40;

/// Length of the option that names a segment, bytes: kind, length, ExID (RFC 6994) and a sequence
/// number.
pub const NAMED_BYTES: u32 = 8;

/// Length of the option that reports a value, bytes: kind, length, ExID (RFC 6994) and 32 bits.
pub const REPORT_BYTES: u32 = 8;

/// TCP options other than timestamps. They are stored in a side table, because most segments have
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// SACK blocks; valid if the segment's flags have SACK.
    pub sack: SackBlocks,
    /// Stream offset of the segment that an ACK names; valid if the flags have NAMED.
    pub named: u64,
    /// Value reported by the receiver's scheme, such as a rate; valid if the flags have REPORT.
    pub report: u32,
    /// Segments that an ACK requests; valid if the flags have SNACK.
    pub snack: Snack,
}

impl Options {
    /// No options.
    pub const NONE: Options =
        Options { sack: SackBlocks::NONE, named: 0, report: 0, snack: Snack::NONE };

    /// The first SACK block reports a duplicate: it is below the ACK number, or part of the second
    /// block (RFC 2883, section 4).
    pub fn report_duplicate(&self, ack: u64) -> bool {
        match self.sack.as_slice() {
            [first, ..] if first.end <= ack => true,
            [first, second, ..] => second.start <= first.start && first.end <= second.end,
            _ => false,
        }
    }
}

/// Direction of a segment relative to the mobile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Towards the mobile station.
    Downlink,
    /// From the mobile station.
    Uplink,
}

impl Direction {
    /// The opposite direction.
    pub fn reverse(self) -> Direction {
        match self {
            Direction::Downlink => Direction::Uplink,
            Direction::Uplink => Direction::Downlink,
        }
    }
}

/// A message outside of TCP: routed, queued, delayed and lost like any packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Notice {
    /// Kind of information.
    pub kind: NoticeKind,
    /// The flow that the notice refers to.
    pub flow: FlowId,
    /// Stream offset, rate in bit/s, time in ns or queue length in bytes, depending on the kind.
    pub value: u64,
    /// Time when the notice was created.
    pub stamp: Time,
}

/// The kinds of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoticeKind {
    /// The last hop is down (value 0) or up again (value 1).
    Link,
    /// From an oracle: payload rate of the flow if all flows shared its path equally, bit/s.
    FairShare,
    /// From an oracle: payload rate that the other flows leave on its path, bit/s.
    Residual,
    /// From an oracle: round-trip time with empty queues, ns.
    BaseRtt,
    /// Explicit retransmission start: the link layer starts to retransmit the segment at this
    /// offset (yun2009, section 3.1).
    Ersn,
    /// Explicit loss notification: the segment at this offset was lost on the radio link.
    Eln,
    /// Rate of the radio link for the flow, bit/s; 0 if the link is down (janevski2009).
    Bandwidth,
    /// Bytes of the flow in the queue of the radio link.
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

    /// Name in events.
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
    fn end_saturates_at_the_largest_offset() {
        let hostile =
            Segment { seq: u64::MAX - 3, len: 1000, flags: Flags::FIN, ..Segment::default() };
        assert_eq!(hostile.end(), u64::MAX);
    }

    #[test]
    fn notices_round_trip_through_packets() {
        for kind in NoticeKind::ALL {
            let notice = Notice { kind, flow: 7, value: u64::MAX - 3, stamp: Time(12_345_678_901) };
            let packet = Segment::of_notice(&notice, 3);
            assert_eq!((packet.notice(), packet.to, packet.size), (Some(notice), 3, 40));
        }
        assert_eq!(Segment::default().notice(), None);
    }
}
