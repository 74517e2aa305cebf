//! Zhuge: the access point predicts the delay of arriving data, and delays ACKs on their way back
//! by what the prediction rises, so that the sender sees a queue before its data have passed it.
//!
//! Source: Z. Meng, Y. Guo, C. Sun, B. Wang, J. Sherry, H. H. Liu, M. Xu, "Achieving consistent low
//! latency for wireless real-time communications with the shortest control loop", SIGCOMM 2022, and
//! the authors' agent for ns-3 (transys-project/zhuge), from which the rules of the ACKs and the
//! constants are.
//!
//! Idea: when the rate of the radio link falls, the queue of the access point grows, and the sender
//! learns of it from ACKs of data that have passed the queue: the control loop is longest when it
//! should be shortest. The Fortune Teller predicts the delay of each data segment that arrives: the
//! queue divided by the rate at which it was served in a window, the time that its head has waited,
//! and the mean time between departures. A queue that one aggregate can take counts as none while
//! it grows. The Feedback Updater notes how the prediction changes. An ACK is delayed by the delay
//! of the ACK before it, if that is still held, and by a rise that is drawn from those of the last
//! 40 ms; falls are tokens that cancel later rises. ACKs keep their order.
//!
//! Here the queue and the rate are those of the flow, which the link reports; the agent for ns-3
//! takes those of the device. Its window is a parameter of its experiments; its scaling by the
//! number of packets in the window before is left out. For protocols whose receivers report arrival
//! times (RTP), the paper writes predictions into the reports; this is for TCP, which it calls
//! out-of-band.
//!
//! Deployed at: the access point, below IP.
//!
//! Wire: unchanged. ACKs are delayed, never dropped or reordered.
//!
//! Assumes: readable TCP headers, a sender that steers by delay, the access point as the
//! bottleneck, reports of the link layer about departures; ACKs without SACK blocks and ECE (others
//! are not held, and release the held ones).
//!
//! Bad at: senders that steer by losses, for which it only lengthens the round trip; encrypted
//! transports, whose ACKs it does not find.

use std::collections::VecDeque;

use crate::prelude::*;
use crate::shared::pacer::may_wait;
use lasthop_core::random::Stream;

/// Settings of Zhuge.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Zhuge {
    /// Window in which the rate of departures is measured.
    pub window: Duration,
    /// The rate counts as at least this (ns-3: 500 × 1024 bit/s).
    pub min_rate: Rate,
    /// A growing queue that is served within this time counts as empty: one aggregate (ns-3: 5 ms).
    /// 0 s: none, for links without aggregation.
    pub aggregate: Duration,
    /// Changes of the prediction are remembered for this time (ns-3: 40 ms).
    pub history: Duration,
    /// Longest delay of an ACK, and largest change that is noted (ns-3: 10 ms, which "should be
    /// measured as the minimum RTT").
    pub max_hold: Duration,
    /// Maximum number of ACKs held per flow; the oldest is released for a further one.
    #[schemars(extend("unit" = "ACKs"))]
    pub max_acks: u32,
    /// Maximum number of flows with state; the least recently active one is evicted.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Sender to use; empty: the profile's default.
    pub sender: String,
}

