//! The oracle: gives connections whose rule asks for it (`Needs::oracle`) information that a real
//! sender cannot have.
//!
//! Once per round trip of the empty path such a connection gets three notices, without delay: the
//! round-trip time of the empty path (mean delays, and one full segment and its ACK on every link,
//! without queueing), and two values of the available rate, in payload bits per second, each the
//! minimum over the links of its data:
//!
//! * the *fair share*: the link's capacity, less the rate of datagrams, divided by the number of
//!   connections that have unsent or unacknowledged data, this one included;
//! * the *residual*: the link's capacity, less the rate of all cross traffic.
//!
//! The rate of cross traffic is what it sent in the last round trip, headers and link overhead
//! included; ACKs of connections in the other direction do not count. The stations of a cell share
//! one link, whose capacity is what a single pair of them could carry, less the air time of TCP's
//! ACKs. The capacity of a link is its present rate; of a trace, the mean over the last round trip
//! (for the serialization time of a segment: over the last second).

use lasthop::link::Link;
use lasthop::scenario::network::{Flow, Network};
use lasthop::segment::{NodeId, Notice, NoticeKind};
use lasthop::tcp::sender::State;
use lasthop::units::{Duration, Time};

use crate::build::path;
use crate::engine::scheduler::Source;
use crate::events::Observer;
use crate::hosts::endpoint::Connection;
use crate::simulation::{EventSource, FlowState, Simulation};

/// The oracle of one connection.
pub struct Oracle {
    pub(crate) source: Source,
    pub(crate) start: Time,
    connection: u32,
    /// Payload bytes of a full segment, its size on the wire, and the size of an ACK.
    payload: u32,
    frame: u32,
    ack: u32,
    /// Links of the data and of the ACKs.
    forward: Vec<Hop>,
    back: Vec<Hop>,
    /// Time of the last notices.
    last_notice: Option<Time>,
}

/// A link on the path.
struct Hop {
    link: usize,
    overhead: u32,
    cross_traffic: Vec<CrossTraffic>,
}

/// Another source on the same link. `sent` is the number of packets, `frame` bytes each, that it
/// had sent at the last notices.
struct CrossTraffic {
    source: TrafficSource,
    frame: u32,
    sent: u64,
}

#[derive(Clone, Copy)]
enum TrafficSource {
    Connection(u32),
    Datagrams(u32),
}

/// Smallest interval between notices, for paths without delay.
const MIN_INTERVAL: Duration = Duration(1_000_000);

impl<R: Observer> Simulation<R> {
    /// Adds an oracle for each connection whose rule asks for one.
    pub(crate) fn add_oracles(&mut self, network: &Network) {
        for c in 0..self.connections.len() {
            let (from, to, f) = (
                self.connections[c].from,
                self.connections[c].to,
                self.connections[c].flow as usize,
            );
            let flow = &network.flows[f];
            if !flow.scheme.sender(&flow.profile).needs.oracle {
                continue;
            }
            let (frame, ack) = sizes(flow);
            let hops = |from, to| {
                path(network, from, to).into_iter().map(|l| self.hop(network, l, c)).collect()
            };
            let (forward, back) = (hops(from, to), hops(to, from));
            let source = self.add_source(EventSource::Oracle(self.oracles.len() as u32));
            self.oracles.push(Oracle {
                source,
                start: self.flows[f].start,
                connection: c as u32,
                payload: flow.segment,
                frame,
                ack,
                forward,
                back,
                last_notice: None,
            });
        }
    }

    /// Starts the oracles of a flow whose start depends on another flow.
    pub(crate) fn oracle_begins(&mut self, flow: usize, at: Time) {
        for oracle in self
            .oracles
            .iter()
            .filter(|o| self.connections[o.connection as usize].flow as usize == flow)
        {
            self.net.scheduler.set(oracle.source, at.0, self.net.now.0);
        }
    }

    /// A link with the cross traffic that connection `c` meets.
    fn hop(&self, network: &Network, link: usize, c: usize) -> Hop {
        let mut cross_traffic = Vec::new();
        for (i, other) in self.connections.iter().enumerate() {
            if i != c && shares(network, other.from, other.to, link) {
                let (frame, _) = sizes(&network.flows[other.flow as usize]);
                cross_traffic.push(CrossTraffic {
                    source: TrafficSource::Connection(i as u32),
                    frame,
                    sent: 0,
                });
            }
        }
        for (f, flow) in self.flows.iter().enumerate() {
            if let Some(datagram) = flow.datagram
                && shares(network, flow.node, datagram.to, link)
            {
                cross_traffic.push(CrossTraffic {
                    source: TrafficSource::Datagrams(f as u32),
                    frame: datagram.size,
                    sent: 0,
                });
            }
        }
        Hop { link, overhead: network.links[link].overhead, cross_traffic }
    }

