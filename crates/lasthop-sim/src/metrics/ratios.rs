//! Ratios and means that may be unknown.

/// `part / whole`; `None` if the whole is 0.
pub(super) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole != 0.0).then(|| part / whole)
}

/// The mean, summed in the order of the values; `None` without any.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, n), x| (sum + x, n + 1));
    share(sum, f64::from(count))
}
