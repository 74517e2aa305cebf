"""The page of `lasthop report`: numbers, charts, claims, deployment and commands."""

from __future__ import annotations

import base64
import html
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from lasthop import pages
from lasthop.analysis import metrics
from lasthop.errors import InputError
from lasthop.experiments.store import write_whole
from lasthop.plotting import plot_text
from lasthop.reporting import bill, chart_data
from lasthop.reporting.sources import Results
from lasthop.reporting.study import Study, Table
from lasthop.tables import summary

#: Rows of a table of numbers; further rows are counted, and are in the file.
MAX_ROWS: Final = 400
#: Metrics with a column in a table of numbers.
COLUMNS: Final = 4
#: Bytes of a file that are read to find out whether it is a page of lasthop.
HEAD_BYTES: Final = 200_000
VERDICTS: Final = {"holds": "✓ holds", "differs": "✗ differs", "undecided": "? undecided"}
_TYPES: Final = {".svg": "image/svg+xml", ".png": "image/png"}
_TITLE: Final = re.compile(r"<title>(.*?)</title>", re.DOTALL)


def write(results: Results, out: Path, command: str) -> None:
    """Write the report; raises `InputError` if `out` is another kind of file."""
    if out.is_file() and out.stat().st_size and page_kind(out)[0] != "report":
        raise InputError(f"{out} exists and is no report of lasthop; give another --out")
    content = render(results, out.parent, command).encode(errors="replace")
    write_whole(out, content)


def page_kind(path: Path) -> tuple[str, str]:
    """Kind of a page of lasthop ("inspect", "report") and its title; empty if it is none."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES).decode(errors="replace")
    except OSError:
        return "", ""
    kind = re.search(r'<meta name="generator" content="lasthop (\w+)">', head)
    title = _TITLE.search(head)
    if kind is None or title is None:
        return "", ""
    return kind[1], html.unescape(title[1])


def inspected(folder: Path, start: Path) -> list[dict[str, str]]:
    """The pages of `lasthop inspect` in a folder: title, and link from the folder `start`."""
    found = []
    for path in sorted([*folder.glob("*.html"), *folder.glob("*/*.html")]):
        kind, title = page_kind(path)
        if kind == "inspect":
            link = os.path.relpath(path.resolve(), start.resolve())
            found.append({"title": title, "link": quote(link, errors="replace"), "file": path.name})
    return found


def render(results: Results, start: Path, command: str) -> str:
    """The report as HTML; links are relative to the folder `start`."""
    studies = results.studies
    charted = [s for s in studies if s.table is not None]
    title = f"{results.folder.resolve().name}: {results.kind}"
    if len(studies) == 1:
        title = studies[0].title
    return pages.render(
        "report.html",
        title=title,
        scripts=["report_axes.js", "report.js"],
        styles=["report.css"],
        data=[chart_data.document(s) for s in charted],
        values={
            "results": results,
            "goodput_time": summary.GOODPUT,
            "version": ", ".join(dict.fromkeys(s.version for s in studies)),
            "studies": [
                _section(s, i, charted.index(s) if s in charted else None)
                for i, s in enumerate(studies)
            ],
            "tally_of_all": _tally([c for s in studies for c in s.claims]),
            "places": list(bill.PLACES.values()),
            "bill": bill.rows(studies),
            "commands": list(dict.fromkeys(s.command for s in studies if s.command)),
            "report_command": command,
            "repeat": _repeat(results, studies[0]),
            "inspected": inspected(results.folder, start),
        },
    )


def _repeat(results: Results, study: Study) -> str:
    """The command that shows one run in detail; only a comparison has its scenario."""
    if results.kind != "comparison" or not study.schemes:
        return ""
    folder, scheme = shlex.quote(str(results.folder)), shlex.quote(study.schemes[0].name)
    return f"lasthop inspect {folder} --scheme {scheme} --seed 1 --out run.html"


def _tally(claims: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counts = Counter(str(c["verdict"]) for c in claims)
    return {word: counts[word] for word in VERDICTS} if claims else {}


def _section(study: Study, number: int, chart: int | None) -> dict[str, Any]:
    """What the template shows of a study."""
    return {
        "number": number,
        "study": study,
        "chart": chart,
        "picture": _picture(study),
        "claims": [_claim(c) for c in study.claims],
        "tally": _tally(study.claims),
        "table": None if study.table is None else _table(study, study.table),
        "slots": [(s.label, slot) for s in study.schemes for slot in s.slots],
    }


def _picture(study: Study) -> str:
    """The figure as a data URI, if the charts of the page cannot show it."""
    if study.picture is None or not study.id:
        return ""
    content = base64.b64encode(study.picture.read_bytes()).decode("ascii")
    return f"data:{_TYPES[study.picture.suffix]};base64,{content}"


def _claim(found: Mapping[str, Any]) -> dict[str, str]:
    return {
        "text": str(found["text"]),
        "paper": str(found.get("paper_text") or "–"),
        "measured": str(found["display"]),
        "verdict": str(found["verdict"]),
        "shown": VERDICTS.get(str(found["verdict"]), str(found["verdict"])),
        "why": str(found["why"]),
    }


def _table(study: Study, table: Table) -> dict[str, Any]:
    """The table of the main metrics: header, rows, and number of rows left out."""
    names = chart_data.shown(study)[:COLUMNS]
    main = names[0]
    several = len(table.labels) > 1
    label = study.labels.get(main, metrics.label(main)).split(" (")[0]
    short = [plot_text.key_name(key, study.labels) for key in table.keys]
    keys = short if len(set(short)) == len(short) else table.keys
    head = [*keys, "scheme", *(study.labels.get(m, metrics.label(m)) for m in names), "n"]
    head += [f"change of {label}", "p (Holm)"] if several else []
    rows = list(_rows(study, table, names, several))
    return {
        "head": head,
        "texts": len(table.keys) + 1,
        "rows": rows[:MAX_ROWS],
        "more": max(len(rows) - MAX_ROWS, 0),
        "first": table.labels[0],
        "several": several,
        "runs": table.runs(),
    }


def _rows(study: Study, table: Table, names: Sequence[str], several: bool) -> Iterator[list[str]]:
    for point, label in table.cases():
        cells = [table.at(point, label, m) for m in names]
        if not any(cells):
            continue
        row = [*table.points[point], label]
        row += [
            summary.interval(c.interval, metrics.factor(m)) if c else "–"
            for c, m in zip(cells, names, strict=True)
        ]
        main = cells[0]
        runs = max(c.runs for c in cells if c)
        row.append(summary.runs_text(runs, study.single_runs.get((point, label))))
        if several and (label == table.labels[0] or main is None):
            row += ["", ""]
        elif several and main is not None:
            row += [summary.percent(main.change), summary.p_text(main.p)]
        yield row


__all__ = ["inspected", "page_kind", "render", "write"]
