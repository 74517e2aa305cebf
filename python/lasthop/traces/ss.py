"""Logs of `ss -ti` taken again and again: bytes by direction, smoothed RTT, retransmissions.

The fields of a connection are those of ss(8): `rtt` is the smoothed round-trip time in
milliseconds, `bytes_acked` and `bytes_received` count from the start of the connection, `retrans`
has the retransmissions so far after its slash, `data_segs_out` the segments sent with data. A log
has a line with the time before each sample (`date +%s.%N`), or after it and before a line "---", as
Flent's ss_iterate.sh writes it ("Time: 1700000000.5").
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import nan

from lasthop.errors import InputError
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, ROUND_TRIP, UP, Measurement, Rows

NAME = "ss log"

_SOCKET = re.compile(
    r"^(?:tcp\s+)?(?:[A-Z][A-Z0-9-]*\s+)?\d+\s+\d+\s+"
    r"(\S+:(?:\d+|[a-z*][\w-]*))\s+(\S+:(?:\d+|[a-z*]\S*))"
)
_HEAD = re.compile(r"^(?:Netid\s+)?(?:State\s+)?Recv-Q\s+Send-Q")
_FIELD = re.compile(
    r"(?<!\S)(rtt|bytes_acked|bytes_received|retrans|data_segs_out|segs_out):([\d.]+)(?:/([\d.]+))?"
)
# Unix time in seconds, or a whole number of milliseconds, microseconds or nanoseconds.
_TIME = re.compile(
    r"^(?:[Tt]ime:\s*)?\[?(?:(\d{9,11}(?:\.\d+)?(?!\d))|(\d{13}|\d{16}|\d{19}))\]?\s*(.*)$"
)
# What `date` prints, by language. The abbreviation of a time zone does not say which one it is.
_DATES = (
    *("%a %b %d %H:%M:%S %Y", "%a %d %b %Y %I:%M:%S %p", "%a %d %b %Y %H:%M:%S"),
    "%a %d %b %H:%M:%S %Y",
)
_ZONE = re.compile(r" (?!AM|PM)[A-Z]{2,5}(?= |$)")
_END = "---"


@dataclass
class _Sample:
    """One output of ss: the fields of each connection."""

    line: int
    time: float | None = None
    sockets: dict[str, dict[str, float]] = field(default_factory=dict)


def matches(head: str) -> bool:
    """True if the text has sockets of ss with their fields."""
    lines = [_TIME.sub(r"\3", line) for line in head.splitlines()[:400]]
    return any(_SOCKET.match(line) or _HEAD.match(line) for line in lines) and any(
        re.search(r"\brtt:[\d.]+/[\d.]+", line) and "cwnd:" in line for line in lines
    )


def read(source: Source, options: ReadOptions) -> Measurement:
    """What changed between two samples, a row per direction. Raises `InputError` without times."""
    rows = Rows()
    samples = [s for s in _samples(source, options, rows) if s.sockets]
    if not samples:
        raise InputError(f"{source.name}: no connection of the log has the fields of ss -ti")
    clock = "time lines of the log"
    if any(s.time is None for s in samples):
        if options.interval_s is None:
            line = next(s.line for s in samples if s.time is None)
            raise InputError(
                f"{source.name}: line {line}: this output of ss has no time; write one before each"
                " (date +%s.%N), or give the time between"
                ' two outputs, such as --interval "0.1s"'
            )
        for place, sample in enumerate(samples):
            sample.time = place * options.interval_s
        clock = "number of the output × interval given by --interval"
    for before, after in itertools.pairwise(samples):
        _add(rows, before, after)
    if not len(rows):
        raise InputError(f"{source.name}: the log has a single output of ss; two are needed")
    first = samples[0].time or 0.0
    notes = ["The round-trip time of ss is smoothed (srtt); losses are retransmissions."]
    zero = 0.0 if first > 1e8 else None
    return rows.measurement(NAME, source.name, clock, notes=notes, zero_s=zero)


def _samples(source: Source, options: ReadOptions, rows: Rows) -> list[_Sample]:
    found: list[_Sample] = []
    current = _Sample(1)
    ended = False
    name: str | None = None

    def finish(line: int) -> None:
        nonlocal current, ended, name
        found.append(current)
        current, ended, name = _Sample(line), False, None

    for number, line in source.lines():
        text = line.strip()
        time, text = _time_of(text, options)
        if time is not None:
            if current.sockets and current.time is None and not text:
                current.time, ended = time, True
            else:
                if current.sockets:
                    finish(number)
                current.time = time
        if text == _END:
            finish(number + 1)
            continue
        socket = _SOCKET.match(text)
        if socket:
            name = f"{socket[1]} {socket[2]}"
            if ended or name in current.sockets:
                key = name
                finish(number)
                name = key
        values = {m[1]: (m[2], m[3]) for m in _FIELD.finditer(text)}
        if "rtt" in values and name is not None:
            try:
                current.sockets[name] = _numbers(values)
            except ValueError:
                rows.skip(number, "a field is not a number")
        elif "rtt" in values:
            rows.skip(number, "fields without their connection")
    finish(0)
    return found


def _numbers(values: dict[str, tuple[str, str | None]]) -> dict[str, float]:
    fields = {name: float(value) for name, (value, _) in values.items()}
    if "retrans" in values:
        fields["retrans"] = float(values["retrans"][1] or 0)
    return fields


def _time_of(text: str, options: ReadOptions) -> tuple[float | None, str]:
    """The time at the start of a line, and what follows it."""
    if found := _TIME.match(text):
        seconds, whole, rest = found.groups()
        return float(seconds) if whole is None else int(whole) / 10 ** (len(whole) - 10), rest
    if not text or _SOCKET.match(text) or ":" not in text:
        return None, text
    forms = (options.time_format,) if options.time_format else _DATES
    for form in forms:
        try:
            plain = text if options.time_format else _ZONE.sub("", text)
            return datetime.strptime(plain, form).replace(tzinfo=UTC).timestamp(), ""
        except ValueError:
            continue
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None, text
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp(), ""


def _add(rows: Rows, before: _Sample, after: _Sample) -> None:
    """Add what changed between two samples; a new connection counts from its start."""
    start, end = before.time or 0.0, after.time or 0.0
    if end <= start:
        rows.skip(after.line, "its time is not after the one before")
        return
    change = dict.fromkeys(("bytes_acked", "bytes_received", "retrans", "data_segs_out"), 0.0)
    busiest, rtt = -1.0, nan
    for name, now in after.sockets.items():
        was = before.sockets.get(name, {})
        grown = {key: now.get(key, 0.0) - was.get(key, 0.0) for key in change}
        if min(grown.values()) < 0:
            grown = {key: now.get(key, 0.0) for key in change}  # the port was used again
        for key, value in grown.items():
            change[key] += value
        moved = grown["bytes_acked"] + grown["bytes_received"]
        if moved > busiest:
            busiest, rtt = moved, now["rtt"] / 1000
    span = end - start
    rows.add(start, span, DOWN, size=change["bytes_received"])
    sent = change["data_segs_out"]
    counted = {"sent": sent, "lost": min(change["retrans"], sent)} if sent else {}
    rows.add(start, span, UP, size=change["bytes_acked"], **counted)
    rows.add(start, span, ROUND_TRIP, rtt_s=rtt)


__all__ = ["NAME", "matches", "read"]
