"""The base RTT: the round-trip time of an empty path."""

from __future__ import annotations

import numpy as np

from lasthop.traces.fit.estimate import LEVEL, Estimate
from lasthop.traces.fit.observed import PACKET_BITS, Observed
from lasthop.traces.table import CAPTURE

# A segment without payload, with timestamps; a SYN is 8 bytes longer.
_ACK_BITS = 8 * 52
# A ping, which has 56 bytes by default.
_PING_BITS = 8 * 84


def floor_s(seen: Observed) -> float:
    """The smallest round-trip time, seconds; 0 without samples."""
    return float(seen.rtt_s.min()) if len(seen.rtt_s) else 0.0


def estimate(seen: Observed, capacity: Estimate) -> Estimate:
    """The smallest round-trip time, less the time that its packet takes at the capacity.

    The smallest value of a sample is above the lower end of its distribution. The interval is that
    of Robson and Whitlock (Biometrika 51, 1964) for this end, from the two smallest values of
    windows of a second: it reaches down by (1 - a)/a of their distance, a = 10 %. The packet
    of the smallest sample is between an ACK and a full one, so the interval has both. A smallest
    sample in the first second of a capture is that of the handshake, with an empty queue and
    without a full packet, and has no such distance.
    """
    starts, floors = seen.floors()
    if not len(floors):
        return Estimate(
            *("base_rtt", "s", 0.04, 0.005, 0.3, 0, "round-trip times"),
            "no round-trip time was measured; give a ping of the same link as a second file",
            is_range=True,
        )
    lowest = float(floors.min())
    has_handshake = CAPTURE in seen.found.format and int(floors.argmin()) == 0 and starts[0] < 1
    # The ACK of a packet crosses the other direction, whose rate is assumed to be the same.
    bits = 2 * _ACK_BITS if has_handshake else PACKET_BITS + _ACK_BITS
    least = 2 * _PING_BITS if seen.is_round_trip else bits
    # Of an unknown capacity, only the time that its packet takes at least is certain.
    own = least / (capacity.high if capacity.is_range else capacity.value)
    if not len(seen.rates.time_s):
        own = 0.0
    slowest = bits / capacity.low
    packet = PACKET_BITS / capacity.low
    spread = float(np.sort(floors)[1] - lowest) if len(floors) > 1 else lowest / 10
    value = max(lowest - own, lowest / 2)
    alpha = 1 - LEVEL
    below = packet if has_handshake else (1 - alpha) / alpha * spread
    below += slowest - own
    # Times of captures and programs are no better than this.
    tick = 1e-4 + 0.005 * value
    low = max(value - below - tick, lowest / 4)
    return Estimate(
        *("base_rtt", "s", value, low, lowest + tick, len(floors)),
        *("windows of 1 s", "smallest RTT, less the time of its packet; Robson and Whitlock"),
    )


__all__ = ["estimate", "floor_s"]
