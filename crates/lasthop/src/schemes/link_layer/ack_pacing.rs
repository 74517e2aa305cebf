//! ACK pacing: after a stall the base station lets the ACKs that have gathered go on one by one.
//!
//! Source: W. G. Zeng, MSc thesis, Simon Fraser University 2006 (zeng2006), chapter 5, which
//! proposes it and leaves two questions open: how to find a long delay, and which rate. Both
//! answers here are ours. Idea: while a radio link stalls, ACKs gather at the mobile and come all
//! at once afterwards (ACK compression). The sender would answer with as many segments at once,
//! into the base station's queue. So ACKs are spaced as the radio link will carry the data that
//! they release. Deployed at: the base station, below IP. Wire: nothing; ACKs are late, never
//! dropped, and never change their order. A stall is a gap between ACKs far above the mean one; the
//! ACKs behind it are held once several have come within what is the gap of one. Assumes: readable
//! TCP headers, ACKs without options (one with SACK blocks is not held, and pushes all others on),
//! a link whose rate is known or was steady. Bad at: senders that pace themselves (the delay is for
//! nothing); a wrong rate starves them; it adds to the round-trip time that a sender measures. What
//! a window larger than the path had queued as data is queued as ACKs from then on, and so is held
//! to the end of the transfer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pacer::{HasTraffic, Limits, Pacer, Traffic, may_wait, share};
use crate::agent::{Agent, Context, FlowTable, Verdict};
use crate::role::Role;
use crate::schemes::catalogue::{AnyAgent, Entry, Family, Footprint, SchemeConfig};
use crate::segment::{Direction, Flags, FlowId, Segment};
use crate::units::{Duration, Rate, Time};

/// Settings of ACK pacing.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AckPacing {
    /// At which rate ACKs release data.
    pub rate: PaceRate,
    /// Hold ACKs behind a stall only; off: always, whenever they come faster than the rate.
    pub detect: bool,
    /// A gap between ACKs that is shorter is no stall.
    pub stall: Duration,
    /// A gap of fewer mean ones is no stall either.
    #[schemars(extend("unit" = "mean gaps"))]
    pub stall_gaps: u32,
    /// So many ACKs within one mean gap after a stall are compressed; from the last of them on ACKs
    /// are held.
    #[schemars(extend("unit" = "ACKs"))]
    pub compressed: u32,
    /// ACKs held per flow; for one more the oldest goes on.
    #[schemars(extend("unit" = "ACKs"))]
    pub max_acks: u32,
    /// No ACK is held longer. Twenty segments of 1040 B at 250 kbit/s take 0.67 s.
    pub max_hold: Duration,
    /// Flows for which state is held; the one silent longest goes first.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Sender to run over; empty: the profile's.
    pub sender: String,
}

/// The rate at which ACKs release data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PaceRate {
    /// That of the radio link now, by the flows that have data outstanding; where it is not known,
    /// as `measured`.
    Link,
    /// What the mobile acknowledged in the mean before the stall.
    Measured,
}

