//! Helpers: small networks, recorders, and random networks.
#![allow(dead_code)]

use std::io::{Error, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lasthop::air::config::{
    DelayConfig, DrawIndex, LossConfig, OutageConfig, OutageRule, RateConfig, RateStep, TraceStart,
};
use lasthop::air::loss::Scripted;
use lasthop::air::trace::Trace;
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::{App, Flow, Link, Network, Node, Role};
use lasthop::scenario::{Files, Overrides, load};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{NodeId, Options as SegmentOptions, Segment};
use lasthop::tcp::profile::{DelayedAck, Profile, ProfileName};
use lasthop::units::{Duration, QueueLimit, Rate, Share, Size, Time};
use lasthop_sim::events::{Event, Kind, Observer};
use lasthop_sim::verifier::Verifier;
use lasthop_sim::{Options, RunResult};

pub mod cells;
pub mod elsewhere;
pub mod fixture;
pub mod random;
pub mod verified;

pub fn ms(t: u64) -> Duration {
    Duration::millis(t)
}

pub fn mbps(rate: f64) -> RateConfig {
    RateConfig::Constant(Rate((rate * 1e6) as u64))
}

/// A link without queue limit, loss or outages.
pub fn link(from: NodeId, to: NodeId, rate: RateConfig, delay: Duration) -> Link {
    Link {
        name: format!("{from}>{to}"),
        from,
        to,
        radio: false,
        overhead: 0,
        queue: QueueConfig::UNLIMITED,
        rate,
        trace: None,
        delay: DelayConfig::constant(delay),
        loss: LossConfig::None,
        outages: vec![],
        arq: None,
        shaper: None,
        impairments: Default::default(),
        mtu: None,
        cell: None,
    }
}

/// A trace with opportunities at these milliseconds.
pub fn trace(times: &[u32]) -> Arc<Trace> {
    let text: String = times.iter().map(|t| format!("{t}\n")).collect();
    Arc::new(Trace::read(text.as_bytes(), "test").unwrap())
}

/// Makes a link follow a trace.
pub fn traced(link: Link, trace: Arc<Trace>, start: TraceStart) -> Link {
    Link { rate: RateConfig::Trace { trace: "test".into(), start }, trace: Some(trace), ..link }
}

pub fn schedule(steps: &[(u64, u64)]) -> RateConfig {
    RateConfig::Schedule {
        schedule: steps
            .iter()
            .map(|&(at, rate)| RateStep { at: ms(at), rate: Rate(rate) })
            .collect(),
    }
}

pub fn outage(from: u64, length: u64, frames: OutageRule) -> OutageConfig {
    OutageConfig { from: ms(from), length: ms(length), frames }
}

pub fn lose(data: &[&str], acks: &[u64]) -> LossConfig {
    LossConfig::Scripted(Scripted {
        data: data.iter().map(|d| d.to_string()).collect(),
        acks: acks.to_vec(),
        damaged: false,
    })
}

/// Shortest routes (in hops) between all nodes.
pub fn routes(nodes: usize, links: &[Link]) -> Vec<Vec<Option<u32>>> {
    let mut next = vec![vec![None; nodes]; nodes];
    for to in 0..nodes as NodeId {
        let mut reached = vec![to];
        let mut i = 0;
        while let Some(&node) = reached.get(i) {
            for (l, link) in links.iter().enumerate() {
                let from = link.from;
                if link.to == node && !reached.contains(&from) {
                    next[usize::from(from)][usize::from(to)] = Some(l as u32);
                    reached.push(from);
                }
            }
            i += 1;
        }
    }
    next
}

pub fn network(roles: &[Role], links: Vec<Link>, flows: Vec<Flow>, duration: Duration) -> Network {
    Network {
        title: "test".into(),
        duration,
        measure_from: Duration::ZERO,
        random_starts: Duration::ZERO,
        nodes: roles
            .iter()
            .enumerate()
            .map(|(i, &role)| Node { name: format!("n{i}"), role })
            .collect(),
        next_hop: routes(roles.len(), &links),
        links,
        cells: vec![],
        sessions: vec![],
        handovers: vec![],
        flows,
        assumed: vec![],
    }
}

pub const ROLES: [Role; 3] = [Role::Server, Role::BaseStation, Role::Station];

/// Server, base station, station: 10 Mbit/s and 10 ms, then 1 Mbit/s and 40 ms. Links: 0 and 1
/// wired down and up, 2 and 3 radio down and up.
pub fn last_hop(flows: Vec<Flow>, duration: Duration) -> Network {
    let radio = |l: Link| Link { radio: true, ..l };
    let links = vec![
        link(0, 1, mbps(10.0), ms(10)),
        link(1, 0, mbps(10.0), ms(10)),
        radio(link(1, 2, mbps(1.0), ms(40))),
        radio(link(2, 1, mbps(1.0), ms(40))),
    ];
    network(&ROLES, links, flows, duration)
}

/// Radio links of `last_hop`.
pub const DOWN: usize = 2;
pub const UP: usize = 3;

pub fn scheme(text: &str) -> SchemeChoice {
    SchemeChoice::parse(text).unwrap()
}

/// A flow from the server to the station, segments of 1000 bytes.
pub fn flow(scheme_text: &str, profile: ProfileName, app: App) -> Flow {
    Flow {
        name: "flow 1".into(),
        group: "flow 1".into(),
        role: Default::default(),
        from: 0,
        to: 2,
        app,
        start: Duration::ZERO,
        stop: None,
        segment: 1000,
        headers: 40,
        receive_window: Size::Segments(64.0),
        profile: Profile::named(profile),
        scheme: scheme(scheme_text),
        loss: LossConfig::None,
        ack_loss: LossConfig::None,
        reader: None,
        opens: Default::default(),
        misbehaviour: None,
        is_arrival: false,
        draw: None,
    }
}

/// A transfer under the profile `rfc` without delayed ACKs.
pub fn rfc(scheme_text: &str, segments: u64) -> Flow {
    let mut f = flow(scheme_text, ProfileName::Rfc, App::Transfer { size: segments * 1000 });
    f.profile.delayed_ack = DelayedAck::Switch(false);
    f
}

/// A transfer under the profile of ns-2.35 with a minimum RTO of 1 s and a window of 20 segments,
/// as in its recovery traces.
pub fn ns2(scheme_text: &str, segments: u64) -> Flow {
    let mut f = flow(scheme_text, ProfileName::Ns235, App::Transfer { size: segments * 1000 });
    f.profile.min_rto = Duration::secs(1);
    f.receive_window = Size::Segments(20.0);
    f.profile.limited_transmit = false;
    f
}

/// An owned copy of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub t: u64,
    pub node: u16,
    pub link: Option<u32>,
    pub flow: u32,
    pub kind: Kind,
    pub segment: Option<Segment>,
    pub reason: &'static str,
    pub value: f64,
}

