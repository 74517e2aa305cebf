"""The messages of the TCP connections of a capture.

A message is what one end sent before the other one sent data again: a request, a response, or a
transfer.
"""

from __future__ import annotations

import numpy as np

from lasthop.traces.packets import Flags, Packets
from lasthop.traces.table import DOWN, UP, Floats, Integers, Messages

# Columns of a part: connection, direction, first and last time in ns, bytes.
_WIDTH = 5
# Headers of IPv4 and UDP.
_DATAGRAM = 28


class MessageCollector:
    """Collects the messages of a capture, batch by batch.

    Datagrams between the ports of a TCP connection are its messages too: simulated requests.
    """

    def __init__(self, origin_ns: int) -> None:
        self._origin_ns = origin_ns
        self._parts: list[Integers] = []
        self._tcp: set[int] = set()

    def add(self, packets: Packets, up: Flags) -> None:
        """Add the next packets; `up` where they are uplink."""
        connection = packets.connections()[0].astype(np.int64)
        self._tcp.update(np.unique(connection[packets.is_tcp]).tolist())
        payload = np.where(packets.is_tcp, packets.payload, packets.size - _DATAGRAM)
        direction = np.where(up, UP, DOWN)
        time = packets.time_ns
        table = np.column_stack([connection, direction, time, time, payload])
        table = table[(payload > 0) & (packets.source_port > 0)]
        self._parts.append(_merged(table[np.argsort(table[:, 0], kind="stable")]))

    def messages(self) -> Messages:
        """All messages of TCP connections, in order of time."""
        parts = np.concatenate([np.empty((0, _WIDTH), dtype=np.int64), *self._parts])
        parts = parts[np.isin(parts[:, 0], np.array(list(self._tcp), dtype=np.int64))]
        # A connection's messages are in order of time within each part, and the parts follow.
        table = _merged(parts[np.argsort(parts[:, 0], kind="stable")])
        table = table[np.argsort(table[:, 2], kind="stable")]
        connection = np.unique(table[:, 0], return_inverse=True)[1].astype(np.int64)
        times: Floats = (table[:, 2:4] - self._origin_ns).astype(np.float64) * 1e-9
        size: Floats = table[:, 4].astype(np.float64)
        return Messages(connection, table[:, 1], times[:, 0], times[:, 1], size)


def _merged(table: Integers) -> Integers:
    """Rows that follow one another and have the same connection and direction as one row."""
    if not len(table):
        return table
    changes = (np.diff(table[:, :2], axis=0) != 0).any(axis=1)
    starts = np.flatnonzero(np.append(True, changes))
    ends = np.append(starts[1:], len(table)) - 1
    found = table[starts]
    found[:, 3] = table[ends, 3]
    found[:, 4] = np.add.reduceat(table[:, 4], starts)
    return found


__all__ = ["MessageCollector"]
