"""Congestion windows of a kernel's sender and of the simulated one, ACK by ACK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def real(file: Path, segment: int) -> Windows:
    """The windows that `lasthop.live.transfer` has sampled at a server."""
    windows: Windows = {}
    for acked, cwnd in json.loads(file.read_text(encoding="ascii")):
        # The last sample before the next ACK: the window after this one was processed.
        windows[acked // segment] = cwnd
    return windows


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
