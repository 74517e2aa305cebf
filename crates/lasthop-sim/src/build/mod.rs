//! Builds a run at time zero from a checked scenario.

mod agents;
mod bursts;
mod flows;
pub mod link_plan;
mod links;
mod plan;
mod receivers;

use std::cell::OnceCell;
use std::sync::Arc;

use lasthop::link::Link;
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::{Flow, Network};
use lasthop::tcp::profile::Profile;
use lasthop::units::Time;
use thiserror::Error;

use crate::engine::scheduler::Source;
use crate::events::Observer;
use crate::hosts::handover::HandoverHost;
use crate::hosts::oracle::{self, Oracle};
use crate::hosts::sessions::Session;
use crate::hosts::{self, Hosts};
use crate::network::cells::CellHost;
use crate::network::errors::Errors;
use crate::network::{self, Net};
use crate::probes::Probes;
use crate::probes::gaps::DeliveryGap;
use link_plan::{Choice, Plan};

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum RunError {
    /// The scenario cannot be simulated, or an external stack is at fault; the text says why.
    #[error("{0}")]
    Scenario(String),
    /// The run was cancelled before its end.
    #[error("cancelled")]
    Cancelled,
}

/// Options of a run that do not belong to the scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Simulate every departure from a link as a separate event. Slower; the result is the same.
    pub evented: bool,
    /// Handle every arrival at a receiver as a separate event. Slower; the result is the same.
    pub receivers_by_event: bool,
    /// Say in the plan of a [`Simulation`](crate::simulation::Simulation) why each link and
    /// receiver is computed as it is. The result is the same.
    pub explain: bool,
}

/// What a source of events belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventSource {
    /// A link or a cell.
    Network(network::Timer),
    /// A host.
    Host(hosts::Timer),
}

/// A run at time zero.
pub(crate) struct Built<R> {
    pub net: Net<Probes<R>>,
    pub hosts: Hosts,
    /// By source number.
    pub sources: Vec<EventSource>,
    /// How each link is computed.
    pub plan: Plan,
}

/// A run under construction.
struct Builder<'a, R> {
    network: &'a Network,
    seed: u64,
    measure_from: Time,
    end: Time,
    net: Net<Probes<R>>,
    hosts: Hosts,
    sources: Vec<EventSource>,
    /// Reasons are wanted.
    explains: bool,
    /// The profile of the connection added last, which the next one shares if it is the same.
    profile: Option<Arc<Profile>>,
}

/// A run at time zero. `same`: how the network is computed, if that is known from another seed;
/// `links`: those of a run with another seed, if there was one.
///
/// # Errors
///
/// [`RunError::Scenario`] if a scheme lacks a node, link or capability that it needs, or a loss or
/// delay model cannot be set up.
pub(crate) fn build<R: Observer>(
    network: &Network,
    seed: u64,
    reader: R,
    options: Options,
    same: &OnceCell<Choice>,
    links: Vec<Link>,
) -> Result<Built<R>, RunError> {
    let mut builder = Builder::new(network, seed, reader, options, links)?;
    for (f, flow) in network.flows.iter().enumerate() {
        builder.add_flow(f as u32, flow)?;
    }
    builder.measure_bursts();
    builder.add_sessions();
    builder.add_errors()?;
    builder.add_oracles();
    builder.watch_links();
    builder.add_handovers();
    builder.watch_link_states();
    let plan = builder.plan(options, same);
    builder.schedule_start();
    let Builder { net, hosts, sources, .. } = builder;
    Ok(Built { net, hosts, sources, plan })
}

impl<'a, R: Observer> Builder<'a, R> {
    /// The links and cells, without flows.
    fn new(
        network: &'a Network,
        seed: u64,
        reader: R,
        options: Options,
        old: Vec<Link>,
    ) -> Result<Self, RunError> {
        let end = Time::ZERO + network.duration;
        let measure_from = Time::ZERO + network.measure_from;
        let mut links = links::links(network, seed, (measure_from, end), options, old)?;
        let first_cell = 3 * links.len() as Source;
        let cells = CellHost::all(network, seed, links::full_segment(network), first_cell)
            .map_err(RunError::Scenario)?;
        for link in &mut links {
            if let Some(place) = link.place() {
                let cell = &cells[place.cell as usize].cell;
                link.set_rate(cell.rate_of_pair(place.from as usize, place.to as usize));
            }
        }
        let sources = links::sources(links.len() as u32, cells.len() as u32);
        let probes = Probes::new(reader, measure_from, end);
        let mut net = Net::new(links, cells, network.nodes.len(), probes);
        let stations = network.cells.iter().flat_map(|cell| &cell.stations).map(|s| &s.queue);
        let mut queues = network.links.iter().map(|l| &l.queue).chain(stations);
        net.paths.set_has_sources(queues.any(QueueConfig::reads_source));
        let hosts = Hosts { span: (measure_from, end), ..Hosts::default() };
        let (explains, profile) = (options.explain, None);
        Ok(Builder { network, seed, measure_from, end, net, hosts, sources, explains, profile })
    }

