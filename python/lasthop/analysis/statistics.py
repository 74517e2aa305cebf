"""Means, differences and ratios with two-sided 95 % confidence intervals.

Pairs are runs with one seed: run k of every scheme uses seed k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

Interval = tuple[float, float]


@lru_cache(maxsize=1024)
def t_quantile(runs: int) -> float:
    """Two-sided 95 % quantile of Student's t for `runs` values (runs - 1 degrees of freedom)."""
    from scipy.special import stdtrit  # much faster to import than scipy.stats

    return float(stdtrit(runs - 1, 0.975))


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


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; the sum is exactly rounded, so the order of the runs does not matter."""
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """Sample variance; zero for equal values."""
    if min(values) == max(values):
        return 0.0  # the mean of equal values may be rounded
    m = mean(values)
    return math.fsum((v - m) ** 2 for v in values) / (len(values) - 1)


def covariance(a: Sequence[float], b: Sequence[float]) -> float:
    """Sample covariance of pairs."""
    ma, mb = mean(a), mean(b)
    return math.fsum((x - ma) * (y - mb) for x, y in zip(a, b, strict=True)) / (len(a) - 1)


def _known(values: Sequence[float | None]) -> list[float] | None:
    known = [v for v in values if v is not None]
    return known if known and len(known) == len(values) else None


def summarise(values: Sequence[float | None]) -> Summary:
    """Mean, standard deviation and the confidence interval of the mean (Student's t)."""
    known = _known(values)
    if known is None:
        return Summary(len(values), None, None, None)
    n, m = len(known), mean(known)
    if n < 2:
        return Summary(n, m, None, None)
    sd = math.sqrt(variance(known))
    half = t_quantile(n) * sd / math.sqrt(n)
    return Summary(n, m, sd, (m - half, m + half))


def difference(a: Sequence[float | None], b: Sequence[float | None]) -> Summary:
    """Paired difference a - b."""
    known_a, known_b = _known(a), _known(b)
    if known_a is None or known_b is None:
        return Summary(len(a), None, None, None)
    return summarise([x - y for x, y in zip(known_a, known_b, strict=True)])


def correlation(a: Sequence[float | None], b: Sequence[float | None]) -> float | None:
    """Pearson's correlation of the pairs, which shows the gain of pairing; `None` if undefined."""
    known_a, known_b = _known(a), _known(b)
    if known_a is None or known_b is None or len(known_a) < 3:
        return None
    spread = variance(known_a), variance(known_b)
    return pearson(len(known_a), *spread, covariance(known_a, known_b))


def pearson(runs: int, var_a: float, var_b: float, cov: float) -> float | None:
    """Pearson's correlation from sample variances and covariance; `None` if undefined."""
    spread = math.sqrt(var_a * var_b)
    return None if runs < 3 or spread == 0 else max(-1.0, min(1.0, cov / spread))


def ratio(a: Sequence[float | None], b: Sequence[float | None]) -> Ratio:
    """Ratio of means a / b.

    The confidence interval is Fieller's, from the pairs: the set of r for which the mean of a - r b
    does not differ from 0 significantly. It is `None` with fewer than 3 runs, and if that set is
    unbounded, because the mean of b does not differ from 0 significantly.
    """
    known_a, known_b = _known(a), _known(b)
    if known_a is None or known_b is None:
        return Ratio(None, None)
    n, ma, mb = len(known_a), mean(known_a), mean(known_b)
    if n < 3:
        return Ratio(ma / mb if mb else None, None)
    spread = variance(known_a), variance(known_b)
    return fieller(n, ma, mb, *spread, covariance(known_a, known_b))


def fieller(n: int, ma: float, mb: float, var_a: float, var_b: float, cov: float) -> Ratio:
    """Ratio of the means `ma` / `mb` of `n` pairs with these sample variances and covariance.

    The confidence interval is described at `ratio`.
    """
    if mb == 0:
        return Ratio(None, None)
    r = ma / mb
    if n < 3:
        return Ratio(r, None)
    scale = t_quantile(n) ** 2 / n
    qa = mb * mb - scale * var_b
    if qa <= 0:
        return Ratio(r, None)
    qb = ma * mb - scale * cov
    qc = ma * ma - scale * var_a
    root = math.sqrt(max(qb * qb - qa * qc, 0.0))
    return Ratio(r, ((qb - root) / qa, (qb + root) / qa))
