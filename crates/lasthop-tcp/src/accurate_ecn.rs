//! Feedback of ECN marks: RFC 3168's echo, or the counter of AccECN.
//!
//! Source: RFC 3168 (section 6.1.3) and RFC 9768: the receiver counts segments marked CE, and the
//! three bits AE, CWR and ECE of each ACK are the count modulo 8, from 5 on (sections 3.2.1 and
//! 3.2.2); it does not delay the ACK of a mark after a segment without one, or of a second mark
//! (section 3.2.2.5.1). The sender takes the largest count that an ACK of many segments can stand
//! for (section 3.2.2.5.2, appendix A.2). The AccECN option is not sent.

use crate::profile::Profile;
use lasthop_core::segment::{Flags, Segment};

/// The count of an end that has received no mark (RFC 9768, section 3.2.1).
const INITIAL: u32 = 5;
/// Values of the three bits.
const VALUES: u32 = 8;
/// Marks that an ACK may report at most without a delay having been cut short.
const MARKS_AT_ONCE: u32 = 2;
/// The bits, the lowest first.
const BITS: [Flags; 3] = [Flags::ECE, Flags::CWR, Flags::AE];

/// The bits of an ACK for this count.
fn encode(count: u32) -> Flags {
    (0..)
        .zip(BITS)
        .filter(|(i, _)| count >> i & 1 == 1)
        .fold(Flags::NONE, |all, (_, f)| all.with(f))
}

/// The count modulo 8 that an ACK has.
fn decode(flags: Flags) -> u32 {
    (0..).zip(BITS).filter(|(_, f)| flags.has(*f)).map(|(i, _)| 1 << i).sum()
}

/// What a receiver feeds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkEcho {
    /// A mark is echoed until the sender has reduced (RFC 3168, section 6.1.3): true while it is.
    Echo(bool),
    /// AccECN.
    Counter(Counter),
}

/// The count of AccECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counter {
    count: u32,
    /// Marks since the last ACK.
    unreported: u32,
    /// The last segment was marked.
    was_marked: bool,
}

impl MarkEcho {
    pub fn new(profile: &Profile) -> MarkEcho {
        match profile.ecn && profile.accurate_ecn {
            true => MarkEcho::Counter(Counter { count: INITIAL, ..Counter::default() }),
            false => MarkEcho::Echo(false),
        }
    }

    /// A segment with data has arrived that stands for `segments`. True if its ACK must not wait.
    pub fn on_segment(&mut self, flags: Flags, segments: u32) -> bool {
        let marked = flags.has(Flags::CE);
        match self {
            MarkEcho::Echo(echo) => {
                let before = *echo;
                *echo = marked || (before && !flags.has(Flags::CWR));
                *echo != before
            }
            MarkEcho::Counter(counter) => {
                let marks = if marked { segments } else { 0 };
                counter.count = counter.count.wrapping_add(marks);
                counter.unreported += marks;
                let was_marked = std::mem::replace(&mut counter.was_marked, marked);
                (marked && !was_marked) || counter.unreported >= MARKS_AT_ONCE
            }
        }
    }

    /// The flags of an ACK that is sent now.
    #[inline]
    pub fn flags(&mut self) -> Flags {
        match self {
            MarkEcho::Echo(false) => Flags::NONE,
            MarkEcho::Echo(true) => Flags::ECE,
            MarkEcho::Counter(counter) => {
                counter.unreported = 0;
                encode(counter.count)
            }
        }
    }

    /// ACKs have no flag of ECN, and whatever arrives without a mark changes nothing.
    #[inline]
    pub fn is_silent(&self) -> bool {
        *self == MarkEcho::Echo(false)
    }

    /// AccECN is in use.
    pub fn is_accurate(&self) -> bool {
        matches!(self, MarkEcho::Counter(_))
    }
}

/// What a sender reads from the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkReader {
    last: u32,
    /// Marks that the ACK being processed reports, modulo 8.
    reported: u32,
    /// The counts are not believed.
    ignored: bool,
}

impl MarkReader {
    pub fn new(profile: &Profile) -> Option<MarkReader> {
        (profile.ecn && profile.accurate_ecn).then_some(MarkReader {
            last: INITIAL,
            reported: 0,
            ignored: false,
        })
    }

    /// From now on ACKs report no marks.
    pub fn ignore(&mut self) {
        self.ignored = true;
    }

    /// Reads an ACK; `is_old`: it was overtaken by another one. Returns the ACK with an ECN echo in
    /// place of the count, if it reports marks.
    pub fn read(&mut self, segment: &Segment, is_old: bool) -> Segment {
        self.reported = 0;
        if !is_old && !self.ignored {
            let count = decode(segment.flags);
            self.reported = (count + VALUES - self.last) % VALUES;
            self.last = count;
        }
        let plain = BITS.into_iter().fold(segment.flags, Flags::without);
        let echo = if self.reported > 0 { Flags::ECE } else { Flags::NONE };
        Segment { flags: plain.with(echo), ..*segment }
    }

