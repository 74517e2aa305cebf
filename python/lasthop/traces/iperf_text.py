"""What iperf (version 2) and iperf3 print without `--json`, and logs of their rates alone.

A line of an interval has its start and end in seconds, the transfer and the rate, and for UDP the
jitter and lost/total datagrams (iperf's and iperf3's manual pages). With several connections, the
lines of `[SUM]` count; otherwise those of all connections are added up. A log of rates has a number
and a unit such as `0.57,Mbits/sec` per line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lasthop.errors import InputError
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, UP, Measurement, Rows

NAME = "iperf text"

_UNIT = r"([KMGT]?)(bits|Bytes)/sec"
_INTERVAL = re.compile(
    r"^\[ *(SUM|\d+)\](?:\[(TX|RX)-[CS]\])?\s+(\d+\.\d+) *- *(\d+\.\d+)\s+sec\s+"
    rf"[\d.]+ [KMGT]?Bytes\s+([\d.]+) {_UNIT}(.*)$"
)
_RATE = re.compile(rf"^([\d.]+)[ ,;\t]+{_UNIT}\s*$")
_LOST = re.compile(r"(\d+)/ *(\d+) \(")
_PREFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# Lines at the start of a text of which one must be of an interval.
_LINES = 200


@dataclass
class _Interval:
    """The connections of an interval together; `counted` are datagrams and lost ones."""

    bits: float = 0.0
    counted: list[tuple[int, int]] = field(default_factory=list)


def matches(head: str) -> bool:
    """True if a line of the text is an interval of iperf, or its first one a rate with a unit."""
    lines = head.splitlines()[:_LINES]
    first = next((line for line in lines if line.strip()), "")
    return bool(_RATE.match(first)) or any(_INTERVAL.match(line) for line in lines)


def read(source: Source, options: ReadOptions) -> Measurement:
    """The intervals, without the totals at the end."""
    rows = Rows()
    found: dict[tuple[bool, int, float, float], _Interval] = {}
    ends: dict[tuple[str, str], float] = {}
    length = 1.0 if options.interval_s is None else options.interval_s
    rates = 0
    reverse = client = server = False
    for number, line in source.lines():
        client |= line.startswith(("Connecting to host", "Client connecting"))
        server |= line.startswith(("Server listening", "Accepted connection"))
        reverse |= line.startswith("Reverse mode")
        if (rate := _RATE.match(line)) is not None:
            bits = _bps(rate[1], rate[2], rate[3]) * length
            rows.add(rates * length, length, DOWN, size=bits / 8)
            rates += 1
        elif (match := _INTERVAL.match(line)) is not None:
            name, role, start, end = match[1], match[2] or "", float(match[3]), float(match[4])
            # Totals begin at 0 again, and name the end that counted.
            if (
                start < ends.get((name, role), 0.0)
                or "sender" in match[8]
                or "receiver" in match[8]
            ):
                continue
            ends[name, role] = end
            sends = role == "TX" if role else client and not reverse
            key = (name == "SUM", UP if sends else DOWN, start, end)
            one = found.setdefault(key, _Interval())
            one.bits += _bps(match[5], match[6], match[7]) * (end - start)
            if (lost := _LOST.search(match[8])) is not None:
                one.counted.append((int(lost[2]), int(lost[1])))
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
