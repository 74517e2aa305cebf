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

use crate::engine::scheduler::Source;
use crate::events::probe::Probe;
use crate::hosts::endpoint::{Connection, Input};
use crate::hosts::flow::FlowHost;
use crate::hosts::outbox::Outbox;
use crate::network::Net;
use crate::network::paths::path;

/// The oracle of one connection.
pub struct Oracle {
    source: Source,
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

/// Returns true if the window rule of a flow asks for an oracle.
pub(crate) fn is_wanted(flow: &Flow) -> bool {
    flow.scheme.sender(&flow.profile).needs.oracle
}

impl Oracle {
    /// An oracle for connection `c`.
    pub(crate) fn new(
        network: &Network,
        c: u32,
        connections: &[Connection],
        flows: &[FlowHost],
        source: Source,
    ) -> Oracle {
        let connection = &connections[c as usize];
        let (from, to) = connection.ends();
        let flow = &network.flows[connection.flow() as usize];
        let (frame, ack) = sizes(flow);
        let hop = |link| Hop {
            link,
            overhead: network.links[link].overhead,
            cross_traffic: cross_traffic(network, link, c, connections, flows),
        };
        let hops = |from, to| path(network, from, to).into_iter().map(hop).collect();
        let (forward, back) = (hops(from, to), hops(to, from));
        let payload = flow.segment;
        Oracle { source, connection: c, payload, frame, ack, forward, back, last_notice: None }
    }

    /// Index of its connection.
    pub(crate) fn connection(&self) -> u32 {
        self.connection
    }

    /// Schedules the next notices.
    pub(crate) fn schedule<P: Probe>(&self, at: Time, armed: Time, net: &mut Net<P>) {
        net.scheduler.set(self.source, at.0, armed.0);
    }

    /// Sends the notices that are due.
    #[inline(never)]
    pub(crate) fn handle<P: Probe>(
        &mut self,
        connections: &mut [Connection],
        flows: &[FlowHost],
        out: &mut Outbox<'_, P>,
    ) {
        let (links, now) = (&out.net.links, out.now());
        let round_trip = self.round_trip(links, now);
        let span = self.last_notice.map_or(round_trip, |t| now - t).max(MIN_INTERVAL);
        self.last_notice = Some(now);
        let (mut fair_share, mut residual) = (f64::INFINITY, f64::INFINITY);
        for hop in &mut self.forward {
            let carried = links[hop.link].capacity_now(now, span);
            let payload = f64::from(self.payload) / f64::from(self.frame + hop.overhead);
            let load = hop.load(connections, flows, span);
            fair_share =
                fair_share.min((carried - load.datagrams) / f64::from(load.active) * payload);
            residual = residual.min((carried - load.datagrams - load.connections) * payload);
        }
        let connection = &mut connections[self.connection as usize];
        let notices = [
            (NoticeKind::BaseRtt, round_trip.0),
            (NoticeKind::FairShare, fair_share as u64),
            (NoticeKind::Residual, residual as u64),
        ];
        let flow = connection.sender().flow();
        let notices = notices.map(|(kind, value)| Notice { kind, flow, value, stamp: now });
        connection.handle(Input::OracleNotices(&notices), out);
        match connection.sender().state() {
            State::Done => out.clear_timer(self.source),
            _ => out.set_timer(self.source, now + round_trip.max(MIN_INTERVAL), now),
        }
    }

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

/// The other sources whose data use a link that connection `c` uses.
fn cross_traffic(
    network: &Network,
    link: usize,
    c: u32,
    connections: &[Connection],
    flows: &[FlowHost],
) -> Vec<CrossTraffic> {
    let of_connections = (0..).zip(connections).filter_map(|(i, other)| {
        let (from, to) = other.ends();
        (i != c && shares(network, from, to, link)).then(|| CrossTraffic {
            source: TrafficSource::Connection(i),
            frame: sizes(&network.flows[other.flow() as usize]).0,
            sent: 0,
        })
    });
    let of_flows = (0..).zip(flows).filter_map(|(f, flow)| {
        let (node, datagram) = flow.datagram()?;
        shares(network, node, datagram.to, link).then_some(CrossTraffic {
            source: TrafficSource::Datagrams(f),
            frame: datagram.size,
            sent: 0,
        })
    });
    of_connections.chain(of_flows).collect()
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
    fn load(&mut self, connections: &[Connection], flows: &[FlowHost], span: Duration) -> Load {
        let mut load = Load { active: 1, connections: 0.0, datagrams: 0.0 };
        for other in &mut self.cross_traffic {
            let (sent, rate) = match other.source {
                TrafficSource::Connection(c) => {
                    let sender = connections[c as usize].sender();
                    load.active += u32::from(
                        sender.written() > sender.snd_una() && sender.state() != State::Closed,
                    );
                    (sender.counters().segments, &mut load.connections)
                }
                TrafficSource::Datagrams(f) => (flows[f as usize].datagrams(), &mut load.datagrams),
            };
            let packets = sent - std::mem::replace(&mut other.sent, sent);
            *rate += packets as f64 * f64::from(other.frame + self.overhead) * 8.0 / span.as_secs();
        }
        load
    }
}
