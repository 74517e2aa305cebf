"""Results as HTML tables, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lasthop import pages
from lasthop.analysis import metrics
from lasthop.tables import run_text, summary

if TYPE_CHECKING:
    from lasthop.analysis.verdict import Verdict
    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.figure_result import FigureResult
    from lasthop.experiments.run_result import RunResult
    from lasthop.experiments.sweep_result import SweepResult

MAX_ROWS = 200  # rows of a table; the rest is counted


Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def _shown(title: str, *tables: Table, note: str = "") -> str:
    """A heading, tables with header and rows, and a note."""
    found = [(header, rows[:MAX_ROWS], max(0, len(rows) - MAX_ROWS)) for header, rows in tables]
    return pages.fragment("notebook.html", title=title, tables=found, note=note)


def run(result: RunResult) -> str:
    """The flows of a run."""
    data = result.data
    several = len(data["flows"]) > 1
    header = [
        "flow",
        *["scheme"] * several,
        "goodput while active",
        "retransmissions",
        "timeouts",
        "RTT p95",
        "one-way delay p95",
    ]
    rows = [
        [
            str(f["id"]),
            *[str(f["scheme"])] * several,
            run_text.rate(f["goodput_bps"]),
            str(f["retransmissions"]["total"]),
            str(f["timeouts"]["total"]),
            run_text.time(f["rtt_s"]["p95"]),
            run_text.time(f["one_way_delay_s"]["p95"]),
        ]
        for f in data["flows"]
    ]
    title = (
        f"{data['scenario']}: {data['scheme']}, seed {data['seed']},"
        f" {run_text.time(data['duration_s'])}"
    )
    return _shown(title, (header, rows))


def comparison(result: Comparison) -> str:
    """Means with the half-width of their 95 % CI, a row per point and scheme."""
    plan = result.plan
    shown = [m for m, _ in summary.SHOWN if m in result.metrics]
    header = [*plan.vary, "scheme", *(metrics.label(m) for m in shown), "goodput change", "runs"]
    rows = []
    for case in plan.cases:
        stats: Mapping[str, Mapping[str, Any]] = {
            m: result.statistics(case.point, case.label, m) for m in shown
        }
        change = ""
        if case.label != plan.labels[0] and "goodput_bps" in stats:
            change = summary.percent(stats["goodput_bps"]["ratio_to_first"])
        rows.append(
            [
                *case.set.values(),
                case.label,
                *(summary.interval(stats[m], metrics.factor(m)) for m in shown),
                change,
                summary.runs_text(
                    len(result.values(case.point, case.label, "goodput_bps")),
                    result.single_run(case.point, case.label),
                ),
            ]
        )
    intervals = "mean ± half-width of the 95 % CI" if plan.random else plan.single_run
    title = f"{plan.title}: {intervals}; {summary.GOODPUT}"
    return _shown(title, (header, rows), *_claims(result.verdicts))


def sweep(result: SweepResult) -> str:
    """Means with the half-width of their 95 % CI, a row per point and scheme; or the summary."""
    if result.interrupted:
        return str(Markup("<pre>{}</pre>").format(str(result)))
    rows: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    table_rows = result.table.rows(named=True)
    names = list(table_rows[0]) if table_rows else []
    keys = names[1 : names.index("scheme") + 1] if names else ["scheme"]
    shown = [m for m, _ in summary.SHOWN]
    for row in table_rows:
        if row["metric"] in shown:
            at = (str(row["point"]), *(str(row[k]) for k in keys))
            rows.setdefault(at, {})[row["metric"]] = row
    single_runs = {(str(point), label): why for (point, label), why in result.single_runs.items()}
    header = [*keys, *(metrics.label(m) for m in shown), "runs"]
    body = [
        [
            *at[1:],
            *(_interval(found.get(m), m) for m in shown),
            summary.runs_text(
                int(next(iter(found.values()))["runs"]), single_runs.get((at[0], at[-1]))
            ),
        ]
        for at, found in rows.items()
    ]
    title = f"{result.data['scenario']}: mean ± half-width of the 95 % CI; {summary.GOODPUT}"
    return _shown(title, (header, body))


def _interval(row: Mapping[str, Any] | None, metric: str) -> str:
    """A mean of a table with the half-width of its interval."""
    if row is None:
        return "–"
    low, high = row["ci95_low"], row["ci95_high"]
    found = {"mean": row["mean"], "ci95": None if low is None else (low, high)}
    return summary.interval(found, metrics.factor(metric))


def _claims(verdicts: Sequence[Verdict]) -> list[Table]:
    """The table of verdicts, if there are claims."""
    rows = [[v.claim.text, v.display, v.verdict, v.why] for v in verdicts]
    return [(["claim", "measured", "verdict", "why"], rows)] if rows else []


def figure(result: FigureResult) -> str:
    """A reproduced figure: title and claims."""
    found = _claims(result.verdicts)
    return _shown(f"{result.id}: {result.title}", *found, note="" if found else "no claims")


__all__ = ["comparison", "figure", "run", "sweep"]
