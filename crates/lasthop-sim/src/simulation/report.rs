//! Assembles the result of a run.

use lasthop::histogram::{Histogram, Summary};
use lasthop::link::cell::config::{CellConfig, StationConfig};
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::tcp::sender::{GaveUp, SenderCounters};
use lasthop::units::{Duration, Time};
use serde_json::Map;

use crate::events::Observer;
use crate::hosts::endpoint::Connection;
use crate::hosts::flow::FlowHost;
use crate::hosts::handover::HandoverHost;
use crate::network::cells::CellHost;
use crate::probes::ground_truth::Confusion;
use crate::probes::ledger::Traffic;
use crate::probes::result::*;
use crate::simulation::Simulation;

/// What of a simulation is in its result besides the statistics of flows and links.
struct Ends {
    traffic: Traffic,
    connections: Vec<ConnectionEnd>,
}

/// A connection at the end of a run.
struct ConnectionEnd {
    flow: u32,
    /// Counters of its sender in the measured time.
    counters: SenderCounters,
    /// Bytes of the application that were acknowledged.
    acknowledged: u64,
    gave_up: Option<GaveUp>,
    accepts_eln: bool,
    /// One of its ends classifies losses.
    classifies: bool,
}

#[allow(clippy::multiple_inherent_impl, reason = "the report is a file apart")]
impl<R: Observer> Simulation<R> {
    /// The result up to the current time.
    pub fn result(&self, network: &Network, seed: u64) -> RunResult {
        self.result_with(network, seed, Contents::ALL, None)
    }

    /// The same with these contents. `old`: the result of a run of this network with another seed
    /// that is no longer used.
    pub(crate) fn result_with(
        &self,
        network: &Network,
        seed: u64,
        with: Contents,
        old: Option<RunResult>,
    ) -> RunResult {
        self.report(network, (seed, &self.ends()), with, old)
    }

    /// Ends the simulation. Connections and what is in transit are freed before the result is made,
    /// which with many flows takes as much memory as these.
    pub(crate) fn into_result(mut self, network: &Network, seed: u64, with: Contents) -> RunResult {
        let ends = self.ends();
        self.hosts.connections = Vec::new();
        self.net.free_transit();
        self.report(network, (seed, &ends), with, None)
    }

    /// What of the connections and of the network's state is in the result.
    fn ends(&self) -> Ends {
        let of_connection = |(c, connection): (usize, &Connection)| {
            let (sender, receiver) = (connection.sender(), connection.receiver());
            let before = self.before_measuring.get(c).copied().unwrap_or_default();
            ConnectionEnd {
                flow: connection.flow(),
                counters: sender.counters().since(before),
                acknowledged: sender.snd_una().min(sender.written()),
                gave_up: receiver.gave_up().or(sender.gave_up()),
                accepts_eln: sender.accepts_eln(),
                classifies: sender.classifies() || receiver.classifies(),
            }
        };
        Ends {
            traffic: self.net.probes.traffic(self.bytes_in_transit()),
            connections: self.hosts.connections.iter().enumerate().map(of_connection).collect(),
        }
    }

    fn report(
        &self,
        network: &Network,
        (seed, ends): (u64, &Ends),
        with: Contents,
        old: Option<RunResult>,
    ) -> RunResult {
        let names = |old: RunResult| (old.scenario, old.scheme, old.flows, old.links);
        let (scenario, scheme, flows, links) = old.map_or_else(
            || {
                let first = network.flows.iter().find(|f| is_tcp(f));
                let scheme = first.map_or(String::new(), |f| f.scheme.label.clone());
                (network.title.clone(), scheme, Vec::new(), Vec::new())
            },
            names,
        );
        RunResult {
            lasthop: env!("CARGO_PKG_VERSION").into(),
            scenario,
            scheme,
            seed,
            duration_s: network.duration.decimal_secs(),
            measured_s: self.measured().decimal_secs(),
            warnings: if with.texts { network.warnings() } else { Vec::new() },
            flows: renewed(flows, self.hosts.flows.len(), |f, old| {
                Some(self.flow_result(network, f, (&ends.connections, with), old))
            }),
            links: renewed(links, self.net.links.len(), |l, old| {
                self.link_result(network, l, with, old)
            }),
            agents: self.agent_results(network, &ends.connections),
            traffic_bits: ends.traffic,
            clicks: self.clicks(network),
            handovers: self.handover_results(network),
            cells: self.cell_results(network),
            classifier: self.classifier(network, &ends.connections),
        }
    }

