"""Drawing of one panel: bars, boxes, cumulative distributions and heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import MaxNLocator

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.experiments.chart_spec import SCHEME
from lasthop.plotting import plot_text, points, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

    from lasthop.experiments.comparison import Comparison
    from lasthop.plotting.key_axis import KeyAxis
    from lasthop.plotting.styles import SchemeStyle

GROUP_WIDTH = 0.8  # of the bars at one value of a key; values are 1 apart
COLOUR_MAP = "cividis"  # even steps of lightness, also for colour-blind readers


def known_values(comparison: Comparison, at: int, label: str, metric: str) -> list[float]:
    """The known values of the runs of a case, in the unit of the label."""
    values = comparison.values(at, label, metric)
    return [v * metrics.factor(metric) for v in values if v is not None]


def _places(
    comparison: Comparison,
    axis: KeyAxis | None,
    fixed: Mapping[str, str],
    drawn: Sequence[SchemeStyle],
) -> list[tuple[SchemeStyle, list[tuple[float, int]], float]]:
    """Per scheme: the places on the axis with their points, and the width at each place.

    Without a key, the schemes themselves are the categories, from the top of a vertical axis.
    """
    if axis is None:
        (number,) = points.points_by_setting(comparison, "", fixed).values()
        return [(s, [(float(i), number)], GROUP_WIDTH) for i, s in enumerate(drawn)]
    numbers = points.points_by_setting(comparison, axis.key, fixed)
    width = GROUP_WIDTH / len(drawn)
    return [
        (
            scheme,
            [
                (x + (i - (len(drawn) - 1) / 2) * width, numbers[v])
                for x, v in zip(axis.places, axis.given, strict=True)
            ],
            width,
        )
        for i, scheme in enumerate(drawn)
    ]


def bars(
    axes: Axes,
    comparison: Comparison,
    metric: str,
    fixed: Mapping[str, str],
    drawn: Sequence[SchemeStyle],
    axis: KeyAxis | None,
) -> None:
    """Means as bars with their 95 % CI, or with the single runs as dots.

    The bars are horizontal without a key.
    """
    scale = metrics.factor(metric)
    for scheme, places, width in _places(comparison, axis, fixed, drawn):
        for number, (x, at) in enumerate(places):
            mean = comparison.statistics(at, scheme.label, metric)["mean"]
            if mean is None:
                continue
            bar = axes.barh if axis is None else axes.bar
            named: dict[str, Any] = {"label": scheme.label} if number == 0 else {}
            bar(x, mean * scale, width * 0.92, color=scheme.colour, alpha=0.85, **named)
            length = points.error_bars(comparison, at, scheme.label, metric)
            line: dict[str, Any] = {
                "fmt": "none",
                "capsize": 2,
                "ecolor": "#222222",
                "elinewidth": 0.8,
            }
            if length is not None:
                bar_of: dict[str, Any] = {
                    "xerr" if axis is None else "yerr": [[length[0]], [length[1]]]
                }
                place = (mean * scale, x) if axis is None else (x, mean * scale)
                axes.errorbar(place[0], place[1], **bar_of, **line)
            runs = points.single_runs(comparison, at, scheme.label, metric)
            if runs:
                _dots(axes, x, runs, flat=axis is None)


def boxes(
    axes: Axes,
    comparison: Comparison,
    metric: str,
    fixed: Mapping[str, str],
    drawn: Sequence[SchemeStyle],
    axis: KeyAxis | None,
) -> None:
    """Quartiles and median, whiskers to the smallest and the largest run.

    Fewer than `styles.MIN_RUNS_FOR_INTERVAL` runs are drawn as dots, without a box.
    """
    for scheme, places, width in _places(comparison, axis, fixed, drawn):
        stats, at_places = [], []
        for x, at in places:
            values = known_values(comparison, at, scheme.label, metric)
            if 1 <= len(values) < styles.MIN_RUNS_FOR_INTERVAL:
                _dots(axes, x, values, flat=axis is None, colour=scheme.colour, label=scheme.label)
            elif values:
                low, q1, median, q3, high = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
                stats.append(
                    {"med": median, "q1": q1, "q3": q3, "whislo": low, "whishi": high, "fliers": []}
                )
                at_places.append(x)
        if not stats:
            continue
        line = {"color": scheme.colour, "linewidth": 0.9}
        axes.bxp(
            stats,
            positions=at_places,
            widths=width * 0.8,
            manage_ticks=False,
            patch_artist=True,
            showfliers=False,
            label=scheme.label,
            orientation="horizontal" if axis is None else "vertical",
            boxprops={"facecolor": scheme.colour, "alpha": 0.5, "edgecolor": scheme.colour},
            medianprops={"color": "#222222", "linewidth": 1.1},
            whiskerprops=line,
            capprops=line,
        )


def _dots(
    axes: Axes,
    at: float,
    values: Sequence[float],
    *,
    flat: bool,
    colour: str = "#222222",
    label: str = "_run",
) -> None:
    place = [at] * len(values)
    x, y = (values, place) if flat else (place, values)
    axes.plot(
        x, y, linestyle="none", marker=".", markersize=3.5, color=colour, zorder=4, label=label
    )


def name_schemes(axes: Axes, drawn: Sequence[SchemeStyle], *, named: bool) -> None:
    """Name the schemes at a vertical axis of categories, the first one on top."""
    labels = [s.label for s in drawn] if named else [""] * len(drawn)
    axes.set_yticks(range(len(drawn)), labels)
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def distribution(
    axes: Axes,
    comparison: Comparison,
    metric: str,
    fixed: Mapping[str, str],
    drawn: Sequence[SchemeStyle],
) -> None:
    """The share of the runs with at most each value, one step line per scheme."""
    (number,) = points.points_by_setting(comparison, "", fixed).values()
    for scheme in drawn:
        values = sorted(known_values(comparison, number, scheme.label, metric))
        if not values:
            continue
        axes.plot(
            [values[0], *values],
            [i / len(values) for i in range(len(values) + 1)],
            drawstyle="steps-post",
            color=scheme.colour,
            linestyle=scheme.dash,
            label=scheme.label,
        )
    axes.set_ylim(0, 1.03)
    # More numbers would touch those of the next panel.
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))


def means(
    comparison: Comparison,
    metric: str,
    fixed: Mapping[str, str],
    axes: tuple[KeyAxis, KeyAxis | None],
    labels: Sequence[str],
) -> NDArray[np.float64]:
    """The means of a heat map, a row per value of the second key or per scheme; NaN if unknown."""
    x, y = axes
    scale, rows = metrics.factor(metric), []
    for value in labels if y is None else y.given:
        here = dict(fixed)
        label = value if y is None else here.pop(SCHEME)
        if y is not None:
            here[y.key] = value
        numbers = points.points_by_setting(comparison, x.key, here)
        found = [comparison.statistics(numbers[v], label, metric)["mean"] for v in x.given]
        rows.append([np.nan if m is None else m * scale for m in found])
    return np.array(rows)


def heat_map(
    axes: Axes,
    values: NDArray[np.float64],
    span: tuple[float, float],
    x_words: Sequence[str],
    y_words: Sequence[str],
) -> AxesImage:
    """Means as colours between the two values of `span`, by their logarithms if they span much."""
    norm = LogNorm(*span) if points.is_wide(*span) else Normalize(*span)
    image = axes.imshow(values, cmap=COLOUR_MAP, norm=norm, aspect="auto", origin="upper")
    axes.set_xticks(range(len(x_words)), x_words)
    axes.set_yticks(range(len(y_words)), y_words)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    return image


def write_values(axes: Axes, image: AxesImage) -> None:
    """Write the mean in each cell, if all of them fit. The layout must be final."""
    values: NDArray[np.float64] = np.ma.filled(np.ma.asarray(image.get_array()), np.nan)
    figure: Any = axes.get_figure(root=True)
    renderer = figure.canvas.get_renderer()
    box = axes.get_window_extent(renderer)
    room = (box.width / values.shape[1], box.height / values.shape[0])
    texts = []
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        shade = sum(image.cmap(image.norm(np.asarray(value)))[:3]) / 3
        texts.append(
            axes.text(
                column,
                row,
                quantities.format_number(float(value), 3),
                ha="center",
                va="center",
                fontsize=styles.small_pt() * 0.93,
                color="black" if shade > 0.5 else "white",
            )
        )
    extents = [t.get_window_extent(renderer) for t in texts]
    if any(e.width > room[0] - 3 or e.height > room[1] - 2 for e in extents):
        for text in texts:
            text.remove()


def tick_words(axis: KeyAxis, chars: int) -> list[str]:
    """The values of a key in words, for ticks between which there is nothing."""
    words = axis.words or [f"{x:g}" for x in axis.places]
    return [plot_text.wrap(w, chars) for w in words]


__all__ = [
    "bars",
    "boxes",
    "distribution",
    "heat_map",
    "known_values",
    "means",
    "name_schemes",
    "tick_words",
    "write_values",
]
