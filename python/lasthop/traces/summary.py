"""What a measurement says in a few numbers, and its course by the second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lasthop.traces.table import DIRECTIONS, Floats, Measurement

# A row is followed by a gap if the next one begins later than this share of its length.
_GAP = 0.5


@dataclass(frozen=True)
class Gaps:
    """Times between rows at which nothing was measured."""

    count: int
    total_s: float


def gaps(rows: Measurement) -> Gaps:
    """The gaps between rows of one direction."""
    pauses = rows.time_s[1:] - (rows.time_s + rows.span_s)[:-1]
    pauses = pauses[pauses > _GAP * rows.span_s[:-1]]
    return Gaps(len(pauses), float(pauses.sum()))


def mean_rate_bps(rows: Measurement) -> float | None:
    """Bits per second of the time that the rows cover; `None` without rows."""
    span = float(rows.span_s.sum())
    return 8 * float(rows.bytes.sum()) / span if span > 0 else None


def loss(found: Measurement) -> float | None:
    """Share of the packets that were lost; `None` if packets were not counted."""
    counted = ~np.isnan(found.lost) & ~np.isnan(found.sent)
    sent = float(found.sent[counted].sum())
    return float(found.lost[counted].sum()) / sent if sent > 0 else None


def rtt(found: Measurement) -> dict[str, float] | None:
    """Minimum, median and 95th percentile of the round-trip times, seconds."""
    return _quantiles(found.rtt_s)


def _quantiles(times: Floats) -> dict[str, float] | None:
    times = times[~np.isnan(times)]
    if not len(times):
        return None
    median, p95 = np.percentile(times, [50, 95])
    return {"minimum": float(times.min()), "median": float(median), "p95": float(p95)}


def document(found: Measurement) -> dict[str, Any]:
    """The keys of `lasthop trace info --json`."""
    rates = {name: found.rates(i) for i, name in enumerate(DIRECTIONS)}
    end = found.time_s + found.span_s
    paused = {name: gaps(rows) for name, rows in rates.items()}
    return {
        "format": found.format,
        "duration_s": float(end.max()) if len(end) else 0.0,
        "rows": len(found.time_s),
        "mean_rate_bps": {name: mean_rate_bps(rows) for name, rows in rates.items()},
        "gaps": {name: {"count": g.count, "total_s": g.total_s} for name, g in paused.items()},
        "rtt_s": rtt(found),
        "delay_s": {
            name: _quantiles(found.delay_s[found.direction == i])
            for i, name in enumerate(DIRECTIONS)
        },
        "loss": loss(found),
        "skipped": sum(s.rows for s in found.skipped),
        "skipped_rows": [
            {"reason": s.reason, "rows": s.rows, "lines": s.lines} for s in found.skipped
        ],
        "sources": [
            {"file": file, "clock": clock}
            for file, clock in zip(found.sources, found.clocks, strict=True)
        ],
        "notes": list(found.notes),
    }


def rate_by_interval(rows: Measurement, edges_s: Floats) -> tuple[Floats, Floats]:
    """Bits per second between consecutive edges, and the seconds that the rows measured there.

    NaN where nothing was measured.
    """
    if not len(rows.time_s):
        empty = np.full(len(edges_s) - 1, np.nan)
        return empty, np.zeros(len(edges_s) - 1)
    ends = rows.time_s + rows.span_s
    # Rows that overlap because of rounding would make the time go back.
    places = np.maximum.accumulate(np.ravel(np.column_stack([rows.time_s, ends])))
    sizes = np.repeat(np.cumsum(rows.bytes), 2)
    spans = np.repeat(np.cumsum(rows.span_s), 2)
    sizes[::2] -= rows.bytes
    spans[::2] -= rows.span_s
    size = np.diff(np.interp(edges_s, places, sizes, left=0.0))
    span = np.diff(np.interp(edges_s, places, spans, left=0.0))
    measured = span > 1e-9
    return np.where(measured, 8 * size / np.where(measured, span, 1.0), np.nan), span
