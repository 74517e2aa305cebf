"""Limits, ticks, names and legend of the panels of a chart, and their final layout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from lasthop.analysis import metrics
from lasthop.experiments.chart_spec import SCHEME
from lasthop.plotting import kinds, label_placement, plot_text, points, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lasthop.plotting.drawing import Drawing, Slot

Place = tuple[int, int]
GAP = 4.0  # pixels between tick labels


def finish(drawing: Drawing) -> None:
    """Set limits, ticks and names of all panels."""
    grid, chart = drawing.grid, drawing.chart
    slots = grid.slots()
    if chart.kind != "heatmap":
        _share(drawing, slots)
    for place, slot in slots:
        _name(drawing, place, slot)
    if chart.kind == "heatmap":
        _colour_bars(drawing, slots)


def _share(drawing: Drawing, slots: Sequence[tuple[Place, Slot]]) -> None:
    """Give common limits to the panels that a reader compares."""
    grid, kind = drawing.grid, drawing.chart.kind
    by_y: dict[object, list[Axes]] = {}
    by_x: dict[object, list[Axes]] = {}
    flat = kind in ("bars", "box") and drawing.axis is None  # horizontal
    for (row, column), slot in slots:
        panel = grid.axes[(row, column)]
        # With a key in the rows, each row has its own scale.
        own = (slot.metric, row) if drawing.chart.rows else slot.metric
        by_y.setdefault("all" if kind == "cdf" or flat else own, []).append(panel)
        by_x.setdefault(own if kind == "cdf" or flat else "all", []).append(panel)
    for group in by_x.values():
        for panel in group[1:]:
            panel.sharex(group[0])
        group[0].autoscale_view(scaley=False)
    for group in by_y.values():
        for panel in group[1:]:
            panel.sharey(group[0])
        group[0].autoscale_view(scalex=False)
    if flat:
        for group in by_x.values():
            _from_zero(group, horizontal=True, always=kind == "bars")
        for panel in grid.axes.values():
            kinds.name_schemes(panel, drawing.styles, named=True)
        return
    if kind == "scatter":
        _scatter_limits(drawing, list(by_y.values()))
    elif kind == "cdf":
        for group in by_x.values():
            _from_zero(group, horizontal=True, always=False)
            group[0].set_ylim(0, 1.03)
    else:
        for group in by_y.values():
            _from_zero(group, horizontal=False, always=kind != "box")
    if drawing.axis is not None:
        width = styles.current().width_in / grid.columns
        drawing.axis.finish(list(grid.axes.values()), int(styles.current().chars(width) * 0.85))


def _from_zero(panels: Sequence[Axes], *, horizontal: bool, always: bool) -> None:
    """Start an axis at zero; if not `always`, only if that does not squeeze the data."""
    bounds = [p.dataLim.intervalx if horizontal else p.dataLim.intervaly for p in panels]
    low, high = min(float(b[0]) for b in bounds), max(float(b[1]) for b in bounds)
    set_limits: Any = panels[0].set_xlim if horizontal else panels[0].set_ylim
    if not low < high and not (low == high == 0):
        return
    if low == high == 0:
        set_limits(0, 1)  # the automatic limits would be a few hundredths
    elif low >= 0 and (always or low < 0.5 * high):
        set_limits(0, high * 1.06)
    elif low >= 0:
        set_limits(max(0.0, low - 0.06 * (high - low)), high + 0.06 * (high - low))


def _scatter_limits(drawing: Drawing, groups: Sequence[Sequence[Axes]]) -> None:
    comparison, chart = drawing.comparison, drawing.chart
    first = groups[0][0]
    numbers = range(len(comparison.plan.points))
    means = [
        comparison.statistics(n, s.label, chart.x)["mean"] for n in numbers for s in drawing.styles
    ]
    scale = metrics.factor(chart.x)
    for panel in drawing.grid.axes.values():
        points.set_x_scale(panel, [None if m is None else m * scale for m in means])
    bounds = [p.dataLim.intervalx for p in drawing.grid.axes.values()]
    low, high = min(float(b[0]) for b in bounds), max(float(b[1]) for b in bounds)
    if first.get_xscale() == "log":
        first.set_xlim(low / (high / low) ** 0.06, high * (high / low) ** 0.15)
    elif high > low:
        narrow = high - low < 0.25 * high
        first.set_xlim(
            max(0.0, low - 0.2 * (high - low)) if narrow else 0.0, high + 0.12 * (high - low)
        )
    elif high > 0:
        first.set_xlim(0.0, 1.2 * high)
    for group in groups:
        most = max(float(p.dataLim.y1) for p in group)
        group[0].set_ylim(0, most * 1.15 if most > 0 else 1)


def _name(drawing: Drawing, place: Place, slot: Slot) -> None:
    """Write the names of axes, columns and rows at one panel; hide repeated tick labels."""
    grid, chart, preset = drawing.grid, drawing.chart, styles.current()
    panel, (row, column) = grid.axes[place], place
    width = preset.chars(preset.width_in / grid.columns * 0.8)
    height = preset.chars(_panel_height(panel))
    flat = chart.kind in ("bars", "box") and drawing.axis is None
    x_label, y_label = _axis_names(drawing, slot)
    lowest = grid.lowest(place, of_metric=chart.kind == "cdf") or flat
    panel.set_xlabel(plot_text.wrap(x_label, width) if lowest else "")
    panel.tick_params(labelbottom=lowest or (chart.kind == "cdf" and bool(chart.rows)))
    panel.set_ylabel(plot_text.wrap(y_label, height) if column == 0 else "")
    panel.tick_params(labelleft=column == 0)
    top = row == 0 or not grid.aligned
    if chart.columns and top:
        panel.set_title(plot_text.wrap(_value(drawing, chart.columns, slot.column), width))
    last = column == grid.columns - 1
    if chart.rows and last:
        panel.annotate(
            plot_text.wrap(_value(drawing, chart.rows, slot.row), height),
            (1, 0.5),
            (5, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            rotation=270,
            va="center",
            ha="left",
            annotation_clip=False,
        )


def _value(drawing: Drawing, key: str, value: str) -> str:
    """The name of a row or column of panels."""
    labels = drawing.chart.labels
    return value if key == SCHEME else plot_text.point_name({key: value}, labels)


def lines_around(drawing: Drawing) -> int:
    """Lines of text above and below the panels of a column, beyond one line each."""
    grid, preset = drawing.grid, styles.current()
    width = preset.chars(preset.width_in / grid.columns * 0.8)
    slots = [slot for _, slot in grid.slots()]
    below = max(plot_text.wrap(_axis_names(drawing, s)[0], width).count("\n") for s in slots)
    if not drawing.chart.columns:
        return below
    names = {_value(drawing, drawing.chart.columns, s.column) for s in slots}
    above = max(plot_text.wrap(n, width).count("\n") for n in names) + 1
    return below + above * (1 if grid.aligned else len(grid.rows))


def _panel_height(panel: Axes) -> float:
    """Approximate height of a panel, inches."""
    figure = cast("Figure", panel.get_figure(root=True))
    spec = panel.get_subplotspec()
    rows = spec.get_gridspec().nrows if spec is not None else 1
    extra = 1.0 * styles.current().scale
    return max(0.5, (float(figure.get_size_inches()[1]) - extra) / rows * 0.95)


def _axis_names(drawing: Drawing, slot: Slot) -> tuple[str, str]:
    """Names of the x and the y axis of a panel."""
    chart, metric = drawing.chart, drawing.metric_name(slot.metric)
    key = drawing.axis.label if drawing.axis is not None else ""
    if chart.kind == "scatter":
        return chart.x_label or drawing.metric_name(chart.x), metric
    if chart.kind == "cdf":
        return metric, "CDF"
    if chart.kind == "heatmap":
        return key, drawing.second.label if drawing.second is not None else ""
    return (key, metric) if key else (metric, "")


def _colour_bars(drawing: Drawing, slots: Sequence[tuple[Place, Slot]]) -> None:
    """One colour bar per metric, beside its panels."""
    figure = cast("Figure", next(iter(drawing.grid.axes.values())).get_figure(root=True))
    for metric in drawing.chart.metrics:
        places = [p for p, slot in slots if slot.metric == metric]
        panels = [drawing.grid.axes[p] for p in places]
        rows = len({r for r, _ in places})
        image = drawing.images[places[0]]
        bar = figure.colorbar(image, ax=panels, pad=0.02, aspect=20 * rows)
        if points.is_wide(*image.get_clim()):
            points.plain_ticks(bar.ax.yaxis, *image.get_clim())
        bar.set_label(
            plot_text.wrap(
                drawing.metric_name(metric),
                styles.current().chars(rows * _panel_height(panels[0]) * 0.9),
            )
        )
        bar.outline.set_visible(False)


def add_legend(figure: Figure, drawing: Drawing, title: str) -> None:
    """Add title, caption and legend; points of a single scatter plot are named beside them."""
    chart, labels = drawing.chart, [s.label for s in drawing.styles]
    held = plot_text.point_name(chart.held, chart.labels, ", ")
    if held:
        title = f"{title}\nat {held}"
    beside = _named_beside(drawing) or (drawing.axis is None and chart.kind in ("bars", "box"))
    least = 1 if beside or chart.kind == "scatter" else 2
    styles.add_title_and_legend(
        figure, title, caption(drawing), least=least, unnamed=labels if beside else ()
    )


def caption(drawing: Drawing) -> str:
    """What points, bars and bands are, and the number of runs."""
    kind = drawing.chart.kind
    return plot_text.caption(drawing.comparison, kind=kind)


def _named_beside(drawing: Drawing) -> bool:
    return drawing.chart.kind == "scatter" and len(drawing.grid.axes) == 1


def settle(figure: Figure, drawing: Drawing) -> None:
    """Compute the layout once, then place what depends on it."""
    for panel in drawing.grid.axes.values():
        if not panel.has_data():
            panel.annotate(
                "no values",
                (0.5, 0.5),
                xycoords="axes fraction",
                ha="center",
                va="center",
                color=styles.CAPTION_GREY,
            )
    panels = list(drawing.grid.axes.values())
    for panel in panels:
        _keep_empty_names(panel)
    figure.align_ylabels([panel for panel in panels if panel.get_ylabel()])
    styles.lay_out(figure)
    figure.set_layout_engine("none")
    renderer: Any = cast("Any", figure.canvas).get_renderer()
    for panel in panels:
        keep_ticks(panel)
    for panel in panels:
        _keep_names(panel, renderer)
    for panel in panels:
        thin_out_ticks(panel, renderer)
    for place, image in drawing.images.items():
        kinds.write_values(drawing.grid.axes[place], image)
    if _named_beside(drawing):
        (axes,) = drawing.grid.axes.values()
        label_placement.place_labels(figure, axes, drawing.labels, styles.small_pt() * 1.07)


def _keep_empty_names(panel: Axes) -> None:
    """Give axes without a name a place for it: finding one takes half of the layout's time."""
    for axis in (panel.xaxis, panel.yaxis):
        if not axis.get_label_text():
            axis.set_label_coords(0.0, 0.0)


