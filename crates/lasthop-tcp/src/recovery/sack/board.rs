//! The state of segments in SACK recovery: which are delivered, lost or retransmitted, and the
//! bytes in the pipe, counted incrementally.

use super::arrival::Arrival;
use crate::recovery::detect::Losses;
use crate::recovery::detect::rack::Rack;
use crate::scoreboard::{Marks, Scoreboard, Sent};
use crate::timestamps::timestamp;
use lasthop_core::ring::Ring;
use lasthop_core::segment::{Block, SackBlocks};
use lasthop_core::units::{Duration, Time};

/// Blocks that the SACK option has room for (RFC 2018, section 3).
const MAX_BLOCKS: usize = 4;

/// The state of loss recovery beside the scoreboard.
#[derive(Clone, Debug, Default)]
pub struct SackBoard {
    /// The byte after the highest one SACKed.
    high_sacked: u64,
    /// The byte after the highest one retransmitted in this recovery (HighRxt).
    high_resent: u64,
    /// RACK's state; it is updated only if losses are detected `by_time`.
    rack: Rack,
    by_time: bool,
    /// Bytes SACKed; lost and not retransmitted; retransmitted without being considered lost.
    sacked: u64,
    waiting: u64,
    extra: u64,
    sacked_segments: u64,
    /// Below it everything not SACKed counts as lost (SACK, FACK).
    loss_edge: u64,
    /// Nothing below it is lost and waits to be retransmitted; the number of the segment that
    /// probably begins there.
    next_lost: u64,
    next_lost_number: usize,
    /// Everything between these is SACKed, lost or retransmitted.
    reported: (u64, u64),
    /// Segments newly considered lost, for a rule that counts each of them: the first byte and the
    /// place.
    found: Option<Box<Ring<(u64, usize)>>>,
    cache: SackBlocks,
    /// Number of the segment behind the last one that was marked: the next one is often that.
    behind: usize,
}

fn bytes(sent: &Sent) -> u64 {
    sent.end() - sent.seq
}

impl SackBoard {
    /// At the start of a connection. `by_time`: RACK's state is updated. `each_loss`: the window
    /// rule counts each segment that is lost.
    pub fn new(by_time: bool, rack: Rack, each_loss: bool) -> Self {
        SackBoard { rack, found: each_loss.then(Box::default), by_time, ..SackBoard::default() }
    }

    /// RACK's state.
    #[inline]
    pub fn rack(&self) -> &Rack {
        &self.rack
    }

    /// RACK's state, to inform it.
    #[inline]
    pub fn rack_mut(&mut self) -> &mut Rack {
        &mut self.rack
    }

    /// Nothing is SACKed, lost or sent again, while all bytes below `snd_una` are acknowledged.
    #[inline]
    pub fn is_plain(&self, snd_una: u64) -> bool {
        (self.sacked, self.waiting, self.extra) == (0, 0, 0) && self.rack.is_plain(snd_una)
    }

    /// The byte after the highest one SACKed.
    #[inline]
    pub fn high_sacked(&self) -> u64 {
        self.high_sacked
    }

    /// The byte after the highest one retransmitted in this recovery (HighRxt).
    #[inline]
    pub fn high_resent(&self) -> u64 {
        self.high_resent
    }

    /// Sets HighRxt.
    pub fn set_high_resent(&mut self, seq: u64) {
        self.high_resent = seq;
    }

    /// A segment newly considered lost, each once: its first byte, and its place on the scoreboard
    /// when that was found; `None` if nobody counts them.
    #[inline]
    pub fn take_found(&mut self) -> Option<(u64, usize)> {
        self.found.as_mut()?.pop()
    }

    /// Bytes in the network (RFC 6675, SetPipe), of `flight` bytes not yet acknowledged.
    #[inline]
    pub fn pipe(&self, flight: u64) -> u64 {
        (flight + self.extra).saturating_sub(self.sacked + self.waiting)
    }

    /// Bytes SACKed and not yet acknowledged.
    pub fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Segments SACKed and not yet acknowledged; a frame of several of `mss` bytes counts for as
    /// many.
    pub fn sacked_segments(&self, mss: u32) -> u64 {
        self.sacked_segments.max(self.sacked / u64::from(mss.max(1)))
    }

