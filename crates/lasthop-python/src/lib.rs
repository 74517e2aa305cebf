//! lasthop's Python module `lasthop._native`: thin bindings over the core and the simulator.
//!
//! Results are passed as JSON text, event columns as numpy arrays without a copy. The GIL is
//! released during runs.

mod answers;
mod catalogue;
mod columns;
mod foreign;
mod foreign_agent;
mod foreign_run;
mod foreign_segment;
mod foreign_window;
mod inspection;
mod link;
mod options;
mod replay;
mod scenario;

use lasthop::units::AnyQuantity;
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

/// The catalogue of schemes, as JSON.
#[pyfunction]
fn schemes() -> String {
    catalogue::json().to_string()
}

/// JSON Schema of scenario files.
#[pyfunction]
fn schema() -> String {
    lasthop::scenario::schema().to_string()
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
    m.add_function(wrap_pyfunction!(schemes, m)?)?;
    m.add_function(wrap_pyfunction!(schema, m)?)?;
    m.add_function(wrap_pyfunction!(quantity, m)?)?;
    m.add_function(wrap_pyfunction!(answers::agent_answers, m)?)?;
    m.add_function(wrap_pyfunction!(replay::replay, m)?)?;
    m.add_function(wrap_pyfunction!(link::link, m)?)?;
    m.add_function(wrap_pyfunction!(link::link_abilities, m)?)?;
    m.add_function(wrap_pyfunction!(link::run_in_user_namespace, m)?)?;
    m.add_class::<scenario::Scenario>()?;
    m.add_class::<scenario::CancelToken>()?;
    m.add_class::<foreign_window::Window>()?;
    m.add_class::<foreign_window::Ack>()?;
    m.add_class::<foreign_window::Loss>()?;
    m.add_class::<foreign_window::Lost>()?;
    m.add_class::<foreign_window::RateSample>()?;
    m.add_class::<foreign_window::Start>()?;
    m.add_class::<foreign_agent::PyContext>()?;
    m.add_class::<foreign_agent::PyVerdict>()?;
    m.add_class::<foreign_agent::Queue>()?;
    m.add_class::<foreign_segment::Segment>()?;
    Ok(())
}
