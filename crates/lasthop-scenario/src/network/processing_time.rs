//! The time that a receiver takes to answer a segment, drawn by seed (profile key
//! `processing_time`).
//!
//! Where the ACK clock of a path runs in step with its narrowest link, segments reach a full queue
//! at the nanosecond at which a frame leaves it, and the order of simultaneous events decides for
//! all of them whether they are dropped. Real hosts take some microseconds for each segment, not
//! always the same. They are added to the delay of the link on which ACKs leave, where that is
//! constant; frames keep their order.

use std::borrow::Cow;

use super::types::{Link, Network};
use lasthop_channel::air::config::{DelayConfig, DelayDistribution, DrawIndex};
use lasthop_core::units::Duration;

/// The links whose delay is constant and on which receivers of TCP flows send their ACKs, each with
/// the longest time that one of them takes.
fn links(network: &Network) -> impl Iterator<Item = (usize, Duration)> + '_ {
    network.flows.iter().filter_map(|flow| {
        let most = flow.profile.processing_time;
        if most == Duration::ZERO || flow.app.is_datagrams() {
            return None;
        }
        let link = *network.path(flow.to, flow.from).first()?;
        is_constant(&network.links[link]).then_some((link, most))
    })
}

/// In a cell, the back-off is random already.
fn is_constant(link: &Link) -> bool {
    link.cell.is_none() && link.delay == DelayConfig::constant(link.delay.base)
}

/// True if a receiver takes a time that is drawn.
pub fn is_drawn(network: &Network) -> bool {
    links(network).next().is_some()
}

/// The network with the delays that are drawn.
pub fn drawn(network: &Network) -> Cow<'_, Network> {
    let mut longest = vec![Duration::ZERO; network.links.len()];
    for (link, most) in links(network) {
        longest[link] = longest[link].max(most);
    }
    if !is_drawn(network) {
        return Cow::Borrowed(network);
    }
    let mut found = network.clone();
    for (link, most) in found.links.iter_mut().zip(longest) {
        if most > Duration::ZERO {
            let from = link.delay.base;
            let to = from + most;
            link.delay.distribution = Some(DelayDistribution::Uniform { from, to });
            link.delay.in_order = true;
            link.delay.index = DrawIndex::Frame;
        }
    }
    Cow::Owned(found)
}
