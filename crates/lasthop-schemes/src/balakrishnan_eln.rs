//! ELN of Balakrishnan and Katz: the base station records which segments have passed it, and marks
//! the ACKs that indicate a loss on the radio link.
//!
//! Source: H. Balakrishnan, R. H. Katz, "Explicit loss notification and wireless web performance",
//! GLOBECOM Internet Mini-Conference 1998, and the agent of ns-2 (`snoop.cc`, `tcp_eln`), for
//! uplink data; yun2009 (section 2.1) for downlink data.
//!
//! Deployed at: the base station and the sender.
//!
//! Wire: one bit on ACKs.
//!
//! Idea: the base station stores sequence numbers, no data. *Downlink*: a duplicate ACK for a
//! segment that has left its queue for the radio link indicates a radio loss. (The segment is
//! recorded when it leaves the queue, not when it arrives, because a drop in the queue is
//! congestion.) *Uplink*: an ACK, duplicate or new, for a segment that has not arrived from the
//! radio link although later ones have, also indicates a radio loss. The sender retransmits the
//! marked segment once (ns-2's `eln_last_rxmit_`) without reducing its window, and does not count
//! the ACK as a duplicate.
//!
//! Assumes: cleartext TCP headers, both directions through one base station, a radio link that
//! preserves the order.
//!
//! Bad at: delay, because a loss is detected only by the next segment and its ACK; lost
//! retransmissions (found by the timer); handover, which must transfer state; duplicate ACKs for a
//! segment that arrived twice, which point at a segment still in flight (D-SACK distinguishes
//! them).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyAgent, AnyWindow, Entry, Family, Footprint, RecoverySetting, RecoverySlot, SchemeConfig,
};
use crate::reno::RenoWindow;
use lasthop_core::agent::{Agent, Context, FlowTable, LinkEvent, Rewrite, Subscriptions, Verdict};
use lasthop_core::role::Role;
use lasthop_core::segment::{Block, Direction, Flags, FlowId, Segment};
use lasthop_tcp::recovery::{AfterHint, HintEntry, Recovery, RecoveryKind};

/// Each ELN is answered, whatever the run; duplicate ACKs mean what they always mean (`+eln`).
pub static HINTS: HintEntry =
    HintEntry { name: "eln", run: u32::MAX, holds: 3, after: AfterHint::Congestion };

/// Settings of Balakrishnan's ELN.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BalakrishnanEln {
    /// Sequence number ranges stored per flow and direction, 1 to 64; ns-2 stores 8. Beyond that
    /// the highest range is removed, and a loss there is taken for congestion.
    #[schemars(extend("unit" = "ranges"))]
    pub ranges: u32,
    /// Maximum number of flows with state; the least recently active one is evicted.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Loss recovery of the sender; it must accept ELN.
    pub recovery: RecoverySetting,
}

impl Default for BalakrishnanEln {
    fn default() -> Self {
        let recovery =
            Recovery { hints: Some(HINTS.rules()), ..Recovery::of(RecoveryKind::Newreno) };
        BalakrishnanEln { ranges: 8, max_flows: 4096, recovery: recovery.into() }
    }
}

impl SchemeConfig for BalakrishnanEln {
    const ENTRY: Entry = Entry {
        name: "balakrishnan-eln",
        family: Family::LinkLayer,
        summary: "the base station marks the ACKs for radio losses; the sender retransmits without \
                  reducing its window",
        paper: "Balakrishnan and Katz 1998",
        changes: Footprint { sender: true, base_station: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "TCP headers are readable at the base station",
            "data and ACKs pass the same base station",
            "the last hop keeps the order",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(1..=64).contains(&self.ranges) || self.max_flows == 0 {
            return Err(format!(
                "ranges must be 1 to 64 and max_flows at least 1, found {} and {}",
                self.ranges, self.max_flows
            ));
        }
        if self.recovery.hints.is_none() {
            return Err(format!(
                "recovery must accept ELN, such as newreno+eln or sack+eln; found \"{}\"",
                self.recovery
            ));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(RenoWindow))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(self.recovery.0))
    }

    /// Without them it would take drops of the queue for losses of the radio link.
    const NEEDS_LINK_REPORTS: bool = true;

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(BalakrishnanElnAgent::new(self)))
    }
}

