//! Snoop: the base station retransmits radio losses locally and hides the duplicate ACKs from the
//! sender.
//!
//! Source: H. Balakrishnan, S. Seshan, E. Amir, R. H. Katz, "Improving TCP/IP performance over
//! wireless networks", MobiCom 1995. The behaviour follows the agent in ns-2. Where it differs from
//! the paper's, a setting selects ns-2's; with all of these set the agent equals that of ns-2.35
//! frame by frame. yun2009 used ns-2's module, and its figures use these settings here; compared
//! with the defaults they change the goodput by 1 % at 3 % FER and by 9 % at 9 % FER (figure 6).
//!
//! Idea: store the unacknowledged downlink segments. A duplicate ACK for a cached segment means
//! that it was lost on the radio link: retransmit it from here and suppress the duplicate ACKs, so
//! that the sender does not take the loss for congestion. Segments lost before the base station or
//! in its queue are not in the cache; their duplicate ACKs are forwarded. For uplink data, yun2009
//! (section 5.2) puts the same agent into the station, between its stack and the radio link
//! (`uplink`). There it cannot distinguish radio losses from congestion losses, because all
//! segments have passed the cache.
//!
//! Deployed at: the base station, below IP.
//!
//! Wire: unchanged. The state is soft: the sender retransmits whatever Snoop does not.
//!
//! Assumes: cleartext TCP headers, both directions through one base station, a last hop that
//! preserves the order.
//!
//! Bad at: encryption, link-layer ARQ below it (both retransmit), delay variation (looks like
//! loss), handover, uplink data, SACK senders (a suppressed duplicate ACK loses its SACK blocks).

mod flow;
mod settings;
#[cfg(test)]
mod tests;

use crate::catalogue::{AnyAgent, Bound, Entry, Family, Footprint, SchemeConfig};
use crate::shared::cache::{Cached, Room};
use lasthop_core::agent::{Agent, Context, FlowTable, LinkEvent, Rewrite, Subscriptions, Verdict};
use lasthop_core::role::Role;
use lasthop_core::segment::{Direction, Flags, FlowId, Segment};
use lasthop_core::units::{Duration, Size};

use flow::{Answer, FlowState};
pub use settings::Snoop;
pub(crate) use settings::cache_bound;

