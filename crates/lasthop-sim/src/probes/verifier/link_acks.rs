//! Checks of agents that acknowledge what the link layer reports: data are acknowledged only if
//! they have crossed a link from the agent's node, or are on one and cross it.

use lasthop::segment::{Flags, NodeId, Segment};

use super::{Place, Verifier};
use crate::events::{Event, Kind};

#[allow(clippy::multiple_inherent_impl, reason = "the checks of one kind of agent are a file")]
impl Verifier {
    /// Data cross a link, or are lost there.
    pub(super) fn on_acknowledged_link(&mut self, l: usize, e: &Event<'_>, segment: &Segment) {
        let (start, end) = (segment.seq, segment.seq + u64::from(segment.len));
        let c = segment.flow as usize;
        let is_data = segment.forward && end > start && !segment.flags.has(Flags::DATAGRAM);
        if !is_data || !self.connections.get(c).is_some_and(|c| c.link_reports) {
            return;
        }
        let from = self.links[l].config.from;
        match e.kind {
            Kind::Arrived | Kind::Corrupted => {
                self.crossed.entry((c, from)).or_default().add(start, end);
            }
            Kind::LostOnAir | Kind::DroppedAtQueue => {
                let Some(crossed) = self.crossed.get(&(c, from)) else { return };
                let missing = crossed.missing_from(start);
                let is_promised = missing < end.min(crossed.acknowledged);
                if !is_promised || self.end_on_a_link(from, c, missing).is_some() {
                    return;
                }
                self.violation(|| {
                    format!(
                        "an agent at node {from} has acknowledged byte {missing} of connection \
                         {c}, but link {l} does not deliver it"
                    )
                });
            }
            _ => {}
        }
    }

    /// If an agent with reports sends an ACK: the byte up to which the links from its node have
    /// delivered the data, or are about to.
    pub(super) fn reported(&mut self, e: &Event<'_>, segment: &Segment) -> Option<u64> {
        let (node, c) = (e.node, segment.flow as usize);
        let by_agent = matches!(e.kind, Kind::AgentInjected | Kind::AgentForwarded);
        if !by_agent || segment.forward || !self.connections[c].link_reports {
            return None;
        }
        let crossed = self.crossed.entry((c, node)).or_default();
        crossed.acknowledged = crossed.acknowledged.max(segment.ack);
        let mut upto = crossed.missing_from(self.connections[c].in_order);
        while let Some(end) = self.end_on_a_link(node, c, upto).filter(|_| upto < segment.ack) {
            upto = self.crossed[&(c, node)].missing_from(end);
        }
        Some(upto)
    }

    /// The end of a segment that has this byte and is on a link from a node.
    fn end_on_a_link(&self, node: NodeId, c: usize, byte: u64) -> Option<u64> {
        let here = |place| matches!(place, Place::Link(l) if self.links[l].config.from == node);
        let segments = self.packets.values().filter(|p| here(p.place)).map(|p| &p.segment);
        let of_it = segments.filter(|s| s.flow as usize == c && s.forward);
        of_it
            .map(|s| (s.seq, s.seq + u64::from(s.len)))
            .find_map(|(start, end)| (start..end).contains(&byte).then_some(end))
    }
}
