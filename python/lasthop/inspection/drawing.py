"""What the page draws of a connection, with as many points as it can show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lasthop import limits
from lasthop.inspection import downsample, medium, series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lasthop.inspection.record import Connection, Floats

#: Bins of the downsampling for a page with one column; further columns share them.
BINS: Final = 5000
#: Rows of the grid in which at most one dot per cell is kept.
LEVELS: Final = 250
#: Intervals for which the shares of the limits are drawn.
SHARE_BINS: Final = 800


@dataclass(frozen=True)
class Drawing:
    """The charts of a connection. Times in seconds."""

    duration_s: float
    panels: list[series.Panel]
    #: Width of the intervals of `shares`.
    share_width_s: float
    #: Share of each interval by what limited the sender.
    shares: Mapping[str, Floats]
    #: Start, end and name.
    outages: list[list[Any]]
    is_downsampled: bool


def bins(columns: int) -> int:
    """Number of bins for a page with this number of columns."""
    return max(BINS // columns, 500)


def of(connection: Connection, bins: int) -> Drawing:
    """Draw a connection with this number of bins."""
    record = connection.record
    panels: list[series.Panel] = []
    reduced = False
    for panel in [*series.panels(connection), *medium.panels(connection)]:
        item, fewer = _panel(panel, bins)
        panels.append(item)
        reduced |= fewer
    path = set(connection.path)
    outages = [
        [o.start_s, o.end_s, f"outage of {record.link_name(o.link)}"]
        for o in record.outages
        if o.link in path or not path
    ]
    return Drawing(
        record.duration_s,
        panels,
        record.duration_s / SHARE_BINS,
        _shares(connection),
        outages or [[o.start_s, o.end_s, ""] for o in record.outages],
        reduced,
    )


def _panel(panel: series.Panel, bins: int) -> tuple[series.Panel, bool]:
    """The panel with fewer points, and whether any point was left out."""
    items, reduced = [], False
    for s in panel.series:
        t, v = s.t, s.v
        if s.kind == "dots":
            keep = downsample.pixels(t, v, bins, LEVELS) if len(t) > 4 * bins else np.arange(len(t))
        else:
            keep = downsample.extremes(t, np.nan_to_num(v, nan=-1.0), bins)
        reduced |= len(keep) < len(t)
        items.append(replace(s, t=t[keep], v=v[keep]))
    marks = []
    for m in panel.marks:
        # Losses, timeouts and retransmissions are all kept. SACK blocks are not losses.
        keep = downsample.pixels(m.t, m.v, bins, LEVELS) if m.key == "sack" else np.arange(len(m.t))
        reduced |= len(keep) < len(m.t)
        marks.append(
            replace(
                m,
                label=f"{m.label} ({len(m.t)})",
                t=m.t[keep],
                v=m.v[keep],
                v_end=None if m.v_end is None else m.v_end[keep],
            )
        )
    return replace(panel, series=items, marks=marks), reduced


def _shares(connection: Connection) -> dict[str, NDArray[np.float64]]:
    """Shares of each interval of time by what limits the sender."""
    end = connection.record.duration_s
    width = end / SHARE_BINS
    spent = {key: np.zeros(SHARE_BINS) for key in limits.NAMES}
    for start, stop, key in series.bands(connection):
        first, last = int(start / width), min(int(stop / width), SHARE_BINS - 1)
        first = min(first, SHARE_BINS - 1)
        if first == last:
            spent[key][first] += stop - start
            continue
        spent[key][first] += (first + 1) * width - start
        spent[key][first + 1 : last] += width
        spent[key][last] += stop - last * width
    return {key: np.clip(v / width, 0.0, 1.0) for key, v in spent.items() if v.any()}


__all__ = ["BINS", "Drawing", "bins", "of"]
