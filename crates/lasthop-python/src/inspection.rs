//! The record of one flow for `lasthop inspect`: events with packet numbers, SACK blocks and the
//! states of its senders, as columns.

use lasthop::link::cell::{MediumUse, UseKind};
use lasthop::scenario::network::Network;
use lasthop::segment::{Flags, Options};
use lasthop::tcp::sender::Limit;
use lasthop::units::Time;
use lasthop_sim::events::{Event, Kind, Observer, SenderState};
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::InputError;
use crate::columns::ConnectionFlows;

/// Kinds of events that are recorded; the code of an event is its index.
const KINDS: [Kind; 15] = [
    Kind::DataSent,
    Kind::AckReceived,
    Kind::DataReceived,
    Kind::DroppedAtQueue,
    Kind::LostOnAir,
    Kind::AttemptFailed,
    Kind::Corrupted,
    Kind::Discarded,
    Kind::AgentInjected,
    Kind::AgentDropped,
    Kind::Timeout,
    Kind::FastRetransmit,
    Kind::Undone,
    Kind::Spurious,
    Kind::Filtered,
];

/// Names of the limits, in the order of their codes; as in the result's `limited_by`.
const LIMITS: [(Limit, &str); Limit::COUNT] = [
    (Limit::Application, "application"),
    (Limit::Handshake, "handshake"),
    (Limit::Cwnd, "cwnd"),
    (Limit::Pacing, "pacing"),
    (Limit::ReceiveWindow, "receive_window"),
    (Limit::SendBuffer, "send_buffer"),
    (Limit::Outage, "outage"),
    (Limit::RelayBuffer, "relay_buffer"),
    (Limit::AgentCache, "agent_cache"),
];

/// Bytes of a row of the columns: of events, of frames at links, of SACK blocks, of states and of
/// transmissions.
const EVENT_BYTES: usize = 48;
const HOP_BYTES: usize = 25;
const SACK_BYTES: usize = 29;
const STATE_BYTES: usize = 86;
const USE_BYTES: usize = 33;

/// An observer that records one flow.
#[derive(Default)]
pub struct Inspection {
    flow: u32,
    /// Most bytes of the columns, their present size, and the time at which it would be exceeded.
    /// Nothing is recorded from then on.
    most_bytes: usize,
    bytes: usize,
    full_at: Option<Time>,
    t_ns: Vec<i64>,
    event: Vec<i8>,
    node: Vec<i16>,
    link: Vec<i32>,
    connection: Vec<i32>,
    forward: Vec<bool>,
    id: Vec<u32>,
    /// `seq` of the segments of the data sender, `ack` of those of the receiver.
    offset: Vec<i64>,
    len: Vec<i32>,
    attempt: Vec<u16>,
    window: Vec<u32>,
    reason: Vec<i16>,
    value: Vec<f32>,
    reason_names: Vec<&'static str>,
    flows: ConnectionFlows,
    hops: HopColumns,
    sack: SackColumns,
    states: StateColumns,
    medium: MediumColumns,
    /// Nodes of the members of each cell.
    cells: Vec<Vec<u16>>,
    /// Packet number and options of the last frame that arrived anywhere: an ACK reaches the sender
    /// at the same instant.
    arrived: Option<(u64, Options)>,
}

/// Frames of data that are offered to a link or arrive at its far end: most events of a run, which
/// need the fewest columns.
#[derive(Default)]
struct HopColumns {
    t_ns: Vec<i64>,
    arrived: Vec<bool>,
    link: Vec<i32>,
    connection: Vec<i32>,
    id: Vec<u32>,
    waiting: Vec<f32>,
}

#[derive(Default)]
struct SackColumns {
    t_ns: Vec<i64>,
    connection: Vec<i32>,
    start: Vec<i64>,
    end: Vec<i64>,
    duplicate: Vec<bool>,
}

#[derive(Default)]
struct StateColumns {
    t_ns: Vec<i64>,
    connection: Vec<i32>,
    second_half: Vec<bool>,
    cwnd: Vec<f64>,
    ssthresh: Vec<f64>,
    flight: Vec<i64>,
    pipe: Vec<i64>,
    receive_window: Vec<i64>,
    rtt_s: Vec<f64>,
    srtt_s: Vec<f64>,
    rto_s: Vec<f64>,
    pacing_bps: Vec<f64>,
    limit: Vec<i8>,
}

