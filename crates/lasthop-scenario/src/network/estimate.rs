//! How many frames a run will have.

use super::paths::path;
use super::types::{Flow, Link, Network};
use lasthop_channel::air::rate::RateProcess;
use lasthop_core::traffic::App;
use lasthop_core::units::{Duration, Time};

/// Estimated number of frames on all links in the run: what the rates allow, shared by the
/// flows that use the same link or cell, and limited by what their applications send.
pub fn estimated_frames(network: &Network) -> f64 {
    let end = Time(network.duration.0);
    let bits_of = |l: &Link| {
        RateProcess::new(&l.rate, l.trace.clone(), &l.outages, Duration::ZERO)
            .shaped(l.shaper.as_ref())
            .capacity_bits(Time::ZERO, end)
    };
    let capacity: Vec<f64> = network.links.iter().map(bits_of).collect();
    // The medium that has the capacity: the link, or the first link of its cell.
    let medium = |l: usize| match network.links[l].cell {
        Some(place) => network
            .links
            .iter()
            .position(|other| other.cell.is_some_and(|o| o.cell == place.cell))
            .unwrap_or(l),
        None => l,
    };
    let media: Vec<usize> = (0..network.links.len()).map(medium).collect();
    let bits = |flow: &Flow, link: usize, payload: u32| {
        f64::from(8 * (payload + flow.headers + network.links[link].overhead))
    };
    let crossings: Vec<Vec<(usize, f64)>> = network
        .flows
        .iter()
        .map(|f| {
            let there = path(network, f.from, f.to).into_iter().map(|l| (l, bits(f, l, f.segment)));
            let is_answered = !f.app.is_datagrams() || f.app.is_answered();
            let back = if is_answered { path(network, f.to, f.from) } else { Vec::new() };
            there.chain(back.into_iter().map(|l| (l, bits(f, l, 0)))).collect()
        })
        .collect();
    let mut load = vec![0.0; network.links.len()];
    let mut wanted = Vec::new();
    for (flow, links) in network.flows.iter().zip(&crossings) {
        let through =
            links.iter().map(|&(l, bits)| capacity[l] / bits).fold(f64::INFINITY, f64::min);
        let frames = wanted_frames(network, flow, through);
        links.iter().for_each(|&(l, bits)| load[media[l]] += frames * bits);
        wanted.push(frames);
    }
    let share = |l: usize| (capacity[media[l]] / load[media[l]]).min(1.0);
    let crossed = |(frames, links): (f64, &Vec<(usize, f64)>)| match links
        .iter()
        .map(|&(l, _)| share(l))
        .reduce(f64::min)
    {
        Some(least) if frames > 0.0 => frames * least * links.len() as f64,
        _ => 0.0,
    };
    wanted.into_iter().zip(&crossings).map(crossed).sum()
}

/// Data frames that a flow would send if `through` could be delivered.
fn wanted_frames(network: &Network, flow: &Flow, through: f64) -> f64 {
    let seconds = network.duration.as_secs();
    let frames = |bytes: f64| bytes / f64::from(flow.segment);
    through.min(match flow.app {
        // A factor for retransmissions.
        App::Transfer { size } => 2.0 * frames(size as f64).ceil(),
        App::Poisson { ref sizes, mean_gap } => {
            2.0 * seconds / mean_gap.as_secs() * frames(sizes.mean()).ceil()
        }
        App::Requests { ref sizes, mean_think, .. } if mean_think > Duration::ZERO => {
            (seconds / mean_think.as_secs() + 1.0) * frames(sizes.mean()).ceil()
        }
        App::Video { ref video, .. } => {
            let highest = video.ladder.last().map_or(0.0, |rate| rate.0 as f64);
            frames(highest / 8.0 * (seconds + video.buffer.as_secs()))
        }
        ref app => app.segments(through, seconds, flow.segment),
    })
}
