//! lasthop's Python module `lasthop._native`: thin bindings over the core and the simulator.
//!
//! Results are objects (`Run`); metrics of many runs and event columns are numpy arrays
//! without a copy. The GIL is released during runs.

mod answers;
mod batch;
mod cancel;
mod catalogue;
mod columns;
mod disk;
mod foreign;
mod foreign_agent;
mod foreign_run;
mod foreign_segment;
mod foreign_views;
mod foreign_window;
mod gateway;
mod inspection;
mod link;
mod options;
mod replay;
mod resamples;
mod run;
mod scenario;
mod tcp_probe;

use lasthop::units::AnyQuantity;
use lasthop_sim::metrics::binomial;
use lasthop_sim::metrics::row_text::row_text;
use lasthop_sim::metrics::sums;
use numpy::{PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyString;

pyo3::import_exception!(lasthop.errors, InputError);
pyo3::import_exception!(lasthop.errors, Interrupted);
pyo3::import_exception!(lasthop.errors, CheckFailed);

/// Version of lasthop.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// True for a build of the dev profile, which checks for overflow and its own invariants and is not
/// fully optimised.
#[pyfunction]
fn is_dev_build() -> bool {
    cfg!(debug_assertions)
}

/// The catalogue of schemes.
#[pyfunction]
fn schemes(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    run::to_python(py, &catalogue::json())
}

/// JSON Schema of scenario files.
#[pyfunction]
fn schema(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    run::to_python(py, &lasthop::scenario::schema())
}

/// The numbers of each row as a file has them, separated by commas: exact, whole numbers without a
/// point, unknown ones (NaN) empty.
#[pyfunction]
fn row_texts(py: Python<'_>, values: PyReadonlyArray2<'_, f64>) -> Vec<String> {
    let values = values.as_array();
    let (rows, width) = (values.as_standard_layout(), values.ncols().max(1));
    py.detach(|| rows.as_slice().unwrap_or_default().chunks(width).map(row_text).collect())
}

/// The exactly rounded sums of the columns; NaN of a column with NaN.
#[pyfunction]
fn column_sums<'py>(
    py: Python<'py>,
    values: PyReadonlyArray2<'py, f64>,
) -> Bound<'py, PyArray1<f64>> {
    let values = values.as_array();
    let (rows, width) = (values.as_standard_layout(), values.ncols());
    let found = py.detach(|| sums::column_sums(rows.as_slice().unwrap_or_default(), width));
    PyArray1::from_vec(py, found)
}

/// The probability that a binomially distributed number, of `n` trials with the probability `p`, is
/// at least `least`.
#[pyfunction]
fn binomial_at_least(least: u32, n: u32, p: f64) -> f64 {
    binomial::at_least(least, n, p)
}

/// Parses a quantity such as "170 ms" or "1 GiB": number, unit, base unit of its dimension, value
/// in that base unit. None if the text is not a quantity.
#[pyfunction]
fn quantity(text: &Bound<'_, PyString>) -> Option<(f64, &'static str, &'static str, f64)> {
    // Command-line text that is not valid UTF-8 is not a quantity.
    AnyQuantity::parse(text.to_str().ok()?).map(|q| (q.number, q.unit, q.dimension, q.base))
}

#[pymodule(name = "_native")]
fn native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(version, m)?)?;
    m.add_function(wrap_pyfunction!(is_dev_build, m)?)?;
    m.add_function(wrap_pyfunction!(schemes, m)?)?;
    m.add_function(wrap_pyfunction!(schema, m)?)?;
    m.add_function(wrap_pyfunction!(quantity, m)?)?;
    m.add_function(wrap_pyfunction!(row_texts, m)?)?;
    m.add_function(wrap_pyfunction!(column_sums, m)?)?;
    m.add_function(wrap_pyfunction!(binomial_at_least, m)?)?;
    m.add_function(wrap_pyfunction!(run::metric_texts, m)?)?;
    m.add_function(wrap_pyfunction!(answers::agent_answers, m)?)?;
    m.add_function(wrap_pyfunction!(replay::replay, m)?)?;
    m.add_class::<link::PreparedLink>()?;
    m.add_function(wrap_pyfunction!(link::link, m)?)?;
    m.add_function(wrap_pyfunction!(link::link_abilities, m)?)?;
    m.add_function(wrap_pyfunction!(link::run_in_user_namespace, m)?)?;
    m.add_function(wrap_pyfunction!(gateway::gateway, m)?)?;
    m.add_function(wrap_pyfunction!(gateway::gateway_rules, m)?)?;
    m.add_function(wrap_pyfunction!(gateway::gateway_remove, m)?)?;
    m.add_function(wrap_pyfunction!(gateway::gateway_abilities, m)?)?;
    m.add_class::<resamples::Resamples>()?;
    m.add_class::<scenario::Scenario>()?;
    m.add_class::<tcp_probe::PyTcpProbe>()?;
    m.add_class::<cancel::CancelToken>()?;
    m.add_class::<run::Run>()?;
    m.add_class::<foreign_views::Window>()?;
    m.add_class::<foreign_views::Ack>()?;
    m.add_class::<foreign_window::Loss>()?;
    m.add_class::<foreign_views::Lost>()?;
    m.add_class::<foreign_views::RateSample>()?;
    m.add_class::<foreign_views::Start>()?;
    m.add_class::<foreign_agent::PyContext>()?;
    m.add_class::<foreign_agent::PyVerdict>()?;
    m.add_class::<foreign_agent::Queue>()?;
    m.add_class::<foreign_segment::Segment>()?;
    Ok(())
}
