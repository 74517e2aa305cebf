//! The events of a frame on a link of a cell.

use lasthop::link::cell::config::Place as InCell;
use lasthop::segment::{Flags, Segment};

use super::checked::Checked;
use super::{Place, Verifier};
use crate::events::{Event, Kind};
use crate::network::cells::drop_reason;

#[allow(clippy::multiple_inherent_impl, reason = "the checks of one kind of link are a file")]
impl Verifier {
    /// A frame enters the queue of a station, leaves it, or ends an attempt on the medium.
    pub(super) fn on_cell_event(
        &mut self,
        l: usize,
        place: InCell,
        e: &Event<'_>,
        segment: &Segment,
    ) {
        let (id, node, measured) = (segment.id, e.node, u64::from(e.t >= self.measure_from));
        let (link, cell) = (&mut self.links[l], &mut self.cells[place.cell as usize]);
        let mut verdict = Ok(());
        match e.kind {
            Kind::Enqueued => {
                let route = self.next_hop[usize::from(node)][usize::from(segment.to)];
                link.offered += measured;
                let cut = match cell.attempts_allowed() {
                    // A cell with aggregation sends packets whole.
                    allowed if cell.aggregates() => (1, allowed),
                    allowed => link.cut(segment, allowed),
                };
                // Fragments that arrive cause no event before the frame is complete.
                link.cell_attempts.1 += if cut.0 > 1 { u64::from(cut.1) } else { 0 };
                verdict = cell.enqueued(place.from, &link.config, segment, cut, e.value as u64);
                self.check(route == Some(l as u32), || {
                    format!(
                        "packet {id} leaves node {node} on link {l}, but its route is {route:?}"
                    )
                });
                self.moved("enters a cell", segment, Place::Node(node), Some(Place::Link(l)));
            }
            Kind::DroppedAtQueue => {
                link.refused += measured;
                verdict = cell.dropped(place.from, id);
                self.counts.refused += 1;
                self.moved("is dropped", segment, Place::Link(l), None);
            }
            Kind::Filtered => {
                link.filtered += measured;
                verdict = cell.dropped(place.from, id);
                self.counts.filtered += 1;
                self.moved("is filtered", segment, Place::Link(l), None);
            }
            Kind::Marked => {
                link.marked += measured;
                self.packets
                    .get_mut(&id)
                    .into_iter()
                    .for_each(|p| p.segment.flags = p.segment.flags.with(Flags::CE));
                self.moved("is marked", segment, Place::Link(l), Some(Place::Link(l)));
            }
            Kind::Arrived | Kind::Corrupted | Kind::LostOnAir | Kind::AttemptFailed => {
                verdict = self.attempted(l, place, e, segment);
            }
            _ => {}
        }
        self.on_link(l, id, verdict);
    }

    /// A frame ends an attempt on the medium.
    fn attempted(&mut self, l: usize, place: InCell, e: &Event<'_>, segment: &Segment) -> Checked {
        let (id, node, measured) = (segment.id, e.node, u64::from(e.t >= self.measure_from));
        let (link, cell) = (&mut self.links[l], &mut self.cells[place.cell as usize]);
        let before = cell.attempts;
        let kind = if e.kind == Kind::Corrupted { Kind::Arrived } else { e.kind };
        let verdict = cell.ended(place.from, id, kind, e.reason, e.value, e.t);
        // The retransmission after a lost link ACK may succeed without an event.
        let (certain, possible) =
            (cell.attempts - before, u64::from(e.reason == drop_reason::LINK_ACK));
        link.cell_attempts =
            (link.cell_attempts.0 + certain, link.cell_attempts.1 + certain + possible);
        if kind == Kind::Arrived {
            link.delivered += measured;
            let to = link.config.to;
            self.check(node == to, || {
                format!("packet {id} arrives at node {node}, but link {l} ends at {to}")
            });
            self.arrives(l, e, segment);
        } else if e.kind == Kind::LostOnAir {
            link.lost += measured;
            self.counts.lost += 1;
            self.moved("is lost", segment, Place::Link(l), None);
        }
        verdict
    }
}
