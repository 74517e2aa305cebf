"""Data files of Flent (`.flent.gz`): rates of its transfers and its pings.

From Flent's page "The Data File Format" (doc/data-format.rst) and its resultset.py: `x_values` are
seconds from `metadata.T0`, `results` has an array per series with null for missing values, and
`raw_values` the measured points of a series, `t` being Unix time. Its tests name their series
"TCP upload BE", "TCP download sum", "Ping (ms) ICMP"; series "… avg", "… sum" and "TCP totals" are
computed from others, and "…::tcp_rtt" are statistics of a series. `SERIES_META` has the units,
which are Mbits/s for transfers in all tests.
"""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from math import isnan, nan
from typing import Any

import numpy as np

from lasthop.errors import InputError
from lasthop.traces import json_text, units
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, ROUND_TRIP, UP, Floats, Measurement, Rows

NAME = "Flent data"

_TRANSFER = re.compile(r"(?:TCP|UDP) (upload|download)\b(?!.* (?:avg|sum)$)(?!.*::\D)")
_PING = re.compile(r"Ping \(ms\)(?!.* avg$)(?!.*::)")
_UNIT = "Mbits/s"
_DIRECTIONS = {"upload": UP, "download": DOWN}
# A start without a time zone that is this far from all measured times is local time, seconds.
_APART_S = 60.0


def matches(head: str) -> bool:
    """True if the text begins like a data file of Flent."""
    keys = ('"metadata"', '"results"', '"raw_values"', '"x_values"', '"FLENT_VERSION"')
    return head.lstrip().startswith("{") and sum(key in head for key in keys) >= 2


def read(source: Source, options: ReadOptions) -> Measurement:
    """The sums of the transfers of each direction, and one series of pings."""
    document = json_text.document(source)
    times = np.array([json_text.number(x) for x in json_text.array(document, "x_values")])
    results = json_text.table(document, "results")
    if not len(times) or np.isnan(times).any() or not results:
        raise InputError(f"{source.name}: the file of Flent has no x_values or no results")
    rows = Rows("value")
    step = json_text.number(json_text.table(document, "metadata").get("STEP_SIZE"))
    if not step > 0:
        step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    for word, direction in _DIRECTIONS.items():
        total = _total(document, word, len(times), options, source.name)
        for time, rate in zip(times.tolist(), total.tolist(), strict=True):
            if not isnan(rate):
                rows.add(time, step, direction, size=rate * step)
    notes = [*_add_pings(rows, document, times, step)]
    if not len(rows):
        raise InputError(
            f"{source.name}: no series is a transfer or a ping; the file has"
            f" {', '.join(f'`{name}`' for name in list(results)[:12])}"
        )
    clock = "times of Flent, values at equal distances"
    return rows.measurement(NAME, source.name, clock, notes=notes, zero_s=_start(document))


def _total(
    document: dict[str, Any], word: str, count: int, options: ReadOptions, where: str
) -> Floats:
    """Bytes per second of all transfers in one direction; NaN where none has a value."""
    results = json_text.table(document, "results")
    found = []
    for name in results:
        match = _TRANSFER.match(name)
        if match is None or match[1] != word:
            continue
        unit = options.unit or json_text.table(document, "metadata", "SERIES_META", name).get(
            "UNITS", _UNIT
        )
        amount = units.amount(str(unit))
        if not amount.is_rate:
            raise InputError(f"{where}: `{name}` has the unit `{unit}`, which is no rate")
        values = [json_text.number(v) for v in json_text.array(results, name)[:count]]
        values += [nan] * (count - len(values))
        found.append(np.array(values) * amount.factor)
    if not found:
        return np.full(count, nan)
    every = np.array(found)
    return np.where(np.isnan(every).all(axis=0), nan, np.nansum(every, axis=0))


def _add_pings(rows: Rows, document: dict[str, Any], times: Floats, step: float) -> list[str]:
    """Add one series of pings, ICMP if there is one; returns notes."""
    results = json_text.table(document, "results")
    names = [name for name in results if _PING.match(name)]
    if not names:
        return []
    name = next((n for n in names if "ICMP" in n), names[0])
    note = [f"Of the pings, `{name}` is read."] if len(names) > 1 else []
    raw = list(json_text.array(json_text.table(document, "raw_values"), name))
    start = _start(document)
    if not raw or start is None:
        for place, value in enumerate(json_text.array(results, name)[: len(times)]):
            if (rtt := json_text.number(value)) > 0:
                rows.add(float(times[place]), step, ROUND_TRIP, rtt_s=rtt / 1000)
        return note
    points = []
    for place, point in enumerate(raw):
        point = point if isinstance(point, dict) else {}
        time, rtt = json_text.number(point.get("t")), json_text.number(point.get("val"))
        if isnan(time) or not rtt > 0:
            rows.skip(place + 1, f"a point of `{name}` without time or value")
            continue
        points.append((time - start, rtt / 1000, json_text.number(point.get("seq"))))
    _add_points(rows, points)
    return note


def _add_points(rows: Rows, points: list[tuple[float, float, float]]) -> None:
    """Add pings with time, round-trip time and sequence number; missing numbers were lost."""
    if not points:
        return
    points.sort()
    times = [t for t, _, _ in points]
    usual = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    spans = np.minimum(np.diff(times, append=times[-1] + usual), 2 * usual)
    seen = sorted({s for _, _, s in points if not isnan(s)})
    counted = len(seen) == len(points)
    for (time, rtt, _), span in zip(points, spans.tolist(), strict=True):
        rows.add(
            time, span, ROUND_TRIP, rtt_s=rtt, **({"sent": 1.0, "lost": 0.0} if counted else {})
        )
    if not counted:
        return
    at = {number: time for time, _, number in points}
    for before, after in itertools.pairwise(seen):
        missing = int(after - before) - 1
        apart = (at[after] - at[before]) / (missing + 1)
        for i in range(1, missing + 1):
            rows.add(at[before] + i * apart, usual, ROUND_TRIP, sent=1.0, lost=1.0)


def _start(document: dict[str, Any]) -> float | None:
    """Unix time of the zero of `x_values`: that of the file, which may be local time, or that of
    the first measured value.
    """
    metadata = json_text.table(document, "metadata")
    raw = json_text.table(document, "raw_values")
    points = (p for name in raw for p in json_text.array(raw, name)[:1] if isinstance(p, dict))
    times = [t for p in points if not isnan(t := json_text.number(p.get("t")))]
    first = min(times, default=None)
    try:
        found = datetime.fromisoformat(str(metadata.get("T0") or metadata.get("TIME")))
    except ValueError:
        return first
    start = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if first is None or found.tzinfo or abs(first - start) < _APART_S:
        return start
    return first


__all__ = ["NAME", "matches", "read"]
