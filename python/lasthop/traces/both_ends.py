"""Captures of the same packets at both ends: losses and one-way delays of each direction.

A packet is recognised by what TCP keeps of it on its way (sequence and ACK number, payload, flags,
timestamps), also behind address translation; the k-th copy at one end belongs to the k-th at the
other one. A packet is lost if it left one end, between the first and the last one that arrived, and
did not arrive. Clocks of two files may differ: the difference is the one with which the smallest
delays of both directions are equal, so that only the sum of the delays is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lasthop.errors import InputError
from lasthop.traces import ends as ends_of
from lasthop.traces.ends import Ends
from lasthop.traces.intervals import Intervals
from lasthop.traces.packets import Addresses, Flags, Packets
from lasthop.traces.table import CAPTURE, DOWN, ROUND_TRIP, UP, Floats, Integers, Measurement, Rows

# At least this share of the packets of an end must be known to the other one.
_COMMON = 0.2


@dataclass
class Seen:
    """The TCP packets that one end captured, in the order of the capture."""

    key: NDArray[np.uint64]
    time_ns: Integers
    size: Integers
    up: Flags

    def of(self, up: bool) -> Seen:
        """The packets of one direction, told apart where they are alike."""
        own = self.up == up
        key = self.key[own]
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        is_first = np.append(True, ordered[1:] != ordered[:-1])
        place = np.arange(len(key))
        rank = place - np.maximum.accumulate(np.where(is_first, place, 0))
        copies = np.empty(len(key), dtype=np.uint64)
        copies[order] = rank.astype(np.uint64)
        return Seen(
            key + copies * np.uint64(0xC2B2AE3D27D4EB4F),
            self.time_ns[own],
            self.size[own],
            self.up[own],
        )


@dataclass
class Crossing:
    """The packets of one direction: when they left, when they arrived, and which were lost."""

    left_ns: Integers
    arrived_ns: Integers
    size: Integers
    lost_ns: Integers

    @property
    def delay_ns(self) -> Integers:
        """The one-way delays, by the clocks of both ends."""
        return self.arrived_ns - self.left_ns


class Collector:
    """Collects the packets of one end."""

    def __init__(self, addresses: Addresses, where: str, ends: Ends | None = None) -> None:
        """`ends` are those of the mobile end's capture, whose addresses may be seen here, too."""
        self.addresses = addresses
        self.ends = ends
        self.where = where
        self._parts: list[Seen] = []

    def add(self, packets: Packets) -> None:
        """Add the next packets of the capture."""
        if self.ends is None or not self.ends.of(packets)[1].any():
            # Behind address translation: the other end captured, and its packets are downlink.
            found = ends_of.find(packets, self.addresses, None, self.where)
            self.ends = replace(found, is_far=True)
        up, passes = self.ends.of(packets)
        kept = packets.select(passes & packets.is_tcp)
        up = up[passes & packets.is_tcp]
        self._parts.append(Seen(kept.identity(), kept.time_ns, kept.size, up))

    def seen(self) -> Seen:
        """What was captured. Raises `InputError` if there is no TCP."""
        parts = [p for p in self._parts if len(p.key)]
        if not parts:
            raise InputError(
                f"{self.where}: the capture has no TCP, by which its packets are known"
            )
        names = ("key", "time_ns", "size", "up")
        return Seen(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))


def crossing(sender: Seen, receiver: Seen) -> Crossing:
    """The packets that left one end, at the other one; both have one direction."""
    _, left, arrived = np.intersect1d(
        sender.key, receiver.key, assume_unique=True, return_indices=True
    )
    order = np.argsort(receiver.time_ns[arrived], kind="stable")
    left, arrived = left[order], arrived[order]
    if not len(left):
        none = np.empty(0, dtype=np.int64)
        return Crossing(none, none, none, none)
    missing = np.ones(len(sender.key), dtype=bool)
    missing[left] = False
    first, last = sender.time_ns[left].min(), sender.time_ns[left].max()
    missing &= (sender.time_ns >= first) & (sender.time_ns <= last)
    return Crossing(
        sender.time_ns[left],
        receiver.time_ns[arrived],
        receiver.size[arrived],
        sender.time_ns[missing],
    )


