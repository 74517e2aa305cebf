//! Counter-based random draws.
//!
//! A draw is a pure function of (seed, process, index). There is no generator state, so a frame
//! dropped by one scheme does not shift the draws of other frames. Runs of different schemes with
//! the same seed can therefore be compared in pairs.

/// A random process: a stream of draws addressed by index.
///
/// # Examples
///
/// ```
/// use lasthop_core::random::Stream;
///
/// let loss = Stream::new(1, "loss server>phone");
/// // A draw depends on seed, process and index only, in any order of the calls.
/// let later = loss.uniform(7);
/// assert!((0.0..1.0).contains(&loss.uniform(3)));
/// assert_eq!(loss.uniform(7), later);
/// assert_ne!(Stream::new(2, "loss server>phone").uniform(7), later);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: u64,
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014, variant 13 of Stafford).
#[inline]
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of consecutive indices of which [`Stream::stratified`] takes one in each part.
pub const STRATA: u64 = 10;

impl Stream {
    /// The stream of a named process ("loss server>phone", "traffic 3") in the run with this seed.
    pub fn new(seed: u64, process: &str) -> Stream {
        let mut key = mix(seed.wrapping_add(GOLDEN));
        for byte in process.bytes() {
            key = mix(key ^ u64::from(byte).wrapping_mul(GOLDEN));
        }
        Stream { key }
    }

    /// 64 random bits for this index.
    #[inline(always)]
    pub fn bits(self, index: u64) -> u64 {
        mix(mix(index.wrapping_mul(GOLDEN).wrapping_add(self.key)) ^ self.key)
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn uniform(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [0, 1), stratified over the indices: of each [`STRATA`] consecutive indices that
    /// begin at a multiple of it, one is in each of as many equal parts of [0, 1), in random order
    /// (Latin hypercube sampling; McKay, Beckman and Conover 1979).
    ///
    /// The mean over indices of a function of such draws has a smaller variance than with
    /// independent draws, or about the same. The stream must not be used for other draws.
    pub fn stratified(self, index: u64) -> f64 {
        let (block, place) = (index / STRATA, (index % STRATA) as usize);
        let draw = |k: u64| self.uniform(block.wrapping_mul(2 * STRATA).wrapping_add(k));
        let mut parts: [u64; STRATA as usize] = std::array::from_fn(|part| part as u64);
        for last in (1..parts.len()).rev() {
            parts.swap(last, (draw(last as u64) * (last + 1) as f64) as usize);
        }
        (parts[place] as f64 + draw(STRATA + place as u64)) / STRATA as f64
    }

    /// Exponential with the given mean.
    pub fn exponential(self, index: u64, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform(index))
    }

    /// Pareto with the given mean and shape (> 1).
    pub fn pareto(self, index: u64, mean: f64, shape: f64) -> f64 {
        let scale = mean * (shape - 1.0) / shape;
        scale / libm::pow(1.0 - self.uniform(index), 1.0 / shape)
    }

    /// Standard normal (Box and Muller). Uses the draws 2·index and 2·index + 1, so the stream must
    /// not be used for other draws.
    pub fn normal(self, index: u64) -> f64 {
        let r = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform(2 * index)));
        r * libm::cos(std::f64::consts::TAU * self.uniform(2 * index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_only_on_seed_process_and_index() {
        let a = Stream::new(1, "loss");
        assert_eq!(a.bits(7), Stream::new(1, "loss").bits(7));
        assert_ne!(a.bits(7), a.bits(8));
        assert_ne!(a.bits(7), Stream::new(2, "loss").bits(7));
        assert_ne!(a.bits(7), Stream::new(1, "delay").bits(7));
    }

    #[test]
    fn moments_match_the_distributions() {
        let s = Stream::new(42, "moments");
        let n = 200_000;
        let mean = |f: &dyn Fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        assert!((mean(&|i| s.uniform(i)) - 0.5).abs() < 0.003);
        assert!((mean(&|i| s.uniform(i).powi(2)) - 1.0 / 3.0).abs() < 0.003);
        assert!((mean(&|i| s.exponential(i, 2.0)) - 2.0).abs() < 0.03);
        assert!((mean(&|i| s.normal(i)) - 0.0).abs() < 0.01);
        assert!((mean(&|i| s.normal(i).powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&|i| s.pareto(i, 1.0, 2.5)) - 1.0).abs() < 0.03);
        // adjacent indices are uncorrelated
        let cov = mean(&|i| (s.uniform(i) - 0.5) * (s.uniform(i + 1) - 0.5));
        assert!(cov.abs() < 0.001);
    }

    #[test]
    fn stratified_draws_are_uniform_in_each_block_and_independent_between_streams() {
        let (one, other) = (Stream::new(0, "start a"), Stream::new(0, "start b"));
        for block in 0..200 {
            let draws = (0..STRATA).map(|i| one.stratified(block * STRATA + i));
            let mut parts: Vec<u64> = draws.map(|u| (u * STRATA as f64) as u64).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..STRATA).collect::<Vec<_>>(), "one draw in each part");
        }
        let n = 20_000;
        let mean = |f: &dyn Fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        // The next draw of the same block is in another part.
        let next = mean(&|i| (one.stratified(i) - 0.5) * (one.stratified(i + 1) - 0.5));
        assert!((-0.011..-0.004).contains(&next), "{next}");
        let both = mean(&|i| (one.stratified(i) - 0.5) * (other.stratified(i) - 0.5));
        assert!(both.abs() < 0.002, "{both}");
        let first = mean(&|i| f64::from(one.stratified(i) < other.stratified(i)));
        assert!((first - 0.5).abs() < 0.01, "{first}");
        // At one place of all blocks, draws are uniform and independent.
        let at = |i: u64| one.stratified(i * STRATA + 3);
        assert!((mean(&at) - 0.5).abs() < 0.008);
        assert!((mean(&|i| at(i).powi(2)) - 1.0 / 3.0).abs() < 0.008);
        assert!(mean(&|i| (at(i) - 0.5) * (at(i + 1) - 0.5)).abs() < 0.002);
    }

