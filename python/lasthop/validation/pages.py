"""Compare lasthop with the reference results of ns-2.35 and ns-3.44.

Writes docs/fidelity*.md, the record of the quick form (tests/fidelity.json) and the evidence in the
catalogue.

    python -m lasthop.validation [dupack|sack|ns3|noor|wlan|paul|janevski …] [--seeds N]
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
import sys
from collections.abc import Callable
from dataclasses import dataclass

from lasthop import __version__
from lasthop.reproduction import evidence
from lasthop.validation import janevski, noor, ns2, ns3, paul, quick, snoop, wlan
from lasthop.validation.agreement import ROOT, SEEDS, Table

W100 = "One endless flow for 200 s; window 100, queue 150, so that only random loss matters."
W10000 = "The same with window 10000 and a queue of 50: both kinds of loss."
VEGAS = (
    "ns-2's Vegas doubles the timeout at every fast retransmit (in trace rtx1 the back-off goes to"
    " 2 at 0.679 s and to 4 at 0.905 s, both fast retransmits), so that timeouts, which many losses"
    " bring, last longer; here only a timeout backs off (RFC 6298, section 5). It has no limited"
    " transmit, takes one more segment off its send limit for the SYN, and does not take a segment"
    " that was sent again for overdue unless its own timer says so for both ACKs that follow"
)
FACK = (
    "ns-2's Fack stops sending when SACK tells that a retransmission was lost, until the timer"
    " fires (trace rtx1: nothing between 0.748 s and 1.748 s), which costs a second or more for"
    " every segment lost twice: 5 and 9 % of the retransmissions. It sets cwnd to one segment when"
    " recovery begins and opens it again with each ACK (rtx1: 1, 2, 3 … 7 between 0.555 and 0.605"
    " s), and each ACK, duplicates too, restarts its timer. None of this is in the paper, which"
    " halves the window and leaves lost retransmissions open; here they are left to the timer too,"
    " but sending goes on until it fires"
)


def bulk_tables(seeds: int, variants: tuple[str, ...]) -> list[Table]:
    return [
        ns2.bulk("bulk_w100.csv", W100, 100, 149, seeds, variants),
        ns2.bulk("bulk_w10000_q50.csv", W10000, 10_000, 49, seeds, variants),
        ns2.switches("bulk_reno_variants.csv", seeds, variants),
    ]


def dupack_tables(seeds: int) -> list[Table]:
    return [*bulk_tables(seeds, ("Tahoe", "Reno", "Newreno")), *ns2.zeng(seeds)]


def sack_tables(seeds: int) -> list[Table]:
    return [
        *bulk_tables(seeds, ("Sack1",)),
        *ns2.alone("bulk_w100.csv", "Vegas", VEGAS, 100, 149, seeds),
        *ns2.alone("bulk_w100.csv", "Fack", FACK, 100, 149, seeds),
    ]


def ns3_tables(seeds: int) -> list[Table]:
    return [*ns3.tables(seeds), ns2.hints(seeds)]


def traces_apart() -> str:
    head = (
        "## Recovery traces of Vegas and Fack\n\nns-2's own versions of these, not matched on"
        f" purpose. Vegas: {VEGAS}. Fack: {FACK}.\n\n"
    )
    return head + "\n".join(ns2.apart(("Vegas", "Fack")))


@dataclass(frozen=True)
class Part:
    """A page of docs/fidelity*.md."""

    page: str
    title: str
    tables: Callable[[int], list[Table]]
    #: Variants of the exact comparison.
    exact: tuple[str, ...] = ()
    more: Callable[[], str] = str


PARTS = {
    "dupack": Part(
        "fidelity", "How lasthop compares with ns-2.35", dupack_tables, ("Tahoe", "Reno", "Newreno")
    ),
    "sack": Part(
        "fidelity-sack",
        "SACK, Vegas and FACK beside ns-2.35",
        sack_tables,
        ("Sack1",),
        traces_apart,
    ),
    "ns3": Part(
        "fidelity-ns3", "Senders beside ns-3.44, and beside Linux' modules in ns-2", ns3_tables
    ),
    "paul": Part("fidelity-paul", "Losses in bursts beside ns-2.35", paul.tables),
    "janevski": Part(
        "fidelity-janevski", "The path of janevski2009 beside ns-2.35", janevski.tables
    ),
    "snoop": Part("fidelity-snoop", "Snoop beside ns-2.35", snoop.tables),
    "noor": Part("fidelity-noor", "noor's LAN: Reno beside ns-2.35", noor.tables),
    "wlan": Part(
        "fidelity-wlan", "802.11b beside ns-2.35, ns-3.44 and Bianchi's model", wlan.tables
    ),
}


def evidence_of(
    score: dict[str, list[int]], tables: list[Table]
) -> dict[str, list[dict[str, object]]]:
    """The evidence for each scheme."""
    found: dict[str, list[dict[str, object]]] = {}
    for scheme, (agree, cases) in score.items():
        found.setdefault(scheme, []).append({"kind": "ns-2 exact", "cases": cases, "agree": agree})
    for kind in ("ns-2 statistics", "ns-2 bursts", "ns-2 outages", "ns-2 gain", "ns-3"):
        for scheme in sorted({c.scheme for t in tables if t.kind == kind for c in t.cells}):
            cells = [
                (c, t) for t in tables if t.kind == kind for c in t.cells if c.scheme == scheme
            ]
            agree = sum(c.agrees(t.limit) for c, t in cells)
            found.setdefault(scheme, []).append({"kind": kind, "cases": len(cells), "agree": agree})
    return found


def exact_text(score: dict[str, list[int]]) -> str:
    if not score:
        return ""
    return (
        "## Recovery traces, exact\n\nEvery segment that the sender hands to its link and every ACK"
        " that reaches it: number equal, time within a microsecond. `rtotick` is left out: it"
        " depends on the random phase of ns-2's clock.\n\n| scheme | traces | equal |\n| --- | ---:"
        " | ---: |\n" + "".join(f"| {s} | {n} | {a} |\n" for s, (a, n) in score.items())
    )


#: Sources on which a page depends.
SOURCES = ("crates", "python", "tools", "tests/reference")


def git(*words: str) -> str:
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


def do(name: str, seeds: int, write: bool) -> list[str]:
    """Compare one part; return what does not agree."""
    part = PARTS[name]
    # A long run measures the sources of its beginning.
    made_of = commit()
    score, failures = ns2.exact(part.exact) if part.exact else ({}, [])
    tables = part.tables(seeds)
    failures += [
        f"{t.title}: {text}"
        for t in tables
        if not t.known
        for text, good in t.verdicts()
        if not good
    ]
    if write:
        head = (
            f"# {part.title}\n\nMade by `python -m lasthop.validation {name} --seeds {seeds}` with lasthop"
            f" {__version__}, commit {made_of}; do not edit. The rule of agreement is in"
            " [numbers.md](numbers.md#agreement-with-a-reference).\n\n"
        )
        text = (
            head
            + exact_text(score)
            + "\n"
            + part.more()
            + "\n"
            + "\n".join(line for t in tables for line in t.markdown())
        )
        (ROOT / f"docs/{part.page}.md").write_text(text.rstrip() + "\n")
        evidence.update(evidence_of(score, tables))
        quick.record(part.page, made_of, tables)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)} (default: all)")
    parser.add_argument(
        "--seeds",
        type=int,
        default=SEEDS,
        help=(
            f"minimum number of seeds per cell (default {SEEDS}); at least the runs of the"
            " reference"
        ),
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a table does not agree"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="write nothing; exit with 1 if a verdict of a page no longer holds",
    )
    options = parser.parse_args()
    names = options.parts or list(PARTS)
    if options.quick:
        failures = [
            f"{PARTS[name].page}: {text}"
            for name in names
            for text in quick.check(PARTS[name].page)
        ]
    else:
        failures = [f for name in names for f in do(name, options.seeds, not options.check)]
    print("\n".join(failures) or "everything agrees")
    return 1 if (options.check or options.quick) and failures else 0


if __name__ == "__main__":
    sys.exit(main())
