//! Framing: how a link carries the frames of a scheme's flows, whole or in pieces.
//!
//! A frame in pieces has the link for itself until it is whole at the far end or its slots are used
//! up. Every fragment is a frame on the air of its own: it pays the link's overhead, in a cell
//! preamble, SIFS and link ACK too, and it meets a draw of its own.

use crate::segment::Segment;

/// A frame as fragments: bytes of each without the link's overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Of the first.
    first: u32,
    /// Of the others together, and how many there are.
    rest: u32,
    others: u32,
}

impl Cut {
    /// The first `first` of `bytes`, and the others in so many parts that differ by a byte at most;
    /// not more than there are bytes.
    pub fn new(bytes: u32, first: u32, others: u32) -> Cut {
        let rest = bytes.saturating_sub(first);
        Cut { first: bytes - rest, rest, others: others.min(rest).max(u32::from(rest > 0)) }
    }

    /// So many pieces that differ by a byte at most; not more than there are bytes.
    pub fn equal(bytes: u32, pieces: u32) -> Cut {
        Cut::new(bytes, bytes.div_ceil(pieces.max(1)), pieces.saturating_sub(1))
    }

    /// One piece.
    pub const fn whole(bytes: u32) -> Cut {
        Cut { first: bytes, rest: 0, others: 0 }
    }

    /// How many pieces.
    pub fn fragments(self) -> u32 {
        1 + self.others
    }

    /// Bytes of piece `i`, from 0.
    pub fn bytes(self, i: u32) -> u32 {
        match (i, self.others) {
            (0, _) | (_, 0) => self.first,
            (i, n) => self.rest / n + u32::from(i <= self.rest % n),
        }
    }
}

/// What the end of a slot means for its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame goes on in another slot.
    More,
    /// The far end has all of it.
    Whole,
    /// Its slots are used up. `begun`: the far end has the first fragment.
    Over {
        /// See above.
        begun: bool,
    },
}

/// A frame in service: each slot sends the first fragment that has not got through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    cut: Cut,
    /// Slots that it may use, and has used; with `each`, those that each fragment may use.
    budget: u32,
    used: u32,
    each: bool,
    /// Fragments that have got through.
    through: u32,
    /// Slots that were lost: of all fragments, and of the one that is sent now.
    failed: u32,
    failed_now: u32,
}

impl Progress {
    /// Before the first slot.
    pub fn new(cut: Cut, budget: u32) -> Progress {
        Progress { cut, budget: budget.max(1), ..Progress::default() }
    }

    /// Before the first slot of a frame that is given up as soon as one fragment has been sent
    /// `attempts` times in vain.
    pub fn in_fragments(cut: Cut, attempts: u32) -> Progress {
        Progress { each: true, ..Progress::new(cut, attempts) }
    }

    /// Number of the attempt to send the frame: with `each`, one more than have failed so far,
    /// whichever fragments they were of.
    pub fn attempt(&self) -> u32 {
        if self.each { self.failed + 1 } else { self.slot() }
    }

    /// The slot that comes begins an attempt. The first slot of each further fragment does not,
    /// where each has attempts of its own.
    pub fn begins_attempt(&self) -> bool {
        !self.each || self.used == 0 || self.failed_now > 0
    }

    /// Number of the slot that comes, from 1.
    pub fn slot(&self) -> u32 {
        self.used + 1
    }

    /// How many pieces the frame has.
    pub fn fragments(&self) -> u32 {
        self.cut.fragments()
    }

    /// The first piece is to be sent.
    pub fn is_at_first(&self) -> bool {
        self.through == 0
    }

    /// The last piece is to be sent.
    pub fn is_at_last(&self) -> bool {
        self.through + 1 >= self.cut.fragments()
    }

    /// Bytes that are sent in it, without overhead.
    pub fn bytes(&self) -> u32 {
        self.cut.bytes(self.through)
    }