/// Transmissions in cells with aggregation, of all stations.
#[derive(Default)]
struct MediumColumns {
    t_ns: Vec<i64>,
    end_ns: Vec<i64>,
    cell: Vec<i16>,
    kind: Vec<i8>,
    sender: Vec<i16>,
    receiver: Vec<i16>,
    mcs: Vec<i8>,
    mpdus: Vec<i16>,
    retries: Vec<i16>,
    acknowledged: Vec<i16>,
    answered: Vec<bool>,
}

impl Inspection {
    /// Records the flow with this index in columns of at most `most_bytes`.
    pub fn new(network: &Network, flow: u32, most_bytes: usize) -> Inspection {
        let nodes = |cell: &lasthop::scenario::network::Cell| {
            cell.stations.iter().map(|s| s.node).collect::<Vec<u16>>()
        };
        let cells = network.cells.iter().map(nodes).collect();
        Inspection { flow, most_bytes, cells, ..Inspection::default() }
    }

    /// # Errors
    ///
    /// `InputError` if the record had no room for all events of the run.
    pub fn check(&self) -> PyResult<()> {
        let Some(at) = self.full_at else { return Ok(()) };
        Err(InputError::new_err(format!(
            "inspect records at most {} MB of events of a run, here those of the first {:.4} s; \
             give --duration {:.0}s or less, or a lower rate",
            self.most_bytes / 1_000_000,
            at.as_secs(),
            at.as_secs().floor()
        )))
    }

    /// True if a row of this size is to be recorded at this time.
    fn has_room(&mut self, t: Time, row: usize) -> bool {
        if self.full_at.is_none() && self.bytes + row > self.most_bytes {
            self.full_at = Some(t);
        }
        self.bytes += row;
        self.full_at.is_none()
    }

    /// The flow of each connection that has sent a segment.
    pub fn take_flows(&mut self) -> ConnectionFlows {
        std::mem::take(&mut self.flows)
    }

    fn reason_code(&mut self, reason: &'static str) -> i16 {
        if reason.is_empty() {
            return -1;
        }
        match self.reason_names.iter().position(|n| *n == reason) {
            Some(i) => i as i16,
            None => {
                self.reason_names.push(reason);
                self.reason_names.len() as i16 - 1
            }
        }
    }

    fn record_hop(&mut self, event: &Event<'_>) {
        let (Some(segment), Some(link)) = (event.segment, event.link) else { return };
        self.hops.t_ns.push(event.t.0 as i64);
        self.hops.arrived.push(event.kind == Kind::Arrived);
        self.hops.link.push(link as i32);
        self.hops.connection.push(segment.flow as i32);
        self.hops.id.push(segment.id as u32);
        self.hops.waiting.push(event.value as f32);
    }

    fn record_sack(&mut self, event: &Event<'_>) {
        let Some(segment) = event.segment.filter(|s| s.flags.has(Flags::SACK)) else { return };
        let Some((_, options)) = self.arrived.filter(|(id, _)| *id == segment.id) else { return };
        self.bytes += options.sack.as_slice().len() * SACK_BYTES;
        for (i, block) in options.sack.as_slice().iter().enumerate() {
            self.sack.t_ns.push(event.t.0 as i64);
            self.sack.connection.push(segment.flow as i32);
            self.sack.start.push(block.start as i64);
            self.sack.end.push(block.end as i64);
            self.sack.duplicate.push(i == 0 && segment.flags.has(Flags::DSACK));
        }
    }

    /// Converts the columns to a dict of numpy arrays, with `hops`, `sack`, `states` and `medium`
    /// as further dicts. -1 means that an event has no such value (`id`: the largest number;
    /// `attempt`, `window`: 0), NaN that a state has none.
    ///
    /// # Errors
    ///
    /// Any exception raised by Python or numpy.
    pub fn into_dict(self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let out = PyDict::new(py);
        macro_rules! columns {
            ($dict:expr, $from:expr, $($name:ident),*) => {
                $($dict.set_item(stringify!($name), $from.$name.into_pyarray(py))?;)*
            };
        }
        columns!(
            out, self, t_ns, event, node, link, connection, forward, id, offset, len, attempt,
            window, reason, value
        );
        let (hops, sack, states) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
        let medium = PyDict::new(py);
        columns!(hops, self.hops, t_ns, arrived, link, connection, id, waiting);
        columns!(sack, self.sack, t_ns, connection, start, end, duplicate);
        columns!(
            states,
            self.states,
            t_ns,
            connection,
            second_half,
            cwnd,
            ssthresh,
            flight,
            pipe,
            receive_window,
            rtt_s,
            srtt_s,
            rto_s,
            pacing_bps,
            limit
        );
        columns!(
            medium,
            self.medium,
            t_ns,
            end_ns,
            cell,
            kind,
            sender,
            receiver,
            mcs,
            mpdus,
            retries,
            acknowledged,
            answered
        );
        out.set_item("medium", medium)?;
        out.set_item("medium_kinds", UseKind::ALL.map(UseKind::name))?;
        out.set_item("hops", hops)?;
        out.set_item("sack", sack)?;
        out.set_item("states", states)?;
        out.set_item("events", KINDS.map(Kind::name))?;
        out.set_item("reasons", self.reason_names)?;
        out.set_item("limits", LIMITS.map(|(_, name)| name))?;
        Ok(out.unbind())
    }
}

