//! The common part of ACK pacing and TCP rate control: a queue of ACKs that is released at a rate,
//! and a flow's share of the radio link.

use std::collections::VecDeque;

use lasthop_core::agent::{Context, FlowTable};
use lasthop_core::segment::{Direction, Flags, FlowId, Segment};
use lasthop_core::units::{Duration, Rate, Time};

/// A flow without data for this time has no share of the link, even with data outstanding.
const IDLE: Duration = Duration::secs(60);

/// Limits on the number of held ACKs and on their delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of held ACKs; the oldest is released for a further one.
    pub acks: usize,
    /// Maximum delay of an ACK, independent of the rate.
    pub hold: Duration,
}

/// The held ACKs of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacer {
    held: VecDeque<Held>,
    /// Time and number of the last forwarded ACK.
    last: Option<(Time, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    segment: Segment,
    since: Time,
}

impl Pacer {
    /// Number of held ACKs.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Records an ACK that is forwarded without delay.
    pub fn passes(&mut self, now: Time, ack: u64) {
        self.last = Some((now, ack));
    }

    /// True if the arriving `ack` must be held: behind other ACKs, or until the rate allows the
    /// data that it releases.
    pub fn must_wait(&self, now: Time, ack: &Segment, rate: Option<Rate>, limits: Limits) -> bool {
        !self.held.is_empty() || self.due(&Held { segment: *ack, since: now }, rate, limits) > now
    }

    /// Holds an ACK, which is in the agent's custody.
    pub fn hold(
        &mut self,
        ctx: &mut Context<'_>,
        ack: &Segment,
        rate: Option<Rate>,
        limits: Limits,
    ) {
        if self.held.len() >= limits.acks {
            self.release(ctx);
        }
        self.held.push_back(Held { segment: *ack, since: ctx.now });
        self.release_due(ctx, rate, limits);
    }

    /// Releases the ACKs that are due, and sets the flow's timer for the next one.
    pub fn release_due(&mut self, ctx: &mut Context<'_>, rate: Option<Rate>, limits: Limits) {
        while let Some(first) = self.held.front() {
            let due = self.due(first, rate, limits);
            if due > ctx.now {
                return ctx.wake(first.segment.flow, due);
            }
            self.release(ctx);
        }
    }

    /// Releases all ACKs.
    pub fn flush(&mut self, ctx: &mut Context<'_>) {
        while self.release(ctx) {}
    }

    /// Release time of an ACK: after the previous one, by the time that the newly acknowledged data
    /// take at the rate. An ACK without new data is released with the previous one.
    fn due(&self, ack: &Held, rate: Option<Rate>, limits: Limits) -> Time {
        let (Some(rate), Some((at, number))) = (rate, self.last) else { return ack.since };
        let paced = at + rate.time_for(ack.segment.ack.saturating_sub(number));
        paced.max(ack.since).min(ack.since + limits.hold)
    }

    fn release(&mut self, ctx: &mut Context<'_>) -> bool {
        let Some(Held { segment, .. }) = self.held.pop_front() else { return false };
        self.last =
            Some((ctx.now, self.last.map_or(segment.ack, |(_, number)| number.max(segment.ack))));
        ctx.forward(Direction::Uplink, segment);
        ctx.release(segment.payload);
        true
    }

    /// Size of the state, bytes.
    pub fn bytes(&self) -> usize {
        self.held.len() * size_of::<Held>()
    }
}

/// True if an ACK may be held: a pure ACK without congestion or loss signals and without options,
/// which the host cannot store. Other ACKs release all held ones first.
pub(crate) fn may_wait(segment: &Segment) -> bool {
    let special = Flags::SYN
        .with(Flags::FIN)
        .with(Flags::RST)
        .with(Flags::OPTIONS)
        .with(Flags::ELN)
        .with(Flags::ECE);
    segment.len == 0 && segment.flags.has(Flags::ACK) && !segment.flags.any(special)
}

/// A flow's downlink data as observed at the base station.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Payload and total length of the largest segment, bytes.
    frame: (u32, u32),
    /// Stream offset after the highest byte forwarded.
    highest: u64,
    /// Highest acknowledgment number from the mobile.
    acked: u64,
    last: Time,
}

impl Traffic {
    /// The state of a flow that another base station exported.
    pub fn imported(highest: u64, acked: u64) -> Self {
        Traffic { highest, acked, ..Traffic::default() }
    }

    /// Stream offset after the highest byte forwarded.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Highest acknowledgment number from the mobile.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// Records an acknowledgment number from the mobile.
    pub fn acknowledge(&mut self, ack: u64) {
        self.acked = self.acked.max(ack);
    }

    /// Records a data segment.
    pub fn data(&mut self, now: Time, segment: &Segment) {
        self.last = now;
        self.highest = self.highest.max(segment.end());
        if segment.len > self.frame.0 {
            self.frame = (segment.len, segment.size);
        }
    }

    /// Payload of the largest segment seen, bytes.
    pub fn payload(&self) -> u32 {
        self.frame.0
    }

    fn is_active(&self, now: Time) -> bool {
        self.highest > self.acked && self.last + IDLE > now
    }
}

/// State of a flow that has `Traffic`.
pub(crate) trait HasTraffic {
    /// The traffic of the flow.
    fn traffic(&self) -> &Traffic;
}

/// Payload rate of a flow: an equal share, headers included, of the current rate of the radio link
/// among the active flows. `None` if the rate is unknown.
pub(crate) fn share<S: HasTraffic + Default>(
    flows: &FlowTable<S>,
    flow: FlowId,
    ctx: &Context<'_>,
    mine: &Traffic,
) -> Option<Rate> {
    let rate = ctx.node_view.rate_of(flow, Direction::Downlink)?;
    let others =
        flows.iter().filter(|(f, s)| *f != flow && s.traffic().is_active(ctx.now)).count() as u64;
    let (payload, all) = mine.frame;
    // A flow without data so far cannot be paced.
    (all > 0 && rate.0 > 0).then(|| {
        // Rounded up, so that ACKs at exactly the link's rate are not held.
        let all = u128::from(all) * u128::from(1 + others);
        Rate((u128::from(rate.0) * u128::from(payload)).div_ceil(all) as u64)
    })
}
