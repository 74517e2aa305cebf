"""The command `lasthop report`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.errors import InputError
from lasthop.quantities import count


def add_parser(commands: Any) -> None:
    """Add `report` to the command line."""
    report = commands.add_parser(
        "report",
        help="write the results in a folder as one HTML page",
        description=(
            "Write a comparison, a sweep or reproduced figures as one page that opens offline:"
            " tables with 95 % intervals,\ncharts, verdicts of claims, what must change to deploy"
            " each scheme, and the commands that repeat the runs.\nSee docs/report.md."
        ),
        **common.examples(
            "lasthop report results",
            "lasthop report out --out zeng2006.html",
        ),
    )
    report.add_argument(
        "folder",
        metavar="DIR",
        help="folder written by compare --out, sweep --out or reproduce --out",
    )
    report.add_argument(
        "--out", metavar="FILE.html", help="page to write (default: report.html in the folder)"
    )


def report(options: Options, words: list[str]) -> int:
    """`lasthop report`."""
    from lasthop.reporting import page, sources

    out = Path(options.out) if options.out else Path(options.folder) / "report.html"
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must be a file FILE.html, found `{options.out}`")
    results = sources.read(Path(options.folder))
    page.write(results, out, shlex.join(words))
    runs = sum(s.table.runs() for s in results.studies if s.table is not None)
    figures = count(len(results.studies), "figure")
    what = figures if results.kind == "reproduction" else results.kind
    print(f"{what}, {count(runs, 'run')}; written: {out}")
    return 0
