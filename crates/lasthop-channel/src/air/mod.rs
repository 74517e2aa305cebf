//! What the radio (or any link) does to a frame: loss, delay, rate, outage.
//!
//! Every model exists twice: as a *config* (what a scenario file says; serde types with their
//! defaults and schema) and as a *process* (the state machine that a link asks, built from the
//! config, a seed and a name).
//!
//! A link asks in this order, once for each frame and in the order in which frames start:
//! `RateProcess::serve` for the start and end of serialisation, `LossProcess::lost`,
//! `DelayProcess::arrival`, `OutageLoss::lost`.

pub mod config;
pub mod delay;
mod draws;
pub mod loss;
pub mod outage;
pub mod rate;
mod spans;
pub mod trace;