    /// The handovers that took place.
    fn handover_results(&self, network: &Network) -> Vec<HandoverResult> {
        let result = |(i, h): (usize, &HandoverHost)| {
            Some(HandoverResult {
                node: network.nodes[usize::from(h.config().node)].name.clone(),
                at_s: h.config().at.decimal_secs(),
                moved_bytes: h.bytes(),
                took_s: h.transfer_time()?.decimal_secs(),
                gap_s: self.net.probes.gap(i).decimal_secs(),
            })
        };
        self.hosts.handovers.iter().enumerate().filter_map(result).collect()
    }

    /// The classifiers of all flows whose schemes have one. Schemes from outside count if they have
    /// classified a loss.
    fn classifier(&self, network: &Network, ends: &[ConnectionEnd]) -> Option<Classifier> {
        let mut of_flows = vec![(Confusion::default(), false); network.flows.len()];
        for (c, end) in ends.iter().enumerate() {
            let (sum, classifies) = &mut of_flows[end.flow as usize];
            *sum = sum.plus(self.net.probes.ground_truth(c).confusion);
            *classifies |= end.classifies;
        }
        let mut flows = Vec::new();
        for (config, (confusion, classifies)) in network.flows.iter().zip(of_flows) {
            if confusion != Confusion::default() || classifies {
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

    fn flow_result(
        &self,
        network: &Network,
        f: usize,
        (ends, with): (&[ConnectionEnd], Contents),
        old: Option<&mut FlowResult>,
    ) -> FlowResult {
        let (config, flow, probes) = (&network.flows[f], &self.hosts.flows[f], &self.net.probes);
        let (stats, user) = (probes.stats(f), probes.user(f));
        let [id, group, from, to, scheme] = names_of_flow(network, config, old);
        let (start, completed) = (flow.start(), flow.completed());
        let stop = config.stop.map_or(self.end, |s| Time::ZERO + s).min(self.end);
        let active = (completed.unwrap_or(stop) - start.max(self.measure_from)).as_secs();
        let counted = |c: u32| (ends[c as usize].counters, probes.ground_truth(c as usize));
        let (counters, truth) = flow.first().map(counted).unwrap_or_default();
        let bounds = if with.texts { config.bounds() } else { Vec::new() };
        let bounds = bounds.into_iter().map(BoundResult::from).collect();
        FlowResult {
            id,
            group,
            role: config.role,
            app: config.app.kind().into(),
            from,
            to,
            scheme: is_tcp(config).then_some(scheme),
            slots: if with.texts { config.slots() } else { String::new() },
            goodput_bps: if active > 0.0 { stats.delivered as f64 * 8.0 / active } else { 0.0 },
            delivered_bytes: stats.delivered,
            acknowledged_undelivered_bytes: undelivered(flow, ends),
            arrived_s: config.is_arrival.then(|| start.decimal_secs()),
            discarded: Discards::new(stats.discarded, counters.acks_discarded),
            gave_up: gave_up(flow, ends),
            completed_s: completed.map(|t| (t - start).decimal_secs()),
            empty_path_s: network.empty_path_s(config),
            first_byte_s: stats.first_byte.map(|t| (t - start).decimal_secs()),
            sent_segments: counters.segments + stats.datagrams,
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
            burst_segments: flow.first().and_then(|c| probes.burst(c)),
            call: user.call.as_ref().map(|c| Box::new(c.result())),
            frames: user.frames.as_ref().map(|m| Box::new(m.result())),
            requests: user.requests.as_ref().map(|r| Box::new(r.result(self.measured()))),
            video: flow.playback(self.end).map(VideoResult::from),
            notices: notices(flow, ends),
            limited_by: probes.limits(f, false).filter(|_| is_tcp(config)),
            bounds,
            rtt_s: summary(&stats.rtt, with.rtt),
            one_way_delay_s: stats.delay.summary(),
        }
    }

    /// The result of a link; `None` for a pair of stations that carried nothing.
    fn link_result(
        &self,
        network: &Network,
        l: usize,
        with: Contents,
        old: Option<&mut LinkResult>,
    ) -> Option<LinkResult> {
        let link = &self.net.links[l];
        let in_cell = link.place().is_some();
        if in_cell && link.stats.offered == 0 {
            return None;
        }
        let config = &network.links[l];
        let filters = config.queue.discipline.filters() || link.stats.filtered > 0;
        let of_cell = |n: u64| in_cell.then_some(n);
        let of_arq =
            |n: u64| (in_cell || network.links[l].arq.is_some() || link.cuts_frames()).then_some(n);
        let name = |n: u16| network.nodes[usize::from(n)].name.clone();
        let [from, to] = match old {
            Some(old) => [&mut old.from, &mut old.to].map(std::mem::take),
            None => [link.from, link.to].map(name),
        };
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
            from,
            to,
            radio: network.links[l].radio,
            offered_frames: link.stats.offered,
            delivered_frames: link.stats.delivered,
            lost_on_air: link.stats.lost,
            attempts: of_arq(link.stats.attempts),
            arq_discards: of_arq(if in_cell { link.stats.discarded } else { link.stats.lost }),
            collisions: of_cell(link.stats.collisions),
            lost_in_collision: of_cell(link.stats.lost_in_collision),
            dropped_at_queue: link.stats.dropped,
            filtered_frames: filters.then_some(link.stats.filtered),
            dropped_by_policer: config.impairments.policer.map(|_| link.stats.policed),
            duplicated_frames: config.impairments.duplicate.map(|_| link.stats.duplicated),
            corrupted_frames: config.impairments.corrupt.map(|_| link.stats.corrupted),
            queue_peak_frames: (!in_cell && network.links[l].queue.limit.is_some())
                .then_some(link.stats.queue_peak),
            marked_frames: link.stats.marked,
            utilisation,
            capacity_bps: capacity.filter(|_| seconds > 0.0).map(|c| c / seconds),
            busy_s: share.map_or(link.busy().decimal_secs(), |used| used * seconds),
            queue_delay_s: summary(&link.stats.queue_delay, with.all_queue_delays || config.radio),
        })
    }

    /// Air time in the cells that account for it.
    fn cell_results(&self, network: &Network) -> Vec<CellResult> {
        let cells = self.net.cells.iter().zip(&network.cells);
        let of_cell = |(host, config): (&CellHost, &CellConfig)| {
            let shares = host.cell.air_time(self.net.now)?;
            let stations = config.stations.iter().zip(&shares.stations);
            let air_time = |(s, time): (&StationConfig, &Duration)| StationAirTime {
                station: network.nodes[usize::from(s.node)].name.clone(),
                air_time_s: time.decimal_secs(),
            };
            Some(CellResult {
                name: config.name.clone(),
                stations: stations.map(air_time).collect(),
                collisions_s: shares.collisions.decimal_secs(),
                beacons_s: shares.beacons.decimal_secs(),
                others_s: shares.others.decimal_secs(),
                idle_s: shares.idle.decimal_secs(),
            })
        };
        cells.filter_map(of_cell).collect()
    }

    fn agent_results(&self, network: &Network, ends: &[ConnectionEnd]) -> Vec<AgentResult> {
        let name = |n: u16| network.nodes[usize::from(n)].name.clone();
        let map = |c: Vec<(&'static str, u64)>| {
            c.into_iter().map(|(k, v)| (k.to_string(), v.into())).collect::<Map<_, _>>()
        };
        let mut rows: Vec<AgentResult> = Vec::new();
        for agent in self.hosts.agents.counters() {
            let mut counters = map(agent.counters);
            counters.insert("state_bytes".into(), agent.state_bytes.into());
            let (node, scheme) = (name(agent.node), agent.scheme.to_string());
            rows.push(AgentResult { node, scheme, counters, limited_by: None });
        }
        for relay in &self.hosts.relays {
            let mut counters = map(relay.counters());
            let outbound = &ends[relay.connections().1 as usize];
            let (sent, flow) = (outbound.counters, outbound.flow as usize);
            for (key, value) in [
                ("outbound_sent_segments", sent.segments),
                ("outbound_retransmissions", sent.retransmissions),
                ("outbound_timeouts", sent.timeouts),
                ("outbound_cwnd_reductions", sent.reductions),
            ] {
                counters.insert(key.into(), value.into());
            }
            rows.push(AgentResult {
                node: name(relay.node()),
                scheme: relay.label().to_string(),
                counters,
                limited_by: self.net.probes.limits(flow, true),
            });
        }
        rows
    }

    /// The loading times of all pages.
    fn clicks(&self, network: &Network) -> Vec<ClickResult> {
        let pages = network
            .sessions
            .iter()
            .flat_map(|s| s.pages.iter().enumerate().map(move |(k, page)| (s, k, page.clone())));
        pages
            .map(|(session, k, page)| {
                let flows = || page.clone().map(|f| &self.hosts.flows[f]);
                let at = self.hosts.flows[page.start].start();
                let since = |t: Time| (t - at).decimal_secs();
                let first_byte =
                    page.clone().filter_map(|f| self.net.probes.stats(f).first_byte).min();
                let completed = flows()
                    .map(|f| f.completed())
                    .try_fold(Time::ZERO, |last, t| t.map(|t| last.max(t)));
                let end = network.flows[page.start]
                    .stop
                    .map(|s| Time::ZERO + s)
                    .filter(|s| *s < self.end);
                let size = |f: usize| {
                    if let App::Transfer { size } = network.flows[f].app { size } else { 0 }
                };
                let clicked = at < end.unwrap_or(self.end);
                ClickResult {
                    id: format!("{} {}", session.name, k + 1),
                    at_s: clicked.then(|| at.decimal_secs()),
                    objects: page.len(),
                    bytes: page.clone().map(size).sum(),
                    first_byte_s: first_byte.map(since),
                    completed_s: completed.map(since),
                    broken_off: clicked && completed.is_none() && end.is_some(),
                }
            })
            .collect()
    }
}

/// The results of `count` flows or links, in the list of those of another run, which has their
/// names, or in a new one. `new`: a result by its number and the old one, `None` if there is none.
fn renewed<T>(
    mut list: Vec<T>,
    count: usize,
    new: impl Fn(usize, Option<&mut T>) -> Option<T>,
) -> Vec<T> {
    if list.len() != count {
        return (0..count).filter_map(|i| new(i, None)).collect();
    }
    let mut numbers = 0..count;
    list.retain_mut(|old| {
        let found = numbers.next().and_then(|i| new(i, Some(old)));
        found.map(|new| *old = new).is_some()
    });
    list
}

/// The names of a flow: its own, its group, its sender's and its receiver's node, and its scheme;
/// those of its old result if there is one.
fn names_of_flow(network: &Network, flow: &Flow, old: Option<&mut FlowResult>) -> [String; 5] {
    let Some(FlowResult { id, group, from, to, scheme, .. }) = old else {
        let node = |n: u16| &network.nodes[usize::from(n)].name;
        let [from, to] = [flow.from, flow.to].map(node);
        return [&flow.name, &flow.group, from, to, &flow.scheme.label].map(String::clone);
    };
    let mut none = String::new();
    [id, group, from, to, scheme.as_mut().unwrap_or(&mut none)].map(std::mem::take)
}

/// The first of the flow's ends that gave up: a receiver's SYN before its sender's SYN-ACK.
fn gave_up(flow: &FlowHost, ends: &[ConnectionEnd]) -> Option<GaveUpResult> {
    let connections = [flow.first(), flow.last()].into_iter().flatten();
    connections.flat_map(|c| ends[c as usize].gave_up).map(GaveUpResult::from).next()
}

/// For split flows: bytes acknowledged to the sender but not delivered.
fn undelivered(flow: &FlowHost, ends: &[ConnectionEnd]) -> Option<u64> {
    let first = flow.relay().and(flow.first())?;
    Some(ends[first as usize].acknowledged.saturating_sub(flow.delivered_bytes()))
}

/// Notices of the link layer, if the sender accepts them.
fn notices(flow: &FlowHost, ends: &[ConnectionEnd]) -> Option<Notices> {
    let end = &ends[flow.first()? as usize];
    end.accepts_eln.then_some(Notices {
        ersn: end.counters.ersn,
        eln: end.counters.eln,
        ignored: end.counters.notices_ignored,
        held_timeouts: end.counters.timeouts_held,
    })
}

/// The summary of a histogram; unknown if it is not wanted.
fn summary(of: &Histogram, is_wanted: bool) -> Summary {
    if is_wanted { of.summary() } else { Summary::default() }
}

fn is_tcp(flow: &Flow) -> bool {
    !flow.app.is_datagrams()
}
