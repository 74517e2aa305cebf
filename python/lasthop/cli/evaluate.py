"""The command `lasthop evaluate`."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

from lasthop import quantities
from lasthop.cli import options as common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop.cli.options import Options


def add_parser(commands: Any) -> None:
    """Add `evaluate` to the command line."""
    evaluate = commands.add_parser(
        "evaluate",
        help="try schemes by the criteria of RFC 9743, beside CUBIC",
        description=(
            "Try schemes in the cells of a fixed suite, in nine groups from a wired path to harm"
            " and safety (RFC 9743),\nand judge each number beside CUBIC: better, no worse within"
            " a margin, worse, or undecided. See docs/evaluation.md."
        ),
        **common.examples(
            "lasthop evaluate bbr3",
            "lasthop evaluate bbr3 vegas --quick --only safety,sudden-change --out cards",
            "lasthop evaluate mine.py:MyRule --quick --only safety/feedback-lost --gate safety",
        ),
    )
    evaluate.add_argument(
        "schemes",
        nargs="+",
        metavar="SCHEME",
        help="scheme to try: NAME, NAME:key=value:…, FILE.py:CLASS[:key=value:…], or a program with"
        " a rule or a stack in Rust: ./PROGRAM[:WORD:…] (docs/foreign-stacks.md)",
    )
    evaluate.add_argument(
        "--quick", action="store_true", help="fewer seeds and shorter runs: a first impression"
    )
    evaluate.add_argument(
        "--only",
        metavar="G1,G2,…",
        help="only these groups or cells: harm, G, safety/overload (Holm's method then counts only"
        " them)",
    )
    evaluate.add_argument(
        "--gate",
        metavar="G1,G2,…",
        help="exit with 1 if a number of these groups is worse: letters or names, or all",
    )
    evaluate.add_argument(
        "--jobs", type=int, metavar="N", help="number of threads (default: one per core)"
    )
    evaluate.add_argument(
        "--out", metavar="DIR", help="write card.json, card.html, the badge and all scenarios"
    )
    common.add_output(evaluate)


def evaluate(options: Options, words: list[str]) -> int:
    """`lasthop evaluate`."""
    from lasthop import own_schemes
    from lasthop.evaluation import files, suite, text, trial
    from lasthop.evaluation.programs import Program
    from lasthop.experiments import store

    the_suite = suite.read()
    gate = common.split_list(options.gate or "", "--gate")
    only = common.split_list(options.only or "", "--only")
    gated = the_suite.gated(gate, only)
    if options.jobs is not None:
        quantities.whole_number(options.jobs, "--jobs", 1)
    schemes = [
        Program(s) if Program.is_named_by(s) else own_schemes.load_scheme(s)
        for s in options.schemes
    ]
    folder = None if options.out is None else Path(options.out)
    if folder is not None:
        files.check(folder, options.schemes)
    written = []
    # From the start: a folder that cannot be written to would cost the runs.
    with nullcontext() if folder is None else store.sole_writer(folder):
        cards = trial.evaluate(
            the_suite,
            schemes,
            quick=options.quick,
            jobs=options.jobs,
            only=only,
            report=lambda message: print(f"lasthop: {message}", file=sys.stderr),
        )
        if folder is not None:
            written = files.write(cards, folder, shlex.join(words))
    if options.json:
        common.print_json({"cards": [card.to_dict() for card in cards]})
    elif not options.quiet:
        print("\n\n".join(text.card(card) for card in cards))
        if written:
            print(f"\nwritten to {options.out}/: {', '.join(written)}")
    failing = [entry for card in cards for entry in card.failing(gated)]
    for entry in failing:
        print(f"lasthop: worse: {entry.cell.title}: {entry.number.name}", file=sys.stderr)
    return 1 if failing or any(card.failed for card in cards) else 0
