"""What a figure of a comparison shows: kind, metrics, axes, rows and columns of panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lasthop import quantities
from lasthop.analysis import metrics as known_metrics
from lasthop.errors import InputError
from lasthop.experiments.plan import MAX_UNGROUPED
from lasthop.scenarios.experiment import CHARTS

if TYPE_CHECKING:
    from lasthop.experiments.plan import Plan
    from lasthop.scenarios.experiment import Figure, Plot, Reference

#: Kind of a figure -> what it shows.
KINDS: Final[dict[str, str]] = {
    "line": "a metric against a varied key, with 95 % CI",
    "bars": "means as bars with 95 % CI, by varied key or by scheme",
    "scatter": "one metric against another, one point per scheme",
    "box": "quartiles over the runs, by varied key or by scheme",
    "cdf": "share of the runs up to each value",
    "heatmap": "means as colours, over two varied keys or over a key and the schemes",
}
SCHEME: Final = "scheme"  # the schemes as an axis of a heat map
DELAY: Final = "one_way_delay_s_p95"  # x axis of a scatter plot
GOODPUT: Final = "goodput_bps"
MAX_PANELS: Final = 24  # of one metric; the values of a further key are not drawn


@dataclass(frozen=True)
class Chart:
    """A figure of a comparison; empty fields are chosen by `resolve`."""

    kind: str = ""
    metrics: tuple[str, ...] = ()
    #: A varied key; for a scatter plot a metric.
    x: str = ""
    #: For a heat map: a varied key, or `SCHEME`.
    y: str = ""
    #: Varied keys of the rows and columns of panels.
    rows: str = ""
    columns: str = ""
    #: Label of the x axis; if empty, the name of the key with its unit.
    x_label: str = ""
    #: Replacements for keys, values and metrics in titles and axis labels.
    labels: Mapping[str, str] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    #: Labels of the schemes to draw; all if empty.
    schemes: tuple[str, ...] = ()
    #: Keys that have neither axis nor panels, with the one value that is drawn. Set by `resolve`.
    held: Mapping[str, str] = field(default_factory=dict)

    def shown(self, plan: Plan) -> list[str]:
        """The labels of the schemes that are drawn."""
        return [x for x in plan.labels if not self.schemes or x in self.schemes]


def of_words(
    kind: str | None,
    metrics: Sequence[str],
    x: str | None,
    *,
    y: str | None = None,
    rows: str | None = None,
    columns: str | None = None,
) -> Chart:
    """The chart of the options of a command."""
    return Chart(kind or "", tuple(metrics), x or "", y or "", rows or "", columns or "")


def resolve(chart: Chart, plan: Plan, names: Sequence[str], where: str = "--") -> Chart:
    """Fill in the empty fields of a chart and check the others against a plan.

    `names` are the metrics of the comparison. `where` precedes the name of a field in messages,
    such as "--" or "[plot] ". Raises `InputError` with the list of allowed words.
    """
    _one_of(chart.kind, list(KINDS), f"{where}{_option('kind', where)}", "kind")
    keys = list(plan.vary)
    share = known_metrics.CANDIDATES_SHARE
    option = f"{where}{_option('metric', where)}"
    metrics = tuple(_metric(m, names, option) for m in chart.metrics)
    # Schemes that compete with others are told apart by their share, not by the total.
    competes = "competitor" in plan.roles and share in names
    if not metrics and competes and chart.kind != "scatter":
        metrics = (share,)
    kind = chart.kind or ("line" if keys else "bars" if metrics else "scatter")
    metrics = metrics or (_metric(GOODPUT, names, option),)
    for label in chart.schemes:
        _one_of(label, plan.labels, f"{where}schemes", "scheme")
    chosen = _axes(replace(chart, kind=kind, metrics=metrics), keys, names, where, plan)
    return _facets(chosen, plan, where)


def _option(name: str, where: str) -> str:
    """The name of a field on the command line, or in a file."""
    in_file = {"kind": "kind", "metric": "show"}
    return in_file[name] if where.startswith("[") else {"kind": "plot"}.get(name, name)


def _metric(name: str, names: Sequence[str], option: str) -> str:
    """The metric of `names` that a name or a short name means; raises `InputError`."""
    metric = known_metrics.SHORT.get(name, name)
    if metric in names:
        return metric
    hint = quantities.did_you_mean(name, [*known_metrics.SHORT, *names])
    if hint:
        raise InputError(f"{option}: no metric {name!r}{hint}")
    parts = ("groups.", "roles.", "agents.")
    allowed = [n for n in names if not n.startswith(parts)] or list(known_metrics.METRICS)
    others = sorted({n.split(".")[0] for n in names if n.startswith(parts)})
    also = f", and those of {' and '.join(others)} in runs.csv" if others else ""
    raise InputError(f"{option}: no metric {name!r}; there are {', '.join(allowed)}{also}")


def _one_of(word: str, allowed: Sequence[str], option: str, what: str) -> None:
    if word and word not in allowed:
        hint = quantities.did_you_mean(word, list(allowed))
        listed = f"there are {', '.join(allowed)}" if allowed else f"there is no {what}"
        raise InputError(f"{option}: no {what} {word!r}{hint}; {listed}")


def _key(word: str, keys: Sequence[str], option: str, extra: Sequence[str] = ()) -> str:
    """The varied key that `word` names: the whole key, or its end if that is unique."""
    ends = [k for k in keys if k.endswith(f".{word}")]
    found = ends[0] if word not in keys and len(ends) == 1 else word
    _one_of(found, [*keys, *extra], option, "varied key")
    return found


def _axes(chart: Chart, keys: Sequence[str], names: Sequence[str], where: str, plan: Plan) -> Chart:
    """Choose and check x and y."""
    kind, many = chart.kind, len(chart.shown(plan)) > MAX_UNGROUPED
    if chart.y and kind != "heatmap":
        raise InputError(f"{where}y: only kind heatmap has a second key; use rows or columns")
    if kind == "scatter":
        return replace(chart, x=_metric(chart.x or DELAY, names, f"{where}x"))
    if kind == "cdf":
        if chart.x:
            raise InputError(f"{where}x: kind cdf has the metric as x axis; use rows or columns")
        return chart
    if kind in ("line", "heatmap") and not keys:
        raise InputError(f"kind {kind} needs a varied key: --vary KEY=V1,V2,…")
    if kind in ("bars", "box", "cdf") and many and keys:
        raise InputError(
            f"kind {kind} shows at most {MAX_UNGROUPED} schemes if a key is varied, found"
            f" {len(chart.shown(plan))}; use line, scatter or heatmap, or fewer schemes"
        )
    x = _key(chart.x, keys, f"{where}x") or next(iter(keys), "")
    if kind != "heatmap":
        return replace(chart, x=x)
    y = _key(chart.y, keys, f"{where}y", [SCHEME])
    others = [k for k in keys if k != x]
    y = y or (SCHEME if many or not others else others[0])
    if y == x:
        raise InputError(f"{where}y: {x} is the x axis already")
    return replace(chart, x=x, y=y)


def _facets(chart: Chart, plan: Plan, where: str) -> Chart:
    """Choose and check the keys of rows and columns; hold the rest at their first value."""
    keys = list(plan.vary)
    rows, columns = (
        _key(given, keys, f"{where}{name}")
        for given, name in ((chart.rows, "rows"), (chart.columns, "columns"))
    )
    for name, key in (("rows", rows), ("columns", columns)):
        if key and key in (chart.x, chart.y):
            raise InputError(f"{where}{name}: {key} is an axis already")
    if rows and rows == columns:
        raise InputError(f"{where}columns: {columns} has the rows already")
    free = [k for k in keys if k not in (chart.x, chart.y, rows, columns)]
    by_scheme = chart.kind == "heatmap" and chart.y != SCHEME
    if by_scheme and columns:
        raise InputError(f"{where}columns: the columns of this heat map are the schemes; use rows")
    if by_scheme:
        columns = SCHEME
    if not columns and free:
        columns = free.pop()
    if not rows and free:
        across = len(chart.shown(plan)) if columns == SCHEME else len(plan.vary[columns])
        if across * len(plan.vary[free[-1]]) <= MAX_PANELS:
            rows = free.pop()
    held = {k: plan.vary[k][0] for k in free}
    return replace(chart, rows=rows, columns=columns, held=held)


def of_plot(spec: Plot | None) -> Chart:
    """The chart of `[plot]`; the default chart without one."""
    if spec is None or spec.kind not in CHARTS:
        return Chart()
    return Chart(
        CHARTS[spec.kind],
        spec.show,
        spec.x,
        spec.y,
        spec.rows,
        spec.columns,
        spec.x_label,
        spec.labels,
        spec.references,
        spec.schemes,
    )


def draws_chart(figure: Figure) -> bool:
    """True if the figure is a chart of a comparison, and not of series or vectors."""
    return figure.plot is None or figure.plot.kind in CHARTS


__all__ = [
    "DELAY",
    "GOODPUT",
    "KINDS",
    "MAX_PANELS",
    "SCHEME",
    "Chart",
    "of_words",
    "resolve",
]
