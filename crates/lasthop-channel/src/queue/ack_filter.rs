//! The ACK filter of CAKE: a segment that arrives at a queue removes an ACK that waits there and
//! that it makes redundant.
//!
//! Source: Høiland-Jørgensen, Täht and Morton, "Piece of CAKE: a comprehensive queue management
//! solution for home gateways", LANMAN 2018; Linux (`sch_cake.c`: `cake_ack_filter`,
//! `cake_tcph_may_drop`, `cake_tcph_sack_compare`), whose rules these are.
//!
//! The arriving segment, which may have data, has ACK and not SYN. A waiting frame is redundant if
//! it is a pure ACK of the same connection and direction, has no flags besides ACK, ECE and CWR, no
//! options besides timestamps and SACK, no later timestamp than the arriving segment, and no higher
//! acknowledgment number. Blocks of the arriving segment cover all of its SACK blocks. If both have
//! the same acknowledgment number, those of the arriving segment also report more bytes: a
//! duplicate ACK without news is not redundant. Neither is an ACK with a D-SACK block below its
//! acknowledgment number.
//!
//! At most one frame is removed at a time: the first redundant one, if a second one follows and
//! neither ECE nor CWR change between the first and the next segment of the connection. The
//! aggressive filter also removes an only redundant one, if it is the last frame of the queue and
//! has the same ECE and CWR as the arriving segment.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::discipline::{Frame, Headers};
use lasthop_core::segment::{Block, Flags, Options, Segment};

/// Which redundant ACKs are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AckFilter {
    /// None.
    #[default]
    Off,
    /// Two redundant ACKs at least wait, of which the first is removed.
    On,
    /// Also the only one, at the end of the queue.
    Aggressive,
}

/// No TCP segments.
const NOT_TCP: Flags = Flags::DATAGRAM.with(Flags::NOTICE);

/// Flags of ACKs that are never removed. Linux compares the reserved bits too, of which AccECN uses
/// one (AE), and does not know the options.
const KEPT: Flags = Flags::SYN
    .with(Flags::FIN)
    .with(Flags::RST)
    .with(Flags::AE)
    .with(Flags::ELN)
    .with(Flags::NAMED)
    .with(Flags::REPORT)
    .with(Flags::SNACK);

/// A segment and its options.
type Header<'a> = (&'a Segment, &'a Options);

impl AckFilter {
    /// All filters.
    pub const ALL: [AckFilter; 3] = [AckFilter::Off, AckFilter::On, AckFilter::Aggressive];

    /// The frame of a queue, counted from its head, that the arriving frame removes.
    pub(super) fn redundant<'a>(
        self,
        queue: impl Iterator<Item = &'a Frame>,
        arriving: &Frame,
        headers: &dyn Headers,
    ) -> Option<usize> {
        let new = headers.segment(arriving.handle);
        let triggers = new.flags.has(Flags::ACK) && !new.flags.any(NOT_TCP.with(Flags::SYN));
        if self == AckFilter::Off || !triggers {
            return None;
        }
        let new = (new, headers.options(arriving.handle).unwrap_or(&Options::NONE));
        // The first redundant frame and what it echoes.
        let mut first: Option<(usize, Flags)> = None;
        let mut frames = 0;
        for (i, frame) in queue.enumerate() {
            frames = i + 1;
            let old = headers.segment(frame.handle);
            if old.flags.any(NOT_TCP) || (old.flow, old.forward) != (new.0.flow, new.0.forward) {
                continue;
            }
            first = first.filter(|first| first.1 == echo(old));
            let options = headers.options(frame.handle);
            if options.is_some_and(|options| is_redundant((old, options), new)) {
                match first {
                    Some((first, _)) => return Some(first),
                    None => first = Some((i, echo(old))),
                }
            }
        }
        let is_last = |first: &(usize, Flags)| first.0 + 1 == frames && first.1 == echo(new.0);
        first.filter(is_last).filter(|_| self == AckFilter::Aggressive).map(|first| first.0)
    }
}

/// What the receiver tells of ECN (RFC 3168), in a segment.
fn echo(segment: &Segment) -> Flags {
    Flags(segment.flags.0 & Flags::ECE.with(Flags::CWR).0)
}

/// True if a segment says all that an earlier one of the same connection and direction does.
fn is_redundant((old, old_options): Header<'_>, (new, new_options): Header<'_>) -> bool {
    let is_pure = old.len == 0 && old.flags.has(Flags::ACK) && !old.flags.any(KEPT);
    if !is_pure || old.ack > new.ack || has_later_timestamp(old, new) {
        return false;
    }
    let blocks = (blocks_of(old, old_options), blocks_of(new, new_options));
    match compare_sack(old.ack, blocks.0, blocks.1) {
        Ordering::Greater => false,
        Ordering::Equal => old.ack < new.ack,
        Ordering::Less => true,
    }
}

