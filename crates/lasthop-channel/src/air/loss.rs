//! Which frames are lost on the air.
//!
//! A loss model is one file: its settings, which implement [`LossModel`], the state machine that
//! decides for each frame ([`FrameLoss`]), and tests against its closed form. The list below names
//! the files; from it the modules, [`LossConfig`], [`LossProcess`], the checks and the short forms
//! are made.

#[macro_use]
mod models;
pub(crate) mod clock;
mod model;
#[cfg(test)]
pub(crate) mod testing;
mod uniform;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draws::{DrawIndex, default_slot};
use crate::sample::Sample;
use lasthop_core::units::{Duration, Share};

pub use clock::MarkovClock;
pub use model::{Frame, FrameLoss, LossModel};
pub use mta::PeriodLength;
pub use two_state::IdleAdvance;
pub use uniform::Uniform;

// The models beside `none` and `uniform`, in the order of the schema.
loss_models! {
    markov,
    markov_chain,
    mta,
    two_state,
    bit_errors,
    frame_errors,
    scripted,
    trace,
    periodic,
}

impl From<Uniform> for LossConfig {
    fn from(Uniform { rate, index, slot }: Uniform) -> LossConfig {
        LossConfig::Uniform { rate, index, slot }
    }
}

impl LossConfig {
    /// Each frame is lost with the same probability.
    pub fn uniform(rate: Share) -> Self {
        Uniform::new(rate).into()
    }

    /// True if losses depend on the seed.
    pub fn is_random(&self) -> bool {
        LossProcess::new(self, 0, "").is_ok_and(|process| process.is_random())
    }
}
