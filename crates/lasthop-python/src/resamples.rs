//! Resamples of a bootstrap.

use lasthop_sim::metrics::resamples::{self, Pcg64};
use numpy::PyReadwriteArray2;
use pyo3::prelude::*;

/// Draws resamples of `runs` runs, one after the other.
#[pyclass(module = "lasthop._native")]
pub struct Resamples {
    generator: Pcg64,
    runs: u32,
}

#[pymethods]
impl Resamples {
    /// `state` and `increment` are those of a numpy `PCG64` that has not drawn.
    #[new]
    fn new(state: u128, increment: u128, runs: u32) -> Self {
        Self { generator: Pcg64::new(state, increment), runs }
    }

    /// Writes how often each run is drawn in each of the next resamples, one row each.
    fn count(&mut self, py: Python<'_>, mut counts: PyReadwriteArray2<'_, f64>) -> PyResult<()> {
        let (runs, rows) = (self.runs as usize, counts.as_slice_mut()?);
        py.detach(|| resamples::counts(&mut self.generator, runs, rows));
        Ok(())
    }
}
