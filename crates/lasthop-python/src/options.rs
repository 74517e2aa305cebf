//! The options of the command line that describe flows and the last hop.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lasthop::scenario::{FlowOptions, LastHopOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::InputError;

/// Reads the options about flows.
///
/// # Errors
///
/// `InputError` for an unknown option, and any exception of a value of the wrong type.
pub fn flow_options(options: &Bound<'_, PyDict>) -> PyResult<FlowOptions> {
    let mut found = FlowOptions::default();
    for (key, value) in options.iter() {
        match key.extract::<String>()?.as_str() {
            "traffic" => found.traffic = Some(value.extract()?),
            "against" => found.against = value.extract()?,
            "flows" => found.flows = Some(value.extract()?),
            "start" => found.starts = value.extract()?,
            "upload" => found.upload = value.extract()?,
            "duration" => found.duration = Some(value.extract()?),
            other => {
                return Err(InputError::new_err(format!(
                    "unknown option about flows `{other}`; allowed: traffic, against, flows, \
                     start, upload, duration"
                )));
            }
        }
    }
    Ok(found)
}

/// Reads the options of the last hop.
///
/// # Errors
///
/// `InputError` for an unknown option.
pub fn last_hop_options(mut options_by_name: BTreeMap<String, String>) -> PyResult<LastHopOptions> {
    let options = LastHopOptions {
        down: options_by_name.remove("down").map(PathBuf::from),
        up: options_by_name.remove("up").map(PathBuf::from),
        rtt: options_by_name.remove("rtt"),
        loss: options_by_name.remove("loss"),
        rate: options_by_name.remove("rate"),
        queue: options_by_name.remove("queue"),
        mtu: options_by_name.remove("mtu"),
    };
    match options_by_name.keys().next() {
        None => Ok(options),
        Some(key) => Err(InputError::new_err(format!(
            "unknown last-hop option `{key}`; allowed: down, up, rtt, loss, rate, queue, \
             mtu"
        ))),
    }
}
