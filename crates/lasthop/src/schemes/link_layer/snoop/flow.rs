//! What Snoop holds of one flow: the cache, the count of duplicate ACKs, the local timer.

use super::Snoop;
use crate::agent::Context;
use crate::schemes::link_layer::cache::{Cache, Cached, Room};
use crate::segment::{Block, Direction, FlowId, Segment};
use crate::snack::Snack;
use crate::units::{Duration, Time};

/// What becomes of a duplicate ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It goes on to the sender.
    Pass,
    /// It is one of those that the segments behind the loss bring about.
    Expected,
    /// It told of a loss that has been repaired here.
    Repaired,
}

/// What is held for a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowState {
    pub flow: FlowId,
    /// Unacknowledged segments by first byte.
    pub cache: Cache,
    /// Offset after the highest byte seen from the sender.
    pub highest: u64,
    /// Largest ACK seen from the receiver, once it is known.
    pub last_ack: Option<u64>,
    /// Window of the last ACK.
    pub window: Option<u32>,
    /// Duplicate ACKs still to come for segments sent after the head; negative: more came than were
    /// sent.
    pub expected: i64,
    /// The head's duplicates were counted since the last new ACK, so the slack is used up.
    pub counted: bool,
    /// One unexpected duplicate ACK has been let through.
    pub passed: bool,
    /// Smoothed round-trip time and deviation, ns.
    pub rtt: Option<(u64, u64)>,
    /// When the SYN passed, if its answer gives a round-trip time.
    pub syn_sent: Option<Time>,
    /// When the local timer is due.
    pub due: Option<Time>,
    /// Doublings of the local timer.
    pub doublings: u32,
    /// What the cache had no room for.
    pub uncached: Uncached,
}

/// Segments on their way that the cache had no room for: for reports, and no part of the agent's
/// state.
#[derive(Clone, Debug, Default)]
pub(super) struct Uncached {
    /// From the first byte of the first to the end of the last; 0 to 0 if there are none.
    range: Block,
    /// One was lost.
    pub lost: bool,
}

/// Denominator of the gain as an integer.
const GAIN_ONE: u64 = 1 << 16;

/// Mean of two times, `b` weighing `g` of `GAIN_ONE`.
fn smooth(a: u64, b: u64, g: u64) -> u64 {
    ((u128::from(a) * u128::from(GAIN_ONE - g) + u128::from(b) * u128::from(g))
        / u128::from(GAIN_ONE)) as u64
}

impl FlowState {
    /// Bytes of state, payloads not counted.
    pub fn bytes(&self) -> usize {
        size_of::<FlowState>() - size_of::<Uncached>() + self.cache.len() * size_of::<Cached>()
    }

    /// It does not follow the highest segment seen: sent again, or late.
    pub fn is_below(&self, config: &Snoop, segment: &Segment) -> bool {
        // ns-2 takes the highest one itself, once more, for new.
        segment.seq < self.highest
            && !(config.ns2_sender_retransmissions && segment.end() >= self.highest)
    }

    pub fn arm(&mut self, config: &Snoop, ctx: &mut Context<'_>) {
        let base = self.round_trip(config).max(config.tick);
        let at = ctx.now + base * (1 << self.doublings);
        self.due = Some(at);
        ctx.wake(self.flow, at);
    }

    /// The last hop's round trip took `sample`.
    fn measure(&mut self, config: &Snoop, sample: u64) {
        let g = ((config.gain.0 * GAIN_ONE as f64) as u64).min(GAIN_ONE);
        let (srtt, var) = self.rtt.unwrap_or((config.initial_srtt.0, config.initial_rttvar.0));
        let srtt =
            if config.ns2_rtt_weights { smooth(sample, srtt, g) } else { smooth(srtt, sample, g) };
        let deviation = sample.abs_diff(srtt);
        self.rtt = Some((srtt, if var == 0 { deviation } else { smooth(var, deviation, g) }));
    }

    /// The SYN is answered.
    pub fn handshake(&mut self, config: &Snoop, now: Time) {
        if let Some(sent) = self.syn_sent.take().filter(|&s| s < now) {
            self.measure(config, now.since(sent).0);
        }
    }

    /// There is no room for this segment.
    pub fn leave_uncached(&mut self, segment: &Segment) {
        if self.uncached.range.end == 0 {
            self.uncached.range.start = segment.seq;
        }
        self.uncached.range.end = self.uncached.range.end.max(segment.end());
    }

    /// There was no room for the segment that the receiver waits for.
    pub fn is_uncached(&self, ack: u64) -> bool {
        self.uncached.range.start <= ack
            && ack < self.uncached.range.end
            && self.cache.head().is_none_or(|h| h.segment.seq > ack)
    }

    /// Segments are on their way that it had no room for, and one such was lost.
    pub fn cache_binds(&self) -> bool {
        self.uncached.lost && self.uncached.range.end > 0
    }

    /// Everything below `ack` has arrived: gives it back, and sets the timer for what is left.
    pub fn acknowledge(
        &mut self,
        config: &Snoop,
        ctx: &mut Context<'_>,
        ack: u64,
        room: &mut Room,
    ) {
        let mut sent = None;
        while let Some(cached) = self.cache.take_below(ctx, room, ack) {
            sent = cached.sent.or(sent);
        }
        let sample = sent.filter(|&s| s < ctx.now).map(|sent| ctx.now.since(sent).0);
        if let Some(sample) = sample.filter(|_| !config.ns2_rtt_samples) {
            self.measure(config, sample);
        }
        self.last_ack = Some(ack);
        if ack >= self.uncached.range.end {
            self.uncached.range = Block::default();
        }
        (self.expected, self.counted, self.passed, self.doublings) = (0, false, false, 0);
        if !self.cache.is_empty() {
            self.arm(config, ctx);
        } else if self.due.take().is_some() {
            ctx.cancel(self.flow);
        }
        if let Some(sample) = sample.filter(|_| config.ns2_rtt_samples) {
            self.measure(config, sample);
        }
    }

