"""The command line's grammar. Imports nothing heavy, so that `--help` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from lasthop.errors import InputError

DESCRIPTION = "TCP over a wireless last hop: simulate, compare and replay the schemes that researchers proposed for it."


class Parser(argparse.ArgumentParser):
    """Reports mistakes as `InputError` instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Called by argparse for any mistake."""
        raise InputError(f"{message} (see {self.prog} --help)")


def _examples(*lines: str) -> dict[str, Any]:
    text = "examples:\n" + "\n".join(f"  {line}" for line in lines)
    return {"epilog": text, "formatter_class": argparse.RawDescriptionHelpFormatter}


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE.toml", help="scenario file; without one the last hop below is the scenario")
    hop = parser.add_argument_group("last hop", "instead of a file, or over the file's [last_hop]")
    for name, metavar, text in (
        (
            "down",
            "FILE",
            "trace of the downlink, in Mahimahi's format; synthetic-lte.down and synthetic-wifi.down are shipped",
        ),
        ("up", "FILE", "trace of the uplink"),
        ("rtt", "T", 'round-trip time without queues, such as "40ms"'),
        ("loss", "P", 'loss on the air in each direction, such as "1%%"'),
        ("rate", "R", 'rate instead of traces, such as "2Mbps"'),
        ("queue", "Q", 'queue limit, such as "250 packets" or "100 kB"'),
    ):
        hop.add_argument(f"--{name}", metavar=metavar, help=text)


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a key, e.g. link.radio.loss.rate=1%% or tcp.min_rto=1s"
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def _add_batch_options(parser: argparse.ArgumentParser) -> None:
    limit = "do not start if the simulated work is estimated to take longer than T (default %(default)s)"
    parser.add_argument("--limit", metavar="T", default="24 h", help=limit)
    parser.add_argument("--out", metavar="DIR", help="write tables and figures there; finished runs found there are not done again")


def parser() -> Parser:
    """The parser of the whole command line."""
    top = Parser(
        prog="lasthop",
        description=DESCRIPTION,
        **_examples(
            "lasthop schemes",
            "lasthop run --rate 2Mbps --rtt 40ms --loss 1% --scheme reno",
            "lasthop compare --rate 2Mbps --rtt 40ms --loss 1% --schemes reno,newreno,snoop",
            "lasthop reproduce zeng2006/fig15",
        ),
    )
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    schemes = commands.add_parser(
        "schemes",
        help="list the schemes, or show one",
        description="List the schemes; with a NAME show its slots, settings, assumptions and evidence.",
        **_examples("lasthop schemes", "lasthop schemes packet-control", "lasthop schemes --json"),
    )
    schemes.add_argument("name", nargs="?", metavar="NAME", help="a scheme")
    _add_json(schemes)

    run = commands.add_parser(
        "run",
        help="one run",
        description="Simulate a scenario once.",
        **_examples(
            "lasthop run --rate 2Mbps --rtt 40ms --loss 1% --scheme snoop --seed 3",
            "lasthop run cell.toml --scheme packet-control:dupack_threshold=12 --set duration=60s",
            "lasthop run cell.toml --pcap run.pcapng --events run-events --json",
        ),
    )
    _add_scenario(run)
    run.add_argument("--scheme", metavar="S", help="scheme instead of the one that [tcp] names: NAME, NAME:key=value:… or FILE.py:CLASS")
    run.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the random channel (default 1); run --seed K repeats row K of a comparison"
    )
    _add_set(run)
    run.add_argument("--events", metavar="DIR", help="write every event to DIR/events.parquet")
    run.add_argument("--pcap", metavar="FILE", help="write a capture (pcapng), for Wireshark and the like")
    _add_json(run)

    compare = commands.add_parser(
        "compare",
        help="compare schemes over many runs",
        description="Paired comparison: run k of every scheme uses seed k, so all see the same random channel. Prints means with 95 % intervals.",
        **_examples(
            "lasthop compare --rate 2Mbps --rtt 40ms --loss 1% --schemes reno,newreno,snoop",
            "lasthop compare --down my.down --up my.up --rtt 40ms --schemes reno,snoop --out results",
            "lasthop compare --down synthetic-lte.down --up synthetic-lte.up --rtt 40ms --loss 1% --schemes reno,mine.py:MyRule",
            "lasthop compare cell.toml --schemes reno,snoop --vary link.radio.loss.rate=0.1%,1%,3% --seeds 50 --out results",
        ),
    )
    _add_scenario(compare)
    compare.add_argument(
        "--schemes",
        metavar="S1,S2,…",
        help="schemes to compare, or FILE.py:CLASS for a window rule of your own; the first is the one the others are related to",
    )
    compare.add_argument("--also", metavar="S,…", help="schemes besides those that the file names")
    compare.add_argument("--seeds", type=int, metavar="N", help="seeds 1 to N (default: the file's, or 20)")
    compare.add_argument("--vary", action="append", default=[], metavar="KEY=V1,V2,…", help="do it for each of these values; may be given again")
    _add_set(compare)
    _add_batch_options(compare)
    _add_json(compare)

    reproduce = commands.add_parser(
        "reproduce",
        help="redo the papers' figures and check their claims",
        description="Redo figures of the papers: each claim beside what was measured, with a verdict and a picture.",
        **_examples(
            "lasthop reproduce zeng2006",
            "lasthop reproduce zeng2006/fig15 --out out",
            "lasthop reproduce zeng2006/fig15 --also newreno --seeds 100",
            "lasthop reproduce --quick",
        ),
    )
    reproduce.add_argument("figures", nargs="*", metavar="PAPER[/FIGURE]", help="papers or figures (default: all)")
    reproduce.add_argument("--also", metavar="SCHEMES", help="more schemes; the figure then counts as modified")
    reproduce.add_argument("--seeds", type=int, metavar="N", help="seeds 1 to N instead of the figure's number")
    _add_set(reproduce)
    reproduce.add_argument("--quick", action="store_true", help="few runs, to see that it works; verdicts are then mostly undecided")
    reproduce.add_argument("--expect", action="store_true", help="compare the verdicts with the recorded ones; status 1 if any differs")
    _add_batch_options(reproduce)
    reproduce.set_defaults(out="out")
    _add_json(reproduce)

    replay = commands.add_parser(
        "replay",
        help="drive an agent with recorded packets",
        description="Drive a scheme's agent with the packets of a capture. The endpoints are recordings: they do not react.",
        **_examples("lasthop replay in.pcapng --mobile 10.0.0.2 --scheme snoop --out out.pcapng"),
    )
    replay.add_argument("capture", metavar="IN.pcapng", help="capture taken at the base station")
    replay.add_argument("--mobile", required=True, metavar="ADDR[/LEN]", help="address or network of the mobile side")
    replay.add_argument("--scheme", required=True, metavar="S", help="scheme whose agent is driven")
    replay.add_argument("--interface", metavar="NAME", help="interface of the capture to replay, if it has several")
    replay.add_argument("--out", required=True, metavar="OUT.pcapng", help="what leaves the base station")
    _add_json(replay)

    doctor = commands.add_parser(
        "doctor",
        help="what this machine can do",
        description="Say what this machine can do, and what to install for the rest.",
        **_examples("lasthop doctor"),
    )
    _add_json(doctor)
    return top


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; raises `InputError` for mistakes."""
    return parser().parse_args(arguments)
