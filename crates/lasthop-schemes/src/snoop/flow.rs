//! Snoop's state of a flow: the cache, the count of duplicate ACKs, the local timer.

use super::settings::Snoop;
use crate::shared::cache::{Cache, Cached, Room};
use lasthop_core::agent::Context;
use lasthop_core::segment::{Block, Direction, FlowId, Segment};
use lasthop_core::snack::Snack;
use lasthop_core::units::{Duration, Time};

/// Decision about a duplicate ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Forward it to the sender.
    Pass,
    /// Suppress it: triggered by a segment sent after the lost one.
    Expected,
    /// Suppress it: it triggered a local retransmission.
    Repaired,
}

/// State of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowState {
    pub flow: FlowId,
    /// Unacknowledged segments, sorted by first byte.
    pub cache: Cache,
    /// Stream offset after the highest byte from the sender.
    pub highest: u64,
    /// Highest acknowledgment number from the receiver; `None` if unknown.
    pub last_ack: Option<u64>,
    /// Window of the last ACK, bytes.
    pub window: Option<u32>,
    /// Duplicate ACKs still expected for segments sent after the head; negative if more arrived
    /// than segments were sent.
    pub expected: i64,
    /// True if the head's duplicate ACKs were counted since the last new ACK; the slack is then
    /// used up.
    pub counted: bool,
    /// True if one unexpected duplicate ACK was forwarded.
    pub passed: bool,
    /// Smoothed RTT and mean deviation, ns.
    pub rtt: Option<(u64, u64)>,
    /// When the last segment below the highest one was sent over the radio link, by the sender or
    /// from here: the ACKs of those sent before may have waited for it.
    pub hole_filled: Time,
    /// Time of the SYN, if the SYN-ACK gives an RTT sample.
    pub syn_sent: Option<Time>,
    /// Expiry of the local timer.
    pub due: Option<Time>,
    /// Number of doublings of the local timer.
    pub doublings: u32,
    /// Segments that did not fit into the cache.
    pub uncached: Uncached,
}

/// Segments in flight that did not fit into the cache. Used for reports only, and not part of the
/// agent's state.
#[derive(Clone, Debug, Default)]
pub(super) struct Uncached {
    /// Range from the first to the last such segment; 0 to 0 if there are none.
    pub range: Block,
    /// True if one of them was lost.
    pub lost: bool,
}

/// Denominator of the fixed-point gain.
const GAIN_ONE: u64 = 1 << 16;

/// Weighted mean of two times; the weight of `b` is `g` / `GAIN_ONE`.
fn smooth(a: u64, b: u64, g: u64) -> u64 {
    ((u128::from(a) * u128::from(GAIN_ONE - g) + u128::from(b) * u128::from(g))
        / u128::from(GAIN_ONE)) as u64
}

impl FlowState {
    /// Size of the state, payloads excluded, bytes.
    pub fn bytes(&self) -> usize {
        size_of::<FlowState>() - size_of::<Uncached>() + self.cache.len() * size_of::<Cached>()
    }

    /// True if the segment is below the highest one seen: retransmitted or reordered.
    pub fn is_below(&self, config: &Snoop, segment: &Segment) -> bool {
        // ns-2 takes a retransmission of the highest segment for a new one.
        segment.seq < self.highest
            && !(config.ns2_sender_retransmissions && segment.end() >= self.highest)
    }

    pub fn arm(&mut self, config: &Snoop, ctx: &mut Context<'_>) {
        let base = self.round_trip(config).max(config.tick);
        let at = ctx.now + base * (1 << self.doublings);
        self.due = Some(at);
        ctx.wake(self.flow, at);
    }

    /// Updates the RTT estimate of the last hop with `sample`, ns.
    fn measure(&mut self, config: &Snoop, sample: u64) {
        let g = ((config.gain.0 * GAIN_ONE as f64) as u64).min(GAIN_ONE);
        let (srtt, var) = self.rtt.unwrap_or((config.initial_srtt.0, config.initial_rttvar.0));
        let srtt =
            if config.ns2_rtt_weights { smooth(sample, srtt, g) } else { smooth(srtt, sample, g) };
        let deviation = sample.abs_diff(srtt);
        self.rtt = Some((srtt, if var == 0 { deviation } else { smooth(var, deviation, g) }));
    }

    /// Takes an RTT sample from the handshake.
    pub fn handshake(&mut self, config: &Snoop, now: Time) {
        if let Some(sent) = self.syn_sent.take().filter(|&s| s < now) {
            self.measure(config, now.since(sent).0);
        }
    }

    /// Records a segment that does not fit into the cache.
    pub fn leave_uncached(&mut self, segment: &Segment) {
        if self.uncached.range.end == 0 {
            self.uncached.range.start = segment.seq;
        }
        self.uncached.range.end = self.uncached.range.end.max(segment.end());
    }

