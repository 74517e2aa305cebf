//! The segments of such connections on their way over the links.

use lasthop::link::{Fate, Link, Passage};
use lasthop::queue::drop_reason;
use lasthop::segment::{Flags, NodeId, Options, Segment};
use lasthop::units::Time;

use super::{AgentPath, Arrivals, Arrived, InFlight, Leg};
use crate::events::probe::Probe;
use crate::network::Net;
use crate::network::fast_path::Arrival;
use crate::network::paths::Watch;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each way of a frame")]
impl<P: Probe> Net<P> {
    /// Adds the path of a connection from one node to another by way of this agent, if frames pass
    /// all links in order, and need events only at the agent and at the sender.
    pub(crate) fn add_agent_path(&mut self, c: u32, (from, to): (NodeId, NodeId), watch: Watch) {
        let legs = [[(to, watch.node), (watch.node, from)], [(from, watch.node), (watch.node, to)]];
        let ends = [from, to];
        let mut found = Vec::new();
        for (way, end) in legs.into_iter().zip(ends) {
            for (start, stop) in way {
                let route = &self.routes[usize::from(start) * self.nodes + usize::from(end)];
                let reaches = route.last().is_some_and(|&l| self.links[l as usize].to == stop);
                let in_order = |l: &u32| {
                    let link = &self.links[*l as usize];
                    link.passes_in_order() && !link.reports_damaged()
                };
                if !reaches
                    || !route.iter().all(in_order)
                    || route.last().is_some_and(|&l| self.fast.has_acks(l))
                {
                    return;
                }
                found.push(route.clone());
            }
        }
        let place = c as usize;
        let agents = &mut self.agent_paths;
        let mut legs = found.into_iter().map(|links| agents.leg(links));
        let (Some(a), Some(b), Some(c), Some(d)) =
            (legs.next(), legs.next(), legs.next(), legs.next())
        else {
            return;
        };
        drop(legs);
        let paths = &mut agents.paths;
        paths.resize(paths.len().max(place + 1), None);
        paths[place] = Some(AgentPath { watch, legs: [[a, b], [c, d]] });
    }

    /// Transmits a segment of a connection, now, over its first leg.
    #[inline(always)]
    pub(crate) fn transmit_to_agent(&mut self, segment: &Segment, options: &Options) {
        self.transmit_leg(segment, options, 0);
    }

    /// Transmits an ACK that the agent has let pass, now, to the sender.
    #[inline(always)]
    pub(crate) fn transmit_ack_onward(&mut self, segment: &Segment, options: &Options) {
        self.transmit_leg(segment, options, 1);
    }

    #[inline(always)]
    fn transmit_leg(&mut self, segment: &Segment, options: &Options, leg: usize) {
        let Some(path) = self.agent_paths.path(segment.flow) else { return };
        let Leg { links, ring } = &path.legs[usize::from(segment.forward)][leg];
        let ring = *ring as usize;
        let way = transmit_over(&mut self.links, links, (self.now, self.triggered_at), segment);
        let Way::Arrives { l, passage } = way else { return self.end(way, segment, options) };
        let ring = &mut self.agent_paths.rings[ring];
        ring.segments.push(InFlight { passage, segment: *segment });
        if segment.flags.any(Flags::OPTIONS) {
            ring.put_options(options);
        }
        let link = &mut self.links[l as usize];
        let lane = link.tag;
        if link.put_held_in_flight(passage) {
            self.schedule_arrival(l as usize, lane, (passage.1, passage.0));
        }
    }

    /// Transmits data that the agent has let pass, now, to their receiver. Returns the last link
    /// and the arrival, which is not counted; `None` if the segment is lost or refused.
    #[inline(always)]
    pub(crate) fn transmit_data_onward(&mut self, segment: &Segment) -> Option<(u32, Arrival)> {
        let [_, onward] = &self.agent_paths.path(segment.flow)?.legs[1];
        match transmit_over(&mut self.links, &onward.links, (self.now, self.triggered_at), segment)
        {
            Way::Arrives { l, passage } => Some((l, (passage.1, passage.0))),
            way => {
                self.end(way, segment, &Options::NONE);
                None
            }
        }
    }

    /// A segment is refused, or lost.
    #[inline(never)]
    fn end(&mut self, way: Way, segment: &Segment, options: &Options) {
        let handle = self.pool.put_with(*segment, options);
        match way {
            Way::Refused { l, at } => self.dropped(l as usize, handle, drop_reason::FULL, at),
            Way::Lost { l, start } => {
                self.links[l as usize].put_lost_in_flight(start, handle);
                self.schedule_link(l as usize);
            }
            Way::Arrives { .. } => {}
        }
    }

    /// After the arrival of `events` segments at the end of the link `l`: counts them and schedules
    /// the next one. If the next event is such an arrival too, returns its link and its ring; the
    /// clock is set to it.
    #[inline(always)]
    pub(crate) fn next_segment(&mut self, l: usize, events: u64) -> Option<(usize, usize)> {
        self.end_plain_acks(l, events);
        if !self.pending.is_empty() || !self.entered.is_empty() {
            return None;
        }
        let key = self.next_event()?;
        let l = key.link as usize;
        let ring = self.agent_paths.ring(key.link)?;
        self.has_plain_ack(l).then_some((l, ring))
    }

    /// Copies the segment of a link's ring that arrives now to `arrived`; neither is it counted nor
    /// the next arrival scheduled. False if there is none.
    #[inline(always)]
    pub(crate) fn take_segment(&mut self, l: usize, ring: usize, arrived: &mut Arrived) -> bool {
        let Some(ring) = self.agent_paths.rings.get_mut(ring) else { return false };
        let Some(first) = ring.segments.front() else { return false };
        arrived.segment = first.segment;
        ring.segments.drop_front();
        if arrived.segment.flags.any(Flags::OPTIONS) {
            ring.take_options(&mut arrived.options);
        }
        self.links[l].arrive_held(ring.segments.front().map(|next| next.passage));
        true
    }
}

impl Arrivals {
    /// Stores the options of the last segment.
    #[inline(never)]
    fn put_options(&mut self, options: &Options) {
        self.options.push(*options);
    }

    /// Copies the options of the first segment.
    #[inline(never)]
    fn take_options(&mut self, options: &mut Options) {
        if let Some(first) = self.options.pop() {
            *options = first;
        }
    }
}

/// What becomes of a segment on its way.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It arrives at the end of the last link `l`.
    Arrives { l: u32, passage: Passage },
    /// The link `l` would take it at `at`, and refuses it.
    Refused { l: u32, at: Time },
    /// It is lost on the link `l`, where its serialisation begins at `start`.
    Lost { l: u32, start: Time },
}

/// Carries a segment over links that pass frames in order, of which there is at least one. Its
/// arrival at the end of the last one is not counted.
#[inline(always)]
fn transmit_over(
    all: &mut [Link],
    links: &[u32],
    (mut at, mut triggered_at): Arrival,
    segment: &Segment,
) -> Way {
    let mut links = links.iter();
    let mut next = links.next();
    loop {
        let Some(&l) = next else { return Way::Lost { l: 0, start: at } };
        let link = &mut all[l as usize];
        let (arrival, fate) = link.pass_any_in_order(at, triggered_at, segment);
        let start = link.last_start();
        match fate {
            Fate::Sent => {}
            Fate::Refused => return Way::Refused { l, at },
            Fate::Lost => return Way::Lost { l, start },
        }
        next = links.next();
        if next.is_none() {
            return Way::Arrives { l, passage: (start, arrival) };
        }
        link.passed(arrival);
        (at, triggered_at) = (arrival, start);
    }
}
