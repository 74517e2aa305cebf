//! Python binding for gateways.

use std::io;

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::units::{Quantity, Rate};
use lasthop_live::gateway::abilities::abilities;
use lasthop_live::gateway::report::Report;
use lasthop_live::gateway::rules::{self, Match};
use lasthop_live::gateway::{Gateway, MAX_FLOWS, Options, privileges};
use pyo3::prelude::*;

use crate::InputError;

/// What the callback of a gateway may answer.
const SHOW: u8 = 1;
const STOP: u8 = 2;
const DUMP: u8 = 3;

/// Runs the agent or relay of a scheme on the packets that this machine forwards to and from an
/// interface.
/// `ask` is called with a line about the state or None, about ten times per second, and answers 0
/// (go on), 1 (call again with the state), 2 (stop) or 3 (call again with the whole state as text
/// and as JSON). Returns the report as text and as JSON.
#[pyfunction]
#[pyo3(signature = (scheme, wireless, ask, wired=None, rate=None, max_flows=None, radio=None))]
#[allow(clippy::too_many_arguments, reason = "the options of the command")]
pub fn gateway(
    py: Python<'_>,
    scheme: &str,
    wireless: String,
    ask: Py<PyAny>,
    wired: Option<String>,
    rate: Option<&str>,
    max_flows: Option<usize>,
    radio: Option<u16>,
) -> PyResult<(String, String)> {
    let options = Options {
        scheme: SchemeChoice::parse(scheme).map_err(InputError::new_err)?,
        matched: Match { wireless, wired },
        rate: rate
            .map(|text| Rate::parse(text).map_err(|e| InputError::new_err(format!("--rate: {e}"))))
            .transpose()?,
        max_flows: max_flows.unwrap_or(MAX_FLOWS),
        radio,
    };
    let mut failure = None;
    let report = py.detach(|| {
        let gateway = Gateway::new(options)?;
        privileges::reduce()?;
        gateway.run(|gateway| {
            let answer = Python::attach(|py| {
                py.check_signals()?;
                let call = |line: Option<String>| ask.call1(py, (line,))?.extract::<u8>(py);
                match call(None)? {
                    SHOW => call(Some(gateway.report().line())),
                    DUMP => {
                        let state = gateway.state();
                        ask.call1(py, (state.to_string(), json(&state)?))?.extract(py)
                    }
                    answer => Ok(answer),
                }
            });
            answer.map(|answer| answer != STOP).map_err(|e: PyErr| {
                failure = Some(e);
                io::ErrorKind::Interrupted.into()
            })
        })
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let report = report.map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput => InputError::new_err(e.to_string()),
        _ => e.into(),
    })?;
    Ok((report.to_string(), json(&report)?))
}

fn json(report: &Report) -> PyResult<String> {
    serde_json::to_string(report).map_err(|e| InputError::new_err(e.to_string()))
}

/// The rules of a gateway in the language of nft.
#[pyfunction]
#[pyo3(signature = (wireless, wired=None))]
pub fn gateway_rules(wireless: String, wired: Option<String>) -> String {
    Match { wireless, wired }.text(rules::FIRST_QUEUE)
}

/// Removes the rules that a gateway has left; returns the number of tables.
#[pyfunction]
pub fn gateway_remove(wireless: &str) -> PyResult<usize> {
    Ok(rules::remove_left(wireless)?)
}

/// What of a gateway this machine can do: name, purpose, why it is missing, whether it is required.
#[pyfunction]
pub fn gateway_abilities() -> Vec<(&'static str, &'static str, Option<String>, bool)> {
    abilities().into_iter().map(|a| (a.name, a.purpose, a.missing, a.required)).collect()
}
