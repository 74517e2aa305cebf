//! ACK pacing: after a stall of the radio link, the base station spaces the ACKs that have
//! accumulated.
//!
//! Source: W. G. Zeng, MSc thesis, Simon Fraser University 2006 (zeng2006), chapter 5, which
//! proposes it and leaves two questions open: how to detect a long delay, and which rate to use.
//! Both answers here are our design.
//!
//! Idea: while a radio link stalls, ACKs accumulate at the mobile and then arrive in a burst (ACK
//! compression). The sender would respond with a burst of segments into the base station's queue.
//! The base station therefore spaces the ACKs at the rate at which the radio link can carry the
//! data that they release. A stall is a gap between ACKs far above the mean gap. The ACKs after it
//! are held once several have arrived within one mean gap.
//!
//! Deployed at: the base station, below IP.
//!
//! Wire: unchanged. ACKs are delayed, never dropped or reordered.
//!
//! Assumes: readable TCP headers; ACKs without options (an ACK with SACK blocks is not held and
//! releases all held ones); a link whose rate is known or was steady.
//!
//! Bad at: senders that pace (the delay has no benefit). A wrong rate starves the sender. The RTT
//! that the sender measures grows. If the window exceeds the path's capacity, the excess that was
//! queued as data is queued as ACKs instead, until the end of the transfer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Entry, Family, Footprint, SchemeConfig};
use crate::shared::pacer::{HasTraffic, Limits, Pacer, Traffic, may_wait, share};
use lasthop_core::agent::{Agent, Context, FlowTable, Verdict};
use lasthop_core::role::Role;
use lasthop_core::segment::{Direction, Flags, FlowId, Segment};
use lasthop_core::units::{Duration, Rate, Time};

/// Settings of ACK pacing.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AckPacing {
    /// The rate at which ACKs release data.
    pub rate: PaceRate,
    /// Hold ACKs only after a stall. Off: whenever they arrive faster than the rate.
    pub detect: bool,
    /// A stall is a gap between ACKs of more than this.
    pub stall: Duration,
    /// A stall is also longer than this number of mean gaps.
    #[schemars(extend("unit" = "mean gaps"))]
    pub stall_gaps: u32,
    /// Number of ACKs within one mean gap after a stall that indicates ACK compression; ACKs are
    /// held from the last of them on.
    #[schemars(extend("unit" = "ACKs"))]
    pub compressed: u32,
    /// Maximum number of ACKs held per flow; the oldest is released for a further one.
    #[schemars(extend("unit" = "ACKs"))]
    pub max_acks: u32,
    /// Maximum time that an ACK is held. Twenty segments of 1040 B at 250 kbit/s take 0.67 s.
    pub max_hold: Duration,
    /// Maximum number of flows with state; the least recently active one is evicted.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Sender to use; empty: the profile's default.
    pub sender: String,
}

/// The rate at which ACKs release data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PaceRate {
    /// Current rate of the radio link divided by the number of flows with data outstanding; if
    /// unknown, as `measured`.
    Link,
    /// Mean rate at which the mobile acknowledged data before the stall.
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
        summary: "after a stall, the base station spaces accumulated ACKs at the rate of the radio \
                  link",
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
        Some(AnyAgent::from(AckPacingAgent::new(self.clone())))
    }

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// Inverse gain of the means, as for TCP's smoothed RTT: 1/8.
const GAIN: u64 = 8;

/// State of a flow's ACK stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Train {
    /// No stall.
    #[default]
    Calm,
    /// Time of the first ACK after a stall, and number of ACKs since.
    After(Time, u32),
    /// ACK compression was detected; ACKs are held.
    Held,
}

#[derive(Clone, Debug, Default)]
struct FlowState {
    pacer: Pacer,
    traffic: Traffic,
    train: Train,
    /// Arrival time of the last ACK.
    last_ack_at: Option<Time>,
    /// Mean gap between new ACKs outside of stalls, ns, and mean number of bytes that each
    /// acknowledges.
    gap: u64,
    bytes: u64,
}

impl HasTraffic for FlowState {
    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl FlowState {
    /// Updates the state for an arriving ACK; returns whether ACKs are to be held.
    fn on_ack(&mut self, config: &AckPacing, now: Time, ack: u64) -> bool {
        let since = self.last_ack_at.replace(now).map(|t| now - t);
        let new = ack.saturating_sub(self.traffic.acked());
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
    max_held: u64,
    trains: u64,
}

impl AckPacingAgent {
    /// An agent with these settings.
    pub fn new(config: AckPacing) -> Self {
        let limits = Limits { acks: config.max_acks as usize, hold: config.max_hold };
        let flows = FlowTable::new(config.max_flows as usize);
        AckPacingAgent { config, limits, flows, held: 0, max_held: 0, trains: 0 }
    }

    /// The state of a flow. An evicted flow releases its ACKs.
    fn flow(&mut self, ctx: &mut Context<'_>, flow: FlowId) -> &mut FlowState {
        let (state, evicted) = self.flows.entry(flow);
        if let Some(mut evicted) = evicted {
            evicted.pacer.flush(ctx);
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
        let pace = state.on_ack(config, ctx.now, segment.ack);
        state.traffic.acknowledge(segment.ack);
        self.trains += u64::from(state.train == Train::Held && before != Train::Held);
        if !may_wait(segment) {
            state.pacer.flush(ctx);
        } else if (pace || state.pacer.len() > 0)
            && state.pacer.must_wait(ctx.now, segment, rate, limits)
        {
            state.pacer.hold(ctx, segment, rate, limits);
            self.held += 1;
            self.max_held = self.max_held.max(state.pacer.len() as u64);
            return Verdict::Keep;
        } else if config.detect && state.train == Train::Held && before == Train::Held {
            // The ACK arrived at its due time and no ACK is held: the compressed train is over.
            state.train = Train::Calm;
        }
        state.pacer.passes(ctx.now, segment.ack.max(state.traffic.acked()));
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

    fn sends_acks(&self) -> bool {
        false
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        let rate = self.rate(ctx, id);
        if let Some(state) = self.flows.get_mut(id) {
            state.pacer.release_due(ctx, rate, self.limits);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("acks_held", self.held),
            ("most_held", self.max_held),
            ("trains", self.trains),
            ("flows", self.flows.len() as u64),
            ("flows_evicted", self.flows.evicted()),
        ]
    }

    fn state_bytes(&self) -> usize {
        self.flows.iter().map(|(_, s)| size_of::<FlowState>() + s.pacer.bytes()).sum()
    }

    /// Exports the estimates of the flow. Held ACKs are not transferred: a later ACK or the
    /// sender's timer replaces them.
    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let s = self.flows.remove(flow)?;
        Some(
            [s.traffic.highest(), s.traffic.acked(), s.gap, s.bytes]
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
        let traffic = Traffic::imported(highest, acked);
        *self.flows.entry(flow).0 = FlowState { traffic, gap, bytes, ..FlowState::default() };
        true
    }
}

#[cfg(test)]
#[path = "ack_pacing/tests.rs"]
mod tests;
