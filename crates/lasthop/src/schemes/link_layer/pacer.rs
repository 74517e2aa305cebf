//! ACKs that wait at the base station and go on one after another at a rate, and a flow's share of
//! the radio link: what ACK pacing and TCP rate control have in common.

use std::collections::VecDeque;

use crate::agent::{Context, FlowTable};
use crate::segment::{Direction, Flags, FlowId, Segment};
use crate::units::{Duration, Rate, Time};

/// A flow without data for so long has no share of the link, whatever it has outstanding.
const GONE: Duration = Duration::secs(60);

/// How many ACKs may wait, and how long each of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The oldest goes on for one too many.
    pub acks: usize,
    /// After so long it goes on, whatever the rate.
    pub hold: Duration,
}

/// The ACKs of a flow that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacer {
    held: VecDeque<Held>,
    /// When the last ACK went on, and its number.
    last: Option<(Time, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    segment: Segment,
    since: Time,
}

impl Pacer {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// An ACK goes on without having waited.
    pub fn passes(&mut self, now: Time, ack: u64) {
        self.last = Some((now, ack));
    }

    /// True if `ack`, which has just come, must wait: for others before it, or until the rate
    /// allows what it acknowledges.
    pub fn must_wait(&self, now: Time, ack: &Segment, rate: Option<Rate>, limits: Limits) -> bool {
        !self.held.is_empty() || self.due(&Held { segment: *ack, since: now }, rate, limits) > now
    }

    /// An ACK waits. It is in the agent's custody.
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
        self.serve(ctx, rate, limits);
    }

    /// What is due goes on; the flow's timer is set to when the next one is.
    pub fn serve(&mut self, ctx: &mut Context<'_>, rate: Option<Rate>, limits: Limits) {
        while let Some(first) = self.held.front() {
            let due = self.due(first, rate, limits);
            if due > ctx.now {
                return ctx.wake(first.segment.flow, due);
            }
            self.release(ctx);
        }
    }

    /// All go on at once.
    pub fn flush(&mut self, ctx: &mut Context<'_>) {
        while self.release(ctx) {}
    }

    /// An ACK goes on as long after the one before it as the data that it acknowledges take at the
    /// rate. One that acknowledges nothing new goes on with the one before it.
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

    /// Bytes of state.
    pub fn bytes(&self) -> usize {
        self.held.len() * size_of::<Held>()
    }
}

/// True if an ACK may wait: nothing but an ACK, which neither tells of congestion or loss nor has
/// options, for which a host that has let it go has no place. All others push those that wait ahead
/// of them.
pub(super) fn may_wait(segment: &Segment) -> bool {
    let special = Flags::SYN
        .with(Flags::FIN)
        .with(Flags::RST)
        .with(Flags::OPTIONS)
        .with(Flags::ELN)
        .with(Flags::ECE);
    segment.len == 0 && segment.flags.has(Flags::ACK) && !segment.flags.any(special)
}

/// What the base station knows of a flow's data on their way down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// Payload bytes and all bytes of the largest segment.
    frame: (u32, u32),
    /// Offset after the last byte that has passed.
    pub highest: u64,
    /// Highest ACK from the mobile.
    pub acked: u64,
    last: Time,
}

impl Traffic {
    /// That of a flow that another base station knew.
    pub fn known(highest: u64, acked: u64) -> Self {
        Traffic { highest, acked, ..Traffic::default() }
    }

    /// A data segment passes.
    pub fn data(&mut self, now: Time, segment: &Segment) {
        self.last = now;
        self.highest = self.highest.max(segment.end());
        if segment.len > self.frame.0 {
            self.frame = (segment.len, segment.size);
        }
    }

    /// Payload bytes of the largest segment seen.
    pub fn payload(&self) -> u32 {
        self.frame.0
    }

    fn is_active(&self, now: Time) -> bool {
        self.highest > self.acked && self.last + GONE > now
    }
}

/// State of a flow that has `Traffic`.
pub(super) trait HasTraffic {
    /// It.
    fn traffic(&self) -> &Traffic;
}

/// Payload that a flow may send in a second: its equal share, with headers, of what the radio link
/// carries now. `None` if that is not known.
pub(super) fn share<S: HasTraffic + Default>(
    flows: &FlowTable<S>,
    flow: FlowId,
    ctx: &Context<'_>,
    mine: &Traffic,
) -> Option<Rate> {
    let rate = ctx.node_view.rate_of(flow, Direction::Downlink)?;
    let others =
        flows.iter().filter(|(f, s)| *f != flow && s.traffic().is_active(ctx.now)).count() as u64;
    let (payload, all) = mine.frame;
    // A flow whose data have not been seen yet cannot be paced.
    (all > 0 && rate.0 > 0).then(|| {
        // Rounded up: at the link's own pace nothing waits.
        let all = u128::from(all) * u128::from(1 + others);
        Rate((u128::from(rate.0) * u128::from(payload)).div_ceil(all) as u64)
    })
}
