//! TCP packet control: an ACK filter and a data filter at the base station.
//!
//! Source: W. G. Zeng, MSc thesis, Simon Fraser University 2006 (zeng2006), chapter 3. Idea:
//! duplicate ACKs from a radio link are mostly due to delay variation, so let only a share of them
//! through; and do not send again over the radio what the mobile has already acknowledged. Deployed
//! at: the base station, below IP. Wire: nothing new; injected ACKs look like the receiver's.
//! Assumes: no delayed ACKs, duplicate ACKs mean reordering. Bad at: real loss with a window below
//! the threshold (always a timeout), SACK senders (they count SACKed data, not duplicate ACKs).
//!
//! Left open: chapter 5 proposes a sender that conveys its own state to the base station, which
//! then generates packets that control the sender. The thesis names neither what is conveyed, nor
//! when, nor which packets follow from it. No rule can be taken from it, and none is implemented.
//! Its other proposal, pacing ACKs after a long delay, is the scheme `ack-pacing`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Entry, Family, Footprint, SchemeConfig};
use lasthop_core::agent::{Agent, Context, FlowTable, Verdict};
use lasthop_core::role::Role;
use lasthop_core::segment::{Direction, Flags, FlowId, Payload, Segment};

/// Settings of packet control.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PacketControl {
    /// Duplicate ACKs from the mobile after which the sender has seen its own threshold of 3: D of
    /// the thesis. 3 lets every one through.
    #[schemars(extend("unit" = "duplicate ACKs"))]
    pub dupack_threshold: u32,
    /// Filter ACKs.
    pub ack_filter: bool,
    /// Filter data.
    pub data_filter: bool,
    /// For every second identical retransmission that the data filter drops, send an ACK to the
    /// sender (thesis section 3.1.3.2). Off: the slides' pseudo-code.
    pub ack_inject: bool,
    /// Let every second identical retransmission through to the mobile instead of answering it (the
    /// slides' comment read literally).
    pub forward_even: bool,
    /// Space the forwarded duplicate ACKs by integer division as the published code does; off:
    /// evenly.
    pub integer_compat: bool,
    /// Drop every ACK below the last one, as the thesis does; off: let those through that carry an
    /// ECN echo or a new window.
    pub strict: bool,
    /// Keep the counts of retransmitted segments when a new ACK arrives, as the thesis does
    /// (section 3.2.1 describes no clearing). Off, this project's choice: a new ACK clears the
    /// counts of the segments below it, since it repairs the lost ACK itself.
    pub keep_counts: bool,
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
            keep_counts: false,
            max_flows: 4096,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for PacketControl {
    const ENTRY: Entry = Entry {
        name: "packet-control",
        family: Family::LinkLayer,
        summary: "thins duplicate ACKs and drops retransmissions of acknowledged data at the base \
                  station",
        paper: "zeng2006",
        changes: Footprint { base_station: true, ..Footprint::NONE },
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
                "dupack_threshold must be at least {SENDER_THRESHOLD} (the sender's own \
                 threshold; {SENDER_THRESHOLD} switches the filter off), found {}",
                self.dupack_threshold
            ));
        }
        if self.max_flows == 0 {
            return Err("max_flows must be at least 1".into());
        }
        Ok(())
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(PacketControlAgent::new(self.clone())))
    }

    fn base_sender(&self) -> Option<&str> {
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
    /// Window of the last ACK; that of a SYN is not scaled (RFC 7323 section 2.2) and does not
    /// count.
    window: Option<u32>,
    /// Duplicate ACKs seen for `last_ack`.
    dupacks: u32,
    /// The last ACK seen, without its data: ACKs to the sender are made from it.
    template: Option<Segment>,
    /// Retransmissions seen of acknowledged segments: (first byte, count). Unless `keep_counts` is
    /// set, each new ACK removes those below it.
    repeated: Vec<(u64, u32)>,
}

