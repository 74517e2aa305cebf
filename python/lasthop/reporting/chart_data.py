"""The data of a study for the charts of a report.

A document has `keys` (`label`, `values`, and `places` if the values are numbers), `points` (places
in `values`, one per key), `labels`, `styles`, `metrics` (`key`, `label`), `first` (the metrics and
the x axis to show first) and `cells`: for each metric a list over points and schemes of `null` or
[mean, low, high, ratio, low, high, p, runs], in the unit of the metric's label.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.experiments import chart_spec
from lasthop.experiments.plan import JOINT_SEPARATOR
from lasthop.plotting import plot_text, styles
from lasthop.reporting.study import Cell, Study, Table
from lasthop.tables import summary

#: Cells of a study in a page; with more, the last metrics are left out.
MAX_CELLS: Final = 60_000
#: Digits of the numbers that a chart draws.
DIGITS: Final = 6


def shown(study: Study) -> list[str]:
    """The metrics in the order in which a report offers them."""
    assert study.table is not None
    main = [m for m, _ in summary.SHOWN]
    wanted = [*study.metrics, *(c.get("metric", "") for c in study.claims), *main]
    order = dict.fromkeys([*wanted, *study.table.metrics])
    return [m for m in order if m in study.table.metrics]


def document(study: Study) -> dict[str, Any]:
    """The document of a study."""
    table = study.table
    assert table is not None
    names = shown(study)
    cases = len(table.points) * len(table.labels)
    kept = names[: max(1, MAX_CELLS // cases)]
    keys = [_key(table, i, study) for i in range(len(table.keys))]
    places = [{v: n for n, v in enumerate(table.values(i))} for i in range(len(table.keys))]
    return {
        "keys": keys,
        "points": [
            [place[value] for place, value in zip(places, point, strict=True)]
            for point in table.points
        ],
        "labels": list(table.labels),
        "styles": [_style(s) for s in styles.scheme_styles(table.labels)],
        "metrics": [{"key": m, "label": study.labels.get(m, metrics.label(m))} for m in kept],
        "left_out": len(names) - len(kept),
        "first": _first(study, table, kept),
        "cells": {m: [_cell(table.at(p, x, m), m) for p, x in table.cases()] for m in kept},
    }


def _key(table: Table, number: int, study: Study) -> dict[str, Any]:
    """A varied key; of keys that change together, the first one gives the places."""
    given = table.values(number)
    names = [plot_text.value_name(v, study.labels) for v in given]
    renamed = any(v in study.labels for v in given)
    scale = quantities.axis_values([v.split(JOINT_SEPARATOR)[0] for v in given])
    found: dict[str, Any] = {
        "label": plot_text.key_name(table.keys[number], study.labels),
        "values": names,
    }
    if scale is not None and not renamed and len(set(scale[0])) == len(given):
        found["places"], unit = scale
        found["unit"] = plot_text.UNITS.get(unit, unit)
    return found


def _style(style: styles.SchemeStyle) -> list[str]:
    """Colour, marker (a letter of matplotlib) and dashes (SVG) of a scheme."""
    lengths = () if style.dash == "-" else style.dash[1]
    return [style.colour, style.marker, " ".join(f"{2 * x:g}" for x in lengths)]


def _first(study: Study, table: Table, kept: Sequence[str]) -> dict[str, str]:
    """The metric and the x axis that a chart shows first.

    The x axis is "scheme", "key N" or a metric.
    """
    y = kept[0]
    if study.x in table.keys:
        return {"y": y, "x": f"key {table.keys.index(study.x)}"}
    if study.x in kept and study.x != y:
        return {"y": y, "x": study.x}
    several = [i for i in range(len(table.keys)) if len(table.values(i)) > 1]
    if several:
        return {"y": y, "x": f"key {several[0]}"}
    if not study.metrics and chart_spec.DELAY in kept:
        return {"y": y, "x": chart_spec.DELAY}
    return {"y": y, "x": "scheme"}


def _cell(cell: Cell | None, metric: str) -> list[float | int | None] | None:
    if cell is None or cell.mean is None:
        return None
    factor = metrics.factor(metric)
    scaled = [_short(x, factor) for x in (cell.mean, cell.low, cell.high)]
    change = [_short(x) for x in (cell.ratio, cell.ratio_low, cell.ratio_high, cell.p)]
    return [*scaled, *change, cell.runs]


def _short(x: float | None, factor: float = 1.0) -> float | None:
    return None if x is None else float(f"{x * factor:.{DIGITS}g}")


__all__ = ["document", "shown"]
