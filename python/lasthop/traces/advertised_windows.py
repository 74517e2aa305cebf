"""The receive windows that the ends of a capture advertise (RFC 7323, section 2)."""

from __future__ import annotations

import numpy as np

from lasthop.traces.packets import SYN, Packets
from lasthop.traces.table import Integers

# Ratio of the largest window to the smallest one up to which it is constant: what has arrived out
# of order takes some of it.
_CONSTANT = 1.3


class AdvertisedWindows:
    """Windows by flow, which is one direction of a connection; its number's last bit is the
    direction.
    """

    def __init__(self) -> None:
        self._scales: dict[int, int] = {}
        # Flow and window in one number, and how many packets have them.
        self._keys = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0, dtype=np.int64)

    def add(self, packets: Packets, flow: Integers) -> None:
        """Add the next packets, of these flows."""
        is_syn = (packets.flags & SYN) > 0
        offered = zip(flow[is_syn].tolist(), packets.scale[is_syn].tolist(), strict=True)
        self._scales.update(offered)
        keys, counts = np.unique(flow[~is_syn] << 16 | packets.window[~is_syn], return_counts=True)
        both = np.concatenate([self._keys, keys])
        self._keys, place = np.unique(both, return_inverse=True)
        weights = np.concatenate([self._counts, counts])
        self._counts = np.bincount(place, weights=weights).astype(np.int64)

    def constant(self, data: int) -> float | None:
        """The window in bytes that the receiver of the flow `data` advertises.

        `None` if it is not known (without the SYNs of both ends there is no scale), and if it
        changes: a window that follows the sender is no limit.
        """
        receiver = data ^ 1
        scales = self._scales.get(data), self._scales.get(receiver)
        own = self._keys >> 16 == receiver
        if None in scales or not own.any():
            return None
        # Scaling is in force if both SYNs offer it.
        shift = 0 if -1 in scales else scales[1] or 0
        total = np.cumsum(self._counts[own])
        at = np.searchsorted(total, np.array([0.05, 0.5, 0.95]) * total[-1])
        low, middle, high = (self._keys[own] & 0xFFFF)[at].tolist()
        return float(middle << shift) if high <= _CONSTANT * low else None


__all__ = ["AdvertisedWindows"]
