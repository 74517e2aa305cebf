"""Delay and loss traces of links (docs/traces.md), as `lasthop trace import` writes them."""

from __future__ import annotations

from math import isfinite

import numpy as np

from lasthop.errors import InputError
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, ROUND_TRIP, Measurement, Rows

NAME = "delay or loss trace"
#: First lines of the traces that are written, by which they are told.
DELAY_HEAD = "# milliseconds from the start, one-way delay in ms"
LOSS_HEAD = "# milliseconds from the start, probability that a frame is lost"


def matches(head: str) -> bool:
    """True if the text begins with the comment of a delay or a loss trace."""
    return head.startswith((DELAY_HEAD, LOSS_HEAD))


def read(source: Source, _: ReadOptions) -> Measurement:
    """One row per value, which holds until the next one; the last one as long as that before it."""
    is_delay = source.head.startswith(DELAY_HEAD)
    rows = Rows()
    times: list[float] = []
    values: list[float] = []
    for number, line in source.lines():
        if not line.strip() or line.startswith("#"):
            continue
        try:
            time, value = map(float, line.replace(",", " ").split())
        except ValueError:
            rows.skip(number, "not a time and a value")
            continue
        if not (isfinite(time) and 0 <= value <= (1e9 if is_delay else 1)):
            rows.skip(number, "a value is out of its range")
        elif times and time <= times[-1]:
            rows.skip(number, "its time is not after the one before")
        else:
            times.append(time)
            values.append(value)
    if not times:
        raise InputError(f"{source.name}: the trace has no value")
    spans = np.diff(times, append=2 * times[-1] - times[-2] if len(times) > 1 else times[-1] + 1000)
    for time, span, value in zip(times, spans.tolist(), values, strict=True):
        if is_delay:
            rows.add(time / 1000, span / 1000, ROUND_TRIP, rtt_s=2 * value / 1000)
        else:
            rows.add(time / 1000, span / 1000, DOWN, sent=1.0, lost=value)
    kind = "delay trace" if is_delay else "loss trace"
    notes = ["Round-trip times are twice the one-way delay."] if is_delay else []
    return rows.measurement(kind, source.name, "milliseconds", notes=notes)


__all__ = ["DELAY_HEAD", "LOSS_HEAD", "NAME", "matches", "read"]
