"""The picture of a live link: rates, queues and delays over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lasthop.plotting import styles

#: What is drawn of each direction, columns of the series.
DRAWN = ("bytes", "queue", "transit_s")


def write(data: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw delivered rates, queues and one-way delays over time into `folder`; return the files."""
    series = data["series"]
    columns = dict(zip(series["columns"], zip(*series["rows"], strict=True), strict=True))
    with styles.use("page"), styles.style():
        figure, axes = styles.new_figure(5.5, 3, sharex=True)
        rate, queue, delay = axes
        times = columns["t_s"]
        spans = [b - a for a, b in zip((0.0, *times), times, strict=False)]
        for direction in ("down", "up"):
            bits = columns[f"{direction}_bytes"]
            rate.step(
                times,
                [8e-6 * b / s if s else 0 for b, s in zip(bits, spans, strict=True)],
                where="pre",
                label=f"{direction}link",
            )
            queue.step(times, columns[f"{direction}_queue"], where="pre", label=f"{direction}link")
            seconds = columns[f"{direction}_transit_s"]
            ms = [math.nan if s is None else 1e3 * s for s in seconds]
            delay.plot(times, ms, ".-", markersize=2)
        rate.set_ylabel("delivered (Mbit/s)")
        queue.set_ylabel("queue (packets)")
        delay.set_ylabel("one-way delay (ms)")
        delay.set_xlabel("time (s)")
        for axis in axes:
            axis.set_ylim(bottom=0)
            axis.set_xlim(0, times[-1])
        title = f"{data['scenario']}; scheme {data['scheme']}, seed {data['seed']}"
        styles.add_title_and_legend(figure, title, "IP packets, mean of each 100 ms")
        files = [folder / "link.svg", folder / "link.png"]
        styles.save(figure, files)
    return files