/// True if a timestamp of the earlier segment is later than that of the new one, which counts as 0
/// if it has none.
fn has_later_timestamp(old: &Segment, new: &Segment) -> bool {
    let times = |s: &Segment| {
        if s.flags.has(Flags::TIMESTAMPS) { (s.ts_value, s.ts_echo) } else { (0, 0) }
    };
    let is_after = |a: u32, b: u32| (b.wrapping_sub(a) as i32) < 0;
    let (old_times, new_times) = (times(old), times(new));
    let later = is_after(old_times.0, new_times.0) || is_after(old_times.1, new_times.1);
    old.flags.has(Flags::TIMESTAMPS) && later
}

/// The SACK blocks of a segment; the options of one without are not valid.
fn blocks_of<'a>(segment: &Segment, options: &'a Options) -> &'a [Block] {
    if segment.flags.has(Flags::SACK) { options.sack.as_slice() } else { &[] }
}

/// Which SACK blocks report more: `Greater` if not all `old` blocks, of an ACK for all below `ack`,
/// are covered by a `new` one, or one of them is a D-SACK; otherwise by the number of bytes.
fn compare_sack(ack: u64, old: &[Block], new: &[Block]) -> Ordering {
    let is_covered = |o: &Block| new.iter().any(|n| n.start <= o.start && o.end <= n.end);
    if old.iter().any(|o| o.start < ack || !is_covered(o)) {
        return Ordering::Greater;
    }
    let bytes = |blocks: &[Block]| -> u64 {
        blocks.iter().map(|b| b.end.saturating_sub(b.start)).fold(0, u64::saturating_add)
    };
    if bytes(new) > bytes(old) { Ordering::Less } else { Ordering::Equal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::segment::{Handle, SackBlocks};

    /// Segments of a connection, by handle; the last one arrives.
    struct Queue(Vec<(Segment, Option<Options>)>);

    impl Headers for Queue {
        fn segment(&self, handle: Handle) -> &Segment {
            &self.0[handle as usize].0
        }

        fn options(&self, handle: Handle) -> Option<&Options> {
            self.0[handle as usize].1.as_ref()
        }
    }

    impl Queue {
        /// Places of the frames that each filter removes.
        fn removed(&self) -> [Option<usize>; 3] {
            let frame = |(i, (segment, _)): (usize, &(Segment, _))| {
                Frame::new(i as Handle, segment, 0, lasthop_core::units::Time::ZERO)
            };
            let mut frames: Vec<Frame> = self.0.iter().enumerate().map(frame).collect();
            let arriving = frames.pop().unwrap();
            AckFilter::ALL.map(|filter| filter.redundant(frames.iter(), &arriving, self))
        }
    }

    fn flagged(ack: u64, flags: Flags) -> Segment {
        Segment { ack, size: 40, flags: Flags::ACK.with(flags), ..Segment::default() }
    }

    fn ack(number: u64) -> Segment {
        flagged(number, Flags::NONE)
    }

    fn queue(segments: &[Segment]) -> [Option<usize>; 3] {
        Queue(segments.iter().map(|s| (*s, Some(Options::NONE))).collect()).removed()
    }

    /// ACKs with SACK blocks.
    fn sacks(acks: &[(u64, &[(u64, u64)])]) -> [Option<usize>; 3] {
        let segment = |&(number, blocks): &(u64, &[(u64, u64)])| {
            let mut sack = SackBlocks::NONE;
            blocks.iter().for_each(|&(start, end)| sack.push(start, end));
            let flags = if blocks.is_empty() { Flags::NONE } else { Flags::SACK };
            (flagged(number, flags), Some(Options { sack, ..Options::NONE }))
        };
        Queue(acks.iter().map(segment).collect()).removed()
    }

    const NONE: [Option<usize>; 3] = [None; 3];
    /// Two ACKs wait that may be removed: each filter but `Off` removes the first.
    const FIRST: [Option<usize>; 3] = [None, Some(0), Some(0)];
    /// Only the aggressive filter removes the only ACK that waits.
    const ONLY: [Option<usize>; 3] = [None, None, Some(0)];

    #[test]
    fn a_redundant_ack_remains_unless_the_filter_is_aggressive() {
        assert_eq!(queue(&[ack(1)]), NONE);
        assert_eq!(queue(&[ack(1), ack(2)]), ONLY);
        assert_eq!(queue(&[ack(1), ack(2), ack(3)]), FIRST);
        assert_eq!(queue(&[ack(1), ack(2), ack(3), ack(4)]), FIRST);
        // The only one is removed at the end of the queue alone.
        let data = Segment { len: 1000, ..ack(1) };
        assert_eq!(queue(&[ack(1), data, ack(2)]), NONE);
        assert_eq!(queue(&[data, ack(1), ack(2)]), [None, None, Some(1)]);
        assert_eq!(queue(&[data, ack(1), ack(2), ack(3)]), [None, Some(1), Some(1)]);
        // A segment with data has an acknowledgment number too.
        assert_eq!(queue(&[ack(1), ack(2), Segment { len: 1000, ..ack(3) }]), FIRST);
    }

    #[test]
    fn duplicate_acks_and_later_ones_remain() {
        assert_eq!(queue(&[ack(2), ack(2), ack(2), ack(2)]), NONE);
        assert_eq!(queue(&[ack(3), ack(4), ack(2)]), NONE);
        assert_eq!(queue(&[ack(1), ack(2), ack(2), ack(2)]), [None, None, None]);
        assert_eq!(queue(&[ack(1), ack(2), ack(2), ack(3)]), FIRST);
        assert_eq!(queue(&[ack(5), ack(1), ack(2), ack(3)]), [None, Some(1), Some(1)]);
    }

    #[test]
    fn only_acks_of_the_same_connection_and_direction_are_removed() {
        let other = |number| Segment { flow: 1, ..ack(number) };
        let back = |number| Segment { forward: true, ..ack(number) };
        let datagram = |number| flagged(number, Flags::DATAGRAM);
        let notice = |number| flagged(number, Flags::NOTICE);
        for stranger in [other, back, datagram, notice] {
            assert_eq!(queue(&[stranger(1), stranger(2), ack(3)]), NONE);
            assert_eq!(queue(&[ack(1), ack(2), stranger(3)]), NONE);
            // It does not protect others, except from the aggressive filter.
            assert_eq!(queue(&[ack(1), stranger(1), ack(2), ack(3)]), FIRST);
            assert_eq!(queue(&[ack(1), stranger(1), ack(2)]), NONE);
        }
    }

    #[test]
    fn segments_with_other_flags_or_options_remain() {
        let unknown = [Flags::AE, Flags::ELN, Flags::NAMED, Flags::REPORT, Flags::SNACK];
        for flag in [Flags::SYN, Flags::FIN, Flags::RST].into_iter().chain(unknown) {
            assert_eq!(queue(&[flagged(1, flag), flagged(2, flag), ack(3)]), NONE, "{flag:?}");
            assert_eq!(queue(&[flagged(1, flag), ack(2), ack(3)]), [None, None, Some(1)]);
        }
        for flag in [Flags::CE, Flags::ECT, Flags::LOW_PRIORITY] {
            assert_eq!(queue(&[flagged(1, flag), flagged(2, flag), ack(3)]), FIRST, "{flag:?}");
        }
        // A SYN has nothing before it; without ACK the number is not valid. A FIN removes.
        assert_eq!(queue(&[ack(1), ack(2), flagged(3, Flags::SYN)]), NONE);
        assert_eq!(queue(&[ack(1), ack(2), Segment { flags: Flags::RST, ..ack(3) }]), NONE);
        assert_eq!(queue(&[ack(1), ack(2), flagged(3, Flags::FIN)]), FIRST);
        // What the host cannot represent.
        let known = |segment, known: bool| (segment, known.then_some(Options::NONE));
        let waiting = [known(ack(1), false), known(ack(2), true), known(ack(3), true)];
        assert_eq!(Queue(waiting.to_vec()).removed(), [None, None, Some(1)]);
        let arriving = [known(ack(1), true), known(ack(2), true), known(ack(3), false)];
        assert_eq!(Queue(arriving.to_vec()).removed(), FIRST);
    }

    #[test]
    fn changes_of_ece_and_cwr_remain() {
        let (ece, cwr) = (|n| flagged(n, Flags::ECE), |n| flagged(n, Flags::CWR));
        assert_eq!(queue(&[ece(1), ece(2), ece(3)]), FIRST);
        assert_eq!(queue(&[ece(1), ece(2), ack(3)]), FIRST);
        for changed in [ece, cwr] {
            // The last ACK before the change is not removed.
            assert_eq!(queue(&[ack(1), changed(2), changed(3)]), [None, None, Some(1)]);
            assert_eq!(queue(&[changed(1), ack(2), ack(3)]), [None, None, Some(1)]);
            assert_eq!(queue(&[ack(1), changed(2), changed(3), ack(4)]), [None, Some(1), Some(1)]);
            assert_eq!(queue(&[ack(1), changed(2)]), NONE);
            // Data that changes it protects the ACK before too.
            let data = Segment { len: 1000, ..changed(1) };
            assert_eq!(queue(&[ack(1), data, ack(2), ack(3)]), [None, None, Some(2)]);
        }
    }

    #[test]
    fn acks_with_later_timestamps_remain() {
        let at = |number, ts_value, ts_echo| Segment {
            ts_value,
            ts_echo,
            ..flagged(number, Flags::TIMESTAMPS)
        };
        assert_eq!(queue(&[at(1, 5, 7), at(2, 5, 7), at(3, 5, 7)]), FIRST);
        assert_eq!(queue(&[at(1, 6, 7), at(2, 6, 7), at(3, 5, 7)]), NONE);
        assert_eq!(queue(&[at(1, 5, 8), at(2, 5, 8), at(3, 5, 7)]), NONE);
        // They wrap around.
        assert_eq!(queue(&[at(1, u32::MAX, 7), at(2, 0, 7), at(3, 1, 7)]), FIRST);
        assert_eq!(queue(&[at(1, 1, 7), at(2, 1, 7), at(3, u32::MAX, 7)]), NONE);
        // Without timestamps the arriving segment counts as 0.
        assert_eq!(queue(&[at(1, 5, 7), at(2, 5, 7), ack(3)]), NONE);
        assert_eq!(queue(&[ack(1), ack(2), at(3, 5, 7)]), FIRST);
    }

    /// As the kernel compares: -1 is `Greater`, 0 `Equal`, 1 `Less`.
    #[test]
    fn blocks_are_compared() {
        let block = |&(start, end): &(u64, u64)| Block { start, end };
        let compare = |old: &[(u64, u64)], new: &[(u64, u64)]| {
            let blocks = |of: &[(u64, u64)]| of.iter().map(block).collect::<Vec<_>>();
            compare_sack(10, &blocks(old), &blocks(new))
        };
        assert_eq!(compare(&[], &[]), Ordering::Equal);
        assert_eq!(compare(&[], &[(20, 30)]), Ordering::Less);
        assert_eq!(compare(&[(20, 30)], &[]), Ordering::Greater);
        assert_eq!(compare(&[(20, 30)], &[(20, 30)]), Ordering::Equal);
        assert_eq!(compare(&[(20, 30)], &[(20, 40)]), Ordering::Less);
        assert_eq!(compare(&[(20, 40)], &[(20, 30)]), Ordering::Greater);
        assert_eq!(compare(&[(20, 30)], &[(40, 90)]), Ordering::Greater);
        assert_eq!(compare(&[(20, 30)], &[(40, 50), (20, 30)]), Ordering::Less);
        assert_eq!(compare(&[(20, 30), (40, 50)], &[(20, 50)]), Ordering::Less);
        assert_eq!(compare(&[(20, 30), (40, 50)], &[(40, 50), (20, 30)]), Ordering::Equal);
        // A block below the acknowledgment number: D-SACK (RFC 2883).
        assert_eq!(compare(&[(5, 8)], &[(5, 8), (20, 30)]), Ordering::Greater);
        assert_eq!(compare(&[(20, 30), (5, 8)], &[(0, 90)]), Ordering::Greater);
    }

    #[test]
    fn acks_whose_blocks_are_not_covered_remain() {
        // Duplicate ACKs with a growing block: the last one says all.
        assert_eq!(sacks(&[(1, &[(3, 4)]), (1, &[(3, 5)]), (1, &[(3, 6)])]), FIRST);
        // Without news they are duplicates.
        assert_eq!(sacks(&[(1, &[(3, 4)]), (1, &[(3, 4)]), (1, &[(3, 4)])]), NONE);
        // The hole is filled: the blocks are acknowledged, but the kernel keeps them.
        assert_eq!(sacks(&[(1, &[(3, 4)]), (1, &[(3, 5)]), (5, &[])]), NONE);
        assert_eq!(sacks(&[(1, &[]), (1, &[]), (1, &[(3, 5)])]), FIRST);
        // A D-SACK remains, though the same block follows.
        assert_eq!(sacks(&[(5, &[(2, 3)]), (5, &[(2, 3)]), (6, &[(2, 3)])]), NONE);
        // Options of a segment without the flag are not valid.
        let mut stale = Options::NONE;
        stale.sack.push(7, 8);
        let waiting = |n| (ack(n), Some(stale));
        assert_eq!(Queue(vec![waiting(1), waiting(2), waiting(3)]).removed(), FIRST);
    }
}