    /// Bytes lost that wait to be sent again.
    #[inline]
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// A segment was taken off the scoreboard; `delivered` is called if that is the first word of
    /// its delivery.
    #[inline]
    pub fn acknowledged(
        &mut self,
        sent: &Sent,
        arrival: &mut Arrival,
        delivered: &mut impl FnMut(&Sent),
    ) {
        arrival.acked += bytes(sent);
        arrival.acked_again |= sent.transmissions > 1;
        if sent.marks.any(Marks::SACKED) {
            self.sacked -= bytes(sent);
            self.sacked_segments = self.sacked_segments.saturating_sub(1);
        } else {
            self.forget(sent);
            if sent.transmissions == 1 {
                arrival.acked_once.add(sent.last_sent);
            }
            self.deliver(sent, arrival, true);
            delivered(sent);
        }
    }

    #[inline]
    fn deliver(&mut self, sent: &Sent, arrival: &mut Arrival, checks_echo: bool) {
        arrival.delivered += bytes(sent);
        if sent.transmissions == 1 {
            arrival.fresh_end =
                Some(arrival.fresh_end.map_or(sent.end(), |end| end.min(sent.end())));
        }
        if self.by_time {
            let older = checks_echo
                && arrival
                    .echo
                    .is_some_and(|echo| (echo.wrapping_sub(timestamp(sent.last_sent)) as i32) < 0);
            self.rack.on_delivered(arrival.now, sent, older);
        }
    }

    /// Takes a segment that is delivered out of the counts of what is lost or sent again.
    #[inline]
    fn forget(&mut self, sent: &Sent) {
        let (lost, resent) = (sent.marks.any(Marks::LOST), sent.marks.any(Marks::RESENT));
        if lost && !resent {
            self.waiting -= bytes(sent);
        } else if resent && !lost {
            self.extra -= bytes(sent);
        }
    }

    /// Marks what `blocks` report, between snd_una and snd_max; `delivered` is called with each
    /// segment that is news, and its place.
    pub fn mark(
        &mut self,
        board: &mut Scoreboard,
        blocks: &[Block],
        (snd_una, snd_max): (u64, u64),
        arrival: &mut Arrival,
        delivered: &mut impl FnMut(&Sent, usize),
    ) {
        let known = std::mem::replace(&mut self.cache, SackBlocks::NONE);
        let known = known.as_slice();
        let mut news = [(Block::default(), 0); MAX_BLOCKS];
        let mut count = 0;
        for (k, block) in blocks.iter().enumerate() {
            let (mut start, end) = (block.start.max(snd_una), block.end.min(snd_max));
            if start >= end {
                continue;
            }
            self.cache.push(block.start, block.end);
            self.high_sacked = self.high_sacked.max(end);
            // Blocks are repeated from ACK to ACK, mostly at the same place: only what one has
            // grown by is news.
            if known.get(k) == Some(block) {
                continue;
            }
            for old in known {
                if old.start <= start && start < old.end {
                    start = old.end;
                }
            }
            if start >= end {
                continue;
            }
            match news.get_mut(count) {
                Some(new) => {
                    *new = (Block { start, end }, block.start);
                    count += 1;
                }
                // More blocks than an ACK has.
                None => self.mark_block(board, Block { start, end }, arrival, delivered),
            }
        }
        let news = &mut news[..count];
        if self.by_time && count > 1 {
            // The first block is the latest, not the lowest (RFC 2018, section 4): in that order a
            // block further down would look late.
            news.sort_unstable_by_key(|(_, start)| *start);
        }
        for &(block, _) in &*news {
            self.mark_block(board, block, arrival, delivered);
        }
    }

    /// Marks the segments that lie in a block.
    #[inline]
    fn mark_block(
        &mut self,
        board: &mut Scoreboard,
        Block { start, end }: Block,
        arrival: &mut Arrival,
        delivered: &mut impl FnMut(&Sent, usize),
    ) {
        let mut place = board.place_near(start, self.behind);
        while let Some((at, sent)) =
            place.and_then(|p| Some((p, board.at_mut(p)?))).filter(|(_, s)| s.end() <= end)
        {
            if sent.seq >= start && !sent.marks.any(Marks::SACKED) {
                let before = *sent;
                sent.marks = Marks::SACKED;
                self.sacked += bytes(&before);
                self.sacked_segments += 1;
                arrival.sacked += bytes(&before);
                self.forget(&before);
                if before.transmissions == 1 {
                    arrival.sacked_once.add(before.last_sent);
                }
                let checked = self.rack.checks_echo_of_sacks();
                self.deliver(&before, arrival, checked);
                delivered(&before, at);
            }
            place = Some(at + 1);
        }
        self.behind = place.map_or(self.behind, |p| board.number(p));
    }

