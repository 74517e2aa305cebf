//! ESACK's loss detection: RFC 6675, except that a segment that was retransmitted on an ELN takes
//! its place at the end of the order of transmission (yun2009, section 4.1).

use lasthop_core::units::Time;
use lasthop_tcp::recovery::detect::rfc6675::{self, Rfc6675};
use lasthop_tcp::recovery::detect::scheme::Behaviour;
use lasthop_tcp::recovery::detect::{AckSummary, LossDetector, Losses};
use lasthop_tcp::recovery::hints::{LinkHints, is_after};
use lasthop_tcp::recovery::{AfterHint, DetectorEntry, HintEntry, SchemeDetector};
use lasthop_tcp::scoreboard::{Marks, Scoreboard, Sent};

/// Two ELNs in a row (yun2009, section 4.2: for frame errors of 20 % and one attempt), three
/// timeouts (`+elsn`).
pub static HINTS: HintEntry =
    HintEntry { name: "elsn", run: 2, holds: 3, after: AfterHint::Nothing };

/// ESACK, as a loss detector.
pub static DETECTOR: DetectorEntry = DetectorEntry {
    behaviour: Behaviour { in_sending_order: true, ..Behaviour::RFC6675 },
    hints: Some(HINTS.rules()),
    ..DetectorEntry::new("esack", |_| Box::new(SendingOrder::default()))
};

/// The state of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct SendingOrder {
    /// The segment that the last duplicate ACK was counted against.
    counted: Option<u64>,
}

/// FirstUnsacked: of the segments not SACKed the one sent (or sent again) first.
fn first_unsacked(board: &Scoreboard, hints: &LinkHints) -> Option<Sent> {
    let again = hints.notified().filter(|n| n.1.is_some()).find_map(|n| board.get(n.0));
    let waits = |seq| hints.notified().any(|n| n == (seq, None));
    let once =
        board.iter().find(|s| !s.marks.any(Marks::SACKED.with(Marks::RESENT)) && !waits(s.seq));
    match (once.copied(), again) {
        (Some(a), Some(b)) => {
            Some(if is_after((a.last_sent, a.seq), (b.last_sent, b.seq)) { b } else { a })
        }
        (a, b) => a.or(b),
    }
}

impl LossDetector for SendingOrder {
    fn on_ack(&mut self, board: &Scoreboard, ack: &AckSummary, losses: &mut Losses) {
        Rfc6675.on_ack(board, ack, losses);
    }
}

impl SchemeDetector for SendingOrder {
    /// A segment that was retransmitted on an ELN is lost only if segments sent after that are
    /// delivered.
    fn on_ack_with_hints(
        &mut self,
        board: &Scoreboard,
        ack: &AckSummary,
        hints: &mut LinkHints,
        losses: &mut Losses,
    ) {
        while let Some(seq) = hints.take_overtaken(ack.threshold) {
            losses.copies.push(seq);
        }
        if ack.sacked > 0 {
            let enough = ack.dupacks >= ack.threshold;
            let counted = self.counted.filter(|seq| enough && !hints.has_notified(*seq));
            let first = counted.and_then(|seq| board.get(seq)).map_or(0, |sent| sent.end());
            losses.below = rfc6675::edge(board, ack).max(first);
        }
    }

    /// Algorithm 1 of yun2009.
    fn count_duplicate(
        &mut self,
        board: &Scoreboard,
        dupacks: u32,
        high_sacked: u64,
        newest: Option<(Time, u64)>,
        hints: &LinkHints,
    ) -> u32 {
        let Some(first) = first_unsacked(board, hints) else { return dupacks };
        let una = board.at(0).map_or(first.seq, |s| s.seq);
        // Against what was sent again counts only what was sent after that: the ACK of anything
        // before tells nothing of it.
        let news = first.transmissions == 1
            || newest.is_some_and(|n| is_after(n, (first.last_sent, first.seq)));
        if first.marks.any(Marks::HELD) || !news || (first.seq != una && first.seq >= high_sacked) {
            return dupacks;
        }
        let changed = first.seq != una && self.counted != Some(first.seq);
        self.counted = Some(first.seq);
        if changed { 1 } else { dupacks + 1 }
    }

    fn on_hints_discarded(&mut self) {
        self.counted = None;
    }
}
