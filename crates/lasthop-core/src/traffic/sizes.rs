//! Distributions of the sizes of transfers.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use crate::random::Stream;

/// Draws of the truncated lognormal distribution that are tried; of at least one half each is in
/// the range.
const ATTEMPTS: u64 = 64;

/// The distribution of the size of a transfer.
///
/// # Examples
///
/// ```
/// use lasthop_core::random::Stream;
/// use lasthop_core::traffic::Sizes;
///
/// let sizes = Sizes::Exponential { mean: 5_000.0 };
/// let stream = Stream::new(1, "sizes web");
/// assert_eq!(sizes.draw(stream, 7), sizes.draw(stream, 7));
/// assert_eq!(sizes.mean(), 5_000.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Always this size, bytes.
    Constant(u64),
    /// Exponential.
    Exponential {
        /// Mean, bytes.
        mean: f64,
    },
    /// Pareto.
    Pareto {
        /// Mean, bytes.
        mean: f64,
        /// Shape, above 1.
        shape: f64,
    },
    /// Lognormal, truncated: values outside the range are drawn again.
    Lognormal {
        /// Median of the distribution before truncation, bytes.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// The range, bytes.
        range: [f64; 2],
    },
    /// A distribution function, linear between its points.
    Cdf(Cdf),
    /// Each size of a list is equally likely.
    Sample(Arc<[u64]>),
}

impl Sizes {
    /// The size with this index, bytes, at least 1.
    pub fn draw(&self, stream: Stream, index: u64) -> u64 {
        let bytes = match self {
            Sizes::Constant(size) => return (*size).max(1),
            Sizes::Exponential { mean } => stream.exponential(index, *mean),
            Sizes::Pareto { mean, shape } => stream.pareto(index, *mean, *shape),
            Sizes::Lognormal { median, sigma, range: [min, max] } => (0..ATTEMPTS)
                .map(|k| median * libm::exp(sigma * stream.normal(ATTEMPTS * index + k)))
                .find(|bytes| (*min..=*max).contains(bytes))
                .unwrap_or(median.clamp(*min, *max)),
            Sizes::Cdf(cdf) => cdf.quantile(stream.uniform(index)),
            Sizes::Sample(sizes) => {
                let i = (stream.uniform(index) * sizes.len() as f64) as usize;
                return sizes[i.min(sizes.len() - 1)].max(1);
            }
        };
        (bytes + 0.5).max(1.0) as u64
    }

