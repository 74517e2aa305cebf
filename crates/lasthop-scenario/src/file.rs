//! The types of a scenario file. Their documentation is the reference of the format.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cells::CellSpec;
use crate::endpoints::NodeNames;
use crate::network::Role;
use crate::outages::{OutageForm, outages};
use crate::queues::QueueForm;
use crate::sessions::PageSpec;
use crate::shorthand::{AppForm, DelayForm, LossForm, ReceiveWindowForm, form, some_form};
use lasthop_channel::air::config::{DelayConfig, LossConfig, OutageConfig, RateConfig, TraceStart};
use lasthop_channel::link::arq::ArqConfig;
use lasthop_channel::queue::QueueConfig;
use lasthop_core::units::{Duration, Rate, Size};
use lasthop_schemes::catalogue::SchemeText;
use lasthop_tcp::profile::ProfileKeys;

/// A scenario: a network, its flows, and what to find out about them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Title of reports and figures. Default: the name of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How long the run lasts. Default: 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// What is counted.
    #[serde(default)]
    pub measure: Measure,
    /// The short form of a network: server, base station and phone. Either this or `[[link]]` and
    /// `[[cell]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hop: Option<LastHop>,
    /// Nodes that have a role. Nodes without one need not be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<NodeSpec>,
    /// Links between nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkSpec>,
    /// Media that several nodes share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cell: Vec<CellSpec>,
    /// Other machines take the places of base stations.
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
    /// The figure to draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plot: Option<Map<String, Value>>,
    /// Claims of a paper about the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim: Vec<Map<String, Value>>,
}

/// A handover: another machine takes the place of a node, with its links and what waits there. The
/// state of agents and relays is moved to it, and until it has come the node passes nothing on.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoverSpec {
    /// The node.
    pub node: String,
    /// When.
    pub at: Duration,
    /// Rate of the line between the two. Default: 100 Mbps.
    #[serde(default = "line_rate")]
    pub rate: Rate,
    /// Its delay. Default: 5 ms.
    #[serde(default = "line_delay")]
    pub delay: Duration,
    /// What becomes of the state. Default: "moved".
    #[serde(default)]
    pub state: HandoverState,
}

fn line_rate() -> Rate {
    Rate(100_000_000)
}

fn line_delay() -> Duration {
    Duration::millis(5)
}

/// What becomes of the state of agents and relays at a handover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HandoverState {
    /// The new machine gets it.
    #[default]
    Moved,
    /// Agents start without state at once; a connection that the node split is dead.
    Lost,
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Counting begins here. Default: 0 s.
    #[serde(default)]
    pub from: Duration,
}

/// The last hop in short: `server` – a fast wired link `wired` – `bs` – the link `radio` – `phone`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LastHop {
    /// Mahimahi trace of the downlink. Relative to the scenario file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<PathBuf>,
    /// Mahimahi trace of the uplink. Default with `down`: the mean rate of that trace, always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<PathBuf>,
    /// Rate of the directions for which nothing else is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Rate of the downlink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_rate: Option<Rate>,
    /// Rate of the uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_rate: Option<Rate>,
    /// Where in the traces the run begins: a time, or "random" (drawn per seed, alike in both
    /// directions). Default: 0 s.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    pub start: Option<TraceStart>,
    /// Round-trip time without queueing and serialisation, split evenly over the four one-way
    /// delays. Default: 40 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// One-way delay of the radio link, instead of its quarter of `rtt`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DelayForm>")]
    pub delay: Option<DelayConfig>,
    /// Loss on the radio link, per direction.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub loss: Option<LossConfig>,
    /// Queues at both ends of the radio link.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<QueueForm>")]
    pub queue: Option<QueueConfig>,
    /// Bytes added to every frame on the radio link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Size>,
    /// Outages of the radio link.
    #[serde(default, deserialize_with = "outages", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OutageForm>")]
    pub outage: Option<Vec<OutageConfig>>,
    /// Retransmission by the link layer. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arq: Option<ArqConfig>,
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
    /// Name, by which `--set` finds it. Default: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The two nodes. `forward` runs from the first to the second.
    pub between: Vec<String>,
    /// True for the wireless last hop.
    #[serde(default)]
    pub radio: bool,
    /// What holds in both directions.
    #[serde(flatten)]
    pub both: PathSpec,
    /// What is different from the first to the second node.
    #[serde(default, skip_serializing_if = "PathSpec::is_empty")]
    pub forward: PathSpec,
    /// What is different from the second to the first node.
    #[serde(default, skip_serializing_if = "PathSpec::is_empty")]
    pub backward: PathSpec,
}

/// What a link does to frames in one direction.
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
    pub queue: Option<QueueConfig>,
    /// Loss on the air. Default: none.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub loss: Option<LossConfig>,
    /// Bytes added to every frame. Default: 0 B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Size>,
    /// Spans in which the link is down.
    #[serde(default, deserialize_with = "outages", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OutageForm>")]
    pub outage: Option<Vec<OutageConfig>>,
    /// Retransmission by the link layer. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arq: Option<ArqConfig>,
}

