//! Resamples of a bootstrap: the draws of numpy's `Generator(PCG64(…)).integers(0, runs, …)`, which
//! are counted as they are drawn.

use numpy::{PyArray2, PyArrayMethods};
use pyo3::prelude::*;

/// PCG64 (XSL RR 128/64; O'Neill 2014), from whose 64 bits numpy takes two draws, the lower half
/// first.
struct Pcg64 {
    state: u128,
    increment: u128,
    upper: Option<u32>,
}

impl Pcg64 {
    const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

    #[inline]
    fn next(&mut self) -> u32 {
        if let Some(upper) = self.upper.take() {
            return upper;
        }
        self.state = self.state.wrapping_mul(Self::MULTIPLIER).wrapping_add(self.increment);
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        let found = folded.rotate_right((self.state >> 122) as u32);
        self.upper = Some((found >> 32) as u32);
        found as u32
    }

    /// A whole number below `end`, all equally likely (Lemire 2019).
    #[inline]
    fn below(&mut self, end: u32) -> usize {
        let mut product = u64::from(self.next()) * u64::from(end);
        if (product as u32) < end {
            let least = end.wrapping_neg() % end;
            while (product as u32) < least {
                product = u64::from(self.next()) * u64::from(end);
            }
        }
        (product >> 32) as usize
    }
}

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
        Self { generator: Pcg64 { state, increment, upper: None }, runs }
    }

    /// How often each run is drawn in each of the next `resamples` resamples, one row each.
    fn counts<'py>(&mut self, py: Python<'py>, resamples: usize) -> Bound<'py, PyArray2<f64>> {
        let found = PyArray2::zeros(py, [resamples, self.runs as usize], false);
        let mut writable = found.readwrite();
        let mut counts = writable.as_array_mut();
        py.detach(|| {
            for mut row in counts.rows_mut() {
                let row = row.as_slice_mut().expect("a new array is contiguous");
                for _ in 0..self.runs {
                    // Of one run, numpy draws nothing.
                    let drawn = if self.runs == 1 { 0 } else { self.generator.below(self.runs) };
                    row[drawn] += 1.0;
                }
            }
        });
        drop(writable);
        found
    }
}
