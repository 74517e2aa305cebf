"""Statistics of all cases of a comparison: means, intervals, and pairs with the first scheme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.analysis import statistics
from lasthop.analysis.statistics import Columns, Moments, Pairs, ResampleMemory, interval, number

if TYPE_CHECKING:
    from lasthop.analysis.statistics import Matrix

#: Quantiles over the runs: key -> share of the runs.
QUANTILES = {"p5": 0.05, "p50": 0.5, "p95": 0.95}
#: Columns of the table after point, varied keys, scheme and metric.
TABLE_COLUMNS = (
    *("runs", "mean", "sd", "ci95_low", "ci95_high"),
    *("ratio_to_first", "ratio_low", "ratio_high"),
    *("difference_to_first", "difference_low", "difference_high", "correlation_to_first"),
    *("p_value", "p_holm", "seeds_needed"),
    *(f"{key}{part}" for key in QUANTILES for part in ("", "_low", "_high")),
    *("ratio_bootstrap_low", "ratio_bootstrap_high"),
)


@dataclass(frozen=True)
class Sample:
    """The finished runs of a case, in the order of their seeds."""

    point: int
    label: str
    seeds: Sequence[int]
    #: One row per run, one column per metric; NaN if unknown.
    values: Matrix
    #: True if the single run is the same for every seed.
    deterministic: bool = False

    @cached_property
    def moments(self) -> Moments:
        """The values with their means and variances."""
        return Moments(self.values)


def pair(one: Sample, other: Sample) -> tuple[list[int], Matrix, Matrix]:
    """The runs of two cases for the seeds that both have: seeds, and the values of each.

    A deterministic run is paired with each run of a random partner.
    """
    if one.deterministic != other.deterministic:
        fixed, random = (one, other) if one.deterministic else (other, one)
        rows = len(random.seeds) if len(fixed.seeds) else 0
        repeated = np.repeat(fixed.values[:1], rows, axis=0)
        drawn = random.values[:rows]
        pairs = (repeated, drawn) if fixed is one else (drawn, repeated)
        return list(random.seeds[:rows]), *pairs
    if one.seeds == other.seeds:
        return list(one.seeds), one.values, other.values
    common = sorted(set(one.seeds) & set(other.seeds))
    chosen = [[list(s.seeds).index(seed) for seed in common] for s in (one, other)]
    return common, one.values[chosen[0]], other.values[chosen[1]]


class CaseStatistics:
    """Statistics of one case, one value per metric."""

    def __init__(self, own: Sample, first: Sample, memory: ResampleMemory | None) -> None:
        self.runs = len(own.seeds)
        self._memory = memory
        self._own = own
        self.seeds, self._a, self._b = pair(own, first)
        a, b = (
            sample.moments if values is sample.values else Moments(values)
            for sample, values in ((own, self._a), (first, self._b))
        )
        self._pairs = Pairs(a, b)
        self.is_first = own.label == first.label

    @cached_property
    def summary(self) -> Columns:
        """Mean, standard deviation and 95 % interval."""
        return self._own.moments.summary

    @cached_property
    def ratio(self) -> Columns:
        """Ratio of the means to the first scheme, with Fieller's interval."""
        return self._pairs.ratio

    @cached_property
    def difference(self) -> Columns:
        """Mean paired difference to the first scheme."""
        return Moments(self._a - self._b).summary

    @cached_property
    def correlation(self) -> Matrix:
        """Correlation of the pairs."""
        return self._pairs.correlation

    @cached_property
    def p(self) -> Matrix:
        """p of the difference, by a paired t test; NaN for the first scheme itself."""
        if self.is_first:
            return np.full(len(self.difference.mean), math.nan)
        return statistics.p_values(self.difference, len(self._a))

    @cached_property
    def seeds_needed(self) -> Matrix:
        """Seeds that would show the observed difference with power 80 %."""
        return statistics.seeds_needed(self.difference)

    @cached_property
    def quantiles(self) -> dict[str, Columns]:
        """Quantiles over the runs, by nearest rank, with bootstrap intervals."""
        ordered, unknown = np.sort(self._own.values, axis=0), self.summary.mean * math.nan
        found = {}
        for key, share in QUANTILES.items():
            rows = [unknown, unknown, unknown]
            ranks = statistics.bootstrap_ranks(self.runs, share)
            if self.runs:
                rows[0] = ordered[statistics.quantile_rank(self.runs, share) - 1]
            if ranks is not None and not self._own.deterministic:
                rows[1:] = [ordered[rank - 1] for rank in ranks]
            # Sorting puts unknown values last; with one of them the quantiles are unknown.
            rows = [row + 0 * self.summary.mean for row in rows]
            found[key] = Columns(rows[0], unknown, rows[1], rows[2])
        return found

    @cached_property
    def bootstrap(self) -> tuple[Matrix, Matrix]:
        """The bootstrap interval of the ratio of the means to the first scheme."""
        both = np.hstack([self._a, self._b])
        counts = statistics.resample_counts(both, self.seeds, self._memory)
        return statistics.bootstrap_ratio(self._a, self._b, counts)


