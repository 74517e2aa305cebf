//! The result of a run as an object: its document, its metrics.

use std::sync::Arc;

use lasthop_sim::RunResult;
use lasthop_sim::metrics::flows::Column;
use lasthop_sim::metrics::{self, Metrics};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;

use crate::InputError;

/// The result of a run.
#[pyclass(module = "lasthop._native", frozen)]
pub struct Run(pub Arc<RunResult>);

#[pymethods]
impl Run {
    /// Reads the result from its JSON, as `json` writes it; unknown keys are ignored.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Run> {
        serde_json::from_str(text)
            .map(|run| Run(Arc::new(run)))
            .map_err(|e| InputError::new_err(e.to_string()))
    }

    /// The result as JSON, on one line.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&*self.0).map_err(|e| InputError::new_err(e.to_string()))
    }

    /// The result as the object that `lasthop run --json` prints.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &*self.0)
    }

    /// The metrics with these names; `None` if unknown. `alone` is the run without the candidates
    /// and with the same seed; without it, harm is unknown.
    #[pyo3(signature = (names, alone=None))]
    fn metrics(&self, names: Vec<String>, alone: Option<&Run>) -> Vec<Option<f64>> {
        let metrics = Metrics::new(&names);
        let values = metrics.values(&self.0, alone.map(|run| &*run.0));
        values.map(|v| (!v.is_nan()).then_some(v)).collect()
    }

    /// Names of the groups and roles of the flows, as metrics begin: "groups.NAME", "roles.ROLE".
    #[getter]
    fn parts(&self) -> Vec<String> {
        metrics::flows::Members::names(&self.0)
    }

    /// Index of the radio link in the direction of the data of the first flow, among the links of
    /// the result; `None` without a radio link.
    #[getter]
    fn data_radio(&self) -> Option<usize> {
        metrics::run::data_radio(&self.0)
    }
}

/// Name of a metric, the label of an axis, the factor from the unit of the name to that of the
/// label, the meaning, and whether it is at most 1.
type ColumnTexts = (&'static str, &'static str, f64, &'static str, bool);

/// The texts of the metrics of a run and of those of a group of flows; names of the kinds of harm
/// and what is harmed.
#[pyfunction]
pub fn metric_texts() -> (Vec<ColumnTexts>, Vec<ColumnTexts>, Vec<(&'static str, &'static str)>) {
    let of = |table: &'static [Column]| {
        table.iter().map(|c| (c.name, c.label, c.factor, c.about, c.is_share)).collect()
    };
    let harm = metrics::flows::HARM.iter().map(|h| (h.name, h.of)).collect();
    (of(metrics::run::METRICS), of(metrics::flows::METRICS), harm)
}

/// Converts what has a JSON form to the Python objects that `json.loads` would make of it.
///
/// # Errors
///
/// `InputError` if it has no JSON form.
pub fn to_python<'py>(
    py: Python<'py>,
    value: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let value = serde_json::to_value(value).map_err(|e| InputError::new_err(e.to_string()))?;
    of_value(py, &value)
}

fn of_value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => n.into_pyobject(py)?.into_any(),
            (_, Some(n)) => n.into_pyobject(py)?.into_any(),
            _ => n.as_f64().into_pyobject(py)?,
        },
        Value::String(s) => s.into_pyobject(py)?.into_any(),
        Value::Array(list) => {
            let items = list.iter().map(|v| of_value(py, v)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Object(table) => {
            let dict = PyDict::new(py);
            for (key, v) in table {
                dict.set_item(key, of_value(py, v)?)?;
            }
            dict.into_any()
        }
    })
}
