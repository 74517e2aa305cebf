//! The types of a scenario file. Their documentation is the reference of the format.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::apps::AppSpec;
use crate::cells::CellSpec;
use crate::endpoints::NodeNames;
use crate::flow_roles::{FlowRole, StartTimes};
use crate::network::Role;
use crate::outages::{OutageForm, outages};
use crate::queues::{QueueForm, QueueSpec};
use crate::random_starts::RandomStarts;
use crate::readers::ReaderSpec;
use crate::shorthand::{AppForm, DelayForm, LossForm, ReceiveWindowForm, form, some_form};
use lasthop_channel::air::config::{DelayConfig, LossConfig, OutageConfig, RateConfig, TraceStart};
use lasthop_channel::air::token_bucket::TokenBucketConfig;
use lasthop_channel::link::arq::ArqConfig;
use lasthop_core::units::{Duration, Rate, Share, Size};
use lasthop_schemes::catalogue::{ProfileKeys, SchemeText};

/// A scenario: a network, its flows, and what to find out about them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Title of reports and figures. Default: the name of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Length of the run. Default: 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// The measured time.
    #[serde(default)]
    pub measure: Measure,
    /// Each flow starts later than its `start` by a time that is drawn by seed, uniform from 0 to
    /// this, and traces without `start` begin at a place that is drawn by seed. Default: nothing is
    /// drawn; but where nothing else is random and flows share a link or a trace has no `start`,
    /// compare, sweep, check and inspect draw both, with a range of ten round trips, at least 1 s,
    /// at most a tenth of the time that a flow has. "none" turns it off.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub random_starts: Option<RandomStarts>,
    /// The short form of a network: server, base station and phone. Either this or `[[link]]` and
    /// `[[cell]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hop: Option<LastHop>,
    /// Nodes with a role. Nodes without one need not be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<NodeSpec>,
    /// Links between nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkSpec>,
    /// Media that several nodes share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cell: Vec<CellSpec>,
    /// Handovers: another machine replaces a base station.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handover: Vec<HandoverSpec>,
    /// Flows. Default: one bulk flow from the server to the station.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<FlowSpec>,
    /// TCP of all flows.
    #[serde(default)]
    pub tcp: TcpSpec,
    /// What to compare.
    #[serde(default, skip_serializing_if = "ExperimentSpec::is_empty")]
    pub experiment: ExperimentSpec,
    /// Axes, schemes and seeds of `lasthop sweep`, which checks them. Not part of the scenario.
    #[serde(default, skip_serializing)]
    pub sweep: Option<Map<String, Value>>,
    /// The figure to draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plot: Option<Map<String, Value>>,
    /// Claims of a paper about the result. See CONTRIBUTING.md.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim: Vec<Map<String, Value>>,
}

/// A handover: another machine replaces a node and takes over its links and queues. The state of
/// agents and relays is transferred; until it has arrived, the node forwards nothing.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoverSpec {
    /// The node.
    pub node: String,
    /// Time of the handover.
    pub at: Duration,
    /// Rate of the line between the two machines. Default: 100 Mbps.
    #[serde(default = "line_rate")]
    pub rate: Rate,
    /// Delay of that line. Default: 5 ms.
    #[serde(default = "line_delay")]
    pub delay: Duration,
    /// What happens to the state. Default: "moved".
    #[serde(default)]
    pub state: HandoverState,
}

fn line_rate() -> Rate {
    Rate(100_000_000)
}

fn line_delay() -> Duration {
    Duration::millis(5)
}

/// What happens to the state of agents and relays at a handover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HandoverState {
    /// It is transferred to the new machine.
    #[default]
    Moved,
    /// Agents start without state at once; a connection that the node split is dead.
    Lost,
}

/// The measured time.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Start of the measured time. Default: 0 s.
    #[serde(default)]
    pub from: Duration,
}

/// The short form: `server` – fast wired link `wired` – `bs` – link `radio` – `phone`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LastHop {
    /// Mahimahi trace of the downlink. Relative to the scenario file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<PathBuf>,
    /// Mahimahi trace of the uplink. Default with `down`: the mean rate of that trace, constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<PathBuf>,
    /// Rate of the downlink, as `rate`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub down_rate: Option<RateConfig>,
    /// Rate of the uplink, as `rate`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub up_rate: Option<RateConfig>,
    /// Offset in the traces at which the run begins: a time, or "random" (drawn per seed, the same
    /// in both directions). Default: 0 s.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub start: Option<TraceStart>,
    /// Round-trip time without queueing and serialisation, split evenly over the four one-way
    /// delays. Default: 40 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// Settings of the radio link. `rate` is that of the directions that have neither a trace nor a
    /// rate; `delay` replaces the quarter of `rtt`.
    #[serde(flatten)]
    pub radio: PathSpec,
}