impl Seen {
    /// Segment number from 1; 0 for segments without payload.
    pub fn number(&self) -> u64 {
        self.segment.map_or(0, |s| if s.len == 0 { 0 } else { s.seq / 1000 + 1 })
    }

    pub fn secs(&self) -> f64 {
        self.t as f64 * 1e-9
    }

    pub fn segment(&self) -> Segment {
        self.segment.unwrap()
    }
}

/// Records every event.
#[derive(Default)]
pub struct Log(pub Vec<Seen>);

impl Observer for Log {
    fn on_event(&mut self, e: &Event<'_>) {
        let (t, segment) = (e.t.0, e.segment.copied());
        self.0.push(Seen {
            t,
            node: e.node,
            link: e.link,
            flow: e.flow,
            kind: e.kind,
            segment,
            reason: e.reason,
            value: e.value,
        });
    }
}

impl Log {
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Seen> {
        self.0.iter().filter(move |e| e.kind == kind)
    }

    pub fn count(&self, kind: Kind) -> usize {
        self.of(kind).count()
    }

    /// The values of all events of a kind.
    pub fn values(&self, kind: Kind) -> Vec<f64> {
        self.of(kind).map(|e| e.value).collect()
    }

    /// Segment number and time in seconds of each segment that the senders sent.
    pub fn sent(&self) -> Vec<(u64, f64)> {
        self.of(Kind::DataSent).map(|e| (e.number(), e.secs())).collect()
    }