/// Number of retransmitted segments counted per flow; the oldest is removed first.
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
        let pure = segment.len == 0
            && !segment.flags.has(Flags::SYN)
            && !segment.flags.has(Flags::FIN)
            && !segment.flags.has(Flags::RST);
        let new_window = state.window.is_some_and(|w| w != segment.window);
        match state.last_ack {
            Some(last) if segment.ack == last && pure && segment.is_duplicate_ack(!new_window) => {
                state.dupacks += 1;
                state.window = Some(segment.window);
                state.template = Some(bare(segment));
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
                    if !config.keep_counts {
                        state.repeated.retain(|&(seq, _)| seq >= segment.ack);
                    }
                }
                state.last_ack = Some(segment.ack);
                state.window = Some(segment.window).filter(|_| !segment.flags.has(Flags::SYN));
                state.template = Some(bare(segment));
                Verdict::Forward
            }
        }
    }

    /// The data filter (thesis section 3.1.3.2, figure 11).
    fn filter_data(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        let Some(state) = self.flows.get_mut(segment.flow) else { return Verdict::Forward };
        let Some(last) = state.last_ack else { return Verdict::Forward };
        if !self.config.data_filter
            || segment.len == 0
            || segment.end() > last
            || segment.flags.has(Flags::SYN)
        {
            return Verdict::Forward;
        }
        let count = state.count_repeat(segment.seq);
        if count.is_multiple_of(2) {
            if self.config.forward_even {
                return Verdict::Forward;
            }
            if let (true, Some(template)) = (self.config.ack_inject, state.template) {
                self.acks_made += 1;
                // The echo is that of the segment it answers: a stale one would pass for a long
                // round trip.
                let stamped = segment.flags.has(Flags::TIMESTAMPS);
                let ts_echo = if stamped { segment.ts_value } else { template.ts_echo };
                ctx.inject(Direction::Uplink, Segment { ts_echo, ..template });
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

/// The ACK alone: neither the data that it came with nor options, which the host keeps elsewhere.
fn bare(segment: &Segment) -> Segment {
    let flags = segment.flags.without(Flags::OPTIONS);
    Segment {
        len: 0,
        size: segment.size.saturating_sub(segment.len),
        payload: Payload::NONE,
        flags,
        ..*segment
    }
}

/// Bytes of an exported flow before its retransmission counts.
const HEAD: usize = 48;
/// Bytes of an exported retransmission count.
const COUNT: usize = 12;

/// Reads an exported flow; none if the bytes are not one.
fn read_state(flow: FlowId, state: &[u8]) -> Option<FlowState> {
    let (head, rest) = state.split_at_checked(HEAD)?;
    let u64_at = |b: &[u8], i: usize| Some(u64::from_le_bytes(b.get(i..i + 8)?.try_into().ok()?));
    let u32_at = |b: &[u8], i: usize| Some(u32::from_le_bytes(b.get(i..i + 4)?.try_into().ok()?));
    let (chunks, odd) = rest.as_chunks::<COUNT>();
    let forward = u32_at(head, 44)?;
    if !odd.is_empty() || chunks.len() > MAX_REPEATED || forward > 1 {
        return None;
    }
    let place = u32_at(head, 40)?;
    let template = Segment {
        ack: u64_at(head, 0)?,
        seq: u64_at(head, 8)?,
        window: u32_at(head, 16)?,
        size: u32_at(head, 24)?,
        ts_value: u32_at(head, 28)?,
        ts_echo: u32_at(head, 32)?,
        flags: Flags(u32_at(head, 36)?).without(Flags::OPTIONS),
        to: (place & 0xffff) as u16,
        attempt: (place >> 16) as u16,
        forward: forward == 1,
        flow,
        ..Segment::default()
    };
    Some(FlowState {
        last_ack: Some(template.ack),
        window: Some(template.window).filter(|_| !template.flags.has(Flags::SYN)),
        dupacks: u32_at(head, 20)?,
        template: Some(template),
        repeated: chunks.iter().filter_map(|c| Some((u64_at(c, 0)?, u32_at(c, 8)?))).collect(),
    })
}

/// Whether the `n`-th duplicate ACK (from 1) goes on to the sender.
fn passes(config: &PacketControl, n: u32) -> bool {
    let d = config.dupack_threshold;
    if config.integer_compat {
        // The thesis' form: the published code divides integers, so 8 lets 2, 4, 6 … through and 4
        // and 5 all.
        let step = d / SENDER_THRESHOLD;
        return n.is_multiple_of(step);
    }
    let share = |n: u32| u64::from(n) * u64::from(SENDER_THRESHOLD) / u64::from(d);
    share(n) > share(n - 1)
}

impl Agent for PacketControlAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
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
        self.flows
            .iter()
            .map(|(_, s)| size_of::<FlowState>() + s.repeated.len() * size_of::<(u64, u32)>())
            .sum()
    }

    /// The last ACK with its header, from which the next station makes ACKs, and the counts.
    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let s = self.flows.remove(flow)?;
        let t = s.template?;
        let place = u32::from(t.to) | u32::from(t.attempt) << 16;
        let words = [
            t.window,
            s.dupacks,
            t.size,
            t.ts_value,
            t.ts_echo,
            t.flags.0,
            place,
            u32::from(t.forward),
        ];
        let mut out = Vec::with_capacity(HEAD + COUNT * s.repeated.len());
        out.extend(s.last_ack?.to_le_bytes());
        out.extend(t.seq.to_le_bytes());
        out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        for (seq, n) in s.repeated {
            out.extend(seq.to_le_bytes());
            out.extend(n.to_le_bytes());
        }
        Some(out)
    }

    fn import(&mut self, flow: FlowId, state: &[u8]) -> bool {
        let Some(read) = read_state(flow, state) else { return false };
        *self.flows.entry(flow).0 = read;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::agent::{Action, BlankView};
    use lasthop_core::units::Time;

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
            let config: PacketControl = crate::testing::settings(settings);
            config.check().unwrap();
            Bench { agent: PacketControlAgent::new(config), actions: Vec::new() }
        }

        fn feed(&mut self, d: Direction, s: &Segment) -> Verdict {
            let mut ctx = Context {
                now: Time::ZERO,
                options: &lasthop_core::segment::Options::NONE,
                node_view: &BlankView,
                actions: &mut self.actions,
            };
            self.agent.on_segment(&mut ctx, d, s)
        }

        /// Which of `n` duplicate ACKs go on.
        fn thinned(&mut self, n: u32) -> Vec<u32> {
            self.feed(Direction::Uplink, &segment(0, 0, 5000));
            (1..=n)
                .filter(|_| self.feed(Direction::Uplink, &segment(0, 0, 5000)) == Verdict::Forward)
                .collect()
        }
    }

    /// zeng2006 figure 10 and the resolution of its integer division: thinning for each threshold.
    #[test]
    fn duplicate_acks_are_thinned_evenly() {
        for (d, expected) in [
            (3, vec![1, 2, 3, 4, 5, 6]),
            (6, vec![2, 4, 6]),
            (5, vec![2, 4, 5]),
            (8, vec![3, 6, 8]),
            (9, vec![3, 6, 9]),
            (12, vec![4, 8, 12]),
        ] {
            let seen = Bench::new(&format!("dupack_threshold = {d}")).thinned(d.max(6));
            assert_eq!(seen, expected, "threshold {d}");
        }
    }

    #[test]
    fn duplicates_with_sack_blocks_are_thinned_whatever_their_windows() {
        let mut b = Bench::new("dupack_threshold = 6");
        b.feed(Direction::Uplink, &segment(0, 0, 5000));
        let mut passed = |window, flags| {
            b.feed(Direction::Uplink, &Segment { window, flags, ..segment(0, 0, 5000) })
                == Verdict::Forward
        };
        let sacks = Flags::ACK.with(Flags::SACK);
        assert_eq!(
            [21_000, 22_000, 23_000, 24_000].map(|w| passed(w, sacks)),
            [false, true, false, true]
        );
        assert_eq!([25_000, 26_000].map(|w| passed(w, Flags::ACK)), [true, true], "window updates");
    }

    #[test]
    fn integer_division_of_the_published_code() {
        assert_eq!(Bench::new("dupack_threshold = 8\ninteger_compat = true").thinned(6), [2, 4, 6]);
        assert_eq!(Bench::new("dupack_threshold = 5\ninteger_compat = true").thinned(3), [1, 2, 3]);
        assert_eq!(
            Bench::new("dupack_threshold = 12\ninteger_compat = true").thinned(12),
            [4, 8, 12]
        );
    }

    /// zeng2006 figure 11: ACK 136 seen, the retransmission of 100 arrives four times.
    #[test]
    fn every_second_repeated_retransmission_is_answered() {
        let mut b = Bench::new("");
        b.feed(Direction::Uplink, &segment(0, 0, 136_000));
        let acks: Vec<usize> = (0..4)
            .map(|_| {
                assert!(matches!(
                    b.feed(Direction::Downlink, &segment(99_000, 1000, 0)),
                    Verdict::Drop(_)
                ));
                b.actions.len()
            })
            .collect();
        assert_eq!(acks, [0, 1, 1, 2]);
        assert!(matches!(
            &b.actions[0],
            Action::Inject(Direction::Uplink, s) if s.ack == 136_000 && s.len == 0
        ));
        assert_eq!(b.feed(Direction::Downlink, &segment(136_000, 1000, 0)), Verdict::Forward);
    }

    /// zeng2006 figure 11 keeps its list; here a new ACK between two copies starts the count again.
    #[test]
    fn a_new_ack_clears_the_counts_unless_they_are_kept() {
        for (settings, injected) in [("", 0), ("keep_counts = true", 1)] {
            let mut b = Bench::new(settings);
            b.feed(Direction::Uplink, &segment(0, 0, 136_000));
            assert!(matches!(
                b.feed(Direction::Downlink, &segment(99_000, 1000, 0)),
                Verdict::Drop(_)
            ));
            b.feed(Direction::Uplink, &segment(0, 0, 137_000));
            assert!(matches!(
                b.feed(Direction::Downlink, &segment(99_000, 1000, 0)),
                Verdict::Drop(_)
            ));
            assert_eq!(b.actions.len(), injected, "{settings}");
        }
        let mut b = Bench::new("keep_counts = true");
        b.feed(Direction::Uplink, &segment(0, 0, 1_000_000));
        for i in 0..2 * MAX_REPEATED as u64 {
            b.feed(Direction::Downlink, &segment(1000 * i, 1000, 0));
        }
        assert_eq!(b.agent.flows.get_mut(1).map(|s| s.repeated.len()), Some(MAX_REPEATED));
    }

    /// An ACK that came with data of the mobile's: what is injected has none of them, nor options.
    #[test]
    fn an_injected_ack_carries_no_data() {
        let mut b = Bench::new("");
        let flags = Flags::ACK.with(Flags::SACK).with(Flags::TIMESTAMPS);
        b.feed(Direction::Uplink, &Segment { flags, ..segment(500, 300, 136_000) });
        for _ in 0..2 {
            b.feed(Direction::Downlink, &segment(99_000, 1000, 0));
        }
        let [Action::Inject(_, ack)] = &b.actions[..] else { panic!("{:?}", b.actions) };
        assert_eq!((ack.len, ack.size, ack.payload), (0, 40, Payload::NONE));
        assert_eq!((ack.ack, ack.flags), (136_000, Flags::ACK.with(Flags::TIMESTAMPS)));
    }

    #[test]
    fn the_slides_variants() {
        let mut b = Bench::new("forward_even = true");
        b.feed(Direction::Uplink, &segment(0, 0, 136_000));
        let fates: Vec<bool> = (0..4)
            .map(|_| b.feed(Direction::Downlink, &segment(99_000, 1000, 0)) == Verdict::Forward)
            .collect();
        assert_eq!((fates, b.actions.len()), (vec![false, true, false, true], 0));
        let mut b = Bench::new("ack_inject = false");
        b.feed(Direction::Uplink, &segment(0, 0, 136_000));
        let late = segment(99_000, 1000, 0);
        assert!((0..4).all(|_| b.feed(Direction::Downlink, &late) != Verdict::Forward));
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
        assert!(!other.agent.import(6, &state[..7]) && !other.agent.import(6, &state[..HEAD - 1]));
        assert!(matches!(
            other.feed(Direction::Uplink, &Segment { flow: 5, ..segment(0, 0, 4000) }),
            Verdict::Drop(_)
        ));
    }

    /// zeng2006 section 3.1.4: the new station answers before it has seen an ACK itself.
    #[test]
    fn a_station_injects_acks_from_the_state_it_took_over() {
        let mut old = Bench::new("");
        let ack = Segment { to: 3, ts_value: 77, window: 9000, ..segment(40, 0, 136_000) };
        old.feed(Direction::Uplink, &ack);
        old.feed(Direction::Downlink, &segment(99_000, 1000, 0));
        let state = old.agent.export(1).unwrap();
        assert_eq!(state.len(), HEAD + COUNT);
        assert!(old.agent.export(1).is_none(), "the flow has moved");
        let mut new = Bench::new("");
        assert!(new.agent.import(1, &state));
        assert!(matches!(
            new.feed(Direction::Downlink, &segment(99_000, 1000, 0)),
            Verdict::Drop(_)
        ));
        let expected = Segment { payload: Payload::NONE, ..ack };
        assert!(
            matches!(&new.actions[..], [Action::Inject(Direction::Uplink, s)] if *s == expected),
            "{:?}",
            new.actions
        );
        assert_eq!(new.agent.export(1).unwrap()[..HEAD], state[..HEAD], "moved on");
    }
}
