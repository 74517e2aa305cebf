//! Python binding for the replay of captures.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::sync::Arc;

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop_live::{ReplayError, ReplayOptions};
use lasthop_wire::{ReadError, WriteError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::InputError;
use crate::foreign::ForeignScheme;
use crate::foreign_run::RunContext;

/// Runs the agent of `scheme`, a name or a subclass of Agent, on the packets of the capture `input`
/// and writes the capture `output`. Returns the summary as text and as JSON.
#[pyfunction]
#[pyo3(signature = (input, output, mobile, scheme, interface=None))]
pub fn replay(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    mobile: &str,
    scheme: Bound<'_, PyAny>,
    interface: Option<String>,
) -> PyResult<(String, String)> {
    let mobile =
        mobile.parse().map_err(|e| InputError::new_err(format!("--mobile {mobile}: {e}")))?;
    let run = RunContext::new(Arc::default(), false);
    let scheme = match scheme.cast::<PyType>() {
        Ok(class) => ForeignScheme::new(class)?.choice(py, &run),
        Err(_) => SchemeChoice::parse(&scheme.extract::<String>()?).map_err(InputError::new_err)?,
    };
    let options = ReplayOptions { mobile, scheme, interface };
    let summary = py.detach(|| -> PyResult<_> {
        let (from, to) = (File::open(&input)?, File::create(&output)?);
        lasthop_live::replay(BufReader::new(from), BufWriter::new(to), &options).map_err(
            |e| match e {
                ReplayError::Read(ReadError::Io(e)) | ReplayError::Write(WriteError::Io(e)) => {
                    e.into()
                }
                ReplayError::Read(e) => InputError::new_err(format!("{}: {e}", input.display())),
                e => InputError::new_err(e.to_string()),
            },
        )
    });
    if let Some(error) = run.take_error() {
        return Err(error);
    }
    let summary = summary?;
    if let Some(reason) = &summary.nothing_shown {
        return Err(InputError::new_err(format!("{}: {reason}", input.display())));
    }
    let json = serde_json::to_string(&summary).map_err(|e| InputError::new_err(e.to_string()))?;
    Ok((summary.to_string(), json))
}
