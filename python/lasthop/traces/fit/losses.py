"""Losses split into overflow and air by the delay around them, and the depth of the queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop.traces.fit.capacity import Capacity
from lasthop.traces.fit.estimate import LEVEL, Estimate, Z, share_interval
from lasthop.traces.fit.observed import PACKET_BITS, Observed
from lasthop.traces.packets import Flags
from lasthop.traces.table import CAPTURE, Floats

# Share of the largest queueing delay from which a loss may be an overflow.
_HIGH = 0.8
# Packets that must have met a low delay for a loss rate on the air.
_LEAST_PACKETS = 200
# Standard deviations, and losses, beyond those of the air with which an overflow is accepted.
_DEVIATIONS, _LEAST_LOSSES = 3.0, 3
# An unknown queue is between the largest one seen and this many times as much.
_UNKNOWN = 10.0


@dataclass(frozen=True)
class Losses:
    """What was lost where."""

    air: Estimate
    overflow: Estimate
    queue: Estimate
    #: Rows of `Observed` whose losses are of the air.
    is_air: Flags


def split(seen: Observed, capacity: Capacity, floor_s: float) -> Losses:
    """Losses at low queueing delays are of the air; those beyond their rate are overflows.

    Packets that met less than 80 % of the largest queueing delay give the loss rate of the air. If
    the others lost more than this rate explains (three standard deviations of a Poisson count, and
    three losses), these are overflows, and the queueing delay around them is the depth of the
    queue.
    """
    rate = capacity.estimate.value
    q = _delays(seen, floor_s)
    total, lost = float(seen.sent.sum()), float(seen.lost.sum())
    known = len(seen.rtt_s) > 0
    top = float(np.percentile(q, 99.9)) if known and len(q) else 0.0
    is_busy = top > max(0.002, 3 * PACKET_BITS / rate)
    high = (q >= _HIGH * top) if is_busy else np.zeros(len(q), dtype=bool)
    low_sent, low_lost = float(seen.sent[~high].sum()), float(seen.lost[~high].sum())
    high_sent, high_lost = float(seen.sent[high].sum()), float(seen.lost[high].sum())
    expected = high_sent * low_lost / low_sent if low_sent >= _LEAST_PACKETS else 0.0
    excess = high_lost - expected
    has_overflow = excess > _DEVIATIONS * np.sqrt(expected + 1) and excess >= _LEAST_LOSSES
    if not has_overflow and low_sent < _LEAST_PACKETS:
        high, low_sent, low_lost = np.zeros(len(q), dtype=bool), total, lost
    return Losses(
        _air(seen, low_sent, low_lost, total, lost),
        _overflow(excess if has_overflow else 0.0, total, known and is_busy),
        _queue(seen, q, high, capacity, (top, floor_s), has_overflow),
        ~high,
    )


def _delays(seen: Observed, floor_s: float) -> Floats:
    """The queueing delay that each row that counts packets met.

    In a capture it is the largest of a round trip before the row: samples after a loss would be
    longer because of it, and the queue of a packet is hardly longer than that of the one before.
    In other files it is the largest of a round trip before or after.
    """
    if not len(seen.rtt_s):
        return np.zeros(len(seen.counted_s))
    time, rtt = seen.queued()
    later = 0.0 if CAPTURE in seen.found.format else floor_s
    ends = np.searchsorted(time, seen.counted_s + later, side="right" if later else "left")
    starts = np.searchsorted(time, seen.counted_s - floor_s)
    # Without a sample so close, the last one counts, or the first one of the file.
    ends = np.maximum(ends, 1)
    starts = np.minimum(starts, ends - 1)
    pairs = np.column_stack([starts, ends]).ravel()
    padded = np.append(rtt - floor_s, -np.inf)
    found: Floats = np.maximum.reduceat(padded, pairs)[::2]
    return found


def _air(seen: Observed, sent: float, lost: float, total: float, all_lost: float) -> Estimate:
    what = "packets, both directions together" if seen.is_round_trip else "packets"
    if (seen.lost % 1 > 0).any():
        what = "rows with a share of lost packets, which count as one packet each"
    if total <= 0:
        return Estimate(
            *("air_loss", "share", 0.0, 0.0, 0.02, 0, what),
            "losses were not counted (measure with a capture, a ping or UDP)",
            is_range=True,
        )
    if sent < _LEAST_PACKETS:
        return Estimate(
            *("air_loss", "share", 0.0, 0.0, min(max(all_lost / total, 0.001), 0.5)),
            *(int(sent), what),
            "cannot tell: few packets met a short queue, so all losses may be overflows",
            is_range=True,
        )
    halves = 2 if seen.is_round_trip else 1
    low, high = share_interval(lost, sent)
    how = "losses at queueing delays below 80 % of the largest; Wilson"
    if halves == 2:
        how += "; half of the losses of round trips"
    return Estimate(
        *("air_loss", "share", lost / sent / halves, low / halves, high / halves),
        *(int(sent), what, how),
    )


def _overflow(count: float, total: float, known: bool) -> Estimate:
    how = "losses at large delays, less those of the air"
    if not known or total <= 0:
        return Estimate(
            *("overflow_loss", "share", 0.0, 0.0, 0.0, int(total), "packets"),
            "the queue never grew, so it did not overflow",
        )
    low, high = share_interval(count, total)
    return Estimate(
        *("overflow_loss", "share", count / total, low if count else 0.0, high, int(total)),
        *("packets", how),
    )


def _queue(
    seen: Observed,
    q: Floats,
    high: Flags,
    capacity: Capacity,
    delays: tuple[float, float],
    overflows: bool,
) -> Estimate:
    """The bytes that waited when packets were dropped: queueing delay x capacity at that time.

    `delays` are the largest queueing delay and the smallest round-trip time.
    """
    top, floor_s = delays
    step = capacity.steps_bps
    if capacity.is_constant:
        rate = np.full(len(q), capacity.estimate.value)
    else:
        place = np.searchsorted(capacity.steps_s, seen.counted_s, side="right") - 1
        rate = step[np.clip(place, 0, len(step) - 1)]
    dropped = high & (seen.lost > 0)
    if not overflows or not dropped.any():
        # The packets that arrive within a time stamp count twice. Buffers of some
        # bandwidth-delay products are usual, however little of them was used.
        known = capacity.estimate
        lowest, highest = (known.low, known.high) if known.is_range else (known.value, known.value)
        largest = max(top * lowest - 2 * PACKET_BITS, PACKET_BITS) / 8
        most = _UNKNOWN * max(top, floor_s) * highest / 8
        return Estimate(
            *("queue", "B", float(np.sqrt(largest * most)), largest, most, 0),
            "overflows",
            "queue depth unknown: no loss can be told to be an overflow; at least the largest"
            " queue seen",
            is_range=True,
        )
    times, sizes = seen.counted_s[dropped], (q * rate / 8)[dropped]
    apart = np.append(True, np.diff(times) > max(0.2, 2 * float(seen.rtt_s.min())))
    starts = np.flatnonzero(apart)
    depth = np.maximum.reduceat(sizes, starts)
    value = float(np.median(depth))
    if len(depth) >= 5:
        spread = float(depth.std(ddof=1)) * 1.2533 / np.sqrt(len(depth))
        half = Z * spread
    else:
        half = float(np.ptp(depth))
    # Up to two packets more or less: the one being sent, and the arrivals within a time stamp.
    half = max(half, 2 * PACKET_BITS / 8, 0.05 * value)
    if (known := capacity.estimate).is_range:
        low, high_end = (value * bound / known.value for bound in (known.low, known.high))
        return Estimate(
            *("queue", "B", value, max(low, PACKET_BITS / 8), high_end, len(depth), "overflows"),
            "queue depth unknown, because the capacity is: delay at overflows x capacity",
            is_range=True,
        )
    return Estimate(
        *("queue", "B", value, max(value - half, PACKET_BITS / 8), value + half, len(depth)),
        "overflows",
        f"largest queueing delay at overflows x capacity, median; {LEVEL:.0%} by its spread",
    )


__all__ = ["Losses", "split"]
