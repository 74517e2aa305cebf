"""The capacity, from the times at which packets waited for the link."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lasthop.analysis.student import quantile
from lasthop.traces.fit.estimate import LEVEL, Estimate
from lasthop.traces.fit.observed import PACKET_BITS, Observed
from lasthop.traces.packets import Flags
from lasthop.traces.table import CAPTURE, Floats

# Bins of the rate, seconds, and packets that a bin must hold at the highest rate.
_BIN_S, _PACKETS = 0.1, 20
# At the sender, bins of at least this length and number of round-trip times even out pauses.
_SENDER_BIN_S, _SENDER_RTTS = 1.0, 5
# What left in a bin may be more than what the link carried in it, by up to this factor.
_SENDER_BURST = 1.2
# Queueing delay above which the link is busy: this, and packets at the highest rate.
_LEAST_WAIT_S, _WAITING = 0.002, 3
# Fewest busy bins that give an estimate.
_LEAST_BINS = 10
# Share of the time in which packets waited from which too few bins are due to a short measurement.
_MOSTLY = 0.5
# Share of the time in which packets must wait for the rates of a variable link to be its own.
_MOSTLY_BUSY = 0.9
# Spread of the rates (standard deviation / median) of a constant link.
_CONSTANT = 0.05
# Share of the highest rate that a constant link carries while packets wait.
_CARRIES = 0.5
# Rates that are possible if none was measured, bit/s.
_UNMEASURED = (1e5, 1e8)
# An unknown capacity is between the highest measured rate and this many times as much.
_UNKNOWN = 10.0
# The rate of packet pairs is the capacity up to a few percent, and what the link layer sends again:
# at least this share of it is left.
_OF_PAIRS, _PAIRS_HIGH = 0.5, 1.03
# The fastest bin of a link with link-layer retransmission is above its mean, by about this.
_LINK_LAYER = 0.95
# Headers of the link layer are in no measurement: no interval is narrower than this, each side.
_LEAST_HALF = 0.01
# Length of a step of a variable capacity, seconds, and the most steps.
_STEP_S, _STEPS = 1.0, 600


@dataclass(frozen=True)
class Capacity:
    """The capacity of the direction of the data."""

    estimate: Estimate
    #: Share of the time in which packets waited.
    busy_share: float
    #: Starts and rates of the bins, bit/s, and which of them were busy.
    bins_s: Floats
    rate_bps: Floats
    busy: Flags
    #: Starts and rates of a variable capacity; empty for a constant one.
    steps_s: Floats
    steps_bps: Floats

    @property
    def is_constant(self) -> bool:
        """Whether one rate describes the link."""
        return not len(self.steps_s)


def find(seen: Observed, air_loss: float = 0.0) -> Capacity:
    """The rate at which bytes arrived while the round-trip time showed a queue.

    A bin is busy if the smallest queueing delay in it, a round trip of margin included, is above
    2 ms and three packets. Frames that are lost on the air take capacity too, so the rate is
    divided by 1 - `air_loss`. The interval of a constant rate is that of the mean of the busy bins
    (Student's t); that of a variable one is the bootstrap interval over blocks of ten seconds.
    """
    edges, rate, width = _bins(seen)
    highest = float(rate.max()) if len(rate) else 0.0
    busy = _busy(seen, edges, highest)
    share = float(busy.mean()) if len(busy) else 0.0
    rate = rate / (1 - air_loss)
    empty = np.empty(0)
    steps = (empty, empty)
    if busy.sum() < _LEAST_BINS:
        found = _unknown(seen, highest, share, width)
    elif _is_constant(rate[busy], width, highest):
        found = _constant(seen, rate[busy])
    elif (pairs := _faster_pairs(seen, rate[busy])) is not None:
        found = _shared(seen, rate[busy], pairs)
    elif seen.found.is_sender_side:
        found = _of_sender(rate[busy])
    else:
        steps = _steps(edges, rate, busy)
        found = _variable(edges[:-1], rate, busy)
    found = replace(found, of=f"busy bins of {1000 * width:.0f} ms")
    return Capacity(found, share, edges[:-1], rate, busy, *steps)


def _bins(seen: Observed) -> tuple[Floats, Floats, float]:
    """Edges and rates of the bins, and their length."""
    least = _BIN_S
    if seen.found.is_sender_side and len(seen.rtt_s):
        least = max(_SENDER_BIN_S, _SENDER_RTTS * float(seen.rtt_s.min()))
    width = max(least, seen.resolution_s() if np.isfinite(seen.resolution_s()) else least)
    edges = np.arange(0.0, seen.duration_s + width, width)
    rate = np.nan_to_num(seen.rate_bps(edges))
    highest = float(rate.max()) if len(rate) else 0.0
    if highest > 0 and width < _PACKETS * PACKET_BITS / highest:
        width = _PACKETS * PACKET_BITS / highest
        edges = np.arange(0.0, seen.duration_s + width, width)
        rate = np.nan_to_num(seen.rate_bps(edges))
    return edges, rate, width


def _is_constant(values: Floats, width: float, highest_bps: float) -> bool:
    if float(values.mean()) < _CARRIES * highest_bps:
        return False
    spread = float(np.percentile(values, 84) - np.percentile(values, 16)) / 2
    return spread <= _CONSTANT * float(values.mean()) + PACKET_BITS / width


def _estimate(value: float, low: float, high: float, n: int, how: str, is_range: bool) -> Estimate:
    return Estimate("capacity", "bit/s", value, low, high, n, "", how, is_range)


def _constant(seen: Observed, values: Floats) -> Estimate:
    mean, n = float(values.mean()), len(values)
    half = quantile(LEVEL, n - 1) * float(values.std(ddof=1)) / np.sqrt(n)
    half = max(half, (3 if seen.found.is_sender_side else 1) * _LEAST_HALF * mean)
    how = "constant: mean rate while packets waited"
    found = _estimate(mean, mean - half, mean + half, n, how, is_range=False)
    if seen.found.pair_rate_bps is None:
        note = "no pairs of packets show the rate of the link: what other traffic took is missing"
        return replace(found, note=note)
    return found


def _of_sender(values: Floats) -> Estimate:
    mean, fast = float(values.mean()), float(np.percentile(values, 90))
    how = (
        "capacity unknown: what left the sender varies with its own pauses (capture at the"
        " receiver)"
    )
    return _estimate(fast, mean / _SENDER_BURST, _UNKNOWN * mean, len(values), how, is_range=True)


def _faster_pairs(seen: Observed, values: Floats) -> float | None:
    """The rate of packet pairs if it is above that of the flow; in bunches, pairs say nothing."""
    pairs, mean = seen.found.pair_rate_bps, float(values.mean())
    return pairs if pairs is not None and mean < pairs < _UNKNOWN * mean else None


def _shared(seen: Observed, values: Floats, pairs: float) -> Estimate:
    mean = float(values.mean())
    how = (
        f"capacity unknown: packets that followed one another show {pairs / 1e6:.3g} Mbit/s,"
        " but the measured flows got less while they waited: other traffic in the same queue,"
        " or retransmissions of the link layer"
    )
    low, high = (1 - _LEAST_HALF) * mean, (1 + _LEAST_HALF) * pairs
    if seen.found.is_sender_side:
        low = min(low, mean / _SENDER_BURST)
    return _estimate(float(np.sqrt(mean * pairs)), low, high, len(values), how, is_range=True)


def _variable(starts: Floats, rate: Floats, busy: Flags) -> Estimate:
    values, share = rate[busy], float(busy.mean())
    mean = float(values.mean())
    if share < _MOSTLY_BUSY:
        # Each bin without a queue carried less than it could.
        least = float(rate.mean())
        most = share * mean + (1 - share) * _UNKNOWN * least
        how = (
            f"capacity unknown: it varies, and packets waited in {100 * share:.0f} % of the time"
            " only; at least the mean rate"
        )
        middle = float(np.sqrt(least * most))
        return _estimate(middle, least, most, len(values), how, is_range=True)
    low, high = _block_interval(starts[busy], values)
    how = (
        f"variable (standard deviation {100 * values.std() / mean:.0f} %): mean while packets"
        " waited, bootstrap over blocks of 10 s"
    )
    return _estimate(mean, low, high, len(values), how, is_range=False)


def _busy(seen: Observed, edges: Floats, highest_bps: float) -> Flags:
    if not len(seen.rtt_s) or highest_bps <= 0:
        return np.zeros(len(edges) - 1, dtype=bool)
    base = float(seen.rtt_s.min())
    limit = max(_LEAST_WAIT_S, _WAITING * PACKET_BITS / highest_bps)
    starts = np.searchsorted(seen.time_s, edges[:-1] - base / 2)
    ends = np.searchsorted(seen.time_s, edges[1:] + base / 2)
    waits = seen.rtt_s - base > limit
    idle_before = np.append(0, np.cumsum(~waits))
    # Pings may begin before the transfer beside them, and end after it.
    first, last = seen.rates.time_s[0], (seen.rates.time_s + seen.rates.span_s).max()
    measured = (edges[1:] > first) & (edges[:-1] < last)
    busy: Flags = measured & (ends > starts) & (idle_before[ends] == idle_before[starts])
    return busy


def _unknown(seen: Observed, highest: float, share: float, width: float) -> Estimate:
    if not len(seen.rtt_s):
        why = "no round-trip times, which would show when packets waited"
    elif share > _MOSTLY:
        why = (
            f"packets waited in {100 * share:.0f} % of the time, but in fewer than {_LEAST_BINS}"
            f" intervals of {width:.2g} s (measure for longer)"
        )
    elif (limited := seen.window_limited()) > _MOSTLY:
        why = (
            f"the receiver's window of {(seen.found.window_bytes or 0) / 1000:.3g} kB limited the"
            f" sender in {100 * limited:.0f} % of the time (let the receiver have a larger one)"
        )
    else:
        why = (
            f"no queue in {100 * (1 - share):.0f} % of the time: the sender was limited by its"
            " application, by a window or by losses, not by the link"
        )
    if highest <= 0:
        low, high = _UNMEASURED
        how = f"capacity unknown: no rate was measured, and {why}"
        return _estimate(float(np.sqrt(low * high)), low, high, 0, how, is_range=True)
    # A packet more or less may fall into a bin.
    low = max(_LINK_LAYER * highest - PACKET_BITS / width, highest / 2)
    if seen.found.is_sender_side:
        # A bin in which a window was sent at once is above the capacity.
        low /= _SENDER_BURST
    elif CAPTURE not in seen.found.format and len(seen.rtt_s):
        # What waits behind a lost segment reaches the application at once, a round trip later.
        low /= 1 + float(np.percentile(seen.rtt_s, 95)) / width
    how = f"capacity unknown: {why}; at least the highest rate measured"
    value, high = low * np.sqrt(_UNKNOWN), low * _UNKNOWN
    pairs = seen.found.pair_rate_bps
    if pairs is not None and low < pairs < _UNKNOWN * high:
        how += f", at most the {pairs / 1e6:.3g} Mbit/s of packets that followed one another"
        if seen.found.is_sender_side and pairs > high:
            # ACKs that waited together follow one another as fast as their own link sends them.
            return _estimate(float(np.sqrt(low * pairs)), low, _PAIRS_HIGH * pairs, 0, how, True)
        # What the link layer sends again takes a part of this rate.
        value, low, high = pairs, max(low, pairs * _OF_PAIRS), pairs * _PAIRS_HIGH
    return _estimate(value, low, high, 0, how, is_range=True)


def _steps(edges: Floats, rate: Floats, busy: Flags) -> tuple[Floats, Floats]:
    """Mean rates of the busy bins by the step; steps without any get the rate between."""
    length = max(_STEP_S, edges[-1] / _STEPS, edges[1] - edges[0])
    step = (edges[:-1] // length).astype(np.int64)
    count = np.bincount(step, weights=busy)
    total = np.bincount(step, weights=np.where(busy, rate, 0.0))
    known = np.flatnonzero(count > 0)
    values = np.interp(np.arange(len(count)), known, total[known] / count[known])
    return np.arange(len(count)) * length, values


def _block_interval(times: Floats, values: Floats, seed: int = 1) -> tuple[float, float]:
    block = np.unique(times // 10.0, return_inverse=True)[1]
    counts, sums = np.bincount(block), np.bincount(block, weights=values)
    mean = float(values.mean())
    if len(counts) < 3:
        return 0.5 * mean, 1.5 * mean
    drawn = np.random.default_rng(seed).integers(len(counts), size=(2000, len(counts)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.percentile(means, [50 - 50 * LEVEL, 50 + 50 * LEVEL])
    return float(min(low, (1 - _LEAST_HALF) * mean)), float(max(high, (1 + _LEAST_HALF) * mean))


__all__ = ["Capacity", "find"]
