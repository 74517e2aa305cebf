//! The record of one flow for `lasthop inspect`: events with packet numbers, SACK blocks and the
//! states of its senders, as columns.

use lasthop::segment::{Flags, Options};
use lasthop::tcp::sender::Limit;
use lasthop_sim::events::{Event, Kind, Observer, SenderState};
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::ConnectionFlows;

/// Kinds of events that are recorded; the code of an event is its index.
const KINDS: [Kind; 21] = [
    Kind::DataSent,
    Kind::AckReceived,
    Kind::DataReceived,
    Kind::AckSent,
    Kind::Delivered,
    Kind::Enqueued,
    Kind::DroppedAtQueue,
    Kind::Marked,
    Kind::LostOnAir,
    Kind::AttemptFailed,
    Kind::Arrived,
    Kind::Corrupted,
    Kind::AgentInjected,
    Kind::AgentDropped,
    Kind::NoticeReceived,
    Kind::Timeout,
    Kind::FastRetransmit,
    Kind::Undone,
    Kind::Spurious,
    Kind::GaveUp,
    Kind::AgentIn,
];

/// Names of the limits, in the order of their codes; as in the result's `limited_by`.
const LIMITS: [(Limit, &str); Limit::COUNT] = [
    (Limit::Application, "application"),
    (Limit::Handshake, "handshake"),
    (Limit::Cwnd, "cwnd"),
    (Limit::Pacing, "pacing"),
    (Limit::ReceiveWindow, "receive_window"),
    (Limit::Outage, "outage"),
    (Limit::RelayBuffer, "relay_buffer"),
    (Limit::AgentCache, "agent_cache"),
];

/// An observer that records one flow.
#[derive(Default)]
pub struct Inspection {
    flow: u32,
    t_ns: Vec<i64>,
    event: Vec<i8>,
    node: Vec<i16>,
    link: Vec<i32>,
    connection: Vec<i32>,
    forward: Vec<bool>,
    id: Vec<i64>,
    seq: Vec<i64>,
    len: Vec<i32>,
    ack: Vec<i64>,
    attempt: Vec<i32>,
    window: Vec<i64>,
    reason: Vec<i16>,
    value: Vec<f32>,
    reason_names: Vec<&'static str>,
    flows: ConnectionFlows,
    sack: SackColumns,
    states: StateColumns,
    /// Packet number and options of the last frame that arrived anywhere: an ACK reaches the sender
    /// at the same instant.
    arrived: Option<(u64, Options)>,
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

impl Inspection {
    /// Records the flow with this index.
    pub fn new(flow: u32) -> Inspection {
        Inspection { flow, ..Inspection::default() }
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

    fn record_sack(&mut self, event: &Event<'_>) {
        let Some(segment) = event.segment.filter(|s| s.flags.has(Flags::SACK)) else { return };
        let Some((_, options)) = self.arrived.filter(|(id, _)| *id == segment.id) else { return };
        for (i, block) in options.sack.as_slice().iter().enumerate() {
            self.sack.t_ns.push(event.t.0 as i64);
            self.sack.connection.push(segment.flow as i32);
            self.sack.start.push(block.start as i64);
            self.sack.end.push(block.end as i64);
            self.sack.duplicate.push(i == 0 && segment.flags.has(Flags::DSACK));
        }
    }

    /// Converts the columns to a dict of numpy arrays, with `sack` and `states` as further dicts.
    /// -1 means that an event has no such value, NaN that a state has none.
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
            out, self, t_ns, event, node, link, connection, forward, id, seq, len, ack, attempt,
            window, reason, value
        );
        let (sack, states) = (PyDict::new(py), PyDict::new(py));
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
        // Of ACKs on their way only losses are recorded.
        if matches!(event.kind, Kind::Enqueued | Kind::Arrived) && !forward {
            return;
        }
        let Some(code) = KINDS.iter().position(|k| *k == event.kind) else { return };
        if event.kind == Kind::AckReceived {
            self.record_sack(event);
        }
        self.t_ns.push(event.t.0 as i64);
        self.event.push(code as i8);
        self.node.push(event.node as i16);
        self.link.push(event.link.map_or(-1, |l| l as i32));
        self.connection.push(segment.map_or(-1, |s| s.flow as i32));
        self.forward.push(forward);
        self.id.push(segment.map_or(-1, |s| s.id as i64));
        self.seq.push(segment.map_or(-1, |s| s.seq as i64));
        self.len.push(segment.map_or(-1, |s| s.len as i32));
        self.ack.push(segment.map_or(-1, |s| s.ack as i64));
        self.attempt.push(segment.map_or(-1, |s| i32::from(s.attempt)));
        self.window.push(segment.map_or(-1, |s| i64::from(s.window)));
        let reason = self.reason_code(event.reason);
        self.reason.push(reason);
        self.value.push(event.value as f32);
    }

    fn on_sender(&mut self, state: &SenderState) {
        if state.flow != self.flow {
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
