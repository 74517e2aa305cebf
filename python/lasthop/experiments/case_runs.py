"""The finished runs of one case of a sweep: its seeds, and a matrix of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


class CaseRuns:
    """Runs are stored in blocks as they come, so that a run takes little more than its metrics.

    `first` is the smallest seed, `width` the number of metrics.
    """

    def __init__(self, first: int, width: int) -> None:
        self._first = first
        # One byte per seed from the first one: 1 if its run is finished.
        self._finished = bytearray()
        self._seeds: list[Ints] = [np.empty(0, dtype=np.int64)]
        self._values: list[Floats] = [np.empty((0, width))]

    def add(self, seeds: Sequence[int] | Ints, values: Floats) -> int:
        """Add runs, one row of metrics each; returns the number of those that are new."""
        at = np.asarray(seeds, dtype=np.int64) - self._first
        # The same run may be in several parts, with the same metrics.
        _, rows = np.unique(at, return_index=True)
        self._finished.extend(bytes(max(0, int(at.max(initial=-1)) + 1 - len(self._finished))))
        flags = np.frombuffer(self._finished, dtype=np.uint8)
        rows = rows[flags[at[rows]] == 0]
        flags[at[rows]] = 1
        if len(rows):
            self._seeds.append(at[rows] + self._first)
            self._values.append(np.ascontiguousarray(values[rows], dtype=float))
        return len(rows)

    def __contains__(self, seed: int) -> bool:
        at = seed - self._first
        return 0 <= at < len(self._finished) and self._finished[at] != 0

    def missing(self, seeds: range) -> list[int]:
        """Those of some seeds, none below the first one, whose runs are not finished."""
        wanted = np.arange(seeds.start, seeds.stop, seeds.step)
        flags = np.frombuffer(self._finished, dtype=np.uint8)
        found = np.ones(len(wanted), dtype=bool)
        known = wanted - self._first < len(flags)
        found[known] = flags[wanted[known] - self._first] == 0
        missing: list[int] = wanted[found].tolist()
        return missing

    def ordered(self) -> tuple[Ints, Floats]:
        """The seeds in order, and the metrics of each."""
        if len(self._seeds) > 1:
            seeds, values = np.concatenate(self._seeds), np.concatenate(self._values)
            order = np.argsort(seeds)
            if (np.diff(order) != 1).any():
                values = values[order]
            self._seeds, self._values = [seeds[order]], [values]
        return self._seeds[0], self._values[0]


__all__ = ["CaseRuns"]
