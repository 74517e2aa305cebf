//! The radio network controller: it reports the rate of the radio link and what waits there to the
//! proxy.
//!
//! All flows of a terminal share its link, so each is told an equal part of the rate, and its own
//! bytes in the queue.

use crate::agent::{
    Agent, Context, Destination, FlowTable, LinkChange, LinkEvent, Subscriptions, Verdict,
};
use crate::segment::{Direction, Flags, FlowId, NodeId, Notice, NoticeKind, Segment};
use crate::units::{Duration, Time};

/// Flows of which the controller keeps count.
const FLOWS: usize = 1024;

/// A flow that has neither sent anything for so long nor has anything waiting leaves its part of
/// the rate to the others.
const IDLE: Duration = Duration::secs(2);

/// Of a link whose rate nobody knows after an outage: so many bytes in a period, one frame.
const FRAME: u64 = 1500;

const REPORT: u32 = 0;

/// What the controller knows of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    station: NodeId,
    /// Bytes on the wire that wait at the link.
    waiting: u64,
    /// When something of it came last.
    seen: Time,
    /// Bytes sent since the last report.
    sent: u64,
    /// Bit/s sent between two reports, the last of them that saw no outage.
    measured: Option<u64>,
    /// The link is down.
    down: bool,
    /// Frames sent all the same.
    in_vain: u32,
    ended: bool,
    /// The rate that the proxy was told last.
    told: Option<u64>,
}

impl Flow {
    fn is_active(&self, now: Time) -> bool {
        // Whom it has told that nothing gets through, it also tells when that is over.
        self.told == Some(0)
            || (!self.ended && (self.down || self.waiting > 0 || now - self.seen < IDLE))
    }
}

/// The agent at the radio link.
pub struct RncAgent {
    period: Duration,
    repeat_rate: bool,
    flows: FlowTable<Flow>,
    reporting: bool,
    rate_sent: u64,
    queue_sent: u64,
}

impl RncAgent {
    /// A controller that reports the queue each `period`, and if it shall the rate with it.
    pub fn new(period: Duration, repeat_rate: bool) -> Self {
        RncAgent {
            period,
            repeat_rate,
            flows: FlowTable::new(FLOWS),
            reporting: false,
            rate_sent: 0,
            queue_sent: 0,
        }
    }

    fn sharers(&self, station: NodeId, now: Time) -> u64 {
        self.flows.iter().filter(|(_, f)| f.station == station && f.is_active(now)).count() as u64
    }

    /// Tells the proxies of a station's flows their part of the rate; those that know it already,
    /// only if `again`.
    fn tell_rate(&mut self, ctx: &mut Context<'_>, station: NodeId, again: bool) {
        let now = ctx.now;
        let sharers = self.sharers(station, now).max(1);
        let of_station =
            self.flows.iter().filter(|(_, f)| f.station == station).filter_map(|(_, f)| f.measured);
        let measured = of_station.reduce(|a, b| a + b).filter(|rate| *rate > 0);
        let least = (FRAME as f64 * 8.0 / self.period.as_secs()) as u64;
        for (id, flow) in
            self.flows.iter_mut().filter(|(_, f)| f.station == station && f.is_active(now))
        {
            // A proxy that was told of an outage waits for word that it is over.
            let unknown = (flow.told == Some(0)).then_some(least);
            let known = ctx
                .node_view
                .rate_of(id, Direction::Downlink)
                .map(|r| r.0)
                .or(measured)
                .or(unknown);
            let Some(rate) = (if flow.down { Some(0) } else { known.map(|r| r / sharers) }) else {
                continue;
            };
            if again || flow.told != Some(rate) {
                flow.told = Some(rate);
                self.rate_sent += 1;
                ctx.notify(
                    Notice {
                        kind: NoticeKind::Bandwidth,
                        flow: id,
                        value: rate,
                        stamp: Time::ZERO,
                    },
                    Destination::Sender,
                );
            }
        }
    }