/// A node and its role.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Name.
    pub name: String,
    /// Role. Default: inferred from the one link with `radio = true` and from the ends of the
    /// flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// A link between two nodes, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Name that `--set` uses. Default: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The two nodes. `forward` runs from the first to the second.
    pub between: Vec<String>,
    /// True for the wireless last hop.
    #[serde(default)]
    pub radio: bool,
    /// Settings of both directions.
    #[serde(flatten)]
    pub both: PathSpec,
    /// Settings of the direction from the first to the second node.
    #[serde(default, skip_serializing_if = "PathSpec::is_empty")]
    pub forward: PathSpec,
    /// Settings of the direction from the second to the first node.
    #[serde(default, skip_serializing_if = "PathSpec::is_empty")]
    pub backward: PathSpec,
}

/// Properties of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Rate: "1 Mbps", a schedule, or a trace.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateConfig>,
    /// One-way propagation delay. Default: 0 s.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DelayForm>")]
    pub delay: Option<DelayConfig>,
    /// Queue before the link. Default: the profile's (ns-2: 49 packets; `linux` and `rfc`: 250
    /// packets).
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<QueueForm>")]
    pub queue: Option<QueueSpec>,
    /// Loss on the air. Default: none.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub loss: Option<LossConfig>,
    /// Bytes added to every frame. Default: 0 B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Size>,
    /// Largest IP packet, `overhead` not counted: bounds the segments of the flows that cross the
    /// link. Default: any packet fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Size>,
    /// Spans in which the link is down.
    #[serde(default, deserialize_with = "outages", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OutageForm>")]
    pub outage: Option<Vec<OutageConfig>>,
    /// Link-layer retransmission. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arq: Option<ArqConfig>,
    /// Token bucket that delays frames: { rate, burst }. Frames of a burst are sent at the rate of
    /// the link. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper: Option<TokenBucketConfig>,
    /// Token bucket before the queue that drops what exceeds it: { rate, burst }. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<TokenBucketConfig>,
    /// Share of the frames that enter the link twice. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Share>,
    /// Share of the frames that arrive with a bit error that the link layer does not detect. The
    /// end point discards them. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Share>,
}

impl PathSpec {
    /// True if no key is set.
    pub fn is_empty(&self) -> bool {
        *self == PathSpec::default()
    }

    /// `self`, with missing values taken from `below`.
    pub fn over(&self, below: &PathSpec) -> PathSpec {
        PathSpec {
            rate: self.rate.clone().or_else(|| below.rate.clone()),
            delay: self.delay.clone().or_else(|| below.delay.clone()),
            queue: self.queue.clone().or_else(|| below.queue.clone()),
            loss: self.loss.clone().or_else(|| below.loss.clone()),
            overhead: self.overhead.or(below.overhead),
            mtu: self.mtu.or(below.mtu),
            outage: self.outage.clone().or_else(|| below.outage.clone()),
            arq: self.arq.clone().or_else(|| below.arq.clone()),
            shaper: self.shaper.or(below.shaper),
            policer: self.policer.or(below.policer),
            duplicate: self.duplicate.or(below.duplicate),
            corrupt: self.corrupt.or(below.corrupt),
        }
    }
}

