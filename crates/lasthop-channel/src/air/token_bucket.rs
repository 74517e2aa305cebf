//! A token bucket: as a shaper it delays the start of frames, as a policer it drops them.
//!
//! The bucket holds up to `burst` bytes and fills at `rate`; a frame takes its bytes out of it. So
//! in every window of length t, at most `burst` + `rate` · t bytes pass. This is `tbf` and `police`
//! of Linux' tc; the bucket is full at time zero. Times are exact: tokens are counted in units of
//! 1e-9 bit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Rate, Size, Time};

/// Settings of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenBucketConfig {
    /// Rate at which tokens arrive: the long-run rate of what passes.
    pub rate: Rate,
    /// Size of the bucket: bytes that may pass at once, link overhead included.
    pub burst: Size,
}

impl TokenBucketConfig {
    /// Bytes of the bucket; a burst in segments counts these as of 1 byte.
    pub fn burst_bytes(&self) -> u64 {
        self.burst.bytes(1)
    }

    /// Checks the values.
    ///
    /// # Errors
    ///
    /// The key, and what is wrong with its value.
    pub fn check(&self) -> Result<(), (&'static str, Mistake)> {
        if self.rate == Rate(0) {
            return Err(("rate", "a rate must be above 0".into()));
        }
        match self.burst {
            Size::Bytes(1..=MAX_BURST) => Ok(()),
            Size::Bytes(b) => {
                Err(("burst", format!("expected 1 to {MAX_BURST} B, found {b} B").into()))
            }
            Size::Segments(_) => {
                let (expected, found) = ("bytes such as \"40 B\"", "a number of segments");
                let (expected, found) = (expected.into(), found.into());
                Err(("burst", Mistake::WrongType { expected, found }))
            }
        }
    }
}

/// Largest token bucket, bytes.
const MAX_BURST: u64 = 1 << 40;

/// Units of a byte: 8 bits of 1e9.
const BYTE: u128 = 8_000_000_000;

/// The state of a token bucket.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: u64,
    burst: u128,
    /// Tokens at the time `at`.
    tokens: u128,
    at: Time,
}

impl TokenBucket {
    /// A full bucket.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_channel::air::token_bucket::{TokenBucket, TokenBucketConfig};
    /// use lasthop_core::units::{Rate, Size, Time};
    ///
    /// let config = TokenBucketConfig { rate: Rate(1_000_000), burst: Size::Bytes(1500) };
    /// let mut policer = TokenBucket::new(&config);
    /// // 1500 bytes pass at once. After that, 1000 bytes need 8 ms.
    /// assert!(policer.conforms(Time(0), 1500));
    /// assert!(!policer.conforms(Time(7_999_999), 1000));
    /// assert!(policer.conforms(Time(8_000_000), 1000));
    /// ```
    pub fn new(config: &TokenBucketConfig) -> TokenBucket {
        let burst = u128::from(config.burst_bytes()) * BYTE;
        TokenBucket { rate: config.rate.0, burst, tokens: burst, at: Time::ZERO }
    }

    /// The rate at which tokens arrive.
    pub fn rate(&self) -> Rate {
        Rate(self.rate)
    }

    /// Takes the tokens of a frame that passes at `now`, if there are enough; otherwise the frame
    /// is to be dropped, and takes none. Times of consecutive calls do not decrease.
    pub fn conforms(&mut self, now: Time, bytes: u32) -> bool {
        self.fill(now);
        let need = u128::from(bytes) * BYTE;
        let conforms = need <= self.tokens;
        if conforms {
            self.tokens -= need;
        }
        conforms
    }

    /// The first time from `ready` on at which a frame may start. A frame larger than the bucket
    /// waits until that is full.
    pub fn earliest(&mut self, ready: Time, bytes: u32) -> Time {
        if ready == Time::NEVER {
            return ready;
        }
        self.fill(ready);
        let need = (u128::from(bytes) * BYTE).min(self.burst);
        let lacking = need.saturating_sub(self.tokens);
        match (lacking, self.rate) {
            (0, _) => ready,
            (_, 0) => Time::NEVER,
            (lacking, rate) => {
                let wait = lacking.div_ceil(u128::from(rate));
                u64::try_from(wait).map_or(Time::NEVER, |w| Time(ready.0.saturating_add(w)))
            }
        }
    }

