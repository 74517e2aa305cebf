"""Jumps of the base RTT at equal distances, such as those of Starlink every 15 s."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop.traces.fit.observed import Observed
from lasthop.traces.table import Floats

# Periods that are tried, seconds, and slots that must have been measured.
_PERIODS_S = np.arange(5.0, 61.0, 1.0)
_SLOTS = 4
# Shuffles of the test, and the p below which a period is accepted.
_SHUFFLES, _ACCEPTED_P = 999, 0.01
# Jumps smaller than this do not matter for TCP, seconds.
_SMALLEST_S = 0.001
# Share of the windows that may be busy: a queue hides the base.
_BUSY = 0.3


@dataclass(frozen=True)
class Jumps:
    """Whether the base RTT jumps at equal distances."""

    #: `None` without such jumps.
    period_s: float | None
    #: Starts of the slots and the base RTT in each, seconds.
    starts_s: Floats
    bases_s: Floats
    p: float | None
    #: In words: what was found, or why the data do not tell.
    text: str


_NONE = np.empty(0)


def find(seen: Observed, busy_share: float, seed: int = 1) -> Jumps:
    """Search a period at whose multiples the smallest RTT of a second jumps.

    The statistic is the mean step of the floor at the slot borders less that elsewhere, in
    standard errors, at its best over all periods and phases. Its p is the share of permutations of
    the steps with a value at least as large (a permutation test, so that the search over periods
    is part of it).
    """
    starts, floors = seen.floors()
    if busy_share > _BUSY:
        text = "cannot tell: the measurement's own traffic kept a queue (measure an idle ping)"
        return Jumps(None, _NONE, _NONE, None, text)
    if not len(starts) or starts[-1] - starts[0] < _SLOTS * _PERIODS_S[0]:
        return Jumps(None, _NONE, _NONE, None, "cannot tell: less than 20 s of round-trip times")
    follows = np.diff(starts) < 1.5
    times, steps = starts[1:][follows], np.abs(np.diff(floors))[follows]
    duration = float(starts[-1] - starts[0])
    borders = [
        np.round(times - phase) % period == 0
        for period in _PERIODS_S[duration >= _PERIODS_S * _SLOTS]
        for phase in np.arange(period)
    ]
    keys = [
        (float(period), float(phase))
        for period in _PERIODS_S[duration >= _PERIODS_S * _SLOTS]
        for phase in np.arange(period)
    ]
    marks = np.array(borders, dtype=float)
    usable = (marks.sum(axis=1) >= _SLOTS - 1) & (steps.std() > 0)
    if not usable.any():
        return Jumps(None, _NONE, _NONE, None, "none: the base RTT is constant")
    marks, counts = marks[usable], marks[usable].sum(axis=1)
    keys = [k for k, u in zip(keys, usable, strict=True) if u]
    # Large single steps (a lost second) must not decide.
    score = np.argsort(np.argsort(steps)).astype(float)
    spread = score.std() / np.sqrt(counts)
    found = (marks @ score / counts - score.mean()) / spread
    best = int(found.argmax())
    rng = np.random.default_rng(seed)
    hits = sum(
        float(((marks @ rng.permutation(score) / counts - score.mean()) / spread).max())
        >= found[best]
        for _ in range(_SHUFFLES)
    )
    p = (hits + 1) / (_SHUFFLES + 1)
    period, phase = keys[best]
    size = float(np.median(steps[marks[best] > 0]))
    if p > _ACCEPTED_P or size < _SMALLEST_S:
        return Jumps(None, _NONE, _NONE, p, f"none found (p = {p:.2g}, permutation test)")
    edges = np.arange(phase - period * np.ceil((phase - starts[0]) / period), duration, period)
    slots = [(t, floors[(starts >= t) & (starts < t + period)]) for t in edges]
    slots = [(t, f) for t, f in slots if len(f)]
    return Jumps(
        period,
        np.array([max(t, 0.0) for t, _ in slots]),
        np.array([float(np.percentile(f, 10)) for _, f in slots]),
        p,
        f"every {period:g} s, median {1000 * size:.1f} ms (p = {p:.2g}, permutation test)",
    )


__all__ = ["Jumps", "find"]