impl SchemeConfig for Snoop {
    const ENTRY: Entry = Entry {
        name: "snoop",
        family: Family::LinkLayer,
        summary: "caches segments at the base station, retransmits radio losses locally and hides \
                  the duplicate ACKs",
        paper: "Balakrishnan et al. 1995",
        changes: Footprint { base_station: true, ..Footprint::NONE },
        assumptions: &[
            "TCP headers are readable at the base station",
            "data and ACKs pass the same base station",
            "the last hop keeps the order and does not repair losses itself",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.cache_packets == Some(0) || self.max_flows == 0 || self.tick == Duration::ZERO {
            return Err("cache_packets and max_flows must be at least 1, and tick above 0 s".into());
        }
        if self.gain.0 <= 0.0 || self.gain.0 > 1.0 {
            return Err(format!("gain must be above 0 and at most 1, found {}", self.gain.0));
        }
        Ok(())
    }

    fn agent(&self) -> Option<AnyAgent> {
        self.agent_at(Role::BaseStation)
    }

    fn agent_at(&self, role: Role) -> Option<AnyAgent> {
        let ahead = if role == Role::Station { Direction::Uplink } else { Direction::Downlink };
        Some(AnyAgent::from(SnoopAgent::new(self.clone(), ahead)))
    }

    fn agent_roles(&self) -> &[Role] {
        if self.uplink { &[Role::BaseStation, Role::Station] } else { &[Role::BaseStation] }
    }

    fn bounds(&self) -> Vec<Bound> {
        vec![cache_bound(self.cache_packets)]
    }

    fn set_bound(&mut self, setting: &str, value: Size) {
        if let ("cache_packets", Size::Segments(packets)) = (setting, value) {
            self.cache_packets = Some(packets as u32);
        }
    }

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// Placeholder for an unknown value in an exported flow.
const UNKNOWN: u64 = u64::MAX;

/// The agent at one end of the radio link.
pub struct SnoopAgent {
    config: Snoop,
    /// The direction of the data that pass the radio link after the agent.
    ahead: Direction,
    flows: FlowTable<FlowState>,
    /// Retransmit what the receiver requests (SNACK), instead of counting duplicate ACKs.
    by_snack: bool,
    /// Segments of removed flows that could not be released without a context; released at the next
    /// call.
    leaving: Vec<Segment>,
    room: Room,
    /// ns-2's counter of forwarded duplicate ACKs: true if one was forwarded since the last local
    /// retransmission.
    passed: bool,
    cached: u64,
    local: u64,
    timer: u64,
    suppressed: u64,
    queue_full: u64,
    cache_full: u64,
}

impl SnoopAgent {
    /// An agent with these settings, for data in the direction `ahead`.
    pub fn new(config: Snoop, ahead: Direction) -> Self {
        let (flows, room) =
            (FlowTable::new(config.max_flows as usize), Room::new(config.cache_bytes));
        SnoopAgent {
            config,
            ahead,
            flows,
            by_snack: false,
            leaving: Vec::new(),
            room,
            passed: false,
            cached: 0,
            local: 0,
            timer: 0,
            suppressed: 0,
            queue_full: 0,
            cache_full: 0,
        }
    }

    /// An agent that retransmits what the receiver requests (SNACK).
    pub(super) fn by_snack(config: Snoop, ahead: Direction) -> Self {
        SnoopAgent { by_snack: true, ..SnoopAgent::new(config, ahead) }
    }

    /// Processes a data segment from the sender: caches it if possible. It is always forwarded.
    fn data(&mut self, ctx: &mut Context<'_>, segment: &Segment) {
        let (config, room) = (&self.config, &mut self.room);
        let state = state_of(&mut self.flows, segment.flow, config, ctx, room);
        state.last_ack = state.last_ack.or((segment.seq == 0).then_some(0));
        if state.last_ack.is_some_and(|l| segment.end() <= l) {
            return;
        }
        // A drop in this node's queue is a congestion loss, which the sender must handle.
        let refused = ctx.node_view.is_full(self.ahead);
        let full = state.cache.len() >= config.cached_at_most();
        self.queue_full += u64::from(refused);
        let below = state.is_below(config, segment);
        state.highest = state.highest.max(segment.end());
        if below {
            state.hole_filled = ctx.now;
        }
        let index = state.cache.index(segment.seq);
        let mut retransmitted = below;
        if (refused && config.ns2_sender_retransmissions) || (full && config.ns2_full_cache) {
            retransmitted = false;
            if !refused {
                self.cache_full += 1;
                state.leave_uncached(segment);
            }
        } else if let Some(cached) = state.cache.at(index, segment.seq) {
            let sent = config.ns2_rtt_samples.then_some(ctx.now);
            *cached =
                Cached { sent, copies: cached.copies + 1, local: 0, sender_retx: true, ..*cached };
            if !refused {
                // The new copy has the current timestamp. The old one would mislead a sender that
                // compares timestamps (Eifel).
                state.cache.renew(ctx, room, index, segment);
            }
            retransmitted = true;
        } else if refused || full || !room.fits(segment.size) {
            if !refused {
                self.cache_full += 1;
                state.leave_uncached(segment);
            }
            return;
        } else {
            let sender_retx = below && (index == 0 || !config.ns2_sender_retransmissions);
            state.cache.insert(
                ctx,
                room,
                index,
                Cached {
                    segment: *segment,
                    sent: Some(ctx.now),
                    retransmitted: None,
                    copies: 1,
                    local: 0,
                    sender_retx,
                },
            );
            state.counted &= !below;
            self.cached += 1;
        }
        state.doublings *= u32::from(!retransmitted);
        if (retransmitted || state.due.is_none()) && !state.cache.is_empty() {
            state.arm(config, ctx);
        }
    }

    /// Processes an ACK from the receiver. Segments with payload are never dropped.
    fn ack(&mut self, ctx: &mut Context<'_>, segment: &Segment) -> Verdict {
        let Some(state) = self.flows.get_mut(segment.flow) else { return Verdict::Forward };
        if state.last_ack.is_some_and(|l| segment.ack < l) {
            return Verdict::Forward;
        }
        let same_window = state.window.is_none_or(|w| w == segment.window);
        state.window = Some(segment.window);
        let is_new = state.last_ack != Some(segment.ack);
        if is_new {
            state.acknowledge(&self.config, ctx, segment.ack, &mut self.room);
        }
        if self.by_snack && segment.flags.has(Flags::SNACK) {
            let snack = ctx.options.snack;
            self.local += state.repair_holes(&self.config, ctx, self.ahead, &snack);
        }
        if is_new {
            return Verdict::Forward;
        }
        // An ACK with a zero window answers a window probe; the sender needs it.
        let duplicate = segment.is_duplicate_ack(same_window) && segment.window > 0;
        if !duplicate {
            return Verdict::Forward;
        }
        state.uncached.lost |= state.is_uncached(segment.ack);
        if self.by_snack {
            return match state.waits_here(&self.config, ctx.now, segment.ack) {
                None => Verdict::Forward,
                Some(true) => {
                    self.suppressed += 1;
                    Verdict::Drop("duplicate ACK, repaired locally")
                }
                Some(false) => Verdict::Rewrite(Rewrite { eln: true, ..Rewrite::default() }),
            };
        }
        let passed = if self.config.ns2_passing { &mut self.passed } else { &mut false };
        let answer = state.duplicate(&self.config, ctx, self.ahead, segment.ack, passed);
        self.suppressed += u64::from(answer != Answer::Pass);
        self.local += u64::from(answer == Answer::Repaired);
        match answer {
            Answer::Pass => Verdict::Forward,
            Answer::Repaired => Verdict::Drop("duplicate ACK, repaired locally"),
            Answer::Expected => Verdict::Drop("expected duplicate ACK"),
        }
    }

    /// Processes a SYN or RST: removes the flow's state.
    fn forget(&mut self, ctx: &mut Context<'_>, segment: &Segment, direction: Direction) {
        let opens = segment.flags.has(Flags::SYN) && self.config.ns2_rtt_samples;
        if opens && direction != self.ahead && segment.flags.has(Flags::ACK) {
            if let Some(state) = self.flows.get_mut(segment.flow) {
                state.handshake(&self.config, ctx.now);
            }
            return;
        }
        if let Some(mut state) = self.flows.remove(segment.flow) {
            state.acknowledge(&self.config, ctx, u64::MAX, &mut self.room);
        }
        if opens {
            let now = ctx.now;
            let (config, room) = (&self.config, &mut self.room);
            let state = state_of(&mut self.flows, segment.flow, config, ctx, room);
            state.syn_sent = Some(now);
        }
    }

    /// Releases the segments of `leaving`.
    #[inline]
    fn release_leaving(&mut self, ctx: &mut Context<'_>) {
        if !self.leaving.is_empty() {
            self.release_all_leaving(ctx);
        }
    }

    #[inline(never)]
    fn release_all_leaving(&mut self, ctx: &mut Context<'_>) {
        for segment in self.leaving.drain(..) {
            self.room.release(ctx, &segment);
        }
    }
}

/// The state of a flow. An evicted flow releases its segments.
#[inline]
fn state_of<'a>(
    flows: &'a mut FlowTable<FlowState>,
    flow: FlowId,
    config: &Snoop,
    ctx: &mut Context<'_>,
    room: &mut Room,
) -> &'a mut FlowState {
    let (state, evicted) = flows.entry(flow);
    state.flow = flow;
    if let Some(evicted) = evicted {
        release(evicted, config, ctx, room);
    }
    state
}

