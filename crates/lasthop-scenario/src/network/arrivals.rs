//! Transfers that arrive as a Poisson process: the flows of a run, which follow from its seed.

use std::borrow::Cow;

use super::types::{Flow, Network};
use lasthop_core::random::Stream;
use lasthop_core::traffic::{App, Sizes};
use lasthop_core::units::Duration;

/// Mean number of flows that a flow of the scenario stands for.
pub fn expected(network: &Network, flow: &Flow) -> f64 {
    match flow.app {
        App::Poisson { mean_gap, .. } => {
            window(network, flow).as_secs() / mean_gap.as_secs().max(1e-9)
        }
        _ => 1.0,
    }
}

/// The time in which transfers arrive.
fn window(network: &Network, flow: &Flow) -> Duration {
    let end = flow.stop.unwrap_or(network.duration).min(network.duration);
    end.saturating_sub(flow.start)
}

/// See `Network::for_seed`.
pub fn for_seed(network: &Network, seed: u64) -> Cow<'_, Network> {
    let is_process = |f: &Flow| matches!(f.app, App::Poisson { .. });
    if !network.flows.iter().any(is_process) {
        return Cow::Borrowed(network);
    }
    let mut flows = Vec::new();
    let mut places = Vec::with_capacity(network.flows.len());
    for flow in &network.flows {
        places.push(flows.len());
        match &flow.app {
            App::Poisson { sizes, mean_gap } => {
                flows.extend(arrivals(network, flow, sizes, *mean_gap, seed));
            }
            _ => flows.push(flow.clone()),
        }
    }
    places.push(flows.len());
    let mut found = Network { flows, ..network.clone() };
    for page in found.sessions.iter_mut().flat_map(|s| &mut s.pages) {
        *page = places[page.start]..places[page.end];
    }
    Cow::Owned(found)
}

/// The transfers of a Poisson process with this seed. The first one is a flow also if it arrives
/// after the end, so that each `[[flow]]` has a flow, and each agent a connection.
fn arrivals(
    network: &Network,
    flow: &Flow,
    sizes: &Sizes,
    mean_gap: Duration,
    seed: u64,
) -> Vec<Flow> {
    let gaps = Stream::new(seed, &format!("arrivals {}", flow.name));
    let stream = Stream::new(seed, &format!("sizes {}", flow.name));
    let end = flow.start + window(network, flow);
    let mut found = Vec::new();
    let mut at = flow.start;
    for k in 0.. {
        let gap = Duration::from_secs_f64(gaps.exponential(k, mean_gap.as_secs()));
        at = at + gap.min(network.duration);
        let is_late = at >= end;
        if !is_late || found.is_empty() {
            let name = format!("{} {}", flow.name, k + 1);
            let app = App::Transfer { size: sizes.draw(stream, k) };
            let start = if is_late { at.max(network.duration) } else { at };
            let stop = None;
            found.push(Flow { name, app, start, stop, is_arrival: true, ..flow.clone() });
        }
        if is_late {
            break;
        }
    }
    found
}
