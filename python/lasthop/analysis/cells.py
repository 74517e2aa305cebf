"""Statistics of one metric for all cases of a comparison at once, for complete tables of runs.

The results are equal, bit by bit, to those of `statistics` for each case: differences and products
are computed with numpy, sums are exactly rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.analysis import statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

Statistics = dict[str, Any]

#: Statistics of a metric that is unknown in all runs.
UNKNOWN: Statistics = {
    "mean": None,
    "sd": None,
    "ci95": None,
    "ratio_to_first": {"mean": None, "ci95": None},
    "difference_to_first": {"mean": None, "ci95": None},
    "correlation_to_first": None,
}


def of_metric(values: NDArray[np.float64], first: Sequence[int]) -> list[Statistics]:
    """The statistics of each case, as `Comparison.statistics` returns them.

    `values` has a row per case and a column per seed. `first` is, for each case, the row of the
    first scheme at the same point.
    """
    runs = values.shape[1]
    means = [math.fsum(row) / runs for row in values.tolist()]
    if runs < 2:
        return [_of_single(means[i], means[j]) for i, j in enumerate(first)]
    deviations = values - np.array(means)[:, None]
    constant = (values.min(axis=1) == values.max(axis=1)).tolist()
    variances = _variances(deviations, constant)
    gaps = values - values[list(first)]
    gap_means = [math.fsum(row) / runs for row in gaps.tolist()]
    gap_constant = (gaps.min(axis=1) == gaps.max(axis=1)).tolist()
    gap_variances = _variances(gaps - np.array(gap_means)[:, None], gap_constant)
    products = (deviations * deviations[list(first)]).tolist()
    found = []
    for i, j in enumerate(first):
        covariance = math.fsum(products[i]) / (runs - 1)
        gap = _interval(gap_means[i], gap_variances[i], runs)
        ratio = statistics.fieller(runs, means[i], means[j], variances[i], variances[j], covariance)
        found.append(
            {
                "mean": means[i],
                "sd": math.sqrt(variances[i]),
                "ci95": _interval(means[i], variances[i], runs),
                "ratio_to_first": {"mean": ratio.mean, "ci95": ratio.ci95},
                "difference_to_first": {"mean": gap_means[i], "ci95": gap},
                "correlation_to_first": statistics.pearson(
                    runs, variances[i], variances[j], covariance
                ),
            }
        )
    return found


def _variances(deviations: NDArray[np.float64], constant: Sequence[bool]) -> list[float]:
    """Sample variances of the rows; zero for a row of equal values."""
    runs = deviations.shape[1]
    return [
        0.0 if equal else math.fsum(row) / (runs - 1)
        for row, equal in zip((deviations**2).tolist(), constant, strict=True)
    ]


def _interval(mean: float, variance: float, runs: int) -> statistics.Interval:
    half = statistics.t_quantile(runs) * math.sqrt(variance) / math.sqrt(runs)
    return mean - half, mean + half


def _of_single(mean: float, first: float) -> Statistics:
    return UNKNOWN | {
        "mean": mean,
        "ratio_to_first": {"mean": mean / first if first else None, "ci95": None},
        "difference_to_first": {"mean": mean - first, "ci95": None},
    }


__all__ = ["UNKNOWN", "Statistics", "of_metric"]