    /// Draws at adjacent addresses (seed, process, index).
    fn adjacent_draws() -> Vec<(&'static str, Vec<u64>)> {
        let n = 8_000;
        let one = Stream::new(1, "loss bs>mh");
        vec![
            ("indices", (0..n).map(|i| one.bits(i)).collect()),
            ("seeds", (0..n).map(|seed| Stream::new(seed, "loss bs>mh").bits(0)).collect()),
            ("names", (0..n).map(|i| Stream::new(1, &format!("loss bs>{i}")).bits(0)).collect()),
            ("far indices", (0..n).map(|i| one.bits(i << 40)).collect()),
        ]
    }

    /// True if `count` heads of `n` fair coins lie within 5.2 standard deviations of the mean. A
    /// good generator fails this once in 5 million.
    fn is_fair(count: u32, n: usize) -> bool {
        let n = n as f64;
        (f64::from(count) - 0.5 * n).abs() < 5.2 * 0.5 * libm::sqrt(n)
    }

    /// Avalanche: each input bit changes each output bit with probability 1/2.
    #[test]
    fn every_bit_of_seed_and_index_affects_every_bit_of_the_draw() {
        let n = 2000;
        let spread = |what: &str, draw: &dyn Fn(u64) -> u64| {
            for flipped in 0..64 {
                let mut changed = [0u32; 64];
                for base in 0..n {
                    let difference = draw(base) ^ draw(base ^ 1 << flipped);
                    (0..64).for_each(|bit| changed[bit] += (difference >> bit & 1) as u32);
                }
                for (bit, count) in changed.iter().enumerate() {
                    assert!(
                        is_fair(*count, n as usize),
                        "{what} bit {flipped}: bit {bit} of the draw changes {count} times in {n}"
                    );
                }
            }
        };
        let one = Stream::new(1, "loss bs>mh");
        spread("index", &|index| one.bits(index));
        spread("seed", &|seed| Stream::new(seed, "loss bs>mh").bits(0));
    }

    /// Each bit is set with probability 1/2, and equals each bit of the next draw with probability
    /// 1/2.
    #[test]
    fn draws_at_adjacent_addresses_are_uncorrelated() {
        for (what, draws) in adjacent_draws() {
            for bit in 0..64 {
                let set = draws.iter().filter(|d| *d >> bit & 1 == 1).count() as u32;
                assert!(
                    is_fair(set, draws.len()),
                    "{what}: bit {bit} is set {set} times in {}",
                    draws.len()
                );
                for other in 0..64 {
                    let equal =
                        draws.windows(2).filter(|d| (d[0] >> bit ^ d[1] >> other) & 1 == 0).count()
                            as u32;
                    assert!(
                        is_fair(equal, draws.len() - 1),
                        "{what}: bit {bit} equals bit {other} of the next draw {equal} times"
                    );
                }
            }
        }
    }

    /// Chi-square of several bytes of the draw: 255 degrees of freedom, mean 255, standard
    /// deviation 22.6.
    #[test]
    fn bytes_are_uniform() {
        for (what, draws) in adjacent_draws() {
            for shift in [56, 48, 11, 0] {
                let mut counts = [0u32; 256];
                draws.iter().for_each(|d| counts[(d >> shift) as usize & 255] += 1);
                let expected = draws.len() as f64 / 256.0;
                let chi: f64 =
                    counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
                assert!(
                    (150.0..390.0).contains(&chi),
                    "{what}, bits {shift} to {}: chi-square {chi}",
                    shift + 7
                );
            }
        }
    }

    /// All draws of a large experiment (processes, seeds, indices) differ.
    #[test]
    fn draws_at_different_addresses_differ() {
        let mut all: Vec<u64> = Vec::new();
        for seed in 0..40 {
            for link in 0..50 {
                let stream = Stream::new(seed, &format!("loss s{link}>ap"));
                all.extend((0..100).map(|index| stream.bits(index)));
            }
        }
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n);
    }
}
