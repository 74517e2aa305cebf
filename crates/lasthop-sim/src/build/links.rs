//! The links of a run, and their source numbers.

use lasthop::air::config::{RandomStart, RateConfig, TraceStart};
use lasthop::link::Link;
use lasthop::random::Stream;
use lasthop::scenario::network::Network;
use lasthop::segment::NodeId;
use lasthop::units::{Duration, Time};

use super::{EventSource, Options, RunError};
use crate::network::Timer;

/// Size of a full segment, payload bytes, for the links: the largest of all flows. Frames of other
/// sizes are rare.
pub(super) fn full_segment(network: &Network) -> u32 {
    network.flows.iter().map(|f| f.segment).max().unwrap_or(1000)
}

/// The source numbers of links and cells: all departures, losses and arrivals of the links, then
/// the cells, then their arrivals.
pub(super) fn sources(links: u32, cells: u32) -> Vec<EventSource> {
    let departures = (0..links).map(Timer::Departure);
    let rest = (0..links).map(Timer::Loss).chain((0..links).map(Timer::Arrival));
    let of_cells = (0..cells).map(Timer::Cell).chain((0..cells).map(Timer::CellArrival));
    departures.chain(rest).chain(of_cells).map(EventSource::Network).collect()
}

/// The links of a network, measured in `span`. `old`: those of a run of this network with another
/// seed, if there are any.
///
/// # Errors
///
/// [`RunError::Scenario`] if a loss or delay model cannot be set up.
pub(super) fn links(
    network: &Network,
    seed: u64,
    (measure_from, end): (Time, Time),
    options: Options,
    old: Vec<Link>,
) -> Result<Vec<Link>, RunError> {
    let mss = full_segment(network);
    let share = Stream::new(seed, "trace phase").uniform(0);
    let mut links = old;
    links.reserve(network.links.len());
    for (l, config) in network.links.iter().enumerate() {
        let phase = match (&config.rate, &config.trace) {
            (
                RateConfig::Trace { start: TraceStart::Named(RandomStart::Random), .. },
                Some(trace),
            ) => Duration((share * trace.period().0 as f64) as u64),
            (RateConfig::Trace { start: TraceStart::At(at), .. }, _) => *at,
            _ => Duration::ZERO,
        };
        let node = |n: NodeId| network.nodes[usize::from(n)].name.as_str();
        let name = || [node(config.from), ">", node(config.to)].concat();
        if let Some(link) = links.get_mut(l)
            && link.restart(config, name, seed, phase).map_err(RunError::Scenario)?
        {
            continue;
        }
        let mut link = Link::new(config, &name(), seed, phase, mss, measure_from, end)
            .map_err(RunError::Scenario)?;
        if options.evented {
            link.make_evented();
        }
        match links.get_mut(l) {
            Some(old) => {
                link.reuse_memory(old);
                *old = link;
            }
            None => links.push(link),
        }
    }
    Ok(links)
}
