//! FastACK: the access point sends the TCP ACK for data as soon as the client's block ACK reports
//! them, and drops the client's own ACK.
//!
//! Source: A. Bhartia, B. Chen, F. Wang, D. Pallas, R. Musaloiu-E, T. T.-T. Lai, H. Ma,
//! "Measurement-based, practical techniques to improve 802.11ac performance", IMC 2017; US patent
//! 10299167 (Meraki), and the agent for ns-3 that the authors of Zhuge (SIGCOMM 2022) have
//! published (transys-project/zhuge). Of the paper only the abstract was at hand: what these
//! sources do not say is a setting, and our choice.
//!
//! Idea: an aggregate is as long as the queue of its station, and this queue as long as TCP's ACKs
//! come back. The client's ACKs contend for the medium, late and in bursts. The link layer's ACK
//! reports the same segments earlier and without a further frame. The access point acknowledges
//! data up to the first byte that the link layer has not reported, echoes their timestamps, and
//! offers the window that the client offered last, less what the client has yet to acknowledge. It
//! keeps the segments until the client's ACK has passed them. Three duplicate ACKs of the client
//! for data that the sender was told to have arrived retransmit them from here, and so does a
//! timer. Other duplicate ACKs are forwarded: the sender repairs what was lost before the access
//! point, dropped by its queue, or given up by the link layer.
//!
//! Our choice: the timer; the retransmission of the next segment when a retransmission is
//! acknowledged (as RFC 6582); the time in which duplicate ACKs do not count; ECE, CWR and the
//! count of AccECN are those of the client's last ACK; FINs are left to the client, and data that
//! do not fit into the cache. While the sender repairs, the ACKs are the client's, in the order in
//! which its reorder buffer passes data: the access point would acknowledge a retransmission before
//! MPDUs of the same aggregate that are still missing, without SACK blocks, and RACK would take
//! what was sent in between for lost.
//!
//! Deployed at: the access point, below IP (Cisco Meraki).
//!
//! Wire: unchanged; ACKs are made and dropped.
//!
//! State: the unacknowledged segments and the last ACK of each flow.
//!
//! Assumes: readable TCP headers, reports of the link layer for each segment, clients that keep
//! what their link layer has acknowledged, data and ACKs through one access point.
//!
//! Bad at: handovers. What the sender has been told to have arrived exists only in the cache of the
//! old access point; if the client still lacks it, the connection cannot go on. Encrypted
//! transports.

use std::collections::BTreeMap;

use crate::prelude::*;
use crate::shared::cache::Room;
use lasthop_core::segment::Payload;

/// Settings of FastACK.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fastack {
    /// A flow is left to itself until the client has acknowledged this much (the patent names a
    /// condition, not which).
    #[schemars(extend("unit" = "bytes"))]
    pub after_bytes: u64,
    /// Segments reported by the link layer for each ACK of the access point.
    #[schemars(extend("unit" = "segments"))]
    pub ack_every: u32,
    /// Offer the client's window less what it has yet to acknowledge. Off: the whole window, as the
    /// agent for ns-3.
    pub reduce_window: bool,
    /// Duplicate ACKs of the client that retransmit a segment from the cache.
    #[schemars(extend("unit" = "duplicate ACKs"))]
    pub dupack_threshold: u32,
    /// Duplicate ACKs that arrive within this time after the link layer's report of a segment do
    /// not count: the client may have sent them before it had the segment.
    pub settling: Duration,
    /// Time without progress of the client after which a segment is retransmitted from the cache;
    /// doubled with each retransmission.
    pub timeout: Duration,
    /// Local retransmissions without progress of the client, at most.
    pub max_retransmissions: u32,
    /// Segments cached per flow; the others are left to the client.
    #[schemars(extend("unit" = "packets"))]
    pub cache_packets: u32,
    /// Bytes cached for all flows together, headers included.
    #[schemars(extend("unit" = "bytes"))]
    pub cache_bytes: u64,
    /// Maximum number of flows with state; the least recently active one is evicted.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Sender to use; empty: the profile's default.
    pub sender: String,
}

