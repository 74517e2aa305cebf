//! The checks after the run: packets that are missing, and the result against the events.

use lasthop::units::Time;

use super::cells::CellModel;
use super::links::LinkModel;
use super::{Place, Verifier};
use crate::probes::result::{LinkResult, RunResult};

#[allow(clippy::multiple_inherent_impl, reason = "the checks at the end are a file apart")]
impl Verifier {
    /// Completes the checks after the run, also for packets that are missing.
    ///
    /// # Errors
    ///
    /// The violations of the whole run.
    pub fn finish(&self) -> Result<(), Vec<String>> {
        let mut violations = self.violations.clone();
        let mut report = |text: String| violations.push(format!("at the end: {text}"));
        self.packets.iter().filter_map(|(id, p)| self.vanished(*id, p.place)).for_each(&mut report);
        let c = self.counts();
        if c.sent + c.injected
            != c.received
                + c.lost
                + c.refused
                + c.filtered
                + c.dropped
                + c.held_by_agents
                + c.in_transit
        {
            report(format!("packets are not conserved: {c:?}"));
        }
        for (l, link) in self.links.iter().enumerate() {
            if let Err(text) = link.check_work_conserving(self.end) {
                report(format!("link {l}: {text}"));
            }
        }
        (0..self.flows.len()).filter_map(|f| self.undelivered(f)).for_each(&mut report);
        for medium in &self.media {
            let outstanding = |f: usize| self.outstanding.as_ref().map_or(0, |o| o[f]);
            let sum = |of: &dyn Fn(usize) -> u64| medium.flows.iter().map(|&f| of(f)).sum();
            let frames = medium.link.map_or(0, |l| self.links[l].delivered);
            if let Err(text) =
                medium.check(sum(&|f| self.flows[f].delivered_measured), sum(&outstanding), frames)
            {
                report(text);
            }
        }
        if self.found > self.violations.len() {
            report(format!("{} more violations", self.found - self.violations.len()));
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    /// What is wrong with a packet that is in this place after the run.
    fn vanished(&self, id: u64, place: Place) -> Option<String> {
        let l = match place {
            Place::Node(n) => return Some(format!("packet {id} vanished at node {n}")),
            Place::Agent(_) => return None,
            Place::Link(l) => l,
        };
        if let Some(c) = self.links[l].config.cell {
            let is_there = self.cells[c.cell as usize].has(c.from, id);
            return (!is_there).then(|| format!("packet {id} vanished in a cell, link {l}"));
        }
        let latest = self.links[l].frames.get(&id)?.latest;
        let is_late = latest < self.end && self.offered.is_none_or(|o| o.1.id != id);
        is_late.then(|| format!("packet {id} vanished on link {l}: it had to arrive by {latest}"))
    }

    /// What is wrong if bytes that have arrived in order were not delivered.
    fn undelivered(&self, f: usize) -> Option<String> {
        let flow = &self.flows[f];
        let in_order = self.connections[*flow.connections.last()?].in_order;
        let unread = flow.reads_slowly && flow.delivered < in_order;
        (flow.delivered != in_order && !unread).then(|| {
            format!(
                "flow {f}: {in_order} bytes arrived in order, but {} were delivered",
                flow.delivered
            )
        })
    }

    /// Like [`Self::finish`]; also checks that the result of the run agrees with its events.
    ///
    /// # Errors
    ///
    /// The violations of the whole run, and the differences between events and result.
    pub fn finish_with(&self, result: &RunResult) -> Result<(), Vec<String>> {
        let mut violations = self.finish().err().unwrap_or_default();
        let mut same = |what: String, events: u64, result: u64| {
            if events != result {
                violations.push(format!("{what}: {events} in the events, {result} in the result"));
            }
        };
        for (f, (model, flow)) in self.flows.iter().zip(&result.flows).enumerate() {
            let mut same = |what: &str, e, r| same(format!("flow {f}: {what}"), e, r);
            same("bytes delivered", model.delivered_measured, flow.delivered_bytes);
            let Some(first) = model.connections.first().map(|&c| &self.connections[c]) else {
                same("datagrams", model.datagrams, flow.sent_segments);
                continue;
            };
            let repeated = &flow.retransmissions;
            same("segments sent", first.sent, flow.sent_segments);
            same("retransmissions", first.retransmitted, repeated.total);
            same("spurious retransmissions", first.spurious, repeated.spurious);
            same("fast retransmits", first.fast_retransmits, flow.fast_retransmits.total);
        }
        // Pairs of stations that carried nothing are not in the result.
        let has_row =
            |(_, model): &(usize, &LinkModel)| model.config.cell.is_none() || model.offered > 0;
        let rows = || self.links.iter().enumerate().filter(has_row).zip(&result.links);
        for ((l, model), link) in rows() {
            let mut same = |what: &str, e, r| same(format!("link {l}: {what}"), e, r);
            same("frames offered", model.offered, link.offered_frames);
            same("frames delivered", model.delivered, link.delivered_frames);
            same("frames lost", model.lost, link.lost_on_air);
            same("frames refused or dropped", model.refused, link.dropped_at_queue);
            same("frames filtered", model.filtered, link.filtered_frames.unwrap_or(0));
            if let Some(attempts) = self.compared_attempts(link) {
                let (least, most) = self.attempts(l);
                same("attempts", attempts.clamp(least, most), attempts);
            }
            same("frames marked", model.marked, link.marked_frames);
        }
        for ((l, model), link) in rows() {
            if let (Some(place), Some(n)) = (model.config.cell, self.compared_attempts(link)) {
                let cell = &self.cells[place.cell as usize];
                violations.extend(cell.compare_attempts(l, place, n).err());
            }
        }
        let aggregating = self.cells.iter().filter(|c| c.aggregates());
        for (cell, air_time) in aggregating.zip(&result.cells) {
            violations.extend(cell.air_time.compare(air_time, result.duration_s).err());
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    /// Attempts of a link in the result, which are known where the measurement is the whole run.
    fn compared_attempts(&self, link: &LinkResult) -> Option<u64> {
        link.attempts.filter(|_| self.measure_from == Time::ZERO)
    }

    /// The least and the most attempts of a link: one in progress at the end has neither failed nor
    /// arrived.
    fn attempts(&self, l: usize) -> (u64, u64) {
        let model = &self.links[l];
        let in_cell = model.config.cell.is_some();
        let (least, most) = if in_cell { model.cell_attempts } else { model.attempts() };
        let offered = self.offered.filter(|o| o.0 == l);
        let offered = offered.map_or(0, |o| model.fragments_and_slots(&o.1).0);
        (least, most + u64::from(offered) + self.in_propagation(l))
    }

    /// Frames on a link of a cell whose last attempt may have ended without an event: they are in
    /// propagation or in a reorder buffer.
    fn in_propagation(&self, l: usize) -> u64 {
        let hides = |cell: &CellModel| cell.delay().0 > 0 || cell.aggregates();
        let place = self.links[l].config.cell;
        if !place.is_some_and(|place| hides(&self.cells[place.cell as usize])) {
            0
        } else {
            self.packets.values().filter(|p| matches!(p.place, Place::Link(on) if on == l)).count()
                as u64
        }
    }
}
