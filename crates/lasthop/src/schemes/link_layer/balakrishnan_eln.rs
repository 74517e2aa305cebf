//! ELN of Balakrishnan and Katz: the base station knows what has crossed it, and marks the ACKs
//! that ask for what the radio lost.
//!
//! Source: H. Balakrishnan, R. H. Katz, "Explicit loss notification and wireless web performance",
//! GLOBECOM Internet Mini-Conference 1998, and the agent of ns-2 (`snoop.cc`, `tcp_eln`), for data
//! that go up; yun2009 (section 2.1) for data that go down. Deployed at: the base station, and the
//! sender. Wire: one bit on ACKs.
//!
//! The base station keeps sequence numbers, no data. *Down*: a duplicate ACK that asks for a
//! segment which has left its queue for the radio tells of a loss there. (Noted when it leaves the
//! queue, not when it comes: what the queue drops is congestion.) *Up*: an ACK, a duplicate or one
//! of new data, that asks for a segment which has never come from the radio, while later ones have,
//! does so too. The sender sends it again without reducing, once (ns-2's `eln_last_rxmit_`), and
//! does not count the ACK.
//!
//! Assumes cleartext TCP headers, both directions through one base station, and a radio that keeps
//! the order. Bad at: delay, for it takes the next segment and its ACK to tell; copies that are
//! lost again (the timer finds them); hand-off, which moves state; duplicate ACKs for a segment
//! that came twice, which ask for one still on its way (D-SACK tells them apart).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Context, FlowTable, LinkEvent, Rewrite, Subscriptions, Verdict};
use crate::role::Role;
use crate::schemes::catalogue::{
    AnyAgent, AnyWindow, Entry, Family, Footprint, RecoverySlot, SchemeConfig,
};
use crate::schemes::end_to_end::reno::RenoWindow;
use crate::segment::{Block, Direction, Flags, FlowId, Segment};
use crate::tcp::recovery::{ElsnRules, Recovery, RecoveryKind};

/// Settings of Balakrishnan's ELN.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BalakrishnanEln {
    /// Ranges of sequence numbers kept for each flow and direction, 1 to 64; ns-2 keeps 8. Beyond
    /// them the highest is forgotten, and a loss there passes for congestion.
    #[schemars(extend("unit" = "ranges"))]
    pub ranges: u32,
    /// Flows for which state is held; the one silent longest goes first.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Recovery of the sender, one that heeds ELN.
    pub recovery: Recovery,
}

impl Default for BalakrishnanEln {
    fn default() -> Self {
        let recovery =
            Recovery { elsn: Some(ElsnRules::PLAIN), ..Recovery::of(RecoveryKind::Newreno) };
        BalakrishnanEln { ranges: 8, max_flows: 4096, recovery }
    }
}

impl SchemeConfig for BalakrishnanEln {
    const ENTRY: Entry = Entry {
        name: "balakrishnan-eln",
        family: Family::LinkLayer,
        summary: "the base station marks the ACKs that ask for what the radio lost; the sender \
                  sends that again without reducing",
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
        if self.recovery.elsn.is_none() {
            return Err(format!(
                "recovery = \"{}\" does not heed ELN; one that does ends in +eln, such as \
                 newreno+eln or sack+eln",
                self.recovery
            ));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::Reno(RenoWindow))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(self.recovery))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::BalakrishnanEln(BalakrishnanElnAgent::new(self)))
    }
}

/// What has crossed the base station in one direction and is not acknowledged.
#[derive(Clone, Debug, Default, PartialEq)]
struct Crossed {
    /// In order, none touching the next.
    ranges: Vec<Block>,
    /// The largest ACK, once one has come, and its window.
    acked: Option<(u64, u32)>,
}

impl Crossed {
    /// A segment has crossed; at most `most` ranges are kept.
    fn add(&mut self, segment: &Segment, most: usize) {
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
        self.ranges.truncate(most);
    }

    fn has(&self, seq: u64) -> bool {
        self.ranges.iter().any(|r| r.start <= seq && seq < r.end)
    }

