"""The kind of traffic that a capture has, as an application of a scenario.

The messages of the direction that carries the data say it: what one end of a connection sent until
the other one sent data again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop.quantities import count as counted
from lasthop.quantities import format_number
from lasthop.traces.fit.observed import Observed
from lasthop.traces.packets import Flags
from lasthop.traces.table import DOWN, Floats, Messages

# A message is a bulk transfer if it lasts for this share of the measurement; most of the bytes are
# in such messages if this share is.
_LASTING, _MOST = 0.5, 0.5
# Fewest messages that say how large and how frequent they are.
_LEAST = 5
# Responses of a connection from which it is one of requests and responses.
_PER_CONNECTION = 5
# Chunks of a video: smallest median size, bytes, shortest and longest period, seconds, and the
# spread of the periods (half of the central 68 %, over the median) of a full buffer.
_CHUNK_BYTES, _PERIODS_S, _REGULAR = 30e3, (1.0, 15.0), 0.25
# Two bitrates of a ladder differ by at least this factor.
_STEP = 1.2
# Most connections that a scenario has.
_CONNECTIONS = 8
# Smallest spread of sizes (standard deviation of the logarithm).
_SPREAD = 0.05


@dataclass(frozen=True)
class Traffic:
    """What a user does, and the number of a run that says how well it goes."""

    #: "bulk", "upload", "requests", "transfers" or "video".
    kind: str
    #: What was found, as a sentence without a full stop.
    text: str
    #: `app` and further keys of the flow as TOML.
    flow: tuple[str, ...]
    #: Metric of the candidates, and what its improvement is called.
    metric: str
    gain: str
    #: Whether a smaller value is better.
    is_time: bool = False


def bulk(direction: int, why: str, count: int = 1) -> Traffic:
    """Bulk transfers in this direction."""
    kind = "bulk" if direction == DOWN else "upload"
    flow = ('app = "bulk"', *([f"count = {count}"] if count > 1 else []))
    return Traffic(kind, why, flow, "goodput_bps", "goodput")


def of(seen: Observed) -> Traffic:
    """The traffic of a measurement; one bulk transfer is assumed if it does not tell."""
    messages, direction = seen.found.messages, seen.direction
    if messages is None or not (messages.direction == direction).any():
        why = "assumed: one bulk transfer, because the files do not show connections"
        return bulk(direction, why)
    own = messages.direction == direction
    size, lasts = messages.bytes[own], (messages.end_s - messages.start_s)[own]
    is_long = lasts >= _LASTING * seen.duration_s
    if size[is_long].sum() >= _MOST * size.sum():
        number = int(is_long.sum())
        name = "bulk transfer" if direction == DOWN else "upload"
        return bulk(direction, f"{counted(number, name)} of the capture", min(number, _CONNECTIONS))
    if len(size) < _LEAST:
        why = f"assumed: one bulk transfer, because the capture has {counted(len(size), 'message')}"
        return bulk(direction, why)
    return _video(messages, own) or _messages(messages, own, seen.duration_s)


def _video(messages: Messages, own: Flags) -> Traffic | None:
    """Chunks that are requested at regular times, once the player's buffer is full."""
    connection, size = messages.connection[own], messages.bytes[own]
    totals = np.bincount(connection, weights=size)
    main = int(totals.argmax())
    rows = connection == main
    chunks, starts = size[rows], messages.start_s[own][rows]
    # Before the buffer is full, chunks follow one another.
    steady = np.diff(starts)[len(starts) // 2 :]
    if len(steady) < _LEAST - 1 or totals[main] < _MOST * size.sum():
        return None
    low, period, high = np.percentile(steady, [16, 50, 84])
    is_regular = (high - low) / 2 <= _REGULAR * period
    if not is_regular or np.median(chunks) < _CHUNK_BYTES:
        return None
    if not _PERIODS_S[0] <= period <= _PERIODS_S[1]:
        return None
    ladder: list[float] = []
    for rate in np.percentile(8 * chunks / period, [5, 25, 50, 75, 95]).tolist():
        if not ladder or rate >= _STEP * ladder[-1]:
            ladder.append(rate)
    rates = ", ".join(f'"{rate:.0f} bps"' for rate in ladder)
    text = (
        f"a video: {counted(len(chunks), 'chunk')} of {format_number(period, 3)} s at"
        f" {format_number(ladder[0] / 1e6, 2)} to {format_number(ladder[-1] / 1e6, 2)} Mbit/s"
    )
    app = f'app = {{ kind = "video", ladder = [{rates}], chunk = "{period:.3f} s" }}'
    return Traffic("video", text, (app,), "bitrate_bps", "bitrate without stalls")


def _messages(messages: Messages, own: Flags, duration_s: float) -> Traffic:
    """Requests with responses on few connections, or transfers on many."""
    connection, size = messages.connection[own], messages.bytes[own]
    number = len(np.unique(connection))
    shown = (
        f"{format_number(np.median(size) / 1e3, 3)} kB"
        f" [{format_number(np.percentile(size, 5) / 1e3, 3)},"
        f" {format_number(np.percentile(size, 95) / 1e3, 3)}]"
    )
    if len(size) < _PER_CONNECTION * number:
        every = duration_s / len(size)
        text = (
            f"{counted(len(size), 'transfer')} on {counted(number, 'connection')}, median {shown},"
            f" one every {format_number(every, 3)} s"
        )
        app = f'app = {{ kind = "poisson", size = {_sizes(size)}, every = "{1e3 * every:.0f} ms" }}'
        gain = "speed of transfers (1 / 95th percentile of their time)"
        return Traffic("transfers", text, (app,), "completed_s_p95", gain, is_time=True)
    think = _think_s(messages, own)
    # As many connections as are in use at once.
    spans = [float(np.ptp(messages.start_s[own][connection == c])) for c in np.unique(connection)]
    count = int(np.clip(round(sum(spans) / duration_s), 1, _CONNECTIONS))
    text = (
        f"requests: {counted(len(size), 'response')} on {counted(number, 'connection')}, median"
        f" {shown}, {1e3 * think:.0f} ms from a response to the next request"
    )
    app = (
        f'app = {{ kind = "requests", response = {_sizes(size)},'
        f' think = "{max(1e3 * think, 1):.0f} ms" }}'
    )
    flow = (app, *([f"count = {count}"] if count > 1 else []))
    gain = "speed of responses (1 / 95th percentile of their time)"
    return Traffic("requests", text, flow, "response_s_p95", gain, is_time=True)


def _think_s(messages: Messages, own: Flags) -> float:
    """Mean time from the end of a response to the next request on its connection."""
    order = np.argsort(messages.connection, kind="stable")
    connection, is_own = messages.connection[order], own[order]
    follows = (connection[1:] == connection[:-1]) & is_own[:-1] & ~is_own[1:]
    waits = (messages.start_s[order][1:] - messages.end_s[order][:-1])[follows]
    return float(waits.mean()) if len(waits) else 0.0


def _sizes(size: Floats) -> str:
    """Log-normal sizes between the smallest and the largest one, or a standard deviation."""
    middle, sigma = float(np.median(size)), max(float(np.log(size).std(ddof=1)), _SPREAD)
    low = min(float(size.min()), middle * float(np.exp(-sigma)))
    high = max(float(size.max()), middle * float(np.exp(sigma)))
    return (
        f'{{ distribution = "lognormal", median = "{middle:.0f} B", sigma = {sigma:.3f},'
        f' min = "{low:.0f} B", max = "{high:.0f} B" }}'
    )


__all__ = ["Traffic", "bulk", "of"]