impl Default for Zhuge {
    fn default() -> Self {
        Zhuge {
            window: Duration::millis(40),
            min_rate: Rate(512_000),
            aggregate: Duration::millis(5),
            history: Duration::millis(40),
            max_hold: Duration::millis(10),
            max_acks: 1000,
            max_flows: 4096,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for Zhuge {
    const ENTRY: Entry = Entry {
        name: "zhuge",
        family: Family::LinkLayer,
        summary: "predicts the delay of arriving data, and delays ACKs by what it rises",
        paper: "Meng et al., SIGCOMM 2022",
        changes: Footprint { base_station: true, ..Footprint::NONE },
        assumptions: &[
            "TCP headers are readable at the access point",
            "the sender steers by delay",
            "the queue of the access point is the bottleneck",
            "ACKs without SACK blocks",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.max_acks == 0 || self.max_flows == 0 {
            return Err("max_acks and max_flows must be at least 1".into());
        }
        if self.window == Duration::ZERO || self.min_rate.0 == 0 {
            return Err("window must be above 0 s, and min_rate above 0 bit/s".into());
        }
        Ok(())
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(ZhugeAgent::new(self.clone())))
    }

    const NEEDS_LINK_REPORTS: bool = true;

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// What left the queue at one instant.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Time,
    bytes: u64,
    /// Time since the departure before, without the time in which the queue was empty.
    busy: Duration,
}

/// Predicts the delay of a flow's data.
#[derive(Clone, Debug, Default)]
struct FortuneTeller {
    departures: VecDeque<Departure>,
    /// Packets and bytes that wait.
    waiting: (u64, u64),
    /// Since when the first of them has been the first.
    head_since: Time,
    /// Bytes that waited at the prediction before, and the prediction.
    last: Option<(u64, Duration)>,
}

impl FortuneTeller {
    fn arrives(&mut self, now: Time, size: u32) {
        if self.waiting.0 == 0 {
            self.head_since = now;
        }
        self.waiting = (self.waiting.0 + 1, self.waiting.1 + u64::from(size));
    }

    /// A packet leaves the queue, `sent` or dropped.
    fn leaves(&mut self, now: Time, size: u32, sent: bool) {
        self.waiting.0 = self.waiting.0.saturating_sub(1);
        self.waiting.1 = self.waiting.1.saturating_sub(u64::from(size));
        if !sent {
            return;
        }
        match self.departures.back_mut().filter(|last| last.at == now) {
            Some(last) => last.bytes += u64::from(size),
            None => self.departures.push_back(Departure {
                at: now,
                bytes: size.into(),
                busy: now.since(self.head_since),
            }),
        }
        self.head_since = now;
    }

    /// The delay of a packet that arrives now. `None` before the first departure.
    fn predict(&mut self, now: Time, config: &Zhuge) -> Option<Duration> {
        while self.departures.len() > 1
            && self.departures.front().is_some_and(|d| now.since(d.at) > config.window)
        {
            self.departures.pop_front();
        }
        let head = if self.waiting.0 > 0 { now.since(self.head_since) } else { Duration::ZERO };
        let busy = self.departures.iter().fold(head, |sum, d| sum + d.busy);
        let bytes: u64 = self.departures.iter().map(|d| d.bytes).sum();
        let between = busy.0.checked_div(self.departures.len() as u64)?;
        let measured = (u128::from(bytes) * 8_000_000_000).checked_div(u128::from(busy.0))?;
        let rate = Rate(measured.min(u128::from(u64::MAX)) as u64);
        let mut queue = Rate(rate.0.max(config.min_rate.0)).time_for(self.waiting.1);
        let grows = self.last.is_none_or(|last| self.waiting.1 >= last.0);
        if queue <= config.aggregate && grows {
            queue = Duration::ZERO;
        }
        Some(queue + head + Duration(between))
    }

    /// The prediction for a packet that arrives now, and the one before it. `None` if there is none
    /// before, or the queue has been empty since.
    fn change(&mut self, now: Time, config: &Zhuge) -> Option<(Duration, Duration)> {
        let predicted = self.predict(now, config)?;
        let before = self.last.replace((self.waiting.1, predicted));
        let before = before.filter(|before| (before.0, self.waiting.1) != (0, 0))?;
        Some((before.1, predicted))
    }
}

/// How the prediction of a flow has changed.
#[derive(Clone, Debug, Default)]
struct PredictionHistory {
    rises: VecDeque<(Time, Duration)>,
    /// Falls that have not yet cancelled a rise.
    tokens: VecDeque<(Time, Duration)>,
    draws: u64,
}

impl PredictionHistory {
    fn forget(&mut self, now: Time, history: Duration) {
        for list in [&mut self.rises, &mut self.tokens] {
            while list.front().is_some_and(|entry| now.since(entry.0) > history) {
                list.pop_front();
            }
        }
    }

    fn note(&mut self, now: Time, (before, after): (Duration, Duration), config: &Zhuge) {
        self.forget(now, config.history);
        let (list, change) = match after >= before {
            true => (&mut self.rises, after.0 - before.0),
            false => (&mut self.tokens, before.0 - after.0),
        };
        list.push_back((now, Duration(change).min(config.max_hold)));
    }

    /// A rise of the last time, less the tokens. `None` if the prediction has not risen.
    fn draw(&mut self, now: Time, config: &Zhuge, draws: Stream) -> Option<Duration> {
        self.forget(now, config.history);
        let place = draws.uniform(self.draws) * self.rises.len() as f64;
        let mut rise = self.rises.get(place as usize)?.1;
        self.draws += 1;
        while let Some(token) = self.tokens.front_mut() {
            if token.1 >= rise {
                token.1 = Duration(token.1.0 - rise.0);
                return Some(Duration::ZERO);
            }
            rise = Duration(rise.0 - token.1.0);
            self.tokens.pop_front();
        }
        Some(rise)
    }
}

#[derive(Clone, Debug, Default)]
struct FlowState {
    fortune: FortuneTeller,
    changes: PredictionHistory,
    /// Held ACKs with their times of release, in order.
    held: VecDeque<(Segment, Time)>,
    /// When the last ACK arrived, and when it is released.
    last_ack: Option<(Time, Time)>,
}

impl FlowState {
    /// When an ACK that arrives now is released.
    fn release_time(&mut self, now: Time, config: &Zhuge, draws: Stream) -> Time {
        let (arrived, released) = self.last_ack.unwrap_or((now, now));
        let rise = self.changes.draw(now, config, draws);
        let at = match rise {
            // The data before have met the delay that the ACK before has had.
            Some(rise) if released > now => now + released.since(arrived) + rise,
            Some(rise) => now + rise,
            None => now,
        };
        at.min(now + config.max_hold).max(released).max(now)
    }

    /// Releases the ACKs that are due, or all of them, and sets the timer for the next one.
    fn release(&mut self, ctx: &mut Context<'_>, all: bool) {
        while let Some(&(segment, at)) = self.held.front() {
            if at > ctx.now && !all {
                return ctx.wake(segment.flow, at);
            }
            self.held.pop_front();
            ctx.forward(Direction::Uplink, segment);
            ctx.release(segment.payload);
        }
    }
}

/// The agent at the access point.
pub struct ZhugeAgent {
    config: Zhuge,
    flows: FlowTable<FlowState>,
    draws: Stream,
    held: u64,
    held_us: u64,
    passed: u64,
}

impl ZhugeAgent {
    /// An agent with these settings.
    pub fn new(config: Zhuge) -> Self {
        let flows = FlowTable::new(config.max_flows as usize);
        let draws = Stream::new(0, "rises of the prediction");
        ZhugeAgent { config, flows, draws, held: 0, held_us: 0, passed: 0 }
    }

    /// The state of a flow. An evicted flow releases its ACKs.
    fn flow(&mut self, ctx: &mut Context<'_>, flow: FlowId) -> &mut FlowState {
        let (state, evicted) = self.flows.entry(flow);
        if let Some(mut evicted) = evicted {
            evicted.release(ctx, true);
        }
        state
    }

    fn ack(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        self.flow(ctx, segment.flow);
        let (state, config) = (self.flows.entry(segment.flow).0, &self.config);
        if !may_wait(segment) {
            state.release(ctx, true);
            state.last_ack = Some((ctx.now, ctx.now));
            return Verdict::Forward;
        }
        let at = state.release_time(ctx.now, config, self.draws);
        state.last_ack = Some((ctx.now, at));
        if at <= ctx.now && state.held.is_empty() {
            self.passed += 1;
            return Verdict::Forward;
        }
        if state.held.len() >= config.max_acks as usize
            && let Some((oldest, _)) = state.held.pop_front()
        {
            ctx.forward(Direction::Uplink, oldest);
            ctx.release(oldest.payload);
        }
        self.held += 1;
        self.held_us += at.since(ctx.now).0 / 1000;
        state.held.push_back((*segment, at));
        state.release(ctx, false);
        Verdict::Keep
    }
}

impl Agent for ZhugeAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        match direction {
            _ if segment.flags.any(Flags::SYN.with(Flags::RST)) => {
                if let Some(mut state) = self.flows.remove(segment.flow) {
                    state.release(ctx, true);
                }
            }
            Direction::Uplink if !segment.forward && segment.flags.has(Flags::ACK) => {
                return self.ack(ctx, segment);
            }
            Direction::Downlink if segment.forward && segment.len > 0 => {
                let now = ctx.now;
                self.flow(ctx, segment.flow);
                let (state, config) = (self.flows.entry(segment.flow).0, &self.config);
                if let Some(change) = state.fortune.change(now, config) {
                    state.changes.note(now, change, config);
                }
                state.fortune.arrives(now, segment.size);
            }
            _ => {}
        }
        Verdict::Forward
    }

    fn sends_acks(&self) -> bool {
        false
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        if let Some(state) = self.flows.get_mut(id) {
            state.release(ctx, false);
        }
    }

    fn subscribes(&self) -> Subscriptions {
        Subscriptions::DEQUEUED.with(Subscriptions::REFUSED)
    }

    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        let is_data = direction == Direction::Downlink && segment.forward && segment.len > 0;
        let sent = match event {
            LinkEvent::Dequeued => true,
            LinkEvent::Refused => false,
            _ => return,
        };
        if let Some(state) = self.flows.get_mut(segment.flow).filter(|_| is_data) {
            state.fortune.leaves(ctx.now, segment.size, sent);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("acks_held", self.held),
            ("held_us", self.held_us),
            ("acks_passed", self.passed),
            ("flows", self.flows.len() as u64),
            ("flows_evicted", self.flows.evicted()),
        ]
    }

    fn state_bytes(&self) -> usize {
        let entries = |s: &FlowState| {
            s.held.len() * size_of::<(Segment, Time)>()
                + s.fortune.departures.len() * size_of::<Departure>()
                + (s.changes.rises.len() + s.changes.tokens.len()) * size_of::<(Time, Duration)>()
        };
        self.flows.iter().map(|(_, s)| size_of::<FlowState>() + entries(s)).sum()
    }
}

#[cfg(test)]
#[path = "zhuge/tests.rs"]
mod tests;
