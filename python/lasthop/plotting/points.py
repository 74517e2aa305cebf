"""Means with confidence intervals, and single runs, as marks in a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop.analysis import metrics
from lasthop.plotting import styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from lasthop.experiments.comparison import Comparison
    from lasthop.plotting.styles import SchemeStyle

CAPACITY = "link capacity"
LOG_AXIS_RATIO = 20.0  # an axis is logarithmic if max / min is at least this


def clip_to_bounds(metric: str, low: float, high: float) -> tuple[float, float]:
    """Clip an interval to the possible values of the metric (no negative goodput, no share above
    1).
    """
    least, most = metrics.bounds(metric)
    return max(low, least), min(high, most)


def single_runs(comparison: Comparison, at: int, label: str, metric: str) -> list[float]:
    """The values of the runs of a case, in the unit of the label, if they are too few for an
    interval.

    Empty for a single run, for enough runs, and if a value is unknown.
    """
    values = comparison.values(at, label, metric)
    known = [v for v in values if v is not None]
    if len(known) < len(values) or not 1 < len(known) < styles.MIN_RUNS_FOR_INTERVAL:
        return []
    return [v * metrics.factor(metric) for v in known]


def error_bars(
    comparison: Comparison, at: int, label: str, metric: str
) -> tuple[float, float] | None:
    """Lengths of the 95 % CI below and above the mean, in the unit of the label.

    `None` for a single run, and if single runs are drawn instead.
    """
    summary, scale = comparison.statistics(at, label, metric), metrics.factor(metric)
    if summary["ci95"] is None or single_runs(comparison, at, label, metric):
        return None
    low, high = clip_to_bounds(metric, *summary["ci95"])
    mean = summary["mean"]
    return max(0.0, mean - low) * scale, max(0.0, high - mean) * scale


def point(
    axes: Axes, comparison: Comparison, at: int, scheme: SchemeStyle, x: str, y: str
) -> tuple[float, float] | None:
    """Draw the means of a scheme with their confidence intervals, or with the single runs.

    Returns the position of the point, or `None` if a mean is unknown.
    """
    means = [comparison.statistics(at, scheme.label, m)["mean"] for m in (x, y)]
    if None in means:
        return None
    place = (means[0] * metrics.factor(x), means[1] * metrics.factor(y))
    runs = [single_runs(comparison, at, scheme.label, m) for m in (x, y)]
    if all(runs):
        axes.plot(
            *runs,
            linestyle="none",
            marker=".",
            markersize=3.0,
            color=scheme.colour,
            alpha=0.6,
            clip_on=False,
            label="_run",
        )
    bars: dict[str, Any] = {}
    for name, metric in (("xerr", x), ("yerr", y)):
        length = error_bars(comparison, at, scheme.label, metric)
        if length is not None:
            bars[name] = [[length[0]], [length[1]]]
    axes.errorbar(
        [place[0]],
        [place[1]],
        fmt=scheme.marker,
        color=scheme.colour,
        clip_on=False,
        label=scheme.label,
        capsize=2,
        **bars,
    )
    return place


def is_wide(low: float, high: float) -> bool:
    """Whether an axis between these values is logarithmic."""
    return low > 0 and high >= LOG_AXIS_RATIO * low


def set_x_scale(axes: Axes, values: Sequence[float | None]) -> None:
    """Make the x axis logarithmic if the values span a large range."""
    known = [v for v in values if v is not None]
    if known and is_wide(min(known), max(known)):
        axes.set_xscale("log")
        plain_ticks(axes.xaxis, min(known), max(known))


def plain_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks of a logarithmic axis as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = high < 10 * LOG_AXIS_RATIO * low
    axis.set_major_locator(LogLocator(subs=(1.0, 3.0) if decades else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def capacity_line(axes: Axes, comparison: Comparison, y: str, at: int = 0) -> None:
    """Draw the capacity of the radio link at a point, if it is known and the y axis is goodput."""
    label = comparison.plan.cases[0].label
    capacity = comparison.statistics(at, label, "radio_capacity_bps")["mean"]
    if capacity is not None and y == "goodput_bps":
        axes.axhline(
            capacity * metrics.factor(y),
            color="#666666",
            linewidth=0.9,
            linestyle="--",
            label=CAPACITY,
        )


def points_by_setting(comparison: Comparison, key: str, fixed: Mapping[str, str]) -> dict[str, int]:
    """The points at which the other keys have the values in `fixed`: value of `key` -> number."""
    return {
        p.get(key, ""): n
        for n, p in enumerate(comparison.plan.points)
        if all(p[k] == v for k, v in fixed.items())
    }


__all__ = [
    "CAPACITY",
    "capacity_line",
    "clip_to_bounds",
    "error_bars",
    "is_wide",
    "plain_ticks",
    "point",
    "points_by_setting",
    "set_x_scale",
    "single_runs",
]
