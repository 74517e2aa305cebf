//! Exactly rounded sums (Shewchuk 1997), as those of Python's `math.fsum`.

/// The exactly rounded sum of numbers. Infinite if some of them are, all with one sign; NaN if both
/// signs are among them, or NaN.
///
/// # Examples
///
/// ```
/// use lasthop_sim::metrics::sums::sum;
///
/// assert_eq!(sum([1e100, 1.0, -1e100].into_iter()), 1.0);
/// assert_eq!(sum([1.0, f64::INFINITY].into_iter()), f64::INFINITY);
/// assert!(sum([1.0, f64::NAN].into_iter()).is_nan());
/// ```
pub fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let mut sum = Sum { parts: [0.0; MOST], count: 0 };
    let mut unbounded = 0.0;
    for value in values {
        if !value.is_finite() {
            unbounded += value;
        } else if value != 0.0 {
            sum.add(value);
        }
    }
    if unbounded == 0.0 { sum.rounded() } else { unbounded }
}

/// The sums of the columns of a matrix of this width, row after row.
pub fn column_sums(values: &[f64], width: usize) -> Vec<f64> {
    (0..width).map(|column| sum(values.iter().skip(column).step_by(width).copied())).collect()
}

/// A sum as numbers without a common bit, in rising order.
struct Sum {
    parts: [f64; MOST],
    count: usize,
}

/// Numbers without a common bit, at most: all bits of floating-point numbers by those of one.
const MOST: usize = 64;

impl Sum {
    #[inline]
    fn add(&mut self, value: f64) {
        let (mut sum, mut kept) = (value, 0);
        for i in 0..self.count.min(MOST - 1) {
            let error;
            (sum, error) = add(sum, self.parts[i]);
            if error != 0.0 {
                self.parts[kept] = error;
                kept += 1;
            }
        }
        self.parts[kept] = sum;
        self.count = kept + usize::from(sum != 0.0);
    }

    /// The nearest number; of two, the even one.
    fn rounded(&self) -> f64 {
        let mut parts = self.parts[..self.count].iter().rev().copied();
        let mut sum = parts.next().unwrap_or(0.0);
        while let Some(part) = parts.next() {
            let error;
            (sum, error) = add(sum, part);
            if error == 0.0 {
                continue;
            }
            // A further part decides where the error is half a unit of the last place.
            if let Some(next) = parts.next()
                && (error < 0.0) == (next < 0.0)
            {
                let (up, twice) = (sum + 2.0 * error, 2.0 * error);
                if up - sum == twice {
                    sum = up;
                }
            }
            break;
        }
        sum
    }
}

/// The sum of two numbers and its rounding error.
#[inline]
fn add(a: f64, b: f64) -> (f64, f64) {
    let (large, small) = if a.abs() < b.abs() { (b, a) } else { (a, b) };
    let sum = large + small;
    (sum, small - (sum - large))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tie_is_decided_by_further_parts() {
        // Half a unit of the last place of 1, with a rest on either side or without one.
        let half = f64::EPSILON / 2.0;
        assert_eq!(sum([1.0, half].into_iter()), 1.0);
        assert_eq!(sum([1.0, half, 1e-40].into_iter()), 1.0 + f64::EPSILON);
        assert_eq!(sum([1.0 + f64::EPSILON, half, -1e-40].into_iter()), 1.0 + f64::EPSILON);
        assert_eq!(sum([1.0 + f64::EPSILON, half].into_iter()), 1.0 + 2.0 * f64::EPSILON);
    }

    #[test]
    fn columns_are_summed_apart() {
        assert_eq!(column_sums(&[1.0, 2.0, 3.0, f64::NAN, 0.5, 0.0], 3)[1..], [2.5, 3.0]);
        assert!(column_sums(&[1.0, 2.0, 3.0, f64::NAN, 0.5, 0.0], 3)[0].is_nan());
        assert_eq!(column_sums(&[], 2), [0.0, 0.0]);
    }

    #[test]
    fn infinite_numbers_have_an_infinite_sum() {
        let inf = f64::INFINITY;
        assert_eq!(sum([inf, 1.0, inf].into_iter()), inf);
        assert_eq!(sum([1.0, -inf].into_iter()), -inf);
        assert!(sum([inf, -inf].into_iter()).is_nan());
        assert!(sum([inf, f64::NAN].into_iter()).is_nan());
    }

    proptest! {
        /// Numbers with 40 bits behind the point are exact as whole numbers.
        #[test]
        fn sums_are_exact(numbers in prop::collection::vec(-(1i64 << 52)..1 << 52, 0..50)) {
            let unit = (1u64 << 40) as f64;
            let exact: i128 = numbers.iter().map(|&n| i128::from(n)).sum();
            prop_assert_eq!(sum(numbers.iter().map(|&n| n as f64 / unit)), exact as f64 / unit);
        }
    }
}
