"""The rates that packets which follow one another show (packet pairs).

Two packets that waited in one queue leave it at a distance of the second one's time on the link, so
that size / distance is the rate of a constant link, even if other traffic takes a part of it
(Dovrolis, Ramanathan and Moore, "What do packet dispersion techniques measure?", INFOCOM 2001).
At the sender, the ACKs of such packets have this distance, if nothing bunches them.
"""

from __future__ import annotations

import numpy as np

from lasthop.traces.packets import Flags, Packets
from lasthop.traces.table import Floats, Integers

# Width of a class of rates (natural logarithm), and the lowest and highest rate, bit/s.
_WIDTH, _LOWEST, _HIGHEST = 0.02, 1e3, 1e12
# Share of the pairs in three neighbouring classes from which they are a mode; fewest pairs.
_SHARE, _LEAST = 0.2, 200
# Smallest packet of a pair, as a share of the largest one.
_FULL = 0.9
# Largest payload without segmentation offload, and the headers of IPv4 and TCP with timestamps.
_SEGMENT, _HEADERS = 1460, 52


class PairRates:
    """Counts the rates of pairs of full packets."""

    def __init__(self) -> None:
        self._counts = np.zeros(int(np.log(_HIGHEST / _LOWEST) / _WIDTH) + 1, dtype=np.int64)

    def add(self, packets: Packets, arrives: Flags) -> None:
        """Add the next packets; `arrives` where the capturing end received them."""
        at = np.flatnonzero(arrives & (packets.payload > 0))
        if len(at) < 2:
            return
        size, time_ns = packets.size[at], packets.time_ns[at]
        full = size >= _FULL * size.max()
        apart: Integers = np.diff(time_ns)
        is_pair = full[1:] & full[:-1] & (apart > 0)
        self._count(8e9 * size[1:][is_pair] / apart[is_pair])

    def add_acks(self, packets: Packets, arrives: Flags) -> None:
        """Add the next packets of a sender; `arrives` where ACKs come back to it.

        A pair is an ACK and the next one of its connection that acknowledges one or two full
        segments, as a receiver does that delays ACKs.
        """
        at = np.flatnonzero(arrives & (packets.payload == 0))
        full = int(packets.payload.max(initial=0))
        if len(at) < 2 or not 0 < full <= _SEGMENT:
            return
        ports = packets.source_port[at] << 16 | packets.target_port[at]
        advance = np.diff(packets.ack[at]) % (1 << 32)
        apart: Integers = np.diff(packets.time_ns[at])
        is_pair = (np.diff(ports) == 0) & (apart > 0) & np.isin(advance, (full, 2 * full))
        size = advance[is_pair] * (full + _HEADERS) / full
        self._count(8e9 * size / apart[is_pair])

    def _count(self, rate: Floats) -> None:
        place = np.log(np.clip(rate, _LOWEST, _HIGHEST) / _LOWEST) / _WIDTH
        self._counts += np.bincount(place.astype(np.int64), minlength=len(self._counts))

    def mode_bps(self) -> float | None:
        """The most frequent rate; `None` if no rate is frequent."""
        total = int(self._counts.sum())
        three = np.convolve(self._counts, np.ones(3, dtype=np.int64), mode="same")
        best = int(three.argmax())
        if total < _LEAST or three[best] < _SHARE * total:
            return None
        near = np.arange(max(best - 1, 0), min(best + 2, len(self._counts)))
        middle = float(np.average(near + 0.5, weights=self._counts[near]))
        return _LOWEST * float(np.exp(middle * _WIDTH))


__all__ = ["PairRates"]