    /// Time in seconds of the n-th transmission (from 1) of this segment.
    pub fn sending(&self, number: u64, n: usize) -> f64 {
        self.sent()
            .iter()
            .filter(|s| s.0 == number)
            .nth(n - 1)
            .unwrap_or_else(|| panic!("segment {number} was not sent {n} times"))
            .1
    }
}

/// A run checked by the verifier.
pub struct Watched {
    pub result: RunResult,
    pub log: Log,
}

impl Watched {
    /// Of the first flow: retransmissions, spurious ones, timeouts, reductions of cwnd.
    pub fn repairs(&self) -> [u64; 4] {
        let flow = &self.result.flows[0];
        let again = flow.retransmissions;
        [again.total, again.spurious, flow.timeouts.total, flow.cwnd_reductions]
    }
}

/// Simulates a network under the verifier; panics with the violations.
pub fn watch(network: &Network, seed: u64) -> Watched {
    watch_with(network, seed, Options::default())
}

pub fn watch_with(network: &Network, seed: u64, options: Options) -> Watched {
    let (mut verifier, mut log) = (Verifier::new(network), Log::default());
    let result = lasthop_sim::run_with(
        network,
        seed,
        (&mut verifier, &mut log),
        &AtomicBool::new(false),
        options,
    )
    .unwrap();
    if let Err(violations) = verifier.finish_with(&result) {
        panic!("{} violations:\n{}", violations.len(), violations.join("\n"));
    }
    Watched { result, log }
}

/// The JSON of a run without observers.
pub fn json(network: &Network, seed: u64) -> String {
    to_json(&lasthop_sim::run(network, seed, (), &AtomicBool::new(false)).unwrap())
}

pub fn to_json(result: &RunResult) -> String {
    serde_json::to_string(result).unwrap()
}

/// A DropTail queue of `n` frames.
pub fn packets(n: u64) -> QueueConfig {
    QueueConfig::drop_tail(QueueLimit::Packets(n))
}

pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// What the verifier finds wrong with these events of a run.
pub fn violations(network: &Network, events: &[Seen]) -> Vec<String> {
    let mut v = Verifier::new(network);
    for e in events {
        let (t, segment) = (Time(e.t), e.segment.as_ref());
        let (node, kind, options) = (e.node, e.kind, &SegmentOptions::NONE);
        v.on_event(&Event {
            t,
            node,
            link: e.link,
            flow: e.flow,
            kind,
            segment,
            options,
            reason: e.reason,
            value: e.value,
        });
    }
    v.finish().err().unwrap_or_default()
}

/// `last_hop` with 2 Mbit/s and 50 ms at the radio, a queue of packets and this loss rate of data.
/// With 10 Mbit/s and 10 ms before it, the bandwidth-delay product is 29 segments of 1000 bytes.
pub fn lossy_radio(flow: Flow, loss: f64, queue: u64, duration: Duration) -> Network {
    let mut network = last_hop(vec![flow], duration);
    for l in [DOWN, UP] {
        (network.links[l].rate, network.links[l].delay) =
            (mbps(2.0), DelayConfig::constant(ms(50)));
    }
    network.links[DOWN].queue = packets(queue);
    if loss > 0.0 {
        network.links[DOWN].loss = LossConfig::Uniform {
            rate: Share(loss),
            index: DrawIndex::Frame,
            slot: Duration::micros(500),
        };
    }
    network
}

struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _: &Path) -> Result<Box<dyn Read>, Error> {
        Err(Error::other("no files here"))
    }
}

/// The network of a scenario file's text, which names no other files.
pub fn network_of(text: &str) -> Network {
    let loaded = load(text, None, &Overrides::default(), &NoFiles);
    loaded.unwrap_or_else(|e| panic!("{e}")).network
}
