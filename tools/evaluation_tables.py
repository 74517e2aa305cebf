"""The tables of docs/evaluation.md, from the suite of `lasthop evaluate`: `make docs`.

With `--cards`, docs/evaluation-cards.md is written as well, from the cards of all schemes of the
catalogue: an hour of CPU time, with `--quick` ten minutes. With `--missing`, only of those that
have no row yet, such as after an interruption: the page is written after each few schemes.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import marked_pages

from lasthop import catalogue
from lasthop.evaluation import suite, text, trial
from lasthop.evaluation.card import Card
from lasthop.evaluation.suite import CellFile, Number, Suite
from lasthop.experiments.store import write_whole

DOCS = Path(__file__).parents[1] / "docs"
FILE = DOCS / "evaluation.md"
CARDS = DOCS / "evaluation-cards.md"
BLOCK = "tables of the suite"

#: Sections of RFC 9743 that evaluate a congestion control: title, and the verb that the RFC uses.
RFC9743 = {
    "5.1.1": ("Protection Against Congestion Collapse", "should"),
    "5.1.2": ("Protection Against Bufferbloat", "should"),
    "5.1.3": ("Protection Against High Packet Loss", "should"),
    "5.1.4": ("Fairness within the Proposed Congestion Control Algorithm", "should"),
    "5.1.5": ("Short Flows", "MUST"),
    "5.2": ("Mixed Algorithm Behavior: starvation, back-off without feedback", "MUST"),
    "5.2.1": ("Existing General-Purpose Congestion Control", "MUST"),
    "5.2.2": ("Real-Time Congestion Control", "SHOULD"),
    "5.2.3": ("Short and Long Flows", "MUST"),
    "5.3.1": ("Differences with Congestion Control Principles", "MUST"),
    "5.3.2": ("Incremental Deployment", "MUST"),
    "6.1": ("Paths with Tail-drop Queues", "MUST"),
    "6.2": ("Tunnel Behavior", "MUST"),
    "6.3": ("Wired Paths", ""),
    "6.4": ("Wireless Paths", "should"),
    "7.1": ("Active Queue Management (AQM)", "SHOULD"),
    "7.2": ("Operation with the Envelope Set by Network Circuit Breakers", "ought to"),
    "7.3": ("Paths with Varying Delay", "SHOULD"),
    "7.4": ("Internet of Things and Constrained Nodes", ""),
    "7.5": ("Paths with High Delay", "ought not to"),
    "7.6": ("Misbehaving Nodes", "SHOULD"),
    "7.7": ("Extreme Packet Reordering", "ought not to"),
    "7.8": ("Transient Events", "SHOULD"),
    "7.9": ("Sudden Changes in the Path", "MUST"),
    "7.10": ("Multipath Transport", "MUST"),
    "7.11": ("Data Centers", "SHOULD"),
}
#: Why a section has no cell.
WITHOUT = {
    "5.3.1": "a question to a document",
    "5.3.2": "a question to a document; the catalogue says what must change",
    "6.2": "no tunnels are simulated",
    "7.10": "no multipath transport is simulated",
    "7.11": "no data centres are simulated",
}
#: Example test cases of draft-ietf-ccwg-bbr-06, Appendix A, by their order there.
BBR = {
    1: "Exiting STARTUP on bandwidth plateau",
    2: "Exiting STARTUP on loss when application-limited",
    3: "Exiting DRAIN based on inflight",
    4: "Exiting DRAIN based on time",
    5: "Exiting PROBE_UP on bandwidth plateau",
    6: "Exiting PROBE_UP on loss when application-limited",
    7: "Never exiting PROBE_UP (or STARTUP) when application-limited with no loss",
    8: "Exiting PROBE_DOWN on inflight",
    9: "Exiting PROBE_DOWN after max time",
    10: "Entering and exiting PROBE_RTT",
    11: "Skipping PROBE_RTT due to application-limited sending",
    12: "Achieving expected STARTUP bandwidth on a link with aggregation",
    13: "Achieving expected cruise bandwidth on a link with aggregation",
    14: "Correctly managing sub-packet BDPs",
    15: "Increasing bandwidth 10x and ensuring full bandwidth is reached",
    16: "Decreasing bandwidth 10x and ensuring max bandwidth adapts down",
    17: "Handling token bucket policers",
    18: "Handling spurious fast recovery",
    19: "Handling spurious RTO recovery",
    20: "Entering and exiting PROBE_RTT during STARTUP",
    21: "Handling loss during PROBE_UP after inflight_longterm is set",
    22: "Handling application-limited sending during PROBE_REFILL",
}
#: Why an example test case has no cell.
WITHOUT_BBR = {
    **dict.fromkeys((2, 6, 7, 11, 22), "no cell has an application-limited sender"),
    **dict.fromkeys((3, 4, 5, 8, 9, 10, 20, 21), "a transition inside the sender alone"),
}


def _files(the_suite: Suite) -> Iterator[tuple[str, CellFile]]:
    for group in the_suite.groups:
        for file in group.files:
            yield group.letter, file


def _cells(file: CellFile) -> int:
    found = 1
    for values in file.vary.values():
        found *= len(values)
    return found


def _allowed(number: Number) -> str:
    if number.limit is not None:
        word = "at least" if number.better == "higher" else "at most"
        return f"{word} {text.value(number, number.limit, with_unit=True)}"
    if number.margin_is_share:
        return f"{100 * number.margin:g} % of CUBIC's"
    return text.value(number, number.margin, with_unit=True)


def cells_table(the_suite: Suite) -> str:
    """A row for each number of each file."""
    rows = ["| file | scenario | cells | number | better | margin or limit |"]
    rows.append("| --- | --- | ---: | --- | --- | --- |")
    for letter, file in _files(the_suite):
        for i, number in enumerate(file.numbers):
            about = [f"{letter} `{file.id}`", file.title, str(_cells(file))] if i == 0 else [""] * 3
            rows.append(
                f"| {' | '.join(about)} | {number.name} | {number.better} | {_allowed(number)} |"
            )
    return "\n".join(rows)


def rfc_table(the_suite: Suite) -> str:
    """A row for each section of RFC 9743."""
    rows = ["| RFC 9743 | title | verb | cells |", "| --- | --- | --- | --- |"]
    for section, (title, verb) in RFC9743.items():
        found = [f"`{f.id}`" for _, f in _files(the_suite) if section in f.rfc9743]
        cells = ", ".join(found) or f"none: {WITHOUT[section]}"
        rows.append(f"| {section} | {title} | {verb} | {cells} |")
    return "\n".join(rows)


def bbr_table(the_suite: Suite) -> str:
    """A row for each example test case."""
    rows = ["| no. | example test case | cells |", "| ---: | --- | --- |"]
    for case, title in BBR.items():
        found = [f"`{f.id}`" for _, f in _files(the_suite) if case in f.bbr]
        rows.append(f"| {case} | {title} | {', '.join(found) or f'none: {WITHOUT_BBR[case]}'} |")
    return "\n".join(rows)


def tables(the_suite: Suite) -> str:
    """All tables, with their headings."""
    total = sum(_cells(f) for _, f in _files(the_suite))
    numbers = sum(_cells(f) * len(f.numbers) for _, f in _files(the_suite))
    return "\n\n".join(
        [
            f"Suite {the_suite.version}: {total} cells with {numbers} numbers, hash"
            f" `{the_suite.sha256[:12]}`.",
            "### Cells, numbers and margins",
            cells_table(the_suite),
            "### Sections of RFC 9743",
            rfc_table(the_suite),
            "### Example test cases of draft-ietf-ccwg-bbr-06",
            bbr_table(the_suite),
        ]
    )


def page(found: str) -> str:
    """The page with its tables made again."""
    return marked_pages.replaced(found, BLOCK, tables(suite.read()))


#: Order of the counts in a cell of the cards: a table that sorts compares them from the left.
WORST_FIRST = ("worse", "undecided", "no worse", "better")
#: Rows of the cards' page by scheme.
ROW = re.compile(r"^\| `([^`]+)` \|.*$", re.MULTILINE)


def schemes() -> list[str]:
    """The schemes that have a row on the page of the cards."""
    return [e["name"] for e in catalogue.entries() if not e["simulation_only"]]


def _made_by(the_suite: Suite, quick: bool) -> str:
    """The paragraph that says what the cards are of."""
    seeds = the_suite.quick_seeds if quick else the_suite.seeds
    return (
        f"Suite {the_suite.version}, hash `{the_suite.sha256[:12]}`, {seeds} seeds"
        f"{', the form of `--quick`' if quick else ''}; made by\n"
        f"`make evaluation-cards{' QUICK=--quick' if quick else ''}`."
    )


def _row(card: Card, the_suite: Suite) -> str:
    tallies = [card.tally(g.id) for g in the_suite.groups]
    groups = ["/".join(str(tally[word]) for word in WORST_FIRST) for tally in tallies]
    counts = [str(card.tally()[word]) for word in WORST_FIRST]
    return f"| `{card.scheme}` | {' | '.join([*counts, *groups])} |"


#: Schemes evaluated together, which share the runs of CUBIC.
TOGETHER = 8


def cards_pages(
    the_suite: Suite, quick: bool, found: str = "", jobs: int | None = None
) -> Iterator[str]:
    """The table of the cards of all schemes of the catalogue, as it grows.

    First with the rows of `found`, the present page, if they are of the same suite and form, then
    after each few schemes.
    """
    made_by = _made_by(the_suite, quick)
    rows = {m[1]: m[0] for m in ROW.finditer(found)} if made_by in found else {}
    rows = {name: rows[name] for name in schemes() if name in rows}
    yield _cards_page(the_suite, made_by, rows)
    missing = [name for name in schemes() if name not in rows]
    report = functools.partial(print, file=sys.stderr)
    # A row has no numbers of the schemes that a card shows beside the candidate.
    alone = dataclasses.replace(the_suite, ghosts=())
    for first in range(0, len(missing), TOGETHER):
        batch = missing[first : first + TOGETHER]
        cards = trial.evaluate(alone, batch, quick=quick, jobs=jobs, report=report)
        rows |= {card.scheme: _row(card, the_suite) for card in cards}
        yield _cards_page(the_suite, made_by, rows)


def _cards_page(the_suite: Suite, made_by: str, rows: dict[str, str]) -> str:
    letters = [g.letter for g in the_suite.groups]
    lines = [
        "# Cards of all schemes",
        "",
        "Each row is the card of a scheme of the catalogue ([evaluation.md](evaluation.md)).",
        "Agents have their default sender. The first columns count the verdicts over the card;",
        f"those of the groups have {'/'.join(WORST_FIRST)}. The rows are sorted by",
        'the number of verdicts "worse"; on the docs site, a click on the head of a column sorts.',
        "",
        made_by,
        "",
        f"| scheme | {' | '.join([*WORST_FIRST, *letters])} |",
        "| --- |" + " ---: |" * (len(WORST_FIRST) + len(letters)),
        *sorted(rows.values(), key=lambda row: (int(row.split("|")[2]), row)),
    ]
    titles = ", ".join(f"{g.letter}: {g.title.lower()}" for g in the_suite.groups)
    return "\n".join([*lines, "", *textwrap.wrap(f"{titles}.", 100), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cards", action="store_true", help="the cards too")
    parser.add_argument("--quick", action="store_true", help="cards in the form of --quick")
    parser.add_argument("--missing", action="store_true", help="keep the rows that the page has")
    parser.add_argument("--jobs", type=int, help="number of threads (default: one per core)")
    options = parser.parse_args()
    write_whole(FILE, page(FILE.read_text(encoding="utf-8")))
    if options.cards:
        found = CARDS.read_text(encoding="utf-8") if options.missing else ""
        for page_so_far in cards_pages(suite.read(), options.quick, found, options.jobs):
            write_whole(CARDS, page_so_far)


if __name__ == "__main__":
    main()
