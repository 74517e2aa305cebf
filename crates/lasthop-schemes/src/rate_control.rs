//! TCP rate control: the base station limits each sender's rate by the advertised window and by the
//! spacing of its ACKs.
//!
//! Source: S. Karandikar, S. Kalyanaraman, P. Bagal, B. Packer, "TCP rate control", ACM CCR 30(1),
//! 2000, from which zeng2006 (chapter 5) takes the control of ACKs. The RTT measurement, the
//! minimum window and the monotone window edge are our design.
//!
//! Idea: a sender whose window is rate × RTT and whose ACKs arrive at that rate sends at that rate.
//! No queue builds up, and no loss is needed to find the rate. The RTT is the sum of two parts
//! measured at the base station: from a data segment to the ACK that covers it, and from an ACK
//! that opens the window to the first segment that needed it.
//!
//! Deployed at: the base station, below IP.
//!
//! Wire: the window in ACKs to the sender is reduced, never enlarged; ACKs are delayed, never
//! dropped or reordered.
//!
//! Assumes: readable TCP headers, both directions through one base station, a known rate.
//!
//! Bad at: encryption; a rate other than the path's (above it queues grow as without rate control,
//! below it capacity is wasted); ACKs with SACK blocks, which are not paced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Entry, Family, Footprint, SchemeConfig};
use crate::shared::pacer::{HasTraffic, Limits, Pacer, Traffic, may_wait, share};
use lasthop_core::agent::{Agent, Context, FlowTable, Rewrite, Verdict};
use lasthop_core::role::Role;
use lasthop_core::segment::{Direction, Flags, FlowId, Segment};
use lasthop_core::units::{Duration, Rate, Time};

/// Settings of TCP rate control.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateControl {
    /// Payload rate of each flow. Unset: an equal share of the radio link's rate among the flows
    /// with data outstanding.
    pub rate: Option<Rate>,
    /// Rewrite the advertised window.
    pub window: bool,
    /// Space the ACKs.
    pub pacing: bool,
    /// Segments added to rate × RTT, because the RTT is the minimum.
    #[schemars(extend("unit" = "segments"))]
    pub slack: u32,
    /// Minimum window that is set.
    #[schemars(extend("unit" = "segments"))]
    pub least_window: u32,
    /// Use the minimum RTT. Off: the smoothed RTT, which includes the queue that a flow has built,
    /// so that its window does not shrink.
    pub shortest_rtt: bool,
    /// Maximum number of ACKs held per flow; the oldest is released for a further one.
    #[schemars(extend("unit" = "ACKs"))]
    pub max_acks: u32,
    /// Maximum time that an ACK is held.
    pub max_hold: Duration,
    /// Maximum number of flows with state; the least recently active one is evicted.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Sender to use; empty: the profile's default.
    pub sender: String,
}

