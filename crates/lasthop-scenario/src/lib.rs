//! Scenario files: types, reading, checks, and the network that they describe.
//!
//! A scenario passes through stages, each a folder, which imports only from those above it:
//!
//! | folder | stage |
//! | --- | --- |
//! | [`network`] | what comes out: indices, all values filled in; what follows from them alone |
//! | `text` | the text: values with their places, mistakes, short forms, files |
//! | `parts` | the types of a file, by part of a network, with checks, defaults and schema |
//! | `options` | what the command line changes |
//! | `resolve` | defaults between parts, names into indices: the network |
//! | `load` | the order of the stages |
//!
//! Every mistake becomes one [`ScenarioError`].

#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

mod load;
pub mod network;
mod options;
mod parts;
mod resolve;
mod text;

#[cfg(test)]
mod tests;

pub use lasthop_core::diagnostics::Mistake;
pub use load::{Loaded, load};
pub use network::{FlowRole, ReaderSpec, ReadingPause};
pub use options::{FlowOptions, LastHopOptions, Overrides};
pub use parts::app::AppSpec;
pub use parts::app::client::{AdaptationSpec, RequestsSpec, VideoSpec};
pub use parts::app::poisson::{Load, PoissonSpec};
pub use parts::app::session::{PageSpec, SessionSpec};
pub use parts::app::sizes::SizesSpec;
pub use parts::cell::{CellSpec, DirectionSpec, StationSpec};
pub use parts::experiment::{Experiment, ExperimentSpec, Vary};
pub use parts::file::{File, Measure, schema};
pub use parts::flow::{FlowSpec, StartTimes};
pub use parts::last_hop::LastHop;
pub use parts::link::{LinkSpec, PathSpec};
pub use parts::node::{NodeNames, NodeSpec};
pub use parts::random_starts::{NoStarts, RandomStarts};
pub use parts::tcp::TcpSpec;
pub use text::errors::{ErrorKind, Place, ScenarioError};
pub use text::files::Files;
