//! The packet list (Gao, Diggavi and Muthukrishnan, LHP, ICC 2003; yun2009, section 4.1): what is
//! under way, in the order of sending, and how often each packet was overtaken.
//!
//! An ACK tells which packets have arrived. They leave the list; each one on it that was sent
//! before the last of them has been overtaken once more, and one that is overtaken three times is
//! lost: fast retransmit and fast recovery *for that packet*, so that several losses in a window
//! halve it several times. A packet that a notification names goes out again at once and moves to
//! the tail, without a reduction; what was sent before it and still arrives does not count against
//! it.
//!
//! Without SACK (`+smart`) an ACK says which packet's arrival it answers (Keshav and Morgan, SMART,
//! 1997) and nothing of those before: the packets of lost ACKs seem overtaken until the ACK number
//! passes them.

use crate::tcp_eln;
use lasthop_core::ring::{Ring, Span};
use lasthop_core::segment::{Flags, Options, SackBlocks, Segment};
use lasthop_core::units::Time;
use lasthop_tcp::receiver::{ReceiverRule, Reply};
use lasthop_tcp::recovery::detect::scheme::{Behaviour, OwnAddition, Reductions};
use lasthop_tcp::recovery::detect::{AckSummary, LossDetector, Losses};
use lasthop_tcp::recovery::{DetectorEntry, SchemeDetector};
use lasthop_tcp::scoreboard::{Marks, Scoreboard, Sent};

/// The setting with SMART's ACKs, and with SACK.
pub const SMART: u32 = 1;
const SACK: u32 = 0;

/// The packet list, as a loss detector. Each loss is a separate episode.
pub static DETECTOR: DetectorEntry = DetectorEntry {
    behaviour: Behaviour {
        reductions: Reductions::Loss,
        keeps_ack_clock: true,
        retransmits_uncertain: false,
        ..Behaviour::RFC6675
    },
    hints: Some(tcp_eln::HINTS.rules()),
    own: Some(OwnAddition { name: "smart", number: None, default: SACK }),
    excludes_additions: true,
    uses_sack: |setting| setting == SACK,
    receiver: |setting, rule| {
        if setting == SMART { Some(Box::new(SmartAcks(rule))) } else { rule }
    },
    ..DetectorEntry::new("packet-list", |setting| {
        Box::new(PacketList { is_smart: setting == SMART, ..PacketList::default() })
    })
};

/// What is not on the list.
const OFF: u64 = 0;

/// A segment, in the order of its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    start: u64,
    end: u64,
    /// Ordinal of its last transmission; `OFF` if it has arrived or is considered lost.
    number: u64,
    /// How many ACKs have answered something that was sent after it.
    overtaken: u32,
}

impl Span for Listed {
    fn start(&self) -> u64 {
        self.start
    }
    fn end(&self) -> u64 {
        self.end
    }
}

/// A sending: its segment and its ordinal. It is out of date if the segment's number is another
/// one.
#[derive(Clone, Copy, Debug, Default)]
struct Sending {
    seq: u64,
    number: u64,
}

/// The list.
#[derive(Clone, Debug, Default)]
pub struct PacketList {
    /// All segments from snd_una on.
    segments: Ring<Listed>,
    /// In the order of sending: those after which nothing is known to have arrived, and before them
    /// those overtaken.
    rest: Ring<Sending>,
    overtaken: Vec<Sending>,
    /// Sendings so far.
    sent: u64,
    /// The last sending that the ACK being taken in reports.
    newest: u64,
    /// ACKs name one segment (SMART) instead of SACK blocks.
    is_smart: bool,
}

impl PacketList {
    /// New data on the scoreboard go to the tail.
    fn take_new(&mut self, board: &Scoreboard) {
        let known = self.segments.back().map_or(0, |s| s.end);
        if board.end() <= known {
            return;
        }
        let mut place = if known == 0 { Some(0) } else { board.place(known) };
        while let Some(sent) = place.and_then(|p| board.at(p)) {
            self.sent += 1;
            self.segments.push(Listed {
                start: sent.seq,
                end: sent.end(),
                number: self.sent,
                overtaken: 0,
            });
            self.rest.push(Sending { seq: sent.seq, number: self.sent });
            place = place.map(|p| p + 1);
        }
    }

    fn find(&mut self, seq: u64) -> Option<&mut Listed> {
        let place = self.segments.place_of(seq)?;
        self.segments.get_mut(place)
    }

    /// The segment at `seq` is sent again: to the tail.
    fn sent_again(&mut self, seq: u64) {
        let number = self.sent + 1;
        let Some(listed) = self.find(seq) else { return };
        (listed.number, listed.overtaken) = (number, 0);
        let seq = listed.start;
        self.rest.push(Sending { seq, number });
        self.sent = number;
    }