    /// Sends the notices of an oracle.
    #[inline(never)]
    pub(crate) fn oracle_due(&mut self, o: usize) {
        let oracle = &mut self.oracles[o];
        let (net, now) = (&self.net, self.net.now);
        let round_trip = oracle.round_trip(&net.links, now);
        let span = oracle.last_notice.map_or(round_trip, |t| now - t).max(MIN_INTERVAL);
        oracle.last_notice = Some(now);
        let (mut fair_share, mut residual) = (f64::INFINITY, f64::INFINITY);
        for hop in &mut oracle.forward {
            let carried = net.links[hop.link].capacity_now(now, span);
            let payload = f64::from(oracle.payload) / f64::from(oracle.frame + hop.overhead);
            let load = hop.load(&self.connections, &self.flows, span);
            fair_share =
                fair_share.min((carried - load.datagrams) / f64::from(load.active) * payload);
            residual = residual.min((carried - load.datagrams - load.connections) * payload);
        }
        let (c, source) = (oracle.connection as usize, oracle.source);
        let connection = &mut self.connections[c];
        let write_times = &mut self.flows[connection.flow as usize].write_times;
        let notices = [
            (NoticeKind::BaseRtt, round_trip.0),
            (NoticeKind::FairShare, fair_share as u64),
            (NoticeKind::Residual, residual as u64),
        ];
        connection.with_sender(&mut self.net, write_times, |sender, now, port| {
            for (kind, value) in notices {
                sender.on_notice(
                    now,
                    &Notice { kind, flow: sender.flow(), value, stamp: now },
                    port,
                );
            }
        });
        match connection.sender.state() {
            State::Done => self.net.scheduler.clear(source),
            _ => self.net.scheduler.set(source, (now + round_trip.max(MIN_INTERVAL)).0, now.0),
        }
    }
}

/// Returns true if the path between two nodes uses the link or another link of the same cell.
fn shares(network: &Network, from: NodeId, to: NodeId, link: usize) -> bool {
    let cell = |l: usize| network.links[l].cell.map(|place| place.cell);
    path(network, from, to)
        .into_iter()
        .any(|l| l == link || (cell(l).is_some() && cell(l) == cell(link)))
}

/// Bytes of a full segment and of an ACK on the wire.
fn sizes(flow: &Flow) -> (u32, u32) {
    let profile = flow.scheme.sender(&flow.profile).profile(&flow.profile);
    let stamped = |bytes: u32| if profile.timestamps { bytes } else { 0 };
    (
        flow.segment + flow.headers + stamped(profile.timestamp_bytes),
        flow.headers + stamped(profile.timestamp_ack_bytes),
    )
}

/// Cross traffic on a link.
struct Load {
    /// Connections with unsent or unacknowledged data, the oracle's own included.
    active: u32,
    /// Rates of other connections and of datagrams, bit/s.
    connections: f64,
    datagrams: f64,
}

impl Hop {
    /// The cross traffic in the last `span`.
    fn load(&mut self, connections: &[Connection], flows: &[FlowState], span: Duration) -> Load {
        let mut load = Load { active: 1, connections: 0.0, datagrams: 0.0 };
        for other in &mut self.cross_traffic {
            let (sent, rate) = match other.source {
                TrafficSource::Connection(c) => {
                    let sender = &connections[c as usize].sender;
                    load.active += u32::from(
                        sender.written() > sender.snd_una() && sender.state() != State::Closed,
                    );
                    (sender.counters().segments, &mut load.connections)
                }
                TrafficSource::Datagrams(f) => {
                    (flows[f as usize].stats.datagrams, &mut load.datagrams)
                }
            };
            let packets = sent - std::mem::replace(&mut other.sent, sent);
            *rate += packets as f64 * f64::from(other.frame + self.overhead) * 8.0 / span.as_secs();
        }
        load
    }
}

impl Oracle {
    /// Round-trip time of the empty path.
    fn round_trip(&self, links: &[Link], now: Time) -> Duration {
        let route_time = |hops: &[Hop], bytes: u32| {
            let one = |hop: &Hop| {
                let link = &links[hop.link];
                let rate = link.capacity_now(now, Duration::secs(1));
                let sending =
                    if rate > 0.0 { f64::from(bytes + hop.overhead) * 8.0 / rate } else { 0.0 };
                link.mean_delay(now) + Duration::from_secs_f64(sending)
            };
            hops.iter().map(one).fold(Duration::ZERO, |sum, d| sum + d)
        };
        route_time(&self.forward, self.frame) + route_time(&self.back, self.ack)
    }
}