    fn has_beyond(&self, seq: u64) -> bool {
        self.ranges.last().is_some_and(|r| r.end > seq)
    }

    /// An ACK: whether it is a duplicate; `None` if it is an old one, or none that counts.
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
        // One that reports a segment that came twice tells of no loss.
        let duplicate =
            segment.is_duplicate_ack(segment.window == window) && !segment.flags.has(Flags::DSACK);
        if same { duplicate.then_some(true) } else { Some(false) }
    }
}

/// What is held for a flow.
#[derive(Clone, Debug, Default)]
struct FlowState {
    down: Crossed,
    up: Crossed,
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

    /// An ACK of data that travel in the direction `data`: it is marked if what it asks for was
    /// lost by the radio.
    fn ack(&mut self, data: Direction, segment: &Segment) -> Verdict {
        let Some(state) = self.flows.get_mut(segment.flow) else { return Verdict::Forward };
        let crossed = if data == Direction::Downlink { &mut state.down } else { &mut state.up };
        let Some(duplicate) = crossed.process_ack(segment) else { return Verdict::Forward };
        self.duplicates += u64::from(duplicate);
        let lost = match data {
            Direction::Downlink => duplicate && crossed.has(segment.ack),
            Direction::Uplink => !crossed.has(segment.ack) && crossed.has_beyond(segment.ack),
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

    /// Per direction: the largest ACK with its window, and the ranges.
    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let state = self.flows.remove(flow)?;
        let mut words = Vec::new();
        for crossed in [&state.down, &state.up] {
            let (ack, window) = crossed.acked.map_or((UNKNOWN, 0), |(a, w)| (a, u64::from(w)));
            words.extend([ack, window, crossed.ranges.len() as u64]);
            words.extend(crossed.ranges.iter().flat_map(|r| [r.start, r.end]));
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
        let whole = rest.is_empty() && words.next().is_none();
        if whole {
            *self.flows.entry(flow).0 = FlowState { down, up };
        }
        whole
    }
}

/// What an exported direction has in place of an ACK that is not known.
const UNKNOWN: u64 = u64::MAX;

/// One direction of an exported flow.
fn read(words: &mut impl Iterator<Item = u64>, most: usize) -> Option<Crossed> {
    let (ack, window, count) = (words.next()?, u32::try_from(words.next()?).ok()?, words.next()?);
    let mut ranges = Vec::new();
    for _ in 0..count.min(65) {
        ranges.push(Block { start: words.next()?, end: words.next()? });
    }
    let sound = count <= 64
        && ranges.iter().all(|r| r.start < r.end)
        && ranges.windows(2).all(|w| w[0].end < w[1].start);
    ranges.truncate(most);
    sound.then_some(Crossed { ranges, acked: (ack != UNKNOWN).then_some((ack, window)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{BlankView, Verdict::Forward};
    use crate::segment::Options;
    use Direction::{Downlink, Uplink};
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
                    now: crate::units::Time::ZERO,
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

        /// Data, then an ACK.. script: `d3-9` go down and leave the queue, `q4` comes and does not
        /// leave it, `u3-9` come up from the radio, `a3*2` two ACKs from the station, `b3*2` two
        /// ACKs to it, `w3` one from it with another window, `t3` one that reports a segment that
        /// came twice, `s3` one with SACK blocks and another window, `r` a reset, `x` a hand-off,
        /// `v2` on with flow 2. The log has an ACK's fate: f as it is, e marked.
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
                        // They carry an ACK of the other direction's data, too.
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
                        if let Some(moved) = self.agent.export(self.flow) {
                            assert!(
                                !self.agent.import(self.flow, &moved[1..])
                                    && self.agent.import(self.flow, &moved)
                            );
                        }
                    }
                    _ => (0..n).for_each(|_| {
                        let twice =
                            if kind == "t" { Flags::SACK.with(Flags::DSACK) } else { Flags::NONE };
                        let sacks = if kind == "s" { Flags::SACK } else { twice };
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
    fn the_rules() {
        let mut wrong = String::new();
        for (rule, script, log) in [
            (
                "down: duplicates for what went to the radio are marked",
                "d0-9 a3 a3*3 a7 a7",
                "feeefe",
            ),
            ("down: what the queue dropped is congestion", "d0-2 q3 d4-9 a3*4", "ffff"),
            ("down: its copy, lost on the radio, is not", "d0-2 q3 d4-9 a3*2 d3 a3*2", "ffee"),
            ("down: what never came is congestion", "d0-2 d4-9 a3*4", "ffff"),
            ("down: a new ACK is never marked", "d0-9 a3 a5", "ff"),
            (
                "down: with SACK blocks another window makes no difference",
                "d0-9 a3 s3 a3 s3",
                "fefe",
            ),
            (
                "down: old ACKs and window updates are no duplicates",
                "d0-9 a3 a5 a3*2 w5 w5",
                "fffffe",
            ),
            ("down: nor is word of a segment that came twice", "d0-9 a3 t3 a3", "ffe"),
            ("up: what never came from the radio is marked", "u0-2 u4-9 b1 b3*3", "feee"),
            ("up: a new ACK tells of the next hole", "u0-2 u4-5 u7-9 b3 u3 b6", "ee"),
            ("up: what came was lost behind the base station", "u0-9 b3*3", "fff"),
            ("up: nothing beyond, nothing lost", "u0-2 b3*3", "fff"),
            ("up: the copy has come", "u0-2 u4-9 b3*2 u3 b3*2", "eeff"),
            ("data in both directions do not meet", "d0-9 u0-2 u4-9 a3 a3 b3 b3", "feee"),
            ("a reset forgets", "d0-9 a3 r a3*2", "fff"),
            ("a hand-off does not", "d0-9 u0-2 u4-9 a3 b3 x a3 b3", "feee"),
            ("the longest silent flow goes", "d0-9 v2 d0 v3 d0 v4 d0 v1 a3*2", "ff"),
        ] {
            let found = Bench::new(8).run(script);
            if found != log {
                wrong += &format!("{rule}: {found} and not {log}\n");
            }
        }
        assert!(wrong.is_empty(), "\n{wrong}");
    }

    /// Every second segment is missing: of 20 ranges the lowest two are known.
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
        /// Whatever crosses, in whatever order: the ranges are those of a set of bytes, as far as
        /// there is room.
        #[test]
        fn the_ranges_are_what_crossed(steps in prop::collection::vec((0..30u64, 1..4u64, any::<bool>()), 0..60)) {
            let (mut crossed, mut plain, mut acked) = (Crossed::default(), [false; 40], 0);
            for (seq, len, is_ack) in steps {
                let segment = Segment { seq, len: len as u32, ack: seq, ..Segment::default() };
                if is_ack {
                    crossed.process_ack(&segment);
                    acked = acked.max(seq);
                } else {
                    crossed.add(&segment, 64);
                    plain[seq as usize..(seq + len) as usize].fill(true);
                }
                for n in acked..40 {
                    prop_assert_eq!(crossed.has(n), plain[n as usize], "byte {}", n);
                }
                prop_assert!(crossed.ranges.windows(2).all(|w| w[0].end < w[1].start));
            }
        }

        #[test]
        fn anything_may_come(words in prop::collection::vec(("[dquabwtrxv]", 0..12u64, 0..6u64), 0..200), ranges in 1..5u32) {
            let mut b = Bench::new(ranges);
            for (kind, k, n) in &words {
                b.run(&format!("{kind}{k}{}{n}", if "dqu".contains(kind.as_str()) { "-" } else { "*" }));
                prop_assert!(b.agent.flows.iter().all(|(_, s)| s.down.ranges.len().max(s.up.ranges.len()) <= ranges as usize));
            }
        }

        #[test]
        fn no_bytes_break_an_import(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            Bench::new(8).agent.import(1, &bytes);
        }
    }
}
