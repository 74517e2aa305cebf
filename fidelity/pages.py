"""Compare lasthop with the reference results of ns-2.35 and ns-3.44.

Writes docs/fidelity*.md, the record of the quick form (tests/fidelity.json) and the evidence in the
catalogue.

    python -m fidelity [dupack|sack|ns3|noor|wlan|paul|janevski …] [--seeds N]
        [--check | --quick]

Exact: every recovery trace of the fixtures, segment by segment and ACK by ACK, within a
microsecond. Statistical: for each cell d = difference / sqrt(se1^2 + se2^2), se = half-width of the
95 % CI / t. A table agrees if no cell has |d| above 3.5, at most 5 % of the cells have |d| above
2.5 and differ by more than 2 % (ns-3: 3 %), and the mean signed relative difference is within 1 %.
Retransmissions and timeouts agree within 10 % over a table. `--check` exits with 1 if a table does
not agree. `--quick` repeats only a few cells and seeds and prints verdicts of the pages that no
longer hold.
"""

from __future__ import annotations

import argparse
import subprocess

from fidelity import (
    evidence,
    janevski,
    noor,
    ns2,
    ns2_traces,
    ns3,
    paul,
    quick,
    snoop,
    wlan,
)
from fidelity.agreement import Table
from fidelity.references import REFERENCES, ROOT
from fidelity.suite import SEEDS, Suite
from lasthop import __version__
from lasthop.experiments.store import write_whole

SUITES: dict[str, Suite] = {
    "dupack": ns2.DUPACK_SUITE,
    "sack": ns2.SACK_SUITE,
    "ns3": ns3.SUITE,
    "paul": paul.SUITE,
    "janevski": janevski.SUITE,
    "snoop": snoop.SUITE,
    "noor": noor.SUITE,
    "wlan": wlan.SUITE,
}

#: The pages.
DOCS = ROOT / "docs"
#: The kinds of tables that count in the catalogue.
KINDS = ("ns-2 statistics", "ns-2 bursts", "ns-2 outages", "ns-2 gain", "ns-3")
#: Sources on which a page depends.
SOURCES = ("crates", "python", "tools", "tests/reference")


def evidence_of(
    score: dict[str, list[int]], tables: list[Table]
) -> dict[str, list[dict[str, object]]]:
    """The evidence for each scheme."""
    found: dict[str, list[dict[str, object]]] = {}
    for scheme, (agree, cases) in score.items():
        found.setdefault(scheme, []).append({"kind": "ns-2 exact", "cases": cases, "agree": agree})
    for kind in KINDS:
        for scheme in sorted({c.scheme for t in tables if t.kind == kind for c in t.cells}):
            cells = [
                (c, t) for t in tables if t.kind == kind for c in t.cells if c.scheme == scheme
            ]
            agree = sum(c.agrees(t.limit) for c, t in cells)
            found.setdefault(scheme, []).append({"kind": kind, "cases": len(cells), "agree": agree})
    return found


def exact_text(score: dict[str, list[int]]) -> str:
    """The section on exact recovery traces; empty if the page has none."""
    if not score:
        return ""
    return (
        "## Recovery traces, exact\n\nEvery segment that the sender hands to its link and every ACK"
        " that reaches it: number equal, time within a microsecond. `rtotick` is left out: it"
        " depends on the random phase of ns-2's clock.\n\n| scheme | traces | equal |\n| --- | ---:"
        " | ---: |\n" + "".join(f"| {s} | {n} | {a} |\n" for s, (a, n) in score.items())
    )


def git(*words: str) -> str:
    """What git prints in the clone."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def commit() -> str:
    """The last commit of the sources, marked if the working tree differs."""
    generated = ":!python/lasthop/data/evidence.json"
    changed = git("status", "--porcelain", "--", *SOURCES, generated)
    return git("log", "-1", "--format=%h", "--", *SOURCES, generated) + (
        " with changes" if changed else ""
    )


def head(name: str, seeds: int, made_of: str) -> str:
    """The title of a page, and of what it is made."""
    return (
        f"# {SUITES[name].title}\n\nMade by `python -m fidelity {name} --seeds {seeds}`"
        f" with lasthop {__version__}, commit {made_of}; do not edit. The rule of agreement is in"
        " [numbers.md](numbers.md#agreement-with-a-reference).\n\n"
    )


def compare(name: str, seeds: int, write: bool) -> list[str]:
    """Compare one suite, write its page if asked to, and return what does not agree."""
    suite = SUITES[name]
    # A long run measures the sources of its beginning.
    made_of = commit() if write else ""
    score, failures = ns2_traces.exact(suite.exact) if suite.exact else ({}, [])
    tables = suite.tables(seeds)
    failures += [
        f"{t.title}: {text}"
        for t in tables
        if not t.known
        for text, good in t.verdicts()
        if not good
    ]
    if write:
        sections = (
            exact_text(score),
            suite.more(),
            *(line for t in tables for line in t.markdown()),
        )
        text = head(name, seeds, made_of) + "\n".join(sections)
        write_whole(DOCS / f"{suite.page}.md", text.rstrip() + "\n")
        evidence.update(suite.page, evidence_of(score, tables))
        quick.record(suite.page, made_of, tables)
    return failures


def parser() -> argparse.ArgumentParser:
    """The options of `python -m fidelity`."""
    made = argparse.ArgumentParser(
        prog="python -m fidelity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "suites", nargs="*", metavar="suite", help=f"any of {', '.join(SUITES)} (default: all)"
    )
    made.add_argument(
        "--seeds",
        type=int,
        default=SEEDS,
        help=(
            f"minimum number of seeds per cell (default {SEEDS}); at least the runs of the"
            " reference"
        ),
    )
    only = made.add_mutually_exclusive_group()
    only.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a table does not agree"
    )
    only.add_argument(
        "--quick",
        action="store_true",
        help="write nothing; exit with 1 if a verdict of a page no longer holds",
    )
    return made


def main(words: list[str] | None = None) -> int:
    """Compare the suites of the command line; return the exit status."""
    made = parser()
    options = made.parse_args(words)
    if unknown := [name for name in options.suites if name not in SUITES]:
        made.error(f"unknown suite {unknown[0]}; known are {', '.join(SUITES)}")
    if options.seeds < 1:
        made.error("--seeds must be at least 1")
    if not REFERENCES.is_dir():
        made.error(f"{REFERENCES} is missing: the reference tables are only in the repository")
    names = options.suites or list(SUITES)
    if options.quick:
        failures = [
            f"{SUITES[name].page}: {text}"
            for name in names
            for text in quick.check(SUITES[name].page)
        ]
    else:
        failures = [f for name in names for f in compare(name, options.seeds, not options.check)]
    print("\n".join(failures) or "everything agrees")
    return 1 if (options.check or options.quick) and failures else 0
