"""Figures for more schemes than the palette has colours, with one panel per group of schemes.

Every panel shows the reference scheme (Reno, if present) in grey. All panels of a metric have the
same axes. The names are written in a free strip at the right of each panel, at the height of the
last point of the scheme, or at the left at the height of the first point, if the lines are farther
apart there. Names that would overlap move apart; a thin leader line connects each name with its
point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lasthop.analysis import metrics
from lasthop.plotting import plot_text, points, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lasthop.experiments.comparison import Comparison
    from lasthop.plotting.key_axis import KeyAxis
    from lasthop.plotting.styles import SchemeStyle
    from lasthop.scenarios.experiment import Reference

PER_PANEL = 8  # schemes, without the reference
COLUMNS = 2
NAME_SIZE = 7.0  # points
LINE_SPACING = 1.25
LINE_CHARS = 18  # in a line of a name
MAX_WORD_CHARS = 20  # in a part of a name that cannot be broken
CHARS_PER_INCH = 13.0  # of the label beside an axis
TITLE_CHARS = 40  # above a panel and below it
NO_WRAP = 10_000  # characters: tick labels are rotated instead of wrapped
GAP = 6.0  # pixels between the data and the names

Place = tuple[float, float]
# Draws schemes into a panel; returns the point to label for each, or `None` without values.
DrawSchemes = Callable[["Axes", Sequence["SchemeStyle"]], "Sequence[Place | None]"]


@dataclass(frozen=True)
class Block:
    """Panels with common axes, one per group of schemes."""

    draw: DrawSchemes
    y_label: str
    x_label: str
    #: Added to the title of each panel.
    note: str = ""
    #: The x axis, if it is a varied key.
    axis: KeyAxis | None = None


@dataclass(frozen=True)
class Label:
    """The name of a scheme, and the point that it labels."""

    text: str
    colour: str
    at: Place
    #: The first point of a line, which is labelled instead if the names are at the left.
    start: Place | None = None


def scatter(
    comparison: Comparison,
    x: str,
    names: Sequence[str],
    others: Sequence[Mapping[str, str]],
    title: str,
    schemes: Sequence[str] = (),
) -> Figure:
    """Metrics against another one: one point per scheme with 95 % confidence intervals.

    There is a block of panels for each metric and each combination of the keys in `others`.
    """
    cases = comparison.plan.cases
    means = [comparison.statistics(c.point, c.label, x)["mean"] for c in cases]

    def block(y: str, other: Mapping[str, str]) -> Block:
        (number,) = points.points_by_setting(comparison, "", other).values()

        def draw(axes: Axes, styles: Sequence[SchemeStyle]) -> Sequence[Place | None]:
            points.capacity_line(axes, comparison, y, number)
            points.set_x_scale(axes, means)
            return [points.point(axes, comparison, number, style, x, y) for style in styles]

        note = plot_text.wrap(plot_text.point_name(other, {}, ", "), TITLE_CHARS)
        return Block(draw, metrics.label(y), metrics.label(x), note)

    blocks = [block(y, o) for y in names for o in others]
    return _figure(comparison, blocks, title, schemes)


def against_key(
    comparison: Comparison,
    names: Sequence[str],
    others: Sequence[Mapping[str, str]],
    title: str,
    axis: KeyAxis,
    references: Sequence[Reference] = (),
    labels: Mapping[str, str] | None = None,
    schemes: Sequence[str] = (),
) -> Figure:
    """Metrics against a varied key, of these schemes or of all.

    There is a block of panels for each metric and each combination of the other keys.
    """

    def block(metric: str, other: Mapping[str, str]) -> Block:
        def draw(axes: Axes, styles: Sequence[SchemeStyle]) -> Sequence[Place | None]:
            return axis.draw(axes, comparison, metric, other, styles, references)

        note = plot_text.wrap(plot_text.point_name(other, labels or {}, ", "), TITLE_CHARS)
        return Block(draw, plot_text.metric_name(metric, labels or {}), axis.label, note, axis)

    blocks = [block(m, o) for m in names for o in others]
    return _figure(comparison, blocks, title, schemes)


def groups(comparison: Comparison, schemes: Sequence[str] = ()) -> list[tuple[str, list[str]]]:
    """Title and schemes of each panel: the groups of the catalogue without the reference.

    If `schemes` is not empty, only these are drawn.

    Groups with more than `PER_PANEL` schemes are split evenly.
    """
    found = []
    for title, labels in comparison.plan.sections:
        members = [
            x for x in labels if x != comparison.plan.reference and (not schemes or x in schemes)
        ]
        count = -(-len(members) // PER_PANEL)
        parts = [
            members[len(members) * i // count : len(members) * (i + 1) // count]
            for i in range(count)
        ]
        found += [
            (title if len(parts) == 1 else f"{title} ({i} of {len(parts)})", part)
            for i, part in enumerate(parts, 1)
        ]
    return found


def _figure(
    comparison: Comparison, blocks: Sequence[Block], title: str, schemes: Sequence[str] = ()
) -> Figure:
    """Draw the blocks one below the other, or side by side if each is a single panel."""
    parts = groups(comparison, schemes)
    cells = len(parts) if len(parts) == 1 else -(-len(parts) // COLUMNS) * COLUMNS  # of a block
    columns = min(COLUMNS, cells * len(blocks))
    rows = -(-cells * len(blocks) // columns)
    lines = max(
        sum(wrap_label(x).count("\n") + 1 for x in [*members, comparison.plan.reference])
        for _, members in parts
    )
    height = max(1.7, lines * NAME_SIZE * LINE_SPACING / 72 + 0.2)
    with styles.style():
        figure, axes = styles.new_figure((height + 0.35) * rows + 0.9, rows, columns)
        panels: list[list[tuple[Axes, list[Label]]]] = []
        for number, block in enumerate(blocks):
            first = number * cells
            mine = axes[first : first + len(parts)]
            panels.append(
                [
                    _panel(comparison, block, part, a, mine[0])
                    for part, a in zip(parts, mine, strict=True)
                ]
            )
            _common_y_limits(mine)
            if block.axis is not None:
                block.axis.finish(mine, NO_WRAP)
            for bottom in mine[-COLUMNS:]:
                bottom.set_xlabel(plot_text.wrap(block.x_label, TITLE_CHARS))
            for left in mine[::COLUMNS]:
                left.set_ylabel(plot_text.wrap(block.y_label, int(height * CHARS_PER_INCH)))
            for unused in axes[first + len(parts) : first + cells]:
                unused.remove()
        for unused in axes[cells * len(blocks) :]:
            unused.remove()
        # Schemes are named in the panels; the legend has the link capacity and reference lines.
        styles.add_title_and_legend(
            figure, title, plot_text.caption(comparison), unnamed=comparison.plan.labels
        )
        _write_names(figure, panels)
    return figure


def _panel(
    comparison: Comparison, block: Block, part: tuple[str, list[str]], axes: Axes, first: Axes
) -> tuple[Axes, list[Label]]:
    if axes is not first:
        axes.sharex(first)
        axes.sharey(first)
    title, members = part
    drawn = [
        styles.SchemeStyle(comparison.plan.reference, styles.GREY, "o"),
        *styles.scheme_styles(members),
    ]
    ends = block.draw(axes, drawn)
    starts = _starts(axes)
    names = [
        Label(wrap_label(x.label), x.colour, at, starts.get(x.label))
        for x, at in zip(drawn, ends, strict=True)
        if at is not None
    ]
    axes.set_title(f"{title}\n{block.note}" if block.note else title, loc="left")
    return axes, names


def _starts(axes: Axes) -> dict[str, Place]:
    """The first point of each line of several points, by its label."""
    found: dict[str, Place] = {}
    for line in axes.get_lines():
        x, y = (np.asarray(v, dtype=np.float64) for v in line.get_data(orig=False))
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(known) > 1:
            found.setdefault(str(line.get_label()), (float(x[known[0]]), float(y[known[0]])))
    return found


def _names_at_left(panels: Sequence[tuple[Axes, list[Label]]], height: float) -> bool:
    """True if the first points of the lines are farther apart than the last ones; `height` of a
    name in pixels, beyond which more distance is of no use.
    """
    spread = {"left": 0.0, "right": 0.0}
    for axes, names in panels:
        for side in spread:
            ends = [n.start if side == "left" else n.at for n in names]
            pixels = [float(axes.transData.transform(p)[1]) for p in ends if p is not None]
            if len(pixels) < len(names):
                return False
            spread[side] += sum(min(b - a, height) for a, b in pairwise(sorted(pixels)))
    return spread["left"] > 1.2 * spread["right"]


def _common_y_limits(panels: Sequence[Axes]) -> None:
    """Set the y limits from zero to the maximum over all panels, confidence intervals included."""
    high = max(float(a.dataLim.y1) for a in panels)
    low = min(0.0, *(float(a.dataLim.y0) for a in panels))
    if high == low == 0:
        panels[0].set_ylim(0, 1)
    if high > low:  # false for the infinite limits of empty panels
        panels[0].set_ylim(low, high + 0.06 * (high - low))


def wrap_label(label: str) -> str:
    """Break a label into lines between words and before settings.

    A part that is too long for a line loses its middle.
    """
    lines: list[str] = []
    for piece in re.findall(r" ?:?[^ :]+", label):
        if lines and len(lines[-1]) + len(piece) <= LINE_CHARS:
            lines[-1] += piece
        else:
            lines.append(piece.strip())
    half = (MAX_WORD_CHARS - 1) // 2
    return "\n".join(x if len(x) <= MAX_WORD_CHARS else f"{x[:half]}…{x[-half:]}" for x in lines)


def spread_labels(
    wanted: Sequence[float], heights: Sequence[float], low: float, high: float
) -> list[float]:
    """Return centres of labels without overlap, between `low` and `high`.

    They are as close as possible to `wanted` (least squares). After subtraction of the space of the
    labels below, this is an isotonic regression: neighbours out of order are pooled.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    offsets, used = [], 0.0
    for place, i in enumerate(order):
        used += 0.0 if place == 0 else (heights[order[place - 1]] + heights[i]) / 2
        offsets.append(used)
    pools: list[tuple[float, int]] = []  # mean, members
    for i, offset in zip(order, offsets, strict=True):
        pools.append((wanted[i] - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [((a * n + b * m) / (n + m), n + m)]
    means = [mean for mean, count in pools for _ in range(count)]
    least, most = low + heights[order[0]] / 2, high - heights[order[-1]] / 2 - used
    found = [0.0] * len(wanted)
    for i, mean, offset in zip(order, means, offsets, strict=True):
        found[i] = max(least, min(mean, most)) + offset
    return found


def _write_names(figure: Figure, blocks: Sequence[Sequence[tuple[Axes, list[Label]]]]) -> None:
    """Reserve a strip at the right of all panels, fix the layout, and write the names there."""
    styles.lay_out(figure)
    renderer: Any = cast("Any", figure.canvas).get_renderer()
    size: dict[str, Any] = {
        "fontsize": NAME_SIZE,
        "linespacing": LINE_SPACING * 0.8,
        "va": "center",
        "ha": "left",
    }
    written = []
    for panels in blocks:
        texts = [
            [
                axes.text(
                    0, 0, n.text, color=_text_colour(n.colour), transform=axes.transAxes, **size
                )
                for n in names
            ]
            for axes, names in panels
        ]
        extents = [[t.get_window_extent(renderer) for t in row] for row in texts]
        widest = max((e.width for row in extents for e in row), default=0.0)
        at_left = _names_at_left(panels, max((e.height for row in extents for e in row), default=0))
        _widen_x_axis(
            panels[0][0],
            (widest + 2 * GAP) / panels[0][0].get_window_extent(renderer).width,
            at_left,
        )  # the others share its axes
        _thin_out_ticks([axes for axes, _ in panels], renderer)
        written += [
            (axes, names, t, e, widest, at_left)
            for (axes, names), t, e in zip(panels, texts, extents, strict=True)
        ]
    styles.lay_out(figure)
    for panels in blocks:  # freeze the ticks: layout and ticks depend on each other
        low, high = panels[0][0].get_ylim()
        panels[0][0].set_yticks([t for t in panels[0][0].get_yticks() if low <= t <= high])
    styles.lay_out(figure)
    figure.set_layout_engine("none")
    for axes, names, row, boxes, widest, at_left in written:
        box = axes.get_window_extent(renderer)
        gap = GAP / box.width
        edge = (widest + GAP) / box.width if at_left else 1 - (widest + GAP) / box.width
        for line in (x for x in axes.get_lines() if str(x.get_label()) == points.CAPACITY):
            line.set_xdata([edge + gap, 1] if at_left else [0, edge - gap])  # not over the names
        places = [n.start if at_left and n.start is not None else n.at for n in names]
        wanted = [float(axes.transData.transform(place)[1]) for place in places]
        for name, place, text, y in zip(
            names,
            places,
            row,
            spread_labels(wanted, [e.height + 1 for e in boxes], box.y0, box.y1),
            strict=True,
        ):
            height = (y - box.y0) / box.height
            text.set(position=(edge, height), ha="right" if at_left else "left")
            _leader_line(axes, name, place, (edge + (gap if at_left else -gap) / 2, height))


def _text_colour(colour: str) -> str:
    """The colour of a name; the grey of the reference is too light for text."""
    return "#777777" if colour == styles.GREY else colour


def _widen_x_axis(axes: Axes, share: float, at_left: bool) -> None:
    """Extend the x axis to one side, so that this share of the panel is free and has no ticks."""
    from matplotlib.ticker import FuncFormatter

    transform = axes.xaxis.get_transform()
    low, high = axes.get_xlim()
    a, b = (float(v) for v in transform.transform([low, high]))
    ticks = [float(t) for t in axes.get_xticks() if low <= t <= high]
    minor = [float(t) for t in axes.get_xticks(minor=True) if low <= t <= high]
    given = axes.xaxis.get_major_formatter()
    words = isinstance(given, FuncFormatter)  # tick labels set for fixed positions
    labels = [given(t) for t in ticks] if words else given.format_ticks(ticks)
    more = (b - a) / (1 - share)
    if at_left:
        axes.set_xlim(float(transform.inverted().transform([b - more])[0]), high)
    else:
        axes.set_xlim(low, float(transform.inverted().transform([a + more])[0]))
    axes.set_xticks(ticks, labels)
    axes.set_xticks(minor, [""] * len(minor), minor=True)


def _thin_out_ticks(panels: Sequence[Axes], renderer: Any) -> None:
    """Remove every second tick while numbers below the x axis touch; rotate other tick labels."""
    ticks, labels = panels[0].get_xticks(), [t.get_text() for t in panels[0].get_xticklabels()]
    if not all(_is_number(x) for x in labels):
        if _tick_labels_touch(panels[0], renderer):
            _rotate_tick_labels(panels, renderer)
        return
    while len(ticks) > 1 and _tick_labels_touch(panels[0], renderer):
        ticks, labels = ticks[::2], labels[::2]
        panels[0].set_xticks(ticks, labels)


def _rotate_tick_labels(panels: Sequence[Axes], renderer: Any) -> None:
    """Rotate the tick labels of the lowest panels and hide the others; enlarge the figure."""
    for axes in panels[:-COLUMNS]:
        axes.tick_params(axis="x", labelbottom=False)
    for axes in panels[-COLUMNS:]:
        axes.tick_params(axis="x", labelrotation=90)
    figure = cast("Figure", panels[0].get_figure(root=True))
    tallest = max(t.get_window_extent(renderer).height for t in panels[-1].get_xticklabels())
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + tallest / figure.dpi * (1 + len(panels) % COLUMNS))


def _is_number(text: str) -> bool:
    if text.startswith("$"):  # a power of ten
        return True
    try:
        float(text.replace("\N{MINUS SIGN}", "-"))
    except ValueError:
        return False
    return True


def _tick_labels_touch(axes: Axes, renderer: Any) -> bool:
    boxes = [t.get_window_extent(renderer) for t in axes.get_xticklabels()]
    return any(b.x0 < a.x1 + GAP / 2 for a, b in pairwise(sorted(boxes, key=lambda x: float(x.x0))))


def _leader_line(axes: Axes, name: Label, place: Place, end: Place) -> None:
    """Draw a thin line from the labelled point to its name."""
    start = axes.transAxes.inverted().transform(axes.transData.transform(place))
    axes.plot(
        [start[0], end[0]],
        [start[1], end[1]],
        color=name.colour,
        linewidth=0.5,
        transform=axes.transAxes,
        zorder=0,
    )
