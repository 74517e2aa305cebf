"""Options that several commands have, and output that they share."""

from __future__ import annotations

import sys

from lasthop import quantities
from lasthop.errors import InputError, traceback_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lasthop.own_schemes import SchemeClass

# Value of --start for the phase of a trace.
RANDOM = "random"
# Presets of --traffic, as in the core.
TRAFFIC = ("bulk", "upload", "rrul", "web", "short", "requests", "video", "call", "ping")

#: As `argparse.SUPPRESS`: the help of an option that no help text lists.
HIDDEN = "==SUPPRESS=="


class Options:
    """The options of a command with their values."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...


def examples(*lines: str) -> dict[str, Any]:
    """Arguments of `add_parser` that show examples at the end of its help."""
    text = "examples:\n" + "\n".join(f"  {line}" for line in lines)
    return {"epilog": text}


def add_scenario(parser: Any, or_also: str = "") -> None:
    """Add the scenario: a file, or the options of a last hop."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE.toml",
        help=(
            f"scenario file, or - for stdin{or_also}; if omitted, the last-hop options define the"
            " scenario"
        ),
    )
    add_last_hop(parser)


def add_last_hop(parser: Any) -> None:
    """Add the options of a last hop."""
    hop = parser.add_argument_group(
        "last hop", "define the last hop without a file, or override the file's [last_hop]"
    )
    for name, metavar, text in (
        (
            "down",
            "FILE",
            (
                "downlink trace, Mahimahi format; lasthop ships synthetic-lte.down and"
                " synthetic-wifi.down"
            ),
        ),
        ("up", "FILE", "uplink trace, Mahimahi format; lasthop ships synthetic-lte.up"),
        ("rtt", "T", 'round-trip time without queueing delay, such as "40ms"'),
        ("loss", "P", 'loss rate on the air, in each direction, such as "1%%"'),
        ("rate", "R", 'constant rate instead of traces, such as "2Mbps"'),
        ("queue", "Q", 'queue limit, such as "250 packets", "100 kB", "100 ms" or "2 BDP"'),
        ("mtu", "M", 'largest IP packet, such as "1400 B" (segments are as large as fits)'),
    ):
        hop.add_argument(f"--{name}", metavar=metavar, help=text)


def add_wifi(parser: Any) -> None:
    """Add `--wifi` and what goes with it."""
    group = parser.add_argument_group("Wi-Fi", "downloads over an access point, without a file")
    group.add_argument("--wifi", metavar="KIND", help="802.11n, 802.11ac or 802.11ax")
    group.add_argument(
        "--stations", type=int, metavar="N", help="number of stations (5; lecture-hall: 20)"
    )
    group.add_argument(
        "--place",
        metavar="PLACE",
        help=(
            "flat (stations in the room and behind one or two walls; default), lecture-hall, or"
            " crowded (two other networks in the channel)"
        ),
    )


def scenario_file(options: Options) -> Any:
    """The scenario FILE, or the scenario of `--wifi` as a dictionary."""
    if options.wifi is None:
        if options.stations is not None or options.place is not None:
            raise InputError("--stations and --place go with --wifi")
        return options.file
    if options.file is not None or last_hop(options):
        raise InputError("give a scenario FILE, a last hop or --wifi, not several of them")
    from lasthop.scenarios import wifi

    return wifi.scenario(options.wifi, options.stations, options.place or "flat")


def add_flows(parser: Any) -> None:
    """Add the options about flows."""
    group = parser.add_argument_group("flows", "change the flows of the scenario")
    group.add_argument(
        "--traffic",
        metavar="T1+T2+…",
        help=(
            f"named traffic instead of the flows of the file: {', '.join(TRAFFIC)}; joined by +,"
            " such as web+bulk (docs/traffic.md)"
        ),
    )
    group.add_argument(
        "--against",
        metavar="S1,S2,…",
        help="add a bulk flow with each of these schemes, as a competitor of the candidates",
    )
    group.add_argument("--flows", type=int, metavar="N", help="number of candidate flows")
    group.add_argument(
        "--start",
        metavar="T1,T2,…",
        help=(
            "start times of the candidates and then of the competitors (default 0s), such as"
            " 0s,10s; or `random`: start at a random position of the trace, drawn per seed"
        ),
    )
    group.add_argument("--upload", action="store_true", help="send from the station to the server")
    group.add_argument("--duration", metavar="T", help='length of the run, such as "60s"')


