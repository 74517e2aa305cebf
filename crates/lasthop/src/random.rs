//! Counter-based random draws.
//!
//! A draw is a pure function of (seed, process, index): nothing is consumed, so a frame that one scheme drops does
//! not shift the draws that another frame meets. This is what makes runs of different schemes comparable in pairs.

/// One random process: a stream of draws addressed by index.
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
    #[inline]
    pub fn bits(self, index: u64) -> u64 {
        mix(mix(index.wrapping_mul(GOLDEN).wrapping_add(self.key)) ^ self.key)
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn uniform(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
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

    /// Standard normal (Box and Muller); takes the draws 2·index and 2·index + 1 of a stream of its own.
    pub fn normal(self, index: u64) -> f64 {
        let r = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform(2 * index)));
        r * libm::cos(std::f64::consts::TAU * self.uniform(2 * index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_seed_process_and_index_only() {
        let a = Stream::new(1, "loss");
        assert_eq!(a.bits(7), Stream::new(1, "loss").bits(7));
        assert_ne!(a.bits(7), a.bits(8));
        assert_ne!(a.bits(7), Stream::new(2, "loss").bits(7));
        assert_ne!(a.bits(7), Stream::new(1, "delay").bits(7));
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let s = Stream::new(42, "moments");
        let n = 200_000;
        let mean = |f: &dyn Fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        assert!((mean(&|i| s.uniform(i)) - 0.5).abs() < 0.003);
        assert!((mean(&|i| s.uniform(i).powi(2)) - 1.0 / 3.0).abs() < 0.003);
        assert!((mean(&|i| s.exponential(i, 2.0)) - 2.0).abs() < 0.03);
        assert!((mean(&|i| s.normal(i)) - 0.0).abs() < 0.01);
        assert!((mean(&|i| s.normal(i).powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&|i| s.pareto(i, 1.0, 2.5)) - 1.0).abs() < 0.03);
        // neighbouring indices are uncorrelated
        let cov = mean(&|i| (s.uniform(i) - 0.5) * (s.uniform(i + 1) - 0.5));
        assert!(cov.abs() < 0.001);
    }
}