    /// True if the next expected segment did not fit into the cache.
    pub fn is_uncached(&self, ack: u64) -> bool {
        self.uncached.range.start <= ack
            && ack < self.uncached.range.end
            && self.cache.head().is_none_or(|h| h.segment.seq > ack)
    }

    /// True if segments in flight did not fit into the cache and one of them was lost.
    pub fn cache_binds(&self) -> bool {
        self.uncached.lost && self.uncached.range.end > 0
    }

    /// Releases the segments below `ack`, and sets the timer for the remaining ones.
    pub fn acknowledge(
        &mut self,
        config: &Snoop,
        ctx: &mut Context<'_>,
        ack: u64,
        room: &mut Room,
    ) {
        let sent = self.cache.release_below(ctx, room, ack);
        let sample = sent.filter(|&s| s < ctx.now).map(|sent| ctx.now.since(sent).0);
        let waited = sent.is_some_and(|sent| sent < self.hole_filled);
        if let Some(sample) = sample.filter(|_| !config.ns2_rtt_samples && !waited) {
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

    /// The queue has dropped this segment: removes it unless another copy was sent to the radio
    /// link.
    pub fn forget(&mut self, ctx: &mut Context<'_>, room: &mut Room, segment: &Segment) -> bool {
        let index = self.cache.index(segment.seq);
        let Some(cached) = self.cache.at(index, segment.seq) else { return false };
        cached.copies = cached.copies.saturating_sub(1);
        if cached.copies > 0 {
            return false;
        }
        self.cache.remove(ctx, room, index);
        if self.cache.is_empty() && self.due.take().is_some() {
            ctx.cancel(self.flow);
        }
        true
    }

    /// Retransmits the head of the cache.
    fn repair(&mut self, config: &Snoop, ctx: &mut Context<'_>, ahead: Direction) {
        let Some(head) = self.cache.head_mut() else { return };
        head.send_again(config.ns2_rtt_samples, ctx, ahead);
        self.hole_filled = ctx.now;
        self.arm(config, ctx);
    }

    /// Upper estimate of the RTT of the last hop: srtt + 4 × deviation.
    fn round_trip(&self, config: &Snoop) -> Duration {
        let (srtt, var) = self.rtt.unwrap_or((config.initial_srtt.0, config.initial_rttvar.0));
        Duration(srtt) + Duration(var) * 4
    }

    /// Retransmits the cached segments of a SNACK request, each at most once per RTT of the last
    /// hop. Returns their number.
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
            self.hole_filled = ctx.now;
            self.arm(config, ctx);
        }
        repaired
    }

    /// Whether the next expected segment `ack` is retransmitted locally; `None` if it never arrived
    /// here, or if the sender retransmits it.
    pub fn waits_here(&self, config: &Snoop, now: Time, ack: u64) -> Option<bool> {
        let head = self.cache.head().filter(|h| h.segment.seq <= ack && !h.sender_retx)?;
        Some(
            head.local < config.max_retransmissions
                || head.is_under_way(now, self.round_trip(config)),
        )
    }

    /// Processes a duplicate ACK. `all_passed` is ns-2's counter of forwarded ones for all flows.
    pub fn duplicate(
        &mut self,
        config: &Snoop,
        ctx: &mut Context<'_>,
        ahead: Direction,
        ack: u64,
        all_passed: &mut bool,
    ) -> Answer {
        let Some(head) = self.cache.head().filter(|h| h.segment.seq <= ack) else {
            return Answer::Pass;
        };
        let (local, sender_retx) = (head.local, head.sender_retx);
        let exhausted = local >= config.max_retransmissions;
        if (sender_retx || exhausted) && !config.ns2_suppress_expected {
            return Answer::Pass;
        }
        // A lost local retransmission is left to the timer, unless more duplicate ACKs arrived than
        // segments were sent.
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
                if sender_retx {
                    return Answer::Pass;
                }
                self.count(config);
            }
            -1 => repairs = 2,
            _ => return Answer::Pass,
        }
        if local < repairs && !exhausted {
            self.repair(config, ctx, ahead);
            return Answer::Repaired;
        }
        Answer::Pass
    }

    /// Counts the duplicate ACKs still expected for the segments after the head: one has arrived,
    /// and possibly another one was forwarded.
    fn count(&mut self, config: &Snoop) {
        let received = 1 + i64::from(config.first_dupack_passes);
        let slack = if self.counted { 0 } else { i64::from(config.expected_slack) };
        let looks_empty =
            config.ns2_full_cache && !self.counted && self.cache.len() >= config.cached_at_most();
        let cached = if looks_empty { 0 } else { self.cache.len() as i64 };
        self.expected = cached - 1 + slack - received;
        self.counted = true;
    }

    /// The local timer has expired: retransmits the head if it is the next expected segment. The
    /// state of later segments is unknown without an ACK.
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
