"""Panels of series over time: of one run, and of the mean over runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lasthop.analysis import series
from lasthop.plotting.plots import Line, Panel
from lasthop.plotting.styles import MIN_RUNS_FOR_INTERVAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lasthop.analysis.series import Events


def panel(
    name: str,
    lines: Sequence[Line],
    span: tuple[float, float],
    marks: Sequence[tuple[float, str]] = (),
) -> Panel:
    """The panel of a series over a span of time (seconds); "delay" is a distribution."""
    if name == "delay":
        return Panel(series.SERIES[name][0], lines, x_label="one-way delay (ms)")
    return Panel(series.SERIES[name][0], lines, x_range=span, marks=marks)


#: Most flows with a line each; more have thin lines and their mean.
MAX_LINES = 7

# Kinds of events that are drawn as dots on the congestion window -> their names.
REDUCTIONS = {"fast_retransmit": "fast retransmit", "timeout": "timeout"}


def reductions(flows: Sequence[Events]) -> list[Line]:
    """The fast retransmits and timeouts of flows of one run, as dots on the congestion window."""
    lines = []
    for kind, name in REDUCTIONS.items():
        dots = []
        for events in flows:
            t, cwnd = series.steps(events, "cwnd")
            at = events.only(kind).t
            at = at[at >= t[0]] if len(t) else at[:0]
            dots.append((at, cwnd[np.searchsorted(t, at, side="right") - 1] if len(at) else at))
        x, y = (np.concatenate(part) for part in zip(*dots, strict=True))
        if len(x):
            lines.append(Line(name, x, y, dots=True, size=4.0))
    return lines


def of_run(events: Events, name: str, label: str, span: tuple[float, float]) -> list[Line]:
    """The lines of a series of one run."""
    if name == "sequence":
        sent, acks = events.only("data_sent"), events.only("ack_received")
        return [
            Line(f"{label}: sent", sent.t, sent.seq.astype(np.float64) * 1e-3, dots=True),
            Line(f"{label}: acknowledged", acks.t, acks.ack.astype(np.float64) * 1e-3, dots=True),
        ]
    if name == "delay":
        delays = series.delays(events)
        return [of_delays([delays], label)] if len(delays) else []
    if name in series.STEPS:
        return [Line(label, *series.extend_to(series.steps(events, name), span[1]), steps=True)]
    grid = np.linspace(*span, series.POINTS)
    return [Line(label, grid, series.sample(events, name, grid))]


def of_flows(
    flows: Sequence[tuple[str, Events]], name: str, span: tuple[float, float]
) -> list[Line]:
    """The lines of a series of one run, one per flow with its label.

    With more flows than colours, thin lines and their mean. The queue is that of all flows.
    """
    if name == "queue" and len(flows) > 1:
        flows = [("queue of all flows", flows[0][1])]
    flows = [(label, e) for label, e in flows if e.only(*series.SERIES[name][1]).count]
    if len(flows) <= MAX_LINES or name in ("delay", "sequence"):
        return [line for label, events in flows for line in of_run(events, name, label, span)]
    grid = np.linspace(*span, series.POINTS)
    samples = [series.sample(events, name, grid) for _, events in flows]
    known = np.isfinite(samples)
    total, count = np.where(known, samples, 0.0).sum(axis=0), known.sum(axis=0)
    mean = np.where(count, total / np.maximum(count, 1), np.nan)
    return [Line(f"mean of {len(flows)} flows (thin lines)", grid, mean, runs=tuple(samples))]


def of_runs(samples: Sequence[NDArray[np.float64]], grid: NDArray[np.float64], label: str) -> Line:
    """The mean of a series over runs, with its confidence interval or, for few runs, each run."""
    mean: NDArray[np.float64] = np.vstack(samples).mean(axis=0)
    if len(samples) < 2:
        return Line(label, grid, mean)
    if len(samples) < MIN_RUNS_FOR_INTERVAL:
        return Line(label, grid, mean, runs=tuple(samples))
    low, high = series.band(samples)
    return Line(label, grid, mean, low, high)


def of_delays(samples: Sequence[NDArray[np.float64]], label: str) -> Line:
    """The distribution of one-way delays, in milliseconds."""
    x, share = series.distribution(samples)
    return Line(label, x * 1e3, share)


__all__ = [
    "MIN_RUNS_FOR_INTERVAL",
    "REDUCTIONS",
    "of_delays",
    "of_flows",
    "of_run",
    "of_runs",
    "panel",
    "reductions",
]
