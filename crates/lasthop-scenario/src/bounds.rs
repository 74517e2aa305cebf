//! Settings that bound the throughput of a flow besides its windows: a relay's buffer, an agent's
//! cache, the receive window. Defaults are computed here and listed as assumed.

use crate::defaults::scheme_text;
use crate::file::File;
use crate::network::{App, Flow, Link, Network};
use crate::tree::{Path, Tree};
use lasthop_channel::air::config::RateConfig;
use lasthop_channel::air::delay::DelayProcess;
use lasthop_core::units::{Duration, Quantity, QueueLimit, Rate, Size, Time};
use lasthop_schemes::catalogue::{Bound, Scheme};
use lasthop_tcp::profile::ProfileName;
use lasthop_tcp::sender::Limit;

/// Default size of buffers and caches, in bandwidth-delay products of the path: one in flight
/// between sender and receiver, and one that keeps the bottleneck busy while a loss is repaired.
pub const K: u64 = 2;

/// Default size of a relay's buffer with a fixed window, in windows: one in flight to the receiver,
/// one in flight from the sender, and one that is queued.
const WINDOWS: u64 = 3;

/// A setting that bounds the throughput of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowBound {
    /// The limit that is reported while this setting binds.
    pub limit: Limit,
    /// Scheme and setting ("i-tcp:buffer"), or the key in a scenario file.
    pub setting: String,
    /// Its value.
    pub value: Size,
}

/// The settings that bound a flow's throughput; none for datagrams.
pub fn of_flow(flow: &Flow) -> Vec<FlowBound> {
    if flow.app.datagrams().is_some() {
        return Vec::new();
    }
    let scheme = &flow.scheme.scheme;
    let of_scheme = |b: Bound| FlowBound {
        limit: b.limit,
        setting: format!("{}:{}", scheme.name(), b.setting),
        value: b.value,
    };
    let window = FlowBound {
        limit: Limit::ReceiveWindow,
        setting: "tcp.receive_window".into(),
        value: flow.receive_window,
    };
    // If the scheme or a slow reader controls the window, the setting does not bound it.
    let is_bound = !scheme.steers_receive_window() && flow.reader.is_none();
    let window = is_bound.then_some(window);
    scheme.bounds().into_iter().map(of_scheme).chain(window).collect()
}

/// Rate of the narrowest link of a path, and the delays of both directions.
#[derive(Clone, Copy, Debug)]
struct PathCapacity {
    rate: Rate,
    /// Delay in the direction of the data.
    one_way: Duration,
    rtt: Duration,
}

impl PathCapacity {
    /// Bandwidth-delay product, bytes.
    fn product(self) -> u64 {
        (u128::from(self.rate.0) * u128::from(self.rtt.0) / 8_000_000_000) as u64
    }
}

/// Rate and round-trip time of a flow's path without queueing; `None` if no link has a known
/// rate.
fn capacity(network: &Network, flow: &Flow) -> Option<PathCapacity> {
    let [there, back] =
        [(flow.from, flow.to), (flow.to, flow.from)].map(|(from, to)| network.path(from, to));
    let rate = there.iter().filter_map(|&l| rate_of(network, &network.links[l])).min()?;
    let [one_way, back] = [there, back].map(|links| delay_of(network, &links));
    Some(PathCapacity { rate, one_way, rtt: one_way + back })
}

/// Sum of the mean delays of these links at the start, without queueing and serialisation.
pub fn delay_of(network: &Network, links: &[usize]) -> Duration {
    let delay = |&l: &usize| {
        DelayProcess::new(&network.links[l].delay, 0, "")
            .map_or(Duration::ZERO, |d| d.mean_at(Time::ZERO))
    };
    links.iter().map(delay).fold(Duration::ZERO, |sum, d| sum + d)
}

/// Rate of the narrowest link of a flow's path; `None` if no rate is known.
pub fn narrowest_rate(network: &Network, flow: &Flow) -> Option<Rate> {
    capacity(network, flow).map(|path| path.rate)
}

/// Round-trip time of a flow's path without queueing; `None` if no link has a known rate.
pub fn rtt(network: &Network, flow: &Flow) -> Option<Duration> {
    capacity(network, flow).map(|path| path.rtt)
}

/// See [`Network::empty_path_s`].
pub fn empty_path_s(network: &Network, flow: &Flow) -> Option<f64> {
    let path = capacity(network, flow)?;
    let size = match flow.app {
        App::Transfer { size } => size,
        App::Ping { .. } => {
            let back = Flow { from: flow.to, to: flow.from, ..flow.clone() };
            let frame = u64::from(flow.segment + flow.headers);
            let sending = [path.rate, capacity(network, &back)?.rate].map(|r| r.time_for(frame));
            return Some((path.rtt + sending[0] + sending[1]).as_secs());
        }
        _ => return None,
    };
    let headers = size.div_ceil(u64::from(flow.segment.max(1))) * u64::from(flow.headers);
    let sending = (size + headers) as f64 * 8.0 / path.rate.0 as f64;
    Some(path.rtt.as_secs() + path.one_way.as_secs() + sending)
}

/// Rate of a link: the highest of a schedule, the mean of a trace, that of the data frames in a
/// cell, with a shaper at most that of the shaper; `None` if it is 0.
pub fn rate_of(network: &Network, link: &Link) -> Option<Rate> {
    let rate = match (&link.rate, &link.trace, link.cell) {
        (_, _, Some(place)) => Some(network.cells[place.cell as usize].mac.data_rate),
        (_, Some(trace), _) => Some(trace.mean_rate()),
        (RateConfig::Schedule { schedule }, _, _) => schedule.iter().map(|s| s.rate).max(),
        (RateConfig::Constant(rate), _, _) => Some(*rate),
        _ => None,
    };
    let shaper = link.shaper.map(|s| s.rate);
    rate.map(|r| r.min(shaper.unwrap_or(r))).filter(|r| r.0 > 0)
}

/// Bytes that a flow's path can hold: in flight, and in the queue of its narrowest link. `None`
/// if the queue has no limit.
fn holds(network: &Network, flow: &Flow) -> Option<u64> {
    let capacity = capacity(network, flow)?;
    let narrowest = network
        .path(flow.from, flow.to)
        .into_iter()
        .min_by_key(|&l| rate_of(network, &network.links[l]).map_or(u64::MAX, |r| r.0))?;
    let queue = match network.links[narrowest].queue.limit? {
        QueueLimit::Packets(n) => n.saturating_mul(u64::from(flow.segment + flow.headers)),
        QueueLimit::Bytes(n) => n,
    };
    Some(capacity.product().saturating_add(queue))
}

/// Computes the bounds that were not given, in the network and in the file that describes it, and
/// lists them as assumed.
pub fn settle(network: &mut Network, file: &mut File, tree: &Tree<'_>) {
    let mut labels: Vec<String> = Vec::new();
    for flow in network.flows.iter().filter(|f| f.app.datagrams().is_none()) {
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
        f.app.datagrams().is_none()
            && holds(network, f).is_none_or(|held| f.receive_window.bytes(f.segment) < held)
    };
    let Some(flow) = network.flows.iter().find(binds) else { return };
    let line = format!(
        "receive window {}: none is given; the path and its queue can hold more",
        text(flow.receive_window)
    );
    network.assumed.push(line);
}
