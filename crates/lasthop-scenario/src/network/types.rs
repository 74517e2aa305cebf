//! The types of a network.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_channel::air::config::LossConfig;
pub use lasthop_channel::link::cell::config::CellConfig as Cell;
pub use lasthop_channel::link::config::LinkConfig as Link;
pub use lasthop_core::role::Role;
use lasthop_core::segment::NodeId;
use lasthop_core::traffic::App;
use lasthop_core::units::{Duration, Rate, Size};
use lasthop_schemes::catalogue::SchemeChoice;
use lasthop_tcp::profile::Profile;
use lasthop_tcp::receiver::Misbehaviour;

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
    /// Which end opens the connection.
    pub opens: Opener,
    /// How the receiving application reads; `None`: at once what has arrived in order.
    pub reader: Option<ReaderSpec>,
    /// What its receiver claims against the truth.
    pub misbehaviour: Option<Misbehaviour>,
    /// True for a transfer of a Poisson process.
    pub is_arrival: bool,
    /// What its senders draw at random derives from this number, drawn by seed, and the number of
    /// the connection; without it, from the latter alone.
    pub draw: Option<u64>,
}

/// The end that opens a flow's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Opener {
    /// The data's sender, as for an upload.
    #[default]
    Sender,
    /// The data's receiver, as for a download: the sender answers with the SYN-ACK.
    Receiver,
}

/// The role of a flow in a comparison. It changes neither the flow nor the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowRole {
    /// The flow takes the scheme that is compared (`--scheme`, `--schemes`).
    #[default]
    Candidate,
    /// A flow with a fixed scheme that competes with the candidates; the harm to it is computed.
    Competitor,
    /// A flow that measures what the candidates do to others, such as a call; the harm to it is
    /// computed.
    Probe,
    /// Other traffic.
    Background,
}

/// An application that does not read at once what has arrived in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReaderSpec {
    /// Rate at which it reads, a segment at a time. Default: it reads at once all that has arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Spans in which it does not read, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<ReadingPause>,
}

/// A span in which an application does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadingPause {
    /// Start, counted from the start of the run.
    pub from: Duration,
    /// Length.
    pub length: Duration,
}

impl ReadingPause {
    /// When it ends.
    pub fn end(self) -> Duration {
        self.from + self.length
    }
}
