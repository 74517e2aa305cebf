"""The picture of a fit: the measurement beside the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lasthop.plotting import styles
from lasthop.traces.fit.fit import Fit


def write(fit: Fit, simulated: Fit | None, file: Path) -> None:
    """Draw rates and round-trip times of the measurement and of a run of the fitted scenario."""
    series = [("measured", fit)] + ([("fitted scenario", simulated)] if simulated else [])
    with styles.use("page"), styles.style():
        figure, (rates, times) = styles.new_figure(4.2, 2, sharex=True)
        for name, one in series:
            if len(one.capacity.bins_s):
                edges = np.arange(0.0, one.seen.duration_s + 0.5, 0.5)
                rate = one.seen.rate_bps(edges)
                rates.step(edges[:-1], rate / 1e6, where="post", label=name)
            order, rtt = one.seen.time_s, one.seen.rtt_s
            times.plot(order, 1000 * rtt, ".", markersize=2, rasterized=True)
        link = fit.capacity
        if link.is_constant:
            style, label = (
                (":", "assumed capacity") if link.estimate.is_range else ("-", "capacity")
            )
            rates.axhline(link.estimate.value / 1e6, color="0.3", ls=style, label=label)
        else:
            rates.step(link.steps_s, link.steps_bps / 1e6, "0.3", where="post", label="capacity")
        base, queue = fit.base_rtt, fit.losses.queue
        times.axhline(1000 * base.value, color="0.3", lw=1)
        if not queue.is_range:
            full = base.value + 8 * queue.value / link.estimate.value
            times.axhline(1000 * full, color="0.3", lw=1, ls="--")
        rates.set_ylabel("rate (Mbit/s)")
        rates.set_ylim(bottom=0)
        times.set_ylabel("RTT (ms)")
        times.set_ylim(bottom=0)
        times.set_xlabel("time (s)")
        title = ", ".join(Path(source).name for source in fit.seen.found.sources)
        caption = "mean rate of each 0.5 s; lines of the RTT: base (solid), full queue (dashed)"
        styles.add_title_and_legend(figure, title, caption)
        styles.save(figure, [file])


__all__ = ["write"]
