//! Random draws of impairments.

use lasthop_core::random::Stream;
use lasthop_core::units::Share;

/// A draw for each frame. Its index is the ordinal of the frame among those for which there is a
/// draw, so that two schemes have the same draws for the n-th frame.
#[derive(Debug)]
pub struct Draws {
    stream: Stream,
    rate: f64,
    ordinal: u64,
}

/// Distance of the indices of a second draw for the same frame.
const SECOND: u64 = 1 << 62;

impl Draws {
    /// Hits that share of the frames; `None` if that is 0.
    pub fn new(rate: Share, seed: u64, process: &str) -> Option<Draws> {
        let rate = rate.0;
        (rate > 0.0).then(|| Draws { stream: Stream::new(seed, process), rate, ordinal: 0 })
    }

    /// Whether it hits the next frame, and a second number from 0 to 1.
    pub fn next(&mut self) -> Option<f64> {
        let n = self.ordinal;
        self.ordinal += 1;
        (self.stream.uniform(n) < self.rate).then(|| self.stream.uniform(n + SECOND))
    }
}

/// True if some frames are hit and others are not.
pub fn is_random(rate: &Share) -> bool {
    rate.0 > 0.0 && rate.0 < 1.0
}