    /// A reason; empty if none is wanted.
    fn reason(&self, text: impl FnOnce() -> String) -> String {
        if self.explains { text() } else { String::new() }
    }

    fn add_source(&mut self, timer: hosts::Timer) -> Source {
        self.sources.push(EventSource::Host(timer));
        (self.sources.len() - 1) as Source
    }

    /// Adds the sessions in which a click depends on the page before. The flows of later pages
    /// start at their click.
    fn add_sessions(&mut self) {
        for session in &self.network.sessions {
            let Some(think) = session.think else { continue };
            let index = self.hosts.sessions.len() as u32;
            for f in session.pages.iter().cloned().flatten() {
                self.hosts.flows[f].join_session(index);
            }
            for f in session.pages.iter().skip(1).cloned().flatten() {
                self.hosts.flows[f].defer(self.end);
                self.net.probes.defer(f, self.end);
            }
            self.hosts.sessions.push(Session::new(session.pages.clone(), think));
        }
    }

    /// Sets up the bit errors of connections. The two halves of a split connection draw from
    /// separate random streams.
    fn add_errors(&mut self) -> Result<(), RunError> {
        let mut all = Vec::new();
        for c in &self.hosts.connections {
            let flow = &self.network.flows[c.flow() as usize];
            let half = if c.ends().0 == flow.from { "" } else { " second half" };
            all.push(
                Errors::new(flow, self.seed, &["errors ", &flow.name, half].concat())
                    .map_err(RunError::Scenario)?,
            );
        }
        if all.iter().any(Option::is_some) {
            self.net.set_errors(all);
        }
        Ok(())
    }

    /// Adds an oracle for each connection whose rule asks for one.
    fn add_oracles(&mut self) {
        for c in 0..self.hosts.connections.len() {
            let flow = self.hosts.connections[c].flow() as usize;
            if oracle::is_wanted(&self.network.flows[flow]) {
                let timer = hosts::Timer::Oracle(self.hosts.oracles.len() as u32);
                let source = self.add_source(timer);
                let Hosts { connections, flows, .. } = &self.hosts;
                let oracle = Oracle::new(self.network, c as u32, connections, flows, source);
                self.hosts.oracles.push(oracle);
            }
        }
    }

    fn add_handovers(&mut self) {
        for &config in &self.network.handovers {
            let timer = hosts::Timer::Handover(self.hosts.handovers.len() as u32);
            let handover = HandoverHost::new(config, self.add_source(timer));
            self.net.probes.add_gap(DeliveryGap::new(handover.at()));
            self.hosts.handovers.push(handover);
        }
    }

    /// Schedules the first event of each host.
    fn schedule_start(&mut self) {
        let Hosts { agents, connections, flows, oracles, externals, handovers, .. } = &self.hosts;
        for flow in flows {
            flow.schedule(flow.start(), Time::ZERO, &mut self.net);
        }
        for oracle in oracles {
            let flow = connections[oracle.connection() as usize].flow() as usize;
            oracle.schedule(flows[flow].start(), Time::ZERO, &mut self.net);
        }
        for external in externals {
            let start = flows[external.flow() as usize].start();
            self.net.schedule(external.source(), (start, Time::ZERO));
        }
        for handover in handovers {
            self.net.schedule(handover.source(), (handover.at(), Time::ZERO));
        }
        (0..agents.watches()).for_each(|i| agents.schedule_watch(i, &mut self.net));
    }
}

/// The error of a flow whose path has no node with this role.
fn no_role(flow: &Flow, role: lasthop::role::Role) -> RunError {
    RunError::Scenario(format!(
        "scheme `{}` needs a node with the role `{role}` on the path of its flow `{}`",
        flow.scheme.label, flow.name
    ))
}
