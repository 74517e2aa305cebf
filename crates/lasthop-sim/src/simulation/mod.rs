//! A run: the event loop.

mod report;

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, Ordering};

use lasthop::link::Link;
use lasthop::link::cell::{Delivery, Report};
use lasthop::scenario::network::Network;
use lasthop::segment::{Handle, NodeId};
use lasthop::tcp::sender::SenderCounters;
use lasthop::units::{Duration, Time};

use crate::build::link_plan::{Choice, Plan};
use crate::build::{Built, EventSource, Options, RunError, build};
use crate::engine::scheduler::{Key, NO_LINK, OF_CELL};
use crate::events::Observer;
use crate::hosts::Hosts;
use crate::hosts::endpoint::Connection;
use crate::hosts::external::Endpoint;
use crate::network::by_agent::Arrived;
use crate::network::fast_path::PlainAck;
use crate::network::{Net, Timer};
use crate::probes::Probes;
use crate::probes::datagrams::DatagramRecord;

/// A simulation in progress.
pub struct Simulation<R> {
    net: Net<Probes<R>>,
    hosts: Hosts,
    sources: Vec<EventSource>,
    plan: Plan,
    measure_from: Time,
    end: Time,
    /// Counters of each sender when measuring began; empty if the whole run is measured.
    before_measuring: Vec<SenderCounters>,
}

/// The event loop checks for cancellation once per this number of events.
const CANCEL_EVERY: u64 = 4096;

/// ACKs on the fast path, or events of a cell, that are handled in one go, at most.
const MOST_EVENTS: u64 = 1024;

impl<R: Observer> Simulation<R> {
    /// A simulation at time zero.
    ///
    /// # Errors
    ///
    /// [`RunError::Scenario`] if a scheme lacks a node, link or capability that it needs, or a loss
    /// or delay model cannot be set up.
    pub fn new(
        network: &Network,
        seed: u64,
        reader: R,
        options: Options,
    ) -> Result<Self, RunError> {
        let network = &*network.with_processing_times();
        Self::of_timed(network, seed, reader, options, &OnceCell::new(), Vec::new())
    }

    /// The same, of a network that contains the time that receivers take to answer. `same`: how it
    /// is computed, if that is known from another seed; `links`: those of such a run.
    pub(crate) fn of_timed(
        network: &Network,
        seed: u64,
        reader: R,
        options: Options,
        same: &OnceCell<Choice>,
        links: Vec<Link>,
    ) -> Result<Self, RunError> {
        let built = build(network, seed, reader, options, same, links)?;
        let Built { net, hosts, sources, plan } = built;
        let end = Time::ZERO + network.duration;
        let measure_from = Time::ZERO + network.measure_from;
        let before_measuring = Vec::new();
        Ok(Simulation { net, hosts, sources, plan, measure_from, end, before_measuring })
    }

