//! SACK recovery as ns-2.35's `TCP/Sack1` does it: the pipe algorithm of Fall and Floyd 1996,
//! before RFC 3517.
//!
//! It differs from RFC 6675 (`sack`) in what it counts and forgets:
//!
//! * A duplicate ACK counts only if its SACK blocks report something new; the threshold is one of
//!   ACKs, not of bytes.
//! * `pipe` is set once, when recovery begins, to what is outstanding less the duplicate ACKs
//!   counted. Each ACK takes one off, a partial one two, each segment sent adds one: a loss is seen
//!   in it only when its hole is filled.
//! * Every hole is sent again once. A lost retransmission is found by the timer alone.
//! * Each partial ACK restarts the timer and ends its back-off; cwnd stands still until recovery
//!   ends, and the ACK that ends it does not open the window.
//! * What was reported is forgotten at the end of a recovery, at every ACK of new data outside of
//!   one and at a timeout; after a timeout duplicate ACKs mean nothing until new data are
//!   acknowledged.

use crate::sender::{LastAction, Output, SendReason, Sender};
use crate::window::{LossKind, WindowRule};
use lasthop_core::segment::{Block, Flags, Options, Segment};
use lasthop_core::units::Time;

/// What this recovery remembers beside the sender's own state.
#[derive(Clone, Debug, Default)]
pub(crate) struct SackNs2 {
    /// In fast recovery.
    pub(crate) recovering: bool,
    /// No new data have been acknowledged since the last timeout.
    after_timeout: bool,
    /// Segments held to be under way; counts only in recovery.
    pipe: i64,
    /// No hole that begins before this byte is sent again.
    holes_from: u64,
    reported: Reported,
}

/// Ranges that SACK blocks have reported: disjoint, in order.
#[derive(Clone, Debug, Default)]
struct Reported {
    ranges: Vec<Block>,
    /// Where they begin: the next byte expected, until an old ACK moves it.
    left: u64,
}

impl Reported {
    /// Takes in the blocks of an ACK when `una` is the first byte not acknowledged. True if they
    /// change anything.
    fn update(&mut self, una: u64, snd_max: u64, blocks: &[Block]) -> bool {
        let mut changed = false;
        if self.left < una {
            self.left = una;
            changed = !self.ranges.is_empty();
            self.ranges.retain(|r| r.end > una);
            if let Some(first) = self.ranges.first_mut() {
                first.start = first.start.max(una);
            }
        }
        for block in blocks.iter().filter(|b| b.start < b.end && b.end <= snd_max) {
            changed |= self.add(*block);
        }
        changed
    }

    /// Adds a range. True if it brings anything new.
    fn add(&mut self, block: Block) -> bool {
        let from = self.ranges.partition_point(|r| r.end < block.start);
        let to = self.ranges.partition_point(|r| r.start <= block.end);
        let mut merged = block;
        let mut known = 0;
        for r in &self.ranges[from..to] {
            merged = Block { start: merged.start.min(r.start), end: merged.end.max(r.end) };
            known += r.end - r.start;
        }
        let new = merged.end - merged.start > known;
        if new {
            self.ranges.splice(from..to, [merged]);
        }
        // A block of an old ACK, from before the next byte expected, moves that to its own end.
        let inside = self.ranges.first().filter(|_| !new).copied().unwrap_or(merged);
        if self.left >= inside.start && (new || block != merged) {
            self.left = inside.end;
        }
        new
    }

    /// The first hole at or after `seq` with anything reported above it.
    fn hole(&self, seq: u64) -> Option<u64> {
        let i = self.ranges.partition_point(|r| r.end < seq);
        match self.ranges.get(i)? {
            r if r.start > seq => Some(seq),
            r => (i + 1 < self.ranges.len()).then_some(r.end),
        }
    }
}

impl SackNs2 {
    fn forget(&mut self) {
        self.reported.ranges.clear();
        self.holes_from = 0;
    }

