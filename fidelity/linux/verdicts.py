"""Real beside simulated times of a cell: ratios with their intervals, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lasthop.analysis import statistics

#: Largest deviation of a ratio from 1 that counts as agreement: of the goodput and of response
#: times, and of percentiles of the completion time.
MARGIN = 0.05
MARGINS = {0.5: 0.02, 0.95: 0.10, 0.99: 0.10}
#: Seconds that the real programs need, and that a busy machine delays them: a smaller difference
#: of a percentile counts as none.
RESOLUTION_S = 0.001
#: Fewest pairs for an interval.
FEWEST = 3
#: Fewest pairs for the percentiles beyond the median.
MANY = 100
AGREES, UNDECIDED, DIFFERS = "agrees", "undecided", "differs"
#: Verdicts from the best to the worst.
ORDER = (AGREES, UNDECIDED, DIFFERS)


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval, and the margin within which it agrees."""

    what: str
    #: The real and the simulated value, seconds.
    real: float
    simulated: float
    value: float
    interval: tuple[float, float]
    margin: float

    @property
    def verdict(self) -> str:
        """Whether the interval lies within the margin, outside, or across its bounds."""
        low, high = self.interval
        if 1 - self.margin <= low and high <= 1 + self.margin:
            return AGREES
        return DIFFERS if high < 1 - self.margin or low > 1 + self.margin else UNDECIDED


def verdict(ratios: Sequence[Ratio]) -> str:
    """The worst verdict."""
    return max((r.verdict for r in ratios), key=ORDER.index)


def of_goodput(real: Sequence[float], simulated: Sequence[float]) -> list[Ratio]:
    """The mean goodput real / simulated, from pairs (Fieller)."""
    found = statistics.ratio([1 / s for s in real], [1 / s for s in simulated])
    return [_of_means("goodput", real, simulated, found)]


def of_responses(
    real: Sequence[Sequence[float]], simulated: Sequence[Sequence[float]]
) -> list[Ratio]:
    """The mean response time simulated / real, from pairs of connections; without the first
    response, which has the handshake.
    """
    ours, theirs = ([statistics.mean(c[1:]) for c in world] for world in (simulated, real))
    return [_of_means("response time", theirs, ours, statistics.ratio(ours, theirs))]


def _of_means(
    what: str, real: Sequence[float], simulated: Sequence[float], found: statistics.Ratio
) -> Ratio:
    assert found.mean is not None, "there are pairs"
    means = statistics.mean(real), statistics.mean(simulated)
    # Fieller's interval is unbounded where the times scatter too widely.
    return Ratio(what, *means, found.mean, found.ci95 or (0.0, math.inf), MARGIN)


def of_percentiles(real: Sequence[float], simulated: Sequence[float]) -> list[Ratio]:
    """Percentiles of the completion time simulated / real; the intervals are those of a bootstrap
    of the pairs.
    """
    pairs = np.array([simulated, real], dtype=float)
    n = pairs.shape[1]
    counts = np.concatenate(list(statistics.resample_counts(pairs.T, range(n))))
    order = np.argsort(pairs, axis=1)
    sorted_pairs = np.take_along_axis(pairs, order, axis=1)
    below = [np.cumsum(counts[:, row], axis=1) for row in order]
    found = []
    for share, margin in MARGINS.items():
        if share > 0.5 and n < MANY:
            continue
        rank = statistics.quantile_rank(n, share)
        drawn = [
            row[(b >= rank).argmax(axis=1)] for row, b in zip(sorted_pairs, below, strict=True)
        ]
        ratios = np.sort(drawn[0] / drawn[1])
        ends = [statistics.quantile_rank(len(ratios), s) - 1 for s in (0.025, 0.975)]
        ours, theirs = (float(row[rank - 1]) for row in sorted_pairs)
        low, high = (float(ratios[end]) for end in ends)
        name = "median" if share == 0.5 else f"p{round(100 * share)}"
        margin = max(margin, RESOLUTION_S / theirs)
        found.append(Ratio(name, theirs, ours, ours / theirs, (low, high), margin))
    return found
