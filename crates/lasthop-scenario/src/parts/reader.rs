//! How the receiving application of a flow reads.

use super::app::AppSpec;
use crate::network::ReaderSpec;
use crate::text::errors::ScenarioError;
use crate::text::tree::{Path, Tree};
use lasthop_core::units::{Duration, Rate};

/// Checks the reader of a `[[flow]]`.
pub fn check(
    reader: Option<&ReaderSpec>,
    app: &AppSpec,
    at: &Path,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    let Some(reader) = reader else { return Ok(()) };
    let at = at.at("reader");
    if app.is_datagrams() {
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
