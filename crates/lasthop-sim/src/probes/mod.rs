//! What watches a run: measurements, the verifier, captures.
//!
//! [`Probes`] subscribes to the stream of a run ([`Probe`]). Each measurement is an object with
//! private state; the observer of the run receives what it reads as
//! [events](crate::events::Event).

pub mod bursts;
pub mod calls;
pub mod capture;
pub mod datagrams;
mod dispatch;
pub mod flow_stats;
pub mod frames;
pub mod gaps;
pub mod ground_truth;
pub mod ledger;
pub mod limits;
pub mod requests;
pub mod result;
pub mod verifier;
pub mod write_times;

use lasthop::segment::{Flags, NodeId, Options, Segment};
use lasthop::tcp::sender::SendReason;
use lasthop::units::{Duration, Time};

use crate::events::probe::{Probe, Seen, reason_name};
use crate::events::{Kind, Observer};
use bursts::Burst;
use datagrams::{DatagramRecord, Datagrams};
use flow_stats::FlowStats;
pub(crate) use flow_stats::UserStats;
use gaps::DeliveryGap;
use ground_truth::{GroundTruth, GroundTruthCounts, ack_of, copy_of, end_of};
use ledger::{Traffic, TrafficLedger};
use limits::{FlowLimits, LimitShares};
use write_times::WriteTimes;

/// All measurements of a run, and its observer.
pub struct Probes<R> {
    reader: R,
    ledger: TrafficLedger,
    connections: Vec<ConnectionProbes>,
    flows: Vec<FlowProbes>,
    gaps: Vec<DeliveryGap>,
    datagrams: Datagrams,
    measure_from: Time,
    end: Time,
}

/// What is measured of a connection.
struct ConnectionProbes {
    flow: u32,
    /// The write time of a byte is the time of its first transmission (endless flows).
    written_when_sent: bool,
    burst: Burst,
    ground_truth: GroundTruth,
    /// Counts when measuring began; `None` if the whole run is measured.
    before: Option<Box<GroundTruthCounts>>,
}

/// What is measured of a flow.
struct FlowProbes {
    stats: FlowStats,
    write_times: WriteTimes,
    limits: FlowLimits,
    user: UserStats,
}

impl<R> Probes<R> {
    /// Nothing measured yet, in a run until `end` that is measured from `measure_from` on.
    pub(crate) fn new(reader: R, measure_from: Time, end: Time) -> Self {
        Probes {
            reader,
            ledger: TrafficLedger::new(measure_from, end),
            connections: Vec::new(),
            flows: Vec::new(),
            gaps: Vec::new(),
            datagrams: Datagrams::default(),
            measure_from,
            end,
        }
    }

    /// Takes the memory of measurements that are no longer used. Nothing is measured here yet.
    pub(crate) fn reuse_memory(&mut self, old: &mut Self) {
        for (flow, old) in self.flows.iter_mut().zip(&mut old.flows) {
            flow.stats.rtt.reuse_memory(&mut old.stats.rtt);
            flow.stats.delay.reuse_memory(&mut old.stats.delay);
            flow.write_times.reuse_memory(&mut old.write_times);
        }
    }

    /// Adds the next flow.
    pub(crate) fn add_flow(&mut self, limits: FlowLimits, user: UserStats) {
        let (stats, write_times) = (FlowStats::default(), WriteTimes::default());
        self.flows.push(FlowProbes { stats, write_times, limits, user });
    }

    /// Adds the next connection, which belongs to `flow`. `written_when_sent`: the write time of a
    /// byte is the time of its first transmission.
    pub(crate) fn add_connection(&mut self, flow: u32, written_when_sent: bool) {
        self.connections.push(ConnectionProbes {
            flow,
            written_when_sent,
            burst: Burst::default(),
            ground_truth: GroundTruth::default(),
            before: None,
        });
    }

    /// The start of a flow is put off to `at`, before the run.
    pub(crate) fn defer(&mut self, flow: usize, at: Time) {
        self.flows[flow].limits.start(at);
    }

    /// Measures the bursts of a connection.
    pub(crate) fn add_burst(&mut self, connection: u32, burst: Burst) {
        self.connections[connection as usize].burst = burst;
    }

    /// Measures the gap in delivery of the next handover.
    pub(crate) fn add_gap(&mut self, gap: DeliveryGap) {
        self.gaps.push(gap);
    }

