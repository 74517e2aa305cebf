//! The checked scenario from which a host builds a network: indices instead of names, every default
//! filled in.

mod estimate;
mod paths;
mod processing_time;
mod solo;
mod types;

pub mod arrivals;
pub mod capacity;
pub mod random_starts;

use std::borrow::Cow;

use serde::Serialize;

pub use capacity::FlowBound;
use lasthop_channel::air::config::{RandomStart, RateConfig, TraceStart};
use lasthop_channel::air::delay::DelayProcess;
use lasthop_core::segment::NodeId;
pub use lasthop_core::traffic::App;
use lasthop_core::units::Rate;
use lasthop_tcp::profile::ClockKind;
pub use types::{
    Cell, Flow, FlowRole, Handover, Link, Network, Node, Opener, ReaderSpec, ReadingPause, Role,
    Session,
};

impl Network {
    /// Warnings, one line each: the schemes that harm other flows, and where.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for flow in self.flows.iter().filter(|f| !f.app.is_datagrams()) {
            let part = flow.scheme.sender(&flow.profile);
            for entry in [flow.scheme.scheme.entry(), part.scheme.entry()].into_iter().flatten() {
                let line = entry.unsafe_.map(|place| format!("{} is unsafe {place}", entry.name));
                lines.extend(line.filter(|line| !lines.contains(line)));
            }
        }
        lines
    }

    /// True if results depend on the seed, other than by the times of microseconds that receivers
    /// take ([`draws_processing_times`](Self::draws_processing_times)), whose spread would be taken
    /// for that of the path; otherwise one run is enough.
    pub fn is_random(&self) -> bool {
        let link = |l: &Link| {
            let delay = DelayProcess::new(&l.delay, 0, "").is_ok_and(|p| p.is_random());
            let phase = matches!(
                &l.rate,
                RateConfig::Trace { start: TraceStart::Named(RandomStart::Random), .. }
            );
            let impaired = l.impairments.is_random();
            l.loss.is_random() || delay || phase || l.queue.is_random() || impaired
        };
        let flow = |f: &Flow| {
            // ns-2 reads a clock with coarse ticks, whose phase is drawn.
            let ticks = f.profile.clock == ClockKind::Ns2Ticks
                && !f.profile.timestamps
                && !f.app.is_datagrams();
            ticks || f.app.is_random() || f.loss.is_random() || f.ack_loss.is_random()
        };
        !self.cells.is_empty()
            || self.links.iter().any(link)
            || self.flows.iter().any(flow)
            || random_starts::is_random(self)
    }

    /// Index of the node with this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).and_then(|i| i.try_into().ok())
    }

    /// Indices of the links from one node to another; `None` if there is no route.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<Vec<usize>> {
        paths::route(self, from, to)
    }

    /// As `route`, empty if there is no route. In a loaded network every flow has a route in both
    /// directions.
    pub fn path(&self, from: NodeId, to: NodeId) -> Vec<usize> {
        paths::path(self, from, to)
    }

    /// The first node with that role on the path of a flow's data, ends included.
    pub fn with_role(&self, flow: &Flow, role: Role) -> Option<NodeId> {
        let after = self.path(flow.from, flow.to).into_iter().map(|l| self.links[l].to);
        std::iter::once(flow.from).chain(after).find(|n| self.nodes[usize::from(*n)].role == role)
    }

    /// The base station on the path of a flow.
    pub fn base_station_for(&self, flow: &Flow) -> Option<NodeId> {
        self.with_role(flow, Role::BaseStation)
    }

    /// The network without its candidates, whose other flows then run alone; `None` if it has no
    /// candidate, or only candidates. Names of flows and settings do not change.
    pub fn without_candidates(&self) -> Option<Network> {
        solo::without_candidates(self)
    }

    /// The network of the run with this seed: the transfers that arrive replace each Poisson
    /// process, and flows have the starts that are drawn. A network without both, and the result of
    /// this method, do not change.
    /// The flows do not depend on schemes, so runs of different schemes with one seed can be
    /// paired.
    ///
    /// An observer of a run is made from this network, because it has the flows of the run.
    pub fn for_seed(&self, seed: u64) -> Cow<'_, Network> {
        random_starts::for_seed(arrivals::for_seed(self, seed), seed)
    }

    /// True if results depend on the seed by the times that receivers take to answer.
    pub fn draws_processing_times(&self) -> bool {
        processing_time::is_drawn(self)
    }

    /// The network in which the delays of links contain the time that receivers take to answer
    /// (profile key `processing_time`), as the simulator computes it.
    pub fn with_processing_times(&self) -> Cow<'_, Network> {
        processing_time::drawn(self)
    }

    /// Number of flows that a flow stands for: of a Poisson process the mean number of transfers,
    /// rounded, at least 1.
    pub fn expected_flows(&self, flow: &Flow) -> usize {
        arrivals::expected(self, flow).round().max(1.0) as usize
    }

    /// Time that a finite transfer takes on the empty path with a sender that knows the rate, in
    /// seconds: the handshake, the delay of the path, and all segments with their
    /// headers at the rate of the narrowest link. For a ping, its round-trip time. `None` for other
    /// applications, and if no rate is known.
    pub fn empty_path_s(&self, flow: &Flow) -> Option<f64> {
        capacity::empty_path_s(self, flow)
    }

    /// Estimated number of frames on all links in the run: what the rates allow, shared by the
    /// flows that use the same link or cell, and limited by what their applications send.
    pub fn estimated_frames(&self) -> f64 {
        estimate::estimated_frames(self)
    }
}

impl Flow {
    /// The settings that bound its throughput; none for datagrams.
    pub fn bounds(&self) -> Vec<FlowBound> {
        capacity::of_flow(self)
    }

    /// The components that fill the slots of the flow's scheme, in one line.
    pub fn slots(&self) -> String {
        if self.app == App::External {
            return "datagrams of a stack outside lasthop".into();
        }
        if self.app.is_datagrams() {
            let rate = self.app.rate(self.segment);
            return format!("{} {}", self.app.datagrams(), Rate(rate as u64));
        }
        let part = self.scheme.sender(&self.profile);
        let mut line = format!(
            "window {}, recovery {}, profile {}",
            part.window_name(),
            part.recovery,
            word(&self.profile.profile)
        );
        let ack = match self.profile.delayed_ack.limit() {
            None => "an ACK per segment".to_string(),
            Some(d) => format!("ACKs delayed up to {d}"),
        };
        line.push_str(&format!(", receiver: {ack}"));
        let scheme = &self.scheme.scheme;
        let joined = |roles: &[Role], word: &str| {
            roles.iter().map(Role::to_string).collect::<Vec<_>>().join(word)
        };
        if scheme.relay().is_some() {
            line.push_str(&format!(
                ", relay {} at the {}",
                scheme.name(),
                joined(scheme.relay_roles(), " or ")
            ));
            if let Some(recovery) = scheme.outbound_recovery() {
                line.push_str(&format!(" (its leg to the receiver: recovery {recovery})"));
            }
        }
        if scheme.agent().is_some() {
            let word = if scheme.one_agent() { " or " } else { " and " };
            line.push_str(&format!(
                ", agent {} at the {}",
                scheme.name(),
                joined(scheme.agent_roles(), word)
            ));
        }
        line
    }
}

/// The name of a value in a scenario file.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|v| v.as_str().map(str::to_string))
        .unwrap_or_default()
}
