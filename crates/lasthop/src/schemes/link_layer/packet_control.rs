//! TCP packet control: an ACK filter and a data filter at the base station.
//!
//! Source: W. G. Zeng, MSc thesis, Simon Fraser University 2006 (zeng2006), chapter 3.
//! Idea: duplicate ACKs from a radio link are mostly due to delay variation, so let only a share of them through; and do
//! not send again over the radio what the mobile has already acknowledged.
//! Deployed at: the base station, below IP. Wire: nothing new; injected ACKs look like the receiver's.
//! Assumes: no delayed ACKs, duplicate ACKs mean reordering. Bad at: real loss with a window below the threshold (always a
//! timeout), SACK senders (they count SACKed data, not duplicate ACKs).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Context, FlowTable, Verdict};
use crate::role::Role;
use crate::schemes::catalogue::{AnyAgent, Changes, Entry, Family, SchemeConfig};
use crate::segment::{Direction, Flags, FlowId, Payload, Segment};

/// Settings of packet control.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PacketControl {
    /// Duplicate ACKs from the mobile after which the sender has seen its own threshold of 3: D of the thesis. 3 lets every one through.
    #[schemars(extend("unit" = "duplicate ACKs"))]
    pub dupack_threshold: u32,
    /// Filter ACKs.
    pub ack_filter: bool,
    /// Filter data.
    pub data_filter: bool,
    /// For every second identical retransmission that the data filter drops, send an ACK to the sender (thesis section 3.1.3.2). Off: the slides' pseudo-code.
    pub ack_inject: bool,
    /// Let every second identical retransmission through to the mobile instead of answering it (the slides' comment read literally).
    pub forward_even: bool,
    /// Space the forwarded duplicate ACKs by integer division as the published code does; off: evenly.
    pub integer_compat: bool,
    /// Drop every ACK below the last one, as the thesis does; off: let those through that carry an ECN echo or a new window.
    pub strict: bool,
    /// Flows for which state is held; the one silent longest goes first.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Sender to run over; empty: the profile's.
    pub sender: String,
}