    /// The ACK being taken in reports the segment at `seq`.
    fn arrived(&mut self, seq: u64) {
        if let Some(listed) = self.find(seq) {
            let number = std::mem::replace(&mut listed.number, OFF);
            self.newest = self.newest.max(number);
        }
    }

    /// Everything below `ack` is acknowledged.
    fn acknowledged(&mut self, ack: u64) {
        while self.segments.front().is_some_and(|s| s.end <= ack) {
            self.segments.pop();
        }
    }

    /// The ACK has been taken in: counts, and tells which segments are lost by it, in the order of
    /// their sending. Those that are `held` are overtaken with good reason.
    fn count(&mut self, threshold: u32, held: impl Fn(u64) -> bool, mut lost: impl FnMut(u64)) {
        let newest = std::mem::take(&mut self.newest);
        while let Some(&sending) = self.rest.front().filter(|s| s.number <= newest) {
            self.rest.pop();
            // Mostly it is the one that has just arrived.
            if self.find(sending.seq).is_some_and(|s| s.number == sending.number) {
                self.overtaken.push(sending);
            }
        }
        if self.overtaken.is_empty() {
            return;
        }
        let segments = &mut self.segments;
        self.overtaken.retain(|&Sending { seq, number }| {
            let Some(listed) = segments
                .place_of(seq)
                .and_then(|p| segments.get_mut(p))
                .filter(|s| s.number == number)
            else {
                return false;
            };
            listed.overtaken += u32::from(number < newest && !held(listed.start));
            if listed.overtaken < threshold {
                return true;
            }
            listed.number = OFF;
            lost(listed.start);
            false
        });
    }

    /// The timer has fired: nothing is under way.
    fn clear(&mut self) {
        (0..self.segments.len())
            .for_each(|i| self.segments.get_mut(i).into_iter().for_each(|s| s.number = OFF));
        (self.rest, self.newest) = (Ring::default(), 0);
        self.overtaken.clear();
    }
}

impl LossDetector for PacketList {
    fn on_ack(&mut self, board: &Scoreboard, ack: &AckSummary, losses: &mut Losses) {
        self.count(
            ack.threshold,
            |seq| board.get(seq).is_some_and(|s| s.marks.any(Marks::HELD)),
            |seq| losses.copies.push(seq),
        );
    }
}

impl SchemeDetector for PacketList {
    /// The block that a SMART ACK stands for: the segment that it names.
    fn blocks(
        &self,
        board: &Scoreboard,
        segment: &Segment,
        options: &Options,
    ) -> Option<SackBlocks> {
        let mut blocks = SackBlocks::NONE;
        if segment.flags.has(Flags::NAMED)
            && !segment.flags.has(Flags::ELN)
            && options.named >= segment.ack
            && let Some(sent) = board.get(options.named)
        {
            blocks.push(sent.seq, sent.end());
        }
        self.is_smart.then_some(blocks)
    }

    fn on_sent(&mut self, board: &Scoreboard) {
        self.take_new(board);
    }

    fn on_retransmitted(&mut self, _: &Scoreboard, seq: u64) {
        self.sent_again(seq);
    }

    fn on_delivered(&mut self, sent: &Sent) {
        self.arrived(sent.seq);
    }

    fn on_acknowledged(&mut self, ack: u64) {
        self.acknowledged(ack);
    }

    fn on_timeout(&mut self, _: &Scoreboard) {
        self.clear();
    }
}

/// The receiver's part of SMART, beside that of a scheme if it has one: every ACK names the packet
/// that it answers.
pub struct SmartAcks(Option<Box<dyn ReceiverRule>>);

impl ReceiverRule for SmartAcks {
    fn on_data(&mut self, now: Time, segment: &Segment, expected: u64, highest: u64) -> Reply {
        let others = self
            .0
            .as_mut()
            .map_or(Reply::default(), |rule| rule.on_data(now, segment, expected, highest));
        Reply { flags: others.flags.with(Flags::NAMED), ..others }
    }

