//! Bit errors that the link layer does not detect.

use super::draws::{Draws, is_random};
use super::{Impair, Impairment};
use lasthop_core::units::Share;

/// Documentation of the key.
pub const DOC: &str = "Share of the frames that arrive with a bit error that the link layer does \
                       not detect. The\nend point discards them. Default: none.";

/// Value of the key.
pub type Settings = Share;

/// Corruption.
pub struct Key;

impl Impairment for Key {
    type Settings = Settings;
    type Process = Process;

    fn is_random(settings: &Settings) -> bool {
        is_random(settings)
    }

    fn process(settings: &Settings, link: &str, seed: u64) -> Option<Process> {
        Draws::new(*settings, seed, &format!("corrupt {link}")).map(Process)
    }
}

/// The draws.
#[derive(Debug)]
pub struct Process(Draws);

impl Impair for Process {
    const CORRUPTS: bool = true;

    fn corrupts(&mut self) -> Option<f64> {
        self.0.next()
    }
}
