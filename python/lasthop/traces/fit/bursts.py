"""Bursts of losses: runs of packets, or of rows of packets, with losses in each."""

from __future__ import annotations

import numpy as np

from lasthop.traces.table import Floats


def burst_sizes(lost: Floats) -> Floats:
    """Losses of each run of values above 0, in order: of packets (1 if lost), or of rows."""
    before = np.cumsum(lost)
    starts = np.flatnonzero((lost > 0) & (np.append(0.0, lost[:-1]) == 0))
    if not len(starts):
        return np.zeros(0)
    sizes: Floats = np.diff(np.append(before[starts] - lost[starts], before[-1]))
    return sizes


def clustering(sizes: Floats) -> float:
    """Variance of the number of losses over that of independent ones (Kish's design effect).

    Bursts that begin independently have that of a compound Poisson process: mean square / mean of
    the losses of a burst. 1 without bursts, and at least 1.
    """
    return max(1.0, float((sizes**2).sum() / sizes.sum())) if len(sizes) else 1.0


__all__ = ["burst_sizes", "clustering"]
