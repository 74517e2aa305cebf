//! Which files draw the starts of flows and places in traces by seed, and in which range.

use crate::network::capacity::rtt;
use crate::network::random_starts::{is_drawn, latest_end, moving_stops, names};
use crate::network::{Flow, Network};
use crate::parts::file::File;
use crate::parts::link::LinkSpec;
use crate::parts::random_starts::RandomStarts;
use crate::text::errors::ScenarioError;
use crate::text::tree::{Path, Tree};
use lasthop_channel::air::config::{RandomStart, RateConfig, TraceStart};
use lasthop_core::units::Duration;

/// The latest that a flow starts after its `start`, if nothing is drawn by seed otherwise: ten
/// round trips, in which slow start ends, and at least this.
const SHORTEST_RANGE: Duration = Duration::secs(1);
const RANGE_ROUND_TRIPS: u64 = 10;
/// The range is at most this part of the time that each flow has.
const RANGE_PART: u64 = 10;

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
    let longest = network.flows.iter().filter_map(|f| rtt(network, f)).max();
    let wanted = SHORTEST_RANGE.max(longest.unwrap_or_default() * RANGE_ROUND_TRIPS);
    let time = |f: &Flow| latest_end(network, f).saturating_sub(f.start);
    let shortest = network.flows.iter().map(time).min().unwrap_or_default();
    let range = wanted.min(Duration(shortest.0 / RANGE_PART));
    Duration(range.0 - range.0 % Duration::millis(1).0)
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
