//! How the receiving application of a flow reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::errors::ScenarioError;
use crate::file::FlowSpec;
use crate::tree::{Path, Tree};
use lasthop_core::units::{Duration, Rate};

/// An application that does not read at once what has arrived in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReaderSpec {
    /// Rate at which it reads, a segment at a time. Default: it reads at once all that has arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Spans in which it does not read, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<ReadingPause>,
}

/// A span in which an application does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadingPause {
    /// Start, counted from the start of the run.
    pub from: Duration,
    /// Length.
    pub length: Duration,
}

impl ReadingPause {
    /// When it ends.
    pub fn end(self) -> Duration {
        self.from + self.length
    }
}

/// Checks the reader of a `[[flow]]`.
pub fn check(flow: &FlowSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let Some(reader) = &flow.reader else { return Ok(()) };
    let at = at.at("reader");
    if flow.app.is_datagrams() {
        let message = "datagrams are read when they arrive; `reader` is for TCP connections";
        return Err(tree.conflict(&at, message));
    }
    if reader.rate == Some(Rate(0)) {
        let message = "a rate must be above 0; for a time without reading use `pauses`";
        return Err(tree.wrong(&at.at("rate"), message));
    }
    if *reader == ReaderSpec::default() {
        let message = "it says nothing: write rate = \"1 Mbps\", or pauses = [{ from = \"2 s\", \
                       length = \"5 s\" }]";
        return Err(tree.wrong(&at, message));
    }
    for (i, pause) in reader.pauses.iter().enumerate() {
        let here = at.at("pauses").at(i);
        if pause.length == Duration::ZERO {
            return Err(tree.wrong(&here.at("length"), "a pause must last longer than 0 s"));
        }
        let before = i.checked_sub(1).map(|before| reader.pauses[before].end());
        if let Some(end) = before.filter(|end| pause.from < *end) {
            let message = format!(
                "pauses must come in order of time, but one begins at {} and the one before it \
                 ends at {end}",
                pause.from
            );
            return Err(tree.wrong(&here.at("from"), message));
        }
    }
    Ok(())
}