/// The unacknowledged ranges that have passed the base station in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
struct PassedRanges {
    /// Sorted ranges that neither overlap nor touch.
    ranges: Vec<Block>,
    /// Highest acknowledgment number and its window; `None` before the first ACK.
    acked: Option<(u64, u32)>,
}

impl PassedRanges {
    /// Adds a segment; stores at most `max` ranges.
    fn add(&mut self, segment: &Segment, max: usize) {
        let (mut start, mut end) = (segment.seq.max(self.acked.map_or(0, |a| a.0)), segment.end());
        if start >= end {
            return;
        }
        let first = self.ranges.partition_point(|r| r.end < start);
        let after = self.ranges.partition_point(|r| r.start <= end);
        if let Some(touched) = self.ranges.get(first..after).filter(|t| !t.is_empty()) {
            start = start.min(touched[0].start);
            end = end.max(touched[touched.len() - 1].end);
        }
        self.ranges.splice(first..after.max(first), [Block { start, end }]);
        self.ranges.truncate(max);
    }

    fn has(&self, seq: u64) -> bool {
        self.ranges.iter().any(|r| r.start <= seq && seq < r.end)
    }

    fn has_beyond(&self, seq: u64) -> bool {
        self.ranges.last().is_some_and(|r| r.end > seq)
    }

    /// Processes an ACK; returns whether it is a duplicate. `None` for old ACKs and for repeated
    /// ACKs that are no duplicates.
    fn process_ack(&mut self, segment: &Segment) -> Option<bool> {
        let (before, window) = self.acked.unwrap_or_default();
        if self.acked.is_some() && segment.ack < before {
            return None;
        }
        let same = self.acked.is_some() && segment.ack == before;
        self.acked = Some((segment.ack, segment.window));
        self.ranges.retain(|r| r.end > segment.ack);
        if let Some(first) = self.ranges.first_mut() {
            first.start = first.start.max(segment.ack);
        }
        // A D-SACK reports a segment that arrived twice, not a loss.
        let duplicate =
            segment.is_duplicate_ack(segment.window == window) && !segment.flags.has(Flags::DSACK);
        if same { duplicate.then_some(true) } else { Some(false) }
    }
}

/// State of a flow.
#[derive(Clone, Debug, Default)]
struct FlowState {
    down: PassedRanges,
    up: PassedRanges,
}

/// The agent at the base station.
pub struct BalakrishnanElnAgent {
    ranges: usize,
    flows: FlowTable<FlowState>,
    marked: u64,
    duplicates: u64,
}

impl BalakrishnanElnAgent {
    /// An agent with these settings.
    pub fn new(config: &BalakrishnanEln) -> Self {
        let flows = FlowTable::new(config.max_flows as usize);
        BalakrishnanElnAgent { ranges: config.ranges as usize, flows, marked: 0, duplicates: 0 }
    }

    /// Processes an ACK for data in the direction `data`; marks it if the next expected segment was
    /// lost on the radio link.
    fn ack(&mut self, data: Direction, segment: &Segment) -> Verdict {
        let Some(state) = self.flows.get_mut(segment.flow) else { return Verdict::Forward };
        let passed = if data == Direction::Downlink { &mut state.down } else { &mut state.up };
        let Some(duplicate) = passed.process_ack(segment) else { return Verdict::Forward };
        self.duplicates += u64::from(duplicate);
        let lost = match data {
            Direction::Downlink => duplicate && passed.has(segment.ack),
            Direction::Uplink => !passed.has(segment.ack) && passed.has_beyond(segment.ack),
        };
        if !lost {
            return Verdict::Forward;
        }
        self.marked += 1;
        Verdict::Rewrite(Rewrite { eln: true, ..Rewrite::default() })
    }
}

impl Agent for BalakrishnanElnAgent {
    fn on_segment(
        &mut self,
        _: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        let flags = segment.flags;
        if flags.has(Flags::SYN) || flags.has(Flags::RST) {
            self.flows.remove(segment.flow);
            return Verdict::Forward;
        }
        if segment.len > 0 && direction == Direction::Uplink {
            self.flows.entry(segment.flow).0.up.add(segment, self.ranges);
        }
        if flags.has(Flags::ACK) {
            self.ack(direction.reverse(), segment)
        } else {
            Verdict::Forward
        }
    }

