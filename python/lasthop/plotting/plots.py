"""Figures for print: A4 text width, a colour-blind safe palette, confidence intervals, units.

Text in SVG and PDF stays text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.errors import InputError
from lasthop.experiments.plan import JOINT_SEPARATOR
from lasthop.experiments.store import partial
from lasthop.plotting import label_placement, plot_text

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.experiment import Reference

WIDTH_IN = 6.3  # text width of an A4 page, inches
# Okabe and Ito's palette without its yellow, which is too light on paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX<>*"
CAPTION_GREY = "#555555"
GREY = "#b0b0b0"  # of the reference scheme
CAPACITY = "capacity of the radio link"
LOG_AXIS_RATIO = 20.0  # an axis is logarithmic if max / min is at least this
MAX_COLUMNS = 3  # panels side by side
CHARS_PER_INCH = 12.0  # of a label beside an axis or above a panel
SMALL_PT = 7.0  # points: captions and labels in the panel
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1.2)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
)

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


# Without date and program version, so that equal figures are equal files.
_METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}


@dataclass(frozen=True)
class SchemeStyle:
    """Colour, marker and line style of a scheme in all figures of a comparison."""

    label: str
    colour: str
    marker: str
    dash: Any = "-"


def scheme_styles(labels: Sequence[str]) -> list[SchemeStyle]:
    """Return a style for each label."""
    return [
        SchemeStyle(
            x, COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)]
        )
        for i, x in enumerate(labels)
    ]


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


@contextmanager
def style() -> Iterator[None]:
    """Apply the common style of all figures in this context."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcParams.update(cast("Any", STYLE))
        yield