impl Default for RateControl {
    fn default() -> Self {
        RateControl {
            rate: None,
            window: true,
            pacing: true,
            slack: 2,
            least_window: 2,
            shortest_rtt: true,
            max_acks: 200,
            max_hold: Duration::secs(1),
            max_flows: 4096,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for RateControl {
    const ENTRY: Entry = Entry {
        name: "rate-control",
        family: Family::LinkLayer,
        summary: "the base station limits each sender's rate by a smaller window in its ACKs and \
                  by their spacing",
        paper: "Karandikar et al. 2000",
        changes: Footprint { base_station: true, ..Footprint::NONE },
        assumptions: &[
            "TCP headers are readable and may be rewritten at the base station",
            "data and ACKs pass the same base station",
            "the rate of the radio link is known",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.rate == Some(Rate(0)) {
            return Err("rate must be above 0".into());
        }
        if self.least_window == 0 || self.max_acks == 0 || self.max_flows == 0 {
            return Err("least_window, max_acks and max_flows must be at least 1".into());
        }
        Ok(())
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(RateControlAgent::new(self.clone())))
    }

    const STEERS_RECEIVE_WINDOW: bool = true;

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// Measurement of one part of the RTT.
#[derive(Clone, Copy, Debug, Default)]
struct RttPart {
    min: Option<Duration>,
    smoothed: Option<Duration>,
    /// Pending measurement: it ends when an offset above the first value is reached, and began at
    /// this time.
    pending: Option<(u64, Time)>,
}

impl RttPart {
    /// Begins a measurement if none is pending.
    fn begin(&mut self, now: Time, beyond: u64) {
        self.pending.get_or_insert((beyond, now));
    }

    /// Ends a pending measurement if `offset` is above its limit.
    fn reached(&mut self, now: Time, offset: u64) {
        let Some((_, at)) = self.pending.filter(|(beyond, _)| offset > *beyond) else { return };
        let sample = now - at;
        self.pending = None;
        self.min = Some(self.min.map_or(sample, |s| s.min(sample)));
        self.smoothed =
            Some(self.smoothed.map_or(sample, |s| Duration(s.0 - s.0 / 8 + sample.0 / 8)));
    }

    fn get(&self, min: bool) -> Option<Duration> {
        if min { self.min } else { self.smoothed }
    }
}

#[derive(Clone, Debug, Default)]
struct FlowState {
    pacer: Pacer,
    traffic: Traffic,
    /// Radio side: from data to their ACK, at the base station.
    radio: RttPart,
    /// Wired side: from an ACK to the first data that it allowed, at the base station.
    wired: RttPart,
    /// Right window edge granted to the sender (stream offset).
    window_edge: u64,
}

impl HasTraffic for FlowState {
    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl FlowState {
    /// Processes a data segment. Retransmitted data give no RTT sample (Karn's rule).
    fn data(&mut self, now: Time, segment: &Segment) {
        self.wired.reached(now, segment.end());
        if segment.end() > self.traffic.highest() {
            self.radio.begin(now, segment.end() - 1);
        } else if self.radio.pending.is_some_and(|(beyond, _)| segment.end() > beyond) {
            self.radio.pending = None;
        }
        self.traffic.data(now, segment);
    }

    /// The window for an ACK: rate × RTT, but at most the receiver's window, and at least so much
    /// that the right window edge does not move back.
    fn window(&self, config: &RateControl, ack: &Segment, rate: Option<Rate>, mss: u64) -> u32 {
        // A sender limited by cwnd reaches the window edge late, so the minimum is used for the
        // wired side.
        let round_trip =
            self.radio.get(config.shortest_rtt).zip(self.wired.get(true)).map(|(a, b)| a + b);
        let (Some(rate), Some(rtt), 1..) = (rate, round_trip, mss) else { return ack.window };
        let filled = (u128::from(rate.0) * u128::from(rtt.0) / 8_000_000_000) as u64
            + u64::from(config.slack) * mss;
        let min_window =
            (u64::from(config.least_window) * mss).max(self.window_edge.saturating_sub(ack.ack));
        u64::from(ack.window).min(filled.max(min_window)) as u32
    }

    /// Records the window edge of an ACK that is or will be forwarded to the sender.
    fn opens(&mut self, now: Time, ack: &Segment) {
        let window_edge = ack.ack.saturating_add(u64::from(ack.window));
        if window_edge > self.window_edge {
            self.wired.begin(now, self.window_edge);
            self.window_edge = window_edge;
        }
    }
}

/// The agent at the base station.
pub struct RateControlAgent {
    config: RateControl,
    limits: Limits,
    flows: FlowTable<FlowState>,
    held: u64,
    max_held: u64,
    windows: u64,
}

impl RateControlAgent {
    /// An agent with these settings.
    pub fn new(config: RateControl) -> Self {
        let limits = Limits { acks: config.max_acks as usize, hold: config.max_hold };
        let flows = FlowTable::new(config.max_flows as usize);
        RateControlAgent { config, limits, flows, held: 0, max_held: 0, windows: 0 }
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
        self.config.rate.or_else(|| share(&self.flows, flow, ctx, &state.traffic))
    }

    fn ack(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        self.flow(ctx, segment.flow);
        let rate = self.rate(ctx, segment.flow);
        let (config, limits) = (&self.config, self.limits);
        let (state, _) = self.flows.entry(segment.flow);
        state.radio.reached(ctx.now, segment.ack);
        let old = segment.ack < state.traffic.acked();
        state.traffic.acknowledge(segment.ack);
        let mut ack = *segment;
        // The window of an old ACK is ignored by the sender; a zero window must not be changed.
        if config.window && !old && segment.window > 0 {
            ack.window = state.window(config, segment, rate, u64::from(state.traffic.payload()));
            self.windows += u64::from(ack.window != segment.window);
        }
        if !may_wait(segment) {
            state.pacer.flush(ctx);
        } else if config.pacing && state.pacer.must_wait(ctx.now, &ack, rate, limits) {
            state.opens(ctx.now, &ack);
            state.wired.pending = None;
            state.pacer.hold(ctx, &ack, rate, limits);
            self.held += 1;
            self.max_held = self.max_held.max(state.pacer.len() as u64);
            return Verdict::Keep;
        }
        state.opens(ctx.now, &ack);
        state.pacer.passes(ctx.now, state.traffic.acked());
        if ack.window == segment.window {
            Verdict::Forward
        } else {
            Verdict::Rewrite(Rewrite { window: Some(ack.window), ..Rewrite::default() })
        }
    }
}

impl Agent for RateControlAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        let (flags, now) = (segment.flags, ctx.now);
        match direction {
            _ if flags.has(Flags::SYN) || flags.has(Flags::RST) => {
                if let Some(mut state) = self.flows.remove(segment.flow) {
                    state.pacer.flush(ctx);
                }
                // The SYN-ACK allows the first data.
                if direction == Direction::Uplink && flags.has(Flags::SYN) && flags.has(Flags::ACK)
                {
                    self.flow(ctx, segment.flow).opens(now, segment);
                }
            }
            Direction::Uplink if flags.has(Flags::ACK) && !segment.forward => {
                return self.ack(ctx, segment);
            }
            Direction::Downlink if segment.forward && segment.len > 0 => {
                self.flow(ctx, segment.flow).data(now, segment)
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
            ("windows_rewritten", self.windows),
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
        let leg = |l: RttPart| l.min.map_or(u64::MAX, |d| d.0);
        Some(
            [s.traffic.highest(), s.traffic.acked(), s.window_edge, leg(s.radio), leg(s.wired)]
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
        let ([highest, acked, window_edge, radio, wired], 40) = (&words[..], state.len()) else {
            return false;
        };
        let leg = |ns: u64| {
            let known = Some(Duration(ns)).filter(|_| ns != u64::MAX);
            RttPart { min: known, smoothed: known, pending: None }
        };
        let traffic = Traffic::imported(*highest, *acked);
        *self.flows.entry(flow).0 = FlowState {
            traffic,
            window_edge: *window_edge,
            radio: leg(*radio),
            wired: leg(*wired),
            ..FlowState::default()
        };
        true
    }
}

#[cfg(test)]
#[path = "rate_control/tests.rs"]
mod tests;
