//! The segment that an agent in Python gets.

use lasthop::segment::{self, Direction, Flags, Options, SackBlocks};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A TCP segment at the node of an agent. Sequence numbers are offsets in the stream.
#[pyclass(module = "lasthop._native", frozen)]
pub struct Segment {
    /// The segment.
    pub segment: segment::Segment,
    /// Its direction, relative to the mobile station.
    pub direction: Direction,
    /// Its SACK blocks, if it has any: without them, which is usual, the object is small.
    sack: Option<Box<SackBlocks>>,
}

impl Segment {
    /// A segment with its options, for an agent.
    pub fn new(segment: &segment::Segment, direction: Direction, options: &Options) -> Segment {
        let sack = segment.flags.has(Flags::SACK).then(|| Box::new(options.sack));
        Segment { segment: *segment, direction, sack }
    }
}

#[pymethods]
impl Segment {
    /// "downlink" (towards the mobile station) or "uplink".
    #[getter]
    fn direction<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match self.direction {
            Direction::Downlink => intern!(py, "downlink").clone(),
            Direction::Uplink => intern!(py, "uplink").clone(),
        }
    }
    /// True from the data sender to the receiver; false for ACKs.
    #[getter]
    fn forward(&self) -> bool {
        self.segment.forward
    }
    /// Number of the connection.
    #[getter]
    fn flow(&self) -> u32 {
        self.segment.flow
    }
    /// Offset of the first byte of payload.
    #[getter]
    fn seq(&self) -> u64 {
        self.segment.seq
    }
    /// Offset after the last byte of payload; a FIN counts as one byte.
    #[getter]
    fn end(&self) -> u64 {
        self.segment.end()
    }
    /// Next offset that the receiver expects.
    #[getter]
    fn ack(&self) -> u64 {
        self.segment.ack
    }
    /// Length of the payload, bytes.
    #[getter]
    fn len(&self) -> u32 {
        self.segment.len
    }
    /// Length with IP and TCP headers, bytes.
    #[getter]
    fn size(&self) -> u32 {
        self.segment.size
    }
    /// Receive window, bytes.
    #[getter]
    fn window(&self) -> u32 {
        self.segment.window
    }
    /// Number of transmissions of these bytes, this one included.
    #[getter]
    fn attempt(&self) -> u16 {
        self.segment.attempt
    }
    /// Number of the packet; each copy has another one.
    #[getter]
    fn id(&self) -> u64 {
        self.segment.id
    }
    /// Names of the TCP flags: "SYN", "ACK", "FIN", "RST", "ECE", "CWR", "AE", "ELN".
    #[getter]
    fn flags<'py>(&self, py: Python<'py>) -> Vec<&Bound<'py, PyString>> {
        let names = [
            (intern!(py, "SYN"), Flags::SYN),
            (intern!(py, "ACK"), Flags::ACK),
            (intern!(py, "FIN"), Flags::FIN),
            (intern!(py, "RST"), Flags::RST),
            (intern!(py, "ECE"), Flags::ECE),
            (intern!(py, "CWR"), Flags::CWR),
            (intern!(py, "AE"), Flags::AE),
            (intern!(py, "ELN"), Flags::ELN),
        ];
        names.into_iter().filter(|(_, f)| self.segment.flags.has(*f)).map(|(n, _)| n).collect()
    }
    /// True for an ACK without data, SYN, FIN or RST.
    #[getter]
    fn is_pure_ack(&self) -> bool {
        let control = Flags::SYN.with(Flags::FIN).with(Flags::RST);
        let flags = self.segment.flags;
        self.segment.len == 0 && flags.has(Flags::ACK) && !flags.any(control)
    }
    /// SACK blocks as pairs of offsets (start, end), the newest first; the first one may report a
    /// duplicate.
    #[getter]
    fn sack(&self) -> Vec<(u64, u64)> {
        let blocks = self.sack.as_ref().map_or(&[][..], |sack| sack.as_slice());
        blocks.iter().map(|b| (b.start, b.end)).collect()
    }
    /// True if an ACK that repeats the ACK number is a duplicate ACK: no data, no FIN, and the same
    /// window (`same_window`) or SACK blocks (RFC 5681, section 2; RFC 6675, section 2).
    fn is_duplicate_ack(&self, same_window: bool) -> bool {
        self.segment.is_duplicate_ack(same_window)
    }
    /// A copy with another ACK number or receive window, to be forwarded or injected.
    #[pyo3(signature = (ack=None, window=None))]
    fn copy(&self, ack: Option<u64>, window: Option<u32>) -> Segment {
        let mut segment = self.segment;
        segment.ack = ack.unwrap_or(segment.ack);
        segment.window = window.unwrap_or(segment.window);
        Segment { segment, direction: self.direction, sack: self.sack.clone() }
    }

    fn __repr__(&self) -> String {
        let segment::Segment { seq, ack, len, flow, .. } = self.segment;
        let direction = direction_name(self.direction);
        format!("<Segment {direction} flow {flow}: seq {seq}, {len} bytes, ack {ack}>")
    }
}

/// The name of a direction.
pub fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Downlink => "downlink",
        Direction::Uplink => "uplink",
    }
}

/// The direction with this name.
///
/// # Errors
///
/// `ValueError` for another name.
pub fn direction(name: &str) -> PyResult<Direction> {
    match name {
        "downlink" => Ok(Direction::Downlink),
        "uplink" => Ok(Direction::Uplink),
        other => Err(PyValueError::new_err(format!(
            "a direction is \"downlink\" or \"uplink\", found \"{other}\""
        ))),
    }
}
