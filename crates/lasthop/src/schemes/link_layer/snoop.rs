//! Snoop: the base station repairs radio losses by itself and hides the duplicate ACKs from the sender.
//!
//! Source: H. Balakrishnan, S. Seshan, E. Amir, R. H. Katz, "Improving TCP/IP performance over wireless networks", MobiCom
//! 1995. Behaviour follows the agent in ns-2; where the two part, a setting or a comment says so.
//! Idea: keep the unacknowledged downlink segments. A duplicate ACK for a cached one means that the radio lost it: send it
//! again from here and suppress the duplicates, so that the sender does not take the loss for congestion. What was lost before
//! the base station, or in its queue, is not in the cache, and those duplicate ACKs go on.
//! Deployed at: the base station, below IP. Wire: nothing new. State is soft: the sender repairs whatever Snoop does not.
//! Assumes: cleartext TCP headers, both directions through one base station, a last hop that keeps the order.
//! Bad at: encryption, link ARQ underneath (both repair), delay variation (looks like loss), handoff, uplink data, SACK
//! senders (a suppressed duplicate ACK takes its SACK blocks with it).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Context, FlowTable, Verdict};
use crate::role::Role;
use crate::schemes::catalogue::{AnyAgent, Changes, Entry, Family, SchemeConfig};
use crate::segment::{Direction, Flags, FlowId, Segment};
use crate::units::{Duration, Share, Time};

/// Settings of Snoop.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Snoop {
    /// Segments cached per flow.
    #[schemars(extend("unit" = "packets"))]
    pub cache_packets: u32,
    /// Bytes cached for all flows together, headers included.
    #[schemars(extend("unit" = "bytes"))]
    pub cache_bytes: u64,
    /// Flows for which state is held; the one without data longest goes first.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// The local timer is never shorter than this.
    pub tick: Duration,
    /// Smoothed round-trip time of the last hop before the first sample.
    pub initial_srtt: Duration,
    /// Its mean deviation before the first sample.
    pub initial_rttvar: Duration,
    /// Gain of the round-trip estimator.
    pub gain: Share,
    /// Weigh the round-trip time as ns-2 does: srtt = gain × srtt + (1 - gain) × sample. Off: the gain weighs the sample.
    pub ns2_rtt_weights: bool,
    /// Double the local timer with every expiry until a new ACK comes; ns-2 does not.
    pub backoff: bool,
    /// Local retransmissions of one segment, timer and duplicate ACKs together; then duplicate ACKs go on to the sender.
    pub max_retransmissions: u32,
    /// The first duplicate ACK goes on to the sender and the second starts the repair, as in ns-2 (RTX_THRESH 1); off: the first one does.
    pub first_dupack_passes: bool,
    /// Duplicate ACKs suppressed beyond the number expected at the first count after a new ACK; ns-2 counts the lost segment too, hence 1.
    #[schemars(extend("unit" = "duplicate ACKs"))]
    pub expected_slack: u32,
    /// Suppress the duplicate ACKs still expected even after the sender's own retransmission or the last local one, as ns-2 does; off: they go on, as in the paper.
    pub ns2_suppress_expected: bool,
    /// Sender to run over; empty: the profile's.
    pub sender: String,
}

