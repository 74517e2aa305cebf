//! Queue limits as a time ("100 ms") or in bandwidth-delay products ("2 BDP"): the bytes that
//! follow from them once the network is known.

use crate::network::capacity::{delay_of, rate_of};
use crate::network::{Flow, Network};
use crate::parts::cell;
use crate::parts::file::File;
use crate::parts::queue::{QueueSpec, RelativeLimit, queue_fault};
use crate::text::errors::ScenarioError;
use crate::text::tree::{Path, Tree};
use lasthop_channel::queue::QueueConfig;
use lasthop_core::units::{Duration, Quantity, QueueLimit, Rate};

/// What a relative limit refers to.
struct Reference {
    /// Rate of the link: the highest of a schedule, the mean of a trace.
    rate: Option<Rate>,
    /// The longest round-trip time, without queueing, of the flows that cross it.
    rtt: Duration,
    /// Their largest packet with the overhead of the link, bytes.
    full_frame: u64,
}

impl Reference {
    /// Of the links for which `is_at` holds, which have one rate.
    fn new(network: &Network, is_at: impl Fn(usize) -> bool) -> Reference {
        let links: Vec<usize> = (0..network.links.len()).filter(|&l| is_at(l)).collect();
        let round_trip =
            |f: &Flow| [network.path(f.from, f.to), network.path(f.to, f.from)].concat();
        let paths = network.flows.iter().map(|f| (f, round_trip(f)));
        let crossing = paths.filter(|(_, path)| path.iter().any(|&l| is_at(l)));
        let (mut rtt, mut packet) = (Duration::ZERO, 0);
        for (flow, path) in crossing {
            rtt = rtt.max(delay_of(network, &path));
            packet = packet.max(flow.segment + flow.headers);
        }
        let overhead = links.iter().map(|&l| network.links[l].overhead).max().unwrap_or(0);
        Reference {
            rate: links.iter().find_map(|&l| rate_of(network, &network.links[l])),
            rtt,
            full_frame: u64::from(packet + overhead),
        }
    }

    /// The queue with its limit in bytes, at least one full frame.
    fn settle(&self, spec: &QueueSpec, limit: RelativeLimit) -> Option<QueueConfig> {
        let rate = self.rate?.0 as f64;
        let seconds = match limit {
            RelativeLimit::Time(time) => time.as_secs(),
            RelativeLimit::Products(n) => n * self.rtt.as_secs(),
        };
        let bytes = ((rate * seconds / 8.0 + 0.5) as u64).max(self.full_frame).max(1);
        let config = QueueConfig { limit: Some(QueueLimit::Bytes(bytes)), ..spec.config.clone() };
        Some(config.filled())
    }

    /// As `settle`, for the queue at `at` with its name in `assumed`; `None` if its limit is not
    /// relative.
    fn settled(
        &self,
        spec: Option<&QueueSpec>,
        (name, at, tree): (&str, &Path, &Tree<'_>),
        assumed: &mut Vec<String>,
    ) -> Result<Option<QueueConfig>, ScenarioError> {
        let Some((spec, limit)) = spec.and_then(|s| s.relative.map(|limit| (s, limit))) else {
            return Ok(None);
        };
        let Some(config) = self.settle(spec, limit) else {
            let message = format!(
                "\"{}\" needs the rate of the link, and that is 0; write a limit in packets or \
                 bytes",
                limit.text()
            );
            return Err(tree.wrong(&at.at("queue"), message));
        };
        config.check().map_err(|fault| queue_fault(fault, at, tree))?;
        let of = match (limit, self.rate) {
            (RelativeLimit::Products(_), Some(rate)) => format!("{rate}, {}", self.rtt),
            (_, rate) => rate.unwrap_or(Rate(0)).text(),
        };
        let bytes = config.limit.map_or_else(String::new, |limit| limit.text());
        assumed.push(format!("queue of {name}: {bytes}, {} ({of})", limit.text()));
        Ok(Some(config))
    }
}

/// Computes the limits in bytes, in the network and in the file that describes it, and lists them
/// as assumed.
///
/// # Errors
///
/// The rate of a link is not known, or a threshold of its discipline exceeds the limit.
pub fn settle(
    network: &mut Network,
    file: &mut File,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    let mut assumed = Vec::new();
    for (i, link) in file.link.iter_mut().enumerate() {
        let at = Path::key("link").at(i);
        let at = if tree.get(&at).is_some() { at } else { Path::key("last_hop") };
        let directions = [&mut link.forward, &mut link.backward];
        for ((l, word), own) in (2 * i..).zip(["forward", "backward"]).zip(directions) {
            let [from, to] = [network.links[l].from, network.links[l].to]
                .map(|node| network.nodes[usize::from(node)].name.clone());
            let here = if own.queue.is_some() { at.at(word) } else { at.clone() };
            let place = (&*format!("{from}>{to}"), &here, tree);
            let spec = own.queue.as_ref().or(link.both.queue.as_ref());
            let reference = Reference::new(network, |other| other == l);
            if let Some(config) = reference.settled(spec, place, &mut assumed)? {
                network.links[l].queue = config.clone();
                own.queue = Some(config.into());
            }
        }
        link.both.queue.take_if(|queue| queue.relative.is_some());
    }
    for (i, spec) in file.cell.iter_mut().enumerate() {
        let at = Path::key("cell").at(i);
        let is_in = |l: usize| network.links[l].cell.is_some_and(|p| p.cell as usize == i);
        let reference = Reference::new(network, is_in);
        let label = network.cells[i].name.clone();
        let all = reference.settled(spec.queue.as_ref(), (&label, &at, tree), &mut assumed)?;
        spec.queue = all.map(QueueSpec::from).or(spec.queue.take());
        for (s, station) in spec.station.iter_mut().enumerate() {
            let place = (&*station.name, &at.at("station").at(s), tree);
            let own = reference.settled(station.queue.as_ref(), place, &mut assumed)?;
            station.queue = own.map(QueueSpec::from).or(station.queue.take());
        }
        cell::set_queues(network, spec, i);
    }
    network.assumed.extend(assumed);
    Ok(())
}
