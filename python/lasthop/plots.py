"""Figures, fit to print: A4 text width, colours that colour-blind readers can tell apart, intervals, units, text as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lasthop import metrics, values
from lasthop.errors import InputError
from lasthop.plan import TOGETHER
from lasthop.store import partial

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lasthop.comparison import Comparison
    from lasthop.experiment import Reference

WIDTH_IN = 6.3  # text width of an A4 page, inches
# Okabe and Ito's palette without its yellow, which is too light on paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX<>*"
GREY = "#b0b0b0"  # of what is there only to be compared with
WIDE = 20.0  # largest by smallest value from which on an axis is logarithmic
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))

STYLE: dict[str, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "lasthop",
    "pdf.fonttype": 42,
}


# Without the date and the program, so that equal figures are equal files.
_METADATA: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}


@dataclass(frozen=True)
class Look:
    """How a scheme is drawn, in every figure of a comparison."""

    label: str
    colour: str
    marker: str
    dash: Any = "-"


def looks(labels: Sequence[str]) -> list[Look]:
    """A look for each of these labels."""
    return [Look(x, COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)]) for i, x in enumerate(labels)]


@dataclass(frozen=True)
class Line:
    """A line with its band; all arrays are of one length."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    #: Draw as steps: the value holds until the next one.
    steps: bool = False
    #: Draw as dots.
    dots: bool = False
    #: Draw in grey, behind the others: what they are compared with.
    muted: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    y_label: str
    lines: Sequence[Line]
    x_label: str = "time (s)"
    title: str = ""
    x_range: tuple[float, float] | None = None
    #: Instants to mark: time, what it is.
    marks: Sequence[tuple[float, str]] = field(default_factory=tuple)


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures, while inside."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcParams.update(cast("Any", STYLE))
        yield