impl Default for Fastack {
    fn default() -> Self {
        Fastack {
            after_bytes: 0,
            ack_every: 1,
            reduce_window: true,
            dupack_threshold: 3,
            settling: Duration::millis(50),
            timeout: Duration::millis(200),
            max_retransmissions: 10,
            cache_packets: 8192,
            cache_bytes: 64 << 20,
            max_flows: 4096,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for Fastack {
    const ENTRY: Entry = Entry {
        name: "fastack",
        family: Family::LinkLayer,
        summary: "the access point acknowledges what the link layer has delivered, and drops the \
                  client's own ACKs",
        paper: "Bhartia et al., IMC 2017",
        changes: Footprint { base_station: true, ..Footprint::NONE },
        assumptions: &[
            "TCP headers are readable at the access point",
            "the link layer reports each segment that the client has received",
            "clients keep what their link layer has acknowledged",
            "data and ACKs pass the same access point",
        ],
        role: Some(Role::BaseStation),
        unsafe_: Some(
            "where clients change the access point: data that the sender was told to have arrived \
             may exist only in the cache of the old one",
        ),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        let counts = [self.ack_every, self.dupack_threshold, self.cache_packets, self.max_flows];
        if counts.contains(&0) || self.timeout == Duration::ZERO {
            return Err("ack_every, dupack_threshold, cache_packets and max_flows must be at \
                        least 1, and timeout above 0 s"
                .into());
        }
        Ok(())
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(FastackAgent::new(self.clone())))
    }

    const NEEDS_LINK_REPORTS: bool = true;

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// Flags of ACKs that the access point copies from the client's last one: ECN's (RFC 3168, 9768).
const ECN: Flags = Flags::ECE.with(Flags::CWR).with(Flags::AE);

/// Largest exponent of the timer.
const DOUBLINGS: u32 = 6;

/// A segment that the client has not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Stored {
    segment: Segment,
    /// When the link layer has reported it.
    delivered: Option<Time>,
}

impl Stored {
    /// Stream offset after its data; a FIN is left to the client.
    fn end(&self) -> u64 {
        data_end(&self.segment)
    }
}

fn data_end(segment: &Segment) -> u64 {
    segment.seq.saturating_add(u64::from(segment.len))
}

/// What the client offers.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// Its acknowledgment number.
    ack: u64,
    /// Its window, bytes.
    window: u32,
    /// Duplicate ACKs since the number rose.
    dupacks: u32,
}

#[derive(Clone, Debug, Default)]
struct FlowState {
    /// By first byte.
    cache: BTreeMap<u64, Stored>,
    /// Once its first acknowledgment number is known.
    client: Option<Client>,
    /// A pure ACK of the client without options besides timestamps, from which the access point
    /// makes its own.
    template: Option<Segment>,
    /// All data below have been reported by the link layer or acknowledged by the client.
    frontier: u64,
    /// The timestamp to echo.
    ts_echo: u32,
    /// Highest acknowledgment number sent to the sender, and the window with it, bytes.
    told: (u64, u32),
    /// Segments below `frontier` since the last ACK of the access point.
    unacknowledged: u32,
    /// Local retransmissions without progress of the client.
    retransmissions: u32,
    /// While the client's number is below, each new one retransmits the next segment.
    recover: u64,
    /// While the client's number is below, the sender repairs: the client's ACKs are forwarded.
    sender_recover: u64,
}

impl FlowState {
    /// The window for the sender, counted from `told`, bytes.
    fn window(&self, reduce: bool) -> u32 {
        let Some(client) = self.client else { return 0 };
        let ahead = if reduce { self.told.0.saturating_sub(client.ack) } else { 0 };
        client.window.saturating_sub(ahead.try_into().unwrap_or(u32::MAX))
    }

