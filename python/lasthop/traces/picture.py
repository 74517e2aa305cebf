"""The picture of a measurement: rates, round-trip times and losses over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lasthop.plotting import styles
from lasthop.traces import summary
from lasthop.traces.table import DIRECTIONS, Measurement

# Most points of a line; more would not be seen.
_POINTS = 4000


def write(found: Measurement, file: Path) -> None:
    """Draw the measurement into `file`, whose suffix is the format."""
    end = float((found.time_s + found.span_s).max())
    interval = max(1.0, np.ceil(end / _POINTS)) if end > 3 else max(end / 100, 1e-3)
    edges = np.arange(0.0, end + interval, interval)
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
                panel.step(edges[:-1], rate / 1e6, where="post", label=f"{name}link")
            panel.set_ylabel("rate (Mbit/s)")
            panel.set_ylim(bottom=0)
        if has_rtt:
            panel = next(axis)
            panel.plot(found.time_s, 1000 * found.rtt_s, ".", markersize=2)
            panel.set_ylabel("RTT (ms)")
            panel.set_ylim(bottom=0)
        if has_loss:
            panel = next(axis)
            place = np.clip(np.searchsorted(edges, found.time_s, side="right") - 1, 0, None)
            lost = np.bincount(place, weights=np.nan_to_num(found.lost), minlength=len(edges) - 1)
            sent = np.bincount(place, weights=np.nan_to_num(found.sent), minlength=len(edges) - 1)
            share = 100 * lost / np.where(sent > 0, sent, np.nan)
            panel.step(edges[: len(share)], share[: len(edges)], where="post")
            panel.set_ylabel("lost (%)")
            panel.set_ylim(bottom=0)
        panel.set_xlabel("time (s)")
        panel.set_xlim(0, end)
        title = ", ".join(Path(source).name for source in found.sources)
        styles.add_title_and_legend(figure, title, f"{found.format}, mean of each {interval:g} s")
        styles.save(figure, [file])