def new_figure(
    height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Create a figure of page width and `height` inches; return it with its axes, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [a for row in axes for a in row]


def add_title_and_legend(
    figure: Figure, title: str, caption: str, *, least: int = 1, unnamed: Collection[str] = ()
) -> None:
    """Add the title, the caption, and below the panels a common legend.

    The legend leaves out the labels in `unnamed`; with fewer than `least` labels there is none.
    """
    figure.suptitle(plot_text.wrap(title, plot_text.PAGE_CHARS), parse_math=False)
    caption = plot_text.wrap(caption, plot_text.CAPTION_CHARS)
    named = {
        label: h
        for a in figure.axes
        for h, label in zip(*a.get_legend_handles_labels(), strict=True)
        if label not in unnamed
    }
    if len(named) < least or not named:
        figure.supxlabel(caption, fontsize=SMALL_PT, color=CAPTION_GREY)
        return
    longest = max(len(x) for x in named)
    most = max(1, min(len(named), 96 // (longest + 8)))
    columns = -(-len(named) // -(-len(named) // most))
    legend = figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=columns,
        title=caption or None,
    )
    legend.get_title().set(fontsize=SMALL_PT, color=CAPTION_GREY)


def save(figure: Figure, files: Sequence[Path]) -> None:
    """Write the figure to each file; equal figures give equal bytes. Raises `InputError`."""
    for file in files:
        kind = file.suffix.lower().lstrip(".")
        if kind not in _METADATA:
            raise InputError(
                f"{file}: a figure is written as {', '.join(f'.{k}' for k in _METADATA)}"
            )
        with style(), partial(file) as temporary:
            figure.savefig(temporary, format=kind, dpi=200, metadata=_METADATA[kind])


def clip_to_bounds(metric: str, low: float, high: float) -> tuple[float, float]:
    """Clip an interval to the possible values of the metric (no negative goodput, no share above
    1).
    """
    least, most = metrics.bounds(metric)
    return max(low, least), min(high, most)


def _bars(summary: Mapping[str, Any], scale: float, metric: str) -> list[list[float]] | None:
    if summary["ci95"] is None:
        return None
    low, high = clip_to_bounds(metric, *summary["ci95"])
    return [[max(0.0, summary["mean"] - low) * scale], [max(0.0, high - summary["mean"]) * scale]]


def default_figure(comparison: Comparison) -> Figure:
    """Goodput against delay with one point per scheme; with varied keys, goodput against the
    first.
    """
    if comparison.plan.vary:
        return against_key(comparison, ["goodput_bps"])
    return scatter(comparison)


def scatter(
    comparison: Comparison, x: str = "one_way_delay_s_p95", y: str = "goodput_bps", title: str = ""
) -> Figure:
    """One point per scheme with 95 % confidence intervals in both directions.

    Many schemes are split into one panel per group.
    """
    title = title or comparison.plan.title
    if comparison.plan.has_many_schemes:
        from lasthop.plotting import many_scheme_plots

        return many_scheme_plots.scatter(comparison, x, y, title)
    with style():
        figure, (axes,) = new_figure(4.2)
        cases = comparison.plan.cases
        drawn = scheme_styles([c.label for c in cases])
        places = [
            point(axes, comparison, case.point, scheme, x, y)
            for case, scheme in zip(cases, drawn, strict=True)
        ]
        capacity_line(axes, comparison, y)
        set_x_scale(axes, [comparison.statistics(c.point, c.label, x)["mean"] for c in cases])
        axes.set(xlabel=metrics.label(x), ylabel=metrics.label(y))
        axes.margins(x=0.12)
        _from_zero(axes)
        arrow = {"arrowstyle": "->", "color": "#888888"}
        corner: dict[str, Any] = {
            "xycoords": "axes fraction",
            "textcoords": "offset points",
            "color": "#888888",
            "va": "top",
        }
        axes.annotate("better", (0.005, 0.99), (14, -9), arrowprops=arrow, **corner)
        add_title_and_legend(figure, title, plot_text.caption(comparison))
        names = [
            label_placement.Label(scheme.label, scheme.colour, at)
            for scheme, at in zip(drawn, places, strict=True)
            if at is not None
        ]
        label_placement.place_labels(figure, axes, names, SMALL_PT + 0.5)
    return figure


def _from_zero(axes: Axes) -> None:
    """Start goodput at zero, and delay at zero unless that would squeeze the points."""
    low, high = axes.get_xlim()
    if axes.get_xscale() == "linear":
        narrow = axes.dataLim.width < 0.25 * axes.dataLim.x1
        axes.set_xlim(max(0.0, low) if narrow else 0.0, high)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.12)


def point(
    axes: Axes, comparison: Comparison, at: int, scheme: SchemeStyle, x: str, y: str
) -> tuple[float, float] | None:
    """Draw the means of a scheme with their confidence intervals.

    Returns the position of the point, or `None` if a mean is unknown.
    """
    sx, sy = (comparison.statistics(at, scheme.label, m) for m in (x, y))
    if sx["mean"] is None or sy["mean"] is None:
        return None
    fx, fy = metrics.factor(x), metrics.factor(y)
    place = (sx["mean"] * fx, sy["mean"] * fy)
    bars: dict[str, Any] = {"xerr": _bars(sx, fx, x), "yerr": _bars(sy, fy, y), "capsize": 2}
    axes.errorbar(
        [place[0]], [place[1]], fmt=scheme.marker, color=scheme.colour, clip_on=False, **bars
    )
    return place


def set_x_scale(axes: Axes, values: Sequence[float | None]) -> None:
    """Make the x axis logarithmic if the values span a large range."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    known = [v for v in values if v is not None]
    if not known or min(known) <= 0 or max(known) < LOG_AXIS_RATIO * min(known):
        return
    axes.set_xscale("log")
    decades = max(known) < 10 * LOG_AXIS_RATIO * min(known)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if decades else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def capacity_line(axes: Axes, comparison: Comparison, y: str) -> None:
    """Draw the capacity of the radio link, if it is known and the y axis is goodput."""
    first = comparison.plan.cases[0]
    capacity = comparison.statistics(first.point, first.label, "radio_capacity_bps")["mean"]
    if capacity is not None and y == "goodput_bps":
        axes.axhline(
            capacity * metrics.factor(y),
            color="#666666",
            linewidth=0.9,
            linestyle="--",
            label=CAPACITY,
        )


def _facets(comparison: Comparison) -> list[dict[str, str]]:
    """The combinations of all varied keys except the first; each has one panel."""
    first = next(iter(comparison.plan.vary))
    seen = [{k: v for k, v in p.items() if k != first} for p in comparison.plan.points]
    return list({tuple(s.items()): s for s in seen}.values())


def against_key(
    comparison: Comparison,
    names: Sequence[str],
    title: str = "",
    x_label: str = "",
    references: Sequence[Reference] = (),
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Metrics against the first varied key, with confidence bands.

    Each combination of the other keys has a panel; with many schemes, one panel per group of
    schemes. `labels` replaces keys, values and metrics by other text.
    """
    others, labels = _facets(comparison), labels or {}
    axis = KeyAxis.of(comparison, x_label, labels)
    title = title or comparison.plan.title
    if comparison.plan.has_many_schemes:
        from lasthop.plotting import many_scheme_plots

        return many_scheme_plots.against_key(
            comparison, names, others, title, axis, references, labels
        )
    columns = _facet_columns(others)
    rows = -(-len(others) // columns)
    drawn = scheme_styles(comparison.plan.labels)
    with style():
        high = 2.8 if rows == 1 else 2.2
        figure, axes = new_figure(high * rows * len(names) + 1.0, rows * len(names), columns)
        for number, metric in enumerate(names):
            block = axes[number * rows * columns : (number + 1) * rows * columns]
            for other, panel in zip(others, block, strict=False):
                axis.draw(panel, comparison, metric, other, drawn, references)
                panel.set_title(_facet_title(other, labels, columns))
            y_label = plot_text.wrap(
                plot_text.metric_name(metric, labels), int(high * CHARS_PER_INCH)
            )
            lowest = rows > 1 or number == len(names) - 1
            _label_axes(block, len(others), columns, y_label, axis.label if lowest else "")
            _common_limits(block[: len(others)], axes[0])
        axis.finish(figure.axes, _max_chars(columns))
        add_title_and_legend(figure, title, plot_text.caption(comparison), least=2)
    return figure


def _facet_columns(others: Sequence[Mapping[str, str]]) -> int:
    """Number of panel columns: one per value of the last key if they fit."""
    if len(others) <= MAX_COLUMNS:
        return len(others)
    last = list(others[0])[-1]
    across = len({o[last] for o in others})
    if len(others[0]) > 1 and 1 < across <= MAX_COLUMNS:
        return across
    return 2 if len(others) == 4 else MAX_COLUMNS


def _max_chars(columns: int) -> int:
    """Number of characters that fit above a panel or below its axis."""
    return int(WIDTH_IN / columns * CHARS_PER_INCH * 0.85)


def _facet_title(other: Mapping[str, str], labels: Mapping[str, str], columns: int) -> str:
    return plot_text.wrap(plot_text.point_name(other, labels), _max_chars(columns))


def _label_axes(block: Sequence[Axes], used: int, columns: int, y_label: str, x_label: str) -> None:
    """Label the axes of one metric at the left and, with `x_label`, below; remove unused axes."""
    for place, panel in enumerate(block):
        if place >= used:
            panel.remove()
            continue
        if place % columns == 0:
            panel.set_ylabel(y_label)
        else:
            panel.tick_params(labelleft=False)
        if x_label and place + columns >= used:
            panel.set_xlabel(plot_text.wrap(x_label, _max_chars(columns)))
        else:
            panel.tick_params(labelbottom=False)


def _common_limits(panels: Sequence[Axes], first: Axes) -> None:
    """Share the y limits among the panels of a metric and the x limits among all panels."""
    for panel in panels:
        if panel is not first:
            panel.sharex(first)
        if panel is not panels[0]:
            panel.sharey(panels[0])
    first.autoscale_view()
    panels[0].autoscale_view()
    low = min(float(p.dataLim.y0) for p in panels)
    high = max(float(p.dataLim.y1) for p in panels)
    if low == high == 0:
        # All values are zero; the automatic limits would be a few hundredths.
        panels[0].set_ylim(0, 1)
    panels[0].set_ylim(bottom=0.0 if low >= 0 else None)


@dataclass(frozen=True)
class KeyAxis:
    """The first varied key as an x axis."""

    key: str
    #: Values as given, and their places on the axis.
    given: Sequence[str]
    places: Sequence[float]
    label: str
    #: Tick labels if the values are categories; empty if they are numbers.
    words: Sequence[str] = ()
    logarithmic: bool = False

    @classmethod
    def of(cls, comparison: Comparison, label: str, labels: Mapping[str, str]) -> KeyAxis:
        """The axis of this comparison; of keys that are varied jointly, the first one counts."""
        key, given = next(iter(comparison.plan.vary.items()))
        scale = (
            None
            if any(v in labels for v in given)
            else quantities.axis_values([v.split(JOINT_SEPARATOR)[0] for v in given])
        )
        name = label or plot_text.key_name(key, labels)
        if scale is None:
            words = [plot_text.value_name(v, labels) for v in given]
            return cls(key, given, [float(i) for i in range(len(given))], name, words)
        places, unit = scale
        unit = plot_text.UNITS.get(unit, unit)
        wide = min(places) > 0 and max(places) / min(places) > 50
        return cls(
            key, given, places, f"{name} ({unit})" if unit and "(" not in name else name, (), wide
        )

    def draw(
        self,
        panel: Axes,
        comparison: Comparison,
        metric: str,
        other: Mapping[str, str],
        drawn: Sequence[SchemeStyle],
        references: Sequence[Reference] = (),
    ) -> list[tuple[float, float] | None]:
        """Draw a metric of these schemes; return the last point of each, or `None` without values.

        Categories cannot be interpolated, so they have markers with error bars instead of lines.
        """
        points = {
            p[self.key]: n
            for n, p in enumerate(comparison.plan.points)
            if all(p[k] == v for k, v in other.items())
        }
        scale = metrics.factor(metric)
        ends: list[tuple[float, float] | None] = []
        for number, scheme in enumerate(drawn):
            aside = (
                (number - (len(drawn) - 1) / 2) * min(0.12, 0.5 / len(drawn)) if self.words else 0.0
            )
            found = [
                (x + aside, comparison.statistics(points[v], scheme.label, metric))
                for x, v in zip(self.places, self.given, strict=True)
            ]
            known = sorted(
                ((x, s) for x, s in found if s["mean"] is not None), key=lambda pair: pair[0]
            )
            ends.append((known[-1][0], known[-1][1]["mean"] * scale) if known else None)
            if known:
                self._series(panel, metric, known, scheme)
        self._references(panel, metric, other, references)
        if self.logarithmic:
            panel.set_xscale("log")
        return ends

    def _series(
        self,
        panel: Axes,
        metric: str,
        known: Sequence[tuple[float, Mapping[str, Any]]],
        scheme: SchemeStyle,
    ) -> None:
        """Draw one scheme. A value without an interval, among others with one, is deterministic."""
        scale = metrics.factor(metric)
        x, means = [k for k, _ in known], [s["mean"] * scale for _, s in known]
        spans = [clip_to_bounds(metric, *(s["ci95"] or (s["mean"], s["mean"]))) for _, s in known]
        low, high = [a * scale for a, _ in spans], [b * scale for _, b in spans]
        intervals = any(s["ci95"] for _, s in known)
        style: dict[str, Any] = {
            "marker": scheme.marker,
            "color": scheme.colour,
            "label": scheme.label,
            "clip_on": False,
            "zorder": 3,
        }
        if not self.words:
            panel.plot(x, means, linestyle=scheme.dash, **style)
            if intervals:
                panel.fill_between(x, low, high, color=scheme.colour, alpha=0.15, lw=0)
            return
        below, above = (
            [max(0.0, b - a) for a, b in zip(p, q, strict=True)]
            for p, q in ((low, means), (means, high))
        )
        panel.errorbar(
            x,
            means,
            yerr=[below, above] if intervals else None,
            linestyle="none",
            capsize=2,
            **style,
        )

    def _references(
        self, panel: Axes, metric: str, other: Mapping[str, str], references: Sequence[Reference]
    ) -> None:
        for line in (
            r
            for r in references
            if r.metric == metric and all(other.get(k) == v for k, v in r.at.items())
        ):
            if len(line.values) != len(self.places):
                raise InputError(
                    f"[[plot.reference]] {line.label}: {len(line.values)} values, but {self.key}"
                    f" takes {len(self.places)}"
                )
            place = sorted(
                zip(self.places, (v * metrics.factor(metric) for v in line.values), strict=True)
            )
            panel.plot(
                [x for x, _ in place],
                [y for _, y in place],
                color="#444444",
                linewidth=0.9,
                linestyle=":",
                label=line.label,
            )

    def finish(self, panels: Sequence[Axes], letters: int) -> None:
        """Set the ticks of the x axis that these panels share."""
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

        if self.words:
            wrapped = [
                plot_text.wrap(w, max(6, int(1.15 * letters / len(self.words)))) for w in self.words
            ]
            panels[0].set_xticks(self.places, wrapped)
            panels[0].set_xlim(-0.5, len(self.words) - 0.5)
            for panel in panels:
                panel.grid(visible=False, axis="x")
        elif self.logarithmic and min(self.places) >= 1e-3 and max(self.places) < 1e5:
            panels[0].xaxis.set_major_locator(LogLocator())
            panels[0].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panels[0].xaxis.set_minor_formatter(NullFormatter())
        elif (
            not self.logarithmic
            and all(x == round(x) for x in self.places)
            and len(set(self.places)) <= 3
        ):
            # With a few integers, ticks between them would not be values of the key.
            panels[0].set_xticks(sorted(set(self.places)))
            panels[0].xaxis.set_minor_locator(NullLocator())


def panels(parts: Sequence[Panel], title: str, *, height: float = 2.5, caption: str = "") -> Figure:
    """Panels one above the other with a common x axis; `height` of each panel in inches."""
    with style():
        share = len({p.x_label for p in parts}) == 1
        figure, axes = new_figure(height * len(parts) + 1.0, len(parts), 1, sharex=share)
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
                ylabel=plot_text.wrap(part.y_label, int(height * CHARS_PER_INCH)), title=part.title
            )
            if part.x_range:
                _zoom(panel, part)
            if not share or part is parts[-1]:
                panel.set_xlabel(part.x_label)
        add_title_and_legend(figure, title, caption, least=2)
        marks = [(panel, part.marks) for part, panel in zip(parts, axes, strict=True) if part.marks]
        if marks:
            label_placement.mark_times(figure, marks, SMALL_PT)
    return figure


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
        least = float(values.min() - 0.05 * np.ptp(values))
        # No series is ever negative.
        panel.set_ylim(
            max(0.0, least) if values.min() >= 0 else least, values.max() + 0.12 * np.ptp(values)
        )


def _line(panel: Axes, line: Line, place: int) -> None:
    colour = COLOURS[place % len(COLOURS)]
    if line.dots:
        panel.plot(
            line.x,
            line.y,
            linestyle="none",
            marker=MARKERS[place % len(MARKERS)],
            markersize=2.2,
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
