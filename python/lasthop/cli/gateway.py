"""The command `lasthop gateway`."""

from __future__ import annotations

import sys
from typing import Any

from lasthop import progress
from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.errors import InputError


def add_parser(commands: Any) -> None:
    """Add `gateway` to the command line."""
    gateway = commands.add_parser(
        "gateway",
        help="run an agent or relay on the packets that this router forwards",
        description=(
            "Run the agent of a scheme on the TCP packets that this machine forwards to and from an"
            " interface, or\ndivide their connections by its relay, until SIGINT or SIGTERM. The"
            " packets come by a queue of the\nkernel, which they go past if lasthop is killed,"
            " stopped or too slow. Rules are removed at the end.\nSIGUSR1 prints the state. See"
            " docs/gateway.md."
        ),
        **common.examples(
            "lasthop gateway --scheme snoop --wireless wlan0",
            "lasthop gateway --scheme rate-control --wireless wlan0 --wired eth0 --rate 20Mbps",
            "lasthop gateway --scheme i-tcp:buffer=256000B --wireless wlan0",
            "lasthop gateway --scheme rnf --wireless wlan0 --radio 5005",
            "lasthop gateway --scheme snoop --wireless wlan0 --dry-run",
            "lasthop gateway --wireless wlan0 --remove",
        ),
    )
    gateway.add_argument(
        "--scheme",
        metavar="S",
        help="scheme with an agent (snoop, packet-control, …) or a relay (i-tcp, m-tcp, rnf)",
    )
    gateway.add_argument(
        "--wireless", metavar="IFACE", required=True, help="interface to the mobiles"
    )
    gateway.add_argument(
        "--wired", metavar="IFACE", help="interface to the fixed network (default: any)"
    )
    gateway.add_argument(
        "--rate", metavar="R", help="rate of the radio link, for agents that need it"
    )
    gateway.add_argument(
        "--max-flows",
        type=int,
        metavar="N",
        help="connections that are tracked at most (default 16384)",
    )
    gateway.add_argument(
        "--radio",
        type=int,
        metavar="PORT",
        help="port of 127.0.0.1 at which the radio link reports its rate and queue, for relays",
    )
    gateway.add_argument(
        "--dry-run", action="store_true", help="print the rules, in the language of nft, and end"
    )
    gateway.add_argument(
        "--remove", action="store_true", help="remove the rules that a gateway has left, and end"
    )
    common.add_json(gateway)


def gateway(options: Options, words: list[str]) -> int:
    """`lasthop gateway`."""
    from lasthop.live import gateway as live

    if options.dry_run:
        print(live.rules(options.wireless, options.wired), end="")
        return 0
    if options.remove:
        removed = live.remove(options.wireless)
        print(f"{removed} tables removed", file=sys.stderr)
        return 0
    if options.scheme is None:
        raise InputError("--scheme is missing: which agent runs, such as snoop")
    show = sys.stderr.isatty()
    try:
        text, data = live.gateway(
            options.scheme,
            options.wireless,
            wired=options.wired,
            rate=options.rate,
            max_flows=options.max_flows,
            radio=options.radio,
            show_each_second=show,
            state_as_json=options.json,
        )
    finally:
        progress.clear_line()
    if options.json:
        common.print_document({"schema_version": 1, **data}, options, words)
    else:
        print(text)
    return 0
