"""Delays of LeoReplayer, if `--file-format leoreplayer-delay` says so.

From SpaceNetLab/LeoCC, traces/README.md: line i of `delay_*.txt` is the one-way delay in whole
milliseconds of the i-th interval of 10 ms. `bw_*.txt` is a mahimahi trace.
"""

from __future__ import annotations

from lasthop.errors import InputError
from lasthop.traces.mahimahi import whole_numbers
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import ROUND_TRIP, Measurement, Rows

NAME = "LeoReplayer delay trace"

_INTERVAL_S = 0.01


def matches(_: str) -> bool:
    """False: whole numbers without names may be anything."""
    return False


def read(source: Source, options: ReadOptions) -> Measurement:
    """One row per interval, twice the delay as round-trip time."""
    rows = Rows()
    step = _INTERVAL_S if options.interval_s is None else options.interval_s
    for number, line in source.lines():
        found = whole_numbers(line)
        if not line.strip():
            continue
        if found is None or len(found) != 1 or found[0] == 0:
            rows.skip(number, "not a delay in whole milliseconds")
            continue
        rows.add((number - 1) * step, step, ROUND_TRIP, rtt_s=2 * found[0] / 1000)
    if not len(rows):
        raise InputError(f"{source.name}: no line is a delay in whole milliseconds")
    notes = ["Round-trip times are twice the one-way delay."]
    clock = f"line × {1000 * step:g} ms"
    return rows.measurement(NAME, source.name, clock, notes=notes)


__all__ = ["NAME", "matches", "read"]
