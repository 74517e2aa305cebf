//! Starts of flows and places in traces that are drawn by seed.
//!
//! Without a random process, one run shows one phase of the flows against each other, or one place
//! in a trace, and its numbers may be far from the mean over phases. A host that compares runs asks
//! for the draws (`Overrides::draw_starts`); a file has them with `random_starts`.
//!
//! The draws of flows are independent and have one distribution, whatever the roles and schemes of
//! the flows, so that equal flows are exchangeable. They depend on the seed and on the name of the
//! flow, so that all schemes have the same starts at a seed. The draws of a flow are stratified
//! over each ten seeds ([`Stream::stratified`]): otherwise one of two equal flows might start late
//! in most of 20 runs. Intervals that take the runs as independent are then too wide rather than
//! too narrow.

use std::borrow::Cow;

use super::types::{Flow, Network};
use lasthop_core::random::Stream;
use lasthop_core::traffic::App;
use lasthop_core::units::Duration;

/// The end of the run, or the time at which the flow stops.
pub fn latest_end(network: &Network, flow: &Flow) -> Duration {
    flow.stop.map_or(network.duration, |stop| stop.min(network.duration))
}

/// For each flow, the name under which its start is drawn: that of its session, or its own.
pub fn names(network: &Network) -> Vec<&str> {
    let mut names: Vec<&str> = network.flows.iter().map(|f| f.name.as_str()).collect();
    for session in &network.sessions {
        for flow in session.pages.iter().cloned().flatten() {
            names[flow] = &session.name;
        }
    }
    names
}

/// True if the start of a flow is drawn. The times of a Poisson process are random already.
pub fn is_drawn(flow: &Flow) -> bool {
    !flow.is_arrival && !matches!(flow.app, App::Poisson { .. })
}

/// True if a start is drawn.
pub fn is_random(network: &Network) -> bool {
    network.random_starts > Duration::ZERO && network.flows.iter().any(is_drawn)
}

/// For each flow, true if it stops at the next click of its session, which moves with its start.
pub fn moving_stops(network: &Network) -> Vec<bool> {
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
pub fn for_seed(network: Cow<'_, Network>, seed: u64) -> Cow<'_, Network> {
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
