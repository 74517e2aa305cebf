//! The checked scenario from which a host builds a network: indices instead of names, every default
//! filled in.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;

use crate::arrivals;
use crate::bounds::{self, FlowBound};
use crate::flow_roles;
use crate::random_starts;
use crate::readers::ReaderSpec;
use crate::routes;
use lasthop_channel::air::config::{LossConfig, RandomStart, RateConfig, TraceStart};
use lasthop_channel::air::delay::DelayProcess;

pub use crate::flow_roles::FlowRole;
pub use lasthop_channel::link::cell::config::CellConfig as Cell;
pub use lasthop_channel::link::config::LinkConfig as Link;
pub use lasthop_core::role::Role;
use lasthop_core::segment::NodeId;
pub use lasthop_core::traffic::App;
use lasthop_core::traffic::AppState;
use lasthop_core::units::{Duration, Rate, Size};
use lasthop_schemes::catalogue::SchemeChoice;
use lasthop_tcp::profile::{ClockKind, Profile};

/// A network ready to be simulated.
#[derive(Clone, Debug)]
pub struct Network {
    /// Title, or the file's name.
    pub title: String,
    /// Length of the run.
    pub duration: Duration,
    /// Start of the measured time.
    pub measure_from: Duration,
    /// Each flow starts up to this later than its `start`, drawn by seed.
    pub random_starts: Duration,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// One-way links; a duplex `[[link]]` gives two, forward first, and so does a pair of members
    /// of a cell that exchange packets.
    pub links: Vec<Link>,
    /// Media that several nodes share; their pairs of members are links, after all others.
    pub cells: Vec<Cell>,
    /// `next_hop[node][destination]` = index of the link to use; `None` if there is no route.
    pub next_hop: Vec<Vec<Option<u32>>>,
    /// Flows.
    pub flows: Vec<Flow>,
    /// Web sessions; their flows are among `flows`.
    pub sessions: Vec<Session>,
    /// Handovers.
    pub handovers: Vec<Handover>,
    /// Assumed values, one sentence each, for the summary.
    pub assumed: Vec<String>,
}

