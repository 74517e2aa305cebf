//! Effects of the radio (or any link) on a frame: loss, delay, rate, outage.
//!
//! Each model has a *config* (the keys of a scenario file; serde types with their defaults and
//! schema) and a *process* (the state machine that a link calls, built from the config, a seed and
//! a name).
//!
//! A link calls the processes in this order, once for each frame and in the order in which frames
//! start: `RateProcess::serialize` for the start and end of serialisation, `LossProcess::lost`,
//! `DelayProcess::arrival`, `OutageLoss::lost`.

pub mod config;
pub mod delay;
pub(crate) mod draws;
mod lines;
pub mod loss;
pub mod outage;
pub mod playback;
pub mod rate;
mod script;
pub mod series;
pub(crate) mod spans;
pub mod token_bucket;
pub mod trace;