    /// The cached segment with this byte.
    fn at(&self, offset: u64) -> Option<&Stored> {
        self.cache.range(..=offset).next_back().map(|(_, s)| s).filter(|s| s.end() > offset)
    }

    /// Moves `frontier` over the segments that were reported and are within the client's window:
    /// of others its TCP may have discarded what its link layer has acknowledged. Returns how many.
    fn advance(&mut self) -> u32 {
        let edge = self.client.map_or(0, |client| client.ack.saturating_add(client.window.into()));
        let passes = |s: &&Stored| s.delivered.is_some() && s.end() <= edge;
        let mut passed = 0;
        while let Some(stored) = self.at(self.frontier).filter(passes).copied() {
            self.frontier = stored.end();
            // That of the first segment that the next ACK acknowledges (RFC 7323, section 4.3).
            if self.unacknowledged + passed == 0 {
                self.ts_echo = stored.segment.ts_value;
            }
            passed += 1;
        }
        passed
    }

    /// Removes the segments that the client has acknowledged.
    fn free(&mut self, ctx: &mut Context<'_>, room: &mut Room, ack: u64) {
        while let Some(first) = self.cache.first_entry().filter(|e| e.get().end() <= ack) {
            room.release(ctx, &first.remove().segment);
        }
    }

    /// Sends an ACK to the sender, up to `frontier`. Returns false if no ACK of the client has
    /// shown what it looks like.
    fn acknowledge(&mut self, ctx: &mut Context<'_>, reduce: bool) -> bool {
        let Some(template) = self.template else { return false };
        self.told.0 = self.told.0.max(self.frontier);
        self.told.1 = self.window(reduce);
        self.unacknowledged = 0;
        let ts_echo = if self.ts_echo == 0 { template.ts_echo } else { self.ts_echo };
        let (ack, window) = self.told;
        ctx.inject(Direction::Uplink, Segment { ack, window, ts_echo, ..template });
        true
    }

    /// Retransmits the segment that the client expects, if it is cached and not too often.
    fn retransmit(&mut self, ctx: &mut Context<'_>, most: u32) -> bool {
        let expected = self.client.and_then(|client| self.at(client.ack)).copied();
        let Some(stored) = expected.filter(|_| self.retransmissions < most) else { return false };
        self.retransmissions += 1;
        ctx.inject(Direction::Downlink, stored.segment);
        true
    }

    /// A duplicate ACK for data that the sender was told to have arrived. True if it retransmits.
    fn on_dupack(&mut self, ctx: &mut Context<'_>, config: &Fastack) -> bool {
        let expected = self.client.and_then(|client| self.at(client.ack)?.delivered);
        let Some(client) = &mut self.client else { return false };
        if expected.is_none_or(|at| ctx.now.since(at) <= config.settling) {
            return false;
        }
        client.dupacks += 1;
        let is_last = client.dupacks == config.dupack_threshold;
        if is_last {
            self.recover = self.frontier;
        }
        is_last && self.retransmit(ctx, config.max_retransmissions)
    }

    /// A duplicate ACK is forwarded: the sender repairs what it has sent so far.
    fn leave_to_sender(&mut self) {
        if self.client.is_some_and(|client| client.ack >= self.sender_recover) {
            self.sender_recover = self.cache.last_key_value().map_or(0, |(_, last)| last.end());
        }
    }

    /// Sets the timer if the sender relies on the access point.
    fn arm(&self, ctx: &mut Context<'_>, flow: FlowId, config: &Fastack) {
        let waits = self.client.is_some_and(|client| client.ack < self.told.0);
        if waits && self.retransmissions < config.max_retransmissions {
            let doublings = self.retransmissions.min(DOUBLINGS);
            ctx.wake(flow, ctx.now + Duration(config.timeout.0 << doublings));
        } else {
            ctx.cancel(flow);
        }
    }
}

/// The agent at the access point.
pub struct FastackAgent {
    config: Fastack,
    flows: FlowTable<FlowState>,
    room: Room,
    sent: u64,
    suppressed: u64,
    local: u64,
    timer: u64,
    repeated: u64,
    uncached: u64,
}

impl FastackAgent {
    /// An agent with these settings.
    pub fn new(config: Fastack) -> Self {
        let (flows, room) =
            (FlowTable::new(config.max_flows as usize), Room::new(config.cache_bytes));
        FastackAgent {
            config,
            flows,
            room,
            sent: 0,
            suppressed: 0,
            local: 0,
            timer: 0,
            repeated: 0,
            uncached: 0,
        }
    }

