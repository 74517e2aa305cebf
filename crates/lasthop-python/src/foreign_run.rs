//! What the objects in Python share in one run, and what their classes have in common.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lasthop::role::Role;
use lasthop::units::Time;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use serde_json::Value;

use crate::InputError;

/// Most different names (drop reasons, counters) that rules in Python may use in one process.
const MAX_NAMES: usize = 10_000;

/// A number that a rule recorded.
pub struct Sample {
    /// When.
    pub t: Time,
    /// The connection.
    pub connection: u32,
    /// Name of the series.
    pub series: String,
    /// The number.
    pub value: f64,
}

/// What the objects in Python share in one run: the first exception, which ends the run, and the
/// series that they record.
pub struct RunContext {
    error: Mutex<Option<PyErr>>,
    stop: Arc<AtomicBool>,
    /// Series are recorded.
    records: bool,
    samples: Mutex<Vec<Sample>>,
}

impl RunContext {
    /// No exception yet; setting `stop` ends the run.
    pub fn new(stop: Arc<AtomicBool>, records: bool) -> Arc<RunContext> {
        Arc::new(RunContext { error: Mutex::new(None), stop, records, samples: Mutex::default() })
    }

    /// An exception ends the run.
    pub fn fail(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The run is ending: nothing in Python is called any more.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Series are recorded.
    pub fn records(&self) -> bool {
        self.records
    }

    /// Records numbers of one instant.
    pub fn record(&self, t: Time, connection: u32, samples: impl Iterator<Item = (String, f64)>) {
        let mut all = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(samples.map(|(series, value)| Sample { t, connection, series, value }));
    }

    /// Removes and returns the exception, if there was one.
    pub fn take_error(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Removes and returns what was recorded.
    pub fn take_samples(&self) -> Vec<Sample> {
        std::mem::take(&mut self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The bound methods of an object that its class overrides, by the index of their name.
pub struct Hooks<const N: usize>([Option<Py<PyAny>>; N]);

impl<const N: usize> Hooks<N> {
    /// The methods of `object` with these names, of those in `overridden`.
    ///
    /// # Errors
    ///
    /// Any exception raised by the object.
    pub fn new(
        object: &Bound<'_, PyAny>,
        names: &[&str; N],
        overridden: &BTreeSet<String>,
    ) -> PyResult<Hooks<N>> {
        let mut found = [const { None }; N];
        for (slot, name) in found.iter_mut().zip(names).filter(|(_, n)| overridden.contains(**n)) {
            *slot = Some(object.getattr(*name)?.unbind());
        }
        Ok(Hooks(found))
    }

    /// The method with this index.
    pub fn get(&self, hook: usize) -> Option<&Py<PyAny>> {
        self.0.get(hook).and_then(Option::as_ref)
    }
}

/// The words of a class attribute, a tuple of texts.
///
/// # Errors
///
/// `InputError` if it is no tuple of texts.
pub fn words(class: &Bound<'_, PyType>, attribute: &str) -> PyResult<Vec<String>> {
    let value = class.getattr(attribute)?;
    value.cast::<PyTuple>().ok().and_then(|t| t.extract().ok()).ok_or_else(|| {
        let class = class.name().map_or_else(|_| "the class".into(), |n| n.to_string());
        InputError::new_err(format!(
            "{class}.{attribute} must be a tuple of texts such as (\"…\",), found {value:?}"
        ))
    })
}

/// The error for a word that is not one of `allowed`.
pub fn unknown_word(
    class: &Bound<'_, PyType>,
    attribute: &str,
    word: &str,
    allowed: &str,
) -> PyErr {
    let class = class.name().map_or_else(|_| "the class".into(), |n| n.to_string());
    InputError::new_err(format!("{class}.{attribute}: unknown `{word}`; allowed: {allowed}"))
}

/// A role by its name in scenario files.
pub fn role(name: &str) -> Option<Role> {
    serde_json::from_value(Value::String(name.into())).ok()
}

/// A text that lives as long as the process, as the core's names do.
///
/// # Errors
///
/// `ValueError` for too many different texts.
pub fn static_name(text: &str) -> PyResult<&'static str> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(text) {
        return Ok(name);
    }
    if names.len() >= MAX_NAMES {
        return Err(PyValueError::new_err(format!(
            "more than {MAX_NAMES} different names of drop reasons and counters"
        )));
    }
    let name: &'static str = Box::leak(text.to_string().into_boxed_str());
    names.insert(name);
    Ok(name)
}
