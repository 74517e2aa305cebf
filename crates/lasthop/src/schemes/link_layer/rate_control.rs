//! TCP rate control: the base station gives each sender a rate, by the window it advertises and by
//! the pace of its ACKs.
//!
//! Source: S. Karandikar, S. Kalyanaraman, P. Bagal, B. Packer, "TCP rate control", ACM CCR 30(1),
//! 2000, of which zeng2006 (chapter 5) takes the control of ACKs; how round trips are measured, the
//! least window and its monotone edge are ours. Idea: a sender that is given rate x round-trip time
//! as its window, and whose ACKs come at that rate, sends at that rate; no queue builds up, and
//! nothing is lost to find it. Deployed at: the base station, below IP. Wire: the window of ACKs to
//! the sender becomes smaller, never larger; ACKs are late, never dropped, and never change their
//! order. The round trip is the sum of its two legs as seen here: from a data segment to the ACK
//! that covers it, and from an ACK that opens the window to the first segment that needed it.
//! Assumes: readable TCP headers, both directions through one base station, a known rate. Bad at:
//! encryption; a rate that is not that of the path (above it, queues grow as ever; below it,
//! capacity is wasted); ACKs with SACK blocks are not paced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pacer::{HasTraffic, Limits, Pacer, Traffic, may_wait, share};
use crate::agent::{Agent, Context, FlowTable, Rewrite, Verdict};
use crate::role::Role;
use crate::schemes::catalogue::{AnyAgent, Entry, Family, Footprint, SchemeConfig};
use crate::segment::{Direction, Flags, FlowId, Segment};
use crate::units::{Duration, Rate, Time};

/// Settings of TCP rate control.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateControl {
    /// Payload that each flow may send in a second; without it an equal share of what the radio
    /// link carries, among the flows that have data outstanding.
    pub rate: Option<Rate>,
    /// Rewrite the window.
    pub window: bool,
    /// Space the ACKs.
    pub pacing: bool,
    /// Add so many segments to rate x round-trip time, for the round trip is the shortest seen.
    #[schemars(extend("unit" = "segments"))]
    pub slack: u32,
    /// The window is never set below so many segments.
    #[schemars(extend("unit" = "segments"))]
    pub least_window: u32,
    /// Measure the shortest round trip; off: the smoothed one, in which the queue that a flow has
    /// built keeps its window as large as it was.
    pub shortest_rtt: bool,
    /// ACKs held per flow; for one more the oldest goes on.
    #[schemars(extend("unit" = "ACKs"))]
    pub max_acks: u32,
    /// No ACK is held longer.
    pub max_hold: Duration,
    /// Flows for which state is held; the one silent longest goes first.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Sender to run over; empty: the profile's.
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
        summary: "gives each sender a rate from the base station: a smaller window in its ACKs, \
                  and their pace",
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
        Some(AnyAgent::RateControl(RateControlAgent::new(self.clone())))
    }

    const STEERS_RECEIVE_WINDOW: bool = true;

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// A leg of the round trip as it has been measured.
#[derive(Clone, Copy, Debug, Default)]
struct Leg {
    shortest: Option<Duration>,
    smoothed: Option<Duration>,
    /// What is being measured: it ends with what passes this offset, and began then.
    pending: Option<(u64, Time)>,
}

impl Leg {
    /// Begins a measurement if none is under way.
    fn begin(&mut self, now: Time, beyond: u64) {
        self.pending.get_or_insert((beyond, now));
    }

    /// `offset` has been reached.
    fn reached(&mut self, now: Time, offset: u64) {
        let Some((_, at)) = self.pending.filter(|(beyond, _)| offset > *beyond) else { return };
        let sample = now - at;
        self.pending = None;
        self.shortest = Some(self.shortest.map_or(sample, |s| s.min(sample)));
        self.smoothed =
            Some(self.smoothed.map_or(sample, |s| Duration(s.0 - s.0 / 8 + sample.0 / 8)));
    }

    fn get(&self, shortest: bool) -> Option<Duration> {
        if shortest { self.shortest } else { self.smoothed }
    }
}