def flows(options: Options) -> dict[str, Any]:
    """The options about flows that were given."""
    found: dict[str, Any] = {}
    if options.traffic is not None:
        found["traffic"] = options.traffic
    if options.against is not None:
        found["against"] = tuple(split_list(options.against, "--against"))
    if options.flows is not None:
        found["flows"] = quantities.whole_number(options.flows, "--flows", 1)
    if options.start not in (None, RANDOM):
        found["start"] = tuple(split_list(options.start, "--start"))
    if options.upload:
        found["upload"] = True
    if options.duration is not None:
        found["duration"] = options.duration
    return found


def add_set(parser: Any) -> None:
    """Add `--set`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a scenario key, e.g. link.radio.loss.rate=1%% or tcp.min_rto=1s",
    )


def add_json(parser: Any) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print only JSON")


def add_output(parser: Any) -> None:
    """Add `--quiet`, `--progress` and `--json`."""
    parser.add_argument("--quiet", action="store_true", help="print only errors")
    parser.add_argument(
        "--progress",
        choices=("auto", "json", "none"),
        default="auto",
        help="progress on stderr: a line on a terminal (auto), or JSON lines",
    )
    add_json(parser)


def add_batch(parser: Any, out: str) -> None:
    """Add `--limit` and `--out`, whose help is `out`."""
    limit = (
        "do not start if the simulated work is estimated to take longer than T (default"
        " %(default)s)"
    )
    parser.add_argument("--limit", metavar="T", default="24 h", help=limit)
    parser.add_argument("--out", metavar="DIR", help=out)


def add_look(parser: Any) -> None:
    """Add `--style` and `--format`."""
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


def print_document(value: Mapping[str, Any], options: Options, words: list[str]) -> None:
    """Print JSON with the command and its duration on stdout."""
    import shlex
    import time

    elapsed = round(time.monotonic() - options.started, 3)
    print_json({**value, "command": shlex.join(words), "elapsed_s": elapsed})


def print_json(value: Any) -> None:
    """Print JSON on stdout."""
    import codecs

    from lasthop.cli import json_text

    utf8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    print(json_text.text(value, ascii_only=not utf8))


def last_hop(options: Options) -> dict[str, str]:
    """The options of the last hop that were given."""
    found = {k: getattr(options, k) for k in quantities.LAST_HOP if getattr(options, k) is not None}
    share = found.get("loss", "").strip()
    if share.replace(".", "", 1).isdigit() and float(share) >= 1:
        raise InputError(
            f"--loss {share} is ambiguous: without a unit it is a share below 1 (0.01 is 1 %);"
            f" write {share}%"
        )
    return found


def settings(options: Options) -> list[tuple[str, str]]:
    """The settings of `--set`."""
    phase = [("last_hop.start", RANDOM)] if getattr(options, "start", None) == RANDOM else []
    return [*phase, *(quantities.key_value(s, "--set") for s in options.set)]


def split_list(text: str, option: str) -> list[str]:
    """Split a list option at its commas; raises `InputError` for an empty item."""
    items = quantities.split(text)
    if items and len(items) < len(quantities.split(text, keep_empty=True)):
        raise InputError(f"{option} has an empty item: `{text}`")
    return items


def schemes(text: str | None, option: str) -> list[str | SchemeClass] | None:
    """Split a list of schemes; each is a name in the catalogue or FILE.py:CLASS."""
    if text is None:
        return None
    from lasthop import own_schemes

    return [own_schemes.load_scheme(s) for s in split_list(text, option)]


def report_rule(error: Exception, options: Options, has_rule: bool) -> int:
    """Print the traceback of a rule in Python and return 1; raise any other error again."""
    where = traceback_outside(error) if has_rule else None
    if where is None:
        raise error
    print(f"lasthop: run {options.seed} of {options.scheme} failed:\n{where}", file=sys.stderr)
    return 1
