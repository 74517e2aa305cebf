"""The command `lasthop compare`."""

from __future__ import annotations

import sys

from lasthop import quantities
from lasthop.cli import options as common
from lasthop.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop.cli.options import Options
    from lasthop.experiments.chart_spec import Chart


def add_parser(commands: Any) -> None:
    """Add `compare` to the command line."""
    compare = commands.add_parser(
        "compare",
        help="compare schemes over many runs",
        description=(
            "Compare schemes, paired by seed: run k of every scheme uses seed k, so all schemes see"
            " the same channel\nrealisation. Print means with 95 % confidence intervals."
        ),
        **common.examples(
            "lasthop compare --rate 2Mbps --rtt 40ms --loss 1% --schemes reno,newreno,snoop",
            "lasthop compare --down my.down --up my.up --rtt 40ms --schemes reno,snoop --out"
            " results",
            "lasthop compare --down synthetic-lte.down --up synthetic-lte.up --rtt 40ms --loss 1%"
            " --schemes reno,mine.py:MyRule",
            "lasthop compare --rate 48Mbps --rtt 40ms --schemes cubic,bbr,reno --against cubic",
            "lasthop compare --wifi 802.11ac --stations 5 --schemes cubic,bbr,snoop",
            "lasthop compare cell.toml --schemes reno,snoop --vary link.radio.loss.rate=0.1%,1%,3%"
            " --seeds 50 --out results",
            "lasthop compare --rate 2Mbps --rtt 40ms --schemes reno,snoop --vary"
            " last_hop.loss=0.1%,1%,3% --plot bars --metric goodput_bps,timeouts --style"
            " ieee-column --out results",
        ),
    )
    common.add_scenario(compare)
    common.add_wifi(compare)
    common.add_flows(compare)
    _add_schemes(compare)
    compare.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="use seeds 1 to N (default: the number in the file, or 20)",
    )
    compare.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=VALUES",
        help=(
            "repeat the comparison for each of these values: V1,V2,… or a range, as in `lasthop"
            " sweep`; may be given several times"
        ),
    )
    common.add_set(compare)
    compare.add_argument(
        "--series",
        action="store_true",
        help=(
            "also measure the time to 90 %% of the capacity, the convergence time and the overshoot"
            " (slower)"
        ),
    )
    common.add_batch(compare, "write tables and figures to DIR; runs finished there are reused")
    _add_chart_options(compare)
    common.add_output(compare)


def _add_schemes(parser: Any) -> None:
    parser.add_argument(
        "--schemes",
        metavar="S1,S2,…",
        help=(
            "schemes to compare: NAME, NAME:key=value:… or FILE.py:CLASS[:key=value:…]; the others"
            " are compared with the first"
        ),
    )
    parser.add_argument(
        "--also", metavar="S,…", help="additional schemes, besides those in the file"
    )


def _add_chart_options(parser: Any) -> None:
    figure = parser.add_argument_group(
        "figure", "what the figure in --out DIR shows (docs/figures.md)"
    )
    for name, metavar, text in (
        ("plot", "KIND", "line, bars, scatter, box, cdf or heatmap"),
        ("x", "KEY", "varied key of the x axis; for a scatter plot a metric"),
        ("y", "KEY", "second varied key of a heat map, or `scheme`"),
        ("rows", "KEY", "varied key of the rows of panels"),
        ("columns", "KEY", "varied key of the columns of panels"),
    ):
        figure.add_argument(f"--{name}", metavar=metavar, help=text)
    figure.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="M1,M2,…",
        help="metrics to draw: goodput, delay, completion, share, or names of runs.csv; may be"
        " given several times",
    )
    figure.add_argument("--no-figure", action="store_true", help="write only tables")
    common.add_look(figure)


def compare(options: Options, words: list[str]) -> int:
    """`lasthop compare`."""
    from lasthop import batches
    from lasthop.plotting import matplotlib_import

    matplotlib_import.with_help_texts = False
    if options.no_figure and options.out is None:
        raise InputError("--no-figure needs --out DIR, the folder for the tables")
    result = batches.compare(
        common.scenario_file(options),
        schemes=common.schemes(options.schemes, "--schemes"),
        also=common.schemes(options.also, "--also") or (),
        seeds=options.seeds,
        vary=_vary(options),
        settings=common.settings(options),
        last_hop=common.last_hop(options),
        flows=common.flows(options),
        out=options.out,
        limit=options.limit,
        command=words,
        chart=_chart(options),
        figure=not options.no_figure,
        style=options.style,
        formats=common.split_list(options.format, "--format"),
        series=options.series,
    )
    with batches.tables_of(result, options.out):
        if options.json:
            common.print_document(result.to_dict(), options, words)
        elif result.rows and not options.quiet:
            print(result)
    if options.out is not None and not options.json and not options.quiet:
        from pathlib import Path

        names = (p.name for p in Path(options.out).iterdir())
        shown = sorted(name for name in names if not name.startswith("."))
        print(f"\nwritten to {options.out}/: {', '.join(shown)}")
    if result.interrupted:
        kept = (
            f"; they are saved in {options.out}/runs.csv; repeat the command to continue"
            if options.out
            else ""
        )
        print(
            f"lasthop: interrupted after {len(result.rows)} of {result.plan.size()} runs{kept}",
            file=sys.stderr,
        )
        return 130
    return 1 if result.failed else 0


def _vary(options: Options) -> dict[str, list[str]]:
    for text in options.vary:
        key, given = quantities.key_value(text, "--vary")
        common.split_list(given, f"--vary {key}")  # refuses an empty item
    from lasthop.experiments import sweep_table

    return sweep_table.read_options(options.vary, [])


def _chart(options: Options) -> Chart | None:
    """The chart of the options of `compare`; `None` without any."""
    from lasthop.experiments import chart_spec

    names = ("plot", "x", "y", "rows", "columns")
    given = [f"--{n}" for n in names if getattr(options, n)] + ["--metric"] * bool(options.metric)
    look = [f"--{n}" for n in ("style", "format") if getattr(options, n)]
    for option in [*given, *look]:
        if options.no_figure:
            raise InputError(f"{option} and --no-figure cannot be given together")
        if options.out is None:
            raise InputError(f"{option} needs --out DIR, the folder for the figure")
    if not given:
        return _wifi_chart(options)
    metrics = [m for text in options.metric for m in common.split_list(text, "--metric")]
    return chart_spec.of_words(
        options.plot,
        metrics,
        options.x,
        y=options.y,
        rows=options.rows,
        columns=options.columns,
    )


def _wifi_chart(options: Options) -> Chart | None:
    """The chart of `--wifi`, unless another one follows from the other options."""
    if options.wifi is None or options.out is None or options.no_figure:
        return None
    if options.vary or options.against:
        return None
    from lasthop.experiments import chart_spec
    from lasthop.scenarios import wifi

    return chart_spec.of_words("bars", wifi.SHOWN, None)