    fn sends_acks(&self) -> bool {
        false
    }

    fn subscribes(&self) -> Subscriptions {
        Subscriptions::DEQUEUED
    }

    fn on_link_event(
        &mut self,
        _: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        if event == LinkEvent::Dequeued && direction == Direction::Downlink && segment.len > 0 {
            self.flows.entry(segment.flow).0.down.add(segment, self.ranges);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("acks_marked", self.marked),
            ("duplicates_seen", self.duplicates),
            ("flows", self.flows.len() as u64),
            ("flows_evicted", self.flows.evicted()),
        ]
    }

    fn state_bytes(&self) -> usize {
        let ranges = |s: &FlowState| (s.down.ranges.len() + s.up.ranges.len()) * size_of::<Block>();
        self.flows.iter().map(|(_, s)| size_of::<FlowState>() + ranges(s)).sum()
    }

    /// Exports for each direction: highest acknowledgment number with its window, and the ranges.
    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let state = self.flows.remove(flow)?;
        let mut words = Vec::new();
        for passed in [&state.down, &state.up] {
            let (ack, window) = passed.acked.map_or((UNKNOWN, 0), |(a, w)| (a, u64::from(w)));
            words.extend([ack, window, passed.ranges.len() as u64]);
            words.extend(passed.ranges.iter().flat_map(|r| [r.start, r.end]));
        }
        Some(words.into_iter().flat_map(u64::to_le_bytes).collect())
    }

    fn import(&mut self, flow: FlowId, state: &[u8]) -> bool {
        let (chunks, rest) = state.as_chunks::<8>();
        let mut words = chunks.iter().map(|c| u64::from_le_bytes(*c));
        let Some([down, up]) =
            read(&mut words, self.ranges).zip(read(&mut words, self.ranges)).map(|(d, u)| [d, u])
        else {
            return false;
        };
        let complete = rest.is_empty() && words.next().is_none();
        if complete {
            *self.flows.entry(flow).0 = FlowState { down, up };
        }
        complete
    }
}

/// Placeholder for an unknown ACK in an exported flow.
const UNKNOWN: u64 = u64::MAX;