    /// The slot is over.
    pub fn step(&mut self, lost: bool) -> Step {
        self.used += 1;
        self.through += u32::from(!lost);
        self.failed += u32::from(lost);
        self.failed_now = if lost { self.failed_now + 1 } else { 0 };
        let spent = if self.each { self.failed_now } else { self.used };
        if self.through >= self.cut.fragments() {
            Step::Whole
        } else if spent < self.budget {
            Step::More
        } else {
            Step::Over { begun: self.through > 0 }
        }
    }
}

/// How the frames of a flow are cut.
pub trait Framing: Send {
    /// The fragments of a data segment, in the order of sending.
    fn cut(&self, segment: &Segment) -> Cut;

    /// Slots that a frame of so many fragments may use on a link that sends a whole frame up to
    /// `attempts` times.
    fn budget(&self, fragments: u32, attempts: u32) -> u32;
}

/// Any framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyFraming {
    /// The headers by themselves, first (LHP).
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
    /// A segment's way over a link that sends a whole frame up to `attempts` times.
    pub fn begin(&self, segment: &Segment, attempts: u32) -> Progress {
        let cut = self.cut(segment);
        Progress::new(cut, self.budget(cut.fragments(), attempts))
    }
}

/// The first fragment has the headers of IP and TCP with their options, and nothing else (LHP;
/// yun2009, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadersFirst {
    /// Fragments in all.
    pub fragments: u32,
    /// Slots for a frame; `None`: as many as its fragments take in the attempts that the link
    /// allows.
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

    /// Plays slots: `.` gets through, `x` is lost. What was sent, and how it ends.
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
    fn the_headers_go_until_they_are_through_and_the_rest_in_the_slots_that_are_left() {
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
    fn a_whole_frame_is_a_frame_of_one_fragment() {
        let mut p = Progress::new(Cut::whole(1040), 2);
        assert_eq!(
            (p.bytes(), p.step(true), p.bytes(), p.step(true)),
            (1040, Step::More, 1040, Step::Over { begun: false })
        );
        assert_eq!(Progress::new(Cut::whole(1040), 1).step(false), Step::Whole);
    }

    #[test]
    fn each_fragment_has_attempts_of_its_own() {
        let mut p = Progress::in_fragments(Cut::equal(1040, 3), 2);
        let mut seen = Vec::new();
        for lost in [true, false, false, true, true] {
            seen.push((p.bytes(), p.begins_attempt(), p.attempt(), p.step(lost)));
        }
        let over = Step::Over { begun: true };
        let expected = [
            (347, true, 1, Step::More),
            (347, true, 2, Step::More),
            (347, false, 2, Step::More),
            (346, false, 2, Step::More),
            (346, true, 3, over),
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
        fn equal_pieces_make_up_the_frame(bytes in 1u32..3000, pieces in 1u32..40) {
            let cut = Cut::equal(bytes, pieces);
            let sizes: Vec<u32> = (0..cut.fragments()).map(|i| cut.bytes(i)).collect();
            prop_assert_eq!(sizes.iter().sum::<u32>(), bytes);
            prop_assert!(sizes.iter().all(|&s| s > 0 && s <= bytes.div_ceil(pieces)));
            prop_assert!(sizes.len() as u32 <= pieces);
        }

        #[test]
        fn the_pieces_make_up_the_frame(bytes in 0u32..3000, first in 0u32..100, others in 0u32..40) {
            let cut = Cut::new(bytes, first, others);
            let pieces: Vec<u32> = (0..cut.fragments()).map(|i| cut.bytes(i)).collect();
            prop_assert_eq!(pieces.iter().sum::<u32>(), bytes);
            prop_assert!(pieces[1..].iter().all(|&p| p > 0 && p.abs_diff(pieces[1]) <= 1));
            prop_assert_eq!(pieces[0], first.min(bytes));
            prop_assert!(pieces.len() as u32 <= others.max(1) + 1);
        }
    }
}