impl Default for PacketControl {
    fn default() -> Self {
        PacketControl {
            dupack_threshold: 6,
            ack_filter: true,
            data_filter: true,
            ack_inject: true,
            forward_even: false,
            integer_compat: false,
            strict: false,
            max_flows: 4096,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for PacketControl {
    const ENTRY: Entry = Entry {
        name: "packet-control",
        family: Family::LinkLayer,
        summary: "thins duplicate ACKs and drops retransmissions of acknowledged data at the base station",
        paper: "zeng2006",
        changes: Changes { base_station: true, ..Changes::NOTHING },
        assumptions: &[
            "duplicate ACKs come from delay variation, not from loss",
            "the receiver acknowledges every segment",
            "the sender counts duplicate ACKs (no SACK)",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.dupack_threshold < SENDER_THRESHOLD {
            return Err(format!(
                "dupack_threshold must be at least {SENDER_THRESHOLD} (the sender's own threshold; {SENDER_THRESHOLD} switches the filter off), found {}",
                self.dupack_threshold
            ));
        }
        if self.max_flows == 0 {
            return Err("max_flows must be at least 1".into());
        }
        Ok(())
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::PacketControl(PacketControlAgent::new(self.clone())))
    }

    fn over(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// The threshold of the fixed host's sender, which the filter maps `dupack_threshold` to.
const SENDER_THRESHOLD: u32 = 3;

/// What is held for a flow.
#[derive(Clone, Debug, Default)]
struct FlowState {
    /// Largest ACK seen from the mobile, once there is one.
    last_ack: Option<u64>,
    /// Window of the last ACK; that of a SYN is not scaled (RFC 7323 section 2.2) and does not count.
    window: Option<u32>,
    /// Duplicate ACKs seen for `last_ack`.
    dupacks: u32,
    /// The last ACK seen, from which ACKs to the sender are made.
    template: Option<Segment>,
    /// Retransmissions seen of acknowledged segments: (first byte, count). Short, for every new ACK clears it below.
    repeated: Vec<(u64, u32)>,
}

/// At most so many different retransmitted segments are counted per flow; the oldest goes first.
const MAX_REPEATED: usize = 256;

/// The agent at the base station.
pub struct PacketControlAgent {
    config: PacketControl,
    flows: FlowTable<FlowState>,
    old_acks: u64,
    dup_acks: u64,
    data: u64,
    acks_made: u64,
}

impl PacketControlAgent {
    /// An agent with these settings.
    pub fn new(config: PacketControl) -> Self {
        let flows = FlowTable::new(config.max_flows as usize);
        PacketControlAgent { config, flows, old_acks: 0, dup_acks: 0, data: 0, acks_made: 0 }
    }

    /// The ACK filter (thesis section 3.1.3.1, figure 10).
    fn filter_ack(&mut self, segment: &Segment) -> Verdict {
        let config = &self.config;
        let (state, _) = self.flows.entry(segment.flow);
        let pure = segment.len == 0 && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN) && !segment.flags.has(Flags::RST);
        let new_window = state.window.is_some_and(|w| w != segment.window);
        match state.last_ack {
            Some(last) if segment.ack == last && pure && segment.is_duplicate_ack(!new_window) => {
                state.dupacks += 1;
                state.window = Some(segment.window);
                state.template = Some(*segment);
                if !config.ack_filter || passes(config, state.dupacks) {
                    return Verdict::Forward;
                }
                self.dup_acks += 1;
                Verdict::Drop("duplicate ACK thinned")
            }
            Some(last) if segment.ack < last => {
                let says_more = !config.strict && (new_window || segment.flags.has(Flags::ECE));
                if !config.ack_filter || !pure || says_more {
                    return Verdict::Forward;
                }
                self.old_acks += 1;
                Verdict::Drop("old ACK")
            }
            last => {
                if last.is_none_or(|l| segment.ack > l) {
                    state.dupacks = 0;
                    state.repeated.retain(|&(seq, _)| seq >= segment.ack);
                }
                state.last_ack = Some(segment.ack);
                state.window = Some(segment.window).filter(|_| !segment.flags.has(Flags::SYN));
                state.template = Some(*segment);
                Verdict::Forward
            }
        }
    }

    /// The data filter (thesis section 3.1.3.2, figure 11).
    fn filter_data(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        let Some(state) = self.flows.get_mut(segment.flow) else { return Verdict::Forward };
        let Some(last) = state.last_ack else { return Verdict::Forward };
        if !self.config.data_filter || segment.len == 0 || segment.end() > last || segment.flags.has(Flags::SYN) {
            return Verdict::Forward;
        }
        let count = state.count_repeat(segment.seq);
        if count.is_multiple_of(2) {
            if self.config.forward_even {
                return Verdict::Forward;
            }
            if let (true, Some(template)) = (self.config.ack_inject, state.template) {
                self.acks_made += 1;
                // The echo is that of the segment it answers: a stale one would pass for a long round trip.
                let stamped = segment.flags.has(Flags::TIMESTAMPS);
                let ts_echo = if stamped { segment.ts_value } else { template.ts_echo };
                let flags = template.flags.without(Flags::SACK);
                ctx.inject(Direction::Uplink, Segment { payload: Payload::NONE, ts_echo, flags, ..template });
            }
        }
        self.data += 1;
        Verdict::Drop("retransmission of acknowledged data")
    }
}

impl FlowState {
    fn count_repeat(&mut self, seq: u64) -> u32 {
        if let Some(entry) = self.repeated.iter_mut().find(|e| e.0 == seq) {
            entry.1 += 1;
            return entry.1;
        }
        if self.repeated.len() == MAX_REPEATED {
            self.repeated.remove(0);
        }
        self.repeated.push((seq, 1));
        1
    }
}

/// Whether the `n`-th duplicate ACK (from 1) goes on to the sender.
fn passes(config: &PacketControl, n: u32) -> bool {
    let d = config.dupack_threshold;
    if config.integer_compat {
        // The thesis' form: the published code divides integers, so 8 lets 2, 4, 6 … through and 4 and 5 all.
        let step = d / SENDER_THRESHOLD;
        return n.is_multiple_of(step);
    }
    let share = |n: u32| u64::from(n) * u64::from(SENDER_THRESHOLD) / u64::from(d);
    share(n) > share(n - 1)
}

impl Agent for PacketControlAgent {
    fn on_segment(&mut self, ctx: &mut Context<'_>, direction: Direction, segment: &Segment) -> Verdict {
        match direction {
            Direction::Uplink if segment.flags.has(Flags::ACK) => self.filter_ack(segment),
            Direction::Uplink => Verdict::Forward,
            Direction::Downlink => self.filter_data(ctx, segment),
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("old_acks_dropped", self.old_acks),
            ("duplicate_acks_dropped", self.dup_acks),
            ("data_dropped", self.data),
            ("acks_injected", self.acks_made),
            ("flows", self.flows.len() as u64),
            ("flows_evicted", self.flows.evicted()),
        ]
    }

    fn state_bytes(&self) -> usize {
        self.flows.iter().map(|(_, s)| size_of::<FlowState>() + s.repeated.len() * size_of::<(u64, u32)>()).sum()
    }

    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let s = self.flows.remove(flow)?;
        let mut out = Vec::new();
        out.extend(s.last_ack?.to_le_bytes());
        out.extend(s.window.unwrap_or_default().to_le_bytes());
        out.extend(s.dupacks.to_le_bytes());
        for (seq, n) in s.repeated {
            out.extend(seq.to_le_bytes());
            out.extend(n.to_le_bytes());
        }
        Some(out)
    }

    fn import(&mut self, flow: FlowId, state: &[u8]) -> bool {
        let Some((head, rest)) = state.split_at_checked(16) else { return false };
        if rest.len() % 12 != 0 || rest.len() / 12 > MAX_REPEATED {
            return false;
        }
        let u64_at = |b: &[u8], i: usize| b.get(i..i + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        let u32_at = |b: &[u8], i: usize| b.get(i..i + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        let (Some(last), Some(window), Some(dupacks)) = (u64_at(head, 0), u32_at(head, 8), u32_at(head, 12)) else { return false };
        let repeated = rest.chunks_exact(12).filter_map(|c| Some((u64_at(c, 0)?, u32_at(c, 8)?))).collect();
        *self.flows.entry(flow).0 = FlowState { last_ack: Some(last), window: Some(window), dupacks, template: None, repeated };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Action, Unknown};
    use crate::units::Time;

    fn segment(seq: u64, len: u32, ack: u64) -> Segment {
        Segment {
            seq,
            ack,
            id: 0,
            flow: 1,
            len,
            size: len + 40,
            window: 20_000,
            ts_value: 0,
            ts_echo: 0,
            payload: Payload(1),
            to: 0,
            flags: Flags::ACK,
            attempt: 1,
            forward: len > 0,
        }
    }

    struct Bench {
        agent: PacketControlAgent,
        actions: Vec<Action>,
    }

    impl Bench {
        fn new(settings: &str) -> Bench {
            let config: PacketControl = toml::from_str(settings).unwrap();
            config.check().unwrap();
            Bench { agent: PacketControlAgent::new(config), actions: Vec::new() }
        }

        fn feed(&mut self, d: Direction, s: &Segment) -> Verdict {
            let mut ctx = Context { now: Time::ZERO, options: &crate::segment::Options::NONE, surroundings: &Unknown, actions: &mut self.actions };
            self.agent.on_segment(&mut ctx, d, s)
        }

        /// Which of `n` duplicate ACKs go on.
        fn thinned(&mut self, n: u32) -> Vec<u32> {
            self.feed(Direction::Uplink, &segment(0, 0, 5000));
            (1..=n).filter(|_| self.feed(Direction::Uplink, &segment(0, 0, 5000)) == Verdict::Forward).collect()
        }
    }

    /// zeng2006 figure 10 and the resolution of its integer division: thinning for each threshold.
    #[test]
    fn duplicate_acks_are_thinned_evenly() {
        for (d, expected) in
            [(3, vec![1, 2, 3, 4, 5, 6]), (6, vec![2, 4, 6]), (5, vec![2, 4, 5]), (8, vec![3, 6, 8]), (9, vec![3, 6, 9]), (12, vec![4, 8, 12])]
        {
            let seen = Bench::new(&format!("dupack_threshold = {d}")).thinned(d.max(6));
            assert_eq!(seen, expected, "threshold {d}");
        }
    }

    #[test]
    fn duplicates_with_sack_blocks_are_thinned_whatever_their_windows() {
        let mut b = Bench::new("dupack_threshold = 6");
        b.feed(Direction::Uplink, &segment(0, 0, 5000));
        let mut passed = |window, flags| b.feed(Direction::Uplink, &Segment { window, flags, ..segment(0, 0, 5000) }) == Verdict::Forward;
        let sacks = Flags::ACK.with(Flags::SACK);
        assert_eq!([21_000, 22_000, 23_000, 24_000].map(|w| passed(w, sacks)), [false, true, false, true]);
        assert_eq!([25_000, 26_000].map(|w| passed(w, Flags::ACK)), [true, true], "window updates");
    }

    #[test]
    fn integer_division_of_the_published_code() {
        assert_eq!(Bench::new("dupack_threshold = 8\ninteger_compat = true").thinned(6), [2, 4, 6]);
        assert_eq!(Bench::new("dupack_threshold = 5\ninteger_compat = true").thinned(3), [1, 2, 3]);
        assert_eq!(Bench::new("dupack_threshold = 12\ninteger_compat = true").thinned(12), [4, 8, 12]);
    }

    /// zeng2006 figure 11: ACK 136 seen, the retransmission of 100 arrives four times.
    #[test]
    fn every_second_repeated_retransmission_is_answered() {
        let mut b = Bench::new("");
        b.feed(Direction::Uplink, &segment(0, 0, 136_000));
        let acks: Vec<usize> = (0..4)
            .map(|_| {
                assert!(matches!(b.feed(Direction::Downlink, &segment(99_000, 1000, 0)), Verdict::Drop(_)));
                b.actions.len()
            })
            .collect();
        assert_eq!(acks, [0, 1, 1, 2]);
        assert!(matches!(&b.actions[0], Action::Inject(Direction::Uplink, s) if s.ack == 136_000 && s.len == 0));
        assert_eq!(b.feed(Direction::Downlink, &segment(136_000, 1000, 0)), Verdict::Forward);
    }

    #[test]
    fn the_slides_variants() {
        let mut b = Bench::new("forward_even = true");
        b.feed(Direction::Uplink, &segment(0, 0, 136_000));
        let fates: Vec<bool> = (0..4).map(|_| b.feed(Direction::Downlink, &segment(99_000, 1000, 0)) == Verdict::Forward).collect();
        assert_eq!((fates, b.actions.len()), (vec![false, true, false, true], 0));
        let mut b = Bench::new("ack_inject = false");
        b.feed(Direction::Uplink, &segment(0, 0, 136_000));
        assert!((0..4).all(|_| b.feed(Direction::Downlink, &segment(99_000, 1000, 0)) != Verdict::Forward));
        assert!(b.actions.is_empty());
    }

    #[test]
    fn old_acks_go_unless_they_say_more() {
        let mut b = Bench::new("");
        b.feed(Direction::Uplink, &segment(0, 0, 5000));
        assert!(matches!(b.feed(Direction::Uplink, &segment(0, 0, 4000)), Verdict::Drop(_)));
        let update = Segment { window: 9000, ..segment(0, 0, 4000) };
        assert_eq!(b.feed(Direction::Uplink, &update), Verdict::Forward);
        let echo = Segment { flags: Flags::ACK.with(Flags::ECE), ..segment(0, 0, 4000) };
        assert_eq!(b.feed(Direction::Uplink, &echo), Verdict::Forward);
        let mut strict = Bench::new("strict = true");
        strict.feed(Direction::Uplink, &segment(0, 0, 5000));
        assert!(matches!(strict.feed(Direction::Uplink, &update), Verdict::Drop(_)));
    }

    #[test]
    fn state_is_bounded_and_moves() {
        let mut b = Bench::new("max_flows = 2");
        for flow in 1..=5 {
            b.feed(Direction::Uplink, &Segment { flow, ..segment(0, 0, 5000) });
        }
        assert_eq!(b.agent.counters()[4..], [("flows", 2), ("flows_evicted", 3)]);
        let state = b.agent.export(5).unwrap();
        let mut other = Bench::new("");
        assert!(other.agent.import(5, &state));
        assert!(!other.agent.import(6, &state[..7]));
        assert!(matches!(other.feed(Direction::Uplink, &Segment { flow: 5, ..segment(0, 0, 4000) }), Verdict::Drop(_)));
    }
}
