//! Scenario files: types, reading, checks, and the network that they describe.
//!
//! Stages: `tree` parses the text (values with their places), `overrides` applies the command line,
//! `file` and `shorthand` give it types, `check` checks single values, `defaults` fills in what is
//! missing, and `resolve` turns names into indices: the [`network::Network`] that a host runs.
//! Every mistake becomes one [`ScenarioError`].

#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

mod apps;
mod arrivals;
pub mod bounds;
mod brace_expansion;
mod cells;
mod check;
mod clients;
mod defaults;
mod endpoints;
mod errors;
mod experiment;
mod file;
mod flow_roles;
mod keys;
mod load;
pub mod network;
mod outages;
mod overrides;
mod presets;
mod queue_limits;
mod queues;
mod random_starts;
mod readers;
mod resolve;
mod roles;
mod routes;
mod segment_sizes;
mod sessions;
mod shorthand;
mod tree;

#[cfg(test)]
mod tests;

pub use apps::AppSpec;
pub use arrivals::{Load, SizesSpec};
pub use cells::{CellSpec, DirectionSpec, StationSpec};
pub use clients::AdaptationSpec;
pub use endpoints::NodeNames;
pub use errors::{ErrorKind, Place, ScenarioError};
pub use experiment::{Experiment, Vary};
pub use file::{
    ExperimentSpec, File, FlowSpec, LastHop, LinkSpec, Measure, NodeSpec, PathSpec, TcpSpec,
};
pub use flow_roles::{FlowOptions, FlowRole, StartTimes};
pub use lasthop_core::diagnostics::Mistake;
pub use load::{Files, Loaded, load, schema};
pub use overrides::{LastHopOptions, Overrides};
pub use random_starts::{NoStarts, RandomStarts};
pub use readers::{ReaderSpec, ReadingPause};
pub use sessions::PageSpec;