impl Observer for Inspection {
    fn on_event(&mut self, event: &Event<'_>) {
        self.flows.note(event);
        // Requests of a client are no segments of the connection.
        let is_datagram = event.segment.is_some_and(|s| s.flags.has(Flags::DATAGRAM));
        if event.flow != self.flow || is_datagram {
            return;
        }
        let segment = event.segment;
        let forward = segment.is_some_and(|s| s.forward);
        if event.kind == Kind::Arrived {
            self.arrived = segment.map(|s| (s.id, *event.options));
        }
        if matches!(event.kind, Kind::Enqueued | Kind::Arrived) {
            // Of ACKs on their way only losses are recorded.
            if forward && self.has_room(event.t, HOP_BYTES) {
                self.record_hop(event);
            }
            return;
        }
        let Some(code) = KINDS.iter().position(|k| *k == event.kind) else { return };
        if !self.has_room(event.t, EVENT_BYTES) {
            return;
        }
        if event.kind == Kind::AckReceived {
            self.record_sack(event);
        }
        self.t_ns.push(event.t.0 as i64);
        self.event.push(code as i8);
        self.node.push(event.node as i16);
        self.link.push(event.link.map_or(-1, |l| l as i32));
        self.connection.push(segment.map_or(-1, |s| s.flow as i32));
        self.forward.push(forward);
        self.id.push(segment.map_or(u32::MAX, |s| s.id as u32));
        self.offset.push(segment.map_or(-1, |s| if forward { s.seq } else { s.ack } as i64));
        self.len.push(segment.map_or(-1, |s| s.len as i32));
        self.attempt.push(segment.map_or(0, |s| s.attempt));
        self.window.push(segment.map_or(0, |s| s.window));
        let reason = self.reason_code(event.reason);
        self.reason.push(reason);
        self.value.push(event.value as f32);
    }

    fn on_medium(&mut self, cell: usize, used: &MediumUse) {
        if !self.has_room(used.start, USE_BYTES) {
            return;
        }
        let (out, members) = (&mut self.medium, &self.cells[cell]);
        let node = |member: usize| members.get(member).map_or(-1, |&node| node as i16);
        out.t_ns.push(used.start.0 as i64);
        out.end_ns.push(used.end.0 as i64);
        out.cell.push(cell as i16);
        out.kind.push(used.kind as i8);
        out.sender.push(node(used.from));
        out.receiver.push(node(used.to));
        out.mcs.push(used.mcs as i8);
        out.mpdus.push(used.mpdus as i16);
        out.retries.push(used.retries as i16);
        out.acknowledged.push(used.acknowledged as i16);
        out.answered.push(used.answered);
    }

    fn on_sender(&mut self, state: &SenderState) {
        if state.flow != self.flow || !self.has_room(state.t, STATE_BYTES) {
            return;
        }
        let out = &mut self.states;
        out.t_ns.push(state.t.0 as i64);
        out.connection.push(state.connection as i32);
        out.second_half.push(state.second_half);
        out.cwnd.push(state.window.cwnd);
        out.ssthresh.push(state.window.ssthresh);
        out.flight.push(state.flight as i64);
        out.pipe.push(state.pipe as i64);
        out.receive_window.push(i64::try_from(state.receive_window).unwrap_or(i64::MAX));
        out.rtt_s.push(state.rtt.map_or(f64::NAN, |d| d.as_secs()));
        out.srtt_s.push(state.srtt.map_or(f64::NAN, |d| d.as_secs()));
        out.rto_s.push(state.rto.as_secs());
        out.pacing_bps.push(state.pacing_rate.map_or(f64::NAN, |r| r.0 as f64));
        let limit = LIMITS.iter().position(|(l, _)| *l == state.limit);
        out.limit.push(limit.map_or(-1, |l| l as i8));
    }
}
