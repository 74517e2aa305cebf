//! Segments that reach an agent on the way to their end, and go on from there.

use lasthop::agent::Verdict;
use lasthop::segment::{Handle, NodeId, Segment};
use lasthop::units::Time;

use super::{Hosts, agent};
use crate::events::probe::Probe;
use crate::network::Net;
use crate::network::by_agent::Arrived;
use crate::network::paths::Watch;

#[allow(clippy::multiple_inherent_impl, reason = "the way by an agent is a file apart")]
impl Hosts {
    #[inline(never)]
    pub(super) fn receive_at_agent<P: Probe>(
        &mut self,
        watch: &Watch,
        segment: &Segment,
        handle: Handle,
        net: &mut Net<P>,
    ) {
        let passes = self.agents.passes(watch, segment, handle, net);
        let is_here = segment.to == watch.node;
        if passes && !is_here {
            self.send_on(watch.node, handle, net);
        }
        self.agents.carry_out(watch.agent as usize, net);
        if passes && is_here {
            self.deliver_frame(handle, net);
        }
    }

    /// Sends a segment that an agent has let pass. If it reaches a receiver that is computed in
    /// advance, its arrival is handled at once, with the clock set to its time.
    #[inline(always)]
    fn send_on<P: Probe>(&mut self, node: NodeId, handle: Handle, net: &mut Net<P>) {
        let Some((l, arrival)) = net.forward_to_receiver(node, handle) else { return };
        let present = (net.now, net.triggered_at);
        if self.is_next_in_advance(l, arrival, net) {
            (net.now, net.triggered_at) = arrival;
            net.links[l as usize].passed(arrival.0);
            self.deliver_frame(handle, net);
        } else {
            net.put_in_flight(l, arrival, handle);
        }
        (net.now, net.triggered_at) = present;
    }

    /// Timers of receivers that are due before an arrival at the end of the link `l` have run.
    /// False if one is due at the present instant.
    #[inline(always)]
    fn is_next_in_advance<P: Probe>(
        &mut self,
        l: u32,
        arrival: (Time, Time),
        net: &mut Net<P>,
    ) -> bool {
        let timers = arrival.0 >= net.receivers_due[l as usize];
        !timers || self.run_receiver_timers(l as usize, arrival, net)
    }

    /// A segment that is not in the pool arrives at the end of the link `l`: at the agent on the
    /// path of its connection, or an ACK at its sender.
    #[inline(always)]
    pub(crate) fn receive_on_the_way<P: Probe>(
        &mut self,
        l: usize,
        arrived: &mut Arrived,
        net: &mut Net<P>,
    ) {
        let (segment, options) = arrived.parts();
        if segment.to == net.links[l].to {
            return self.deliver_ack(segment, options, net);
        }
        let Some(watch) = net.agent_paths.watch(segment.flow) else { return };
        let verdict = self.agents.show(&watch, segment, options, net);
        if let Verdict::Rewrite(edit) = &verdict {
            agent::rewrite(segment, edit);
        }
        if agent::apply(&verdict, watch.node, segment, net) {
            if segment.forward {
                self.send_onward(segment, net);
            } else {
                net.transmit_ack_onward(segment, options);
            }
        }
        self.agents.carry_out(watch.agent as usize, net);
    }

    /// Sends such data to their receiver. If its arrival is computed in advance, it is handled
    /// at once, with the clock set to its time.
    #[inline(always)]
    fn send_onward<P: Probe>(&mut self, segment: &Segment, net: &mut Net<P>) {
        let Some((l, arrival)) = net.transmit_data_onward(segment) else { return };
        let present = (net.now, net.triggered_at);
        if net.arrives_at_once(l, arrival) && self.is_next_in_advance(l, arrival, net) {
            (net.now, net.triggered_at) = arrival;
            net.links[l as usize].passed(arrival.0);
            self.deliver_data(segment, net);
        } else {
            let handle = net.pool.put(*segment);
            net.put_in_flight(l, arrival, handle);
        }
        (net.now, net.triggered_at) = present;
    }
}