/// Decodes one direction of an exported flow.
fn read(words: &mut impl Iterator<Item = u64>, max: usize) -> Option<PassedRanges> {
    let (ack, window, count) = (words.next()?, u32::try_from(words.next()?).ok()?, words.next()?);
    let mut ranges = Vec::new();
    for _ in 0..count.min(65) {
        ranges.push(Block { start: words.next()?, end: words.next()? });
    }
    let valid = count <= 64
        && ranges.iter().all(|r| r.start < r.end)
        && ranges.windows(2).all(|w| w[0].end < w[1].start);
    ranges.truncate(max);
    valid.then_some(PassedRanges { ranges, acked: (ack != UNKNOWN).then_some((ack, window)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Downlink, Uplink};
    use lasthop_core::agent::{BlankView, Verdict::Forward};
    use lasthop_core::segment::Options;
    use proptest::prelude::*;

    struct Bench {
        agent: BalakrishnanElnAgent,
        flow: FlowId,
    }

    impl Bench {
        fn new(ranges: u32) -> Bench {
            let config = BalakrishnanEln { ranges, max_flows: 3, ..BalakrishnanEln::default() };
            config.check().unwrap();
            Bench { agent: BalakrishnanElnAgent::new(&config), flow: 1 }
        }

        fn call<T>(
            &mut self,
            f: impl FnOnce(&mut BalakrishnanElnAgent, &mut Context<'_>) -> T,
        ) -> T {
            let mut actions = Vec::new();
            let answer = f(
                &mut self.agent,
                &mut Context {
                    now: lasthop_core::units::Time::ZERO,
                    options: &Options::NONE,
                    node_view: &BlankView,
                    actions: &mut actions,
                },
            );
            assert!(actions.is_empty());
            answer
        }

        fn segment(&self, seq: u64, len: u32, ack: u64) -> Segment {
            let (flags, flow) = (Flags::ACK, self.flow);
            Segment {
                seq: 1000 * seq,
                ack: 1000 * ack,
                len,
                size: len + 40,
                window: 9,
                flags,
                flow,
                ..Segment::default()
            }
        }

        /// Runs a script: `d3-9` downlink segments 3 to 9 arrive and leave the queue, `q4` segment
        /// 4 arrives and does not leave it, `u3-9` uplink segments 3 to 9, `a3*2` two ACKs for 3
        /// from the station, `b3*2` two ACKs to it, `w3` an ACK from it with another window, `t3`
        /// one with D-SACK, `s3` one with SACK blocks and another window, `r` a reset, `x` a
        /// handover, `v2` continues with flow 2. The log has one letter per ACK: f forwarded, e
        /// marked.
        fn run(&mut self, script: &str) -> String {
            let mut log = String::new();
            for word in script.split_whitespace() {
                let (kind, rest) = word.split_at(1);
                let (first, second) = rest.split_once(['-', '*']).unwrap_or((rest, ""));
                let k: u64 = first.parse().unwrap_or(0);
                let n: u64 = second.parse().unwrap_or(if "dqu".contains(kind) { k } else { 1 });
                match kind {
                    "d" | "q" | "u" => (k..=n).for_each(|k| {
                        let (data, direction) =
                            (self.segment(k, 1000, 0), if kind == "u" { Uplink } else { Downlink });
                        // Data segments also acknowledge the other direction.
                        let answer =
                            self.call(|agent, ctx| agent.on_segment(ctx, direction, &data));
                        assert!(matches!(answer, Forward | Verdict::Rewrite(_)));
                        if kind == "d" {
                            self.call(|agent, ctx| {
                                agent.on_link_event(ctx, Downlink, LinkEvent::Dequeued, &data)
                            });
                        }
                    }),
                    "r" => {
                        let reset = Segment { flags: Flags::RST, ..self.segment(0, 0, 0) };
                        self.call(|agent, ctx| agent.on_segment(ctx, Uplink, &reset));
                    }
                    "v" => self.flow = k as u32,
                    "x" => {
                        if let Some(exported) = self.agent.export(self.flow) {
                            assert!(
                                !self.agent.import(self.flow, &exported[1..])
                                    && self.agent.import(self.flow, &exported)
                            );
                        }
                    }
                    _ => (0..n).for_each(|_| {
                        let dsack =
                            if kind == "t" { Flags::SACK.with(Flags::DSACK) } else { Flags::NONE };
                        let sacks = if kind == "s" { Flags::SACK } else { dsack };
                        let ack = Segment {
                            window: 9 + u32::from("ws".contains(kind)),
                            flags: Flags::ACK.with(sacks),
                            ..self.segment(0, 0, k)
                        };
                        let direction = if kind == "b" { Downlink } else { Uplink };
                        log.push(
                            match self.call(|agent, ctx| agent.on_segment(ctx, direction, &ack)) {
                                Forward => 'f',
                                Verdict::Rewrite(r)
                                    if r == Rewrite { eln: true, ..Rewrite::default() } =>
                                {
                                    'e'
                                }
                                other => panic!("{other:?}"),
                            },
                        );
                    }),
                }
            }
            log
        }
    }

    #[test]
    fn agent_follows_the_rules() {
        let mut wrong = String::new();
        for (rule, script, log) in [
            (
                "down: duplicate ACKs for segments sent to the radio are marked",
                "d0-9 a3 a3*3 a7 a7",
                "feeefe",
            ),
            ("down: a drop in the queue is congestion", "d0-2 q3 d4-9 a3*4", "ffff"),
            (
                "down: a retransmission lost on the radio is not",
                "d0-2 q3 d4-9 a3*2 d3 a3*2",
                "ffee",
            ),
            ("down: a segment that never arrived is congestion", "d0-2 d4-9 a3*4", "ffff"),
            ("down: a new ACK is never marked", "d0-9 a3 a5", "ff"),
            ("down: the window is ignored with SACK blocks", "d0-9 a3 s3 a3 s3", "fefe"),
            (
                "down: old ACKs and window updates are no duplicates",
                "d0-9 a3 a5 a3*2 w5 w5",
                "fffffe",
            ),
            ("down: a D-SACK is no duplicate", "d0-9 a3 t3 a3", "ffe"),
            (
                "up: a segment that never arrived from the radio is marked",
                "u0-2 u4-9 b1 b3*3",
                "feee",
            ),
            ("up: a new ACK indicates the next hole", "u0-2 u4-5 u7-9 b3 u3 b6", "ee"),
            ("up: a segment that arrived was lost beyond the base station", "u0-9 b3*3", "fff"),
            ("up: no later segment, no loss", "u0-2 b3*3", "fff"),
            ("up: the retransmission has arrived", "u0-2 u4-9 b3*2 u3 b3*2", "eeff"),
            ("the two directions are independent", "d0-9 u0-2 u4-9 a3 a3 b3 b3", "feee"),
            ("a reset removes the state", "d0-9 a3 r a3*2", "fff"),
            ("a handover does not", "d0-9 u0-2 u4-9 a3 b3 x a3 b3", "feee"),
            ("the least recently active flow is evicted", "d0-9 v2 d0 v3 d0 v4 d0 v1 a3*2", "ff"),
        ] {
            let found = Bench::new(8).run(script);
            if found != log {
                wrong += &format!("{rule}: found {found}, expected {log}\n");
            }
        }
        assert!(wrong.is_empty(), "\n{wrong}");
    }

    /// Every second segment is missing: of 20 ranges the lowest two are stored.
    #[test]
    fn ranges_are_bounded() {
        let mut b = Bench::new(2);
        let script: String = (0..20).map(|k| format!("d{} ", 2 * k)).collect();
        assert_eq!(b.run(&format!("{script} a0 a0 a2 a2 a4 a4")), "fefeff");
        assert!(b.agent.state_bytes() <= size_of::<FlowState>() + 2 * size_of::<Block>());
    }

    #[test]
    fn settings_are_checked() {
        let of = |recovery: &str| BalakrishnanEln {
            recovery: recovery.parse().unwrap(),
            ..BalakrishnanEln::default()
        };
        assert!(of("sack").check().unwrap_err().contains("newreno+eln"));
        assert!(of("sack+eln").check().is_ok());
        assert!(
            BalakrishnanEln { ranges: 65, ..BalakrishnanEln::default() }
                .check()
                .unwrap_err()
                .contains("1 to 64")
        );
    }

    proptest! {
        /// For segments in any order, the ranges equal those of a set of bytes.
        #[test]
        fn ranges_equal_a_byte_set(
            steps in prop::collection::vec((0..30u64, 1..4u64, any::<bool>()), 0..60),
        ) {
            let (mut passed, mut plain, mut acked) = (PassedRanges::default(), [false; 40], 0);
            for (seq, len, is_ack) in steps {
                let segment = Segment { seq, len: len as u32, ack: seq, ..Segment::default() };
                if is_ack {
                    passed.process_ack(&segment);
                    acked = acked.max(seq);
                } else {
                    passed.add(&segment, 64);
                    plain[seq as usize..(seq + len) as usize].fill(true);
                }
                for n in acked..40 {
                    prop_assert_eq!(passed.has(n), plain[n as usize], "byte {}", n);
                }
                prop_assert!(passed.ranges.windows(2).all(|w| w[0].end < w[1].start));
            }
        }

        #[test]
        fn ranges_are_bounded_for_arbitrary_scripts(
            words in prop::collection::vec(("[dquabwtrxv]", 0..12u64, 0..6u64), 0..200),
            ranges in 1..5u32,
        ) {
            let mut b = Bench::new(ranges);
            for (kind, k, n) in &words {
                let separator = if "dqu".contains(kind.as_str()) { "-" } else { "*" };
                b.run(&format!("{kind}{k}{separator}{n}"));
                let longest = |s: &FlowState| s.down.ranges.len().max(s.up.ranges.len());
                prop_assert!(b.agent.flows.iter().all(|(_, s)| longest(s) <= ranges as usize));
            }
        }

        #[test]
        fn arbitrary_bytes_can_be_imported(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            Bench::new(8).agent.import(1, &bytes);
        }
    }
}
