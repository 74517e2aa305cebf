//! Log-linear histograms: percentiles with an error of at most 1 %, without storing samples. They
//! have buckets only between the smallest and the largest value.

use serde::{Deserialize, Serialize};

use crate::units::Duration;

/// Buckets per octave: half a bucket is 1/128 = 0.8 % of the value.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
/// Buckets are added in blocks of this number.
const BLOCK: usize = SUB / 4;
/// Times below 2^10 ns are in the linear part; the last octave ends at 2^50 ns, 13 days.
const LOW_BITS: u32 = 10;
const LINEAR: u64 = 1 << LOW_BITS;
const OCTAVES: usize = 40;
/// All blocks: the linear part is one octave.
const BLOCKS: usize = (OCTAVES + 1) * SUB / BLOCK;
/// Longer times are recorded as this value, ns.
const LONGEST: u64 = (1 << (LOW_BITS as usize + OCTAVES)) - 1;

/// A weighted histogram of durations.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Weights of adjacent blocks of buckets, their lower 32 bits.
    counts: Box<[u32]>,
    /// The upper ones; empty while all are 0.
    high: Box<[u32]>,
    /// Index of the first of these buckets.
    first: usize,
    /// Weight of the value 0, which is frequent (the delay of an empty queue).
    zero: u64,
    /// Sum of weight × nanoseconds.
    sum: u128,
}

/// Mean and percentiles in seconds; `null` if nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Summary {
    /// Mean, seconds.
    pub mean: Option<f64>,
    /// Median, seconds.
    pub p50: Option<f64>,
    /// 95th percentile, seconds.
    pub p95: Option<f64>,
    /// 99th percentile, seconds.
    pub p99: Option<f64>,
}

impl Histogram {
    /// Records a duration with a weight.
    #[inline(always)]
    pub fn record(&mut self, d: Duration, weight: u64) {
        if d.0 == 0 {
            self.zero += weight;
            return;
        }
        if d.0 < LINEAR {
            return self.record_short(d.0, weight);
        }
        let place = log_bucket(d.0).wrapping_sub(self.first);
        match self.counts.get_mut(place) {
            Some(count) => {
                let upper = add_low(count, weight);
                if upper > 0 {
                    self.carry(place, upper);
                }
            }
            None => self.record_outside(d.0, weight),
        }
        self.sum += u128::from(d.0) * u128::from(weight);
    }

    /// Records a time of the linear part.
    #[cold]
    #[inline(never)]
    fn record_short(&mut self, ns: u64, weight: u64) {
        self.record_outside(ns, weight);
        self.sum += u128::from(ns) * u128::from(weight);
    }

    /// Adds the blocks up to that of a time, and its weight. Only here times beyond the longest
    /// one have to be thought of: no bucket of theirs exists.
    #[cold]
    #[inline(never)]
    fn record_outside(&mut self, ns: u64, weight: u64) {
        let bucket = bucket(ns.min(LONGEST));
        if bucket.wrapping_sub(self.first) >= self.counts.len() {
            self.add_blocks(bucket);
        }
        let place = bucket - self.first;
        let upper = add_low(&mut self.counts[place], weight);
        if upper > 0 {
            self.carry(place, upper);
        }
    }

    /// Adds the blocks up to that of a bucket.
    fn add_blocks(&mut self, bucket: usize) {
        let block = bucket / BLOCK * BLOCK;
        if self.counts.is_empty() {
            self.first = block;
        }
        let before = self.first.saturating_sub(block);
        let end = (block + BLOCK).max(self.first + self.counts.len());
        self.first -= before;
        let buckets = end - self.first;
        grow(&mut self.counts, before, buckets);
        if !self.high.is_empty() {
            grow(&mut self.high, before, buckets);
        }
    }

    /// Adds to the upper bits of a bucket.
    #[cold]
    #[inline(never)]
    fn carry(&mut self, place: usize, upper: u32) {
        if self.high.is_empty() {
            self.high = vec![0; self.counts.len()].into_boxed_slice();
        }
        self.high[place] += upper;
    }

    /// Takes the buckets of a histogram that is no longer used. This one has no record.
    pub fn reuse_memory(&mut self, old: &mut Self) {
        debug_assert!(self.counts.is_empty());
        (self.counts, self.first) = (std::mem::take(&mut old.counts), old.first);
        self.counts.fill(0);
    }

    /// Removes what was recorded, and leaves the buckets.
    pub fn clear(&mut self) {
        let old = &mut std::mem::take(self);
        self.reuse_memory(old);
    }

