"""Means, differences and ratios with two-sided 95 % confidence intervals.

Pairs are runs with one seed: run k of every scheme uses seed k. `Moments` and `Pairs` treat the
columns of a matrix, one row per run and one column per metric, where NaN is an unknown value; a
column with an unknown value has NaN as result.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop import _native
from lasthop.analysis import student

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]

Interval = tuple[float, float]

CONFIDENCE = 0.95
#: Number of resamples of a bootstrap.
RESAMPLES = 1000
#: Most numbers in a block of resamples (80 MB).
BLOCK = 10_000_000
# Quantiles of the normal distribution: 1 - (1 - CONFIDENCE) / 2, and 0.8, the power at which the
# number of seeds for a verdict is given.
_Z_CONFIDENCE, _Z_POWER = 1.959963984540054, 0.8416212335729143


def t_quantile(runs: int) -> float:
    """Two-sided 95 % quantile of Student's t for `runs` values (runs - 1 degrees of freedom)."""
    return student.quantile(CONFIDENCE, runs - 1)


@dataclass(frozen=True)
class Summary:
    """A metric over runs.

    `ci95` is `None` for a single run. All fields are `None` if the metric is unknown in any run.
    """

    runs: int
    mean: float | None
    sd: float | None
    ci95: Interval | None


@dataclass(frozen=True)
class Ratio:
    """Ratio of means, with Fieller's confidence interval from the pairs."""

    mean: float | None
    ci95: Interval | None


