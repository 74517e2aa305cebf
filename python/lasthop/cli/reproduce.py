"""The command `lasthop reproduce`."""

from __future__ import annotations

import sys

from lasthop.cli import options as common
from lasthop.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop.cli.options import Options
    from lasthop.experiments.figure_result import FigureResult


def add_parser(commands: Any) -> None:
    """Add `reproduce` to the command line."""
    reproduce = commands.add_parser(
        "reproduce",
        help="reproduce figures of the papers and check their claims",
        description=(
            "Reproduce figures of the papers. Print each claim with the measured value and a"
            " verdict; write plots."
        ),
        **common.examples(
            "lasthop reproduce zeng2006",
            "lasthop reproduce zeng2006/fig15 --out out",
            "lasthop reproduce zeng2006/fig15 --also newreno --seeds 100",
            "lasthop reproduce --all --quick",
        ),
    )
    reproduce.add_argument(
        "figures",
        nargs="*",
        metavar="PAPER[/FIGURE]|FILE.toml",
        help="papers, figures, or scenario files with [experiment] (default: all papers)",
    )
    reproduce.add_argument(
        "--all", action="store_true", help="all papers, as without a name; refuses a name"
    )
    reproduce.add_argument(
        "--also",
        metavar="SCHEMES",
        help="additional schemes; the figure is then modified and its claims are not judged",
    )
    reproduce.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="use seeds 1 to N instead of the number in the figure file",
    )
    common.add_set(reproduce)
    reproduce.add_argument(
        "--quick",
        action="store_true",
        help="use 3 seeds, as a smoke test; most verdicts are then undecided",
    )
    reproduce.add_argument(
        "--expect",
        action="store_true",
        help="compare the verdicts with the recorded ones; exit with status 1 if any differs",
    )
    common.add_batch(reproduce, "write plots, tables and pages to DIR (default %(default)s)")
    reproduce.set_defaults(out="out")
    common.add_look(reproduce)
    common.add_output(reproduce)


def reproduce(options: Options, words: list[str]) -> int:
    """`lasthop reproduce`."""
    from lasthop import batches, progress
    from lasthop.plotting import matplotlib_import
    from lasthop.reproduction import report as figure_text
    from lasthop.scenarios import experiment

    matplotlib_import.with_help_texts = False
    if options.all and options.figures:
        raise InputError(f"--all means every paper: leave out {' '.join(options.figures)}")
    own = [name for name in options.figures if experiment.is_file(name)]
    if options.expect and own:
        raise InputError(f"--expect: there are no recorded verdicts for {own[0]}")

    def show(figure: FigureResult) -> None:
        progress.clear_line()
        print(figure_text.text(figure), flush=True)

    result = batches.reproduce(
        *options.figures,
        also=common.schemes(options.also, "--also") or (),
        seeds=options.seeds,
        settings=common.settings(options),
        quick=options.quick,
        out=options.out,
        limit=options.limit,
        command=words,
        style=options.style,
        formats=common.split_list(options.format, "--format"),
        told=(lambda _: None) if options.json or options.quiet else show,
    )
    if options.json:
        common.print_document(result.to_dict(), options, words)
    elif not options.quiet:
        print(f"\n{figure_text.tally(result.figures)}; plots and pages in {options.out}/")
    if result.interrupted:
        done = len(result.figures)
        figures = "figure" if done == 1 else "figures"
        print(f"lasthop: interrupted after {done} {figures}", file=sys.stderr)
        return 130
    if options.expect:
        surprises = result.surprises()
        for line in surprises:
            print(f"lasthop: {line}", file=sys.stderr)
        return 1 if surprises else 0
    return 0
