"""A chart while it is drawn: its panels in rows and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lasthop.experiments.chart_spec import Chart
from lasthop.plotting import kinds, label_placement, plot_text, points, styles
from lasthop.plotting.key_axis import KeyAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from lasthop.experiments.comparison import Comparison
    from lasthop.plotting.styles import SchemeStyle


@dataclass(frozen=True)
class Slot:
    """One panel: a metric at one value of each key without an axis."""

    metric: str
    #: Values of the keys without an axis; for a panel per scheme also `SCHEME`.
    fixed: Mapping[str, str]
    #: Value of the key of the columns, and of the rows.
    column: str = ""
    row: str = ""


@dataclass
class Grid:
    """The panels of a figure in rows and columns; all rows have the same length."""

    rows: list[list[Slot | None]]
    #: True if the columns are the values of one key in every row, so that only the top names them.
    aligned: bool
    #: The axes of the slots, once they are drawn.
    axes: dict[tuple[int, int], Axes] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    def slots(self) -> list[tuple[tuple[int, int], Slot]]:
        """Row and column of each panel, with the panel."""
        return [
            ((r, c), slot)
            for r, row in enumerate(self.rows)
            for c, slot in enumerate(row)
            if slot is not None
        ]

    def lowest(self, place: tuple[int, int], *, of_metric: bool = False) -> bool:
        """True if no panel is below this one, or none of the same metric."""
        row, column = place
        slot = self.rows[row][column]
        below = [r[column] for r in self.rows[row + 1 :] if r[column] is not None]
        if of_metric:
            below = [s for s in below if s is not None and slot and s.metric == slot.metric]
        return not below


@dataclass
class Drawing:
    """A chart while it is drawn."""

    chart: Chart
    comparison: Comparison
    grid: Grid
    styles: list[SchemeStyle]
    axis: KeyAxis | None
    #: The second axis of a heat map; `None` if it is the schemes.
    second: KeyAxis | None = None
    #: Images of a heat map, by place.
    images: dict[tuple[int, int], AxesImage] = field(default_factory=dict)
    labels: list[label_placement.Label] = field(default_factory=list)

    def metric_name(self, metric: str) -> str:
        """The axis label of a metric."""
        return plot_text.metric_name(metric, self.chart.labels)

    def panel(self, place: tuple[int, int], slot: Slot) -> None:
        """Draw one panel."""
        axes, kind, comparison = self.grid.axes[place], self.chart.kind, self.comparison
        if kind == "line" and self.axis is not None:
            self.axis.draw(
                axes, comparison, slot.metric, slot.fixed, self.styles, self.chart.references
            )
        elif kind in ("bars", "box"):
            draw = kinds.bars if kind == "bars" else kinds.boxes
            draw(axes, comparison, slot.metric, slot.fixed, self.styles, self.axis)
        elif kind == "cdf":
            kinds.distribution(axes, comparison, slot.metric, slot.fixed, self.styles)
        elif kind == "scatter":
            self._scatter(axes, slot)
        elif self.axis is not None:
            self._heat_map(place, axes, slot)

    def _scatter(self, axes: Axes, slot: Slot) -> None:
        (number,) = points.points_by_setting(self.comparison, "", slot.fixed).values()
        for scheme in self.styles:
            at = points.point(axes, self.comparison, number, scheme, self.chart.x, slot.metric)
            if at is not None:
                self.labels.append(label_placement.Label(scheme.label, scheme.colour, at))
        points.capacity_line(axes, self.comparison, slot.metric, number)

    def _heat_map(self, place: tuple[int, int], axes: Axes, slot: Slot) -> None:
        assert self.axis is not None
        names = [s.label for s in self.styles]
        tables = [
            kinds.means(self.comparison, s.metric, s.fixed, (self.axis, self.second), names)
            for _, s in self.grid.slots()
            if s.metric == slot.metric
        ]
        values = kinds.means(
            self.comparison, slot.metric, slot.fixed, (self.axis, self.second), names
        )
        known = np.concatenate([t[~np.isnan(t)] for t in tables])
        span = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        chars = styles.current().chars(styles.current().width_in / self.grid.columns)
        words = kinds.tick_words(self.axis, max(5, chars // (len(self.axis.given) + 1)))
        rows = names if self.second is None else kinds.tick_words(self.second, 14)
        self.images[place] = kinds.heat_map(axes, values, span, words, rows)


__all__ = ["Drawing", "Grid", "Slot"]
