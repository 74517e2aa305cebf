//! Frames that find a plain link idle.

use crate::link::Link;
use crate::link::idle::NO_SIZE;
use lasthop_core::units::{Duration, Time};

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
    pub(in crate::link) fn resize(&mut self, size: u32) {
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
