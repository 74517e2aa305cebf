//! Bursts: how many segments a sender sends faster than the narrowest link of their path can
//! serialize them.

use lasthop::units::{Duration, Time};

/// Runs of segments sent faster than the narrowest link can serialize them. A gap of half the
/// serialization time of a full segment there, or more, ends a run. Half, since at exactly the
/// link's rate a gap may be a nanosecond short.
#[derive(Clone, Copy, Debug, Default)]
pub struct Burst {
    /// Half the serialization time of a full segment on the narrowest link; zero if that is
    /// unknown.
    gap: Duration,
    /// Payload bytes of a full segment; a frame of several counts for as many.
    segment: u32,
    last: Time,
    /// Segments of the present run, and of the longest so far.
    run: u64,
    largest: u64,
}

impl Burst {
    /// No segment sent yet; `per_segment` is the serialization time of a full segment on the
    /// narrowest link, `segment` its payload in bytes.
    pub fn new(per_segment: Duration, segment: u32) -> Self {
        Burst { gap: Duration(per_segment.0 / 2), segment, ..Burst::default() }
    }

    /// A data segment of `len` bytes leaves the sender.
    #[inline(always)]
    pub fn sent(&mut self, now: Time, len: u32) {
        let segments =
            if len > self.segment { u64::from(len.div_ceil(self.segment.max(1))) } else { 1 };
        self.add(now, segments);
    }

    /// A single segment leaves the sender.
    #[inline(always)]
    pub fn sent_one(&mut self, now: Time) {
        self.add(now, 1);
    }

    #[inline(always)]
    fn add(&mut self, now: Time, segments: u64) {
        // Time does not run backwards.
        let since = Duration(now.0 - self.last.0);
        self.run = if since < self.gap { self.run + segments } else { segments };
        self.last = now;
        self.largest = self.largest.max(self.run);
    }

    /// Measuring begins: forgets earlier runs.
    pub fn begin(&mut self) {
        (self.run, self.largest) = (0, 0);
    }

    /// The largest burst, in segments; `None` if the rate of the link is unknown.
    pub fn segments(&self) -> Option<u64> {
        (self.gap > Duration::ZERO).then_some(self.largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments at the link's rate are bursts of one, pairs at half that rate bursts of two. Five
    /// segments within one serialization time extend a burst, as do further ones in quick
    /// succession.
    #[test]
    fn segments_faster_than_the_link_form_a_burst() {
        let at = |ms: u64| Time::ZERO + Duration::millis(ms);
        let mut burst = Burst::new(Duration::millis(10), 1000);
        (0..20).for_each(|i| burst.sent(at(100 + 10 * i), 1000));
        assert_eq!(burst.segments(), Some(1));
        (0..20).for_each(|i| (0..2).for_each(|_| burst.sent(at(400 + 20 * i), 1000)));
        assert_eq!(burst.segments(), Some(2));
        (0..5).for_each(|i| burst.sent(at(900 + i), 1000));
        (0..3).for_each(|i| burst.sent(at(908 + 4 * i), 1000));
        assert_eq!(burst.segments(), Some(8));
        burst.begin();
        burst.sent(at(2000), 1000);
        assert_eq!((burst.segments(), Burst::default().segments()), (Some(1), None));
        burst.sent(at(3000), 4000);
        assert_eq!(burst.segments(), Some(4), "one frame under segmentation offload");
    }
}
