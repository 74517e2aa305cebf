//! What a run gives: the JSON of `lasthop run`.

use lasthop::agent::Agent;
use lasthop::histogram::Summary;
use lasthop::scenario::bounds::FlowBound;
use lasthop::scenario::network::{Flow, Network};
use lasthop::tcp::sender::{Limit, SenderCounters};
use lasthop::units::{Quantity, Time};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::events::Observer;
use crate::ledger::Traffic;
use crate::limits::LimitShares;
use crate::sessions::ClickResult;
use crate::simulation::Simulation;
use crate::truth::{Confusion, TruthCounts};

/// Result of a run. Windows are bytes; unknown is `null`.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Version of lasthop.
    pub lasthop: &'static str,
    /// Title of the scenario.
    pub scenario: String,
    /// Label of the scheme of the first TCP flow.
    pub scheme: String,
    /// Seed.
    pub seed: u64,
    /// Simulated seconds.
    pub duration_s: f64,
    /// Of them, those that were measured.
    pub measured_s: f64,
    /// Schemes that harm others somewhere, and where.
    pub warnings: Vec<String>,
    /// Flows.
    pub flows: Vec<FlowResult>,
    /// One-way links.
    pub links: Vec<LinkResult>,
    /// Agents and relays.
    pub agents: Vec<AgentResult>,
    /// Where the bits went.
    pub traffic_bits: Traffic,
    /// Clicks of web sessions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clicks: Vec<ClickResult>,
    /// Handovers that took place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handovers: Vec<HandoverResult>,
    /// Confusion matrix of the schemes' classifiers; `null` where there is none.
    pub classifier: Option<Classifier>,
}

/// A handover.
#[derive(Clone, Debug, Serialize)]
pub struct HandoverResult {
    /// Node.
    pub node: String,
    /// When.
    pub at_s: f64,
    /// Bytes of state that moved.
    pub moved_bytes: u64,
    /// Until the state had come.
    pub took_s: f64,
    /// The longest time without a delivery to any application, until 2 s after that.
    pub gap_s: f64,
}

/// What the schemes held losses for, beside the truth.
#[derive(Clone, Debug, Serialize)]
pub struct Classifier {
    /// Flows whose scheme tells causes of losses apart.
    pub flows: Vec<FlowClassifier>,
}

/// The classifier of one flow's scheme.
#[derive(Clone, Debug, Serialize)]
pub struct FlowClassifier {
    /// Name of the flow.
    pub id: String,
    /// Label of the scheme.
    pub scheme: String,
    /// The confusion matrix.
    pub matrix: Matrix,
    /// Share of the segments really lost whose cause was told rightly; `null` if none was lost.
    pub accuracy: Option<f64>,
}

/// A confusion matrix: a row for each truth.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Matrix {
    /// Lost on the air.
    pub wireless: Verdicts,
    /// Dropped by a queue.
    pub congestion: Verdicts,
    /// Not lost at all: late, or only its ACK was lost.
    pub not_lost: Verdicts,
}

/// How often the scheme said what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// A loss of the radio.
    pub wireless: u64,
    /// A loss by congestion.
    pub congestion: u64,
}

impl From<[u64; 2]> for Verdicts {
    fn from([wireless, congestion]: [u64; 2]) -> Self {
        Verdicts { wireless, congestion }
    }
}

/// A count in all and the part that was spurious.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spurious {
    /// In all.
    pub total: u64,
    /// Of them spurious.
    pub spurious: u64,
}

/// Timeouts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timeouts {
    /// In all.
    pub total: u64,
    /// The segment had arrived, or did from an earlier copy.
    pub spurious: u64,
    /// The segment had arrived and every ACK for it was lost.
    pub ack_loss: u64,
}

/// Notices of the link layer at a sender.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Notices {
    /// The link layer begins to send a segment again.
    pub ersn: u64,
    /// It has given a segment up.
    pub eln: u64,
    /// Ignored: for nothing in flight, late, or a second time for one transmission.
    pub ignored: u64,
    /// Timeouts put off because the link layer was at work on the first segment.
    pub held_timeouts: u64,
}

/// A setting that bounds the throughput of a flow.
#[derive(Clone, Debug, Serialize)]
pub struct BoundResult {
    /// The share of `limited_by` that counts the time when it binds.
    pub limited_by: Limit,
    /// Scheme and setting, or the key in a scenario file.
    pub setting: String,
    /// Its value.
    pub value: String,
}