    /// The state of a flow. An evicted flow releases its segments.
    fn flow(&mut self, ctx: &mut Context<'_>, flow: FlowId) {
        if let (_, Some(mut evicted)) = self.flows.entry(flow) {
            evicted.free(ctx, &mut self.room, u64::MAX);
        }
    }

    /// Processes data from the sender.
    fn data(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        self.flow(ctx, segment.flow);
        let (state, room) = (self.flows.entry(segment.flow).0, &mut self.room);
        if state.client.is_none() && segment.seq == 0 {
            state.client = Some(Client::default());
        }
        let acked = state.client.map_or(0, |client| client.ack);
        if data_end(segment) <= state.told.0 && data_end(segment) > acked {
            // The client has it, or gets it from here; the ACK was lost.
            self.repeated += 1;
            self.sent += u64::from(state.acknowledge(ctx, self.config.reduce_window));
            return Verdict::Drop("acknowledged before");
        }
        let old = state.cache.get(&segment.seq).copied();
        let grows = old.is_none_or(|old| data_end(segment) >= old.end());
        let has_room = old.is_some() || state.cache.len() < self.config.cache_packets as usize;
        if !grows || data_end(segment) <= acked {
            return Verdict::Forward;
        }
        if !has_room || !room.fits(segment.size) {
            self.uncached += 1;
            return Verdict::Forward;
        }
        room.retain(ctx, segment);
        if let Some(old) = old {
            room.release(ctx, &old.segment);
        }
        let same = old.filter(|old| old.end() == data_end(segment));
        let delivered = same.and_then(|old| old.delivered);
        state.cache.insert(segment.seq, Stored { segment: *segment, delivered });
        Verdict::Forward
    }

