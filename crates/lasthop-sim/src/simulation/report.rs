//! Assembles the result of a run.

use lasthop::agent::Agent;
use lasthop::scenario::network::{Flow, Network};
use lasthop::tcp::sender::SenderCounters;
use lasthop::units::Time;
use serde_json::Map;

use crate::events::Observer;
use crate::probes::ground_truth::{Confusion, GroundTruthCounts};
use crate::probes::result::*;
use crate::simulation::Simulation;

impl<R: Observer> Simulation<R> {
    /// The result up to the current time.
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
            traffic_bits: self
                .net
                .ledger
                .close(self.net.pool.bytes() - self.net.ledger.retained_copies),
            clicks: self.clicks(network),
            handovers: self
                .handovers
                .iter()
                .filter_map(|h| {
                    Some(HandoverResult {
                        node: network.nodes[usize::from(h.config.node)].name.clone(),
                        at_s: h.config.at.decimal_secs(),
                        moved_bytes: h.bytes,
                        took_s: h.transfer_time?.decimal_secs(),
                        gap_s: h.gap.decimal_secs(),
                    })
                })
                .collect(),
            classifier: self.classifier(network),
        }
    }

    /// The classifiers of all flows whose schemes have one. Schemes from outside count if they have
    /// classified a loss.
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
                sender.snd_una().min(sender.written()).saturating_sub(stats.delivered_total)
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

    /// Counters of a connection's sender and the ground truth about it, in the measured time.
    fn counted(&self, c: usize) -> (SenderCounters, GroundTruthCounts) {
        let (sender, truth) = self.before_measuring.get(c).copied().unwrap_or_default();
        (
            self.connections[c].sender.counters().since(sender),
            self.net.connection_info[c].ground_truth.counts().since(truth),
        )
    }

    /// The result of a link; `None` for a pair of stations that carried nothing.
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
        // A trace gives delivery opportunities, not transmission times: the busy time is the used
        // share of the opportunities times the measured time.
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