impl From<FlowBound> for BoundResult {
    fn from(bound: FlowBound) -> Self {
        BoundResult { limited_by: bound.limit, setting: bound.setting, value: bound.value.text() }
    }
}

/// A flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowResult {
    /// Name.
    pub id: String,
    /// The `[[flow]]` that it is of: its name, or that of its first flow.
    pub group: String,
    /// Kind of the application, as a scenario file names it; an object of a web session is a
    /// transfer.
    pub app: &'static str,
    /// Sender's node.
    pub from: String,
    /// Receiver's node.
    pub to: String,
    /// Label of the scheme; `null` for datagrams.
    pub scheme: Option<String>,
    /// Everything that fills the scheme's slots, in a line.
    pub slots: String,
    /// Payload in order at the application, bit/s of the active measured time.
    pub goodput_bps: f64,
    /// Payload bytes in order at the application.
    pub delivered_bytes: u64,
    /// Where the connection is cut in two: bytes that the sender holds for delivered at the end and
    /// that the application never got. If the node with the relay is gone for good, they are lost
    /// without anybody knowing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_undelivered_bytes: Option<u64>,
    /// From the start of a finite transfer to its last byte.
    pub completed_s: Option<f64>,
    /// From the start to the first byte at the application.
    pub first_byte_s: Option<f64>,
    /// Segments sent by the sender, SYN and retransmissions included.
    pub sent_segments: u64,
    /// Retransmissions.
    pub retransmissions: Spurious,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Fast retransmits.
    pub fast_retransmits: Spurious,
    /// Episodes in which cwnd or ssthresh fell.
    pub cwnd_reductions: u64,
    /// The largest burst: data segments sent one after the other, each within half of the time that
    /// the narrowest link on their way takes for one. `null` where that link's rate is not known.
    pub burst_segments: Option<u64>,
    /// Notices of the link layer, where the sender heeds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notices: Option<Notices>,
    /// Shares of the active measured time by what kept the server's sender from sending its next
    /// new byte; `null` for datagrams, and where no time was measured.
    pub limited_by: Option<LimitShares>,
    /// The settings behind those limits, with their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<BoundResult>,
    /// Round-trip time samples of the sender.
    pub rtt_s: Summary,
    /// Per delivered byte, from the write (endless flows: first sending) to in-order delivery.
    pub one_way_delay_s: Summary,
}

/// A one-way link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkResult {
    /// From.
    pub from: String,
    /// To.
    pub to: String,
    /// The wireless last hop.
    pub radio: bool,
    /// Frames offered to the queue.
    pub offered_frames: u64,
    /// Frames that arrived.
    pub delivered_frames: u64,
    /// Frames lost on the air.
    pub lost_on_air: u64,
    /// Attempts to send a frame, where the link layer sends frames again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// Of them, those in which another station sent at the same time (in a cell).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collisions: Option<u64>,
    /// Frames that the link layer gave up after the last attempt allowed; they are those lost on
    /// the air, and in a cell those of which every link ACK was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arq_discards: Option<u64>,
    /// Of the frames lost on the air, those whose last attempt was a collision (in a cell).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_in_collision: Option<u64>,
    /// Frames refused or dropped by the queue.
    pub dropped_at_queue: u64,
    /// Most frames that waited at a time, the one being sent not counted; not of cells, nor of
    /// links without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_peak_frames: Option<u64>,
    /// Frames that the queue marked: congestion experienced.
    pub marked_frames: u64,
    /// Bits sent over bits that could have been sent.
    pub utilisation: Option<f64>,
    /// What the link could carry on average, bit/s; in a cell, full frames with the TCP ACKs that
    /// answer them and nobody else.
    pub capacity_bps: Option<f64>,
    /// Time spent sending; in a cell, time of the medium, link ACKs included. Of frames that
    /// collide the longest has it all.
    pub busy_s: f64,
    /// From entering the queue to the start of serialisation.
    pub queue_delay_s: Summary,
}

/// An agent or relay.
#[derive(Clone, Debug, Serialize)]
pub struct AgentResult {
    /// Node.
    pub node: String,
    /// Label of its scheme.
    pub scheme: String,
    /// Counters.
    pub counters: Map<String, Value>,
    /// Of a relay: what limited its own sender, as for flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitShares>,
}

