//! What bounds the throughput of a flow: settings, and the rates and delays of its path.

use super::paths::path;
use super::types::{Flow, Link, Network, Opener};
use lasthop_channel::air::config::RateConfig;
use lasthop_channel::air::delay::DelayProcess;
use lasthop_core::traffic::App;
use lasthop_core::units::{Duration, QueueLimit, Rate, Size, Time};
use lasthop_schemes::catalogue::Bound;
use lasthop_tcp::sender::Limit;

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
    if flow.app.is_datagrams() {
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
pub struct PathCapacity {
    /// Rate of the narrowest link.
    pub rate: Rate,
    /// Delay in the direction of the data.
    pub one_way: Duration,
    /// Both directions.
    pub rtt: Duration,
}

impl PathCapacity {
    /// Bandwidth-delay product, bytes.
    pub fn product(self) -> u64 {
        (u128::from(self.rate.0) * u128::from(self.rtt.0) / 8_000_000_000) as u64
    }
}

/// Rate and round-trip time of a flow's path without queueing; `None` if no link has a known
/// rate.
pub fn capacity(network: &Network, flow: &Flow) -> Option<PathCapacity> {
    let [there, back] =
        [(flow.from, flow.to), (flow.to, flow.from)].map(|(from, to)| path(network, from, to));
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

/// See `Network::empty_path_s`.
pub fn empty_path_s(network: &Network, flow: &Flow) -> Option<f64> {
    let path = || capacity(network, flow);
    let size = match flow.app {
        App::Transfer { size } => size,
        ref app if app.is_answered() && *app != App::External => {
            let path = path()?;
            let back = Flow { from: flow.to, to: flow.from, ..flow.clone() };
            let frame = u64::from(flow.segment + flow.headers);
            let sending = [path.rate, capacity(network, &back)?.rate].map(|r| r.time_for(frame));
            return Some((path.rtt + sending[0] + sending[1]).as_secs());
        }
        _ => return None,
    };
    let path = path()?;
    let headers = size.div_ceil(u64::from(flow.segment.max(1))) * u64::from(flow.headers);
    let sending = (size + headers) as f64 * 8.0 / path.rate.0 as f64;
    // The data leave with the SYN-ACK's arrival, or with that of its ACK.
    let first = match flow.opens {
        Opener::Sender => path.one_way,
        Opener::Receiver => path.rtt,
    };
    Some(path.rtt.as_secs() + first.as_secs() + sending)
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
pub fn holds(network: &Network, flow: &Flow) -> Option<u64> {
    let capacity = capacity(network, flow)?;
    let narrowest = path(network, flow.from, flow.to)
        .into_iter()
        .min_by_key(|&l| rate_of(network, &network.links[l]).map_or(u64::MAX, |r| r.0))?;
    let queue = match network.links[narrowest].queue.limit? {
        QueueLimit::Packets(n) => n.saturating_mul(u64::from(flow.segment + flow.headers)),
        QueueLimit::Bytes(n) => n,
    };
    Some(capacity.product().saturating_add(queue))
}