    /// Processes a segment of the client.
    fn ack(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        let (config, room) = (&self.config, &mut self.room);
        let Some(state) = self.flows.get_mut(segment.flow) else { return Verdict::Forward };
        let before = state.client;
        let client = state.client.get_or_insert(Client { ack: segment.ack, ..Client::default() });
        if segment.ack < client.ack {
            return Verdict::Forward;
        }
        let same_window = before.is_none_or(|before| before.window == segment.window);
        client.window = segment.window;
        let rose = before.is_none_or(|before| segment.ack > before.ack);
        let is_duplicate = !rose && segment.is_duplicate_ack(same_window);
        if rose {
            *client = Client { ack: segment.ack, window: segment.window, dupacks: 0 };
            state.retransmissions = 0;
            state.free(ctx, room, segment.ack);
            state.frontier = state.frontier.max(segment.ack);
            if segment.ack < state.recover {
                self.local += u64::from(state.retransmit(ctx, config.max_retransmissions));
            }
        }
        state.unacknowledged += state.advance();
        let echo = Flags(segment.flags.0 & ECN.0);
        let echo_before = state.template.map(|t| Flags(t.flags.0 & ECN.0));
        let is_pure = segment.len == 0 && !segment.flags.any(Flags::FIN);
        if is_pure && !segment.flags.any(Flags::OPTIONS.with(Flags::ELN)) {
            state.template = Some(Segment { payload: Payload::NONE, ..*segment });
        } else if let Some(template) = &mut state.template {
            template.ts_value = segment.ts_value;
            template.flags = template.flags.without(ECN).with(echo);
        }
        if is_duplicate && is_pure && segment.ack < state.told.0 {
            self.suppressed += 1;
            self.local += u64::from(state.on_dupack(ctx, config));
            state.arm(ctx, segment.flow, config);
            return Verdict::Drop("duplicate ACK, repaired locally");
        }
        state.arm(ctx, segment.flow, config);
        if segment.ack > state.told.0 || segment.ack == state.told.0 && !rose {
            // With a window of 0 it answers a probe.
            if is_duplicate && segment.window > 0 {
                state.leave_to_sender();
            }
            state.told = (segment.ack, segment.window);
            if state.frontier == segment.ack {
                state.unacknowledged = 0;
            }
            return Verdict::Forward;
        }
        let window = state.window(config.reduce_window);
        if !is_pure {
            let (ack, window) = (Some(state.told.0), Some(window));
            return Verdict::Rewrite(Rewrite { ack, window, eln: false });
        }
        self.suppressed += 1;
        // What only this ACK says: a window that opens, and marks.
        let opens = window > state.told.1 && window / 2 >= state.told.1;
        if opens || echo_before.is_some_and(|before| before != echo) {
            self.sent += u64::from(state.acknowledge(ctx, config.reduce_window));
        }
        Verdict::Drop("acknowledged before")
    }
}

impl Agent for FastackAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        match direction {
            _ if segment.flags.any(Flags::SYN.with(Flags::RST)) => {
                if let Some(mut state) = self.flows.remove(segment.flow) {
                    state.free(ctx, &mut self.room, u64::MAX);
                    ctx.cancel(segment.flow);
                }
                Verdict::Forward
            }
            Direction::Downlink if segment.forward && segment.len > 0 => self.data(ctx, segment),
            Direction::Uplink if !segment.forward && segment.flags.has(Flags::ACK) => {
                self.ack(ctx, segment)
            }
            _ => Verdict::Forward,
        }
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        let Some(state) = self.flows.get_mut(id) else { return };
        if state.client.is_some_and(|client| client.ack < state.told.0)
            && state.retransmit(ctx, self.config.max_retransmissions)
        {
            state.recover = state.frontier;
            self.local += 1;
            self.timer += 1;
        }
        state.arm(ctx, id, &self.config);
    }

    fn subscribes(&self) -> Subscriptions {
        Subscriptions::DELIVERED
    }

    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        let is_data = direction == Direction::Downlink && segment.forward && segment.len > 0;
        let LinkEvent::Delivered { .. } = event else { return };
        let Some(state) = self.flows.get_mut(segment.flow).filter(|_| is_data) else { return };
        let stored = state.cache.get_mut(&segment.seq);
        if let Some(stored) = stored.filter(|s| s.end() <= data_end(segment)) {
            stored.delivered = stored.delivered.or(Some(ctx.now));
        }
        state.unacknowledged += state.advance();
        let from = self.config.after_bytes.max(state.sender_recover);
        let begun = state.client.is_some_and(|client| client.ack >= from);
        if begun && state.frontier > state.told.0 && state.unacknowledged >= self.config.ack_every {
            let was_armed = state.client.is_some_and(|client| client.ack < state.told.0);
            self.sent += u64::from(state.acknowledge(ctx, self.config.reduce_window));
            if !was_armed {
                state.arm(ctx, segment.flow, &self.config);
            }
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("acks_sent", self.sent),
            ("acks_suppressed", self.suppressed),
            ("local_retransmissions", self.local),
            ("timer_retransmissions", self.timer),
            ("repeated_data", self.repeated),
            ("cache_full", self.uncached),
            ("flows", self.flows.len() as u64),
            ("flows_evicted", self.flows.evicted()),
        ]
    }

    fn state_bytes(&self) -> usize {
        let flows = self.flows.len() * size_of::<FlowState>();
        let stored: usize = self.flows.iter().map(|(_, s)| s.cache.len()).sum();
        flows + stored * size_of::<(u64, Stored)>() + self.room.held() as usize
    }
}

#[cfg(test)]
#[path = "fastack/tests.rs"]
mod tests;
