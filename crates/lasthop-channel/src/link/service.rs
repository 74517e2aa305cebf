//! Stop and wait, computed: all slots of a frame are planned when it enters the queue, because only
//! its own losses decide how long it occupies the link.

use lasthop_core::units::Duration;

/// Attempts per frame, fragments, and the delay after a failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub attempts: u32,
    pub fragments: u32,
    pub delay: Duration,
    /// Bytes and serialisation time of the last first fragment and of the last other one.
    pub times: [(u32, Duration); 2],
}

impl Service {
    pub(super) fn new(attempts: u32, fragments: u32, delay: Duration) -> Service {
        Service { attempts, fragments, delay, times: [(0, Duration::ZERO); 2] }
    }
}
