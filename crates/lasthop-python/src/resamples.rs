//! Resamples of a bootstrap.

use lasthop_sim::metrics::resamples::{self, Pcg64};
use numpy::{PyArray2, PyArrayMethods};
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

    /// How often each run is drawn in each of the next resamples, one row each.
    fn counts<'py>(
        &mut self,
        py: Python<'py>,
        resamples: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let runs = self.runs as usize;
        // From numpy, which asks for huge pages: to map small ones takes as long as the draws.
        let found = PyArray2::zeros(py, [resamples, runs], false);
        let mut view = found.readwrite();
        let rows = view.as_slice_mut()?;
        py.detach(|| resamples::counts(&mut self.generator, runs, rows));
        drop(view);
        Ok(found)
    }
}
