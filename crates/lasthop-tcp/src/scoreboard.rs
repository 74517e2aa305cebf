//! The sender's scoreboard: the state of each segment in flight.

use lasthop_core::ring::{Ring, Span};
use lasthop_core::units::Time;

/// A segment that was sent and is not yet acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// Offset of its first byte.
    pub seq: u64,
    /// When it was first sent.
    pub first_sent: Time,
    /// When it was last sent.
    pub last_sent: Time,
    /// Payload bytes.
    pub len: u32,
    /// How often it was sent.
    pub transmissions: u16,
    /// It carries the FIN.
    pub fin: bool,
    /// Its state in SACK recovery.
    pub marks: Marks,
}

/// The state of a segment in SACK recovery, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// None.
    pub const NONE: Marks = Marks(0);
    /// The receiver has it.
    pub const SACKED: Marks = Marks(1);
    /// Its last copy, or the one before the copy in flight, is considered lost.
    pub const LOST: Marks = Marks(2);
    /// It was retransmitted, and that copy is considered in flight.
    pub const RESENT: Marks = Marks(4);
    /// The link layer retransmits it (ERSN): it is not considered lost.
    pub const HELD: Marks = Marks(8);
    /// An ERSN has arrived for the copy that was sent last.
    pub const ANNOUNCED: Marks = Marks(16);
    /// An ELN has arrived for the copy that was sent last.
    pub const REPORTED: Marks = Marks(32);
    /// What the link layer has reported of the copy that was sent last.
    pub const SAID: Marks = Marks(56);
    /// RACK has considered it lost and does not look at it again until it is retransmitted.
    pub const JUDGED: Marks = Marks(64);

    /// True if any of `other` is set.
    #[inline]
    pub fn any(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of both sets.
    #[inline]
    pub const fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }

    /// Without those of `other`.
    #[inline]
    pub const fn without(self, other: Marks) -> Marks {
        Marks(self.0 & !other.0)
    }
}

const _: () = assert!(size_of::<Sent>() <= 40);

impl Sent {
    /// The offset after it.
    #[inline]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len) + u64::from(self.fin)
    }
}

impl Span for Sent {
    #[inline]
    fn start(&self) -> u64 {
        self.seq
    }
    #[inline]
    fn end(&self) -> u64 {
        Sent::end(self)
    }
}

/// Segments at the beginning of the scoreboard that an ACK acknowledges, all of them sent once.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// Their number.
    pub count: usize,
    /// When the first of them was sent.
    pub first_sent: Time,
    /// The last of them.
    pub last: Sent,
}

/// The segments between snd_una and snd_max, in order, as a ring.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    segments: Ring<Sent>,
}

impl Scoreboard {
    /// Takes the memory of a scoreboard that is no longer used. No segment is in flight.
    pub fn reuse_memory(&mut self, old: &mut Self) {
        self.segments.reuse_memory(&mut old.segments);
    }

    /// Adds a segment after all others.
    #[inline]
    pub fn push(&mut self, sent: Sent) {
        debug_assert!(self.segments.back().is_none_or(|b| b.end() == sent.seq));
        self.segments.push(sent);
    }

    /// Removes what lies below `ack` and returns the last segment that was acknowledged whole.
    #[inline]
    pub fn acknowledge(&mut self, ack: u64) -> Option<Sent> {
        let mut last = None;
        while let Some(front) = self.segments.front_mut() {
            let end = front.end();
            if end > ack {
                if front.seq < ack {
                    front.len -= (ack - front.seq) as u32;
                    front.seq = ack;
                }
                break;
            }
            last = self.segments.pop();
            if end == ack {
                break;
            }
        }
        last
    }

    /// The segments that `ack` acknowledges, if it ends one and all of them were sent once and have
    /// no marks.
    #[inline(always)]
    pub fn sent_once_up_to(&self, ack: u64) -> Option<Delivered> {
        let first_sent = self.segments.front()?.last_sent;
        for count in 1.. {
            let last = self.segments.get(count - 1)?;
            if last.transmissions != 1 || last.marks != Marks::NONE || last.end() > ack {
                return None;
            }
            if last.end() == ack {
                return Some(Delivered { count, first_sent, last: *last });
            }
        }
        None
    }

