//! Python binding for the kernel's tracepoint tcp_probe.

use lasthop_live::tcp_probe::{Sample, TcpProbe};
use pyo3::prelude::*;

/// Samples of senders to a remote port: cwnd at each segment that they receive.
#[pyclass(name = "TcpProbe", module = "lasthop._native")]
pub struct PyTcpProbe {
    probe: TcpProbe,
}

#[pymethods]
impl PyTcpProbe {
    /// Begins to record. OSError if that is not allowed.
    #[new]
    fn new(port: u16) -> PyResult<PyTcpProbe> {
        Ok(PyTcpProbe { probe: TcpProbe::new(port)? })
    }

    /// What has been recorded since the last call: time (ns), cookie of the connection, first
    /// sequence number not acknowledged, cwnd (segments).
    fn read(&mut self) -> Vec<(u64, u64, u32, u32)> {
        let row = |s: Sample| (s.time_ns, s.cookie, s.snd_una, s.cwnd);
        self.probe.read().into_iter().map(row).collect()
    }

    /// Records that were dropped because they were not read in time.
    #[getter]
    fn lost(&self) -> u64 {
        self.probe.lost()
    }
}
