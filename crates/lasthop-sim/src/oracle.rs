//! The oracle: what no sender could know, told to connections whose rule asks for it
//! (`Needs::oracle`).
//!
//! Once for each round trip of the empty path such a connection gets three notices, at the instant
//! they are made: that round-trip time (mean delays and one full segment and its ACK on every link,
//! without queues), and two readings of the rate that it could have, in payload bits per second,
//! each the smallest over the links of its data:
//!
//! * the *fair share*: what the link carries, less what datagrams take, divided by the connections
//!   that have something to send or under way, this one included;
//! * the *residual*: what the link carries, less what all others take.
//!
//! What others take is what they sent in the last round trip, headers and link overhead included;
//! ACKs of connections in the other direction do not count. The stations of a cell share one link,
//! which carries what a pair of them would carry alone, TCP's ACKs on the air taken off. What a
//! link carries is its rate now, of a trace the mean over the last round trip (for the time that a
//! segment takes on it: over the last second).

use lasthop::link::Link;
use lasthop::scenario::network::{Flow, Network};
use lasthop::segment::{NodeId, Notice, NoticeKind};
use lasthop::tcp::sender::State;
use lasthop::units::{Duration, Time};

use crate::build::path;
use crate::connection::Connection;
use crate::events::Observer;
use crate::scheduler::Source;
use crate::simulation::{EventSource, FlowState, Simulation};

/// The oracle of one connection.
pub struct Oracle {
    pub(crate) source: Source,
    pub(crate) start: Time,
    connection: u32,
    /// Payload bytes of a full segment, its bytes on the wire, and those of an ACK.
    payload: u32,
    frame: u32,
    ack: u32,
    /// Links of the data and of the ACKs.
    forward: Vec<Hop>,
    back: Vec<Hop>,
    /// When it spoke last.
    spoke: Option<Time>,
}

/// A link on the way.
struct Hop {
    link: usize,
    overhead: u32,
    rivals: Vec<Rival>,
}

/// Another user of a link, and how many packets of so many bytes it had sent when the oracle spoke
/// last.
struct Rival {
    who: Who,
    frame: u32,
    sent: u64,
}

#[derive(Clone, Copy)]
enum Who {
    Connection(u32),
    Datagrams(u32),
}

/// The least interval between notices, for paths without delay.
const LEAST_INTERVAL: Duration = Duration(1_000_000);

impl<R: Observer> Simulation<R> {
    /// Gives each connection that asks for it an oracle.
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
                spoke: None,
            });
        }
    }

    /// The oracles of a flow that starts later than the scenario says.
    pub(crate) fn oracle_begins(&mut self, flow: usize, at: Time) {
        for oracle in self
            .oracles
            .iter()
            .filter(|o| self.connections[o.connection as usize].flow as usize == flow)
        {
            self.net.scheduler.set(oracle.source, at.0, self.net.now.0);
        }
    }

    /// A link as connection `c` finds it.
    fn hop(&self, network: &Network, link: usize, c: usize) -> Hop {
        let mut rivals = Vec::new();
        for (i, other) in self.connections.iter().enumerate() {
            if i != c && shares(network, other.from, other.to, link) {
                let (frame, _) = sizes(&network.flows[other.flow as usize]);
                rivals.push(Rival { who: Who::Connection(i as u32), frame, sent: 0 });
            }
        }
        for (f, flow) in self.flows.iter().enumerate() {
            if let Some(datagram) = flow.datagram
                && shares(network, flow.node, datagram.to, link)
            {
                rivals.push(Rival { who: Who::Datagrams(f as u32), frame: datagram.size, sent: 0 });
            }
        }
        Hop { link, overhead: network.links[link].overhead, rivals }
    }

    /// An oracle's time has come.
    #[inline(never)]
    pub(crate) fn oracle_speaks(&mut self, o: usize) {
        let oracle = &mut self.oracles[o];
        let (net, now) = (&self.net, self.net.now);
        let round_trip = oracle.round_trip(&net.links, now);
        let span = oracle.spoke.map_or(round_trip, |t| now - t).max(LEAST_INTERVAL);
        oracle.spoke = Some(now);
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
            _ => self.net.scheduler.set(source, (now + round_trip.max(LEAST_INTERVAL)).0, now.0),
        }
    }
}

/// True if the way between two nodes takes the link, or another one of the same cell.
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

/// What others do on a link.
struct Load {
    /// Connections with something to send or under way, the oracle's own included.
    active: u32,
    /// Rates, bit/s.
    connections: f64,
    datagrams: f64,
}

impl Hop {
    /// What the others did in the last `span`.
    fn load(&mut self, connections: &[Connection], flows: &[FlowState], span: Duration) -> Load {
        let mut load = Load { active: 1, connections: 0.0, datagrams: 0.0 };
        for rival in &mut self.rivals {
            let (sent, rate) = match rival.who {
                Who::Connection(c) => {
                    let sender = &connections[c as usize].sender;
                    load.active += u32::from(
                        sender.written() > sender.snd_una() && sender.state() != State::Closed,
                    );
                    (sender.counters().segments, &mut load.connections)
                }
                Who::Datagrams(f) => (flows[f as usize].stats.datagrams, &mut load.datagrams),
            };
            let packets = sent - std::mem::replace(&mut rival.sent, sent);
            *rate += packets as f64 * f64::from(rival.frame + self.overhead) * 8.0 / span.as_secs();
        }
        load
    }
}

impl Oracle {
    /// The round-trip time of the empty path.
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
