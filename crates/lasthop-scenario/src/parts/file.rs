//! A scenario file as a whole. The documentation of its types is the reference of the format.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::cell::{self, CellSpec};
use super::checks::{Checked, MAX_FLOWS, check_name};
use super::experiment::ExperimentSpec;
use super::flow::{self, FlowSpec};
use super::last_hop::{self, LastHop};
use super::link::{self, LinkSpec};
use super::node::{HandoverSpec, NodeSpec};
use super::random_starts::RandomStarts;
use super::tcp::{self, TcpSpec};
use crate::text::errors::ErrorKind;
use crate::text::shorthand::some_form;
use crate::text::tree::{Path, Tree};
use lasthop_core::units::Duration;

/// More nodes are a mistake, or need another simulator.
const MAX_NODES: usize = 4_000;

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

/// The measured time.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Start of the measured time. Default: 0 s.
    #[serde(default)]
    pub from: Duration,
}

/// The JSON Schema of a scenario file.
pub fn schema() -> Value {
    schemars::schema_for!(File).to_value()
}

/// Names of all nodes: those listed, then those that links and cells name, in order.
pub fn node_names(file: &File) -> Vec<String> {
    let mut found = HashSet::new();
    file.node
        .iter()
        .map(|n| &n.name)
        .chain(file.link.iter().flat_map(|l| &l.between))
        .chain(file.cell.iter().flat_map(|c| &c.members))
        .filter(|name| found.insert(*name))
        .cloned()
        .collect()
}

/// Checks the name of a link or flow, which others may not have.
fn check_distinct<'f>(
    name: Option<&'f str>,
    others: &mut HashSet<&'f str>,
    what: &'static str,
    at: &Path,
    tree: &Tree<'_>,
) -> Checked {
    check_name(name, what, at, tree)?;
    match name {
        Some(name) if !others.insert(name) => {
            let kind = ErrorKind::DuplicateName { what, name: name.into() };
            Err(tree.error(&at.at("name"), kind))
        }
        _ => Ok(()),
    }
}

/// Checks that there are flows, and not too many.
fn check_number_of_flows(file: &File, tree: &Tree<'_>) -> Checked {
    let fail = |i, text: String| Err(tree.wrong(&Path::key("flow").at(i).at("count"), text));
    let mut flows = 0;
    for (i, flow) in file.flow.iter().enumerate() {
        flows += u64::from(flow.count) * flow.app.flows();
        if flows > MAX_FLOWS {
            return fail(i, format!("more than {MAX_FLOWS} flows"));
        }
    }
    match flows {
        0 if !file.flow.is_empty() => fail(0, "at least 1 flow is needed, found 0".into()),
        _ => Ok(()),
    }
}

/// Checks every value of a file.
pub fn check(file: &File, tree: &Tree<'_>) -> Checked {
    let fail = |path: &Path, message: String| Err(tree.wrong(path, message));
    if let Some(duration) = file.duration {
        if duration == Duration::ZERO {
            return fail(&Path::key("duration"), "a run must last longer than 0 s".into());
        }
        if file.measure.from >= duration {
            return fail(
                &Path::key("measure").at("from"),
                format!("nothing is left to measure: it must be before the end at {duration}"),
            );
        }
    }
    if let Some(last_hop) = &file.last_hop {
        last_hop::check(last_hop, tree)?;
    }
    let nodes = node_names(file).len();
    if nodes > MAX_NODES {
        let message = format!("{nodes} nodes are more than the {MAX_NODES} allowed");
        return Err(tree.whole(ErrorKind::Value(message)));
    }
    let mut names = HashSet::new();
    for (i, node) in file.node.iter().enumerate() {
        check_name(Some(&node.name), "node", &Path::key("node").at(i), tree)?;
        if !names.insert(&node.name) {
            let kind = ErrorKind::ListedTwice { what: "node", name: node.name.clone() };
            return Err(tree.error(&Path::key("node").at(i).at("name"), kind));
        }
    }
    let mut names = HashSet::new();
    for (i, link) in file.link.iter().enumerate() {
        let at = Path::key("link").at(i);
        check_distinct(link.name.as_deref(), &mut names, "link", &at, tree)?;
        link::check(link, &at, tree)?;
    }
    cell::check(&file.cell, tree)?;
    let mut names = HashSet::new();
    for (i, flow) in file.flow.iter().enumerate() {
        let at = Path::key("flow").at(i);
        check_distinct(flow.name.as_deref(), &mut names, "flow", &at, tree)?;
        flow::check(flow, file.duration, &at, tree)?;
    }
    check_number_of_flows(file, tree)?;
    tcp::check(&file.tcp, &Path::key("tcp"), tree)
}
