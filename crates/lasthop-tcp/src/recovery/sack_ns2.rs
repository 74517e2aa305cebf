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

use crate::recovery::config::{Recovery, RecoveryKind};
use crate::recovery::dupack::{AfterTimeout, DupackRecovery};
use crate::sender::config::{Output, SendReason};
use crate::sender::stream::Stream;
use crate::window::WindowRule;
use lasthop_core::segment::{Block, Flags, Options, Segment};
use lasthop_core::units::Time;

/// ns-2's SACK takes no additions.
///
/// # Errors
///
/// The message says so.
pub fn check(recovery: &Recovery) -> Result<(), String> {
    let plain = Recovery::of(RecoveryKind::SackNs2);
    if recovery.kind == plain.kind && *recovery != plain {
        return Err("sack-ns2 takes no additions: it is what ns-2 has".into());
    }
    Ok(())
}

/// The recovery of one connection.
#[derive(Clone, Debug)]
pub struct SackNs2Recovery {
    /// Duplicate ACKs, reductions and timeouts, as without SACK.
    base: DupackRecovery,
    /// In fast recovery.
    recovering: bool,
    /// No new data have been acknowledged since the last timeout.
    after_timeout: bool,
    /// Segments considered in flight; counts only in recovery.
    pipe: i64,
    /// No hole that begins before this byte is retransmitted.
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

impl SackNs2Recovery {
    /// At the start of a connection. `guarded`: the guard is on before the first reduction.
    pub fn new(recovery: &Recovery, guarded: bool) -> Self {
        SackNs2Recovery {
            base: DupackRecovery::new(recovery, guarded),
            recovering: false,
            after_timeout: false,
            pipe: 0,
            holes_from: 0,
            reported: Reported::default(),
        }
    }

    /// In fast recovery.
    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Duplicate ACKs in a row.
    pub fn dupacks(&self) -> u32 {
        self.base.dupacks()
    }

    /// Recovery as without SACK.
    pub fn base_mut(&mut self) -> &mut DupackRecovery {
        &mut self.base
    }

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

    /// The hole that ends at `end` has been retransmitted.
    fn filled(&mut self, end: u64) {
        self.holes_from = self.holes_from.max(end);
    }

    /// An ACK of an established connection.
    pub fn on_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        let blocks = if segment.flags.has(Flags::SACK) { options.sack.as_slice() } else { &[] };
        if segment.ack >= stream.snd_una() {
            stream.set_rwnd(u64::from(segment.window));
        }
        if self.recovering {
            self.on_ack_in_recovery(stream, now, segment, blocks);
            return self.fill(stream, now, SendReason::Recovery, out);
        }
        if segment.ack > stream.snd_una() {
            self.base.process_new_ack(stream, now, segment, false);
            self.after_timeout = false;
            self.forget();
        } else if segment.ack == stream.snd_una() && !self.after_timeout {
            self.on_duplicate_ack(stream, now, segment, blocks, out);
        }
        if self.base.dupacks() == 0 {
            self.base.fill(stream, now, u32::MAX, SendReason::Recovery, out);
        }
    }