    /// Adds the next end of an external stack.
    pub(crate) fn add_external_end(&mut self) {
        self.datagrams.add_end();
    }

    /// The datagrams sent to each end of the external stacks so far.
    pub(crate) fn take_datagrams(&mut self) -> Vec<Vec<DatagramRecord>> {
        std::mem::take(&mut self.datagrams).into_records()
    }

    /// Measuring begins; `stored` bytes are in the pool of segments.
    pub(crate) fn begin(&mut self, stored: u64) {
        self.ledger.begin(stored);
        for c in &mut self.connections {
            c.burst.begin();
            c.before = Some(Box::new(c.ground_truth.begin(self.measure_from)));
        }
    }

    /// Accounting of traffic in the measured time; `stored` bytes are in the pool at the end.
    pub(crate) fn traffic(&self, stored: u64) -> Traffic {
        self.ledger.close(stored)
    }

    /// What was counted of a flow.
    pub(crate) fn stats(&self, flow: usize) -> &FlowStats {
        &self.flows[flow].stats
    }

    /// What was measured of the user of a flow.
    pub(crate) fn user(&self, flow: usize) -> &UserStats {
        &self.flows[flow].user
    }

    /// The shares of what limited a flow; of its relay's sender if `relay`.
    pub(crate) fn limits(&self, flow: usize, relay: bool) -> Option<LimitShares> {
        let limits = &self.flows[flow].limits;
        if relay { limits.relay_shares() } else { limits.shares() }
    }

    /// The ground truth about a connection in the measured time.
    pub(crate) fn ground_truth(&self, connection: usize) -> GroundTruthCounts {
        let c = &self.connections[connection];
        c.ground_truth.counts(self.end).since(c.before.as_deref().copied().unwrap_or_default())
    }

    /// The largest burst of a connection, in segments.
    pub(crate) fn burst(&self, connection: u32) -> Option<u64> {
        self.connections[connection as usize].burst.segments()
    }

    /// The gap in delivery around a handover.
    pub(crate) fn gap(&self, handover: usize) -> Duration {
        self.gaps[handover].longest()
    }

    /// The ground truth takes note of a copy of a segment that its sender did not send.
    fn count_copy(&mut self, now: Time, segment: &Segment) {
        if segment.forward && segment.has_sequence_numbers() {
            let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
            ground_truth.copied(now, copy_of(segment).0);
        }
    }

    /// Index of the flow of a segment.
    fn flow_of(&self, segment: &Segment) -> u32 {
        if segment.flags.has(Flags::DATAGRAM) {
            segment.flow
        } else {
            self.connections[segment.flow as usize].flow
        }
    }
}

#[allow(clippy::multiple_inherent_impl, reason = "without and with an observer")]
impl<R: Observer> Probes<R> {
    /// What measures the run, for people.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = vec!["ground truth", "traffic ledger", "bursts", "write times"];
        names.extend(["flow statistics", "limits"]);
        let has = |of: fn(&UserStats) -> bool| self.flows.iter().any(|f| of(&f.user));
        names.extend(has(|user| user.call.is_some()).then_some("calls"));
        names.extend(has(|user| user.requests.is_some()).then_some("requests"));
        names.extend((!self.gaps.is_empty()).then_some("delivery gaps"));
        names.extend(R::ACTIVE.then_some("observer"));
        names
    }

    /// Passes an event of a segment at a node to the observer.
    #[inline]
    fn read(
        &mut self,
        t: Time,
        kind: Kind,
        node: NodeId,
        segment: &Segment,
        reason: &'static str,
        value: f64,
    ) {
        if R::ACTIVE {
            let (link, options) = (None, &Options::NONE);
            self.seen(&Seen { t, kind, node, link, segment, options, reason, value });
        }
    }

    /// The events of a segment sent by the data sender.
    #[inline]
    fn read_sent(&mut self, now: Time, node: NodeId, segment: &Segment, reason: SendReason) {
        let data = segment.len > 0 || segment.flags.any(Flags::SYN.with(Flags::FIN));
        let kind = if data { Kind::DataSent } else { Kind::AckSent };
        self.read(now, kind, node, segment, reason_name(reason), 0.0);
    }
}

/// Below the packet number of every retransmission.
const FIRST_COPY: u64 = 0;
