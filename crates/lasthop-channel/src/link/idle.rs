//! Idle-link fast path: a frame that finds a plain link idle is only counted.

use super::Link;
use super::stats::Measured;
use lasthop_core::units::{Duration, Time};

/// Idle-link fast path: frames of the same size as the last one that find a plain link idle and
/// arrive within the measured time are only counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleFastPath {
    /// Size without overhead, bytes; `NO_SIZE` if the fast path is not available.
    pub size: u32,
    /// Size of the last frame on a plain link, overhead included: consecutive frames usually have
    /// the same size.
    pub bytes: u32,
    /// Frames counted here and not yet in the statistics: those whose arrival is an event of this
    /// link, which counts it, and the others; and of how many the bytes are in the statistics.
    pub arrivals: u64,
    pub passing: u64,
    pub weighed: u64,
    /// Span in which such a frame may start.
    pub starts: Measured,
    /// Serialisation time of such a frame; `delay` is the propagation after it.
    pub time: Duration,
    pub delay: Duration,
    /// Serialisation times of frames (bytes, overhead included): ACKs with SACK blocks have a few
    /// sizes in turn.
    pub times: [(u32, Duration); 4],
    /// The entry that is replaced next.
    pub oldest: u8,
}

const NO_SIZE: u32 = u32::MAX;

impl IdleFastPath {
    /// Not available before the first frame; `measured`: the measured time.
    pub fn new(measured: Measured) -> IdleFastPath {
        IdleFastPath {
            size: NO_SIZE,
            bytes: 0,
            arrivals: 0,
            passing: 0,
            weighed: 0,
            starts: measured,
            time: Duration::ZERO,
            delay: Duration::ZERO,
            times: [(NO_SIZE, Duration::ZERO); 4],
            oldest: 0,
        }
    }
}

impl Link {
    /// Arrival of a frame of `size` bytes that is offered at `now`, if it can take the idle-link
    /// fast path.
    #[inline(always)]
    pub fn transmit_idle(&mut self, now: Time, size: u32) -> Option<Time> {
        let known = self.idle_path.size;
        if self.last_end >= now || (size != known && (known == NO_SIZE || !self.takes_size(size))) {
            return None;
        }
        let idle_path = &mut self.idle_path;
        if !idle_path.starts.holds(now) {
            return None;
        }
        idle_path.arrivals += 1;
        self.last_start = now;
        self.last_end = now + idle_path.time;
        Some(self.last_end + idle_path.delay)
    }

    /// Prepares the fast path for frames of another size. False if it is not available.
    #[inline(never)]
    fn takes_size(&mut self, size: u32) -> bool {
        self.resize(size);
        self.idle_path.size == size
    }

    /// The same for the first size too, and the serialisation time of a plain link.
    pub(super) fn resize(&mut self, size: u32) {
        let Some(plain) = &self.plain else { return };
        let idle_path = &mut self.idle_path;
        let frames = idle_path.arrivals + idle_path.passing;
        self.stats.bytes += (frames - idle_path.weighed) * u64::from(idle_path.bytes);
        idle_path.weighed = frames;
        let bytes = size + self.overhead;
        let known = idle_path.times.iter().find(|t| t.0 == bytes);
        let time = match known {
            Some(&(_, time)) => time,
            None => {
                let time = plain.rate.time_for(u64::from(bytes));
                idle_path.times[usize::from(idle_path.oldest % 4)] = (bytes, time);
                idle_path.oldest = idle_path.oldest.wrapping_add(1);
                time
            }
        };
        idle_path.size = if self.evented.is_some() || plain.loses { NO_SIZE } else { size };
        (idle_path.bytes, idle_path.time, idle_path.delay) = (bytes, time, plain.delay);
        idle_path.starts.length =
            self.measured.length.saturating_sub(time).saturating_sub(plain.delay);
    }

    /// Adds the frames of the fast path to the statistics.
    pub fn count_idle_path(&mut self) {
        let idle_path = &mut self.idle_path;
        let passing = std::mem::take(&mut idle_path.passing);
        let frames = passing + std::mem::take(&mut idle_path.arrivals);
        let weighed = std::mem::take(&mut idle_path.weighed);
        self.stats.offered += frames;
        self.stats.delivered += passing;
        self.stats.bytes += (frames - weighed) * u64::from(idle_path.bytes);
        self.stats.queue_delay.record(Duration::ZERO, frames);
    }
}