    /// Bytes below this that are not SACKed are considered lost.
    #[inline]
    pub fn lost_below(&self) -> u64 {
        self.loss_edge
    }

    /// Entries of the scoreboard that are SACKed and not yet acknowledged.
    #[inline]
    pub fn sacked_entries(&self) -> u64 {
        self.sacked_segments
    }

    /// The last copies of segments are lost that a detector has found.
    #[inline]
    pub fn lose_copies(&mut self, board: &mut Scoreboard, losses: &Losses) {
        let mut number = losses.first;
        for &seq in &losses.copies {
            number = self.lose_copy(board, seq, number);
        }
    }

    /// What a detector has found is lost.
    pub fn lose_found(&mut self, board: &mut Scoreboard, losses: &Losses) {
        if losses.reneged {
            self.forget_sacks(board);
        }
        self.lose_copies(board, losses);
        if losses.below > 0 {
            self.lose_below(board, losses.below);
        }
    }

    /// Everything below `edge` that is not SACKed is lost.
    pub fn lose_below(&mut self, board: &mut Scoreboard, edge: u64) {
        let Some(front) = board.at(0).map(|s| s.seq).filter(|_| edge > self.loss_edge) else {
            return;
        };
        let mut place = board.place(self.loss_edge.max(front));
        while let Some((p, sent)) =
            place.and_then(|p| Some((p, board.at_mut(p)?))).filter(|(_, s)| s.seq < edge)
        {
            if !sent.marks.any(Marks::SACKED.with(Marks::LOST).with(Marks::HELD)) {
                self.lose((sent, p), false);
            }
            place = Some(p + 1);
        }
        self.loss_edge = self.loss_edge.max(edge);
    }

    /// Segments from `seq` on that were not judged are to be judged once more.
    pub fn look_again_from(&mut self, seq: u64) {
        self.loss_edge = self.loss_edge.min(seq);
    }

    /// The link layer says that the copy of a segment that was sent last is lost.
    pub fn lose_reported(&mut self, board: &mut Scoreboard, seq: u64) {
        if let Some(sent) = board.find(seq).filter(|s| !s.marks.any(Marks::SACKED)) {
            // Its place is of no meaning: it is not counted.
            self.lose((sent, 0), true);
            sent.marks = sent.marks.without(Marks::HELD).with(Marks::REPORTED);
            // A rule that counts losses by congestion does not count this one.
            if let Some(found) = &mut self.found {
                while found.pop().is_some() {}
            }
        }
    }

    /// The receiver asks for a segment that it had reported: it has thrown it away (RFC 2018,
    /// section 8).
    pub fn take_back(&mut self, board: &mut Scoreboard, seq: u64) {
        if let Some(sent) = board.find(seq).filter(|s| s.marks.any(Marks::SACKED)) {
            sent.marks = Marks::NONE;
            self.reported = (0, 0);
            self.sacked -= bytes(sent);
            self.sacked_segments = self.sacked_segments.saturating_sub(1);
            self.cache = SackBlocks::NONE;
        }
    }

    /// The first segment is lost.
    pub fn lose_first(&mut self, board: &mut Scoreboard) {
        if let Some(end) = board.at(0).map(Sent::end) {
            self.lose_below(board, end);
        }
    }

