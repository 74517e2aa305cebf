"""Verdicts: paired differences with the baseline, their intervals, and Holm's method.

All differences are oriented so that positive is better. Of each number two questions are asked: is
the mean difference above or below minus the margin, and is it above zero? Each is answered by a
two-sided t test at 5 %, adjusted by Holm's method for all numbers of the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from lasthop.analysis import statistics
from lasthop.analysis.statistics import Interval, Moments
from lasthop.evaluation.suite import Number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

Outcome = Literal["better", "no worse", "worse", "undecided"]
OUTCOMES: Final = ("better", "no worse", "worse", "undecided")
#: Level of both families of tests.
LEVEL: Final = 0.05


@dataclass(frozen=True)
class Measured:
    """What the runs say of a number, before the other numbers of the card are considered."""

    #: Mean of the candidate, and of the baseline or the limit.
    mean: float | None
    reference: float | None
    #: Mean paired difference to the reference and its 95 % interval, in the unit of the metric.
    difference: float | None
    ci95: Interval | None
    #: Number of pairs; 1 if nothing in the scenario is drawn.
    runs: int
    #: The margin in the unit of the metric.
    margin: float
    #: p of the two questions; NaN if unknown.
    p_margin: float
    p_zero: float
    #: True if the mean lies above minus the margin, or above zero, on the better side. A scheme
    #: that keeps a limit is not better than it.
    above_margin: bool
    above_zero: bool


@dataclass(frozen=True)
class Verdict:
    """The verdict about a number, with its adjusted p."""

    measured: Measured
    outcome: Outcome
    #: p of the question that decides, adjusted by Holm's method; `None` if unknown.
    p_holm: float | None


def measure(number: Number, candidate: Values, baseline: Values) -> Measured:
    """Compare the runs of a candidate with those of the baseline, pair by pair.

    `baseline` has the limit, if the number has one. A side with one value, such as a limit or a
    scenario in which nothing is drawn, is paired with each run of the other side.
    """
    runs = max(len(candidate), len(baseline))
    a, b = (np.broadcast_to(v, (runs,)) if len(v) == 1 else v for v in (candidate, baseline))
    mean, reference = mean_of(a), mean_of(b)
    if mean is None or reference is None or len(a) != len(b):
        return Measured(mean, reference, None, None, runs, 0.0, np.nan, np.nan, False, False)
    margin = number.margin * abs(reference) if number.margin_is_share else number.margin
    oriented = a - b if number.better == "higher" else b - a
    found = statistics.difference(a.tolist(), b.tolist())
    return Measured(
        mean,
        reference,
        found.mean,
        found.ci95,
        runs,
        margin,
        _p(oriented + margin),
        _p(oriented),
        statistics.mean(oriented.tolist()) + margin >= 0,
        number.limit is None and statistics.mean(oriented.tolist()) > 0,
    )


def mean_of(values: Values) -> float | None:
    """The mean; `None` without runs, or if a value is unknown."""
    if not len(values) or np.isnan(values).any():
        return None
    return statistics.mean(values.tolist())


def _p(values: Values) -> float:
    """Two-sided p of the hypothesis that the mean is zero.

    A single run decides if nothing is drawn: all further runs would be equal.
    """
    if len(values) == 1:
        return 0.0 if values[0] else 1.0
    column = values.reshape(-1, 1)
    return float(statistics.p_values(Moments(column).summary, len(column))[0])


def judge(measured: Sequence[Measured]) -> list[Verdict]:
    """The verdicts about all numbers of a card."""
    at_margin = _holm([m.p_margin for m in measured])
    at_zero = _holm([m.p_zero for m in measured])
    return [_verdict(m, p, q) for m, p, q in zip(measured, at_margin, at_zero, strict=True)]


def _holm(p: Sequence[float]) -> list[float]:
    column = np.array(p, dtype=float).reshape(-1, 1)
    return [float(x) for x in statistics.holm(column)[:, 0]]


def _verdict(m: Measured, at_margin: float, at_zero: float) -> Verdict:
    if at_zero < LEVEL and m.above_zero:
        return Verdict(m, "better", at_zero)
    if at_margin < LEVEL:
        return Verdict(m, "no worse" if m.above_margin else "worse", at_margin)
    # A scheme that equals the baseline in every run is no worse, with any margin.
    if m.difference == 0 and m.ci95 in (None, (0.0, 0.0)):
        return Verdict(m, "no worse", None)
    return Verdict(m, "undecided", statistics.number(at_margin))


__all__ = ["LEVEL", "OUTCOMES", "Measured", "Outcome", "Verdict", "judge", "measure"]
