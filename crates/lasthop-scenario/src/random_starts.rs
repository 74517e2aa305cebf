//! Starts of flows and places in traces that are drawn by seed.
//!
//! Without a random process, one run shows one phase of the flows against each other, or one place
//! in a trace, and its numbers may be far from the mean over phases. A host that compares runs asks
//! for the draws ([`crate::Overrides::draw_starts`]); a file has them with `random_starts`.
//!
//! The draws of flows are independent and have one distribution, whatever the roles and schemes of
//! the flows, so that equal flows are exchangeable. They depend on the seed and on the name of the
//! flow, so that all schemes have the same starts at a seed. The draws of a flow are stratified
//! over each ten seeds ([`Stream::stratified`]): otherwise one of two equal flows might start late
//! in most of 20 runs. Intervals that take the runs as independent are then too wide rather than
//! too narrow.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::errors::ScenarioError;
use crate::file::{File, LinkSpec};
use crate::network::{App, Flow, Network};
use crate::shorthand::{Form, NoTable};
use crate::tree::{Path, Tree};
use lasthop_channel::air::config::{RandomStart, RateConfig, TraceStart};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Quantity};

/// The latest that a flow starts after its `start`, if nothing is drawn by seed otherwise: ten
/// round trips, in which slow start ends, and at least this.
const SHORTEST_RANGE: Duration = Duration::secs(1);
const RANGE_ROUND_TRIPS: u64 = 10;
/// The range is at most this part of the time that each flow has.
const RANGE_PART: u64 = 10;

/// The key `random_starts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RandomStarts {
    /// Each flow starts later than its `start` by a time that is uniform from 0 to this; a trace
    /// without `start` begins at a random place.
    UpTo(Duration),
    /// "none": no command draws them.
    Named(NoStarts),
}

/// The value "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoStarts {
    /// Flows start at their `start`, and traces begin at theirs.
    None,
}

impl RandomStarts {
    /// The range of the starts of flows; 0 if they are not drawn.
    pub fn range(self) -> Duration {
        match self {
            RandomStarts::UpTo(range) => range,
            RandomStarts::Named(NoStarts::None) => Duration::ZERO,
        }
    }
}

impl fmt::Display for RandomStarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RandomStarts::UpTo(range) => write!(f, "{range}"),
            RandomStarts::Named(NoStarts::None) => f.write_str("none"),
        }
    }
}

impl Form for RandomStarts {
    type Table = NoTable;
    const EXPECTED: &'static str = "a time such as \"1 s\" or \"none\"";
    fn short(text: &str) -> Result<Self, Mistake> {
        if text.trim() == "none" {
            return Ok(RandomStarts::Named(NoStarts::None));
        }
        Duration::parse(text)
            .map(RandomStarts::UpTo)
            .map_err(|e| format!("{e}; \"none\" is allowed too").into())
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(RandomStarts::UpTo(Duration::from_number(n)?))
    }
    fn table(_: NoTable) -> Result<Self, Mistake> {
        Err(Mistake::Other(format!("expected {}", Self::EXPECTED)))
    }
}

/// The starts of the traces of a file that gives none.
fn open_traces<'f>(file: &'f mut File, tree: &Tree<'_>) -> Vec<&'f mut TraceStart> {
    let parts = |(i, link): (usize, &'f mut LinkSpec)| {
        let at = Path::key("link").at(i);
        let LinkSpec { both, forward, backward, .. } = link;
        [(both, at.clone()), (forward, at.at("forward")), (backward, at.at("backward"))]
    };
    let mut found = Vec::new();
    for (part, at) in file.link.iter_mut().enumerate().flat_map(parts) {
        if let Some(RateConfig::Trace { start, .. }) = &mut part.rate
            && tree.get(&at.at("rate").at("start")).is_none()
        {
            found.push(start);
        }
    }
    if let Some(hop) = &mut file.last_hop {
        for (rate, key) in [
            (&mut hop.radio.rate, "rate"),
            (&mut hop.down_rate, "down_rate"),
            (&mut hop.up_rate, "up_rate"),
        ] {
            let at = Path::key("last_hop").at(key).at("start");
            if let Some(RateConfig::Trace { start, .. }) = rate
                && tree.get(&at).is_none()
            {
                found.push(start);
            }
        }
        if hop.start.is_none() && (hop.down.is_some() || hop.up.is_some()) {
            found.push(hop.start.get_or_insert_default());
        }
    }
    found
}

/// If the file draws starts, its traces without `start` begin at a random place.
pub(crate) fn apply(file: &mut File, tree: &Tree<'_>) {
    if matches!(file.random_starts, Some(RandomStarts::UpTo(_))) {
        draw_traces(file, tree);
    }
}

/// Gives a random start to the traces without `start`; false if there is none.
fn draw_traces(file: &mut File, tree: &Tree<'_>) -> bool {
    let mut starts = open_traces(file, tree);
    starts.iter_mut().for_each(|start| **start = TraceStart::Named(RandomStart::Random));
    !starts.is_empty()
}