    /// Mean size, bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Constant(size) => *size as f64,
            Sizes::Exponential { mean } | Sizes::Pareto { mean, .. } => *mean,
            Sizes::Lognormal { median, sigma, range } => {
                let shift = libm::exp(0.5 * sigma * sigma);
                median * shift * share_within(*median * shift * shift, *sigma, *range)
                    / share_within(*median, *sigma, *range)
            }
            Sizes::Cdf(cdf) => cdf.mean(),
            Sizes::Sample(sizes) => {
                sizes.iter().map(|&s| s as f64).sum::<f64>() / sizes.len() as f64
            }
        }
    }

    /// Share of the values of a truncated distribution that are in its range before truncation; 1
    /// for the others.
    pub fn share_in_range(&self) -> f64 {
        match self {
            Sizes::Lognormal { median, sigma, range } => share_within(*median, *sigma, *range),
            _ => 1.0,
        }
    }

    /// Reads sizes from a text with a line for each. Lines "SIZE SHARE" are points of a
    /// distribution function, in bytes and as shares up to 1 or percentages up to 100; lines with
    /// a size alone are a sample. Blank lines and lines that start with `#` are skipped.
    ///
    /// # Errors
    ///
    /// A message with `name` and the line if the text is neither, has more than a million lines,
    /// or cannot be read.
    pub fn read(reader: impl Read, name: &str) -> Result<Sizes, String> {
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for (n, line) in (1..).zip(BufReader::new(reader.take(MAX_BYTES + 1)).lines()) {
            let line = line.map_err(|e| format!("{name}: cannot be read: {e}"))?;
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let wrong = |what: &str| {
                let found: String = line.chars().take(40).flat_map(char::escape_debug).collect();
                format!("{name}: line {n}: {what}, found \"{found}\"")
            };
            let row = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
            let row = row
                .ok()
                .filter(|row| {
                    (1..=2).contains(&row.len()) && rows.iter().all(|r| r.len() == row.len())
                })
                .filter(|row| row.iter().all(|x| (0.0..=MAX_SIZE).contains(x)))
                .ok_or_else(|| {
                    wrong("expected a size in bytes on each line, or a size and a share on each")
                })?;
            if let ([.., before], [size, share]) = (&rows[..], &row[..])
                && (*size < before[0] || *share < before[1])
            {
                return Err(wrong("sizes and shares must not decrease"));
            }
            rows.push(row);
            if rows.len() > MAX_LINES {
                return Err(format!("{name}: more than {MAX_LINES} lines"));
            }
        }
        match &rows[..] {
            [] => Err(format!("{name}: is empty; it needs a size in bytes on each line")),
            [first, ..] if first.len() == 1 => {
                Ok(Sizes::Sample(rows.iter().map(|row| (row[0] + 0.5) as u64).collect()))
            }
            [.., last] if last[1] == 1.0 || last[1] == 100.0 => {
                let points: Vec<(f64, f64)> = rows.iter().map(|r| (r[0], r[1] / last[1])).collect();
                Ok(Sizes::Cdf(Cdf::new(&points)))
            }
            [.., last] => {
                Err(format!("{name}: the last share must be 1 or 100 (percent), found {}", last[1]))
            }
        }
    }
}

/// Largest size in a file, bytes.
const MAX_SIZE: f64 = 1e15;
/// Largest number of lines of a file.
const MAX_LINES: usize = 1_000_000;
/// Longer files are cut off here, which is beyond the largest number of lines.
const MAX_BYTES: u64 = 100_000_000;

/// Share of a lognormal distribution within a range.
fn share_within(median: f64, sigma: f64, [min, max]: [f64; 2]) -> f64 {
    let below = |x: f64| {
        if x.is_infinite() {
            1.0
        } else {
            0.5 * libm::erfc(-libm::log(x.max(1e-9) / median) / (sigma * std::f64::consts::SQRT_2))
        }
    };
    below(max) - below(min)
}

/// A distribution function of sizes: points (size in bytes, share of transfers that are not
/// larger), linear between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    points: Arc<[(f64, f64)]>,
}

impl Cdf {
    /// The function with these points. Sizes and shares do not decrease, and the last share is 1.
    pub fn new(points: &[(f64, f64)]) -> Cdf {
        Cdf { points: points.into() }
    }

    /// The size that a share `u` (from 0, below 1) of the transfers do not exceed.
    fn quantile(&self, u: f64) -> f64 {
        let above = self.points.partition_point(|p| p.1 <= u).min(self.points.len() - 1);
        let (size, share) = self.points[above];
        match above.checked_sub(1).map(|i| self.points[i]) {
            Some((lower, from)) if share > from => {
                lower + (size - lower) * (u - from) / (share - from)
            }
            _ => size,
        }
    }

    fn mean(&self) -> f64 {
        let (size, share) = self.points[0];
        let pieces = self.points.windows(2).map(|p| (p[1].1 - p[0].1) * (p[0].0 + p[1].0) / 2.0);
        size * share + pieces.sum::<f64>()
    }
}

