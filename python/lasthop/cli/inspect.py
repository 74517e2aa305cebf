"""The command `lasthop inspect`."""

from __future__ import annotations

import shlex

from lasthop.cli import options as common
from lasthop.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop.cli.options import Options
    from lasthop.own_schemes import Scheme


def add_parser(commands: Any) -> None:
    """Add `inspect` to the command line."""
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
            "lasthop inspect cell.toml --schemes cubic,bbr --seed 3 --out run.html",
            "lasthop inspect cell.toml --qlog run.sqlog --pcap captures --snaplen 96",
            "lasthop inspect results --scheme bbr --seed 7 --out run.html",
        ),
    )
    common.add_scenario(inspect, "; or a folder written by compare --out")
    common.add_wifi(inspect)
    common.add_flows(inspect)
    inspect.add_argument(
        "--scheme",
        metavar="S",
        help=(
            "scheme to use instead of the one in [tcp]: NAME, NAME:key=value:… or"
            " FILE.py:CLASS[:key=value:…]"
        ),
    )
    inspect.add_argument(
        "--schemes", metavar="S1,S2,…", help="several schemes instead, at most four"
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


def inspect(options: Options, words: list[str]) -> int:
    """`lasthop inspect`."""
    from lasthop import runs

    if not (options.out or options.qlog or options.pcap or options.json):
        raise InputError("inspect writes nothing: give --out FILE.html, --qlog, --pcap or --json")
    if options.snaplen is not None and options.pcap is None:
        raise InputError("--snaplen needs --pcap DIR")
    schemes = _schemes(options)
    try:
        result = runs.inspect(
            common.scenario_file(options),
            schemes=schemes,
            seed=options.seed,
            flow=options.flow,
            shortest=options.shortest,
            settings=common.settings(options),
            last_hop=common.last_hop(options),
            flows=common.flows(options),
            out=options.out,
            qlog=options.qlog,
            pcap=options.pcap,
            snaplen=options.snaplen,
            command=shlex.join(words),
        )
    except Exception as error:
        return common.report_rule(error, options, any(isinstance(s, type) for s in schemes or ()))
    if options.json:
        common.print_document(result.to_dict(), options, words)
    else:
        print(result)
        written = [x for x in (options.out, options.qlog, options.pcap) if x is not None]
        print(f"\nwritten: {', '.join(written)}")
    return 0


def _schemes(options: Options) -> list[Scheme] | None:
    """The schemes of `--schemes`, or the one of `--scheme`."""
    if options.scheme is None:
        return common.schemes(options.schemes, "--schemes")
    if options.schemes is not None:
        raise InputError("give --scheme S or --schemes S1,S2,…, not both")
    found = common.schemes(options.scheme, "--scheme") or []
    if len(found) != 1:
        raise InputError(
            f"--scheme takes one scheme; several are --schemes {options.scheme.strip(', ')}"
        )
    return found