def _keep_names(panel: Axes, renderer: Any) -> None:
    """Place the names of the axes, and keep them there; each drawing would look again."""
    to_axes = panel.transAxes.inverted()
    for axis in (panel.xaxis, panel.yaxis):
        if axis.get_label_text():
            axis.get_tightbbox(renderer)  # places the name
            x, y = axis.label.get_position()
            place = axis.label.get_transform().transform((x, y))
            axis.set_label_coords(*to_axes.transform(place))


def keep_ticks(panel: Axes) -> None:
    """Keep the ticks of the layout. Matplotlib chooses them by the default font size of the time of
    drawing, which is another one once the style is left; the names of axes would move.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator

    for axis in (panel.xaxis, panel.yaxis):
        if isinstance(axis.get_major_locator(), MaxNLocator):
            low, high = sorted(axis.get_view_interval())
            axis.set_major_locator(
                FixedLocator([x for x in axis.get_majorticklocs() if low <= x <= high])
            )


def thin_out_ticks(panel: Axes, renderer: Any) -> None:
    """Remove tick labels below the x axis that touch the one before; categories are rotated."""
    shown = [t for t in panel.xaxis.get_major_ticks() if t.label1.get_text()]
    if not panel.xaxis.get_tick_params().get("labelbottom", True) or len(shown) < 2:
        return
    boxes = [t.label1.get_window_extent(renderer) for t in shown]
    if not any(a.x1 + GAP > b.x0 for a, b in pairwise(boxes)):
        return
    locations, names = panel.get_xticks(), [t.get_text() for t in panel.get_xticklabels()]
    if len(names) != len(boxes):
        return
    kept: list[int] = []
    for number, box in enumerate(boxes):
        if not kept or boxes[kept[-1]].x1 + GAP <= box.x0:
            kept.append(number)
    if boxes[kept[-1]] is not boxes[-1] and len(kept) > 1:
        kept[-1] = len(boxes) - 1  # the last value rather than the one before
        if len(kept) > 2 and boxes[kept[-2]].x1 + GAP > boxes[-1].x0:
            kept.pop(-2)
    panel.set_xticks(locations, [n if i in kept else "" for i, n in enumerate(names)])


__all__ = ["add_legend", "caption", "finish", "lines_around", "settle", "thin_out_ticks"]
