//! Events as columns, passed to numpy without a copy.

use lasthop::segment::Flags;
use lasthop_sim::events::{Event, Kind, Observer};
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::foreign_run::Sample;

/// All kinds of events, in the order of their codes.
pub const KINDS: [Kind; 31] = [
    Kind::DataSent,
    Kind::AckReceived,
    Kind::DataReceived,
    Kind::AckSent,
    Kind::Delivered,
    Kind::Enqueued,
    Kind::DroppedAtQueue,
    Kind::Marked,
    Kind::Dequeued,
    Kind::LostOnAir,
    Kind::AttemptFailed,
    Kind::Arrived,
    Kind::AgentIn,
    Kind::AgentForwarded,
    Kind::AgentInjected,
    Kind::AgentDropped,
    Kind::NoticeSent,
    Kind::NoticeReceived,
    Kind::Cwnd,
    Kind::Ssthresh,
    Kind::Timeout,
    Kind::FastRetransmit,
    Kind::Undone,
    Kind::Spurious,
    Kind::GaveUp,
    Kind::RequestSent,
    Kind::RequestReceived,
    Kind::Corrupted,
    Kind::Duplicated,
    Kind::Discarded,
    Kind::Filtered,
];

/// The flow of each connection, by its index.
#[derive(Default)]
pub struct ConnectionFlows(Vec<u32>);

impl ConnectionFlows {
    /// Takes down the flow of an event with a segment.
    pub fn note(&mut self, event: &Event<'_>) {
        let Some(segment) = event.segment else { return };
        // A datagram has the index of its flow.
        if segment.flags.has(Flags::DATAGRAM) {
            return;
        }
        let connection = segment.flow as usize;
        if connection >= self.0.len() {
            self.0.resize(connection + 1, u32::MAX);
        }
        self.0[connection] = event.flow;
    }

    /// The index of the flow of a connection; `None` if it has sent nothing.
    pub fn of(&self, connection: u32) -> Option<u32> {
        self.0.get(connection as usize).copied().filter(|flow| *flow != u32::MAX)
    }
}

/// An observer that records events of selected kinds.
pub struct Columns {
    /// The recorded kinds; the code of an event is its index in this list.
    kinds: Vec<Kind>,
    t_ns: Vec<i64>,
    event: Vec<i64>,
    flow: Vec<i64>,
    seq: Vec<i64>,
    len: Vec<i64>,
    ack: Vec<i64>,
    value: Vec<f64>,
    link: Vec<i64>,
    flows: ConnectionFlows,
    /// Further columns, for the full event table only.
    table: Option<TableColumns>,
}

#[derive(Default)]
struct TableColumns {
    node: Vec<i64>,
    attempt: Vec<i64>,
    reason: Vec<i64>,
    reason_names: Vec<&'static str>,
}

impl Columns {
    /// Records events of `kinds`; `table` adds the columns of the full event table.
    pub fn new(kinds: Vec<Kind>, table: bool) -> Columns {
        Columns {
            kinds,
            t_ns: vec![],
            event: vec![],
            flow: vec![],
            seq: vec![],
            len: vec![],
            ack: vec![],
            value: vec![],
            link: vec![],
            flows: ConnectionFlows::default(),
            table: table.then(TableColumns::default),
        }
    }

    /// The flow of each connection that has sent a segment.
    pub fn take_flows(&mut self) -> ConnectionFlows {
        std::mem::take(&mut self.flows)
    }

    /// Converts the columns to a dict of numpy arrays. -1 means that the event has no such value.
    ///
    /// # Errors
    ///
    /// Any exception raised by Python or numpy.
    pub fn into_dict(self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let out = PyDict::new(py);
        let numbers = [
            ("t_ns", self.t_ns),
            ("event", self.event),
            ("flow", self.flow),
            ("seq", self.seq),
            ("len", self.len),
            ("ack", self.ack),
        ];
        for (name, column) in numbers.into_iter().chain([("link", self.link)]) {
            out.set_item(name, column.into_pyarray(py))?;
        }
        out.set_item("value", self.value.into_pyarray(py))?;
        if let Some(table) = self.table {
            for (name, column) in
                [("node", table.node), ("attempt", table.attempt), ("cause", table.reason)]
            {
                out.set_item(name, column.into_pyarray(py))?;
            }
            out.set_item("causes", table.reason_names)?;
        }
        out.set_item("events", self.kinds.iter().map(|k| k.name()).collect::<Vec<_>>())?;
        Ok(out.unbind())
    }
}

impl Observer for Columns {
    fn on_event(&mut self, event: &Event<'_>) {
        self.flows.note(event);
        let Some(code) = self.kinds.iter().position(|k| *k == event.kind) else { return };
        self.t_ns.push(event.t.0 as i64);
        self.event.push(code as i64);
        self.flow.push(i64::from(event.flow));
        let s = event.segment;
        self.seq.push(s.map_or(-1, |s| s.seq as i64));
        self.len.push(s.map_or(-1, |s| i64::from(s.len)));
        self.ack.push(s.map_or(-1, |s| s.ack as i64));
        self.value.push(event.value);
        self.link.push(event.link.map_or(-1, i64::from));
        if let Some(table) = &mut self.table {
            table.node.push(i64::from(event.node));
            table.attempt.push(s.map_or(-1, |s| i64::from(s.attempt)));
            let known = table.reason_names.iter().position(|c| *c == event.reason);
            let reason = match (event.reason, known) {
                ("", _) => -1,
                (_, Some(i)) => i as i64,
                (reason, None) => {
                    table.reason_names.push(reason);
                    table.reason_names.len() as i64 - 1
                }
            };
            table.reason.push(reason);
        }
    }
}

/// The series that schemes in Python recorded, as columns in order of time; `flow` is the index of
/// the flow, -1 for a connection that has sent nothing.
pub fn series_columns<'py>(
    py: Python<'py>,
    samples: Vec<Sample>,
    flows: &ConnectionFlows,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let mut names: Vec<String> = Vec::new();
    let (mut t, mut flow, mut series, mut value) = (vec![], vec![], vec![], vec![]);
    for sample in samples {
        let code = names.iter().position(|n| *n == sample.series).unwrap_or_else(|| {
            names.push(sample.series);
            names.len() - 1
        });
        t.push(sample.t.0 as i64);
        flow.push(flows.of(sample.connection).map_or(-1, i64::from));
        series.push(code as i64);
        value.push(sample.value);
    }
    out.set_item("t_ns", t.into_pyarray(py))?;
    out.set_item("flow", flow.into_pyarray(py))?;
    out.set_item("series", series.into_pyarray(py))?;
    out.set_item("value", value.into_pyarray(py))?;
    out.set_item("names", names)?;
    Ok(out)
}
