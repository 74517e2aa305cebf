"""History of a Starlink terminal: what `grpcurl … get_history` prints, one value per second.

The reader of starlink-grpc-tools (`starlink_json.py`) documents the object `dishGetHistory`: its
arrays are ring buffers of one value per second, `current` counts the values so far, and the next
one overwrites the place `current` modulo their length. `popPingDropRate` is a share,
`popPingLatencyMs` has no meaning where all pings were lost. The CSV tables of the same tools
(`pop_ping_latency_ms`) are read as tables.
"""

from __future__ import annotations

from math import isnan, nan

from lasthop.errors import InputError
from lasthop.traces import json_text
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, ROUND_TRIP, UP, Measurement, Rows

NAME = "Starlink history"

_RATES = (("downlinkThroughputBps", DOWN), ("uplinkThroughputBps", UP))
_LATENCY, _DROP = "popPingLatencyMs", "popPingDropRate"
# Pings of one value; the terminal sends several per second and reports the share of the lost ones.
_PINGS = 1.0


def matches(head: str) -> bool:
    """True if the text begins like the answer to get_history."""
    text = head.lstrip()
    return text.startswith("{") and ('"dishGetHistory"' in text or f'"{_DROP}"' in text)


def read(source: Source, _: ReadOptions) -> Measurement:
    """The values from the oldest to the newest. Raises `InputError` without any."""
    document = json_text.document(source)
    history = json_text.table(document, "dishGetHistory") or document
    columns = {name: json_text.array(history, name) for name in (*dict(_RATES), _LATENCY, _DROP)}
    length = max(map(len, columns.values()))
    current = _count(history.get("current"))
    if not length:
        raise InputError(f"{source.name}: the history has no values")
    if current is None:
        raise InputError(
            f"{source.name}: the history lacks `current`, which says where its ring buffers begin"
        )
    short = [name for name, values in columns.items() if values and len(values) != length]
    if short:
        raise InputError(f"{source.name}: `{short[0]}` is not as long as the other arrays")
    samples = min(length, current)
    rows = Rows("value")
    for second in range(samples):
        place = (current - samples + second) % length
        _add(rows, columns, place, float(second))
    if not len(rows):
        raise InputError(f"{source.name}: no value of the history can be used")
    note = "Rates are those of the terminal's traffic, not the capacity of the link."
    return rows.measurement(NAME, source.name, "one value per second", notes=[note])


def _add(rows: Rows, columns: dict[str, list[object]], place: int, second: float) -> None:
    values = {
        name: json_text.number(column[place]) if column else nan for name, column in columns.items()
    }
    if all(isnan(v) for v in values.values()):
        rows.skip(place + 1, "no value")
        return
    if any(v < 0 for v in values.values()) or values[_DROP] > 1:
        rows.skip(place + 1, "a value is out of its range")
        return
    for name, direction in _RATES:
        if not isnan(values[name]):
            rows.add(second, 1.0, direction, size=values[name] / 8)
    drop = values[_DROP]
    rtt = values[_LATENCY] / 1000 if not drop >= 1 and values[_LATENCY] > 0 else nan
    counted = {} if isnan(drop) else {"sent": _PINGS, "lost": drop}
    if counted or not isnan(rtt):
        rows.add(second, 1.0, ROUND_TRIP, rtt_s=rtt, **counted)


def _count(value: object) -> int | None:
    # grpcurl prints 64-bit numbers as text.
    try:
        found = int(str(value))
    except ValueError:
        return None
    return found if found > 0 else None


__all__ = ["NAME", "matches", "read"]
