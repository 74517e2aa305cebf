//! Fuzz targets: arbitrary and malicious input for all code that reads bytes, text or a peer's
//! segments.
//!
//! A target is a function of one input, a byte string. It panics if an invariant is violated.
//! `fuzz/` contains a libFuzzer program for each target; the inputs in `fuzz/corpus-seed` also run
//! as ordinary tests. `docs/fuzzing.md` lists what each target checks.

#![allow(clippy::missing_panics_doc, reason = "all targets panic if an invariant is violated")]

mod endpoints;
mod input;
mod relays;

pub mod agents;
pub mod capture;
pub mod chain;
pub mod options;
pub mod overrides;
pub mod packet;
pub mod receiver;
pub mod replay;
pub mod scenario;
pub mod sender;
pub mod traces;

/// A target: takes the bytes of an input and panics if an invariant is violated.
pub type Target = fn(&[u8]);

/// All targets with their names.
pub const TARGETS: [(&str, Target); 11] = [
    ("packet", packet::run),
    ("options", options::run),
    ("capture", capture::run),
    ("replay", replay::run),
    ("scenario", scenario::run),
    ("overrides", overrides::run),
    ("sender", sender::run),
    ("receiver", receiver::run),
    ("agents", agents::run),
    ("traces", traces::run),
    ("chain", chain::run),
];

/// Asserts that a user-visible message is one non-empty line.
fn check_message(message: &str) {
    assert!(!message.is_empty() && !message.chars().any(char::is_control), "{message:?}");
}