    /// Memory of the buckets, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.counts) + size_of_val(&*self.high)
    }

    /// Weight of the adjacent buckets from `place` on, `buckets` of them.
    #[inline]
    fn weight(&self, place: usize, buckets: usize) -> u64 {
        let sum = |counts: &[u32]| counts.iter().map(|&n| u64::from(n)).sum::<u64>();
        let low = sum(&self.counts[place..place + buckets]);
        if self.high.is_empty() {
            return low;
        }
        low + (sum(&self.high[place..place + buckets]) << 32)
    }

    /// The weight of each block of buckets, and the total weight.
    fn weights(&self) -> ([u64; BLOCKS], u64) {
        let (mut blocks, mut total) = ([0; BLOCKS], self.zero);
        for (block, weight) in blocks.iter_mut().enumerate().take(self.counts.len() / BLOCK) {
            *weight = self.weight(block * BLOCK, BLOCK);
            total += *weight;
        }
        (blocks, total)
    }

    /// The `q` quantile (0 to 1) in nanoseconds: the middle of its bucket. `None` if nothing was
    /// recorded.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let [found] = self.quantiles(&self.weights(), [q]);
        found
    }

    /// As `quantile`, by the weights of the blocks and the total, for shares that rise.
    fn quantiles<const N: usize>(
        &self,
        (blocks, total): &([u64; BLOCKS], u64),
        shares: [f64; N],
    ) -> [Option<f64>; N] {
        // Whole blocks have been passed, of this weight; the next rank is not among them.
        let (mut block, mut passed) = (0, self.zero);
        shares.map(|q| {
            let rank = libm::ceil(q * *total as f64).max(1.0) as u64;
            if *total == 0 {
                return None;
            }
            if self.zero >= rank {
                return Some(0.0);
            }
            while block < self.counts.len() / BLOCK {
                let weight = blocks[block];
                if passed + weight >= rank {
                    let mut seen = passed;
                    let place = (block * BLOCK..).find(|&place| {
                        seen += self.weight(place, 1);
                        seen >= rank
                    })?;
                    return Some(middle(self.first + place));
                }
                passed += weight;
                block += 1;
            }
            None
        })
    }

    /// Mean, median, 95th and 99th percentile in seconds.
    pub fn summary(&self) -> Summary {
        let weights = self.weights();
        let total = weights.1;
        let mean = (total > 0).then(|| self.sum as f64 / total as f64 / 1e9);
        let seconds = |ns: Option<f64>| ns.map(|ns| ns / 1e9);
        let [p50, p95, p99] = self.quantiles(&weights, [0.5, 0.95, 0.99]).map(seconds);
        Summary { mean, p50, p95, p99 }
    }
}

/// Adds zeros: `before` in front, and behind up to this number of buckets. The allocator can often
/// extend the memory in place.
fn grow(counts: &mut Box<[u32]>, before: usize, buckets: usize) {
    let mut grown = std::mem::take(counts).into_vec();
    let old = grown.len();
    grown.reserve_exact(buckets - old);
    grown.resize(buckets, 0);
    if before > 0 {
        grown.copy_within(..old, before);
        grown[..before].fill(0);
    }
    *counts = grown.into_boxed_slice();
}

/// Adds a weight to the lower 32 bits of a sum; returns what is left for the upper ones. The carry
/// is read from the addition: a weight known to be short costs an addition and a branch.
#[inline(always)]
fn add_low(low: &mut u32, weight: u64) -> u32 {
    let (sum, carried) = low.overflowing_add(weight as u32);
    *low = sum;
    (weight >> 32) as u32 + u32::from(carried)
}

/// Index of the bucket. The linear part is one octave; above, each octave has SUB buckets.
#[inline]
fn bucket(ns: u64) -> usize {
    if ns < LINEAR { (ns >> (LOW_BITS - SUB_BITS)) as usize } else { log_bucket(ns) }
}

/// Index of the bucket of a time beyond the linear part: exponent and first bits of the mantissa of
/// a floating-point number are the octave and the bucket in it.
#[inline(always)]
fn log_bucket(ns: u64) -> usize {
    const BITS: u32 = f64::MANTISSA_DIGITS - 1 - SUB_BITS;
    const FIRST: usize = ((LINEAR as f64).to_bits() >> BITS) as usize - SUB;
    // By way of a signed number, which takes the processor fewer steps.
    ((ns as i64 as f64).to_bits() >> BITS) as usize - FIRST
}