    /// A frame starts at `start`, which is not before its `earliest`.
    pub fn take(&mut self, start: Time, bytes: u32) {
        if start < Time::NEVER {
            self.fill(start);
            self.tokens = self.tokens.saturating_sub(u128::from(bytes) * BYTE);
        }
    }

    fn fill(&mut self, now: Time) {
        let arrived = u128::from(self.rate) * u128::from(now.since(self.at).0);
        self.tokens = self.burst.min(self.tokens + arrived);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bucket(rate: u64, burst: u64) -> TokenBucket {
        TokenBucket::new(&TokenBucketConfig { rate: Rate(rate), burst: Size::Bytes(burst) })
    }

    /// In every window [first, last], the bytes are at most `burst` + `rate` · t.
    fn within_the_bound(passed: &[(Time, u32)], rate: u64, burst: u64) -> bool {
        (0..passed.len()).all(|i| {
            let mut sum = 0;
            passed[i..].iter().all(|&(t, bytes)| {
                sum += u128::from(bytes) * BYTE;
                let span = u128::from((t - passed[i].0).0);
                sum <= u128::from(burst) * BYTE + u128::from(rate) * span
            })
        })
    }

    proptest! {
        #[test]
        fn a_policer_keeps_the_bound_in_every_window(
            frames in prop::collection::vec((0u64..5_000_000, 40u32..1500), 1..80),
            rate in 1_000u64..10_000_000,
            burst in 1500u64..20_000,
        ) {
            let (mut policer, mut now, mut passed) = (bucket(rate, burst), Time::ZERO, vec![]);
            for (gap, bytes) in frames {
                now = Time(now.0 + gap);
                if policer.conforms(now, bytes) {
                    passed.push((now, bytes));
                }
            }
            prop_assert!(within_the_bound(&passed, rate, burst));
        }

        #[test]
        fn a_shaper_keeps_the_bound_and_wastes_no_time(
            frames in prop::collection::vec((0u64..5_000_000, 40u32..1500), 1..80),
            rate in 1_000u64..10_000_000,
            burst in 1500u64..20_000,
        ) {
            let (mut shaper, mut now, mut last) = (bucket(rate, burst), Time::ZERO, Time::ZERO);
            let mut started = vec![];
            for (gap, bytes) in frames {
                now = Time(now.0 + gap);
                let start = shaper.earliest(now.max(last), bytes);
                // One nanosecond earlier the tokens do not suffice.
                if start > now.max(last) {
                    prop_assert!(!shaper.clone().conforms(Time(start.0 - 1), bytes));
                }
                shaper.take(start, bytes);
                started.push((start, bytes));
                last = start;
            }
            prop_assert!(within_the_bound(&started, rate, burst));
        }
    }

    /// Under constant overload a policer passes its rate in the long run, and the burst once.
    #[test]
    fn the_long_run_rate_of_a_policer() {
        let mut policer = bucket(1_000_000, 10_000);
        // 1000 B each millisecond are 8 Mbps, for 10 s.
        let passed =
            (0..10_000u64).filter(|&t| policer.conforms(Time(t * 1_000_000), 1000)).count();
        // 10 frames of the burst, and 1 Mbps for 10 s are 1250 frames.
        assert!((1259..=1260).contains(&passed), "{passed}");
    }

    #[test]
    fn a_shaper_sends_the_burst_at_once_and_then_at_its_rate() {
        let mut shaper = bucket(1_000_000, 3000);
        let mut at = Time::ZERO;
        let starts = [0; 5].map(|_| {
            at = shaper.earliest(at, 1000);
            shaper.take(at, 1000);
            at.0 / 1_000_000
        });
        assert_eq!(starts, [0, 0, 0, 8, 16]);
        assert_eq!(bucket(0, 3000).earliest(Time(5), 3000), Time(5));
        assert_eq!(shaper.earliest(Time::NEVER, 1000), Time::NEVER);
        // A frame that never fits waits for a full bucket.
        assert_eq!(bucket(1_000_000, 500).earliest(Time::ZERO, 1000), Time::ZERO);
    }
}
