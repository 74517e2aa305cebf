//! The radio network controller: reports the rate and the queue length of the radio link to the
//! proxy.
//!
//! All flows of a terminal share its link. The report for each flow is an equal share of the rate
//! and the bytes of that flow in the queue.

use lasthop_core::agent::{
    Agent, Context, Destination, FlowTable, LinkChange, LinkEvent, Subscriptions, Verdict,
};
use lasthop_core::segment::{Direction, Flags, FlowId, NodeId, Notice, NoticeKind, Segment};
use lasthop_core::units::{Duration, Time};

/// Maximum number of flows with state.
const FLOWS: usize = 1024;

/// A flow without queued data and without traffic for this time has no share of the rate.
const IDLE: Duration = Duration::secs(2);

/// Bytes per period, one frame, assumed after an outage of a link with unknown rate.
const FRAME: u64 = 1500;

const REPORT: u32 = 0;

/// The controller's state of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    station: NodeId,
    /// Queued bytes at the link, headers included.
    waiting: u64,
    /// Arrival time of its last segment.
    seen: Time,
    /// Bytes sent since the last report.
    sent: u64,
    /// Rate sent in the last report period without an outage, bit/s.
    measured: Option<u64>,
    /// True if the link is down.
    down: bool,
    /// Frames sent while the link was down.
    sent_while_down: u32,
    ended: bool,
    /// The rate last reported to the proxy, bit/s.
    reported: Option<u64>,
}

impl Flow {
    fn is_active(&self, now: Time) -> bool {
        // A proxy that received a rate of 0 must also receive the end of the outage.
        self.reported == Some(0)
            || (!self.ended && (self.down || self.waiting > 0 || now - self.seen < IDLE))
    }
}

/// The agent at the radio link.
pub struct RnfAgent {
    period: Duration,
    repeat_rate: bool,
    flows: FlowTable<Flow>,
    reporting: bool,
    rate_sent: u64,
    queue_sent: u64,
}

impl RnfAgent {
    /// A controller that reports the queue every `period`, and with `repeat_rate` also the rate.
    pub fn new(period: Duration, repeat_rate: bool) -> Self {
        RnfAgent {
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

    /// Reports the rate shares to the proxies of a station's flows; unchanged shares only if
    /// `repeat`.
    fn report_rate(&mut self, ctx: &mut Context<'_>, station: NodeId, repeat: bool) {
        let now = ctx.now;
        let sharers = self.sharers(station, now).max(1);
        let of_station =
            self.flows.iter().filter(|(_, f)| f.station == station).filter_map(|(_, f)| f.measured);
        let measured = of_station.reduce(|a, b| a + b).filter(|rate| *rate > 0);
        let min_rate = (FRAME as f64 * 8.0 / self.period.as_secs()) as u64;
        for (id, flow) in
            self.flows.iter_mut().filter(|(_, f)| f.station == station && f.is_active(now))
        {
            // A proxy in an outage waits for the report of its end.
            let unknown = (flow.reported == Some(0)).then_some(min_rate);
            let known = ctx
                .node_view
                .rate_of(id, Direction::Downlink)
                .map(|r| r.0)
                .or(measured)
                .or(unknown);
            let Some(rate) = (if flow.down { Some(0) } else { known.map(|r| r / sharers) }) else {
                continue;
            };
            if repeat || flow.reported != Some(rate) {
                flow.reported = Some(rate);
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

    fn report_queue(&mut self, ctx: &mut Context<'_>, only: Option<FlowId>) {
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

    /// The distinct stations with active flows, in flow order.
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

impl Agent for RnfAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        if segment.forward && direction == Direction::Downlink {
            let (flow, _) = self.flows.entry(segment.flow);
            let becomes_active = flow.reported.is_none() || !flow.is_active(ctx.now);
            flow.station = segment.to;
            flow.seen = ctx.now;
            flow.waiting += u64::from(segment.size);
            flow.ended = segment.flags.any(Flags::FIN.with(Flags::RST));
            if becomes_active {
                self.report_rate(ctx, segment.to, false);
            }
            if !self.reporting {
                self.reporting = true;
                ctx.wake(REPORT, ctx.now + self.period);
            }
        }
        Verdict::Forward
    }

    fn sends_acks(&self) -> bool {
        false
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
            flow.sent_while_down += u32::from(flow.down && event == LinkEvent::Dequeued);
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
            LinkChange::Down => (state.down, state.sent_while_down) = (true, 0),
            LinkChange::Up => {
                (state.down, state.seen) = (false, now);
                // A stalled link accepts at most one frame and does not lose it. A link that has
                // sent more has lost frames: report the queue first, from which the proxy derives
                // the loss.
                if state.sent_while_down > 1 {
                    self.report_queue(ctx, Some(flow));
                }
            }
            LinkChange::Rate(_) => {}
        }
        self.report_rate(ctx, station, false);
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
            self.report_queue(ctx, None);
            stations
                .into_iter()
                .for_each(|station| self.report_rate(ctx, station, self.repeat_rate));
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
