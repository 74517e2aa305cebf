"""Congestion windows of a kernel's sender and of the simulated one, ACK by ACK."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop import _native

#: cwnd in segments by the number of segments acknowledged in order.
Windows = dict[int, float]


@dataclass(frozen=True)
class Comparison:
    """Two series of windows at the ACKs that both senders have seen."""

    #: Number of these ACKs, and of those at which the windows are equal within the margin.
    acks: int
    equal: int
    #: The first ACK at which they differ: segments acknowledged, real and simulated cwnd in
    #: segments.
    parted: tuple[int, float, float] | None

    def document(self) -> dict[str, Any]:
        """The comparison for JSON."""
        names = ("acked_segments", "real_segments", "simulated_segments")
        parted = None if self.parted is None else dict(zip(names, self.parted, strict=True))
        return {"acks": self.acks, "equal": self.equal, "parted": parted}


class TcpProbe:
    """The kernel's tracepoint tcp:tcp_probe at the senders of a port: their windows at each segment
    that they receive, before it is processed.
    """

    def __init__(self, port: int) -> None:
        """Begin to record; raises `OSError` if this process may not."""
        self._probe = _native.TcpProbe(port)
        self._samples: list[tuple[int, int, int, int]] = []
        self._lost = 0

    def collect(self) -> None:
        """Take the samples out of the kernel's buffers, which hold some thousands."""
        self._samples += self._probe.read()

    def take(self, cookie: int, segment: int) -> Windows:
        """The windows of a connection; none if samples were lost. Forget all samples."""
        self.collect()
        samples, self._samples = sorted(self._samples), []
        lost, self._lost = self._lost, self._probe.lost
        return {} if self._lost > lost else probed(samples, cookie, segment)


def probed(samples: Iterable[tuple[int, int, int, int]], cookie: int, segment: int) -> Windows:
    """The windows of a connection in samples of the tracepoint: time, cookie, first sequence number
    that is not acknowledged, and cwnd. The first one is that of the first acknowledgment.
    """
    mine = [(una, time, cwnd) for time, owner, una, cwnd in samples if owner == cookie]
    if not mine:
        return {}
    # Each processor has its own clock, so the order is that of the sequence numbers; their
    # distance from any of them is less than half of the sequence space.
    some = mine[0][0]
    ordered = sorted(((una - some + 2**31) % 2**32 - 2**31, time, cwnd) for una, time, cwnd in mine)
    first = ordered[0][0]
    return {(una - first) // segment: cwnd for una, _, cwnd in ordered}


@dataclass(frozen=True)
class Sent:
    """What a sender of `lasthop.live.transfer` reports."""

    #: When it began to connect, in seconds of the monotonic clock.
    start: float
    #: The kernel's number of the connection.
    cookie: int
    #: Its windows, as sampled.
    windows: Windows


def read_report(file: Path, segment: int) -> Sent:
    """Read the report of a sender."""
    document = json.loads(file.read_text(encoding="ascii"))
    windows: Windows = {}
    for acked, cwnd in document["samples"]:
        # The last sample before the next ACK: the window after this one was processed.
        windows[acked // segment] = cwnd
    return Sent(document["start"], document["cookie"], windows)


def simulated(recorded: Mapping[str, Any], segment: int) -> Windows:
    """The windows of the first flow in recorded events."""
    names = recorded["events"]
    kinds = {names.index(name): name for name in ("ack_received", "cwnd")}
    windows: Windows = {}
    acked, cwnd = 0, 0.0
    rows = zip(*(recorded[key] for key in ("event", "flow", "ack", "value")), strict=True)
    for event, flow, ack, value in rows:
        kind = kinds.get(int(event))
        if kind is None or flow != 0:
            continue
        if kind == "cwnd":
            cwnd = float(value) / segment
        else:
            acked = max(acked, int(ack))
        windows[acked // segment] = cwnd
    return windows


def compare(one: Mapping[int, float], other: Mapping[int, float], margin: float) -> Comparison:
    """Compare a real series with a simulated one. Windows are equal if they differ by at most one
    segment or the share `margin`.
    """
    common = sorted(acked for acked in one.keys() & other.keys() if acked > 0)
    differs = [a for a in common if abs(one[a] - other[a]) > max(1.0, margin * other[a])]
    parted = (differs[0], one[differs[0]], other[differs[0]]) if differs else None
    return Comparison(len(common), len(common) - len(differs), parted)
