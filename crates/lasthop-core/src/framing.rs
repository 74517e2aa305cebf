//! Framing: link-layer fragmentation of a scheme's frames.
//!
//! A fragmented frame occupies the link until all its fragments have arrived or its slots are used
//! up. Every fragment is a separate transmission: it has the link's overhead (in a cell also
//! preamble, SIFS and link ACK) and a separate loss draw.

use crate::segment::Segment;

/// The fragment sizes of a frame, without link overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the first fragment.
    first: u32,
    /// Total bytes of the other fragments, and their number.
    rest: u32,
    others: u32,
}

impl Cut {
    /// A first fragment of `first` of the `bytes` bytes, and up to `others` further ones whose
    /// sizes differ by at most one byte. No fragment is empty.
    pub fn new(bytes: u32, first: u32, others: u32) -> Cut {
        let rest = bytes.saturating_sub(first);
        Cut { first: bytes - rest, rest, others: others.min(rest).max(u32::from(rest > 0)) }
    }

    /// Up to `pieces` fragments whose sizes differ by at most one byte. No fragment is empty.
    pub fn equal(bytes: u32, pieces: u32) -> Cut {
        Cut::new(bytes, bytes.div_ceil(pieces.max(1)), pieces.saturating_sub(1))
    }

    /// One fragment.
    pub const fn whole(bytes: u32) -> Cut {
        Cut { first: bytes, rest: 0, others: 0 }
    }

    /// Number of fragments.
    pub fn fragments(self) -> u32 {
        1 + self.others
    }

    /// Bytes of fragment `i`, from 0.
    pub fn bytes(self, i: u32) -> u32 {
        match (i, self.others) {
            (0, _) | (_, 0) => self.first,
            (i, n) => self.rest / n + u32::from(i <= self.rest % n),
        }
    }
}

/// State of a frame after a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame continues in another slot.
    More,
    /// All fragments have arrived.
    Whole,
    /// The slots are used up and the frame is lost.
    Over {
        /// True if the first fragment has arrived.
        begun: bool,
    },
}

/// A frame being sent: each slot carries the first fragment that has not arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    cut: Cut,
    /// Slots allowed and used. With `each`, `budget` applies to each fragment.
    budget: u32,
    used: u32,
    each: bool,
    /// Fragments that have arrived.
    arrived: u32,
    /// Lost slots of all fragments, and of the current one.
    failed: u32,
    failed_now: u32,
}

impl Progress {
    /// A frame before its first slot, with `budget` slots in total.
    pub fn new(cut: Cut, budget: u32) -> Progress {
        Progress { cut, budget: budget.max(1), ..Progress::default() }
    }

    /// A frame before its first slot, discarded after `attempts` lost transmissions of the same
    /// fragment.
    pub fn in_fragments(cut: Cut, attempts: u32) -> Progress {
        Progress { each: true, ..Progress::new(cut, attempts) }
    }

    /// Number of the current transmission attempt. With `each` it is one more than the failed slots
    /// of all fragments.
    pub fn attempt(&self) -> u32 {
        if self.each { self.failed + 1 } else { self.slot() }
    }

    /// True if the next slot begins an attempt. With `each`, the first slot of every fragment after
    /// the first does not.
    pub fn begins_attempt(&self) -> bool {
        !self.each || self.used == 0 || self.failed_now > 0
    }

    /// Number of the next slot, from 1.
    pub fn slot(&self) -> u32 {
        self.used + 1
    }

    /// Number of fragments of the frame.
    pub fn fragments(&self) -> u32 {
        self.cut.fragments()
    }

    /// True if the first fragment is sent next.
    pub fn is_at_first(&self) -> bool {
        self.arrived == 0
    }

    /// True if the last fragment is sent next.
    pub fn is_at_last(&self) -> bool {
        self.arrived + 1 >= self.cut.fragments()
    }

    /// Bytes of the fragment that is sent next, without overhead.
    pub fn bytes(&self) -> u32 {
        self.cut.bytes(self.arrived)
    }

