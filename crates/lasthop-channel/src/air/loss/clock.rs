//! The clock of a chain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::air::draws::{DrawIndex, Draws};
use lasthop_core::units::Duration;

/// When a chain steps. With `frame`, a sender that is alone on the link and waits for its timer
/// stops the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkovClock {
    /// Once for each frame, before its loss is drawn.
    Frame,
    /// Once per time slot, with or without a frame.
    Slot,
}

impl MarkovClock {
    /// Addresses of the draws of frames.
    ///
    /// # Errors
    ///
    /// If the clock is `slot` and the slot has no length.
    pub(super) fn draws(self, slot: Duration) -> Result<Draws, String> {
        match self {
            MarkovClock::Frame => Ok(Draws::Frame),
            MarkovClock::Slot => Draws::new(DrawIndex::Slot, slot),
        }
    }
}