def measurement(
    near: Measurement, mobile: Seen, far: Seen, far_name: str, one_clock: bool
) -> Measurement:
    """The measurement of the mobile end's capture, with what both ends saw of each direction.

    Raises `InputError` if the ends do not share their packets.
    """
    down = crossing(far.of(False), mobile.of(False))
    up = crossing(mobile.of(True), far.of(True))
    shared = len(down.left_ns) + len(up.left_ns)
    if shared < _COMMON * min(len(mobile.key), len(far.key)):
        raise InputError(
            f"{near.sources[0]} and {far_name} share {shared} packets only, of {len(mobile.key)}"
            f" and {len(far.key)}: they are no captures of the same packets, or a sender captured"
            " several segments as one packet (turn its segmentation offload off)"
        )
    ahead = 0
    if not one_clock and len(down.left_ns) and len(up.left_ns):
        # Downlink delays contain the lead of the mobile end's clock, uplink delays lack it.
        ahead = int(down.delay_ns.min() - up.delay_ns.min()) // 2
    down.left_ns, down.lost_ns = down.left_ns + ahead, down.lost_ns + ahead
    up.arrived_ns = up.arrived_ns + ahead
    origin = int(min(t.min() for t in (down.arrived_ns, up.left_ns) if len(t)))
    rows = Rows("packet")
    _add_bytes(rows, down, up, origin)
    for direction, way in ((DOWN, down), (UP, up)):
        _add_delays(rows, way, direction, origin)
    kept = near.select(near.direction == ROUND_TRIP)
    shift = near.epoch_s - origin * 1e-9 if near.epoch_s is not None else 0.0
    rows.add_all(kept.time_s + shift, kept.span_s, ROUND_TRIP, rtt_s=kept.rtt_s)
    notes = [n for n in near.notes if not n.startswith(("What the capturing", "Not counted"))]
    notes.append(f"{shared} packets were found at both ends.")
    if not one_clock:
        notes.append(
            f"The clock of {near.sources[0]} is taken to be {ahead / 1e6:+.3f} ms ahead of that of"
            f" {far_name}, with which the smallest delays of both directions are equal."
        )
    found = rows.measurement(
        CAPTURE, near.sources[0], near.clocks[0], notes=notes, zero_s=origin * 1e-9
    )
    return replace(
        found,
        sources=(near.sources[0], far_name),
        clocks=near.clocks * 2,
        skipped=near.skipped,
        reordered=near.reordered,
    )


def _add_bytes(rows: Rows, down: Crossing, up: Crossing, origin: int) -> None:
    """Add bytes when they arrived, and packets and losses when they left."""
    found = Intervals(origin)
    for way, is_up in ((down, False), (up, True)):
        for times, place in ((way.arrived_ns, (0,)), (way.left_ns, (1,)), (way.lost_ns, (1, 2))):
            columns = np.zeros((3, len(times)))
            columns[list(place)] = way.size if place == (0,) else 1
            if len(times):
                found.add(times, np.full(len(times), is_up), columns)
    found.write(rows)


def _add_delays(rows: Rows, way: Crossing, direction: int, origin: int) -> None:
    """Add one-way delays; of packets that left in the same millisecond, the mean."""
    if not len(way.left_ns):
        return
    moment, place = np.unique((way.left_ns - origin) // 1_000_000, return_inverse=True)
    mean: Floats = np.bincount(place, weights=way.delay_ns) / np.bincount(place)
    spans = np.diff(moment, append=moment[-1] + 1) / 1000
    rows.add_all(moment / 1000, spans, direction, delay_s=mean * 1e-9)


__all__ = ["Collector", "measurement"]
