"""The receive windows that the ends of a capture advertise (RFC 7323, section 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
        self._seen: list[tuple[Integers, NDArray[np.uint16]]] = []

    def add(self, packets: Packets, flow: Integers) -> None:
        """Add the next packets, of these flows."""
        is_syn = (packets.flags & SYN) > 0
        offered = zip(flow[is_syn].tolist(), packets.scale[is_syn].tolist(), strict=True)
        self._scales.update(offered)
        self._seen.append((flow[~is_syn], packets.window[~is_syn].astype(np.uint16)))

    def constant(self, data: int) -> float | None:
        """The window in bytes that the receiver of the flow `data` advertises.

        `None` if it is not known (without the SYNs of both ends there is no scale), and if it
        changes: a window that follows the sender is no limit.
        """
        receiver = data ^ 1
        scales = self._scales.get(data), self._scales.get(receiver)
        found = [window[flow == receiver] for flow, window in self._seen]
        if None in scales or not any(len(window) for window in found):
            return None
        # Scaling is in force if both SYNs offer it.
        shift = 0 if -1 in scales else scales[1] or 0
        low, middle, high = np.percentile(np.concatenate(found), [5, 50, 95])
        return float(middle) * (1 << shift) if high <= _CONSTANT * low else None


__all__ = ["AdvertisedWindows"]
