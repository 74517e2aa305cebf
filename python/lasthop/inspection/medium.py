"""The panels of a connection that crosses a cell with aggregation: aggregates, MCS, air time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lasthop.inspection.series import Marks, Panel, Series, Shares, step

if TYPE_CHECKING:
    from lasthop.inspection.record import Connection, Floats, Mask, Record

#: Intervals for which the shares of air time are drawn.
INTERVALS: Final = 400
#: Kinds of transmissions with data.
DATA: Final = ("aggregate", "single MPDU")


@dataclass(frozen=True)
class Medium:
    """The transmissions on the medium of one cell, as columns, and the pair of the connection."""

    columns: dict[str, Any]
    kinds: list[str]
    #: Node that sends the connection's data over the cell, and the one that receives them.
    sender: int
    receiver: int

    @property
    def t(self) -> Floats:
        """Starts, seconds."""
        return np.asarray(self.columns["t_ns"] * 1e-9)

    @property
    def end(self) -> Floats:
        """Ends, seconds."""
        return np.asarray(self.columns["end_ns"] * 1e-9)

    def of(self, *kinds: str) -> Mask:
        """Transmissions of these kinds."""
        return np.isin(self.columns["kind"], [self.kinds.index(kind) for kind in kinds])

    def between(self, sender: int, receiver: int) -> Mask:
        """Transmissions from one node to another."""
        return np.asarray(
            (self.columns["sender"] == sender) & (self.columns["receiver"] == receiver)
        )


def find(connection: Connection) -> Medium | None:
    """The medium that the data of the connection use; `None` if no cell reports its use."""
    record = connection.record
    medium = record.column("medium")
    kinds = list(record.column("medium_kinds"))
    data = np.isin(medium["kind"], [kinds.index(kind) for kind in DATA])
    for link in connection.path:
        ends = [record.nodes.index(record.links[link][end]) for end in ("from", "to")]
        pair = data & (medium["sender"] == ends[0]) & (medium["receiver"] == ends[1])
        if pair.any():
            cell = medium["cell"] == medium["cell"][np.argmax(pair)]
            columns = {name: values[cell] for name, values in medium.items()}
            return Medium(columns, kinds, ends[0], ends[1])
    return None


def panels(connection: Connection) -> list[Panel]:
    """The panels, if the connection crosses a cell that reports the use of its medium."""
    medium = find(connection)
    if medium is None:
        return []
    record = connection.record
    names = f"{record.nodes[medium.sender]} to {record.nodes[medium.receiver]}"
    return [_aggregates(medium, names), _mcs(medium, names, record), _air_time(medium, record)]


def _aggregates(medium: Medium, names: str) -> Panel:
    mine = medium.between(medium.sender, medium.receiver)
    sent = mine & medium.of(*DATA)
    mpdus = medium.columns["mpdus"].astype(float)
    again = medium.columns["retries"].astype(float)
    repeated = sent & (again > 0)
    series = [
        Series("mpdus", "MPDUs of a transmission", "dots", medium.t[sent], mpdus[sent]),
        Series("retries", "of these sent again", "dots", medium.t[repeated], again[repeated]),
    ]
    collided = mine & medium.of("collision")
    silent = sent & (medium.columns["acknowledged"] == 0)
    marks = [
        Marks("collision", "collision", "star", medium.t[collided], mpdus[collided]),
        Marks("unanswered", "nothing acknowledged", "x", medium.t[silent], mpdus[silent]),
    ]
    return Panel(
        "aggregates",
        f"Aggregates from {names}",
        "MPDUs",
        [s for s in series if len(s.t)],
        [m for m in marks if len(m.t)],
        note="Transmissions of data, of all connections between the two.",
    )


def _mcs(medium: Medium, names: str, record: Record) -> Panel:
    sent = medium.between(medium.sender, medium.receiver) & medium.of(*DATA)
    mcs = medium.columns["mcs"][sent].astype(float)
    line = step("mcs", "MCS", medium.t[sent], mcs, record.duration_s)
    return Panel("mcs", f"MCS from {names}", "index", [line])


def _air_time(medium: Medium, record: Record) -> Panel:
    names = record.nodes
    there = medium.between(medium.sender, medium.receiver)
    back = medium.between(medium.receiver, medium.sender)
    nobody = medium.of("collision", "beacon", "other networks")
    width = record.duration_s / INTERVALS
    edges = np.arange(INTERVALS + 1, dtype=np.float64) * float(width)
    rows: dict[str, tuple[str, Any]] = {
        "air-there": (
            f"{names[medium.sender]} to {names[medium.receiver]}",
            there & ~nobody,
        ),
        "air-back": (f"{names[medium.receiver]} to {names[medium.sender]}", back & ~nobody),
        "air-rest": ("other pairs of stations", ~(there | back | nobody)),
        "air-collisions": ("collisions", medium.of("collision")),
        "air-beacons": ("beacons", medium.of("beacon")),
        "air-others": ("other networks", medium.of("other networks")),
    }
    shares = {
        key: (label, share_of(medium.t[which], medium.end[which], edges))
        for key, (label, which) in rows.items()
        if which.any()
    }
    idle = 1.0 - sum(share for _, share in shares.values())
    shares["air-idle"] = ("nobody", np.clip(idle, 0.0, 1.0))
    return Panel(
        "air-time",
        "Air time",
        "share of the time",
        [],
        note=f"Share of each interval of {width * 1e3:.4g} ms; transmissions with their answers.",
        shares=Shares(width, shares),
    )


def share_of(start: Floats, end: Floats, edges: Floats) -> Floats:
    """The share of each interval in which spans cover it.

    Spans are in order and do not overlap, except those with the same start (collisions), of which
    the longest counts.
    """
    starts, first = np.unique(start, return_index=True)
    ends = np.maximum.reduceat(end, first) if len(first) else end
    busy = np.append(0.0, np.cumsum(ends - starts))
    times = np.stack([starts, ends], axis=1).ravel()
    total = np.stack([busy[:-1], busy[1:]], axis=1).ravel()
    at_edges = np.interp(edges, times, total, left=0.0)
    return np.asarray(np.diff(at_edges) / np.diff(edges))


__all__ = ["Medium", "find", "panels", "share_of"]
