"""Losses split into overflow and air by the delay around them, and the depth of the queue."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lasthop.traces.fit.bursts import burst_sizes, clustering
from lasthop.traces.fit.capacity import Capacity
from lasthop.traces.fit.estimate import LEVEL, Estimate, Z, share_interval
from lasthop.traces.fit.observed import PACKET_BITS, Observed
from lasthop.traces.packets import Flags
from lasthop.traces.table import CAPTURE, Floats

# Share of the largest queueing delay from which a loss may be an overflow.
_HIGH = 0.8
# Ratio of the rate of packet pairs to the capacity from which the link layer retransmits.
_FASTER_PAIRS = 1.03
# Packets by which a full queue may seem shorter: delayed ACKs.
_JITTER = 4
# Packets of a full queue below which this is more than what `_HIGH` allows.
_SHORT = _JITTER / (1 - _HIGH)
# Packets that must have met a low delay for a loss rate on the air.
_LEAST_PACKETS = 200
# Standard deviations, and losses, beyond those of the air with which an overflow is accepted.
_DEVIATIONS, _LEAST_LOSSES = 3.0, 3
# A round-trip time that is at most this far from a row, seconds, tells of its queue.
_NEAR_S = 1.0
_UNTIMED = "no round-trip times while packets were counted"
# Round-trip time of a file without any, seconds: the middle of the range of `base_rtt`.
_ASSUMED_RTT_S = 0.04
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
    """Losses at short queues are of the air; those beyond their rate are overflows.

    Packets that met less than 80 % of the largest queueing delay give the loss rate of the air. If
    the others lost more than this rate explains (three standard deviations of a count of bursts
    like those of the air, and three losses), these are overflows, and the queueing delay around
    them is the depth of the queue.
    """
    known = len(seen.rtt_s) > 0
    q = _met(seen, floor_s, _depths(seen, capacity, floor_s))
    total, lost = float(seen.sent.sum()), float(seen.lost.sum())
    top = float(np.percentile(q, 99.9)) if known and len(q) else 0.0
    least = max(0.002 * capacity.estimate.value, 3 * PACKET_BITS) / 8
    is_busy = top > least
    jitter = _jitter(seen, capacity, top)
    limit = min(_HIGH * top, top - max(_JITTER * PACKET_BITS / 8, jitter))
    high = (q >= limit) if is_busy else np.zeros(len(q), dtype=bool)
    timed = _timed(seen)
    low = ~high & timed
    low_sent, low_lost = float(seen.sent[low].sum()), float(seen.lost[low].sum())
    high_sent, high_lost = float(seen.sent[high].sum()), float(seen.lost[high].sum())
    expected = high_sent * low_lost / low_sent if low_sent >= _LEAST_PACKETS else 0.0
    excess = high_lost - expected
    spread = np.sqrt(clustering(burst_sizes(np.where(low, seen.lost, 0.0))) * (expected + 1))
    has_overflow = excess > _DEVIATIONS * spread and excess >= _LEAST_LOSSES
    if not has_overflow and low_sent < _LEAST_PACKETS and timed.all():
        high, low_sent, low_lost = np.zeros(len(q), dtype=bool), total, lost
        low = ~high
    why = "few packets met a short queue" if timed.all() else _UNTIMED
    air = _air(seen, low_sent, low_lost, (total, lost), why)
    is_unsteady = capacity.estimate.is_range and seen.found.is_sender_side
    # At the sender, delayed ACKs vary the delay of a short queue.
    is_short = seen.found.is_sender_side and top < _SHORT * PACKET_BITS / 8
    # Overflows of a queue whose delay varies so much cannot be told from losses of the air.
    is_hidden = jitter > 0 and is_busy and air.value > 0
    is_hidden |= _fills_unseen(capacity, top, floor_s) and air.value > 0
    # Of intervals, only those without any queue have no overflows.
    is_counted = CAPTURE not in seen.found.format and not seen.is_round_trip
    is_hidden |= is_counted and is_busy and air.value > 0
    if is_unsteady or is_hidden or (has_overflow and (is_short or _varies(seen, capacity))):
        air = _among_overflows(seen, air, q <= least, capacity)
    queue = _queue(seen, q, high, capacity, (top, floor_s), has_overflow)
    if is_unsteady and known:
        queue = _sent_meanwhile(seen, floor_s, queue)
    overflow = _overflow(excess if has_overflow else 0.0, total, known and is_busy)
    if not timed.all():
        overflow = replace(overflow, high=max(lost / total, overflow.high), how=_UNTIMED)
        overflow = replace(overflow, is_range=True)
    return Losses(air, overflow, queue, low if low.any() else ~high)


def _timed(seen: Observed) -> Flags:
    """Rows of which a round-trip time near them tells whether they met a queue.

    Captures and pings time the packets that they count. Other files may be measured at another
    time than the pings beside them, or have no round-trip times.
    """
    times = seen.counted_s
    if CAPTURE in seen.found.format or (seen.is_round_trip and len(seen.rtt_s)):
        return np.ones(len(times), dtype=bool)
    samples = np.concatenate([[-np.inf], seen.time_s, [np.inf]])
    after = np.searchsorted(samples, times)
    distance = np.minimum(times - samples[after - 1], samples[after] - times)
    steps = np.diff(times)
    found: Flags = distance <= max(_NEAR_S, float(np.median(steps)) if len(steps) else 0.0)
    return found


def _fills_unseen(capacity: Capacity, queue: float, floor_s: float) -> bool:
    """Whether a queue of this many bytes may overflow before a delay shows it.

    If the rate of a link falls, what is on its way fills a queue that holds less than the packets
    of a round trip, and the packet before the loss has met an empty one.
    """
    return not capacity.is_constant and queue < capacity.estimate.value / 8 * floor_s


def _varies(seen: Observed, capacity: Capacity) -> bool:
    """Whether the delay of a full queue varies: with the rate, or because of what makes packets
    that follow one another faster than the mean.
    """
    pairs = seen.found.pair_rate_bps
    return not capacity.is_constant or (
        pairs is not None and pairs > _FASTER_PAIRS * capacity.estimate.value
    )


def _jitter(seen: Observed, capacity: Capacity, queue: float) -> float:
    """Bytes by which a queue may seem longer because the link layer retransmits; 0 if it does not.

    Then packets that follow one another are faster than the mean. If a share p of the frames is
    sent again, the time of n packets has a standard deviation of sqrt(n p) / (1 - p) frames, of
    which three are taken.
    """
    pairs, mean = seen.found.pair_rate_bps, capacity.estimate.value
    is_known = capacity.is_constant and not capacity.estimate.is_range
    if pairs is None or not is_known or pairs <= _FASTER_PAIRS * mean:
        return 0.0
    again, packet = 1 - mean / pairs, PACKET_BITS / 8
    found: float = 3 * np.sqrt(max(queue, packet) / packet * again) / (1 - again) * packet
    return min(found, queue / 2)


def _among_overflows(seen: Observed, air: Estimate, is_calm: Flags, capacity: Capacity) -> Estimate:
    """The range of the loss rate where the delay of a full queue varies, and may be short.

    At least what was lost without any queue, at most all losses at short queues. The queue of a
    variable link may fill within a round trip, so that none is seen before the loss.
    """
    if air.is_range:
        return air
    sent, lost = float(seen.sent[is_calm].sum()), float(seen.lost[is_calm].sum())
    is_known = sent >= _LEAST_PACKETS and capacity.is_constant and not capacity.estimate.is_range
    low = share_interval(lost, sent)[0] if is_known else 0.0
    why = (
        "the delay of a full queue varies, so that losses at short queues may be overflows:"
        " at least the losses without a queue"
    )
    return replace(air, low=min(low, air.low), how=why, is_range=True)


def _sent_meanwhile(seen: Observed, floor_s: float, queue: Estimate) -> Estimate:
    """The range of a queue at a sender whose rates vary, with what it sent while packets waited.

    In slow start it sends twice as much as arrives (RFC 5681, section 3.1).
    """
    time, rtt = seen.queued()
    sent = float(np.percentile(seen.arrived_bytes(time, time + rtt - floor_s), 99.9))
    low, high = min(queue.low, sent / 2), max(queue.high, 2 * sent)
    return replace(queue, low=max(low, PACKET_BITS / 8), high=high)


def _depths(seen: Observed, capacity: Capacity, floor_s: float) -> Floats:
    """The queue, in bytes, of each round-trip time in the order of `Observed.queued`.

    Its delay x a constant capacity; on a variable link, what crossed it while the packet waited.
    """
    time, rtt = seen.queued()
    delay = rtt - floor_s
    if capacity.is_constant:
        return delay * capacity.estimate.value / 8
    return seen.arrived_bytes(time - delay, time)


def _met(seen: Observed, floor_s: float, depth: Floats) -> Floats:
    """The queue that each row that counts packets met, bytes.

    In a capture it is the largest of a round trip before the row: samples after a loss would be
    longer because of it, and the queue of a packet is hardly longer than that of the one before.
    In other files it is the largest from a round trip before the row to one after it, and between
    several files a second more.
    """
    if not len(seen.rtt_s):
        return np.zeros(len(seen.counted_s))
    time, _ = seen.queued()
    # iperf3 writes the time of its start in whole seconds.
    margin = floor_s + (_NEAR_S if len(seen.found.sources) > 1 else 0.0)
    if CAPTURE in seen.found.format:
        margin = floor_s
        ends = np.searchsorted(time, seen.counted_s)
    elif seen.is_round_trip:
        ends = np.searchsorted(time, seen.counted_s + margin, side="right")
    else:
        after = seen.counted_s + seen.counted_span_s + margin
        ends = np.searchsorted(time, after, side="right")
    starts = np.searchsorted(time, seen.counted_s - margin)
    # Without a sample so close, the last one counts, or the first one of the file.
    ends = np.maximum(ends, 1)
    starts = np.minimum(starts, ends - 1)
    pairs = np.column_stack([starts, ends]).ravel()
    found: Floats = np.maximum.reduceat(np.append(depth, -np.inf), pairs)[::2]
    return found


def _air(
    seen: Observed, sent: float, lost: float, all_rows: tuple[float, float], why: str
) -> Estimate:
    total, all_lost = all_rows
    what = "packets, both directions together" if seen.is_round_trip else "packets"
    if (seen.lost % 1 > 0).any():
        what = "packets, as many as the spread of the rows' shares shows"
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
            f"cannot tell: {why}, so all losses may be overflows",
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
    most_seen: tuple[float, float],
    overflows: bool,
) -> Estimate:
    """The bytes that waited when packets were dropped.

    `most_seen` is the largest queue and the smallest round-trip time.
    """
    top, floor_s = most_seen
    dropped = high & (seen.lost > 0)
    if not overflows or not dropped.any():
        # The packets that arrive within a time stamp count twice. Buffers of some
        # bandwidth-delay products are usual, however little of them was used.
        known = capacity.estimate
        lowest = known.low / known.value if known.is_range and capacity.is_constant else 1.0
        largest = top * lowest - 2 * PACKET_BITS / 8 - _jitter(seen, capacity, top)
        largest = max(largest, PACKET_BITS / 8)
        most = _UNKNOWN * max(top, (floor_s or _ASSUMED_RTT_S) * known.value / 8, largest)
        most *= known.high / known.value if known.is_range else 1.0
        return Estimate(
            *("queue", "B", float(np.sqrt(largest * most)), largest, most, 0),
            "overflows",
            "queue depth unknown: no loss can be told to be an overflow; at least the largest"
            " queue seen",
            is_range=True,
        )
    times, sizes = seen.counted_s[dropped], q[dropped]
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
    # What the link layer retransmits lengthens the delay, of which the largest is taken.
    below = max(half, _jitter(seen, capacity, value))
    if (known := capacity.estimate).is_range and capacity.is_constant:
        low, high_end = (value * bound / known.value for bound in (known.low, known.high))
        # Where the queue was empty most of the time, losses of the air may have met these delays.
        high_end = max(high_end + 2 * PACKET_BITS / 8, _UNKNOWN * floor_s * known.high / 8)
        low -= 2 * PACKET_BITS / 8
        return Estimate(
            *("queue", "B", value, max(low, PACKET_BITS / 8), high_end, len(depth), "overflows"),
            "queue depth unknown, because the capacity is: delay at overflows x capacity",
            is_range=True,
        )
    return Estimate(
        *("queue", "B", value, max(value - below, PACKET_BITS / 8), value + half, len(depth)),
        "overflows",
        f"largest queueing delay at overflows x capacity, median; {LEVEL:.0%} by its spread",
    )


__all__ = ["Losses", "split"]