/// The file with the draws that make its runs differ, and what is assumed; `None` if they differ
/// already, if the file says what is drawn or makes claims about its runs, or if nothing depends on
/// a start. `network` is the network of `file`.
pub(crate) fn drawn(
    file: &File,
    network: &Network,
    tree: &Tree<'_>,
) -> Option<(File, Vec<String>)> {
    if file.random_starts.is_some() || !file.claim.is_empty() || network.is_random() {
        return None;
    }
    let mut file = file.clone();
    let has_trace = draw_traces(&mut file, tree);
    let range = if share_a_link(network) { range(network) } else { Duration::ZERO };
    let why = "because nothing else in the scenario is random; random_starts = \"none\" turns it \
               off";
    let mut assumed = Vec::new();
    if range > Duration::ZERO {
        assumed.push(format!(
            "each flow starts up to {range} after its start time, drawn by seed, {why}"
        ));
    }
    if has_trace {
        assumed.push(format!(
            "the run begins at a place in the trace drawn by seed, anywhere in the trace, {why}"
        ));
    }
    file.random_starts = Some(RandomStarts::UpTo(range));
    (!assumed.is_empty()).then_some((file, assumed))
}

/// True if two flows use a link in the same direction. The flows of a session start together and
/// count as one.
fn share_a_link(network: &Network) -> bool {
    let mut user: Vec<Option<&str>> = vec![None; network.links.len()];
    for (name, flow) in names(network).into_iter().zip(&network.flows) {
        let ends = [(flow.from, flow.to), (flow.to, flow.from)];
        for link in ends.into_iter().flat_map(|(from, to)| network.path(from, to)) {
            if *user[link].get_or_insert(name) != name {
                return true;
            }
        }
    }
    false
}

/// The default range of the starts.
fn range(network: &Network) -> Duration {
    let rtt = network.flows.iter().filter_map(|f| bounds::rtt(network, f)).max();
    let wanted = SHORTEST_RANGE.max(rtt.unwrap_or_default() * RANGE_ROUND_TRIPS);
    let time = |f: &Flow| latest_end(network, f).saturating_sub(f.start);
    let shortest = network.flows.iter().map(time).min().unwrap_or_default();
    let range = wanted.min(Duration(shortest.0 / RANGE_PART));
    Duration(range.0 - range.0 % Duration::millis(1).0)
}

/// The end of the run, or the time at which the flow stops.
fn latest_end(network: &Network, flow: &Flow) -> Duration {
    flow.stop.map_or(network.duration, |stop| stop.min(network.duration))
}

/// For each flow, the name under which its start is drawn: that of its session, or its own.
fn names(network: &Network) -> Vec<&str> {
    let mut names: Vec<&str> = network.flows.iter().map(|f| f.name.as_str()).collect();
    for session in &network.sessions {
        for flow in session.pages.iter().cloned().flatten() {
            names[flow] = &session.name;
        }
    }
    names
}

/// True if the start of a flow is drawn. The times of a Poisson process are random already.
fn is_drawn(flow: &Flow) -> bool {
    !flow.is_arrival && !matches!(flow.app, App::Poisson { .. })
}

/// True if a start is drawn.
pub(crate) fn is_random(network: &Network) -> bool {
    network.random_starts > Duration::ZERO && network.flows.iter().any(is_drawn)
}

/// Checks that each flow starts before it or the run ends, whatever is drawn.
pub(crate) fn check(network: &Network, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    if network.random_starts == Duration::ZERO {
        return Ok(());
    }
    let stops = moving_stops(network);
    for (flow, moves) in network.flows.iter().zip(stops).filter(|(flow, _)| is_drawn(flow)) {
        let end = if moves { network.duration } else { latest_end(network, flow) };
        if flow.start + network.random_starts >= end {
            let message = format!(
                "must be below {}: flow `{}` starts at {} and ends at {end}",
                end.saturating_sub(flow.start),
                flow.name,
                flow.start
            );
            return Err(tree.wrong(&Path::key("random_starts"), message));
        }
    }
    Ok(())
}

/// For each flow, true if it stops at the next click of its session, which moves with its start.
fn moving_stops(network: &Network) -> Vec<bool> {
    let mut moves = vec![false; network.flows.len()];
    for pages in network.sessions.iter().flat_map(|s| s.pages.windows(2)) {
        let Some(click) = network.flows.get(pages[1].start).map(|f| f.start) else { continue };
        for flow in pages[0].clone() {
            moves[flow] = network.flows[flow].stop == Some(click);
        }
    }
    moves
}

/// The network of the run with this seed: each flow has its drawn start. What its sender draws at
/// random, such as the phase in which BBR's cycle begins, differs between seeds too; otherwise it
/// depends on the number of the flow, and flows with different numbers are not exchangeable.
pub(crate) fn for_seed(network: Cow<'_, Network>, seed: u64) -> Cow<'_, Network> {
    if !is_random(&network) {
        return network;
    }
    let range = network.random_starts;
    let draw = |name: &str| {
        // Seeds begin at 1, so that the first block of strata has the seeds 1 to 10.
        let share = Stream::new(0, &format!("start {name}")).stratified(seed.wrapping_sub(1));
        Duration((share * range.0 as f64) as u64)
    };
    let later: Vec<Duration> = names(&network).into_iter().map(draw).collect();
    let moves = moving_stops(&network);
    let mut found = network.into_owned();
    for ((flow, later), moves) in found.flows.iter_mut().zip(later).zip(moves) {
        flow.draw = Some(Stream::new(seed, &format!("sender {}", flow.name)).bits(0));
        if is_drawn(flow) {
            flow.start = flow.start + later;
            flow.stop = flow.stop.map(|stop| if moves { stop + later } else { stop });
        }
    }
    // The starts of the result are drawn already.
    found.random_starts = Duration::ZERO;
    Cow::Owned(found)
}