    /// A segment, which lies at `place`, is lost; its copy under way too, if `copy`.
    fn lose(&mut self, (sent, place): (&mut Sent, usize), copy: bool) {
        let (lost, resent) = (sent.marks.any(Marks::LOST), sent.marks.any(Marks::RESENT));
        match (lost, resent, copy) {
            (false, false, _) => self.waiting += bytes(sent),
            (false, true, false) => self.extra -= bytes(sent),
            (false, true, true) => {
                self.extra -= bytes(sent);
                self.waiting += bytes(sent);
            }
            (true, true, true) => self.waiting += bytes(sent),
            (true, _, _) => return,
        }
        if let Some(found) = &mut self.found {
            found.push((sent.seq, place));
        }
        sent.marks = if copy { Marks::LOST } else { sent.marks.with(Marks::LOST) };
        if !sent.marks.any(Marks::RESENT) {
            self.next_lost = self.next_lost.min(sent.seq);
        }
    }

    /// The last copy of a segment, which probably has this number on the scoreboard, is lost.
    /// Returns the number of the next segment.
    fn lose_copy(&mut self, board: &mut Scoreboard, seq: u64, number: usize) -> usize {
        let Some(place) = board.place_near(seq, number) else { return number };
        if let Some(sent) = board.at_mut(place).filter(|s| !s.marks.any(Marks::SACKED)) {
            self.lose((sent, place), true);
            sent.marks = sent.marks.with(self.rack.mark_of_losses());
        }
        board.number(place + 1)
    }

    /// The timer fired: what counts as lost. All that is not SACKED, or (RACK) the first and what
    /// is overdue.
    pub fn lose_all(&mut self, board: &mut Scoreboard, now: Time, overdue_only: Option<Duration>) {
        // A receiver that took back what it had reported has nothing SACKed at snd_una (RFC 2018,
        // section 8).
        if board.at(0).is_some_and(|s| s.marks.any(Marks::SACKED)) {
            self.forget_sacks(board);
        }
        let mut place = 0;
        while let Some(sent) = board.at_mut(place) {
            let spared =
                overdue_only.is_some_and(|patience| place > 0 && sent.last_sent + patience > now);
            if !sent.marks.any(Marks::SACKED) && !spared {
                self.lose((sent, place), true);
            }
            place += 1;
        }
        if overdue_only.is_none() {
            self.loss_edge = board.at(place.wrapping_sub(1)).map_or(self.loss_edge, Sent::end);
        }
    }

    /// The receiver has discarded what it had SACKed (RFC 2018, section 8).
    #[cold]
    #[inline(never)]
    fn forget_sacks(&mut self, board: &mut Scoreboard) {
        let mut place = 0;
        while let Some(sent) = board.at_mut(place) {
            sent.marks = sent.marks.without(Marks::SACKED);
            place += 1;
        }
        (self.sacked, self.sacked_segments, self.cache, self.reported) =
            (0, 0, SackBlocks::NONE, (0, 0));
    }

    /// Nothing is lost after all, except what was sent again already.
    pub fn lose_nothing(&mut self, board: &mut Scoreboard) {
        let mut place = 0;
        while let Some(sent) = board.at_mut(place) {
            if sent.marks.any(Marks::LOST) {
                let resent = sent.marks.any(Marks::RESENT);
                if resent {
                    self.extra += bytes(sent);
                } else {
                    self.waiting -= bytes(sent);
                }
                sent.marks = sent.marks.without(Marks::LOST);
            }
            place += 1;
        }
        self.loss_edge = board.at(0).map_or(0, |s| s.seq);
        self.rack.judge_again_from(self.loss_edge);
        self.reported = (0, 0);
    }

    /// The place of the first segment that is lost and waits to be sent again.
    #[inline(always)]
    pub fn first_waiting(&mut self, board: &Scoreboard) -> Option<usize> {
        if self.waiting == 0 { None } else { self.find_waiting(board) }
    }

    #[inline(never)]
    fn find_waiting(&mut self, board: &Scoreboard) -> Option<usize> {
        let front = board.at(0)?.seq;
        let mut place = board.place_near(self.next_lost.max(front), self.next_lost_number)?;
        loop {
            let sent = board.at(place)?;
            if sent.marks.any(Marks::LOST) && !sent.marks.any(Marks::RESENT) {
                (self.next_lost, self.next_lost_number) = (sent.seq, board.number(place));
                return Some(place);
            }
            place += 1;
        }
    }