impl Network {
    /// Warnings, one line each: the schemes that harm other flows, and where.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for flow in self.flows.iter().filter(|f| f.app.datagrams().is_none()) {
            let part = flow.scheme.sender(&flow.profile);
            for entry in [flow.scheme.scheme.entry(), part.scheme.entry()].into_iter().flatten() {
                let line = entry.unsafe_.map(|place| format!("{} is unsafe {place}", entry.name));
                lines.extend(line.filter(|line| !lines.contains(line)));
            }
        }
        lines
    }

    /// True if results depend on the seed; otherwise one run is enough.
    pub fn is_random(&self) -> bool {
        let link = |l: &Link| {
            let delay = DelayProcess::new(&l.delay, 0, "").is_ok_and(|p| p.is_random());
            let phase = matches!(
                &l.rate,
                RateConfig::Trace { start: TraceStart::Named(RandomStart::Random), .. }
            );
            let draws = [l.duplicate, l.corrupt].into_iter().flatten();
            let impaired = draws.into_iter().any(|share| share.0 > 0.0 && share.0 < 1.0);
            l.loss.is_random() || delay || phase || l.queue.is_random() || impaired
        };
        let flow = |f: &Flow| {
            // ns-2 reads a clock with coarse ticks, whose phase is drawn.
            let ticks = f.profile.clock == ClockKind::Ns2Ticks
                && !f.profile.timestamps
                && f.app.datagrams().is_none();
            ticks || AppState::is_random(&f.app) || f.loss.is_random() || f.ack_loss.is_random()
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
        let mut path = Vec::new();
        let mut at = from;
        while at != to {
            let link = self.next_hop[usize::from(at)][usize::from(to)]? as usize;
            path.push(link);
            at = self.links[link].to;
        }
        Some(path)
    }

    /// As `route`, empty if there is no route. In a loaded network every flow has a route in both
    /// directions.
    pub fn path(&self, from: NodeId, to: NodeId) -> Vec<usize> {
        self.route(from, to).unwrap_or_default()
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
        flow_roles::without_candidates(self)
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

    /// Number of flows that a flow stands for: of a Poisson process the mean number of transfers,
    /// rounded, at least 1.
    pub fn expected_flows(&self, flow: &Flow) -> usize {
        arrivals::expected(self, flow).round().max(1.0) as usize
    }

    /// Time that a finite transfer takes on the empty path with a sender that knows the rate, in
    /// seconds: a round trip for the handshake, the delay of the path, and all segments with their
    /// headers at the rate of the narrowest link. For a ping, its round-trip time. `None` for other
    /// applications, and if no rate is known.
    pub fn empty_path_s(&self, flow: &Flow) -> Option<f64> {
        bounds::empty_path_s(self, flow)
    }

    /// Estimated number of frames on all links in the run: what the rates allow, shared by the
    /// flows that use the same link or cell, and limited by what their applications send.
    pub fn estimated_frames(&self) -> f64 {
        routes::estimated_frames(self)
    }
}

/// A web session: a page for each click.
#[derive(Clone, Debug)]
pub struct Session {
    /// Name of the `[[flow]]`, or "flow N".
    pub name: String,
    /// For each page, the flows of its objects.
    pub pages: Vec<Range<usize>>,
    /// Time from the end of a page to the next click, which starts the flows of that page; `None`:
    /// the flows have start times.
    pub think: Option<Duration>,
}

/// A handover: another machine replaces a node.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    /// The node.
    pub node: NodeId,
    /// Time of the handover.
    pub at: Duration,
    /// Rate of the line over which the state is transferred.
    pub rate: Rate,
    /// Delay of that line.
    pub delay: Duration,
    /// True if the state is transferred; otherwise it is lost.
    pub moved: bool,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Role.
    pub role: Role,
}

/// A flow: a TCP connection or a stream of datagrams.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Name of the `[[flow]]`, or "flow N".
    pub name: String,
    /// Name of the `[[flow]]` to which it belongs, or of the first flow of that.
    pub group: String,
    /// Role in a comparison.
    pub role: FlowRole,
    /// Data sender.
    pub from: NodeId,
    /// Data receiver.
    pub to: NodeId,
    /// Application.
    pub app: App,
    /// Start of the flow.
    pub start: Duration,
    /// When the application stops writing.
    pub stop: Option<Duration>,
    /// Payload bytes of a full segment.
    pub segment: u32,
    /// IP and TCP header bytes of every packet.
    pub headers: u32,
    /// Receiver's buffer.
    pub receive_window: Size,
    /// Constants and switches of sender and receiver.
    pub profile: Profile,
    /// The scheme, with its settings.
    pub scheme: SchemeChoice,
    /// Loss of what the sender sends behind the last link, in this connection only.
    pub loss: LossConfig,
    /// As `loss`, for what the receiver sends.
    pub ack_loss: LossConfig,
    /// How the receiving application reads; `None`: at once what has arrived in order.
    pub reader: Option<ReaderSpec>,
    /// True for a transfer of a Poisson process.
    pub is_arrival: bool,
    /// What its senders draw at random derives from this number, drawn by seed, and the number of
    /// the connection; without it, from the latter alone.
    pub draw: Option<u64>,
}

impl Flow {
    /// The settings that bound its throughput; none for datagrams.
    pub fn bounds(&self) -> Vec<FlowBound> {
        bounds::of_flow(self)
    }

    /// The components that fill the slots of the flow's scheme, in one line.
    pub fn slots(&self) -> String {
        if let Some(rate) = self.app.datagrams() {
            let what = match self.app {
                App::Cbr { .. } | App::Call { .. } => "datagrams at",
                App::Ping { .. } => "datagrams that the receiver answers, at",
                _ => "bursts of datagrams, in the mean",
            };
            return format!("{what} {}", Rate(rate as u64));
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