/// A flow that was evicted releases its segments.
#[cold]
fn release(mut evicted: FlowState, config: &Snoop, ctx: &mut Context<'_>, room: &mut Room) {
    evicted.acknowledge(config, ctx, u64::MAX, room);
}

impl Agent for SnoopAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        self.release_leaving(ctx);
        let flags = segment.flags;
        match direction {
            _ if flags.has(Flags::DATAGRAM) => {}
            _ if flags.any(Flags::SYN.with(Flags::RST)) => self.forget(ctx, segment, direction),
            d if d == self.ahead && segment.len > 0 => self.data(ctx, segment),
            d if d != self.ahead && flags.has(Flags::ACK) => return self.ack(ctx, segment),
            _ => {}
        }
        Verdict::Forward
    }

    fn sends_acks(&self) -> bool {
        false
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        self.release_leaving(ctx);
        let Some(state) = self.flows.get_mut(id) else { return };
        if state.expire(&self.config, ctx, self.ahead) {
            self.local += 1;
            self.timer += 1;
        }
    }

    fn subscribes(&self) -> Subscriptions {
        Subscriptions::REFUSED
    }

    /// The queue has dropped a segment (a discipline with early drops may do so later): not a radio
    /// loss.
    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        self.release_leaving(ctx);
        if event == LinkEvent::Refused
            && direction == self.ahead
            && let Some(state) = self.flows.get_mut(segment.flow)
        {
            self.queue_full += u64::from(state.forget(ctx, &mut self.room, segment));
        }
    }

    #[inline]
    fn cache_binds(&self, flow: FlowId) -> bool {
        self.flows.get(flow).is_some_and(FlowState::cache_binds)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("cached", self.cached),
            ("local_retransmissions", self.local),
            ("timer_retransmissions", self.timer),
            ("dupacks_suppressed", self.suppressed),
            ("cache_refused_queue_full", self.queue_full),
            ("cache_full", self.cache_full),
            ("flows", self.flows.len() as u64),
            ("flows_evicted", self.flows.evicted()),
        ]
    }

    fn state_bytes(&self) -> usize {
        let flows: usize = self.flows.iter().map(|(_, s)| s.bytes()).sum();
        flows + self.leaving.len() * size_of::<Segment>() + self.room.held() as usize
    }

    /// Exports sequence state and RTT estimate. The cached segments are not transferred, because
    /// their payloads belong to this host; they are released at the next call. The new base station
    /// forwards duplicate ACKs for them, as for segments that it never received.
    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let s = self.flows.remove(flow)?;
        self.leaving.extend(s.cache.iter().map(|c| c.segment));
        let (srtt, var) = s.rtt.unzip();
        let words = [Some(s.highest), s.last_ack, s.window.map(u64::from), srtt, var];
        Some(words.iter().flat_map(|w| w.unwrap_or(UNKNOWN).to_le_bytes()).collect())
    }

    fn import(&mut self, flow: FlowId, state: &[u8]) -> bool {
        let mut words = [None; 5];
        if state.len() != 8 * words.len() {
            return false;
        }
        for (word, bytes) in words.iter_mut().zip(state.chunks_exact(8)) {
            *word = bytes.try_into().ok().map(u64::from_le_bytes).filter(|&w| w != UNKNOWN);
        }
        let [Some(highest), last_ack, window, srtt, var] = words else { return false };
        let Ok(window) = window.map(u32::try_from).transpose() else { return false };
        let (s, evicted) = self.flows.entry(flow);
        self.leaving.extend(
            s.cache.iter().chain(evicted.iter().flat_map(|g| g.cache.iter())).map(|c| c.segment),
        );
        *s = FlowState {
            flow,
            highest,
            last_ack,
            window,
            rtt: srtt.zip(var),
            ..FlowState::default()
        };
        true
    }
}
