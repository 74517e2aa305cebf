"""Base delay and light workload of CellReplay.

From the README of williamsentosa95/cellreplay, its record/trace-processor and cellular_queue.cc: a
line is `time delay 0 t1 t2 …`: time of a train of packets and one-way base delay in milliseconds,
then the times at which the packets of the train arrived, in milliseconds after the first one. A
packet has 1400 bytes. The file of the heavy workload is a mahimahi trace.
"""

from __future__ import annotations

import itertools
from math import nan

from lasthop.errors import InputError
from lasthop.traces.mahimahi import direction_of, whole_numbers
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import ROUND_TRIP, Measurement, Rows

NAME = "CellReplay light trace"

# Bytes of a packet of a train.
_PACKET = 1400


def matches(head: str) -> bool:
    """True if each line has a time, a delay and a train that begins with 0."""
    lines = head.splitlines()[:-1] or [head]
    rows = [whole_numbers(line) for line in lines[:500] if line.strip()]
    return bool(rows) and all(r is not None and len(r) >= 3 and r[2] == 0 for r in rows)


def read(source: Source, _: ReadOptions) -> Measurement:
    """One row per train: its rate, and twice the base delay as round-trip time."""
    rows = Rows()
    trains: list[tuple[int, int, list[int]]] = []
    for number, line in source.lines():
        found = whole_numbers(line)
        if not line.strip():
            continue
        if found is None or len(found) < 3 or found[2] != 0 or found[2:] != sorted(found[2:]):
            rows.skip(number, "not a time, a delay and a train of packets")
        elif trains and found[0] <= trains[-1][0]:
            rows.skip(number, "its time is not after the one before")
        else:
            trains.append((found[0], found[1], found[2:]))
    if not trains:
        raise InputError(f"{source.name}: no line is a time, a delay and a train of packets")
    direction = direction_of(source.name)
    steps = [b[0] - a[0] for a, b in itertools.pairwise(trains)]
    steps.append(steps[-1] if steps else 1)
    for (time, delay, train), step in zip(trains, steps, strict=True):
        span = max(train[-1], 1) / 1000
        rows.add(time / 1000, span, direction, size=float(len(train) * _PACKET))
        rows.add(time / 1000, step / 1000, ROUND_TRIP, rtt_s=2 * delay / 1000 or nan)
    notes = [
        "Rates are those of short trains of packets (the light workload); the heavy trace has"
        " the capacity of the link.",
        "Round-trip times are twice the one-way base delay.",
    ]
    return rows.measurement(NAME, source.name, "milliseconds", notes=notes)


__all__ = ["NAME", "matches", "read"]
