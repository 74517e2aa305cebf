"""Pages of reproduced figures: each claim with the measured value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lasthop import pages
from lasthop.analysis import claim_text, metrics
from lasthop.experiments.figure_result import FigureResult
from lasthop.experiments.store import write_whole
from lasthop.quantities import count
from lasthop.tables import summary
from lasthop.tables.verdict_text import VERDICT_TEXT, claim_lines


def tally(figures: Sequence[FigureResult]) -> str:
    """Count the verdicts: "1 figure, 12 claims: 9 hold, 2 differ, 1 undecided"."""
    counts = Counter(v.verdict for f in figures for v in f.verdicts)
    total = sum(counts.values())
    return (
        f"{count(len(figures), 'figure')}, {count(total, 'claim')}: {counts['holds']} hold,"
        f" {counts['differs']}"
        f" differ, {counts['undecided']} undecided"
    )


def text(result: FigureResult) -> str:
    """Format a figure for the terminal."""
    runs = "test vectors" if result.answers else count(len(result.comparison.rows), "run")
    lines = [f"\n{result.id}: {result.title} ({runs})"]
    for v in result.verdicts:
        lines += claim_lines(v)
    if not result.verdicts:
        lines.append("  (no claims)")
    return "\n".join(lines)


def _claims(result: FigureResult) -> list[str]:
    if not result.verdicts:
        if not result.is_shipped:
            return ["The file has no claims."]
        return ["The paper makes no measurable claim about this figure."]
    lines = [
        "| claim | paper | measured (95 % interval) | verdict | why |",
        "| --- | --- | --- | --- | --- |",
    ]
    for v in result.verdicts:
        cells = (
            v.claim.text,
            claim_text.paper(v.claim) or "–",
            v.display,
            VERDICT_TEXT[v.verdict],
            v.why,
        )
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return lines


def _table(result: FigureResult) -> list[str]:
    """Format the means of the main metrics."""
    comparison = result.comparison
    if result.answers:
        return []
    shown = [
        "goodput_bps",
        "one_way_delay_s_p95",
        "cwnd_reductions",
        "spurious_fast_retransmits",
        "timeouts",
    ]
    titles = [metrics.label(m) for m in shown]
    lines = [
        "| point | scheme | " + " | ".join(titles) + " | runs |",
        "| --- | --- | " + "--- | " * (len(shown) + 1),
    ]
    for case in comparison.plan.cases:
        cells = []
        for metric in shown:
            s = comparison.statistics(case.point, case.label, metric)
            cells.append(summary.interval(s, metrics.factor(metric)))
        at = ", ".join(f"{k} = {v}" for k, v in case.set.items()) or "–"
        lines.append(
            "| "
            + " | ".join(
                [
                    at,
                    case.label,
                    *cells,
                    summary.runs_text(
                        len(comparison.values(case.point, case.label, shown[0])),
                        comparison.single_run(case.point, case.label),
                    ),
                ]
            )
            + " |"
        )
    return lines


def _pictures(result: FigureResult) -> list[str]:
    """The pictures that a page can show, the best one first."""
    return [f for end in (".svg", ".png") for f in result.files if f.endswith(end)]


def page(result: FigureResult) -> str:
    """Format the page of a figure, in Markdown."""
    comparison = result.comparison
    lines = [f"# {result.id}: {result.title}", ""]
    lines += [line for w in comparison.plan.warnings for line in (f"**Warning:** {w}.", "")]
    if result.modified:
        lines += ["**This figure was modified; its claims are not judged.**", ""]
    if result.figure.plot is not None and result.figure.plot.about:
        lines += [result.figure.plot.about, ""]
    picture = _pictures(result)[:1]
    if picture:
        lines += [f"![{result.title}]({Path(picture[0]).name})", ""]
    lines += ["## Claims", "", *_claims(result), ""]
    numbers = _table(result)
    if numbers:
        about = f"Mean ± half-width of the 95 % CI; {summary.GOODPUT}."
        lines += ["## Numbers", "", about, "", *numbers, ""]
    slots = dict.fromkeys(
        f"- {c.label}: {line}"
        for c in comparison.plan.cases
        for line in dict.fromkeys(c.scenario.slots)
    )
    lines += [
        "## Configuration",
        "",
        *slots,
        *(f"- {line}" for line in summary.assumptions(comparison.plan)),
        "",
    ]
    if len(comparison.plan.seeds) > 1:
        lines += [f"All schemes use seeds 1 to {len(comparison.plan.seeds)}.", ""]
    lines += [f"lasthop {comparison.version}", ""]
    return "\n".join(lines)


def index(figures: Sequence[FigureResult], out: Path) -> list[Path]:
    """Write the index of all figures with their claims as Markdown and as one HTML page."""
    markdown = ["# Reproduced figures", "", tally(figures) + ".", ""]
    markdown += [
        "| figure | claim | paper | measured | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    parts = []
    for f in figures:
        link = f"[{f.id}]({f.id}.md)"
        for v in f.verdicts:
            markdown.append(
                f"| {link} | {v.claim.text} | {claim_text.paper(v.claim) or '–'} | {v.display} |"
                f" {VERDICT_TEXT[v.verdict]} |"
            )
        if not f.verdicts:
            markdown.append(f"| {link} | – | – | – | – |")
        parts.append(_section(f))
    files = [out / "index.md", out / "index.html"]
    write_whole(files[0], "\n".join(markdown) + "\n")
    write_whole(
        files[1], pages.fragment("figures.html", tally=tally(figures), figures=parts) + "\n"
    )
    return files


def _section(result: FigureResult) -> dict[str, Any]:
    """What the page of all figures shows of one."""
    return {
        "id": result.id,
        "title": result.title,
        "about": result.figure.plot.about if result.figure.plot is not None else "",
        "picture": next(iter(_pictures(result)), ""),
        "claims": [
            {
                "text": v.claim.text,
                "paper": claim_text.paper(v.claim) or "–",
                "display": v.display,
                "verdict": v.verdict,
                "why": v.why,
            }
            for v in result.verdicts
        ],
    }
