"""Bytes, packets and losses of both directions of a capture, in intervals of equal length."""

from __future__ import annotations

import numpy as np

from lasthop.traces.packets import Flags
from lasthop.traces.table import DOWN, UP, Floats, Integers, Rows

#: Length of the intervals in which bytes are counted, ns.
SHORTEST_NS = 1_000_000
# They become ten times as long while there are more of them than this.
_MOST = 500_000


class Intervals:
    """Bytes, segments and losses of both directions in intervals of equal length."""

    def __init__(self, origin_ns: int) -> None:
        self.length_ns = SHORTEST_NS
        self._origin_ns = origin_ns
        #: Key (interval and direction), bytes, segments, losses.
        self._parts: list[tuple[Integers, Floats]] = []
        self._count = 0

    def add(self, time_ns: Integers, up: Flags, columns: Floats) -> None:
        """Add packets; `columns` has a row each for bytes, segments and losses."""
        keys = (time_ns - self._origin_ns) // self.length_ns << 1 | up
        self._append(keys, columns)
        if self._count > _MOST:
            self._merge()
            while self._count > _MOST // 2:
                self.length_ns *= 10
                (keys, columns), self._parts, self._count = self._parts[0], [], 0
                self._append((keys >> 1) // 10 << 1 | keys & 1, columns)

    def _append(self, keys: Integers, columns: Floats) -> None:
        unique, inverse = np.unique(keys, return_inverse=True)
        sums = [np.bincount(inverse, weights=c, minlength=len(unique)) for c in columns]
        self._parts.append((unique, np.array(sums)))
        self._count += len(unique)

    def _merge(self) -> None:
        parts, self._parts, self._count = self._parts, [], 0
        self._append(np.concatenate([k for k, _ in parts]), np.hstack([c for _, c in parts]))

    def write(self, rows: Rows) -> None:
        """Add the rows of both directions, from the first to the last packet of the capture."""
        self._merge()
        keys, columns = self._parts[0]
        first, last = int(keys[0] >> 1), int(keys[-1] >> 1)
        for direction in (DOWN, UP):
            own = keys & 1 == (direction == UP)
            if not own.any():
                continue
            place = keys[own] >> 1
            # Empty intervals between two others are one row.
            starts = np.concatenate([[first], place + 1])
            ends = np.append(place, last + 1)
            empty = ends > starts
            begin = np.concatenate([place, starts[empty]])
            length = np.concatenate([np.ones(len(place)), (ends - starts)[empty]])
            zeros = np.zeros(int(empty.sum()))
            size, sent, lost = (np.concatenate([c, zeros]) for c in columns[:, own])
            unit = self.length_ns * 1e-9
            rows.add_all(begin * unit, length * unit, direction, size=size, sent=sent, lost=lost)


__all__ = ["SHORTEST_NS", "Intervals"]
