"""Panels of lines over time and of an agent's actions, and the default figure of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lasthop.plotting import label_placement, plot_text, styles
from lasthop.plotting.points import clip_to_bounds
from lasthop.plotting.styles import (
    COLOURS,
    DASHES,
    GREY,
    MARKERS,
    SchemeStyle,
    add_title_and_legend,
    new_figure,
    save,
    scheme_styles,
    small_pt,
    style,
)

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


WIDTH_IN = styles.PRESETS[styles.DEFAULT].width_in  # text width of an A4 page, inches


@dataclass(frozen=True)
class Line:
    """A line with its confidence band; all arrays have the same length."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    #: Draw as a step function.
    steps: bool = False
    #: Draw as dots.
    dots: bool = False
    #: Diameter of the dots, points.
    size: float = 2.2
    #: Draw in grey behind the other lines, as the reference.
    muted: bool = False
    #: Single runs, drawn as thin lines.
    runs: Sequence[NDArray[np.float64]] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    y_label: str
    lines: Sequence[Line]
    x_label: str = "time (s)"
    title: str = ""
    x_range: tuple[float, float] | None = None
    #: Times to mark (seconds), with their labels.
    marks: Sequence[tuple[float, str]] = field(default_factory=tuple)


def panels(
    parts: Sequence[Panel], title: str, *, height: float = 2.5, caption: str = "", ax: Any = None
) -> Figure:
    """Panels one above the other with a common x axis; `height` of each panel in inches.

    `ax` are axes of the caller, one for each panel; they get neither title nor caption.
    """
    with style():
        share = ax is None and len({p.x_label for p in parts}) == 1
        figure, axes = (
            new_figure(*_size(height, len(parts)), sharex=share)
            if ax is None
            else styles.axes_of(ax, len(parts))
        )
        for part, panel in zip(parts, axes, strict=True):
            for line in (x for x in part.lines if x.muted):
                panel.plot(
                    line.x,
                    line.y,
                    color=GREY,
                    label=line.label,
                    drawstyle="steps-post" if line.steps else "default",
                    zorder=1,
                )
            for place, line in enumerate(x for x in part.lines if not x.muted):
                _line(panel, line, place)
            panel.set(
                ylabel=plot_text.wrap(part.y_label, styles.current().chars(height)),
                title=part.title,
            )
            if part.x_range:
                _zoom(panel, part)
            if not share or part is parts[-1]:
                panel.set_xlabel(part.x_label)
        if ax is not None:
            styles.add_legend_inside(axes)
            return figure
        add_title_and_legend(figure, title, caption, least=2)
        marks = [(panel, part.marks) for part, panel in zip(parts, axes, strict=True) if part.marks]
        if marks:
            label_placement.mark_times(figure, marks, small_pt())
    return figure


def _size(height: float, count: int) -> tuple[float, int]:
    """Height of the figure and number of panels: within the height of the page if possible."""
    preset = styles.current()
    high = height * min(1.0, preset.width_in / WIDTH_IN) * max(1.0, preset.scale)
    extra = 1.0 * preset.scale
    return max(0.9, min(high, (preset.height_in - extra) / count)) * count + extra, count


def _zoom(panel: Axes, part: Panel) -> None:
    """Limit the panel to its span of time and to the values in that span."""
    import numpy as np

    low, high = part.x_range or (0.0, 0.0)
    panel.set_xlim(low, high)
    inside = [
        v[(x.x >= low) & (x.x <= high)]
        for x in part.lines
        for v in (x.y, x.low, x.high)
        if v is not None
    ]
    # A step function starts with its value before the span.
    inside += [x.y[x.x < low][-1:] for x in part.lines if x.steps]
    inside += [run[(x.x >= low) & (x.x <= high)] for x in part.lines for run in x.runs]
    values = np.concatenate(inside) if inside else np.array([])
    values = values[np.isfinite(values)]
    if len(values) and np.ptp(values) > 0:
        low, high = float(values.min()), float(values.max())
        least = low - 0.05 * (high - low)
        # No series is ever negative; zero is shown unless the values are far from it.
        if low >= 0:
            least = 0.0 if low < 0.5 * high else max(0.0, least)
        panel.set_ylim(least, high + 0.12 * (high - low))


def _line(panel: Axes, line: Line, place: int) -> None:
    colour = COLOURS[place % len(COLOURS)]
    if line.dots:
        panel.plot(
            line.x,
            line.y,
            linestyle="none",
            marker=MARKERS[place % len(MARKERS)],
            markersize=line.size,
            zorder=3,
            color=colour,
            label=line.label,
        )
        return
    drawn = "steps-post" if line.steps else "default"
    for run in line.runs:
        panel.plot(
            line.x, run, color=colour, linewidth=0.5, alpha=0.45, drawstyle=drawn, label="_run"
        )
    width = 1.8 if line.runs else 1.3
    panel.plot(
        line.x,
        line.y,
        linestyle=DASHES[place % len(DASHES)],
        linewidth=width,
        color=colour,
        label=line.label,
        drawstyle=drawn,
    )
    if line.low is not None and line.high is not None:
        panel.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, lw=0)


def answers(rows: Sequence[tuple[str, Sequence[str]]], title: str, x_label: str) -> Figure:
    """Draw the action of an agent for each packet of each test vector.

    Filled: forwarded; hollow: dropped; diamond: dropped and answered with an ACK.
    """
    from matplotlib.ticker import MaxNLocator

    kinds = {
        "forward": ("o", COLOURS[0], COLOURS[0], "forwarded"),
        "drop": ("o", "none", "#888888", "dropped"),
        "drop+inject": ("D", "none", COLOURS[1], "dropped and answered with an ACK"),
    }
    with style():
        figure, (axes,) = new_figure(0.32 * len(rows) + 1.6)
        for kind, (marker, face, edge, text) in kinds.items():
            at = [
                (i + 1, -r)
                for r, (_, answered) in enumerate(rows)
                for i, a in enumerate(answered)
                if a == kind
            ]
            if at:
                axes.scatter(
                    [x for x, _ in at],
                    [y for _, y in at],
                    marker=marker,
                    facecolors=face,
                    edgecolors=edge,
                    s=34,
                    label=text,
                )
        axes.set_yticks([-r for r in range(len(rows))], [name for name, _ in rows])
        axes.set(xlabel=x_label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False)
        axes.margins(y=0.5 / max(len(rows), 1))
        add_title_and_legend(figure, title, "")
    return figure


__all__ = [
    "COLOURS",
    "GREY",
    "MARKERS",
    "WIDTH_IN",
    "Line",
    "Panel",
    "SchemeStyle",
    "add_title_and_legend",
    "answers",
    "clip_to_bounds",
    "new_figure",
    "panels",
    "save",
    "scheme_styles",
    "style",
]
