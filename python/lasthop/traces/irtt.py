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
    first: float | None = None
    for place, trip in enumerate(trips):
        time, clock = _sent(trip, interval, place)
        if isnan(time):
            rows.skip(place + 1, "no time at which it was sent")
            continue
        first = time if first is None else first
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
    return rows.measurement(
        NAME, source.name, clock, notes=notes, zero_s=0.0 if first and first > 1e9 else None
    )


def _sent(trip: Any, interval: float, place: int) -> tuple[float, str]:
    """When a packet was sent, seconds, and by which clock."""
    send = json_text.table(trip, "timestamps", "client", "send")
    wall = json_text.number(send.get("wall"))
    if not isnan(wall):
        return wall / 1e9, "time of day at which each packet was sent"
    return place * interval, "number of the packet × interval of the test"


__all__ = ["NAME", "matches", "read"]
