"""Series measures of a run: ramp-up, convergence and overshoot, from the events of all flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lasthop._native import Run

    Rates = NDArray[np.float64]

#: Kinds of events that the measures need.
KINDS: Final = ("data_sent", "delivered", "enqueued")
#: Length of the intervals of ramp-up and overshoot, and of convergence, in seconds.
SHORT_S: Final = 0.1
LONG_S: Final = 1.0
#: Share of the capacity that ends the ramp-up.
CAPACITY_SHARE: Final = 0.9
#: Jain's index, and the number of consecutive intervals that have at least it.
FAIR, FAIR_INTERVALS = 0.9, 5


def of_run(
    kinds: Sequence[str], columns: Mapping[str, Any], result: Run
) -> dict[str, float | None]:
    """All of `metrics.SERIES_METRICS` of a run; `None` if unknown.

    `columns` has the events of `kinds`, which include `KINDS`, of all flows.
    """
    run, (capacity,) = result.to_dict(), result.metrics(["radio_capacity_bps"])
    code = {kind: list(kinds).index(kind) for kind in KINDS}
    t = np.asarray(columns["t_ns"]) * 1e-9
    event, flow = np.asarray(columns["event"]), np.asarray(columns["flow"])
    sent, delivered = event == code["data_sent"], event == code["delivered"]
    queued = (event == code["enqueued"]) & (columns["link"] == columns["data_radio"])
    starts = np.array([t[sent & (flow == f)].min(initial=np.inf) for f in range(len(run["flows"]))])
    end, everything = run["duration_s"], np.zeros(len(t), dtype=np.int64)
    value, length = np.asarray(columns["value"]), np.asarray(columns["len"])
    goodput = _rates(t[delivered], everything[delivered], value[delivered], 1, end, SHORT_S)[0]
    sending = _rates(t[sent], everything[sent], length[sent], 1, end, SHORT_S)[0]
    bulk = [i for i, f in enumerate(run["flows"]) if f["app"] == "bulk"]
    by_flow = _rates(t[delivered], flow[delivered], value[delivered], len(starts), end, LONG_S)
    return {
        "time_to_90_s": _time_to_capacity(goodput, float(starts.min(initial=np.inf)), capacity),
        "convergence_s": _convergence(by_flow[bulk], starts[bulk]),
        "rate_overshoot": max(0.0, float(sending.max()) / capacity - 1)
        if capacity and len(sending)
        else None,
        "queue_peak_frames": float(np.asarray(columns["value"])[queued].max())
        if queued.any()
        else None,
    }


def _rates(t: Any, row: Any, size: Any, rows: int, end: float, interval: float) -> Rates:
    """Rates in bit/s: a row per flow and a column per whole interval of the run."""
    columns = int(end / interval + 1e-9)
    place = np.floor(t / interval + 1e-9).astype(np.int64)
    inside = place < columns
    flat = np.bincount(
        row[inside] * columns + place[inside], weights=size[inside], minlength=rows * columns
    )
    found: Rates = flat.reshape(rows, columns) * 8 / interval
    return found


def _time_to_capacity(goodput: Rates, start: float, capacity: float | None) -> float | None:
    """From the start of the first flow to the end of the first interval with 90 % of capacity."""
    if not capacity or not np.isfinite(start):
        return None
    full = np.flatnonzero(goodput >= CAPACITY_SHARE * capacity)
    return max(0.0, (int(full[0]) + 1) * SHORT_S - start) if len(full) else None


def _convergence(goodput: Rates, starts: Rates) -> float | None:
    """From the start of the last bulk flow to the first interval of a fair period.

    Unknown with fewer than two bulk flows, and if no period is fair.
    """
    if len(starts) < 2 or not np.isfinite(starts).all():
        return None
    squares = (goodput**2).sum(axis=0) * len(goodput)
    jain = np.divide(
        goodput.sum(axis=0) ** 2, squares, out=np.zeros(len(squares)), where=squares > 0
    )
    last = float(starts.max())
    fair = (jain >= FAIR) & (np.arange(len(jain)) * LONG_S >= last)
    if len(fair) < FAIR_INTERVALS:
        return None
    runs = np.convolve(fair, np.ones(FAIR_INTERVALS, dtype=int), mode="valid")
    first = np.flatnonzero(runs == FAIR_INTERVALS)
    return int(first[0]) * LONG_S - last if len(first) else None


__all__ = ["KINDS", "of_run"]