def make(height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of the width of a page, with its axes row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [a for row in axes for a in row]


def _legend(figure: Figure, axes: Axes, count: int) -> None:
    """Below the axes, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if count > 1 or len(labels) > 1:
        longest = max((len(x) for x in labels), default=1)
        columns = max(1, min(len(labels), 96 // (longest + 8)))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def save(figure: Figure, files: Sequence[Path]) -> None:
    """Write the figure into each file; the same figure gives the same bytes."""
    for file in files:
        kind = file.suffix.lower().lstrip(".")
        if kind not in _METADATA:
            raise InputError(f"{file}: a figure is written as {', '.join(f'.{k}' for k in _METADATA)}")
        with style(), partial(file) as temporary:
            figure.savefig(temporary, format=kind, dpi=200, metadata=_METADATA[kind])


def _bars(summary: Mapping[str, Any], scale: float) -> list[list[float]] | None:
    if summary["ci95"] is None:
        return None
    low, high = summary["ci95"]
    return [[max(0.0, summary["mean"] - low) * scale], [max(0.0, high - summary["mean"]) * scale]]


def default(comparison: Comparison) -> Figure:
    """Goodput against delay with one point per scheme or, where something is varied, goodput against that."""
    if comparison.plan.vary:
        return against_key(comparison, ["goodput_bps"])
    return scatter(comparison)


def scatter(comparison: Comparison, x: str = "one_way_delay_s_p95", y: str = "goodput_bps") -> Figure:
    """One point per scheme with 95 % intervals in both directions; a panel per group of schemes if there are many."""
    if comparison.plan.crowded:
        from lasthop import crowds

        return crowds.scatter(comparison, x, y)
    with style():
        figure, (axes,) = make(4.2)
        cases = comparison.plan.cases
        for case, look in zip(cases, looks([c.label for c in cases]), strict=True):
            point(axes, comparison, case.point, look, x, y)
        capacity_line(axes, comparison, y)
        spread_x(axes, [comparison.statistics(c.point, c.label, x)["mean"] for c in cases])
        axes.set(xlabel=metrics.label(x), ylabel=metrics.label(y), title=comparison.plan.title)
        axes.margins(x=0.12)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.12)
        arrow = {"arrowstyle": "->", "color": "#888888"}
        corner: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "color": "#888888", "va": "top"}
        axes.annotate("better", (0.005, 0.99), (14, -9), arrowprops=arrow, **corner)
        _legend(figure, axes, 2)
    return figure


def point(axes: Axes, comparison: Comparison, at: int, look: Look, x: str, y: str) -> tuple[float, float] | None:
    """Draw a scheme's means with their intervals; where the point is, `None` if there is nothing to draw."""
    sx, sy = (comparison.statistics(at, look.label, m) for m in (x, y))
    if sx["mean"] is None or sy["mean"] is None:
        return None
    fx, fy = metrics.factor(x), metrics.factor(y)
    place = (sx["mean"] * fx, sy["mean"] * fy)
    bars: dict[str, Any] = {"xerr": _bars(sx, fx), "yerr": _bars(sy, fy), "capsize": 2}
    axes.errorbar([place[0]], [place[1]], fmt=look.marker, color=look.colour, label=look.label, **bars)
    return place


def spread_x(axes: Axes, values: Sequence[float | None]) -> None:
    """A logarithmic x axis where one value would squeeze all others into a corner."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    known = [v for v in values if v is not None]
    if not known or min(known) <= 0 or max(known) < WIDE * min(known):
        return
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def capacity_line(axes: Axes, comparison: Comparison, y: str) -> None:
    """What the radio link could carry, where that is known and the axis is a goodput."""
    first = comparison.plan.cases[0]
    capacity = comparison.statistics(first.point, first.label, "radio_capacity_bps")["mean"]
    if capacity is not None and y == "goodput_bps":
        axes.axhline(capacity * metrics.factor(y), color="#666666", linewidth=0.9, linestyle="--", label="capacity of the radio link")


def _others(comparison: Comparison) -> list[dict[str, str]]:
    """The combinations of every varied key but the first: one panel each."""
    first = next(iter(comparison.plan.vary))
    seen = [{k: v for k, v in p.items() if k != first} for p in comparison.plan.points]
    return list({tuple(s.items()): s for s in seen}.values())


def against_key(comparison: Comparison, names: Sequence[str], title: str = "", x_label: str = "", references: Sequence[Reference] = ()) -> Figure:
    """Metrics against the first varied key, with interval bands; a column per combination of the other keys.

    If there are many schemes, each combination has a panel per group of schemes.
    """
    key, given = next(iter(comparison.plan.vary.items()))
    others = _others(comparison)
    key, scale = key.split(TOGETHER)[0], _scale(given)
    x_label = x_label or f"{key} ({scale[1]})" if scale and scale[1] else x_label or key
    if comparison.plan.crowded:
        from lasthop import crowds

        return crowds.against_key(comparison, names, others, title or comparison.plan.title, x_label, references)
    with style():
        figure, axes = make(2.8 * len(names) + 0.9, len(names), len(others), sharex=True, sharey="row")
        for row, metric in enumerate(names):
            for column, other in enumerate(others):
                panel = axes[row * len(others) + column]
                key_panel(panel, comparison, metric, other, looks(comparison.plan.labels), references)
                if column == 0:
                    panel.set_ylabel(metrics.label(metric))
                if row == 0 and other:
                    panel.set_title(", ".join(f"{k} = {v}" for k, v in other.items()))
                if row == len(names) - 1:
                    panel.set_xlabel(x_label)
        figure.suptitle(title or comparison.plan.title)
        _legend(figure, axes[0], len(axes))
    return figure


def _scale(given: Sequence[str]) -> tuple[list[float], str] | None:
    """Places on the x axis and their unit; of keys that are varied together the first one's values count."""
    return values.axis([v.split(TOGETHER)[0] for v in given])


def key_panel(
    panel: Axes, comparison: Comparison, metric: str, other: Mapping[str, str], drawn: Sequence[Look], references: Sequence[Reference] = ()
) -> list[tuple[float, float] | None]:
    """Draw a metric of these schemes against the first varied key; where each line ends, `None` if there is none."""
    key, given = next(iter(comparison.plan.vary.items()))
    scale = _scale(given)
    xs = scale[0] if scale else [float(i) for i in range(len(given))]
    points = {p[key]: n for n, p in enumerate(comparison.plan.points) if all(p[k] == v for k, v in other.items())}
    factor = metrics.factor(metric)
    ends: list[tuple[float, float] | None] = []
    for look in drawn:
        found = [(x, comparison.statistics(points[v], look.label, metric)) for x, v in zip(xs, given, strict=True)]
        known = sorted(((x, s) for x, s in found if s["mean"] is not None), key=lambda pair: pair[0])
        ends.append((known[-1][0], known[-1][1]["mean"] * factor) if known else None)
        if not known:
            continue
        x = [k for k, _ in known]
        means = [s["mean"] * factor for _, s in known]
        panel.plot(x, means, marker=look.marker, linestyle=look.dash, color=look.colour, label=look.label)
        if all(s["ci95"] for _, s in known):
            low, high = ([s["ci95"][side] * factor for _, s in known] for side in (0, 1))
            panel.fill_between(x, low, high, color=look.colour, alpha=0.15, lw=0)
    for line in (r for r in references if r.metric == metric and all(other.get(k) == v for k, v in r.at.items())):
        if len(line.values) != len(xs):
            raise InputError(f"[[plot.reference]] {line.label}: {len(line.values)} values, but {key} takes {len(xs)}")
        place = sorted(zip(xs, (v * factor for v in line.values), strict=True))
        panel.plot([x for x, _ in place], [y for _, y in place], color="#444444", linewidth=0.9, linestyle=":", label=line.label)
    positive = [x for x in xs if x > 0]
    if scale and len(positive) == len(xs) and max(xs) / min(xs) > 50:
        panel.set_xscale("log")
    elif not scale:
        panel.set_xticks(xs, given)
    if panel.dataLim.y0 == panel.dataLim.y1 == 0:
        # Nothing but zeros: an axis of hundredths around them would say nothing.
        panel.set_ylim(0, 1)
    panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
    return ends


def panels(parts: Sequence[Panel], title: str, *, height: float = 2.5) -> Figure:
    """Panels one above the other, over one x axis; `height` is a panel's, in inches."""
    with style():
        share = len({p.x_label for p in parts}) == 1
        figure, axes = make(height * len(parts) + 0.9, len(parts), 1, sharex=share)
        for part, panel in zip(parts, axes, strict=True):
            for line in (x for x in part.lines if x.muted):
                panel.plot(line.x, line.y, color=GREY, label=line.label, drawstyle="steps-post" if line.steps else "default", zorder=1)
            for place, line in enumerate(x for x in part.lines if not x.muted):
                _line(panel, line, place)
            for at, what in part.marks:
                panel.axvline(at, color="#888888", linewidth=0.7, linestyle=":")
                panel.annotate(
                    what, (at, 1.0), (2, -2), xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=7, color="#555555", va="top"
                )
            panel.set(ylabel=part.y_label, title=part.title)
            if part.x_range:
                _zoom(panel, part)
            if not share or part is parts[-1]:
                panel.set_xlabel(part.x_label)
        figure.suptitle(title)
        most = max(range(len(parts)), key=lambda i: len(parts[i].lines))
        _legend(figure, axes[most], 1)
    return figure


def _zoom(panel: Axes, part: Panel) -> None:
    """Show the panel's time only, and the values that occur in it."""
    import numpy as np

    low, high = part.x_range or (0.0, 0.0)
    panel.set_xlim(low, high)
    inside = [v[(x.x >= low) & (x.x <= high)] for x in part.lines for v in (x.y, x.low, x.high) if v is not None]
    # A line drawn as steps enters with the value it had before.
    inside += [x.y[x.x < low][-1:] for x in part.lines if x.steps]
    values = np.concatenate(inside) if inside else np.array([])
    values = values[np.isfinite(values)]
    if len(values) and np.ptp(values) > 0:
        panel.set_ylim(values.min() - 0.05 * np.ptp(values), values.max() + 0.12 * np.ptp(values))


def _line(panel: Axes, line: Line, place: int) -> None:
    colour = COLOURS[place % len(COLOURS)]
    if line.dots:
        panel.plot(line.x, line.y, linestyle="none", marker=MARKERS[place % len(MARKERS)], markersize=2.2, color=colour, label=line.label)
        return
    drawn = "steps-post" if line.steps else "default"
    panel.plot(line.x, line.y, linestyle=DASHES[place % len(DASHES)], color=colour, label=line.label, drawstyle=drawn)
    if line.low is not None and line.high is not None:
        panel.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, lw=0)


def answers(rows: Sequence[tuple[str, Sequence[str]]], title: str, x_label: str) -> Figure:
    """What an agent did with each of a row of packets: filled for forwarded, hollow for dropped, a diamond for an extra ACK."""
    from matplotlib.ticker import MaxNLocator

    kinds = {
        "forward": ("o", COLOURS[0], COLOURS[0], "forwarded"),
        "drop": ("o", "none", "#888888", "dropped"),
        "drop+inject": ("D", "none", COLOURS[1], "dropped and answered with an ACK"),
    }
    with style():
        figure, (axes,) = make(0.32 * len(rows) + 1.6)
        for kind, (marker, face, edge, text) in kinds.items():
            at = [(i + 1, -r) for r, (_, answered) in enumerate(rows) for i, a in enumerate(answered) if a == kind]
            if at:
                axes.scatter([x for x, _ in at], [y for _, y in at], marker=marker, facecolors=face, edgecolors=edge, s=34, label=text)
        axes.set_yticks([-r for r in range(len(rows))], [name for name, _ in rows])
        axes.set(xlabel=x_label, title=title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False)
        axes.margins(y=0.5 / max(len(rows), 1))
        _legend(figure, axes, 2)
    return figure