impl<R: Observer> Simulation<R> {
    /// The result so far.
    pub fn result(&self, network: &Network, seed: u64) -> RunResult {
        let scheme = network
            .flows
            .iter()
            .find(|f| is_tcp(f))
            .map_or(String::new(), |f| f.scheme.label.clone());
        RunResult {
            lasthop: env!("CARGO_PKG_VERSION"),
            scenario: network.title.clone(),
            scheme,
            seed,
            duration_s: network.duration.decimal_secs(),
            measured_s: self.measured().decimal_secs(),
            warnings: network.warnings(),
            flows: (0..self.flows.len()).map(|f| self.flow_result(network, f)).collect(),
            links: (0..self.net.links.len()).filter_map(|l| self.link_result(network, l)).collect(),
            agents: self.agent_results(network),
            traffic_bits: self.net.ledger.close(self.net.pool.bytes() - self.net.ledger.copies),
            clicks: self.clicks(network),
            handovers: self
                .handovers
                .iter()
                .filter_map(|h| {
                    Some(HandoverResult {
                        node: network.nodes[usize::from(h.config.node)].name.clone(),
                        at_s: h.config.at.decimal_secs(),
                        moved_bytes: h.bytes,
                        took_s: h.took?.decimal_secs(),
                        gap_s: h.gap.decimal_secs(),
                    })
                })
                .collect(),
            classifier: self.classifier(network),
        }
    }

    /// The classifiers of all flows whose schemes have one (or, coming from outside, have said
    /// something).
    fn classifier(&self, network: &Network) -> Option<Classifier> {
        let mut flows = Vec::new();
        for (f, config) in network.flows.iter().enumerate() {
            let of_flow =
                || (0..self.connections.len()).filter(|&c| self.connections[c].flow as usize == f);
            let confusion = of_flow()
                .fold(Confusion::default(), |sum, c| sum.plus(self.counted(c).1.confusion));
            if confusion != Confusion::default()
                || of_flow().any(|c| {
                    self.connections[c].sender.classifies()
                        || self.connections[c].receiver.classifies()
                })
            {
                flows.push(FlowClassifier {
                    id: config.name.clone(),
                    scheme: config.scheme.label.clone(),
                    matrix: Matrix {
                        wireless: confusion.wireless.into(),
                        congestion: confusion.congestion.into(),
                        not_lost: confusion.not_lost.into(),
                    },
                    accuracy: confusion.accuracy(),
                });
            }
        }
        (!flows.is_empty()).then_some(Classifier { flows })
    }

    fn flow_result(&self, network: &Network, f: usize) -> FlowResult {
        let (config, state) = (&network.flows[f], &self.flows[f]);
        let stats = &state.stats;
        let name = |n: u16| network.nodes[usize::from(n)].name.clone();
        let active_from = state.start.max(self.measure_from);
        let stop = config.stop.map_or(self.end, |s| Time::ZERO + s).min(self.end);
        let active = (stats.completed.unwrap_or(stop) - active_from).as_secs();
        let (counters, truth) = state.first.map(|c| self.counted(c as usize)).unwrap_or_default();
        FlowResult {
            id: config.name.clone(),
            group: config.group.clone(),
            app: config.app.kind(),
            from: name(config.from),
            to: name(config.to),
            scheme: is_tcp(config).then(|| config.scheme.label.clone()),
            slots: config.slots(),
            goodput_bps: if active > 0.0 { stats.delivered as f64 * 8.0 / active } else { 0.0 },
            delivered_bytes: stats.delivered,
            acknowledged_undelivered_bytes: state.relay.and(state.first).map(|c| {
                let sender = &self.connections[c as usize].sender;
                sender.snd_una().min(sender.written()).saturating_sub(stats.delivered_ever)
            }),
            completed_s: stats.completed.map(|t| (t - state.start).decimal_secs()),
            first_byte_s: stats.first_byte.map(|t| (t - state.start).decimal_secs()),
            sent_segments: counters.segments + stats.datagrams_measured,
            retransmissions: Spurious {
                total: counters.retransmissions,
                spurious: truth.retransmissions,
            },
            timeouts: Timeouts {
                total: counters.timeouts,
                spurious: truth.timeouts,
                ack_loss: truth.ack_loss,
            },
            fast_retransmits: Spurious {
                total: counters.fast_retransmits,
                spurious: truth.fast_retransmits,
            },
            cwnd_reductions: counters.reductions,
            burst_segments: state
                .first
                .and_then(|c| self.net.connection_info[c as usize].burst.segments()),
            notices: state
                .first
                .is_some_and(|c| self.connections[c as usize].sender.accepts_eln())
                .then_some(Notices {
                    ersn: counters.ersn,
                    eln: counters.eln,
                    ignored: counters.notices_ignored,
                    held_timeouts: counters.timeouts_held,
                }),
            limited_by: self.net.limits[f].shares().filter(|_| is_tcp(config)),
            bounds: config.bounds().into_iter().map(BoundResult::from).collect(),
            rtt_s: stats.rtt.summary(),
            one_way_delay_s: stats.delay.summary(),
        }
    }

