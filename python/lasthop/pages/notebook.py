"""Results as HTML tables, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop.analysis import metrics
from lasthop.experiments.plan import NOTHING_DRAWN
from lasthop.tables import run_text, summary

if TYPE_CHECKING:
    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.figure_result import FigureResult
    from lasthop.experiments.run_result import RunResult
    from lasthop.experiments.sweep_result import SweepResult

MAX_ROWS = 200  # rows of a table; the rest is counted


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>"
        for row in rows[:MAX_ROWS]
    )
    more = len(rows) - MAX_ROWS
    left = f"<p>… and {more} more rows</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{left}"


def run(result: RunResult) -> str:
    """The flows of a run."""
    data = result.data
    several = len(data["flows"]) > 1
    header = [
        "flow",
        *["scheme"] * several,
        "goodput",
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
    return f"<p><b>{html.escape(title)}</b></p>{table(header, rows)}"


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
                    result.deterministic(case.point, case.label),
                ),
            ]
        )
    intervals = "mean ± half-width of the 95 % CI" if plan.random else NOTHING_DRAWN
    title = f"{plan.title}: {intervals}; {summary.GOODPUT}"
    return f"<p><b>{html.escape(title)}</b></p>{table(header, rows)}{claims(result.verdicts)}"


def sweep(result: SweepResult) -> str:
    """Means with the half-width of their 95 % CI, a row per point and scheme; or the summary."""
    if result.interrupted:
        return f"<pre>{html.escape(str(result))}</pre>"
    rows: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    table_rows = result.table.rows(named=True)
    names = list(table_rows[0]) if table_rows else []
    keys = names[1 : names.index("scheme") + 1] if names else ["scheme"]
    shown = [m for m, _ in summary.SHOWN]
    for row in table_rows:
        if row["metric"] in shown:
            at = (str(row["point"]), *(str(row[k]) for k in keys))
            rows.setdefault(at, {})[row["metric"]] = row
    fixed = {(str(point), label) for point, label in result.deterministic}
    header = [*keys, *(metrics.label(m) for m in shown), "runs"]
    body = [
        [
            *at[1:],
            *(_interval(found.get(m), m) for m in shown),
            summary.runs_text(int(next(iter(found.values()))["runs"]), (at[0], at[-1]) in fixed),
        ]
        for at, found in rows.items()
    ]
    title = f"{result.data['scenario']}: mean ± half-width of the 95 % CI"
    return f"<p><b>{html.escape(title)}</b></p>{table(header, body)}"


def _interval(row: Mapping[str, Any] | None, metric: str) -> str:
    """A mean of a table with the half-width of its interval."""
    if row is None:
        return "–"
    low, high = row["ci95_low"], row["ci95_high"]
    found = {"mean": row["mean"], "ci95": None if low is None else (low, high)}
    return summary.interval(found, metrics.factor(metric))


def claims(verdicts: Sequence[Any]) -> str:
    """The verdicts about claims."""
    if not verdicts:
        return ""
    rows = [[v.claim.text, v.display, v.verdict, v.why] for v in verdicts]
    return table(["claim", "measured", "verdict", "why"], rows)


def figure(result: FigureResult) -> str:
    """A reproduced figure: title and claims."""
    title = f"<p><b>{html.escape(f'{result.id}: {result.title}')}</b></p>"
    return title + (claims(result.verdicts) or "<p>no claims</p>")


__all__ = ["claims", "comparison", "figure", "run", "sweep", "table"]
