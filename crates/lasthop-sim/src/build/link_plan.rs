//! How each link and each receiver of a run is computed, and why: the answer of `lasthop run
//! --explain`.

use std::fmt;

use lasthop::segment::NodeId;
use serde::Serialize;

use crate::network::Routes;

/// How a link is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The fate of a frame is computed when it enters the queue: one event per frame, its arrival.
    Computed,
    /// The same, with all attempts of the link layer.
    ComputedAttempts,
    /// Computed when a frame enters the link before: no event.
    Chained,
    /// One event per departure.
    Evented,
    /// By the cell that its stations share.
    Cell,
}

impl Mode {
    /// The name of the mode in the output.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Computed => "computed",
            Mode::ComputedAttempts => "computed-attempts",
            Mode::Chained => "chained",
            Mode::Evented => "evented",
            Mode::Cell => "cell",
        }
    }
}

/// How one link is computed.
#[derive(Clone, Debug, Serialize)]
pub struct LinkPlan {
    /// Name of the node where it begins.
    pub from: String,
    /// Name of the node where it ends.
    pub to: String,
    /// How it is computed.
    pub mode: Mode,
    /// Why.
    pub why: String,
}

/// How the receiver of a connection is computed.
#[derive(Clone, Debug, Serialize)]
pub struct ReceiverPlan {
    /// Name of its flow.
    pub flow: String,
    /// True if the arrival of a segment and its ACK are computed when the segment is sent; false if
    /// each arrival is an event.
    pub in_advance: bool,
    /// Why.
    pub why: String,
}

/// How a network is computed, which does not depend on the seed.
#[derive(Debug)]
pub(crate) struct Choice {
    /// By link, with the reason.
    pub modes: Vec<(Mode, String)>,
    /// By connection.
    pub receivers: Vec<ReceiverPlan>,
    /// The links from each node towards each node, up to the next event of a frame.
    pub routes: Routes,
    /// The links at whose far end frames arrive as events.
    pub arrivals: Vec<usize>,
}

/// Source and destination of packets.
pub(crate) type Route = (NodeId, NodeId);

/// How the run is computed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// One-way links, in the order of the scenario.
    pub links: Vec<LinkPlan>,
    /// The receivers of TCP connections, in the order of the flows; a split flow has two.
    pub receivers: Vec<ReceiverPlan>,
    /// What measures the run.
    pub probes: Vec<&'static str>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for LinkPlan { from, to, mode, why } in &self.links {
            writeln!(f, "link {from}>{to}: {}: {why}", mode.name())?;
        }
        for ReceiverPlan { flow, in_advance, why } in &self.receivers {
            let mode = if *in_advance { "in advance" } else { "by event" };
            writeln!(f, "receiver of {flow}: {mode}: {why}")?;
        }
        write!(f, "probes: {}", self.probes.join(", "))
    }
}
