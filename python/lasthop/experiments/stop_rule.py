"""When a sweep has enough seeds: the stop rule `--until 'goodput ± 2 %'`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.errors import InputError

#: Seeds of the first round, and the default for the largest number of seeds.
FIRST_ROUND = 10
DEFAULT_MAX_SEEDS = 200


@dataclass(frozen=True)
class StopRule:
    """All 95 % intervals of a metric must have at most this half-width."""

    metric: str
    #: Half-width, in the unit of the metric, or as a share of the mean.
    half: float
    is_share: bool

    def factor(self, mean: float, half: float) -> float:
        """Half-width of an interval divided by the allowed one; infinite if that is 0."""
        allowed = self.half * abs(mean) if self.is_share else self.half
        return 0.0 if half == 0 else half / allowed if allowed else math.inf


def read(text: str, known: Sequence[str]) -> StopRule:
    """Read `METRIC ± X %` or `METRIC ± X UNIT`; raises `InputError`."""
    parts = re.split(r"\s*(?:±|\+/-|\+-)\s*", text.strip())
    if len(parts) != 2 or not all(parts):
        raise InputError(f"--until must be METRIC ± X, such as 'goodput ± 2 %', found `{text}`")
    metric = metrics.find(parts[0], known, "--until")
    quantity = quantities.quantity(parts[1])
    half = quantities.number(parts[1], "--until: the half-width") if quantity is None else None
    half = quantity.base if quantity is not None else half
    if half is None or half <= 0:
        raise InputError(f"--until: the half-width must be above 0, found `{parts[1]}`")
    return StopRule(metric, half, quantity is not None and quantity.unit == "%")


def next_round(rule: StopRule, runs: int, worst: float, most: int) -> int:
    """Seeds of the next round of a point, `runs` if the rule is satisfied.

    `worst` is the largest factor by which an interval is too wide. Intervals shrink with the square
    root of the number of runs; a round at most doubles that number. The decision depends only on
    finished rounds, so a resumed sweep makes the same ones.
    """
    if worst <= 1 or runs >= most:
        return runs
    return min(most, max(math.ceil(runs * 1.25), math.ceil(runs * min(worst**2, 2.0))))
