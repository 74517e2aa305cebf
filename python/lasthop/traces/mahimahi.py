"""Mahimahi traces: the opportunities of a link to send 1500 bytes (docs/traces.md)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import PurePath

import numpy as np

from lasthop.errors import InputError
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, UP, Floats, Integers, Measurement, Rows

NAME = "mahimahi trace"
#: Bytes of an opportunity.
OPPORTUNITY = 1500
#: Opportunities that are computed and written at a time, for the sake of memory.
BLOCK = 100_000
#: Digits of a time in milliseconds that an integer of 64 bits holds.
MAX_DIGITS = 18
#: Most opportunities of a trace, as in the core.
MOST = 50_000_000


def matches(head: str) -> bool:
    """True if each line is a whole number, none below the one before."""
    lines = [line.strip() for line in head.splitlines()[:-1] or [head]]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines or not all(line.isascii() and line.isdigit() for line in lines):
        return False
    times = [int(line) for line in lines]
    return all(a <= b for a, b in pairwise(times))


def read(source: Source, _: ReadOptions) -> Measurement:
    """The milliseconds with opportunities, and the time between them, as rows.

    An opportunity at t ms drains what arrived in the millisecond before it.
    """
    rows = Rows()
    # An opportunity at 0 has no millisecond before it.
    add_moments(rows, np.maximum(_times(source), 1), direction_of(source.name), OPPORTUNITY)
    return rows.measurement(NAME, source.name, "milliseconds")


def direction_of(name: str) -> int:
    """The direction of a trace, which only its name says: `*.up` and `up*` are the uplink."""
    path = PurePath(name)
    return UP if path.suffix == ".up" or path.name.startswith("up") else DOWN


def whole_numbers(line: str) -> list[int] | None:
    """The whole numbers of a line, or `None` if it has something else."""
    words = line.split()
    if not all(w.isascii() and w.isdigit() and len(w) <= MAX_DIGITS for w in words):
        return None
    return [int(w) for w in words]


def add_moments(rows: Rows, moments: Integers, direction: int, size: int) -> None:
    """Add packets of `size` bytes that arrived in the milliseconds before these moments."""
    found, counts = np.unique(moments, return_counts=True)
    starts = np.append(0, found[:-1])
    idle = found - 1 > starts
    begin = np.concatenate([found - 1, starts[idle]]) / 1000
    span = np.concatenate([np.ones(len(found)), (found - 1 - starts)[idle]]) / 1000
    sizes = np.concatenate([counts * float(size), np.zeros(int(idle.sum()))])
    rows.add_all(begin, span, direction, size=sizes)


def _times(source: Source) -> Integers:
    times: list[int] = []
    for number, line in source.lines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
            raise InputError(
                f"{source.name}: line {number}: expected a time in whole milliseconds, found"
                f" `{text[:24]}`"
            )
        times.append(int(text))
        if len(times) > 1 and times[-1] < times[-2]:
            raise InputError(
                f"{source.name}: line {number}: times must not decrease, but {times[-1]} ms comes"
                f" after {times[-2]} ms"
            )
    if not times or not times[-1]:
        raise InputError(f"{source.name}: the trace has no length; its last time is its period")
    return np.array(times, dtype=np.int64)


def opportunities(span_s: Floats, size: Floats) -> Integers:
    """The times in ms of a trace whose consecutive intervals carry `size` bytes, spread evenly.

    The last opportunity is at the end, because the last time of a trace is its period. Raises
    `InputError` if there is nothing to carry or too much.
    """
    ends = np.cumsum(span_s) * 1000
    carried = np.cumsum(size)
    period = round(float(ends[-1])) if len(ends) else 0
    total = float(carried[-1]) if len(carried) else 0.0
    count = round(total / OPPORTUNITY)
    if period < 1 or count < 1:
        raise InputError(
            f"there is no trace to write: {total:.0f} bytes in {period} ms; a trace needs at least"
            " one packet of 1500 bytes and one millisecond"
        )
    if count > MOST:
        raise InputError(
            f"{count} opportunities in {period / 1000:.0f} s are more than 50 million, the limit"
            " for a trace"
        )
    edges, at = np.concatenate([[0.0], carried]), np.concatenate([[0.0], ends])
    times = np.empty(count, dtype=np.int64)
    for first in range(0, count, BLOCK):
        number = np.arange(first + 1, min(first + BLOCK, count) + 1)
        wanted = np.minimum(number * float(OPPORTUNITY), total)
        place = np.clip(np.searchsorted(edges, wanted, side="left"), 1, len(edges) - 1)
        low, high = edges[place - 1], edges[place]
        share = (wanted - low) / np.where(high > low, high - low, 1.0)
        exact = at[place - 1] + share * (at[place] - at[place - 1])
        times[first : first + BLOCK] = np.clip(np.ceil(exact - 1e-6), 1, period)
    times[-1] = period
    return times