    /// What a connection's sender did, and what was needless of it, while measured.
    fn counted(&self, c: usize) -> (SenderCounters, TruthCounts) {
        let (sender, truth) = self.before_measuring.get(c).copied().unwrap_or_default();
        (
            self.connections[c].sender.counters().since(sender),
            self.net.connection_info[c].truth.counts().since(truth),
        )
    }

    /// The row of a link; a pair of stations that carried nothing has none.
    fn link_result(&self, network: &Network, l: usize) -> Option<LinkResult> {
        let link = &self.net.links[l];
        let in_cell = link.place().is_some();
        if in_cell && link.stats.offered == 0 {
            return None;
        }
        let of_cell = |n: u64| in_cell.then_some(n);
        let of_arq =
            |n: u64| (in_cell || network.links[l].arq.is_some() || link.cuts_frames()).then_some(n);
        let name = |n: u16| network.nodes[usize::from(n)].name.clone();
        let capacity = Some(link.capacity_bits()).filter(|c| c.is_finite() && *c > 0.0);
        let seconds = self.measured().as_secs();
        let used = |bits: f64| {
            if in_cell {
                link.busy().as_secs() / seconds
            } else {
                link.stats.bytes as f64 * 8.0 / bits
            }
        };
        let utilisation = capacity.map(used);
        // A trace gives opportunities and no time of sending: what was used of them is a part of
        // the time.
        let share = utilisation.filter(|_| network.links[l].trace.is_some());
        Some(LinkResult {
            from: name(link.from),
            to: name(link.to),
            radio: network.links[l].radio,
            offered_frames: link.stats.offered,
            delivered_frames: link.stats.delivered,
            lost_on_air: link.stats.lost,
            attempts: of_arq(link.stats.attempts),
            arq_discards: of_arq(if in_cell { link.stats.discarded } else { link.stats.lost }),
            collisions: of_cell(link.stats.collisions),
            lost_in_collision: of_cell(link.stats.lost_in_collision),
            dropped_at_queue: link.stats.dropped,
            queue_peak_frames: (!in_cell && network.links[l].queue.limit.is_some())
                .then_some(link.stats.queue_peak),
            marked_frames: link.stats.marked,
            utilisation,
            capacity_bps: capacity.filter(|_| seconds > 0.0).map(|c| c / seconds),
            busy_s: share.map_or(link.busy().decimal_secs(), |used| used * seconds),
            queue_delay_s: link.stats.queue_delay.summary(),
        })
    }

    fn agent_results(&self, network: &Network) -> Vec<AgentResult> {
        let name = |n: u16| network.nodes[usize::from(n)].name.clone();
        let map = |c: Vec<(&'static str, u64)>| {
            c.into_iter().map(|(k, v)| (k.to_string(), v.into())).collect::<Map<_, _>>()
        };
        let mut rows: Vec<AgentResult> = Vec::new();
        for host in &self.net.agents {
            let mut counters = map(host.agent.counters());
            counters.insert("state_bytes".into(), host.agent.state_bytes().into());
            rows.push(AgentResult {
                node: name(host.node),
                scheme: host.label.clone(),
                counters,
                limited_by: None,
            });
        }
        for host in &self.relays {
            let mut counters = map(host.relay.counters());
            let sent = self.counted(host.outbound as usize).0;
            let limited_by = self.net.limits
                [self.connections[host.outbound as usize].flow as usize]
                .relay_shares();
            for (key, value) in [
                ("outbound_sent_segments", sent.segments),
                ("outbound_retransmissions", sent.retransmissions),
                ("outbound_timeouts", sent.timeouts),
                ("outbound_cwnd_reductions", sent.reductions),
            ] {
                counters.insert(key.into(), value.into());
            }
            rows.push(AgentResult {
                node: name(host.node),
                scheme: host.label.clone(),
                counters,
                limited_by,
            });
        }
        rows
    }
}

fn is_tcp(flow: &Flow) -> bool {
    flow.app.datagrams().is_none()
}
