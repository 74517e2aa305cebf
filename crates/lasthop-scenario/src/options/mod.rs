//! What the command line changes in a scenario.

mod flows;
mod presets;
pub mod set;

use std::path::PathBuf;

pub use flows::FlowOptions;
use lasthop_schemes::catalogue::SchemeChoice;
pub use presets::apply as apply_presets;
#[cfg(test)]
pub use presets::names as preset_names;

/// Options of the command line that change a scenario.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--set KEY=VALUE`, in order. KEY is a dotted path; links, cells, flows and nodes by name or
    /// by number from 1.
    pub set: Vec<(String, String)>,
    /// `--scheme`: replaces the scheme of `[tcp]`, but not that of a flow.
    pub scheme: Option<SchemeChoice>,
    /// `--down`, `--up`, `--rtt`, `--loss`, `--rate`, `--queue`, `--mtu`.
    pub last_hop: LastHopOptions,
    /// `--traffic`, `--against`, `--flows`, `--start`, `--upload`, `--duration`.
    pub flows: FlowOptions,
    /// The starts of flows and the places in traces are drawn by seed if nothing else is random
    /// and the file does not say `random_starts`: for hosts that compare runs.
    pub draw_starts: bool,
}

/// The last hop on the command line: it replaces a file, or changes the last hop or radio link of
/// the file.
#[derive(Clone, Debug, Default)]
pub struct LastHopOptions {
    /// Trace of the downlink, relative to the current folder.
    pub down: Option<PathBuf>,
    /// Trace of the uplink, relative to the current folder.
    pub up: Option<PathBuf>,
    /// Round-trip time.
    pub rtt: Option<String>,
    /// Loss, per direction.
    pub loss: Option<String>,
    /// Rate, both directions.
    pub rate: Option<String>,
    /// Queues at both ends.
    pub queue: Option<String>,
    /// Largest IP packet, both directions.
    pub mtu: Option<String>,
}

impl LastHopOptions {
    /// True if no option is given.
    pub fn is_empty(&self) -> bool {
        [&self.rtt, &self.loss, &self.rate, &self.queue, &self.mtu].iter().all(|o| o.is_none())
            && self.down.is_none()
            && self.up.is_none()
    }
}
