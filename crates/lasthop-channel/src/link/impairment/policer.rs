//! A token bucket before the queue that drops what exceeds it, as `tc police`.

use super::{Fault, Impair, Impairment};
use crate::air::token_bucket::{TokenBucket, TokenBucketConfig};
use crate::queue::drop_reason;
use lasthop_core::units::Time;

/// Documentation of the key.
pub const DOC: &str = "Token bucket before the queue that drops what exceeds it: { rate, burst }. \
                       Default: none.";

/// Value of the key.
pub type Settings = TokenBucketConfig;

/// A policer.
pub struct Key;

impl Impairment for Key {
    type Settings = Settings;
    type Process = Process;

    fn check(settings: &Settings) -> Result<(), Fault> {
        settings.check()
    }

    fn burst(settings: &Settings) -> Option<u64> {
        Some(settings.burst_bytes())
    }

    fn process(settings: &Settings, _link: &str, _seed: u64) -> Option<Process> {
        Some(Process(TokenBucket::new(settings)))
    }
}

/// The bucket.
#[derive(Debug)]
pub struct Process(TokenBucket);

impl Impair for Process {
    fn drops(&mut self, now: Time, bytes: u32) -> Option<&'static str> {
        (!self.0.conforms(now, bytes)).then_some(drop_reason::POLICER)
    }
}