/// A flow, or several equal ones.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Name that `--set` uses. Default: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node that sends data; for several flows, a list of nodes that they use in turn. Default:
    /// the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NodeNames>,
    /// The node that receives the data, or a list. Default: the station.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NodeNames>,
    /// Application. Default: "bulk".
    #[serde(default, deserialize_with = "form")]
    #[schemars(with = "AppForm")]
    pub app: AppSpec,
    /// Start of the flow; for several flows, a list may have the start of each. Default: 0 s.
    #[serde(default)]
    pub start: StartTimes,
    /// Time between the starts of consecutive flows. Default: 0 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stagger: Option<Duration>,
    /// When the application stops writing. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
    /// Number of equal flows; 0 leaves them out. Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Number of consecutive flows (of `count`) with the same nodes and the same start. Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub each: u32,
    /// Payload of a full segment or datagram. Default: the profile's (ns-2: 1000 B; `linux` and
    /// `rfc`: 1448 B).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Size>,
    /// IP and TCP headers of every packet. Default: 40 B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Size>,
    /// Loss of each of these connections, in both directions, behind the last link: links count
    /// the packet as delivered, and the end point does not receive it. Default: none.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub loss: Option<LossConfig>,
    /// The same for what its receiver sends. Default: as `loss`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub ack_loss: Option<LossConfig>,
    /// How the receiving application reads: { rate, pauses }. Default: at once what has arrived in
    /// order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<ReaderSpec>,
    /// Role in a comparison. Default: "candidate" for TCP without `scheme`, else "background".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<FlowRole>,
    /// The scheme of this flow, which no `--scheme` replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeText>,
    /// The receiver's buffer, a size or { size, grows }. Default: that of `[tcp]`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ReceiveWindowForm>")]
    pub receive_window: Option<ReceiveWindow>,
    /// Single values of the profile, for this flow only.
    #[serde(flatten)]
    pub keys: ProfileKeys,
}

impl FlowSpec {
    /// The role that the file gives; without one, a TCP flow without a scheme is a candidate, and
    /// all other flows are background.
    pub fn role(&self) -> FlowRole {
        match self.role {
            Some(role) => role,
            None if self.scheme.is_some() || self.app.is_datagrams() => FlowRole::Background,
            None => FlowRole::Candidate,
        }
    }

    /// Moves the window's growth from the table to the key of the profile.
    pub fn settle_receive_window(&mut self) {
        settle_receive_window(&mut self.receive_window, &mut self.keys);
    }

    /// The TCP settings of the flow.
    pub fn tcp(&self) -> TcpSpec {
        TcpSpec {
            scheme: self.scheme.clone(),
            receive_window: self.receive_window,
            keys: self.keys.clone(),
        }
    }
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

/// The receiver's buffer, and whether the window that it advertises grows up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceiveWindow {
    /// The largest window; `None`: that of the profile.
    pub size: Option<Size>,
    /// `Profile::receive_window_grows`; `None`: that of the profile, and in a filled file, which
    /// has that key.
    pub grows: Option<bool>,
}

impl ReceiveWindow {
    /// A buffer of this size.
    pub fn of(size: Size) -> Self {
        ReceiveWindow { size: Some(size), grows: None }
    }
}

impl Serialize for ReceiveWindow {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if let ReceiveWindow { size: Some(size), grows: None } = self {
            return size.serialize(s);
        }
        let mut table = s.serialize_map(None)?;
        if let Some(size) = &self.size {
            table.serialize_entry("size", size)?;
        }
        if let Some(grows) = &self.grows {
            table.serialize_entry("grows", grows)?;
        }
        table.end()
    }
}

impl TcpSpec {
    /// Moves the window's growth from the table to the key of the profile.
    pub fn settle_receive_window(&mut self) {
        settle_receive_window(&mut self.receive_window, &mut self.keys);
    }
}

fn settle_receive_window(window: &mut Option<ReceiveWindow>, keys: &mut ProfileKeys) {
    if let Some(ReceiveWindow { size, grows: Some(grows) }) = *window {
        keys.receive_window_grows = Some(grows);
        *window = size.map(ReceiveWindow::of);
    }
}

/// TCP: the profile, changes of its values, and the scheme.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// The scheme. Default: the profile's (linux: cubic; the others: newreno).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeText>,
    /// The receiver's buffer, a size or { size, grows }. Default: the profile's (ns-2: 20 segments;
    /// linux: 20 MiB; rfc: 4 MiB).
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ReceiveWindowForm>")]
    pub receive_window: Option<ReceiveWindow>,
    /// Single values of the profile.
    #[serde(flatten)]
    pub keys: ProfileKeys,
}

/// What to compare.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSpec {
    /// The schemes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<SchemeText>,
    /// Keys (as for `--set`) and their values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, Vec<Value>>")]
    pub vary: Map<String, Value>,
    /// Settings that a scheme needs in the scenario: its label, then keys (as for `--set`) and
    /// values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(
        with = "std::collections::BTreeMap<String, std::collections::BTreeMap<String, Value>>"
    )]
    pub settings: Map<String, Value>,
    /// Number of runs; their seeds are 1 to N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub seeds: Option<u32>,
}

impl ExperimentSpec {
    fn is_empty(&self) -> bool {
        *self == ExperimentSpec::default()
    }
}