@dataclass(frozen=True)
class Columns:
    """A value per column with the bounds of its 95 % interval; NaN where unknown."""

    mean: Matrix
    sd: Matrix
    low: Matrix
    high: Matrix


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; the sum is exactly rounded, so the order of the runs does not matter."""
    return math.fsum(values) / len(values)


def _sums(values: Matrix) -> Matrix:
    """Exactly rounded sums of the columns; NaN of a column with an unknown value."""
    return _native.column_sums(values)


class Moments:
    """A matrix with the means and variances of its columns, each computed once."""

    def __init__(self, values: Matrix) -> None:
        self.values = values

    @cached_property
    def mean(self) -> Matrix:
        """Arithmetic means of the columns; each sum is exactly rounded, as in `mean`."""
        return _sums(self.values) / len(self.values)

    @cached_property
    def variance(self) -> Matrix:
        """Sample variances; zero for equal values, although their mean may be rounded."""
        found = _sums((self.values - self.mean) ** 2) / (len(self.values) - 1)
        return np.where((self.values == self.values[:1]).all(axis=0), 0.0, found)

    @cached_property
    def summary(self) -> Columns:
        """Mean, standard deviation and the confidence interval of the mean (Student's t)."""
        n, unknown = len(self.values), np.full(self.values.shape[1], math.nan)
        if n == 0:
            return Columns(unknown, unknown, unknown, unknown)
        if n < 2:
            return Columns(self.mean, unknown, unknown, unknown)
        sd = np.sqrt(self.variance)
        half = t_quantile(n) * sd / math.sqrt(n)
        return Columns(self.mean, sd, self.mean - half, self.mean + half)


class Pairs:
    """Two matrices whose rows are pairs."""

    def __init__(self, a: Moments, b: Moments) -> None:
        self.a = a
        self.b = b

    @cached_property
    def _covariance(self) -> Matrix:
        a, b = self.a, self.b
        return _sums((a.values - a.mean) * (b.values - b.mean)) / (len(a.values) - 1)

    @cached_property
    def correlation(self) -> Matrix:
        """Pearson's correlations; NaN with fewer than 3 pairs or without variance."""
        a, b = self.a, self.b
        if len(a.values) < 3:
            return np.full(a.values.shape[1], math.nan)
        spread = np.sqrt(a.variance * b.variance)
        spread = np.where(spread == 0, math.nan, spread)
        return np.clip(self._covariance / spread, -1.0, 1.0)

    @cached_property
    def ratio(self) -> Columns:
        """Ratios of means a / b with Fieller's interval, as the function `ratio`; `sd` is NaN."""
        a, b = self.a, self.b
        n, unknown = len(a.values), np.full(a.values.shape[1], math.nan)
        if n == 0:
            return Columns(unknown, unknown, unknown, unknown)
        r = a.mean / np.where(b.mean == 0, math.nan, b.mean)
        if n < 3:
            return Columns(r, unknown, unknown, unknown)
        scale = t_quantile(n) ** 2 / n
        qa = b.mean * b.mean - scale * b.variance
        qa = np.where(qa > 0, qa, math.nan)
        qb = a.mean * b.mean - scale * self._covariance
        qc = a.mean * a.mean - scale * a.variance
        root = np.sqrt(np.maximum(qb * qb - qa * qc, 0.0))
        return Columns(r, unknown, (qb - root) / qa, (qb + root) / qa)


def p_values(differences: Columns, runs: int) -> Matrix:
    """Two-sided p of each mean paired difference (t test); NaN with fewer than 2 pairs."""
    found = np.full(len(differences.mean), math.nan)
    for i, (m, sd) in enumerate(zip(differences.mean, differences.sd, strict=True)):
        if math.isnan(m) or math.isnan(sd):
            continue
        if sd == 0:
            found[i] = 1.0 if m == 0 else 0.0
        else:
            found[i] = student.tail(float(m / sd) * math.sqrt(runs), runs - 1)
    return found


def holm(p: Matrix) -> Matrix:
    """Holm's adjustment of the p values in each column; NaN entries are no tests.

    S. Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    order = np.argsort(p, axis=0, kind="stable")  # NaN is last
    ascending = np.take_along_axis(p, order, axis=0)
    tests = (~np.isnan(p)).sum(axis=0)
    factors = np.maximum(tests - np.arange(len(p))[:, None], 1)
    adjusted = np.fmax.accumulate(np.fmin(ascending * factors, 1.0), axis=0)
    adjusted = np.where(np.isnan(ascending), math.nan, adjusted)
    found = np.empty_like(p)
    np.put_along_axis(found, order, adjusted, axis=0)
    return found


def seeds_needed(differences: Columns) -> Matrix:
    """Seeds with which a paired t test at 5 % detects the observed differences with power 80 %.

    n = (z₁ + z₂)² s² / d² + z₁² / 2, Guenther's approximation (1981), at least 3; NaN for a
    difference of zero or without a standard deviation.
    """
    fixed = differences.sd == 0
    d = np.where(differences.mean == 0, math.nan, differences.mean)
    needed = ((_Z_CONFIDENCE + _Z_POWER) * differences.sd / d) ** 2 + _Z_CONFIDENCE**2 / 2
    return np.where(fixed, 3 + 0 * d, np.maximum(np.ceil(needed), 3))


def quantile_rank(runs: int, share: float) -> int:
    """Rank, from 1, of the smallest of `runs` values that `share` of them do not exceed."""
    return max(1, math.ceil(share * runs - 1e-9))


@lru_cache(maxsize=4096)
def bootstrap_ranks(runs: int, share: float) -> tuple[int, int] | None:
    """Ranks of the two values that bound the 95 % bootstrap percentile interval of a quantile.

    A resample's quantile is at most the k-th smallest value if at least `quantile_rank` of its
    draws are, which is a binomial probability; so the interval is that of all resamples, without
    drawing any. `None` with fewer than 3 runs.
    """
    if runs < 3:
        return None
    rank, outside = quantile_rank(runs, share), (1 - CONFIDENCE) / 2

    def reaches(probability: float) -> int:
        low, high = 1, runs
        while low < high:
            middle = (low + high) // 2
            if _native.binomial_at_least(rank, runs, middle / runs) >= probability:
                high = middle
            else:
                low = middle + 1
        return low

    return reaches(outside), reaches(1 - outside)


class ResampleMemory:
    """Memory of the blocks of resamples of one case after the other: to map new pages takes longer
    than to draw.
    """

    def __init__(self) -> None:
        self._numbers: Matrix = np.empty(0)

    def rows(self, count: int, runs: int) -> Matrix:
        """Rows of this number of runs, of any content; they replace the rows before."""
        if len(self._numbers) < count * runs:
            self._numbers = np.empty(count * runs)
        return self._numbers[: count * runs].reshape(count, runs)


def resample_counts(
    content: Matrix, seeds: Sequence[int], memory: ResampleMemory | None = None
) -> Iterator[Matrix]:
    """How often each of the runs is drawn in each of `RESAMPLES` resamples: blocks of resamples,
    one row each, of at most `BLOCK` numbers. With `memory`, a block is valid until the next one.

    The random numbers depend on the runs alone: repeated calls give the same intervals.
    """
    digest = hashlib.sha256(np.ascontiguousarray(content).data)
    digest.update(repr(list(seeds)).encode())
    start: Any = np.random.PCG64(int.from_bytes(digest.digest()[:16], "big")).state["state"]
    n = len(content)
    draws = _native.Resamples(start["state"], start["inc"], n)
    rows = max(1, BLOCK // n)
    for first in range(0, RESAMPLES, rows):
        block = (memory or ResampleMemory()).rows(min(rows, RESAMPLES - first), n)
        draws.count(block)
        yield block


def bootstrap_ratio(a: Matrix, b: Matrix, counts: Iterable[Matrix]) -> tuple[Matrix, Matrix]:
    """The 95 % bootstrap percentile intervals of the ratios of means a / b, from the pairs.

    `counts` has the blocks of `resample_counts`. NaN with fewer than 3 pairs, or if the mean of b
    is 0 in a resample.
    """
    low, high = (np.full(a.shape[1], math.nan) for _ in range(2))
    # Resamples of what is unknown are unknown, and means of zeros are zero.
    clear = np.flatnonzero(~np.isnan(a + b).any(axis=0) & (b != 0).any(axis=0))
    if len(a) < 3 or not len(clear):
        return low, high
    same = a is b
    if same:
        known = [_ratio_to_itself(column) for column in b.T[clear]]
        low[clear] = high[clear] = [math.nan if x is None else x for x in known]
        clear = clear[[x is None for x in known]]
        if not len(clear):
            return low, high
    below, above = _resampled(b[:, clear], a[:, clear], same, counts)
    ratios = above / np.where(below == 0, math.nan, below)
    unclear = np.isnan(ratios).any(axis=0)
    ends = [quantile_rank(RESAMPLES, share) - 1 for share in (0.025, 0.975)]
    ratios = np.partition(ratios, ends, axis=0)
    low[clear], high[clear] = (np.where(unclear, math.nan, ratios[end]) for end in ends)
    return low, high


def _resampled(
    below: Matrix, above: Matrix, same: bool, counts: Iterable[Matrix]
) -> tuple[Matrix, Matrix]:
    """The sums of two matrices in all resamples; `same`: the matrices are one."""
    width = below.shape[1]
    if same:
        sums = np.concatenate([block @ below for block in counts])
        return sums, sums
    if width == 1:
        # One column is multiplied by another routine of BLAS, which rounds otherwise.
        pairs = [(block @ below, block @ above) for block in counts]
        return np.concatenate([b for b, _ in pairs]), np.concatenate([a for _, a in pairs])
    # Together, since it takes longest to read the counts.
    both = np.hstack([below, above])
    sums = np.concatenate([block @ both for block in counts])
    return sums[:, :width], sums[:, width:]


def _ratio_to_itself(values: Matrix) -> float | None:
    """The ratio of a mean to itself in all resamples: 1, or NaN if the mean is 0 in one of them.

    `None` if that depends on what is drawn, with a probability of more than 1e-19. Numbers of one
    sign have the mean 0 only if none is drawn that differs from 0.
    """
    zeros, runs = int(np.count_nonzero(values == 0)), len(values)
    if not (values.min() >= 0 or values.max() <= 0):
        return None
    if zeros == 0:
        return 1.0
    misses = runs * math.log(zeros / runs)
    if math.log(RESAMPLES) + misses < -45:
        return 1.0
    return math.nan if RESAMPLES * math.log1p(-math.exp(misses)) < -45 else None


def _column(values: Sequence[float | None]) -> Matrix:
    return np.array(values, dtype=float).reshape(-1, 1)


def _pairs(a: Sequence[float | None], b: Sequence[float | None]) -> Pairs:
    return Pairs(Moments(_column(a)), Moments(_column(b)))


def number(value: float) -> float | None:
    """A value as a Python number; `None` for NaN."""
    return None if math.isnan(value) else float(value)


def interval(low: float, high: float) -> Interval | None:
    """An interval; `None` if it is unknown."""
    return None if math.isnan(low) or math.isnan(high) else (float(low), float(high))


def _summary(found: Columns, runs: int) -> Summary:
    return Summary(
        runs,
        number(found.mean[0]),
        number(found.sd[0]),
        interval(found.low[0], found.high[0]),
    )


def summarise(values: Sequence[float | None]) -> Summary:
    """Mean, standard deviation and the confidence interval of the mean (Student's t)."""
    return _summary(Moments(_column(values)).summary, len(values))


def difference(a: Sequence[float | None], b: Sequence[float | None]) -> Summary:
    """Paired difference a - b."""
    return _summary(Moments(_column(a) - _column(b)).summary, len(a))


def correlation(a: Sequence[float | None], b: Sequence[float | None]) -> float | None:
    """Pearson's correlation of the pairs, which shows the gain of pairing; `None` if undefined."""
    return number(_pairs(a, b).correlation[0])


def ratio(a: Sequence[float | None], b: Sequence[float | None]) -> Ratio:
    """Ratio of means a / b.

    The confidence interval is Fieller's, from the pairs: the set of r for which the mean of a - r b
    does not differ from 0 significantly. It is `None` with fewer than 3 runs, and if that set is
    unbounded, because the mean of b does not differ from 0 significantly.
    """
    found = _pairs(a, b).ratio
    return Ratio(number(found.mean[0]), interval(found.low[0], found.high[0]))