    /// A duplicate ACK outside of recovery.
    #[inline(never)]
    fn on_duplicate_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
        out: &mut impl Output,
    ) {
        if !self.has_news(stream, now, segment, blocks) {
            return;
        }
        self.base.count_duplicate(stream, now, segment, false);
        let (dupacks, threshold) = (self.base.dupacks(), stream.profile().dupack_threshold);
        if dupacks < threshold {
            stream.limited_transmit(now, dupacks, out);
        } else if dupacks == threshold {
            self.fast_retransmit(stream, now, segment.flags, out);
        }
    }

    /// Processes SACK blocks. True if they report anything new.
    fn update_scoreboard<W: WindowRule>(&mut self, stream: &Stream<W>, blocks: &[Block]) -> bool {
        self.reported.update(stream.snd_una(), stream.snd_max(), blocks)
    }

    /// The same for a duplicate ACK, which is passed to the rule if it counts.
    fn has_news<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
    ) -> bool {
        let news = self.update_scoreboard(stream, blocks);
        if news && stream.hooks().every_ack {
            stream.report_any_ack(now, segment, 0, None);
        }
        news
    }

    fn fast_retransmit<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        flags: Flags,
        out: &mut impl Output,
    ) {
        if self.base.is_guarded(stream) {
            return;
        }
        self.base.reduce_for_loss(stream, now, flags, out);
        let outstanding = stream.board().len() as i64;
        let first = stream.board().at(0).map_or(stream.snd_una(), |s| s.end());
        self.recovering = true;
        self.pipe = outstanding - i64::from(stream.profile().dupack_threshold);
        self.filled(first);
        stream.retransmit(now, stream.snd_una(), SendReason::FastRetransmit, out);
    }

    fn on_ack_in_recovery<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
    ) {
        self.pipe -= 1;
        let bytes = segment.ack.saturating_sub(stream.snd_una());
        if self.base.recover().is_none_or(|recover| segment.ack >= recover) {
            self.leave(stream, now, segment, bytes);
        } else if bytes > 0 {
            self.base.advance(stream, segment.ack);
            if stream.hooks().every_ack {
                stream.report_any_ack(now, segment, bytes, None);
            }
            self.update_scoreboard(stream, blocks);
            self.pipe -= 1;
            stream.timers_mut().arm(now);
            stream.timers_mut().end_back_off();
        } else if self.has_news(stream, now, segment, blocks) {
            self.base.count_duplicate(stream, now, segment, false);
        }
    }

    /// Everything that was outstanding when recovery began has been acknowledged.
    fn leave<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        bytes: u64,
    ) {
        self.base.leave();
        self.base.reset_dupacks(stream);
        self.base.advance(stream, segment.ack);
        let rtt = stream.sample(now, segment);
        stream.rearm_after_ack(now);
        if stream.hooks().every_ack {
            stream.report_any_ack(now, segment, bytes, rtt);
        }
        stream.congestion_mut().on_recovered(now);
        self.recovering = false;
        self.forget();
        stream.check_done();
    }

    /// Sends while the pipe, or outside of recovery the window, has room: holes first, then what
    /// comes next.
    #[inline(never)]
    pub fn fill<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        mut reason: SendReason,
        out: &mut impl Output,
    ) {
        stream.congestion_mut().stop_waiting();
        while stream.may_send()
            && (reason == SendReason::Timeout || stream.congestion_mut().paced(now))
        {
            let mss = u64::from(stream.mss());
            let cwnd = stream.window().bytes(0.0);
            let recovering = self.recovering;
            if recovering && self.pipe >= (cwnd / mss.max(1)) as i64 {
                break;
            }
            let window = if recovering { stream.rwnd() } else { cwnd.min(stream.rwnd()) };
            let sent = match self.next_hole() {
                Some(hole) => {
                    (recovering || stream.snd_nxt() + mss <= stream.snd_una() + window)
                        && self.fill_hole(stream, now, hole, out)
                }
                // What was sent before was inside the receiver's window once.
                None if stream.snd_nxt() < stream.snd_max() && !recovering => {
                    stream.send_next(now, cwnd, reason, out)
                }
                None => stream.send_next(now, window, reason, out),
            };
            if !sent {
                break;
            }
            self.pipe += 1;
            reason = SendReason::Recovery;
        }
        let at = stream.other_deadline();
        stream.timers_mut().set_aux_deadline(now, at);
        if stream.may_send() {
            stream.watch_window(now);
        }
    }

    fn fill_hole<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        hole: u64,
        out: &mut impl Output,
    ) -> bool {
        let Some(segment) = stream.board().get(hole) else { return false };
        if self.base.recover().is_none_or(|recover| recover == 0)
            || segment.end() > stream.snd_una() + stream.rwnd()
        {
            return false;
        }
        self.filled(segment.end());
        stream.congestion_mut().note_lost(now, (hole, 0));
        stream.retransmit(now, hole, SendReason::Recovery, out);
        stream.skip_to(segment.end());
        true
    }

    /// The retransmission timer expired.
    pub fn on_timeout<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        self.recovering = false;
        self.after_timeout = true;
        self.forget();
        if self.base.on_timeout(stream, now, out) != AfterTimeout::Nothing {
            self.fill(stream, now, SendReason::Timeout, out);
        }
    }
}
