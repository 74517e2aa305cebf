"""The command `lasthop schemes`."""

from __future__ import annotations

from lasthop.cli import options as common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from lasthop.cli.options import Options


def add_parser(commands: Any) -> None:
    """Add `schemes` to the command line."""
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


def schemes(options: Options, _: list[str]) -> int:
    """`lasthop schemes [NAME]`."""
    from lasthop import catalogue

    found: Sequence[catalogue.Entry] = catalogue.entries()
    if options.name is not None:
        found = [catalogue.find(found, options.name)]
    if options.json:
        common.print_json(found)
    elif options.name is not None:
        print(catalogue.describe(found[0]))
    else:
        print(catalogue.listing(found))
    return 0
