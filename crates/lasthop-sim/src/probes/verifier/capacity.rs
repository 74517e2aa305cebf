//! Checks the capacity of links and cells: the payload that all flows over a medium deliver in the
//! measured time is at most its capacity in that time plus the bytes that were sent but not
//! delivered when measuring began.

use std::collections::BTreeSet;

use lasthop::air::config::{OutageRule, RateConfig, TraceStart};
use lasthop::air::trace::Trace;
use lasthop::scenario::network::{Flow, Link, Network};
use lasthop::units::{Duration, Rate, Time};

use crate::network::paths::path;

/// A one-way link or a cell, with the flows whose data cross it.
pub(super) struct Medium {
    pub name: String,
    pub flows: Vec<usize>,
    /// Capacity in the measured time, bytes.
    pub capacity: f64,
    /// The index of the link; `None` for a cell. The serialization time of each frame on a link is
    /// rounded to the nanosecond.
    pub link: Option<usize>,
    pub fastest: Rate,
}

impl Medium {
    /// All media that flows cross.
    pub(super) fn all(network: &Network) -> Vec<Medium> {
        let (from, to) = (Time::ZERO + network.measure_from, Time::ZERO + network.duration);
        let crossed: Vec<Vec<usize>> =
            network.flows.iter().map(|f| links_crossed(network, f)).collect();
        let users = |on: &dyn Fn(usize) -> bool| {
            (0..crossed.len()).filter(|&f| crossed[f].iter().any(|&l| on(l))).collect::<Vec<_>>()
        };
        let links = network.links.iter().enumerate().filter(|(_, link)| link.cell.is_none()).map(
            |(l, link)| {
                let flows = users(&|other| other == l);
                let frame = flows
                    .iter()
                    .map(|&f| network.flows[f].segment + network.flows[f].headers)
                    .max()
                    .unwrap_or(0)
                    + link.overhead;
                let (capacity, fastest) = carried(link, from, to, frame);
                Medium { name: format!("link {l}"), flows, capacity, link: Some(l), fastest }
            },
        );
        // Frames sent at the same time in a cell are lost, so every delivered byte had exclusive
        // use of the medium.
        let cells = network.cells.iter().enumerate().map(|(c, cell)| {
            let flows =
                users(&|l| network.links[l].cell.is_some_and(|place| place.cell as usize == c));
            let capacity = bytes(cell.mac.data_rate, to - from);
            Medium { name: format!("cell {c}"), flows, capacity, link: None, fastest: Rate(0) }
        });
        links.chain(cells).filter(|m| !m.flows.is_empty()).collect()
    }

    /// Checks the bytes delivered in the measured time. `outstanding` bytes were sent but not
    /// delivered when it began; `frames` frames left the link in it.
    pub(super) fn check(
        &self,
        delivered: u64,
        outstanding: u64,
        frames: u64,
    ) -> Result<(), String> {
        let rounding = bytes(self.fastest, Duration(frames));
        if delivered as f64 <= self.capacity + rounding + outstanding as f64 {
            return Ok(());
        }
        Err(format!(
            "{delivered} bytes were delivered over {}, which can carry {:.0} bytes in the measured \
             time; {outstanding} bytes were outstanding when it began",
            self.name, self.capacity
        ))
    }
}

/// Links that every byte of a flow crosses. Segments before a relay are addressed to the relay and
/// may take another route.
fn links_crossed(network: &Network, flow: &Flow) -> Vec<usize> {
    let mut links = path(network, flow.from, flow.to);
    if flow.scheme.scheme.relay().is_some() && !flow.app.is_datagrams() {
        links.drain(..links.len().saturating_sub(1));
    }
    links
}

fn bytes(rate: Rate, time: Duration) -> f64 {
    rate.0 as f64 * time.0 as f64 / 8e9
}

/// Bytes that a link can carry in `[from, to)`, and its highest rate. A frame of `frame` bytes is
/// sent at the rate at its start.
fn carried(link: &Link, from: Time, to: Time, frame: u32) -> (f64, Rate) {
    let held: Vec<(Time, Time)> = link
        .outages
        .iter()
        .filter(|o| o.frames == OutageRule::Held)
        .map(|o| (Time::ZERO + o.from, Time::ZERO + o.from + o.length))
        .collect();
    match (&link.rate, &link.trace) {
        (RateConfig::Constant(rate), _) => {
            (over_steps(&[(Time::ZERO, *rate)], &held, from, to), *rate)
        }
        (RateConfig::Schedule { schedule }, _) => {
            let mut steps: Vec<_> = schedule.iter().map(|s| (Time::ZERO + s.at, s.rate)).collect();
            steps.sort_by_key(|s| s.0);
            if let Some(first) = steps.first_mut() {
                first.0 = Time::ZERO;
            }
            let changes = steps.iter().filter(|s| from <= s.0 && s.0 < to).count() as f64;
            let fastest = steps.iter().map(|s| s.1).max().unwrap_or(Rate(0));
            (over_steps(&steps, &held, from, to) + changes * f64::from(frame), fastest)
        }
        (RateConfig::Trace { start, .. }, Some(trace)) => {
            let count = match start {
                TraceStart::At(at) => {
                    let phase = Duration(at.0 % trace.period().0);
                    (trace.position(from + phase)..trace.position(to + phase))
                        .filter(|&n| {
                            !held.iter().any(|s| {
                                s.0 + phase <= trace.time_of(n) && trace.time_of(n) < s.1 + phase
                            })
                        })
                        .count() as u64
                }
                TraceStart::Named(_) => most_opportunities(trace, to - from),
            };
            (count as f64 * f64::from(Trace::OPPORTUNITY), Rate(0))
        }
        (RateConfig::Trace { .. }, None) => (0.0, Rate(0)),
    }
}

/// The integral of the rate over time, outages with held frames excluded.
fn over_steps(steps: &[(Time, Rate)], held: &[(Time, Time)], from: Time, to: Time) -> f64 {
    let bounds = steps
        .iter()
        .map(|s| s.0)
        .chain(held.iter().flat_map(|s| [s.0, s.1]))
        .filter(|&t| from < t && t < to);
    let bounds: Vec<Time> = bounds.chain([from, to]).collect::<BTreeSet<_>>().into_iter().collect();
    let pieces = bounds.windows(2).filter(|p| !held.iter().any(|s| s.0 <= p[0] && p[0] < s.1));
    pieces
        .map(|p| bytes(steps.iter().rfind(|s| s.0 <= p[0]).map_or(Rate(0), |s| s.1), p[1] - p[0]))
        .sum()
}

/// The largest number of opportunities in any interval of this length. The phase of the trace is
/// random and unknown to the verifier.
fn most_opportunities(trace: &Trace, length: Duration) -> u64 {
    let starts = (0..trace.len() as u64).map(|n| trace.time_of(n));
    starts.map(|t| trace.opportunities_between(t, t + length)).max().unwrap_or(0)
}