impl Default for Snoop {
    fn default() -> Self {
        Snoop {
            cache_packets: 100,
            cache_bytes: 64 << 20,
            max_flows: 4096,
            tick: Duration::millis(100),
            initial_srtt: Duration::millis(100),
            initial_rttvar: Duration::millis(250),
            gain: Share(0.125),
            ns2_rtt_weights: false,
            backoff: true,
            max_retransmissions: 10,
            first_dupack_passes: true,
            expected_slack: 1,
            ns2_suppress_expected: false,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for Snoop {
    const ENTRY: Entry = Entry {
        name: "snoop",
        family: Family::LinkLayer,
        summary: "caches segments at the base station, repairs radio losses locally and hides the duplicate ACKs",
        paper: "Balakrishnan et al. 1995",
        changes: Changes { base_station: true, ..Changes::NOTHING },
        assumptions: &[
            "TCP headers are readable at the base station",
            "data and ACKs pass the same base station",
            "the last hop keeps the order and does not repair losses itself",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.cache_packets == 0 || self.max_flows == 0 || self.tick == Duration::ZERO {
            return Err("cache_packets and max_flows must be at least 1, and tick above 0 s".into());
        }
        if self.gain.0 <= 0.0 || self.gain.0 > 1.0 {
            return Err(format!("gain must be above 0 and at most 1, found {}", self.gain.0));
        }
        Ok(())
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::Snoop(SnoopAgent::new(self.clone())))
    }

    fn over(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// A segment in the cache.
#[derive(Clone, Copy, Debug)]
struct Cached {
    segment: Segment,
    /// When it went to the radio, if only once: then its ACK gives a round-trip time (Karn).
    sent: Option<Time>,
    /// Local retransmissions since it last came from the sender.
    local: u32,
    /// The sender has retransmitted it: it counts on the duplicate ACKs.
    sender_retx: bool,
}

/// What is held for a flow.
#[derive(Clone, Debug, Default)]
struct FlowState {
    flow: FlowId,
    /// Unacknowledged segments by first byte.
    cache: VecDeque<Cached>,
    /// Offset after the highest byte seen from the sender.
    highest: u64,
    /// Largest ACK seen from the mobile, once it is known.
    last_ack: Option<u64>,
    /// Window of the last ACK.
    window: Option<u32>,
    /// Duplicate ACKs still to come for segments sent after the head; negative: more came than were sent.
    expected: i64,
    /// The head's duplicates were counted since the last new ACK, so the slack is used up.
    counted: bool,
    /// One unexpected duplicate ACK has been let through.
    passed: bool,
    /// Smoothed round-trip time and deviation, ns.
    rtt: Option<(u64, u64)>,
    /// When the local timer is due.
    due: Option<Time>,
    /// Doublings of the local timer.
    doublings: u32,
}

/// Denominator of the gain as an integer.
const GAIN_ONE: u64 = 1 << 16;
/// What an exported flow has in place of a value that is not known.
const UNKNOWN: u64 = u64::MAX;

/// The agent at the base station.
pub struct SnoopAgent {
    config: Snoop,
    flows: FlowTable<FlowState>,
    /// Segments of flows that left without a context to release them in; released at the next call.
    leaving: Vec<Segment>,
    /// Wire bytes of all segments whose payload is held.
    bytes: u64,
    cached: u64,
    local: u64,
    timer: u64,
    suppressed: u64,
    queue_full: u64,
    cache_full: u64,
}

/// Mean of two times, `b` weighing `g` of `GAIN_ONE`.
fn smooth(a: u64, b: u64, g: u64) -> u64 {
    ((u128::from(a) * u128::from(GAIN_ONE - g) + u128::from(b) * u128::from(g)) / u128::from(GAIN_ONE)) as u64
}

impl FlowState {
    fn arm(&mut self, config: &Snoop, ctx: &mut Context<'_>) {
        let (srtt, var) = self.rtt.unwrap_or((config.initial_srtt.0, config.initial_rttvar.0));
        let base = (Duration(srtt) + Duration(var) * 4).max(config.tick);
        let at = ctx.now + base * (1 << self.doublings);
        self.due = Some(at);
        ctx.wake(self.flow, at);
    }

    /// The last hop's round trip took `sample`.
    fn measure(&mut self, config: &Snoop, sample: u64) {
        let g = ((config.gain.0 * GAIN_ONE as f64) as u64).min(GAIN_ONE);
        let (srtt, var) = self.rtt.unwrap_or((config.initial_srtt.0, config.initial_rttvar.0));
        let srtt = if config.ns2_rtt_weights { smooth(sample, srtt, g) } else { smooth(srtt, sample, g) };
        let deviation = sample.abs_diff(srtt);
        self.rtt = Some((srtt, if var == 0 { deviation } else { smooth(var, deviation, g) }));
    }

    /// Everything below `ack` has arrived: gives it back, and sets the timer for what is left.
    fn acknowledge(&mut self, config: &Snoop, ctx: &mut Context<'_>, ack: u64, bytes: &mut u64) {
        let mut sent = None;
        while let Some(c) = self.cache.front().copied().filter(|c| c.segment.end() <= ack) {
            self.cache.pop_front();
            *bytes -= u64::from(c.segment.size);
            ctx.release(c.segment.payload);
            sent = c.sent.or(sent);
        }
        if let Some(sent) = sent.filter(|&s| s < ctx.now) {
            self.measure(config, ctx.now.since(sent).0);
        }
        self.last_ack = Some(ack);
        (self.expected, self.counted, self.passed, self.doublings) = (0, false, false, 0);
        if !self.cache.is_empty() {
            self.arm(config, ctx);
        } else if self.due.take().is_some() {
            ctx.cancel(self.flow);
        }
    }

    /// Sends the head of the cache again.
    fn repair(&mut self, config: &Snoop, ctx: &mut Context<'_>) {
        let Some(head) = self.cache.front_mut() else { return };
        (head.local, head.sent) = (head.local + 1, None);
        ctx.inject(Direction::Downlink, head.segment);
        self.arm(config, ctx);
    }

    /// The rules for a duplicate ACK: `None` lets it go on; otherwise it is suppressed, with a local repair if true.
    fn duplicate(&mut self, config: &Snoop, ctx: &mut Context<'_>, ack: u64) -> Option<bool> {
        let head = self.cache.front().filter(|h| h.segment.seq <= ack)?;
        let left_to_sender = head.sender_retx || head.local >= config.max_retransmissions;
        if left_to_sender && !(config.ns2_suppress_expected && self.expected > 0) {
            return None;
        }
        // A repair that is lost is the timer's affair, unless more duplicates came than segments were sent.
        let mut repairs = 1;
        match self.expected {
            1.. => {
                self.expected -= 1;
                return Some(false);
            }
            0 => {
                if config.first_dupack_passes && !self.passed {
                    self.passed = true;
                    return None;
                }
                // Of the duplicates for the segments after the head, this one has come and, it may be, one that passed.
                let came = 1 + i64::from(config.first_dupack_passes);
                let slack = if self.counted { 0 } else { i64::from(config.expected_slack) };
                self.expected = self.cache.len() as i64 - 1 + slack - came;
                (self.counted, self.passed) = (true, false);
            }
            -1 => repairs = 2,
            _ => return None,
        }
        (head.local < repairs).then(|| {
            self.repair(config, ctx);
            true
        })
    }
}

impl SnoopAgent {
    /// An agent with these settings.
    pub fn new(config: Snoop) -> Self {
        let flows = FlowTable::new(config.max_flows as usize);
        SnoopAgent { config, flows, leaving: Vec::new(), bytes: 0, cached: 0, local: 0, timer: 0, suppressed: 0, queue_full: 0, cache_full: 0 }
    }

    /// A segment with payload from the fixed host: cached if it is of use. It always goes on.
    fn data(&mut self, ctx: &mut Context<'_>, segment: &Segment) {
        let (state, gone) = self.flows.entry(segment.flow);
        state.flow = segment.flow;
        if let Some(mut gone) = gone {
            gone.acknowledge(&self.config, ctx, u64::MAX, &mut self.bytes);
        }
        state.last_ack = state.last_ack.or((segment.seq == 0).then_some(0));
        if state.last_ack.is_some_and(|l| segment.end() <= l) {
            return;
        }
        let below = segment.seq < state.highest;
        state.highest = state.highest.max(segment.end());
        // What this node's own queue refuses is lost to congestion, and that is the sender's affair.
        let refused = ctx.surroundings.queue(Direction::Downlink).full;
        self.queue_full += u64::from(refused);
        let size = u64::from(segment.size);
        let full = state.cache.len() >= self.config.cache_packets as usize || self.bytes + size > self.config.cache_bytes;
        let place = if below { state.cache.partition_point(|c| c.segment.seq < segment.seq) } else { state.cache.len() };
        match state.cache.get_mut(place).filter(|c| c.segment.seq == segment.seq) {
            Some(cached) => {
                let others = self.bytes - u64::from(cached.segment.size);
                // The newer copy has the newer timestamp; a sender that compares them (Eifel) would be misled by the older.
                if !refused && segment.end() >= cached.segment.end() && others + size <= self.config.cache_bytes {
                    ctx.retain(segment.payload);
                    ctx.release(cached.segment.payload);
                    cached.segment = *segment;
                    self.bytes = others + size;
                }
                *cached = Cached { segment: cached.segment, sent: None, local: 0, sender_retx: true };
            }
            None if refused || full => {
                self.cache_full += u64::from(!refused);
                return;
            }
            None => {
                ctx.retain(segment.payload);
                self.bytes += size;
                self.cached += 1;
                state.cache.insert(place, Cached { segment: *segment, sent: Some(ctx.now), local: 0, sender_retx: below });
                state.counted &= !below;
            }
        }
        state.doublings *= u32::from(!below);
        if below || state.due.is_none() {
            state.arm(&self.config, ctx);
        }
    }

    /// An ACK from the mobile. Segments with payload are never dropped.
    fn ack(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        let Some(state) = self.flows.get_mut(segment.flow) else { return Verdict::Forward };
        if state.last_ack.is_some_and(|l| segment.ack < l) {
            return Verdict::Forward;
        }
        let same_window = state.window.is_none_or(|w| w == segment.window);
        state.window = Some(segment.window);
        if state.last_ack != Some(segment.ack) {
            state.acknowledge(&self.config, ctx, segment.ack, &mut self.bytes);
            return Verdict::Forward;
        }
        // RFC 5681's duplicate. With a closed window it answers a probe, and the sender waits for that answer.
        let duplicate = segment.len == 0 && !segment.flags.has(Flags::FIN) && same_window && segment.window > 0;
        let answer = if duplicate { state.duplicate(&self.config, ctx, segment.ack) } else { None };
        let Some(repaired) = answer else { return Verdict::Forward };
        self.suppressed += 1;
        self.local += u64::from(repaired);
        Verdict::Drop(if repaired { "duplicate ACK, repaired locally" } else { "expected duplicate ACK" })
    }

    /// Releases what left when there was no context.
    fn release_leaving(&mut self, ctx: &mut Context<'_>) {
        for segment in self.leaving.drain(..) {
            self.bytes -= u64::from(segment.size);
            ctx.release(segment.payload);
        }
    }
}

impl Agent for SnoopAgent {
    fn on_segment(&mut self, ctx: &mut Context<'_>, direction: Direction, segment: &Segment) -> Verdict {
        self.release_leaving(ctx);
        let flags = segment.flags;
        match direction {
            _ if flags.has(Flags::DATAGRAM) => {}
            _ if flags.has(Flags::SYN) || flags.has(Flags::RST) => {
                if let Some(mut state) = self.flows.remove(segment.flow) {
                    state.acknowledge(&self.config, ctx, u64::MAX, &mut self.bytes);
                }
            }
            Direction::Downlink if segment.len > 0 => self.data(ctx, segment),
            Direction::Uplink if flags.has(Flags::ACK) => return self.ack(ctx, segment),
            _ => {}
        }
        Verdict::Forward
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        self.release_leaving(ctx);
        let Some(state) = self.flows.get_mut(id) else { return };
        // Only the segment that the mobile waits for: without an ACK nothing is known of those behind it.
        let Some(head) = state.due.take_if(|due| *due <= ctx.now).and(state.cache.front()) else { return };
        if state.last_ack.is_none_or(|l| head.segment.seq > l) || head.local >= self.config.max_retransmissions {
            return;
        }
        state.doublings = (state.doublings + u32::from(self.config.backoff)).min(6);
        state.counted = true;
        state.repair(&self.config, ctx);
        self.local += 1;
        self.timer += 1;
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("cached", self.cached),
            ("local_retransmissions", self.local),
            ("timer_retransmissions", self.timer),
            ("dupacks_suppressed", self.suppressed),
            ("cache_refused_queue_full", self.queue_full),
            ("cache_full", self.cache_full),
            ("flows", self.flows.len() as u64),
            ("flows_evicted", self.flows.evicted()),
        ]
    }

    fn state_bytes(&self) -> usize {
        let flows: usize = self.flows.iter().map(|(_, s)| size_of::<FlowState>() + s.cache.len() * size_of::<Cached>()).sum();
        flows + self.leaving.len() * size_of::<Segment>() + self.bytes as usize
    }

    /// Sequence state and round-trip estimate. The cached segments stay behind (their payloads belong to this host) and are
    /// given back at the next call: duplicate ACKs for them pass the new base station as those for segments it never saw.
    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let s = self.flows.remove(flow)?;
        self.leaving.extend(s.cache.iter().map(|c| c.segment));
        let (srtt, var) = s.rtt.unzip();
        let words = [Some(s.highest), s.last_ack, s.window.map(u64::from), srtt, var];
        Some(words.iter().flat_map(|w| w.unwrap_or(UNKNOWN).to_le_bytes()).collect())
    }

    fn import(&mut self, flow: FlowId, state: &[u8]) -> bool {
        let mut words = [None; 5];
        if state.len() != 8 * words.len() {
            return false;
        }
        for (word, bytes) in words.iter_mut().zip(state.chunks_exact(8)) {
            *word = bytes.try_into().ok().map(u64::from_le_bytes).filter(|&w| w != UNKNOWN);
        }
        let [Some(highest), last_ack, window, srtt, var] = words else { return false };
        let Ok(window) = window.map(u32::try_from).transpose() else { return false };
        let (s, gone) = self.flows.entry(flow);
        self.leaving.extend(s.cache.iter().chain(gone.iter().flat_map(|g| &g.cache)).map(|c| c.segment));
        *s = FlowState { flow, highest, last_ack, window, rtt: srtt.zip(var), ..FlowState::default() };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Action, QueueState, Surroundings};
    use crate::segment::Payload;
    use crate::units::Rate;
    use Direction::{Downlink, Uplink};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct Queue(bool);
    impl Surroundings for Queue {
        fn queue(&self, _: Direction) -> QueueState {
            QueueState { full: self.0, ..QueueState::default() }
        }
        fn rate(&self, _: Direction) -> Option<Rate> {
            None
        }
    }

    /// Feeds the agent and keeps the books of a host: payloads held, timers. What the agent does is logged.
    struct Bench {
        agent: SnoopAgent,
        queue: Queue,
        now: Time,
        flow: u32,
        payloads: u32,
        held: BTreeMap<u32, u64>,
        timers: BTreeMap<u32, Time>,
        log: String,
    }

    impl Bench {
        fn new(settings: &str) -> Bench {
            let config: Snoop = toml::from_str(settings).unwrap();
            config.check().unwrap();
            let (agent, held, timers) = (SnoopAgent::new(config), BTreeMap::new(), BTreeMap::new());
            Bench { agent, queue: Queue(false), now: Time::ZERO, flow: 1, payloads: 0, held, timers, log: String::new() }
        }

        fn call<R>(&mut self, f: impl FnOnce(&mut SnoopAgent, &mut Context<'_>) -> R) -> R {
            let mut actions = Vec::new();
            let answer = f(
                &mut self.agent,
                &mut Context { now: self.now, options: &crate::segment::Options::NONE, surroundings: &self.queue, actions: &mut actions },
            );
            for action in actions {
                match action {
                    Action::Retain(p) => assert_eq!(self.held.insert(p.0, 0), None),
                    Action::Release(p) => assert!(self.held.remove(&p.0).is_some(), "released what was not held"),
                    Action::Wake(id, at) => drop(self.timers.insert(id, at)),
                    Action::Cancel(id) => drop(self.timers.remove(&id)),
                    Action::Notify(..) => panic!("Snoop sends no notices"),
                    Action::Inject(direction, s) => {
                        assert!(direction == Downlink && self.held.contains_key(&s.payload.0), "injected what is not held");
                        self.log += &format!("+{}", s.seq / 1000);
                    }
                }
            }
            // The cache is what is held, in order and within its limits, and its head is not acknowledged.
            let (a, mut held) = (&self.agent, BTreeMap::new());
            for (_, s) in a.flows.iter() {
                held.extend(s.cache.iter().map(|c| (c.segment.payload.0, u64::from(c.segment.size))));
                assert!(s.cache.iter().is_sorted_by_key(|c| c.segment.seq) && s.cache.len() <= a.config.cache_packets as usize);
                assert!(s.cache.front().is_none_or(|c| s.last_ack.is_none_or(|l| c.segment.end() > l)));
            }
            assert!(held.keys().eq(self.held.keys()) && a.bytes == held.values().sum::<u64>() && a.bytes <= a.config.cache_bytes);
            assert_eq!(a.state_bytes(), a.flows.len() * size_of::<FlowState>() + held.len() * size_of::<Cached>() + a.bytes as usize);
            answer
        }

        /// A segment with a payload handle of its own; `seq` and `ack` in segments of 1000 bytes.
        fn feed(&mut self, direction: Direction, seq: u64, len: u32, ack: u64, window: u32, flags: Flags) -> Verdict {
            self.payloads += 1;
            let (payload, flags, size, flow) = (Payload(self.payloads), flags.with(Flags::ACK), len + 40, self.flow);
            let (seq, ack, forward) = (seq * 1000, ack * 1000, direction == Downlink);
            let s = Segment { seq, ack, id: 0, flow, len, size, window, ts_value: 0, ts_echo: 0, payload, to: 0, flags, attempt: 1, forward };
            self.call(|agent, ctx| agent.on_segment(ctx, direction, &s))
        }

        /// Runs a script of words and gives the log: f forwarded, s suppressed, +k segment k injected.
        ///
        /// `d3-9` segments 3 to 9 from the fixed host (`l3` of double length), `a3*6` six ACKs that ask for 3, `w3` with
        /// another window, `p3` with payload, `z3` with a closed window, `t` the next timer fires (logs its ms), `m50` 50 ms
        /// pass, `q` the queue is full or no longer, `r` reset, `v2` on with flow 2, `x` handoff, `=` logs the payloads held.
        fn run(&mut self, script: &str) -> String {
            for word in script.split_whitespace() {
                let (kind, rest) = word.split_at(1);
                let (first, second) = rest.split_once(['-', '*']).unwrap_or((rest, ""));
                let k: u64 = first.parse().unwrap_or(0);
                let n: u64 = second.parse().unwrap_or(if kind == "d" { k } else { 1 });
                let (len, window) = (100 * u32::from(kind == "p"), 9 - u32::from(kind == "w") - 9 * u32::from(kind == "z"));
                match kind {
                    "d" => (k..=n).for_each(|k| assert_eq!(self.feed(Downlink, k, 1000, 0, 9, Flags::NONE), Verdict::Forward)),
                    "l" => drop(self.feed(Downlink, k, 2000, 0, 9, Flags::NONE)),
                    "t" => {
                        let Some((&id, &at)) = self.timers.iter().min_by_key(|t| t.1) else { continue };
                        self.timers.remove(&id);
                        self.now = self.now.max(at);
                        self.call(|agent, ctx| agent.on_timer(ctx, id));
                        self.log += &format!("@{}", self.now.0 / 1_000_000);
                    }
                    "m" => self.now += Duration::millis(k),
                    "q" => self.queue.0 = !self.queue.0,
                    "r" => drop(self.feed(Uplink, 0, 0, 0, 9, Flags::RST)),
                    "v" => self.flow = k as u32,
                    "x" => {
                        let moved = self.agent.export(self.flow);
                        assert!(moved.is_none_or(|m| self.agent.import(self.flow, &m) && !self.agent.import(self.flow, &m[1..])));
                        self.call(|agent, ctx| agent.release_leaving(ctx));
                    }
                    "=" => self.log += &format!("={}", self.held.len()),
                    _ => (0..n).for_each(|_| {
                        let went_on = self.feed(Uplink, 0, len, k, window, Flags::NONE) == Verdict::Forward;
                        assert!(went_on || kind == "a" || kind == "w", "only pure duplicates are dropped");
                        self.log.push(if went_on { 'f' } else { 's' });
                    }),
                }
            }
            std::mem::take(&mut self.log)
        }
    }

    /// Each rule as settings, script and log.
    #[test]
    fn the_rules() {
        for (rule, settings, script, log) in [
            ("a loss is repaired and hidden", "", "d0-9 a1 a3 a3*6 = a10 =", "fff+3sssss=7f=0"),
            ("the first duplicate may start it", "first_dupack_passes = false", "d0-3 a0*3", "+0sss"),
            ("as many are hidden as are expected", "expected_slack = 0", "d0-6 a0*8", "f+0sssssff"),
            ("ns-2 expects one more", "", "d0-6 a0*9", "f+0ssssssff"),
            ("more than were sent: one more repair", "", "d0 a0*4", "f+0s+0sf"),
            ("old ACKs pass", "", "d0-9 a5 a3*5", "ffffff"),
            ("the sender's retransmission is its own affair", "", "d0-9 a3*3 d3 a3*5 a10 =", "ff+3sffffff=0"),
            ("but not in ns-2 for those expected", "ns2_suppress_expected = true", "d0-9 a3*4 d3 a3*3", "ff+3sssss"),
            ("lost upstream: not here, then marked", "", "d0-2 d4-9 a3*4 d3 a3*5", "fffffffff"),
            ("lost in the queue of this node", "", "d0-2 q d3 q d4-9 a3*4 = d3 = a3*4", "ffff=6=7ffff"),
            ("a marked one lost on the radio: the timer", "", "d0-9 a3 m50 d3 t", "f+3@1150"),
            ("a full cache", "cache_packets = 4", "d0-9 = a4*4 d10 =", "=4ffff=1"),
            ("a full cache in bytes", "cache_bytes = 4000", "d0-9 =", "=3"),
            ("the timer repairs, and backs off", "", "d0-2 t t a1 t", "+0@1100+0@3300f+1@4400"),
            ("the timer is for what the mobile waits for", "", "d1-3 t v2 d0 d2-3 a1 t", "@1100f@2200"),
            (
                "it gives up; as in ns-2, no back-off",
                "max_retransmissions = 2\nbackoff = false",
                "d0-9 t t t a0*4 d0 t",
                "+0@1100+0@2200@3300ffff+0@4400",
            ),
            ("the floor", "initial_srtt = \"1 ms\"\ninitial_rttvar = \"0 s\"", "d0-2 t", "+0@100"),
            // 0.1 s and a sample of 0.2 s: 0.1125 and 0.25 + (0.0875 - 0.25) / 8, or 0.1875 and 0.25 + (0.0125 - 0.25) / 8.
            ("round-trip time", "", "d0-1 m200 a1 t", "f+1@1231"),
            ("its weights in ns-2", "ns2_rtt_weights = true", "d0-1 m200 a1 t", "f+1@1268"),
            ("Karn", "backoff = false", "d0-1 t m500 a1 t", "+0@1100f+1@2700"),
            ("no duplicates: window, payload, answer to a probe", "", "d0-9 a3 w3 a3 p3*3 z3*4", "ffffffffff"),
            ("payload counts as a new ACK", "", "d0-9 p4 =", "f=6"),
            ("reset", "", "d0-9 r = a0*5", "=0fffff"),
            ("an evicted flow gives all back", "max_flows = 1", "d0-9 v2 d0 = v1 a0*3 t t", "=1fff+0@1100+0@3300"),
            ("a moved flow knows where it was", "", "d0-9 a3 x = a3*3 d10-12 a10*3", "f=0fffff+10s"),
        ] {
            assert_eq!(Bench::new(settings).run(script), log, "{rule}");
        }
    }

    proptest! {
        /// Whatever comes, in whatever order: what is retained is in the cache or has been released (see `call`).
        #[test]
        fn payloads_balance(words in prop::collection::vec(("[ddddlaaaaawpztmqrvx]", 0..12u64, 0..12u64), 0..300), passes: bool, ns2: bool) {
            let mut b = Bench::new(&format!(
                "max_flows = 3\ncache_packets = 6\ncache_bytes = 9000\nmax_retransmissions = 3\nfirst_dupack_passes = {passes}\nns2_suppress_expected = {ns2}"
            ));
            words.iter().for_each(|(kind, k, n)| drop(b.run(&format!("{kind}{k}{}{n}", if kind == "d" { "-" } else { "*" }))));
            (0..12).for_each(|flow| drop(b.run(&format!("v{flow} r"))));
            prop_assert!(b.held.is_empty());
        }
    }
}
