"""Figures of a comparison: a grid of panels, each drawn by its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lasthop.experiments.chart_spec import SCHEME, Chart, resolve
from lasthop.experiments.plan import MAX_UNGROUPED
from lasthop.plotting import panel_text, plot_text, points, styles
from lasthop.plotting.drawing import Drawing, Grid, Slot
from lasthop.plotting.key_axis import KeyAxis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lasthop.experiments.comparison import Comparison
    from lasthop.plotting.styles import Preset

MIN_PANEL_IN = 0.85  # height of a panel, at the font size of the preset `page`


def grid_of(chart: Chart, comparison: Comparison, preset: Preset) -> Grid:
    """Arrange the panels of a chart: one key in rows and one in columns, or one that wraps."""
    plan, labels = comparison.plan, chart.shown(comparison.plan)

    def values(key: str) -> list[str]:
        return [""] if not key else labels if key == SCHEME else list(plan.vary[key])

    def slot(metric: str, row: str, column: str) -> Slot:
        fixed = dict(chart.held)
        fixed |= {k: v for k, v in ((chart.rows, row), (chart.columns, column)) if k}
        return Slot(metric, fixed, column, row)

    across = values(chart.columns)
    if chart.kind in ("bars", "box") and not chart.x and len(across) == 1 and not chart.rows:
        found: list[Slot | None] = [slot(m, "", "") for m in chart.metrics]
        return Grid(_wrapped(found, preset.columns), aligned=False)
    if chart.rows or len(across) <= preset.columns:
        rows = [
            [slot(metric, row, column) for column in across]
            for metric in chart.metrics
            for row in values(chart.rows)
        ]
        return Grid([list(r) for r in rows], aligned=True)
    wrapped = [
        r for m in chart.metrics for r in _wrapped([slot(m, "", c) for c in across], preset.columns)
    ]
    return Grid(wrapped, aligned=False)


def _is_wide(chart: Chart, comparison: Comparison, preset: Preset) -> bool:
    """True if the columns do not fit side by side, but those of the rows would."""
    plan = comparison.plan
    if not chart.rows:
        return False
    across = len(chart.shown(plan) if chart.columns == SCHEME else plan.vary[chart.columns])
    return across > preset.columns >= len(plan.vary[chart.rows])


def _wrapped(slots: Sequence[Slot | None], most: int) -> list[list[Slot | None]]:
    """Rows of equal length, of at most `most` panels; the last one is filled with `None`."""
    lines = -(-len(slots) // most)
    columns = -(-len(slots) // lines)
    filled = [*slots, *[None] * (lines * columns - len(slots))]
    return [filled[i * columns : (i + 1) * columns] for i in range(lines)]


def draw(
    comparison: Comparison, chart: Chart, *, title: str = "", ax: Any = None, where: str = "--"
) -> Figure:
    """Draw a chart of a comparison.

    `title` replaces the title of the scenario. With `ax` (axes of matplotlib, or a list with one
    for each panel), the chart is drawn there. `where` precedes the names of options in messages.
    Raises `InputError` for a chart that the comparison does not have.
    """
    plan, free = comparison.plan, not (chart.rows or chart.columns)
    chart = resolve(chart, plan, list(comparison.metrics), where)
    if free and _is_wide(chart, comparison, styles.current()):
        chart = replace(chart, rows=chart.columns, columns=chart.rows)
    labels = chart.shown(plan)
    title = title or "\n".join(x for x in (plan.title, plot_text.varied(plan, chart.labels)) if x)
    if len(labels) > MAX_UNGROUPED and chart.kind in ("line", "scatter") and ax is None:
        return _by_group(comparison, chart, title)
    axis = None
    if chart.x and chart.kind not in ("scatter", "cdf"):
        axis = KeyAxis.of(
            comparison, chart.x_label, chart.labels, chart.x, categories=chart.kind != "line"
        )
    second = None
    if chart.kind == "heatmap" and chart.y != SCHEME:
        second = KeyAxis.of(comparison, "", chart.labels, chart.y, categories=True)
    grid = grid_of(chart, comparison, styles.current())
    drawing = Drawing(chart, comparison, grid, styles.scheme_styles(labels), axis, second)
    with styles.style():
        if ax is not None:
            return _into(drawing, ax)
        figure = _new_figure(drawing)
        for place, slot in grid.slots():
            drawing.panel(place, slot)
        panel_text.finish(drawing)
        panel_text.add_legend(figure, drawing, title)
        panel_text.settle(figure, drawing)
    return figure


def _new_figure(drawing: Drawing) -> Figure:
    """Create the figure; its height gives each panel a pleasant shape within that of the page."""
    preset, grid = styles.current(), drawing.grid
    rows = len(grid.rows)
    extra = (1.0 if preset.titles else 0.75) * preset.scale
    legend = [s.label for s in drawing.styles] + [points.CAPACITY] * (
        drawing.chart.kind == "scatter"
    )
    extra += 0.19 * max(0, styles.legend_lines(legend) - 2) * preset.scale
    extra += 0.17 * panel_text.lines_around(drawing) * preset.scale
    shape = 0.62 if grid.columns == 1 and drawing.chart.kind != "scatter" else 0.85
    high = min(shape * preset.width_in / grid.columns, 3.2 * preset.scale)
    if drawing.chart.kind in ("bars", "box", "heatmap") and (
        not drawing.chart.x or drawing.chart.y == SCHEME
    ):
        high = (0.24 * len(drawing.styles) + 0.35) * preset.scale
    high = max(MIN_PANEL_IN * preset.scale, min(high, (preset.height_in - extra) / rows))
    figure, axes = styles.new_figure(rows * high + extra, rows, grid.columns)
    taken = {r * grid.columns + c for (r, c), _ in grid.slots()}
    for number, panel in enumerate(axes):
        if number in taken:
            grid.axes[divmod(number, grid.columns)] = panel
        else:
            panel.remove()
    return figure


def _into(drawing: Drawing, ax: Any) -> Figure:
    """Draw into axes of the caller."""
    slots = drawing.grid.slots()
    figure, given = styles.axes_of(ax, len(slots))
    drawing.grid.axes = {place: a for (place, _), a in zip(slots, given, strict=True)}
    for place, slot in slots:
        drawing.panel(place, slot)
    panel_text.finish(drawing)
    if drawing.chart.kind not in ("bars", "box") or drawing.axis is not None:
        styles.add_legend_inside(given)
    return figure


def _by_group(comparison: Comparison, chart: Chart, title: str) -> Figure:
    """Many schemes: a panel per group of schemes, for each metric and value of the other keys."""
    from lasthop.plotting import many_scheme_plots

    keys = [k for k in (chart.rows, chart.columns) if k]
    seen = [{k: p[k] for k in keys} | dict(chart.held) for p in comparison.plan.points]
    others = list({tuple(s.items()): s for s in seen}.values())
    if chart.kind == "scatter":
        return many_scheme_plots.scatter(
            comparison, chart.x, chart.metrics, others, title, chart.schemes
        )
    axis = KeyAxis.of(comparison, chart.x_label, chart.labels, chart.x)
    return many_scheme_plots.against_key(
        comparison,
        chart.metrics,
        others,
        title,
        axis,
        chart.references,
        chart.labels,
        chart.schemes,
    )


__all__ = ["draw", "grid_of"]
