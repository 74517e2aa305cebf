"""A varied key as the x axis of a panel: lines if its values are numbers, else categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.errors import InputError
from lasthop.experiments.plan import JOINT_SEPARATOR
from lasthop.plotting import plot_text, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lasthop.experiments.comparison import Comparison
    from lasthop.plotting.styles import SchemeStyle
    from lasthop.scenarios.experiment import Reference

MAX_TICKS = 6  # values of the key that each get a tick


@dataclass(frozen=True)
class KeyAxis:
    """A varied key as an x axis."""

    key: str
    #: Values as given, and their places on the axis.
    given: Sequence[str]
    places: Sequence[float]
    label: str
    #: Tick labels if the values are categories; empty if they are numbers.
    words: Sequence[str] = ()
    logarithmic: bool = False

    @classmethod
    def of(
        cls,
        comparison: Comparison,
        label: str,
        labels: Mapping[str, str],
        key: str = "",
        *,
        categories: bool = False,
    ) -> KeyAxis:
        """The axis of a key, by default the first; of jointly varied keys, the first one counts.

        With `categories`, numbers are categories as well.
        """
        key = key or next(iter(comparison.plan.vary))
        given = comparison.plan.vary[key]
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
        title = f"{name} ({unit})" if unit and "(" not in name else name
        if categories:
            words = [f"{x:g}" for x in places]
            return cls(key, given, [float(i) for i in range(len(given))], title, words)
        wide = min(places) > 0 and max(places) / min(places) > 50
        return cls(key, given, places, title, (), wide)

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
        numbers = points.points_by_setting(comparison, self.key, other)
        scale = metrics.factor(metric)
        ends: list[tuple[float, float] | None] = []
        for number, scheme in enumerate(drawn):
            aside = (
                (number - (len(drawn) - 1) / 2) * min(0.12, 0.5 / len(drawn)) if self.words else 0.0
            )
            known = sorted(
                (x + aside, numbers[v])
                for x, v in zip(self.places, self.given, strict=True)
                if comparison.statistics(numbers[v], scheme.label, metric)["mean"] is not None
            )
            means = [comparison.statistics(n, scheme.label, metric)["mean"] for _, n in known]
            ends.append((known[-1][0], means[-1] * scale) if known else None)
            if known:
                self._series(panel, comparison, metric, known, scheme)
        self._references(panel, metric, other, references)
        if self.logarithmic:
            panel.set_xscale("log")
        return ends

    def _series(
        self,
        panel: Axes,
        comparison: Comparison,
        metric: str,
        known: Sequence[tuple[float, int]],
        scheme: SchemeStyle,
    ) -> None:
        """Draw one scheme at these places and points, with intervals or, for few runs, each run.

        A value without an interval, among others with one, is deterministic.
        """
        scale, label = metrics.factor(metric), scheme.label
        x = [at for at, _ in known]
        means = [comparison.statistics(n, label, metric)["mean"] * scale for _, n in known]
        bars = [points.error_bars(comparison, n, label, metric) for _, n in known]
        runs = [points.single_runs(comparison, n, label, metric) for _, n in known]
        style: dict[str, Any] = {
            "marker": scheme.marker,
            "color": scheme.colour,
            "label": label,
            "clip_on": False,
            "zorder": 3,
        }
        below, above = [b[0] if b else 0.0 for b in bars], [b[1] if b else 0.0 for b in bars]
        if self.words:
            dots = [(at, value) for at, values in zip(x, runs, strict=True) for value in values]
            if dots:
                _dots(panel, [at for at, _ in dots], [y for _, y in dots], scheme.colour)
            lengths = [below, above] if any(bars) else None
            panel.errorbar(x, means, yerr=lengths, linestyle="none", capsize=2, **style)
            return
        panel.plot(x, means, linestyle=scheme.dash, **style)
        if any(runs):
            _single_lines(panel, x, means, runs, scheme.colour)
        if any(bars):
            low = [m - b for m, b in zip(means, below, strict=True)]
            high = [m + a for m, a in zip(means, above, strict=True)]
            panel.fill_between(x, low, high, color=scheme.colour, alpha=0.15, lw=0)

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

        axis, values = panels[0].xaxis, sorted(set(self.places))
        if self.words:
            wrapped = [
                plot_text.wrap(w, max(6, int(1.15 * letters / len(self.words)))) for w in self.words
            ]
            panels[0].set_xticks(self.places, wrapped)
            panels[0].set_xlim(-0.5, len(self.words) - 0.5)
            for panel in panels:
                panel.grid(visible=False, axis="x")
        elif self.logarithmic and values[0] >= 1e-3 and values[-1] < 1e5:
            axis.set_major_locator(LogLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        elif (
            not self.logarithmic and all(x == round(x) for x in self.places) and len(values) <= 3
        ) or (not self.logarithmic and _apart(values)):
            # With few values, ticks between them would not be values of the key.
            panels[0].set_xticks(values, [f"{v:g}" for v in values])
            axis.set_minor_locator(NullLocator())


def _apart(values: Sequence[float]) -> bool:
    """True if each value can have a tick: they are few, and none is close to the next one."""
    gaps = [b - a for a, b in pairwise(values)]
    return len(values) <= MAX_TICKS and all(g >= 0.12 * (values[-1] - values[0]) for g in gaps)


def _dots(panel: Axes, x: Sequence[float], y: Sequence[float], colour: str) -> None:
    panel.plot(
        x,
        y,
        linestyle="none",
        marker=".",
        markersize=3.0,
        color=colour,
        alpha=0.6,
        clip_on=False,
        label="_run",
    )


def _single_lines(
    panel: Axes,
    x: Sequence[float],
    means: Sequence[float],
    runs: Sequence[Sequence[float]],
    colour: str,
) -> None:
    """One thin line per seed; a deterministic value is the same for all seeds."""
    count = max(len(r) for r in runs)
    for seed in range(count):
        y = [r[seed] if seed < len(r) else m for r, m in zip(runs, means, strict=True)]
        panel.plot(x, y, color=colour, linewidth=0.5, alpha=0.45, label="_run", clip_on=False)


__all__ = ["KeyAxis"]
