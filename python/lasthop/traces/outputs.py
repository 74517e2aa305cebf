"""What is written from a measurement: traces of rate, delay and loss, and tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lasthop.errors import InputError
from lasthop.traces import mahimahi, series, summary
from lasthop.traces.table import DIRECTIONS, DOWN, ROUND_TRIP, UP, Floats, Measurement

#: Packets over which a loss probability is averaged.
LOSS_PACKETS = 100


def rate_trace(found: Measurement, direction: int, gaps: str) -> str:
    """The mahimahi trace of a direction."""
    rows = found.rates(direction)
    if not len(rows.time_s):
        raise InputError(_no_rate(found, direction))
    span, size = rows.span_s, rows.bytes
    if gaps == "zero":
        ends = np.concatenate([[0.0], (rows.time_s + span)[:-1]])
        pauses = np.clip(rows.time_s - ends, 0, None)
        span = np.ravel(np.column_stack([pauses, span]))
        size = np.ravel(np.column_stack([np.zeros(len(size)), size]))
    times = mahimahi.opportunities(span, size)
    blocks = (times[i : i + mahimahi.BLOCK] for i in range(0, len(times), mahimahi.BLOCK))
    return "".join("\n".join(map(str, block.tolist())) + "\n" for block in blocks)


def _no_rate(found: Measurement, direction: int) -> str:
    files = ", ".join(found.sources)
    if len(found.rates(1 - direction).time_s):
        has, lacks = DIRECTIONS[1 - direction], DIRECTIONS[direction]
        return (
            f"{files}: only the {has}link was measured; write it with --out NAME.{has}, or exchange"
            f" the directions with --swap, if it is the {lacks}link"
        )
    return f"{files}: no rate was measured; --out-delay and --out-loss write what the file has"


def _timeline(rows: Measurement, gaps: str) -> Floats:
    """Start of each row in ms; gaps are left out with "join"."""
    if gaps == "join":
        return np.concatenate([[0.0], np.cumsum(rows.span_s)[:-1]]) * 1000
    passed: Floats = rows.time_s * 1000
    return passed


def _line(time_ms: float, value: float) -> str:
    return f"{time_ms:.3f}".rstrip("0").rstrip(".") + f" {value:.6g}\n"


def delay_trace(found: Measurement, gaps: str) -> str:
    """The delay trace: downlink delays if they were measured, or half of each round-trip time."""
    rows = delays(found, DOWN)
    if not len(rows.time_s):
        raise InputError(f"{', '.join(found.sources)}: no round-trip time was measured")
    is_one_way = (rows.direction != ROUND_TRIP).any()
    # A packet that was lost has no round-trip time: the delay before it is held.
    around = rows if is_one_way else found.select(_has_round_trip(found))
    values = around.delay_s if is_one_way else around.rtt_s / 2
    lines = [
        _line(time, 1000 * value)
        for time, value in zip(_timeline(around, gaps), values, strict=True)
        if not np.isnan(value)
    ]
    what = "downlink" if is_one_way else "half of the round-trip time"
    return f"{series.DELAY_HEAD} ({what})\n" + "".join(lines)


def delays(found: Measurement, direction: int) -> Measurement:
    """The rows with one-way delays of a direction, or else half of the round-trip times."""
    measured = found.select((found.direction == direction) & ~np.isnan(found.delay_s))
    if len(measured.time_s):
        return measured
    rows = found.select(~np.isnan(found.rtt_s))
    return replace(rows, delay_s=rows.rtt_s / 2, direction=np.full_like(rows.direction, ROUND_TRIP))


def _has_round_trip(found: Measurement) -> NDArray[np.bool_]:
    has: NDArray[np.bool_] = (found.direction == ROUND_TRIP) | ~np.isnan(found.rtt_s)
    return has


def loss_trace(found: Measurement, gaps: str) -> str:
    """The loss trace: the share of lost packets, each over at least `LOSS_PACKETS` packets.

    Of several directions with losses, the downlink or the round trip is used.
    """
    counted = ~np.isnan(found.lost) & (found.sent > 0)
    of = next((d for d in (DOWN, ROUND_TRIP, UP) if (counted & (found.direction == d)).any()), None)
    if of is None:
        raise InputError(f"{', '.join(found.sources)}: no losses were counted")
    rows = found.select(counted & (found.direction == of))
    times = _timeline(rows, gaps)
    blocks: list[list[float]] = []
    for time, sent, lost in zip(times, rows.sent, rows.lost, strict=True):
        if not blocks or blocks[-1][1] >= LOSS_PACKETS:
            blocks.append([time, 0.0, 0.0])
        blocks[-1][1] += sent
        blocks[-1][2] += lost
    if len(blocks) > 1 and blocks[-1][1] < LOSS_PACKETS:
        _, sent, lost = blocks.pop()
        blocks[-1][1] += sent
        blocks[-1][2] += lost
    head = f"{series.LOSS_HEAD}\n"
    return head + "".join(_line(time, lost / sent) for time, sent, lost in blocks)


def table(found: Measurement, interval_s: float = 1.0) -> str:
    """Rates, round-trip time and loss of each interval as CSV, with units in the head."""
    end = float((found.time_s + found.span_s).max())
    count = max(1, int(np.ceil(end / interval_s - 1e-9)))
    edges = np.append(np.arange(count) * interval_s, end)
    columns: dict[str, Floats] = {"start_s": edges[:-1], "end_s": edges[1:]}
    for direction, name in enumerate(DIRECTIONS):
        rows = found.rates(direction)
        if len(rows.time_s):
            rate, _ = summary.rate_by_interval(rows, edges)
            columns[f"{name}load_mbps"] = rate / 1e6
    place = np.clip((found.time_s / interval_s).astype(np.int64), 0, count - 1)
    if (~np.isnan(found.rtt_s)).any():
        columns["rtt_ms"] = 1000 * _means(place, found.rtt_s, count)
    if (found.sent > 0).any():
        share = _means(place, found.lost, count) / _means(place, found.sent, count)
        columns["loss_percent"] = 100 * share
    lines = [",".join(columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append(",".join("" if np.isnan(v) else f"{v:.9g}" for v in row))
    return "\n".join(lines) + "\n"


def _means(place: np.ndarray, values: Floats, count: int) -> Floats:
    has = ~np.isnan(values)
    number = np.bincount(place[has], minlength=count)
    total = np.bincount(place[has], weights=values[has], minlength=count)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