    /// Ends the current slot.
    pub fn step(&mut self, lost: bool) -> Step {
        self.used += 1;
        self.arrived += u32::from(!lost);
        self.failed += u32::from(lost);
        self.failed_now = if lost { self.failed_now + 1 } else { 0 };
        let spent = if self.each { self.failed_now } else { self.used };
        if self.arrived >= self.cut.fragments() {
            Step::Whole
        } else if spent < self.budget {
            Step::More
        } else {
            Step::Over { begun: self.arrived > 0 }
        }
    }
}

/// Fragmentation of the frames of a flow.
///
/// # Examples
///
/// Two halves, each of which may be sent twice:
///
/// ```
/// use lasthop_core::framing::{Cut, Framing, Progress, Step};
/// use lasthop_core::segment::Segment;
///
/// struct Halves;
///
/// impl Framing for Halves {
///     fn cut(&self, segment: &Segment) -> Cut {
///         Cut::equal(segment.size, 2)
///     }
///
///     fn budget(&self, fragments: u32, _attempts: u32) -> u32 {
///         2 * fragments
///     }
/// }
///
/// let segment = Segment { size: 1041, ..Segment::default() };
/// let cut = Halves.cut(&segment);
/// let mut frame = Progress::new(cut, Halves.budget(cut.fragments(), 1));
/// assert_eq!((frame.bytes(), frame.step(false)), (521, Step::More));
/// // The second half is lost, and sent again in the next slot.
/// assert_eq!((frame.bytes(), frame.step(true)), (520, Step::More));
/// assert_eq!((frame.bytes(), frame.step(false)), (520, Step::Whole));
/// ```
pub trait Framing: Send {
    /// The fragments of a data segment in sending order.
    fn cut(&self, segment: &Segment) -> Cut;

    /// Number of slots allowed for a frame of `fragments` fragments on a link that sends an
    /// unfragmented frame up to `attempts` times.
    fn budget(&self, fragments: u32, attempts: u32) -> u32;
}

/// Any framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyFraming {
    /// The headers in a separate first fragment (LHP).
    HeadersFirst(HeadersFirst),
}

impl Framing for AnyFraming {
    fn cut(&self, segment: &Segment) -> Cut {
        match self {
            AnyFraming::HeadersFirst(f) => f.cut(segment),
        }
    }
    fn budget(&self, fragments: u32, attempts: u32) -> u32 {
        match self {
            AnyFraming::HeadersFirst(f) => f.budget(fragments, attempts),
        }
    }
}

impl AnyFraming {
    /// Starts the transmission of a segment on a link that sends an unfragmented frame up to
    /// `attempts` times.
    pub fn begin(&self, segment: &Segment, attempts: u32) -> Progress {
        let cut = self.cut(segment);
        Progress::new(cut, self.budget(cut.fragments(), attempts))
    }
}

/// The first fragment contains only the IP and TCP headers with their options (LHP; yun2009,
/// section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadersFirst {
    /// Total number of fragments.
    pub fragments: u32,
    /// Slots for a frame; `None`: fragments × the attempts that the link allows.
    pub slots: Option<u32>,
}

impl Framing for HeadersFirst {
    fn cut(&self, segment: &Segment) -> Cut {
        Cut::new(
            segment.size,
            segment.size.saturating_sub(segment.len),
            self.fragments.saturating_sub(1),
        )
    }