/// Flow sizes of a web search cluster (Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010,
/// figure 4), with the points that later simulations use (Alizadeh et al., "pFabric", SIGCOMM 2013;
/// Bai et al., "Information-Agnostic Flow Scheduling", NSDI 2015).
pub const WEB_SEARCH: [(f64, f64); 12] = [
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// Flow sizes of a data mining cluster (Greenberg et al., "VL2: A Scalable and Flexible Data Center
/// Network", SIGCOMM 2009, figure 2), with the points of the same simulations.
pub const DATA_MINING: [(f64, f64); 13] = [
    (0.0, 0.0),
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1100.0, 0.5),
    (1870.0, 0.6),
    (3160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(sizes: &Sizes, n: u64) -> Vec<f64> {
        let stream = Stream::new(5, "sizes x");
        (0..n).map(|i| sizes.draw(stream, i) as f64).collect()
    }

    fn mean_of(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn means_match_the_formulas() {
        let lognormal = |range| Sizes::Lognormal { median: 4316.0, sigma: 1.37, range };
        let sizes = [
            Sizes::Constant(1500),
            Sizes::Exponential { mean: 20_000.0 },
            Sizes::Pareto { mean: 20_000.0, shape: 2.5 },
            lognormal([0.0, f64::INFINITY]),
            lognormal([100.0, 2e6]),
            lognormal([1000.0, 20e3]),
            Sizes::Cdf(Cdf::new(&WEB_SEARCH)),
            Sizes::Cdf(Cdf::new(&[(1e3, 0.5), (2e3, 0.5), (4e3, 1.0)])),
            Sizes::Sample([1, 2, 6].into()),
        ];
        for sizes in sizes {
            let (found, expected) = (mean_of(&draws(&sizes, 200_000)), sizes.mean());
            assert!((found / expected - 1.0).abs() < 0.03, "{sizes:?}: {found}, not {expected}");
        }
        // The main object of a page in NGMN's evaluation methodology (2008), which rounds the
        // parameters of the logarithm and gives the mean 10710 B.
        assert!((lognormal([100.0, 2e6]).mean() / 10_710.0 - 1.0).abs() < 0.04);
        assert!((Sizes::Cdf(Cdf::new(&WEB_SEARCH)).mean() / 1.66e6 - 1.0).abs() < 0.05);
    }

    #[test]
    fn quantiles_match_the_points() {
        for (sizes, points) in [
            (Sizes::Cdf(Cdf::new(&WEB_SEARCH)), &WEB_SEARCH[..]),
            (Sizes::Cdf(Cdf::new(&DATA_MINING)), &DATA_MINING[..]),
        ] {
            let found = draws(&sizes, 50_000);
            for (size, share) in points {
                let below = found.iter().filter(|x| *x <= size).count() as f64 / 50_000.0;
                assert!((below - share).abs() < 0.01, "{size} {below}");
            }
        }
        let truncated = Sizes::Lognormal { median: 5e3, sigma: 1.0, range: [3e3, 9e3] };
        assert!(draws(&truncated, 20_000).iter().all(|x| (3e3..=9e3).contains(x)));
        assert!((truncated.share_in_range() - 0.417).abs() < 0.001);
    }

    #[test]
    fn files_are_points_or_samples() {
        let read = |text: &str| Sizes::read(text.as_bytes(), "sizes.txt");
        let points = Cdf::new(&[(0.0, 0.0), (10e3, 0.15), (3e4, 1.0)]);
        assert_eq!(read("# web\n0 0\n10000 0.15\n\n30000 1\n"), Ok(Sizes::Cdf(points.clone())));
        assert_eq!(read("0 0\n10000 15\n30000 100"), Ok(Sizes::Cdf(points)));
        assert_eq!(read("900\n1e3\n"), Ok(Sizes::Sample([900, 1000].into())));
        for (text, message) in [
            ("", "is empty"),
            ("1 0.5\n2 0.7\n", "the last share must be 1 or 100"),
            ("1 0.5\n2\n", "line 2: expected a size"),
            ("1 0.5\n2 0.4\n", "line 2: sizes and shares must not decrease"),
            ("-5\n", "line 1: expected a size"),
            ("nan\n", "line 1: expected a size"),
            ("1 2 3\n", "line 1: expected a size"),
            ("a\u{7}b\n", "found \"a\\u{7}b\""),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(message) && found.starts_with("sizes.txt: "), "{found}");
        }
    }
}
