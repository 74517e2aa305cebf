"""Logs of the Saturator, with which mahimahi's traces were recorded.

From the source of its client and server (keithw/multisend, sender/acker.cc, saturateservo.cc and
trace-analysis/prep-for-simulation.py): a line `INCOMING … DATA RECEIVED … senderid=, seq=,
send_time=, recv_time=` is a packet that arrived, with 1400 bytes of UDP payload; a line `OUTGOING …
ACK RECEIVED …` is the acknowledgement of one that was sent, over another network. Times are in
nanoseconds. A client is at the mobile end: what arrives there is the downlink.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from lasthop.errors import InputError
from lasthop.traces import mahimahi
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, ROUND_TRIP, Integers, Measurement, Rows

NAME = "Saturator log"

_LINE = re.compile(
    r"^(INCOMING|OUTGOING)\b.*\b(DATA|ACK) RECEIVED.*senderid=(-?\d+), ?seq=(-?\d+),"
    r" ?send_time=(\d+), ?recv_time=(\d+)"
)
# 1400 bytes of payload with the headers of UDP and IPv4.
_PACKET = 1428


def matches(head: str) -> bool:
    """True if a line of the text is one of the Saturator."""
    return any(_LINE.match(line) for line in head.splitlines()[:400])


def read(source: Source, _: ReadOptions) -> Measurement:
    """What arrived, by the millisecond, with gaps in the sequence numbers as losses."""
    rows = Rows()
    arrived: list[tuple[int, int, int, int]] = []
    answers: list[tuple[int, int]] = []
    for number, line in source.lines():
        found = _LINE.match(line)
        if found is None:
            if line.startswith(("INCOMING", "OUTGOING")) and "rtt:" not in line:
                rows.skip(number, "not a complete line of the Saturator")
            continue
        sender, seq, sent, received = map(int, found.groups()[2:])
        if found[1] == "INCOMING" and found[2] == "DATA":
            arrived.append((received, seq, sender, number))
        elif found[1] == "OUTGOING" and found[2] == "ACK" and received > sent:
            answers.append((sent, received - sent))
    if not arrived:
        raise InputError(f"{source.name}: no packet arrived; only INCOMING lines measure the link")
    session = Counter(packet[2] for packet in arrived).most_common(1)[0][0]
    for packet in arrived:
        if packet[2] != session:
            rows.skip(packet[3], f"of another session than {session}")
    arrived = sorted(a for a in arrived if a[2] == session)
    times = np.array([a[0] for a in arrived], dtype=np.int64)
    _add_arrivals(rows, times, np.array([a[1] for a in arrived], dtype=np.int64))
    zero = times[0]
    _add_answers(rows, answers, int(zero))
    notes = [
        "Arrivals are taken as the downlink, as in the log of a client; use --swap for a server's."
    ]
    return rows.measurement(NAME, source.name, "arrival times", notes=notes, zero_s=zero * 1e-9)


def _add_answers(rows: Rows, answers: list[tuple[int, int]], zero: int) -> None:
    """Add round-trip times by the time of sending; each is held until the next one."""
    if not answers:
        return
    times, rtts = np.array(sorted(answers), dtype=np.int64).T
    spans = np.diff(times, append=times[-1] + 1_000_000)
    seconds = (times - zero) * 1e-9
    rows.add_all(seconds, spans * 1e-9, ROUND_TRIP, rtt_s=rtts * 1e-9)


def _add_arrivals(rows: Rows, times: Integers, numbers: Integers) -> None:
    """Add bytes by the millisecond, and by the second the numbers that never arrived."""
    mahimahi.add_moments(rows, (times - times[0]) // 1_000_000 + 1, DOWN, _PACKET)
    order = np.argsort(numbers, kind="stable")
    missing = np.setdiff1d(np.arange(numbers.min(), numbers.max() + 1), numbers)
    # A lost packet belongs to the second in which the next number arrived.
    after = times[order][np.searchsorted(numbers[order], missing)]
    seconds = (times - times[0]) // 1_000_000_000
    count = int(seconds[-1]) + 1
    got = np.bincount(seconds, minlength=count).astype(float)
    lost = np.bincount((after - times[0]) // 1_000_000_000, minlength=count).astype(float)
    rows.add_all(np.arange(count, dtype=float), np.ones(count), DOWN, sent=got + lost, lost=lost)


__all__ = ["NAME", "matches", "read"]
