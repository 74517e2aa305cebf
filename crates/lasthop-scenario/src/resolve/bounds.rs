//! Defaults of the settings that bound the throughput of a flow: a relay's buffer, an agent's
//! cache. They follow from the path and are listed as assumed.

use crate::network::capacity::{capacity, holds};
use crate::network::{Flow, Network};
use crate::parts::file::File;
use crate::parts::tcp::scheme_text;
use crate::text::tree::{Path, Tree};
use lasthop_core::units::{Quantity, Size};
use lasthop_schemes::catalogue::{Bound, Scheme};
use lasthop_tcp::profile::ProfileName;
use lasthop_tcp::sender::Limit;

/// Default size of buffers and caches, in bandwidth-delay products of the path: one in flight
/// between sender and receiver, and one that keeps the bottleneck busy while a loss is repaired.
const K: u64 = 2;

/// Default size of a relay's buffer with a fixed window, in windows: one in flight to the receiver,
/// one in flight from the sender, and one that is queued.
const WINDOWS: u64 = 3;

/// Computes the bounds that were not given, in the network and in the file that describes it, and
/// lists them as assumed.
pub fn settle(network: &mut Network, file: &mut File, tree: &Tree<'_>) {
    let mut labels: Vec<String> = Vec::new();
    for flow in network.flows.iter().filter(|f| !f.app.is_datagrams()) {
        if !labels.contains(&flow.scheme.label) && !flow.scheme.scheme.bounds().is_empty() {
            labels.push(flow.scheme.label.clone());
        }
    }
    for label in labels {
        let flows: Vec<&Flow> = network.flows.iter().filter(|f| f.scheme.label == label).collect();
        let mut defaults = Vec::new();
        for bound in flows.iter().flat_map(|f| f.scheme.scheme.bounds()).filter(|b| !b.given) {
            if defaults.iter().all(|(setting, _, _)| *setting != bound.setting) {
                let (value, why) = default_of(network, &flows, &bound);
                let line = format!(
                    "{} {} {}: none is given{why}",
                    flows[0].scheme.scheme.name(),
                    bound.setting,
                    text(value)
                );
                defaults.push((bound.setting, value, line));
            }
        }
        for (setting, value, line) in defaults {
            let schemes =
                network.flows.iter_mut().map(|f| &mut f.scheme).filter(|c| c.label == label);
            schemes.for_each(|c| set(&mut c.scheme, setting, value));
            write(file, tree, &label, setting, value);
            if !network.assumed.contains(&line) {
                network.assumed.push(line);
            }
        }
    }
    note_receive_windows(network, file, tree);
}

/// Sets a bound unless it was given.
fn set(scheme: &mut Scheme, setting: &str, value: Size) {
    if scheme.bounds().iter().any(|b| b.setting == setting && !b.given) {
        scheme.set_bound(setting, value);
    }
}

/// One value for all flows of a scheme, because they may share an agent: the published one, or the
/// one for the longest of their paths.
fn default_of(network: &Network, flows: &[&Flow], bound: &Bound) -> (Size, String) {
    if !bound.follows_path || flows.iter().any(|f| f.profile.profile != ProfileName::Linux) {
        return (bound.value, String::new());
    }
    let capacities = flows.iter().filter_map(|f| Some((capacity(network, f)?, f.segment)));
    let Some((path, segment)) = capacities.max_by_key(|(c, _)| c.product()) else {
        return (bound.value, ", and no rate of the path is known".into());
    };
    // If a fixed window limits the bytes in flight, a larger buffer would only add delay.
    let scheme = &flows[0].scheme.scheme;
    let window = scheme
        .bounds()
        .iter()
        .filter(|b| b.limit == Limit::Cwnd)
        .map(|b| b.value.bytes(segment))
        .min();
    let (bytes, of) = match window.filter(|&w| w < path.product()) {
        Some(window) => (
            WINDOWS.saturating_mul(window),
            format!(
                "{WINDOWS} x its window, which is below the bandwidth-delay product of the path"
            ),
        ),
        None => (
            K.saturating_mul(path.product()),
            format!("{K} x the bandwidth-delay product of the path"),
        ),
    };
    let (of, published) =
        (format!("{of} ({}, {})", path.rate, path.rtt), bound.value.bytes(segment));
    if bytes <= published {
        return (bound.value, format!("; at least {of}"));
    }
    let value = match bound.value {
        Size::Bytes(_) => Size::Bytes(bytes),
        Size::Segments(_) => Size::Segments(bytes.div_ceil(u64::from(segment.max(1))) as f64),
    };
    (value, format!("; {of}"))
}

/// A size with its unit, for sentences.
fn text(size: Size) -> String {
    match size {
        Size::Bytes(_) => size.text(),
        Size::Segments(n) => format!("{n} segments"),
    }
}

/// Writes the value of the setting into the file.
fn write(file: &mut File, tree: &Tree<'_>, label: &str, setting: &str, value: Size) {
    let own = file.flow.iter_mut().filter_map(|f| f.scheme.as_mut());
    for written in file.tcp.scheme.iter_mut().chain(own) {
        if let Ok(mut choice) = tree.scheme(written)
            && choice.label == label
        {
            set(&mut choice.scheme, setting, value);
            *written = scheme_text(&choice);
        }
    }
}

/// Lists default receive windows that are smaller than what the path holds.
fn note_receive_windows(network: &mut Network, file: &File, tree: &Tree<'_>) {
    let given = |key: Path| tree.get(&key.at("receive_window")).is_some();
    if given(Path::key("tcp")) || (0..file.flow.len()).all(|i| given(Path::key("flow").at(i))) {
        return;
    }
    let binds = |f: &&Flow| {
        !f.app.is_datagrams()
            && holds(network, f).is_none_or(|held| f.receive_window.bytes(f.segment) < held)
    };
    let Some(flow) = network.flows.iter().find(binds) else { return };
    let line = format!(
        "receive window {}: none is given; the path and its queue can hold more",
        text(flow.receive_window)
    );
    network.assumed.push(line);
}
