"""Results as HTML tables, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop.analysis import metrics, summary

if TYPE_CHECKING:
    from lasthop.api import RunResult
    from lasthop.experiments.comparison import Comparison
    from lasthop.reproduction.figures import FigureResult

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
    header = ["flow", "goodput", "retransmissions", "timeouts", "RTT p95", "one-way delay p95"]
    rows = [
        [
            str(f["id"]),
            summary.rate(f["goodput_bps"]),
            str(f["retransmissions"]["total"]),
            str(f["timeouts"]["total"]),
            summary.time(f["rtt_s"]["p95"]),
            summary.time(f["one_way_delay_s"]["p95"]),
        ]
        for f in data["flows"]
    ]
    title = (
        f"{data['scenario']}: {data['scheme']}, seed {data['seed']},"
        f" {summary.time(data['duration_s'])}"
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
                str(len(result.values(case.point, case.label, "goodput_bps"))),
            ]
        )
    title = f"{plan.title}: mean ± half-width of the 95 % CI"
    return f"<p><b>{html.escape(title)}</b></p>{table(header, rows)}{claims(result.verdicts)}"


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


__all__ = ["claims", "comparison", "figure", "run", "table"]