    /// The queue has dropped this segment: it is kept only if another copy of it went to the radio.
    pub fn forget(&mut self, ctx: &mut Context<'_>, room: &mut Room, segment: &Segment) -> bool {
        let place = self.cache.place(segment.seq);
        let Some(cached) = self.cache.at(place, segment.seq) else { return false };
        cached.copies = cached.copies.saturating_sub(1);
        if cached.copies > 0 {
            return false;
        }
        self.cache.remove(ctx, room, place);
        if self.cache.is_empty() && self.due.take().is_some() {
            ctx.cancel(self.flow);
        }
        true
    }

    /// Sends the head of the cache again.
    fn repair(&mut self, config: &Snoop, ctx: &mut Context<'_>, ahead: Direction) {
        let Some(head) = self.cache.head_mut() else { return };
        head.send_again(config.ns2_rtt_samples, ctx, ahead);
        self.arm(config, ctx);
    }

    /// How long an answer over the last hop may take.
    fn round_trip(&self, config: &Snoop) -> Duration {
        let (srtt, var) = self.rtt.unwrap_or((config.initial_srtt.0, config.initial_rttvar.0));
        Duration(srtt) + Duration(var) * 4
    }

    /// The receiver asks for what it misses: sends again what is here of it, each segment once in a
    /// round trip of the last hop. Returns how many.
    pub fn repair_holes(
        &mut self,
        config: &Snoop,
        ctx: &mut Context<'_>,
        ahead: Direction,
        snack: &Snack,
    ) -> u64 {
        let round_trip = self.round_trip(config);
        let mut repaired = 0;
        for hole in snack.holes() {
            for cached in self.cache.within_mut(hole) {
                if !cached.is_under_way(ctx.now, round_trip)
                    && cached.local < config.max_retransmissions
                {
                    cached.send_again(config.ns2_rtt_samples, ctx, ahead);
                    repaired += 1;
                }
            }
        }
        if repaired > 0 {
            self.arm(config, ctx);
        }
        repaired
    }

    /// The segment that `ack` asks for: whether it is repaired here; `None` if it never came, or
    /// its sender repairs it.
    pub fn waits_here(&self, config: &Snoop, now: Time, ack: u64) -> Option<bool> {
        let head = self.cache.head().filter(|h| h.segment.seq <= ack && !h.sender_retx)?;
        Some(
            head.local < config.max_retransmissions
                || head.is_under_way(now, self.round_trip(config)),
        )
    }

    /// The rules for a duplicate ACK. `all_passed`: ns-2's count of those that passed, for all
    /// flows.
    pub fn duplicate(
        &mut self,
        config: &Snoop,
        ctx: &mut Context<'_>,
        ahead: Direction,
        ack: u64,
        all_passed: &mut bool,
    ) -> Answer {
        let Some(head) = self.cache.head().copied().filter(|h| h.segment.seq <= ack) else {
            return Answer::Pass;
        };
        let exhausted = head.local >= config.max_retransmissions;
        if (head.sender_retx || exhausted) && !config.ns2_suppress_expected {
            return Answer::Pass;
        }
        // A repair that is lost is the timer's affair, unless more duplicates came than segments
        // were sent.
        let mut repairs = 1;
        match self.expected {
            1.. => {
                self.expected -= 1;
                return Answer::Expected;
            }
            0 => {
                let passed = if config.ns2_passing { all_passed } else { &mut self.passed };
                if config.first_dupack_passes && !*passed {
                    *passed = true;
                    return Answer::Pass;
                }
                *passed = false;
                if head.sender_retx {
                    return Answer::Pass;
                }
                self.count(config);
            }
            -1 => repairs = 2,
            _ => return Answer::Pass,
        }
        if head.local < repairs && !exhausted {
            self.repair(config, ctx, ahead);
            return Answer::Repaired;
        }
        Answer::Pass
    }

    /// Of the duplicates for the segments after the head, one has come and, it may be, one that
    /// passed.
    fn count(&mut self, config: &Snoop) {
        let came = 1 + i64::from(config.first_dupack_passes);
        let slack = if self.counted { 0 } else { i64::from(config.expected_slack) };
        let looks_empty =
            config.ns2_full_cache && !self.counted && self.cache.len() >= config.cached_at_most();
        let cached = if looks_empty { 0 } else { self.cache.len() as i64 };
        self.expected = cached - 1 + slack - came;
        self.counted = true;
    }

    /// The local timer: repairs the head if the receiver waits for it. Without an ACK nothing is
    /// known of those behind it.
    pub fn expire(&mut self, config: &Snoop, ctx: &mut Context<'_>, ahead: Direction) -> bool {
        let Some(head) = self.due.take_if(|due| *due <= ctx.now).and(self.cache.head()) else {
            return false;
        };
        if self.last_ack.is_none_or(|l| head.segment.seq > l)
            || head.local >= config.max_retransmissions
        {
            return false;
        }
        self.doublings = (self.doublings + u32::from(config.backoff)).min(6);
        self.counted = true;
        self.repair(config, ctx, ahead);
        true
    }
}
