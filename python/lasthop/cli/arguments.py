"""The parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from lasthop.cli import commands, link
from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.errors import InputError

if TYPE_CHECKING:
    from lasthop.cli.command_tree import Command

DESCRIPTION = (
    "TCP over a wireless last hop: simulate, compare and replay the schemes that researchers"
    " proposed for it."
)
#: Shells that `--completion` knows.
SHELLS = ("bash", "zsh", "fish")


class Parser(argparse.ArgumentParser):
    """Raises `InputError` for a wrong command line instead of exiting."""

    def __init__(self, **settings: Any) -> None:
        # The examples in the epilog are lines. `--seed` is no abbreviation of `--seeds`.
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=form, allow_abbrev=False, **settings)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read a command line; raises `InputError`, also for unknown options."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            from lasthop.cli import option_hints

            raise InputError(option_hints.unknown(found.command or "", unknown, tree()))
        return found

    def error(self, message: str) -> NoReturn:
        """Raise `InputError`; argparse calls this for every wrong command line."""
        raise InputError(f"{message} (see {self.prog} --help)")


def parser(only: str | None = None) -> Parser:
    """The parser of the whole command line, or of the command `only`."""
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
    below = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name in commands.NAMES if only is None else (only,):
        commands.add_parser(name, below)
    return top


def tree() -> list[Command]:
    """`lasthop` and its commands as values."""
    from lasthop.cli import command_tree

    return command_tree.of(parser())


def parse(words: Sequence[str]) -> Options:
    """Read the command line; raises `InputError` for mistakes."""
    given, carried = link.split(list(words))
    only = given[0] if given and given[0] in commands.NAMES else None
    options: Options = parser(only).parse_args(given, Options())
    if carried:
        options.run = carried
    return options