    /// Where the next hole to be filled begins.
    fn next_hole(&mut self) -> Option<u64> {
        self.holes_from = self.holes_from.max(self.reported.left);
        let hole = self.reported.hole(self.holes_from)?;
        self.holes_from = self.holes_from.max(hole);
        Some(hole)
    }

    /// The hole that ends at `end` has been sent again.
    fn filled(&mut self, end: u64) {
        self.holes_from = self.holes_from.max(end);
    }
}

impl<W: WindowRule> Sender<W> {
    fn ns2(&mut self) -> &mut SackNs2 {
        self.sack_ns2.get_or_insert_default()
    }

    pub(crate) fn on_sack_ns2_ack(
        &mut self,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        let blocks = if segment.flags.has(Flags::SACK) { options.sack.as_slice() } else { &[] };
        if segment.ack >= self.snd_una {
            self.set_rwnd(u64::from(segment.window));
        }
        if self.ns2().recovering {
            self.ns2_ack_in_recovery(now, segment, blocks);
            self.fill_sack_ns2(now, SendReason::Recovery, out);
            return;
        }
        if segment.ack > self.snd_una {
            self.new_ack(now, segment, false);
            self.ns2().after_timeout = false;
            self.ns2().forget();
        } else if segment.ack == self.snd_una && !self.ns2().after_timeout {
            self.ns2_duplicate_ack(now, segment, blocks, out);
        }
        if self.dupacks == 0 {
            self.fill(now, u32::MAX, SendReason::Recovery, out);
        }
    }

    /// A duplicate ACK outside of recovery.
    #[inline(never)]
    fn ns2_duplicate_ack(
        &mut self,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
        out: &mut impl Output,
    ) {
        if !self.ns2_news(now, segment, blocks) {
            return;
        }
        self.dupacks += 1;
        self.rule.on_dupack(&mut self.window, now, self.dupacks);
        if self.dupacks < self.profile.dupack_threshold {
            self.limited_transmit(now, out);
        } else if self.dupacks == self.profile.dupack_threshold {
            self.ns2_fast_retransmit(now, segment.flags, out);
        }
    }

    /// Takes in SACK blocks. True if they report anything new.
    fn ns2_update_scoreboard(&mut self, blocks: &[Block]) -> bool {
        let (una, max) = (self.snd_una, self.snd_max);
        self.ns2().reported.update(una, max, blocks)
    }

    /// The same for a duplicate ACK, of which the rule is told if it counts.
    fn ns2_news(&mut self, now: Time, segment: &Segment, blocks: &[Block]) -> bool {
        let news = self.ns2_update_scoreboard(blocks);
        if news && self.config.needs.every_ack {
            self.tell(now, segment, 0, None);
        }
        news
    }

    fn ns2_fast_retransmit(&mut self, now: Time, flags: Flags, out: &mut impl Output) {
        let guarded =
            self.profile.guard_after_rto && (self.snd_una > 0 || self.profile.guard_first_segment);
        if guarded && self.recover.is_some_and(|recover| self.snd_una <= recover) {
            return;
        }
        self.recover = Some(self.snd_max);
        self.last_action = LastAction::DuplicateAcks;
        self.counters.fast_retransmits += 1;
        self.note_lost(now, self.snd_una);
        self.reduce(now, LossKind::DuplicateAcks, flags, None, out);
        self.timing = None;
        self.arm(now);
        let outstanding = self.board.len() as i64;
        let threshold = i64::from(self.profile.dupack_threshold);
        let first = self.board.at(0).map_or(self.snd_una, |s| s.end());
        let state = self.ns2();
        state.recovering = true;
        state.pipe = outstanding - threshold;
        state.filled(first);
        self.retransmit(now, self.snd_una, SendReason::FastRetransmit, out);
    }

