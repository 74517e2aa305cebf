//! Copies of frames.

use super::draws::{Draws, is_random};
use super::{Impair, Impairment};
use lasthop_core::units::Share;

/// Documentation of the key.
pub const DOC: &str = "Share of the frames that enter the link twice. Default: none.";

/// Value of the key.
pub type Settings = Share;

/// Duplication.
pub struct Key;

impl Impairment for Key {
    type Settings = Settings;
    type Process = Process;

    fn is_random(settings: &Settings) -> bool {
        is_random(settings)
    }

    fn process(settings: &Settings, link: &str, seed: u64) -> Option<Process> {
        Draws::new(*settings, seed, &format!("duplicate {link}")).map(Process)
    }
}

/// The draws.
#[derive(Debug)]
pub struct Process(Draws);

impl Impair for Process {
    fn duplicates(&mut self) -> bool {
        self.0.next().is_some()
    }
}
