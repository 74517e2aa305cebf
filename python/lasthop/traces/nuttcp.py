"""What nuttcp prints with an interval (-i): the size and time of each interval, TCP or UDP.

A line is `1.0000 MB / 0.50 sec = 16.7749 Mbps`, then for UDP `12 / 6109 ~drop/pkt` (nuttcp(8)). A
megabyte has 2^20 bytes. The lines of `nuttcp-t` and `nuttcp-r` say which end sends.
"""

from __future__ import annotations

import re

from lasthop.errors import InputError
from lasthop.traces import stamps
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, UP, Measurement, Rows

NAME = "nuttcp text"

_INTERVAL = re.compile(r"^\s*(\d+\.\d+) MB /\s*(\d+\.\d+) sec =\s*\d+\.\d+ Mbps(.*)$")
_DROPPED = re.compile(r"(-?\d+) /\s*(\d+) ~?drop/pkt")
_CONNECTED = re.compile(r"^nuttcp-([tr]):.* connect to ")
_BYTES = float(1 << 20)


def matches(head: str) -> bool:
    """True if a line is an interval of nuttcp."""
    return any(_INTERVAL.match(stamps.split(line)[1]) for line in head.splitlines()[:200])


def read(source: Source, _: ReadOptions) -> Measurement:
    """One row per interval. Raises `InputError` if none can be used."""
    rows = Rows()
    direction: int | None = None
    at = 0.0
    for number, whole in source.lines():
        line = stamps.split(whole)[1]
        if direction is None and (found := _CONNECTED.match(line)) is not None:
            direction = UP if found[1] == "t" else DOWN
        if (found := _INTERVAL.match(line)) is None:
            continue
        span = float(found[2])
        if span <= 0:
            rows.skip(number, "an interval of no length")
            continue
        counts = {}
        if (dropped := _DROPPED.search(found[3])) is not None:
            # Packets that were late count as negative drops in a later interval.
            counts = {"sent": float(dropped[2]), "lost": max(float(dropped[1]), 0.0)}
        size = float(found[1]) * _BYTES
        rows.add(at, span, DOWN if direction is None else direction, size=size, **counts)
        at += span
    if not len(rows):
        raise InputError(f"{source.name}: no interval of nuttcp can be used")
    note = "The text does not say who sent; the rates are taken as the downlink (--swap)."
    notes = [note] if direction is None else []
    return rows.measurement(NAME, source.name, "intervals of nuttcp", notes=notes)


__all__ = ["NAME", "matches", "read"]