    fn budget(&self, fragments: u32, attempts: u32) -> u32 {
        self.slots.unwrap_or(fragments.saturating_mul(attempts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(len: u32) -> Segment {
        Segment { len, size: len + 52, ..Segment::default() }
    }

    /// Sends a frame in the given slots: `.` arrives, `x` is lost. Returns the bytes sent and the
    /// final state.
    fn play(framing: HeadersFirst, attempts: u32, slots: &str) -> (Vec<u32>, Step) {
        let mut progress = AnyFraming::HeadersFirst(framing).begin(&data(1000), attempts);
        let (mut sent, mut end) = (Vec::new(), Step::More);
        for slot in slots.chars() {
            assert_eq!(end, Step::More);
            sent.push(progress.bytes());
            end = progress.step(slot == 'x');
        }
        (sent, end)
    }

    #[test]
    fn headers_are_retransmitted_first_and_the_rest_uses_the_remaining_slots() {
        let three = HeadersFirst { fragments: 3, slots: None };
        assert_eq!(play(three, 1, "..."), (vec![52, 500, 500], Step::Whole));
        assert_eq!(play(three, 1, "x.."), (vec![52, 52, 500], Step::Over { begun: true }));
        assert_eq!(play(three, 1, "xxx"), (vec![52; 3], Step::Over { begun: false }));
        assert_eq!(play(three, 2, "x.xx.."), (vec![52, 52, 500, 500, 500, 500], Step::Whole));
        assert_eq!(
            play(three, 2, ".xxxxx"),
            (vec![52, 500, 500, 500, 500, 500], Step::Over { begun: true })
        );
        assert_eq!(
            play(HeadersFirst { slots: Some(4), ..three }, 1, "xx.."),
            (vec![52, 52, 52, 500], Step::Over { begun: true })
        );
    }

    #[test]
    fn unfragmented_frame_has_one_fragment() {
        let mut p = Progress::new(Cut::whole(1040), 2);
        assert_eq!(
            (p.bytes(), p.step(true), p.bytes(), p.step(true)),
            (1040, Step::More, 1040, Step::Over { begun: false })
        );
        assert_eq!(Progress::new(Cut::whole(1040), 1).step(false), Step::Whole);
    }

    #[test]
    fn each_fragment_has_separate_attempts() {
        let mut p = Progress::in_fragments(Cut::equal(1040, 3), 2);
        let mut seen = Vec::new();
        for lost in [true, false, false, true, true] {
            seen.push((p.bytes(), p.begins_attempt(), p.attempt(), p.step(lost)));
        }
        let lost_frame = Step::Over { begun: true };
        let expected = [
            (347, true, 1, Step::More),
            (347, true, 2, Step::More),
            (347, false, 2, Step::More),
            (346, false, 2, Step::More),
            (346, true, 3, lost_frame),
        ];
        assert_eq!(seen, expected);
        let mut p = Progress::in_fragments(Cut::equal(1040, 2), 1);
        assert_eq!((p.step(false), p.step(false)), (Step::More, Step::Whole));
        assert_eq!(
            Progress::in_fragments(Cut::equal(1040, 2), 1).step(true),
            Step::Over { begun: false }
        );
        assert_eq!(Cut::equal(1040, 1), Cut::whole(1040));
    }

    proptest! {
        #[test]
        fn equal_fragments_add_up_to_the_frame(bytes in 1u32..3000, pieces in 1u32..40) {
            let cut = Cut::equal(bytes, pieces);
            let sizes: Vec<u32> = (0..cut.fragments()).map(|i| cut.bytes(i)).collect();
            prop_assert_eq!(sizes.iter().sum::<u32>(), bytes);
            prop_assert!(sizes.iter().all(|&s| s > 0 && s <= bytes.div_ceil(pieces)));
            prop_assert!(sizes.len() as u32 <= pieces);
        }

        #[test]
        fn fragments_add_up_to_the_frame(
            bytes in 0u32..3000,
            first in 0u32..100,
            others in 0u32..40,
        ) {
            let cut = Cut::new(bytes, first, others);
            let pieces: Vec<u32> = (0..cut.fragments()).map(|i| cut.bytes(i)).collect();
            prop_assert_eq!(pieces.iter().sum::<u32>(), bytes);
            prop_assert!(pieces[1..].iter().all(|&p| p > 0 && p.abs_diff(pieces[1]) <= 1));
            prop_assert_eq!(pieces[0], first.min(bytes));
            prop_assert!(pieces.len() as u32 <= others.max(1) + 1);
        }
    }
}
