"""Checks of plots: clipped data, empty panels, text that overlaps or is outside of the page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from lasthop.experiments.chart_spec import Chart
from lasthop.experiments.comparison import Comparison
from lasthop.plotting import charts

SLACK = 0.5  # pixels by which boxes may touch


def default_figure(comparison: Comparison) -> Figure:
    """The figure that a comparison has without further words."""
    return charts.draw(comparison, Chart())


def scatter(comparison: Comparison) -> Figure:
    """Goodput against delay."""
    return charts.draw(comparison, Chart("scatter", ("goodput_bps",), x="one_way_delay_s_p95"))


def faults(figure: Figure, zoomed: bool = False) -> list[str]:
    """All faults of a drawn figure, one line each."""
    figure.draw_without_rendering()
    found: list[str] = []
    for number, axes in enumerate(figure.axes):
        if not _is_colour_bar(axes) and not _is_declared_empty(axes):
            found += [f"panel {number}: {fault}" for fault in _data(axes, zoomed)]
    texts = list(_texts(figure))
    page = figure.bbox
    for what, _, box in texts:
        inside = page.x0 - SLACK <= box.x0 and box.x1 <= page.x1 + SLACK
        if not inside or box.y0 < page.y0 - SLACK or box.y1 > page.y1 + SLACK:
            found.append(f"{what!r} is outside of the page")
    for (a, _, one), (b, _, other) in itertools.combinations(texts, 2):
        if _overlap(one, other):
            found.append(f"{a!r} overlaps {b!r}")
    for what, home, box in texts:
        for number, axes in enumerate(figure.axes):
            if axes is not home and _overlap(box, axes.get_window_extent()):
                found.append(f"{what!r} is in panel {number}")
    return found


def _is_colour_bar(axes: Axes) -> bool:
    return axes.get_label() == "<colorbar>"


def _is_declared_empty(axes: Axes) -> bool:
    return [t.get_text() for t in axes.texts] == ["no values"]


def _data(axes: Axes, zoomed: bool) -> list[str]:
    """Points outside of the limits, and panels without data."""
    (x0, x1), (y0, y1) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    slack_x, slack_y = 1e-9 * (x1 - x0), 1e-9 * (y1 - y0)
    found: list[str] = []
    drawn = 0
    for label, points in _points(axes):
        known = points[np.isfinite(points).all(axis=1)]
        x, y = known[:, 0], known[:, 1]
        if zoomed:  # only a span of time is shown
            known = known[(x >= x0) & (x <= x1)]
            x, y = known[:, 0], known[:, 1]
        drawn += len(known)
        cut = (x < x0 - slack_x) | (x > x1 + slack_x) | (y < y0 - slack_y) | (y > y1 + slack_y)
        if cut.any():
            found.append(f"{label} has {known[cut][0]} outside of x {x0, x1}, y {y0, y1}")
    return found if drawn else ["nothing is drawn"]


def _points(axes: Axes) -> Iterator[tuple[str, Any]]:
    """Points of lines (with caps of error bars), bars and dots, in data coordinates."""
    for line in axes.get_lines():
        points = np.asarray(line.get_xydata(), dtype=float)
        if line.get_transform().contains_branch(axes.transData) and points.size:
            if line.get_transform() == axes.get_yaxis_transform(which="grid"):
                points = np.column_stack([np.full(len(points), axes.get_xlim()[0]), points[:, 1]])
            if line.get_transform() == axes.get_xaxis_transform(which="grid"):
                continue  # a marked time
            yield str(line.get_label()), points
    for dots in axes.collections:
        if isinstance(dots, PathCollection):
            yield str(dots.get_label()), np.asarray(dots.get_offsets(), dtype=float)
    for patch in axes.patches:
        if patch.get_transform().contains_branch(axes.transData):
            path = patch.get_transform().transform_path(patch.get_path())
            corners = axes.transData.inverted().transform(np.asarray(path.vertices, dtype=float))
            yield str(patch.get_label()), corners
    for image in axes.images:
        left, right, bottom, top = image.get_extent()
        yield "heat map", np.array([[left, bottom], [right, top]])


def _texts(figure: Figure) -> Iterator[tuple[str, Axes | None, Bbox]]:
    """Visible text with its panel and its bounding box in pixels."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    ticks = {id(t): False for a in figure.axes for x in (a.xaxis, a.yaxis) for t in _tick_texts(x)}
    ticks |= {id(t): True for a in figure.axes for x in (a.xaxis, a.yaxis) for t in _shown_ticks(x)}
    within: dict[int, Axes | None] = {id(t): a for a in figure.axes for t in a.findobj(Text)}
    within |= {id(t): None for legend in figure.legends for t in legend.findobj(Text)}
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if not text.get_visible() or not text.get_text().strip() or not ticks.get(id(text), True):
            continue
        yield text.get_text(), within.get(id(text)), text.get_window_extent(renderer)


def _tick_texts(axis: Axis) -> list[Text]:
    return [label for t in [*axis.majorTicks, *axis.minorTicks] for label in (t.label1, t.label2)]


def _shown_ticks(axis: Axis) -> list[Text]:
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    shown = [
        t
        for t in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        if low - slack <= t.get_loc() <= high + slack
    ]
    return [t.label1 for t in shown if t.label1.get_visible()]


def below_zero(figure: Figure) -> list[str]:
    """Lines, bars and bands that reach below zero; no metric is negative."""
    found = []
    for number, axes in enumerate(figure.axes):
        bands = [p.vertices for c in axes.collections for p in c.get_paths()]
        drawn = [points for _, points in _points(axes)] + [
            np.asarray(b, dtype=float) for b in bands if is_band(b)
        ]
        metric = 0 if axes.yaxis_inverted() else 1  # horizontal bars
        if any(np.nanmin(p[:, metric]) < -1e-9 for p in drawn if p.size) and not axes.images:
            found.append(f"panel {number}")
    return found


def is_band(vertices: Any) -> bool:
    """True for the outline of a band; markers are small paths around zero."""
    return len(vertices) > 4 and float(np.ptp(np.asarray(vertices, dtype=float))) > 2


def _overlap(a: Bbox, b: Bbox) -> bool:
    wide = min(a.x1, b.x1) - max(a.x0, b.x0)
    high = min(a.y1, b.y1) - max(a.y0, b.y0)
    return bool(wide > SLACK and high > SLACK)


def legends(figure: Figure) -> list[str]:
    """Labels in the legends."""
    return [t.get_text() for x in figure.legends if isinstance(x, Legend) for t in x.get_texts()]
