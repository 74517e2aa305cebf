"""The parser of the command line. It imports no large package, so `--help` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from lasthop.cli import check, link, new, report, schema, sweep, validate
from lasthop.cli import options as common
from lasthop.errors import InputError

DESCRIPTION = (
    "TCP over a wireless last hop: simulate, compare and replay the schemes that researchers"
    " proposed for it."
)
#: Shells that `--completion` knows.
SHELLS = ("bash", "zsh", "fish")


class Parser(argparse.ArgumentParser):
    """Raises `InputError` for a wrong command line instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise `InputError`; argparse calls this for every wrong command line."""
        raise InputError(f"{message} (see {self.prog} --help)")


def _add_batch_options(parser: argparse.ArgumentParser, out: str) -> None:
    limit = (
        "do not start if the simulated work is estimated to take longer than T (default"
        " %(default)s)"
    )
    parser.add_argument("--limit", metavar="T", default="24 h", help=limit)
    parser.add_argument("--out", metavar="DIR", help=out)


def _add_chart_options(parser: argparse.ArgumentParser) -> None:
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
        help="metrics of runs.csv to draw, such as goodput_bps; may be given several times",
    )
    figure.add_argument("--no-figure", action="store_true", help="write only tables")
    _add_look(figure)


def _add_look(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--style",
        metavar="STYLE",
        default="",
        help="page, ieee-column, ieee-page, acm-column, acm-page, slides or screen (default page)",
    )
    parser.add_argument(
        "--format",
        metavar="F1,F2,…",
        default="",
        help="svg, png, pdf (default: those of the style, for page svg,png)",
    )


def _add_inspect(commands: argparse._SubParsersAction[Parser]) -> None:
    inspect = commands.add_parser(
        "inspect",
        help="look inside one run: charts, losses, stalls and their causes",
        description=(
            "Simulate a scenario once per scheme, all with the same seed, and write a page with"
            " linked charts of windows,\nrates, RTT, queue and sequence numbers, and with the cause"
            " of each stall. The page opens offline. See docs/inspect.md."
        ),
        **common.examples(
            "lasthop inspect --rate 2Mbps --rtt 40ms --loss 1% --scheme newreno --out run.html",
            "lasthop inspect cell.toml --scheme cubic,bbr --seed 3 --out run.html",
            "lasthop inspect cell.toml --qlog run.sqlog --pcap captures --snaplen 96",
            "lasthop inspect results --scheme bbr --seed 7 --out run.html",
        ),
    )
    common.add_scenario(inspect, "; or a folder written by compare --out")
    common.add_flows(inspect)
    inspect.add_argument(
        "--scheme",
        metavar="A[,B]",
        help=(
            "schemes, at most four: NAME, NAME:key=value:… or FILE.py:CLASS[:key=value:…] (default:"
            " the file's)"
        ),
    )
    inspect.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of the random channel (default 1), the same for all schemes",
    )
    inspect.add_argument("--flow", metavar="ID", help="flow to inspect (default: first TCP flow)")
    inspect.add_argument(
        "--shortest",
        metavar="T",
        help=(
            "list gaps in the in-order delivery longer than T as stalls (default: 2 smallest RTTs,"
            " at least 100ms)"
        ),
    )
    common.add_set(inspect)
    inspect.add_argument("--out", metavar="FILE.html", help="write the page to FILE.html")
    inspect.add_argument(
        "--qlog", metavar="FILE", help="write the senders' events as qlog (JSON-SEQ)"
    )
    inspect.add_argument(
        "--pcap", metavar="DIR", help="write a packet capture (pcapng) per hop and agent to DIR"
    )
    inspect.add_argument(
        "--snaplen", type=int, metavar="N", help="capture at most N bytes of each packet"
    )
    common.add_json(inspect)


def parser() -> Parser:
    """The parser of the whole command line."""
    top = Parser(
        prog="lasthop",
        description=DESCRIPTION,
        **common.examples(
            "lasthop schemes",
            "lasthop run --rate 2Mbps --rtt 40ms --loss 1% --scheme reno",
            "lasthop compare --rate 2Mbps --rtt 40ms --loss 1% --schemes reno,newreno,snoop",
            "lasthop reproduce zeng2006/fig15",
        ),
    )
    top.add_argument("--version", action="store_true", help="print the version")
    top.add_argument(
        "--completion",
        choices=SHELLS,
        help="print the completion script of a shell (docs/install.md)",
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    schemes = commands.add_parser(
        "schemes",
        help="list the schemes, or show one",
        description=(
            "List the schemes, or show the slots, settings, assumptions and evidence of NAME."
        ),
        **common.examples(
            "lasthop schemes", "lasthop schemes packet-control", "lasthop schemes --json"
        ),
    )
    schemes.add_argument("name", nargs="?", metavar="NAME", help="scheme to show")
    common.add_json(schemes)

    run = commands.add_parser(
        "run",
        help="simulate one run",
        description="Simulate a scenario once.",
        **common.examples(
            "lasthop run --rate 2Mbps --rtt 40ms --loss 1% --scheme snoop --seed 3",
            "lasthop run cell.toml --scheme packet-control:dupack_threshold=12 --set duration=60s",
            "lasthop run cell.toml --pcap run.pcapng --events run-events --json",
        ),
    )
    common.add_scenario(run)
    common.add_flows(run)
    run.add_argument(
        "--scheme",
        metavar="S",
        help=(
            "scheme to use instead of the one in [tcp]: NAME, NAME:key=value:… or"
            " FILE.py:CLASS[:key=value:…]"
        ),
    )
    run.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help=(
            "seed of the random channel (default 1); --seed K reproduces the run of a comparison"
            " with seed K"
        ),
    )
    common.add_set(run)
    run.add_argument("--events", metavar="DIR", help="write every event to DIR/events.parquet")
    run.add_argument(
        "--pcap", metavar="FILE", help="write a packet capture (pcapng), for example for Wireshark"
    )
    run.add_argument(
        "--explain",
        action="store_true",
        help="print how each link would be computed and what measures the run; simulate nothing",
    )
    common.add_json(run)

    _add_inspect(commands)

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
            "lasthop compare cell.toml --schemes reno,snoop --vary link.radio.loss.rate=0.1%,1%,3%"
            " --seeds 50 --out results",
            "lasthop compare --rate 2Mbps --rtt 40ms --schemes reno,snoop --vary"
            " last_hop.loss=0.1%,1%,3% --plot bars --metric goodput_bps,timeouts --style"
            " ieee-column --out results",
        ),
    )
    common.add_scenario(compare)
    common.add_flows(compare)
    compare.add_argument(
        "--schemes",
        metavar="S1,S2,…",
        help=(
            "schemes to compare: NAME, NAME:key=value:… or FILE.py:CLASS[:key=value:…]; the others"
            " are compared with the first"
        ),
    )
    compare.add_argument(
        "--also", metavar="S,…", help="additional schemes, besides those in the file"
    )
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
        metavar="KEY=V1,V2,…",
        help="repeat the comparison for each of these values; may be given several times",
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
    _add_batch_options(compare, "write tables and figures to DIR; runs finished there are reused")
    _add_chart_options(compare)
    common.add_output(compare)

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
            "lasthop reproduce --quick",
        ),
    )
    reproduce.add_argument(
        "figures",
        nargs="*",
        metavar="PAPER[/FIGURE]|FILE.toml",
        help="papers, figures, or scenario files with [experiment] (default: all papers)",
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
    _add_batch_options(reproduce, "write plots, tables and pages to DIR (default %(default)s)")
    reproduce.set_defaults(out="out")
    _add_look(reproduce)
    common.add_output(reproduce)

    replay = commands.add_parser(
        "replay",
        help="feed recorded packets to an agent",
        description=(
            "Feed the packets of a capture to the agent of a scheme. The recorded endpoints do not"
            " react to the agent."
        ),
        **common.examples(
            "lasthop replay in.pcapng --mobile 10.0.0.2 --scheme snoop --out out.pcapng"
        ),
    )
    replay.add_argument("capture", metavar="IN.pcapng", help="capture taken at the base station")
    replay.add_argument(
        "--mobile",
        required=True,
        metavar="ADDR[/LEN]",
        help="address or network of the mobile side",
    )
    replay.add_argument(
        "--scheme", required=True, metavar="S", help="scheme whose agent gets the packets"
    )
    replay.add_argument(
        "--interface", metavar="NAME", help="interface of the capture to replay, if it has several"
    )
    replay.add_argument(
        "--out",
        required=True,
        metavar="OUT.pcapng",
        help="capture to write: the packets that leave the base station",
    )
    common.add_json(replay)

    link.add_parser(commands)
    validate.add_parser(commands)
    sweep.add_parsers(commands)
    report.add_parser(commands)
    check.add_parser(commands)
    new.add_parser(commands)
    schema.add_parser(commands)

    doctor = commands.add_parser(
        "doctor",
        help="check what this machine provides",
        description=(
            "Show what lasthop can use on this machine, and how to install what is missing."
        ),
        **common.examples("lasthop doctor"),
    )
    common.add_json(doctor)
    return top


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; raises `InputError` for mistakes."""
    words, command = link.split(list(arguments))
    options = parser().parse_args(words)
    if command:
        options.run = command
    return options