    /// Marks that the ACK reports, if it newly delivers this number of segments: as many as the
    /// count can stand for (RFC 9768, appendix A.2.1).
    pub fn marked(&self, segments: u32) -> u32 {
        if segments < VALUES || self.ignored {
            return self.reported;
        }
        segments - (segments - self.reported) % VALUES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfileName;

    fn accurate() -> Profile {
        Profile { ecn: true, accurate_ecn: true, ..Profile::named(ProfileName::Rfc) }
    }

    /// A sender and a receiver of which the ACKs of `marked` segments are sent, each one or, if
    /// `lost`, only the last one.
    fn reported(before: u32, marked: &[bool], lost: bool) -> u32 {
        let (mut echo, mut reader) = (MarkEcho::new(&accurate()), MarkReader::new(&accurate()));
        let reader = reader.as_mut().unwrap();
        let ack = |flags| Segment { flags: Flags::ACK.with(flags), ..Segment::default() };
        for _ in 0..before {
            echo.on_segment(Flags::CE, 1);
            reader.read(&ack(echo.flags()), false);
        }
        let mut sum = 0;
        for (i, &ce) in marked.iter().enumerate() {
            echo.on_segment(if ce { Flags::CE } else { Flags::NONE }, 1);
            let flags = echo.flags();
            if !lost {
                reader.read(&ack(flags), false);
                sum += reader.marked(1);
            } else if i + 1 == marked.len() {
                reader.read(&ack(flags), false);
                sum = reader.marked(marked.len() as u32);
            }
        }
        sum
    }

    /// RFC 9768, section 3.2.2.1: the count begins with 5, the bits 101.
    #[test]
    fn the_bits_are_the_count_modulo_8() {
        let mut echo = MarkEcho::new(&accurate());
        assert_eq!(echo.flags(), Flags::AE.with(Flags::ECE));
        echo.on_segment(Flags::CE, 1);
        assert_eq!(echo.flags(), Flags::AE.with(Flags::CWR));
        echo.on_segment(Flags::CE, 2);
        assert_eq!(echo.flags(), Flags::NONE);
        assert!((0..50).all(|n| decode(encode(n)) == n % 8));
    }

    #[test]
    fn every_mark_is_counted_across_wraps() {
        let marked: Vec<bool> = (0..100).map(|i| i % 3 != 1).collect();
        assert_eq!(reported(0, &marked, false), marked.iter().filter(|m| **m).count() as u32);
    }

    /// Appendix A.2.1: of 15 segments of which the count rises by 3, 3 or 11 were marked, and 11 is
    /// assumed; of 7, 3.
    #[test]
    fn a_count_that_may_have_wrapped_is_the_largest_possible() {
        let with = |marks: usize, segments: usize| -> Vec<bool> {
            (0..segments).map(|i| i < marks).collect()
        };
        for before in 0..8 {
            assert_eq!(reported(before, &with(3, 7), true), 3);
            assert_eq!(reported(before, &with(3, 15), true), 11);
            assert_eq!(reported(before, &with(11, 15), true), 11);
            assert_eq!(reported(before, &with(15, 15), true), 15);
            assert_eq!(reported(before, &with(0, 15), true), 8);
        }
    }

    /// Section 3.2.2.5.1: the first mark of a run, and every second one, are not delayed.
    #[test]
    fn acks_of_marks_are_not_delayed() {
        let mut echo = MarkEcho::new(&accurate());
        let mut urgent = |flags, sends: bool| {
            let urgent = echo.on_segment(flags, 1);
            if urgent || sends {
                echo.flags();
            }
            urgent
        };
        assert!(!urgent(Flags::NONE, true));
        assert!(urgent(Flags::CE, false));
        assert!(!urgent(Flags::CE, false));
        assert!(urgent(Flags::CE, false));
        assert!(!urgent(Flags::NONE, false));
        assert!(urgent(Flags::CE, false));
    }

    #[test]
    fn an_old_ack_reports_nothing() {
        let mut reader = MarkReader::new(&accurate()).unwrap();
        let ack = |n| Segment { flags: encode(INITIAL + n), ..Segment::default() };
        assert_eq!(reader.read(&ack(2), false).flags, Flags::ECE);
        assert_eq!(reader.read(&ack(1), true).flags, Flags::NONE);
        assert_eq!(reader.marked(1), 0);
        assert_eq!(reader.read(&ack(2), false).flags, Flags::NONE);
    }

    /// RFC 3168, section 6.1.3.
    #[test]
    fn an_echo_lasts_until_the_window_is_reduced() {
        let mut echo = MarkEcho::new(&Profile::named(ProfileName::Rfc));
        assert!(echo.is_silent() && !echo.on_segment(Flags::NONE, 1));
        assert!(echo.on_segment(Flags::CE, 1));
        assert!(!echo.on_segment(Flags::NONE, 1));
        assert_eq!(echo.flags(), Flags::ECE);
        assert!(echo.on_segment(Flags::CWR, 1));
        assert!(echo.is_silent());
    }
}
