"""Whether something on the way gathers ACKs, so that they arrive at the sender in bunches.

While packets wait for the link, ACKs leave at the distance of the packets. A medium that is granted
from time to time (an LTE uplink, DOCSIS, the aggregates of 802.11n) releases several at once.
"""

from __future__ import annotations

import numpy as np

from lasthop.traces.fit.capacity import Capacity
from lasthop.traces.fit.estimate import Estimate, Z
from lasthop.traces.fit.observed import Observed
from lasthop.traces.table import CAPTURE

# Bytes of an ACK with timestamps.
_ACK = 52
# A bunch has this many ACKs and takes at most this share of the time to the next one.
_LEAST_ACKS, _SHARE = 3, 0.5
# Share of the ACKs that are in bunches, if something gathers them, and the fewest ACKs.
_MOST, _FEWEST = 0.5, 200
# Longest distance of two bunches, seconds.
_LONGEST_S = 1.0


def find(seen: Observed, capacity: Capacity) -> Estimate:
    """The time for which ACKs are gathered: the median distance of bunches, 0 without them.

    Its interval is that of the order statistics of a median, and a time stamp on each side.
    """
    if CAPTURE not in seen.found.format or not seen.found.is_sender_side:
        return _unknown("only a capture at the sender of the data sees how ACKs arrive")
    rows = seen.found.rates(1 - seen.direction)
    rows = rows.select(rows.bytes > 0)
    bin_of = np.searchsorted(capacity.bins_s, rows.time_s, side="right") - 1
    if not len(capacity.bins_s) or not len(rows.time_s):
        return _unknown("the capture has no ACKs while packets waited")
    rows = rows.select(capacity.busy[np.maximum(bin_of, 0)])
    busy_s = float(capacity.busy.sum()) * float(np.diff(capacity.bins_s).min(initial=np.inf))
    acks = rows.bytes / _ACK
    if acks.sum() < _FEWEST:
        return _unknown("too few ACKs arrived while packets waited for the link")
    tick = float(rows.span_s.min())
    ends = rows.time_s + rows.span_s
    starts = np.flatnonzero(np.append(True, rows.time_s[1:] - ends[:-1] > tick / 2))
    begin = rows.time_s[starts]
    length = ends[np.append(starts[1:], len(ends)) - 1] - begin
    number = np.add.reduceat(acks, starts)
    apart = np.diff(begin, append=np.inf)
    is_bunch = (number >= _LEAST_ACKS) & (length <= _SHARE * apart)
    total = int(acks.sum())
    if number[is_bunch].sum() < _MOST * number.sum():
        # Three ACKs and the pause after them.
        shortest = max(2 * tick, (_LEAST_ACKS + 1) * busy_s / total)
        how = "ACKs did not arrive in bunches; those of fewer than three ACKs do not show"
        return Estimate("ack_bunching", "s", 0.0, 0.0, shortest, total, "ACKs", how)
    found = np.sort(apart[is_bunch & (apart <= _LONGEST_S)])
    n = len(found)
    if n < _FEWEST / _LEAST_ACKS / 10:
        return _unknown("too few bunches of ACKs arrived")
    spread = Z * np.sqrt(n) / 2
    ranks = np.clip([np.floor(n / 2 - spread), np.ceil(n / 2 + spread)], 0, n - 1).astype(int)
    low, high = found[ranks]
    how = "median distance of bunches of ACKs while packets waited; order statistics"
    bounds = (max(low - tick, 0.0), high + tick)
    return Estimate("ack_bunching", "s", float(np.median(found)), *bounds, n, "bunches", how)


def _unknown(why: str) -> Estimate:
    how = f"cannot tell: {why}; none is assumed"
    return Estimate("ack_bunching", "s", 0.0, 0.0, 0.0, 0, "bunches", how, is_range=True)


__all__ = ["find"]
