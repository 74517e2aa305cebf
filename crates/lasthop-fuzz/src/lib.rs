//! Fuzz targets: random and hostile input for all that reads bytes, text or a peer's segments.
//!
//! Each target is a function from the bytes of one input. It returns if all that must hold did
//! hold, and panics otherwise. `fuzz/` has a program for libFuzzer around each of them; the inputs
//! in `fuzz/corpus-seed` run as ordinary tests. `docs/fuzzing.md` says what each target checks.

mod endpoints;
mod input;
mod relays;

pub mod agents;
pub mod capture;
pub mod options;
pub mod overrides;
pub mod packet;
pub mod receiver;
pub mod replay;
pub mod scenario;
pub mod sender;
pub mod traces;

/// A target: takes the bytes of an input and panics if something does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 10] = [
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
];

/// A message for users is one line that says something.
fn check_message(message: &str) {
    assert!(!message.is_empty() && !message.chars().any(char::is_control), "{message:?}");
}
