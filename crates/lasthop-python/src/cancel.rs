//! Cancelling runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;

/// Cancels runs from another thread.
#[pyclass(module = "lasthop._native", frozen)]
#[derive(Default)]
pub struct CancelToken {
    state: Mutex<Cancelled>,
}

#[derive(Default)]
struct Cancelled {
    cancelled: bool,
    runs: Vec<Weak<AtomicBool>>,
}

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Requests that every run with this token ends soon, including runs that start later.
    fn cancel(&self) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.cancelled = true;
        for flag in state.runs.drain(..).filter_map(|w| w.upgrade()) {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

impl CancelToken {
    /// The flag of a run that begins now; it is set when the run is to end.
    pub fn flag(&self) -> Arc<AtomicBool> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let flag = Arc::new(AtomicBool::new(state.cancelled));
        state.runs.retain(|w| w.strong_count() > 0);
        state.runs.push(Arc::downgrade(&flag));
        flag
    }
}