class Statistics:
    """The statistics of all cases; each is computed when it is first asked for. `memory`: for their
    resamples.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        metrics: Sequence[str],
        memory: ResampleMemory | None = None,
    ) -> None:
        self.samples = {(s.point, s.label): s for s in samples}
        self.metrics = list(metrics)
        self._column = {name: i for i, name in enumerate(self.metrics)}
        self._first = samples[0].label
        self._cases: dict[tuple[int, str], CaseStatistics] = {}
        self._holm: dict[int, dict[str, Matrix]] = {}
        self._memory = memory

    def case(self, point: int, label: str) -> CaseStatistics:
        """The statistics of a case, one value per metric."""
        if (point, label) not in self._cases:
            own, first = self.samples[(point, label)], self.samples[(point, self._first)]
            self._cases[(point, label)] = CaseStatistics(own, first, self._memory)
        return self._cases[(point, label)]

    def _adjusted(self, point: int, label: str) -> Matrix:
        """p adjusted by Holm's method for all schemes that are compared with the first at a
        point.
        """
        if point not in self._holm:
            labels = [name for at, name in self.samples if at == point]
            adjusted = statistics.holm(np.array([self.case(point, x).p for x in labels]))
            self._holm[point] = dict(zip(labels, adjusted, strict=True))
        return self._holm[point][label]

    def of(self, point: int, label: str, metric: str) -> dict[str, Any]:
        """The statistics of a metric that every output has: mean, interval, pairs."""
        case, i = self.case(point, label), self._column[metric]
        s, r, d = case.summary, case.ratio, case.difference
        return {
            "mean": number(s.mean[i]),
            "sd": number(s.sd[i]),
            "ci95": interval(s.low[i], s.high[i]),
            "ratio_to_first": {"mean": number(r.mean[i]), "ci95": interval(r.low[i], r.high[i])},
            "difference_to_first": {
                "mean": number(d.mean[i]),
                "ci95": interval(d.low[i], d.high[i]),
            },
            "correlation_to_first": number(case.correlation[i]),
        }

    def full(self, point: int, label: str, metric: str) -> dict[str, Any]:
        """`of`, and the statistics of JSON: quantiles, bootstrap, p, seeds for a verdict."""
        case, i = self.case(point, label), self._column[metric]
        found = self.of(point, label, metric)
        found["ratio_to_first"]["bootstrap_ci95"] = interval(*(b[i] for b in case.bootstrap))
        found["difference_to_first"] |= {
            "p": number(case.p[i]),
            "p_holm": number(self._adjusted(point, label)[i]),
            "seeds_needed": self._seeds(case, i),
        }
        found["quantiles"] = {
            key: {"value": number(q.mean[i]), "ci95": interval(q.low[i], q.high[i])}
            for key, q in case.quantiles.items()
        }
        return found

    def p_holm(self, point: int, label: str, metric: str) -> float | None:
        """p of the difference to the first scheme, adjusted for all schemes by Holm's method."""
        return number(self._adjusted(point, label)[self._column[metric]])

    def seeds_needed(self, point: int, label: str, metric: str) -> int | None:
        """Seeds that would show the observed difference to the first scheme; `None` if unknown."""
        return self._seeds(self.case(point, label), self._column[metric])

    @staticmethod
    def _seeds(case: CaseStatistics, i: int) -> int | None:
        needed = None if case.is_first else number(case.seeds_needed[i])
        return None if needed is None else int(needed)

    def table_rows(self, point: int, label: str) -> list[list[float | None]]:
        """Rows of the table of a case: per metric, the values of `TABLE_COLUMNS`."""
        return [[number(x) for x in row] for row in self.table_values(point, label)]

    def table_values(self, point: int, label: str) -> Matrix:
        """`table_rows` as a matrix; NaN if unknown."""
        case = self.case(point, label)
        s, r, d = case.summary, case.ratio, case.difference
        unknown = np.full(len(self.metrics), math.nan)
        columns = [
            np.full(len(self.metrics), float(case.runs)),
            *(s.mean, s.sd, s.low, s.high),
            *(r.mean, r.low, r.high, d.mean, d.low, d.high, case.correlation),
            *(case.p, self._adjusted(point, label)),
            unknown if case.is_first else case.seeds_needed,
            *(row for q in case.quantiles.values() for row in (q.mean, q.low, q.high)),
            *case.bootstrap,
        ]
        return np.array(columns).T