fn middle(bucket: usize) -> f64 {
    let (group, sub) = (bucket / SUB, bucket % SUB);
    if group == 0 {
        // The value 0 is exact: an empty queue has no delay.
        return if sub == 0 {
            0.0
        } else {
            (sub as f64 + 0.5) * f64::from(1u32 << (LOW_BITS - SUB_BITS))
        };
    }
    let octave = (group - 1) as u32 + LOW_BITS;
    ((SUB + sub) as f64 + 0.5) * (1u64 << (octave - SUB_BITS)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_a_uniform_distribution() {
        let mut h = Histogram::default();
        for ms in 1..=1000u64 {
            h.record(Duration::millis(ms), 3);
        }
        let s = h.summary();
        assert!((s.mean.unwrap() - 0.5005).abs() < 1e-9);
        assert!((s.p50.unwrap() / 0.5 - 1.0).abs() < 0.01);
        assert!((s.p95.unwrap() / 0.95 - 1.0).abs() < 0.01);
        assert_eq!(Histogram::default().summary().p50, None);
    }

    /// The delay of an empty queue is exactly 0, whatever other values there are.
    #[test]
    fn zero_is_exact() {
        let mut h = Histogram::default();
        h.record(Duration::ZERO, 3);
        assert_eq!(h.quantile(0.5), Some(0.0));
        h.record(Duration::millis(1), 1);
        assert_eq!(h.quantile(0.75), Some(0.0));
        assert!(h.quantile(0.76).unwrap() > 0.0);
    }

    /// A bucket ends where the next one begins, and none is wider than a 64th of its values.
    #[test]
    fn buckets_follow_each_other() {
        let mut last = (0, 0);
        for octave in 4..50 {
            for ns in (0..256u64).map(|i| (1 << octave) + (i << octave >> 8)) {
                let now = (ns, bucket(ns));
                assert!(now.1 == last.1 || now.1 == last.1 + 1, "{last:?} {now:?}");
                assert!((ns as f64 - middle(now.1)).abs() <= 8.0_f64.max(ns as f64 / 128.0));
                last = now;
            }
        }
    }

    #[test]
    fn delays_of_a_few_octaves_take_little_memory() {
        let mut h = Histogram::default();
        assert_eq!(h.bytes(), 0);
        for ms in 40..160 {
            h.record(Duration::millis(ms), 1);
        }
        // From 33.6 ms to 134.2 ms are two octaves; the first quarter of the next ends at 167.8 ms.
        assert_eq!(h.bytes(), (2 * SUB + BLOCK) * 4);
    }

    /// Also if blocks are added behind such a weight and before it.
    #[test]
    fn weights_exceed_32_bits() {
        let mut h = Histogram::default();
        for (ms, weight) in
            [(10, u64::from(u32::MAX)), (10, 1), (10, 5 << 32), (400, 3 << 32), (1, 1)]
        {
            h.record(Duration::millis(ms), weight);
        }
        assert_eq!(h.weights().1, (9 << 32) + 1);
        for (q, ms) in [(0.6, 10.0), (0.67, 400.0), (1.0, 400.0)] {
            assert!((h.quantile(q).unwrap() / 1e6 / ms - 1.0).abs() < 0.01, "{q}");
        }
        assert!((h.summary().mean.unwrap() - (6.0 * 0.01 + 3.0 * 0.4) / 9.0).abs() < 1e-9);
    }

    proptest! {
        /// Quantiles do not depend on the order in which blocks are added.
        #[test]
        fn order_does_not_matter(mut values in prop::collection::vec(0..1u64 << 51, 1..40)) {
            let quantiles = |values: &[u64]| {
                let mut h = Histogram::default();
                values.iter().for_each(|&ns| h.record(Duration(ns), 1));
                [0.0, 0.3, 0.5, 0.9, 1.0].map(|q| h.quantile(q))
            };
            let found = quantiles(&values);
            values.sort_unstable();
            prop_assert_eq!(found, quantiles(&values));
            values.reverse();
            prop_assert_eq!(found, quantiles(&values));
            let exact = values[0].min(LONGEST);
            prop_assert!((found[4].unwrap() - exact as f64).abs() <= 0.01 * exact as f64 + 16.0);
        }

        /// Those of a summary are those that are asked for one by one, also of long weights.
        #[test]
        fn a_summary_has_the_quantiles(
            values in prop::collection::vec((0..1u64 << 40, 1..1u64 << 34), 0..60),
        ) {
            let mut h = Histogram::default();
            let mut sorted = values;
            sorted.iter().for_each(|&(ns, weight)| h.record(Duration(ns), weight));
            sorted.sort_unstable();
            let total: u64 = sorted.iter().map(|v| v.1).sum();
            prop_assert_eq!(h.weights().1, total);
            let s = h.summary();
            for (q, found) in [(0.5, s.p50), (0.95, s.p95), (0.99, s.p99)] {
                prop_assert_eq!(h.quantile(q).map(|ns| ns / 1e9), found);
                let rank = (q * total as f64).ceil().max(1.0) as u64;
                let mut seen = 0;
                let exact = sorted.iter().find(|v| {
                    seen += v.1;
                    seen >= rank
                });
                prop_assert_eq!(exact.is_some(), found.is_some());
                let (exact, found) = (exact.map_or(0, |v| v.0) as f64, found.unwrap_or(0.0) * 1e9);
                prop_assert!((found - exact).abs() <= 0.01 * exact + 16.0, "{found} {exact}");
            }
        }

        #[test]
        fn quantile_error_is_below_one_percent(ns in 1024u64..(1 << 49)) {
            let mut h = Histogram::default();
            h.record(Duration(ns), 1);
            let q = h.quantile(0.5).unwrap();
            prop_assert!((q / ns as f64 - 1.0).abs() < 0.01, "{} against {}", q, ns);
        }
    }
}