    fn classifies(&self) -> bool {
        self.0.as_ref().is_some_and(|rule| rule.classifies())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: [u64; 0] = [];
    /// The link layer is at work on it.
    const HELD: [u64; 1] = [40_000];

    /// A list of these segments of 1000 bytes, in kB, sent in this order.
    fn list(first: u64, last: u64) -> PacketList {
        let mut board = Scoreboard::default();
        (first..=last).for_each(|s| {
            board.push(Sent { seq: s * 1000, len: 1000, transmissions: 1, ..Sent::default() })
        });
        let mut list = PacketList::default();
        list.take_new(&board);
        list
    }

    /// The ACK (h, s): what it tells is lost. What is lost goes out again at once.
    fn ack(list: &mut PacketList, h: u64, s: u64) -> Vec<u64> {
        list.arrived(s * 1000);
        list.acknowledged(h * 1000);
        let mut lost = Vec::new();
        list.count(3, |seq| HELD.contains(&seq), |seq| lost.push(seq / 1000));
        lost.iter().for_each(|s| list.sent_again(s * 1000));
        lost
    }

    fn counts(list: &mut PacketList, seqs: &[u64]) -> Vec<u32> {
        seqs.iter().map(|s| list.find(s * 1000).map_or(0, |l| l.overtaken)).collect()
    }

    #[test]
    fn figure_4_three_losses_in_a_window_are_three_events() {
        let mut l = list(14, 21);
        assert_eq!(ack(&mut l, 14, 15), NONE);
        assert_eq!(counts(&mut l, &[14, 16, 18]), [1, 0, 0]);
        assert_eq!(ack(&mut l, 14, 17), NONE);
        assert_eq!(counts(&mut l, &[14, 16, 18]), [2, 1, 0]);
        assert_eq!(ack(&mut l, 14, 19), [14]);
        assert_eq!(counts(&mut l, &[14, 16, 18]), [0, 2, 1]);
        assert_eq!(ack(&mut l, 14, 20), [16]);
        assert_eq!(ack(&mut l, 14, 21), [18]);
    }

    #[test]
    fn what_is_sent_again_is_not_overtaken_by_what_went_before_it() {
        let mut l = list(14, 19);
        l.sent_again(14_000);
        assert!((15..=19).all(|s| ack(&mut l, 14, s).is_empty()));
        assert_eq!(counts(&mut l, &[14]), [0]);
        // The copy arrives, and what it overtook counts.
        l.sent_again(16_000);
        assert_eq!(ack(&mut l, 20, 14), NONE);
    }

    #[test]
    fn an_earlier_packet_that_comes_late_counts_against_those_before_it_only() {
        let mut l = list(1, 6);
        ack(&mut l, 1, 5);
        ack(&mut l, 1, 2);
        assert_eq!(counts(&mut l, &[1, 3, 4]), [2, 1, 1]);
    }

    #[test]
    fn what_the_link_layer_sends_again_is_not_counted() {
        let mut l = list(39, 45);
        (41..=42).for_each(|s| drop(ack(&mut l, 39, s)));
        assert_eq!(counts(&mut l, &[39, 40]), [2, 0]);
    }

    #[test]
    fn after_a_timeout_nothing_is_on_the_list() {
        let mut l = list(1, 6);
        ack(&mut l, 1, 4);
        ack(&mut l, 1, 5);
        l.clear();
        l.sent_again(1000);
        assert_eq!(ack(&mut l, 1, 6), NONE);
        assert_eq!(counts(&mut l, &[1, 2, 3]), [0, 2, 2]);
    }

    #[test]
    fn a_smart_ack_names_its_segment_beside_what_the_scheme_says() {
        let mut acks = (DETECTOR.receiver)(SMART, None).unwrap();
        let reply = acks.on_data(Time::ZERO, &Segment::default(), 0, 0);
        assert!(reply.flags.has(Flags::NAMED) && !acks.classifies());
        assert!((DETECTOR.receiver)(SACK, None).is_none());
    }

    proptest! {
        /// The list of the rule as it is written: a vector in the order of sending.
        #[test]
        fn the_list_does_what_its_rule_says(
            steps in prop::collection::vec((0u8..4, 0u64..12), 0..120),
        ) {
            let mut l = list(0, 11);
            let mut plain: Vec<(u64, u32)> = (0..12).map(|s| (s, 0)).collect();
            for (what, s) in steps {
                if what == 0 && l.find(s * 1000).is_some() {
                    l.sent_again(s * 1000);
                    plain.retain(|e| e.0 != s);
                    plain.push((s, 0));
                    continue;
                }
                let mut lost = Vec::new();
                if let Some(place) = plain.iter().position(|e| e.0 == s) {
                    plain.remove(place);
                    plain[..place].iter_mut().for_each(|e| e.1 += 1);
                    lost = plain.iter().filter(|e| e.1 >= 3).map(|e| e.0).collect();
                    plain.retain(|e| e.1 < 3);
                    plain.extend(lost.iter().map(|&s| (s, 0)));
                }
                prop_assert_eq!(ack(&mut l, 0, s), lost);
            }
        }
    }
}