impl PathSpec {
    /// True if nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == PathSpec::default()
    }

    /// `self`, with what it leaves open taken from `below`.
    pub fn over(&self, below: &PathSpec) -> PathSpec {
        PathSpec {
            rate: self.rate.clone().or_else(|| below.rate.clone()),
            delay: self.delay.clone().or_else(|| below.delay.clone()),
            queue: self.queue.clone().or_else(|| below.queue.clone()),
            loss: self.loss.clone().or_else(|| below.loss.clone()),
            overhead: self.overhead.or(below.overhead),
            outage: self.outage.clone().or_else(|| below.outage.clone()),
            arq: self.arq.clone().or_else(|| below.arq.clone()),
        }
    }
}

/// A flow, or several equal ones.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Name, by which `--set` finds it. Default: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node that sends data; of several flows, a list of nodes that they take in turn. Default:
    /// the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NodeNames>,
    /// The node that receives them, or a list. Default: the station.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NodeNames>,
    /// What is sent. Default: "bulk".
    #[serde(default, deserialize_with = "form")]
    #[schemars(with = "AppForm")]
    pub app: AppSpec,
    /// When it starts. Default: 0 s.
    #[serde(default)]
    pub start: Duration,
    /// Of several flows, each starts so much later than the one before it. Default: 0 s.
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
    /// The scheme of this flow, which no `--scheme` replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeText>,
    /// The receiver's buffer, a size or { size, grows }. Default: that of `[tcp]`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ReceiveWindowForm>")]
    pub receive_window: Option<ReceiveWindow>,
    /// Single values of the profile, for this flow alone.
    #[serde(flatten)]
    pub keys: ProfileKeys,
}

impl FlowSpec {
    /// What a table says of the window's growth becomes the key of the profile.
    pub fn settle_receive_window(&mut self) {
        settle_receive_window(&mut self.receive_window, &mut self.keys);
    }

    /// What the flow says of its TCP.
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

/// What an application writes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AppSpec {
    /// Always has more.
    Bulk {},
    /// A given amount of payload; the connection then ends.
    Transfer {
        /// Payload: bytes or segments.
        size: Size,
    },
    /// Page after page, with pauses between.
    Web {
        /// Mean size of a page.
        mean_size: Size,
        /// Pareto shape of the sizes, above 1.
        #[serde(default = "pareto_shape")]
        shape: f64,
        /// Mean pause (exponential) between the end of one page and the click for the next.
        mean_pause: Duration,
    },
    /// A user who clicks, and a page for each click.
    Session {
        /// The pages in order: the size of each, or a list of the sizes of its objects, which are
        /// requested at the same time. Each object has a separate connection.
        pages: Vec<PageSpec>,
        /// From click to click. Either this or `think`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<Duration>,
        /// From the end of a page to the click for the next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        think: Option<Duration>,
        /// A click breaks off what is not complete of the page before it. Default: false, it goes
        /// on.
        #[serde(default)]
        abort: bool,
    },
    /// Writes for a while, then pauses; both exponential.
    OnOff {
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a pause.
        mean_off: Duration,
        /// Rate of what is written in a burst, segment by segment; what TCP has not sent when the
        /// burst ends is sent all the same. Default: without end, and what TCP has not sent when
        /// the burst ends is withdrawn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<Rate>,
    },
    /// Datagrams at a constant rate; not TCP.
    Cbr {
        /// Rate of the payload.
        rate: Rate,
    },
    /// Datagrams in bursts; bursts and pauses have Pareto lengths.
    ParetoOnOff {
        /// Rate of the payload within a burst.
        rate: Rate,
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a pause.
        mean_off: Duration,
        /// Pareto shape of both, above 1.
        #[serde(default = "pareto_shape")]
        shape: f64,
    },
    /// Datagrams with Pareto spacings.
    Pareto {
        /// Mean rate of the payload.
        rate: Rate,
        /// Pareto shape of the spacings, above 1.
        #[serde(default = "pareto_shape")]
        shape: f64,
    },
}

fn pareto_shape() -> f64 {
    1.5
}

impl Default for AppSpec {
    fn default() -> Self {
        AppSpec::Bulk {}
    }
}

/// The receiver's buffer, and whether the window that it advertises grows up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceiveWindow {
    /// The largest window; `None`: the profile's.
    pub size: Option<Size>,
    /// `Profile::receive_window_grows`; `None`: the profile's, and in a filled file, where that key
    /// says it.
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
    /// What a table says of the window's growth becomes the key of the profile.
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

/// TCP: the profile, what is changed in it, and the scheme.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// The scheme. Default: the profile's (linux: cubic; the others: newreno).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeText>,
    /// The receiver's buffer, a size or { size, grows }. Default: the profile's (ns-2: 20 segments;
    /// linux and rfc: 4 MiB).
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
    /// Keys (as for `--set`) and the values each of them takes in turn.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, Vec<Value>>")]
    pub vary: Map<String, Value>,
    /// What a scheme needs of the scenario: its label, then keys (as for `--set`) and values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(
        with = "std::collections::BTreeMap<String, std::collections::BTreeMap<String, Value>>"
    )]
    pub settings: Map<String, Value>,
    /// Runs with the seeds 1 to N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub seeds: Option<u32>,
}

impl ExperimentSpec {
    fn is_empty(&self) -> bool {
        *self == ExperimentSpec::default()
    }
}
