//! The entries of links, cells and receivers' timers in the event queue.

use lasthop::units::Time;

use crate::engine::scheduler::{Key, LANES, Lane, NO_LANE, NO_LINK, OF_CELL, Scheduler, Source};
use crate::events::probe::Probe;
use crate::network::Net;
use crate::network::receiver_timers::{ReceiverTimer, ReceiverTimers};

#[allow(clippy::multiple_inherent_impl, reason = "one file for each way of a frame")]
impl<P: Probe> Net<P> {
    /// Source number of a link's departures.
    pub(crate) fn departure_source(link: usize) -> Source {
        link as Source
    }

    /// Source number of a link's losses.
    pub(crate) fn loss_source(&self, link: usize) -> Source {
        (self.links.len() + link) as Source
    }

    /// Source number of a link's arrivals.
    #[inline]
    pub(crate) fn arrival_source(&self, link: usize) -> Source {
        (2 * self.links.len() + link) as Source
    }

    /// Creates the scheduler. Cells get lanes, then the links in `busy` if all of them fit, then
    /// the departures of evented links while lanes are left, then `timers` if all of them fit.
    pub(crate) fn assign_lanes(&mut self, sources: usize, mut busy: Vec<usize>, timers: &[Source]) {
        // Frames in a cell arrive by the events of the cell.
        busy.retain(|&l| self.links[l].place().is_none());
        let cells = (0..)
            .zip(&self.cells)
            .flat_map(|(c, cell)| [(cell.source, OF_CELL | c), (cell.arrivals, NO_LINK)]);
        let mut lanes: Vec<(Source, u32)> = cells.take(LANES).collect();
        for (cell, lane) in self.cells.iter_mut().zip((1..=LANES as Lane).step_by(2)) {
            cell.lane = lane;
        }
        if lanes.len() + busy.len() <= LANES {
            for l in busy {
                self.links[l].tag = lanes.len() as Lane + 1;
                lanes.push((self.arrival_source(l), l as u32));
            }
        }
        let evented = self
            .links
            .iter()
            .enumerate()
            .filter(|(_, link)| link.is_evented() && link.place().is_none());
        let departures = evented.map(|(l, _)| Self::departure_source(l));
        let left = LANES.saturating_sub(lanes.len());
        lanes.extend(departures.take(left).map(|source| (source, NO_LINK)));
        // Lanes for only some of the timers would slow down each event and relieve the heap little.
        if lanes.len() + timers.len() <= LANES {
            lanes.extend(timers.iter().map(|&source| (source, NO_LINK)));
        }
        let mut next = sources as Source;
        let timers_of = |&in_advance: &bool| {
            let timers = ReceiverTimers::new(next);
            next += Source::from(in_advance);
            timers
        };
        self.receiver_timers = self.in_advance.iter().map(timers_of).collect();
        self.scheduler = Scheduler::new(next as usize, &lanes);
        self.schedule_cells();
    }

    /// The next event; the clock is set to it. `None` if there is none before `until`.
    #[inline(always)]
    pub(crate) fn next_event(&mut self) -> Option<Key> {
        let key = self.scheduler.peek(self.until.0)?;
        self.event = key;
        (self.now, self.triggered_at) = (Time(key.time), Time(key.triggered_at));
        Some(key)
    }

    /// Schedules the next arrival at the far end of a link.
    #[inline(always)]
    pub(crate) fn schedule_arrival(
        &mut self,
        l: usize,
        lane: Lane,
        (at, triggered_at): (Time, Time),
    ) {
        if lane != NO_LANE {
            self.scheduler.set_lane(lane, at.0, triggered_at.0);
        } else {
            self.schedule(self.arrival_source(l), (at, triggered_at));
        }
    }

    /// Schedules the next arrival, loss and departure of a link.
    #[inline(never)]
    pub(crate) fn schedule_link(&mut self, l: usize) {
        let link = &self.links[l];
        let (lane, arrival, loss, departure) =
            (link.tag, link.next_arrival(), link.next_loss(), link.departure());
        self.schedule_arrival(l, lane, arrival);
        self.schedule(self.loss_source(l), loss);
        self.schedule(Self::departure_source(l), departure);
    }

    /// Adds an entry for the timer of a receiver behind the link `l`.
    #[inline(never)]
    pub(crate) fn add_receiver_timer(&mut self, l: u32, timer: ReceiverTimer) {
        let due = &mut self.receivers_due[l as usize];
        *due = timer.0.min(*due);
        if self.receiver_timers[l as usize].add(timer) {
            self.schedule_receiver_timers(l as usize, Some(timer));
        }
    }

    /// The timer that is due first of the receivers behind the link `l`. `update`: see
    /// [`ReceiverTimers::first`].
    #[inline]
    pub(crate) fn first_receiver_timer(
        &mut self,
        l: usize,
        update: impl FnMut(ReceiverTimer) -> Option<ReceiverTimer>,
    ) -> Option<ReceiverTimer> {
        self.receiver_timers[l].first(update)
    }

    /// There is one entry for the timers of the receivers behind the link `l`.
    #[inline]
    pub(crate) fn has_one_receiver_timer(&self, l: usize) -> bool {
        self.receiver_timers[l].is_one()
    }

    /// Moves the event of the timers behind the link `l` to the first one; `None` if there is none.
    pub(crate) fn schedule_receiver_timers(&mut self, l: usize, first: Option<ReceiverTimer>) {
        let (source, (due, set, of, _)) = self.receiver_timers[l].move_event(first);
        self.scheduler.set_for(source, of, due.0, set.0);
    }
}
