"""What iperf (version 2) and iperf3 print without `--json`, and logs of their rates alone.

A line of an interval has its start and end in seconds, the transfer and the rate, and for UDP the
jitter and lost/total datagrams (iperf's and iperf3's manual pages); `iperf -y C` separates them by
commas. With several connections, the
lines of `[SUM]` count; otherwise those of all connections are added up. A log of rates has a number
and a unit such as `0.57,Mbits/sec` per line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lasthop.errors import InputError
from lasthop.traces import stamps
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, UP, Measurement, Rows

NAME = "iperf text"

_UNIT = r"([KMGT]?)(bits|Bytes)/sec"
_INTERVAL = re.compile(
    r"^\[ *(SUM|\d+)\](?:\[(TX|RX)-[CS]\])?\s+(\d+\.\d+) *- *(\d+\.\d+)\s+sec\s+"
    rf"[\d.]+ [KMGT]?Bytes\s+([\d.]+) {_UNIT}(.*)$"
)
_RATE = re.compile(rf"^([\d.]+)[ ,;\t]+{_UNIT}\s*$")
# What `iperf3 --title` puts before each line.
_TITLE = re.compile(r"^[^\[\]]*:  (?=\[)")
# Time, both ends' addresses and ports, number of the connection, interval, bytes, bit/s; for UDP
# the jitter, and lost datagrams of all.
_COMMAS = re.compile(
    r"^\d{14}(?:\.\d+)?,[^,]*,\d*,[^,]*,\d*,(-?\d+),(\d+\.\d+)-(\d+\.\d+),\d+,(\d+)"
    r"(?:,[\d.]+,(\d+),(\d+))?"
)
_LOST = re.compile(r"(\d+)/ *(\d+) \(")
_PREFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# Lines at the start of a text of which one must be of an interval.
_LINES = 200


@dataclass
class _Interval:
    """The connections of an interval together; `counted` are datagrams and lost ones."""

    bits: float = 0.0
    counted: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class _Line:
    """A line of an interval; `datagrams` are those sent and lost."""

    name: str
    role: str
    start: float
    end: float
    bps: float
    #: A total, or an interval before the test (-O).
    is_left_out: bool
    datagrams: tuple[int, int] | None


def _bare(line: str) -> str:
    """A line without the title and the time before it."""
    return _TITLE.sub("", stamps.split(line)[1])


def _line(text: str) -> _Line | None:
    """The interval of a line; `None` if it has none."""
    if found := _COMMAS.match(text):
        name, start, end, bps, lost, sent = found.groups()
        name = "SUM" if name == "-1" else name
        counts = None if sent is None else (int(sent), int(lost))
        return _Line(name, "", float(start), float(end), float(bps), False, counts)
    if (found := _INTERVAL.match(text)) is None:
        return None
    name, role, start, end, rate, prefix, unit, rest = found.groups()
    lost = _LOST.search(rest)
    return _Line(
        name,
        role or "",
        float(start),
        float(end),
        _bps(rate, prefix, unit),
        any(word in rest for word in ("sender", "receiver", "omitted")),
        None if lost is None else (int(lost[2]), int(lost[1])),
    )


def matches(head: str) -> bool:
    """True if a line of the text is an interval of iperf, or its first one a rate with a unit."""
    lines = [_bare(line) for line in head.splitlines()[:_LINES]]
    first = next((line for line in lines if line.strip()), "")
    return bool(_RATE.match(first)) or any(_line(line) for line in lines)


def read(source: Source, options: ReadOptions) -> Measurement:
    """The intervals, without the totals at the end."""
    rows = Rows()
    found: dict[tuple[bool, int, float, float], _Interval] = {}
    ends: dict[tuple[str, str], float] = {}
    length = 1.0 if options.interval_s is None else options.interval_s
    rates = 0
    reverse = client = server = False
    for number, whole in source.lines():
        line = _bare(whole)
        client |= line.startswith(("Connecting to host", "Client connecting"))
        server |= line.startswith(("Server listening", "Accepted connection"))
        reverse |= line.startswith("Reverse mode")
        if (rate := _RATE.match(line)) is not None:
            bits = _bps(rate[1], rate[2], rate[3]) * length
            rows.add(rates * length, length, DOWN, size=bits / 8)
            rates += 1
        elif (of := _line(line)) is not None:
            # Totals begin at 0 again, and name the end that counted.
            if of.start < ends.get((of.name, of.role), 0.0) or of.is_left_out:
                continue
            ends[of.name, of.role] = of.end
            sends = of.role == "TX" if of.role else client and not reverse
            key = (of.name == "SUM", UP if sends else DOWN, of.start, of.end)
            one = found.setdefault(key, _Interval())
            one.bits += of.bps * (of.end - of.start)
            if of.datagrams is not None:
                one.counted.append(of.datagrams)
        elif rates and line.strip():
            rows.skip(number, "no rate with a unit")
    _add(rows, found)
    if not len(rows):
        raise InputError(f"{source.name}: no interval of iperf can be used")
    return rows.measurement(NAME, source.name, _clock(rates, options), notes=_notes(client, server))


def _add(rows: Rows, found: dict[tuple[bool, int, float, float], _Interval]) -> None:
    has_sum = any(is_sum for is_sum, *_ in found)
    for (is_sum, direction, start, end), one in found.items():
        if is_sum != has_sum or end <= start:
            continue
        counts = {}
        if one.counted:
            counts = {"sent": float(sum(c[0] for c in one.counted))}
            counts["lost"] = float(sum(c[1] for c in one.counted))
        rows.add(start, end - start, direction, size=one.bits / 8, **counts)


def _bps(value: str, prefix: str, unit: str) -> float:
    return float(value) * _PREFIX[prefix] * (8 if unit == "Bytes" else 1)


def _clock(rates: int, options: ReadOptions) -> str:
    if not rates:
        return "intervals of iperf"
    if options.interval_s is None:
        return "one line per second, assumed"
    return "number of the line × interval given by --interval"


def _notes(client: bool, server: bool) -> list[str]:
    if client or server:
        return []
    return ["The text does not say who sent; the rates are taken as the downlink (--swap)."]


__all__ = ["NAME", "matches", "read"]
