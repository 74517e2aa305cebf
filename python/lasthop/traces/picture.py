"""The picture of a measurement: rates, round-trip times and losses over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lasthop.plotting import styles
from lasthop.traces import summary
from lasthop.traces.table import DIRECTIONS, Measurement

# Most points of a line; more would not be seen.
_POINTS = 4000
# Samples from which points are small, and diameters in points of few and of many.
_MANY, _LARGE, _SMALL = 200, 5, 2
# Units of long measurements: seconds, name, and the length from which each is used.
_UNITS = ((86_400.0, "days", 172_800.0), (3600.0, "h", 10_800.0), (1.0, "s", 0.0))


def write(found: Measurement, file: Path) -> None:
    """Draw the measurement into `file`, whose suffix is the format."""
    end = float((found.time_s + found.span_s).max())
    interval = max(1.0, np.ceil(end / _POINTS)) if end > 3 else max(end / 100, 1e-3)
    edges = np.arange(0.0, end + interval, interval)
    unit, name_of_unit, _ = next(u for u in _UNITS if end >= u[2])
    rates = [(name, found.rates(i)) for i, name in enumerate(DIRECTIONS)]
    rates = [(name, rows) for name, rows in rates if len(rows.time_s)]
    has_rtt = bool((~np.isnan(found.rtt_s)).any())
    has_loss = bool((found.sent > 0).any())
    panels = [bool(rates), has_rtt, has_loss]
    with styles.use("page"), styles.style():
        figure, axes = styles.new_figure(1.2 + 1.5 * sum(panels), sum(panels), sharex=True)
        axis = iter(axes)
        if rates:
            panel = next(axis)
            for name, rows in rates:
                rate, _ = summary.rate_by_interval(rows, edges)
                panel.step(edges[:-1] / unit, rate / 1e6, where="post", label=f"{name}link")
            panel.set_ylabel("rate (Mbit/s)")
            panel.set_ylim(bottom=0)
        if has_rtt:
            panel = next(axis)
            size = _SMALL if (~np.isnan(found.rtt_s)).sum() > _MANY else _LARGE
            panel.plot(found.time_s / unit, 1000 * found.rtt_s, ".", markersize=size)
            panel.set_ylabel("RTT (ms)")
            panel.set_ylim(0, 1050 * float(np.nanmax(found.rtt_s)))
        if has_loss:
            panel = next(axis)
            place = np.clip(np.searchsorted(edges, found.time_s, side="right") - 1, 0, None)
            lost = np.bincount(place, weights=np.nan_to_num(found.lost), minlength=len(edges) - 1)
            sent = np.bincount(place, weights=np.nan_to_num(found.sent), minlength=len(edges) - 1)
            share = 100 * lost / np.where(sent > 0, sent, np.nan)
            places = edges[: len(share)] / unit
            panel.step(places, share[: len(edges)], where="post")
            if (counted := ~np.isnan(share[: len(edges)])).sum() <= _MANY:
                # A line needs two intervals beside each other.
                points = share[: len(edges)][counted]
                panel.plot(places[counted], points, ".", color="C0", markersize=_LARGE)
            panel.set_ylabel("lost (%)")
            panel.set_ylim(bottom=0)
        panel.set_xlabel(f"time ({name_of_unit})")
        panel.set_xlim(0, end / unit)
        title = ", ".join(Path(source).name for source in found.sources)
        styles.add_title_and_legend(figure, title, f"{found.format}, mean of each {interval:g} s")
        styles.save(figure, [file])
