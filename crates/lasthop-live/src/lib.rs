//! The live host: runs the agents of lasthop's core on real packets.
//!
//! The packets come from a capture: [`replay()`] passes them to an agent at their capture times and
//! writes a capture of the agent's output.

#![deny(clippy::indexing_slicing)]
#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

pub mod chain;
pub mod device;
pub mod flows;
pub mod gateway;
pub mod host;
pub mod outer;
pub mod own_ends;
pub mod place;
pub mod prefix;
pub mod pump;
pub mod recording;
pub mod replay;
pub mod split;
pub mod stand;
pub mod store;
pub mod summary;
pub mod tcp_probe;
pub mod timers;
pub mod wait;

pub use prefix::Prefix;
pub use replay::{ReplayError, ReplayOptions, replay};
pub use summary::Summary;