    fn tell_queue(&mut self, ctx: &mut Context<'_>, only: Option<FlowId>) {
        let now = ctx.now;
        for (id, flow) in
            self.flows.iter().filter(|(id, f)| f.is_active(now) && only.is_none_or(|o| o == *id))
        {
            self.queue_sent += 1;
            ctx.notify(
                Notice {
                    kind: NoticeKind::Queue,
                    flow: id,
                    value: flow.waiting,
                    stamp: Time::ZERO,
                },
                Destination::Sender,
            );
        }
    }

    /// The stations with active flows, each once, in the order of their flows.
    fn stations(&self, now: Time) -> Vec<NodeId> {
        let mut found = Vec::new();
        for (_, flow) in self.flows.iter().filter(|(_, f)| f.is_active(now)) {
            if !found.contains(&flow.station) {
                found.push(flow.station);
            }
        }
        found
    }
}

impl Agent for RncAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        if segment.forward && direction == Direction::Downlink {
            let (flow, _) = self.flows.entry(segment.flow);
            let joins = flow.told.is_none() || !flow.is_active(ctx.now);
            flow.station = segment.to;
            flow.seen = ctx.now;
            flow.waiting += u64::from(segment.size);
            flow.ended = segment.flags.any(Flags::FIN.with(Flags::RST));
            if joins {
                self.tell_rate(ctx, segment.to, false);
            }
            if !self.reporting {
                self.reporting = true;
                ctx.wake(REPORT, ctx.now + self.period);
            }
        }
        Verdict::Forward
    }

    fn subscribes(&self) -> Subscriptions {
        Subscriptions::DEQUEUED.with(Subscriptions::REFUSED).with(Subscriptions::CHANGES)
    }

    fn on_link_event(
        &mut self,
        _: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        if segment.forward
            && direction == Direction::Downlink
            && matches!(event, LinkEvent::Dequeued | LinkEvent::Refused)
            && let Some(flow) = self.flows.get_mut(segment.flow)
        {
            flow.waiting = flow.waiting.saturating_sub(u64::from(segment.size));
            flow.sent += if event == LinkEvent::Dequeued { u64::from(segment.size) } else { 0 };
            flow.in_vain += u32::from(flow.down && event == LinkEvent::Dequeued);
        }
    }

    fn on_link_change(
        &mut self,
        ctx: &mut Context<'_>,
        flow: FlowId,
        direction: Direction,
        change: LinkChange,
    ) {
        if direction != Direction::Downlink {
            return;
        }
        let now = ctx.now;
        let Some(state) = self.flows.get_mut(flow).filter(|f| f.is_active(now)) else { return };
        let station = state.station;
        match change {
            LinkChange::Down => (state.down, state.in_vain) = (true, 0),
            LinkChange::Up => {
                (state.down, state.seen) = (false, now);
                // A link that stalls takes one frame at most and keeps it. One that has gone on
                // sending has lost frames: what still waits is said first, and the proxy sees from
                // it how many.
                if state.in_vain > 1 {
                    self.tell_queue(ctx, Some(flow));
                }
            }
            LinkChange::Rate(_) => {}
        }
        self.tell_rate(ctx, station, false);
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, _: u32) {
        let stations = self.stations(ctx.now);
        self.reporting = !stations.is_empty();
        if self.reporting {
            for (_, flow) in self.flows.iter_mut().filter(|(_, f)| !f.down) {
                flow.measured = Some(
                    (std::mem::take(&mut flow.sent) as f64 * 8.0 / self.period.as_secs()) as u64,
                );
            }
            self.tell_queue(ctx, None);
            stations.into_iter().for_each(|station| self.tell_rate(ctx, station, self.repeat_rate));
            ctx.wake(REPORT, ctx.now + self.period);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("rate_notices_sent", self.rate_sent),
            ("queue_notices_sent", self.queue_sent),
            ("flows", self.flows.len() as u64),
        ]
    }

    fn state_bytes(&self) -> usize {
        self.flows.len() * (size_of::<FlowId>() + size_of::<Flow>())
    }
}