    /// RFC 6675, NextSeg (3): the first segment above HighRxt and below the highest SACK that is
    /// not SACKed.
    pub fn first_unreported(&mut self, board: &Scoreboard) -> Option<u64> {
        let from = self.high_resent.max(board.at(0)?.seq);
        let (known, to) = self.reported;
        // From ACK to ACK only what lies behind is news.
        let start = if known <= from { from.max(to) } else { from };
        let mut place = if start < self.high_sacked { board.place(start) } else { None };
        let mut end = start;
        while let Some(sent) = place.and_then(|p| board.at(p)).filter(|s| s.seq < self.high_sacked)
        {
            // What the link layer has said of a segment may be taken back.
            if sent.marks == Marks::NONE || sent.marks.any(Marks::SAID) {
                break;
            }
            end = sent.end();
            place = place.map(|p| p + 1);
        }
        self.reported = (from, end);
        let mut rest = (place?..board.len())
            .filter_map(|p| board.at(p))
            .take_while(|s| s.seq < self.high_sacked);
        rest.find(|s| s.marks == Marks::NONE).map(|s| s.seq)
    }

    /// RFC 6675, NextSeg (4): the last segment that is not SACKed.
    pub fn last_unsacked(&self, board: &Scoreboard) -> Option<u64> {
        let last = board.len().checked_sub(1)?;
        (0..=last)
            .rev()
            .filter_map(|p| board.at(p))
            .find(|s| !s.marks.any(Marks::SACKED))
            .map(|s| s.seq)
    }

    /// The segment at `place`, which has the byte `seq`, has just been retransmitted; false if
    /// there is none.
    pub fn resent(
        &mut self,
        board: &mut Scoreboard,
        (seq, place): (u64, usize),
        now: Time,
    ) -> bool {
        let number = board.number(place);
        let Some(sent) = board.at_mut(place) else { return false };
        if !sent.marks.any(Marks::RESENT) {
            if sent.marks.any(Marks::LOST) {
                self.waiting -= bytes(sent);
            } else {
                self.extra += bytes(sent);
            }
            sent.marks = sent.marks.with(Marks::RESENT);
        }
        sent.marks = sent.marks.without(Marks::JUDGED);
        if self.by_time {
            self.rack.on_retransmitted(seq, number, now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENTS: u64 = 40;

    proptest! {
        /// What was walked before is not walked again: the answer is that of a search from the
        /// beginning all the same.
        #[test]
        fn the_first_unreported_segment_is_found_whatever_happened_before(
            steps in prop::collection::vec((0u8..6, 0..SEGMENTS), 1..120),
        ) {
            let mut board = Scoreboard::default();
            for i in 0..SEGMENTS {
                let sent = Sent { seq: 1000 * i, len: 1000, transmissions: 1, ..Sent::default() };
                board.push(sent);
            }
            let mut s = SackBoard::new(false, Rack::default(), false);
            let mut una = 0;
            for (what, n) in steps {
                let seq = 1000 * n;
                match what {
                    0 | 1 => {
                        let block = Block { start: seq, end: (seq + 3000).min(1000 * SEGMENTS) };
                        let (range, arrival) = ((una, 1000 * SEGMENTS), &mut Arrival::default());
                        s.mark(&mut board, &[block], range, arrival, &mut |_, _| {});
                    }
                    2 => s.lose_below(&mut board, seq),
                    3 if seq >= una
                        && board.get(seq).is_some_and(|b| !b.marks.any(Marks::SACKED)) =>
                    {
                        let place = board.place(seq).unwrap();
                        s.resent(&mut board, (seq, place), Time(1));
                        s.high_resent = s.high_resent.max(seq + 1000);
                    }
                    4 => s.take_back(&mut board, seq),
                    // A recovery begins, or segments are acknowledged.
                    5 if n % 2 == 0 => s.high_resent = una,
                    5 => {
                        while let Some(sent) = board.take_below(seq) {
                            s.acknowledged(&sent, &mut Arrival::default(), &mut |_| {});
                            una = sent.end();
                        }
                    }
                    _ => {}
                }
                let from = s.high_resent;
                let unmarked = |b: &&Sent| {
                    b.end() > from && b.seq < s.high_sacked && b.marks == Marks::NONE
                };
                let found = board.iter().find(unmarked).map(|b| b.seq);
                prop_assert_eq!(s.first_unreported(&board), found);
            }
        }
    }
}
