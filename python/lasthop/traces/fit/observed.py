"""What a measurement says of one direction of a link, as series over time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lasthop.errors import InputError
from lasthop.traces import summary
from lasthop.traces.packets import Flags
from lasthop.traces.table import CAPTURE, DOWN, ROUND_TRIP, UP, Floats, Measurement

# Payload of a full packet with timestamps, and its size.
_PAYLOAD, _PACKET = 1448, 1500
#: Bits of a full packet.
PACKET_BITS = 8 * _PACKET
# Share of the receiver's window that counts as all of it: a segment may not fit.
_FULL_WINDOW = 0.8
# Delays above the smallest round-trip time that are looked at, seconds.
_WAIT_S = 0.002
# Share of a sample's queueing delay from which a pause of the sender explains it.
_PAUSE = 0.4
# Times of one packet differ by less than this, seconds.
_SAME_S = 1e-6
# Packets that arrive in a round-trip time after a timeout: the retransmission, and probes.
_AFTER_TIMEOUT = 3
# Distance of the windows whose smallest round-trip times are compared, seconds.
_WINDOW_S = 1.0


@dataclass(frozen=True)
class Observed:
    """The direction that carries the data: rows of bytes and losses, and delays."""

    found: Measurement
    #: DOWN or UP.
    direction: int
    #: Rows of this direction with bytes.
    rates: Measurement
    #: Times halfway between sending and answer, and round-trip times; s, in order of time.
    time_s: Floats
    rtt_s: Floats
    #: Rows that count packets: time, packets sent, packets lost.
    counted_s: Floats
    sent: Floats
    lost: Floats
    #: Factor from the bytes of the rows to those of IP packets.
    scale: float
    #: Whether losses are those of a round trip (ping), not of the direction.
    is_round_trip: bool
    #: Whether the losses of a row follow one another: a hole that a receiver saw.
    has_holes: bool = False
    #: Lengths of the rows that count packets, seconds.
    counted_span_s: Floats = field(default_factory=lambda: np.zeros(1))

    def queued(self) -> tuple[Floats, Floats]:
        """Round-trip times by the clock of the losses, in order of time.

        A capture counts losses when the lost segments left its sender, or when its receiver saw
        the hole; so its samples are placed at the sending or the arrival of their data.
        """
        if CAPTURE not in self.found.format:
            return self.time_s, self.rtt_s
        sign = -1 if self.found.is_sender_side else 1
        time = self.time_s + sign * self.rtt_s / 2
        order = np.argsort(time, kind="stable")
        return time[order], self.rtt_s[order]

    @property
    def duration_s(self) -> float:
        """Seconds from the first to the last row."""
        return float((self.found.time_s + self.found.span_s).max())

    def arrived_bytes(self, from_s: Floats, to_s: Floats) -> Floats:
        """Bytes of IP packets that the rows of the data have between times."""
        starts, spans = self.rates.time_s, self.rates.span_s
        edges = np.append(starts, starts[-1:] + spans[-1:])
        total = np.append(0.0, np.cumsum(np.nan_to_num(self.rates.bytes))) * self.scale
        if not len(starts):
            return np.zeros(len(from_s))
        bounds = [np.interp(t, edges, total) for t in (from_s, to_s)]
        found: Floats = bounds[1] - bounds[0]
        return found

    def floors(self) -> tuple[Floats, Floats]:
        """Starts of the windows of a second that have samples, and the smallest RTT in each."""
        window = (self.time_s // _WINDOW_S).astype(np.int64)
        starts = np.flatnonzero(np.append(True, window[1:] != window[:-1]))
        if not len(self.rtt_s):
            return self.time_s, self.rtt_s
        floors: Floats = np.minimum.reduceat(self.rtt_s, starts)
        return (window[starts] * _WINDOW_S).astype(np.float64), floors

    def rate_bps(self, edges_s: Floats) -> Floats:
        """Bits of IP packets per second between edges; NaN where nothing was measured."""
        if not len(self.rates.time_s):
            return np.full(len(edges_s) - 1, np.nan)
        rate, _ = summary.rate_by_interval(self.rates, edges_s)
        scaled: Floats = rate * self.scale
        return scaled

    def window_limited(self) -> float:
        """Share of the seconds in which the data of a round trip filled the receiver's window.

        0 if the window is not known.
        """
        window = self.found.window_bytes
        starts, floors = self.floors()
        if not window or len(starts) < 2:
            return 0.0
        first = starts[:, None] + np.array([0.0, _WINDOW_S])
        rate = np.array([self.rate_bps(edges)[0] for edges in first])
        flight = np.nan_to_num(rate) / 8 * floors * _PAYLOAD / _PACKET
        return float((flight > _FULL_WINDOW * window).mean())

    def resolution_s(self) -> float:
        """Length of the longest rows in which bytes that were measured are counted."""
        spans = self.rates.span_s[self.rates.bytes > 0]
        return float(np.percentile(spans, 90)) if len(spans) else np.inf


def of(found: Measurement) -> Observed:
    """The direction of a measurement that carries most bytes.

    Raises `InputError` if the measurement has neither rates nor round-trip times.
    """
    totals = [float(np.nansum(found.bytes[found.direction == d])) for d in (DOWN, UP)]
    direction = UP if totals[UP] > totals[DOWN] else DOWN
    rates = found.rates(direction)
    has_rtt = ~np.isnan(found.rtt_s)
    if CAPTURE in found.format:
        waits = _delayed_acks if found.is_sender_side else _timeouts
        sent_s, rtt_s = found.time_s[has_rtt], found.rtt_s[has_rtt]
        paused = waits(sent_s, rtt_s, rates)
        if not found.is_sender_side:
            paused |= _pauses(found, direction, sent_s + rtt_s)
        has_rtt[has_rtt] = ~paused
    time = found.time_s[has_rtt] + found.rtt_s[has_rtt] / 2
    order = np.argsort(time, kind="stable")
    if not len(order) and not len(rates.time_s):
        raise InputError(
            f"{', '.join(found.sources)}: neither rates nor round-trip times were measured"
        )
    counts = ~np.isnan(found.sent) & ~np.isnan(found.lost) & (found.sent + found.lost > 0)
    own = counts & (found.direction == direction)
    is_round_trip = not own.any()
    if is_round_trip:
        own = counts & (found.direction == ROUND_TRIP)
    counted = found.select(own)
    by_time = np.argsort(counted.time_s, kind="stable")
    return Observed(
        found,
        direction,
        rates,
        time[order],
        found.rtt_s[has_rtt][order],
        counted.time_s[by_time],
        np.maximum(counted.sent, counted.lost)[by_time],
        counted.lost[by_time],
        found.ip_factor,
        is_round_trip,
        CAPTURE in found.format and not found.is_sender_side,
        counted.span_s[by_time],
    )


def _delayed_acks(sent_s: Floats, rtt_s: Floats, rates: Measurement) -> Flags:
    """Samples that the wait of a delayed ACK may have lengthened (RFC 9293, section 3.8.6.3).

    A receiver waits if no other segment arrives: because the sender had none for a large part of
    the time that the sample is above the smallest one, or because the next ones were lost.
    """
    if not len(rtt_s):
        return np.zeros(0, dtype=bool)
    arrives = np.where(np.isnan(rates.sent), rates.bytes > 0, rates.sent > rates.lost)
    starts = np.append(rates.time_s[arrives], np.inf)
    ends = starts + np.append(rates.span_s[arrives], 0.0)
    following = np.searchsorted(starts, sent_s, side="right")
    own = np.maximum(following - 1, 0)
    above = rtt_s - float(rtt_s.min())
    delayed: Flags = (above > _WAIT_S) & (starts[following] - ends[own] > _PAUSE * above)
    return delayed


def _pauses(found: Measurement, direction: int, answered_s: Floats) -> Flags:
    """Samples that a receiver took when a message began: the application's pause is part of them.

    The first sample stays, so that there is one.
    """
    messages = found.messages
    if messages is None or len(answered_s) < 2:
        return np.zeros(len(answered_s), dtype=bool)
    starts = messages.start_s[messages.direction == direction]
    bounds = np.append(starts, np.inf)
    after = bounds[np.searchsorted(starts, answered_s - _SAME_S)] - answered_s
    paused: Flags = after <= _SAME_S
    paused[0] = False
    return paused


def _timeouts(sent_s: Floats, rtt_s: Floats, rates: Measurement) -> Flags:
    """Samples that a receiver took over a retransmission timeout of the sender.

    Nothing arrives for most of the time that the sample is above the smallest one, and then no
    more than a sender may send after a timeout (RFC 5681, section 3.1): a link after an outage
    delivers what waited. On links that carry hardly more in a round trip, this tells nothing.
    """
    has_data = (rates.bytes > 0) & ~np.isnan(rates.sent)
    if not len(rtt_s) or not has_data.any():
        return np.zeros(len(rtt_s), dtype=bool)
    floor = float(rtt_s.min())
    starts, spans = rates.time_s[has_data], rates.span_s[has_data]
    counted = np.append(0.0, np.cumsum((rates.sent - rates.lost)[has_data]))
    answered = sent_s + rtt_s
    row = np.maximum(np.searchsorted(starts, answered, side="right") - 1, 0)
    before = np.maximum(row - 1, 0)
    gap = starts[row] - starts[before] - spans[before]
    in_rtt = np.searchsorted(starts, starts + floor)
    carried = counted[in_rtt] - counted[:-1]
    if carried.max() <= 2 * _AFTER_TIMEOUT:
        return np.zeros(len(rtt_s), dtype=bool)
    above = rtt_s - floor
    late: Flags = (above > _WAIT_S) & (gap > 2 * _PAUSE * above) & (carried[row] <= _AFTER_TIMEOUT)
    return late


__all__ = ["PACKET_BITS", "Observed", "of"]
