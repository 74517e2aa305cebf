//! Probabilities of the binomial distribution.

/// The probability that a number of successes is at least `least`, in `n` trials with the
/// probability `p`, which is above 0.
///
/// # Examples
///
/// ```
/// use lasthop_sim::metrics::binomial::at_least;
///
/// // Of the 1024 outcomes of ten coins, 638 have five heads or more.
/// assert!((at_least(5, 10, 0.5) - 638.0 / 1024.0).abs() < 1e-14);
/// ```
pub fn at_least(least: u32, n: u32, p: f64) -> f64 {
    if p >= 1.0 {
        return 1.0;
    }
    // From the most probable of these numbers in both directions, since others may be too
    // improbable for a floating-point number.
    let most = ((f64::from(n) + 1.0) * p) as u32;
    let first = most.clamp(least, n);
    let (odds, start) = (p / (1.0 - p), probability(first, n, p));
    let up = (first + 1..=n).scan(start, |term, k| {
        *term *= f64::from(n - k + 1) / f64::from(k) * odds;
        Some(*term)
    });
    let down = (least..first).rev().scan(start, |term, k| {
        *term *= f64::from(k + 1) / f64::from(n - k) / odds;
        Some(*term)
    });
    let counts = |term: &f64| *term > 1e-20 * start;
    start + up.take_while(counts).sum::<f64>() + down.take_while(counts).sum::<f64>()
}

/// The probability of `k` successes.
fn probability(k: u32, n: u32, p: f64) -> f64 {
    let log_factorial = |n: u32| libm::lgamma(f64::from(n) + 1.0);
    let choices = log_factorial(n) - log_factorial(k) - log_factorial(n - k);
    libm::exp(choices + f64::from(k) * libm::log(p) + f64::from(n - k) * libm::log1p(-p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_outcomes_have_the_probability_1() {
        for (n, p) in [(1, 0.3), (10, 0.999), (1000, 0.05), (1_000_000, 0.5)] {
            assert!((at_least(0, n, p) - 1.0).abs() < 1e-8, "{n} {p}");
        }
        assert_eq!(at_least(3, 3, 1.0), 1.0);
    }

    #[test]
    fn terms_are_those_of_the_definition() {
        for (least, n, p) in [(3, 20, 0.1), (19, 20, 0.5), (20, 20, 0.9), (100, 200, 0.45)] {
            let sum: f64 = (least..=n).map(|k| probability(k, n, p)).sum();
            assert!((at_least(least, n, p) / sum - 1.0).abs() < 1e-11, "{least} {n} {p}");
        }
    }

    #[test]
    fn an_impossible_number_has_the_probability_0() {
        assert_eq!(at_least(90_000, 100_000, 0.01), 0.0);
    }
}