    /// Takes the links of a simulation that is no longer used.
    pub(crate) fn take_links(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.net.links)
    }

    /// Takes the memory of a simulation that is no longer used, mostly of the same network with
    /// another seed. This one is at time zero.
    pub(crate) fn reuse_memory(&mut self, mut old: Self) {
        self.net.reuse_memory(&mut old.net);
        self.net.probes.reuse_memory(&mut old.net.probes);
        let connections = self.hosts.connections.iter_mut();
        connections.zip(&mut old.hosts.connections).for_each(|(new, old)| new.reuse_memory(old));
    }

    /// How each link is computed, and what measures the run; empty unless the options ask for it.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// TCP connections, by index; a split flow has two.
    pub fn connections(&self) -> &[Connection] {
        &self.hosts.connections
    }

    /// Ends the simulation and returns its TCP connections.
    pub fn into_connections(self) -> Vec<Connection> {
        self.hosts.connections
    }

    /// The datagrams sent to each end of the external stacks so far.
    pub fn take_datagrams(&mut self) -> Vec<Vec<DatagramRecord>> {
        self.net.probes.take_datagrams()
    }

    /// Why the run cannot go on with an external stack; `None` if it can.
    pub fn endpoint_failure(&self) -> Option<&str> {
        self.hosts.externals.iter().find_map(|e| e.failure())
    }

    /// Number of ends of external stacks.
    pub fn endpoints(&self) -> usize {
        self.hosts.externals.len()
    }

    /// Number of segments in transit.
    pub fn in_transit(&self) -> usize {
        self.net.in_transit()
    }

    /// Bytes in transit, headers included.
    fn bytes_in_transit(&self) -> u64 {
        let size = |a: &PlainAck| self.hosts.connections[a.connection as usize].plain_ack_size();
        let acks = self.net.fast.acks().map(|a| u64::from(size(a))).sum::<u64>();
        let segments = self.net.agent_paths.segments().map(|s| u64::from(s.size)).sum::<u64>();
        self.net.pool.bytes() + acks + segments
    }

    /// Length of the measured time.
    pub fn measured(&self) -> Duration {
        self.end - self.measure_from
    }

    /// Runs to the end. Returns false if the run was cancelled.
    pub fn run(&mut self, cancel: &AtomicBool) -> bool {
        self.run_with(&mut [], cancel)
    }

    /// Runs to the end with these ends of external stacks: for each flow of one, in the order of
    /// the flows, the sender's and the receiver's. Returns false if the run was cancelled.
    pub fn run_with(&mut self, endpoints: &mut [&mut dyn Endpoint], cancel: &AtomicBool) -> bool {
        if self.measure_from > Time::ZERO {
            if !self.run_until(self.measure_from.min(self.end), endpoints, cancel) {
                return false;
            }
            let stored = self.bytes_in_transit();
            self.net.probes.begin(stored);
            let counters = self.hosts.connections.iter().map(|c| c.sender().counters());
            self.before_measuring = counters.collect();
            let from = self.measure_from;
            self.hosts.flows.iter_mut().for_each(|flow| flow.begin_measuring(from));
        }
        let finished = self.run_until(self.end, endpoints, cancel);
        self.net.links.iter_mut().for_each(Link::count_idle_path);
        finished
    }

    /// Handles the events before `end`. Returns false if the run was cancelled.
    fn run_until(
        &mut self,
        end: Time,
        endpoints: &mut [&mut dyn Endpoint],
        cancel: &AtomicBool,
    ) -> bool {
        let mut events: u64 = 0;
        self.net.until = end;
        while let Some(key) = self.net.next_event() {
            events += 1;
            if events >= CANCEL_EVERY {
                events = 0;
                if cancel.load(Ordering::Relaxed) {
                    return false;
                }
            }
            match key.link {
                NO_LINK => self.event(key),
                l if l & OF_CELL != 0 => events += self.cell_events((l & !OF_CELL) as usize),
                l if self.net.has_plain_ack(l as usize) => events += self.held_frames(l as usize),
                l => self.arrival(l as usize),
            }
            while let Some(pending) = self.net.pending.pop_front() {
                self.hosts.handle_pending(pending, endpoints, &mut self.net);
            }
            if !self.net.entered.is_empty() {
                self.advance();
            }
        }
        self.net.now = end;
        true
    }

    /// Computes the receivers in advance that the segments sent by the present event reach.
    #[inline(never)]
    fn advance(&mut self) {
        while let Some(l) = self.net.entered.pop() {
            let l = l as usize;
            while let Some(next) = self.net.next_in_advance(l) {
                if next.0 >= self.net.receivers_due[l]
                    && !self.hosts.run_receiver_timers(l, next, &mut self.net)
                {
                    self.net.arrives_by_event(l);
                    break;
                }
                if let Some(handle) = self.net.arrive_in_advance(l, next) {
                    self.hosts.deliver_frame(handle, &mut self.net);
                }
            }
        }
    }

    #[inline(never)]
    fn event(&mut self, key: Key) {
        match self.sources[key.source as usize] {
            EventSource::Host(timer) => {
                self.hosts.handle_timer(timer, key.triggered_at, &mut self.net)
            }
            EventSource::Network(Timer::Arrival(l)) => self.arrival(l as usize),
            EventSource::Network(Timer::Departure(l)) => self.net.depart(l as usize),
            EventSource::Network(Timer::Loss(l)) => self.net.loss(l as usize),
            EventSource::Network(Timer::Cell(c)) => {
                self.cell_events(c as usize);
            }
            EventSource::Network(Timer::CellArrival(c)) => {
                if let Some((l, handle)) = self.net.cell_arrival(c as usize) {
                    self.cell_frame(l, handle);
                }
            }
        }
    }

    #[inline(always)]
    fn arrival(&mut self, l: usize) {
        if self.net.has_plain_ack(l) {
            self.held_frames(l);
        } else if let Some((node, handle)) = self.net.arrive(l) {
            self.arrived(l, node, handle);
        }
    }

    /// Frames that are not in the pool arrive at the end of a link. Returns the number of events.
    #[inline(always)]
    fn held_frames(&mut self, l: usize) -> u64 {
        match self.net.agent_paths.ring(l as u32) {
            Some(ring) => self.segments(l, ring),
            None => self.plain_acks(l),
        }
    }

    /// ACKs on the fast path arrive at the end of a link: the one that is due, and those behind it
    /// for which no other event comes between. Returns the number of events.
    #[inline(never)]
    fn plain_acks(&mut self, l: usize) -> u64 {
        let mut events = 0;
        let ring = self.net.ring_of_acks(l);
        while let Some(ack) = self.net.take_plain_ack(l, ring) {
            self.hosts.receive_plain_ack(ack, &mut self.net);
            events += 1;
            if events == MOST_EVENTS || !self.net.continue_plain_acks(l) {
                break;
            }
        }
        self.net.end_plain_acks(l, events);
        events
    }

    /// Segments of the rings, on their way by way of an agent: the one that is due, and those for
    /// which no other event comes between. Returns the number of events.
    #[inline(never)]
    fn segments(&mut self, mut l: usize, mut ring: usize) -> u64 {
        let (mut events, mut of_link, mut arrived) = (0, 0, Arrived::default());
        while self.net.take_segment(l, ring, &mut arrived) {
            self.hosts.receive_on_the_way(l, &mut arrived, &mut self.net);
            of_link += 1;
            if self.net.continue_plain_acks(l) {
                continue;
            }
            events += of_link;
            match self.net.next_segment(l, of_link) {
                Some(next) if events < MOST_EVENTS => ((l, ring), of_link) = (next, 0),
                _ => break,
            }
        }
        events
    }

    /// A frame arrives at the far end of a link.
    #[inline(always)]
    fn arrived(&mut self, l: usize, node: NodeId, handle: Handle) {
        if self.net.arrived(l, node, handle) {
            self.hosts.receive(&mut self.net, node, handle);
        }
    }

    /// Events of a cell: the one that is due, and those behind it for which no other event comes
    /// between. Returns their number.
    #[inline(never)]
    fn cell_events(&mut self, c: usize) -> u64 {
        let mut events = 0;
        self.net.begin_cell_events(c);
        loop {
            self.cell_event(c);
            events += 1;
            if events == MOST_EVENTS || !self.net.continue_cell_events(c) {
                break;
            }
        }
        self.net.end_cell_events(c);
        events
    }

    /// Handles the event of a cell that is due.
    #[inline(always)]
    fn cell_event(&mut self, c: usize) {
        if let Some(delivery) = self.net.fire_cell(c) {
            self.cell_delivery(c, &delivery);
        }
        if self.net.has_reports() {
            self.cell_reports(c);
        }
    }

    /// Handles what else a cell reports.
    #[inline(never)]
    fn cell_reports(&mut self, c: usize) {
        let mut reported = 0;
        while let Some(report) = self.net.report(reported) {
            match report {
                Report::Delivered(delivery) => self.cell_delivery(c, &delivery),
                other => self.cell_report(c, &other),
            }
            reported += 1;
        }
        self.net.clear_reports();
    }

    /// Handles a report of a cell.
    #[inline(never)]
    fn cell_report(&mut self, c: usize, report: &Report) {
        if let Some((l, handle)) = self.net.cell_report(c, report) {
            self.cell_frame(l, handle);
        }
    }

    /// Handles a delivery in a cell.
    #[inline(never)]
    fn cell_delivery(&mut self, c: usize, delivery: &Delivery) {
        if self.net.reports_delivery(delivery) {
            self.cell_report(c, &delivery.report());
        } else if let Some((l, handle)) = self.net.cell_delivery(c, delivery) {
            self.arrived(l, self.net.links[l].to, handle);
        }
    }

    /// A frame that a cell has carried arrives.
    #[inline(never)]
    fn cell_frame(&mut self, l: usize, handle: Handle) {
        self.arrived(l, self.net.links[l].to, handle);
    }
}
