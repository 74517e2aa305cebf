//! Frames that a link drops, or that arrive with bit errors.

use lasthop::queue::drop_reason;
use lasthop::segment::{Flags, Segment};
use lasthop::units::Time;

use super::links::LinkModel;
use super::{Place, Verifier};
use crate::events::{Event, Kind};

#[allow(clippy::multiple_inherent_impl, reason = "drops and bit errors are a file apart")]
impl Verifier {
    /// Checks what the policer of a link has done with a frame.
    pub(super) fn policed(&mut self, l: usize, segment: &Segment, now: Time, dropped: bool) {
        if dropped {
            self.counts.refused += 1;
            self.links[l].refused += u64::from(now >= self.measure_from);
        }
        let bytes = segment.size + self.links[l].config.overhead;
        let conforms = self.links[l].policer.as_mut().is_none_or(|p| p.conforms(now, bytes));
        self.check(conforms != dropped, || {
            let what = if dropped { "drops" } else { "passes" };
            format!("the policer of link {l} {what} packet {}: conforms {conforms}", segment.id)
        });
    }

    /// A queue drops a frame. A DropTail queue does so only because it is full, and reports it
    /// before the frame counts as offered.
    pub(super) fn dropped_at_link(&mut self, l: usize, e: &Event<'_>, segment: &Segment) {
        let id = segment.id;
        let LinkModel { queue, exceeding, .. } = &mut self.links[l];
        if let Some(queue) = queue {
            let verdict = if e.reason == drop_reason::POLICER {
                let exceeds = exceeding.take() == Some(id);
                exceeds.then_some(()).ok_or_else(|| "conforms, but the policer drops it".into())
            } else {
                queue.dropped(id, e.reason)
            };
            self.on_link(l, id, verdict);
            self.moved("is dropped", segment, Place::Link(l), None);
            self.counts.refused += 1;
            self.links[l].refused += u64::from(e.t >= self.measure_from);
        } else {
            self.check([drop_reason::FULL, drop_reason::POLICER].contains(&e.reason), || {
                format!("packet {id} is dropped by the DropTail queue of link {l}: {}", e.reason)
            });
        }
    }

    /// A queue removes a packet, because the one that has just been offered makes it redundant.
    pub(super) fn filtered(&mut self, l: usize, e: &Event<'_>, segment: &Segment) {
        let queue = self.links[l].queue.as_mut();
        let verdict = queue.map_or_else(
            || Err("is filtered by a DropTail queue".into()),
            |q| q.filtered(segment.id),
        );
        self.on_link(l, segment.id, verdict);
        self.moved("is filtered", segment, Place::Link(l), None);
        self.counts.filtered += 1;
        self.links[l].filtered += u64::from(e.t >= self.measure_from);
    }

    /// A packet arrives at the far end of a link, or ends there because of bit errors of its
    /// connection.
    pub(super) fn arrives(&mut self, l: usize, e: &Event<'_>, segment: &Segment) {
        let corrupted = e.kind == Kind::Corrupted;
        if self.links[l].config.impairments.corrupt.is_some()
            && segment.flags.has(Flags::CORRUPTED)
            && let Some(packet) = self.packets.get_mut(&segment.id)
        {
            packet.segment.flags = packet.segment.flags.with(Flags::CORRUPTED);
        }
        self.moved("arrives", segment, Place::Link(l), (!corrupted).then_some(Place::Node(e.node)));
        if corrupted {
            let (id, may) = (
                segment.id,
                segment.flags.has(Flags::CORRUPTED)
                    || self.connections.get(segment.flow as usize).is_some_and(|c| c.may_corrupt),
            );
            self.check(may && e.node == segment.to, || {
                format!(
                    "packet {id} has bit errors at node {}, but none are configured there",
                    e.node
                )
            });
            self.counts.lost += 1;
        }
    }
}