    fn ns2_ack_in_recovery(&mut self, now: Time, segment: &Segment, blocks: &[Block]) {
        self.ns2().pipe -= 1;
        let bytes = segment.ack.saturating_sub(self.snd_una);
        if self.recover.is_none_or(|recover| segment.ack >= recover) {
            self.ns2_leave(now, segment, bytes);
        } else if bytes > 0 {
            self.advance(segment.ack);
            if self.config.needs.every_ack {
                self.tell(now, segment, bytes, None);
            }
            self.ns2_update_scoreboard(blocks);
            self.ns2().pipe -= 1;
            self.arm(now);
            self.rto.end_back_off();
        } else if self.ns2_news(now, segment, blocks) {
            self.dupacks += 1;
            self.rule.on_dupack(&mut self.window, now, self.dupacks);
        }
    }

    /// Everything that was outstanding when recovery began has been acknowledged.
    fn ns2_leave(&mut self, now: Time, segment: &Segment, bytes: u64) {
        self.recover = None;
        self.last_action = LastAction::Exited;
        self.dupacks = 0;
        self.limited = 0;
        self.advance(segment.ack);
        let rtt = self.sample(now, segment);
        self.rearm_after_ack(now);
        if self.config.needs.every_ack {
            self.tell(now, segment, bytes, rtt);
        }
        self.rule.on_recovered(&mut self.window, now);
        let state = self.ns2();
        state.recovering = false;
        state.forget();
        self.check_done();
    }

    /// Sends while the pipe, or outside of recovery the window, has room: holes first, then what
    /// comes next.
    #[inline(never)]
    pub(crate) fn fill_sack_ns2(
        &mut self,
        now: Time,
        mut reason: SendReason,
        out: &mut impl Output,
    ) {
        self.stop_waiting();
        while self.may_send() && (reason == SendReason::Timeout || self.paced(now)) {
            let mss = u64::from(self.config.mss);
            let cwnd = self.window.bytes(0.0);
            let state = self.ns2();
            let recovering = state.recovering;
            if recovering && state.pipe >= (cwnd / mss.max(1)) as i64 {
                break;
            }
            let window = if recovering { self.rwnd } else { cwnd.min(self.rwnd) };
            let sent = match self.ns2().next_hole() {
                Some(hole) => {
                    (recovering || self.snd_nxt + mss <= self.snd_una + window)
                        && self.ns2_fill_hole(now, hole, out)
                }
                // What was sent before was inside the receiver's window once.
                None if self.snd_nxt < self.snd_max && !recovering => {
                    self.send_next(now, cwnd, reason, out)
                }
                None => self.send_next(now, window, reason, out),
            };
            if !sent {
                break;
            }
            self.ns2().pipe += 1;
            reason = SendReason::Recovery;
        }
        self.set_aux_deadline(now, self.other_deadline());
        if self.may_send() {
            self.watch_window(now);
        }
    }

    fn ns2_fill_hole(&mut self, now: Time, hole: u64, out: &mut impl Output) -> bool {
        let Some(segment) = self.board.get(hole) else { return false };
        if self.recover.is_none_or(|recover| recover == 0)
            || segment.end() > self.snd_una + self.rwnd
        {
            return false;
        }
        self.ns2().filled(segment.end());
        self.note_lost(now, hole);
        self.retransmit(now, hole, SendReason::Recovery, out);
        self.snd_nxt = self.snd_nxt.max(segment.end());
        true
    }

    /// The retransmission timer fired.
    pub(crate) fn on_sack_ns2_timeout(&mut self, now: Time, out: &mut impl Output) {
        let state = self.ns2();
        state.recovering = false;
        state.after_timeout = true;
        state.forget();
        self.on_dupack_timeout(now, out);
    }

    /// In fast recovery under this recovery.
    pub(crate) fn in_ns2_recovery(&self) -> bool {
        self.sack_ns2.as_ref().is_some_and(|s| s.recovering)
    }
}