    /// Removes this number of segments; there must be as many.
    #[inline(always)]
    pub fn drop_first(&mut self, count: usize) {
        self.segments.drop_first(count);
    }

    /// Removes the first segment if `ack` covers it; if `ack` covers a part of it, that part.
    #[inline]
    pub fn take_below(&mut self, ack: u64) -> Option<Sent> {
        let front = self.segments.front_mut()?;
        if front.end() <= ack {
            return self.segments.pop();
        }
        if front.seq >= ack {
            return None;
        }
        let part = Sent { len: (ack - front.seq) as u32, fin: false, ..*front };
        front.len -= part.len;
        front.seq = ack;
        Some(part)
    }

    /// The place, counted from snd_una, of the segment that contains `seq`.
    #[inline]
    pub fn place(&self, seq: u64) -> Option<usize> {
        self.position(seq)
    }

    /// The same for a segment that probably begins at `seq` and has this number
    /// ([`Scoreboard::number`]).
    #[inline]
    pub fn place_near(&self, seq: u64, number: usize) -> Option<usize> {
        self.segments.place_near(seq, number)
    }

    /// Number of the segment at a place; it seldom changes while the segment is in flight.
    #[inline]
    pub fn number(&self, place: usize) -> usize {
        self.segments.number(place)
    }

    /// The segment at a place, counted from snd_una.
    #[inline]
    pub fn at(&self, place: usize) -> Option<&Sent> {
        self.segments.get(place)
    }

    /// The same, to change it.
    #[inline]
    pub fn at_mut(&mut self, place: usize) -> Option<&mut Sent> {
        self.segments.get_mut(place)
    }

    /// The segment that begins at `seq` or contains it.
    pub fn find(&mut self, seq: u64) -> Option<&mut Sent> {
        let i = self.position(seq)?;
        self.segments.get_mut(i)
    }

    /// The segment that contains `seq`, by value.
    pub fn get(&self, seq: u64) -> Option<Sent> {
        self.segments.get(self.position(seq)?).copied()
    }

    #[inline]
    fn position(&self, seq: u64) -> Option<usize> {
        self.segments.place_of(seq)
    }

    /// The offset after the last segment; 0 if there is none.
    #[inline]
    pub fn end(&self) -> u64 {
        self.segments.back().map_or(0, Sent::end)
    }

    /// Segments held.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// True if nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.segments.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(seq: u64, len: u32) -> Sent {
        Sent {
            seq,
            first_sent: Time::ZERO,
            last_sent: Time::ZERO,
            len,
            transmissions: 1,
            fin: false,
            marks: Marks::NONE,
        }
    }

    #[test]
    fn a_partly_acknowledged_segment_is_trimmed() {
        let mut b = Scoreboard::default();
        b.push(sent(0, 1000));
        b.push(sent(1000, 1000));
        assert_eq!(b.acknowledge(1400).map(|s| s.seq), Some(0));
        assert_eq!(b.get(1500), Some(sent(1400, 600)));
    }

    proptest! {
        #[test]
        fn every_byte_is_found_in_its_segment(
            lens in prop::collection::vec(1u32..1500, 1..50),
            cut in 0u64..30_000,
        ) {
            let mut b = Scoreboard::default();
            let mut end = 0;
            for len in lens {
                b.push(sent(end, len));
                end += u64::from(len);
            }
            b.acknowledge(cut.min(end));
            for seq in (cut.min(end)..end).step_by(97) {
                let s = b.get(seq).unwrap();
                prop_assert!(s.seq <= seq && seq < s.end());
                // Also with a number that is that of another segment, or of none.
                for number in 0..=b.number(b.len()) {
                    prop_assert_eq!(b.place_near(seq, number), b.place(seq));
                }
            }
            prop_assert!(b.get(end).is_none());
            prop_assert_eq!(b.iter().map(|s| u64::from(s.len)).sum::<u64>(), end - cut.min(end));
        }
    }
}
