//! Link-state notifier: an agent that notifies senders of their last hop's state, for schemes that
//! freeze or persist during a link outage (M-TCP, TCP-F).

use lasthop_core::agent::{
    Agent, Context, Destination, FlowTable, LinkChange, Subscriptions, Verdict,
};
use lasthop_core::segment::{Direction, FlowId, Notice, NoticeKind, Segment};
use lasthop_core::units::Time;

/// Maximum number of flows that are notified.
const FLOWS: usize = 1024;

/// Sends a notice to the sender of each flow with downlink data when the link to its receiver goes
/// down and when it is up again.
pub struct LinkWatch {
    watches: bool,
    flows: FlowTable<()>,
    notices: u64,
}

impl LinkWatch {
    /// An agent that watches the link, or that does nothing.
    pub fn new(watches: bool) -> LinkWatch {
        LinkWatch { watches, flows: FlowTable::new(FLOWS), notices: 0 }
    }
}

impl Agent for LinkWatch {
    fn on_segment(
        &mut self,
        _: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        if self.watches && segment.forward && direction == Direction::Downlink {
            self.flows.entry(segment.flow);
        }
        Verdict::Forward
    }

    fn sends_acks(&self) -> bool {
        false
    }

    fn subscribes(&self) -> Subscriptions {
        if self.watches { Subscriptions::CHANGES } else { Subscriptions::NONE }
    }

    fn on_link_change(
        &mut self,
        ctx: &mut Context<'_>,
        flow: FlowId,
        direction: Direction,
        change: LinkChange,
    ) {
        let value = match change {
            LinkChange::Down => 0,
            LinkChange::Up => 1,
            LinkChange::Rate(_) => return,
        };
        if direction == Direction::Downlink && self.flows.get_mut(flow).is_some() {
            self.notices += 1;
            ctx.notify(
                Notice { kind: NoticeKind::Link, flow, value, stamp: Time::ZERO },
                Destination::Sender,
            );
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("link_notices", self.notices)]
    }
}
