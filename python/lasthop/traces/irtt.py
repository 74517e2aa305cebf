"""What irtt writes with -o: isochronous round trips, each with its times and losses.

The fields are those of the manual page irtt-client(1), section OUTPUT: `round_trips` has an object
per packet with `seqno`, `lost` ("false", "true", "true_up", "true_down"), `timestamps` and `delay`
in nanoseconds; `config.params.interval` is the time between two packets.
"""

from __future__ import annotations

from math import isnan, nan
from typing import Any

from lasthop.errors import InputError
from lasthop.traces import json_text
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import ROUND_TRIP, Measurement, Rows

NAME = "irtt JSON"


def matches(head: str) -> bool:
    """True if the text begins like the output of irtt."""
    return head.lstrip().startswith("{") and '"irtt"' in head and '"version"' in head


def read(source: Source, _: ReadOptions) -> Measurement:
    """One row per packet. Raises `InputError` without round trips."""
    document = json_text.document(source)
    interval = json_text.number(json_text.table(document, "config", "params").get("interval")) / 1e9
    trips = json_text.array(document, "round_trips")
    if not trips:
        raise InputError(
            f"{source.name}: the output of irtt has no round_trips: no packet was sent, or the file"
            " has only the statistics"
        )
    rows = Rows("packet")
    ways = {"true_up": 0, "true_down": 0}
    wall, clock = _start(trips)
    for place, trip in enumerate(trips):
        time = _sent(trip, wall) if wall is not None else place * interval
        if isnan(time):
            rows.skip(place + 1, "no time at which it was sent")
            continue
        lost = str(trip.get("lost")).lower() if isinstance(trip, dict) else ""
        rtt = json_text.number(json_text.table(trip, "delay").get("rtt")) / 1e9
        if lost in ways:
            ways[lost] += 1
        is_lost = lost.startswith("true")
        if not is_lost and not rtt > 0:
            rows.skip(place + 1, "neither lost nor with a round-trip time")
            continue
        span = interval if interval > 0 else 1.0
        rows.add(time, span, ROUND_TRIP, rtt_s=nan if is_lost else rtt, sent=1, lost=is_lost)
    if not len(rows):
        raise InputError(f"{source.name}: no packet of irtt can be used")
    notes = []
    if any(ways.values()):
        notes.append(
            f"irtt says where packets were lost: {ways['true_up']} on the way to the server,"
            f" {ways['true_down']} on the way back; the loss is that of both."
        )
    zero = None if wall is None else wall / 1e9
    return rows.measurement(NAME, source.name, clock, notes=notes, zero_s=zero)


def _wall(trip: Any) -> int | None:
    """The time of day at which a packet was sent, nanoseconds."""
    found = json_text.table(trip, "timestamps", "client", "send").get("wall")
    return found if isinstance(found, int) else None


def _start(trips: list[Any]) -> tuple[int | None, str]:
    """The first time of day, if packets have one, and how exact the times are."""
    first = next((w for trip in trips if (w := _wall(trip)) is not None), None)
    if first is None:
        return None, "number of the packet × interval of the test"
    return first, "time of day at which each packet was sent"


def _sent(trip: Any, first: int) -> float:
    """When a packet was sent, seconds after `first`; NaN without a time."""
    wall = _wall(trip)
    return nan if wall is None else (wall - first) / 1e9


__all__ = ["NAME", "matches", "read"]