impl Default for AckPacing {
    fn default() -> Self {
        AckPacing {
            rate: PaceRate::Link,
            detect: true,
            stall: Duration::millis(200),
            stall_gaps: 4,
            compressed: 4,
            max_acks: 200,
            max_hold: Duration::secs(1),
            max_flows: 4096,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for AckPacing {
    const ENTRY: Entry = Entry {
        name: "ack-pacing",
        family: Family::LinkLayer,
        summary: "spaces ACKs that have gathered in a stall, at the base station, as the radio \
                  link can carry the data they release",
        paper: "zeng2006",
        changes: Footprint { base_station: true, ..Footprint::NONE },
        assumptions: &[
            "TCP headers are readable at the base station",
            "the rate of the radio link is known, or was steady before the stall",
            "ACKs without SACK blocks",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.max_acks == 0 || self.max_flows == 0 || self.compressed == 0 {
            return Err("max_acks, max_flows and compressed must be at least 1".into());
        }
        Ok(())
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::AckPacing(AckPacingAgent::new(self.clone())))
    }

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// Gain of the means, as that of TCP's round-trip time: 1/8.
const GAIN: u64 = 8;

/// What the ACKs of a flow are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Train {
    /// They come as usual.
    #[default]
    Calm,
    /// A stall is over since then, and so many have come.
    After(Time, u32),
    /// They are compressed, and held.
    Held,
}

#[derive(Clone, Debug, Default)]
struct FlowState {
    pacer: Pacer,
    traffic: Traffic,
    train: Train,
    /// When the last ACK came.
    came: Option<Time>,
    /// Mean gap between new ACKs in calm times, ns, and mean of the bytes that each acknowledges.
    gap: u64,
    bytes: u64,
}

impl HasTraffic for FlowState {
    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl FlowState {
    /// An ACK has come: whether ACKs are to be held now.
    fn look(&mut self, config: &AckPacing, now: Time, ack: u64) -> bool {
        let since = self.came.replace(now).map(|t| now - t);
        let new = ack.saturating_sub(self.traffic.acked);
        let stalled = since.is_some_and(|s| {
            self.gap > 0
                && s > config.stall
                && s.0 > self.gap.saturating_mul(config.stall_gaps.into())
        });
        if stalled {
            self.train = Train::After(now, 1);
        } else if let Train::After(at, n) = self.train {
            self.train =
                if (now - at).0 > self.gap { Train::Calm } else { Train::After(at, n + 1) };
        }
        if let Train::After(_, n) = self.train
            && n >= config.compressed
        {
            self.train = Train::Held;
        }
        if let (Train::Calm, Some(since), true) = (self.train, since, new > 0) {
            let mean =
                |old: u64, new: u64| if old == 0 { new } else { old - old / GAIN + new / GAIN };
            (self.gap, self.bytes) = (mean(self.gap, since.0), mean(self.bytes, new));
        }
        !config.detect || self.train == Train::Held
    }

    fn measured(&self) -> Option<Rate> {
        (self.gap > 0)
            .then(|| Rate((u128::from(self.bytes) * 8_000_000_000 / u128::from(self.gap)) as u64))
    }
}

/// The agent at the base station.
pub struct AckPacingAgent {
    config: AckPacing,
    limits: Limits,
    flows: FlowTable<FlowState>,
    held: u64,
    most: u64,
    trains: u64,
}

impl AckPacingAgent {
    /// An agent with these settings.
    pub fn new(config: AckPacing) -> Self {
        let limits = Limits { acks: config.max_acks as usize, hold: config.max_hold };
        let flows = FlowTable::new(config.max_flows as usize);
        AckPacingAgent { config, limits, flows, held: 0, most: 0, trains: 0 }
    }

    /// The state of a flow; one that has to go for it lets its ACKs go on.
    fn flow(&mut self, ctx: &mut Context<'_>, flow: FlowId) -> &mut FlowState {
        let (state, gone) = self.flows.entry(flow);
        if let Some(mut gone) = gone {
            gone.pacer.flush(ctx);
        }
        state
    }

    fn rate(&self, ctx: &Context<'_>, flow: FlowId) -> Option<Rate> {
        let state = self.flows.get(flow)?;
        let known = (self.config.rate == PaceRate::Link)
            .then(|| share(&self.flows, flow, ctx, &state.traffic))
            .flatten();
        known.or_else(|| state.measured())
    }

    fn ack(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        self.flow(ctx, segment.flow);
        let rate = self.rate(ctx, segment.flow);
        let (config, limits) = (&self.config, self.limits);
        let (state, _) = self.flows.entry(segment.flow);
        let before = state.train;
        let pace = state.look(config, ctx.now, segment.ack);
        state.traffic.acked = state.traffic.acked.max(segment.ack);
        self.trains += u64::from(state.train == Train::Held && before != Train::Held);
        if !may_wait(segment) {
            state.pacer.flush(ctx);
        } else if (pace || state.pacer.len() > 0)
            && state.pacer.must_wait(ctx.now, segment, rate, limits)
        {
            state.pacer.hold(ctx, segment, rate, limits);
            self.held += 1;
            self.most = self.most.max(state.pacer.len() as u64);
            return Verdict::Keep;
        } else if config.detect && state.train == Train::Held && before == Train::Held {
            // It has come in its time, and nobody waits: the train is over.
            state.train = Train::Calm;
        }
        state.pacer.passes(ctx.now, segment.ack.max(state.traffic.acked));
        Verdict::Forward
    }
}

impl Agent for AckPacingAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        let flags = segment.flags;
        match direction {
            _ if flags.has(Flags::SYN) || flags.has(Flags::RST) => {
                if let Some(mut state) = self.flows.remove(segment.flow) {
                    state.pacer.flush(ctx);
                }
            }
            Direction::Uplink if flags.has(Flags::ACK) && !segment.forward => {
                return self.ack(ctx, segment);
            }
            Direction::Downlink if segment.forward && segment.len > 0 => {
                let now = ctx.now;
                self.flow(ctx, segment.flow).traffic.data(now, segment);
            }
            _ => {}
        }
        Verdict::Forward
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        let rate = self.rate(ctx, id);
        if let Some(state) = self.flows.get_mut(id) {
            state.pacer.serve(ctx, rate, self.limits);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("acks_held", self.held),
            ("most_held", self.most),
            ("trains", self.trains),
            ("flows", self.flows.len() as u64),
            ("flows_evicted", self.flows.evicted()),
        ]
    }

    fn state_bytes(&self) -> usize {
        self.flows.iter().map(|(_, s)| size_of::<FlowState>() + s.pacer.bytes()).sum()
    }

    /// What is known of the flow. ACKs that wait stay behind: a later one says what they said, or
    /// the sender's timer does.
    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let s = self.flows.remove(flow)?;
        Some(
            [s.traffic.highest, s.traffic.acked, s.gap, s.bytes]
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect(),
        )
    }

    fn import(&mut self, flow: FlowId, state: &[u8]) -> bool {
        let words: Vec<u64> = state
            .chunks_exact(8)
            .filter_map(|b| b.try_into().ok())
            .map(u64::from_le_bytes)
            .collect();
        let [highest, acked, gap, bytes] = words[..] else { return false };
        if state.len() != 32 {
            return false;
        }
        let traffic = Traffic::known(highest, acked);
        *self.flows.entry(flow).0 = FlowState { traffic, gap, bytes, ..FlowState::default() };
        true
    }
}

#[cfg(test)]
#[path = "ack_pacing/tests.rs"]
mod tests;
