"""Fewer points for a page, without losing extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]


def extremes(t: Floats, v: Floats, bins: int) -> NDArray[np.int64]:
    """Indices of the first, smallest, largest and last point of each of `bins` equal spans of time.

    Lines through these points cover the same pixels as lines through all points, if a bin is at
    most a pixel wide (M4: Jugel, Jerzak, Hackenbroich, Markl, VLDB 2014). All points if there are
    at most `4 * bins`. `t` must be sorted.
    """
    if len(t) <= 4 * bins:
        return np.arange(len(t))
    span = float(t[-1] - t[0]) or 1.0
    place = np.minimum(((t - t[0]) / span * bins).astype(np.int64), bins - 1)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    ends = np.append(starts[1:], len(t)) - 1
    by_value = np.lexsort((v, place))
    return np.unique(np.concatenate([starts, ends, by_value[starts], by_value[ends]]))


def pixels(t: Floats, v: Floats, bins: int, levels: int) -> NDArray[np.int64]:
    """Indices of one point in each occupied cell of a grid of `bins` times `levels`."""
    if len(t) <= bins:
        return np.arange(len(t))
    spans = (float(np.ptp(t)) or 1.0, float(np.ptp(v)) or 1.0)
    x = ((t - t.min()) / spans[0] * (bins - 1)).astype(np.int64)
    y = ((v - v.min()) / spans[1] * (levels - 1)).astype(np.int64)
    _, first = np.unique(x * levels + y, return_index=True)
    return np.sort(first)


__all__ = ["extremes", "pixels"]
