"""Output of ping (Linux iputils, busybox, macOS, Windows), fping, hping3 and irtt, line by line."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lasthop.errors import InputError
from lasthop.traces import stamps
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import ROUND_TRIP, Measurement, Rows

NAME = "ping"

_REPLY = re.compile(
    r"bytes from .*?\b(?:icmp_)?seq=(\d+)\b.*?\btime[=<]\s*([\d.]+)\s*(ms|us|s|usec|msec)\b"
)
# hping3 and irtt: "seq=0 ... rtt=12.1 ms".
_RTT = re.compile(r"\bseq=(\d+)\b.*?\brtt=([\d.]+) ?(ms|[uµμ]s|ns|s)\b")
_FPING = re.compile(r"^(\S+(?: \(\S+\))?)\s*: \[(\d+)\], (?:(\d+) bytes, ([\d.]+) ms|timed out)")
# What `fping -C` prints last: the round-trip times of a host in ms, - for no answer.
_FPING_ALL = re.compile(r"^(\S+)\s+: ((?:\d+(?:\.\d+)?|-)(?: (?:\d+(?:\.\d+)?|-))*)$")
_WINDOWS = re.compile(r"^\S+ \S+ \S+: \S+=\d+ \S+?[=<](\d+) ?ms TTL=\d+", re.IGNORECASE)
_NO_ANSWER = re.compile(
    r"(?:no answer yet for icmp_seq=|Request timeout for icmp_seq |\bicmp_seq=)(\d+)"
)
_SENT = re.compile(r"(\d+) packets transmitted")
_WHOLE = re.compile(r"packet loss, time (\d+) ?ms")
_IPUTILS = re.compile(r"^PING .*\(\d+\) (?:data )?bytes")
_SCALE = {"ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6, "s": 1.0, "ns": 1e-9}
_SCALE |= {"µs": 1e-6, "μs": 1e-6}  # micro sign, Greek mu
# Sequence numbers have 16 bits.
_WRAP = 1 << 16
# Lines that tell the program.
_HEAD_LINES = 200
#: Without -i, ping sends one packet per second.
_DEFAULT_INTERVAL_S = 1.0


@dataclass
class _Log:
    """What the lines of a log say."""

    #: Round-trip time by sequence number.
    rtt_s: dict[int, float]
    #: Time of day at which the answer arrived, by sequence number.
    stamps: dict[int, float]
    #: Sequence numbers without an answer.
    unanswered: set[int]
    sent: int | None = None
    whole_s: float | None = None


def matches(head: str) -> bool:
    """True if the text is the output of ping or fping."""
    return any(
        _REPLY.search(line)
        or _RTT.search(line)
        or _FPING.match(line)
        or _FPING_ALL.match(line)
        or _WINDOWS.match(line)
        or _SENT.search(line)
        or (line.startswith("PING ") and "bytes" in line)
        for _, line in map(stamps.split, head.splitlines()[:_HEAD_LINES])
    )


def read(source: Source, options: ReadOptions) -> Measurement:
    """The round trips of a log, one row per packet; a missing sequence number is a lost packet."""
    rows = Rows()
    log = _log(source, rows)
    if not log.rtt_s and not log.unanswered and not log.sent:
        raise InputError(f"{source.name}: no packet was sent; the log has only its head")
    first, last = _numbers(log, source.head)
    if not log.rtt_s:
        raise InputError(
            f"{source.name}: none of the {last - first + 1} packets was answered, so the log has no"
            " round-trip time"
        )
    interval, clock, notes = _interval(log, options)
    times = _times(log, first, last, interval)
    for number in range(first, last + 1):
        rtt = log.rtt_s.get(number, np.nan)
        lost = float(number not in log.rtt_s)
        rows.add(times[number - first], interval, ROUND_TRIP, rtt_s=rtt, sent=1, lost=lost)
    zero = 0.0 if len(log.stamps) >= 2 else None
    return rows.measurement(NAME, source.name, clock, notes=notes, zero_s=zero)


def _log(source: Source, rows: Rows) -> _Log:
    log = _Log({}, {}, set())
    turns, before = 0, 0
    windows = 0
    host, has_lines = None, False
    for line_number, line in source.lines():
        stamp, text = stamps.split(line)
        if found := _FPING_ALL.match(text):
            host = host or found[1]
            if host != found[1]:
                rows.skip(line_number, f"another host than {host}")
            elif not has_lines:
                _add_all(log, found[2])
            continue
        fping = _FPING.match(text)
        has_lines |= fping is not None
        reply = _REPLY.search(text) or _RTT.search(text)
        if fping:
            host = host or fping[1]
            if fping[1] != host:
                rows.skip(line_number, f"another host than {host}")
                continue
            number, rtt = int(fping[2]), fping[4] and float(fping[4]) * 1e-3
        elif reply:
            number, rtt = int(reply[1]), float(reply[2]) * _SCALE[reply[3]]
        elif found := _WINDOWS.match(text):
            number, rtt, windows = windows, float(found[1]) * 1e-3, windows + 1
        elif text.startswith(("Request timed out", "Destination host unreachable")):
            number, rtt, windows = windows, None, windows + 1
        elif found := _NO_ANSWER.search(text):
            number, rtt = int(found[1]), None
        else:
            _read_summary(log, text)
            continue
        # A number far below the one before it belongs to the next turn.
        if number < before - _WRAP // 2:
            turns += 1
        elif number > before + _WRAP // 2 and turns:
            number -= _WRAP  # late, from the turn before
        before = number if number >= 0 else before
        number += turns * _WRAP
        if not rtt:
            log.unanswered.add(number)
        elif number in log.rtt_s:
            rows.skip(line_number, "duplicate of an answer")
        else:
            log.rtt_s[number] = rtt
            if stamp is not None:
                log.stamps[number] = stamp - rtt
    return log


def _add_all(log: _Log, text: str) -> None:
    """Add the round-trip times of a line of `fping -C`, after those of the lines before it."""
    first = len(log.rtt_s) + len(log.unanswered)
    for number, value in enumerate(text.split(), first):
        if value == "-":
            log.unanswered.add(number)
        else:
            log.rtt_s[number] = float(value) * 1e-3


def _read_summary(log: _Log, text: str) -> None:
    if found := _SENT.search(text):
        log.sent = int(found[1])
    if found := _WHOLE.search(text):
        log.whole_s = float(found[1]) * 1e-3


def _numbers(log: _Log, head: str) -> tuple[int, int]:
    """The first and the last sequence number of the log."""
    seen = [*log.rtt_s, *log.unanswered]
    least = min(seen, default=0)
    if log.sent is None:
        return least, max(seen)
    # iputils counts from 1, the others from 0.
    texts = (stamps.split(line)[1] for line in head.splitlines()[:_HEAD_LINES])
    start = 1 if least > 0 and any(map(_IPUTILS.match, texts)) else 0
    first = start if start <= least < start + log.sent else least
    return first, max(first + log.sent - 1, max(seen, default=0))


def _interval(log: _Log, options: ReadOptions) -> tuple[float, str, list[str]]:
    """Seconds between two packets, the quality of the times, and notes."""
    if len(log.stamps) >= 2:
        numbers = sorted(log.stamps)
        times = [log.stamps[n] for n in numbers]
        interval = (times[-1] - times[0]) / (numbers[-1] - numbers[0])
        if interval > 0:
            return interval, "time of day of each answer, less its round-trip time", []
    if options.interval_s is not None:
        return options.interval_s, "sequence number × interval given by --interval", []
    if log.whole_s and log.sent and log.sent > 1:
        interval = log.whole_s / (log.sent - 1)
        return interval, "sequence number × mean interval of the summary", []
    note = (
        "The log has no times (ping -D) and no summary with a duration: one packet per second is"
        " assumed; --interval gives another interval."
    )
    return _DEFAULT_INTERVAL_S, "sequence number × 1 s, assumed", [note]


def _times(log: _Log, first: int, last: int, interval: float) -> list[float]:
    """When each packet was sent, seconds."""
    numbers = range(first, last + 1)
    if len(log.stamps) < 2:
        return [(n - first) * interval for n in numbers]
    known = sorted(log.stamps)
    times = np.maximum.accumulate([log.stamps[n] for n in known])
    found: list[float] = np.interp(numbers, known, times).tolist()
    # Outside of the answers, packets are one interval apart.
    before, after = known[0] - first, last - known[-1]
    found[:before] = [times[0] - k * interval for k in range(before, 0, -1)]
    found[len(found) - after :] = [times[-1] + k * interval for k in range(1, after + 1)]
    return found