#[derive(Clone, Debug, Default)]
struct FlowState {
    pacer: Pacer,
    traffic: Traffic,
    /// Data here to their ACK here.
    radio: Leg,
    /// An ACK here to the first data here that it allowed.
    wired: Leg,
    /// How far the sender may have sent, by what has gone to it.
    edge: u64,
}

impl HasTraffic for FlowState {
    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl FlowState {
    /// A data segment passes. What had been sent before tells nothing of the time its ACK takes
    /// (Karn's rule).
    fn data(&mut self, now: Time, segment: &Segment) {
        self.wired.reached(now, segment.end());
        if segment.end() > self.traffic.highest {
            self.radio.begin(now, segment.end() - 1);
        } else if self.radio.pending.is_some_and(|(beyond, _)| segment.end() > beyond) {
            self.radio.pending = None;
        }
        self.traffic.data(now, segment);
    }

    /// The window for an ACK: what the rate fills in a round trip, but neither more than the
    /// receiver offers, nor so little that what the sender may send already is taken back.
    fn window(&self, config: &RateControl, ack: &Segment, rate: Option<Rate>, mss: u64) -> u32 {
        // A sender that its own window limits comes late to the edge: of the wired leg the shortest
        // is the true one.
        let round_trip =
            self.radio.get(config.shortest_rtt).zip(self.wired.get(true)).map(|(a, b)| a + b);
        let (Some(rate), Some(rtt), 1..) = (rate, round_trip, mss) else { return ack.window };
        let filled = (u128::from(rate.0) * u128::from(rtt.0) / 8_000_000_000) as u64
            + u64::from(config.slack) * mss;
        let least = (u64::from(config.least_window) * mss).max(self.edge.saturating_sub(ack.ack));
        u64::from(ack.window).min(filled.max(least)) as u32
    }

    /// An ACK is to go to the sender, now or when its turn comes.
    fn opens(&mut self, now: Time, ack: &Segment) {
        let edge = ack.ack.saturating_add(u64::from(ack.window));
        if edge > self.edge {
            self.wired.begin(now, self.edge);
            self.edge = edge;
        }
    }
}

/// The agent at the base station.
pub struct RateControlAgent {
    config: RateControl,
    limits: Limits,
    flows: FlowTable<FlowState>,
    held: u64,
    most: u64,
    windows: u64,
}

impl RateControlAgent {
    /// An agent with these settings.
    pub fn new(config: RateControl) -> Self {
        let limits = Limits { acks: config.max_acks as usize, hold: config.max_hold };
        let flows = FlowTable::new(config.max_flows as usize);
        RateControlAgent { config, limits, flows, held: 0, most: 0, windows: 0 }
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
        self.config.rate.or_else(|| share(&self.flows, flow, ctx, &state.traffic))
    }

    fn ack(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        self.flow(ctx, segment.flow);
        let rate = self.rate(ctx, segment.flow);
        let (config, limits) = (&self.config, self.limits);
        let (state, _) = self.flows.entry(segment.flow);
        state.radio.reached(ctx.now, segment.ack);
        let old = segment.ack < state.traffic.acked;
        state.traffic.acked = state.traffic.acked.max(segment.ack);
        let mut ack = *segment;
        // An old ACK's window is none; that of a closed window is the receiver's word.
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
            self.most = self.most.max(state.pacer.len() as u64);
            return Verdict::Keep;
        }
        state.opens(ctx.now, &ack);
        state.pacer.passes(ctx.now, state.traffic.acked);
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
                // The answer to a SYN lets the first data go.
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
            ("windows_rewritten", self.windows),
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
        let leg = |l: Leg| l.shortest.map_or(u64::MAX, |d| d.0);
        Some(
            [s.traffic.highest, s.traffic.acked, s.edge, leg(s.radio), leg(s.wired)]
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
        let ([highest, acked, edge, radio, wired], 40) = (&words[..], state.len()) else {
            return false;
        };
        let leg = |ns: u64| {
            let known = Some(Duration(ns)).filter(|_| ns != u64::MAX);
            Leg { shortest: known, smoothed: known, pending: None }
        };
        let traffic = Traffic::known(*highest, *acked);
        *self.flows.entry(flow).0 = FlowState {
            traffic,
            edge: *edge,
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
