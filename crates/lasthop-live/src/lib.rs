//! The live host: drives the core's state machines with real packets.
//!
//! For now the packets are recorded ones: [`replay()`] shows an agent the packets of a capture at
//! the times they were captured and writes the capture that would have come out behind it.

pub mod flows;
pub mod prefix;
pub mod recording;
pub mod replay;
pub mod store;
pub mod summary;
pub mod timers;

pub use prefix::Prefix;
pub use replay::{ReplayError, ReplayOptions, replay};
pub use summary::Summary;
