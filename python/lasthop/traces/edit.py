"""Parts of a measurement, and measurements of faster and slower links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lasthop.errors import InputError
from lasthop.traces import outputs, summary
from lasthop.traces.table import DIRECTIONS, DOWN, ROUND_TRIP, UP, Measurement


def cut(found: Measurement, start_s: float = 0.0, end_s: float | None = None) -> Measurement:
    """The part from `start_s` to `end_s`, seconds from the first row, gaps included.

    `start_s` becomes 0. An interval at a border is shortened, with its bytes and packets in
    proportion; a round trip belongs to the time at which it was sent. Raises `InputError` if
    nothing was measured there.
    """
    ends = found.time_s + found.span_s
    length = float(ends.max()) if len(ends) else 0.0
    end = length if end_s is None else end_s
    if end <= start_s:
        raise InputError(f"--to must be after --from, found {start_s:g} s to {end:g} s")
    first, last = np.maximum(found.time_s, start_s), np.minimum(ends, end)
    is_interval = (found.direction != ROUND_TRIP) & (found.span_s > 0)
    begins_inside = (found.time_s >= start_s) & (found.time_s < end)
    inside = np.where(is_interval, last > first, begins_inside)
    if not inside.any():
        raise InputError(
            f"{', '.join(found.sources)}: nothing was measured from {start_s:g} s to {end:g} s; the"
            f" measurement is {length:.6g} s long"
        )
    span = np.where(is_interval, last - first, found.span_s)
    whole = np.where(found.span_s > 0, found.span_s, 1.0)
    share = np.where(is_interval, span / whole, 1.0)
    kept = replace(
        found,
        time_s=np.where(is_interval, first, found.time_s) - start_s,
        span_s=span,
        **{name: getattr(found, name) * share for name in ("bytes", "sent", "lost")},
        epoch_s=None if found.epoch_s is None else found.epoch_s + start_s,
    )
    return kept.select(inside)


def scale_rate(found: Measurement, factor: float) -> Measurement:
    """All rates multiplied by `factor`; times, round-trip times and shares of loss are kept."""
    return replace(found, bytes=found.bytes * factor)


def scale_delay(found: Measurement, factor: float) -> Measurement:
    """All round-trip times and one-way delays multiplied by `factor`."""
    return replace(found, rtt_s=found.rtt_s * factor, delay_s=found.delay_s * factor)


def factor_to_rate(found: Measurement, mean_bps: float) -> float:
    """The factor by which the mean rate becomes `mean_bps`: of the downlink, or else the uplink.

    Raises `InputError` without a rate above 0.
    """
    for direction in (DOWN, UP):
        mean = summary.mean_rate_bps(found.rates(direction))
        if mean:
            return mean_bps / mean
    raise InputError(
        f"{', '.join(found.sources)}: no {DIRECTIONS[DOWN]}link or {DIRECTIONS[UP]}link rate above"
        " 0 was measured, so there is none to scale"
    )


def factor_to_delay(found: Measurement, mean_s: float) -> float:
    """The factor by which the mean delay of a delay trace becomes `mean_s`.

    A delay counts by the length of its row. Raises `InputError` without one above 0.
    """
    rows = outputs.delays(found, DOWN)
    weights = rows.span_s if (rows.span_s > 0).any() else None
    mean = float(np.average(rows.delay_s, weights=weights)) if len(rows.time_s) else 0.0
    if mean <= 0:
        raise InputError(
            f"{', '.join(found.sources)}: no round-trip time above 0 was measured, so there is no"
            " delay to scale"
        )
    return mean_s / mean


__all__ = ["cut", "factor_to_delay", "factor_to_rate", "scale_delay", "scale_rate"]
